"""Programs of tiles in blocks of several threads: what threads do alone, and where they meet.

The code of the kernel is the same for all threads of a block, so the oracle runs it once for each block. Functions do
what differs from thread to thread, whose number in the block they are given. The oracle has others in their place,
which go over the threads in order. Threads that take turns from one meeting to the next give the same.
"""

from __future__ import annotations

import dataclasses

from tests.fuzz.program import Program
from tests.fuzz.tile_values import Shape
from tests.fuzz.tiles import EXACT, TileWriter, program
from tests.fuzz.writing import Writer

BLOCKS = (1, 2, 3, 4, 7, 8, 31, 32, 40)
"""The numbers of threads of a block."""
REFUSALS = ("not all threads of a block", "the threads of a block")
EACH = """\
@wp.func
def own(x: wp.array(dtype=wp.{d}), j: int, n: int):
    return x[(j * 2 + n) % {L}]


"""
ALONE = {
    "total": "    return wp.tile_sum(wp.tile(own(x, j, n)))[0]",
    "most": "    return wp.tile_max(wp.tile(own(x, j, n)))[0]",
    "count": "    c = wp.tile_sum(wp.tile(int(own(x, j, n) > wp.{d}(1))))\n    return wp.{d}(c[0])",
    "last": "    v = own(x, j, n)\n    return wp.tile_extract(wp.tile_from_thread(2, v, {B} - 1), 1)",
}
"""Numbers that all threads get, made of one of each: ``name(x, j, n)``."""
TOGETHER = {
    "total": """\
    s = wp.{d}(0)
    for k in range({B}):
        s = s + own(x, k, n)
    return s""",
    "most": """\
    s = own(x, 0, n)
    for k in range({B}):
        s = wp.max(s, own(x, k, n))
    return s""",
    "count": """\
    s = wp.{d}(0)
    for k in range({B}):
        if own(x, k, n) > wp.{d}(1):
            s = s + wp.{d}(1)
    return s""",
    "last": "    return own(x, {B} - 1, n)",
}
CHANGES = {
    "add": ("    t[{at}] += own(x, j, n) + s",),
    "put": ("    t[{at}] = own(x, j, n) - s",),
    "masked": ("    wp.tile_scatter_masked(t, {at}, own(x, j, n) + s, own(x, j, 1) > s)",),
    "gathered": ("    wp.tile_scatter_add(t, {at}, own(x, j, n), j % 3 != n)",),
    "branch": ("    if (j + n) % 2 == 0:", "        t[{at}] += own(x, j, n)", "    else:", "        t[{at}] -= s"),
}
"""Lines of ``change(t, x, j, s, n)``, which threads may run one after the other."""
MEETINGS = """\
@wp.func
def carried{number}(t: Any, x: wp.array(dtype=wp.{d}), j: int, s: wp.{d}, n: int):
    v = own(x, j, n) * s
    for k in range(n):
        m = wp.tile_sum(wp.tile(v))[0]
        v = fold(v - fold(m))
        t[{at}] += v


@wp.func
def scanned{number}(t: Any, x: wp.array(dtype=wp.{d}), j: int, s: wp.{d}, n: int):
    before = own(x, j, 0)
    c = wp.tile_scan_inclusive(wp.tile(own(x, j, n) + s))
    t[{at}] = fold(wp.untile(c)) + before


"""
MEETINGS_IN_ORDER = """\
@wp.func
def carried{number}(t: Any, x: wp.array(dtype=wp.{d}), j: int, s: wp.{d}, n: int):
    v = wp.tile_zeros(shape={B}, dtype=wp.{d})
    for j in range({B}):
        v[j] = own(x, j, n) * s
    for k in range(n):
        m = wp.{d}(0)
        for j in range({B}):
            m = m + v[j]
        for j in range({B}):
            v[j] = fold(v[j] - fold(m))
            t[{at}] += v[j]


@wp.func
def scanned{number}(t: Any, x: wp.array(dtype=wp.{d}), j: int, s: wp.{d}, n: int):
    c = wp.{d}(0)
    for j in range({B}):
        c = c + (own(x, j, n) + s)
        t[{at}] = fold(c) + own(x, j, 0)


"""
PLACES = {1: "(j + n) % {0}", 2: "(j + n) % {0}, j % {1}", 3: "j % {0}, n % {1}, j % {2}", 4: "0, j % {1}, 0, j % {3}"}
"""Where each thread changes a tile: several of them at one place, too."""


