"""Samples of textures, in the kernel language.

Texels are float32 here, whatever the texture was made of. A level of a texture has four int64 in a table: where its
texels begin, then how many there are along u, v and w. A sample is the sum of texels times weights: two along each axis,
and as many as a corner of a cube has coordinates in all. Behind the last texel there is memory for three numbers more,
so that reading four channels stays inside.
"""
# mypy: ignore-errors
# ruff: noqa


def texel_index(i, size, mode):
    # Address modes: wrap (0), clamp (1), mirror (2), border (3). The index is at most one period away from the texture.
    k = i
    if mode == 0:
        k = where(i < 0, i + size, where(i >= size, i - size, i))
    elif mode == 2:
        k = where(i < 0, -1 - i, where(i >= size, size + size - 1 - i, i))
    return clamp(k, 0, size - 1)


def texel_axis(about, axis, x, base, size):
    # Along one axis: two texels, their weights, and the derivatives of these. Numbers of twice the precision let large
    # coordinates wrap well.
    mode = int32(about >> uint64(19 + 2 * axis)) & 3
    linear = ((about >> uint64(17)) & uint64(1)) != uint64(0)
    n, scale, slope = float64(size), float64(1.0), float64(1.0)
    if ((about >> uint64(16)) & uint64(1)) != uint64(0):
        scale = n
    elif size != base:
        scale = n / float64(base)
    t = float64(x) * scale
    if mode == 0:
        t -= n * floor(t / n)
    elif mode == 2:
        t -= 2.0 * n * floor(0.5 * t / n)
    if linear:
        t -= 0.5
    if mode == 1:
        slope = where(t > 0.0 and t < n - 1.0, slope, float64(0.0))
        t = clamp(t, float64(0.0), n - 1.0)
    else:
        t = clamp(t, float64(-2.0), 2.0 * n + 1.0)
    first = floor(t)
    i = int32(first)
    f, d = float32(t - first), float32(slope * scale)
    if not linear:
        f, d = 0.0, 0.0
    far, low, high = f, -d, d
    near = 1.0 - f
    if mode == 3:
        if i < 0 or i >= size:
            near, low = 0.0, 0.0
        if i < -1 or i >= size - 1:
            far, high = 0.0, 0.0
    return _texel_index(i, size, mode), _texel_index(i + 1, size, mode), near, far, low, high


def texture_lod(about, lod):
    # The first of the levels to look at, the weight of the next one, and whether that depends on `lod`.
    last = int32((about >> uint64(8)) & uint64(255)) - 1
    level, f = int32(0), float32(0.0)
    if lod > 0.0 and last > 0:
        at = min(lod, float32(last))
        if ((about >> uint64(18)) & uint64(1)) == uint64(0):
            level = int32(floor(at + 0.5))
        else:
            level = int32(floor(at))
            f = at - floor(at)
    return level, f


def texture_corners(id, about, level, at):
    # Of one level: where its texels begin, then for each axis how far the two texels are from there, their weights and
    # the derivatives of the weights.
    table = _texture(id, "levels")
    stride = int64(about & uint64(255))
    begin = _constant_at(table, 4 * level, int64)
    o0, o1 = vec3l(int64(0), int64(0), int64(0)), vec3l(int64(0), int64(0), int64(0))
    w0, w1 = vec3f(1.0, 1.0, 1.0), vec3f(0.0, 0.0, 0.0)
    d0, d1 = vec3f(0.0, 0.0, 0.0), vec3f(0.0, 0.0, 0.0)
    for axis in range(len(at)):
        base, size = _constant_at(table, axis + 1, int64), _constant_at(table, 4 * level + axis + 1, int64)
        i, j, w0[axis], w1[axis], d0[axis], d1[axis] = _texel_axis(about, axis, at[axis], int32(base), int32(size))
        o0[axis], o1[axis] = int64(i) * stride, int64(j) * stride
        stride *= size
    return begin, o0, o1, w0, w1, d0, d1


def texel(data, at, weight, zero):
    # A texel times a weight; nothing at all where that is 0, also of texels that are not finite.
    c = zero
    for k in range(len(zero)):
        c[k] = where(weight != 0.0, _constant_at(data, at + int64(k), float32) * weight, 0.0)
    return c


