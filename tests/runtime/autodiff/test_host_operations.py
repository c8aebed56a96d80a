"""Gradients through what the host does between launches: copies that overlap, sums and scans of whole arrays, and bound
launches. Against central differences, and what a tape can't differentiate against its refusal."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import warp_like as wp

f64 = wp.float64
RNG = np.random.default_rng(21)


@wp.kernel
def wave(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i]


@wp.kernel
def wave_in_place(y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(y[i]) * y[i]


@wp.kernel
def times(x: wp.array(dtype=f64), y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    z[i] = x[i] * y[i]


def zeros(*shape: int, dtype: Any = f64) -> wp.array:
    return wp.zeros(shape, dtype=dtype, requires_grad=True)


def value(program: Callable[[wp.array], wp.array], x: np.ndarray, weights: np.ndarray, dtype: Any) -> float:
    return float(np.sum(program(wp.array(x, dtype=dtype, requires_grad=True)).numpy() * weights))


def check(program: Callable[[wp.array], wp.array], x: np.ndarray, dtype: Any = f64) -> None:
    a = wp.array(x, dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        out = program(a)
    weights = RNG.normal(size=out.numpy().shape)
    tape.backward(grads={out: wp.array(weights, dtype=out.dtype)})
    expected = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][at] += 1e-6
        moved[1][at] -= 1e-6
        change = [value(program, m, weights, dtype) for m in moved]
        expected[at] = (change[0] - change[1]) / 2e-6
    np.testing.assert_allclose(a.grad.numpy(), expected, rtol=2e-6, atol=2e-6)


# --- copies that are new arrays, and of other libraries' arrays -------------------------------------------------


def copy_of_every_second(x: wp.array) -> wp.array:
    return x[::2].contiguous()


def copy_of_a_transposed_view(x: wp.array) -> wp.array:
    return x.reshape((2, 3)).transpose().contiguous()


def copy_with_a_gradient(x: wp.array) -> wp.array:
    y = zeros(6)
    wp.launch(wave, 6, [x, y])
    return wp.clone(y).to("cpu", requires_grad=True)


def part_of_a_strided_view(x: wp.array) -> wp.array:
    y = zeros(6)
    wp.launch(wave, 6, [x, y])
    wp.copy(y[::-2], x[1::2], dest_offset=1, src_offset=1, count=2)
    return y


@pytest.mark.parametrize(
    "copy", [part_of_a_strided_view, copy_of_every_second, copy_of_a_transposed_view, copy_with_a_gradient]
)
def test_a_copy_passes_the_gradient_on(copy: Callable[[wp.array], wp.array]) -> None:
    def program(x: wp.array) -> wp.array:
        y = copy(x)
        if y.ndim == 1:
            wp.launch(wave_in_place, len(y), [y])
        return y

    check(program, RNG.normal(size=6))


def into_a_slice(y: wp.array, x: Any) -> None:
    y[1:5] = x[:4]


def by_assign(y: wp.array, x: Any) -> None:
    y.assign(x)


def by_copy(y: wp.array, x: Any) -> None:
    wp.copy(y, x)


@pytest.mark.parametrize("write", [by_assign, by_copy])
def test_what_is_copied_from_a_tensor_passes_the_gradient_on(write: Callable[[wp.array, Any], None]) -> None:
    x, y = torch.arange(1.0, 7.0, dtype=torch.float64, requires_grad=True), zeros(6)
    for given in (x, x.detach()):  # of the second it stops, as the program says
        with wp.Tape() as tape:
            write(y, given)
            wp.launch(wave_in_place, 6, [y])
        tape.backward(grads={y: wp.ones(6, dtype=f64)})
    x0 = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x0) * x0 + np.sin(x0), rtol=1e-14)


def test_a_slice_takes_the_arrays_of_any_library() -> None:
    for given in (torch.arange(6.0), np.arange(6.0)):
        y = wp.zeros(6, dtype=float)
        into_a_slice(y, given)
        assert y.list() == [0.0, 0.0, 1.0, 2.0, 3.0, 0.0]
    y[2:4] = torch.tensor(7.0)  # one number, for all
    assert y.list() == [0.0, 0.0, 7.0, 7.0, 3.0, 0.0]


# --- copies to an array from itself ---------------------------------------------------------------------------


def shifted(y: wp.array) -> None:
    y[1:] = y[:-1]


def shifted_back(y: wp.array) -> None:
    y[:-1] = y[1:]


def reversed_elements(y: wp.array) -> None:
    y.assign(y[::-1])


def shifted_by_offset(y: wp.array) -> None:
    wp.copy(y, y, dest_offset=2, src_offset=0, count=3)


def spread(y: wp.array) -> None:
    y[::2] = y[:3]


def gathered(y: wp.array) -> None:
    y[:3] = y[::2]


@pytest.mark.parametrize("move", [spread, gathered])
def test_a_copy_between_overlapping_strides_copies_the_elements_from_before(move: Callable[[wp.array], None]) -> None:
    y = wp.array(np.arange(5.0), dtype=f64)
    move(y)
    expected = [0, 1, 1, 3, 2] if move is spread else [0, 2, 4, 3, 4]
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("move", [shifted, shifted_back, reversed_elements, shifted_by_offset, spread, gathered])
def test_a_copy_that_overlaps_its_source(move: Callable[[wp.array], None]) -> None:
    def program(a: wp.array) -> wp.array:
        y, z = wp.clone(a), zeros(5)
        move(y)
        wp.launch(wave, dim=5, inputs=[y, z])
        return z

    check(program, RNG.normal(size=5))


# --- sums and scans -------------------------------------------------------------------------------------------


def test_a_sum_of_squares() -> None:
    def program(a: wp.array) -> wp.array:
        y, total = zeros(7), zeros(1)
        wp.launch(wave, dim=7, inputs=[a, y])
        wp.utils.array_sum(y, out=total)
        wp.utils.array_inner(y, a, out=total[:])  # overwrites the sum
        wp.launch(wave_in_place, dim=1, inputs=[total])
        return total

    check(program, RNG.normal(size=7))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_sums_along_an_axis_of_strided_arrays(axis: int | None) -> None:
    def program(a: wp.array) -> wp.array:
        if axis is None:
            total = zeros(1)
            wp.utils.array_sum(a[:, ::2], out=total)
            return total
        sums = wp.utils.array_sum(a.transpose()[::2], axis=axis)
        out = wp.utils.array_inner(a.transpose(), a.transpose(), axis=axis, count=2)
        wp.utils.array_sum(sums, out=out.flatten()[:1])
        return out

    check(program, RNG.normal(size=(3, 4)))


@pytest.mark.parametrize("dtype", [wp.vec3d, wp.mat22d])
def test_inner_products_and_sums_of_vectors_and_matrices(dtype: Any) -> None:
    def program(a: wp.array) -> wp.array:
        total, out = zeros(1, dtype=dtype), zeros(1)
        wp.utils.array_sum(a, out=total, value_count=3)
        wp.utils.array_inner(a[:1], total, out=out)
        return out

    check(program, RNG.normal(size=(4, 3) if dtype is wp.vec3d else (4, 2, 2)), dtype)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("in_place", [True, False])
def test_scans(inclusive: bool, in_place: bool) -> None:
    def program(a: wp.array) -> wp.array:
        y = wp.clone(a)
        z = y if in_place else zeros(6)
        wp.utils.array_scan(y, z, inclusive=inclusive)
        wp.launch(wave_in_place, dim=6, inputs=[z])
        return z

    check(program, RNG.normal(size=6))


def test_a_scan_of_vectors_to_another_shape() -> None:
    def program(a: wp.array) -> wp.array:
        z = zeros(2, 2, dtype=wp.vec2d)
        wp.utils.array_scan(a, z)
        return z

    check(program, RNG.normal(size=(4, 2)), wp.vec2d)


def test_sums_follow_their_arrays_in_a_training_loop() -> None:
    """The tape holds arrays and no values, as with launches."""
    x, loss = wp.array(np.array([1.0, -2.0]), dtype=f64, requires_grad=True), zeros(1)
    with wp.Tape() as tape:
        wp.utils.array_inner(x, x, out=loss)
    for _ in range(30):
        tape.zero()
        tape.backward(loss=loss)
        x.assign(x.numpy() - 0.1 * x.grad.numpy())
    np.testing.assert_allclose(x.numpy(), np.array([1.0, -2.0]) * 0.8**30, rtol=1e-12)


def test_sums_without_a_gradient_record_nothing() -> None:
    x, total = wp.ones(4, dtype=f64), wp.zeros(1, dtype=f64)
    with wp.Tape() as tape:
        wp.utils.array_sum(x, out=total)
        wp.utils.array_scan(x, x)
    assert tape.launches == []


# --- what a tape can't follow ---------------------------------------------------------------------------------


def test_sorting_what_has_a_gradient_is_refused() -> None:
    keys, values = wp.array([3, 1, 2], dtype=int), zeros(3)
    wp.utils.radix_sort_pairs(keys, values)
    with wp.Tape(), pytest.raises(RuntimeError) as caught:
        wp.utils.radix_sort_pairs(keys, values)
    assert str(caught.value) == (
        "a tape does not differentiate radix_sort_pairs(), and array(shape=(3,), dtype=float64) has a gradient; sort "
        "indices, and gather the elements in a kernel"
    )


@pytest.mark.parametrize("make", [wp.copy, lambda to, x: wp.utils.array_scan(x, to)])
def test_a_copy_without_a_gradient_warns(make: Callable[[wp.array, wp.array], None]) -> None:
    x, kept, z = zeros(3), wp.zeros(3, dtype=f64), zeros(3)
    with wp.Tape() as tape:
        make(kept, x)
        wp.launch(times, dim=3, inputs=[kept, x, z])
    with pytest.warns(UserWarning, match="no gradient passes") as caught:
        tape.backward(grads={z: wp.ones(3, dtype=f64)})
    assert str(caught[0].message) == (
        "no gradient passes from kernel `times` back to the array that was copied: the copy, `x` of `times`, has no "
        "gradient; make it with requires_grad=True, or ignore this if the gradient is meant to stop there"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.backward(grads={z: wp.ones(3, dtype=f64)})


# --- bound launches -------------------------------------------------------------------------------------------


def test_a_bound_launch_is_recorded() -> None:
    def program(a: wp.array) -> wp.array:
        y, z = wp.clone(a), zeros(4)
        step = wp.launch(wave, dim=4, inputs=[y, z], record_cmd=True)
        step.launch()
        step.set_params([z, y])
        step.launch()
        return y

    check(program, RNG.normal(size=4))


def test_a_bound_launch_that_shall_not_be_recorded() -> None:
    x, y = zeros(2), zeros(2)
    step = wp.launch(wave, dim=2, inputs=[x, y], record_cmd=True, record_tape=False)
    with wp.Tape() as tape:
        step.launch()
    assert tape.launches == []
