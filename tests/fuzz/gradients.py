"""Programs of float64 with gradients: loops, updates in place, sums and reads at every kind of index."""

from __future__ import annotations

from typing import Any

from tests.fuzz.program import Program
from tests.fuzz.writing import Writer

THREADS = 19
READS = {
    "own": ["i"],
    "one": ["0", "2", "s", "-1"],
    "near": ["i + 1", "i + 2", "i + s", "n - 1 - i", "i // 2", "2 * i"],
    "gathered": ["g[i]", "g[i + 1]", "(i * 5) % 8", "i % 3"],
    "loop": ["j", "i + j", "j + 1", "j % 2"],
}
REFUSALS = (
    "the gradient needs the derivative of what this atomic finds",
    "the result of an atomic can't be recomputed for the gradient",
    "which the same kernel updates by atomics",
    "the old value that an atomic returns has no tangent",
)
FUNCTIONS = """\
@wp.func
def bent(a: wp.float64, b: wp.float64):
    if a > wp.float64(0.3):
        return wp.sin(b) * a
    return wp.tanh(a * b)


@wp.func
def rolled(a: wp.float64, b: wp.float64, n: int):
    for _ in range(n):
        a = a - wp.float64(0.3) * b
        b = b + wp.float64(0.2) * wp.sin(a)
    return a, b


"""


class GradientWriter(Writer):
    """Statements about floats whose values stay moderate."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.budget = self.number(5, 12)
        kinds = list(READS)[:4]
        self.indices = {a: list(READS) if "sums" in known else [self.pick(kinds)] for a in ("x", "z", "acc")}
        self.floats = ["a", "b"]
        self.kinds += [self.assign] * 4 + [self.store] * 5 + [self.sum] * 3 + [self.own] * 2 + [self.count]
        self.kinds += [self.collide] * ("stores" in known) + [self.returned] * ("old" in known)

    def index(self, array: str) -> str:
        kinds = [k for k in self.indices[array] if k != "loop" or self.loops]
        return self.pick(READS[self.pick(kinds)]).replace("j", self.loops[-1] if self.loops else "j")

    def small(self) -> str:
        return self.pick([*self.loops, *self.loops, "q", "s", "g[i]", "i % 3"])

    def condition(self) -> str:
        k = self.number(0, 4)
        forms = [f"i > {k}", f"i % 3 == {k % 3}", f"g[i] < {k}", f"q < {k}", f"i + {k} < n"]
        return self.pick(
            [*forms, f"{self.pick(self.floats)} > wp.float64(0.2{k})", f"{self.place()} < wp.float64(0.6)"]
        )

    def place(self) -> str:
        """An element of the thread's own."""
        k = self.small()
        return self.pick([f"y[i, {k} % 3]", f"y[i][{k} % 3]", f"y[i, ::-1][{k} % 3]", f"w[i][{k} % 3]", f"t[{k} % 3]"])

    def atom(self) -> str:
        reads = [f"{name}[{self.index(name)}]" for name in "xz"]
        return self.pick(
            [*self.floats, *self.floats, *reads, self.place(), "wp.float64(0.7)", f"wp.float64({self.small()})"]
        )

    def expression(self, depth: int = 0) -> str:
        if depth > 2:
            return self.atom()
        e, f = self.atom(), self.expression(depth + 1)
        return self.pick(
            [
                *(e, f"wp.sin({e}) * {f}", f"({e} + {f} * wp.float64(0.5))", f"({e} - {f})", f"wp.tanh({e} * {f})"),
                *(
                    f"{e} / ({f} * {f} + wp.float64(1.0))",
                    f"wp.exp(-({f} * {f}))",
                    f"wp.sqrt({f} * {f} + wp.float64(0.5))",
                ),
                *(
                    f"wp.min({e}, {f})",
                    f"wp.max({e}, {f})",
                    f"wp.where({self.condition()}, {e}, {f})",
                    f"bent({e}, {f})",
                ),
                *(f"({e} if {self.condition()} else wp.cos({f}))", f"(-{f})", f"wp.clamp({f}, wp.float64(-0.9), {e})"),
                f"wp.dot(w[i], wp.vec3d({e}, {f}, a)) * wp.float64(0.3)",
            ]
        )

    # --- statements -----------------------------------------------------------------------------------------

    def assign(self, depth: int, loop: bool) -> None:
        name, e = self.pick(self.floats), self.expression()
        steps = [f"{name} = {e}", f"{name} += wp.float64(0.2) * {e}", f"{name} *= wp.cos({e})", "a, b = b, a"]
        self.line(depth, self.pick([*steps, f"a, b = rolled(a, wp.sin(b), {self.pick(['2', 'q', 's', 'g[i]'])})"]))

    def store(self, depth: int, loop: bool) -> None:
        place, e = self.place(), self.expression()
        steps = [f"{place} = {e}", f"{place} = wp.sin({place}) * {e}", f"{place} *= wp.cos({e})"]
        self.line(
            depth, self.pick([*steps, f"{place} = {place} * wp.float64(0.5) + {e}", f"w[i] = w[i] * wp.cos({e})"])
        )

    def sum(self, depth: int, loop: bool) -> None:
        at, e = self.index("acc"), self.expression()
        forms = [f"acc[{at}] += {e}", f"acc[{at}] -= {e}", f"wp.atomic_add(acc, {at}, {e})"]
        self.line(depth, self.pick([*forms, f"wp.atomic_sub(acc, {at}, {e})"]))

    def own(self, depth: int, loop: bool) -> None:
        self.line(depth, f"t[{self.small()} % 3] = {self.expression()}")

    def count(self, depth: int, loop: bool) -> None:
        self.line(depth, self.pick(["q += 1", f"q = ({self.small()} + q) % 5"]))

    def collide(self, depth: int, loop: bool) -> None:
        """Every thread that comes by writes the same value."""
        self.line(depth, f"f[{self.pick(['0', 's', 'g[i]'])}] = wp.sin(x[1]) * x[2]")

    def returned(self, depth: int, loop: bool) -> None:
        """What an addition to an own element returns."""
        self.line(depth, f"a += wp.atomic_add(u, i, {self.expression(1)})")


