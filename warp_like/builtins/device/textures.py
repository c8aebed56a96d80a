"""Samples of textures, in the kernel language.

Texels are float32 here, whatever the texture was made of. A level of a texture has four int64 in a table: where its
texels begin, then how many there are along u, v and w.
"""
# mypy: ignore-errors
# ruff: noqa


def texel_index(i, size, mode):
    # Address modes: wrap (0), clamp (1), mirror (2), border (3), where -1 says that there is no texel.
    k = i
    if mode == 0:
        k = ((i % size) + size) % size
    elif mode == 1:
        k = clamp(i, int64(0), size - int64(1))
    elif mode == 2:
        k = ((i % (size + size)) + size + size) % (size + size)
        if k >= size:
            k = size + size - int64(1) - k
    elif i < int64(0) or i >= size:
        k = int64(-1)
    return k


def texel_axis(id, x, axis, base, size):
    # Along one axis: two texels, and the weight of the second. Twice the precision, so that large coordinates wrap well.
    modes = int32(_texture(id, "address_modes"))
    mode = (modes >> (2 * axis)) & 3
    extent = where(_texture(id, "normalized") != uint64(0), float64(1.0), float64(base))
    t = float64(x) / extent
    if mode == 0:
        t -= floor(t)
    elif mode == 2:
        t -= 2.0 * floor(0.5 * t)
    t *= float64(size)
    linear = _texture(id, "filter") != uint64(0)
    if linear:
        t -= 0.5
    if mode == 1:
        t = clamp(t, float64(0.0), float64(size) - 1.0)
    else:
        t = clamp(t, float64(-2.0), 2.0 * float64(size) + 1.0)
    first = floor(t)
    f = float32(0.0)
    if linear:
        f = float32(t - first)
    i = int64(first)
    return _texel_index(i, size, mode), _texel_index(i + int64(1), size, mode), f


def texel(data, at, stride, n):
    # The first n of the four channels that a sample has; the others are 0.
    c = vec4f(_constant_at(data, at, float32), 0.0, 0.0, 0.0)
    if n > 1 and stride > int64(1):
        c[1] = _constant_at(data, at + int64(1), float32)
        if n > 2 and stride > int64(2):
            c[2] = _constant_at(data, at + int64(2), float32)
            c[3] = _constant_at(data, at + int64(3), float32)
    return c


def level_sample(id, level, u, v, w, ndim, n):
    table, data = _texture(id, "levels"), _texture(id, "data")
    stride = int64(_texture(id, "channels"))
    start = _constant_at(table, 4 * level, int64)
    nx, ny, nz = _constant_at(table, 4 * level + 1, int64), int64(1), int64(1)
    x0, x1, fx = _texel_axis(id, u, 0, _constant_at(table, 1, int64), nx)
    y0, y1, fy = int64(0), int64(0), float32(0.0)
    z0, z1, fz = int64(0), int64(0), float32(0.0)
    if ndim > 1:
        ny = _constant_at(table, 4 * level + 2, int64)
        y0, y1, fy = _texel_axis(id, v, 1, _constant_at(table, 2, int64), ny)
    if ndim > 2:
        nz = _constant_at(table, 4 * level + 3, int64)
        z0, z1, fz = _texel_axis(id, w, 2, _constant_at(table, 3, int64), nz)
    total = vec4f(0.0, 0.0, 0.0, 0.0)
    if _texture(id, "filter") == uint64(0):
        if x0 >= int64(0) and y0 >= int64(0) and z0 >= int64(0):
            total = _texel(data, start + ((z0 * ny + y0) * nx + x0) * stride, stride, n)
    else:
        corners = 2
        if ndim == 2:
            corners = 4
        elif ndim == 3:
            corners = 8
        for k in range(corners):
            x, y, z = where((k & 1) != 0, x1, x0), where((k & 2) != 0, y1, y0), where((k & 4) != 0, z1, z0)
            weight = where((k & 1) != 0, fx, 1.0 - fx)
            if ndim > 1:
                weight *= where((k & 2) != 0, fy, 1.0 - fy)
            if ndim > 2:
                weight *= where((k & 4) != 0, fz, 1.0 - fz)
            if x >= int64(0) and y >= int64(0) and z >= int64(0):
                total += _texel(data, start + ((z * ny + y) * nx + x) * stride, stride, n) * weight
    return total


def sample(id, u, v, w, lod, ndim, n):
    total = vec4f(0.0, 0.0, 0.0, 0.0)
    if id != uint64(0):
        last = int32(_texture(id, "level_count")) - 1
        level, f = int(0), float32(0.0)
        if lod > 0.0 and last > 0:
            at = min(lod, float32(last))
            if _texture(id, "mip_filter") == uint64(0):
                level = int32(floor(at + 0.5))
            else:
                level = int32(floor(at))
                f = at - floor(at)
        total = _texture_level(id, level, u, v, w, ndim, n)
        if f > 0.0:
            total = total * (1.0 - f) + _texture_level(id, level + 1, u, v, w, ndim, n) * f
    return total
