"""Arguments arrive at the entry point as warp_like/ir/layout.py says."""

from __future__ import annotations

import ctypes
import enum
import math
import struct
import sys

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native, torch
from warp_like.base.contract import MAX_NARROW

TORCH = {
    s.BOOL: "bool", s.I8: "int8", s.U8: "uint8", s.I16: "int16", s.U16: "uint16",
    s.I32: "int32", s.U32: "uint32", s.I64: "int64", s.U64: "uint64", s.F16: "float16",
    s.BF16: "bfloat16", s.F32: "float32", s.F64: "float64",
}  # fmt: skip
NUMPY = {
    s.BOOL: "?", s.I8: "i1", s.U8: "u1", s.I16: "i2", s.U16: "u2", s.I32: "i4", s.U32: "u4", s.I64: "i8",
    s.U64: "u8", s.F16: "f2", s.F32: "f4", s.F64: "f8",
}  # fmt: skip


def expect(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{1 + 2 * len(shape)}q", pointer, *shape, *strides)


@pytest.mark.parametrize("ndim", range(5))
def test_native_arrays(ndim: int) -> None:
    a = s.bound((2, 3, 4, 5)[:ndim])
    d = s.dispatcher(s.param(s.ARRAY, s.F32, ndim))
    assert s.echoed(d, [a]) == expect(a.ptr, a.shape, a.strides)


@pytest.mark.parametrize("code", TORCH)
def test_tensors_of_every_dtype(code: int) -> None:
    t = torch.zeros(3, 4, dtype=getattr(torch, TORCH[code]))
    d = s.dispatcher(s.param(s.ARRAY, code, 2, True))
    size = s.size_of(code)
    assert s.echoed(d, (), [t]) == expect(t.data_ptr(), (3, 4), (4 * size, size))


@pytest.mark.parametrize("code", NUMPY)
def test_numpy_arrays_of_every_dtype(code: int) -> None:
    a = np.zeros((3, 4), NUMPY[code])
    d = s.dispatcher(s.param(s.ARRAY, code, 2, True))
    assert s.echoed(d, (), [a]) == expect(a.ctypes.data, a.shape, a.strides)


@pytest.mark.parametrize("name", ["int64", "longlong", "uint64", "ulonglong", "intc", "uintc"])
def test_numpy_types_of_one_width_are_one(name: str) -> None:
    a = np.zeros(3, name)
    code = {"i8": s.I64, "u8": s.U64, "i4": s.I32, "u4": s.U32}[a.dtype.str[1:]]
    d = s.dispatcher(s.param(s.ARRAY, code, 1))
    assert d.explain(1, [a], []) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[:, ::-1].T,
        lambda x: np.broadcast_to(x[:1], (9, 5)),
        lambda x: x[2:2],
        np.asfortranarray,
    ],
)
def test_numpy_views(make) -> None:
    a = make(np.arange(30, dtype=np.float32).reshape(6, 5))
    d = s.dispatcher(s.param(s.ARRAY, s.F32, 2))
    assert s.echoed(d, [a]) == expect(a.__array_interface__["data"][0], a.shape, a.strides)
    assert d.required_variant(1, [a]) == (int(a.flags.c_contiguous), 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::2],
        lambda x: x.T,
        lambda x: x[:1].expand(9, 5),
        lambda x: x[2:2],
        lambda x: x[:, :1],
        lambda x: x.requires_grad_(),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.requires_grad_() * 2,
    ],
)
def test_tensor_views(make) -> None:
    t = make(torch.arange(30, dtype=torch.float32).reshape(6, 5))
    d = s.dispatcher(s.param(s.ARRAY, s.F32, 2))
    assert s.echoed(d, [t]) == expect(t.data_ptr(), tuple(t.shape), tuple(4 * n for n in t.stride()))
    assert d.required_variant(1, [t]) == (int(t.is_contiguous()), 0, 0)


