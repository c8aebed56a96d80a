"""What the programs of benchmark_geometry.py work on, and what they should find, by brute force in NumPy."""

import gzip
from pathlib import Path

import numpy as np
from scipy import ndimage

CHECKED = 20
"""How many queries of each row are compared."""


class Points:
    """Points and boxes by chance, in a box of edge 1."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.n = n
        self.radius = np.float32((30 / (n * 4 / 3 * np.pi)) ** (1 / 3))
        self.points = rng.random((n, 3), dtype=np.float32)
        self.cells = max(8, int(1 / self.radius))
        x, y, z = np.floor(self.points / self.radius).astype(np.int32).T % self.cells
        self.sorted = self.points[np.argsort((z * self.cells + y) * self.cells + x, kind="stable")]
        self.low = rng.random((n, 3), dtype=np.float32)
        self.high = self.low + np.float32(0.5 * n ** (-1 / 3)) * rng.random((n, 3), dtype=np.float32)

    def sums(self, points: np.ndarray) -> np.ndarray:
        """Return how much nearer than the radius the neighbours of the first points are, added up."""
        d = np.linalg.norm(points[:CHECKED, None].astype(np.float64) - points, axis=-1)
        found: np.ndarray = np.maximum(self.radius - d, 0).sum(1)
        return found

    def overlaps(self) -> np.ndarray:
        """Return how many boxes the first ones meet."""
        met = (self.low[:CHECKED, None] <= self.high) & (self.high[:CHECKED, None] >= self.low)
        found: np.ndarray = met.all(-1).sum(1)
        return found


class Surface:
    """Triangles about as large as a ball of radius 1, rays, and points near to them."""

    def __init__(self, n: int, vertices: np.ndarray, faces: np.ndarray) -> None:
        rng = np.random.default_rng(1)
        self.n, self.vertices, self.faces = n, vertices, faces
        start, end = rng.normal(size=(2, n, 3))
        self.starts = (2 * start / np.linalg.norm(start, axis=1, keepdims=True)).astype(np.float32)
        self.directions = (0.8 * end / np.linalg.norm(end, axis=1, keepdims=True) - self.starts).astype(np.float32)
        self.eyes, self.views = picture(n)
        scattered = self.vertices[rng.integers(0, len(self.vertices), n)] * rng.uniform(0.95, 1.05, (n, 1))
        self.near = scattered.astype(np.float32)
        self.anywhere = rng.uniform(-1, 1, (n, 3)).astype(np.float32)

    def corners(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the three corners of all faces."""
        a, b, c = (self.vertices[self.faces[:, k]].astype(np.float64) for k in range(3))
        return a, b, c

    def hits(self, starts: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Return where the first rays meet the surface."""
        with np.errstate(all="ignore"):  # of faces without area
            return hits(*self.corners(), starts[:CHECKED], directions[:CHECKED])

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Return how far the first points are."""
        with np.errstate(all="ignore"):
            return distances(*self.corners(), points[:CHECKED])


class Fields:
    """Grids of numbers: a volume of 128 voxels along each axis, pictures, and the field of a ball with bumps."""

    def __init__(self, n: int, quick: bool) -> None:
        rng = np.random.default_rng(2)
        self.n, size = n, 16 if quick else 128
        self.voxels = rng.random((size,) * 3, dtype=np.float32)
        self.scattered = rng.uniform(0, size - 1.001, (n, 3)).astype(np.float32)
        edge = np.arange(1 + int(n ** (1 / 3)), dtype=np.float32) * np.float32((size - 1.001) / n ** (1 / 3))
        self.in_order = np.stack(np.meshgrid(*[edge] * 3, indexing="ij"), -1).reshape(-1, 3)[:n].copy()
        width = 64 if quick else 2048
        self.picture = rng.random((width, width), dtype=np.float32)
        self.colours = rng.integers(0, 256, (width, width, 4), dtype=np.uint8)
        self.places = rng.random((n, 2), dtype=np.float32)
        nodes = 32 if quick else 256
        self.spacing = 2 / (nodes - 1)
        x, y, z = np.meshgrid(*[np.linspace(-1, 1, nodes)] * 3, indexing="ij", sparse=True)
        self.field = (np.sqrt(x**2 + y**2 + z**2) - 0.8 - 0.05 * np.sin(9 * x) * np.sin(9 * y) * np.sin(9 * z)).astype(
            np.float32
        )

    def between_voxels(self, places: np.ndarray) -> np.ndarray:
        """Return the volume at the first places."""
        at = places[:CHECKED].T.astype(np.float64)
        found: np.ndarray = ndimage.map_coordinates(self.voxels.astype(np.float64), at, order=1)
        return found

    def between_texels(self, texels: np.ndarray) -> np.ndarray:
        """Return the sum of a picture's channels at the first places; beyond the edges, its last texels are."""
        sums = texels.astype(np.float64).reshape(*texels.shape[:2], -1).sum(-1)
        at = self.places[:CHECKED, ::-1].T.astype(np.float64) * len(texels) - 0.5
        found: np.ndarray = ndimage.map_coordinates(sums, at, order=1, mode="nearest")
        return found

    def inside(self) -> np.ndarray:
        """Return the volume where the field is negative, about."""
        share = np.clip(0.5 - self.field.astype(np.float64) / self.spacing, 0, 1)  # of a cube around each node
        return np.array([share.sum() * self.spacing**3])


def picture(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rays from one eye through the pixels of a picture."""
    width = int(np.ceil(np.sqrt(n)))
    row, column = np.divmod(np.arange(n), width)
    across, up = ((2 * (k + 0.5) / width - 1) for k in (column, row))
    views = np.stack([0.45 * across, -0.45 * up, np.full(n, -1.0)], -1).astype(np.float32)
    return np.tile(np.array([0.0, 0.0, 2.5], np.float32), (n, 1)), views


def sphere(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and faces of a sphere with bumps: ``n`` rings of ``2 n`` vertices, closed by two more."""
    a, b = np.meshgrid(np.pi * (np.arange(n) + 1) / (n + 1), np.pi * np.arange(2 * n) / n, indexing="ij")
    p = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], -1)
    p *= 1 + 0.1 * np.sin(20 * a)[..., None] * np.cos(20 * b)[..., None]
    row, k = np.arange(2 * n), np.arange(n - 1)[:, None] * 2 * n
    i, j = k + row, k + (row + 1) % (2 * n)
    last, bottom = (n - 1) * 2 * n, n * 2 * n
    parts = [(i, i + 2 * n, j), (j, i + 2 * n, j + 2 * n)]
    parts += [(np.full(2 * n, bottom), row, np.roll(row, -1))]
    parts += [(np.full(2 * n, bottom + 1), last + np.roll(row, -1), last + row)]
    faces = np.concatenate([np.stack(c, -1).reshape(-1, 3) for c in parts])
    return np.concatenate([p.reshape(-1, 3), [[0, 0, 1], [0, 0, -1]]]).astype(np.float32), faces.astype(np.int32)


