"""Gradients of a program against finite differences of the oracle, in reverse and in forward mode.

Second derivatives are compared with finite differences of gradients, once these are known to be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import warp_like as wp
from tests.fuzz import plain
from tests.fuzz.program import Program
from tests.fuzz.scalars import InvalidProgram

STEP = 1e-5
RTOL = 2e-6
MODERATE = 1e4
"""Where differences are larger than this, rounding hides what is right."""


def directions(program: Program, turn: int) -> list[list[np.ndarray]]:
    """Changes of the arrays with gradients: of one of them alone, and last of all of them."""
    _, args = program.arguments(turn)
    rng = np.random.default_rng(program.seed + 1)
    all_of_them = [rng.uniform(0.2, 1.0, args[k].shape) * rng.choice([-1, 1], args[k].shape) for k in program.gradients]
    one = rng.integers(len(all_of_them))
    return [[d * (k == one) for k, d in enumerate(all_of_them)], all_of_them]


def seeds(program: Program, turn: int) -> list[np.ndarray]:
    """The weights of the elements after the launch in the sum whose gradient is meant."""
    _, args = program.arguments(turn)
    rng = np.random.default_rng(program.seed + 2)
    return [rng.uniform(0.3, 1.0, args[k].shape) for k in program.gradients]


def moved(program: Program, turn: int, change: list[np.ndarray], by: float) -> list[np.ndarray]:
    """The arrays after the launch from arguments that are changed a little."""
    _, args = program.arguments(turn)
    for k, d in zip(program.gradients, change, strict=True):
        args[k] += by * d
    plain.run(program.meant, args, program.grids[turn], exact=False)
    return [args[k] for k in program.gradients]


def tangents(program: Program, turn: int, change: list[np.ndarray]) -> list[np.ndarray]:
    """How the arrays after the launch change; two steps have to agree, or there is no derivative.

    Raises:
        InvalidProgram: There is none, or it is too large to tell.
    """
    estimates = []
    for h in (STEP, STEP / 4):
        plus, minus = moved(program, turn, change, h), moved(program, turn, change, -h)
        estimates.append([(p - m) / (2 * h) for p, m in zip(plus, minus, strict=True)])
    for a, b in zip(*estimates, strict=True):
        if not np.all(np.isfinite(a)) or np.max(np.abs(a), initial=0) > MODERATE:
            raise InvalidProgram("the derivative is too large")
        if not np.allclose(a, b, rtol=1e-6, atol=1e-6):
            raise InvalidProgram("no derivative")
    return estimates[1]


def typed(kernel: Any, k: int, a: np.ndarray, **options: Any) -> Any:
    """An array of the kernel's own type for argument ``k``."""
    name = kernel.func.__code__.co_varnames[k]
    return wp.array(a, dtype=kernel.func.__annotations__[name].dtype, **options)


def by_reverse_mode(program: Program, kernel: Any, turn: int) -> list[np.ndarray]:
    """The gradient of the sum weighted by ``seeds``."""
    _, args = program.arguments(turn)
    for k in program.gradients:
        args[k] = typed(kernel, k, args[k], requires_grad=True)
    arrays = [args[k] for k in program.gradients]
    with wp.Tape() as tape:
        wp.launch(kernel, dim=program.dims(turn), inputs=args, **program.options)
    weights = [typed(kernel, k, s) for k, s in zip(program.gradients, seeds(program, turn), strict=True)]
    tape.backward(grads=dict(zip(arrays, weights, strict=True)))
    return [a.grad.numpy() for a in arrays]


def by_forward_mode(program: Program, kernel: Any, turn: int, change: list[np.ndarray]) -> list[np.ndarray]:
    """How the arrays change in a direction."""
    _, args = program.arguments(turn)
    given: list[Any] = [None] * len(args)
    for k, d in zip(program.gradients, change, strict=True):
        args[k], given[k] = typed(kernel, k, args[k]), typed(kernel, k, d.copy())
    wp.autograd.jvp(kernel, dim=program.grids[turn], inputs=args, tangents=given)
    return [given[k].numpy() for k in program.gradients]


def expected(program: Program, turn: int) -> list[list[np.ndarray]]:
    """The tangents in each of the ``directions``."""
    return [tangents(program, turn, change) for change in directions(program, turn)]


