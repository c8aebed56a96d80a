"""Builtins: each declared once, in one table file a topic; everything else about them follows from the rows.

Importing this package fills the registry with the topics that nearly all kernels need. The others, in ``LATER``, are
imported when a builtin of theirs is asked for, or an overload that no topic before has. A topic that adds overloads to
builtins of another one imports that one first, so the order in which overloads are tried and shown is always the same.
``frontend.builtin`` is what users have of it, and loads it when needed.
"""

from warp_like.builtins.spec import REGISTRY

# isort: off
from warp_like.builtins import operators, logic, scalar  # noqa: F401

# isort: on

LATER = {
    "powers": "sqrt cbrt pow _pow _fma",
    "error_function": "erf erfc erfinv erfcinv",
    "vector": "dot cross outer cw_mul cw_div length_sq length normalize norm_* smooth_normalize min max argmin argmax"
    " abs sign isfinite isnan isinf",
    "matrix": "transpose trace diag get_diag skew cw_mul cw_div ddot isfinite isnan isinf determinant inverse"
    " inverse_approx transform_point transform_vector",
    "utility": "where select unot lower_bound lerp smoothstep",
    "special": "tid atomic_* cast address_of print printf expect_* breakpoint len static vector matrix matrix_from_*"
    " identity",
    "blocks": "block_* warp_* _warp_count shared_array",
    "quaternion": "quaternion quat_* _quat_about _sinc add sub neg pos mul div div_approx isfinite isnan isinf eq ne"
    " dot length_sq length normalize lerp",
    "transform": "transformation transform_* add sub neg pos mul div lerp eq ne",
    "spatial": "spatial_* _stacked velocity_at_point transform_twist transform_wrench",
    "geometry": "closest_point_edge_edge intersect_tri_tri _apart",
    "tiles": "tile_sum tile_dot tile_min tile_argmin tile_max tile_argmax _tile_product* add sub neg mul div"
    " _dot_of_pairs bit_and bit_or bit_xor",
    "decompositions": "svd* qr* eig*",
    "random": "rand* sample_* poisson*",
    "noise": "noise* pnoise* curlnoise*",
    "hash_grid": "hash_grid*",
    "bvh": "bvh*",
    "mesh": "mesh*",
    "mesh_signs": "mesh*",
    "textures": "texture*",
    "volumes": "volume*",
    "tile_algebra": "tile*",
    "tile_fourier": "tile_fft* tile_ifft*",
    "tile_sorting": "tile*",
    "tile_calls": "tile* untile*",
    "tiled_queries": "tile_bvh* tile_mesh* tile_query* bvh_query_aabb_tiled bvh_query_ray_tiled bvh_query_next_tiled*"
    " mesh_query_aabb_tiled mesh_query_aabb_next_tiled*",
}
"""The topics that are imported when needed, and the names of their builtins; with a star, how names begin.

``in`` answers by what is listed, but imports what is found by how it begins, as all builtins are that assign to their
arguments. Names that begin with an underscore are for the bodies of other builtins: others than those are looked for in
all topics.
"""

REGISTRY.expect({f"{__name__}.{topic}": names for topic, names in LATER.items()})
