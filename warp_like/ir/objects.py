"""Objects that kernels query by id, such as hash grids: their descriptors, and the structs of queries.

An id is a uint64, as programs keep ids in arrays and structs. It is the address of a *descriptor*: words of 8 bytes,
each a pointer, an integer or the bits of a float64. ``AtAddress`` with a ``kind`` reads them. The runtime owns the
memory (``runtime/arrays/objects.py``), and kernels do not write it.
"""

from __future__ import annotations

from warp_like.base.contract import ObjectKind
from warp_like.ir.types import Array, Struct, Type, Vec, bool_, float32, float64, int32, int64, uint32, uint64

DESCRIPTORS: dict[int, tuple[str, ...]] = {
    ObjectKind.HASH_GRID: ("mark", "starts", "ids", "groups", "nx", "ny", "nz", "count", "scale"),
    ObjectKind.BVH: ("mark", "nodes", "order", "boxes", "groups", "node_count", "group_count", "count"),
    ObjectKind.MESH: (
        *("mark", "points", "points_gradient", "velocities", "velocities_gradient"),
        *("indices", "nodes", "order", "moments"),
        *("node_count", "face_count", "point_count", "bvh"),
        *("places", "corners", "wide"),
    ),
    ObjectKind.TEXTURE: ("mark", "data", "gradient", "levels", "about"),
    ObjectKind.VOLUME: (
        *("mark", "grid", "gradient", "type", "root", "root_size", "background", "tile_size", "tile_value"),
        *("stride", "upper_table", "lower_table", "leaf_values", "value_size", "voxel_count"),
        *("indexing", "first_leaf", "leaf_size"),
        *("table", "table_x", "table_y", "table_z", "table_nx", "table_ny", "table_nz"),
    ),
}
"""The words of each kind of descriptor.

* Hash grid: ``starts`` are int32, where the points of each cell start in ``ids``; the last is the number of points.
  Cell ``x, y, z`` has number ``(z * ny + y) * nx + x``. Points of a cell are in the order of ``groups`` (0 where there
  are none), then of their index. ``scale`` is how many cells there are in a unit of length.
* Bounding volume hierarchy: ``nodes`` have 8 words of 4 bytes, and lie in preorder (``native/bvh.cpp``). Leaves name
  items by their place in ``order``, as do ``boxes``, 6 float32 each. ``groups`` are int32 in rising order, then the
  root of each. ``count`` is the number of items.
* Mesh: ``points`` and ``velocities`` (0 where there are none) are arrays of the user's, which kernels may write.
  Adjoints of launches add to ``points_gradient`` and ``velocities_gradient``, which are 0 where there is none.
  ``bvh`` is the id of the hierarchy that ``nodes`` and ``order`` are of. ``moments``, 0 where winding numbers are not
  supported, are 16 float32 for each node: the middle of its faces by area, the radius around it, and of their normals
  times area the sum and the sum of the products with the places of the faces.
  ``corners`` are those of the faces at the last
  build or refit, which is what searches see: blocks of 80 words, 9 rows of 8 coordinates, then the faces' numbers, with
  all bits turned where a face is degenerate. ``places`` says for each place in ``order`` where in ``corners`` the face
  has its first word. ``wide`` is the tree of width 8 (``native/wide_bvh.h``), which native searches walk.
* Texture: ``data`` are the texels of all levels, float32, and ``levels`` says where each begins and how large it is
  (``builtins/device/textures.py``). Adjoints of launches add to ``gradient``, memory of the same layout, which is 0
  where there is none. ``about`` has what is small, from its lowest bit: the number of channels (8 bits)
  and of levels (8), whether coordinates are normalized, whether texels and levels are filtered (1 each), and the
  address mode of each axis (2 each).
* Volume: ``grid`` is a grid of NanoVDB, whose voxels kernels may write, and ``root`` the byte where its root begins.
  Adjoints of launches add to ``gradient``, memory of the same layout, which is 0 where there is none.
  ``voxel_count`` is how many numbers of voxels there are. ``indexing`` says how a voxel gets one: by the place of its
  tile behind ``first_leaf`` (0), by the tile's first number (1), or by this and the voxels of the tile that count (2).
  ``table`` has an int32 for each tile of a box: ``table_nx`` times ``table_ny`` times ``table_nz`` tiles, which begin
  with tile ``table_x, table_y, table_z``; 0 where there is none (``runtime/geometry/nanovdb_table.py``).
  The others say how nodes are laid out for values of the ``type`` (``runtime/geometry/nanovdb.py``).
"""