def test_buffers_of_other_types() -> None:
    memory = memoryview(bytearray(48)).cast("f", (3, 4))
    d = s.dispatcher(s.param(s.ARRAY, s.F32, 2, True))
    assert s.echoed(d, (), [memory])[8:] == expect(0, (3, 4), (16, 4))[8:]

    class Sub(np.ndarray):
        pass

    a = np.zeros((2, 3), "f").view(Sub)
    assert s.echoed(d, (), [a]) == expect(a.ctypes.data, a.shape, a.strides)


@pytest.mark.parametrize(
    "code, inner",
    [
        (s.vec(3, s.F32), (3,)),
        (s.mat(2, 3, s.F32), (2, 3)),
        (s.vec(4, s.F32) | 1 << 24, (4,)),
        (s.vec(1, s.F32), (1,)),
    ],
)
def test_elements_with_components(code: int, inner: tuple[int, ...]) -> None:
    d = s.dispatcher(s.param(s.ARRAY, code, 1))
    t = torch.zeros(7, *inner)
    step = 4 * t[0].numel()
    for x, pointer in ((t, t.data_ptr()), (t.numpy(), t.data_ptr())):
        assert s.echoed(d, [x]) == expect(pointer, (7,), (step,))
        assert s.echoed(d, [x[::2]]) == expect(pointer, (4,), (2 * step,))
        assert d.required_variant(1, [x[::2]]) == (0, 0, 0)
    a = s.bound((7,), code)
    assert s.echoed(d, [a]) == expect(a.ptr, (7,), (step,))


SCALARS = [
    (s.BOOL, True, "<?7x"),
    (s.BOOL, False, "<?7x"),
    (s.I8, -128, "<b7x"),
    (s.U8, 255, "<B7x"),
    (s.I16, -32768, "<h6x"),
    (s.U16, 65535, "<H6x"),
    (s.I32, -(2**31), "<i4x"),
    (s.I32, 2**31 - 1, "<i4x"),
    (s.U32, 2**32 - 1, "<I4x"),
    (s.I64, -(2**63), "<q"),
    (s.I64, 2**63 - 1, "<q"),
    (s.U64, 2**64 - 1, "<Q"),
    (s.U64, 5, "<Q"),
    (s.F16, 0.1, "<e6x"),
    (s.F16, 65504, "<e6x"),
    (s.F32, 0.1, "<f4x"),
    (s.F32, -7, "<f4x"),
    (s.F64, 0.1, "<d"),
    (s.F64, 2**60, "<d"),
    (s.F32, float("inf"), "<f4x"),
    (s.F16, float("-inf"), "<e6x"),
    (s.F64, -0.0, "<d"),
]


@pytest.mark.parametrize("code, value, layout", SCALARS)
def test_scalars(code: int, value: object, layout: str) -> None:
    d = s.dispatcher(s.param(s.SCALAR, code))
    size = s.size_of(code)
    assert s.echoed(d, [value])[:size] == struct.pack(layout, value)[:size]


def test_half_precision_rounds_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.normal(size=2000),
            np.ldexp(rng.random(2000), rng.integers(-40, 16, 2000)),
            [2.0**-25, 2.0**-24, 3 * 2.0**-25],
            1 + np.arange(64) / 2**12,
            [65519.99, 0.0, -0.0, 6.1e-5, 6.0e-5],
        ]
    )
    half = s.dispatcher(s.param(s.SCALAR, s.F16))
    brain = s.dispatcher(s.param(s.SCALAR, s.BF16))
    for v in values.tolist():
        assert half.pack([v], [])[:2] == np.float64(v).astype(np.float16).tobytes(), v
    exact = values.astype(np.float32)  # float32 -> bfloat16 is rounded once, as a reference to compare with
    expected = torch.tensor(exact).to(torch.bfloat16).view(torch.int16).numpy()
    for v, bits in zip(exact.tolist(), expected, strict=True):
        assert brain.pack([v], [])[:2] == bits.tobytes(), v
    assert np.isnan(np.frombuffer(half.pack([float("nan")], [])[:2], np.float16))[0]
    assert brain.pack([float("nan")], [])[:2] == b"\xc0\x7f"


