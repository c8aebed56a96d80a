"""Programs on regular grids that read a point's neighbours."""

import numpy as np

from .case import Case, Real, labelled, named, random, sizes, uniform

# The lattice Boltzmann method's nine velocities (rows, columns), their weights.
VELOCITIES = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


@sizes(float32=(2048, 64), float64=(1024, 64))
class Jacobi(Case):
    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"Jacobi {n} x {n}", real), (n, n)
        self.inputs, self.types = [random(real, n, n)], [named("real", real)] * 2
        self.out = np.empty((n, n), real)
        self.flops, self.nbytes = 4 * n * n, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def jacobi(u: wp.array2d(dtype=real), out: wp.array2d(dtype=real)):
            i, j = wp.tid()
            if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
                out[i, j] = real(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
            else:
                out[i, j] = u[i, j]

        return jacobi

    @staticmethod
    def arrays(xp, u):
        return xp.inside(u, 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))

    @staticmethod
    def loops(jit, prange, real):
        quarter = real(0.25)

        @jit
        def jacobi(u, out):
            for i in prange(u.shape[0]):
                for j in range(u.shape[1]):
                    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
                        out[i, j] = quarter * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                    else:
                        out[i, j] = u[i, j]

        return jacobi


@sizes(float32=(192, 16))
class Heat(Case):
    """A step of the heat equation in three dimensions: seven points."""

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"heat {n} x {n} x {n}", real), (n, n, n)
        self.inputs, self.types = [random(real, n, n, n)], [named("real", real)] * 2
        self.out = np.empty((n, n, n), real)
        self.flops, self.nbytes = 8 * n**3, 2 * self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def heat(u: wp.array3d(dtype=real), out: wp.array3d(dtype=real)):
            i, j, k = wp.tid()
            centre = u[i, j, k]
            inside = i > 0 and j > 0 and k > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1 and k < u.shape[2] - 1
            if inside:
                around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                around += u[i, j, k - 1] + u[i, j, k + 1]
                out[i, j, k] = centre + real(0.1) * (around - real(6.0) * centre)
            else:
                out[i, j, k] = centre

        return heat

    @staticmethod
    def arrays(xp, u):
        c = u[1:-1, 1:-1, 1:-1]
        around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        around = around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        return xp.inside(u, c + 0.1 * (around - 6.0 * c))

    @staticmethod
    def loops(jit, prange, real):
        tenth, six = real(0.1), real(6.0)

        @jit
        def heat(u, out):
            n, m, depth = u.shape
            for i in prange(n):
                for j in range(m):
                    edge = i == 0 or j == 0 or i == n - 1 or j == m - 1
                    for k in range(depth):
                        if edge or k == 0 or k == depth - 1:
                            out[i, j, k] = u[i, j, k]
                        else:
                            around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                            around += u[i, j, k - 1] + u[i, j, k + 1]
                            out[i, j, k] = u[i, j, k] + tenth * (around - six * u[i, j, k])

        return heat


def _lattice_function(wp, real):
    @wp.func
    def relaxed(f: real, weight: real, density: real, along: real, square: real, omega: real):
        # BGK collision; `along` is the velocity's component in the direction of f, times 3
        balance = weight * density * (real(1.0) + along + real(0.5) * along * along - real(1.5) * square)
        return f + omega * (balance - f)

    return relaxed


