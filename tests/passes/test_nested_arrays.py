"""Writing an array to the element that holds it says nothing new; writing another one is refused."""

from __future__ import annotations

import pytest

from tests.ir_builder import count, start, tid
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.printer import print_function
from warp_like.ir.types import Array, Struct, float32
from warp_like.passes.nested_arrays import keep_nested_arrays

X = Array(float32, 1)
CELL = Struct("Cell", (("x", X), ("y", X), ("mass", float32)))


def _cells() -> tuple[Function, Emitter, Value, Value]:
    f, b = start(cells=Array(CELL, 1), other=X)
    return f, b, tid(b), b.field_view(f.params[0], 0)


def test_the_array_that_is_there_need_not_be_written() -> None:
    f, b, i, held = _cells()
    b.store(held, [i], b.nested(held, [i]))
    b.store(b.field_view(f.params[0], 2), [i], b.constant(1.0, float32))
    b.yield_()
    keep_nested_arrays(f)
    assert count(f, ops.Store) == 1


def test_without_such_stores_nothing_changes() -> None:
    f, b, i, held = _cells()
    b.store(b.nested(held, [i]), [i], b.constant(1.0, float32))
    b.yield_()
    text, inside = print_function(f), f.body.ops
    keep_nested_arrays(f)
    assert print_function(f) == text
    assert f.body.ops is inside


@pytest.mark.parametrize("which", ["an argument", "another element's", "another field's"])
def test_another_array_is_refused(which: str) -> None:
    f, b, i, held = _cells()
    arrays = {
        "an argument": lambda: f.params[1],
        "another element's": lambda: b.nested(held, [b.add(i, 1)]),
        "another field's": lambda: b.nested(b.field_view(f.params[0], 1), [i]),
    }
    b.store(held, [i], arrays[which]())
    b.yield_()
    with pytest.raises(WarpCodegenTypeError, match="can't be changed by a kernel"):
        keep_nested_arrays(f)
