"""Programs of vectors, matrices, quaternions, structs, arrays of a thread, tuples, and functions of all of these."""

from __future__ import annotations

from tests.fuzz.builtins import aggregate_named
from tests.fuzz.numbers import INTS, THREADS, NumberWriter, finished, layouts, settings_of, sizes
from tests.fuzz.program import Program

VECTORS = ["vec3", "vec2d", "vec4", "vec3i", "vec2ub", "vec3us", "vec2l", "vec4s", "vec3h", "vec2ui"]
MATRICES = ["mat22", "mat22d", "mat33", "mat44d"]
QUATERNIONS = ["quat", "quatd"]
HEADER = """\
@wp.struct
class Pair:
    u: wp.{u}
    t: wp.{t}
    n: wp.int32


@wp.struct
class Nest:
    p: Pair
    c: wp.{u}


@wp.func
def changed(h: Pair, n: int, a: wp.{u}):
    for k in range(n):
        h.t[k % {size}] = h.t[k % {size}] + h.t[0]
        if h.n > 5:
            h.u = a
            return h
        h.n += 2
    h.u = a - h.u
    return h


@wp.func
def fill(r: wp.array(dtype=wp.{u}), k: int, a: wp.{u}):
    if k > 3:
        return
    r[k % r.shape[0]] = a
    r[0] = r[k % len(r)] + a


@wp.func
def total(v: Any):
    s = v[0]
    for k in range(1, len(v)):
        s = s - v[k]
    return s


@wp.func
def twice(f: wp.Function, a: wp.{u}, b: wp.{u}):
    return f(f(a, b), b)


@wp.func
def lessened(a: wp.{u}, b: wp.{u}):
    if a < b:
        return a + wp.{u}(1)
    return wp.min(a - b, b)


@wp.func
def turned(a: wp.{u}, n: int, v: wp.{t}):
    for k in range(n):
        a = a + v[k % {size}]
        v[0] = a
    return a, v


@wp.func
def step(a: wp.ref[wp.{u}], v: wp.ref[wp.{t}], n: int):
    if n > 2:
        return
    a = a + v[0]
    v = v + v
    v[{last}] = a


@wp.func
def climbed(n: int, a: wp.{u}):
    if wp.static({depth}) > 0 and n > 3:
        a = a + wp.{u}(n % 4)
    return a


WEIGHTS = (1, 3, 2)


"""


