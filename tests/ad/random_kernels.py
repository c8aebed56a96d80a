"""Random kernels as Python source: control flow, loop-carried state and array traffic, in float64.

Threads never touch what another one writes, except by atomics on ``acc``, which nobody reads. Each thread owns three
elements of ``y`` (updated in place, also through a view), two of ``z`` (the same by flat index) and two of ``out``;
``x``, ``p`` and the indices ``g`` are only read. Values stay moderate, and derivatives exist with probability one.

``y[i] += e`` is an atomic, since threads could share the element. The gradient is refused where it needs the values of
an array that atomics update, so only kernels marked ``updates`` contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

THREADS = 3
SHAPES = {"x": (4,), "p": (2, 3), "y": (THREADS, 3), "z": (2 * THREADS,), "out": (THREADS, 2), "acc": (2,)}
VECTORS = {"p"}
HEADER = """
@wp.func
def clipped(a: f64, b: f64):
    if a > 0.4:
        return wp.sin(b)
    c = a * b
    if b > 0.1:
        return c * 0.5
    return c + a


@wp.func
def turned(a: f64, b: f64, n: int):
    for _ in range(n):
        a = a - 0.3 * b
        b = b + 0.3 * wp.sin(a)
    return a, b
"""
SIGNATURE = """

@wp.kernel{options}
def {name}(
    x: wp.array(dtype=f64),
    p: wp.array(dtype=wp.vec3d),
    y: wp.array2d(dtype=f64),
    z: wp.array(dtype=f64),
    out: wp.array2d(dtype=f64),
    acc: wp.array(dtype=f64),
    g: wp.array(dtype=int),
    n: int,
    s: f64,
):
    i = wp.tid()
    row = y[i]
    q = int(1)
    a = x[g[i]]
    b = row[0]
    c = f64(0.25)
    v = p[i % 2] * f64(1.0)
