"""Random tapes over a few arrays whose roles change, against PyTorch's autograd in float64.

A program is a list of steps on a pool of arrays and views of them: recorded launches, bound ones, sums, writes of the
host, launches and graphs that are not recorded, and writes that no tape can see. Its meaning is functional: each step
makes a new value of the array that it writes to; what is not recorded changes the numbers, and passes the gradient on
to what was recorded.
``check(seed)`` raises where numbers or gradients differ; only programs with unseen writes may be refused.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import warp_like as wp
from warp_like.runtime.memory.recorder import recorder

SIZE = 6
f64 = wp.float64


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = f64(0.5) * x[i] * x[i]


@wp.kernel
def scale(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = f64(0.75) * x[i]


@wp.kernel
def sine(y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.sin(y[i]) + f64(0.25)


@wp.kernel
def multiply(x: wp.array(dtype=f64), y: wp.array(dtype=f64), z: wp.array(dtype=f64)):
    i = wp.tid()
    z[i] = x[i] * wp.cos(y[i])


@wp.kernel
def add_squares(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(y, i, f64(0.25) * x[i] * x[i])


@wp.kernel
def add_all(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(y, 0, wp.sin(x[i]))


@wp.kernel
def every_second(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i] * x[i]


@wp.kernel
def constant(y: wp.array(dtype=f64)):
    i = wp.tid()
    if i > 0:
        y[i] = f64(0.5)


def _every_second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(len(y)) % 2 == 0, x * x, y)


def _add_all(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([y[:1] + torch.sin(x).sum(), y[1:]])


def _constant(y: torch.Tensor) -> torch.Tensor:
    return torch.cat([y[:1], torch.full((len(y) - 1,), 0.5, dtype=torch.float64)])


# A kernel, the number of arrays it reads before the one that it writes to, and what it leaves there. The last one may
# be an array that it reads, except where threads read what others write.
KERNELS: list[tuple[Any, int, Callable[..., torch.Tensor]]] = [
    (square, 1, lambda x, y: 0.5 * x * x),
    (scale, 1, lambda x, y: 0.75 * x),
    (sine, 0, lambda y: torch.sin(y) + 0.25),
    (multiply, 2, lambda x, y, z: x * torch.cos(y)),
    (add_squares, 1, lambda x, y: y + 0.25 * x * x),
    (add_all, 1, _add_all),
    (every_second, 1, _every_second),
    (constant, 0, _constant),
]
APART = (add_squares, add_all)


class View(NamedTuple):
    """A part of one of the arrays."""

    array: int
    part: slice

    def indices(self) -> list[int]:
        return list(range(SIZE)[self.part])

    def of(self, a: Any, times: int) -> Any:
        """The part of an array that is ``times`` as long."""
        start, stop = (None if k is None else k * times for k in (self.part.start, self.part.stop))
        return a[start : stop : self.part.step]


class Step(NamedTuple):
    """One step: what it is, the kernel's number or None, and its views, of which the last is written to."""

    kind: str
    kernel: int | None
    views: tuple[View, ...]
    value: float


def _view(rng: random.Random, arrays: int, count: int | None = None) -> View:
    parts = [slice(None), slice(1, 5), slice(0, 4), slice(2, 6), slice(0, 3), slice(3, 6), slice(None, None, 2)]
    fitting = [p for p in parts if count is None or len(range(SIZE)[p]) == count]
    return View(rng.randrange(arrays), rng.choice(fitting))


def _mixes(read: View, written: View) -> bool:
    """Whether threads would read what other threads write."""
    same = read == written
    return not same and read.array == written.array and bool({*read.indices()} & {*written.indices()})


def _step(rng: random.Random, arrays: int, unseen: bool) -> Step:
    kinds = ["launch"] * 8 + ["bound", "inner", "zero", "fill", "copy", "assign", "slice"]
    kinds += ["unrecorded", "unrecorded bound", "unrecorded graph"]
    kind = rng.choice([*kinds, "unseen"] if unseen else kinds)
    written = _view(rng, arrays)
    value = rng.choice([-0.5, 0.25, 1.0])
    if kind in ("zero", "fill", "unseen"):
        return Step(kind, None, (written,), value)
    if kind in ("copy", "assign", "slice"):
        return Step(kind, None, (_view(rng, arrays, len(written.indices())), written), value)
    if kind == "inner":
        while True:
            reads, to = [_view(rng, arrays, 3) for _ in range(2)], View(rng.randrange(arrays), slice(2, 3))
            if not any(_mixes(v, to) for v in reads):
                return Step(kind, None, (*reads, to), value)
    number = rng.randrange(len(KERNELS))
    kernel, reads, _ = KERNELS[number]
    while True:
        views = [_view(rng, arrays, len(written.indices())) for _ in range(reads)]
        apart = kernel in APART and written in views
        if not apart and not any(_mixes(v, written) for v in views):
            return Step(kind, number, (*views, written), value)


def program(seed: int) -> tuple[list[bool], list[Step]]:
    """Return which arrays have gradients, and the steps."""
    rng = random.Random(seed)
    gradients = [rng.random() < 0.85 for _ in range(rng.randint(3, 5))]
    gradients[0] = True
    unseen = rng.random() < 0.3
    return gradients, [_step(rng, len(gradients), unseen) for _ in range(rng.randint(2, 8))]