def test_values() -> None:
    class Vec3(native.Value):
        _type_code_ = s.vec(3, s.F32)
        _nbytes_ = 12

    v = Vec3()
    np.asarray(v)[:] = (1, 2, 3)
    d = s.dispatcher(s.param(s.SCALAR, s.I8), s.param(s.VALUE, s.vec(3, s.F32), cls=Vec3), s.param(s.SCALAR, s.I8))
    assert d.param_offsets == (0, 8, 24)
    block = s.echoed(d, [1, v, 2])
    assert struct.unpack("<b7x3f4xb7x", block) == (1, 1.0, 2.0, 3.0, 2)


def test_a_struct_says_its_size() -> None:
    class Record(native.Value):
        _nbytes_ = 20

    d = s.dispatcher(s.param(s.VALUE, 0xFF | 9 << 8, cls=Record))
    r = Record()
    memoryview(r)[:] = bytes(range(20))
    assert d.args_size == 24
    assert s.echoed(d, [r])[:20] == bytes(range(20))
    array = s.Array()
    memory = native.alloc(400)
    array._bind(memory.ptr, (20,), None, 0xFF | 9 << 8, 20, False, Record, s.CPU, memory)
    d = s.dispatcher(s.param(s.ARRAY, 0xFF | 9 << 8, 1))
    assert s.echoed(d, [array]) == expect(memory.ptr, (20,), (20,))


def test_many_parameters() -> None:
    arrays = [s.bound((i + 1,)) for i in range(100)]
    tensors = [torch.zeros(i + 1) for i in range(100)]
    buffers = [memoryview(bytearray(4 * (i + 1))).cast("f") for i in range(100)]
    d = s.dispatcher(*[s.param(s.ARRAY, s.F32, 1) for _ in range(300)])
    block = s.echoed(d, arrays + tensors, buffers)
    fields = np.frombuffer(block, np.int64).reshape(300, 3)
    assert fields[:, 1].tolist() == list(range(1, 101)) * 3
    assert fields[:100, 0].tolist() == [a.ptr for a in arrays]


def test_offsets_agree_with_the_layout_module() -> None:
    from warp_like.ir import layout, types

    params = [
        types.bool_,
        types.Array(types.float32, 3),
        types.float64,
        types.Array(types.int8, 0),
        types.int16,
    ]
    offsets, size = layout.param_offsets(params)
    d = s.dispatcher(
        *[
            s.param(s.ARRAY, layout.type_code(p.dtype), p.ndim)
            if isinstance(p, types.Array)
            else s.param(s.SCALAR, layout.type_code(p))
            for p in params
        ]
    )
    assert (list(d.param_offsets), d.args_size) == (offsets, size)


@pytest.mark.parametrize(
    "dim, dims",
    [
        (5, (5, 1, 1, 1, 1, 1, 1, 1)),
        ((5,), (5, 1, 1, 1, 1, 1, 1, 1)),
        ([2, 3], (2, 3, 1, 1, 1, 1, 1, 1)),
        ((2, 3, 4, 5, 1, 3, 1, 2), (2, 3, 4, 5, 1, 3, 1, 2)),
    ],
)
def test_grid(dim: object, dims: tuple[int, ...]) -> None:
    d = s.dispatcher()
    s.variable("echo_threads").value = 0
    s.echoed(d, [], dim=dim)
    assert tuple(s.variable("echo_dims", ctypes.c_int64 * 8)) == dims
    assert s.variable("echo_threads").value == math.prod(dims)


