"""What arrays look like, in text and in notebooks, and pointers for C."""

import ctypes
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like import _native


@wp.struct
class Pair:
    a: wp.vec2
    n: int


def cells(a: Any) -> list[str]:
    return [part.split("</td>")[0] for part in a._repr_html_().split("<td>")[1:]]


def test_html_says_what_the_array_is() -> None:
    text = wp.zeros((2, 3), requires_grad=True)._repr_html_()
    head = "array &nbsp; shape (2, 3) &nbsp; dtype float32 &nbsp; device cpu &nbsp; with gradient"
    assert text.startswith(f"<div><code>{head}</code><table>")
    assert text.endswith("</table></div>")


def test_html_shows_elements() -> None:
    assert cells(wp.array([1.5, 2.25, 1e-9], dtype=float)) == ["1.5", "2.25", "1e-09"]
    assert cells(wp.array(np.arange(4).reshape(2, 2), dtype=int)) == ["0", "1", "2", "3"]
    assert cells(wp.array([[1.0, 2.0]], dtype=wp.vec2)) == ["[1., 2.]"]
    assert cells(wp.array([True, False], dtype=bool)) == ["True", "False"]
    assert cells(wp.array(np.arange(24).reshape(2, 3, 4), dtype=int)) == [str(i) for i in range(12)]
    assert "showing [0, :, :]" in wp.zeros((2, 3, 4))._repr_html_()
    assert cells(wp.array([np.nan, -np.inf, -0.0, 1e20], dtype=float)) == ["nan", "-inf", "-0", "1e+20"]
    assert cells(wp.array([[0.0, 0.0, 0.0, 1.0]], dtype=wp.quat)) == ["[0., 0., 0., 1.]"]
    assert cells(wp.array([1.5], dtype=wp.bfloat16)) == cells(wp.array([1.5], dtype=wp.float16)) == ["1.5"]
    assert cells(wp.zeros(1, dtype=wp.mat22)) == ["[[0., 0.], [0., 0.]]"]


def test_html_of_structs_has_a_column_for_each_field() -> None:
    a = wp.array([Pair(), Pair(a=(1.0, np.nan), n=7)], dtype=Pair)
    assert "<th></th><th>a</th><th>n</th>" in a._repr_html_()
    assert cells(a) == ["[0., 0.]", "0", "[ 1., nan]", "7"]
    many = cells(wp.zeros(100, dtype=Pair))
    assert len(many) == 2 * 11
    assert many[10:12] == ["&hellip;", "&hellip;"]
    assert cells(wp.zeros((1, 1), dtype=Pair)) == ["Pair(a=vec2f([0.0, 0.0]), n=0)"]


def test_html_of_indexed_arrays() -> None:
    picked = wp.indexedarray(wp.array(np.arange(5.0)), wp.array([3, 1], dtype=int))
    assert picked._repr_html_().startswith("<div><code>indexedarray &nbsp; shape (2,) &nbsp; dtype float64")
    assert cells(picked) == ["3", "1"]
    grid = wp.array(np.arange(6).reshape(2, 3), dtype=int)
    assert cells(wp.indexedarray(grid, [None, wp.array([2], dtype=int)])) == ["2", "5"]


def test_html_leaves_out_the_middle() -> None:
    big = cells(wp.array(np.arange(1_000_000, dtype=np.int32)))
    assert big == ["0", "1", "2", "3", "4", "&hellip;", "999995", "999996", "999997", "999998", "999999"]
    text = wp.zeros((100, 100))._repr_html_()
    assert text.count("<tr>") == 12
    assert text.count("<td>") == 11 * 9


def test_html_of_nothing() -> None:
    assert "no elements" in wp.zeros((0, 3))._repr_html_()


def test_text() -> None:
    assert repr(wp.zeros((2, 3), dtype=wp.vec3)) == "array(shape=(2, 3), dtype=vec3f)"
    assert str(wp.array([1.0, 2.0], dtype=wp.bfloat16)) == "[1. 2.]"
    assert str(wp.array([Pair()], dtype=Pair)) == "[([0., 0.], 0)]"


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (wp.float32, ctypes.c_float),
        (wp.float64, ctypes.c_double),
        (wp.int8, ctypes.c_int8),
        (wp.uint64, ctypes.c_uint64),
        (wp.bool, ctypes.c_bool),
        (wp.vec3, ctypes.c_float),
        (wp.float16, ctypes.c_uint16),
    ],
)
def test_pointers_for_c(dtype: Any, kind: Any) -> None:
    a = wp.zeros(3, dtype=dtype)
    pointer = a.cptr()
    assert pointer._type_ is kind
    assert ctypes.addressof(pointer.contents) == a.ptr


def test_a_pointer_reads_and_writes() -> None:
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    pointer = a.cptr()
    pointer[1] = 5.0
    assert (pointer[2], a.list()) == (3.0, [1.0, 5.0, 3.0])


def test_ipc_is_for_cuda() -> None:
    with pytest.raises(RuntimeError, match=r"lies on cpu, and only CUDA memory has IPC handles"):
        wp.zeros(3).ipc_handle()


def test_classes() -> None:
    a = wp.zeros(3)
    assert isinstance(a, wp.types.array_types)
    assert isinstance(wp.indexedarray(a), wp.types.array_types)


def test_streams_and_events_are_not_of_the_cpu() -> None:
    message = "^device 'cpu' has no streams: launches on it have finished when they return$"
    for make in (wp.Stream, wp.get_stream, lambda: wp.set_stream(None), lambda: wp.wait_stream(None)):
        with pytest.raises(RuntimeError, match=message):
            make()
    for make in (wp.Event, wp.record_event, lambda: wp.wait_event(None), lambda: wp.synchronize_event(None)):
        with pytest.raises(RuntimeError, match="^device 'cpu' has no events"):
            make()
    with pytest.raises(RuntimeError, match="wp.ScopedTimer measures time there"):
        wp.get_event_elapsed_time(None, None)
    wp.synchronize_stream()
    with wp.ScopedStream(None):
        wp.synchronize_stream("cpu")


def test_an_array_without_memory_can_be_shown() -> None:
    """A debugger shows variables at any time, also those of a subclass whose constructor has not come to the memory."""
    a: Any = _native.Array.__new__(wp.array)
    assert repr(a) == str(a) == "array(without memory)"
    assert a._repr_html_() == "<code>array(without memory)</code>"
    assert len(a) == 0


@pytest.mark.parametrize("shape", [0, (0, 3), (3, 0), (2, 0, 2)])
@pytest.mark.parametrize("dtype", [float, wp.vec3, wp.bfloat16, wp.mat22, Pair])
def test_empty_arrays_can_be_shown(shape: Any, dtype: Any) -> None:
    a = wp.zeros(shape, dtype=dtype)
    assert repr(a).startswith("array(shape=")
    assert str(a).startswith("[")
    assert "no elements" in a._repr_html_()
    assert a.list() == []
