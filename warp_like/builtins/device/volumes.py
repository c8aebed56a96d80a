"""Reading and writing volumes, in the kernel language: a NanoVDB grid as it is in files.

A grid is a tree of four levels. The root has a table of cubes of 4096 voxels; below are nodes of 32 to the third power of
cubes of 128, nodes of 16 to the third power of tiles of 8, and the tiles with their voxels. Numbers are byte offsets from
the grid's beginning. The descriptor says where parts of nodes are, which depends on the type of values.
"""
# mypy: ignore-errors
# ruff: noqa


def child(grid, node, mask, table, stride, n):
    # The byte offset of a child, or that of the value that stands for it, and whether it is a child.
    bits = _constant_at(grid, (node + mask) / int64(4) + int64(n >> 5), uint32)
    place = node + table + int64(n) * stride
    inner = ((bits >> uint32(n & 31)) & uint32(1)) != uint32(0)
    if inner:
        place = node + _constant_at(grid, place / int64(8), int64)
    return place, inner


def root_child(id, grid, i, j, k):
    root = int64(_volume(id, "root"))
    size, at = int64(_volume(id, "tile_size")), root + int64(_volume(id, "root_size"))
    key = (uint64(uint32(k) >> uint32(12))) | (uint64(uint32(j) >> uint32(12)) << uint64(21))
    key = key | (uint64(uint32(i) >> uint32(12)) << uint64(42))
    count = int32(_constant_at(grid, root / int64(4) + int64(6), uint32))
    place, inner = root + int64(_volume(id, "background")), False
    for _n in range(count):
        if _constant_at(grid, at / int64(8), uint64) == key:
            below = _constant_at(grid, at / int64(8) + int64(1), int64)
            inner = below != int64(0)
            place = where(inner, root + below, at + int64(_volume(id, "tile_value")))
        at += size
    return place, inner


def tree_leaf(id, i, j, k):
    # The byte offset of a tile, or that of the value that stands for it, and whether it is a tile: down the tree.
    grid = _volume(id, "grid")
    at, inner = _volume_root_child(id, grid, i, j, k)
    if inner:
        n = (((i & 4095) >> 7) << 10) | (((j & 4095) >> 7) << 5) | ((k & 4095) >> 7)
        stride = int64(_volume(id, "stride"))
        at, inner = _volume_child(grid, at, int64(4128), int64(_volume(id, "upper_table")), stride, n)
        if inner:
            m = (((i & 127) >> 3) << 8) | (((j & 127) >> 3) << 4) | ((k & 127) >> 3)
            at, inner = _volume_child(grid, at, int64(544), int64(_volume(id, "lower_table")), stride, m)
    return at, inner


def rows(id, i, j, k):
    # Where in the table a tile is, along each axis; what is beyond the table is at its edge.
    ny, nz = int32(_volume(id, "table_ny")), int32(_volume(id, "table_nz"))
    x = clamp((i >> 3) - int32(_volume(id, "table_x")), 0, int32(_volume(id, "table_nx")) - 1)
    y = clamp((j >> 3) - int32(_volume(id, "table_y")), 0, ny - 1)
    return x * ny * nz, y * nz, clamp((k >> 3) - int32(_volume(id, "table_z")), 0, nz - 1)


def leaf(id, i, j, k):
    # As `tree_leaf`, by the table where there is one.
    at, inner = int64(0), False
    table = _volume(id, "table")
    if table != uint64(0):
        x, y, z = _volume_rows(id, i, j, k)
        word = _constant_at(table, x + y + z, int32)
        inner = word >= 0
        at = int64(where(inner, word, ~word)) << int64(2)
    else:
        at, inner = _volume_tree_leaf(id, i, j, k)
    return at, inner


def in_tile(i, j, k):
    return ((i & 7) << 6) | ((j & 7) << 3) | (k & 7)


def voxel(id, i, j, k):
    # The byte offset of a value, and whether it is that of a voxel in a tile.
    at, inner = _volume_leaf(id, i, j, k)
    if inner:
        size = int64(_volume(id, "value_size"))
        at += int64(_volume(id, "leaf_values")) + int64(_volume_in_tile(i, j, k)) * size
    return at, inner


