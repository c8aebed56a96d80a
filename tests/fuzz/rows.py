"""Programs whose threads go along rows: each has a few neighbours of an array, which it loads and stores.

Names overlap in memory, and arrays have strides, so that what stands between two accesses may touch the same elements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.fuzz.numbers import finished, values_of
from tests.fuzz.program import Program
from tests.fuzz.writing import Writer

TYPES = ("float32", "float32", "float32", "float64", "int32", "uint32", "int64", "uint64", "float16", "bool")
LARGEST = {1: 70, 2: 21}
GRIDS = {1: ((0,), (1,), (4,), (7,), (8,), (15,), (16,), (17,), (33,), (64,)), 2: ((1, 1), (2, 16), (3, 0), (2, 5))}
ROOM = 120
"""Elements that arrays have beyond those of the largest grid."""
WIDTHS = (0, 2, 4, 8, 16, 32)


class RowWriter(Writer):
    """Statements about elements ``own * i + b`` of each thread ``i``, ``b`` less than ``own``."""

    def __init__(self, seed: int, known: frozenset[str] = frozenset()) -> None:
        super().__init__(seed)
        self.depth = 1
        self.needs_index = True
        self.ndim = self.pick([1, 1, 1, 2])
        self.tid = "ij"[self.ndim - 1]
        self.outer = "i, " if self.ndim == 2 else ""
        self.own = self.pick([1, 2, 2, 3, 4, 4, 5, 6, 8, 16, 32])
        self.dtype = self.pick(TYPES)
        self.params: list[str] = []
        self.setup: list[str] = []
        self.args: list[str] = []
        self.memory: list[str] = []
        self.written: list[tuple[str, int]] = []  # the names of arrays, and where they begin
        self.read: list[str] = []

    def put(self, text: str) -> None:
        self.line(self.depth, text)

    @contextlib.contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def array(self, name: str, text: str) -> None:
        self.setup.append(f"{name} = {text}")
        self.args.append(name)
        kind = "array" if self.ndim == 1 else "array2d"
        self.params.append(f"{name}: wp.{kind}(dtype=wp.{self.dtype})")

    def arrays(self) -> None:
        count = self.own * LARGEST[self.ndim] + ROOM
        outer = "" if self.ndim == 1 else "3, "
        for k in range(self.pick([1, 1, 2])):
            whole = f"m{k}_"
            step, lead = self.pick([1, 1, 1, 2, -1]), ":, " if self.ndim == 2 else ""
            size = f"({outer}{count * abs(step)},)" if self.ndim == 1 else f"({outer}{count * abs(step)})"
            self.setup.append(f"{whole} = {values_of(self.dtype, size, self.seed + k)}")
            self.memory.append(whole)
            for n in range(self.pick([1, 2, 3])):
                start = self.number(0, min(self.own, 4)) if n else 0
                first = start * step if step > 0 else -1 - start
                self.array(f"y{k}{n}", f"{whole}[{lead}{first}::{step}]")
                self.written.append((f"y{k}{n}", start))
        for k in range(self.pick([1, 2])):
            size = f"{2 * count + 900}" if self.ndim == 1 else f"(3, {2 * count + 900})"
            step = self.pick(["", "", "", "[..., ::2]", "[..., ::-1]"])
            self.array(f"x{k}", values_of(self.dtype, size, self.seed + 7 + k) + step)
            self.read.append(f"x{k}")

    def index(self, a: int, b: int) -> str:
        """The index ``a * i + b``, written in some way."""
        t, q = self.tid, self.number(1, 9)
        if a == self.own and self.chance(0.6):
            return f"{self.outer}row + {b}" if b else f"{self.outer}row"
        forms = [
            f"{a} * {t} + {b}",
            f"{a} * {t} + {b}",
            f"{t} * {a} + {b}",
            f"{b} + {a} * {t}",
            f"({a} * {t} + {b + q}) - {q}",
            f"{b + q} + ({a} * {t} - {q})",
            f"wp.int64({a}) * wp.int64({t}) + wp.int64({b})",
            f"wp.int64({a} * {t}) + wp.int64({b})",
            f"wp.int16({a} * {t} + {b})",
            f"wp.int16({a}) * wp.int16({t}) + wp.int16({b})",
        ]
        if a >= 0:
            forms += [
                f"wp.uint32({a}) * wp.uint32({t}) + wp.uint32({b})",
                f"int(wp.uint32({a}) * wp.uint32({t}) + wp.uint32({b + q})) - {q}",
                f"wp.uint64({a} * {t} + {b})",
            ]
        if a > 1:
            forms.append(f"{a - 1} * {t} + {t} + {b}")
        return self.outer + (self.pick(forms) if self.chance(0.2) else forms[0])

    def loaded(self, own: float = 0.4, b: int | None = None, a: int | None = None) -> str:
        """An element that the thread may read."""
        if self.chance(own):
            name, start = self.pick(self.written)
            at = self.number(0, self.own - 1) if b is None else b
            return (
                f"{name}[{self.index(self.own, at - start)}]"
                if at >= start
                else f"{self.pick(self.read)}[{self.outer}{at}]"
            )
        a = self.pick([self.own, self.own, 1, 2, 3, 4, 6]) if a is None else a
        return f"{self.pick(self.read)}[{self.index(a, self.number(0, 5) if b is None else b)}]"

    def value(self, of: list[str]) -> str:
        v = self.pick(of)
        if self.dtype == "bool":
            return self.pick([v, f"not {v}"])
        return self.pick([v, v, f"{v} + {self.pick(of)}", f"{v} * wp.{self.dtype}(3)", f"{v} - {self.pick(of)}"])

    def any(self, names: list[str]) -> None:
        """A statement of some kind."""
        simple = [*[self.loads] * 3, *[self.stores] * 3, self.swap, self.atomic]
        nesting = [self.branch, self.loop, self.loop, self.vector] if self.depth < 3 else []
        self.pick([*simple, *nesting])(names)

    def loads(self, names: list[str]) -> None:
        """Neighbours of a row."""
        own, a, first = float(self.chance(0.5)), self.pick([self.own, self.own, 1, 2, 3, 4, 6, 8]), self.number(0, 4)
        for k in range(self.number(1, 5)):
            b = first + k if self.chance(0.85) else self.number(0, 9)
            self.put(f"{self.pick(names)} = {self.loaded(own, min(b, self.own - 1) if own else b, a)}")

    def stores(self, names: list[str]) -> None:
        name, start = self.pick(self.written)
        places = range(self.number(0, self.own - 1), self.own)
        for at in places[: self.number(1, 6)]:
            if self.chance(0.15):
                self.put(f"{self.pick(names)} = {self.loaded()}")
            if at >= start:
                self.put(f"{name}[{self.index(self.own, at - start)}] = {self.value(names)}")

    def swap(self, names: list[str]) -> None:
        a, b = self.pick(names), self.pick(names)
        self.put(f"{a}, {b} = {b}, {a}")

    def atomic(self, names: list[str]) -> None:
        name, start = self.pick(self.written)
        if self.dtype in ("int32", "uint32", "int64", "uint64"):
            at = self.number(start, max(start, self.own - 1))
            if at < self.own:
                self.put(f"wp.atomic_add({name}, {self.index(self.own, at - start)}, {self.pick(names)})")

    def branch(self, names: list[str]) -> None:
        t = self.tid
        self.put(f"if {self.pick([f'{t} % 3 == 1', f'{t} > 5', f'{t} < 0', 'n > 4', f'{t} % 2 == 0 and {t} > 9'])}:")
        with self.indented():
            for _ in range(self.number(1, 3)):
                self.any(names)
            self.put("pass")

    def loop(self, names: list[str]) -> None:
        c, trips = f"c{len(self.lines)}", self.pick([self.own, self.own, 2, 3, 16, 19, 32])
        bounds = self.pick([f"{trips}", f"{trips}", f"0, n % {trips + 1}", f"wp.min({trips}, n)", f"0, {trips}, 2"])
        if self.chance(0.15):
            bounds = f"{trips - 1}, -1, -1"
        self.put(f"for {c} in range({bounds}):")
        with self.indented():
            if self.chance(0.2):
                self.put(f"if {c} == {self.number(0, trips)}:")
                with self.indented():
                    self.put(self.pick(["break", "continue"]))
            for _ in range(self.number(1, 3)):
                form = self.pick(["load", "load", "store", "store", "own", "other"])
                name, start = self.pick(self.written)
                if form == "load":
                    a = self.pick([self.own, 1, 2, 4])
                    self.put(f"{self.pick(names)} = {self.combined(names)} x0[{self.outer}{a} * {self.tid} + {c}]")
                elif form == "store" and trips <= self.own - start:
                    self.put(f"{name}[{self.outer}row + {c}] = {self.value(names)}")
                elif form == "own" and trips <= self.own - start:
                    self.put(f"{self.pick(names)} = {name}[{self.outer}row + {c}]")
                else:
                    self.any(names)
            self.put("pass")

    def combined(self, names: list[str]) -> str:
        return "" if self.dtype == "bool" else f"{self.pick(names)} +"

    def vector(self, names: list[str]) -> None:
        """A vector that is filled, changed and stored in loops over its components."""
        if self.dtype == "bool":
            return
        n = self.pick([2, 4, 5, 19, 33, 64])
        v, c = f"w{len(self.lines)}", f"c{len(self.lines)}"
        self.put(f"{v} = wp.types.vector(length={n}, dtype=wp.{self.dtype})()")
        self.put(f"for {c} in range({n}):")
        with self.indented():
            self.put(f"{v}[{c}] = x0[{self.outer}{self.tid} + {c}] + {self.pick(names)}")
            if self.chance(0.3):
                self.put(f"if {c} == {self.number(0, n)}:")
                with self.indented():
                    self.put(self.pick(["break", "continue"]))
            if self.chance(0.4):
                self.put(f"{v}[{n - 1} - {c}] = {v}[{c}]")
        self.put(f"for {c} in range({self.pick([f'{n}', f'{n - 1}, -1, -1', f'1, {n}, 3', f'n % {n}'])}):")
        with self.indented():
            self.put(f"{self.pick(names)} = {self.pick(names)} - {v}[{c}]")
            if self.chance(0.4):
                self.put(f"if {c} > {self.number(0, n)}:")
                with self.indented():
                    self.put(self.pick(["break", "continue"]))
            self.put(f"{self.pick(names)} = {v}[({c} * 7 + 1) % {n}]")


def rows(seed: int, known: frozenset[str] = frozenset()) -> Program:
    """A program of this kind."""
    w = RowWriter(seed, known)
    w.params, w.args = ["n: int"], ["dims[-1]"]
    w.arrays()
    w.put("i = wp.tid()" if w.ndim == 1 else "i, j = wp.tid()")
    if w.chance(0.1):
        w.put(f"if {w.tid} == {w.number(0, 20)}:")
        w.put("    return")
    w.put(f"row = {w.own} * {w.tid}")
    names = ["a", "b", "c"]
    for name in names:
        w.put(f"{name} = {w.loaded(0.0)}")
    for _ in range(w.number(2, 7)):
        w.any(names)
    w.stores(names)
    w.setup += [f"memory = [{', '.join(w.memory)}]", f"args = [{', '.join(w.args)}]"]
    grids = [w.pick(GRIDS[w.ndim]) for _ in range(2)] + [(LARGEST[1],) if w.ndim == 1 else (3, LARGEST[2])]
    settings: list[dict[str, object]] = [{}, {"vector_width": w.pick(WIDTHS)}]
    settings.append(
        w.pick(
            [
                {"vector_width": w.pick(WIDTHS), "max_unroll": w.pick([0, 64])},
                {"deterministic": True},
                {"mode": "debug"},
                {"num_threads": 2, "vector_width": w.pick(WIDTHS)},
                {"vector_width": 16, "max_unroll": 64},
            ]
        )
    )
    return finished("rows", w, [], w.params, w.setup, grids, settings)