def _run(step: Step, arrays: list[wp.array], times: int = 1) -> None:
    views = [v.of(arrays[v.array], times) for v in step.views]
    to, count = views[-1], len(views[-1])
    recorded = not step.kind.startswith("unrecorded")
    match step.kind:
        case "zero":
            to.zero_()
        case "fill":
            to.fill_(step.value)
        case "copy":
            wp.copy(to, views[0])
        case "assign":
            to.assign(views[0])
        case "slice":
            array, part = step.views[-1]
            arrays[array][slice(*(k and k * times for k in (part.start, part.stop)), part.step)] = views[0]
        case "unseen":
            to.numpy()[:] = step.value
        case "inner":
            wp.utils.array_inner(*views[:2], out=to)
        case "unrecorded graph":
            tape, recorder.active = recorder.active, None
            with wp.ScopedCapture() as capture:
                wp.launch(KERNELS[step.kernel or 0][0], dim=count, inputs=views)
            recorder.active = tape
            wp.capture_launch(capture.graph)
        case "bound" | "unrecorded bound":
            kernel = KERNELS[step.kernel or 0][0]
            wp.launch(kernel, dim=count, inputs=views, record_tape=recorded, record_cmd=True).launch()
        case _:
            wp.launch(KERNELS[step.kernel or 0][0], dim=count, inputs=views, record_tape=recorded)


def _mean(step: Step, values: list[torch.Tensor], gradients: list[bool], times: int = 1) -> None:
    """Make the new value of the array that a step writes to."""
    given = [v.of(values[v.array], times) for v in step.views]
    at = step.views[-1].array
    if step.kernel is not None:
        made = KERNELS[step.kernel][2](*given)
    elif step.kind in ("copy", "assign", "slice"):
        made = given[0]
    elif step.kind == "inner":
        made = (given[0] * given[1]).sum()[None]
    else:
        made = torch.full((len(given[-1]),), 0.0 if step.kind == "zero" else step.value, dtype=torch.float64)
    if step.kind.startswith("un"):
        made = given[-1] + (made - given[-1]).detach()
    new = values[at].clone()
    step.views[-1].of(new, times)[:] = made
    values[at] = new if gradients[at] else new.detach()


def check(seed: int) -> bool:
    """Run one program; return whether its backward pass was refused.

    Raises:
        AssertionError: Numbers or gradients are wrong, or a program without unseen writes is refused.
    """
    gradients, steps = program(seed)
    rng = np.random.default_rng(seed)
    start, weights = rng.uniform(-1, 1, (2, len(gradients), SIZE))
    arrays = [wp.array(x, dtype=f64, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    leaves = [torch.tensor(x, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    values = [x * 1.0 for x in leaves]
    with wp.Tape() as tape:
        for step in steps:
            _run(step, arrays)
            _mean(step, values, gradients)
    text = f"seed {seed}: gradients {gradients}, steps {steps}"
    for a, x in zip(arrays, values, strict=True):
        np.testing.assert_allclose(a.numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-12, err_msg=text)
    seeds = {a: wp.array(w, dtype=f64) for a, w, g in zip(arrays, weights, gradients, strict=True) if g}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # chains that end at an array without a gradient are meant
        try:
            tape.backward(grads=seeds)
        except RuntimeError as error:
            known = "unseen by the tape" in str(error) or "has been changed since" in str(error)
            if known and any(s.kind == "unseen" for s in steps):
                return True
            raise AssertionError(f"{text}\nrefused: {error}") from error
    torch.autograd.backward(
        [x for x, g in zip(values, gradients, strict=True) if g],
        [torch.tensor(w) for w, g in zip(weights, gradients, strict=True) if g],
    )
    for a, x, g in zip(arrays, leaves, gradients, strict=True):
        if g:
            expected = np.zeros(SIZE) if x.grad is None else x.grad.numpy()
            np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-10, atol=1e-10, err_msg=text)
    return False


TIMES = 3000
"""How many times as long the arrays of captured programs are, so that launches run together."""


def check_captured(seed: int) -> int:
    """Run one program and its backward pass in a graph, three times; return how many groups of its nodes run together.

    Raises:
        AssertionError: Numbers or gradients are wrong.
    """
    gradients, steps = program(seed)
    steps = [s for s in steps if not s.kind.startswith("un") and s.kind != "inner"]
    rng = np.random.default_rng(seed)
    start, weights = rng.uniform(-1, 1, (2, len(gradients), SIZE * TIMES))
    arrays = [wp.array(x, dtype=f64, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    leaves = [torch.tensor(x, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    values = [x * 1.0 for x in leaves]
    seeds = {a: wp.array(w, dtype=f64) for a, w, g in zip(arrays, weights, gradients, strict=True) if g}
    for step in steps:
        _mean(step, values, gradients, TIMES)
    torch.autograd.backward(
        [x for x, g in zip(values, gradients, strict=True) if g],
        [torch.tensor(w) for w, g in zip(weights, gradients, strict=True) if g],
    )
    with warnings.catch_warnings(), wp.ScopedCapture() as capture:
        warnings.simplefilter("ignore", UserWarning)
        for a in seeds:
            a.grad.zero_()
        with wp.Tape() as tape:
            for step in steps:
                _run(step, arrays, TIMES)
        tape.backward(grads=seeds)
    for turn in range(3):
        for a, x in zip(arrays, start, strict=True):
            a.assign(x)
        wp.capture_launch(capture.graph)
        text = f"seed {seed}, turn {turn}: gradients {gradients}, steps {steps}"
        for a, x, leaf in zip(arrays, values, leaves, strict=True):
            np.testing.assert_allclose(a.numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-10, err_msg=text)
            if a in seeds:
                expected = 0.0 if leaf.grad is None else leaf.grad.numpy()
                np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-10, atol=1e-10, err_msg=text)
    return len(capture.graph._replay.fused())
