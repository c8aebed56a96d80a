"""Random tapes over views of several types, with several backward passes, against PyTorch's autograd in float64.

The arrays are of numbers; kernels see parts of them as numbers, vectors, matrices, rows, columns or through a struct,
and change them in place, in part, or beside each other. Several backward passes follow, from other arrays each, whose
gradients add up; those of arrays that a pass starts from are set.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import warp_like as wp

SIZE = 24
f64, V, M = wp.float64, wp.vec3d, wp.mat22d


@wp.struct
class Pair:
    x: wp.array(dtype=f64)
    y: wp.array(dtype=f64)
    c: f64


@wp.func
def odd(x: f64):
    return x * x


@wp.func_grad(odd)
def adj_odd(x: f64, adj_ret: f64):
    wp.adjoint[x] += f64(3.0) * x * adj_ret


@wp.kernel
def crossed(x: wp.array(dtype=V), y: wp.array(dtype=V), z: wp.array(dtype=V)):
    i = wp.tid()
    z[i] = wp.cross(x[i], y[i]) + x[i]


@wp.kernel
def set_component(y: wp.array(dtype=f64), x: wp.array(dtype=V)):
    i = wp.tid()
    x[i][1] = y[i] * x[i][0]


@wp.kernel
def add_component(y: wp.array(dtype=f64), x: wp.array(dtype=V)):
    i = wp.tid()
    x[i][2] += y[i] * y[i]


@wp.kernel
def scale_vectors(x: wp.array(dtype=V)):
    i = wp.tid()
    x[i] = x[i] * (f64(0.1) * wp.dot(x[i], x[i]))


@wp.kernel
def larger(x: wp.array(dtype=V), y: wp.array(dtype=V)):
    i = wp.tid()
    y[i] = wp.max(x[i], y[i] * f64(1.1))


@wp.kernel
def product(x: wp.array(dtype=M), y: wp.array(dtype=M)):
    i = wp.tid()
    y[i] = x[i] * y[i]


@wp.kernel
def of_elements(x: wp.array(dtype=M), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i][0, 1] * x[i][1, 0]


@wp.kernel
def set_rows(y: wp.array(dtype=f64), x: wp.array(dtype=M)):
    i = wp.tid()
    a = x[i]
    x[i][1] = a[1] + a[0]
    x[i][0, 1] = y[i] * a[0, 0]


@wp.kernel
def sum_rows(x: wp.array2d(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    s = f64(0.0)
    for j in range(x.shape[1]):
        s += x[i, j] * x[i, j]
    y[i] = s


@wp.kernel
def with_next(x: wp.array2d(dtype=f64), y: wp.array2d(dtype=f64)):
    i, j = wp.tid()
    other = f64(1.0)
    if j + 1 < x.shape[1]:
        other = x[i, j + 1]
    y[i, j] = x[i, j] * other


@wp.kernel
def running(y: wp.array2d(dtype=f64)):
    i = wp.tid()
    for j in range(1, y.shape[1]):
        y[i, j] = y[i, j] + f64(0.5) * y[i, j - 1]


@wp.kernel
def scatter(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(y, (i * 7) % x.shape[0], wp.sin(x[i]))


@wp.kernel
def gather(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[(i * 5 + 1) % x.shape[0]]


@wp.kernel
def by_custom(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = odd(x[i])


@wp.kernel
def in_loop(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    for k in range(3):
        y[i] = y[i] * x[i] * f64(0.5) + f64(k)


@wp.kernel
def if_positive(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    if x[i] > f64(0.0):
        y[i] = x[i] * y[i]


@wp.kernel
def corner(x: wp.array(dtype=f64)):
    i = wp.tid()
    if i == 0:
        x[0] = x[0] * x[x.shape[0] - 1]


@wp.kernel
def of_struct(s: Pair):
    i = wp.tid()
    s.y[i] = s.x[i] * s.c


class _Odd(torch.autograd.Function):
    """The square with the gradient that ``adj_odd`` gives it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3.0 * x * g


