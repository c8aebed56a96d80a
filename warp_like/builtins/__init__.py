"""Builtins: each declared once, in one table file a topic; everything else about them follows from the rows.

Importing this package fills the registry, in the order in which overloads are tried and shown. ``frontend.builtin`` is
what users have of it, and loads it when needed.
"""

# isort: off
from warp_like.builtins import operators, logic, scalar, powers, error_function  # noqa: F401
from warp_like.builtins import vector, matrix, utility, special, blocks, quaternion, transform, spatial, geometry  # noqa: F401
from warp_like.builtins import decompositions, random, noise, hash_grid, bvh, mesh, mesh_signs, textures, volumes  # noqa: F401
from warp_like.builtins import tiles, tile_algebra, tile_fourier, tile_sorting, tile_calls  # noqa: F401

# isort: on
