"""``wp.autograd``: Jacobians, their pictures, and the checks that find wrong gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.gradients import _bind as bind
from tests.passes.ad.test_kernel_gradients import CASES
from warp_like.runtime.memory.recorder import recorder

f64 = wp.float64
FINE = {"eps": 1e-6, "atol": 1e-6, "rtol": 1e-5, "show_summary": False}


@wp.kernel
def mixed(
    a: wp.array(dtype=f64),
    n: int,
    b: wp.array(dtype=wp.vec2d),
    constant: wp.array(dtype=f64),
    o: wp.array(dtype=f64),
    p: wp.array(dtype=wp.vec2d),
):
    i = wp.tid()
    o[i] = a[i] * b[i][0] * f64(n) + constant[i]
    p[i] = b[i] * a[(i + 1) % 3]


def variable(values: Any, dtype: Any = f64) -> wp.array:
    return wp.array(np.array(values, dtype=np.float64), dtype=dtype, requires_grad=True)


def mixed_arguments() -> tuple[list[Any], list[Any]]:
    a, b = variable([1.0, 2.0, 3.0]), variable([[4.0, 5.0], [6.0, 7.0], [8.0, 9.0]], wp.vec2d)
    constant = wp.zeros(3, dtype=f64)
    return [a, 2, b, constant], [variable(np.zeros(3)), variable(np.zeros((3, 2)), wp.vec2d)]


# --- Jacobians ------------------------------------------------------------------------------------------------


def test_jacobian() -> None:
    inputs, outputs = mixed_arguments()
    got = wp.autograd.jacobian(mixed, 3, inputs, outputs)
    assert list(got) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    np.testing.assert_array_equal(got[0, 0].numpy(), np.diag([8.0, 12.0, 16.0]))
    assert (got[0, 1].shape, got[0, 1].dtype) == ((6, 3), f64)
    np.testing.assert_array_equal(got[0, 1].numpy()[:, 1], [4.0, 5.0, 0, 0, 0, 0])
    assert (got[2, 0].shape, got[2, 0].dtype) == ((3, 3), wp.vec2d)
    np.testing.assert_array_equal(got[2, 0].numpy()[1], [[0, 0], [4.0, 0], [0, 0]])
    assert (got[2, 1].shape, got[2, 1].dtype) == ((6, 3), wp.vec2d)


@pytest.mark.parametrize("name", ["straight", "nested", "gather and scatter", "vectors", "matrices", "atomic max"])
def test_jacobian_agrees_with_differences(name: str) -> None:
    kernel, dim, values, shape = CASES[name]
    inputs = [bind(a, kernel, i) for i, a in enumerate(values)]
    outputs = [variable(np.zeros(shape))]
    got = wp.autograd.jacobian(kernel, dim, inputs, outputs)
    expected = wp.autograd.jacobian_fd(kernel, dim, inputs, outputs, eps=1e-6)
    assert got.keys() == expected.keys()
    for pair, matrix in got.items():
        scale = max(1.0, np.abs(expected[pair].numpy()).max())
        np.testing.assert_allclose(matrix.numpy(), expected[pair].numpy(), rtol=1e-6, atol=1e-6 * scale)


def test_arguments_and_gradients_stay_as_they_are() -> None:
    @wp.kernel
    def overwrite(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i] * x[i] + y[i]
        x[i] = 0.0

    x, y = variable([1.0, 2.0]), variable([3.0, 4.0])
    x.grad.fill_(5.0)
    outer = wp.Tape()
    with outer:
        got = wp.autograd.jacobian(overwrite, 2, [x], [y])
        differences = wp.autograd.jacobian_fd(overwrite, 2, [x], [y], eps=1e-6)
        assert wp.autograd.gradcheck(overwrite, 2, [x], [y], **FINE)
    np.testing.assert_array_equal(got[0, 0].numpy(), np.diag([2.0, 4.0]))
    np.testing.assert_allclose(differences[0, 0].numpy(), np.diag([2.0, 4.0]), rtol=1e-8, atol=1e-8)
    for a, values in ((x, [1.0, 2.0]), (x.grad, [5.0, 5.0]), (y, [3.0, 4.0]), (y.grad, [0.0, 0.0])):
        np.testing.assert_array_equal(a.numpy(), values)
    assert outer.launches == []


def two_steps(x: wp.array, factor: float) -> list[wp.array]:
    """A Python function of an array and a number, with two results."""
    middle, y = (wp.zeros(x.shape, dtype=f64, requires_grad=True) for _ in range(2))
    wp.launch(powers, dim=len(x), inputs=[x, factor, middle])
    wp.launch(powers, dim=len(x), inputs=[middle, 1.0, y])
    return [y, middle]


@wp.kernel
def powers(x: wp.array(dtype=f64), factor: f64, y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i] * factor


def test_a_python_function() -> None:
    x = variable([1.0, -2.0])
    got = wp.autograd.jacobian(two_steps, inputs=[x, 0.5])
    np.testing.assert_allclose(got[0, 0].numpy(), np.diag(9 * x.numpy() ** 8 * 0.5**3))
    np.testing.assert_allclose(got[0, 1].numpy(), np.diag(1.5 * x.numpy() ** 2))
    assert wp.autograd.gradcheck(two_steps, inputs=[x, 0.5], **FINE)


def test_masks_and_limits() -> None:
    inputs, outputs = mixed_arguments()
    got = wp.autograd.jacobian(mixed, 3, inputs, outputs, [("b", "p"), (0, 0)], max_outputs_per_var=2)
    assert list(got) == [(2, 1), (0, 0)]
    assert np.isnan(got[0, 0].numpy()).tolist() == [[False] * 3, [False] * 3, [True] * 3]
    fd = wp.autograd.jacobian_fd(mixed, 3, inputs, outputs, [("a", "o")], max_inputs_per_var=1)
    assert np.isnan(fd[0, 0].numpy()).tolist() == [[False, True, True]] * 3
    with pytest.raises(ValueError, match="`mixed` has no input 'n' with requires_grad=True; it has 0 `a`, 2 `b`"):
        wp.autograd.jacobian(mixed, 3, inputs, outputs, [("n", "o")])


def test_what_can_not_be_differentiated_is_said() -> None:
    inputs, outputs = mixed_arguments()
    plain = [wp.zeros(3, dtype=f64), wp.zeros(3, dtype=wp.vec2d)]
    with pytest.raises(ValueError, match="`mixed` has no output that is an array of floats with requires_grad"):
        wp.autograd.jacobian(mixed, 3, inputs, plain)
    with pytest.raises(ValueError, match="`mixed` has no input that is an array of floats with requires_grad"):
        wp.autograd.jacobian(mixed, 3, [plain[0], 2, plain[1], plain[0]], outputs)
    with pytest.raises(ValueError, match="`mixed`: dim is needed to launch a kernel"):
        wp.autograd.gradcheck(mixed, inputs=inputs, outputs=outputs)
    with pytest.raises(ValueError, match="returns int, expected an array or several"):
        wp.autograd.jacobian(lambda x: 3, inputs=inputs[:1])


def test_bfloat16_is_read_as_numbers() -> None:
    @wp.kernel
    def double(x: wp.array(dtype=wp.bfloat16), y: wp.array(dtype=wp.bfloat16)):
        i = wp.tid()
        y[i] = x[i] + x[i]

    x, y = (wp.array([1.0, 2.0], dtype=wp.bfloat16, requires_grad=True) for _ in range(2))
    assert wp.autograd.gradcheck(double, 2, [x], [y], eps=0.25, show_summary=False)
    np.testing.assert_array_equal(wp.autograd.jacobian(double, 2, [x], [y])[0, 0]._values(), 2 * np.eye(2))


# --- checking -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directions", [0, 3])
@pytest.mark.parametrize("name", CASES)
def test_right_gradients_pass(name: str, directions: int) -> None:
    kernel, dim, values, shape = CASES[name]
    inputs = [bind(a, kernel, i) for i, a in enumerate(values)]
    assert wp.autograd.gradcheck(kernel, dim, inputs, [variable(np.zeros(shape))], directions=directions, **FINE)


def wrong_at_the_second(x: wp.array) -> wp.array:
    """The squares of ``x``, with an adjoint that takes the second one for a cube."""
    y = wp.array(x.numpy() ** 2, dtype=f64, requires_grad=True)

    def backward() -> None:
        slope = 2 * x.numpy()
        slope[1] = 3 * x.numpy()[1] ** 2
        x.grad.assign(x.grad.numpy() + slope * y.grad.numpy())

    if recorder.active is not None:
        recorder.active.record_func(backward, [x, y])
    return y


@pytest.mark.parametrize("directions", [0, 2])
def test_a_wrong_gradient_is_found(directions: int, capsys: pytest.CaptureFixture[str]) -> None:
    x = variable([1.0, 4.0, -1.0])
    options = {**FINE, "directions": directions}
    assert not wp.autograd.gradcheck(wrong_at_the_second, inputs=[x], raise_exception=False, **options)
    with pytest.raises(ValueError, match="the gradient of `wrong_at_the_second` differs from central differences") as e:
        wp.autograd.gradcheck(wrong_at_the_second, inputs=[x], **options)
    if not directions:
        assert str(e.value).splitlines()[1] == (
            "  of `0` with respect to `x`, worst at (1, 1): gradient 48, differences 8"
        )
    assert capsys.readouterr().out == ""


def test_nan_is_wrong() -> None:
    def nan(x: wp.array) -> wp.array:
        y = wp.array(x.numpy(), dtype=f64, requires_grad=True)
        if recorder.active is not None:
            recorder.active.record_func(lambda: x.grad.fill_(float("nan")), [x, y])
        return y

    assert not wp.autograd.gradcheck(nan, inputs=[variable([1.0])], raise_exception=False, **FINE)


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = mixed_arguments()
    assert wp.autograd.gradcheck(mixed, 3, inputs, outputs, input_output_mask=[("a", "o")])
    assert capsys.readouterr().out.startswith("gradients of mixed\n  a -> o: right, worst at (")


def test_directions_cost_few_evaluations() -> None:
    calls = 0

    def squares(x: wp.array) -> wp.array:
        nonlocal calls
        calls += 1
        y = wp.zeros(x.shape, dtype=f64, requires_grad=True)
        wp.launch(powers, dim=len(x), inputs=[x, 1.0, y])
        return y

    x = variable(np.linspace(-1, 1, 5000))
    assert wp.autograd.gradcheck(squares, inputs=[x], directions=2, **FINE)
    assert calls == 7  # what it returns, and for each direction once with a tape and twice without


def test_single_precision_by_default() -> None:
    @wp.kernel
    def wave(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.sin(3.0 * x[i]) * x[i]

    x, y = (wp.array(np.linspace(-1, 1, 6), dtype=float, requires_grad=True) for _ in range(2))
    assert wp.autograd.gradcheck(wave, 6, [x], [y], show_summary=False)


# --- tapes ----------------------------------------------------------------------------------------------------


def recorded() -> tuple[wp.Tape, wp.array, wp.array]:
    x, middle, y = variable([1.0, -0.5]), variable(np.zeros(2)), variable(np.zeros(2))
    with wp.Tape() as tape:
        wp.launch(powers, dim=2, inputs=[x, 2.0, middle])
        wp.launch(CASES["straight"][0], dim=2, inputs=[middle, x, y])
    return tape, x, y


def test_gradcheck_tape(capsys: pytest.CaptureFixture[str]) -> None:
    tape, x, y = recorded()
    before = x.numpy().copy(), y.numpy().copy()
    options = {**FINE, "show_summary": True}
    assert wp.autograd.gradcheck_tape(tape, **options)
    out = capsys.readouterr().out
    assert out.index("gradients of powers\n  x -> y: right") < out.index("gradients of straight")
    assert out.count("right") == 3
    np.testing.assert_array_equal(x.numpy(), before[0])
    np.testing.assert_array_equal(y.numpy(), before[1])

    assert wp.autograd.gradcheck_tape(tape, reverse_launches=True, skip_to_launch_index=1, **options)
    assert "straight" not in capsys.readouterr().out
    assert wp.autograd.gradcheck_tape(tape, blacklist_kernels=["powers"], **options)
    assert "powers" not in capsys.readouterr().out
    masks = {"straight": [("y", "out")]}
    assert wp.autograd.gradcheck_tape(
        tape, whitelist_kernels=["straight"], input_output_masks=masks, directions=1, **options
    )
    assert capsys.readouterr().out.count("right") == 1


def test_gradcheck_tape_checks_what_a_kernel_updates_in_place() -> None:
    @wp.kernel
    def decay(y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = wp.exp(-y[i]) * y[i]

    y = variable([1.0, -0.5])
    with wp.Tape() as tape:
        wp.launch(decay, dim=2, inputs=[y])
    assert wp.autograd.gradcheck_tape(tape, **FINE)


@wp.kernel
def increment(x: wp.array(dtype=f64)):
    i = wp.tid()
    x[i] = x[i] + 1.0


@wp.kernel
def squared(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel(enable_backward=False)
def squared_without_gradient(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_inputs_are_restored_unless_asked_not_to() -> None:
    def changes_its_input(x: wp.array) -> wp.array:
        wp.launch(increment, dim=3, inputs=[x])
        y = wp.zeros_like(x)
        wp.launch(squared, dim=3, inputs=[x], outputs=[y])
        return y

    x = variable([1.0, 2.0, 3.0])
    assert wp.autograd.gradcheck(changes_its_input, inputs=[x], **FINE)
    assert x.list() == [1.0, 2.0, 3.0]
    assert not wp.autograd.gradcheck(changes_its_input, inputs=[x], restore_inputs=False, **FINE, raise_exception=False)
    x.assign([1.0, 2.0, 3.0])
    found = wp.autograd.jacobian(changes_its_input, inputs=[x], restore_inputs=False)[0, 0]
    assert x.list() == [3.0, 4.0, 5.0]  # once to see what it returns, once for the tape
    np.testing.assert_array_equal(found.numpy(), np.diag([6.0, 8.0, 10.0]))


def test_kernels_whose_gradients_are_switched_off() -> None:
    x, y = variable([1.0, 2.0]), variable([0.0, 0.0])

    def function(x: wp.array) -> wp.array:
        wp.launch(squared_without_gradient, 2, inputs=[x], outputs=[y])
        return y

    message = (
        r"kernel `squared_without_gradient`: gradients are switched off \(enable_backward=False\), so there is no "
        r"Jacobian by reverse mode; jacobian_fd\(\) takes differences"
    )
    for call in ((squared_without_gradient, 2, [x], [y]), (function, None, [x])):
        with pytest.raises(ValueError, match=message):
            wp.autograd.jacobian(*call)
        quotients = wp.autograd.jacobian_fd(*call, eps=1e-6)[0, 0]
        np.testing.assert_allclose(quotients.numpy(), np.diag([2.0, 4.0]), rtol=1e-8)
    with wp.Tape() as tape:
        function(x)
        wp.launch(squared, 2, inputs=[x], outputs=[y])
    assert wp.autograd.gradcheck_tape(tape, **FINE)


# --- pictures -------------------------------------------------------------------------------------------------


@pytest.fixture
def pyplot() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("log_scale", [False, True])
@pytest.mark.parametrize("scale_each", [False, True])
def test_the_picture(pyplot: Any, tmp_path: Path, log_scale: bool, scale_each: bool) -> None:
    inputs, outputs = mixed_arguments()
    got = wp.autograd.jacobian(mixed, 3, inputs, outputs, [("a", "o"), ("a", "p"), ("b", "p")])
    figure = wp.autograd.jacobian_plot(
        got, mixed, inputs, title="slopes", log_scale=log_scale, scale_colors_per_submatrix=scale_each
    )
    images = [axis for axis in figure.axes if axis.get_visible() and axis.get_images()]
    assert [(a.get_xlabel(), a.get_ylabel()) for a in images] == [("a", "o"), ("a", "p"), ("b", "p")]
    drawn = images[2].get_images()[0].get_array()
    assert drawn.shape == (6, 6)
    with np.errstate(divide="ignore"):
        expected = got[2, 1].numpy().reshape(6, 6)
        np.testing.assert_array_equal(drawn, np.log10(np.abs(expected)) if log_scale else expected)
    figure.savefig(tmp_path / "slopes.png")
    assert (tmp_path / "slopes.png").stat().st_size > 1000


def test_pictures_of_functions_and_errors(pyplot: Any) -> None:
    x = variable([1.0, -2.0])
    wp.autograd.jacobian(two_steps, inputs=[x, 0.5], plot_jacobians=True)
    wp.autograd.gradcheck(two_steps, inputs=[x, 0.5], plot_relative_error=True, plot_absolute_error=True, **FINE)
    titles = [pyplot.figure(n).get_suptitle() for n in pyplot.get_fignums()]
    assert titles == ["", "relative error of the gradient of two_steps", "absolute error of the gradient of two_steps"]
    pyplot.close("all")
    tape, _x, _y = recorded()
    wp.autograd.gradcheck_tape(tape, plot_absolute_error=True, whitelist_kernels=["powers"], **FINE)
    (figure,) = [pyplot.figure(n) for n in pyplot.get_fignums()]
    assert figure.get_suptitle() == "absolute error of the gradient of powers"
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x", "y")
    with pytest.raises(ValueError, match="there are no Jacobians to draw"):
        wp.autograd.jacobian_plot({})
