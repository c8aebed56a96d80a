"""Programs on particles: all pairs, lists of neighbours, springs."""

import numpy as np

from .case import Case, Real, labelled, named, random, sizes

SOFTENING = 1.0e-2  # added to the squared distance of two bodies
STIFFNESS, REST = 50.0, 0.8  # of a spring


@sizes(float32=(8192, 256), float64=(4096, 256))
class Nbody(Case):
    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-4}

    def __init__(self, n: int, real: Real) -> None:
        self.title, self.dim = labelled(f"n-body {n}", real), n
        self.inputs = [random(real, n, 3), np.abs(random(real, n, seed=1)) / n]
        self.types = [named("vec3", real), named("real", real), named("vec3", real)]
        self.out = np.empty((n, 3), real)
        # distance 3 + 6, root 1, weight 3, sum 6; memory is read once, then it is in the cache
        self.flops, self.nbytes = 19 * n * n, 7 * n * self.out.itemsize

    @staticmethod
    def kernel(wp, real):
        vec3 = wp.vec3d if real is wp.float64 else wp.vec3

        @wp.kernel
        def nbody(positions: wp.array(dtype=vec3), masses: wp.array(dtype=real), out: wp.array(dtype=vec3)):
            i = wp.tid()
            here = positions[i]
            acceleration = vec3(real(0.0), real(0.0), real(0.0))
            for j in range(positions.shape[0]):
                d = positions[j] - here
                r = wp.sqrt(wp.dot(d, d) + real(SOFTENING))
                acceleration += (masses[j] / (r * r * r)) * d
            out[i] = acceleration

        return nbody

    @staticmethod
    def arrays(xp, positions, masses):
        d = [p[None, :] - p[:, None] for p in (positions[:, 0], positions[:, 1], positions[:, 2])]
        square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + SOFTENING
        weights = masses / (square * xp.sqrt(square))
        return xp.stack([(weights * c).sum(1) for c in d], -1)

    def expected(self) -> np.ndarray:
        """Go through the bodies in blocks: all pairs at once would take gigabytes."""
        positions, masses = (a.astype(np.float64) for a in self.inputs)
        parts = []
        for block in np.array_split(positions, max(1, len(positions) // 256)):
            d = positions[None, :] - block[:, None]
            weights = masses * (np.einsum("ijk,ijk->ij", d, d) + SOFTENING) ** -1.5
            parts.append(np.einsum("ij,ijk->ik", weights, d))
        return np.concatenate(parts)

    @staticmethod
    def loops(jit, prange, real):
        softening, zero = real(SOFTENING), real(0.0)

        @jit
        def nbody(p, m, out):
            for i in prange(p.shape[0]):
                ax, ay, az = zero, zero, zero
                for j in range(p.shape[0]):
                    dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                    r = np.sqrt(dx * dx + dy * dy + dz * dz + softening)
                    w = m[j] / (r * r * r)
                    ax, ay, az = ax + w * dx, ay + w * dy, az + w * dz
                out[i, 0], out[i, 1], out[i, 2] = ax, ay, az

        return nbody


def lattice_neighbours(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours within two steps of each point of a cubic lattice, padded, and how many each has."""
    points = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    offsets = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3, indexing="ij"), -1).reshape(-1, 3)
    offsets = offsets[np.isin((offsets**2).sum(1), [1, 2, 3, 4])]
    near = points[:, None] + offsets
    there = np.all((near >= 0) & (near < side), axis=2)
    index = np.where(there, near @ [side * side, side, 1], 0)
    first = np.argsort(~there, axis=1, kind="stable")  # those that are there come first
    return np.take_along_axis(index, first, 1).astype(np.int32), there.sum(1).astype(np.int32)


@sizes(float32=(32, 8))
class Neighbours(Case):
    """Lennard-Jones forces over lists of neighbours, of which inner particles have 32."""

    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-2}

    def __init__(self, side: int, real: Real) -> None:
        n = side**3
        lists, counts = lattice_neighbours(side)
        points = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
        positions = (points + 0.05 * random(real, n, 3)).astype(real)
        self.title, self.dim = f"neighbour lists {n}", n
        self.inputs, self.types = [positions, lists, counts], ["vec3", "int32", "int32", "vec3"]
        self.out = np.empty((n, 3), real)
        # a pair: difference 3, square 5, quotient 1, powers 3, force 4, sum 6
        self.flops = 22 * float(counts.sum())
        self.nbytes = 4 * float(counts.sum()) + counts.nbytes + 2 * positions.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def neighbours(
            positions: wp.array(dtype=wp.vec3),
            lists: wp.array2d(dtype=int),
            counts: wp.array(dtype=int),
            out: wp.array(dtype=wp.vec3),
        ):
            i = wp.tid()
            here = positions[i]
            force = wp.vec3(0.0, 0.0, 0.0)
            for k in range(counts[i]):
                d = here - positions[lists[i, k]]
                s = 1.0 / wp.dot(d, d)
                c = s * s * s
                force += (24.0 * s * c * (2.0 * c - 1.0)) * d
            out[i] = force

        return neighbours

    @staticmethod
    def arrays(xp, positions, lists, counts):
        d = positions[:, None] - positions[lists]
        there = xp.arange(lists.shape[1])[None, :] < counts[:, None]
        s = 1.0 / xp.where(there, (d * d).sum(-1), 1.0)
        c = s * s * s
        weights = xp.where(there, 24.0 * s * c * (2.0 * c - 1.0), 0.0)
        return (weights[:, :, None] * d).sum(1)

    @staticmethod
    def loops(jit, prange, real):
        zero, one, two, scale = real(0.0), real(1.0), real(2.0), real(24.0)

        @jit
        def neighbours(p, lists, counts, out):
            for i in prange(p.shape[0]):
                fx, fy, fz = zero, zero, zero
                for k in range(counts[i]):
                    j = lists[i, k]
                    dx, dy, dz = p[i, 0] - p[j, 0], p[i, 1] - p[j, 1], p[i, 2] - p[j, 2]
                    s = one / (dx * dx + dy * dy + dz * dz)
                    c = s * s * s
                    w = scale * s * c * (two * c - one)
                    fx, fy, fz = fx + w * dx, fy + w * dy, fz + w * dz
                out[i, 0], out[i, 1], out[i, 2] = fx, fy, fz

        return neighbours


def cells_of(points: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of each cell of a grid of ``side**3`` cells over [0, 1)^3, and where each cell's begin."""
    x, y, z = np.minimum((points * side).astype(np.int64), side - 1).T
    cell = (x * side + y) * side + z
    first = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=side**3))])
    return np.argsort(cell, kind="stable").astype(np.int32), first.astype(np.int32)


