"""Programs of numbers: every type, every operator, casts, and what happens at the ends of the types."""

from __future__ import annotations

from typing import Any

from tests.fuzz.program import Program
from tests.fuzz.scalars import TYPES
from tests.fuzz.writing import Writer

INTS = [t for t in TYPES if TYPES[t].is_int]
FLOATS = ["float16", "float32", "float64", "bfloat16"]
NUMBERS = [*INTS, *FLOATS]
THREADS = 35
"""The largest grid: two vectors of 16 lanes and a rest."""
SIZES = ((0,), (1,), (3,), (4,), (5,), (8,), (11,), (16,), (17,), (THREADS,))
ENDS = {
    "float16": "[0, 1, -1, 0.5, -2.5, 65504, -65504, 2048, 6e-8, 3.14, np.nan, np.inf, -np.inf]",
    "float32": "[0, 1, -1, 0.5, -2.5, 3e9, -3e9, 16777216, 1e30, 1e-40, 3.14, np.nan, np.inf, -np.inf]",
    "float64": "[0, 1, -1, 0.5, -2.5, 1e19, -1e19, 9007199254740992, 1e200, 3.14, np.nan, np.inf, -np.inf]",
}
"""Values that operations treat in a special way."""


def values_of(t: str, shape: str, seed: int) -> str:
    """The text that makes an array of type ``t`` with special values among its numbers."""
    rng = f"np.random.default_rng({seed})"
    if t == "bool":
        return f"{rng}.integers(0, 2, {shape}).astype(bool)"
    if t in INTS:
        lo, hi = TYPES[t].low, TYPES[t].low + (1 << TYPES[t].bits) - 1
        ends = f"np.array([{lo}, {lo + 1}, {hi}, {hi - 1}, 0, 1, 2, 3, {TYPES[t].bits}, {hi // 3}], np.{t})"
        anything = f"{rng}.integers({lo}, {hi}, {shape}, np.{t}, endpoint=True)"
        few = f"{rng}.integers({max(lo, -9)}, 9, {shape}, np.{t})"
    else:
        ends = f"np.array({ENDS[t]}, np.{t})"
        anything = f"({rng}.normal(size={shape}) * 100).astype(np.{t})"
        few = f"({rng}.integers(-16, 16, {shape}) / 4).astype(np.{t})"
    return f"np.choose({rng}.integers(0, 3, {shape}), [{rng}.choice({ends}, {shape}), {anything}, {few}])"