def sample(id, at, lod, zero):
    total = zero
    if id != uint64(0):
        data, about = _texture(id, "data"), _texture(id, "about")
        first, f = _texture_lod(about, lod)
        count = where(f > 0.0, 2, 1)
        for n in range(count):
            begin, o0, o1, w0, w1, d0, d1 = _texture_corners(id, about, first + n, at)
            part = where(n == 1, f, 1.0 - f)
            for k in range(1 << len(at)):
                place, weight = begin, part
                for axis in range(len(at)):
                    far = ((k >> axis) & 1) != 0
                    place += where(far, o1[axis], o0[axis])
                    weight *= where(far, w1[axis], w0[axis])
                total += _texel(data, place, weight, zero)
        channels = int32(about & uint64(255))
        for k in range(1, len(zero)):
            total[k] = where(k < channels, total[k], 0.0)
    return total


def sample_adjoint(id, at, lod, g):
    # The adjoints of the coordinates and of the level, given that of the sample.
    to_at, to_lod = at * 0.0, float32(0.0)
    if id != uint64(0):
        data, about = _texture(id, "data"), _texture(id, "about")
        channels = int32(about & uint64(255))
        for k in range(1, len(g)):
            g[k] = where(k < channels, g[k], 0.0)
        first, f = _texture_lod(about, lod)
        between = f > 0.0 and lod < float32((about >> uint64(8)) & uint64(255)) - 1.0
        count = where(f > 0.0, 2, 1)
        for n in range(count):
            begin, o0, o1, w0, w1, d0, d1 = _texture_corners(id, about, first + n, at)
            part = where(n == 1, f, 1.0 - f)
            change = where(between, where(n == 1, 1.0, -1.0), 0.0)
            for k in range(1 << len(at)):
                place, weight = begin, float32(1.0)
                slopes = at * 0.0
                for axis in range(len(at)):
                    slopes[axis] = 1.0
                for axis in range(len(at)):
                    far = ((k >> axis) & 1) != 0
                    place += where(far, o1[axis], o0[axis])
                    factor = where(far, w1[axis], w0[axis])
                    weight *= factor
                    for other in range(len(at)):
                        slopes[other] *= where(other == axis, where(far, d1[axis], d0[axis]), factor)
                to_lod += dot(_texel(data, place, weight, g * 0.0), g) * change
                for axis in range(len(at)):
                    to_at[axis] += dot(_texel(data, place, slopes[axis], g * 0.0), g) * part
    return to_at, to_lod


def places(id, level, at):
    # Of a sample of one level: where its texels begin, how far they are from there along each axis, and their weights.
    begin = int64(0)
    o0, o1 = vec3l(int64(0), int64(0), int64(0)), vec3l(int64(0), int64(0), int64(0))
    w0, w1 = vec3f(0.0, 0.0, 0.0), vec3f(0.0, 0.0, 0.0)
    if id != uint64(0):
        begin, o0, o1, w0, w1, d0, d1 = _texture_corners(id, _texture(id, "about"), level, at)
    return begin, o0, o1, w0, w1


def to_texels(id, at, lod, g):
    # Add to the adjoints of the texels, given that of the sample.
    gradient, about = uint64(0), uint64(0)
    if id != uint64(0):
        gradient, about = _texture(id, "gradient"), _texture(id, "about")
    if gradient != uint64(0):
        channels = int32(about & uint64(255))
        first, f = _texture_lod(about, lod)
        count = where(f > 0.0, 2, 1)
        corners = where(((about >> uint64(17)) & uint64(1)) != uint64(0), 1 << len(at), 1)
        for n in range(count):
            begin, o0, o1, w0, w1 = _texture_places(id, first + n, at)
            part = where(n == 1, f, 1.0 - f)
            for k in range(corners):
                place, weight = begin, part
                for axis in range(len(at)):
                    far = ((k >> axis) & 1) != 0
                    place += where(far, o1[axis], o0[axis])
                    weight *= where(far, w1[axis], w0[axis])
                if weight != 0.0:
                    for c in range(len(g)):
                        if c < channels:
                            _add_at(gradient, place + int64(c), g[c] * weight)
