"""Programs whose threads share memory: own elements under several names, sums at every kind of index, atomics.

Nothing depends on the order of threads; the oracle throws away what does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.numbers import NumberWriter, finished, settings_of, values_of
from tests.fuzz.program import Program
from tests.fuzz.scalars import TYPES

LARGEST = {1: (35,), 2: (3, 19), 3: (2, 3, 9), 4: (2, 2, 3, 5)}
"""The largest grid of each number of dimensions."""
GRIDS = {
    1: ((0,), (1,), (3,), (4,), (5,), (8,), (16,), (17,), (32,)),
    2: ((1, 1), (3, 4), (2, 17), (1, 16), (3, 5), (2, 0), (2, 8)),
    3: ((1, 1, 1), (2, 3, 4), (1, 3, 8), (2, 1, 5), (2, 3, 0)),
    4: ((1, 1, 1, 1), (2, 2, 3, 4), (1, 2, 1, 5)),
}
TIDS = "ijkl"
ROOM = 6
"""Elements that arrays have beyond those of the largest grid."""
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Own:
    """An array of which each thread owns some elements.

    Attributes:
        places: How one of them is written, with ``{c}`` for which one; the names may be of overlapping arrays.
    """

    dtype: str
    places: tuple[str, ...]
    width: int


@dataclass(frozen=True)
class Sums:
    """An array that threads update by one kind of atomics, at any index."""

    name: str
    dtype: str
    op: str
    kinds: tuple[str, ...]


class ThreadWriter(NumberWriter):
    """Statements about arrays that threads share."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.ndim = self.pick([1, 1, 1, 2, 2, 3, 4])
        self.largest = LARGEST[self.ndim]
        self.count = 1
        for n in self.largest:
            self.count *= n
        self.tids = list(TIDS[: self.ndim])
        self.flat = self.tids[0]
        for t, axis in zip(self.tids[1:], range(1, self.ndim), strict=True):
            self.flat = f"({self.flat} * {self.pick([f'n{axis}', f'n{axis}', f'wp.int32(n{axis})'])} + {t})"
        self.params = [f"n{axis}: int" for axis in range(self.ndim)] + ["s: int"]
        self.args = [f"dims[{axis}]" for axis in range(self.ndim)] + [str(self.number(0, 5))]
        self.setup: list[str] = []
        self.memory: list[str] = []
        self.own: list[Own] = []
        self.sums: list[Sums] = []
        self.reads: dict[str, list[str]] = {}
        self.flags: list[tuple[str, str]] = []
        self.kinds += [self.store] * 5 + [self.sum] * 4 + [self.load] * 3 + [self.atomic, self.flag]

    # --- arrays ---------------------------------------------------------------------------------------------

    def array(self, name: str, dtype: str, ndim: int, value: str, kept: bool = True) -> None:
        """A parameter, and the line of the setup that makes its argument."""
        self.params.append(f"{name}: wp.array{ndim if ndim > 1 else ''}{'d' if ndim > 1 else ''}(dtype=wp.{dtype})")
        self.setup.append(f"{name} = {value}")
        self.args.append(name)
        if kept:
            self.memory.append(name)

    def make_own(self) -> None:
        dtype = self.pick(self.types)
        name, width = self.name("y"), self.pick([1, 1, 2, 3])
        index = {1: "", 2: " * 2 + {c}", 3: " * 3 + {c}"}[width]
        kind = self.pick(["direct", "direct", "flat", "soa", "back", "perm", "twice", "shifted", "mirrored"])
        if kind == "direct" and (self.ndim < 4 or width == 1):
            ndim = self.ndim + (width > 1)
            shape = f"({', '.join(map(str, self.largest))},{width if width > 1 else ''})"
            self.array(name, dtype, ndim, values_of(dtype, shape, self.seed))
            axes = ", ".join([*self.tids, *["{c}"] * (width > 1)])
            places = [f"{name}[{axes}]"]
            if self.ndim > 1:
                places.append(f"{name}[{self.tids[0]}][{axes[3:]}]")
            if self.ndim == 1 and width > 1:
                places.append(f"{name}[i, ::-1][{width - 1} - {{c}}]")
            self.own.append(Own(dtype, tuple(places), width))
            return
        size = self.count * width + ROOM
        made = values_of(dtype, str(size), self.seed)
        at = self.flat + index
        if kind in ("twice", "shifted", "mirrored"):
            base = f"{name}_"
            self.setup.append(f"{base} = {made}")
            self.memory.append(base)
            other = {"twice": base, "shifted": f"{base}[2:]", "mirrored": f"{base}[::-1]"}[kind]
            there = {"twice": at, "shifted": f"{at} - 2", "mirrored": f"{size - 3} - ({at})"}[kind]
            here = f"{at} + 2" if kind != "twice" else at
            there = at if kind == "shifted" else f"{size - 3} - ({at})" if kind == "mirrored" else there
            self.array(name, dtype, 1, base, kept=False)
            self.array(f"{name}b", dtype, 1, other, kept=False)
            self.own.append(Own(dtype, (f"{name}[{here}]", f"{name}b[{there}]"), width))
            return
        self.array(name, dtype, 1, made)
        place = f"{name}[{at}]"
        if kind == "soa":
            place = f"{name}[{{c}} * {self.count} + {self.flat}]"
        elif kind == "back":
            place = f"{name}[{self.pick([str(size), f'{name}.shape[0]', f'len({name})'])} - 1 - ({at})]"
        elif kind == "perm":
            perm = self.name("p")
            self.array(
                perm, "int32", 1, f"np.random.default_rng({self.seed}).permutation({self.count}).astype('int32')"
            )
            place = f"{name}[{perm}[{self.flat}]{index}]"
        self.own.append(Own(dtype, (place,), width))

    def make_reads(self) -> None:
        t, name = self.pick(self.types), self.name("x")
        size = str(self.count + ROOM)
        base = values_of(t, f"2 * {size}", self.seed)
        self.array(name, t, 1, base + self.pick(["", "", "[::2].copy()", "[::2]", "[::-1]"]), kept=False)
        self.reads.setdefault(t, []).append(name)

    def make_sums(self) -> None:
        t = self.pick(["int32", "int32", "uint32", "int64", "uint64", "float32", "float64"])
        ops = ["+=", "-=", "add", "sub", "add", "min", "max"] + ["&=", "|=", "^=", "and", "or", "xor"] * (t in WHOLE)
        op = self.pick(ops)
        kinds = ["own", "one", "next", "gathered", "loop", "some", "param"]
        kinds = self.r.sample(kinds, self.number(2, 4)) if "sums" in self.known else [self.pick(kinds)]
        name = self.name("a")
        start = f"(np.arange({self.count + ROOM}) % 13)"
        self.array(name, t, 1, f"{start}.astype('{t}')")
        self.sums.append(Sums(name, t, op, tuple(kinds)))

    def begin(self) -> None:
        """The parameters and the first statements."""
        for _ in range(self.number(1, 3)):
            self.make_own()
        for _ in range(self.number(1, 3)):
            self.make_sums()
        for _ in range(2):
            self.make_reads()
        self.array("g", "int32", 1, f"np.random.default_rng({self.seed}).integers(0, 5, {self.count}).astype('int32')")
        if self.chance(0.5):
            t = self.pick(self.types)
            name = self.name("f")
            self.array(name, t, 1, f"np.zeros({self.count + ROOM}, '{t}')")
            self.flags.append((name, self.literal(t)))
        self.line(1, f"{', '.join(self.tids)} = wp.tid()")
        for t in self.types:
            x = self.reads.get(t)
            self.declare(1, t, f"{x[0]}[{self.flat}]" if x else self.literal(t))
        self.line(1, "q = int(1)")

    # --- expressions ----------------------------------------------------------------------------------------

    def atom(self, t: str) -> str:
        if t == "int32" and {"branches", "indices"} <= self.known and self.chance(0.2):
            return self.pick(self.tids)
        if self.reads.get(t) and self.chance(0.15):
            return self.read(t)
        return super().atom(t)

    def read(self, t: str) -> str:
        name = self.pick(self.reads[t])
        e = self.small()
        at = [self.flat, f"{self.flat} + 1", e, f"g[{self.flat}]", "s", f"{name}.shape[0] - 1 - {self.flat}", "-1"]
        at += [f"({self.flat} * 3 + {e}) % {self.count}", f"{self.flat} + {e}" if e == "q" else self.flat]
        return f"{name}[{self.pick(at)}]"

    def small(self) -> str:
        t = self.pick(self.tids)
        choices = [*self.loops, *self.loops, "q", "2", "s", f"{t} % 3", f"g[{self.flat}]", f"({t} & 3)"]
        if {"branches", "indices"} <= self.known:
            e = self.expression("int32", 2)
            choices += [f"({e} & 3)", f"wp.abs({e} % 5)", f"wp.int32(wp.uint32({e}) >> wp.uint32(30))"]
        return self.pick(choices)

    def condition(self, depth: int = 0) -> str:
        if self.chance(0.6):
            return super().condition(depth)
        t, n = self.pick(list(enumerate(self.tids))), self.number(0, 5)
        axis, i = t
        return self.pick(
            [
                *(f"{i} < n{axis} - 1", f"{i} > {n}", f"{i} == {n}", f"{i} % {n + 2} == 1", f"{self.flat} < {n * 3}"),
                *(f"q < {n}", f"{i} >= s", f"g[{self.flat}] < {n}", f"{i} + {n} < n{axis}", f"{i} != {self.small()}"),
            ]
        )

    # --- statements -----------------------------------------------------------------------------------------

    def owned(self) -> tuple[Own, str]:
        own = self.pick(self.own)
        c = self.pick(["0", str(own.width - 1), f"{self.small()} % {own.width}"]) if own.width > 1 else "0"
        return own, self.pick(own.places).format(c=c)

    def store(self, depth: int, loop: bool) -> None:
        own, place = self.owned()
        e = self.expression(own.dtype, 1)
        how = self.number(0, 5)
        if how == 0 and own.dtype in WHOLE:
            self.line(depth, f"{place} {self.pick(['+', '-', '&', '|', '^', '*', '//'])}= {e}")
        elif how == 1:
            self.line(depth, f"{place} = wp.{self.pick(['min', 'max'])}({place}, {e})")
        else:
            self.line(depth, f"{place} = {e}")

    def load(self, depth: int, loop: bool) -> None:
        own, place = self.owned()
        names = self.variables.get(own.dtype)
        if self.chance(0.15):
            self.line(depth, f"q = ({self.small()} + q) % 5")
        elif names:
            self.line(depth, f"{self.pick(names)} = {place}")
        else:
            self.declare(depth, own.dtype, place)

    def summed_at(self, sums: Sums) -> str:
        return {
            "own": self.flat,
            "one": self.pick(["0", "2", "-1"]),
            "next": f"{self.flat} + {self.number(1, 2)}",
            "gathered": f"g[{self.flat}]",
            "loop": self.small(),
            "some": f"{self.pick(self.tids)} % {self.number(2, 4)}",
            "param": "s",
        }[self.pick(sums.kinds)]

    def sum(self, depth: int, loop: bool) -> None:
        sums = self.pick(self.sums)
        at = self.summed_at(sums)
        value = self.exact(sums.dtype) if sums.dtype not in WHOLE else self.expression(sums.dtype, 1)
        if sums.op.endswith("="):
            self.line(depth, f"{sums.name}[{at}] {sums.op} {value}")
        else:
            self.line(depth, f"wp.atomic_{sums.op}({sums.name}, {at}, {value})")

    def exact(self, t: str) -> str:
        """A float whose sums are exact: a few quarters."""
        whole = self.pick([s for s in self.types if s in WHOLE] or ["int32"])
        return f"wp.{t}({self.expression(whole, 2)} & 15) * 0.25"

    def atomic(self, depth: int, loop: bool) -> None:
        """An atomic on an own element, whose result counts."""
        own, place = self.owned()
        if own.dtype not in ("int32", "uint32", "int64", "uint64") or "][" in place:
            return self.store(depth, loop)
        array, at = place[:-1].split("[", 1)
        op = self.pick(["add", "sub", "min", "max", "and", "or", "xor", "exch"])
        call = f"wp.atomic_{op}({array}, {at}, {self.expression(own.dtype, 1)})"
        if self.chance(0.2):
            call = f"wp.atomic_cas({array}, {at}, {self.expression(own.dtype, 1)}, {self.expression(own.dtype, 1)})"
        names = self.variables.get(own.dtype)
        self.line(depth, f"{self.pick(names)} = {call}" if names else call)
        return None

    def flag(self, depth: int, loop: bool) -> None:
        """All threads that come by write the same value."""
        if not self.flags:
            return self.sum(depth, loop)
        name, value = self.pick(self.flags)
        at = self.pick(["0", "s", f"g[{self.flat}]", self.small(), self.flat, f"{self.flat} + 1"])
        self.line(depth, f"{name}[{at}] = {value}")
        return None


def threads(seed: int, known: frozenset[str]) -> Program:
    """A program of arrays that threads share."""
    w = ThreadWriter(seed, known)
    w.types = ["int32", *w.r.sample([t for t in TYPES if t not in ("int32", "bool", "bfloat16")], w.number(1, 2))]
    w.begin()
    w.budget = 26
    while w.budget > 8:
        w.statement(1, False)
    for own in w.own:
        names = w.variables.get(own.dtype)
        if names:
            w.line(1, f"{own.places[0].format(c='0')} = {names[0]}")
    w.setup += [f"memory = [{', '.join(w.memory)}]", f"args = [{', '.join(w.args)}]"]
    return finished("threads", w, [], w.params, w.setup, grids_of(w.ndim, w), settings_of(w))


def grids_of(ndim: int, w: NumberWriter) -> Sequence[tuple[int, ...]]:
    """A few grids of ``ndim`` dimensions, the largest among them."""
    return sorted({*w.r.sample(GRIDS[ndim], 2), LARGEST[ndim]})