def wrong(program: Program, kernel: Any, turn: int, wanted: list[list[np.ndarray]]) -> tuple[str, str] | None:
    """What is wrong with the derivatives of a launch under the present configuration: the mode, and the numbers."""
    found = directions(program, turn)
    weights = seeds(program, turn)
    gradient = by_reverse_mode(program, kernel, turn)
    for change, tangent in zip(found, wanted, strict=True):
        got = sum(float(np.sum(g * d)) for g, d in zip(gradient, change, strict=True))
        want = sum(float(np.sum(w * t)) for w, t in zip(weights, tangent, strict=True))
        scale = sum(float(np.sum(np.abs(t))) for t in tangent)
        if not abs(got - want) <= RTOL * (1 + scale):
            changed = [name for name, d in zip(program.gradients, change, strict=True) if np.any(d)]
            return "reverse", f"gradient along a change of the arguments {changed}: got {got!r}, expected {want!r}"
    if program.block:  # forward mode has blocks of one thread
        return None
    pushed = by_forward_mode(program, kernel, turn, found[-1])
    for k, a, b in zip(program.gradients, pushed, wanted[-1], strict=True):
        if not np.allclose(a, b, rtol=RTOL, atol=RTOL):
            at = tuple(int(n) for n in np.argwhere(~np.isclose(a, b, rtol=RTOL, atol=RTOL))[0])
            return "forward", f"tangent of argument {k} at {list(at)}: got {a[at]!r}, expected {b[at]!r}"
    return None


# --- second derivatives -----------------------------------------------------------------------------------------

INPUTS = 4
"""So many arrays with gradients are inputs of ``hvp``; the sum of the others is differentiated."""


def gradient_of_outputs(program: Program, kernel: Any, turn: int, change: list[np.ndarray], by: float) -> list[Any]:
    """The gradient by the inputs, which are changed a little, of the weighted sum of the other arrays."""
    _, args = program.arguments(turn)
    for k, d in zip(program.gradients, change, strict=True):
        args[k] = typed(kernel, k, args[k] + by * d if k < INPUTS else args[k], requires_grad=True)
    weights = seeds(program, turn)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=program.grids[turn], inputs=args)
    tape.backward(grads={args[k]: typed(kernel, k, weights[k]) for k in program.gradients[INPUTS:]})
    return [args[k].grad.numpy().copy() for k in range(INPUTS)]


def by_hvp(program: Program, kernel: Any, turn: int, change: list[np.ndarray]) -> list[np.ndarray]:
    """The product of the Hessian of that sum and a change of the inputs."""
    _, args = program.arguments(turn)
    weights: list[Any] = [None] * (len(args) - INPUTS)
    for k, s in zip(program.gradients, seeds(program, turn), strict=True):
        args[k] = typed(kernel, k, args[k])
        if k >= INPUTS:
            weights[k - INPUTS] = typed(kernel, k, s)
    moved_by = [typed(kernel, k, change[k]) for k in range(INPUTS)]
    inputs, outputs = args[:INPUTS], args[INPUTS:]
    dim = program.grids[turn]
    found = wp.autograd.hvp(kernel, dim, inputs, outputs, tangents=moved_by, adj_outputs=weights)
    return [a.numpy() for a in found[:INPUTS]]


def wrong_second(program: Program, kernel: Any, turn: int) -> str | None:
    """What is wrong with the products of the Hessian.

    Raises:
        InvalidProgram: There is no second derivative.
    """
    change = directions(program, turn)[-1]
    estimates = []
    for h in (STEP, STEP / 4):
        plus = gradient_of_outputs(program, kernel, turn, change, h)
        minus = gradient_of_outputs(program, kernel, turn, change, -h)
        estimates.append([(p - m) / (2 * h) for p, m in zip(plus, minus, strict=True)])
    for a, b in zip(*estimates, strict=True):
        if not np.all(np.isfinite(a)) or np.max(np.abs(a), initial=0) > MODERATE:
            raise InvalidProgram("the second derivative is too large")
        if not np.allclose(a, b, rtol=1e-6, atol=1e-6):
            raise InvalidProgram("no second derivative")
    for k, (a, b) in enumerate(zip(by_hvp(program, kernel, turn, change), estimates[1], strict=True)):
        if not np.allclose(a, b, rtol=2 * RTOL, atol=2 * RTOL):
            at = tuple(int(n) for n in np.argwhere(~np.isclose(a, b, rtol=RTOL, atol=RTOL))[0])
            return f"product of the Hessian, argument {k} at {list(at)}: got {a[at]!r}, expected {b[at]!r}"
    return None