class PartWriter(NumberWriter):
    """Statements about values with parts."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.vector = self.pick(VECTORS)
        self.number_type = self.dtype(self.vector)
        self.size = aggregate_named(self.vector).size  # type: ignore[union-attr]
        self.others = self.r.sample(VECTORS, 1) + self.r.sample(MATRICES, 1) + self.r.sample(QUATERNIONS, 1)
        self.kinds += [self.compound] * 6 + [self.part] * 5 + [self.struct] * 5 + [self.local] * 4 + [self.element] * 3

    def dtype(self, t: str) -> str:
        found = aggregate_named(t)
        assert found is not None
        return found.dtype.name

    def real_number(self, t: str, depth: int) -> str:
        """Sums and products of small numbers alone, which are exact in any order."""
        e, f = self.expression(t, depth), self.expression(t, depth)
        return self.pick([f"({e} + {f})", f"({e} - {f})", f"(-{e})", f"({e} % 8.0)", f"(({e} * {f}) % 8.0)"])

    def small(self) -> str:
        return self.pick(["q", "n", super().small()])

    def literal(self, t: str) -> str:
        if t in INTS or t == "bool":
            return super().literal(t)
        return f"wp.{t}({self.pick(['0.0', '1.0', '-1.5', '0.5', '3.0', '2.0'])})"

    def converted(self, t: str, depth: int) -> str:
        source = self.pick(self.types)
        e = self.expression(source, depth)
        return f"wp.{t}({e})" if t in INTS or source not in INTS else f"wp.{t}({e} & wp.{source}(7))"

    def clamped(self, t: str, depth: int) -> str:
        v = self.variables.get(self.vector) if t == self.number_type else None
        if not v:
            return super().clamped(t, depth)
        name, k = self.pick(v), self.small()
        e = self.expression(t, 2)
        reads = [f"{name}[{k} % {self.size}]", f"{name}.x", f"total({name})", f"wp.min({name})", f"wp.max({name})"]
        reads += ["h.u", f"h.t[{k} % {self.size}]", f"twice(lessened, {e}, h.u)", "h2.p.u", "h2.c", f"climbed(q, {e})"]
        reads += [f"own[{k} % 3]", f"rows[{k} % 2, {self.small()} % 2]", f"rows[1][{k} % 2]", f"own[::-1][{k} % 3]"]
        reads += [f"wp.dot({name} , {name})" if t in INTS else f"total({name})"]
        return self.pick(reads)

    def whole(self, t: str, depth: int = 0) -> str:
        """An expression whose value is a vector, a matrix or a quaternion."""
        names = self.variables.get(t, [])
        found = aggregate_named(t)
        assert found is not None
        d, exact = found.dtype.name, found.dtype.is_int
        if depth > 1 or self.chance(0.2):
            made = f"wp.{t}({', '.join(self.expression(d, 2) for _ in range(found.size))})"
            return self.pick(names) if names and self.chance(0.7) else made
        a, b = self.whole(t, depth + 1), self.whole(t, depth + 1)
        s = self.expression(d, 2)
        choices = [f"({a} + {b})", f"({a} - {b})", f"(-{a})", f"wp.where({self.condition(2)}, {a}, {b})"]
        choices.append(f"({a} if {self.condition(2)} else {b})")
        if found.kind == "vec":
            rest = f"wp.{t}(wp.{d}({self.pick([3, 5, 8])}))"
            choices += [f"({a} % {rest})", f"wp.cw_mul({a}, {b}) % {rest}", f"({a} * {s}) % {rest}"]
            choices += [f"wp.min({a}, {b})", f"wp.max({a}, {b})", f"wp.abs({a})"] + [f"({a} & {b})"] * exact
            choices += [f"wp.cross({a}, {b}) % {rest}"] * (found.size == 3)
        else:
            choices += [f"(({a} * {b}) * {self.literal(d)})"] * (depth == 0)
        choices += [f"wp.transpose({a})"] * (found.kind == "mat")
        return self.pick(choices)

    # --- statements -----------------------------------------------------------------------------------------

    def compound(self, depth: int, loop: bool) -> None:
        t = self.pick([self.vector, self.vector, *self.others])
        name = self.pick(self.variables[t])
        e = self.whole(t)
        found = aggregate_named(t)
        assert found is not None
        if found.kind != "vec" and loop:  # powers of a matrix are too large to be exact
            e = self.pick(self.variables[t])
        self.line(depth, f"{name} {self.pick(['=', '=', '+=', '-='])} {e}" if not loop else f"{name} = {e}")

    def part(self, depth: int, loop: bool) -> None:
        """A component of a variable, or a few."""
        v, k, e = self.pick(self.variables[self.vector]), self.small(), self.expression(self.number_type, 1)
        m, d = self.pick(self.others), self.size
        steps = [f"{v}[{k} % {d}] = {e}", f"{v}.y = {e}", f"{v}[{k} % {d}] += {e}", f"{v}[:2] = {v}[{d - 2}:]"]
        steps += [f"{v}[-1] = {e}", f"h.t[{k} % {d}] = {e}", f"h2.p.t[{k} % {d}] = {e}"]
        found = aggregate_named(m)
        assert found is not None
        name = self.pick(self.variables[m])
        if found.kind == "mat":
            r, c = found.shape
            at = f"{k} % {r}, {self.small()} % {c}"
            steps += [f"{name}[{at}] = {self.expression(found.dtype.name, 2)}"] * 3
            steps += [f"{name}[{k} % {r}] = {name}[{r - 1}]", f"{name}[0] = {name}[{self.small()} % {r}]"]
        else:
            steps.append(f"{name}[{k} % {found.size}] = {self.expression(found.dtype.name, 2)}")
        self.line(depth, self.pick(steps))

    def struct(self, depth: int, loop: bool) -> None:
        v, k, e = self.pick(self.variables[self.vector]), self.small(), self.expression(self.number_type, 1)
        steps = [f"h = changed(h, {k}, {e})", "h2.p = h", "h = h2.p", f"h2 = Nest(h, {e})", f"h.t = {v}", f"{v} = h.t"]
        steps += [f"h = e[i, {k} % 2]", f"e[i, {k} % 2] = h", f"e[i, {k} % 2].t = {v}", f"e[i, 1].u = {e}"]
        steps += [f"h.n = ({k} + h.n) % 7", f"e[i, {k} % 2].t[{self.small()} % {self.size}] = {e}", "h = Pair()"]
        steps += [f"e[i, {k} % 2] = changed(e[i, {self.small()} % 2], 2, {e})", f"h.u, {v} = turned({e}, {k}, {v})"]
        steps += [f"step(h.u, {v}, {k})", f"step(own[{k} % 3], {v}, 1)", f"{v} = e[i, 0].t", "h = h2.p if q > 2 else h"]
        self.line(depth, self.pick(steps))

    def local(self, depth: int, loop: bool) -> None:
        """Arrays of the thread, views of them and of rows, and loops over both."""
        k, e = self.small(), self.expression(self.number_type, 1)
        steps = [f"own[{k} % 3] = {e}", f"rows[{k} % 2, {self.small()} % 2] = {e}", f"fill(own, {k}, {e})"]
        steps += [f"fill(rows[{k} % 2], {self.small()}, {e})", f"own[{k} % 3] += {e}", f"fill(y[i], {k}, {e})"]
        steps += [f"fill(y[i, ::-1], {k}, {e})", f"tall[{k} % 2] = {self.whole(self.vector, 1)}"]
        steps += [
            f"tall[{k} % 2][{self.small()} % {self.size}] = {e}",
            f"fill(own[1:], {k}, {e})",
            f"q = ({k} + q) % 5",
        ]
        if self.chance(0.25) and depth < 4:
            name = self.name("it")
            over = self.pick(["own", "y[i]", self.pick(self.variables[self.vector]), "rows[1]", "own[::-1]"])
            self.line(depth, f"for {name} in {over}:")
            held = self.variables.setdefault(self.number_type, [])
            self.variables[self.number_type] = [*held, name]
            self.block(2, depth + 1, True)
            self.variables[self.number_type] = held
            return
        if self.chance(0.2) and depth < 4:
            self.line(depth, "for weight in WEIGHTS:")
            self.line(depth + 1, f"h.n = (h.n * weight + {k}) % wp.static(5 + 2)")
            return
        self.line(depth, self.pick(steps))

    def element(self, depth: int, loop: bool) -> None:
        """Whole elements of arrays of vectors and matrices."""
        t = self.pick([self.vector, *self.others])
        name, k = self.pick(self.variables[t]), self.small()
        steps = [f"{name} = w_{t}[i, {k} % 2]", f"w_{t}[i, {k} % 2] = {self.whole(t, 1)}"]
        if t == self.vector:
            at, e = f"w_{t}[i, {k} % 2][{self.small()} % {self.size}]", self.expression(self.number_type, 2)
            steps += [f"{at} = {e}", f"y[i, {k} % 3] = {at}"]
        self.line(depth, self.pick(steps))

    def assign(self, depth: int, loop: bool) -> None:
        if self.chance(0.1):
            t = self.pick([self.vector, *self.others])
            self.line(depth, f"q = wp.where({self.whole(t, 2)} {self.pick(['==', '!='])} {self.whole(t, 2)}, q, 1)")
            return
        super().assign(depth, loop)


def parts(seed: int, known: frozenset[str]) -> Program:
    """A program of values with parts."""
    w = PartWriter(seed, known)
    w.budget = 16
    u = w.number_type
    w.types = sorted({u, "int32"})
    head = HEADER.format(u=u, t=w.vector, size=w.size, last=w.size - 1, depth=w.number(0, 2)).splitlines()
    params, setup, args = ["e: wp.array2d(dtype=Pair)", f"y: wp.array2d(dtype=wp.{u})", "n: int"], [], ["e", "y", "3"]
    numpy = {t: (aggregate_named(t).shape, w.dtype(t)) for t in [w.vector, *w.others]}  # type: ignore[union-attr]
    shape, d = numpy[w.vector]
    setup.append(f"r = np.random.default_rng({w.seed})")
    setup.append(
        f"e = np.zeros(({THREADS}, 2), np.dtype([('u', '{d}'), ('t', '{d}', {shape}), ('n', 'int32')], align=True))"
    )
    setup.append("e['t'] = r.integers(0, 5, e['t'].shape); e['n'] = r.integers(0, 9, e.shape); e['u'] = 2")
    setup.append(f"y = r.integers(0, 7, ({THREADS}, 3)).astype('{u}')")
    w.line(1, "i = wp.tid()")
    for t in dict.fromkeys([w.vector, *w.others]):
        shape, d = numpy[t]
        name = f"w_{t}"
        params.append(f"{name}: wp.array2d(dtype=wp.{t})")
        args.append(name)
        setup.append(f"{name} = r.integers(0, 4, ({THREADS}, 2, *{shape})).astype('{d}')")
        w.declare(1, t, f"{name}[i, 0]")
        w.declare(1, t, f"{name}[i, 1]")
    w.declare(1, u, "y[i, 0]")
    w.declare(1, u, "y[i, 1]")
    if u != "int32":
        w.declare(1, "int32", "e[i, 0].n")
    w.line(1, "q = int(1)")
    w.line(1, "h = e[i, 1]")
    w.line(1, f"h2 = Nest(h, {w.variables[u][0]})")
    w.line(1, f"own = wp.zeros(shape=(3,), dtype=wp.{u})")
    w.line(1, f"rows = wp.zeros(shape=(2, 2), dtype=wp.{u})")
    w.line(1, f"tall = wp.zeros(shape=(2,), dtype=wp.{w.vector})")
    while w.budget > 4:
        w.statement(1, False)
    w.line(1, "e[i, 0] = h")
    w.line(1, f"y[i, 2] = own[q % 3] + rows[1, q % 2] + tall[q % 2][0] + h2.c + {w.variables[u][0]}")
    w.line(1, "e[i, 1] = h2.p")
    for t in dict.fromkeys([w.vector, *w.others]):
        w.line(1, f"w_{t}[i, 0] = {w.variables[t][0]}")
    setup += layouts(w, ["y"])
    setup.append(f"memory += [e, {', '.join(a for a in args if a.startswith('w_'))}]")
    setup.append(f"args = [{', '.join(args)}]")
    return finished("parts", w, head, params, setup, sizes(w), settings_of(w))
