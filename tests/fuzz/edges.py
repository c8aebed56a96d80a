"""Small programs about the ends of integer types: indices, branches and ranges made of a thread's index and a constant.

Where ``indices``, ``branches`` or ``trips`` may wrap around, constants are so large that they do between two threads of
a vector, and statements are of these kinds alone.
"""

from __future__ import annotations

from tests.fuzz.numbers import SIZES, THREADS, finished
from tests.fuzz.program import Program
from tests.fuzz.scalars import TYPES
from tests.fuzz.writing import Writer

LENGTH = 64
"""The extent of the arrays that are read."""


USES = ("branches", "trips", "indices")
"""What integers are used for."""


class EdgeWriter(Writer):
    """Statements whose integers hang on the thread's index in a simple way."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32"] * 5 + ["int64", "uint32", "uint64", "int16", "uint8", "int8"])
        self.unsigned = not TYPES[self.t].low
        self.low, self.high = TYPES[self.t].low, TYPES[self.t].low + (1 << TYPES[self.t].bits) - 1
        self.large = not known.isdisjoint(USES)
        self.budget = 6
        uses = {"branches": [self.if_, self.while_, self.leave, self.choose], "trips": [self.for_, self.for_]}
        uses["indices"] = [self.gather, self.gather, self.cut]
        chosen = [u for u in USES if u in known or not self.large]
        self.kinds = [self.bump, self.bump, *(kind for u in chosen for kind in uses[u])]

    def constant(self) -> int:
        if not self.large:
            return self.number(0, 2)
        if self.chance(0.6):
            return self.pick([self.high - self.number(0, THREADS), self.low + self.number(0, THREADS)])
        powers = [1 << self.number(TYPES[self.t].bits - 8, TYPES[self.t].bits - 2), self.high // self.number(2, 40)]
        return self.pick([*powers, self.number(self.low, self.high), self.number(0, 5), self.high // 2])

    def whole(self, depth: int = 0) -> str:
        """An integer of the type that hangs on the thread's index."""
        i = "i" if self.t == "int32" else f"wp.{self.t}(i)"
        others = [f"wp.{self.t}({name})" if self.t != "int32" else name for name in self.loops]
        constants = ["c", "d", f"wp.{self.t}({self.constant()})"]
        if self.chance(0.6):
            e, k = self.pick([i, i, i, "a", *others]), self.pick(constants)
            forms = [
                f"({e} + {k})",
                f"({e} + {k})",
                f"({k} + {e})",
                f"({e} * {k})",
                f"({e} * {k} + {self.pick(constants)})",
            ]
            return self.pick([*forms, f"({k} - {e})", f"({e} - {k})"] if self.large or not self.unsigned else forms)
        if depth > 2 or self.chance(0.15):
            return self.pick([i, i, i, *others, "a", *constants])
        e, c = self.whole(depth + 1), self.pick([*constants, *others, "a", self.whole(depth + 1)])
        ops = ["+", "+", "-", "*", "*"] if self.large or not self.unsigned else ["+", "+", "*"]
        if self.chance(0.3):
            few = self.pick(["3", "7", "2", "37"])
            ops = ["/", "//", "%"] + [">>", "&", "^", "|", "<<"] * self.large
            return f"({e} {self.pick(ops)} {self.pick([few, few, c])})"
        if self.chance(0.1) and not self.unsigned:
            return self.pick([f"wp.abs({e})", f"wp.min({e}, {c})", f"wp.max({e}, {c})"])
        return f"({c} {self.pick(ops)} {e})" if self.chance(0.3) else f"({e} {self.pick(ops)} {c})"

    def place(self) -> str:
        """An index into an array of ``LENGTH`` elements."""
        e = self.whole()
        forms = [f"wp.int32(wp.uint32({e}) >> wp.uint32(27))", f"wp.int32({e} & 31)"]
        forms += [f"wp.abs(wp.int32({e} % 37))", f"wp.int32({e} & 15) + i", f"wp.clamp(wp.int32({e}), 0, 60)"]
        if self.unsigned or not self.large:
            forms += [f"wp.int32({e} % 64)"] if self.unsigned else [f"wp.clamp({e}, wp.{self.t}(0), wp.{self.t}(50))"]
        return self.pick(forms)

    def condition(self) -> str:
        op = self.pick(["<", "<=", ">", ">=", "<", ">=", "==", "!="])
        if self.chance(0.1):
            return f"({self.condition()} {self.pick(['and', 'or'])} {self.condition()})"
        return f"{self.whole(1)} {op} {self.pick(['c', 'd', f'wp.{self.t}(0)', '0', '7', self.whole(2)])}"

    def small(self) -> str:
        return self.pick(["2", "i % 3", *self.loops])

    def bounds(self) -> str:
        if self.chance(0.3):
            return super().bounds()
        e, n = self.whole(2), self.number(1, 6)
        one = f"wp.{self.t}(1)"
        forms = [f"{e}, {e} + {n}", f"{e} - {n}, {e}", f"{e}, {e} + {3 * n}, 3", f"c, c + {n}"]
        forms += [f"{e}, {e} - {n}, -1", f"{e} + {n}, {e}, -2"] * (not self.unsigned)
        forms += [f"wp.{self.t}({self.high - n}), {e}", f"{e}, {e} + {n}, {one}"]
        return self.pick(forms)

    def for_(self, depth: int, loop: bool) -> None:
        """A loop that counts, too; its index is of the type of its bounds."""
        name = self.name("j")
        self.line(depth, f"for {name} in range({self.bounds()}):")
        self.line(depth + 1, f"n += 1 + int({name} & 1)")
        if self.chance(0.2):
            self.line(depth + 1, "if n > 60:")
            self.line(depth + 2, "break")
        self.block(2, depth + 1, True)

    def bump(self, depth: int, loop: bool) -> None:
        self.line(depth, self.pick([f"a = {self.whole()}", f"a += {self.whole(2)}", f"n += {self.number(1, 9)}"]))

    def gather(self, depth: int, loop: bool) -> None:
        self.line(depth, f"n += x[{self.place()}]")

    def choose(self, depth: int, loop: bool) -> None:
        self.line(depth, f"n = wp.where({self.condition()}, n + {self.number(1, 9)}, n)")

    def cut(self, depth: int, loop: bool) -> None:
        self.line(depth, f"n += len(x[{self.place()} :]) + 3 * x[: {self.place()} + 1][0]")