def dragon(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices, moved and scaled into a ball of radius 1, and the faces of a file of the Stanford dragon."""
    with gzip.open(path) as file:
        counts = {}
        while (words := file.readline().split()) != [b"end_header"]:
            if words[0] == b"element":
                counts[words[1]] = int(words[2])
        vertices = np.loadtxt(file, np.float64, max_rows=counts[b"vertex"], usecols=(0, 1, 2))
        faces = np.loadtxt(file, np.int32, max_rows=counts[b"face"], usecols=(1, 2, 3))
    vertices -= (vertices.min(0) + vertices.max(0)) / 2
    return (vertices / np.linalg.norm(vertices, axis=1).max()).astype(np.float32), faces


def hits(a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return where rays meet triangles first, -1 for none."""
    n, found = np.cross(b - a, c - a), []
    for start, direction in zip(x.astype(np.float64), d.astype(np.float64), strict=True):
        t = ((a - start) * n).sum(1) / (n @ direction)
        y = start + direction * t[:, None]
        sides = [(np.cross(q - p, y - p) * n).sum(1) for p, q in ((a, b), (b, c), (c, a))]
        inside = (np.min(sides, axis=0) >= 0) & (t >= 0)
        found.append(t[inside].min(initial=np.inf))
    return np.where(np.isfinite(found), found, -1)


def distances(a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the distances of points to triangles."""
    n = np.cross(b - a, c - a)
    size, found = (n * n).sum(1), []
    for p in x.astype(np.float64):
        sides = []
        best = []
        for s, e in ((a, b), (b, c), (c, a)):
            along = np.clip(((p - s) * (e - s)).sum(1) / ((e - s) ** 2).sum(1), 0, 1)[:, None]
            best.append(np.linalg.norm(s + (e - s) * along - p, axis=1))
            sides.append((np.cross(e - s, p - s) * n).sum(1))
        plane = np.abs(((p - a) * n).sum(1)) / np.sqrt(size)
        found.append(np.nanmin(np.where(np.min(sides, axis=0) >= 0, plane, np.fmin.reduce(best))))
    return np.array(found)