class NumberWriter(Writer):
    """Statements about variables that are numbers, and expressions of them."""

    def __init__(self, seed: int, known: frozenset[str] = frozenset()) -> None:
        super().__init__(seed, known)
        self.types = ["int32"]
        self.functions: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self.kinds += [self.assign] * 6 + [self.augmented] * 2

    # --- expressions ----------------------------------------------------------------------------------------

    def literal(self, t: str) -> str:
        if t == "bool":
            return self.pick(["True", "False"])
        if t in INTS:
            lo, hi = TYPES[t].low, TYPES[t].low + (1 << TYPES[t].bits) - 1
            return f"wp.{t}({self.pick([0, 1, 2, 3, 5, 7, lo, hi, hi // 3, self.number(lo, hi)])})"
        return f"wp.{t}({self.pick(['0.0', '1.0', '-1.5', '0.5', '3.0', '100.0', 'wp.inf', '-wp.inf', 'wp.nan'])})"

    def bare(self, t: str) -> str:
        """A literal that takes the type of its neighbour."""
        return self.pick(["0", "1", "2", "5"] if t in INTS else ["0.5", "2.0", "1.0", "3.0"])

    def atom(self, t: str) -> str:
        names = self.variables.get(t, [])
        if names and self.chance(0.8):
            return self.pick(names)
        if t == "int32" and self.loops and self.chance(0.5):
            return self.pick(self.loops)
        return self.literal(t)

    def expression(self, t: str, depth: int = 0) -> str:
        if t == "bool":
            return self.condition(depth + 1)
        if depth > 2 or self.chance(0.15):
            return self.atom(t)
        shared = [self.minimal, self.clamped, self.chosen, self.ternary, self.converted, self.called]
        own = [self.whole_number, self.bits] if t in INTS else [self.real_number]
        return self.pick([*shared, *own * 4])(t, depth + 1)

    def minimal(self, t: str, depth: int) -> str:
        if self.chance(0.5):
            return f"wp.{self.pick(['abs', 'sign'])}({self.expression(t, depth)})"
        return f"wp.{self.pick(['min', 'max'])}({self.expression(t, depth)}, {self.expression(t, depth)})"

    def clamped(self, t: str, depth: int) -> str:
        return f"wp.clamp({self.expression(t, depth)}, {self.atom(t)}, {self.expression(t, depth)})"

    def chosen(self, t: str, depth: int) -> str:
        return f"wp.where({self.condition(depth)}, {self.expression(t, depth)}, {self.expression(t, depth)})"

    def ternary(self, t: str, depth: int) -> str:
        return f"({self.expression(t, depth)} if {self.condition(depth)} else {self.expression(t, depth)})"

    def converted(self, t: str, depth: int) -> str:
        source = self.pick([*self.types, self.pick([*NUMBERS, "bool"])])
        if t == "int32" and self.chance(0.1):
            return f"wp.bit_count({self.expression(self.pick(INTS), depth)})"
        return f"wp.{t}({self.expression(source, depth)})"

    def called(self, t: str, depth: int) -> str:
        known = self.functions.get(t)
        if not known:
            return self.expression(t, depth)
        name, types = self.pick(known)
        return f"{name}({', '.join(self.expression(s, depth) for s in types)})"

    def whole_number(self, t: str, depth: int) -> str:
        op = self.pick(["+", "-", "*", "+", "-", "*", "/", "//", "%"])
        a = self.expression(t, depth)
        b = self.bare(t) if self.chance(0.25) else self.expression(t, depth)
        return f"({a} {op} {b})"

    def bits(self, t: str, depth: int) -> str:
        if self.chance(0.2):
            return f"({self.pick('-~')}{self.expression(t, depth)})"
        return f"({self.expression(t, depth)} {self.pick(['&', '|', '^', '<<', '>>'])} {self.expression(t, depth)})"

    def real_number(self, t: str, depth: int) -> str:
        e, f = self.expression(t, depth), self.expression(t, depth)
        c = self.pick(["2.0", "0.5", "3.0", "-7.0"])
        return self.pick(
            [
                *(f"({e} + {f})", f"({e} - {f})", f"({e} * {f})", f"({e} * {c})", f"({e} / {c})", f"({c} - {e})"),
                *(f"({e} / (wp.abs({f}) + 0.5))", f"({e} // {c})", f"({e} % {c})", f"(-{e})", f"wp.sqrt(wp.abs({e}))"),
                f"wp.{self.pick(['floor', 'ceil', 'trunc', 'rint', 'round'])}({e})",
            ]
        )

    def condition(self, depth: int = 0) -> str:
        t = self.pick(self.types)
        op = self.pick(["<", "<=", ">", ">=", "==", "!="])
        kind = self.number(0, 9)
        if kind == 0 and depth < 3:
            word = self.pick(["and", "or"])
            return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"
        if kind == 1 and depth < 3:
            return f"(not {self.condition(depth + 1)})"
        if t == "bool":
            return f"({self.atom(t)} {self.pick(['==', '!='])} {self.atom(t)})"
        if kind == 2:
            narrow = {"float16": "bfloat16", "bfloat16": "float16"}  # of these, neither holds the other's numbers
            other = self.pick([s for s in self.types if s not in ("bool", narrow.get(t))])
            return f"({self.atom(t)} {op} {self.atom(other)})"
        if kind == 3 and t in FLOATS:
            return f"wp.{self.pick(['isnan', 'isinf', 'isfinite'])}({self.atom(t)})"
        if kind == 4 and t in INTS:
            return f"(({self.atom(t)} & 1) {self.pick(['==', '!='])} 0)"
        if kind == 5 and self.variables.get("bool"):
            return self.pick(self.variables["bool"])
        return f"({self.expression(t, max(depth, 2))} {op} {self.bare(t) if self.chance(0.4) else self.atom(t)})"

    def small(self) -> str:
        t = self.pick([t for t in self.types if t in INTS] or ["int32"])
        return self.pick([*self.loops, f"wp.int32({self.atom(t)} & 7)", "3", f"wp.int32({self.atom(t)} & 3)"])

    # --- statements -----------------------------------------------------------------------------------------

    def variable(self) -> tuple[str, str]:
        """A type and the name of a variable."""
        t = self.pick([t for t in self.types if self.variables.get(t)])
        return t, self.pick(self.variables[t])

    def assign(self, depth: int, loop: bool) -> None:
        t, name = self.variable()
        if self.chance(0.15):
            self.declare(depth, t, self.settled(t))
        elif self.chance(0.1) and len(self.variables[t]) > 1:
            a, b = self.r.sample(self.variables[t], 2)
            self.line(depth, f"{a}, {b} = {self.expression(t, 1)}, {a}")
        else:
            self.line(depth, f"{name} = {self.expression(t)}")

    def settled(self, t: str) -> str:
        """An expression whose type does not hang on a neighbour."""
        return f"wp.{t}({self.expression(t)})" if t != "bool" else self.condition()

    def augmented(self, depth: int, loop: bool) -> None:
        t, name = self.variable()
        if t == "bool":
            return self.assign(depth, loop)
        ops = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"] if t in INTS else ["+", "-", "*"]
        self.line(depth, f"{name} {self.pick(ops)}= {self.expression(t, 1)}")
        return None

    def function(self, k: int) -> list[str]:
        """A function of numbers, with early returns, which later code calls."""
        types = tuple(self.pick([t for t in self.types if t != "bool"]) for _ in range(self.number(1, 3)))
        result = self.pick(types)
        outside = self.variables, self.lines, self.loops, self.budget
        self.variables, self.lines, self.loops, self.budget = {}, [], [], 5
        names = [self.name("p") for _ in types]
        for n, t in zip(names, types, strict=True):
            self.variables.setdefault(t, []).append(n)
        known, self.types = self.types, sorted(set(types))
        leaves, self.kinds = self.kinds, [k for k in self.kinds if k != self.leave]
        self.block(2, 1, False)
        if self.chance(0.7):
            self.line(1, f"if {self.condition()}:")
            self.line(2, f"return {self.settled(result)}")
            self.block(2, 1, False)
        self.line(1, f"return {self.settled(result)}")
        head = f"def f{k}({', '.join(f'{n}: wp.{t}' for n, t in zip(names, types, strict=True))}):"
        written = ["@wp.func", head, *self.lines, "", ""]
        self.types, self.kinds = known, leaves
        self.variables, self.lines, self.loops, self.budget = outside
        self.functions.setdefault(result, []).append((f"f{k}", types))
        return written