@sizes(float32=(512, 32))
class Lattice(Case):
    """A lattice Boltzmann step (D2Q9): each point gathers nine populations from its neighbours and relaxes them."""

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"lattice Boltzmann {n} x {n}", real), (n, n)
        weights = np.array(WEIGHTS, real)[:, None, None]
        f = weights * uniform(real, 0.9, 1.1, 9, n, n)
        self.inputs, self.types = [f, real(1.2)], [named("real", real)] * 2
        self.out = np.empty((9, n, n), real)
        # density and velocity: 8 + 2 * 5 + 2 sums and quotients, the square 3; each direction about 11
        self.flops, self.nbytes = (23 + 9 * 11) * n * n, 2 * f.nbytes

    @staticmethod
    def kernel(wp, real):
        relaxed = _lattice_function(wp, real)

        @wp.kernel
        def lattice(f: wp.array3d(dtype=real), omega: real, out: wp.array3d(dtype=real)):
            i, j = wp.tid()
            n = f.shape[1]
            m = f.shape[2]
            up = wp.where(i > 0, i - 1, n - 1)
            down = wp.where(i < n - 1, i + 1, 0)
            left = wp.where(j > 0, j - 1, m - 1)
            right = wp.where(j < m - 1, j + 1, 0)
            f0 = f[0, i, j]
            f1 = f[1, i, left]
            f2 = f[2, up, j]
            f3 = f[3, i, right]
            f4 = f[4, down, j]
            f5 = f[5, up, left]
            f6 = f[6, up, right]
            f7 = f[7, down, right]
            f8 = f[8, down, left]
            density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
            x = real(3.0) * (f1 + f5 + f8 - f3 - f6 - f7) / density
            y = real(3.0) * (f2 + f5 + f6 - f4 - f7 - f8) / density
            s = (x * x + y * y) / real(9.0)
            straight = real(1.0 / 9.0)
            across = real(1.0 / 36.0)
            out[0, i, j] = relaxed(f0, real(4.0 / 9.0), density, real(0.0), s, omega)
            out[1, i, j] = relaxed(f1, straight, density, x, s, omega)
            out[2, i, j] = relaxed(f2, straight, density, y, s, omega)
            out[3, i, j] = relaxed(f3, straight, density, -x, s, omega)
            out[4, i, j] = relaxed(f4, straight, density, -y, s, omega)
            out[5, i, j] = relaxed(f5, across, density, x + y, s, omega)
            out[6, i, j] = relaxed(f6, across, density, y - x, s, omega)
            out[7, i, j] = relaxed(f7, across, density, -x - y, s, omega)
            out[8, i, j] = relaxed(f8, across, density, x - y, s, omega)

        return lattice

    @staticmethod
    def arrays(xp, f, omega):
        g = [xp.roll(f[d], shift, (0, 1)) for d, shift in enumerate(VELOCITIES)]
        density = sum(g)
        u, v = (sum(c[axis] * p for c, p in zip(VELOCITIES, g, strict=True)) / density for axis in (0, 1))
        square, after = u * u + v * v, []
        for p, (a, b), weight in zip(g, VELOCITIES, WEIGHTS, strict=True):
            along = a * u + b * v
            balance = weight * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * square)
            after.append(p + omega * (balance - p))
        return xp.stack(after)

    @staticmethod
    def loops(jit, prange, real):
        one, half, three, nine = real(1.0), real(0.5), real(3.0), real(9.0)
        rest, straight, across = real(4 / 9), real(1 / 9), real(1 / 36)
        three_halves, zero = real(1.5), real(0.0)

        @jit
        def relaxed(f, weight, density, along, square, omega):
            return f + omega * (weight * density * (one + along + half * along * along - three_halves * square) - f)

        @jit
        def lattice(f, omega, out):
            n, m = f.shape[1], f.shape[2]
            for i in prange(n):
                up, down = (i - 1 if i > 0 else n - 1), (i + 1 if i < n - 1 else 0)
                for j in range(m):
                    left, right = (j - 1 if j > 0 else m - 1), (j + 1 if j < m - 1 else 0)
                    f0, f1, f2 = f[0, i, j], f[1, i, left], f[2, up, j]
                    f3, f4, f5 = f[3, i, right], f[4, down, j], f[5, up, left]
                    f6, f7, f8 = f[6, up, right], f[7, down, right], f[8, down, left]
                    density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
                    x = three * (f1 + f5 + f8 - f3 - f6 - f7) / density
                    y = three * (f2 + f5 + f6 - f4 - f7 - f8) / density
                    s = (x * x + y * y) / nine
                    out[0, i, j] = relaxed(f0, rest, density, zero, s, omega)
                    out[1, i, j] = relaxed(f1, straight, density, x, s, omega)
                    out[2, i, j] = relaxed(f2, straight, density, y, s, omega)
                    out[3, i, j] = relaxed(f3, straight, density, -x, s, omega)
                    out[4, i, j] = relaxed(f4, straight, density, -y, s, omega)
                    out[5, i, j] = relaxed(f5, across, density, x + y, s, omega)
                    out[6, i, j] = relaxed(f6, across, density, y - x, s, omega)
                    out[7, i, j] = relaxed(f7, across, density, -x - y, s, omega)
                    out[8, i, j] = relaxed(f8, across, density, x - y, s, omega)

        return lattice


SPACE = (
    np.array([c for c in np.ndindex(3, 3, 3) if 1 <= np.count_nonzero(np.array(c) != 1) <= 2 or c == (1, 1, 1)]).T - 1
)
SPACE_WEIGHTS = np.choose(abs(SPACE).sum(0), [1 / 3, 1 / 18, 1 / 36])


