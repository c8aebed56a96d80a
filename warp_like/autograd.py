"""Derivatives beyond the tape: forward mode, Hessian-vector products, Jacobians, and checking gradients.

``jvp`` and ``hvp`` are forward mode. The others take a kernel with its launch arguments, or a Python function
that launches kernels, and evaluate it often: by reverse mode, and by finite differences to check that. They
leave all arrays that they were given, and the gradients of these, as they were. They differentiate arrays
with ``requires_grad``; all other arguments are constants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Record
from warp_like.runtime.autodiff.jacobians import (
    Mask,
    Matrix,
    Pair,
    Problem,
    Variable,
    count,
    difference,
    difference_jacobians,
    launch_problem,
    problem_of,
    pullback,
    reverse_jacobians,
)
from warp_like.runtime.autodiff.tangents import hvp, jvp
from warp_like.runtime.autodiff.tape import Tape
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.memory.device import Device

# --- Jacobians ----------------------------------------------------------------------------------------------


def jacobian(
    function: Kernel | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    input_output_mask: Mask | None = None,
    device: Device | str | None = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> dict[Pair, array]:
    """Return Jacobians by reverse mode: one backward pass for each scalar of the outputs.

    Args:
        function: A kernel, or a Python function of ``inputs`` that returns an array or several.
        dim: For a kernel, the number of threads or the extents of the grid.
        inputs: The arguments; for a kernel, those of the first parameters.
        outputs: For a kernel, the arguments of the remaining parameters.
        input_output_mask: The pairs to compute, each an input and an output by position in ``inputs`` and
            ``outputs`` or by parameter name. All pairs of arrays with ``requires_grad`` when left out.
        device: For a kernel, where to run.
        max_blocks: As for ``wp.launch``.
        block_dim: As for ``wp.launch``.
        max_outputs_per_var: Compute the rows of only so many scalars of each output; other rows are NaN. All
            where it is not positive.
        plot_jacobians: Show them with ``jacobian_plot``.
        restore_inputs: Let the arguments hold what they held, before each evaluation and at the end. Without this a
            function that changes its arguments goes on from what it has left.

    Returns:
        For each pair ``(input, output)`` of positions, a matrix with a row for each scalar of the output and
        a column for each element of the input. Its dtype is that of the input, so a row of the Jacobian with
        respect to an array of vectors is a row of vectors.

    Raises:
        ValueError: No input or no output requires a gradient, the mask names an unknown one, or gradients are
            switched off for a kernel.
        WarpCodegenError: A kernel can't be compiled, or not differentiated.

    Example:
        >>> wp.autograd.jacobian(square, dim=n, inputs=[x], outputs=[y])[0, 0].numpy()
        array([[0., 0., 0., 0.],
               [0., 2., 0., 0.],
               [0., 0., 4., 0.],
               [0., 0., 0., 6.]], dtype=float32)
    """
    problem = problem_of(function, dim, inputs, outputs, device, max_blocks, block_dim, restore_inputs)
    with problem.undisturbed():
        pairs = problem.pairs(input_output_mask)
        found = _wrapped(problem, reverse_jacobians(problem, pairs, max_outputs_per_var))
    if plot_jacobians:
        jacobian_plot(found, function, inputs)
    return found


def jacobian_fd(
    function: Kernel | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    input_output_mask: Mask | None = None,
    device: Device | str | None = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    restore_inputs: bool = True,
) -> dict[Pair, array]:
    """Return Jacobians by central differences: two evaluations for each scalar of the inputs.

    Takes and returns what ``jacobian`` does, but for:

    Args:
        function: See ``jacobian``.
        dim: See ``jacobian``.
        inputs: See ``jacobian``.
        outputs: See ``jacobian``.
        input_output_mask: See ``jacobian``.
        device: See ``jacobian``.
        max_blocks: See ``jacobian``.
        block_dim: See ``jacobian``.
        max_inputs_per_var: Compute the columns of only so many scalars of each input; others are NaN. All
            where it is not positive.
        eps: How far each scalar is moved to either side.
        plot_jacobians: See ``jacobian``.
        restore_inputs: See ``jacobian``.

    Raises:
        ValueError: No input or no output requires a gradient, or the mask names an unknown one.

    Example:
        >>> wp.autograd.jacobian_fd(square, dim=n, inputs=[x], outputs=[y], eps=0.5)[0, 0].numpy()[3]
        array([0., 0., 0., 6.], dtype=float32)
    """
    problem = problem_of(function, dim, inputs, outputs, device, max_blocks, block_dim, restore_inputs)
    with problem.undisturbed():
        pairs = problem.pairs(input_output_mask)
        found = _wrapped(problem, difference_jacobians(problem, pairs, max_inputs_per_var, eps))
    if plot_jacobians:
        jacobian_plot(found, function, inputs)
    return found


def _wrapped(problem: Problem, matrices: dict[Pair, Matrix]) -> dict[Pair, array]:
    """Return matrices as arrays of the inputs' dtypes, by the positions that the user knows."""
    found = {}
    for (i, o), m in matrices.items():
        x = problem.inputs[i].array
        parts = x.numpy().shape[x.ndim :]
        shaped = m.reshape(m.shape[0], x.size, *parts)
        found[problem.inputs[i].position, problem.outputs[o].position] = array(shaped, dtype=x.dtype)
    return found