NAMES = {
    ObjectKind.HASH_GRID: "hash grid",
    ObjectKind.BVH: "bounding volume hierarchy",
    ObjectKind.MESH: "mesh",
    ObjectKind.TEXTURE: "texture",
    ObjectKind.VOLUME: "volume",
}
"""The kinds in words."""


GRID_TYPES: dict[Type, int] = {
    **dict(zip((float32, float64, int32, int64, uint32), (1, 2, 4, 5, 10), strict=True)),
    **{Vec(n, t): number for n, t, number in ((3, float32, 6), (3, float64, 7), (4, float32, 17), (4, float64, 18))},
}
"""The numbers that NanoVDB has for types of values."""


def mark_of(kind: int) -> int:
    """Return the first word of the descriptor of a live object; it is 0 when the object is gone."""
    return 0x6F626A6563740000 | kind


def _struct(name: str, /, **groups: Type) -> Struct:
    """A struct with fields of the same type in each group: ``_struct("P", x_y=int32)``."""
    return Struct(name, tuple((field, t) for names, t in groups.items() for field in names.split("_")))


TEXTURES = {
    n: Struct(f"Texture{n}D", (("id", uint64), *((axis, int32) for axis in ("width", "height", "depth")[:n])))
    for n in (1, 2, 3)
}
"""Textures by their number of dimensions, as kernels have them."""

HASH_GRID_QUERY = _struct(
    "HashGridQuery", starts_ids_groups=uint64, group_nx_ny_nz_px_py_pz_cx_cy_cz_x_y_z_current_end=int32
)
"""A walk through the points of some cells of a hash grid: ``px`` is the first cell of a row, ``cx`` their number and
``x`` how many are done; of the row that is under way, ``current`` to ``end`` are left."""

BVH_QUERY = _struct(
    "BvhQuery",
    nodes_order_boxes=uint64,
    kind_node_stop_current_end=int32,
    a_b=Vec(3, float32),
    radius=float32,
)
"""A walk through a tree: ``node`` comes next, and the walk ends before ``stop``; items ``current`` to ``end`` of a leaf
are left. ``kind`` says what is looked for: a box (0), a ray (1), a capsule (2) or a sphere (3)."""

TILED_QUERY = Struct("BvhQueryTiled", (("walk", BVH_QUERY), ("valid", bool_)))
"""A walk through a tree that the threads of a block make together, and whether the last step found an item."""

MESH = Struct(
    "Mesh",
    (("points", Array(Vec(3, float32), 1)), ("velocities", Array(Vec(3, float32), 1)), ("indices", Array(int32, 1))),
)
"""The arrays of a mesh, as ``wp.mesh_get`` gives them."""

MESH_SPHERE_QUERY = Struct("MeshSphereQuery", (("walk", BVH_QUERY), ("mesh", uint64)))
"""A walk through the boxes that a sphere meets, and the mesh whose faces are in them."""

MESH_QUERY_POINT = Struct(
    "MeshQueryPoint", (("result", bool_), ("sign", float32), ("face", int32), ("u", float32), ("v", float32))
)
"""A point of a mesh."""

MESH_QUERY_RAY = Struct(
    "MeshQueryRay",
    (
        *(("result", bool_), ("sign", float32), ("face", int32), ("t", float32), ("u", float32), ("v", float32)),
        ("normal", Vec(3, float32)),
    ),
)
"""Where a ray meets a mesh."""
