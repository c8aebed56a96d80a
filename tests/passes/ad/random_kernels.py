"""Random kernels as Python source: control flow, loop-carried state and array traffic, in float64.

Threads never touch what another one writes, except by atomics on ``acc`` and ``turn``, which nobody reads. Each
thread owns three elements of ``y`` (updated in place, also through views and slices), two of ``z`` (the same by flat
index), of the vectors ``w``, of the structs ``e``, of the counters ``cnt`` and of ``out``; ``x``, ``p`` and the indices
``g`` are only read. Besides numbers, a kernel's state is a vector, a matrix, a struct and arrays of its own. Values
stay moderate, and derivatives exist with probability one.

``y[i] += e`` is an atomic, since threads could share the element. The gradient is refused where it needs the values of
an array that atomics update, so only kernels marked ``updates`` contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

THREADS = 7
"""As many as fill a vector of four lanes and leave a rest."""
SHAPES = {
    "x": (4,),
    "p": (2, 3),
    "y": (THREADS, 3),
    "z": (2 * THREADS,),
    "w": (THREADS, 2, 3),
    "e": (THREADS, 2, 4),
    "out": (THREADS, 2),
    "acc": (2,),
    "turn": (2, 3),
}
"""The arrays with gradients, as numbers: a vector has 3 of them, a struct ``Pair`` 4."""
VECTORS = {"p", "w", "turn"}
STRUCTS = {"e"}
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


@wp.struct
class Pair:
    u: f64
    t: wp.vec3d


@wp.func
def moved(h: Pair, a: f64, n: int):
    if a > 0.3:
        h.u = wp.sin(h.u) * a
        return h
    for k in range(n):
        h.t[k % 3] = h.t[k % 3] * 0.5 + wp.cos(a * h.u)
        if h.t[0] > 0.8:
            break
    h.u = h.t[2] - h.u * 0.5
    return h


@wp.func
def put(r: wp.array(dtype=f64), k: int, a: f64):
    if k > 2:
        return
    r[k % r.shape[0]] = a * r[0] + 0.2
"""
SIGNATURE = """

@wp.kernel{options}
def {name}(
    x: wp.array(dtype=f64),
    p: wp.array(dtype=wp.vec3d),
    y: wp.array2d(dtype=f64),
    z: wp.array(dtype=f64),
    w: wp.array2d(dtype=wp.vec3d),
    e: wp.array2d(dtype=Pair),
    out: wp.array2d(dtype=f64),
    acc: wp.array(dtype=f64),
    turn: wp.array(dtype=wp.vec3d),
    g: wp.array(dtype=int),
    cnt: wp.array2d(dtype=int),
    n: int,
    s: f64,
):
    i = wp.tid()
    row = y[i]
    q = int(1)
    a = x[g[i % 4]]
    b = row[0]
    c = f64(0.25)
    v = p[i % 2]
    m = wp.mat22d(a, c, b, f64(0.5))
    h = e[i, 1]
    own = wp.zeros(shape=(3,), dtype=f64)
    tall = wp.zeros(shape=(2,), dtype=wp.vec3d)
"""
MAX_DEPTH = 3


@st.composite
def sources(draw: Callable[[Any], Any], kernels: int = 1, statements: int = 7, updates: bool = False) -> str:
    """A strategy for a module with the kernels ``k0``, ``k1`` and so on."""
    return source(lambda low, high: draw(st.integers(low, high)), kernels, statements, updates)


def source(number: Callable[[int, int], int], kernels: int = 1, statements: int = 7, updates: bool = False) -> str:
    """A module with the kernels ``k0``, ``k1`` and so on; ``number`` gives random ones, both ends included."""
    text = HEADER
    for k in range(kernels):
        options = "(checkpoint_loops=True)" if number(0, 4) == 0 else ""
        maker = _Maker(number, updates)
        maker.body(statements, 1, in_loop=False, at_least=2)
        maker.line(1, f"out[i, 0] = {maker.expression(1)}")
        maker.line(1, f"out[i, q % 2] = out[i, q % 2] + {maker.pick(['a', 'b * c', 'wp.dot(v, v)'])}")
        text += SIGNATURE.format(options=options, name=f"k{k}") + "\n".join(maker.lines) + "\n"
    return text


