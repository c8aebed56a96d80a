"""Programs on quaternions and small matrices."""

import numpy as np

from .case import SPECIAL, Case, Real, random, sizes

H = 0.01  # the time step


def unit_quaternions(real: Real, n: int) -> np.ndarray:
    q = random(np.float64, n, 4)
    return (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(real)


@sizes(float32=(2**20, 2**8))
class Rotate(Case):
    """One vector by one quaternion: arrays of structures, read once."""

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"rotated vectors {n}", n
        self.inputs, self.types = [unit_quaternions(real, n), random(real, n, 3, seed=1)], ["quat", "vec3", "vec3"]
        self.out = np.empty((n, 3), real)
        self.flops, self.nbytes = 35 * n, 10 * n * self.out.itemsize  # v s + 2 w (a x v) + 2 (a . v) a

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def rotate(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            out[i] = wp.quat_rotate(q[i], v[i])

        return rotate

    @staticmethod
    def arrays(xp, q, v):
        x, y, z, w = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
        a, b, c = v[:, 0], v[:, 1], v[:, 2]
        s, d = 2.0 * w * w - 1.0, 2.0 * (x * a + y * b + z * c)
        crossed = (y * c - z * b, z * a - x * c, x * b - y * a)
        parts = zip((a, b, c), crossed, (x, y, z), strict=True)
        return xp.stack([s * p + 2.0 * w * t + d * axis for p, t, axis in parts], -1)

    @staticmethod
    def loops(jit, prange, real):
        one, two = real(1.0), real(2.0)

        @jit
        def rotate(q, v, out):
            for i in prange(q.shape[0]):
                x, y, z, w = q[i, 0], q[i, 1], q[i, 2], q[i, 3]
                a, b, c = v[i, 0], v[i, 1], v[i, 2]
                s, d = two * w * w - one, two * (x * a + y * b + z * c)
                out[i, 0] = s * a + two * w * (y * c - z * b) + d * x
                out[i, 1] = s * b + two * w * (z * a - x * c) + d * y
                out[i, 2] = s * c + two * w * (x * b - y * a) + d * z

        return rotate


@sizes(float32=(2**16, 2**8))
class Spin(Case):
    """Rigid bodies that turn: quaternions integrated over explicit steps, and normalised after each."""

    looped = True
    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real, steps: int = 100) -> None:
        self.title, self.dim = f"quaternions {n}, {steps} steps", n
        self.inputs = [unit_quaternions(real, n), random(real, n, 3, seed=1), steps]
        self.types = ["quat", "vec3", "quat"]
        self.out = np.empty((n, 4), real)
        # a product without a real part 20, the step 8, the length 8, the quotients 4
        self.flops, self.nbytes = 40 * n * steps, 11 * n * self.out.itemsize

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def spin(
            start: wp.array(dtype=wp.quat), velocity: wp.array(dtype=wp.vec3), steps: int, out: wp.array(dtype=wp.quat)
        ):
            i = wp.tid()
            q = start[i]
            v = 0.005 * velocity[i]
            w = wp.quat(v[0], v[1], v[2], 0.0)
            for _step in range(steps):
                q = wp.normalize(q + w * q)
            out[i] = q

        return spin

    @staticmethod
    def arrays(xp, start, velocity, steps):
        def step(a, b, c, x, y, z, w):
            x, y, z, w = (
                x + a * w + b * z - c * y,
                y + b * w + c * x - a * z,
                z + c * w + a * y - b * x,
                w - a * x - b * y - c * z,
            )
            scale = 1.0 / xp.sqrt(x * x + y * y + z * z + w * w)
            return a, b, c, scale * x, scale * y, scale * z, scale * w

        v = 0.5 * H * velocity
        state = [v[:, 0], v[:, 1], v[:, 2], *(start[:, k] for k in range(4))]
        return xp.stack(xp.loop(steps, step, *state)[3:], -1)

    @staticmethod
    def loops(jit, prange, real):
        half, one = real(0.5 * H), real(1.0)

        @jit
        def spin(start, velocity, steps, out):
            for i in prange(start.shape[0]):
                a, b, c = half * velocity[i, 0], half * velocity[i, 1], half * velocity[i, 2]
                x, y, z, w = start[i, 0], start[i, 1], start[i, 2], start[i, 3]
                for _step in range(steps):
                    x, y, z, w = (
                        x + a * w + b * z - c * y,
                        y + b * w + c * x - a * z,
                        z + c * w + a * y - b * x,
                        w - a * x - b * y - c * z,
                    )
                    scale = one / np.sqrt(x * x + y * y + z * z + w * w)
                    x, y, z, w = scale * x, scale * y, scale * z, scale * w
                out[i, 0], out[i, 1], out[i, 2], out[i, 3] = x, y, z, w

        return spin


@sizes(float32=(2**16, 2**8))
class Svd(Case):
    """The logarithm of deformations by their singular values: U log(S) V^T, which no sign convention changes."""

    tolerance = {"rtol": 1.0e-2, "atol": 2.0e-3, "outliers": 0.001}  # some decompositions are approximate

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"SVD of 3 x 3, {n}", n
        self.inputs, self.types = [self.deformations(n).astype(real)], ["mat33", "mat33"]
        self.out = np.empty((n, 3, 3), real)
        # A^T A 45; four sweeps of three rotations, each about 60; A V 45, lengths and quotients 27, the product 45
        self.flops, self.nbytes = (45 + 12 * 60 + 45 + 27 + 45 + 3 * SPECIAL) * n, 2 * self.out.nbytes

    @staticmethod
    def deformations(n: int) -> np.ndarray:
        """Return matrices with positive determinant: rotations times stretches."""
        u, s, vt = np.linalg.svd(random(np.float64, n, 3, 3))
        u[:, :, 2] *= np.linalg.det(u @ vt)[:, None]
        s = np.sort(np.random.default_rng(1).uniform(0.4, 2.0, s.shape))
        return (u * s[:, None]) @ vt

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def svd(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33)):
            i = wp.tid()
            u, s, v = wp.svd3(a[i])
            logs = wp.vec3(wp.log(s[0]), wp.log(s[1]), wp.log(s[2]))
            out[i] = u * wp.diag(logs) * wp.transpose(v)

        return svd

    @staticmethod
    def arrays(xp, a):
        u, s, vt = xp.linalg.svd(a)
        return (u * xp.log(s)[:, None]) @ vt

    @staticmethod
    def loops(jit, prange, real):
        @jit
        def svd(a, out):
            for i in prange(a.shape[0]):
                u, s, vt = np.linalg.svd(a[i])
                out[i] = (u * np.log(s)) @ vt

        return svd
