"""Triangle meshes: rays, the nearest point, and what a face and a vertex is."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.bvh import VEC3
from warp_like.builtins.device import mesh as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.patterns import AnyValue
from warp_like.builtins.spec import Expand, Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.objects import BVH_QUERY, MESH_QUERY_POINT, MESH_QUERY_RAY
from warp_like.ir.types import Vec, bool_, float32, float64, int32, uint64

GROUP = "Geometry"
NONE = NoGradient("a number of a face or a vertex carries no gradient")
HELD = NoGradient("the face is held")

for _name, _params in {
    "_mesh": ("id", "word"),
    "_memory_at": ("address", "i", "dtype"),
    "_graded_at": ("address", "gradient", "i", "dtype"),
}.items():
    declare_row(_name, Special(), dict.fromkeys(_params, Any), None, group=PRIVATE, doc="Read memory of an object.")

_T = AnyValue("T")
declare_row(
    "_detached",
    Expand(lambda b, x: x),
    {"x": _T},
    _T,
    group=PRIVATE,
    doc="Return ``x``, without its gradient.",
    adjoint=HELD,
    ref=lambda x: x,
)

declare_row(
    "_with_slope",
    Expand(lambda b, value, like: value),
    {"value": float32, "like": float32},
    float32,
    group=PRIVATE,
    doc="Return ``value``, with the gradient of ``like``.",
    adjoint=lambda b, g, out, value, like: (b.zero(g.type), g),
    ref=lambda value, like: value,
)

_RAY = {"start": VEC3, "dir": VEC3}
_FACE = {"p": VEC3, "q": VEC3, "r": VEC3}
_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_mesh_vertex", device.vertex, {"id": uint64, "i": int32}, VEC3),
    ("_mesh_memory", device.memory, {"id": uint64}, (*[uint64] * 5, int32, int32)),
    ("_face_corners", device.face_corners, {"points": uint64, "indices": uint64, "face": int32}, (VEC3, VEC3, VEC3)),
    ("_far_side", device.far_side, {"reciprocal": float32}, int32),
    ("_safe_reciprocal", device.safe_reciprocal, {"x": float32}, float32),
    ("_leaving", device.leaving, {"plane": float32, "start": float32, "reciprocal": float32}, float32),
    ("_mesh_corners", device.corners, {"id": uint64, "face": int32}, (VEC3, VEC3, VEC3)),
    ("_node_low", device.low_of, {"nodes": uint64, "node": int32}, VEC3),
    ("_node_high", device.high_of, {"nodes": uint64, "node": int32}, VEC3),
    ("_mesh_has_face", device.has_face, {"id": uint64, "face": int32}, bool_),
    ("_tree_corners", device.tree_corners, {"corners": uint64, "at": int32}, (VEC3, VEC3, VEC3)),
    ("_face_at", device.face_at, {"corners": uint64, "at": int32}, int32),
    ("_face_word", device.face_word, {"corners": uint64, "at": int32}, int32),
    ("_all_finite", device.all_finite, {"v": VEC3}, bool_),
    ("_turned", device.turned, {"v": VEC3, "axis": int32}, VEC3),
    ("_ray_hits", device.ray_hits, {**_RAY, **_FACE}, (float32, bool_)),
    (
        "_entry",
        device.entry,
        {"nodes": uint64, "node": int32, "start": VEC3, "reciprocal": VEC3, "nearest": float32},
        float32,
    ),
    (
        "_mesh_ray_search",
        device.ray_search,
        {"id": uint64, **_RAY, "max_t": float32, "root": int32, "any": int32},
        int32,
    ),
    ("_edge_scale", device.edge_scale, {"e": VEC3, "f": VEC3}, float32),
    ("_face_normal", device.face_normal, _FACE, VEC3),
    ("_has_area", device.has_area, _FACE, bool_),
    ("_in_doubles", device.in_doubles, {"v": VEC3}, Vec(3, float64)),
    ("_ray_on_plane", device.ray_on_plane, {**_RAY, **_FACE}, (float64,) * 5),
    (
        "_ray_within",
        device.ray_within,
        dict.fromkeys(("weight", "change", "low", "high"), float64),
        (float64, float64),
    ),
    ("_ray_on_face", device.ray_on_face, {**_RAY, **_FACE}, (float32, float32, float32)),
    ("_closest_on_face", device.closest_on_face, {"x": VEC3, **_FACE}, (float32, float32)),
    ("_face_distance_sq", device.face_distance_sq, {"x": VEC3, **_FACE}, float32),
    ("_mesh_point_search", device.point_search, {"id": uint64, "x": VEC3, "max_dist": float32}, int32),
    ("_mesh_on_face", device.on_face, {"id": uint64, "point": VEC3, "face": int32}, MESH_QUERY_POINT),
    ("_mesh_is_inside", device.is_inside, {"id": uint64, "x": VEC3}, bool_),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, doc="Search a mesh.")

# Searches read nothing but the tree, so that a call need not stand where it was written, nor be opened.
_TREE = {"nodes": uint64, "places": uint64, "corners": uint64, "wide": uint64, "count": int32}
declare_row(
    "_tree_ray",
    Inline(device.tree_ray, native="wl_tree_ray", lanes="wl_tree_rays"),
    {**_TREE, **_RAY, "max_t": float32, "root": int32, "any": int32},
    int32,
    group=PRIVATE,
    doc="Search a tree for the face that a ray meets.",
    adjoint=NONE,
)
declare_row(
    "_tree_point",
    Inline(device.tree_point, native="wl_tree_point"),
    {**_TREE, "x": VEC3, "max_dist": float32},
    int32,
    group=PRIVATE,
    doc="Search a tree for the face nearest to a point.",
    adjoint=NONE,
)

MESH_ID = "mesh = wp.uint64(0)  # the `id` of a wp.Mesh; that of none, which has no faces\n"
_HIT = "\nif hit.result:\n    a[0] = hit.{}"


@builtin(
    group=GROUP,
    lower=Inline(device.query_ray, called=True),
    example=MESH_ID
    + "hit = wp.mesh_query_ray(mesh, wp.vec3(a[0], 0.0, 0.0), wp.vec3(0.0, 0.0, 1.0), 100.0)"
    + _HIT.format("t"),
)
def mesh_query_ray(id: uint64, start: VEC3, dir: VEC3, max_t: float32, root: int32 = -1) -> MESH_QUERY_RAY:
    """Return where a ray meets a mesh first, if nearer than ``max_t``.

    The fields of the result are ``result``, whether it does; ``face``; ``t``, how far away in lengths of ``dir``; ``u``
    and ``v``, the weights of the face's first two corners, for ``mesh_eval_position``; the unit ``normal`` of the face;
    and ``sign``, positive where the ray meets the face from the side of the normal. Rays do not slip through between
    faces that share an edge. ``root`` is a node below which the search stays, as ``mesh_get_group_root`` gives it.

    ``t``, ``u`` and ``v`` have gradients to ``start`` and ``dir``, for the face that is met.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_ray_anyhit, called=True),
    adjoint=NONE,
    example=MESH_ID
    + "if wp.mesh_query_ray_anyhit(mesh, wp.vec3(a[0], 0.0, 0.0), wp.vec3(0.0, 0.0, 1.0), 100.0):\n    n[0] = 1",
)
def mesh_query_ray_anyhit(id: uint64, start: VEC3, dir: VEC3, max_t: float32, root: int32 = -1) -> bool_:
    """Return whether a ray meets a mesh nearer than ``max_t``."""


