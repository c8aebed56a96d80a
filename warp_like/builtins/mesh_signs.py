"""Triangle meshes: on which side a point lies, the furthest point, and the faces within a sphere."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.bvh import VEC3
from warp_like.builtins.device import mesh_signs as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.mesh import GROUP, HELD, MESH_ID, NONE
from warp_like.builtins.spec import Inline, builtin, declare_row
from warp_like.ir.objects import MESH_QUERY_POINT, MESH_SPHERE_QUERY
from warp_like.ir.types import bool_, float32, int32, uint64

_AT = {"nodes": uint64, "node": int32}
_FACE = {"p": VEC3, "q": VEC3, "r": VEC3}
_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_node_after", device.node_after, _AT, int32),
    ("_held_corners", device.held_corners, {"id": uint64, "face": int32}, (VEC3, VEC3, VEC3)),
    ("_corner_angle", device.corner_angle, {"at": VEC3, "a": VEC3, "b": VEC3}, float32),
    ("_edge_distance_sq", device.edge_distance_sq, {"y": VEC3, "a": VEC3, "b": VEC3}, float32),
    ("_angle_at", device.angle_at, {"y": VEC3, **_FACE, "eps_sq": float32}, float32),
    ("_pseudo_normal", device.pseudo_normal, {"id": uint64, "y": VEC3, "eps": float32}, VEC3),
    (
        "_mesh_is_inside_by_parity",
        device.is_inside_by_parity,
        {"id": uint64, "x": VEC3, "n_sample": int32, "scale": float32},
        bool_,
    ),
    ("_solid_angle", device.solid_angle, {"x": VEC3, **_FACE}, float32),
    ("_moment", device.moment, {"moments": uint64, "node": int32, "k": int32}, VEC3),
    (
        "_far_solid_angle",
        device.far_solid_angle,
        {"moments": uint64, "node": int32, "d": VEC3, "size": float32},
        float32,
    ),
    ("_winding_number", device.winding_number, {"id": uint64, "x": VEC3, "accuracy": float32}, float32),
    ("_furthest_corner", device.furthest_corner, {"x": VEC3, **_FACE}, (float32, float32, float32)),
    ("_box_furthest_sq", device.box_furthest_sq, {"low": VEC3, "high": VEC3, "x": VEC3}, float32),
    (
        "_mesh_sphere_step",
        device.sphere_step,
        {"query": MESH_SPHERE_QUERY, "index": int32},
        (MESH_SPHERE_QUERY, bool_, int32, bool_),
    ),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, adjoint=HELD, doc="Search a mesh.")

# --- signs ---


def _example(call: str, *more: str) -> str:
    arguments = ", ".join(("mesh", "wp.vec3(a[0], 0.0, 0.0)", "10.0", *more))
    return f"{MESH_ID}hit = wp.{call}({arguments})\nif hit.result:\n    a[0] = hit.u"


@builtin(
    group=GROUP,
    lower=Inline(device.query_point_sign_normal, called=True),
    example=_example("mesh_query_point_sign_normal"),
)
def mesh_query_point_sign_normal(
    id: uint64, point: VEC3, max_dist: float32, epsilon: float32 = 1e-3
) -> MESH_QUERY_POINT:
    """Return what ``mesh_query_point`` does, with the sign of the angle-weighted normal at the nearest point.

    That is the sum of the normals of all faces at this point, by the angles that they have there (Baerentzen and
    Aanaes, 2005): cheap, and right for closed meshes that do not intersect themselves. Faces whose distance to the
    nearest point is below ``epsilon``, in mean edges of the nearest face, count as being there.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_point_sign_parity, called=True),
    example=_example("mesh_query_point_sign_parity", "3"),
)
def mesh_query_point_sign_parity(
    id: uint64, point: VEC3, max_dist: float32, n_sample: int32 = 1, perturbation_scale: float32 = 0.1
) -> MESH_QUERY_POINT:
    """Return what ``mesh_query_point`` does; inside is where at least half of some rays meet an odd number of faces.

    So normals need not point outwards. There are ``n_sample`` rays, of direction (1, 1, 1) with up to
    ``perturbation_scale`` added to or taken from each component; the directions are the same in each call.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_point_sign_winding_number, called=True),
    example=_example("mesh_query_point_sign_winding_number"),
)
def mesh_query_point_sign_winding_number(
    id: uint64, point: VEC3, max_dist: float32, accuracy: float32 = 2.0, threshold: float32 = 0.5
) -> MESH_QUERY_POINT:
    """Return what ``mesh_query_point`` does; inside is where the winding number is above ``threshold``.

    The winding number is the share of all directions in which the mesh is seen from behind: 1 inside of a closed mesh,
    0 outside, and between them where it has holes. Parts that are farther away than ``accuracy`` times their size are
    taken together (Barill et al., 2018). The mesh has to be made with ``support_winding_number=True``; for others, the
    sign is that of ``mesh_query_point``.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.query_furthest, called=True),
    example=_example("mesh_query_furthest_point_no_sign"),
)
def mesh_query_furthest_point_no_sign(id: uint64, point: VEC3, min_dist: float32) -> MESH_QUERY_POINT:
    """Return the point of a mesh that is furthest from ``point``, if further than ``min_dist``.

    It is a vertex, given as a ``face`` with the weights ``u`` and ``v`` of its first two corners. ``sign`` is 0.
    Degenerate faces are left out.
    """


