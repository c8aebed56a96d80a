"""Programs of arrays whose elements hold arrays of their own, of any lengths, strides and depths."""

from __future__ import annotations

from tests.fuzz.numbers import SIZES, THREADS, NumberWriter, finished
from tests.fuzz.program import Program

FUNCTIONS = """\
@wp.struct
class Cell:
    points: wp.array(dtype=wp.{t})
    grid: wp.array2d(dtype=wp.{t})
    sums: wp.array(dtype=wp.{t})
    weight: wp.{t}
    n: int


@wp.struct
class Group:
    cells: wp.array(dtype=Cell)
    k: int


@wp.func
def first(c: Cell, e: wp.{t}):
    if len(c.points) > 2:
        c.points[1] = e
        return c.points[0] + c.weight
    return c.grid[0, c.n % 2]


@wp.func
def total(r: wp.array(dtype=wp.{t})):
    s = wp.{t}(0)
    for e in r:
        s += e
    return s


@wp.func
def longer(r: wp.array(dtype=wp.{t}), o: wp.array(dtype=wp.{t})):
    if len(r) < len(o):
        return o
    return r


"""


class NestWriter(NumberWriter):
    """Statements about ``cells``: a thread owns one, but any thread adds to the sums in any of them.

    Attributes:
        read: Whether ``points`` of all cells are read, and written by nobody.
    """

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32", "int32", "float32", "int64", "float64", "uint32"])
        self.types = sorted({self.t, "int32"})
        self.read = self.chance(0.4)
        self.budget = self.number(8, 14)
        self.kinds = [self.if_, self.for_, self.while_, self.leave, self.assign]
        self.kinds += [self.inner] * 5 + [self.field] * 2 + [self.sum] * 4 + [self.group] * 2 + [self.each]

    def small(self) -> str:
        return self.pick([*self.loops, *self.loops, "q", "c.n % 4", "2", "i % 3", "len(c.points) % 3"])

    def real_number(self, t: str, depth: int) -> str:
        e, f = self.expression(t, depth), self.expression(t, depth)
        return self.pick([f"({e} + {f})", f"({e} - {f})", f"(-{e})", f"wp.min({e}, {f})"])

    def literal(self, t: str) -> str:
        return f"wp.{t}({self.number(0, 5)})"

    def row(self) -> str:
        """An array of the thread's own cell, or one that all threads read."""
        k = self.small()
        own = ["cells[i].grid[0]", f"cells[i].grid[:, {k} % 2]", "c.grid[0, ::-1]", f"c.grid[{k} % c.grid.shape[0]]"]
        if not self.read:
            own += ["cells[i].points", "c.points", f"c.points[{k} % 3 :]", "cells[i].points[::-1]"]
        return self.pick([*own, f"({self.pick(own)} if {self.condition()} else {self.pick(own)})"])

    def inner(self, depth: int, loop: bool) -> None:
        """Elements of the nested arrays."""
        k, v, e = self.small(), self.pick(self.variables[self.t]), self.expression(self.t, 1)
        forms = [f"{v} = total({self.row()})", f"cells[i].grid[0, {k} % 2] = {e}", f"c.grid[0][{k} % 2] += {e}"]
        forms += [f"{v} = cells[i].grid[c.grid.shape[0] - 1, {k} % 2]", f"{v} = total(longer({self.row()}, c.grid[0]))"]
        if self.read:
            other = self.pick(["cells[g[i]]", "cells[0]", "cells[p[i]]", "cells[n - 1 - i]"])
            forms += [f"{v} = total({other}.points)", f"q = (len({other}.points) + q) % 5"] * 2
            forms += [f"{v} = {other}.points[{k} % len({other}.points)] if len({other}.points) > 0 else {v}"]
        else:
            forms += [f"{v} = first(cells[i], {e})", f"{v} = first(c, {e})"]
        if self.chance(0.4):
            self.line(depth, f"r = {self.row()}")
            self.line(depth, "if len(r) > 0:")
            at = f"r[{self.pick([f'{k} % len(r)', '-1', '0'])}]"
            self.line(depth + 1, self.pick([f"{at} = {e}", f"{at} = {at} + {e}", f"{v} = {at}"]))
            return
        self.line(depth, self.pick(forms))

    def field(self, depth: int, loop: bool) -> None:
        """Fields of the own element that are no arrays."""
        e, k = self.expression(self.t, 1), self.small()
        forms = [f"cells[i].weight = {e}", f"cells[i].n = {k} % 9", f"c.weight = {e}", "cells[i] = c", "c = cells[i]"]
        forms += [f"c.n = ({k} + c.n) % 6", f"q = (cells[i].n + {k}) % 5", f"{self.variables[self.t][0]} = c.weight"]
        self.line(depth, self.pick(forms))

    def sum(self, depth: int, loop: bool) -> None:
        """Additions to sums, whose arrays several cells share."""
        e = self.pick([f"wp.{self.t}({self.small()})", f"wp.{self.t}(i % 5)"])
        cell = self.pick(["cells[i]", "c", "cells[g[i]]", "cells[0]", "cells[p[i]]", "groups[i % 3].cells[g[i]]"])
        at = f"{cell}.sums[{self.pick(['0', '1', 'i % 2', '-1'])}]"
        array, index = at[:-1].rsplit("[", 1)
        self.line(depth, self.pick([f"{at} += {e}", f"{at} -= {e}", f"wp.atomic_add({array}, {index}, {e})"]))

    def group(self, depth: int, loop: bool) -> None:
        """Arrays in arrays in an array."""
        k = self.small()
        which = f"groups[{self.pick(['0', 'i % 3', f'{k} % 3'])}]"
        forms = [f"q = ({which}.k + q) % 5", f"q = (len({which}.cells) + {k}) % 5"]
        if self.read:
            v = self.pick(self.variables[self.t])
            forms += [f"{v} = total({which}.cells[g[i]].points)"] * 3
        self.line(depth, self.pick(forms))

    def each(self, depth: int, loop: bool) -> None:
        """A loop over a nested array."""
        name = self.name("it")
        self.line(depth, f"for {name} in {self.row()}:")
        held = self.variables[self.t]
        self.variables[self.t] = [*held, name]
        self.line(depth + 1, f"{held[0]} += {name}")
        self.variables[self.t] = held


