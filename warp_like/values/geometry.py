"""The classes of the structs that queries of geometry give in kernels (``ir/objects.py``), for annotations."""

from __future__ import annotations

from typing import Any

from warp_like.ir import objects
from warp_like.ir.types import Struct
from warp_like.values import class_of
from warp_like.values.struct import struct


def _class(t: Struct, doc: str, **members: Any) -> Any:
    fields = {name: class_of(field) for name, field in t.fields}
    return struct(type(t.name, (), {"__annotations__": fields, "__doc__": doc, "__module__": __name__, **members}))


HashGridQuery = _class(
    objects.HASH_GRID_QUERY,
    """Where a walk through the points near to another one is: what ``wp.hash_grid_query()`` gives in a kernel.

    It is one type for grids of all precisions, so ``wp.HashGridQuery[wp.float64]`` is the same. Its fields are of no
    use to programs.
    """,
    __class_getitem__=classmethod(lambda cls, dtype: cls),
)

BvhQuery = _class(
    objects.BVH_QUERY,
    """Where a walk through a bounding volume hierarchy is: what ``wp.bvh_query_aabb()`` and its like give in a kernel.

    Its fields are of no use to programs.
    """,
)

MeshQuery = MeshQueryAABB = BvhQuery

BvhQueryTiled = _class(
    objects.TILED_QUERY,
    """A walk that the threads of a block make together: what ``wp.tile_bvh_query_aabb()`` gives in a kernel.

    Its fields are of no use to programs.
    """,
)

MeshQueryAABBTiled = BvhQueryTiled

MeshSphereQuery = _class(
    objects.MESH_SPHERE_QUERY,
    """Where a walk through the faces near to a point is: what ``wp.mesh_query_sphere()`` gives in a kernel.

    Its fields are of no use to programs.
    """,
)

MeshQueryPoint = _class(
    objects.MESH_QUERY_POINT,
    """What ``wp.mesh_query_point()`` and its like find: the point of a mesh nearest to another one.

    Attributes:
        result: Whether there is one.
        sign: Negative where the other point lies inside of the mesh.
        face: The face.
        u: The weight of the face's first corner.
        v: The weight of its second corner.
    """,
)

MeshQueryRay = _class(
    objects.MESH_QUERY_RAY,
    """What ``wp.mesh_query_ray()`` finds: where a ray meets a mesh.

    Attributes:
        result: Whether it does.
        sign: Positive where it meets the face from the side of its normal.
        face: The face.
        t: How far away, in lengths of the direction.
        u: The weight of the face's first corner.
        v: The weight of its second corner.
        normal: The unit normal of the face.
    """,
)

STRUCTS = {
    c.__name__: c for c in (HashGridQuery, BvhQuery, BvhQueryTiled, MeshSphereQuery, MeshQueryPoint, MeshQueryRay)
}
"""By their names, as bodies of builtins call them."""
