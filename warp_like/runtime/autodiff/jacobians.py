"""Jacobians of programs that launch kernels, as NumPy matrices: by reverse mode and by central differences.

A program is evaluated many times, so it must start from the same state each time: a ``Problem`` knows the
arrays that it was given and restores them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like.frontend.build import leaf_parameters
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Record, program_of
from warp_like.runtime.autodiff.tape import Tape
from warp_like.runtime.kernels.arguments import grid_dims
from warp_like.runtime.kernels.generics import concrete
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.blocks import Blocks
from warp_like.runtime.launching.launch import bind_arguments, launch, run
from warp_like.runtime.memory.device import get_device
from warp_like.runtime.memory.recorder import recorder, refuse_capture

Mask = Sequence[tuple[str | int, str | int]]
Matrix = np.ndarray[Any, Any]
Pair = tuple[int, int]


@dataclass
class Variable:
    """An input or an output, with its position among all of them."""

    position: int
    name: str
    array: array

    @property
    def size(self) -> int:
        """The number of scalars."""
        return int(self.array.numpy().size)


class Problem:
    """A program from arrays to arrays that can be run again and again from the same state."""

    def __init__(self, name: str, run: Callable[[], list[Any]], arguments: Sequence[Any]) -> None:
        self.name = name
        self.run = run
        self.arguments = [a for a in arguments if isinstance(a, array)]
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.state = [(a, a._values().copy()) for a in self.arguments]
        self.restores = True

    def restore(self) -> None:
        """Let all arguments hold what they held at the beginning, unless the caller does not want that."""
        for a, values in self.state if self.restores else ():
            if not a.readonly:
                a.assign(values)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Restore all arguments and their gradients at the end, and keep an outer tape from recording."""
        refuse_capture("what evaluates a program often")
        gradients = [(a.grad, a.grad._values().copy()) for a in self.arguments if a.grad is not None]
        outer, recorder.active = recorder.active, None
        try:
            if not self.outputs:
                self.find_outputs()
            yield
        finally:
            self.restore()
            for g, values in gradients:
                g.assign(values)
            recorder.active = outer

    def find_outputs(self) -> None:
        """Run a Python function once to see what it returns."""
        self.outputs = _variables(self.run(), [])

    def evaluate(self) -> list[Matrix]:
        """Run the program and return what the outputs hold, flat and in double precision."""
        made = self.run()
        return [made[v.position]._values().astype(np.float64).ravel() for v in self.outputs]

    def pairs(self, mask: Mask | None) -> list[Pair]:
        """Return the pairs of a mask, as positions in ``inputs`` and ``outputs`` of this problem."""
        for kind, variables in (("input", self.inputs), ("output", self.outputs)):
            if not variables:
                raise ValueError(f"`{self.name}` has no {kind} that is an array of floats with requires_grad=True")
        if mask is None:
            return [(i, o) for i in range(len(self.inputs)) for o in range(len(self.outputs))]
        return [(_find(self, self.inputs, i, "input"), _find(self, self.outputs, o, "output")) for i, o in mask]


def _find(problem: Problem, variables: list[Variable], wanted: str | int, kind: str) -> int:
    for k, v in enumerate(variables):
        if wanted in (v.position, v.name):
            return k
    known = ", ".join(f"{v.position} `{v.name}`" for v in variables)
    raise ValueError(f"`{problem.name}` has no {kind} {wanted!r} with requires_grad=True; it has {known}")


def _variables(values: Sequence[Any], names: Sequence[str]) -> list[Variable]:
    """The arrays with a gradient among ``values``."""
    found = []
    for k, a in enumerate(values):
        if isinstance(a, array) and a.requires_grad:
            found.append(Variable(k, names[k] if k < len(names) else str(k), a))
    return found


def problem_of(
    function: Kernel | Callable[..., Any],
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    device: Any,
    max_blocks: int,
    block_dim: int | None,
    restore: bool,
) -> Problem:
    """Return the problem of a kernel with its launch arguments, or of a Python function."""
    made = _kernel_or_function(function, dim, inputs, outputs, device, max_blocks, block_dim)
    made.restores = restore
    return made


def _kernel_or_function(
    function: Kernel | Callable[..., Any],
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    device: Any,
    max_blocks: int,
    block_dim: int | None,
) -> Problem:
    if not isinstance(function, Kernel):
        return _function_problem(function, list(inputs))
    if dim is None:
        raise ValueError(f"kernel `{function.key}`: dim is needed to launch a kernel")
    dims = grid_dims(function.key, dim)
    function = concrete(function, inputs, outputs)
    _, args = bind_arguments(function, inputs, outputs, get_device(device))
    n = len(leaf_parameters(function.declared[: len(inputs)]))

    def relaunch() -> list[Any]:
        launch(function, dims, inputs, outputs, device=device, max_blocks=max_blocks, block_dim=block_dim)
        return args[n:]

    problem = Problem(function.key, relaunch, args)
    problem.inputs = _variables(args[:n], function.parameter_names)
    problem.outputs = _variables(args[n:], function.parameter_names[n:])
    if not problem.outputs:
        raise ValueError(f"`{function.key}` has no output that is an array of floats with requires_grad=True")
    return problem


