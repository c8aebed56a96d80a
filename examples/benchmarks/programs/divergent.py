"""Programs whose threads leave their loop at different times."""

import numpy as np

from .arrays import NumpyArrays
from .case import Case, Real, labelled, named, sizes

ESCAPE_STEPS = 256  # most iterations of a point of the Mandelbrot set
MARCH_STEPS = 64  # most steps of a ray


@sizes(float32=(1024, 64), float64=(512, 64))
class Mandelbrot(Case):
    looped = True
    tolerance = {"outliers": 0.005}  # rounding decides at the fractal's edge

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim, self.real = labelled(f"Mandelbrot {n} x {n}", real), (n, n), real
        self.inputs, self.types = [self.points(n, real)], [named("real", real), "int32"]
        self.out = np.empty((n, n), np.int32)
        self.steps: np.ndarray | None = None
        self.nbytes = self.out.nbytes

    @staticmethod
    def points(n: int, real: Real) -> np.ndarray:
        """Return the real and the imaginary parts of the rows' and columns' points."""
        return np.stack([-2.0 + 2.5 * np.arange(n) / n, -1.25 + 2.5 * np.arange(n) / n]).astype(real)

    def operations(self) -> float:
        """Each iteration: two squares, their sum and difference, two sums, two products."""
        return 8 * float(self.expected().sum())

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def mandelbrot(points: wp.array2d(dtype=real), out: wp.array2d(dtype=int)):
            i, j = wp.tid()
            cx = points[0, j]
            cy = points[1, i]
            x = real(0.0)
            y = real(0.0)
            n = wp.int32(0)
            while n < ESCAPE_STEPS and x * x + y * y <= real(4.0):
                t = x * x - y * y + cx
                y = real(2.0) * x * y + cy
                x = t
                n += 1
            out[i, j] = n

        return mandelbrot

    @staticmethod
    def arrays(xp, points):
        cx, cy = points[0][None, :] + 0.0 * points[1][:, None], points[1][:, None] + 0.0 * points[0][None, :]

        def step(cx, cy, x, y, count):
            inside = x * x + y * y <= 4.0
            after_x, after_y = x * x - y * y + cx, 2.0 * x * y + cy
            return cx, cy, xp.where(inside, after_x, x), xp.where(inside, after_y, y), count + inside

        return xp.loop(ESCAPE_STEPS, step, cx, cy, 0.0 * cx, 0.0 * cy, xp.integers(cx))[4]

    def expected(self) -> np.ndarray:
        """Keep the points that are still inside: whole arrays would take many seconds."""
        if self.steps is None:
            n, (cx, cy) = len(self.out), self.inputs[0]
            c = (cx[None, :] + 1j * cy[:, None]).astype(np.complex64 if self.real is np.float32 else complex).ravel()
            self.steps, inside, z = np.zeros(n * n, np.int32), np.arange(n * n), np.zeros_like(c)
            for _ in range(ESCAPE_STEPS):
                z = z * z + c[inside]
                self.steps[inside] += 1
                keep = z.real**2 + z.imag**2 <= 4.0
                z, inside = z[keep], inside[keep]
        return self.steps.reshape(self.out.shape)

    @staticmethod
    def loops(jit, prange, real):
        zero, two, four = real(0.0), real(2.0), real(4.0)

        @jit
        def mandelbrot(points, out):
            for i in prange(out.shape[0]):
                for j in range(out.shape[1]):
                    cx, cy = points[0, j], points[1, i]
                    x, y, n = zero, zero, 0
                    while n < ESCAPE_STEPS and x * x + y * y <= four:
                        x, y = x * x - y * y + cx, two * x * y + cy
                        n += 1
                    out[i, j] = n

        return mandelbrot


@sizes(float32=(512, 32))
class March(Case):
    """Rays that march towards two spheres by the distance to them."""

    looped = True
    tolerance = {"rtol": 1.0e-2, "outliers": 0.005}  # rounding decides which rays graze a sphere

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = f"ray marching {n} x {n}", (n, n)
        self.inputs, self.types = [(np.arange(n) / n - 0.5).astype(real)], ["float32", "float32"]
        self.out = np.empty((n, n), real)
        self.nbytes = self.out.nbytes

    def operations(self) -> float:
        """Each step: the point 4, two distances 7 and 10, the minimum, two comparisons, the sum."""
        return 25 * float(self.trace(NumpyArrays(), self.inputs[0].astype(np.float64))[1].sum())

    @staticmethod
    def kernel(wp, real):
        @wp.func
        def distance(p: wp.vec3):
            return wp.min(wp.length(p) - 1.0, wp.length(p - wp.vec3(0.8, 0.6, 0.2)) - 0.5)

        @wp.kernel
        def march(pixels: wp.array(dtype=float), out: wp.array2d(dtype=float)):
            i, j = wp.tid()
            ray = wp.normalize(wp.vec3(pixels[j], pixels[i], 1.0))
            t = wp.float32(0.0)
            for _step in range(MARCH_STEPS):
                h = distance(wp.vec3(0.0, 0.0, -3.0) + t * ray)
                if h < 1.0e-3 or t > 10.0:
                    break
                t += h
            out[i, j] = t

        return march

    @staticmethod
    def arrays(xp, pixels):
        return March.trace(xp, pixels)[0]

    @staticmethod
    def trace(xp, pixels):
        """Return the distance that each ray goes, and its number of steps."""
        x, y = pixels[None, :] + 0.0 * pixels[:, None], pixels[:, None] + 0.0 * pixels[None, :]
        scale = 1.0 / xp.sqrt(x * x + y * y + 1.0)

        def step(rx, ry, rz, t, count, going):
            px, py, pz = t * rx, t * ry, t * rz - 3.0
            first = xp.sqrt(px * px + py * py + pz * pz) - 1.0
            second = xp.sqrt((px - 0.8) ** 2 + (py - 0.6) ** 2 + (pz - 0.2) ** 2) - 0.5
            h = xp.minimum(first, second)
            going = going & ~((h < 1.0e-3) | (t > 10.0))
            return rx, ry, rz, xp.where(going, t + h, t), count + going, going

        return xp.loop(MARCH_STEPS, step, x * scale, y * scale, scale, 0.0 * x, xp.integers(x), x == x)[3:5]

    @staticmethod
    def loops(jit, prange, real):
        one, half, three, near, far = real(1.0), real(0.5), real(3.0), real(1.0e-3), real(10.0)
        bx, by, bz, zero = real(0.8), real(0.6), real(0.2), real(0.0)

        @jit
        def march(pixels, out):
            for i in prange(out.shape[0]):
                for j in range(out.shape[1]):
                    x, y = pixels[j], pixels[i]
                    z = one / np.sqrt(x * x + y * y + one)
                    x, y, t = x * z, y * z, zero
                    for _step in range(MARCH_STEPS):
                        px, py, pz = t * x, t * y, t * z - three
                        qx, qy, qz = px - bx, py - by, pz - bz
                        first = np.sqrt(px * px + py * py + pz * pz) - one
                        h = min(first, np.sqrt(qx * qx + qy * qy + qz * qz) - half)
                        if h < near or t > far:
                            break
                        t += h
                    out[i, j] = t

        return march
