"""Gradient noise in the kernel language: Perlin (1985), An image synthesizer, with the blend of Perlin (2002).

A random gradient sits at each point of the integer lattice; noise is the blend of the linear functions that the
corners of a cell have. It is computed as a jet, the vector of the value and its partial derivatives, so that curls have
the derivatives at hand. The lattice is hashed as in Teschner et al. (2003), Optimized spatial hashing.
"""
# mypy: ignore-errors
# ruff: noqa


def fade(t):
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


def fade_slope(t):
    return 30.0 * t * t * (t * (t - 2.0) + 1.0)


def corner_1(state, x, d):
    gradient = 2.0 * _unit(_pcg(uint32(x) * 73856093 + state)) - 1.0
    return vector(d * gradient, gradient)


def corner_2(state, x, y, d):
    seed = uint32(x) * 73856093 ^ (uint32(y) * 19349663 + state)
    g = normalize(sample_unit_square(seed))
    return vector(dot(d, g), g.x, g.y)


def corner_3(state, x, y, z, d):
    seed = uint32(x) * 73856093 ^ uint32(y) * 19349663 ^ (uint32(z) * 53471161 + state)
    g = normalize(sample_unit_cube(seed))
    return vector(dot(d, g), g.x, g.y, g.z)


def corner_4(state, x, y, z, t, d):
    a = _pcg(uint32(x) * 73856093 ^ uint32(y) * 19349663 ^ uint32(z) * 53471161 ^ (uint32(t) * 10000019 + state))
    b = _pcg(a)
    c = _pcg(b)
    g = normalize(vec4(_unit(a) - 0.5, _unit(b) - 0.5, _unit(c) - 0.5, _unit(_pcg(c)) - 0.5))
    return vector(dot(d, g), g.x, g.y, g.z, g.w)


def line(state, low, high, d):
    return _blend_x(_corner(state, low, d), _corner(state, high, d - 1.0), d)


def square(state, low, high, d):
    right, top = vec2(1.0, 0.0), vec2(0.0, 1.0)
    a = _blend_x(_corner(state, low.x, low.y, d), _corner(state, high.x, low.y, d - right), d.x)
    e = d - top
    b = _blend_x(_corner(state, low.x, high.y, e), _corner(state, high.x, high.y, e - right), d.x)
    return _blend_y(a, b, d.y)


def face_of_cube(state, low, high, z, d):
    right, top = vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0)
    a = _blend_x(_corner(state, low.x, low.y, z, d), _corner(state, high.x, low.y, z, d - right), d.x)
    e = d - top
    b = _blend_x(_corner(state, low.x, high.y, z, e), _corner(state, high.x, high.y, z, e - right), d.x)
    return _blend_y(a, b, d.y)


def cube(state, low, high, d):
    near = _face(state, low, high, low.z, d)
    far = _face(state, low, high, high.z, d - vec3(0.0, 0.0, 1.0))
    return _blend_z(near, far, d.z)


def face_of_hypercube(state, low, high, z, t, d):
    right, top = vec4(1.0, 0.0, 0.0, 0.0), vec4(0.0, 1.0, 0.0, 0.0)
    a = _blend_x(_corner(state, low.x, low.y, z, t, d), _corner(state, high.x, low.y, z, t, d - right), d.x)
    e = d - top
    b = _blend_x(_corner(state, low.x, high.y, z, t, e), _corner(state, high.x, high.y, z, t, e - right), d.x)
    return _blend_y(a, b, d.y)


def cube_of_hypercube(state, low, high, t, d):
    near = _face(state, low, high, low.z, t, d)
    far = _face(state, low, high, high.z, t, d - vec4(0.0, 0.0, 1.0, 0.0))
    return _blend_z(near, far, d.z)


def hypercube(state, low, high, d):
    before = _cube(state, low, high, low.w, d)
    after = _cube(state, low, high, high.w, d - vec4(0.0, 0.0, 0.0, 1.0))
    return _blend_w(before, after, d.w)


def jet(state, x):
    base = _floor(x)
    low = _cell(base)
    return _jet_in_cell(state, low, low + type(low)(1), x - base)


def periodic_jet(state, x, period):
    base = _floor(x)
    low = _wrap(_cell(base), period)
    return _jet_in_cell(state, low, _wrap(low + type(low)(1), period), x - base)


def curl_2(state, xy, octaves, lacunarity, gain):
    total = vec3()
    frequency, amplitude = 1.0, 1.0
    for i in range(octaves):
        total += _noise_jet(state, xy * frequency) * amplitude
        amplitude *= gain
        frequency *= lacunarity
    return vec2(-total[2], total[1])


def curl(state, x, octaves, lacunarity, gain):
    # The curl of a vector potential of three noises.
    total = vec3()
    frequency, amplitude = 1.0, 1.0
    for i in range(octaves):
        p = x * frequency
        a = _noise_jet(state, p)
        state = _pcg(state + _pcg(uint32(10019689)))
        b = _noise_jet(state, p)
        state = _pcg(state + _pcg(uint32(13112221)))
        c = _noise_jet(state, p)
        total += vec3(c[2] - b[3], a[3] - c[1], b[1] - a[2]) * amplitude
        amplitude *= gain
        frequency *= lacunarity
    return total
