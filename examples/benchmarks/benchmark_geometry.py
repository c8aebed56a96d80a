"""Queries of geometry beside warp-lang's: microseconds a query, milliseconds a build, on one thread.

    python examples/benchmarks/benchmark_geometry.py --json geometry.json

The same programs run with both. Neighbours are counted in a box of random points with 30 of them each on average, by
threads in the order of the points and in that of the grid's cells; the mesh is a bumpy sphere. What the first queries
find is compared with brute force in NumPy. Programs run one after the other, warp-lang's on the one thread that it has.
"""

# mypy: disable-error-code="name-defined, valid-type"

from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from timing import Program

COLUMNS = list(frameworks.WARPS)
CHECKED = 50
"""How many queries of each row are compared."""


class Data:
    """The points, boxes and triangles that all programs work on."""

    def __init__(self, n: int, rings: int) -> None:
        rng = np.random.default_rng(0)
        self.n = n
        self.radius = np.float32((30 / (n * 4 / 3 * np.pi)) ** (1 / 3))
        self.points = rng.random((n, 3), dtype=np.float32)
        self.low = rng.random((n, 3), dtype=np.float32)
        self.high = self.low + np.float32(0.5 * n ** (-1 / 3)) * rng.random((n, 3), dtype=np.float32)
        self.vertices, self.faces = sphere(rings)
        start, end = rng.normal(size=(2, n, 3))
        self.starts = (2 * start / np.linalg.norm(start, axis=1, keepdims=True)).astype(np.float32)
        self.directions = (0.8 * end / np.linalg.norm(end, axis=1, keepdims=True) - self.starts).astype(np.float32)
        self.near = (self.vertices[rng.integers(0, len(self.vertices), n)] * rng.uniform(0.95, 1.05, (n, 1))).astype(
            np.float32
        )
        self.anywhere = rng.uniform(-1, 1, (n, 3)).astype(np.float32)


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


def kernels(wp: ModuleType) -> dict[str, Any]:
    """Return the kernels of one of the Warps."""

    @wp.kernel
    def neighbours(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
        i = wp.tid()
        p = x[i]
        total = wp.float32(0.0)
        for j in wp.hash_grid_query(grid, p, r):
            d = wp.length(p - x[j])
            if d < r:
                total += r - d
        out[i] = total

    @wp.kernel
    def in_order(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
        i = wp.hash_grid_point_id(grid, wp.tid())
        p = x[i]
        total = wp.float32(0.0)
        for j in wp.hash_grid_query(grid, p, r):
            d = wp.length(p - x[j])
            if d < r:
                total += r - d
        out[i] = total

    @wp.kernel
    def overlaps(
        bvh: wp.uint64, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)
    ):
        i = wp.tid()
        query = wp.bvh_query_aabb(bvh, low[i], high[i])
        j = wp.int32(0)
        n = wp.int32(0)
        while wp.bvh_query_next(query, j):
            n += 1
        out[i] = float(n)

    @wp.kernel
    def rays(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), d: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
        out[i] = wp.where(hit.result, hit.t, -1.0)

    @wp.kernel
    def nearest(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        hit = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
        if hit.result:
            out[i] = wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - x[i])

    return {
        "neighbours": neighbours,
        "in_order": in_order,
        "overlaps": overlaps,
        "rays": rays,
        "nearest": nearest,
    }


def programs(wp: ModuleType, data: Data) -> dict[str, Program]:
    """Return the rows of one of the Warps."""
    k, n = kernels(wp), data.n

    def points(a: np.ndarray) -> Any:
        return wp.array(a, dtype=wp.vec3, device="cpu")

    out = wp.zeros(n, dtype=float, device="cpu")
    x, low, high = points(data.points), points(data.low), points(data.high)
    starts, directions, near, anywhere = map(points, (data.starts, data.directions, data.near, data.anywhere))
    cells = max(8, int(1 / data.radius))
    grid = wp.HashGrid(cells, cells, cells, device="cpu")
    grid.build(x, float(data.radius))
    bvh = wp.Bvh(low, high)
    vertices, indices = points(data.vertices), wp.array(data.faces.ravel(), dtype=int, device="cpu")
    made = [wp.Mesh(vertices, indices, bvh_leaf_size=4)]

    def queries(name: str, of: Any, *args: Any) -> Program:
        """Query ``of``, which has to be kept for as long as its id is used."""
        run = lambda: wp.launch(k[name], n, [of.id, *args], [out], device="cpu")  # noqa: E731
        return Program(run, lambda: out.numpy()[:CHECKED])

    def build() -> None:
        made[:] = [wp.Mesh(vertices, indices, bvh_leaf_size=4)]

    return {
        "neighbours": queries("neighbours", grid, x, float(data.radius)),
        "neighbours, in cells' order": queries("in_order", grid, x, float(data.radius)),
        "boxes that overlap": queries("overlaps", bvh, low, high),
        "rays": queries("rays", made[0], starts, directions),
        "nearest point, near the surface": queries("nearest", made[0], near),
        "nearest point, anywhere": queries("nearest", made[0], anywhere),
        "build of the grid": Program(lambda: grid.build(x, float(data.radius)), lambda: np.zeros(1)),
        "build of the mesh": Program(build, lambda: np.zeros(1)),
        "refit of the mesh": Program(made[0].refit, lambda: np.zeros(1)),
    }


def references(data: Data) -> dict[str, np.ndarray]:
    """Return what the first queries of each row find, by brute force."""
    first = slice(CHECKED)
    d = np.linalg.norm(data.points[first, None].astype(np.float64) - data.points, axis=-1)
    met = (data.low[first, None] <= data.high) & (data.high[first, None] >= data.low)
    sums = np.maximum(data.radius - d, 0).sum(1)
    a, b, c = (data.vertices[data.faces[:, k]].astype(np.float64) for k in range(3))
    return {
        "neighbours": sums,
        "neighbours, in cells' order": sums,
        "boxes that overlap": met.all(-1).sum(1),
        "rays": hits(a, b, c, data.starts[first], data.directions[first]),
        "nearest point, near the surface": distances(a, b, c, data.near[first]),
        "nearest point, anywhere": distances(a, b, c, data.anywhere[first]),
    }


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
        found.append(np.where(np.min(sides, axis=0) >= 0, plane, np.min(best, axis=0)).min())
    return np.array(found)


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    options = reporting.parser(__doc__).parse_args(argv)
    found = frameworks.find_frameworks(COLUMNS)
    if "warp_like" in found:
        found["warp_like"].config.num_threads = 1
    data = Data(2_000, 20) if options.quick else Data(300_000, 225)
    of = {column: programs(found[column], data) for column in COLUMNS if column in found}
    expected, rows = references(data), {}
    for row in next(iter(of.values())):
        of_row = {column: rows_of[row] for column, rows_of in of.items()}
        for program in of_row.values():
            program.run()
        wanted = expected.get(row, np.zeros(1))
        measured = timing.measure_row(row, of_row, wanted, reporting.budget(options, 3.0), rtol=2.0e-3)
        per = 1.0e-3 if row not in expected else data.n * 1.0e-6
        rows[row] = {column: seconds / per for column, seconds in measured.items()}
    title = f"{data.n} queries, {len(data.faces)} faces: microseconds a query, milliseconds a build"
    reporting.report("geometry", title, COLUMNS, rows, 1.0, options)
    return rows


if __name__ == "__main__":
    main()