def numbers(seed: int, known: frozenset[str]) -> Program:
    """A program of numbers of a few types."""
    w = NumberWriter(seed, known)
    w.budget = w.number(14, 30)
    w.types = w.r.sample(NUMBERS, w.number(2, 4)) + ["bool"] * w.chance(0.3)
    functions = [line for k in range(w.number(0, 2)) for line in w.function(k)]
    held = {t: "float32" if t == "bfloat16" else t for t in w.types}  # NumPy has no bfloat16
    params, setup = [], []
    for t, h in held.items():
        params += [f"x_{t}: wp.array(dtype=wp.{h})", f"y_{t}: wp.array2d(dtype=wp.{h})"]
        setup += [f"x_{t} = {values_of(h, f'{THREADS}', w.number(0, 999))}", f"y_{t} = np.zeros(({THREADS}, 3), '{h}')"]
    w.line(1, "i = wp.tid()")
    for t, h in held.items():
        w.declare(1, t, f"wp.{t}(x_{t}[i])" if t != h else f"x_{t}[i]")
        w.declare(1, t, f"wp.{t}(s_{t})" if w.chance(0.5) else w.literal(t) if t != "bool" else "x_bool[i]")
        params.append(f"s_{t}: wp.{h}")
    for t, h in held.items():
        w.line(1, f"y_{t}[i, 0] = wp.{h}({w.variables[t][0]})")
    while w.budget > 10:
        w.statement(1, False)
    for t, h in held.items():
        for k, name in enumerate(w.variables[t][:2]):
            w.line(1, f"y_{t}[i, {k + 1}] = wp.{h}({name})")
    names = [f"{k}_{t}" for t in w.types for k in "xy"]
    scalars = [f"{values_of(h, '1', w.number(0, 999))}[0]" for h in held.values()]
    args = [*(f"x_{t}, y_{t}" for t in w.types)]
    setup += layouts(w, names)
    setup.append(f"args = [{', '.join(a for a in args)}, {', '.join(scalars)}]")
    return finished("numbers", w, functions, params, setup, sizes(w))


