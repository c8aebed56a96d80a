"""Indexed arrays against NumPy's ``np.ix_``: on the host, in kernels, and their gradients."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp


def ints(*values: int) -> Any:
    return wp.array(np.array(values, np.int32))


def grid(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@wp.kernel
def update1(x: wp.indexedarray(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * 2.0
    x[i] = x[i] + 100.0


@wp.kernel
def update2(x: wp.indexedarray2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    row = x[i]
    out[i, j] = row[j] + float(x.shape[0] * 10 + x.shape[1]) + float(len(x) + x.ndim + x.size)
    wp.atomic_add(x, i, j, 1.0)
    row[j] += 1.0
    x[i][j] = x[i, j] * 2.0


@wp.kernel
def gather3(x: wp.indexedarray3d[wp.vec3], out: wp.array3d[wp.vec3]):
    i, j, k = wp.tid()
    out[i, j, k] = x[i][j, k] + x[i, j][k]


@wp.kernel
def gather4(x: wp.indexedarray(dtype=wp.float64, ndim=4), out: wp.array4d(dtype=wp.float64)):
    i, j, k, m = wp.tid()
    out[i, j, k, m] = x[i, j, k, m]
    x[i, j, k, m] = wp.float64(0.0)


def test_a_kernel_reads_and_writes_selected_elements() -> None:
    a = wp.array(grid(10))
    x, out = wp.indexedarray(a, ints(7, 2, 5)), wp.zeros(3)
    wp.launch(update1, dim=3, inputs=[x, out])
    assert out.numpy().tolist() == [14.0, 4.0, 10.0]
    wanted = grid(10)
    wanted[[7, 2, 5]] += 100
    assert a.numpy().tolist() == wanted.tolist()


@pytest.mark.parametrize("which", ["both", "first", "second", "none"])
def test_two_dimensions_views_and_atomics(which: str) -> None:
    first = ints(3, 0) if which in ("both", "first") else None
    second = ints(1, 4, 2) if which in ("both", "second") else None
    a = wp.array(grid(4, 5))
    x = wp.indexedarray(a, [first, second])
    at = np.ix_([3, 0] if first is not None else range(4), [1, 4, 2] if second is not None else range(5))
    wanted = grid(4, 5)
    rows, columns = wanted[at].shape
    expected = wanted[at] + rows * 10 + columns + rows + 2 + rows * columns
    wanted[at] = (wanted[at] + 2) * 2
    out = wp.zeros((rows, columns))
    assert x.shape == (rows, columns)
    wp.launch(update2, dim=x.shape, inputs=[x], outputs=[out])
    assert np.array_equal(out.numpy(), expected)
    assert np.array_equal(a.numpy(), wanted)


def test_vectors_and_three_and_four_dimensions() -> None:
    data = grid(3, 4, 2, 3)
    x = wp.indexedarray(wp.array(data, dtype=wp.vec3), [ints(2, 1), ints(0, 3, 3)])
    out = wp.zeros(x.shape, dtype=wp.vec3)
    wp.launch(gather3, dim=x.shape, inputs=[x, out])
    assert np.array_equal(out.numpy(), 2 * data[np.ix_([2, 1], [0, 3, 3])])
    wide = grid(2, 3, 4, 5, dtype=np.float64)
    a = wp.array(wide)
    y = wp.indexedarray4d(a, [None, ints(2), None, ints(4, 0)])
    got = wp.zeros(y.shape, dtype=wp.float64)
    wp.launch(gather4, dim=y.shape, inputs=[y, got])
    at = np.ix_(range(2), [2], range(4), [4, 0])
    assert np.array_equal(got.numpy(), wide[at])
    wide[at] = 0
    assert np.array_equal(a.numpy(), wide)


def test_strided_data_and_strided_indices() -> None:
    data = grid(8, 6)
    a = wp.array(data, copy=False)[1::2, ::-1]
    index = ints(3, 9, 1, 9, 0, 9)[::2]
    x = wp.indexedarray(a, [index, None])
    out = wp.zeros(x.shape)
    wp.launch(update2, dim=x.shape, inputs=[x], outputs=[out])
    assert np.array_equal(out.numpy(), grid(8, 6)[1::2, ::-1][[3, 1, 0]] + 36 + 3 + 2 + 18)


def test_nothing_selected() -> None:
    x = wp.indexedarray(wp.array(grid(4)), wp.zeros(0, dtype=int))
    assert x.shape == (0,)
    assert x.size == 0
    assert x.list() == []
    wp.launch(update1, dim=0, inputs=[x, wp.zeros(0)])
    x.fill_(1.0)


def test_arrays_are_indexed_by_arrays() -> None:
    data = grid(4, 5)
    a = wp.array(data)
    assert isinstance(a[ints(2, 0)], wp.indexedarray)
    assert np.array_equal(a[ints(2, 0)].numpy(), data[[2, 0]])
    assert np.array_equal(a[:, ints(3, 3)].numpy(), data[:, [3, 3]])
    assert np.array_equal(a[1:, ints(3, 1)].numpy(), data[1:, [3, 1]])
    assert np.array_equal(a[2, ints(3, 1)].numpy(), data[2, [3, 1]])
    assert np.array_equal(a[ints(1, 2), ints(3, 1)].numpy(), data[np.ix_([1, 2], [3, 1])])
    a[ints(1, 3)] = 7.0
    data[[1, 3]] = 7
    a[ints(0), 1:3] = np.array([[50.0, 60.0]], np.float32)
    data[0, 1:3] = 50, 60
    assert np.array_equal(a.numpy(), data)


def test_parts_of_indexed_arrays() -> None:
    data = grid(4, 5)
    x = wp.indexedarray(wp.array(data), [ints(3, 0, 2), None])
    chosen = data[[3, 0, 2]]
    assert x[1, 2] == chosen[1, 2]
    assert x[-1, -1] == chosen[-1, -1]
    assert np.array_equal(x[0].numpy(), chosen[0])
    assert np.array_equal(x[1:].numpy(), chosen[1:])
    assert np.array_equal(x[::2, 1::2].numpy(), chosen[::2, 1::2])
    assert np.array_equal(x[..., 4].numpy(), chosen[:, 4])
    with pytest.raises(IndexError, match="index 3 is out of range for dimension 0 with 3 elements"):
        x[3]


def test_host_writes_and_copies() -> None:
    a = wp.array(grid(3, 4))
    x = wp.indexedarray(a, [ints(0, 2)])
    x.fill_(3.0)
    x.assign(np.full((2, 4), 9.0))
    assert a.numpy()[[0, 2]].tolist() == [[9.0] * 4] * 2
    assert a.numpy()[1].tolist() == [4.0, 5.0, 6.0, 7.0]
    wp.copy(x, wp.ones((2, 4)))
    assert x.numpy().tolist() == [[1.0] * 4] * 2
    out = wp.zeros((2, 4))
    wp.copy(out, x)
    assert out.numpy().tolist() == [[1.0] * 4] * 2
    x.zero_()
    assert a.numpy()[[0, 2]].sum() == 0
    cloned = wp.clone(x)
    assert isinstance(cloned, wp.array)
    assert cloned.shape == (2, 4)
    assert wp.zeros_like(x).shape == (2, 4)
    assert x.list() == [0.0] * 8
    assert not x.is_contiguous
    assert x.to("cpu") is x
    assert str(x) == "[[0. 0. 0. 0.]\n [0. 0. 0. 0.]]"
    assert repr(x) == "indexedarray(shape=(2, 4), dtype=float32)"


@wp.kernel
def weigh(x: wp.indexedarray(dtype=float), w: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, w[i] * x[i] * x[i])


@wp.kernel
def scatter(x: wp.array(dtype=float), out: wp.indexedarray(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * x[i]


def test_gradients_flow_into_the_array_that_is_indexed() -> None:
    a = wp.array(grid(6), requires_grad=True)
    index, w, loss = [4, 1, 4], wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(1, requires_grad=True)
    x = wp.indexedarray(a, ints(*index))
    with wp.Tape() as tape:
        wp.launch(weigh, dim=3, inputs=[x, w, loss])
    tape.backward(loss)
    wanted = np.zeros(6)
    np.add.at(wanted, index, 2 * w.numpy() * a.numpy()[index])
    assert np.array_equal(a.grad.numpy(), wanted)
    assert np.array_equal(x.grad.numpy(), wanted[index])


def test_gradients_flow_out_of_the_array_that_is_indexed() -> None:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    a = wp.zeros(6, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scatter, dim=3, inputs=[x], outputs=[wp.indexedarray(a, ints(5, 0, 2))])
    tape.backward(grads={a: wp.array(grid(6))})
    assert x.grad.numpy().tolist() == [2.0 * 5, 4.0 * 0, 6.0 * 2]


def test_explicit_adjoint_launch() -> None:
    a = wp.array(grid(6))
    adjoint, loss_adjoint = wp.zeros(6), wp.array([1.0], dtype=float)
    index = ints(4, 1, 4)
    wp.launch(
        weigh, dim=3, inputs=[wp.indexedarray(a, index), wp.ones(3), wp.zeros(1)],
        adj_inputs=[wp.indexedarray(adjoint, index), None, loss_adjoint], adjoint=True,
    )  # fmt: skip
    assert adjoint.numpy().tolist() == [0.0, 2.0, 0.0, 0.0, 16.0, 0.0]


@pytest.mark.parametrize(
    "copy",
    [
        lambda x, y: wp.copy(y, x),
        lambda x, y: y.assign(x.contiguous()),
        lambda x, y: y.assign(wp.clone(x)),
        lambda x, y: wp.map(lambda v: v, x, out=y),
        lambda x, y: y.assign(wp.map(lambda v: v, x)),
    ],
)
def test_a_tape_records_copies(copy: Any) -> None:
    a, y = wp.array(grid(6), requires_grad=True), wp.zeros(3, requires_grad=True)
    index = ints(4, 1, 4)
    with wp.Tape() as tape:
        copy(wp.indexedarray(a, index), y)
    assert y.numpy().tolist() == [4.0, 1.0, 4.0]
    seed = wp.array([1.0, 2.0, 4.0], dtype=float)
    for times in (1, 2):
        tape.backward(grads={y: seed})
        assert a.grad.numpy().tolist() == [0.0, 2.0 * times, 0.0, 0.0, 5.0 * times, 0.0]


def test_a_tape_refuses_writes_of_the_host() -> None:
    x = wp.indexedarray(wp.array(grid(4), requires_grad=True), ints(1, 2))
    with wp.Tape(), pytest.raises(RuntimeError, match="a tape does not differentiate what the host writes to it"):
        x.fill_(1.0)


@wp.func
def total(x: wp.indexedarray(dtype=float)):
    s = x.dtype(0.0)
    for i in range(x.shape[0]):
        s += x[i]
    return s


@wp.kernel
def sum_rows(x: wp.indexedarray2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = total(x[i])


def test_functions_take_indexed_arrays() -> None:
    data = grid(4, 5)
    out = wp.zeros(2)
    wp.launch(sum_rows, dim=2, inputs=[wp.indexedarray(wp.array(data), [ints(3, 1), ints(0, 4)]), out])
    assert out.numpy().tolist() == data[np.ix_([3, 1], [0, 4])].sum(1).tolist()


def test_a_command_is_launched_again_with_another() -> None:
    a, out = wp.array(grid(6)), wp.zeros(2)
    command = wp.launch(update1, dim=2, inputs=[wp.indexedarray(a, ints(1, 2)), out], record_cmd=True)
    command.set_param_at_index(0, wp.indexedarray(a, ints(5, 4)))
    command.launch()
    assert out.numpy().tolist() == [10.0, 8.0]


def test_ptx() -> None:
    assert "ld.global" in update2.inspect_ptx(target="sm_90")


def test_debug_mode_checks_the_indices() -> None:
    x, out = wp.indexedarray(wp.array(grid(4)), ints(1, 4)), wp.zeros(2)
    wp.config.mode = "debug"
    try:
        with pytest.raises(IndexError, match="kernel `update1`: index 4 is out of range for array `x.data` of shape"):
            wp.launch(update1, dim=2, inputs=[x, out])
    finally:
        wp.config.mode = "release"


def test_the_host_checks_the_indices() -> None:
    x = wp.indexedarray(wp.array(grid(4)), ints(1, 4))
    message = r"index 4 of indexedarray\(shape=\(2,\), dtype=float32\) is out of range for dimension 0 with 4 elements"
    for use in (x.numpy, x.zero_, x.list, x.contiguous):
        with pytest.raises(IndexError, match=message):
            use()


def raised(kind: type[Exception], f: Any) -> str:
    with pytest.raises(kind) as caught:
        f()
    return str(caught.value)


def test_messages() -> None:
    a = wp.array(grid(4))
    x = wp.indexedarray(a, ints(1, 2))
    assert raised(TypeError, lambda: wp.launch(update1, dim=2, inputs=[a, wp.zeros(2)])) == (
        "kernel `update1`, argument 1 `x`: expected indexedarray1d[float32], got array1d[float32]"
    )
    message = raised(TypeError, lambda: wp.launch(scatter, dim=2, inputs=[x, x])).splitlines()
    assert message[0] == "kernel `scatter`, argument 1 `x`: expected array1d[float32], got indexedarray1d[float32]"
    assert message[-1] == "  help: annotate `x: wp.indexedarray(dtype=float)`, or pass a copy, x.contiguous()"
    assert raised(TypeError, lambda: wp.indexedarray(a, [[1, 2]])) == (
        "the indices of dimension 0 are an array of int32, got list; wp.array(..., dtype=int) makes one"
    )
    assert raised(TypeError, lambda: wp.indexedarray(a, wp.zeros(3))) == (
        "the indices of dimension 0 are a one-dimensional array of int32, got array(shape=(3,), dtype=float32)"
    )
    assert raised(ValueError, lambda: wp.indexedarray(a, [None, None])) == (
        "2 arrays of indices for array(shape=(4,), dtype=float32), which has 1 dimensions"
    )
    assert raised(ValueError, lambda: wp.indexedarray2d(a)) == (
        "array(shape=(4,), dtype=float32) makes an indexed array of 1 dimensions, `ndim` asks for 2"
    )
    assert raised(TypeError, lambda: wp.indexedarray(a, dtype=int)) == (
        "an indexed array of int32 can't select elements of array(shape=(4,), dtype=float32)"
    )
    assert raised(ValueError, lambda: x.assign([1.0, 2.0, 3.0])) == (
        "can't assign data of shape (3,) to indexedarray(shape=(2,), dtype=float32), whose data has shape (2,)"
    )


@wp.kernel
def too_many(x: wp.indexedarray(dtype=float)):
    x[0, 0] = 1.0


@wp.kernel
def too_few(x: wp.indexedarray2d(dtype=float)):
    x[0] = 1.0


@wp.kernel
def no_attribute(x: wp.indexedarray(dtype=float)):
    x[0] = x.data[0]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (too_many, "an indexedarray1d[float32] has 1 dimension, got 2 indices"),
        (too_few, "a part of an indexedarray1d[float32] can't be assigned"),
        (no_attribute, "an indexedarray1d[float32] has no attribute `data` in kernel code"),
    ],
)
def test_kernel_messages(kernel: Any, message: str) -> None:
    assert message in raised(wp.WarpCodegenError, lambda: kernel.inspect_ir())


@wp.kernel
def anything(x: Any, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i]


@wp.kernel
def any_dtype(x: wp.indexedarray(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = x[i] + x.dtype(1)


def test_generic_kernels() -> None:
    a, out = wp.array(grid(5)), wp.zeros(2)
    for given, wanted in ((a, [0.0, 1.0]), (wp.indexedarray(a, ints(3, 1)), [3.0, 1.0])):
        wp.launch(anything, dim=2, inputs=[given, out])
        assert out.list() == wanted
    for dtype in (wp.int32, wp.float64):
        found = wp.zeros(2, dtype=dtype)
        wp.launch(any_dtype, dim=2, inputs=[wp.indexedarray(wp.array(grid(5), dtype=dtype), ints(3, 1)), found])
        assert found.list() == [4, 2]
    assert raised(TypeError, lambda: wp.launch(any_dtype, dim=2, inputs=[a, out])) == (
        "kernel `any_dtype`, argument 1 `x`: expected indexedarray(ndim=1, dtype=Any), got array1d[float32]"
    )


def test_arrays_take_the_elements_of_indexed_ones() -> None:
    a, x = wp.array(grid(3, 4)), wp.zeros((2, 4))
    rows = a[ints(2, 0)]
    expected = grid(3, 4)[[2, 0]]
    x.assign(rows)
    np.testing.assert_array_equal(x.numpy(), expected)
    x[:, 1:3] = rows[:, :2]
    np.testing.assert_array_equal(x.numpy()[:, 1:3], expected[:, :2])
    x[:] = a[ints(1), :]
    np.testing.assert_array_equal(x.numpy(), grid(3, 4)[[1, 1]])
    np.testing.assert_array_equal(wp.array(rows).numpy(), expected)
    np.testing.assert_array_equal(wp.array(rows, dtype=wp.int64).numpy(), expected)
    with pytest.raises(ValueError, match=r"can't assign data of shape \(2, 4\)"):
        wp.zeros(3).assign(rows)
    v = wp.zeros(4, requires_grad=True)
    w = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        w.assign(v[ints(3, 1)])
    tape.backward(grads={w: wp.array([1.0, 2.0], dtype=float)})
    np.testing.assert_array_equal(v.grad.numpy(), [0.0, 2.0, 0.0, 1.0])


def test_vectors_are_assigned_in_any_form() -> None:
    numbers = np.arange(6, dtype=np.float32)
    forms = [wp.array(numbers.reshape(2, 3), dtype=wp.vec3), numbers.reshape(2, 3).tolist(), numbers, wp.array(numbers)]
    for src in forms:
        a = wp.zeros(4, dtype=wp.vec3)
        wp.indexedarray(a, [wp.array([2, 0], dtype=int)]).assign(src)
        np.testing.assert_array_equal(a.numpy(), [[3, 4, 5], [0, 0, 0], [0, 1, 2], [0, 0, 0]])
    nothing = wp.indexedarray(a, [wp.zeros(0, dtype=int)])
    for src in ([], np.zeros((0, 3)), wp.zeros(0, dtype=wp.vec3)):
        nothing.assign(src)
    with pytest.raises(ValueError, match="can't assign data of shape"):
        wp.indexedarray(a, [wp.array([2, 0], dtype=int)]).assign(numbers[:3])