class _Maker:
    """Writes statements; every one of them is valid wherever it stands."""

    def __init__(self, number: Callable[[int, int], int], updates: bool) -> None:
        self.number = number
        self.updates = updates
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.items: list[str] = []  # floats in scope besides those that every kernel has
        self.local = ["own"]
        self.counters = 0

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions ----------------------------------------------------------------------------------------

    def integer(self) -> str:
        k = self.pick(["0", "1", "i % 4", "q"])
        arrays = [f"g[{k} % 4]", f"cnt[i, {k} % 2]"]
        return self.pick(["0", "1", "i % 4", "q", "n", "(q + i % 4)", *arrays, *self.loops, *self.loops])

    def place(self) -> str:
        """An element that belongs to the thread."""
        k, j = self.integer(), self.integer()
        return self.pick(
            [
                f"y[i, {k} % 3]",
                f"row[{k} % 3]",
                f"row[::-1][{k} % 3]",
                f"y[i, {j} % 2 :][{k} % 2]",
                f"z[2 * i : 2 * i + 2][{k} % 2]",
                f"z[2 * i + {k} % 2]",
                f"out[i, {k} % 2]",
                f"w[i, {k} % 2][{j} % 3]",
                f"e[i, {k} % 2].u",
                f"e[i, {k} % 2].t[{j} % 3]",
            ]
        )

    def own_place(self) -> str:
        """An element of state that no other thread could reach: of an array of the thread, or a component."""
        k, j = self.integer(), self.integer()
        array = self.pick(self.local)
        places = [f"v[{k} % 3]", f"m[{k} % 2, {j} % 2]", "h.u", f"h.t[{k} % 3]", f"tall[{k} % 2][{j} % 3]"]
        return self.pick([f"{array}[{k} % 3]", f"{array}[{k} % 3]", f"{array}[1:][{k} % 2]", *places])

    def atom(self) -> str:
        k = self.integer()
        reads = [f"x[{k} % 4]", f"x[g[{k} % 4]]", self.place(), self.own_place(), f"p[{k} % 2][1]", f"f64({k})"]
        return self.pick(["a", "b", "c", "s", "f64(0.7)", *self.items, *reads, self.place()])

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
                f"wp.dot(m * wp.vec2d({f}, a), v[1:]) * 0.3",
                f"moved(h, {f}, 2).u",
                f"(-{f})",
            ]
        )

    def condition(self) -> str:
        compare = [f"{self.pick('abc')} > 0.21", f"{self.place()} < 0.63", f"{self.integer()} % 2 == 0", "q < 2"]
        c, d = self.pick(compare), self.pick(compare)
        return self.pick([c, c, f"({c} and {d})", f"({c} or {d})", f"(not {c})"])

    # --- statements -----------------------------------------------------------------------------------------

    def body(self, count: int, depth: int, in_loop: bool, at_least: int = 1) -> None:
        known = len(self.local)
        for _ in range(self.number(at_least, count)):
            self.statement(depth, in_loop)
        del self.local[known:]

    def statement(self, depth: int, in_loop: bool) -> None:
        kinds = [self.assign, self.assign, self.store, self.store, self.vector, self.accumulate, self.integers]
        kinds += [self.own_store, self.own_store, self.whole, self.array]
        if depth <= MAX_DEPTH:
            kinds += [self.if_, self.for_, self.for_, self.while_, self.each]
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

    def own_store(self, depth: int, in_loop: bool) -> None:
        place, e = self.own_place(), self.expression(0)
        steps = [
            f"{place} = {e} + 0.0",
            f"{place} = wp.sin({place}) * {e}",
            f"{place} += 0.2 * {e}",
            f"{place} *= wp.cos({e} + 0.0)",
        ]
        self.line(depth, self.pick(steps))

    def whole(self, depth: int, in_loop: bool) -> None:
        """Vectors, matrices and structs as values, in variables and in arrays."""
        k, j = self.integer(), self.integer()
        steps = [
            f"h = moved(h, {self.expression(1)}, {self.pick(['2', 'n'])})",
            f"h = e[i, {k} % 2]",
            f"e[i, {k} % 2] = h",
            f"e[i, {k} % 2] = moved(e[i, {j} % 2], a, n)",
            f"e[i, {k} % 2].t = v * 0.7",
            f"h.t = w[i, {k} % 2]",
            f"w[i, {k} % 2] = h.t",
            f"w[i, {k} % 2] = wp.cross(w[i, {j} % 2], v) * 0.5 + v",
            f"tall[{k} % 2] = v * c",
            f"v = tall[{k} % 2] + v * 0.5",
            "v[:2] = m * v[1:] * 0.5",
            f"m = wp.mat22d({self.expression(1)}, a, b, m[{k} % 2, 0]) * 0.5",
            f"put({self.pick(['row', 'y[i]', 'own', 'z[2 * i : 2 * i + 2]'])}, {k}, {self.expression(1)} * 0.5)",
        ]
        self.line(depth, self.pick(steps))

    def array(self, depth: int, in_loop: bool) -> None:
        """An array of the thread, used until the block ends."""
        self.counters += 1
        name = f"own{self.counters}"
        self.line(depth, f"{name} = wp.zeros(shape=(3,), dtype=f64)")
        self.local.append(name)
        self.own_store(depth, in_loop)
        self.line(depth, f"{name}[{self.integer()} % 3] = {self.expression(1)} + 0.0")

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
        fn, k = self.pick(["add", "sub"]), self.integer()
        steps = [
            f"wp.atomic_{fn}(acc, {k} % 2, {self.expression(0)} + 0.0)",
            f"wp.atomic_{fn}(turn, {k} % 2, v * {self.expression(1)})",
            f"turn[{k} % 2][{self.integer()} % 3] += {self.expression(0)} + 0.0",
        ]
        self.line(depth, self.pick(steps))

    def integers(self, depth: int, in_loop: bool) -> None:
        k = self.integer()
        steps = ["q += 1", "q = (q * 2 + n) % 5", f"q = {k} % 4", f"cnt[i, {k} % 2] = (q + {self.integer()}) % 5"]
        self.line(depth, self.pick(steps))

    def leave(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.line(depth + 1, self.pick(["break", "continue"]))

    def return_(self, depth: int, in_loop: bool) -> None:
        if self.number(0, 2):
            self.assign(depth, in_loop)
            return
        self.line(depth, f"if {self.condition()} and {self.pick('abc')} > 0.5:")
        self.line(depth + 1, "return")

    def if_(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.body(3, depth + 1, in_loop)
        if self.number(0, 1):
            if self.number(0, 1):
                self.line(depth, f"elif {self.condition()}:")
                self.body(2, depth + 1, in_loop)
            self.line(depth, "else:")
            self.body(3, depth + 1, in_loop)

    def for_(self, depth: int, in_loop: bool) -> None:
        self.counters += 1
        name = f"j{self.counters}"
        bounds = ["2", "3", "n", "i % 4 + 1", "1, n + 2", "3, -1, -1", "n, 0, -2", f"{self.integer()} % 4"]
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

    def each(self, depth: int, in_loop: bool) -> None:
        self.counters += 1
        name = f"item{self.counters}"
        self.line(depth, f"for {name} in {self.pick(['row', 'own', 'x', 'row[1:]', 'v'])}:")
        self.items.append(name)
        self.body(3, depth + 1, in_loop=True)
        self.items.pop()
