"""Launching: argument forms, grids, and every kind of bad input, checked before anything runs."""

import re

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def fill_grid(out: wp.array2d(dtype=int)):
    i, j = wp.tid()
    out[i, j] = i * 1000 + j


@wp.kernel
def take_int(out: wp.array(dtype=wp.int64), n: wp.int8):
    out[0] = wp.int64(n)


@wp.kernel
def take_vec(out: wp.array(dtype=float), v: wp.vec3):
    out[0] = v[0] + 10.0 * v[1] + 100.0 * v[2]


@wp.kernel
def count(out: wp.array(dtype=int)):
    wp.atomic_add(out, 0, 1)


@pytest.mark.parametrize("n", [0, 1, 3, 17, 1000, 100_003])
def test_numpy_arrays_are_used_in_place(n):
    x = np.arange(n, dtype=np.float32)
    y = np.ones(n, dtype=np.float32)
    wp.launch(saxpy, dim=n, inputs=[x, y, 2.0])
    np.testing.assert_allclose(y, 2 * np.arange(n, dtype=np.float32) + 1)


def test_wp_arrays():
    x = wp.array(np.arange(5), dtype=float)
    y = wp.zeros(5, dtype=float)
    wp.launch(saxpy, dim=5, inputs=[x], outputs=[y, 3.0])
    np.testing.assert_allclose(y.numpy(), 3 * np.arange(5))


def test_torch_tensors_directly():
    torch = pytest.importorskip("torch")
    x = torch.arange(7, dtype=torch.float32, requires_grad=True)
    y = torch.ones(7)
    wp.launch(saxpy, dim=7, inputs=[x, y, 2.0])
    np.testing.assert_allclose(y.numpy(), 2 * np.arange(7) + 1)


@pytest.mark.parametrize("make", [lambda a: a[::-1], lambda a: a[::2], lambda a: np.broadcast_to(a[:1], a.shape)])
def test_any_stride_is_read_and_written_correctly(make):
    x = make(np.arange(10, dtype=np.float32))
    base = np.zeros(3 * len(x), dtype=np.float32)
    y = base[::-3]
    wp.launch(saxpy, dim=len(x), inputs=[x, y, 1.0])
    np.testing.assert_allclose(y, x)
    assert np.count_nonzero(base) == np.count_nonzero(x)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 1), (1, 64), (33, 129)])
def test_two_dimensional_grid(shape):
    out = np.zeros(shape, dtype=np.int32)
    wp.launch(fill_grid, dim=shape, outputs=[out])
    i, j = np.indices(shape)
    np.testing.assert_array_equal(out, i * 1000 + j)


@pytest.mark.parametrize("dim", [0, (0,), (4, 0), [0, 3]])
def test_an_empty_grid_does_nothing(dim):
    out = np.zeros(1, dtype=np.int32)
    wp.launch(count, dim=dim, outputs=[out])
    assert out[0] == 0


def test_more_than_2_31_threads():
    @wp.kernel
    def last(out: wp.array(dtype=wp.int64)):
        i = wp.tid()
        if i == 2147483650:
            out[0] = wp.int64(i)

    out = np.zeros(1, dtype=np.int64)
    wp.launch(last, dim=2**31 + 3, outputs=[out])
    assert out[0] == 2**31 + 2


def test_a_numpy_bool_dim_is_refused_and_a_numpy_int_taken():
    out = np.zeros(1, dtype=np.int32)
    wp.launch(count, dim=np.int64(3), outputs=[out])
    assert out[0] == 3
    with pytest.raises(TypeError, match="dim takes an int"):
        wp.launch(count, dim=np.bool_(True), outputs=[out])


F32 = np.zeros(4, dtype=np.float32)
READ_ONLY = np.zeros(4, dtype=np.float32)
READ_ONLY.flags.writeable = False