def sizes(w: Writer) -> tuple[tuple[int, ...], ...]:
    """A few grids of one dimension."""
    return tuple(sorted({*w.r.sample(SIZES, 3), (THREADS,)}))


def layouts(w: Writer, names: list[str]) -> list[str]:
    """Lines that give some arrays other strides, and say which memory is compared."""
    lines, memory = [], []
    for name in names:
        how = w.pick(["", "", "", "back", "step", "offset"]) if w.chance(0.5) else ""
        memory.append(f"{name}_" if how else name)
        if how == "back":
            lines += [f"{name}_ = {name}[::-1].copy()", f"{name} = {name}_[::-1]"]
        elif how:
            part = "[::2]" if how == "step" else "[3:]"
            size = f"2 * len({name})" if how == "step" else f"len({name}) + 3"
            lines.append(f"{name}_ = np.zeros(({size}, *{name}.shape[1:]), {name}.dtype)")
            lines += [f"{name}_{part} = {name}", f"{name} = {name}_{part}"]
    return [*lines, f"memory = [{', '.join(memory)}]"]


def finished(
    kind: str, w: Writer, above: list[str], params: list[str], setup: list[str], grids: Any, settings: Any = None
) -> Program:
    """The program of what was written."""
    head = ["@wp.kernel", f"def k({', '.join(params)}):"]
    source = "\n".join([*above, *head, *w.lines]) + "\n"
    settings = tuple(settings or settings_of(w))
    if "bfloat16" in source:  # the emulation has no function of the host's that rounds to it
        settings = tuple(s for s in settings if "device" not in s)
    grids = tuple(grids)
    if all(len(g) == 1 for g in grids) and w.chance(0.2) and not w.needs_index:  # several threads get each index
        surplus = w.pick([(2,), (3,), (1, 2), (17,)])
        grids = tuple((*g, *surplus) for g in grids)
    return Program(kind, w.seed, source, "\n".join(setup) + "\n", grids, settings)


def settings_of(w: Writer) -> tuple[dict[str, Any], ...]:
    """Settings to run a program with; every program runs with those that users have, too."""
    width = {"vector_width": w.pick([1, 4, 8, 16])}
    others: list[dict[str, Any]] = [
        {"vector_width": w.pick([4, 8, 16]), "max_unroll": 0},
        {"deterministic": True, "vector_width": w.pick([0, 1, 8])},
        {"mode": "debug", "vector_width": w.pick([0, 1])},
        {"device": "emulated"},
        {"num_threads": w.pick([1, 2]), "vector_width": w.pick([2, 32])},
        {"vector_width": 16, "max_unroll": 64},
    ]
    return ({}, width, *w.r.sample(others, 1))
