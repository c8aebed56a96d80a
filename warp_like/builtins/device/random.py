"""Random numbers in the kernel language: integer arithmetic alone makes them, so the sequence is the same everywhere.

The generator is the PCG hash of Jarzynski and Olano (2020), Hash Functions for GPU Rendering: a one-to-one map of 32
bits. A state is advanced by hashing it, and its bits are the random number. Each function returns the new state last.
"""
# mypy: ignore-errors
# ruff: noqa


def pcg(x):
    state = x * 747796405 + 2891336453
    word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737
    return (word >> 22) ^ word


def unit(state):
    return float32(state >> 8) * 5.9604644775390625e-08


def init(seed):
    return _pcg(uint32(seed))


def init_offset(seed, offset):
    return _pcg(uint32(seed) + _pcg(uint32(offset)))


def randi(state):
    s = _pcg(state)
    return int32(s), s


def randi_range(state, low, high):
    s = _pcg(state)
    return int32(s % (uint32(high) - uint32(low)) + uint32(low)), s


def randu(state):
    s = _pcg(state)
    return s, s


def randu_range(state, low, high):
    s = _pcg(state)
    return s % (high - low) + low, s


def randf(state):
    s = _pcg(state)
    return _unit(s), s


def randf_range(state, low, high):
    s = _pcg(state)
    return low + (high - low) * _unit(s), s


def randn(state):
    # Box and Muller (1958), with the logarithm of 0 kept finite.
    first = _pcg(state)
    second = _pcg(first)
    radius = sqrt(-2.0 * log(max(_unit(first), 2.9802322387695312e-08)))
    return radius * cos(6.283185307179586 * _unit(second)), second


def cdf(state, table):
    s = _pcg(state)
    return lower_bound(table, _unit(s)), s


def triangle(state):
    first = _pcg(state)
    second = _pcg(first)
    r = sqrt(_unit(first))
    return vec2(1.0 - r, _unit(second) * r), second


def ring(state):
    s = _pcg(state)
    angle = 6.283185307179586 * _unit(s)
    return vec2(cos(angle), sin(angle)), s


def disk(state):
    first = _pcg(state)
    second = _pcg(first)
    angle, r = 6.283185307179586 * _unit(second), sqrt(_unit(first))
    return vec2(r * cos(angle), r * sin(angle)), second


def sphere_surface(state):
    first = _pcg(state)
    second = _pcg(first)
    z, angle = 1.0 - 2.0 * _unit(first), 6.283185307179586 * _unit(second)
    r = sqrt(1.0 - z * z)
    return vec3(r * cos(angle), r * sin(angle), z), second


def sphere(state):
    point, s = _sphere_surface(state)
    last = _pcg(s)
    return point * cbrt(_unit(last)), last


def hemisphere_surface(state):
    first = _pcg(state)
    second = _pcg(first)
    z, angle = 1.0 - _unit(first), 6.283185307179586 * _unit(second)
    r = sqrt(1.0 - z * z)
    return vec3(r * cos(angle), r * sin(angle), z), second


def hemisphere(state):
    point, s = _hemisphere_surface(state)
    last = _pcg(s)
    return point * cbrt(_unit(last)), last


def square(state):
    first = _pcg(state)
    second = _pcg(first)
    return vec2(_unit(first) - 0.5, _unit(second) - 0.5), second


def cube(state):
    first = _pcg(state)
    second = _pcg(first)
    third = _pcg(second)
    return vec3(_unit(first) - 0.5, _unit(second) - 0.5, _unit(third) - 0.5), third


def log_factorial(k):
    # Stirling's series at k + 1 for large k, after multiplying up to it for small ones: `k` is a whole number, not
    # negative. A loop until `x` is large would have each lane wait for the others.
    x, product = k + 1.0, 1.0
    for _ in range(7):
        is_small = x < 8.0
        product = where(is_small, product * x, product)
        x = where(is_small, x + 1.0, x)
    y = 1.0 / (x * x)
    series = (0.08333333333 - y * (0.00277777778 - y * 0.00079365079)) / x
    return (x - 0.5) * log(x) - x + 0.9189385332 + series - log(product)


def poisson_small(state, lam):
    # Knuth: count how many uniform numbers it takes for their product to fall below exp(-lam).
    limit, product, count = exp(-lam), 1.0, uint32(0)
    s = _pcg(state)
    product *= 1.0 - _unit(s)
    while product > limit:
        count += uint32(1)
        s = _pcg(s)
        product *= 1.0 - _unit(s)
    return count, s


def poisson_large(state, lam):
    # Transformed rejection with squeeze: Hoermann (1993), The transformed rejection method, algorithm PTRS.
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    ready = 0.9277 - 3.6224 / (b - 2.0)
    s, k, done = state, 0.0, False
    while not done:
        s = _pcg(s)
        u = _unit(s) - 0.5
        s = _pcg(s)
        v = 1.0 - _unit(s)
        us = 0.5 - abs(u)
        if us > 0.0:
            k = floor((2.0 * a / us + b) * u + lam + 0.43)
            if us >= 0.07 and v <= ready:
                done = True
            elif k >= 0.0 and (us >= 0.013 or v <= us):
                left = log(v * inverse_alpha / (a / (us * us) + b))
                done = left <= k * log(lam) - lam - _log_factorial(k)
    return uint32(k), s


def poisson(state, lam):
    count, s = uint32(0), state
    if lam >= 10.0:
        count, s = _poisson_large(state, lam)
    elif lam > 0.0:
        count, s = _poisson_small(state, lam)
    return count, s