BAD = [
    (
        "wrong dtype",
        {"inputs": [F32.astype(np.float64), F32, 1.0]},
        TypeError,
        r"`saxpy`, argument 1 `x`.*array1d\[float32\].*float64",
    ),
    (
        "wrong ndim",
        {"inputs": [F32, np.zeros((4, 2), np.float32), 1.0]},
        TypeError,
        r"argument 2 `y`.*array1d.*array2d",
    ),
    ("too few", {"inputs": [F32, F32]}, ValueError, r"takes 3 arguments \(x, y, a\), got 2"),
    (
        "too many",
        {"inputs": [F32, F32, 1.0], "outputs": [F32]},
        ValueError,
        r"takes 3 arguments .* got 4 \(3 inputs and 1 outputs\)",
    ),
    ("None", {"inputs": [None, F32, 1.0]}, TypeError, r"argument 1 `x`: expected array1d\[float32\], got None"),
    (
        "number for array",
        {"inputs": [1.0, F32, 1.0]},
        TypeError,
        r"argument 1 `x`: expected array1d\[float32\], got float 1.0",
    ),
    (
        "array for number",
        {"inputs": [F32, F32, F32]},
        TypeError,
        r"argument 3 `a`: expected float32, got numpy.ndarray",
    ),
    ("string for number", {"inputs": [F32, F32, "1"]}, TypeError, r"argument 3 `a`: expected float32, got str '1'"),
    ("too large", {"inputs": [F32, F32, 1e39]}, ValueError, r"argument 3 `a`: expected float32, .*1e\+39"),
    ("read-only", {"inputs": [F32, READ_ONLY, 1.0]}, ValueError, r"argument 2 `y`: .*read-only"),
    ("device", {"inputs": [F32, F32, 1.0], "device": "cuda:7"}, Exception, r"cuda"),
    ("unknown device", {"inputs": [F32, F32, 1.0], "device": "abacus"}, Exception, r"abacus"),
    ("inputs no list", {"inputs": F32}, TypeError, r"inputs takes a list or a tuple"),
    ("negative dim", {"dim": -1, "inputs": [F32, F32, 1.0]}, ValueError, r"dim can't be negative, got -1"),
    (
        "negative in dims",
        {"dim": (2, -3), "inputs": [F32, F32, 1.0]},
        ValueError,
        r"dim can't be negative, got \(2, -3\)",
    ),
    (
        "float dim",
        {"dim": 4.0, "inputs": [F32, F32, 1.0]},
        TypeError,
        r"dim takes an int or a sequence of ints, got float 4.0",
    ),
    ("bool dim", {"dim": True, "inputs": [F32, F32, 1.0]}, TypeError, r"dim takes an int"),
    ("string dim", {"dim": "4", "inputs": [F32, F32, 1.0]}, TypeError, r"dim takes an int"),
    ("nine dims", {"dim": (1,) * 9, "inputs": [F32, F32, 1.0]}, ValueError, r"up to 8 extents, got 9"),
    (
        "array of two dimensions",
        {"dim": np.ones((2, 2), dtype=int), "inputs": [F32, F32, 1.0]},
        TypeError,
        r"kernel `saxpy`: dim takes an int or a sequence of ints, got numpy.ndarray",
    ),
    ("huge", {"dim": (2**62, 4), "inputs": [F32, F32, 1.0]}, ValueError, r"at most 2\^63 - 1 threads"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("warm", [False, True])
def test_bad_input_is_refused_before_anything_runs(arguments, error, message, warm):
    if warm:
        wp.launch(saxpy, dim=0, inputs=[F32, F32.copy(), 1.0])
    before = F32.copy()
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        wp.launch(saxpy, **{"dim": 4, **arguments})
    np.testing.assert_array_equal(F32, before)


@pytest.mark.parametrize(
    ("dim", "threads"), [((), 1), ([], 1), (np.array(3), 3), (np.array([3]), 3), (np.int8(2), 2), ([np.int64(4)], 4)]
)
def test_forms_of_a_grid(dim, threads):
    for _ in range(2):
        y = np.zeros(4, dtype=np.float32)
        wp.launch(saxpy, dim=dim, inputs=[np.ones(4, dtype=np.float32), y, 1.0])
        assert np.count_nonzero(y) == threads


@pytest.mark.parametrize("dim", [4 / 2, (4 / 2,), [1, np.float32(2.0)]])
def test_a_float_as_dim_says_how_integers_are_divided(dim):
    out = np.zeros(2, dtype=np.int32)
    with pytest.raises(TypeError, match=r"\n  help: n // 2 is an int where n / 2 is a float; int\(2.0\) converts$"):
        wp.launch(count, dim=dim, outputs=[out])
    wp.launch(count, dim=4 // 2, outputs=[out])
    wp.launch(count, dim=int(2.0), outputs=[out])
    assert out[0] == 4


def fill(out: wp.array(dtype=float)):
    out[wp.tid()] = 3.0


def test_not_a_kernel():
    with pytest.raises(TypeError) as caught:
        wp.launch(fill, dim=1, outputs=[F32])
    assert str(caught.value) == (
        f"launch() takes a kernel made by @wp.kernel, got function `fill` ({__file__}:{fill.__code__.co_firstlineno})\n"
        "  help: put @wp.kernel above `def fill`"
    )
    out = np.zeros(2, dtype=np.float32)
    wp.launch(wp.kernel(fill), dim=2, outputs=[out])
    assert out.tolist() == [3.0, 3.0]
    with pytest.raises(
        TypeError, match="got func `fill`\n  help: call it in a kernel: put @wp.kernel above a function"
    ):
        wp.launch(wp.func(fill), dim=1)
    with pytest.raises(TypeError, match="got function `<lambda>` .*\n  help: write it with def, and @wp.kernel above"):
        wp.launch(lambda: None, dim=1)
    with pytest.raises(TypeError, match=r"launch\(\) takes a kernel made by @wp.kernel, got int 3$"):
        wp.launch(3, dim=1)
    with pytest.raises(TypeError, match="wp.launch\\(saxpy"):
        saxpy(F32, F32, 1.0)


@pytest.mark.parametrize(("value", "fits"), [(127, True), (-128, True), (128, False), (-129, False), (2**70, False)])
def test_host_integers_must_fit(value, fits):
    out = np.zeros(1, dtype=np.int64)
    if fits:
        wp.launch(take_int, dim=1, inputs=[out, value])
        assert out[0] == value
    else:
        with pytest.raises(ValueError, match="argument 2 `n`: expected int8, which holds -128 to 127"):
            wp.launch(take_int, dim=1, inputs=[out, value])


@wp.kernel
def take_uint64(out: wp.array(dtype=wp.uint64), n: wp.uint64):
    out[0] = n


@pytest.mark.parametrize("value", [0, 2**63, 2**64 - 1, 2**64, -1, 2**200])
def test_host_integers_must_fit_64_bits(value):
    out = np.zeros(1, dtype=np.uint64)
    if 0 <= value < 2**64:
        wp.launch(take_uint64, dim=1, inputs=[out, value])
        assert out[0] == value
    else:
        with pytest.raises(ValueError, match="argument 2 `n`: expected uint64, which holds 0 to 18446744073709551615"):
            wp.launch(take_uint64, dim=1, inputs=[out, value])


@pytest.mark.parametrize("value", [5, np.int64(5), np.uint8(5), wp.int8(5), True])
def test_integer_forms(value):
    out = np.zeros(1, dtype=np.int64)
    wp.launch(take_int, dim=1, inputs=[out, value])
    assert out[0] == int(value)


def test_a_float_is_no_integer():
    with pytest.raises(TypeError, match="expected int8, got float 5.0"):
        wp.launch(take_int, dim=1, inputs=[np.zeros(1, dtype=np.int64), 5.0])


@pytest.mark.parametrize(
    "value",
    [wp.vec3(1, 2, 3), (1, 2, 3), [1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0]), wp.vec3d(1, 2, 3), wp.vec3i(1, 2, 3)],
)
def test_vectors_by_value(value):
    out = np.zeros(1, dtype=np.float32)
    wp.launch(take_vec, dim=1, inputs=[out, value])
    assert out[0] == 321.0


def test_matrices_transforms_and_bools_by_value():
    @wp.kernel
    def take(m: wp.mat22, t: wp.transform, flag: wp.bool, out: wp.array(dtype=float)):
        out[0] = m[1, 0]
        out[1] = t.p.z + t.q.w
        out[2] = wp.where(flag, 1.0, -1.0)

    whole = list(range(7))
    for m in (wp.mat22(1, 2, 3, 4), [[1, 2], [3, 4]], (1, 2, 3, 4), np.arange(1.0, 5.0), wp.mat22d(1, 2, 3, 4)):
        for t in (wp.transform(*whole), whole, [whole[:3], whole[3:]], (wp.vec3(0, 1, 2), wp.quat(3, 4, 5, 6))):
            for flag in (True, 1, 2, np.bool_(True), wp.int8(1)):
                out = wp.zeros(3)
                wp.launch(take, 1, inputs=[m, t, flag], outputs=[out])
                assert out.list() == [3.0, 8.0, 1.0]
    wp.launch(take, 1, inputs=[m, t, 0], outputs=[out])
    assert out.list()[2] == -1.0
    with pytest.raises(TypeError, match="argument 3 `flag`: expected bool, got float 1.0"):
        wp.launch(take, 1, inputs=[m, t, 1.0], outputs=[out])
    with pytest.raises(TypeError, match=r"argument 1 `m`: expected mat2x2\[float32\], got a list of shape \(3,\)"):
        wp.launch(take, 1, inputs=[[1, 2, 3], t, True], outputs=[out])
    with pytest.raises(TypeError, match=r"argument 2 `t`: .* got a list whose parts differ in length"):
        wp.launch(take, 1, inputs=[m, [[1, 2], [3]], True], outputs=[out])


def test_a_vector_of_another_shape_is_refused():
    out = np.zeros(1, dtype=np.float32)
    for value in [(1, 2), wp.mat33d(1.0), wp.vec2(1.0, 2.0), 1.0, "abc"]:
        with pytest.raises(TypeError, match="argument 2 `v`: expected vec3"):
            wp.launch(take_vec, dim=1, inputs=[out, value])


def test_integer_division_by_zero_does_not_kill():
    @wp.kernel
    def divide(x: wp.array(dtype=int), y: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        out[i] = x[i] / y[i] + x[i] % y[i] + x[i] // y[i]

    x = np.array([1, -7, 2**31 - 1, -(2**31)], dtype=np.int32)
    y = np.array([0, 0, 0, -1], dtype=np.int32)
    out = np.zeros(4, dtype=np.int32)
    wp.launch(divide, dim=4, inputs=[x, y, out])
    np.testing.assert_array_equal(out[:3], 0)


def test_recorded_launch():
    x, y = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    command = wp.launch(saxpy, dim=4, inputs=[x, y, 2.0], record_cmd=True)
    assert not y.any()
    command.launch()
    command.set_param_by_name("a", 3.0)
    command.set_dim(2)
    command.launch()
    np.testing.assert_array_equal(y, [5, 5, 2, 2])
    with pytest.raises(KeyError, match="no parameter `b`"):
        command.set_param_by_name("b", 1.0)
    with pytest.raises(IndexError, match="3 parameters, got index 3"):
        command.set_param_at_index(3, 1.0)
    with pytest.raises(TypeError, match="argument 3 `a`"):
        command.set_params([x, y, "no"])


def test_a_failing_kernel_takes_no_other_down():
    @wp.kernel
    def broken(x: wp.array(dtype=float)):
        x[0] = undefined_name  # noqa: F821

    @wp.kernel
    def fine(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    x = np.zeros(2, dtype=np.float32)
    for _ in range(2):
        with pytest.raises(wp.WarpCodegenError, match="undefined_name"):
            wp.launch(broken, dim=1, inputs=[x])
    wp.launch(fine, dim=2, inputs=[x])
    assert x.all()


def test_foreign_memory_outlives_its_owner():
    source = np.arange(1000, dtype=np.float32)
    a = wp.from_numpy(source)
    expected = source.copy()
    del source
    np.testing.assert_array_equal(a.numpy(), expected)
    view = a.numpy()
    del a
    np.testing.assert_array_equal(view, expected)


def test_changed_settings_take_effect_on_compiled_kernels():
    x, y = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    wp.launch(saxpy, dim=4, inputs=[x, y, 1.0])
    assert saxpy.fast is not None
    wp.config.fast_math = True
    try:
        assert saxpy.fast is None
        wp.launch(saxpy, dim=4, inputs=[x, y, 1.0])
    finally:
        wp.config.fast_math = False
    np.testing.assert_array_equal(y, 2)


def test_print_launches(capsys):
    x, y = np.ones(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    wp.launch(saxpy, dim=4, inputs=[x, y, 1.0])
    wp.config.print_launches = True
    try:
        wp.launch(saxpy, dim=(2, 2), inputs=[x, y, 1.0])
        wp.launch(saxpy, dim=4, inputs=[x, y, 1.0])
    finally:
        wp.config.print_launches = False
    assert capsys.readouterr().out == "kernel: saxpy dim: (2, 2) device: cpu\nkernel: saxpy dim: (4,) device: cpu\n"


def test_launches_are_told_to_the_user_s_logger(capsys, monkeypatch):
    heard = []

    class Mine:
        info = staticmethod(heard.append)
        debug = error = warning = staticmethod(lambda *args: None)

    monkeypatch.setattr(wp.config, "print_launches", True)
    with wp.ScopedLogger(Mine()):
        wp.launch(saxpy, dim=0, inputs=[F32, F32.copy(), 1.0])
    assert heard == ["kernel: saxpy dim: (0,) device: cpu"]
    assert capsys.readouterr() == ("", "")


def test_a_kernel_gets_the_first_indices_of_a_grid():
    seen = np.full(24, -1, dtype=np.int32)

    @wp.kernel
    def number(out: wp.array(dtype=int)):
        i = wp.tid()
        out[i] = i

    wp.launch(number, dim=(2, 3, 4), outputs=[seen])
    np.testing.assert_array_equal(seen, [0, 1, *[-1] * 22])


def test_more_than_2_31_indices_of_a_grid_of_two_dimensions():
    @wp.kernel
    def last(out: wp.array(dtype=wp.int64)):
        i = wp.tid()
        if i == 2147483650:
            wp.atomic_add(out, 0, wp.int64(i))

    out = np.zeros(1, dtype=np.int64)
    wp.launch(last, dim=(2**31 + 3, 2), outputs=[out])
    assert out[0] == 2 * (2**31 + 2)


def test_an_index_out_of_range_raises_in_debug_mode():
    @wp.kernel
    def shift(x: wp.array(dtype=float), n: int):
        i = wp.tid()
        x[i + n] = 1.0

    x = np.zeros(8, dtype=np.float32)
    wp.config.mode = "debug"
    try:
        wp.launch(shift, dim=4, inputs=[x, 4])
        message = r"kernel `shift`: index 8 is out of range for array `x` of shape \(8,\) in thread 3, line"
        with pytest.raises(IndexError, match=message):
            wp.launch(shift, dim=4, inputs=[x, 5])
    finally:
        wp.config.mode = "release"
    np.testing.assert_array_equal(x[5:], 1)


@wp.struct
class Segment:
    start: wp.vec3
    points: wp.array(dtype=float)
    length: float


@wp.kernel
def along(segment: Segment, out: wp.array(dtype=float), scale: float):
    i = wp.tid()
    out[i] = segment.points[i] * scale


def test_messages_count_the_arguments_that_the_user_gave():
    segment = Segment()
    segment.points = wp.zeros(3)
    with pytest.raises(TypeError, match=r"kernel `along`, argument 2 `out`: expected array1d\[float32\], got None"):
        wp.launch(along, 3, [segment, None, 1.0])
    with pytest.raises(TypeError, match=r"argument 3 `scale`: expected float32, got str 'x'"):
        wp.launch(along, 3, [segment, wp.zeros(3), "x"])
    with pytest.raises(ValueError, match=r"argument 2 `out`: the kernel writes this array"):
        wp.launch(along, 3, [segment, READ_ONLY, 1.0])
    command = wp.launch(along, 3, [segment, wp.zeros(3), 1.0], record_cmd=True)
    with pytest.raises(TypeError, match=r"argument 3 `scale`"):
        command.set_param_at_index(2, "x")
    out = wp.zeros(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"argument 2 `adj_out`: expected array1d\[float32\], got array1d\[int32\]"):
        wp.launch(along, 3, [segment, out, 1.0], adj_inputs=[None, wp.zeros(3, dtype=int), None], adjoint=True)


def test_elements_that_are_not_aligned_are_refused():
    bytes_ = np.zeros(64, np.uint8)
    out = wp.zeros(3)
    for n, dtype, strides in ((3, float, None), (2, float, (6,)), (3, Segment, None)):
        moved = bytes_.ctypes.data + (2 if strides is None else 0)
        given = wp.array(ptr=moved, shape=(n,), strides=strides, dtype=dtype)
        kernel = saxpy if dtype is float else of_segments
        args = [given, out, 1.0] if dtype is float else [given, out]
        refused = f"kernel `{kernel.key}`, argument 1 `.*`: the array's elements are not aligned"
        with pytest.raises(ValueError, match=refused):
            wp.launch(kernel, n, args)
        with pytest.raises(ValueError, match=refused), wp.ScopedCapture():
            wp.launch(kernel, n, args)
    wp.launch(saxpy, 3, [wp.clone(wp.array(ptr=bytes_.ctypes.data + 2, shape=(3,), dtype=float)), out, 1.0])


@wp.struct
class Counts:
    a: int
    b: int


@wp.struct
class Weighed:
    w: wp.float64
    c: int


@wp.kernel
def count_up(x: wp.array(dtype=Counts)):
    i = wp.tid()
    x[i].b += 10 * x[i].a


@wp.kernel
def weigh(x: wp.array(dtype=Weighed)):
    x[wp.tid()].c += 1


def test_structs_lie_where_their_fields_may():
    numbers = np.arange(1, 36, dtype=np.int32)  # at an address that is no multiple of the structs' 8 bytes
    first = numbers.ctypes.data + (4 if numbers.ctypes.data % 8 == 0 else 0)
    skipped = (first - numbers.ctypes.data) // 4
    for n, stride in ((17, 8), (11, 12), (1, 8), (0, 8)):
        expected = numbers.copy()
        rows = np.lib.stride_tricks.as_strided(expected[skipped:], (n, 2), (stride, 4))
        rows[:, 1] += 10 * rows[:, 0]
        wp.launch(count_up, n, [wp.array(ptr=first, shape=(n,), strides=(stride,), dtype=Counts)])
        np.testing.assert_array_equal(numbers, expected)
    with pytest.raises(ValueError, match="the array's elements are not aligned"):
        wp.launch(count_up, 2, [wp.array(ptr=first + 2, shape=(2,), dtype=Counts)])
    with pytest.raises(ValueError, match="the array's elements are not aligned"):
        wp.launch(weigh, 2, [wp.array(ptr=first, shape=(2,), dtype=Weighed)])


@wp.kernel
def of_segments(segments: wp.array(dtype=Segment), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = segments[i].length