def jacobian_plot(
    jacobians: Mapping[Pair, Any],
    kernel: Kernel | Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Draw Jacobians as images, outputs below each other and inputs beside each other.

    Needs Matplotlib. A vector takes as many columns as it has components.

    Args:
        jacobians: What ``jacobian`` or ``jacobian_fd`` returned.
        kernel: The kernel or function, for the names in the picture.
        inputs: The inputs; with them and a kernel, outputs get the names of their parameters.
        show_plot: Open a window, where Matplotlib has one to open.
        show_colorbar: Draw a scale of the colours.
        scale_colors_per_submatrix: Let each matrix have a scale of its own.
        title: Text above.
        colormap: A colour map of Matplotlib.
        log_scale: Show the logarithm to base 10 of the magnitudes.

    Returns:
        The figure.

    Raises:
        ImportError: Matplotlib is not installed.
        ValueError: There are no Jacobians.

    Example:
        >>> jacobians = wp.autograd.jacobian(square, dim=n, inputs=[x], outputs=[y])
        >>> wp.autograd.jacobian_plot(jacobians, square, [x, y], show_plot=False).savefig("jacobians.png")
    """
    from matplotlib import pyplot

    if not jacobians:
        raise ValueError("there are no Jacobians to draw")
    matrices = {pair: _flat_matrix(j) for pair, j in jacobians.items()}
    if log_scale:
        with np.errstate(divide="ignore"):
            matrices = {pair: np.log10(np.abs(m)) for pair, m in matrices.items()}
    columns, rows = (sorted({pair[k] for pair in matrices}) for k in (0, 1))
    limits = None if scale_colors_per_submatrix else _limits(list(matrices.values()))
    figure, axes = pyplot.subplots(len(rows), len(columns), squeeze=False, layout="constrained")
    image: Any = None
    for (i, o), m in matrices.items():
        low, high = limits or _limits([m])
        axis = axes[rows.index(o), columns.index(i)]
        image = axis.imshow(m, cmap=colormap, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        axis.set_xlabel(_label(kernel, i, "input"))
        axis.set_ylabel(_label(kernel, None if inputs is None else len(inputs) + o, "output", o))
        if show_colorbar and scale_colors_per_submatrix:
            figure.colorbar(image, ax=axis)
    for o, row in zip(rows, axes, strict=True):
        for i, axis in zip(columns, row, strict=True):
            axis.set_visible((i, o) in matrices)
    if show_colorbar and not scale_colors_per_submatrix:
        figure.colorbar(image, ax=axes)
    if title is not None:
        figure.suptitle(title)
    if show_plot and pyplot.get_backend().lower() not in _WITHOUT_WINDOWS:
        pyplot.show()
    return figure


# --- checking -----------------------------------------------------------------------------------------------


def gradcheck(
    function: Kernel | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: Device | str | None = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
    directions: int = 0,
    seed: int = 0,
) -> bool:
    """Compare gradients with central differences.

    They agree where the gradient is no NaN and differs by no more than ``atol + rtol * |difference
    quotient|``. The defaults suit float32; with float64, ``eps=1e-6, atol=1e-6, rtol=1e-5`` finds smaller
    mistakes.

    Args:
        function: A kernel, or a Python function of ``inputs`` that returns an array or several.
        dim: For a kernel, the number of threads or the extents of the grid.
        inputs: The arguments; for a kernel, those of the first parameters.
        outputs: For a kernel, the arguments of the remaining parameters.
        eps: How far each scalar is moved to either side.
        atol: The absolute tolerance.
        rtol: The relative tolerance.
        raise_exception: Raise where they differ, instead of returning False.
        input_output_mask: The pairs to check, as for ``jacobian``.
        device: For a kernel, where to run.
        max_blocks: As for ``wp.launch``.
        block_dim: As for ``wp.launch``.
        max_inputs_per_var: Check with respect to only so many scalars of each input.
        max_outputs_per_var: Check only so many scalars of each output.
        plot_relative_error: Show the errors relative to the difference quotients with ``jacobian_plot``.
        plot_absolute_error: Show the absolute errors with ``jacobian_plot``.
        show_summary: Print a table with the largest error of each pair.
        restore_inputs: See ``jacobian``.
        directions: If positive, do not compare all elements but the derivatives of random sums of the outputs
            along so many random directions. This takes two evaluations for each direction and input, whatever
            their size, and finds any wrong element with high probability.
        seed: For the random directions.

    Returns:
        Whether all agree.

    Raises:
        ValueError: They differ somewhere and ``raise_exception``; no input or no output requires a gradient;
            or the mask names an unknown one.
        WarpCodegenError: A kernel can't be compiled, or not differentiated.

    Example:
        >>> wp.autograd.gradcheck(square, dim=n, inputs=[x], outputs=[y], show_summary=False)
        True
    """
    problem = problem_of(function, dim, inputs, outputs, device, max_blocks, block_dim, restore_inputs)
    tolerance = _Tolerance(eps, atol, rtol, max_inputs_per_var, max_outputs_per_var, directions, seed)
    results = _compare(problem, input_output_mask, tolerance)
    if show_summary:
        sys.stdout.write(_table(problem.name, results))
    if directions <= 0:
        _plot_errors(problem.name, function, inputs, results, plot_relative_error, plot_absolute_error)
    return _verdict(problem.name, results, raise_exception)


def gradcheck_tape(
    tape: Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
    directions: int = 0,
    seed: int = 0,
) -> bool:
    """Check the gradient of each launch that a tape recorded, at what its arrays hold now.

    What functions given to ``record_func`` do is not checked, nor are kernels for which gradients are switched off.

    Args:
        tape: The tape.
        eps: See ``gradcheck``.
        atol: See ``gradcheck``.
        rtol: See ``gradcheck``.
        raise_exception: Raise at the first launch with a wrong gradient, instead of returning False.
        input_output_masks: For a kernel's key, the pairs to check: parameters that it reads and that it
            writes, by name or position.
        blacklist_kernels: Keys of kernels to leave out.
        whitelist_kernels: Keys of the only kernels to check, where given and not empty.
        max_inputs_per_var: See ``gradcheck``.
        max_outputs_per_var: See ``gradcheck``.
        plot_relative_error: See ``gradcheck``.
        plot_absolute_error: See ``gradcheck``.
        show_summary: Print a table for each launch.
        reverse_launches: Check the last launch first.
        skip_to_launch_index: Start at this launch.
        directions: See ``gradcheck``.
        seed: See ``gradcheck``.

    Returns:
        Whether all agree.

    Raises:
        ValueError: They differ somewhere and ``raise_exception``, or a mask names an unknown parameter.

    Example:
        >>> with wp.Tape() as tape:
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> wp.autograd.gradcheck_tape(tape, show_summary=False)
        True
    """
    tolerance = _Tolerance(eps, atol, rtol, max_inputs_per_var, max_outputs_per_var, directions, seed)
    records = [r for r in tape.launches if isinstance(r, Record)]
    passed = True
    for r in (records[::-1] if reverse_launches else records)[skip_to_launch_index:]:
        key = r.kernel.key
        if key in (blacklist_kernels or ()) or (whitelist_kernels and key not in whitelist_kernels):
            continue
        problem = launch_problem(r)
        if problem.inputs and problem.outputs and r.kernel.option("enable_backward"):
            results = _compare(problem, (input_output_masks or {}).get(key), tolerance)
            if show_summary:
                sys.stdout.write(_table(key, results))
            if directions <= 0:
                _plot_errors(problem.name, r.kernel, (), results, plot_relative_error, plot_absolute_error)
            passed &= _verdict(key, results, raise_exception)
    return passed


# --- comparing ----------------------------------------------------------------------------------------------


@dataclass
class _Tolerance:
    eps: float
    atol: float
    rtol: float
    most_inputs: int
    most_outputs: int
    directions: int
    seed: int


@dataclass
class _Result:
    """One input and one output compared: matrices of gradients and of difference quotients."""

    pair: Pair
    names: tuple[str, str]
    gradients: Matrix
    quotients: Matrix
    tolerance: _Tolerance

    @property
    def errors(self) -> Matrix:
        return np.abs(self.gradients - self.quotients)

    @property
    def relative_errors(self) -> Matrix:
        return self.errors / np.maximum(np.abs(self.quotients), self.tolerance.atol)

    @property
    def excess(self) -> Matrix:
        """By how much each error exceeds what is allowed; infinite for a NaN."""
        over = self.errors - (self.tolerance.atol + self.tolerance.rtol * np.abs(self.quotients))
        return np.where(np.isnan(over), np.inf, over)

    @property
    def passed(self) -> bool:
        return bool(np.all(self.excess <= 0))

    @property
    def worst(self) -> tuple[int, ...] | None:
        """Where the error is largest: a scalar of the output and one of the input."""
        if self.excess.size == 0:
            return None
        return tuple(int(k) for k in np.unravel_index(np.argmax(self.excess), self.excess.shape))


def _compare(problem: Problem, mask: Mask | None, t: _Tolerance) -> list[_Result]:
    with problem.undisturbed():
        pairs = problem.pairs(mask)
        if t.directions > 0:
            compared = _along_directions(problem, pairs, t)
        else:
            gradients = reverse_jacobians(problem, pairs, t.most_outputs)
            quotients = difference_jacobians(problem, pairs, t.most_inputs, t.eps)
            compared = {}
            for i, o in pairs:
                rows = count(problem.outputs[o].size, t.most_outputs)
                columns = count(problem.inputs[i].size, t.most_inputs)
                compared[i, o] = gradients[i, o][:rows, :columns], quotients[i, o][:rows, :columns]
    results = []
    for (i, o), (g, q) in compared.items():
        x, y = problem.inputs[i], problem.outputs[o]
        results.append(_Result((x.position, y.position), (x.name, y.name), g, q, t))
    return results


def _along_directions(problem: Problem, pairs: list[Pair], t: _Tolerance) -> dict[Pair, tuple[Matrix, Matrix]]:
    """Derivatives of a random sum of each output along random directions, as matrices of one row."""
    rng = np.random.default_rng(t.seed)

    def signs(v: Variable) -> Matrix:
        return rng.choice([-1.0, 1.0], v.size)

    gradients, quotients = ({pair: np.zeros((1, t.directions)) for pair in pairs} for _ in range(2))
    for k in range(t.directions):
        pull = pullback(problem)  # anew each time, since the differences change the arrays
        weights = {o: signs(problem.outputs[o]) / np.sqrt(problem.outputs[o].size) for o in {o for _, o in pairs}}
        ways = {i: signs(problem.inputs[i]) for i in {i for i, _ in pairs}}
        for o, w in weights.items():
            pulled = pull(o, w)
            for i in (i for i, other in pairs if other == o):
                gradients[i, o][0, k] = np.dot(pulled[i], ways[i])
        for i, v in ways.items():
            changes, _ = difference(problem, i, t.eps * v)
            for o in (o for other, o in pairs if other == i):
                quotients[i, o][0, k] = np.dot(weights[o], changes[o]) / (2 * t.eps)
    return {pair: (gradients[pair], quotients[pair]) for pair in pairs}


def _verdict(name: str, results: list[_Result], raise_exception: bool) -> bool:
    wrong = [r for r in results if not r.passed]
    if wrong and raise_exception:
        lines = [f"the gradient of `{name}` differs from central differences"]
        for r in wrong:
            lines.append(f"  of `{r.names[1]}` with respect to `{r.names[0]}`, worst {_describe(r)}")
        raise ValueError("\n".join(lines))
    return not wrong


def _describe(r: _Result) -> str:
    at = r.worst
    if at is None:
        return "nowhere, one of them is empty"
    where = f"at ({at[0]}, {at[1]})" if r.tolerance.directions <= 0 else f"along direction {at[1]}"
    return f"{where}: gradient {r.gradients[at]:.6g}, differences {r.quotients[at]:.6g}"


def _table(name: str, results: list[_Result]) -> str:
    lines = [f"gradients of {name}"]
    for r in results:
        lines.append(f"  {r.names[0]} -> {r.names[1]}: {'right' if r.passed else 'WRONG'}, worst {_describe(r)}")
    return "\n".join(lines) + "\n"


# --- drawing ------------------------------------------------------------------------------------------------


def _plot_errors(
    name: str, function: Any, inputs: Sequence[Any] | None, results: list[_Result], relative: bool, absolute: bool
) -> None:
    if relative:
        errors = {r.pair: r.relative_errors for r in results}
        jacobian_plot(errors, function, inputs, title=f"relative error of the gradient of {name}")
    if absolute:
        errors = {r.pair: r.errors for r in results}
        jacobian_plot(errors, function, inputs, title=f"absolute error of the gradient of {name}")


_WITHOUT_WINDOWS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}


def _flat_matrix(j: Any) -> Matrix:
    m = j.numpy() if isinstance(j, array) else np.asarray(j)
    return m.reshape(m.shape[0], -1).astype(np.float64)


def _limits(matrices: list[Matrix]) -> tuple[float, float]:
    values = np.concatenate([m[np.isfinite(m)] for m in matrices])
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _label(kernel: Any, position: int | None, kind: str, number: int | None = None) -> str:
    names = kernel.parameter_names if isinstance(kernel, Kernel) else []
    if position is not None and position < len(names):
        return str(names[position])
    return f"{kind} {position if number is None else number}"


__all__ = ["gradcheck", "gradcheck_tape", "hvp", "jacobian", "jacobian_fd", "jacobian_plot", "jvp"]
