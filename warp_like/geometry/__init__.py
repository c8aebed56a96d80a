"""Geometry of whole arrays: ``import warp_like.geometry``, as ``warp.geometry``.

It is written in kernels and whole-array operations of the public API. All functions run on the device of their arrays.
"""

from __future__ import annotations

from warp_like.geometry.adjacency import find_triangle_neighbor_edge_index, tri_tri_adjacency
from warp_like.geometry.delaunay import delaunay_edge_flip
from warp_like.geometry.iso_surface import IsoSurfaceBase
from warp_like.geometry.marching_cubes import IsoSurfaceMarchingCubes
from warp_like.geometry.octree import lipschitz_octree, sparse_marching_cubes
from warp_like.geometry.sparse_cubes import sparse_marching_cubes_from_cells
from warp_like.geometry.surface_nets import IsoSurfaceNets
from warp_like.geometry.swept_volume import (
    SweptVolumeSignMode,
    swept_volume_bounds,
    swept_volume_field,
    swept_volume_mesh,
    swept_volume_sdf,
)

__all__ = [
    "IsoSurfaceBase",
    "IsoSurfaceMarchingCubes",
    "IsoSurfaceNets",
    "SweptVolumeSignMode",
    "delaunay_edge_flip",
    "find_triangle_neighbor_edge_index",
    "lipschitz_octree",
    "sparse_marching_cubes",
    "sparse_marching_cubes_from_cells",
    "swept_volume_bounds",
    "swept_volume_field",
    "swept_volume_mesh",
    "swept_volume_sdf",
    "tri_tri_adjacency",
]
