"""Gradients of kernels on nested arrays: ``check(seed)`` compares lanes with one thread, and that with differences.

Threads read arrays of any element, write arrays of their own, and add to arrays that several elements hold. Arrays
may be strided, empty, or stand in several elements.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import define
from tests.fuzz.forced import forced
from tests.guarded import IS_SUPPORTED, guarded

THREADS = 21
STEP = 1e-4

STRUCT = """\
@wp.struct
class Cell:
    p: wp.array(dtype=wp.{t})
    n: int
    g: wp.array2d(dtype=wp.{t})
    o: wp.array(dtype=wp.{t})
    s: wp.array(dtype=wp.{t})


@wp.func
def total(r: wp.array(dtype=wp.{t})):
    x = wp.{t}(0)
    for e in r:
        x = x * wp.{t}(0.5) + e * e
    return x


@wp.kernel
def k(cells: wp.array(dtype=Cell), q: wp.array(dtype=int), w: wp.array(dtype=wp.{t}), y: wp.array(dtype=wp.{t})):
    i = wp.tid()
    v = w[i]
    u = wp.{t}(1)
"""


class _Writer:
    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.lines: list[str] = []
        self.names = 0

    def row(self) -> str:
        cell = self.r.choice(["cells[i]", "cells[q[i]]", "cells[0]", "cells[(i + q[i]) % len(cells)]"])
        return self.r.choice(
            [f"{cell}.p"] * 3 + [f"{cell}.g[0]", f"{cell}.g[q[i] % {cell}.g.shape[0]]", f"{cell}.p[::-1]"]
        )

    def value(self) -> str:
        return self.r.choice(["v", "u", "v * u", "(v - u)", "w[i]", "v * w[q[i]]", f"total({self.row()})"])

    def statement(self, indent: str, depth: int) -> None:
        r, row, self.names = self.r, self.row(), self.names + 1
        own, j = r.choice("vu"), f"j{self.names}"
        match r.randrange(9):
            case 0:
                text = f"for {j} in range(len({row})):\n    {own} += {row}[{j}] * {self.value()} * 0.125"
            case 1:
                text = f"if len({row}) > 1:\n    {own} = {self.value()} - {row}[1] * {row}[0]"
            case 2:
                text = f"{j} = {row}\nif len({j}) > 0:\n    {own} = {own} * 0.5 + {j}[q[i] % len({j})] * {j}[-1]"
            case 3:
                text = f"for {j} in range(len(cells[i].o)):\n    cells[i].o[{j}] {r.choice(['=', '+='])} {self.value()}"
            case 4:
                at = r.choice(["cells[i]", "cells[q[i]]", "cells[0]"])
                text = f"{at}.s[{r.choice(['0', 'i % 2', '-1'])}] += {self.value()}"
            case 5:
                text = f"{j} = 0\nwhile {j} < len({row}) and {j} < q[i]:\n    {own} += {row}[{j}] * 0.5\n    {j} += 1"
            case 6:
                text = f"{own} += total({row})"
            case _ if depth:
                self.lines.append(f"{indent}if {r.choice(['q[i] > 2', 'i % 3 == 1', 'cells[i].n > 0', 'i < 5'])}:")
                for _ in range(r.randint(1, 2)):
                    self.statement(indent + "    ", depth - 1)
                return
            case _:
                text = f"{own} = {self.value()} + {self.value()}"
        self.lines += [indent + line for line in text.splitlines()]


def source(seed: int) -> str:
    """The text of a random kernel."""
    r = random.Random(seed)
    w = _Writer(r)
    for _ in range(r.randint(2, 5)):
        w.statement("    ", 2)
    t = r.choice(["float64", "float64", "float32"])
    text = "\n".join([*w.lines, "    y[i] = v + u * v"])
    for number in ("0.125", "0.5"):
        text = text.replace(f" {number}", f" wp.{t}({number})")
    return STRUCT.format(t=t) + text + "\n"


class _Given:
    """The arguments of a launch; ``inputs`` are numbers of which the gradient is asked, ``outputs`` what is written."""

    def __init__(self, seed: int, names: dict[str, Any], moved: float = 0.0) -> None:
        r, t = np.random.default_rng(seed), getattr(wp, "float32" if "float32" in source(seed) else "float64")
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._seed = seed
        direction = np.random.default_rng(seed + 1)

        def given(*shape: int) -> Any:
            values = r.integers(-2, 3, shape) + moved * direction.normal(size=shape)
            step = r.integers(1, 3)
            whole = np.zeros((*shape[:-1], shape[-1] * step))
            whole[..., ::step] = values
            array = wp.array(whole, dtype=t, requires_grad=True)
            part = array[:, ::step] if len(shape) > 1 else array[::step]
            self.inputs.append(part)
            return part

        def written(n: int) -> Any:
            self.outputs.append(wp.zeros(n, dtype=t, requires_grad=True))
            return self.outputs[-1]

        rows, sums = [given(r.integers(0, 5)) for _ in range(THREADS)], [written(2) for _ in range(3)]
        cells = []
        for i in range(THREADS):
            c = names["Cell"]()
            c.p, c.n, c.s = rows[r.integers(0, i + 1)], int(r.integers(0, 2)), sums[r.integers(0, 3)]
            c.g, c.o = given(r.integers(1, 3), 2), written(r.integers(0, 3))
            cells.append(c)
        w, y = given(THREADS), written(THREADS)
        q = wp.array(r.integers(0, THREADS, THREADS), dtype=int)
        self.args = [wp.array(cells, dtype=names["Cell"]), q, w, y]
        self.seeds = [
            np.random.default_rng(k).integers(-2, 3, x.shape).astype(float) for k, x in enumerate(self.outputs)
        ]

    def objective(self) -> float:
        return float(sum((x.numpy() * s).sum() for x, s in zip(self.outputs, self.seeds, strict=True)))

    def slope(self, gradients: list[np.ndarray]) -> float:
        """The change of ``objective`` along the direction, by its gradients."""
        r = np.random.default_rng(self._seed + 1)
        return float(sum((g * r.normal(size=g.shape)).sum() for g in gradients))


@contextlib.contextmanager
def _width(width: int) -> Iterator[None]:
    wp.config.vector_width = width
    try:
        yield
    finally:
        del wp.config.vector_width


def _gradients(seed: int, text: str) -> tuple[list[np.ndarray], _Given]:
    names = define(text, eager=True, Any=Any)
    given = _Given(seed, names)
    with wp.Tape() as tape:
        wp.launch(names["k"], THREADS, given.args)
    grads = {x: wp.array(s, dtype=x.dtype) for x, s in zip(given.outputs, given.seeds, strict=True)}
    tape.backward(grads=grads)
    return [*(x.numpy() for x in given.outputs), *(x.grad.numpy() for x in given.inputs)], given


def check(seed: int) -> None:
    """Compare one program's results and gradients."""
    text, r = source(seed), random.Random(seed)
    with _width(1):
        wanted, given = _gradients(seed, text)
        inputs = wanted[len(given.outputs) :]
        ends = []
        for moved in (STEP, -STEP):
            names = define(text, eager=True, Any=Any)
            other = _Given(seed, names, moved)
            wp.launch(names["k"], THREADS, other.args)
            ends.append(other.objective())
    double = "float32" not in text
    if double:
        slope, size = given.slope(inputs), sum(np.abs(g).sum() for g in inputs)
        np.testing.assert_allclose(
            (ends[0] - ends[1]) / (2 * STEP), slope, rtol=1e-3, atol=1e-4 * (1 + size), err_msg=text
        )
    for width in r.sample([0, 2, 4, 8, 16, 32], 2):
        with contextlib.ExitStack() as stack:
            stack.enter_context(_width(width))
            if r.random() < 0.4:
                stack.enter_context(forced())
            if IS_SUPPORTED and r.random() < 0.7:
                stack.enter_context(guarded(r.choice(["begin", "end"])))
            got, _ = _gradients(seed, text)
        for a, b in zip(got, wanted, strict=True):
            near = 1e-10 if double else 1e-4
            np.testing.assert_allclose(
                a, b, rtol=near, atol=near * (1 + np.abs(b).max(initial=0)), err_msg=f"{width}\n{text}"
            )
