"""Hash grids: the points near to another one."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.device import hash_grid as device
from warp_like.builtins.patterns import V3, F
from warp_like.builtins.spec import Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.objects import HASH_GRID_QUERY as QUERY
from warp_like.ir.types import bool_, int32, int64, uint64

GROUP = "Geometry"
PRIVATE = "Objects"
NEIGHBOURS = NoGradient("which points are near changes in steps")

# --- memory ---

for _name, _params in {"_hash_grid": ("id", "word"), "_constant_at": ("address", "i", "dtype")}.items():
    declare_row(_name, Special(), dict.fromkeys(_params, Any), None, group=PRIVATE, doc="Read memory of an object.")

# --- cells ---

_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_cell_coordinate", device.cell_coordinate, {"v": F}, int32),
    ("_wrapped", device.wrapped, {"x": int32, "n": int32}, int32),
    ("_cell_of", device.cell_of, {"point": V3, "scale": F, "nx": int32, "ny": int32, "nz": int32}, int32),
    ("_cells_between", device.cells_between, {"first": int32, "last": int32, "n": int32}, int32),
    ("_moved", device.moved, {"first": int32, "k": int32, "n": int32}, int32),
    (
        "_hash_grid_query",
        device.query,
        {"id": uint64, "point": V3, "max_dist": F, "group": int32, "filters": int32},
        QUERY,
    ),
    ("_hash_grid_next_row", device.next_row, {"q": QUERY}, (bool_, QUERY)),
    ("_hash_grid_first_row", device.first_row, {"q": QUERY}, (bool_, QUERY)),
    ("_first_of_group", device.first_of_group, {"groups": uint64, "lo": int32, "hi": int32, "group": int64}, int32),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(
        _name, Inline(_body, called=True), _taken, _given, group=PRIVATE, adjoint=NEIGHBOURS, doc="Walk through cells."
    )

# --- public ---

_EXAMPLE = """query = wp.hash_grid_query(grid, wp.vec3(a[0], 0.0, 0.0), 0.5)
index = int(0)
while wp.hash_grid_query_next(query, index):
    n[0] += 1"""
NO_GRID = "grid = wp.uint64(0)  # the `id` of a wp.HashGrid; that of none, which has no points\n"


@builtin(group=GROUP, lower=Inline(device.query_all, called=True), adjoint=NEIGHBOURS, example=NO_GRID + _EXAMPLE)
def hash_grid_query(id: uint64, point: V3, max_dist: F) -> QUERY:
    """Return a walk through the points of a hash grid that may be within ``max_dist`` of ``point``.

    These are all points in cells that the box from ``point - max_dist`` to ``point + max_dist`` meets, so that some are
    farther away: compare the distance. Loop over them with ``for index in query``, or with ``hash_grid_query_next``.
    Points are in the cells in which they were when the grid was built. Cells wrap around at the ends of the grid: those
    of which ``x`` differs by its number of cells in that direction are one, and ``x`` may be negative.

    ``id`` is the grid's ``id``; where it is 0, there are no points.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_group, called=True),
    adjoint=NEIGHBOURS,
    example=NO_GRID + _EXAMPLE.replace("0.5)", "0.5, 3)"),
)
def hash_grid_query(id: uint64, point: V3, max_dist: F, group: int32) -> QUERY:  # noqa: F811
    """Return a walk through the points of one ``group`` near to ``point``.

    The groups are those that the grid was built with; in a grid without groups, all points count.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.next_point, called=True),
    adjoint=NEIGHBOURS,
    assigns=("query", "index"),
    example=NO_GRID + _EXAMPLE,
)
def hash_grid_query_next(query: QUERY, index: int32) -> (bool_, QUERY, int32):
    """Set ``index`` to the next point of a walk and return true; return false at its end, where ``index`` stays.

    ``query`` and ``index`` are variables, which the call changes.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.point_id, called=True),
    adjoint=NEIGHBOURS,
    example=NO_GRID + "n[0] = wp.hash_grid_point_id(grid, 0)",
)
def hash_grid_point_id(id: uint64, index: int32) -> int32:
    """Return the index of a point by its position in the grid's order, where points of one cell are neighbours.

    Threads that go through points in this order read memory that lies together. Returns -1 where there is no such
    point.
    """
