"""What is not plainly right is refused: no exception, no side effect, no reference or buffer kept."""

from __future__ import annotations

import ctypes
import enum
import gc
import itertools
import re
import struct
import sys
from typing import Any

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native, torch
from warp_like.base.contract import ParamFlag


class Vec3(native.Value):
    _type_code_ = s.vec(3, s.F32)
    _nbytes_ = 12


class SubVec3(Vec3):
    pass


class Colour(enum.IntEnum):
    RED = 1


def array(ndim: int = 1, code: int = s.F32, writes: bool = False):
    return s.param(s.ARRAY, code, ndim, writes)


def readonly(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


def unaligned(code: str) -> np.ndarray:
    return np.zeros(33, "u1")[1:].view(code)


PACKED = np.zeros(4, [("a", "u1"), ("b", "f4")])["b"]

REFUSED = [
    # native arrays
    (array(), lambda: s.bound((4,), s.F64), "the array's dtype is another"),
    (array(), lambda: s.bound((4,), s.vec(1, s.F32)), "the array's dtype is another"),
    (array(), lambda: s.bound((4,), s.I32), "the array's dtype is another"),
    (array(), lambda: native.Array(), "the array's dtype is another"),
    (array(), lambda: s.bound((4, 4)), "the array's number of dimensions is another"),
    (array(), lambda: s.bound((4,), device=object()), "the array is on another device"),
    (
        array(writes=True),
        lambda: s.bound((4,), readonly=True),
        "the kernel writes to the array, which is read-only",
    ),
    (array(), lambda: s.bound((4,), offset=2), "the array's elements are not aligned"),
    (array(), lambda: s.bound((4,), strides=(5,)), "the array's elements are not aligned"),
    (
        array(code=s.vec(4, s.F32) | 1 << 24),
        lambda: s.bound((4,), s.vec(4, s.F32)),
        "the array's dtype is another",
    ),
    # tensors
    (array(), lambda: torch.zeros(4, dtype=torch.float64), "the tensor's dtype is another"),
    (array(), lambda: torch.zeros(4, dtype=torch.int32), "the tensor's dtype is another"),
    (array(code=s.F16), lambda: torch.zeros(4, dtype=torch.bfloat16), "the tensor's dtype is another"),
    (array(), lambda: torch.zeros(4, dtype=torch.complex64), "the tensor's dtype is another"),
    (array(), lambda: torch.tensor(1.0), "the number of dimensions is another"),
    (array(), lambda: torch.zeros(2, 2), "the number of dimensions is another"),
    (array(4), lambda: torch.zeros(1, 1, 1, 1, 1), "the number of dimensions is another"),
    (
        array(code=s.vec(3, s.F32)),
        lambda: torch.zeros(4, 4),
        "the last dimensions are not those of an element",
    ),
    (array(code=s.vec(3, s.F32)), lambda: torch.zeros(4), "the number of dimensions is another"),
    (array(code=s.vec(3, s.F32)), lambda: torch.zeros(3, 4).T, "the elements' components are not packed"),
    (
        array(code=s.mat(2, 2, s.F32)),
        lambda: torch.zeros(4, 2, 2).mT,
        "the elements' components are not packed",
    ),
    (array(), lambda: torch.zeros(4, device="meta"), "the tensor cannot be read through DLPack"),
    (array(), lambda: torch.zeros(4).to_sparse(), "the tensor cannot be read through DLPack"),
    (array(), lambda: torch.zeros(4, dtype=torch.complex64).conj().imag, "the tensor's negation is pending"),
    (array(), lambda: torch.zeros(1, dtype=torch.complex64).conj().imag, "the tensor's negation is pending"),
    (array(), lambda: torch._neg_view(torch.zeros(4)), "the tensor's negation is pending"),
    (
        array(),
        lambda: torch.as_strided(torch.zeros(4, dtype=torch.complex64).conj().imag, (4,), (1,)),
        "the tensor's negation is pending",
    ),
    # NumPy arrays and other buffers
    (array(), lambda: np.zeros(4), "the NumPy array's dtype is another"),
    (array(), lambda: np.zeros(4, ">f4"), "the NumPy array's dtype is another"),
    (array(), lambda: np.zeros(4, "c8"), "the NumPy array's dtype is another"),
    (array(code=s.I64), lambda: np.zeros(4, "M8[s]"), "the NumPy array's dtype is another"),
    (array(), lambda: np.zeros(4, object), "the NumPy array's dtype is another"),
    (array(code=s.BF16), lambda: np.zeros(4, "f2"), "the NumPy array's dtype is another"),
    (array(), lambda: np.zeros((4, 4), "f4"), "the number of dimensions is another"),
    (array(), lambda: np.zeros((), "f4"), "the number of dimensions is another"),
    (
        array(writes=True),
        lambda: readonly(np.zeros(4, "f4")),
        "the kernel writes to the array, which is read-only",
    ),
    (array(), lambda: unaligned("f4"), "the elements are not aligned"),
    (array(), lambda: PACKED, "the elements are not aligned"),
    (array(), lambda: memoryview(bytearray(16)), "the buffer's format is another"),
    (array(), lambda: memoryview(bytearray(16)).cast("d"), "the buffer's format is another"),
    (array(code=s.U8, writes=True), lambda: b"abc", "the kernel writes to the buffer, which is read-only"),
    (array(), lambda: Vec3(), "needs an array"),
    (array(), lambda: None, "needs an array"),
    (array(), lambda: [1.0, 2.0], "needs an array"),
    (array(), lambda: np.float32(1), "the number of dimensions is another"),
    (array(), lambda: 1.0, "needs an array"),
    (s.param(s.ARRAY, 0xFF, 1), lambda: np.zeros(4, "f4"), "needs an array of structs"),
    # scalars
    (s.param(s.SCALAR, s.I32), lambda: 1.0, "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: True, "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: np.float32(1), "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: np.bool_(True), "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: np.array(1), "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: np.str_("1"), "the NumPy scalar is no number"),
    (s.param(s.SCALAR, s.I64), lambda: np.datetime64(1, "s"), "the NumPy scalar is no number"),
    (s.param(s.SCALAR, s.I32), lambda: ctypes.c_int(1), "needs an int"),
    (s.param(s.SCALAR, s.I8), lambda: np.int32(128), "the number does not fit the parameter's type"),
    (s.param(s.SCALAR, s.I32), lambda: None, "needs an int"),
    (s.param(s.SCALAR, s.U8), lambda: b"a", "needs an int"),
    (s.param(s.SCALAR, s.I32), lambda: torch.tensor(1), "needs an int"),
    (s.param(s.SCALAR, s.BOOL), lambda: 1.0, "needs a bool"),
    (s.param(s.SCALAR, s.BOOL), lambda: "1", "needs a bool"),
    (s.param(s.SCALAR, s.F32), lambda: True, "needs a float"),
    (s.param(s.SCALAR, s.F32), lambda: np.bool_(True), "needs a float"),
    (s.param(s.SCALAR, s.F64), lambda: np.complex128(1), "the NumPy scalar is no number"),
    (s.param(s.SCALAR, s.F64), lambda: np.longdouble(1), "the NumPy scalar is no number"),
    (s.param(s.SCALAR, s.F32), lambda: np.float64(1e39), "the number does not fit the parameter's type"),
    (s.param(s.SCALAR, s.F32), lambda: "1", "needs a float"),
    (s.param(s.SCALAR, s.F32), lambda: np.zeros(1, "f"), "needs a float"),
    *[
        (s.param(s.SCALAR, code), lambda v=v: v, "the number does not fit the parameter's type")
        for code, values in {
            s.I8: (128, -129),
            s.U8: (256, -1),
            s.I16: (2**15, -(2**15) - 1),
            s.U16: (2**16, -1),
            s.I32: (2**31, -(2**31) - 1),
            s.U32: (2**32, -1),
            s.I64: (2**63, -(2**63) - 1, 10**40),
            s.U64: (2**64, -1, -(2**70)),
            s.F16: (65520.0, -1e9),
            s.BF16: (3.4e38,),
            s.F32: (1e39, -1e39, 10**39),
            s.F64: (10**400,),
        }.items()
        for v in values
    ],
    # values
    (
        s.param(s.VALUE, s.vec(3, s.F32), cls=Vec3),
        lambda: SubVec3(),
        "needs a value of the parameter's class",
    ),
    (
        s.param(s.VALUE, s.vec(3, s.F32), cls=Vec3),
        lambda: (1.0, 2.0, 3.0),
        "needs a value of the parameter's class",
    ),
    (
        s.param(s.VALUE, s.vec(3, s.F32), cls=Vec3),
        lambda: np.zeros(3, "f"),
        "needs a value of the parameter's class",
    ),
]


@pytest.mark.parametrize("param, make, reason", REFUSED)
def test_refused_argument(param, make, reason: str) -> None:
    good = [s.bound((4,)), torch.zeros(4), np.zeros(4, "f4"), memoryview(bytearray(16)).cast("f")]
    d = s.dispatcher(*[array() for _ in good], (*("bad",), *param[1:]), *[array() for _ in good])
    bad = make()
    objects = [*good, bad, *good]
    counted = [o for o in objects if o is not None]
    before = [sys.getrefcount(o) for o in counted]
    s.variable("echo_calls").value = 0
    assert d.try_launch(4, objects[:6], objects[6:], None) is False
    assert d.required_variant(4, objects) is None
    assert d.explain(4, objects[:6], objects[6:]) == (reason, "bad")
    assert s.variable("echo_calls").value == 0
    assert [sys.getrefcount(o) for o in counted] == before
    good[3].release()  # raises if a buffer were still held


@pytest.mark.parametrize(
    "dim",
    [
        -1,
        (3, -1),
        True,
        2.0,
        None,
        "4",
        (),
        (1,) * 9,
        (2.0,),
        (True,),
        2**63,
        10**30,
        (2**32, 2**32),
        (2**31, 2**31, 2),
        np.int64(4),
        (np.int64(4),),
        Colour.RED,
        torch.tensor(4),
    ],
)
def test_refused_grid(dim: object) -> None:
    d = s.dispatcher()
    s.variable("echo_calls").value = 0
    assert d.try_launch(dim, [], [], None) is False
    assert d.required_variant(dim, []) is None
    assert d.explain(dim, [], [])[1] is None
    assert s.variable("echo_calls").value == 0


def test_refused_shape_of_call() -> None:
    d = s.dispatcher(array(), array())
    a = s.bound((4,))
    assert d.explain(4, [a], []) == ("too few arguments", None)
    assert d.explain(4, [a, a], [a])[0] == "too many arguments"
    assert d.explain(4, iter([a, a]), [])[0] == "needs lists or tuples of arguments"
    assert d.explain(4, [a, a], None)[0] == "needs lists or tuples of arguments"
    assert d.explain(4, [a, a], [], object()) == ("the launch is for another device", None)
    assert d.explain(4, [a, a], [], "cuda:0") == ("the launch is for another device", None)
    assert d.explain(4, [a, a], [], "cpu") is None
    for inputs, outputs, device in (
        ([a], [], None),
        ([a, a], [a], None),
        ([a, a], None, None),
        ([a, a], [], 0),
    ):
        assert d.try_launch(4, inputs, outputs, device) is False
    with pytest.raises(TypeError):
        d.try_launch(4, [a, a])


def test_variants_are_not_mixed() -> None:
    packed, strided = s.bound((4,)), s.bound((4,), strides=(8,))
    for installed in ((1, 0), (0, 0)):
        d = s.dispatcher(array(), variants=[installed])
        assert d.try_launch(4, [packed], [], None) is (installed == (1, 0))
        assert d.try_launch(4, [strided], [], None) is (installed == (0, 0))
        assert d.try_launch(2**31, [packed], [], None) is False
        d.clear()
        assert d.explain(4, [packed], []) == ("the variant is not installed", None)


def test_references_after_a_launch() -> None:
    objects = [s.bound((4,)), torch.zeros(4), np.zeros(4, "f4"), memoryview(bytearray(16)).cast("f")]
    d = s.dispatcher(*[array() for _ in objects])
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(100):
        assert d.try_launch(4, objects, [], None)
    assert [sys.getrefcount(o) for o in objects] == before
    objects[3].release()


def test_dispatcher_is_collected() -> None:
    class Owner:
        pass

    owner = Owner()
    owner.dispatcher = native.Dispatcher(s.spec(array(), on_error=lambda *a, o=owner: None, device=owner))
    owner.dispatcher.install(1, 0, 0, s.address("echo"), owner)
    import weakref

    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "bad",
    [
        [("x", 3, 0, 0, False, None)],
        [("x", 0, 0, 9, False, None)],
        [("x", 1, 0xFF, 0, False, None)],
        ["x"],
        [()],
        [("x", 1, s.vec(3, s.F32), 0, False, None)],
        [("x", 2, s.vec(3, s.F32), 0, False, int)],
        None,
        [(1, 0, 0, 0, 0, 0)],
        [("x", 2, s.vec(3, s.F32), 0, False, None)],
        [("x", 2, 0xFF, 0, False, native.Value)],
    ],
)
def test_bad_parameters(bad: object) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        native.Dispatcher(s.spec(params=bad, device=None))


def test_spans_are_of_each_dimension_or_of_the_first_axes() -> None:
    def made(*spans: int) -> Any:
        summed = ("x", 0, s.F32, 2, ParamFlag.SUMS | ParamFlag.WRITES, None, spans)
        return native.Dispatcher(s.spec(params=[summed], device=None))

    for right in ((0, 3), (2, -1), (0, 1, -1)):
        made(*right)
    for wrong in ((), (1,), (-1,), (0, -2), (-1, 0), (0, 1, 2), (0,) * 8 + (-1,)):
        with pytest.raises(ValueError, match="span"):
            made(*wrong)


@pytest.mark.parametrize(
    "field, wrong, message",
    [
        ("name", 3, "`name` is a str"),
        ("on_error", None, "`on_error` is a callable on_error(code, where, thread[, text, values])"),
        ("cuda", 3, "`cuda` is a DriverContext or None"),
        ("watch", 3, "`watch` is a Watch or None"),
        ("tid_ndim", 0, "`tid_ndim` is an int from 1 to 8, got 0"),
        ("tid_ndim", 1 << 80, f"`tid_ndim` is an int from 1 to 8, got {1 << 80}"),
        ("tid_ndim", "2", "`tid_ndim` is an int from 1 to 8, got '2'"),
        ("prints", 1, "`prints` is a bool, got 1"),
        ("declared", 3, "needs a sequence of (struct class or None, number of parameters)"),
    ],
)
def test_bad_specifications(field: str, wrong: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        native.Dispatcher(s.spec(**{field: wrong}))


@pytest.mark.parametrize("field", sorted(vars(s.spec())))
def test_specifications_are_whole(field: str) -> None:
    spec = s.spec()
    delattr(spec, field)
    with pytest.raises(AttributeError, match=field):
        native.Dispatcher(spec)


def reach(param: int, axis: int, dim: int, offset: int) -> bytes:
    return struct.pack("@iiiq", param, axis, dim, offset)


def reaching(*reaches: bytes, ndim: int = 1) -> Any:
    """A dispatcher of an array and a number whose variants reach so far into the array."""
    d = s.dispatcher(array(ndim), s.param(s.SCALAR, s.I32), variants=[])
    for contiguous, wide in itertools.product((0, 1), repeat=2):
        d.install(contiguous, wide, 0, s.address("echo"), s.entries(), 1, 0, 0, 1, b"".join(reaches))
    return d


@pytest.mark.parametrize(
    "packed, dim, extent, fits",
    [
        (reach(0, 0, 0, 0), 4, 4, True),
        (reach(0, 0, 0, 0), 5, 4, False),
        (reach(0, 0, 0, 2), 4, 6, True),
        (reach(0, 0, 0, 2), 4, 5, False),
        (reach(0, 0, 1, 0), (9, 4), 4, True),
        (reach(0, 0, 1, 0), (4, 9), 8, False),
        (reach(0, 0, 4, 3), 9, 4, True),
        (reach(0, 0, 4, 3), 1, 3, False),
        (reach(0, 0, 0, -1), 1, 4, False),
        (reach(0, 0, 0, 2**63 - 1), 2**63 - 1, 4, False),
        (reach(0, 0, 0, -(2**63)), 1, 4, False),
        (reach(0, 0, 0, 0), 0, 0, True),
        (reach(0, 0, 0, -1), 0, 4, True),
    ],
)
def test_arrays_that_are_too_small_for_the_grid(packed: bytes, dim: Any, extent: int, fits: bool) -> None:
    d = reaching(packed)
    for a in (s.bound((extent,)), s.bound((extent,), strides=(8,)), np.zeros(extent, "f4")):
        assert d.explain(dim, [a, 1], []) == (None if fits else ("an array is too small for the grid", None))
        assert d.try_launch(dim, [a, 1], [], None) is fits
        assert d.try_run(dim, [a, 1]) is fits
        assert d.try_batch(dim, [a, 1], 1, [0, 0]) is fits
        assert (native.bind_launch(d, dim, [a, 1]) is not None) is fits
        assert d.required_variant(dim, [a, 1]) is not None  # for the variant, extents make no difference


def test_each_axis_has_its_reach() -> None:
    d = reaching(reach(0, 0, 0, 0), reach(0, 1, 1, 1), ndim=2)
    assert d.try_launch((3, 4), [s.bound((3, 5)), 1], [], None)
    assert not d.try_launch((3, 4), [s.bound((3, 4)), 1], [], None)
    assert not d.try_launch((3, 4), [s.bound((2, 5)), 1], [], None)
    d.install(1, 0, 0, s.address("echo"), s.entries())  # other code, which does not reach anywhere
    assert d.try_launch((3, 4), [s.bound((2, 4)), 1], [], None)


@pytest.mark.parametrize(
    "packed",
    [
        reach(2, 0, 0, 0),
        reach(-1, 0, 0, 0),
        reach(1, 0, 0, 0),  # no array
        reach(0, 1, 0, 0),
        reach(0, -1, 0, 0),
        reach(0, 0, 9, 0),
        reach(0, 0, -1, 0),
        reach(0, 0, 0, 0)[:-1],
        reach(0, 0, 0, 0) + b"1",
    ],
)
def test_reaches_that_are_none(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not reaches into the arrays of these parameters"):
        reaching(packed)
