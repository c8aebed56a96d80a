"""The columns of ``benchmark_backward.py``: how each framework, or C++, differentiates a problem."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import cpp_reference
import numpy as np
from gradients import Problem, joined
from programs.arrays import JaxArrays, TorchArrays
from timing import Run


@dataclass
class Differentiated:
    """One column's program of a row.

    Attributes:
        both: Runs forward and backward.
        result: Returns the output and the gradients.
        forward: Runs the forward pass; None where it can't run alone.
        backward: Runs the backward pass; None where it can't run alone.
    """

    both: Run
    result: Callable[[], np.ndarray]
    forward: Run | None = None
    backward: Run | None = None


def taped(wp: ModuleType, problem: Problem) -> Differentiated:
    """Return the launches on a tape that is recorded once."""
    types = [getattr(wp, name) for name in problem.dtypes]
    inputs = [wp.array(a, dtype=t, requires_grad=True) for a, t in zip(problem.inputs, types, strict=True)]
    out_type = wp.vec3 if problem.seed.ndim == 2 else wp.float32
    out = wp.zeros(len(problem.seed), dtype=out_type, requires_grad=True)
    seed = wp.array(problem.seed, dtype=out_type)
    launch, zeroed = problem.launches(wp, inputs, out)

    def forward() -> None:
        for array in zeroed:
            array.zero_()
        launch()

    tape = wp.Tape()
    with tape:
        launch()

    at_once = "zero" in inspect.signature(tape.backward).parameters

    def backward() -> None:
        if at_once:
            tape.backward(grads={out: seed}, zero=True)
        else:
            tape.zero()
            tape.backward(grads={out: seed})

    def both() -> None:
        forward()
        backward()

    return Differentiated(both, lambda: joined(out.numpy(), *(a.grad.numpy() for a in inputs)), forward, backward)


def autograd(torch: ModuleType, problem: Problem) -> Differentiated:
    """Return PyTorch's operations, whose graph is kept."""
    inputs = [torch.from_numpy(a.copy()).requires_grad_() for a in problem.inputs]
    seed, xp = torch.from_numpy(problem.seed), TorchArrays(torch, compiled=False)
    out: Any = None

    def forward() -> None:
        nonlocal out
        out = problem.function(xp, *inputs)

    def backward() -> None:
        for a in inputs:
            a.grad = None
        out.backward(seed, retain_graph=True)

    def both() -> None:
        forward()
        backward()

    def result() -> np.ndarray:
        return joined(out.detach().numpy(), *(a.grad.numpy() for a in inputs))

    return Differentiated(both, result, forward, backward)


def jitted(jax: ModuleType, problem: Problem) -> Differentiated:
    """Return one compiled function of value and gradient, and one of the value alone."""
    inputs, seed = [jax.numpy.asarray(a) for a in problem.inputs], jax.numpy.asarray(problem.seed)
    xp = JaxArrays(jax)
    function = jax.jit(lambda *inputs: problem.function(xp, *inputs))

    @jax.jit
    def value_and_gradient(seed: Any, *inputs: Any) -> tuple[Any, ...]:
        out, pull_back = jax.vjp(lambda *inputs: problem.function(xp, *inputs), *inputs)
        return out, *pull_back(seed)

    last: Any = None

    def both() -> None:
        nonlocal last
        last = jax.block_until_ready(value_and_gradient(seed, *inputs))

    def forward() -> None:
        jax.block_until_ready(function(*inputs))

    return Differentiated(both, lambda: joined(*map(np.asarray, last)), forward)


def by_hand(library: cpp_reference.Library, problem: Problem) -> Differentiated | None:
    """Return the gradient that is derived by hand, for problems that have one."""
    function = library.find(problem.cpp) if problem.cpp else None
    if function is None:
        return None
    if len(problem.inputs[0]) % 16:
        raise ValueError(f"{problem.name}: the functions in C++ take grids that are multiples of 16")
    results = [np.zeros_like(a) for a in (problem.seed, *problem.inputs)]
    given = [len(problem.inputs[0]), *problem.numbers, *problem.inputs, problem.seed]
    run = cpp_reference.call(function, *given, *results)
    return Differentiated(run, lambda: joined(*results))


MAKERS: dict[str, Callable[[Any, Problem], Differentiated | None]] = {
    "warp_like": taped,
    "warp-lang": taped,
    "JAX": jitted,
    "PyTorch": autograd,
    "C++": by_hand,
}
"""In the tables' order: a function of the framework, or of the C++ library, and of the problem."""

COLUMNS = list(MAKERS)