def place(id, i, j, k):
    at, inner = int64(0), False
    if id != uint64(0):
        at, inner = _volume_voxel(id, i, j, k)
    return at, inner


def table_cell(id, i, j, k, bits):
    # As `cell`, by the table. Numbers are in words of 4 bytes, and no branch depends on the place.
    table = _volume(id, "table")
    x0, y0, z0 = _volume_rows(id, i, j, k)
    x1, y1, z1 = _volume_rows(id, i + 1, j + 1, k + 1)
    size, values = int32(_volume(id, "value_size")) >> 2, int32(_volume(id, "leaf_values")) >> 2
    u0, v0, w0 = values + ((i & 7) << 6) * size, ((j & 7) << 3) * size, (k & 7) * size
    u1, v1, w1 = values + (((i + 1) & 7) << 6) * size, (((j + 1) & 7) << 3) * size, ((k + 1) & 7) * size
    found = _eight(uint64(0))
    for n in range(8):
        word = _constant_at(table, where(n >> 2, x1, x0) + where((n >> 1) & 1, y1, y0) + where(n & 1, z1, z0), int32)
        outside = word >> 31  # all bits, where a value stands for the tile
        inside = where(n >> 2, u1, u0) + where((n >> 1) & 1, v1, v0) + where(n & 1, w1, w0)
        found[n] = uint64((word ^ outside) + (inside & ~outside)) >> uint64(bits - 2)
    return found


def cell(id, i, j, k, bits):
    # Where the values at the eight corners of a cube of voxels are, in units of `1 << bits` bytes; the last axis goes first.
    found = _eight(uint64(0))
    if id != uint64(0):
        if _volume(id, "table") != uint64(0):
            found = _volume_table_cell(id, i, j, k, bits)
        else:
            first, inner = _volume_voxel(id, i, j, k)
            together = inner and (i & 7) != 7 and (j & 7) != 7 and (k & 7) != 7
            size = int64(_volume(id, "value_size"))
            for n in range(8):
                a, b, c = n >> 2, (n >> 1) & 1, n & 1
                at = first + int64((a << 6) | (b << 3) | c) * size
                if not together and n > 0:
                    at, inner = _volume_voxel(id, i + a, j + b, k + c)
                found[n] = uint64(at) >> uint64(bits)
    return found


def number(id, at, v):
    # The number of voxel `v` of the tile at a byte offset, -1 for one that has none.
    count, way = int64(_volume(id, "voxel_count")), int32(_volume(id, "indexing"))
    found = int64(-1)
    if way == 0:
        found = (at - int64(_volume(id, "first_leaf"))) / int64(_volume(id, "leaf_size")) * int64(512) + int64(v)
    else:
        grid = _volume(id, "grid")
        offset = _constant_at(grid, at / int64(8) + int64(10), int64)
        if way == 1:
            found = offset - int64(1) + int64(v)
        else:
            word, bit = v >> 6, uint64(v & 63)
            bits = _constant_at(grid, at / int64(8) + int64(2 + word), uint64)
            if ((bits >> bit) & uint64(1)) != uint64(0):
                before = int64(bit_count(bits & ((uint64(1) << bit) - uint64(1))))
                if word > 0:
                    sums = _constant_at(grid, at / int64(8) + int64(11), uint64)
                    before += int64((sums >> uint64(9 * (word - 1))) & uint64(511))
                found = offset - int64(1) + before
    if found < int64(0) or found >= min(count, int64(2147483647)):
        found = int64(-1)
    return int32(found)


def index(id, i, j, k):
    found = -1
    if id != uint64(0):
        at, inner = _volume_leaf(id, i, j, k)
        if inner:
            found = _volume_number(id, at, _volume_in_tile(i, j, k))
    return found


def index_cell(id, i, j, k):
    # The numbers of the voxels at the eight corners of a cube.
    found = _eight(-1)
    if id != uint64(0):
        first, held = _volume_leaf(id, i, j, k)
        together = (i & 7) != 7 and (j & 7) != 7 and (k & 7) != 7
        for n in range(8):
            x, y, z = i + (n >> 2), j + ((n >> 1) & 1), k + (n & 1)
            at, inner = first, held
            if not together and n > 0:
                at, inner = _volume_leaf(id, x, y, z)
            if inner:
                found[n] = _volume_number(id, at, _volume_in_tile(x, y, z))
    return found


