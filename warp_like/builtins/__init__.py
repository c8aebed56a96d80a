"""Builtins: each declared once, in one table file a topic; everything else about them follows from the rows.

Importing this package fills the registry, in the order in which overloads are tried and shown, with the topics that
most kernels need. The others, in ``LATER``, are imported when a builtin is asked for whose name begins as theirs do.
``frontend.builtin`` is what users have of it, and loads it when needed.
"""

from warp_like.builtins.spec import REGISTRY

# isort: off
from warp_like.builtins import operators, logic, scalar, powers, error_function  # noqa: F401
from warp_like.builtins import vector, matrix, utility, special, blocks, quaternion, transform, spatial, geometry  # noqa: F401
from warp_like.builtins import tiles  # noqa: F401

# isort: on

LATER = {
    "decompositions": ("svd", "qr", "eig"),
    "random": ("rand", "sample_", "poisson"),
    "noise": ("noise", "pnoise", "curlnoise"),
    "hash_grid": ("hash_grid",),
    "bvh": ("bvh",),
    "mesh": ("mesh",),
    "mesh_signs": ("mesh",),
    "textures": ("texture",),
    "volumes": ("volume",),
    "tile_algebra": ("tile",),
    "tile_fourier": ("tile_fft", "tile_ifft"),
    "tile_sorting": ("tile",),
    "tile_calls": ("tile", "untile"),
    "tiled_queries": (
        "tile_bvh",
        "tile_mesh",
        "tile_query",
        "bvh_query_aabb_tiled",
        "bvh_query_ray_tiled",
        "bvh_query_next_tiled",
        "mesh_query_aabb_tiled",
        "mesh_query_aabb_next_tiled",
    ),
}
"""The topics that are imported when needed, and how the names of their public builtins begin.

No topic above has a row of such a name, but ``tiles``, whose rows no later topic adds to. The names that begin with an
underscore are for the bodies of other builtins; all topics are imported where one is not found.
"""

REGISTRY.expect({f"{__name__}.{topic}": beginnings for topic, beginnings in LATER.items()})