@builtin(
    group=GROUP,
    lower=Inline(device.count_intersections, called=True),
    adjoint=NONE,
    example=MESH_ID
    + "n[0] = wp.mesh_query_ray_count_intersections(mesh, wp.vec3(a[0], 0.0, 0.0), wp.vec3(0.0, 0.0, 1.0))",
)
def mesh_query_ray_count_intersections(id: uint64, start: VEC3, dir: VEC3, root: int32 = -1) -> int32:
    """Return how many faces of a mesh a ray meets. A ray through an edge counts each face there."""


_POINT = MESH_ID + "hit = wp.{}(mesh, wp.vec3(a[0], 0.0, 0.0), 10.0)" + _HIT.format("u")


@builtin(
    group=GROUP,
    lower=Inline(device.query_point_no_sign, called=True),
    example=_POINT.format("mesh_query_point_no_sign"),
)
def mesh_query_point_no_sign(id: uint64, point: VEC3, max_dist: float32) -> MESH_QUERY_POINT:
    """Return the point of a mesh that is nearest to ``point``, if nearer than ``max_dist``.

    The fields of the result are ``result``, whether there is one; ``face``; and ``u`` and ``v``, the weights of the
    face's first two corners, for ``mesh_eval_position``. ``sign`` is 0. Degenerate faces are left out. ``u`` and ``v``
    have gradients to ``point``, for the face that was found.
    """


@builtin(group=GROUP, lower=Inline(device.query_point, called=True), example=_POINT.format("mesh_query_point"))
def mesh_query_point(id: uint64, point: VEC3, max_dist: float32) -> MESH_QUERY_POINT:
    """Return the point of a mesh that is nearest to ``point``, and on which side of the mesh ``point`` lies.

    As ``mesh_query_point_no_sign``; ``sign`` is -1 inside of the mesh, and 1 outside. Rays along the three axes decide
    by vote: one for each that meets a face from behind first. So the mesh has to be closed, with normals that point
    outwards.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.eval_position, called=True),
    example=MESH_ID + "x = wp.mesh_eval_position(mesh, 0, 0.3, 0.3)\na[0] = x[0]",
)
def mesh_eval_position(id: uint64, face: int32, bary_u: float32, bary_v: float32) -> VEC3:
    """Return the point of a face whose first two corners have the weights ``bary_u`` and ``bary_v``.

    The third has the rest of 1. It is zero for a face that is not there. It has gradients to the weights.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.eval_velocity, called=True),
    example=MESH_ID + "x = wp.mesh_eval_velocity(mesh, 0, 0.3, 0.3)\na[0] = x[0]",
)
def mesh_eval_velocity(id: uint64, face: int32, bary_u: float32, bary_v: float32) -> VEC3:
    """Return the velocity at a point of a face, as ``mesh_eval_position`` the point; zero without velocities."""


