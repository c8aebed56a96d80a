"""Programs of arrays as values: slices with computed bounds, choices between arrays, arrays in structs and results."""

from __future__ import annotations

import dataclasses

from tests.fuzz.numbers import SIZES, THREADS, NumberWriter, finished, settings_of
from tests.fuzz.program import Program

REFUSALS = ("would be an array that is made inside of a branch", "can't be chosen again")
"""A slice of a slice that was chosen can't be chosen in turn."""
FUNCTIONS = """\
@wp.struct
class Bag:
    a: wp.array2d(dtype=wp.{t})
    r: wp.array(dtype=wp.{t})
    n: int


@wp.func
def put(r: wp.array(dtype=wp.{t}), k: int, e: wp.{t}):
    if len(r) == 0:
        return
    r[k % len(r)] = e
    back = r[::-1]
    back[k % r.shape[0]] = back[0] + e


@wp.func
def total(r: wp.array(dtype=wp.{t})):
    s = wp.{t}(0)
    for e in r:
        if e == wp.{t}(3):
            continue
        s += e
    return s


@wp.func
def longer(r: wp.array(dtype=wp.{t}), o: wp.array(dtype=wp.{t})):
    if len(r) < len(o):
        return o
    return r


@wp.func
def swept(b: Bag, k: int, i: int):
    if k > 2:
        b.r = b.a[i]
    b.n += k
    return b


"""


class ViewWriter(NumberWriter):
    """Statements about ``r`` and ``o``, which are views of the thread's rows."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32", "int32", "float32", "uint8", "int64", "float64"])
        self.types = sorted({self.t, "int32"})
        self.budget = self.number(6, 14)
        self.kinds = [self.if_, self.for_, self.while_, self.leave, self.assign]
        self.kinds += [self.bind] * 6 + [self.write] * 5 + [self.read] * 3 + [self.each, self.bag]

    def small(self) -> str:
        return self.pick([*self.loops, *self.loops, "q", "n", "2", "i % 3", "len(r) % 3", "b.n % 4"])

    def real_number(self, t: str, depth: int) -> str:
        e, f = self.expression(t, depth), self.expression(t, depth)
        return self.pick([f"({e} + {f})", f"({e} - {f})", f"(-{e})", f"wp.min({e}, {f})"])

    def literal(self, t: str) -> str:
        return f"wp.{t}({self.number(0, 5)})"

    def span(self) -> str:
        k, j = self.small(), self.small()
        forms = [
            ":",
            "1:",
            ":-1",
            "::-1",
            "::2",
            f"{k} % 3 :",
            f": {k} % 9",
            f"{k} % 3 : {j} % 8",
            f"{k} % 4 :: 2",
            "-3:",
        ]
        return self.pick([*forms, f"{k} % 8 : 0 : -1", f"{k} % 9 - 4 :", f":: {k} % 2 + 1", f"{k} % 7 :: -2"])

    def view(self) -> str:
        """An array of one dimension whose elements are the thread's."""
        k, s = self.small(), self.span()
        rows = ["m[i]", f"m[i, {s}]", f"u[i, {k} % 2]", f"u[i, :, {k} % 4]", f"u[i, ::-1, {k} % 4]", f"m[i][{s}]"]
        rows += [f"u[i][{k} % 2, {s}]", f"b.a[i, {s}]", "b.r", f"own[{s}]", f"u[i, 1:, {k} % 4]", f"r[{s}]", f"o[{s}]"]
        x, y = self.pick(rows), self.pick(["r", "o", *rows])
        choices = [x, x, x, f"({x} if {self.condition()} else {y})", f"longer({x}, {y})", "r", "o"]
        return self.pick(choices)

    def bind(self, depth: int, loop: bool) -> None:
        if self.chance(0.15):
            self.line(depth, "r, o = o, r")
        else:
            self.line(depth, f"{self.pick(['r', 'o'])} = {self.view()}")

    def write(self, depth: int, loop: bool) -> None:
        name, k, e = self.pick(["r", "o", "b.r"]), self.small(), self.expression(self.t, 1)
        if self.chance(0.4):
            self.line(depth, f"put({self.pick([name, self.view()])}, {k}, {e})")
            return
        self.line(depth, f"if len({name}) > 0:")
        at = f"{name}[{self.pick([f'{k} % len({name})', '-1', '0', f'len({name}) - 1'])}]"
        self.line(depth + 1, self.pick([f"{at} = {e}", f"{at} += {e}", f"{at} = {at} + {e}"]))

    def read(self, depth: int, loop: bool) -> None:
        name, v = self.pick(["r", "o"]), self.pick(self.variables[self.t])
        k = self.small()
        forms = [f"{v} = total({self.view()})", f"{v} = {name}[{k} % len({name})] if len({name}) > 0 else {v}"]
        self.line(depth, self.pick([*forms, f"q = ({name}.shape[0] + q) % 5", f"{v} += x[{k} % 5 :][i]"]))

    def each(self, depth: int, loop: bool) -> None:
        name = self.name("it")
        self.line(depth, f"for {name} in {self.pick(['r', 'o', 'm[i, 2:]', 'own'])}:")
        held = self.variables[self.t]
        self.variables[self.t] = [*held, name]
        self.line(depth + 1, f"{held[0]} += {name}")
        self.variables[self.t] = held

    def bag(self, depth: int, loop: bool) -> None:
        k = self.small()
        self.line(
            depth, self.pick([f"b = swept(b, {k}, i)", f"b.r = {self.view()}", f"b = Bag(m, {self.view()}, {k})"])
        )


