"""Programs of generic code: functions and kernels for any types, overloads, ``wp.ref`` and ``wp.static`` in them.

A generic function is written with the types ``T`` and ``U`` of its first parameters, and called at any pair of types,
also by other generic functions, with the types exchanged.
"""

from __future__ import annotations

from tests.fuzz.numbers import NUMBERS, THREADS, NumberWriter, layouts, settings_of, sizes, values_of
from tests.fuzz.program import Program

HELD = [t for t in NUMBERS if t != "bfloat16"]
FIXED = """\
FACTOR = {factor}


@wp.func
def kind(x: wp.Int):
    return int(x & type(x)(1)) + 2


@wp.func
def kind(x: wp.Float):
    return 5


@wp.func
def kind(x: wp.{special}):
    return 7 + wp.static(FACTOR % 3)


@wp.func
def total(v: wp.types.vector(length=Any, dtype=Any)):
    s = v[0]
    for k in range(1, len(v)):
        s = s - v[k]
    return s


@wp.func
def total(v: wp.vec3i):
    return v[0] * 3 - v[1]


@wp.func
def bump(a: wp.ref[wp.{special}], b: Any, n: int):
    for k in range(n):
        a = a + wp.{special}(b)
        if a > wp.{special}(90):
            return
    a = a - wp.{special}(wp.static(FACTOR * 2 + 1))


@wp.func
def through(f: wp.Function, a: Any, b: Any):
    return f(f(a, b), b)


"""


