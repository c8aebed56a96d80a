"""What newton's host code needs to run here: stand-ins, for the harness alone.

newton computes with transforms by calling functions of Warp's own C++ library, which is private to Warp
(``wp._src.context.runtime.core``) and writes to addresses of ctypes objects; here these are Python. And every model
with shapes gets a bounding volume hierarchy, which needs tiles and serves ray casts alone; here it gets none.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

import warp_like as wp

BUILTINS = {
    "wp_builtin_mul_transformf_transformf": lambda a, b: a * b,
    "wp_builtin_quat_from_matrix_mat44f": lambda m: wp.quat_from_matrix(m),
    "wp_builtin_transform_inverse_transformf": lambda t: wp.transform_inverse(t),
    "wp_builtin_transform_point_transformf_vec3f": lambda t, p: wp.transform_point(t, p),
    "wp_builtin_transform_vector_transformf_vec3f": lambda t, v: wp.transform_vector(t, v),
}


def _builtin(name: str) -> Any:
    function = BUILTINS[name]

    def call(*args: Any) -> None:
        *operands, out = args
        np.asarray(out)[...] = np.asarray(function(*operands))

    return call


def install() -> None:
    """Put the stand-ins in place, once newton is imported."""
    module = importlib.import_module("newton._src.core.host_transform")
    module._builtin = _builtin
    module.ctypes = SimpleNamespace(byref=lambda value: value)
    module._NATIVE_TRANSFORM_ROW_LIMIT = -1  # whole arrays go through NumPy
    importlib.import_module("newton").Model.bvh_build_shapes = lambda *args, **options: None