"""
MAX_DEPTH = 3


@st.composite
def sources(draw: Callable[[Any], Any], kernels: int = 1, statements: int = 7, updates: bool = False) -> str:
    """A strategy for a module with the kernels ``k0``, ``k1`` and so on."""
    text = HEADER
    for k in range(kernels):
        options = "(checkpoint_loops=True)" if draw(st.integers(0, 4)) == 0 else ""
        maker = _Maker(draw, updates)
        maker.body(statements, 1, in_loop=False, at_least=2)
        maker.line(1, f"out[i, 0] = {maker.expression(1)}")
        maker.line(1, f"out[i, q % 2] = out[i, q % 2] + {maker.pick(['a', 'b * c', 'wp.dot(v, v)'])}")
        text += SIGNATURE.format(options=options, name=f"k{k}") + "\n".join(maker.lines) + "\n"
    return text


class _Maker:
    """Writes statements; every one of them is valid wherever it stands."""

    def __init__(self, draw: Any, updates: bool) -> None:
        self.draw = draw
        self.updates = updates
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.counters = 0

    def pick(self, options: Sequence[T]) -> T:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions ----------------------------------------------------------------------------------------

    def integer(self) -> str:
        return self.pick(["0", "1", "i", "q", "n", "(q + i)", *self.loops, *self.loops])

    def place(self) -> str:
        """An element that belongs to the thread."""
        k = self.integer()
        return self.pick([f"y[i, {k} % 3]", f"row[{k} % 3]", f"z[2 * i + {k} % 2]", f"out[i, {k} % 2]"])

    def atom(self) -> str:
        k = self.integer()
        reads = [f"x[{k} % 4]", f"x[g[{k} % 4]]", self.place(), f"v[{k} % 3]", f"p[{k} % 2][1]", f"f64({k})"]
        return self.pick(["a", "b", "c", "s", "f64(0.7)", *reads])

    def expression(self, depth: int) -> str:
        """A float64 of moderate size."""
        if depth > 2:
            return self.pick(["a", "b", "c", f"wp.sin({self.atom()})"])
        e, f = self.atom(), self.expression(depth + 1)
        return self.pick(
            [
                e,
                f"wp.sin({e}) * {f}",
                f"({e} + 0.5 * {f})",
                f"({e} - {f}) * 0.5",
                f"wp.tanh({e} * {f})",
                f"{e} / ({f} * {f} + 1.0)",
                f"wp.exp(-({f} * {f}))",
                f"wp.sqrt({f} * {f} + 0.5)",
                f"wp.min({e}, {f})",
                f"wp.max({e}, {f})",
                f"wp.where({self.condition()}, {e}, {f} + 0.0)",
                f"clipped({e} + 0.0, wp.cos({f}))",
                f"({e} if {self.condition()} else wp.cos({f}))",
                f"wp.dot(v, wp.vec3d({f}, c, wp.sin(b))) * 0.3",
                f"(-{f})",
            ]
        )

    def condition(self) -> str:
        compare = [f"{self.pick('abc')} > 0.21", f"{self.place()} < 0.63", f"{self.integer()} % 2 == 0", "q < 2"]
        c, d = self.pick(compare), self.pick(compare)
        return self.pick([c, c, f"({c} and {d})", f"({c} or {d})", f"(not {c})"])

    # --- statements -----------------------------------------------------------------------------------------

    def body(self, count: int, depth: int, in_loop: bool, at_least: int = 1) -> None:
        for _ in range(self.draw(st.integers(at_least, count))):
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        kinds = [self.assign, self.assign, self.store, self.store, self.vector, self.accumulate, self.integers]
        if depth <= MAX_DEPTH:
            kinds += [self.if_, self.for_, self.for_, self.while_]
        if in_loop:
            kinds.append(self.leave)
        kinds.append(self.return_)
        self.pick(kinds)(depth, in_loop)

    def assign(self, depth: int, in_loop: bool) -> None:
        name, e = self.pick("abc"), self.expression(0)
        steps = [
            f"{name} = {e} + 0.0",
            f"{name} = wp.sin({name}) * {e} + 0.3",
            f"{name} += 0.2 * {e}",
            f"{name} *= wp.cos({e} + 0.0)",
            f"{name} -= {name} * {name} * 0.1",
            f"a, b = turned(a, wp.sin(b), {self.pick(['2', 'n'])})",
            "a, b = b, a",
        ]
        self.line(depth, self.pick(steps))

    def store(self, depth: int, in_loop: bool) -> None:
        place, e = self.place(), self.expression(0)
        steps = [
            f"{place} = {e} + 0.0",
            f"{place} = wp.sin({place}) * {e}",
            f"{place} = {place} + {e}",
            f"{place} = {e} - 0.5 * {place} * c",
            f"{place} *= wp.cos({e} + 0.0)",
        ]
        if self.updates:
            steps += [f"{place} += {e}", f"{place} -= 0.5 * {e}"]
        self.line(depth, self.pick(steps))

    def vector(self, depth: int, in_loop: bool) -> None:
        k = self.integer()
        steps = [
            f"v[{k} % 3] = {self.expression(1)} + 0.0",
            f"v = wp.cross(v, p[{k} % 2]) * 0.4 + v * 0.5",
            "v = v + wp.vec3d(a, b, wp.sin(c)) * 0.3",
            f"v[{k} % 3] += 0.2 * a",
            "v = v * wp.cos(a)",
        ]
        self.line(depth, self.pick(steps))

    def accumulate(self, depth: int, in_loop: bool) -> None:
        fn = self.pick(["add", "sub"])
        self.line(depth, f"wp.atomic_{fn}(acc, {self.integer()} % 2, {self.expression(0)} + 0.0)")

    def integers(self, depth: int, in_loop: bool) -> None:
        self.line(depth, self.pick(["q += 1", "q = (q * 2 + n) % 5", f"q = {self.integer()} % 4"]))

    def leave(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.line(depth + 1, self.pick(["break", "continue"]))

    def return_(self, depth: int, in_loop: bool) -> None:
        if self.draw(st.integers(0, 2)):
            self.assign(depth, in_loop)
            return
        self.line(depth, f"if {self.condition()} and {self.pick('abc')} > 0.5:")
        self.line(depth + 1, "return")

    def if_(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.body(3, depth + 1, in_loop)
        if self.draw(st.booleans()):
            if self.draw(st.booleans()):
                self.line(depth, f"elif {self.condition()}:")
                self.body(2, depth + 1, in_loop)
            self.line(depth, "else:")
            self.body(3, depth + 1, in_loop)

    def for_(self, depth: int, in_loop: bool) -> None:
        self.counters += 1
        name = f"j{self.counters}"
        bounds = ["2", "3", "n", "i + 1", "1, n + 2", "3, -1, -1", "n, 0, -2", f"{self.integer()} % 4"]
        self.line(depth, f"for {name} in range({self.pick(bounds)}):")
        self.loops.append(f"({name} + 2)")
        self.body(4, depth + 1, in_loop=True)
        self.loops.pop()

    def while_(self, depth: int, in_loop: bool) -> None:
        self.counters += 1
        name = f"w{self.counters}"
        self.line(depth, f"{name} = int(0)")
        self.line(depth, f"while {name} < 4 and {self.condition()}:")
        self.line(depth + 1, f"{name} += 1")
        self.loops.append(name)
        self.body(4, depth + 1, in_loop=True)
        self.loops.pop()