def _set_rows(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    first = torch.stack([x[:, 0, 0], y * x[:, 0, 0]], 1)
    return torch.stack([first, x[:, 1] + x[:, 0]], 1)


def _with_next(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return x * torch.cat([x[:, 1:], torch.ones_like(x[:, :1])], 1)


def _running(y: torch.Tensor) -> torch.Tensor:
    columns = [y[:, 0]]
    for j in range(1, y.shape[1]):
        columns.append(y[:, j] + 0.5 * columns[-1])
    return torch.stack(columns, 1)


def _scatter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y.index_add(0, (torch.arange(len(x)) * 7) % len(x), torch.sin(x))


def _in_loop(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for k in range(3):
        y = y * x * 0.5 + k
    return y


class Kernel(NamedTuple):
    """A kernel, the types of its arrays (numbers, vectors, matrices or planes), what it leaves in the last one, and
    whether that one must not be among those that it reads."""

    kernel: Any
    types: str
    mean: Callable[..., torch.Tensor]
    apart: bool = False


KERNELS = [
    Kernel(crossed, "vvv", lambda x, y, z: torch.cross(x, y, dim=1) + x),
    Kernel(set_component, "sv", lambda y, x: torch.stack([x[:, 0], y * x[:, 0], x[:, 2]], 1), True),
    Kernel(add_component, "sv", lambda y, x: torch.stack([x[:, 0], x[:, 1], x[:, 2] + y * y], 1), True),
    Kernel(scale_vectors, "v", lambda x: x * (x * x).sum(1, keepdim=True) * 0.1),
    Kernel(larger, "vv", lambda x, y: torch.maximum(x, 1.1 * y)),  # no ties, of which each library takes another part
    Kernel(product, "mm", lambda x, y: x @ y),
    Kernel(of_elements, "ms", lambda x, y: x[:, 0, 1] * x[:, 1, 0], True),
    Kernel(set_rows, "sm", _set_rows, True),
    Kernel(sum_rows, "ps", lambda x, y: (x * x).sum(1), True),
    Kernel(with_next, "pp", _with_next, True),
    Kernel(running, "p", _running),
    Kernel(scatter, "ss", _scatter, True),
    Kernel(gather, "ss", lambda x, y: x[(torch.arange(len(x)) * 5 + 1) % len(x)], True),
    Kernel(by_custom, "ss", lambda x, y: _Odd.apply(x)),
    Kernel(in_loop, "ss", _in_loop, True),
    Kernel(if_positive, "ss", lambda x, y: torch.where(x > 0, x * y, y)),
    Kernel(corner, "s", lambda x: torch.cat([x[:1] * x[-1:], x[1:]])),
    Kernel(of_struct, "ss", lambda x, y: x * 0.25),
]
SHAPES = {"s": (SIZE,), "v": (8, 3), "m": (6, 2, 2)}
PLANES = [(4, 6), (6, 4), (3, 8), (8, 3), (2, 12)]


class View(NamedTuple):
    """A part of an array as elements of a type."""

    array: int
    type: str
    shape: tuple[int, ...]
    part: Any
    turned: bool = False

    def of(self, a: Any) -> Any:
        """The part of an array of the package, or the places of its numbers."""
        a = a.reshape(self.shape)
        if isinstance(a, wp.array) and self.type in "vm":
            a = a.view(V if self.type == "v" else M)
        a = a[self.part]
        return a.transpose() if self.turned else a

    def places(self) -> np.ndarray:
        """Where its numbers are."""
        return np.ascontiguousarray(self.of(np.arange(SIZE)))


class Step(NamedTuple):
    """One step: a launch of a kernel, or what the host does; the last view is written to."""

    kind: str
    kernel: int
    views: tuple[View, ...]
    value: float


class _Maker:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.arrays = self.r.randint(2, 4)

    def view(self, t: str) -> View:
        array = self.r.randrange(self.arrays)
        if t == "p":
            part: Any = self.r.choice([slice(None), slice(1, None), (slice(None), slice(0, None, 2))])
            return View(array, t, self.r.choice(PLANES), part, self.r.random() < 0.3)
        n = SHAPES[t][0]
        part = slice(self.r.choice([0, 0, 0, 1, n // 2]), self.r.choice([n, n, n - 1]), self.r.choice([1, 1, 1, 2]))
        return View(array, t, SHAPES[t], part)

    def step(self) -> Step:
        """A step whose result does not depend on the order of threads."""
        while True:
            kind = self.r.choice(["launch"] * 7 + ["copy", "assign", "fill", "zero"])
            number, value = self.r.randrange(len(KERNELS)), self.r.choice([0.5, -1.0])
            types = KERNELS[number].types if kind == "launch" else 2 * self.r.choice("svmp")
            step = Step(kind, number, tuple(map(self.view, types)), value)
            if self.is_defined(step):
                return step

    def is_defined(self, step: Step) -> bool:
        *read, written = (v.places() for v in step.views)
        whole = step.kind != "launch" or KERNELS[step.kernel].types == "pp"
        if step.kind not in ("fill", "zero") and any(
            p.shape != written.shape if whole else len(p) != len(written) for p in read
        ):
            return False
        apart = step.kind != "launch" or KERNELS[step.kernel].apart
        for v, p in zip(step.views[:-1], read, strict=True):
            meets = v.array == step.views[-1].array and not {*p.flat}.isdisjoint(written.flat)
            if meets and (apart or not np.array_equal(p, written)):
                return False
        return True


def _run(step: Step, arrays: list[wp.array]) -> None:
    views = [v.of(arrays[v.array]) for v in step.views]
    match step.kind:
        case "copy":
            wp.copy(views[-1], views[0])
        case "assign":
            views[-1].assign(views[0])
        case "fill":
            views[-1].fill_(step.value)
        case "zero":
            views[-1].zero_()
        case _:
            kernel, types, *_ = KERNELS[step.kernel]
            dim = views[-1].shape if types == "pp" else len(views[-1])
            given = [Pair(x=views[0], y=views[1], c=0.25)] if kernel is of_struct else views
            wp.launch(kernel, dim=dim, inputs=given)


def _mean(step: Step, values: list[torch.Tensor], gradients: list[bool]) -> None:
    """Make the new value of the array that a step writes to."""
    places = [torch.from_numpy(v.places()) for v in step.views]
    given = [values[v.array][p] for v, p in zip(step.views, places, strict=True)]
    if step.kind == "launch":
        made = KERNELS[step.kernel].mean(*given)
    elif step.kind in ("copy", "assign"):
        made = given[0]
    else:
        made = torch.full(given[-1].shape, step.value if step.kind == "fill" else 0.0, dtype=torch.float64)
    at = step.views[-1].array
    new = values[at].clone()
    new[places[-1]] = made
    values[at] = new if gradients[at] else new.detach()


def _pulled(values: list[torch.Tensor], leaves: list[torch.Tensor], seeds: list[np.ndarray | None]) -> list[Any]:
    """The gradients of the leaves, zeros for those that have none."""
    pairs = [(x, torch.tensor(s)) for x, s in zip(values, seeds, strict=True) if s is not None and x.requires_grad]
    own = [x for x in leaves if x.requires_grad]
    found: list[Any] = [None] * len(own)
    if pairs:
        outputs, weights = zip(*pairs, strict=True)
        found = list(torch.autograd.grad(outputs, own, weights, retain_graph=True, allow_unused=True))
    made = iter(found)
    zero = np.zeros(SIZE)
    return [zero if not x.requires_grad or (g := next(made)) is None else g.numpy() for x in leaves]


def check(seed: int) -> None:
    """Run one program.

    Raises:
        AssertionError: Numbers or gradients are wrong.
    """
    maker = _Maker(seed)
    r, rng = maker.r, np.random.default_rng(seed)
    gradients = [True, *(r.random() < 0.9 for _ in range(maker.arrays - 1))]
    steps = [maker.step() for _ in range(r.randint(2, 7))]
    start = rng.uniform(-1, 1, (maker.arrays, SIZE))
    text = f"seed {seed}: gradients {gradients}, steps {steps}"
    arrays = [wp.array(x, dtype=f64, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    leaves = [torch.tensor(x, requires_grad=g) for x, g in zip(start, gradients, strict=True)]
    values = [x * 1.0 for x in leaves]
    with wp.Tape() as tape:
        for step in steps:
            _run(step, arrays)
            _mean(step, values, gradients)
    for a, x in zip(arrays, values, strict=True):
        np.testing.assert_allclose(a.numpy(), x.detach().numpy(), rtol=1e-11, atol=1e-11, err_msg=text)
    sums = np.zeros((maker.arrays, SIZE))
    for turn in range(3):
        seeds = [rng.uniform(-1, 1, SIZE) if g and r.random() < 0.7 else None for g in gradients]
        if turn == 2:  # the tape does not know those parts of arrays that it has not recorded
            tape.zero()
            for a in arrays:
                if a.grad is not None:
                    a.grad.zero_()
            sums[:] = 0
        given = {a: wp.array(s, dtype=f64) for a, s in zip(arrays, seeds, strict=True) if s is not None}
        if not given:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # chains that end at an array without a gradient are meant
            tape.backward(grads=given)
        pulled = _pulled(values, leaves, seeds)
        for k, a in enumerate(arrays):
            sums[k] = (0 if seeds[k] is not None else sums[k]) + pulled[k]
            if a.grad is not None:
                message = f"turn {turn}, array {k}\n{text}"
                np.testing.assert_allclose(a.grad.numpy(), sums[k], rtol=1e-9, atol=1e-9, err_msg=message)
