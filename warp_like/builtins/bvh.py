"""Bounding volume hierarchies: which boxes meet a box, a ray, a capsule or a sphere."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

import math
from typing import Any

from warp_like.builtins.device import bvh as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.spec import Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.objects import BVH_QUERY as QUERY
from warp_like.ir.types import Vec, bool_, float32, int32, int64, uint64

GROUP = "Geometry"
VEC3 = Vec(3, float32)
FOUND = NoGradient("which boxes are met changes in steps")

declare_row("_bvh", Special(), {"id": Any, "word": Any}, None, group=PRIVATE, doc="Read memory of an object.")

_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_bvh_walk", device.walk, {"id": uint64, "root": int32}, QUERY),
    ("_bvh_walk_of_numbers", device.walk_of_numbers, {"id": uint64, "root": int32, "a": VEC3, "b": VEC3}, QUERY),
    (
        "_slab",
        device.slab,
        {"low": float32, "high": float32, "start": float32, "reciprocal": float32},
        (float32, float32),
    ),
    (
        "_ray_meets",
        device.ray_meets,
        {"low": VEC3, "high": VEC3, "start": VEC3, "reciprocal": VEC3},
        (float32, bool_),
    ),
    ("_outside", device.outside, {"low": float32, "high": float32, "x": float32}, float32),
    ("_box_distance_sq", device.box_distance_sq, {"low": VEC3, "high": VEC3, "p": VEC3}, float32),
    ("_bvh_box_at", device.box_at, {"boxes": uint64, "at": int32}, (VEC3, VEC3)),
    ("_boxes_meet", device.boxes_meet, {"boxes": uint64, "at": int32, "low": VEC3, "high": VEC3}, bool_),
    ("_bvh_meets", device.meets, {"q": QUERY, "boxes": uint64, "at": int32, "max_dist": float32}, bool_),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(
        _name, Inline(_body, called=True), _taken, _given, group=PRIVATE, adjoint=FOUND, doc="Walk through a tree."
    )


declare_row(
    "_bvh_next_in_box",
    Inline(device.next_in_box, native="wl_next_in_box"),
    {
        "nodes": uint64,
        "boxes": uint64,
        **dict.fromkeys(("node", "stop", "current", "end"), int32),
        "low": VEC3,
        "high": VEC3,
    },
    int64,
    group=PRIVATE,
    adjoint=FOUND,
    doc="Walk through a tree to the next item that a box meets.",
)


def _example(call: str, after: str = "") -> str:
    return f"""bvh = wp.uint64(0)  # the `id` of a wp.Bvh; that of none, which has no boxes
x = wp.vec3(a[0], 0.0, 0.0)
query = wp.{call}
index = int(0)
while wp.bvh_query_next(query, index{after}):
    n[0] += 1"""


@builtin(
    group=GROUP,
    lower=Inline(device.aabb, called=True),
    adjoint=FOUND,
    example=_example("bvh_query_aabb(bvh, x, x + wp.vec3(1.0))"),
)
def bvh_query_aabb(id: uint64, low: VEC3, high: VEC3, root: int32 = -1) -> QUERY:
    """Return a walk through the boxes of a hierarchy that the box from ``low`` to ``high`` meets, or touches.

    Loop over them with ``for index in query``, or with ``bvh_query_next``. ``root`` is a node below which the walk
    stays, as ``bvh_get_group_root`` gives it; -1 is the whole tree. Where ``id`` is 0, there are no boxes.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.ray, called=True),
    adjoint=FOUND,
    example=_example("bvh_query_ray(bvh, x, wp.vec3(1.0, 0.0, 0.0))"),
)
def bvh_query_ray(id: uint64, start: VEC3, dir: VEC3, root: int32 = -1) -> QUERY:
    """Return a walk through the boxes that a ray meets, in no order.

    Distances along the ray count in lengths of ``dir``. ``root`` is as in ``bvh_query_aabb``.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.capsule, called=True),
    adjoint=FOUND,
    example=_example("bvh_query_capsule(bvh, x, wp.vec3(1.0, 0.0, 0.0), 0.5)", ", 1.0"),
)
def bvh_query_capsule(id: uint64, start: VEC3, dir: VEC3, radius: float32, root: int32 = -1) -> QUERY:
    """Return a walk through the boxes that a ray meets when they are larger by ``radius`` on all sides.

    These are all boxes within ``radius`` of the ray, and some near to it at their corners. With ``max_dist=1.0`` in
    ``bvh_query_next``, ``dir`` leads from one end of a capsule to the other. A negative ``radius`` counts as 0.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.sphere, called=True),
    adjoint=FOUND,
    example=_example("bvh_query_sphere(bvh, x, 0.5)"),
)
def bvh_query_sphere(id: uint64, center: VEC3, radius: float32, root: int32 = -1) -> QUERY:
    """Return a walk through the boxes that a sphere meets, or touches. A negative ``radius`` counts as 0."""


@builtin(
    group=GROUP,
    lower=Inline(device.next_item, called=True),
    adjoint=FOUND,
    assigns=("query", "index"),
    example=_example("bvh_query_aabb(bvh, x, x)"),
)
def bvh_query_next(query: QUERY, index: int32, max_dist: float32 = math.inf) -> (bool_, QUERY, int32):
    """Set ``index`` to the next box of a walk and return true; return false at its end, where ``index`` stays.

    ``query`` and ``index`` are variables, which the call changes. A ray finds boxes nearer than ``max_dist``, which may
    shrink from call to call; a capsule those not farther.
    """


@builtin(
    group=GROUP,
    lower=Inline(device.group_root, called=True),
    adjoint=FOUND,
    example="root = wp.bvh_get_group_root(wp.uint64(0), 3)\nn[0] = root",
)
def bvh_get_group_root(id: uint64, group: int32) -> int32:
    """Return the node below which all boxes of a group lie; -1, the whole tree, where there is no such group."""