# --- forms with arguments to be assigned ---

_OUT = (
    MESH_ID
    + """inside, u, v, t = float(0.0), float(0.0), float(0.0), float(0.0)
face = int(0)
normal = wp.vec3(0.0)
if wp.{}:
    n[0] = face"""
)
_BY_SIGN = ("inside", "face", "bary_u", "bary_v")


def _older(name: str, more: str = "") -> str:
    signs = "" if name.endswith("no_sign") else "inside, "
    return _OUT.format(f"{name}(mesh, wp.vec3(a[0], 0.0, 0.0), 10.0, {signs}face, u, v{more})")


@builtin(
    group=GROUP,
    lower=Inline(device.point_into, called=True),
    assigns=_BY_SIGN,
    example=_older("mesh_query_point"),
)
def mesh_query_point(
    id: uint64, point: VEC3, max_dist: float32, inside: float32, face: int32, bary_u: float32, bary_v: float32
) -> (bool_, float32, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the last arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.parity_into, called=True),
    assigns=_BY_SIGN,
    example=_older("mesh_query_point_sign_parity"),
)
def mesh_query_point_sign_parity(  # noqa: F811
    id: uint64,
    point: VEC3,
    max_dist: float32,
    inside: float32,
    face: int32,
    bary_u: float32,
    bary_v: float32,
    n_sample: int32 = 1,
    perturbation_scale: float32 = 0.1,
) -> (bool_, float32, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.normal_into, called=True),
    assigns=_BY_SIGN,
    example=_older("mesh_query_point_sign_normal"),
)
def mesh_query_point_sign_normal(  # noqa: F811
    id: uint64,
    point: VEC3,
    max_dist: float32,
    inside: float32,
    face: int32,
    bary_u: float32,
    bary_v: float32,
    epsilon: float32 = 1e-3,
) -> (bool_, float32, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.winding_into, called=True),
    assigns=_BY_SIGN,
    example=_older("mesh_query_point_sign_winding_number"),
)
def mesh_query_point_sign_winding_number(  # noqa: F811
    id: uint64,
    point: VEC3,
    max_dist: float32,
    inside: float32,
    face: int32,
    bary_u: float32,
    bary_v: float32,
    accuracy: float32 = 2.0,
    threshold: float32 = 0.5,
) -> (bool_, float32, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.no_sign_into, called=True),
    assigns=_BY_SIGN[1:],
    example=_older("mesh_query_point_no_sign"),
)
def mesh_query_point_no_sign(
    id: uint64, point: VEC3, max_dist: float32, face: int32, bary_u: float32, bary_v: float32
) -> (bool_, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the last arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.furthest_into, called=True),
    assigns=_BY_SIGN[1:],
    example=_older("mesh_query_furthest_point_no_sign"),
)
def mesh_query_furthest_point_no_sign(  # noqa: F811
    id: uint64, point: VEC3, min_dist: float32, face: int32, bary_u: float32, bary_v: float32
) -> (bool_, int32, float32, float32):
    """Do the same in Warp's older form: return whether there is one, and assign it to the last arguments."""


@builtin(
    group=GROUP,
    lower=Inline(device.ray_into, called=True),
    assigns=("t", "bary_u", "bary_v", "sign", "normal", "face"),
    example=_OUT.format(
        "mesh_query_ray(mesh, wp.vec3(a[0], 0.0, 0.0), wp.vec3(0.0, 0.0, 1.0), 9.0, t, u, v, inside, normal, face)"
    ),
)
def mesh_query_ray(
    id: uint64,
    start: VEC3,
    dir: VEC3,
    max_t: float32,
    t: float32,
    bary_u: float32,
    bary_v: float32,
    sign: float32,
    normal: VEC3,
    face: int32,
    root: int32 = -1,
) -> (bool_, float32, float32, float32, float32, VEC3, int32):
    """Do the same in Warp's older form: return whether the ray meets the mesh, and assign the rest to arguments."""


# --- spheres ---

_WALK = (
    MESH_ID
    + """query = wp.mesh_query_sphere(mesh, wp.vec3(0.0), 1.0)
index = int(0)
while wp.{}(query, index):
    n[0] += 1"""
)


@builtin(
    group=GROUP,
    lower=Inline(device.query_sphere, called=True),
    adjoint=NONE,
    example=_WALK.format("mesh_query_next"),
)
def mesh_query_sphere(id: uint64, center: VEC3, radius: float32) -> MESH_SPHERE_QUERY:
    """Return a walk through the faces of a mesh that come within ``radius`` of ``center``; a negative one is 0.

    Loop over them with ``for face in query``, or with ``mesh_query_next``. Degenerate faces are left out.
    """


for _name in ("mesh_query_next", "mesh_query_aabb_next"):
    declare_row(
        _name,
        Inline(device.sphere_next, called=True),
        {"query": MESH_SPHERE_QUERY, "index": int32},
        (bool_, MESH_SPHERE_QUERY, int32),
        group=GROUP,
        doc="Do the same for a walk of ``mesh_query_sphere``.",
        adjoint=NONE,
        assigns=("query", "index"),
        example=_WALK.format(_name),
    )
