"""``wp.cast``: NumPy's memory says what the bits of one type are in another."""

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define, everywhere
from tests.long_tail import sampled


@wp.struct
class Small:
    f: wp.float16
    i: wp.int16


@wp.struct
class Mixed:
    a: wp.int8
    b: wp.vec2h
    c: wp.bool
    d: wp.uint64


@wp.struct
class Outer:
    small: Small
    v: wp.vec3


@wp.struct
class Arrays:
    x: wp.array(dtype=float)


PAIRS = [
    ("float", "int"), ("wp.float64", "wp.uint64"), ("wp.bfloat16", "wp.float16"), ("wp.uint8", "wp.bool"),
    ("wp.bool", "wp.int8"), ("wp.vec2", "wp.vec2i"), ("wp.vec2", "wp.float64"), ("wp.uint64", "wp.vec4h"),
    ("wp.vec4", "wp.mat22"), ("wp.mat22", "wp.quat"), ("wp.quatd", "wp.mat44h"), ("wp.vec3ub", "wp.vec3b"),
    ("wp.transform", "wp.types.vector(length=14, dtype=wp.int16)"), ("Small", "int"), ("int", "Small"),
    ("Small", "wp.vec2h"), ("Mixed", "wp.vec2d"), ("wp.types.vector(length=16, dtype=wp.int8)", "Mixed"),
    ("Mixed", "wp.types.vector(length=2, dtype=wp.uint64)"), ("Outer", "wp.vec4"), ("wp.vec2d", "Outer"),
]  # fmt: skip
NAMES = {"Small": Small, "Mixed": Mixed, "Outer": Outer}


def array_of(name: str, data: bytes) -> wp.array:
    t = eval(name, {"wp": wp, "float": float, "int": int, **NAMES})
    n = len(data) // wp.types.type_size_in_bytes(t)
    made = wp.zeros(n, dtype=t)
    memory = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * len(data)).from_address(made.ptr))
    memory[:] = np.frombuffer(data, np.uint8)
    return made


def bytes_of(a: wp.array, n: int) -> np.ndarray:
    return np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * n).from_address(a.ptr)).copy()


def paddings(count: int) -> np.ndarray:
    """Which bytes of ``count`` elements of Mixed belong to none of its fields."""
    return np.isin(np.arange(count * 16) % 16, (1, 7))


OPTIONS = {"lanes": {}, "one lane": {"vector_width": 1}, "debug": {"mode": "debug"}}
CASES = [(*pair, mode) for pair in PAIRS for mode in OPTIONS if mode == "lanes" or "Mixed" in pair]


@pytest.mark.parametrize(("given", "wanted", "mode"), sampled(CASES, every=2))
def test_bits_are_kept(given, wanted, mode):
    source = f"@wp.kernel\ndef k(x: wp.array(dtype={given}), y: wp.array(dtype={wanted})):\n"
    source += f"    i = wp.tid()\n    y[i] = wp.cast(x[i], {wanted})\n"
    kernel = define(source, eager=True, **NAMES)["k"]
    size = wp.types.type_size_in_bytes(eval(given, {"wp": wp, "float": float, "int": int, **NAMES}))
    n = 37
    data = np.random.default_rng(5).integers(0, 256, n * size, np.uint8)
    if "bool" in (given + wanted):
        data &= 1
    if "Mixed" in (given, wanted):
        data.reshape(n, size)[:, 6] &= 1  # its bool
    x, y = array_of(given, data.tobytes()), array_of(wanted, bytes(n * size))
    wp.launch(kernel, n, [x], [y], options=OPTIONS[mode])
    hidden = paddings(n) if "Mixed" in (given, wanted) else np.zeros(n * size, bool)
    np.testing.assert_array_equal(np.where(hidden, 0, bytes_of(y, n * size)), np.where(hidden, 0, data))
    assert ".visible .entry" in kernel.inspect("ptx", target="sm_80")


def test_the_interpreter_agrees():
    source = "@wp.kernel\ndef k(x: wp.array(dtype=float), out: wp.array(dtype=int)):\n    i = wp.tid()\n"
    source += "    s = wp.cast(x[i], Small)\n    s.i += wp.int16(1)\n    v = wp.cast(wp.vec2(x[i], x[i]), wp.vec4h)\n"
    source += "    out[i] = wp.cast(s, int) + int(wp.cast(v, wp.uint64) >> wp.uint64(40))\n"
    x = np.random.default_rng(1).normal(size=9).astype(np.float32)
    got = everywhere(define(source, eager=True, **NAMES)["k"], 9, x, np.zeros(9, np.int32))[1]
    bits = x.view(np.uint32).astype(np.uint64)
    s = (bits & 0xFFFF) | ((((bits >> 16) + 1) & 0xFFFF) << 16)
    np.testing.assert_array_equal(got, (s + (bits >> np.uint64(8))).astype(np.uint32).view(np.int32))


def test_numbers_of_other_sizes_are_refused():
    for given, wanted, reason in (
        ("x[0]", "wp.float64", "a float32 of 4 bytes can't be a float64 of 8 bytes"),
        ("wp.vec3(x[0])", "wp.vec4", r"a vec3\[float32\] of 12 bytes can't be a vec4\[float32\] of 16 bytes"),
        ("wp.int8(1)", "Small", "an int8 of 1 byte can't be a struct Small of 4 bytes"),
        ("x", "wp.uint64", r"got an array1d\[float32\]"),
        ("wp.uint64(3)", "Arrays", "got a struct Arrays"),
    ):
        source = f"@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    y = wp.cast({given}, {wanted})\n"
        kernel = define(source, eager=True, **NAMES, Arrays=Arrays)["k"]
        with pytest.raises(wp.WarpCodegenTypeError, match=rf"cast\(\) keeps the bits.*{reason}"):
            wp.launch(kernel, 1, inputs=[wp.zeros(1)])


def test_the_gradient_passes_where_a_number_stays_what_it_is():
    @wp.kernel
    def k(x: wp.array(dtype=wp.vec4), y: wp.array(dtype=float)):
        m = wp.cast(x[0], wp.mat22)
        y[0] = 2.0 * m[1, 0] + wp.cast(wp.cast(m[0, 0], int), float)

    x, y = wp.array([[1.0, 2.0, 3.0, 4.0]], dtype=wp.vec4, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 1, [x], [y])
    tape.backward(grads={y: wp.ones(1)})
    assert y.numpy().tolist() == [7.0]
    assert x.grad.numpy().tolist() == [[0.0, 0.0, 2.0, 0.0]]  # none passes through an integer