class GenericWriter(NumberWriter):
    """Expressions of ``T`` and ``U`` inside of functions, and of numbers outside."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.types = self.r.sample(HELD, self.number(2, 3))
        if "int32" not in self.types:
            self.types.append("int32")
        self.special = self.pick([t for t in self.types if not t.startswith("float16")])
        self.generic: list[tuple[str, int]] = []
        self.inside = False
        self.kinds += [self.special_call] * 3

    def cast(self, t: str) -> str:
        """What converts to a type."""
        return f"type({'ab'['TU'.index(t)]})" if t in ("T", "U") else f"wp.{t}"

    def literal(self, t: str) -> str:
        if t not in ("T", "U"):
            return super().literal(t)
        return f"{self.cast(t)}({self.pick(['0', '1', '2', '3', '5', '9', 'wp.static(FACTOR + 2)'])})"

    def bare(self, t: str) -> str:
        return self.literal(t) if t in ("T", "U") else super().bare(t)

    def expression(self, t: str, depth: int = 0) -> str:
        if t not in ("T", "U"):
            return super().expression(t, depth)
        if depth > 2 or self.chance(0.15):
            return self.atom(t)
        forms = [self.minimal, self.clamped, self.chosen, self.ternary, self.converted, self.called]
        return self.pick([*forms, *[self.whole_number] * 5])(t, depth + 1)

    def condition(self, depth: int = 0) -> str:
        if not self.inside:
            return super().condition(depth)
        t = self.pick(["T", "U"])
        op = self.pick(["<", "<=", ">", ">=", "==", "!="])
        return f"({self.expression(t, max(depth, 2))} {op} {self.atom(t)})"

    def small(self) -> str:
        return self.pick([*self.loops, "2", "3", f"kind({self.pick('ab')}) % 4"]) if self.inside else super().small()

    def converted(self, t: str, depth: int) -> str:
        if not self.inside:
            return super().converted(t, depth)
        return f"{self.cast(t)}({self.expression(self.pick(['T', 'U']), depth)})"

    def settled(self, t: str) -> str:
        return f"{self.cast(t)}({self.expression(t)})" if self.inside else super().settled(t)

    def called(self, t: str, depth: int) -> str:
        """A call of a generic function whose first argument has type ``t``, which its result has, too."""
        if not self.generic or depth > 2:
            return self.atom(t)
        name, count = self.pick(self.generic)
        types = [t, self.pick(self.types)][:count]
        e = ", ".join(self.expression(s, 2) if k else self.settled(s) for k, s in enumerate(types))
        if count == 2 and self.chance(0.3):
            return f"through({name}, {e})"
        return f"{name}({e})"

    def function(self, k: int) -> list[str]:
        """A generic function, which calls those before it."""
        outside = self.variables, self.lines, self.loops, self.budget, self.types, self.kinds
        self.variables, self.lines, self.loops, self.budget = {"T": ["a"], "U": ["b"]}, [], [], 4
        self.types, self.inside = ["T", "U"], True
        self.kinds = [self.if_, self.for_, *[self.assign] * 4]
        self.line(1, "a0 = a")
        self.variables["T"].append("a0")
        self.block(3, 1, False)
        if self.chance(0.6):
            self.line(1, f"if {self.condition()}:")
            self.line(2, f"return {self.settled('T')}")
        self.line(1, f"return {self.settled('T')}")
        names = self.pick([("Any", "Any"), ("Any", "wp.Scalar"), ("wp.Scalar", "Any")])
        written = ["@wp.func", f"def g{k}(a: {names[0]}, b: {names[1]}):", *self.lines, "", ""]
        self.variables, self.lines, self.loops, self.budget, self.types, self.kinds = outside
        self.inside = False
        self.generic.append((f"g{k}", 2))
        return written

    def special_call(self, depth: int, loop: bool) -> None:
        """Overloads, references and vectors of any type."""
        t, name = self.variable()
        target, n = self.pick(self.variables[self.special]), self.small()
        other = self.pick(self.variables["int32"])
        d = self.pick(["int32", "int16", "float64", "int64"])
        vector = {"int32": "vec3i", "int16": "vec2s", "float64": "vec4d", "int64": "vec2l"}[d]
        parts = ", ".join(f"wp.{d}(i * {k + 1})" for k in range(int(vector[3])))
        forms = [f"{other} = kind({self.settled(t)})", f"bump({target}, {self.settled(t)}, {n})"]
        forms += [f"bump(own[{n} % 3], {name}, 2)", f"own[{n} % 3] = {self.settled(self.special)}"]
        forms += [f"{other} = wp.int32(total(wp.{vector}({parts})))", f"{target} = own[{n} % 3]"]
        self.line(depth, self.pick(forms))


def generics(seed: int, known: frozenset[str]) -> Program:
    """A program of generic functions, in a kernel for several types."""
    w = GenericWriter(seed, known)
    w.budget = w.number(11, 18)
    above = [*FIXED.format(factor=w.number(0, 6), special=w.special).splitlines(), "", ""]
    above += [line for k in range(w.number(1, 3)) for line in w.function(k)]
    names = [f"{k}_{t}" for t in w.types for k in "xy"]
    params = [f"{a}: wp.array{'2d' * a.startswith('y')}(dtype=wp.{a[2:]})" for a in names]
    setup = []
    w.line(1, "i = wp.tid()")
    w.line(1, f"own = wp.zeros(shape=(3,), dtype=wp.{w.special})")
    for t in w.types:
        setup += [f"x_{t} = {values_of(t, f'{THREADS}', w.number(0, 999))}", f"y_{t} = np.zeros(({THREADS}, 2), '{t}')"]
        w.declare(1, t, f"x_{t}[i]")
        w.declare(1, t, w.literal(t))
    params += ["u: wp.array(dtype=Any)", "v: wp.array(dtype=Any)"]
    given = [w.pick(HELD) for _ in range(4)]
    while w.budget > 8:
        w.statement(1, False)
    name = w.generic[0][0]
    w.line(1, f"v[i] = {name}(v[i], u[i]) + v.dtype({name}(u[i], {w.variables[w.special][0]}))")
    for t in w.types:
        for k, variable in enumerate(w.variables[t][:2]):
            w.line(1, f"y_{t}[i, {k}] = {variable}")
    w.line(1, f"y_{w.special}[i, 1] = y_{w.special}[i, 1] + own[1]")
    setup += layouts(w, names)
    setup += [f"u = (np.arange({THREADS}) % 9).astype({given[:2]}[turn % 2])"]
    setup += [f"v = (np.arange({THREADS}) % 5).astype({given[2:]}[turn % 2])", "memory.append(v)"]
    setup.append(f"args = [{', '.join([*names, 'u', 'v'])}]")
    head = ["@wp.kernel", f"def k({', '.join(params)}):"]
    source = "\n".join([*above, *head, *w.lines]) + "\n"
    return Program("generics", seed, source, "\n".join(setup) + "\n", sizes(w), settings_of(w))