def holds(id, type):
    # Whether a volume has values of a type of NanoVDB.
    same = False
    if id != uint64(0):
        same = int32(_volume(id, "type")) == type
    return same


def lookup(id, i, j, k, type, zero):
    value = zero
    if _volume_holds(id, type):
        at, inner = _volume_place(id, i, j, k)
        value = _value_at(_volume(id, "grid"), _volume(id, "gradient"), at, zero)
    return value


def store(id, i, j, k, type, value):
    if _volume_holds(id, type):
        at, inner = _volume_place(id, i, j, k)
        if inner:
            _store_at(_volume(id, "grid"), at, value)


def nearest(x):
    # The nearest integer, halves away from 0.
    return int32(where(x < 0.0, ceil(x - 0.5), floor(x + 0.5)))


def mix(a, b, f):
    return _scaled(a, 1.0 - f) + _scaled(b, f)


def blend(v0, v1, v2, v3, v4, v5, v6, v7, f):
    # The value between the corners of a cube, and its slopes along the three axes.
    a, b = _volume_mix(v0, v1, f[2]), _volume_mix(v2, v3, f[2])
    c, d = _volume_mix(v4, v5, f[2]), _volume_mix(v6, v7, f[2])
    low, high = _volume_mix(a, b, f[1]), _volume_mix(c, d, f[1])
    along_y = _volume_mix(b - a, d - c, f[0])
    near, far = _volume_mix(v1 - v0, v3 - v2, f[1]), _volume_mix(v5 - v4, v7 - v6, f[1])
    return _volume_mix(low, high, f[0]), high - low, along_y, _volume_mix(near, far, f[0])


def sample_closest(id, uvw, type, zero):
    return _volume_lookup(id, _volume_nearest(uvw[0]), _volume_nearest(uvw[1]), _volume_nearest(uvw[2]), type, zero)


def linear(id, uvw, type, zero):
    # The value between voxels, and its slopes.
    value, dx, dy, dz = zero, zero, zero, zero
    if _volume_holds(id, type):
        x = vec3f(floor(uvw[0]), floor(uvw[1]), floor(uvw[2]))
        o = _volume_cell(id, int32(x[0]), int32(x[1]), int32(x[2]), _size_in_bits(zero))
        v0, v1, v2, v3, v4, v5, v6, v7 = _corners(_volume(id, "grid"), _volume(id, "gradient"), o, zero)
        value, dx, dy, dz = _volume_blend(v0, v1, v2, v3, v4, v5, v6, v7, uvw - x)
    return value, dx, dy, dz


def sample(id, uvw, sampling_mode, type, zero):
    value = zero
    if sampling_mode != 0:
        value, dx, dy, dz = _volume_linear(id, uvw, type, zero)
    else:
        value = _volume_sample_closest(id, uvw, type, zero)
    return value


def sample_grad(id, uvw, sampling_mode, type, zero):
    value, dx, dy, dz = zero, zero, zero, zero
    if sampling_mode != 0:
        value, dx, dy, dz = _volume_linear(id, uvw, type, zero)
    else:
        value = _volume_sample_closest(id, uvw, type, zero)
    return value, _slopes(dx, dy, dz)


def data_at(data, index, background):
    value = background
    if index >= 0:
        value = data[index]
    return value


def closest_index(id, uvw):
    return _volume_index(id, _volume_nearest(uvw[0]), _volume_nearest(uvw[1]), _volume_nearest(uvw[2]))


def linear_index(id, uvw, data, background):
    # As `linear`, of values in an array.
    x = vec3f(floor(uvw[0]), floor(uvw[1]), floor(uvw[2]))
    o = _volume_index_cell(id, int32(x[0]), int32(x[1]), int32(x[2]))
    v0, v1 = _volume_data_at(data, o[0], background), _volume_data_at(data, o[1], background)
    v2, v3 = _volume_data_at(data, o[2], background), _volume_data_at(data, o[3], background)
    v4, v5 = _volume_data_at(data, o[4], background), _volume_data_at(data, o[5], background)
    v6, v7 = _volume_data_at(data, o[6], background), _volume_data_at(data, o[7], background)
    return _volume_blend(v0, v1, v2, v3, v4, v5, v6, v7, uvw - x)