@builtin(
    group=GROUP,
    lower=Inline(device.eval_face_normal, called=True),
    example=MESH_ID + "x = wp.mesh_eval_face_normal(mesh, 0)\na[0] = x[0]",
)
def mesh_eval_face_normal(id: uint64, face: int32) -> VEC3:
    """Return the unit normal of a face: seen from where it points to, the corners turn to the left."""


@builtin(
    group=GROUP,
    lower=Inline(device.get_point, called=True),
    example=MESH_ID + "x = wp.mesh_get_point(mesh, 0)\na[0] = x[0]",
)
def mesh_get_point(id: uint64, index: int32) -> VEC3:
    """Return a corner of a face: ``index`` is 3 times the face, plus 0, 1 or 2; zero for one that is not there."""


@builtin(
    group=GROUP,
    lower=Inline(device.get_velocity, called=True),
    example=MESH_ID + "x = wp.mesh_get_velocity(mesh, 0)\na[0] = x[0]",
)
def mesh_get_velocity(id: uint64, index: int32) -> VEC3:
    """Return the velocity of a corner of a face, counted as in ``mesh_get_point``."""


@builtin(
    group=GROUP,
    lower=Inline(device.get_index, called=True),
    adjoint=NONE,
    example=MESH_ID + "n[0] = wp.mesh_get_index(mesh, 0)",
)
def mesh_get_index(id: uint64, index: int32) -> int32:
    """Return the number of the vertex at a corner of a face, counted as in ``mesh_get_point``; -1 for none."""


@builtin(
    group=GROUP,
    lower=Inline(device.get_bvh, called=True),
    adjoint=NONE,
    example=MESH_ID + "query = wp.bvh_query_aabb(wp.mesh_get_bvh(mesh), wp.vec3(0.0), wp.vec3(1.0))",
)
def mesh_get_bvh(id: uint64) -> uint64:
    """Return the id of the hierarchy over the boxes of a mesh's faces, for ``bvh_query_ray`` and its like."""


@builtin(
    group=GROUP,
    lower=Inline(device.group_root, called=True),
    adjoint=NONE,
    example=MESH_ID + "root = wp.mesh_get_group_root(mesh, 3)\nn[0] = root",
)
def mesh_get_group_root(id: uint64, group: int32) -> int32:
    """Return the node below which all faces of a group lie; -1, the whole mesh, where there is no such group."""


@builtin(
    group=GROUP,
    lower=Special(gradient="Elements of ``points`` and ``velocities`` send gradients to the arrays of the mesh."),
    example=MESH_ID + "arrays = wp.mesh_get(mesh)\nn[0] = arrays.indices.shape[0]",
)
def mesh_get(id: Any) -> Any:
    """Return the arrays of a mesh: ``points``, ``velocities`` and ``indices``.

    ``indices`` are three for each face. Without velocities, and for an ``id`` of 0, arrays are empty.
    """


_WALK = (
    MESH_ID
    + """query = wp.mesh_query_aabb(mesh, wp.vec3(0.0), wp.vec3(1.0))
index = int(0)
while wp.mesh_query_next(query, index):
    n[0] += 1"""
)


@builtin(group=GROUP, lower=Inline(device.query_aabb, called=True), adjoint=NONE, example=_WALK)
def mesh_query_aabb(id: uint64, low: VEC3, high: VEC3) -> BVH_QUERY:
    """Return a walk through the faces of a mesh whose boxes meet, or touch, the one from ``low`` to ``high``.

    Loop over them with ``for face in query``, or with ``mesh_query_next``.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_next, called=True),
    adjoint=NONE,
    assigns=("query", "index"),
    example=_WALK,
)
def mesh_query_next(query: BVH_QUERY, index: int32) -> (bool_, BVH_QUERY, int32):
    """Set ``index`` to the next face of a walk and return true; return false at its end, where ``index`` stays."""


@builtin(
    group=GROUP,
    lower=Inline(device.query_next, called=True),
    adjoint=NONE,
    assigns=("query", "index"),
    example=_WALK.replace("mesh_query_next", "mesh_query_aabb_next"),
)
def mesh_query_aabb_next(query: BVH_QUERY, index: int32) -> (bool_, BVH_QUERY, int32):
    """Do what ``mesh_query_next`` does, which is its newer name."""