@sizes(float32=(40, 16))
class Lattice3(Case):
    """A lattice Boltzmann step (D3Q19), as the library XLB writes it: loops over the 19 components of a vector."""

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"lattice Boltzmann {n} x {n} x {n}", real), (n, n, n)
        f = SPACE_WEIGHTS.astype(real)[:, None, None, None] * uniform(real, 0.9, 1.1, 19, n, n, n)
        self.inputs, self.types = [f, real(1.2)], [named("real", real)] * 2
        self.out = np.empty_like(f)
        # density and velocity: 18 + 3 * 9 + 3 sums and quotients, the square 6; each direction about 12
        self.flops, self.nbytes = (54 + 19 * 12) * n**3, 2 * f.nbytes

    @staticmethod
    def kernel(wp, real):
        velocities = wp.constant(wp.types.matrix(shape=(3, 19), dtype=int)(SPACE))
        weights = wp.constant(wp.types.vector(length=19, dtype=real)(SPACE_WEIGHTS))
        populations = wp.types.vector(length=19, dtype=real)
        vec3 = wp.types.vector(length=3, dtype=real)

        @wp.func
        def streamed(f: wp.array4d(dtype=real), place: wp.vec3i):
            pulled = populations()
            for d in range(19):
                source = wp.vec3i()
                for c in range(3):
                    source[c] = place[c] - velocities[c, d]
                    if source[c] < 0:
                        source[c] = f.shape[c + 1] - 1
                    elif source[c] >= f.shape[c + 1]:
                        source[c] = 0
                pulled[d] = f[d, source[0], source[1], source[2]]
            return pulled

        @wp.func
        def velocity(f: populations, density: real):
            u = vec3()
            for d in range(19):
                for c in range(3):
                    if velocities[c, d] == 1:
                        u[c] += f[d]
                    elif velocities[c, d] == -1:
                        u[c] -= f[d]
            return u / density

        @wp.func
        def balance(density: real, u: vec3):
            balanced = populations()
            for d in range(19):
                along = real(0.0)
                for c in range(3):
                    if velocities[c, d] == 1:
                        along += u[c]
                    elif velocities[c, d] == -1:
                        along -= u[c]
                along *= real(3.0)
                square = real(1.5) * wp.dot(u, u)
                balanced[d] = density * weights[d] * (real(1.0) + along * (real(1.0) + real(0.5) * along) - square)
            return balanced

        @wp.kernel
        def lattice3(f: wp.array4d(dtype=real), omega: real, out: wp.array4d(dtype=real)):
            i, j, k = wp.tid()
            pulled = streamed(f, wp.vec3i(i, j, k))
            density = real(0.0)
            for d in range(19):
                density += pulled[d]
            after = pulled - omega * (pulled - balance(density, velocity(pulled, density)))
            for d in range(19):
                out[d, i, j, k] = after[d]

        return lattice3

    @staticmethod
    def arrays(xp, f, omega):
        g = [xp.roll(f[d], tuple(map(int, SPACE[:, d])), (0, 1, 2)) for d in range(19)]
        density = sum(g)
        u = [sum(int(c) * p for c, p in zip(SPACE[axis], g, strict=True) if c) / density for axis in range(3)]
        square, after = 1.5 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]), []
        for d in range(19):
            along = 3.0 * sum((int(c) * v for c, v in zip(SPACE[:, d], u, strict=True) if c), 0.0 * density)
            balance = float(SPACE_WEIGHTS[d]) * density * (1.0 + along * (1.0 + 0.5 * along) - square)
            after.append(g[d] + omega * (balance - g[d]))
        return xp.stack(after)

    @staticmethod
    def loops(jit, prange, real):
        velocities, weights = SPACE.astype(np.int64), SPACE_WEIGHTS.astype(real)
        zero, half, one, three, three_halves = real(0.0), real(0.5), real(1.0), real(3.0), real(1.5)

        @jit
        def lattice3(f, omega, out):
            n, m, size = f.shape[1], f.shape[2], f.shape[3]
            for i in prange(n):
                pulled = np.empty(19, real)
                for j in range(m):
                    for k in range(size):
                        density, x, y, z = zero, zero, zero, zero
                        for d in range(19):
                            a, b, c = velocities[0, d], velocities[1, d], velocities[2, d]
                            p = f[d, (i - a) % n, (j - b) % m, (k - c) % size]
                            pulled[d] = p
                            density, x, y, z = density + p, x + a * p, y + b * p, z + c * p
                        x, y, z = x / density, y / density, z / density
                        square = three_halves * (x * x + y * y + z * z)
                        for d in range(19):
                            along = three * (velocities[0, d] * x + velocities[1, d] * y + velocities[2, d] * z)
                            balance = weights[d] * density * (one + along * (one + half * along) - square)
                            out[d, i, j, k] = pulled[d] + omega * (balance - pulled[d])

        return lattice3
