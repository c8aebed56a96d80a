"""Equal types are one object, however they were made."""

import copy
import pickle
import threading

import numpy as np
import pytest

from warp_like.ir import types as ir

MADE = [
    lambda: ir.Vec(3, ir.float32),
    lambda: ir.Mat(2, 4, ir.float64),
    lambda: ir.Array(ir.Vec(3, ir.float32), 2),
    lambda: ir.Struct("S", (("a", ir.int32), ("b", ir.Array(ir.float32, 1)))),
    lambda: ir.Tile((4, 5), ir.float16),
    lambda: ir.Lanes(ir.Vec(3, ir.float32), 16),
    lambda: ir.indexed_array(ir.float32, 2),
]


@pytest.mark.parametrize("make", MADE)
def test_equal_types_are_one_object(make) -> None:
    t = make()
    assert make() is t
    assert copy.deepcopy(t) is t
    assert pickle.loads(pickle.dumps(t)) is t
    assert type(t)(**dict(zip(t._fields_, t.as_tuple(), strict=True))) is t


def test_classes_and_fields_tell_types_apart() -> None:
    fields = (("data", ir.Array(ir.float32, 1)), ("index0", ir.Array(ir.int32, 1)))
    found = [ir.Struct("s", fields), ir.IndexedArray("s", fields), ir.Vec(4, ir.float32), ir.Vec(4, ir.int32)]
    found += [ir.Quat(ir.float32), ir.Transform(ir.float32), ir.Scalar("int", 32), ir.Lanes(ir.int32, 4)]
    assert len(set(found)) == len(found)
    assert found[0] != found[1]


def test_the_text_of_a_type_is_that_of_plain_numbers() -> None:
    """It is a part of the key of the cache, which must not depend on who made the type first."""
    assert repr(ir.Vec(np.int64(29), ir.float32)) == "Vec(length=29, dtype=Scalar(kind='float', bits=32))"
    assert repr(ir.Tile((np.int32(31), 2), ir.int8)).startswith("Tile(shape=(31, 2),")
    assert ir.Vec(29, ir.float32) is ir.Vec(np.int64(29), ir.float32)


def test_threads_that_make_a_type_at_once_get_one_object() -> None:
    start, found = threading.Barrier(4), []

    def make() -> None:
        start.wait()
        found.append([ir.Array(ir.Vec(n, ir.float64), 3) for n in range(1000, 1200)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(len({id(t) for t in same}) == 1 for same in zip(*found, strict=True))


def test_wrong_fields_are_refused() -> None:
    with pytest.raises(TypeError):
        ir.Vec(3)
    with pytest.raises(TypeError):
        ir.Vec(3, ir.float32, 1)
