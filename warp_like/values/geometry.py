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

STRUCTS = {c.__name__: c for c in (HashGridQuery, BvhQuery)}
"""By their names, as bodies of builtins call them."""
