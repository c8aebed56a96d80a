"""Programs that repeat a step on a thread's own state."""

import numpy as np

from .case import SPECIAL, Case, Real, labelled, named, random, sizes, uniform

H = 0.01  # the time step


@sizes(float32=(2**14, 2**6), float64=(2**13, 2**6))
class Lorenz(Case):
    """Runge-Kutta steps of the Lorenz system, few enough that its chaos leaves the results comparable."""

    looped = True
    tolerance = {"rtol": 1.0e-2, "atol": 1.0e-1, "outliers": 0.005}  # the system amplifies rounding

    def __init__(self, n: int, real: Real, steps: int = 200) -> None:
        self.title, self.dim = labelled(f"Lorenz {n}, {steps} steps", real), n
        start = (random(real, n, 3) + np.array([1.0, 1.0, 20.0])).astype(real)
        self.inputs, self.types = [start, steps], [named("vec3", real)] * 2
        self.out = np.empty((n, 3), real)
        # four slopes of 8, three points of 6, the sum of 3 * 8
        self.flops, self.nbytes = (4 * 8 + 3 * 6 + 24) * n * steps, 2 * start.nbytes

    @staticmethod
    def kernel(wp, real):
        vec3 = wp.vec3d if real is wp.float64 else wp.vec3

        beta, half, sixth = 8.0 / 3.0, 0.5 * H, H / 6.0

        @wp.func
        def slope(s: vec3):
            x = real(10.0) * (s[1] - s[0])
            return vec3(x, s[0] * (real(28.0) - s[2]) - s[1], s[0] * s[1] - real(beta) * s[2])

        @wp.kernel
        def lorenz(start: wp.array(dtype=vec3), steps: int, out: wp.array(dtype=vec3)):
            i = wp.tid()
            s = start[i]
            for _step in range(steps):
                k1 = slope(s)
                k2 = slope(s + real(half) * k1)
                k3 = slope(s + real(half) * k2)
                k4 = slope(s + real(H) * k3)
                s += real(sixth) * (k1 + real(2.0) * k2 + real(2.0) * k3 + k4)
            out[i] = s

        return lorenz

    @staticmethod
    def arrays(xp, start, steps):
        def slope(x, y, z):
            return 10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z

        def step(x, y, z):
            s = (x, y, z)
            k1 = slope(*s)
            k2 = slope(*(a + 0.5 * H * k for a, k in zip(s, k1, strict=True)))
            k3 = slope(*(a + 0.5 * H * k for a, k in zip(s, k2, strict=True)))
            k4 = slope(*(a + H * k for a, k in zip(s, k3, strict=True)))
            return tuple(
                a + H / 6.0 * (p + 2.0 * q + 2.0 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4, strict=True)
            )

        return xp.stack(xp.loop(steps, step, start[:, 0], start[:, 1], start[:, 2]), -1)

    @staticmethod
    def loops(jit, prange, real):
        half, whole, sixth, two = real(0.5 * H), real(H), real(H / 6.0), real(2.0)
        sigma, rho, beta = real(10.0), real(28.0), real(8.0 / 3.0)

        @jit
        def slope(x, y, z):
            return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

        @jit
        def lorenz(start, steps, out):
            for i in prange(start.shape[0]):
                x, y, z = start[i, 0], start[i, 1], start[i, 2]
                for _step in range(steps):
                    a1, b1, c1 = slope(x, y, z)
                    a2, b2, c2 = slope(x + half * a1, y + half * b1, z + half * c1)
                    a3, b3, c3 = slope(x + half * a2, y + half * b2, z + half * c2)
                    a4, b4, c4 = slope(x + whole * a3, y + whole * b3, z + whole * c3)
                    x += sixth * (a1 + two * a2 + two * a3 + a4)
                    y += sixth * (b1 + two * b2 + two * b3 + b4)
                    z += sixth * (c1 + two * c2 + two * c3 + c4)
                out[i, 0], out[i, 1], out[i, 2] = x, y, z

        return lorenz


