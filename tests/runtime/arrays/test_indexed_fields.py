"""Structs whose fields are indexed arrays."""

import numpy as np
import pytest

import warp_like as wp
from warp_like.backend import libdevice
from warp_like.backend.nvptx import assemble


@wp.struct
class Selection:
    values: wp.indexedarray(dtype=float)
    rows: wp.indexedarray2d(dtype=wp.vec2)
    scale: float


@wp.struct
class Outer:
    inner: Selection
    n: int


@wp.func
def scaled(s: Selection, i: int):
    return s.values[i] * s.scale


@wp.kernel
def select(s: Outer, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = scaled(s.inner, i) + s.inner.rows[i, 0][1]
    s.inner.values[i] = float(s.inner.values.shape[0] + s.n)


def selection(values, indices, **options):
    chosen = wp.indexedarray(wp.array(values, dtype=float, **options), wp.array(indices, dtype=int))
    rows = wp.indexedarray(wp.array(np.arange(12, dtype=np.float32).reshape(3, 2, 2), dtype=wp.vec2), None)
    return Selection(values=chosen, rows=rows, scale=10.0)


def test_a_kernel_reads_and_writes_through_the_field():
    s = Outer(inner=selection([1.0, 2.0, 3.0], [2, 0]), n=5)
    out = np.zeros(2, np.float32)
    wp.launch(select, 2, inputs=[s, out])
    np.testing.assert_array_equal(out, [31.0, 15.0])
    np.testing.assert_array_equal(s.inner.values.data.numpy(), [7.0, 2.0, 7.0])
    wp.launch(select, 2, inputs=[s, out])
    np.testing.assert_array_equal(out, [71.0, 75.0])
    ptx = select.inspect("ptx", target="sm_80")
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, "sm_80")[:4] == b"\x7fELF"


def test_gradients_reach_the_array_under_it():
    @wp.kernel
    def total(s: Selection, out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, 0, scaled(s, i) * s.values[i])

    s = selection([1.0, 2.0, 3.0], [2, 0, 2], requires_grad=True)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, 3, inputs=[s, out])
    tape.backward(out)
    np.testing.assert_array_equal(s.values.grad.data.numpy(), [2 * 10 * 1, 0, 2 * (2 * 10 * 3)])


def test_an_unset_field_is_none():
    @wp.kernel
    def held(s: Selection, out: wp.array(dtype=int)):
        if s.values:
            out[0] = 1
        if s.rows:
            out[1] = 1

    s, out = Selection(), np.zeros(2, np.int32)
    assert s.values is None
    wp.launch(held, 1, inputs=[s, out])
    np.testing.assert_array_equal(out, [0, 0])
    s.values = selection([1.0], [0]).values
    wp.launch(held, 1, inputs=[s, out])
    np.testing.assert_array_equal(out, [1, 0])
    s.values = None
    assert s == Selection()


def test_what_does_not_fit_is_refused():
    s = selection([1.0], [0])
    with pytest.raises(
        TypeError, match=r"field `values` of struct Selection is indexedarray1d\[float32\], got array1d"
    ):
        s.values = wp.zeros(3, dtype=float)
    with pytest.raises(TypeError, match=r"got indexedarray2d\[vec2\[float32\]\]"):
        s.values = s.rows
