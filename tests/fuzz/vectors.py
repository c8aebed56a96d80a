"""Programs of long vectors and matrices that loops read and change component by component.

Those that stay in stack memory while a loop runs are told from others by how each of their versions is used. So there
are copies, exchanges and whole values in between, versions that are wanted later, and indices that lanes share or not.
"""

from __future__ import annotations

from tests.fuzz.numbers import THREADS, finished, settings_of, sizes
from tests.fuzz.program import Program
from tests.fuzz.writing import Writer

NAMES = ("a", "b", "c")
HEADER = """\
V = wp.types.vector({n}, wp.{t})
M = wp.types.matrix(({rows}, {cols}), wp.{t})


@wp.func
def stored(v: V, k: int, e: wp.{t}):
    if k > {n} + 2:
        return v
    v[k % {n}] = v[(k + 1) % {n}] + e
    return v


@wp.func
def swept(v: wp.ref[V], e: wp.{t}):
    for k in range({n} - 1):
        v[k + 1] = v[k] - e


"""


class VectorWriter(Writer):
    """Statements about three vectors and a matrix, mostly about their components."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32", "int32", "int64", "uint32", "int16"])
        self.n, self.rows, self.cols = self.number(4, 9), self.number(2, 4), self.number(2, 4)
        self.kinds = [self.part] * 8 + [self.element] * 4 + [self.for_] * 4 + [self.if_] * 2 + [self.while_, self.leave]
        self.kinds += [self.whole, self.whole, self.number_, self.call]

    def index(self, extent: int) -> str:
        """An index in range: a loop's, one that lanes do not share, or a constant."""
        e = self.pick([*self.loops * 3, "s", "x[i]", "q", "2"])
        plus = self.pick(["", "", " + 1", " + s"])
        return self.pick([f"({e}{plus}) % {extent}", f"({e}{plus}) % {extent}", str(self.number(0, extent - 1))])

    def small(self) -> str:
        return self.pick([*self.loops, "s", "x[i]", "q", "3"])

    def condition(self) -> str:
        e = self.pick([*self.loops, "s", "q", "x[i]", "x[i]"])
        v = f"{self.pick(NAMES)}[{self.index(self.n)}] > wp.{self.t}({self.number(0, 9)})"
        return self.pick([f"{e} > {self.number(0, 4)}", f"{e} % 3 == {self.number(0, 2)}", v])

    def value(self) -> str:
        """A number of the vectors' type."""
        reads = [f"{self.pick(NAMES)}[{self.index(self.n)}]"] * 4 + ["r", f"wp.{self.t}({self.small()})"]
        reads += [f"m[{self.index(self.rows)}, {self.index(self.cols)}]"]
        a, b = self.pick(reads), self.pick(reads)
        return self.pick([a, a, f"({a} + {b})", f"({a} - {b})", f"({a} ^ {b})"])

    # --- statements -----------------------------------------------------------------------------------------

    def part(self, depth: int, loop: bool) -> None:
        place = f"{self.pick(NAMES)}[{self.index(self.n)}]"
        self.line(depth, f"{place} {self.pick(['=', '=', '=', '+=', '-='])} {self.value()}")

    def element(self, depth: int, loop: bool) -> None:
        row, column = self.index(self.rows), self.index(self.cols)
        lines = [f"m[{row}, {column}] = {self.value()}"] * 4 + [f"m[{row}] = m[{self.index(self.rows)}]"]
        self.line(depth, self.pick([*lines, f"m = m + m[{row}, {column}] * m"]))

    def whole(self, depth: int, loop: bool) -> None:
        a, b = self.r.sample(NAMES, 2)
        lines = [f"{a} = {b}", f"{a} = {b}", f"{a} = {b} + {a}", f"{a} = V({self.value()})", f"r = wp.min({a})"]
        lines += [f"{a} = wp.where({self.condition()}, {a}, {b})", f"{a} = {b} if {self.condition()} else {a}"]
        if self.chance(0.3):
            self.line(depth, f"kept = {a}")
            self.line(depth, f"{a} = {b}")
            self.line(depth, f"{b} = kept")
            return
        self.line(depth, self.pick(lines))

    def number_(self, depth: int, loop: bool) -> None:
        self.line(depth, self.pick([f"r = {self.value()}", f"r = r + {self.value()}", f"q = ({self.small()} + q) % 5"]))

    def call(self, depth: int, loop: bool) -> None:
        a = self.pick(NAMES)
        self.line(
            depth, self.pick([f"{a} = stored({a}, {self.small()}, {self.value()})", f"swept({a}, {self.value()})"])
        )


def vectors(seed: int, known: frozenset[str]) -> Program:
    """A program of long vectors."""
    w = VectorWriter(seed, known)
    w.budget = 18
    head = HEADER.format(n=w.n, t=w.t, rows=w.rows, cols=w.cols).splitlines()
    params = ["x: wp.array(dtype=int)", "s: int", f"y: wp.array2d(dtype=wp.{w.t})"]
    room = 3 * w.n + w.rows * w.cols + 1
    setup = [f"g = np.random.default_rng({seed})", f"x = g.integers(0, 7, {THREADS}).astype('int32')"]
    setup += [f"y = np.zeros(({THREADS}, {room}), '{w.t}')", "memory = [y]", f"args = [x, {w.number(0, 4)}, y]"]
    w.line(1, "i = wp.tid()")
    w.line(1, "q = int(1)")
    w.line(1, f"r = wp.{w.t}(x[i])")
    for name in NAMES:
        w.line(1, f"{name} = V({', '.join(f'wp.{w.t}({w.number(0, 9)})' for _ in range(w.n))})")
    w.line(1, f"m = M({', '.join(f'wp.{w.t}({w.number(0, 9)})' for _ in range(w.rows * w.cols))})")
    while w.budget > 2:
        w.statement(1, False)
    for k, name in enumerate(NAMES):
        w.line(1, f"for k{name} in range({w.n}):")
        w.line(2, f"y[i, {k * w.n} + k{name}] = {name}[k{name}]")
    w.line(1, f"for km in range({w.rows * w.cols}):")
    w.line(2, f"y[i, {3 * w.n} + km] = m[km // {w.cols}, km % {w.cols}]")
    w.line(1, "y[i, -1] = r")
    return finished("vectors", w, head, params, setup, sizes(w), settings_of(w))
