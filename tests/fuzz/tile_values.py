"""Random expressions that are tiles or numbers, for the programs of ``tiles.py``."""

from __future__ import annotations

import math

from tests.fuzz.numbers import INTS
from tests.fuzz.writing import Writer

Shape = tuple[int, ...]
SMALL_SIZES = (1, 2, 3, 4, 5, 7)
SIZES = (*SMALL_SIZES, *SMALL_SIZES, 9, 17)


class TileValues(Writer):
    """Expressions of tiles of ``dtype`` and of numbers.

    Tiles ``t1``, ... are assigned; ``m1``, ... change in place, and parts ``p1``, ... of them have names.
    """

    def __init__(self, seed: int, known: frozenset[str], dtype: str, *, differentiable: bool) -> None:
        super().__init__(seed, known)
        self.d, self.differentiable = dtype, differentiable
        self.is_float = dtype not in INTS
        self.R, self.C = self.pick(SIZES), self.pick(SIZES)
        if self.R * self.C > 60 and self.chance(0.6):
            self.R = self.pick((1, 2, 3))
        self.shapes: list[Shape] = [(self.R, self.C), (self.R, self.C), (self.R,), (self.C,), (self.C, self.R)]
        self.shapes += [
            (self.R, self.R),
            (1, self.C),
            (self.R * self.C,),
            (1,),
            (2, self.R, self.C),
            (1, self.R, 2, self.C),
        ]
        self.scalars = ["a", "b"]
        self.stacks: list[str] = []

    # --- names ----------------------------------------------------------------------------------------------

    def key(self, kind: str, shape: Shape) -> str:
        return f"{kind}{shape}"

    def names(self, shape: Shape, kinds: str = "tmp") -> list[str]:
        return [n for kind in kinds for n in self.variables.get(self.key(kind, shape), [])]

    def known_shapes(self, kinds: str = "tmp", least: int = 1) -> list[Shape]:
        found = [s for s in dict.fromkeys(self.shapes) if self.names(s, kinds) and len(s) >= least]
        return found

    def variable(self, kinds: str, least: int = 1) -> tuple[str, Shape]:
        shape = self.pick(self.known_shapes(kinds, least))
        return self.pick(self.names(shape, kinds)), shape

    def literal(self) -> str:
        if self.d in INTS:
            return f"wp.{self.d}({self.number(0, 5)})"
        if self.d == "float16":
            return f"wp.float16({self.number(-1, 2)})"
        return f"wp.{self.d}({self.pick(['0.5', '1.0', '2.0', '-1.0', '0.25' if self.differentiable else '3.0'])})"

    # --- numbers --------------------------------------------------------------------------------------------

    def small(self) -> str:
        return self.pick([*self.loops, *self.loops, "q", "n", "i % 3", "2"])

    def index(self, n: int) -> str:
        if self.chance(0.3):
            return str(self.number(-n, n - 1))
        return f"{self.small()} % {n}" if n > 1 else "0"

    def place(self, kinds: str = "tmp") -> str:
        """An element."""
        name, shape = self.variable(kinds)
        if len(shape) > 1 and self.chance(0.2):
            return f"{name}[{self.index(shape[0])}][{', '.join(map(self.index, shape[1:]))}]"
        return f"{name}[{', '.join(map(self.index, shape))}]"

    def number_value(self, depth: int = 0) -> str:
        """An expression of type ``dtype``."""
        forms = [self.pick(self.scalars), self.place(), self.literal()]
        if depth < 2:
            e, f = self.number_value(depth + 1), self.number_value(depth + 1)
            shape = self.pick(self.known_shapes())
            forms += [
                f"({e} + {f})",
                f"({e} - {f})",
                f"fold({e} * {f})",
                f"wp.tile_extract({self.whole((self.R,))}, {self.index(self.R)})",
            ]
            forms += [f"fold(wp.tile_{self.pick(['sum', 'max', 'min'])}({self.value(shape, depth + 2)})[0])"]
            forms += [f"wp.untile(wp.tile({e}))"]
        return self.pick(forms)

    def condition(self) -> str:
        k = self.number(0, 4)
        forms = [f"i > {k}", f"i % 3 == {k % 3}", f"q < {k}", f"n > {k}", f"i + q < {k + 2}"]
        return self.pick([*forms, f"{self.place()} > {self.literal()}", f"{self.pick(self.scalars)} < {self.place()}"])

    # --- tiles ----------------------------------------------------------------------------------------------

    def whole(self, shape: Shape) -> str:
        """A variable of that shape, or else a new tile."""
        names = self.names(shape)
        return self.pick(names) if names else f"wp.tile_full(shape={self.text(shape)}, value={self.pick(self.scalars)})"

    def text(self, shape: Shape) -> str:
        return str(shape[0]) if len(shape) == 1 and self.chance(0.5) else str(shape)

    def folded(self, e: str) -> str:
        return f"wp.tile_map(fold, {e})" if self.is_float else e

    def spd(self, n: int, depth: int) -> str:
        """A positive definite matrix."""
        e = f"wp.tile_map(wp.sin, {self.value((n, n), depth + 1)})"
        name = self.whole((n, n))
        big = f"wp.tile_full(shape={n}, value=wp.float64({n + 1}.0))"
        product = self.pick(
            [
                f"wp.tile_matmul({e}, wp.tile_transpose(wp.tile_zeros(({n}, {n}), wp.float64)))",
                f"wp.tile_map(wp.sin, {name} + wp.tile_transpose({name}))",
            ]
        )
        return f"wp.tile_diag_add({product}, {big})"

    def value(self, shape: Shape, depth: int = 0) -> str:
        """An expression that is a tile of that shape."""
        names = self.names(shape)
        if depth > 2 or self.chance(0.15):
            return self.pick(names) if names and self.chance(0.8) else self.source(shape)
        e, f = (lambda: self.value(shape, depth + 1)), (lambda: self.value(shape, depth + 1))
        forms = [
            lambda: f"({e()} + {f()})",
            lambda: f"({e()} - {f()})",
            lambda: self.folded(f"({e()} * {f()})"),
            lambda: self.folded(f"({self.number_value(2)} * {e()})"),
            lambda: self.folded(f"({e()} * {self.number_value(2)})"),
            lambda: f"(-{e()})",
            lambda: f"wp.tile_map(mixed, {e()}, {f()}, {self.number_value(2)})",
            lambda: f"wp.tile_map(wp.{self.pick(['max', 'min', 'add'])}, {e()}, {f()})",
            lambda: f"wp.tile_where(wp.tile_map(wp.gt, {e()}, {f()}), {e()}, {self.pick([f(), self.literal()])})",
            lambda: self.source(shape),
            lambda: self.moved(shape, depth),
            lambda: self.moved(shape, depth),
            lambda: self.reduced(shape, depth),
            lambda: self.reduced(shape, depth),
            lambda: self.scanned(shape, depth),
        ]
        if len(shape) == 2:
            forms += [lambda: self.product(*shape, depth)] * 3
        if shape == (self.R, self.C):
            forms += [lambda: f"made({e()}, {self.number_value(2)})"]
        if shape == (self.R, self.R):
            d = lambda: self.value((self.R,), depth + 1)  # noqa: E731
            forms += [lambda: f"wp.tile_diag_add({e()}, {d()})"]
        if self.d in INTS:
            forms += [lambda: f"({e()} {self.pick('&|^')} {f()})"] * 2
        if self.differentiable:
            forms += [lambda: f"wp.tile_map(wp.{self.pick(['sin', 'tanh', 'cos'])}, {e()})"] * 4
            forms += [lambda: f"({e()} / wp.tile_map(wp.exp, wp.tile_map(wp.sin, {f()})))"]
            forms += [lambda: f"rotations({e()}, {f()}, {self.number_value(2)})"]
            if depth < 2 and len(shape) <= 2:
                forms += [lambda: f"{self.pick(['spectrum', 'backwards'])}({e()}, {f()})"] * 2
            if depth < 2 and len(shape) <= 2 and shape[0] <= 5:
                forms += [lambda: self.solved(shape, depth)] * 2
        elif self.chance(0.3):
            other = self.pick(["int64", "float64", "int32", "float16", "bfloat16"])
            forms += [lambda: f"wp.tile_astype(wp.tile_astype({self.folded(e())}, wp.{other}), dtype=wp.{self.d})"]
        return self.pick(forms)()

    def source(self, shape: Shape) -> str:
        """A new tile."""
        text = self.text(shape)
        forms = [f"wp.tile_{self.pick(['zeros', 'ones'])}(shape={text}, dtype=wp.{self.d})"]
        forms += [f"wp.tile_full(shape={text}, value={self.pick(self.scalars)})"]
        forms += [f"wp.tile_full({text}, {self.number(0, 4)}, dtype=wp.{self.d})"]
        if len(shape) == 1:
            n = shape[0]
            down = [f"{2 * n}, 0, -2"] * (not self.d.startswith("u"))
            forms += [f"wp.tile_arange({self.pick([f'{n}', f'1, {n + 1}', *down])}, dtype=wp.{self.d})"]
        if self.d == "int32":
            forms += [f"wp.tile_randi(shape={text}, rng=wp.uint32(i * 7 + {self.small()}))"]
        forms += [self.loaded(shape)] * 6
        return self.pick(forms)

    def offset(self, shape: Shape, own: bool) -> str:
        """A place in an array, near its edges."""
        first = [f"{self.small()} - 1", "0", f"{self.number(-3, 3)}"] + [
            f"i * {shape[0]}",
            f"i - {self.number(0, 2)}",
        ] * (not own)
        at = [self.pick(first)] + [self.pick(["0", f"{self.small()} - 1", f"{self.number(-3, 3)}"]) for _ in shape[1:]]
        return (
            at[0]
            if len(at) == 1 and self.chance(0.5)
            else f"({', '.join(at)},)"
            if len(at) == 1
            else f"({', '.join(at)})"
        )

    def array(self, ndim: int) -> tuple[str, bool]:
        """An array, and whether it is the thread's own."""
        if ndim in (1, 2) and self.chance(0.4):
            return {1: "y[i, 0]", 2: "y[i]"}[ndim], True
        return f"x{ndim}", False

    def loaded(self, shape: Shape) -> str:
        a, own = self.array(len(shape))
        more = self.pick(["", ', storage="shared"', ", aligned=True"])
        if self.chance(0.2) and len(shape) < 4:
            axis = self.number(0, len(shape) - 1)
            where = f"shape={self.text(shape)}, offset={self.offset(shape, own)}, axis={axis}"
            return f"wp.tile_load_indexed({a}, {self.indices(shape[axis])}, {where})"
        place = f", offset={self.offset(shape, own)}" if self.chance(0.8) else ""
        return f"wp.tile_load({a}, shape={self.text(shape)}{place}{more})"

    def indices(self, n: int) -> str:
        """Distinct indices as a tile, backwards or forwards."""
        return self.pick(
            [
                f"wp.tile_arange({n}, dtype=int)",
                f"wp.tile_arange({n - 1}, -1, -1, dtype=int)",
                f"wp.tile_arange(1, {2 * n}, 2, dtype=int)",
            ]
        )

    def moved(self, shape: Shape, depth: int) -> str:
        """A tile whose elements are those of another one."""
        count = math.prod(shape)
        forms = []
        for other in self.shapes:
            if other != shape and math.prod(other) == count:
                forms.append(
                    lambda other=other: f"wp.tile_reshape({self.value(other, depth + 1)}, shape={self.reshaped(shape)})"
                )
            if len(other) > len(shape) and tuple(n for n in other if n != 1) == shape:
                forms.append(lambda other=other: f"wp.tile_squeeze({self.value(other, depth + 1)})")
            if (
                other != shape
                and len(other) <= len(shape)
                and all(n in (1, m) for n, m in zip(other[::-1], shape[::-1], strict=False))
            ):
                forms.append(
                    lambda other=other: f"wp.tile_broadcast({self.value(other, depth + 1)}, shape={self.text(shape)})"
                )
            if len(other) == len(shape) + 1 and other[1:] == shape:
                forms.append(lambda other=other: f"{self.whole_variable(other)}[{self.index(other[0])}]")
            if len(other) == len(shape) + 1 and other[:-1] == shape:
                colons = ":, " * len(shape)
                forms.append(
                    lambda other=other, colons=colons: f"{self.whole_variable(other)}[{colons}{self.index(other[-1])}]"
                )
        if len(shape) == 2:
            forms.append(lambda: f"wp.tile_transpose({self.value(shape[::-1], depth + 1)})")
        colons = ", :" * (len(shape) - 1)
        forms.append(lambda: f"{self.whole_variable(shape)}[{self.indices_within(shape[0])}{colons}]")
        forms.append(lambda: f"{self.whole_variable(shape)}[{', '.join([self.pick(['::-1', ':']) for _ in shape])}]")
        return self.pick(forms)()

    def reshaped(self, shape: Shape) -> str:
        if self.chance(0.3):
            k = self.number(0, len(shape) - 1)
            shape = (*shape[:k], -1, *shape[k + 1 :])
        return str(shape)

    def indices_within(self, n: int) -> str:
        return self.pick(
            [
                f"wp.tile_arange({n}, dtype=int)",
                f"wp.tile_arange({n - 1}, -1, -1, dtype=int)",
                f"wp.tile_full(shape={n}, value=int({self.number(-n, n - 1)}))",
            ]
        )

    def whole_variable(self, shape: Shape) -> str:
        names = self.names(shape)
        return self.pick(names) if names else f"wp.tile_reshape({self.source((math.prod(shape),))}, shape={shape})"

    def reduced(self, shape: Shape, depth: int) -> str:
        forms = []
        for other in self.shapes:
            for axis in range(len(other)):
                if (other[:axis] + other[axis + 1 :] or (1,)) == shape:
                    forms.append((other, self.pick([axis, axis - len(other)])))
        if shape == (1,) and self.chance(0.7):
            e = lambda: self.value(self.pick(self.shapes), depth + 1)  # noqa: E731
            forms_one = [
                lambda: f"wp.tile_{self.pick(['max', 'min'])}({e()})",
                lambda: self.folded(f"wp.tile_sum({self.folded(e())})"),
            ]
            forms_one += [lambda: f"wp.tile_reduce(greater, {e()})"]
            other = self.pick(self.shapes)
            g = lambda: self.folded(self.value(other, depth + 1))  # noqa: E731
            forms_one += [lambda: self.folded(f"wp.tile_dot({g()}, {g()})")]
            if not self.differentiable:
                forms_one += [lambda: f"wp.tile_astype(wp.tile_arg{self.pick(['max', 'min'])}({e()}), wp.{self.d})"]
            return self.pick(forms_one)()
        if not forms:
            return self.source(shape)
        other, axis = self.pick(forms)
        e = self.value(other, depth + 1)
        choices = [
            self.folded(f"wp.tile_sum({self.folded(e)}, axis={axis})"),
            f"wp.tile_reduce(wp.{self.pick(['max', 'min'])}, {e}, axis={axis})",
        ]
        return self.pick([*choices, f"wp.tile_reduce(greater, {e}, axis={axis})"])

    def scanned(self, shape: Shape, depth: int) -> str:
        e = self.value(shape, depth + 1)
        kind = self.pick(["inclusive", "exclusive", "max_inclusive", "min_inclusive"])
        if kind.startswith("m"):
            return f"wp.tile_scan_{kind}({e})"
        return self.folded(f"wp.tile_scan_{kind}({self.folded(e)})")

    def factor(self, m: int, k: int, depth: int) -> str:
        if self.chance(0.4):
            return f"wp.tile_transpose({self.folded(self.value((k, m), depth + 1))})"
        return self.folded(self.value((m, k), depth + 1))

    def product(self, m: int, n: int, depth: int) -> str:
        if not self.is_float:
            return self.moved((m, n), depth)
        k = self.pick([1, self.R, self.C])
        scale = self.pick(["", "", ", alpha=2.0", f", alpha={self.literal()}"])
        return self.folded(f"wp.tile_matmul({self.factor(m, k, depth)}, {self.factor(k, n, depth)}{scale})")

    def solved(self, shape: Shape, depth: int) -> str:
        """Factors and solves, of float64."""
        n = shape[0]
        e = self.value(shape, depth + 1)
        matrix = self.spd(n, depth)
        forms = [f"wp.tile_{self.pick(['lower', 'upper'])}_solve({matrix}, {e})"]
        forms += [f"wp.tile_cholesky_solve(wp.tile_cholesky({matrix}), {e})"] * 2
        forms += [f'wp.tile_cholesky_solve(wp.tile_cholesky({matrix}, fill_mode="upper"), {e}, fill_mode="upper")']
        if shape == (n, n):
            forms += [f"wp.tile_cholesky({matrix})", f'wp.tile_cholesky({matrix}, fill_mode="upper")'] * 2
        return self.pick(forms)