def memory(w: NestWriter) -> list[str]:
    """Lines that make the cells and groups."""
    t = w.t
    cells = [
        f"r = np.random.default_rng({w.seed})",
        f"values = np.zeros({THREADS}, [('weight', '{t}'), ('n', 'int32')])",
    ]
    cells += [f"values['weight'] = r.integers(0, 5, {THREADS}); values['n'] = r.integers(0, 9, {THREADS})"]
    cells += [f"lengths = r.integers(0, 6, {THREADS})", "starts = np.cumsum(lengths) - lengths"]
    cells += [f"flat = r.integers(0, 9, 6 * {THREADS}).astype('{t}')"]
    step = w.pick(["", "", "[::-1]"])
    points = w.pick(["flat[s : s + k]", "flat[: 2 * k : 2]" if w.read else "flat[s : s + k]", "flat[s : s + k].copy()"])
    cells += [f"points = [{points}{step} for s, k in zip(starts, lengths)]"]
    cells += [f"grids = [r.integers(0, 9, (1 + k % 3, 2)).astype('{t}') for k in lengths]"]
    kept = f"np.zeros(({THREADS}, 2), '{t}')"
    cells += [f"sums_ = {kept}", f"sums = [sums_[{w.pick(['k', 'k // 2', '0', 'k % 3'])}] for k in range({THREADS})]"]
    cells += ["cells = Nested('Cell', values, {'points': points, 'grid': grids, 'sums': sums})"]
    cells += ["held = [values[: 5 + k].copy() for k in range(3)]"]
    lists = "{'points': points[: len(v)], 'grid': grids[: len(v)], 'sums': sums[: len(v)]}"
    cells += [f"inside = [Nested('Cell', v, {lists}) for v in held]"]
    cells += ["groups = Nested('Group', np.array([(4,), (0,), (7,)], [('k', 'int32')]), {'cells': inside})"]
    return cells


def nested(seed: int, known: frozenset[str]) -> Program:
    """A program of nested arrays."""
    w = NestWriter(seed, known)
    t = w.t
    params = ["cells: wp.array(dtype=Cell)", "groups: wp.array(dtype=Group)", f"y: wp.array2d(dtype=wp.{t})"]
    params += ["o: wp.array(dtype=int)", "g: wp.array(dtype=int)", "p: wp.array(dtype=int)", "n: int"]
    for text in ("i = wp.tid()", "q = int(1)", "c = cells[i]"):
        w.line(1, text)
    w.declare(1, t, "c.weight")
    w.declare(1, t, "c.grid[0, 1]")
    if t != "int32":
        w.declare(1, "int32", "n + 1")
    while w.budget > 0:
        w.statement(1, False)
    w.line(1, f"y[i, 0] = {w.variables[t][0]}")
    w.line(1, f"y[i, 1] = {w.variables[t][1]} + total(c.grid[0])")
    w.line(1, "o[i] = q * 100 + c.n * 10 + len(c.points)")
    setup = [*memory(w), f"y = np.zeros(({THREADS}, 2), '{t}')", f"o = np.zeros({THREADS}, 'int32')"]
    setup += [f"g = r.integers(0, 5, {THREADS}).astype('int32')", f"p = r.permutation({THREADS}).astype('int32')"]
    setup += ["memory = [values, *points, *grids, sums_, y, o]", "args = [cells, groups, y, o, g, p, dims[0]]"]
    grids = sorted({*w.r.sample(SIZES, 2), (THREADS,)})
    others = w.r.sample([{"deterministic": True}, {"max_unroll": 0}, {"mode": "debug"}, {"num_threads": 2}], 1)
    settings = ({}, {"vector_width": w.pick([1, 4, 8, 16])}, *others)
    return finished("nested", w, FUNCTIONS.format(t=t).splitlines(), params, setup, grids, settings)