def test_wide_grid_runs_every_thread() -> None:
    d = s.dispatcher(variants=[(1, 1)])
    s.variable("echo_threads").value = 0
    assert d.try_launch(2**40 + 3, [], [], None)
    assert s.variable("echo_threads").value == 2**40 + 3
    assert d.required_variant(MAX_NARROW, []) == (1, 0, 0)
    assert d.required_variant((1, MAX_NARROW + 1), []) == (1, 1, 0)
    assert d.required_variant((MAX_NARROW, MAX_NARROW), []) == (1, 0, 0)


@pytest.mark.parametrize("dim", [0, (0,), (3, 0, 4), (2**62, 2**62, 0)])
def test_empty_grid_does_nothing(dim: object) -> None:
    d = s.dispatcher(variants=[])
    assert d.try_launch(dim, [], [], None) is True


def test_result_of_a_real_kernel() -> None:
    d = s.dispatcher(*[s.param(s.ARRAY, s.F32, 1, i == 2) for i in range(3)], entry="axpy")
    x, y = torch.rand(1000), np.random.rand(2000).astype("f")[::-2]
    z = s.bound((1000,))
    assert d.try_launch(1000, [x, y], [z], s.CPU)
    np.testing.assert_allclose(np.asarray(z), 2 * x.numpy() + y, rtol=1e-6)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "code, value",
    [
        *[(code, np.dtype(name).type(5)) for code, name in NUMPY.items()],
        (s.F32, np.float64(0.1)),
        (s.F64, np.float16(1.5)),
        (s.F32, np.int32(7)),
        (s.I64, np.uint8(200)),
        (s.I32, Colour.RED),
        (s.U64, np.uint64(2**64 - 1)),
    ],
)
def test_numbers_of_other_kinds(code: int, value: object) -> None:
    d = s.dispatcher(s.param(s.SCALAR, code))
    wanted = np.zeros(8, np.uint8)
    plain = np.array(value, NUMPY[code])
    wanted[: plain.nbytes] = np.frombuffer(plain.tobytes(), np.uint8)
    assert s.echoed(d, [value])[: plain.nbytes] == wanted.tobytes()[: plain.nbytes]


class Struct:
    """As much of a struct's instance as a launch looks at."""

    def __init__(self, **fields: object) -> None:
        self._values = fields


class Inner(Struct):
    pass


def test_structs_give_their_fields() -> None:
    params = [
        s.param(s.SCALAR, s.I64),
        s.param(s.ARRAY, s.F32, 1),
        s.param(s.SCALAR, s.F64),
        s.param(s.ARRAY, s.F32, 2),
    ]
    d = s.dispatcher(*params, declared=[(None, 1), (Struct, 3)])
    a = s.bound((4,))
    given = Struct(x=a, inner=Inner(y=2.5, unset=None))
    before = sys.getrefcount(a)
    whole = struct.pack("<q", 7) + expect(a.ptr, (4,), (4,)) + struct.pack("<d", 2.5) + expect(0, (0, 0), (0, 0))
    assert s.echoed(d, [7], [given]) == s.echoed(d, [7, given]) == whole
    assert d.try_run(1, [7, a, 2.5, s.bound((0, 0))]) is True
    assert sys.getrefcount(a) == before
    wrong = "needs a struct of the parameter's class"
    assert d.explain(1, [7, Inner(x=a, y=1.0, unset=None)], []) == (wrong, None)
    assert d.explain(1, [7, a], []) == (wrong, None)
    assert d.explain(1, [7, Struct(x=a)], []) == ("the struct has another number of fields", None)
    assert d.explain(1, [7, Struct(x=a, y="2", unset=None)], [])[0] == wrong
    assert d.explain(1, [7, given, 1], []) == ("too many arguments", None)
    assert d.explain(1, [7], []) == ("too few arguments", None)
    with pytest.raises(ValueError, match="3 declared leaves for 4 parameters"):
        s.dispatcher(*params, declared=[(None, 1), (Struct, 2)])