@sizes(float32=(2**14, 2**6))
class Pendulum(Case):
    """Runge-Kutta steps of pendulums: four sines a step."""

    looped = True
    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real, steps: int = 200) -> None:
        self.title, self.dim = f"pendulums {n}, {steps} steps", n
        self.inputs, self.types = [random(real, n, 2), steps], ["vec2"] * 2
        self.out = np.empty((n, 2), real)
        # four slopes of one sine and a sign, three points of 4, the sum of 2 * 8
        self.flops, self.nbytes = (4 * (SPECIAL + 1) + 12 + 16) * n * steps, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.func
        def slope(s: wp.vec2):
            return wp.vec2(s[1], -wp.sin(s[0]))

        @wp.kernel
        def pendulum(start: wp.array(dtype=wp.vec2), steps: int, out: wp.array(dtype=wp.vec2)):
            i = wp.tid()
            s = start[i]
            for _step in range(steps):
                k1 = slope(s)
                k2 = slope(s + 0.005 * k1)
                k3 = slope(s + 0.005 * k2)
                k4 = slope(s + 0.01 * k3)
                s += (0.01 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            out[i] = s

        return pendulum

    @staticmethod
    def arrays(xp, start, steps):
        def step(q, v):
            q1, v1 = v, -xp.sin(q)
            q2, v2 = v + 0.5 * H * v1, -xp.sin(q + 0.5 * H * q1)
            q3, v3 = v + 0.5 * H * v2, -xp.sin(q + 0.5 * H * q2)
            q4, v4 = v + H * v3, -xp.sin(q + H * q3)
            return q + H / 6.0 * (q1 + 2.0 * q2 + 2.0 * q3 + q4), v + H / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4)

        return xp.stack(xp.loop(steps, step, start[:, 0], start[:, 1]), -1)

    @staticmethod
    def loops(jit, prange, real):
        half, whole, sixth, two = real(0.5 * H), real(H), real(H / 6.0), real(2.0)

        @jit
        def pendulum(start, steps, out):
            for i in prange(start.shape[0]):
                q, v = start[i, 0], start[i, 1]
                for _step in range(steps):
                    q1, v1 = v, -np.sin(q)
                    q2, v2 = v + half * v1, -np.sin(q + half * q1)
                    q3, v3 = v + half * v2, -np.sin(q + half * q2)
                    q4, v4 = v + whole * v3, -np.sin(q + whole * q3)
                    q += sixth * (q1 + two * q2 + two * q3 + q4)
                    v += sixth * (v1 + two * v2 + two * v3 + v4)
                out[i, 0], out[i, 1] = q, v

        return pendulum


@sizes(float64=(2**16, 2**8))
class Newton(Case):
    """Newton steps towards a root: quotients, one after the other."""

    looped = True
    tolerance = {"rtol": 1.0e-12}

    def __init__(self, n: int, real: Real, steps: int = 50) -> None:
        self.title, self.dim = labelled(f"Newton {n}, {steps} steps", real), n
        self.inputs, self.types = [uniform(real, 0.1, 3.0, n), steps], [named("real", real)] * 2
        self.out = np.empty(n, real)
        self.flops, self.nbytes = 5 * n * steps, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def newton(x: wp.array(dtype=real), steps: int, out: wp.array(dtype=real)):
            i = wp.tid()
            r = x[i]
            for _step in range(steps):
                r = r - (r * r - x[i]) / (real(2.0) * r)
            out[i] = r

        return newton

    @staticmethod
    def arrays(xp, x, steps):
        return xp.loop(steps, lambda x, r: (x, r - (r * r - x) / (2.0 * r)), x, x)[1]

    @staticmethod
    def loops(jit, prange, real):
        two = real(2.0)

        @jit
        def newton(x, steps, out):
            for i in prange(x.shape[0]):
                r = x[i]
                for _step in range(steps):
                    r = r - (r * r - x[i]) / (two * r)
                out[i] = r

        return newton