class BlockWriter(TileWriter):
    """Statements of ``TileWriter`` that threads may all do alike, and calls of the functions above."""

    def __init__(self, seed: int, known: frozenset[str], dtype: str, *, differentiable: bool) -> None:
        super().__init__(seed, known, dtype, differentiable=differentiable)
        self.B = self.pick(BLOCKS)
        self.changed: dict[Shape, int] = {}
        apart = (self.element, self.stack)
        self.kinds = [k for k in self.kinds if k not in apart] + [self.set_element] * 2
        self.kinds += [self.change] * 8 + [self.each_number] * 4
        self.updates = ["add", "add"]

    def number_value(self, depth: int = 0) -> str:
        return super().number_value(depth).replace("wp.untile(wp.tile(", "wp.abs((")

    def source(self, shape: Shape) -> str:
        """A new tile; random numbers depend on the number of threads."""
        return next(e for e in iter(lambda: super(BlockWriter, self).source(shape), None) if "tile_randi" not in e)

    def condition(self) -> str:
        """A condition on indices, which all threads of a block see to be the same."""
        k = self.number(0, 4)
        return self.pick([f"i > {k}", f"i % 3 == {k % 3}", f"q < {k}", f"n > {k}", f"i + q < {k + 2}"])

    def set_element(self, depth: int, loop: bool) -> None:
        self.line(depth, f"{self.place()} = {self.number_value(1)}")

    def named(self, depth: int, loop: bool) -> None:
        """Builtins that change a tile, but the one that adds for each thread."""
        start = len(self.lines)
        super().named(depth, loop)
        if "scatter_add" in "".join(self.lines[start:]):
            del self.lines[start:]
            self.line(depth, "q = (q + 1) % 5")

    def each_number(self, depth: int, loop: bool) -> None:
        self.line(depth, f"{self.pick(self.scalars)} = {self.pick(list(ALONE))}(x1, j, {self.small()})")

    def change(self, depth: int, loop: bool) -> None:
        name, shape = self.place_of_tile()
        number = self.changed.setdefault(shape, len(self.changed))
        f = self.pick([*CHANGES, "carried", "scanned"])
        s = f"fold({self.number_value(2)})"
        self.line(depth, f"{f}{number}({name}, x1, j, {s}, {self.small()})")

    def definitions(self, *, in_order: bool) -> str:
        """The functions, for one thread or for the oracle."""
        d, L = self.d, 2 * max(self.R, self.C) + 3
        made = ""
        for name, body in (TOGETHER if in_order else ALONE).items():
            made += f"@wp.func\ndef {name}(x: wp.array(dtype=wp.{d}), j: int, n: int):\n{body}\n\n\n"
        for shape, number in self.changed.items():
            at = PLACES[len(shape)].format(*shape)
            for name, lines in CHANGES.items():
                made += f"@wp.func\ndef {name}{number}(t: Any, x: wp.array(dtype=wp.{d}), j: int, s: wp.{d}, n: int):\n"
                loop, more = (f"    for j in range({self.B}):\n", "    ") if in_order else ("", "")
                made += loop + "".join(f"{more}{line}\n".replace("{at}", at) for line in lines) + "\n\n"
            text = MEETINGS_IN_ORDER if in_order else MEETINGS
            made += text.replace("{at}", at).replace("{number}", str(number))
        return (EACH + made).replace("{d}", d).replace("{B}", str(self.B)).replace("{L}", str(L))


def in_blocks(kind: str, w: BlockWriter) -> Program:
    """The program that a writer makes, for blocks."""
    made = program(kind, w)
    source = made.source.replace("@wp.kernel", w.definitions(in_order=False) + "@wp.kernel")
    source = source.replace("    i = wp.tid()\n", "    i, j = wp.tid()\n")
    source = source.replace("b = y[i, 0, 0]", "b = x1[n]")  # what threads write, each may find to be another number
    return dataclasses.replace(
        made,
        source=source,
        oracle=w.definitions(in_order=True),
        grids=tuple((*dims, 1) for dims in made.grids),
        settings=tuple(s for s in made.settings if s.get("device") != "interpreter"),
        block=w.B,
        second=False,
        refusals=(*made.refusals, *REFUSALS),
    )


def tile_blocks(seed: int, known: frozenset[str]) -> Program:
    """A program of blocks whose threads work on tiles, of exact numbers, or with gradients."""
    r = Writer(seed)
    if r.chance(0.3):
        return in_blocks("tile_blocks", BlockWriter(seed, known, "float64", differentiable=True))
    return in_blocks("tile_blocks", BlockWriter(seed, known, r.pick(list(EXACT)), differentiable=False))