def views(seed: int, known: frozenset[str]) -> Program:
    """A program of views."""
    w = ViewWriter(seed, known)
    t = w.t
    params = [f"m: wp.array2d(dtype=wp.{t})", f"u: wp.array3d(dtype=wp.{t})", f"x: wp.array(dtype=wp.{t})"]
    params += [f"y: wp.array2d(dtype=wp.{t})", "c: wp.array(dtype=int)", "n: int"]
    for text in ("i = wp.tid()", "q = int(1)", f"own = wp.zeros(shape=(5,), dtype=wp.{t})", "r = m[i]", "o = u[i, 1]"):
        w.line(1, text)
    w.line(1, "b = Bag(m, o, 1)")
    w.declare(1, t, "x[i]")
    w.declare(1, t, "m[i, 3]")
    if t != "int32":
        w.declare(1, "int32", "n + 1")
    while w.budget > 0:
        w.statement(1, False)
    w.line(1, f"y[i, 0] = {w.variables[t][0]}")
    w.line(1, f"y[i, 1] = {w.variables[t][1]} + total(r) + total(o) + total(own)")
    w.line(1, "c[i] = q * 100 + len(r) * 10 + len(o) + b.n")
    order = w.pick(["", "", ".transpose(1, 0).copy().T", "[:, ::-1]", "[::-1]"])
    setup = [f"r = np.random.default_rng({seed})", f"m_ = r.integers(0, 9, ({THREADS}, 8)).astype('{t}')"]
    setup += [f"m = m_{order}", f"u = r.integers(0, 9, ({THREADS}, 2, 4)).astype('{t}')"]
    setup += [f"x = r.integers(0, 9, {THREADS + 8}).astype('{t}')", f"y = np.zeros(({THREADS}, 2), '{t}')"]
    setup += [f"c = np.zeros({THREADS}, 'int32')", "memory = [m, u, y, c]", "args = [m, u, x, y, c, 2]"]
    grids = sorted({*w.r.sample(SIZES, 3), (THREADS,)})
    program = finished("views", w, FUNCTIONS.format(t=t).splitlines(), params, setup, grids, settings_of(w))
    return dataclasses.replace(program, refusals=REFUSALS)