def gradients(seed: int, known: frozenset[str]) -> Program:
    """A program with gradients."""
    return differentiable("gradients", GradientWriter(seed, known), FUNCTIONS, [])


def differentiable(kind: str, w: GradientWriter, above: str, last: list[str]) -> Program:
    """The program that a writer makes, with the statements ``last`` at its end."""
    arrays = {"x": 1, "z": 1, "y": 2, "w": 0, "acc": 1, "f": 1, "u": 1}
    kinds = {0: "wp.array(dtype=wp.vec3d)", 1: "wp.array(dtype=wp.float64)", 2: "wp.array2d(dtype=wp.float64)"}
    params = [*(f"{name}: {kinds[k]}" for name, k in arrays.items()), "g: wp.array(dtype=int)", "n: int", "s: int"]
    for text in ("i = wp.tid()", "q = int(1)", f"a = x[{w.index('x')}]", "b = y[i, 0]"):
        w.line(1, text.replace("= x[j", "= x[0"))
    w.line(1, "t = wp.zeros(shape=(3,), dtype=wp.float64)")
    while w.budget > 0:
        w.statement(1, False)
    w.line(1, f"y[i, 1] = {w.expression()}")
    w.line(1, "y[i, 2] = a * b + t[0]")
    for text in last:
        w.line(1, text)
    head = [above + "@wp.kernel", f"def k({', '.join(params)}):"]
    size = 2 * THREADS + 6
    setup = [f"r = np.random.default_rng({w.seed})"]
    setup += [f"{name} = r.uniform(-1.2, 1.2, {size})" for name in ("x", "z", "acc", "f", "u")]
    setup += [f"y, w = r.uniform(-1.2, 1.2, (2, {THREADS}, 3))", f"g = r.integers(0, 5, {size}).astype('int32')"]
    setup += [f"memory = [{', '.join(arrays)}]", f"args = [*memory, g, dims[0], {w.number(0, 2)}]"]
    others: list[dict[str, Any]] = [
        {"vector_width": 1},
        {"max_unroll": 0},
        {"deterministic": True},
        {"device": "emulated"},
    ]
    settings = ({}, {"vector_width": w.pick([4, 8, 16]), "checkpoint_loops": w.chance(0.5)}, w.pick(others))
    surplus = w.pick([(2,), (3,), (1, 2)]) if w.chance(0.15) else ()  # several threads get each index
    grids = ((w.pick([1, 4, 5, 16, 17, THREADS, THREADS]), *surplus),)
    source = "\n".join([*head, *w.lines]) + "\n"
    return Program(kind, w.seed, source, "\n".join(setup) + "\n", grids, settings, tuple(range(len(arrays))), REFUSALS)