def _function_problem(function: Callable[..., Any], inputs: list[Any]) -> Problem:
    name = getattr(function, "__name__", type(function).__name__)

    def evaluate() -> list[Any]:
        got = function(*inputs)
        made = list(got) if isinstance(got, (list, tuple)) else [got]
        if not any(isinstance(a, array) for a in made):
            raise ValueError(f"`{name}` returns {type(got).__name__}, expected an array or several")
        return made

    code = getattr(function, "__code__", None)
    problem = Problem(name, evaluate, inputs)
    problem.inputs = _variables(inputs, code.co_varnames[: code.co_argcount] if code else ())
    return problem


def launch_problem(r: Record) -> Problem:
    """The launch of a record; an array that it reads and writes is an input and an output."""
    program = program_of(r)
    effects, blocks = program.effects, Blocks(threads=r.block_dim or None)

    def relaunch() -> list[Any]:
        if recorder.active is None:
            run(program, r.dims, r.args, blocks)
        else:
            recorder.active.run_launch(program, Record(r.kernel, r.dims, r.types, r.args, r.same), blocks)
        return r.args

    problem = Problem(r.kernel.key, relaunch, r.args)
    variables = _variables(r.args, r.kernel.parameter_names)
    problem.inputs = [v for v in variables if v.position in effects.reads]
    problem.outputs = [v for v in variables if v.position in effects.writes]
    return problem


# --- computing ----------------------------------------------------------------------------------------------


def pullback(problem: Problem) -> Callable[[int, Matrix], list[Matrix]]:
    """Record the program; the result maps weights of one output to gradients of all inputs, flat."""
    problem.restore()
    with Tape() as tape:
        made = problem.run()
    for r in tape.launches:
        if isinstance(r, Record) and not r.kernel.option("enable_backward"):
            raise ValueError(
                f"kernel `{r.kernel.key}`: gradients are switched off (enable_backward=False), so there is no Jacobian "
                "by reverse mode; jacobian_fd() takes differences"
            )

    def pull(o: int, weights: Matrix) -> list[Matrix]:
        out = made[problem.outputs[o].position]
        tape.zero()
        for v in problem.inputs:
            assert v.array.grad is not None
            v.array.grad.zero_()
        shaped = weights.reshape(out.numpy().shape)
        tape.backward(grads={out: array(shaped, dtype=out.dtype)})
        return [v.array.grad._values().astype(np.float64).ravel() for v in problem.inputs]  # type: ignore[union-attr]

    return pull


def difference(problem: Problem, i: int, change: Matrix) -> tuple[list[Matrix], Matrix]:
    """Move input ``i`` by ``change`` to either side; return how much the outputs changed and how far it moved.

    The way is measured in the input's own precision.
    """
    x = problem.inputs[i].array
    start = next(values for a, values in problem.state if a is x)
    ends, results = [], []
    for sign in (1.0, -1.0):
        problem.restore()
        x.assign(start.astype(np.float64) + sign * change.reshape(start.shape))
        ends.append(x._values().astype(np.float64).ravel())
        results.append(problem.evaluate())
    x.assign(start)
    return [p - m for p, m in zip(*results, strict=True)], ends[0] - ends[1]


def count(size: int, most: int) -> int:
    """Return how many of ``size`` scalars are asked for; all where ``most`` is not positive."""
    return min(size, most) if most > 0 else size


def reverse_jacobians(problem: Problem, pairs: list[Pair], most: int) -> dict[Pair, Matrix]:
    """Return the Jacobian of each pair by reverse mode; rows beyond ``most`` are NaN."""
    found = {(i, o): np.full((problem.outputs[o].size, problem.inputs[i].size), np.nan) for i, o in pairs}
    pull = pullback(problem)
    for o in dict.fromkeys(o for _, o in pairs):
        size = problem.outputs[o].size
        for k in range(count(size, most)):
            gradients = pull(o, np.eye(1, size, k))
            for i in (i for i, other in pairs if other == o):
                found[i, o][k] = gradients[i]
    return found


def difference_jacobians(problem: Problem, pairs: list[Pair], most: int, eps: float) -> dict[Pair, Matrix]:
    """Return the Jacobian of each pair by central differences; columns beyond ``most`` are NaN."""
    found = {(i, o): np.full((problem.outputs[o].size, problem.inputs[i].size), np.nan) for i, o in pairs}
    for i in dict.fromkeys(i for i, _ in pairs):
        size = problem.inputs[i].size
        for k in range(count(size, most)):
            changes, way = difference(problem, i, eps * np.eye(1, size, k))
            for o in (o for other, o in pairs if other == i):
                found[i, o][:, k] = changes[o] / way[k]
    return found