@sizes(float32=(16, 4))
class Density(Case):
    """The density of a fluid's particles (SPH): a sum over those of the 27 cells around, which are near enough."""

    tolerance = {"rtol": 1.0e-4, "atol": 1.0e-3}

    def __init__(self, side: int, real: Real) -> None:
        n = 8 * side**3
        points = np.random.default_rng(2).uniform(0.0, 1.0, (n, 3)).astype(real)
        order, first = cells_of(points, side)
        self.title, self.dim = f"SPH density {n}", n
        self.inputs, self.types = [points, order, first, side], ["vec3", "int32", "int32", "float32"]
        self.out = np.empty(n, real)
        # a candidate: difference 3, square 5; a neighbour, 4.19 of 27: 5 more
        self.flops = n * 8 * (27 * 8 + 4.19 * 5)
        self.nbytes = points.nbytes + order.nbytes + first.nbytes + self.out.nbytes

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def density(
            points: wp.array(dtype=wp.vec3),
            order: wp.array(dtype=int),
            first: wp.array(dtype=int),
            side: int,
            out: wp.array(dtype=float),
        ):
            i = wp.tid()
            here = points[i]
            radius = 1.0 / float(side)
            x = wp.min(int(here[0] * float(side)), side - 1)
            y = wp.min(int(here[1] * float(side)), side - 1)
            z = wp.min(int(here[2] * float(side)), side - 1)
            total = wp.float32(0.0)
            for a in range(wp.max(x - 1, 0), wp.min(x + 2, side)):
                for b in range(wp.max(y - 1, 0), wp.min(y + 2, side)):
                    for c in range(wp.max(z - 1, 0), wp.min(z + 2, side)):
                        cell = (a * side + b) * side + c
                        for k in range(first[cell], first[cell + 1]):
                            d = here - points[order[k]]
                            s = radius * radius - wp.dot(d, d)
                            if s > 0.0:
                                total += s * s * s
            out[i] = (315.0 / (64.0 * wp.pi)) * total / wp.pow(radius, 9.0)

        return density

    @staticmethod
    def arrays(xp, points, order, first, side):
        """All pairs: no array library has a cell list."""
        total = 0.0
        for axis in range(3):
            d = points[:, None, axis] - points[None, :, axis]
            total = total + d * d
        s = xp.clip(1.0 / (side * side) - total, 0.0, None)
        return (s * s * s).sum(1) * (315.0 / (64.0 * np.pi) * side**9)

    def expected(self) -> np.ndarray:
        """Go through the points in blocks: all pairs at once would take gigabytes."""
        import scipy.spatial

        points, side = self.inputs[0].astype(np.float64), self.inputs[3]
        tree, total = scipy.spatial.cKDTree(points), np.full(len(points), side**-6.0)
        pairs = tree.query_pairs(1.0 / side, output_type="ndarray")
        s = side**-2.0 - ((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum(1)
        for end in (0, 1):
            np.add.at(total, pairs[:, end], s**3)
        return total * (315.0 / (64.0 * np.pi) * side**9.0)

    @staticmethod
    def loops(jit, prange, real):
        zero, one, scale = real(0.0), real(1.0), real(315.0 / (64.0 * np.pi))

        @jit
        def density(p, order, first, side, out):
            radius = one / real(side)
            for i in prange(p.shape[0]):
                x = min(int(p[i, 0] * real(side)), side - 1)
                y = min(int(p[i, 1] * real(side)), side - 1)
                z = min(int(p[i, 2] * real(side)), side - 1)
                total = zero
                for a in range(max(x - 1, 0), min(x + 2, side)):
                    for b in range(max(y - 1, 0), min(y + 2, side)):
                        for c in range(max(z - 1, 0), min(z + 2, side)):
                            cell = (a * side + b) * side + c
                            for k in range(first[cell], first[cell + 1]):
                                j = order[k]
                                dx, dy, dz = p[i, 0] - p[j, 0], p[i, 1] - p[j, 1], p[i, 2] - p[j, 2]
                                s = radius * radius - (dx * dx + dy * dy + dz * dz)
                                if s > zero:
                                    total += s * s * s
                out[i] = scale * total / radius**9

        return density


def square_cloth(side: int, real: Real) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of ``side**2`` points near a square grid, and the two ends of each spring along it."""
    n, grid = side * side, np.arange(side * side, dtype=np.int32).reshape(side, side)
    across, down = np.stack([grid[:, :-1], grid[:, 1:]], -1), np.stack([grid[:-1], grid[1:]], -1)
    rows, columns = np.divmod(np.arange(n), side)
    positions = (np.stack([columns, rows, 0 * rows], -1) + 0.1 * random(real, n, 3)).astype(real)
    return positions, np.concatenate([across.reshape(-1, 2), down.reshape(-1, 2)])


def spring_forces(xp, positions, a, b):
    """Return the force on each point, on whole arrays; ``a`` and ``b`` are the ends of the springs."""
    d = positions[b] - positions[a]
    r = xp.sqrt((d * d).sum(-1))[:, None]
    f = (STIFFNESS * (r - REST) / r) * d
    return xp.scatter(xp.scatter(0.0 * positions, a, f), b, -f)


@sizes(float32=(256, 8))
class Springs(Case):
    """The forces of a square cloth: each spring gathers its two ends and scatters its force to them, by atomics."""

    zeroed = True
    tolerance = {"rtol": 1.0e-3, "atol": 1.0e-3}

    def __init__(self, side: int, real: Real) -> None:
        positions, ends = square_cloth(side, real)
        self.title, self.dim = f"mass-spring, {len(ends)} springs", len(ends)
        self.inputs, self.types = [positions, ends], ["vec3", "int32", "vec3"]
        self.out = np.zeros_like(positions)
        # difference 3, length 6, force 6, sums 6
        self.flops, self.nbytes = 21 * len(ends), ends.nbytes + 3 * positions.nbytes

    @property
    def extents(self) -> tuple[int, ...]:
        return *super().extents, len(self.out)

    @staticmethod
    def kernel(wp, real):
        @wp.kernel
        def springs(positions: wp.array(dtype=wp.vec3), ends: wp.array2d(dtype=int), force: wp.array(dtype=wp.vec3)):
            s = wp.tid()
            a = ends[s, 0]
            b = ends[s, 1]
            d = positions[b] - positions[a]
            r = wp.length(d)
            f = (STIFFNESS * (r - REST) / r) * d
            wp.atomic_add(force, a, f)
            wp.atomic_sub(force, b, f)

        return springs

    @staticmethod
    def arrays(xp, positions, ends):
        return spring_forces(xp, positions, ends[:, 0], ends[:, 1])

    @staticmethod
    def loops(jit, prange, real):
        parts, stiffness, rest = 2, real(STIFFNESS), real(REST)

        @jit
        def springs(p, ends, out):  # numba has no atomics on the CPU: forces for each part, then their sum
            n, m = p.shape[0], ends.shape[0]
            forces = np.zeros((parts, n, 3), real)
            for part in prange(parts):
                f = forces[part]
                for s in range(part * m // parts, (part + 1) * m // parts):
                    a, b = ends[s, 0], ends[s, 1]
                    dx, dy, dz = p[b, 0] - p[a, 0], p[b, 1] - p[a, 1], p[b, 2] - p[a, 2]
                    r = np.sqrt(dx * dx + dy * dy + dz * dz)
                    w = stiffness * (r - rest) / r
                    f[a, 0] += w * dx
                    f[a, 1] += w * dy
                    f[a, 2] += w * dz
                    f[b, 0] -= w * dx
                    f[b, 1] -= w * dy
                    f[b, 2] -= w * dz
            for i in prange(n):
                for c in range(3):
                    out[i, c] = forces[0, i, c] + forces[1, i, c]

        return springs
