"""Walks through trees that the threads of a block make together: each step gives a tile of one item for each thread."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.bvh import FOUND, GROUP, VEC3
from warp_like.builtins.device import tiled_queries as device
from warp_like.builtins.spec import Inline, Special, builtin, declare_row
from warp_like.ir.objects import TILED_QUERY
from warp_like.ir.types import bool_, int32, uint64


def _example(call: str, following: str, of: str = "bvh") -> str:
    return f"""{of} = wp.uint64(0)  # the `id` of a wp.{of.capitalize()}; none has no items
x = wp.vec3(0.0)
query = wp.{call}
while wp.tile_query_valid(query):
    item = wp.untile(wp.{following}(query))
    if item >= 0:
        n[0] += 1"""


_BOX, _RAY = "tile_bvh_query_aabb(bvh, x, x + wp.vec3(1.0))", "tile_bvh_query_ray(bvh, x, wp.vec3(1.0, 0.0, 0.0))"
_FACES, _NEXT, _NEXT_FACE = "tile_mesh_query_aabb(mesh, x, x)", "tile_bvh_query_next", "tile_mesh_query_aabb_next"


_STEP = Special(gradient="none, since which items are found changes in steps")


@builtin(group=GROUP, lower=Inline(device.aabb, called=True), adjoint=FOUND, example=_example(_BOX, _NEXT))
def tile_bvh_query_aabb(id: uint64, low: VEC3, high: VEC3, root: int32 = -1) -> TILED_QUERY:
    """Return a walk of the whole block through the boxes that the one from ``low`` to ``high`` meets, or touches.

    Loop with ``while wp.tile_query_valid(query)``, and take a box for each thread with ``tile_bvh_query_next``. All
    threads of the block give the same arguments. ``root`` is as in ``bvh_query_aabb``. Walks may stand in each other.
    """


@builtin(group=GROUP, lower=Inline(device.ray, called=True), adjoint=FOUND, example=_example(_RAY, _NEXT))
def tile_bvh_query_ray(id: uint64, start: VEC3, dir: VEC3, root: int32 = -1) -> TILED_QUERY:
    """Return a walk of the whole block through the boxes that a ray meets, in no order.

    The ray has no end. Loop as for ``tile_bvh_query_aabb``. All threads of the block give the same arguments.
    """


@builtin(
    group=GROUP, lower=Inline(device.faces, called=True), adjoint=FOUND, example=_example(_FACES, _NEXT_FACE, "mesh")
)
def tile_mesh_query_aabb(id: uint64, low: VEC3, high: VEC3) -> TILED_QUERY:
    """Return a walk of the whole block through the faces of a mesh whose boxes meet, or touch, another box.

    Loop with ``while wp.tile_query_valid(query)``, and take a face for each thread with ``tile_mesh_query_aabb_next``.
    All threads of the block give the same arguments.
    """


@builtin(group=GROUP, lower=Inline(device.valid, called=True), adjoint=FOUND, example=_example(_BOX, _NEXT))
def tile_query_valid(query: TILED_QUERY) -> bool_:
    """Return whether to go on with a walk of the block: not after a step that has found nothing for any thread."""


@builtin(
    group=GROUP,
    lower=_STEP,
    assigns=("query",),
    example=_example(_BOX, _NEXT),
)
def tile_bvh_query_next(query: Any) -> Any:
    """Go on with a walk of the block; return a tile of a box for each thread, -1 where there is none.

    ``query`` is a variable, which the call changes. All threads of the block come by together. ``wp.untile`` gives each
    thread its box. A block may have one thread, as it has on the CPU unless ``enable_cpu_blocks`` is set.
    """


@builtin(
    group=GROUP,
    lower=_STEP,
    assigns=("query",),
    example=_example(_FACES, _NEXT_FACE, "mesh"),
)
def tile_mesh_query_aabb_next(query: Any) -> Any:
    """Do what ``tile_bvh_query_next`` does, for the faces of a mesh."""


for _old, _new, _body, _params in (
    ("bvh_query_aabb_tiled", _BOX, device.aabb_alone, ("low", "high")),
    ("bvh_query_ray_tiled", _RAY, device.ray_alone, ("start", "dir")),
    ("mesh_query_aabb_tiled", _FACES, device.faces, ("low", "high")),
):
    _name, _is_mesh = _new.split("(")[0], _old.startswith("mesh")
    declare_row(
        _old,
        Inline(_body, called=True),
        {"id": uint64, **dict.fromkeys(_params, VEC3)},
        TILED_QUERY,
        group=GROUP,
        adjoint=FOUND,
        doc=f"Return what ``{_name}`` returns, of which it is the older name.",
        example=_example(_new.replace(_name, _old), _NEXT_FACE if _is_mesh else _NEXT, "mesh" if _is_mesh else "bvh"),
    )


@builtin(
    group=GROUP,
    lower=_STEP,
    assigns=("query",),
    example=_example(_BOX, "bvh_query_next_tiled"),
)
def bvh_query_next_tiled(query: Any) -> Any:
    """Do what ``tile_bvh_query_next`` does, of which it is the older name."""


@builtin(
    group=GROUP,
    lower=_STEP,
    assigns=("query",),
    example=_example(_FACES, "mesh_query_aabb_next_tiled", "mesh"),
)
def mesh_query_aabb_next_tiled(query: Any) -> Any:
    """Do what ``tile_mesh_query_aabb_next`` does, of which it is the older name."""
