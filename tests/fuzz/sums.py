"""Small programs that add to one array at several kinds of index, or write one value together."""

from __future__ import annotations

from tests.fuzz.numbers import finished
from tests.fuzz.program import Program
from tests.fuzz.writing import Writer

LARGEST = 35
INDICES = {
    "own": ["i"],
    "one": ["0", "2", "-1", "s"],
    "near": ["i + 1", "i + 2", "i + s", "n - 1 - i", "2 * i", "i // 2", "i * s"],
    "gathered": ["g[i]", "g[i + 1]", "i % 3", "(i * 5) % 8", "p[i]", "g[g[i]]"],
    "loop": ["j", "j + 1", "i + j", "j % 2"],
}
UPDATES = ["{a}[{k}] += {v}", "wp.atomic_add({a}, {k}, {v})", "{a}[{k}] -= {v}", "wp.atomic_sub({a}, {k}, {v})"]


class SumWriter(Writer):
    """Updates of ``a``, which may be known by a second name."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(["int32", "float32", "float64", "int64", "uint32", "float16", "vec3", "vec2i", "vec2d"])
        self.budget = self.number(4, 9)
        self.indices = list(INDICES) if "sums" in known else [self.pick(["own", "one", "near", "gathered"])]
        self.names = self.pick([["a"], ["a"], ["a", "b"]])
        self.kinds = [self.sum] * 6 + [self.if_, self.for_, self.value, self.leave]

    def condition(self) -> str:
        k = self.number(0, 5)
        return self.pick(
            [f"i > {k}", f"i % 3 == {k % 3}", f"g[i] < {k}", "s > 1", f"i == {k}", f"i + {k} < n", "q < 3"]
        )

    def small(self) -> str:
        return self.pick(["s", "g[i]", "i % 4", "2"])

    def vector(self) -> bool:
        return self.t.startswith("vec")

    def amount(self) -> str:
        e = self.pick(["1", "x[i]", "x[0]", "x[g[i]]", "q", "i % 4", "x[i] * s", *self.loops])
        if self.vector():
            scalar = {"vec3": "float32", "vec2i": "int32", "vec2d": "float64"}[self.t]
            return f"wp.{self.t}(wp.{scalar}({e}))"
        return f"wp.{self.t}({e})"

    def sum(self, depth: int, loop: bool) -> None:
        kinds = [k for k in self.indices if k != "loop" or self.loops]
        at = self.pick(INDICES[self.pick(kinds)]).replace("j", self.loops[-1] if self.loops else "j")
        if self.vector() and self.chance(0.3):
            part = self.amount().split("(", 1)[1][:-1]
            self.line(depth, f"{self.pick(self.names)}[{at}][{self.pick(['0', '1'])}] += {part}")
            return
        self.line(depth, self.pick(UPDATES).format(a=self.pick(self.names), k=at, v=self.amount()))

    def value(self, depth: int, loop: bool) -> None:
        self.line(
            depth, self.pick(["q = x[i] % 5", "q += 1", f"f[{self.pick(['0', 's', 'g[i]', 'i'])}] = 7", "o[i] = q"])
        )


def sums(seed: int, known: frozenset[str]) -> Program:
    """A program of sums."""
    return summing("sums", SumWriter(seed, known), [], [])


def summing(kind: str, w: SumWriter, above: list[str], more: list[str]) -> Program:
    """The program that a writer makes, whose kernel has ``more`` parameters behind the others."""
    size = 3 * LARGEST
    params = ["n: int", "s: int", "x: wp.array(dtype=int)", "g: wp.array(dtype=int)", "p: wp.array(dtype=int)"]
    params += ["f: wp.array(dtype=int)", "o: wp.array(dtype=int)"]
    params += [f"{name}: wp.array(dtype=wp.{w.t})" for name in w.names]
    params += more
    w.line(1, "i = wp.tid()")
    w.line(1, "q = int(1)")
    while w.budget > 0:
        w.statement(1, False)
    w.line(1, "o[i] = q")
    shape = f"({size}, {w.t[3]})" if w.vector() else str(size)
    dtype = {"vec3": "float32", "vec2i": "int32", "vec2d": "float64"}.get(w.t, w.t)
    setup = [f"r = np.random.default_rng({w.seed})", f"a = np.ones({shape}, '{dtype}')"]
    setup.append(f"b = {w.pick(['a', 'a', 'a[1:]', 'a.copy()'])}")
    setup += [f"x = r.integers(0, 4, {LARGEST + 6}).astype('int32')", f"g = r.integers(0, 5, {size}).astype('int32')"]
    setup += [f"p = r.permutation({LARGEST}).astype('int32')", f"f, o = np.zeros((2, {size}), 'int32')"]
    setup += ["memory = [a, b, f, o]", f"args = [dims[0], {w.number(0, 2)}, x, g, p, f, o, {', '.join(w.names)}]"]
    others = [
        {"vector_width": w.pick([1, 4, 8, 16])},
        {"device": "emulated"},
        {"deterministic": True},
        {"max_unroll": 0},
    ]
    grids = [(k,) for k in sorted({*w.r.sample([0, 1, 3, 4, 5, 8, 16, 17, 32], 3), LARGEST})]
    return finished(kind, w, above, params, setup, grids, ({}, *w.r.sample(others, 2)))
