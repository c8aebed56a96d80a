"""Random graphs over views of one memory, replayed and compared with NumPy, one launch after the other.

What launches a graph may run together piece by piece depends on which threads touch which elements, so programs have
kernels of many kinds of index, and views that overlap in many ways: parts, other strides, other shapes, turned or
mirrored, tensors of PyTorch, elements of other sizes. Numbers are integers, which wrap around alike everywhere. A
launch of which the order of threads shows is left out, as it has no result.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import warp_like as wp

MEMORY = 24_000
"""The numbers in memory."""


@wp.struct
class Pair:
    x: wp.array(dtype=int)
    y: wp.array(dtype=int)
    c: int


@wp.struct
class Fields:
    a: int
    b: int


@wp.kernel
def own(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[i] = 3 * y[i] + x[i] + c


@wp.kernel
def if_positive(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    if x[i] > 0:
        y[i] = c - x[i]


@wp.kernel
def next_one(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    k = i + 1
    if k == x.shape[0]:
        k = 0
    y[i] = 5 * x[k] + c


@wp.kernel
def mirror_read(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[i] = y[i] + x[x.shape[0] - 1 - i] * c


@wp.kernel
def mirror_write(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[y.shape[0] - 1 - i] = x[i] - c


@wp.kernel
def gather(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[i] = x[at[i]] ^ c


@wp.kernel
def scatter(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[at[i]] = x[i] + c


@wp.kernel
def first(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[i] = y[i] + x[0] + c


@wp.kernel
def halves(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    y[i] = 2 * y[i] - x[i // 2]


@wp.kernel
def add_own(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    wp.atomic_add(y, i, x[i] * c)


@wp.kernel
def add_at(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    wp.atomic_add(y, at[i] // 3, x[i])


@wp.kernel
def most_at(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    wp.atomic_max(y, at[i] // 5, x[i])


@wp.func
def bumped(y: wp.array(dtype=int), i: int, c: int):
    y[i] += c
    return y[i]


@wp.kernel
def by_function(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    buffer = wp.zeros(3, dtype=int)
    for k in range(3):
        buffer[k] = x[i] * (k + 1)
    y[i] = bumped(y, i, c) + buffer[i % 3]


@wp.kernel
def chosen(x: wp.array(dtype=int), y: wp.array(dtype=int), at: wp.array(dtype=int), c: int):
    i = wp.tid()
    z = x
    if c > 0:
        z = y
    y[i] = z[i] + 7


@wp.kernel
def of_struct(s: Pair):
    i = wp.tid()
    s.y[i] = s.y[i] - 3 * s.x[i] + s.c


@wp.kernel
def of_list(x: wp.indexedarray(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = x[i] + y[i]


@wp.kernel
def to_list(x: wp.array(dtype=int), y: wp.indexedarray(dtype=int)):
    i = wp.tid()
    y[i] = x[i] - 4


@wp.kernel
def swapped(v: wp.array(dtype=wp.vec2i), c: int):
    i = wp.tid()
    v[i] = wp.vec2i(v[i][1] + c, v[i][0])


@wp.kernel
def fields(v: wp.array(dtype=Fields), c: int):
    i = wp.tid()
    v[i].b = v[i].a + 3 * v[i].b - c


@wp.kernel
def plane(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i, j = wp.tid()
    y[i, j] = 3 * y[i, j] + x[i, j] + c


@wp.kernel
def turned(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i, j = wp.tid()
    y[i, j] = x[j, i] + c


@wp.kernel
def turned_write(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i, j = wp.tid()
    y[j, i] = x[i, j] - c


@wp.kernel
def of_column(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i, j = wp.tid()
    y[i, j] = y[i, j] + x[i, 0] + c


@wp.kernel
def neighbour(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i, j = wp.tid()
    y[i, j] = x[i, (j + 1) % x.shape[1]]


@wp.kernel
def along_rows(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i = wp.tid()
    total = 0
    for k in range(x.shape[1]):
        total += x[i, k]
        y[i, k] = total + c


@wp.kernel
def along_columns(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    j = wp.tid()
    total = 0
    for k in range(x.shape[0]):
        total += x[k, j]
        y[k, j] = total + c


@wp.kernel
def first_of_rows(x: wp.array2d(dtype=int), y: wp.array2d(dtype=int), c: int):
    i = wp.tid()
    y[i, 0] = y[i, 0] + x[i, x.shape[1] - 1]


class View(NamedTuple):
    """Numbers of memory, by the first one, the extents, and strides in numbers."""

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, memory: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(
            memory[self.start :], self.shape, [4 * s for s in self.strides], writeable=True
        )

    def places(self) -> np.ndarray:
        """Which number of memory each element is."""
        at = np.full(self.shape, self.start)
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            at += (np.arange(extent) * stride).reshape([-1 if k == axis else 1 for k in range(len(self.shape))])
        return at


class Access(NamedTuple):
    """Which places each thread touches, and how: `r`, `w`, or a name of updates whose order does not show."""

    how: str
    places: np.ndarray  # of the threads, in rows


class Step(NamedTuple):
    """A step of a program.

    Attributes:
        run: Does it, with what gives views of memory as arrays.
        mean: Does it to memory in NumPy.
        accesses: What its threads touch.
        text: What it is.
    """

    run: Callable[[Callable[[View], Any]], None]
    mean: Callable[[np.ndarray], None]
    accesses: list[Access]
    text: str


def has_result(accesses: list[Access]) -> bool:
    """Whether the order of threads does not show."""
    rows = [(a, np.repeat(np.arange(len(a.places)), a.places[0].size)) for a in accesses]
    for k, (a, threads) in enumerate(rows):
        if a.how == "r":
            continue
        writer = np.full(MEMORY, -1)
        flat = a.places.reshape(-1)
        writer[flat] = threads
        if a.how == "w" and (writer[flat] != threads).any():
            return False
        for other, its in rows[k + 1 :] + [row for row in rows[:k] if row[0].how == "r"]:
            if a.how == other.how:
                if a.how != "w":
                    continue
                where = other.places.reshape(-1)
                if ((writer[where] >= 0) & (writer[where] != its)).any():
                    return False
                continue
            where = other.places.reshape(-1)
            met = writer[where] >= 0
            if a.how != "w" and met.any():
                return False  # an update meets something else
            if (met & (writer[where] != its)).any():
                return False
    return True


class Maker:
    """Makes the steps of one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        r = self.rng
        self.n = r.choice([2500, 4099, 5000, 6000])
        self.side = r.choice([50, 64, 71])
        starts = [r.randrange(0, MEMORY - 2 * self.n) for _ in range(2)]
        whole = [(0, 1), (self.n, 1), (self.n, 1), (1, 1), (2 * self.n - 1, -1), (self.n - 1, -1)]
        others = [(starts[0], 1), (starts[0], 2), (starts[0] + 1, 2), (starts[1], 1), (starts[1], 3)]
        rows = [(s, k) for s, k in [*whole, *others] if s + (self.n - 1) * abs(k) < MEMORY]
        self.lines = [View(s, (self.n,), (k,)) for s, k in rows]
        few = self.rng.sample(self.lines, 5)
        self.lines = few
        m = self.side
        squares = [
            (0, (m, 1)),
            (0, (1, m)),
            (m * m, (m, 1)),
            (1, (m, 1)),
            (m, (m, 1)),
            (0, (m + 3, 1)),
            (0, (2 * m, 2)),
        ]
        self.planes = [View(s, (m, m), strides) for s, strides in self.rng.sample(squares, 4)]
        self.order = np.random.default_rng(seed).permutation(self.n).astype(np.int32)

    def step(self) -> Step:
        """A step that has a result."""
        kinds = [self.line] * 10 + [self.plane] * 5 + [self.write] * 3 + [self.pairs] * 2 + [self.listed, self.struct]
        while True:
            made = self.rng.choice(kinds)()
            if has_result(made.accesses):
                return made

    def line(self) -> Step:
        x, y = self.rng.choice(self.lines), self.rng.choice(self.lines)
        c, order, n = self.rng.randint(-2, 3), self.order, self.n
        i = np.arange(n)
        kernel, to, read, how, new = self.rng.choice(LINES)
        at = to(i, order)
        froms = read(i, order)
        dim: Any = self.rng.choice([n, n, n, n, (n, 1)])
        xs, ys = x.places(), y.places()
        accesses = [Access("r", xs[f].reshape(n, -1)) for f in froms]
        if kernel is chosen:
            accesses.append(Access("r", ys[i].reshape(n, -1)))
        accesses.append(Access(how, ys[at].reshape(n, -1)))

        def mean(memory: np.ndarray) -> None:
            new(x.of(memory), y.of(memory), i, order, np.int32(c))

        def run(array: Callable[[View], Any]) -> None:
            wp.launch(kernel, dim=dim, inputs=[array(x), array(y), wp.array(order, copy=False), c])

        return Step(run, mean, accesses, f"{kernel.key} {x[::2]} -> {y[::2]}, {c}")

    def plane(self) -> Step:
        x, y = self.rng.choice(self.planes), self.rng.choice(self.planes)
        c, m = self.rng.randint(-2, 3), self.side
        kernel, dims, read, written, new = self.rng.choice(PLANES)
        xs, ys = x.places(), y.places()
        grid = (m,) * dims
        accesses = [Access("r", read(xs, m)), Access("w", written(ys, m))]
        dim = grid if dims == 2 else self.rng.choice([grid, (m, 1)])

        def mean(memory: np.ndarray) -> None:
            new(x.of(memory), y.of(memory), np.int32(c))

        def run(array: Callable[[View], Any]) -> None:
            wp.launch(kernel, dim=dim, inputs=[array(x), array(y), c])

        return Step(run, mean, accesses, f"{kernel.key} {x[::2]} -> {y[::2]}, {c}")

    def write(self) -> Step:
        views = self.rng.choice([self.lines, self.lines, self.planes])
        x, y = self.rng.choice(views), self.rng.choice(views)
        c, kind = self.rng.choice([0, 3, -1]), self.rng.choice(["fill", "copy", "assign", *_COPIES, "host", "repeated"])
        values = np.random.default_rng(c + 5).integers(-9, 9, y.shape).astype(np.int32)
        accesses = [Access("w", y.places().reshape(-1, 1))]

        def mean(memory: np.ndarray) -> None:
            held = x.of(memory).copy()
            y.of(memory)[...] = {"fill": c, "assign": values, "host": values, "repeated": held[:1]}.get(kind, held)

        def run(array: Callable[[View], Any]) -> None:
            to = array(y)
            match kind:
                case "fill":
                    to.fill_(c)
                case "copy":
                    wp.copy(to, array(x))
                case "assign":
                    to.assign(values)
                case "host":
                    wp.copy(to, wp.array(values))
                case "repeated":
                    to[:] = array(x)[:1]
                case _:
                    to.assign(_COPIES[kind](array(x)))

        return Step(run, mean, accesses, f"{kind} {x[::2]} -> {y[::2]}, {c}")

    def pairs(self) -> Step:
        n, c = self.n, self.rng.randint(-2, 3)
        kernel = self.rng.choice([swapped, fields])
        start, step = self.rng.choice([0, 2, self.n // 2 * 2]), self.rng.choice([2, 2, 4])
        if kernel is swapped:  # whose elements are aligned to their numbers
            start, step = start + self.rng.choice([0, 1]), step - self.rng.choice([0, step // 4])
        start = min(start, MEMORY - (n - 1) * step - 2)
        view = View(start, (n, 2), (step, 1))
        places = view.places()

        def mean(memory: np.ndarray) -> None:
            v = view.of(memory)
            a, b = v[:, 0].copy(), v[:, 1].copy()
            if kernel is swapped:
                v[:, 0], v[:, 1] = b + np.int32(c), a
            else:
                v[:, 1] = a + 3 * b - np.int32(c)

        def run(array: Callable[[View], Any]) -> None:
            dtype = wp.vec2i if kernel is swapped else Fields
            at = array(View(start, (1,), (1,)))
            whole = wp.array(ptr=at.ptr, shape=(n,), strides=(4 * step,), dtype=dtype)
            wp.launch(kernel, dim=n, inputs=[whole, c])

        return Step(run, mean, [Access("w", places)], f"{kernel.key} {start} {step}")

    def listed(self) -> Step:
        x, y, order = self.rng.choice(self.lines), self.rng.choice(self.lines), self.order
        kernel = self.rng.choice([of_list, to_list])
        xs, ys = x.places(), y.places()
        of = kernel is of_list
        accesses = [Access("r", (xs[order] if of else xs)[:, None]), Access("w", (ys if of else ys[order])[:, None])]

        def mean(memory: np.ndarray) -> None:
            a, b = x.of(memory), y.of(memory)
            if of:
                b[:] = a[order] + b
            else:
                b[order] = a - 4

        def run(array: Callable[[View], Any]) -> None:
            places = wp.array(order, copy=False)
            args = [wp.indexedarray(array(x), [places]), array(y)]
            if not of:
                args = [array(x), wp.indexedarray(array(y), [places])]
            wp.launch(kernel, dim=self.n, inputs=args)

        return Step(run, mean, accesses, f"{kernel.key} {x[::2]} -> {y[::2]}")

    def struct(self) -> Step:
        x, y, c = self.rng.choice(self.lines), self.rng.choice(self.lines), self.rng.randint(-2, 3)
        accesses = [Access("r", x.places()[:, None]), Access("w", y.places()[:, None])]

        def mean(memory: np.ndarray) -> None:
            a, b = x.of(memory), y.of(memory)
            b[:] = b - 3 * a + np.int32(c)

        def run(array: Callable[[View], Any]) -> None:
            s = Pair()
            s.x, s.y, s.c = array(x), array(y), c
            wp.launch(of_struct, dim=self.n, inputs=[s])

        return Step(run, mean, accesses, f"of_struct {x[::2]} -> {y[::2]}")


def _whole(x: wp.array) -> wp.indexedarray:
    return wp.indexedarray(x, wp.array(np.arange(len(x), dtype=np.int32), copy=False))


_COPIES: dict[str, Callable[[wp.array], Any]] = {
    "array": wp.array,
    "cast": lambda x: wp.array(wp.array(x, dtype=wp.int64), dtype=int),
    "list": lambda x: wp.array([x, x])[1],
    "selected": _whole,
    "array of selected": lambda x: wp.array(_whole(x)),
    "deepcopy": copy.deepcopy,
}
"""Ways to make an array of another one, or what stands for one."""


def _set(y: np.ndarray, at: Any, values: np.ndarray) -> None:
    y[at] = values


_ALONG = lambda i, order: i  # noqa: E731
_BACK = lambda i, order: len(i) - 1 - i  # noqa: E731

# A kernel, where thread i writes, the places that it reads, how it writes, and what it does to arrays.
LINES: list[tuple[Any, Any, Any, str, Any]] = [
    (own, _ALONG, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, i, 3 * y + x + c)),
    (if_positive, _ALONG, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, i, np.where(x > 0, c - x, y))),
    (next_one, _ALONG, lambda i, o: [(i + 1) % len(i)], "w", lambda x, y, i, o, c: _set(y, i, 5 * np.roll(x, -1) + c)),
    (mirror_read, _ALONG, lambda i, o: [_BACK(i, o)], "w", lambda x, y, i, o, c: _set(y, i, y + x[::-1] * c)),
    (mirror_write, _BACK, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, _BACK(i, o), x - c)),
    (gather, _ALONG, lambda i, o: [o], "w", lambda x, y, i, o, c: _set(y, i, x[o] ^ c)),
    (scatter, lambda i, o: o, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, o, x + c)),
    (first, _ALONG, lambda i, o: [0 * i], "w", lambda x, y, i, o, c: _set(y, i, y + x[0] + c)),
    (halves, _ALONG, lambda i, o: [i // 2], "w", lambda x, y, i, o, c: _set(y, i, 2 * y - x[i // 2])),
    (add_own, _ALONG, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, i, y + x * c)),
    (add_at, lambda i, o: o // 3, lambda i, o: [i], "add", lambda x, y, i, o, c: np.add.at(y, o // 3, x.copy())),
    (most_at, lambda i, o: o // 5, lambda i, o: [i], "max", lambda x, y, i, o, c: np.maximum.at(y, o // 5, x.copy())),
    (
        by_function,
        _ALONG,
        lambda i, o: [i],
        "w",
        lambda x, y, i, o, c: _set(y, i, y + c + x * (i % 3 + 1).astype(np.int32)),
    ),
    (chosen, _ALONG, lambda i, o: [i], "w", lambda x, y, i, o, c: _set(y, i, (y if c > 0 else x) + np.int32(7))),
]


def _sums(x: np.ndarray, y: np.ndarray, c: Any) -> None:
    """Sum along rows, one number after the other, as a thread may read what it has written."""
    total = np.zeros(len(x), np.int32)
    for k in range(x.shape[1]):
        total += x[:, k]
        y[:, k] = total + c


# A kernel, the dimensions of its grid, what its threads read and write, and what it does to arrays.
PLANES: list[tuple[Any, int, Any, Any, Any]] = [
    (
        plane,
        2,
        lambda p, m: p.reshape(-1, 1),
        lambda p, m: p.reshape(-1, 1),
        lambda x, y, c: _set(y, ..., 3 * y + x + c),
    ),
    (turned, 2, lambda p, m: p.T.reshape(-1, 1), lambda p, m: p.reshape(-1, 1), lambda x, y, c: _set(y, ..., x.T + c)),
    (
        turned_write,
        2,
        lambda p, m: p.reshape(-1, 1),
        lambda p, m: p.T.reshape(-1, 1),
        lambda x, y, c: _set(y.T, ..., x - c),
    ),
    (
        of_column,
        2,
        lambda p, m: np.repeat(p[:, 0], m).reshape(-1, 1),
        lambda p, m: p.reshape(-1, 1),
        lambda x, y, c: _set(y, ..., y + x[:, :1] + c),
    ),
    (
        neighbour,
        2,
        lambda p, m: np.roll(p, -1, 1).reshape(-1, 1),
        lambda p, m: p.reshape(-1, 1),
        lambda x, y, c: _set(y, ..., np.roll(x, -1, 1)),
    ),
    (along_rows, 1, lambda p, m: p, lambda p, m: p, lambda x, y, c: _sums(x, y, c)),
    (along_columns, 1, lambda p, m: p.T, lambda p, m: p.T, lambda x, y, c: _sums(x.T, y.T, c)),
    (
        first_of_rows,
        1,
        lambda p, m: p[:, -1:],
        lambda p, m: p[:, :1],
        lambda x, y, c: _set(y[:, 0], ..., y[:, 0] + x[:, -1]),
    ),
]


class _Arrays:
    """Views of memory as arrays, or as what else a launch takes."""

    def __init__(self, rng: random.Random, memory: np.ndarray) -> None:
        self.rng, self.memory = rng, memory
        self.held: list[Any] = []

    def __call__(self, view: View) -> wp.array:
        seen = view.of(self.memory)
        if self.rng.random() < 0.15 and all(s > 0 for s in view.strides):
            import torch

            tensor = torch.from_numpy(self.memory).as_strided(view.shape, view.strides, view.start)
            made = wp.from_torch(tensor)
            self.held.append(tensor)
        else:
            made = wp.array(seen, dtype=int, copy=False)
        return made


def check(seed: int) -> list[tuple[int, int]]:
    """Run one program; return which of its nodes ran together.

    Raises:
        AssertionError: The numbers are wrong.
    """
    maker = Maker(seed)
    rng = maker.rng
    steps: list[Step] = []
    for _ in range(rng.randint(2, 14)):
        steps.append(steps[rng.randrange(len(steps))] if steps and rng.random() < 0.15 else maker.step())
    memory = np.random.default_rng(seed).integers(-9, 9, MEMORY).astype(np.int32)
    expected, array = memory.copy(), _Arrays(rng, memory)
    inner = sorted(rng.sample(range(len(steps) + 1), 2)) if rng.random() < 0.2 else [0, 0]
    flag = wp.array([1], dtype=int)

    def part() -> None:
        for step in steps[slice(*inner)]:
            step.run(array)

    nested = None
    if inner[0] < inner[1] and rng.random() < 0.5:
        with wp.ScopedCapture() as capture:
            part()
        nested = capture.graph
    with wp.ScopedCapture() as capture:
        for step in steps[: inner[0]]:
            step.run(array)
        if nested is not None:
            wp.capture_launch(nested)
        elif inner[0] < inner[1]:
            wp.capture_if(flag, on_true=part)
        for step in steps[inner[1] :]:
            step.run(array)
    text = "\n".join([f"seed {seed}, n {maker.n}, inner {inner}", *(s.text for s in steps)])
    with np.errstate(over="ignore"):
        for turn in range(3):
            wp.capture_launch(capture.graph)
            for step in steps:
                step.mean(expected)
            wrong = np.flatnonzero(memory != expected)
            assert not len(wrong), f"{text}\nturn {turn}: {len(wrong)} numbers from {wrong[0]} to {wrong[-1]} are wrong"
    return capture.graph._replay.fused()


__all__ = ["check"]
