"""Programs on grids that several threads of the operating system share, with memory where they meet.

Beside sums at every kind of index there are slots that threads take by atomics, lists that they build, elements that
one of them gets, and stores of different values to one element: the order of threads decides which thread gets which,
and ``Program.unordered`` says so. Each thread spends time that the oracle does not, so that launches are shared.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tests.fuzz.numbers import finished
from tests.fuzz.program import Program
from tests.fuzz.sums import SumWriter

GRIDS = ((400,), (520,), (641,), (900,), (20, 23), (300, 2), (3, 170), (5, 7, 16))
BUCKETS = 5
SPUN = """\
@wp.func
def spun(v: int, n: int):
    for _ in range(n):
        v = 99991 - v
    return v


"""
"""Two turns give back ``v``."""
ORACLE = """\
@wp.func
def spun(v: int, n: int):
    return v if n % 2 == 0 else 99991 - v
"""


class CrowdWriter(SumWriter):
    """Statements about elements where many threads meet; ``extra`` are arrays by name, with how they are compared."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32", "float32", "float64", "int64", "uint32", "vec2i", "vec2d"])
        self.budget = self.number(3, 7)
        self.extra: dict[str, tuple[str, str, str]] = {}
        self.setup: list[str] = []
        self.shares = False  # several threads have the same index
        flow, meeting = [self.if_, self.for_, self.value, self.leave], [self.slot, self.chain, self.claim, self.mark]
        sums = [self.sum] * 3 + [self.extreme]
        focus = self.pick([[*meeting, *sums, self.win], [self.win] * 2, meeting, sums])  # sums keep code out of lanes
        self.kinds = [*flow, *focus * 2]

    def fits(self, kind: Any, depth: int, loop: bool) -> bool:
        alone = kind == self.slot or (kind == self.chain and not self.shares)  # a thread keeps its link at its index
        return super().fits(kind, depth, loop) and (kind not in (self.slot, self.chain) or (alone and not loop))

    def array(self, start: str, dtype: str, value: str, how: str) -> str:
        name = self.name(start)
        self.setup.append(f"{name} = {value}")
        self.extra[name] = (name, dtype, how)
        return name

    def bucket(self) -> str:
        return self.pick(["g[i]", "0", "s", "i % 4", f"(i // 7) % {BUCKETS}", "g[n - 1 - i]"])

    def slot(self, depth: int, loop: bool) -> None:
        """Places that a counter hands out."""
        t = self.pick(["int32", "int32", "int64", "uint32"])
        up, few, at = self.chance(0.7), self.number(1, 2), self.bucket()
        start = f"np.{'zeros' if up else 'full'}({BUCKETS}{'' if up else f', {few} * n'}, '{t}')"
        count = self.array("count", t, start, "free")
        slots = self.array("slots", "int32", f"np.full({BUCKETS} * {few} * n, -1, 'int32')", "sorted")
        how = f"wp.atomic_add({count}, {at}, wp.{t}({few}))"
        if not up:
            how = f"wp.atomic_sub({count}, {at}, wp.{t}({few})) - wp.{t}({few})"
        self.line(depth, f"k = wp.int32({how})")
        for part in range(few):
            self.line(depth, f"{slots}[{at} * {few} * n + k + {part}] = i * 16 + {at} * 2 + {part}")

    def chain(self, depth: int, loop: bool) -> None:
        """Lists of the threads that come by, one for each bucket."""
        links = self.name("links")
        self.needs_index = True
        self.setup.append(f"{links} = np.full({BUCKETS} + n, -1, 'int32')")
        head, after = f"head_{links}", f"after_{links}"
        self.setup.append(f"{head}, {after} = {links}[:{BUCKETS}], {links}[{BUCKETS}:]")
        self.extra[head], self.extra[after] = (links, "int32", "sorted"), (links, "int32", "sorted")
        self.line(depth, f"{after}[i] = wp.atomic_exch({head}, {self.bucket()}, i)")

    def wins(self) -> str:
        return self.array("wins", "int32", f"np.zeros({BUCKETS}, 'int32')", "")

    def claim(self, depth: int, loop: bool) -> None:
        """One thread gets an element, whichever it is."""
        owner, at = self.array("owner", "int32", f"np.full({BUCKETS}, -1, 'int32')", "any"), self.bucket()
        self.line(depth, f"if wp.atomic_cas({owner}, {at}, -1, i) == -1:")
        self.line(depth + 1, f"{self.wins()}[{at}] += 1")

    def mark(self, depth: int, loop: bool) -> None:
        """Bits that are set once, and counted."""
        bits, at = self.array("bits", "uint32", f"np.zeros({BUCKETS}, 'uint32')", "free"), self.bucket()
        bit = f"wp.uint32({self.pick(['i % 31', 'i // 100', 'g[i] * 3'])} & 31)"
        self.line(depth, f"if ((wp.atomic_or({bits}, {at}, wp.uint32(1) << {bit}) >> {bit}) & wp.uint32(1)) == 0:")
        self.line(depth + 1, f"wp.atomic_add({self.wins()}, {at}, 1)")

    def win(self, depth: int, loop: bool) -> None:
        """Stores of different values to one element, of which one stays."""
        t = self.pick(["int32", "int32", "float64", "float32", "int64", "int16"])
        win = self.array("win", t, f"np.zeros(2 * n, '{t}')", "any")
        for part in range(self.number(1, 2)):
            if part or self.chance(0.5):
                depth = self.deeper(depth)
            at = self.pick(
                ["0", "s", self.bucket(), "i // 2", "p[i] // 3", "g[i] * 100", "i + 1 if i % 2 == 0 else i", "i & ~15"]
            )
            value = self.pick(["i", "h + i * 4", "q * 1000 + i % 100", "i % 7", "x[n - 1 - i]", *self.loops])
            self.line(depth, f"{win}[{at}] = wp.{t}({value})")

    def deeper(self, depth: int) -> int:
        """Begin a branch."""
        if depth > 3:
            return depth
        self.line(depth, f"if {self.condition()}:")
        return depth + 1

    def extreme(self, depth: int, loop: bool) -> None:
        t, op = self.pick(["int32", "float32", "float64", "uint32", "int64"]), self.pick(["min", "max"])
        most = self.array("most", t, f"np.full(n, 50, '{t}')", "")
        at = self.pick([self.bucket(), "i", "i // 2", "p[i]"])
        self.line(depth, f"wp.atomic_{op}({most}, {at}, wp.{t}({self.pick(['i % 101', 'h * 20', 'x[i] + i', 'q'])}))")


