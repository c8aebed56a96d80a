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


def voxel(id, i, j, k):
    # The byte offset of a value, and whether it is that of a voxel in a tile.
    grid = _volume(id, "grid")
    at, inner = _volume_root_child(id, grid, i, j, k)
    if inner:
        n = (((i & 4095) >> 7) << 10) | (((j & 4095) >> 7) << 5) | ((k & 4095) >> 7)
        stride = int64(_volume(id, "stride"))
        at, inner = _volume_child(grid, at, int64(4128), int64(_volume(id, "upper_table")), stride, n)
        if inner:
            m = (((i & 127) >> 3) << 8) | (((j & 127) >> 3) << 4) | ((k & 127) >> 3)
            at, inner = _volume_child(grid, at, int64(544), int64(_volume(id, "lower_table")), stride, m)
            if inner:
                v = ((i & 7) << 6) | ((j & 7) << 3) | (k & 7)
                at += int64(_volume(id, "leaf_values")) + int64(v) * int64(_volume(id, "value_size"))
    return at, inner


def holds(id, type):
    # Whether a volume has values of a type of NanoVDB.
    same = False
    if id != uint64(0):
        same = int32(_volume(id, "type")) == type
    return same


def lookup(id, i, j, k, type, zero):
    value = zero
    if _volume_holds(id, type):
        at, inner = _volume_voxel(id, i, j, k)
        value = _value_at(_volume(id, "grid"), at, zero)
    return value


def store(id, i, j, k, type, value):
    if _volume_holds(id, type):
        at, inner = _volume_voxel(id, i, j, k)
        if inner:
            _store_at(_volume(id, "grid"), at, value)


def nearest(x):
    # The nearest integer, halves away from 0.
    return int32(where(x < 0.0, ceil(x - 0.5), floor(x + 0.5)))


def sample_closest(id, uvw, type, zero):
    return _volume_lookup(id, _volume_nearest(uvw[0]), _volume_nearest(uvw[1]), _volume_nearest(uvw[2]), type, zero)


def sample_linear(id, uvw, type, zero):
    value = zero
    if _volume_holds(id, type):
        grid = _volume(id, "grid")
        x, y, z = floor(uvw[0]), floor(uvw[1]), floor(uvw[2])
        i, j, k = int32(x), int32(y), int32(z)
        fx, fy, fz = uvw[0] - x, uvw[1] - y, uvw[2] - z
        first, inner = _volume_voxel(id, i, j, k)
        together = inner and (i & 7) != 7 and (j & 7) != 7 and (k & 7) != 7
        size = int64(_volume(id, "value_size"))
        for n in range(8):
            a, b, c = n >> 2, (n >> 1) & 1, n & 1
            at = first + int64((a << 6) | (b << 3) | c) * size
            if not together and n > 0:
                at, inner = _volume_voxel(id, i + a, j + b, k + c)
            weight = where(a != 0, fx, 1.0 - fx) * where(b != 0, fy, 1.0 - fy) * where(c != 0, fz, 1.0 - fz)
            value += _scaled(_value_at(grid, at, zero), weight)
    return value


def sample_grad(id, uvw, sampling_mode, grad):
    # The slope along each axis is between the two faces of the cube of voxels.
    value, slope = _volume_sample(id, uvw, sampling_mode, 1, float32(0.0)), vec3f(0.0, 0.0, 0.0)
    if sampling_mode != 0:
        x = vec3f(floor(uvw[0]), floor(uvw[1]), floor(uvw[2]))
        for axis in range(3):
            low, high = uvw, uvw
            low[axis] = x[axis]
            high[axis] = x[axis] + 1.0
            slope[axis] = _volume_sample(id, high, 1, 1, float32(0.0)) - _volume_sample(id, low, 1, 1, float32(0.0))
    return value, slope


def sample(id, uvw, sampling_mode, type, zero):
    value = zero
    if sampling_mode != 0:
        value = _volume_sample_linear(id, uvw, type, zero)
    else:
        value = _volume_sample_closest(id, uvw, type, zero)
    return value


def lookup_f(id, i, j, k):
    return _volume_lookup(id, i, j, k, 1, float32(0.0))


def lookup_i(id, i, j, k):
    return _volume_lookup(id, i, j, k, 4, int32(0))


def lookup_v(id, i, j, k):
    return _volume_lookup(id, i, j, k, 6, vec3f(0.0, 0.0, 0.0))


def store_f(id, i, j, k, value):
    _volume_store(id, i, j, k, 1, value)


def store_i(id, i, j, k, value):
    _volume_store(id, i, j, k, 4, value)


def store_v(id, i, j, k, value):
    _volume_store(id, i, j, k, 6, value)


def sample_f(id, uvw, sampling_mode):
    return _volume_sample(id, uvw, sampling_mode, 1, float32(0.0))


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
    count = int64(0)
    if id != uint64(0):
        count = int64(_volume(id, "voxel_count"))
    return int32(min(count, int64(2147483647)))
