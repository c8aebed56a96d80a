"""Types are pickled by their names, generated ones included; another process finds the same."""

import copy
import pickle
import subprocess
import sys

import pytest

import warp_like as wp
from warp_like.values import families

TYPES = [
    *(wp.vec3, wp.vec2ub, wp.mat33, wp.mat44d, wp.quat, wp.quath, wp.transform, wp.transformd, wp.spatial_vector),
    *(wp.spatial_matrix, wp.types.vector(length=5, dtype=wp.float64), wp.types.vector(length=200, dtype=wp.bfloat16)),
    *(wp.types.vector(length=2, dtype=bool), wp.types.matrix(shape=(3, 4), dtype=wp.uint16)),
    *(wp.types.matrix(shape=(12, 3), dtype=float), wp.types.matrix(shape=(9, 10), dtype=wp.int8)),
    *(wp.types.matrix(shape=(1, 1), dtype=wp.float16), wp.float32, wp.bool),
]


@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.__name__)
def test_types(t):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(t, protocol)) is t
    assert copy.deepcopy(t) is t
    made = t(1)
    assert pickle.loads(pickle.dumps(made)) == made
    assert type(pickle.loads(pickle.dumps(made))) is t


def test_another_process():
    data = pickle.dumps([*TYPES, TYPES[10](2.0)])
    code = f"import pickle; print([getattr(t, '__name__', t) for t in pickle.loads({data!r})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([*(t.__name__ for t in TYPES), TYPES[10](2.0)])


def test_other_names():
    for name in ("vec5", "vec3x", "mat3f", "matf", "quati8", "spam"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(families, name)