def crowds(seed: int, known: frozenset[str]) -> Program:
    """A program of many threads."""
    w = CrowdWriter(seed, known)
    dims = w.pick(GRIDS)
    tids = ["r0", "r1", "r2"][: len(dims) if w.chance(0.7) else w.number(1, len(dims))]
    w.shares = math.prod(dims[len(tids) :]) > 1
    flat = tids[0]
    for axis, t in enumerate(tids[1:], 1):
        flat = f"({flat} * {dims[axis]} + {t})"
    w.line(1, f"{', '.join(tids)} = wp.tid()" if len(tids) > 1 else "i = wp.tid()")
    if len(tids) > 1:
        w.line(1, f"i = {flat}")
    w.line(1, "q = int(1)")
    w.line(1, "h = spun(x[i], work)")
    while w.budget > 0:
        w.statement(1, False)
    w.line(1, "o[i] = q + h")
    dtype = {"vec2i": "int32", "vec2d": "float64"}.get(w.t, w.t)
    shape = "(3 * n, 2)" if w.vector() else "3 * n"
    params = ["n: int", "s: int", "work: int"] + [f"{a}: wp.array(dtype=int)" for a in "xgpfo"]
    params += [f"{a}: wp.array(dtype=wp.{w.t})" for a in w.names]
    params += [f"{a}: wp.array(dtype=wp.{t})" for a, (_, t, _) in w.extra.items()]
    setup = ["n = int(np.prod(dims))", f"r = np.random.default_rng({seed})", f"a = np.ones({shape}, '{dtype}')"]
    setup += [f"b = {w.pick(['a', 'a[1:]', 'a.copy()'])}", "x = r.integers(0, 4, n + 6).astype('int32')"]
    setup += [f"g = r.integers(0, {BUCKETS}, 3 * n).astype('int32')", "p = r.permutation(n).astype('int32')"]
    setup += ["f, o = np.zeros((2, 3 * n), 'int32')", *w.setup]
    compared = {memory: how for memory, _, how in w.extra.values()}
    setup.append(f"memory = [{', '.join(['a, b, f, o', *compared])}]")
    work = w.pick([0, 4000, 60_000, 120_000])
    if w.chance(0.25):  # elements that several threads mean, by their own index
        twice = "r.integers(0, len(a), len(a)).astype('int32')"
        setup.append(f"a = Selected(a, [{twice}], '{w.t}')")
        params = [p.replace("wp.array", "wp.indexedarray") if p.startswith("a:") else p for p in params]
    setup.append(f"args = [n, {w.number(0, 2)}, {work}, x, g, p, f, o, {', '.join([*w.names, *w.extra])}]")
    width = {"vector_width": w.pick([1, 4, 8, 16])}
    settings = ({"num_threads": 3}, {"num_threads": w.pick([2, 5, 16]), **width})
    settings += (w.pick([{"deterministic": True, "num_threads": 4}, {"num_threads": 1}, {"num_threads": 3, **width}]),)
    made = finished("crowds", w, SPUN.splitlines(), params, setup, [dims], settings)
    unordered = tuple((k, how) for k, how in enumerate(compared.values(), 4) if how)
    return dataclasses.replace(made, oracle=ORACLE, unordered=unordered)