def sample_index(id, uvw, sampling_mode, voxel_data, background):
    _require_data(volume_voxel_count(id), voxel_data)
    value = background
    if sampling_mode != 0:
        value, dx, dy, dz = _volume_linear_index(id, uvw, voxel_data, background)
    else:
        value = _volume_data_at(voxel_data, _volume_closest_index(id, uvw), background)
    return value


def sample_index_closest(id, uvw, sampling_mode, voxel_data, background):
    _require_data(volume_voxel_count(id), voxel_data)
    return _volume_data_at(voxel_data, _volume_closest_index(id, uvw), background)


def sample_grad_index(id, uvw, sampling_mode, voxel_data, background, grad):
    _require_data(volume_voxel_count(id), voxel_data)
    value, dx, dy, dz = background, background * 0.0, background * 0.0, background * 0.0
    if sampling_mode != 0:
        value, dx, dy, dz = _volume_linear_index(id, uvw, voxel_data, background)
    else:
        value = _volume_data_at(voxel_data, _volume_closest_index(id, uvw), background)
    return value, _slopes(dx, dy, dz)


def sample_grad_index_closest(id, uvw, sampling_mode, voxel_data, background, grad):
    _require_data(volume_voxel_count(id), voxel_data)
    return _volume_data_at(voxel_data, _volume_closest_index(id, uvw), background), grad - grad


def lookup_f(id, i, j, k):
    return _volume_lookup(id, i, j, k, 1, float32(0.0))


def lookup_i(id, i, j, k):
    return _volume_lookup(id, i, j, k, 4, int32(0))


def lookup_v(id, i, j, k):
    return _volume_lookup(id, i, j, k, 6, vec3f(0.0, 0.0, 0.0))


def lookup_index(id, i, j, k):
    return _volume_index(id, i, j, k)


def store_f(id, i, j, k, value):
    _volume_store(id, i, j, k, 1, value)


def store_i(id, i, j, k, value):
    _volume_store(id, i, j, k, 4, value)


def store_v(id, i, j, k, value):
    _volume_store(id, i, j, k, 6, value)


def sample_f(id, uvw, sampling_mode):
    return _volume_sample(id, uvw, sampling_mode, 1, float32(0.0))


def sample_grad_f(id, uvw, sampling_mode, grad):
    return _volume_sample_grad(id, uvw, sampling_mode, 1, float32(0.0))


def sample_i(id, uvw):
    return _volume_sample_closest(id, uvw, 4, int32(0))


def sample_v(id, uvw, sampling_mode):
    return _volume_sample(id, uvw, sampling_mode, 6, vec3f(0.0, 0.0, 0.0))


def row(id, first, at, x):
    # A row of a matrix of the grid's map, times x.
    grid, n = _volume(id, "grid"), int64(first + at)
    a, b, c = _map_at(grid, n, x), _map_at(grid, n + int64(1), x), _map_at(grid, n + int64(2), x)
    return a * x[0] + b * x[1] + c * x[2]


def turned(id, x, first):
    y = x
    if id != uint64(0):
        y[0], y[1], y[2] = _volume_row(id, first, 0, x), _volume_row(id, first, 3, x), _volume_row(id, first, 6, x)
    return y


def origin(id, x):
    y = x * x.dtype(0.0)
    if id != uint64(0):
        grid = _volume(id, "grid")
        for c in range(3):
            y[c] = _map_at(grid, int64(18 + c), x)
    return y


def index_to_world(id, uvw):
    return _volume_turned(id, uvw, 0) + _volume_origin(id, uvw)


def world_to_index(id, xyz):
    return _volume_turned(id, xyz - _volume_origin(id, xyz), 9)


def index_to_world_dir(id, uvw):
    return _volume_turned(id, uvw, 0)


def world_to_index_dir(id, xyz):
    return _volume_turned(id, xyz, 9)


def voxel_count(id):
    # How many numbers of voxels there are.
    count = int64(0)
    if id != uint64(0):
        count = int64(_volume(id, "voxel_count"))
    return int32(min(count, int64(2147483647)))