def edges(seed: int, known: frozenset[str]) -> Program:
    """A program about the ends of a type."""
    w = EdgeWriter(seed, known)
    t = w.t
    params = [f"c: wp.{t}", f"d: wp.{t}", f"z: wp.array2d(dtype=wp.{t})", "y: wp.array(dtype=int)"]
    w.line(1, "i = wp.tid()")
    w.line(1, "n = int(0)")
    w.line(1, "a = z[i, 0]" if w.chance(0.5) else f"a = wp.{t}(i)")
    w.line(1, "y[i] = 1000")
    while w.budget > 3:
        w.statement(1, False)
    w.line(1, "y[i] = n")
    w.line(1, "z[i, 1] = a")
    values = [[w.constant() for _ in range(8)] for _ in range(2)]
    setup = [f"x = np.arange({LENGTH}, dtype='int32') * 7 % 64", f"y = np.zeros({THREADS}, 'int32')"]
    setup += [f"z = (np.arange({2 * THREADS}) % 100).astype('{t}').reshape({THREADS}, 2)", "memory = [y, z]"]
    setup.append(f"args = [{values[0]}[turn], {values[1]}[turn], z, y, x]")
    params.append("x: wp.array(dtype=int)")
    others = [{"device": "emulated"}, {"max_unroll": 0}, {"deterministic": True}, {}]
    settings = ({}, {"vector_width": w.pick([4, 8, 16, 16])}, {"vector_width": 1, **w.pick(others)})
    return finished("edges", w, [], params, setup, [*w.r.sample(SIZES, 2), *[(THREADS,)] * 6], settings)
