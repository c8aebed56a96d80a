"""Programs of tiles: parts that are written through, operators, maps, reductions, products, factors, functions.

``tiles`` has exact numbers of many types, and elements with parts; ``tile_gradients`` has float64 and gradients.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tests.fuzz.numbers import INTS, layouts
from tests.fuzz.program import Program
from tests.fuzz.tile_values import Shape, TileValues
from tests.fuzz.writing import Writer

THREADS = 5
REFUSALS = (
    "the gradient needs the derivative of what this atomic finds",
    "the result of an atomic can't be recomputed for the gradient",
    "which the same kernel updates by atomics",
    "the old value that an atomic returns has no tangent",
    "was assigned another one",
    "are one element of",
    "gets another value here, which the caller would not see",
    "can't become a part of the tile",
    "and the loop assigns",
    "is another function or type in each iteration",
    "depending on the path that leads here",
)
FUNCTIONS = """\
@wp.func
def fold(x: wp.{d}):
    return {fold}


@wp.func
def mixed(x: wp.{d}, y: wp.{d}, s: wp.{d}):
    if x > y:
        return {mixed}
    return y


@wp.func
def greater(x: wp.{d}, y: wp.{d}):
    return wp.max(x, y)


@wp.func
def changed(t: Any, s: wp.{d}):
    t *= s
    first = t[0]
    return first


@wp.func
def through(f: wp.Function, t: Any, s: wp.{d}, n: int):
    part = t[0]
    f(part, s, n)


@wp.func
def made(t: wp.tile[wp.{d}, {R}, {C}], s: wp.{d}):
    u = t + t
    u[0, {C} - 1] = s
    return u


"""
TRANSFORMS = """\
@wp.func
def complex_number(x: wp.float64, y: wp.float64):
    return wp.vec2d(x, y)


@wp.func
def magnitude(z: wp.vec2d):
    return wp.sin(z[0] - z[1] * wp.float64(0.5))


@wp.func
def spectrum(x: Any, y: Any):
    z = wp.tile_map(complex_number, x, y)
    wp.tile_fft(z)
    return wp.tile_map(magnitude, z)


@wp.func
def backwards(x: Any, y: Any):
    z = wp.tile_map(complex_number, x, y)
    wp.tile_ifft(z)
    return wp.tile_map(magnitude, z)


@wp.func
def spin(x: wp.float64, y: wp.float64, s: wp.float64):
    return wp.quatd(wp.sin(x), y, s, wp.float64(1.5))


@wp.func
def turned(q: wp.quatd, x: wp.float64):
    p = q * q
    return p[0] + p[2] * wp.sin(x) + q[3]


@wp.func
def rotations(x: Any, y: Any, s: wp.float64):
    q = wp.tile_map(spin, x, y, s)
    return wp.tile_map(wp.sin, wp.tile_map(turned, q + q, y))


"""
PARTS = """\
@wp.struct
class Pair:
    u: wp.{d}
    v: wp.{vec}


@wp.func
def spun(q: wp.{vec}, s: wp.{d}):
    q[0] = q[1] + s
    return q


@wp.func
def paired(p: Pair, s: wp.{d}):
    p.u = p.v[0] - s
    p.v = p.v + p.v
    return p


@wp.func
def rest(q: wp.{vec}):
    return q % wp.{vec}(wp.{d}(8))


"""
LENGTHS = (6, 9, 10, 12, 14, 15, 17, 22, 34)
WORDS = ("int32", "uint32", "int64")
HALF = "float16"
EXACT = {"int32": "vec3i", "uint8": "vec2ub", "int16": "vec3s", "int64": "vec2l", "uint32": "vec4ui", "float32": "vec3"}


class TileWriter(TileValues):
    """Statements about tiles.

    Attributes:
        shifts: The numbers of the functions that shift tiles, by shape.
        stacks: The names of stacks.
    """

    def __init__(self, seed: int, known: frozenset[str], dtype: str, *, differentiable: bool) -> None:
        super().__init__(seed, known, dtype, differentiable=differentiable)
        self.shifts: dict[Shape, int] = {}
        self.stacks = ["s0"]
        self.kinds += [self.assign] * 4 + [self.declare_tile] * 2 + [self.declare_part] * 3 + [self.in_place] * 4
        self.kinds += [self.element] * 4 + [self.part] * 4 + [self.function] * 3 + [self.named] * 4 + [self.store] * 3
        self.kinds += [self.number_] * 2 + [self.stack]
        self.kinds += [self.atomic] * 2 * (dtype in WORDS or (self.is_float and dtype != HALF))
        extremes = ["min", "max"] * (not differentiable)  # which are those of equal numbers, differences can't tell
        self.updates = [self.pick(["add", "add", *extremes]) for _ in range(2)]

    def fits(self, kind: Any, depth: int, loop: bool) -> bool:
        if kind in (self.declare_part, self.part) and not self.known_shapes("mp"):
            return False
        return super().fits(kind, depth, loop)

    def new(self, depth: int, kind: str, shape: Shape, value: str) -> str:
        if shape not in self.shapes:
            self.shapes.append(shape)
        return self.declare(depth, self.key(kind, shape), value, start=kind)

    def assign(self, depth: int, loop: bool) -> None:
        shape = self.pick(self.known_shapes("t"))
        names = self.names(shape, "t")
        if len(names) > 1 and self.chance(0.2):
            x, y = self.r.sample(names, 2)
            self.line(depth, f"{x}, {y} = {y}, {x}")
            return
        self.line(depth, f"{self.pick(names)} = {self.value(shape)}")

    def declare_tile(self, depth: int, loop: bool) -> None:
        shape = self.pick(self.shapes)
        self.new(depth, self.pick("tm"), shape, self.value(shape))

    def view_of(self, name: str, shape: Shape) -> tuple[str, Shape]:
        """A part of a variable's tile, and its shape."""
        forms: list[tuple[str, Shape]] = []
        if len(shape) > 1:
            forms += [(f"{name}[{self.index(shape[0])}]", shape[1:])]
            forms += [(f"{name}[{', '.join(':' for _ in shape[1:])}, {self.index(shape[-1])}]", shape[:-1])]
            forms += [(f"wp.tile_reshape({name}, shape=(-1,))", (math.prod(shape),))]
        if len(shape) == 2:
            forms += [(f"wp.tile_transpose({name})", shape[::-1])] * 2
        if 1 in shape and len(shape) > 1:
            kept = tuple(n for n in shape if n != 1) or (1,)
            forms += [(f"wp.tile_squeeze({name})", kept)]
        if len(shape) < 4:
            forms += [(f"wp.tile_reshape({name}, shape=(1, {', '.join(map(str, shape))}))", (1, *shape))]
        begin = [self.number(0, n - 1) for n in shape]
        extent = tuple(self.number(1, n - b) for n, b in zip(shape, begin, strict=True))
        spans = ", ".join(self.pick([f"{b}:{b + e}", f"{b}:{b + e}:1"]) for b, e in zip(begin, extent, strict=True))
        forms += [(f"{name}[{spans}]", extent)] * 2
        forms += [(f"wp.tile_view({name}, offset={(*begin,)}, shape={extent})", extent)] * 2
        at = ", ".join(f"{self.small()} % {n - e + 1}" for n, e in zip(shape, extent, strict=True))
        forms += [(f"wp.tile_view({name}, offset=({at},), shape={extent})", extent)] * 2
        forms += [(f"{name}[{', '.join('::2' for _ in shape)}]", tuple((n + 1) // 2 for n in shape))]
        forms += [(f"{name}[{', '.join('::-1' for _ in shape)}]", shape)]
        if 1 in shape and self.chance(0.5):
            wide = tuple(2 if n == 1 else n for n in shape)
            forms += [(f"wp.tile_broadcast({name}, shape={wide})", wide)]
        return self.pick(forms)

    def declare_part(self, depth: int, loop: bool) -> None:
        self.new(depth, "p", *self.view_of(*self.variable("mp"))[::-1])

    def place_of_tile(self) -> tuple[str, Shape]:
        """A variable whose tile changes in place, or a part of it."""
        name, shape = self.variable("mp" if self.known_shapes("mp") else "t")
        if self.chance(0.4):
            name, shape = self.view_of(name, shape)
            if shape not in self.shapes:
                self.shapes.append(shape)
        return name, shape

    def in_place(self, depth: int, loop: bool) -> None:
        name, shape = self.variable("tmp")
        ops = ["+", "-"] + ["*"] * (not self.is_float) + ["&", "|", "^"] * (self.d in INTS)
        if self.differentiable and self.chance(0.3):
            self.line(depth, f"{name} *= wp.tile_map(wp.{self.pick(['cos', 'tanh'])}, {self.value(shape, 1)})")
            return
        if self.chance(0.2):
            self.line(depth, f"{name} *= {self.literal()}")
            if self.is_float:
                self.line(depth, f"wp.tile_assign({name}, wp.tile_map(fold, {name}))")
            return
        self.line(depth, f"{name} {self.pick(ops)}= {self.value(shape, 1)}")

    def element(self, depth: int, loop: bool) -> None:
        self.line(depth, f"{self.place()} {self.pick(['=', '=', '+=', '-='])} {self.number_value(1)}")

    def part(self, depth: int, loop: bool) -> None:
        """An assignment to a part by its indices."""
        name, shape = self.variable("mp")
        if len(shape) > 1 and self.chance(0.6):
            text, shape = self.pick(
                [
                    (f"{name}[{self.index(shape[0])}]", shape[1:]),
                    (f"{name}[{':, ' * (len(shape) - 1)}{self.index(shape[-1])}]", shape[:-1]),
                ]
            )
        else:
            begin = [self.number(0, n - 1) for n in shape]
            extent = tuple(self.number(1, n - b) for n, b in zip(shape, begin, strict=True))
            text = f"{name}[{', '.join(f'{b}:{b + e}' for b, e in zip(begin, extent, strict=True))}]"
            shape = extent
        if shape not in self.shapes:
            self.shapes.append(shape)
        self.line(depth, f"{text} {self.pick(['=', '=', '+=', '-='])} {self.value(shape, 1)}")

    def function(self, depth: int, loop: bool) -> None:
        """Functions that change the tile, or the part of one, that they are given."""
        s, n = self.number_value(1), self.small()
        if self.chance(0.4) and self.known_shapes("mp", least=2):
            name, shape = self.variable("mp", least=2)
            self.line(depth, f"through(shifted{self.shift(shape[1:])}, {name}, {s}, {n})")
            return
        name, shape = self.place_of_tile()
        if len(shape) == 1 and self.chance(0.3) and not self.is_float:
            self.line(depth, f"{self.pick(self.scalars)} = changed({name}, {self.literal()})")
            return
        self.line(depth, f"shifted{self.shift(shape)}({name}, {s}, {n})")

    def shift(self, shape: Shape) -> int:
        """The number of the function that shifts tiles of a shape."""
        return self.shifts.setdefault(shape, len(self.shifts))

    def named(self, depth: int, loop: bool) -> None:
        """Builtins that change a tile."""
        name, shape = self.place_of_tile()
        e = self.value(shape, 1)
        steps = [f"wp.tile_{self.pick(['add', 'sub'])}_inplace({name}, {e})", f"wp.tile_assign({name}, {e})"] * 2
        if self.d != HALF:
            steps += [f"wp.tile_axpy({self.literal()}, {self.folded(e)}, {name})"]
        at = ", ".join(map(self.index_from_start, shape))
        scatter = f"wp.tile_scatter_{self.pick(['add', 'masked'])}"
        steps += [f"{scatter}({name}, {at}, {self.number_value(1)}, {self.condition()})"]
        begin = [self.number(0, n - 1) for n in shape]
        extent = tuple(self.number(1, n - b) for n, b in zip(shape, begin, strict=True))
        if extent not in self.shapes:
            self.shapes.append(extent)
        steps += [f"wp.tile_assign({name}, {self.value(extent, 1)}, offset=({', '.join(map(str, begin))},))"] * 2
        if self.d in INTS:
            steps += [f"wp.tile_bit_{self.pick(['and', 'or', 'xor'])}_inplace({name}, {e})"]
        tiles = self.names(shape, "mt")
        if tiles:
            keys = self.new(depth, "m", shape, self.value(shape, 1))
            steps += [f"wp.tile_sort({keys}, {self.pick(tiles)})"] * 2
        if len(shape) == 2 and self.is_float and self.d != HALF:
            m, n = shape
            k = self.pick([1, self.R, self.C])
            x, y = self.factor(m, k, 1), self.factor(k, n, 1)
            beta = self.pick(["", ", beta=0.0", ", beta=0.5", ", alpha=2.0, beta=-1.0"])
            steps += [f"wp.tile_matmul({x}, {y}, {name}{beta})"] * 2
            steps += [f"wp.tile_matmul_transpose_update({x}, {self.factor(n, k, 1)}, {name}, alpha=0.5)"]
        if self.differentiable and shape[0] <= 5 and len(shape) <= 2:
            matrix = self.spd(shape[0], 1)
            steps += [f"wp.tile_{self.pick(['lower', 'upper'])}_solve_inplace({matrix}, {name})"]
            steps += [f"wp.tile_cholesky_solve_inplace(wp.tile_cholesky({matrix}), {name})"]
        if self.differentiable and shape[0] <= 5 and shape == (shape[0], shape[0]):
            made = self.new(depth, "m", shape, self.spd(shape[0], 1))
            steps += [f"wp.tile_cholesky_inplace({made})"] * 2
        self.line(depth, self.pick(steps))

    def index_from_start(self, n: int) -> str:
        return f"{self.small()} % {n}" if n > 1 else "0"

    def store(self, depth: int, loop: bool) -> None:
        """To the thread's own part of ``y``, or a row of ``z``."""
        shape = self.pick([s for s in self.shapes if len(s) <= 2])
        a = {1: "y[i, 0]", 2: "y[i]"}[len(shape)]
        e = self.value(shape, 1)
        if self.chance(0.25):
            axis = self.number(0, len(shape) - 1)
            where = f"offset={self.offset(shape, True)}, axis={axis}"
            self.line(depth, f"wp.tile_store_indexed({a}, {self.indices(shape[axis])}, {e}, {where})")
            return
        place = f", offset={self.offset(shape, True)}" if self.chance(0.8) else ""
        self.line(depth, f"wp.tile_store({a}, {e}{place})")

    def atomic(self, depth: int, loop: bool) -> None:
        shape = self.pick([s for s in self.shapes if len(s) <= 2])
        e = self.folded(self.value(shape, 1))
        update = self.updates[len(shape) - 1]
        if self.chance(0.3) and update == "add":
            axis = self.number(0, len(shape) - 1)
            where = f"offset={self.offset(shape, False)}, axis={axis}"
            indices = self.indices_within(shape[axis])
            self.line(depth, f"wp.tile_atomic_add_indexed(acc{len(shape)}, {indices}, {e}, {where})")
            return
        self.line(depth, f"wp.tile_atomic_{update}(acc{len(shape)}, {e}, offset={self.offset(shape, False)})")

    def number_(self, depth: int, loop: bool) -> None:
        if self.chance(0.3):
            self.line(depth, f"q = ({self.small()} + q) % 5")
            return
        self.line(depth, f"{self.pick(self.scalars)} = {self.number_value()}")

    def stack(self, depth: int, loop: bool) -> None:
        s = self.pick(self.stacks)
        steps = [f"wp.tile_stack_push({s}, {self.number_value(1)}, {self.condition()})"] * 3 + [
            f"wp.tile_stack_clear({s})"
        ]
        steps += [f"q = (wp.tile_stack_push({s}, {self.number_value(1)}, {self.condition()}) + 1) % 5"]
        steps += [f"q = wp.tile_stack_count({s}) % 5"]
        if self.chance(0.4):
            x, place = self.name("top"), self.name("place")
            self.line(depth, f"{x}, {place} = wp.tile_stack_pop({s})")
            self.line(depth, f"if {place} >= 0:")
            self.line(depth + 1, f"a = {x}")
            return
        self.line(depth, self.pick(steps))


class PartTileWriter(TileWriter):
    """Tiles of vectors and of structs beside them."""

    def __init__(self, seed: int, known: frozenset[str], dtype: str) -> None:
        super().__init__(seed, known, dtype, differentiable=False)
        self.vec = EXACT[dtype]
        self.size = int(self.vec[3])
        self.kinds += [self.compound] * 6

    def compound(self, depth: int, loop: bool) -> None:
        k, j, c, s = self.index(self.R), self.index(self.R), self.index(self.size), self.number_value(1)
        i0 = self.index_from_start(self.size)
        steps = [
            f"v[{k}][{i0}] = {s}",
            f"v[{k}] = v[{j}]",
            "v += v",
            "v = v + v[::-1]",
            f"v = wp.tile_map(spun, v, {s})",
        ]
        steps += [f"h[{k}].u = {s}", f"h[{k}].v[{i0}] = {s}", f"h[{k}] = h[{j}]", f"h = wp.tile_map(paired, h, {s})"]
        steps += ["h = h + h", f"h[{k}] += h[{j}]", f"v[{k}] = h[{j}].v", f"h[{k}].v = v[{j}]", f"a = v[{k}][{c}]"]
        steps += [f"b = wp.tile_sum(v)[0][{c}]", "a = wp.tile_sum(h)[0].u", f"h[0:1] = h[{self.R - 1}:]"]
        steps += [
            f"wp.tile_store(vs[i], v, offset={self.offset((self.R,), True)})",
            f"v = wp.tile_load(vs[i], shape={self.R}, offset={self.offset((self.R,), True)})",
        ]
        steps += [
            f"wp.tile_store(hs[i], h, offset={self.offset((self.R,), True)})",
            f"h = wp.tile_load(hs[i], shape={self.R}, offset={self.offset((self.R,), True)})",
        ]
        steps += [f"h = wp.tile_load_indexed(hs[i], {self.indices(self.R)}, shape={self.R})"]
        steps += [f"g = h[{k}]\n{'    ' * depth}a = g.u", "v = h_v(h)" if False else f"v[{k}] += v[{j}]"]
        self.line(depth, self.pick(steps))
        if self.is_float:
            self.line(depth, "v = wp.tile_map(rest, v)")


FUNCTION = """\
@wp.func
def shifted{number}(t: Any, s: wp.{d}, n: int):
    for k in range(n):
        t += wp.tile_full(shape={shape}, value=s)
        if k > 1:
            return


"""


def functions(w: TileWriter) -> str:
    """The functions and structs of a program."""
    if w.differentiable:
        fold, mixed = "wp.sin(x)", "wp.sin(x) * y + s"
    else:
        fold, mixed = ("x % wp.float32(8.0)", "x - y + s") if w.is_float else ("x", "x * y + s")
        if w.d == HALF:  # sums of so small numbers are exact
            fold = "wp.float16(wp.int32(x) % 2)"
    above = PARTS.format(d=w.d, vec=w.vec) if isinstance(w, PartTileWriter) else ""
    if w.differentiable:
        above = TRANSFORMS
    shifts = [FUNCTION.format(d=w.d, shape=shape, number=number) for shape, number in w.shifts.items()]
    return above + FUNCTIONS.format(d=w.d, fold=fold, mixed=mixed, R=w.R, C=w.C) + "".join(shifts)


def begun(w: TileWriter) -> None:
    """Write the variables that every program has."""
    for text in ("i = wp.tid()", "q = int(1)", "a = x1[i % 3]", "b = y[i, 0, 0]"):
        w.line(1, text)
    for shape in ((w.R, w.C), (w.R,), (w.C,)):
        w.new(1, "t", shape, w.loaded(shape))
    for shape in ((w.R, w.C), (w.R, w.C) if w.chance(0.5) else (w.C, w.R)):
        w.new(1, "m", shape, w.loaded(shape))
    if w.differentiable and w.chance(0.4):
        transformed(w)
    if isinstance(w, PartTileWriter):
        w.line(1, f"v = wp.tile_load(vs[i], shape={w.R})")
        w.line(1, f"h = wp.tile_load(hs[i], shape={w.R}, offset=1)")
    w.line(1, f"s0 = wp.tile_stack(capacity={w.number(1, 3)}, dtype=wp.{w.d})")


def transformed(w: TileWriter) -> None:
    """Write a Fourier transform of a length that is no power of two, with stages in code and in loops."""
    shape = (w.pick(LENGTHS),)
    name = w.new(1, "m", shape, w.loaded(shape))
    w.line(1, f"{name} = {w.pick(['spectrum', 'backwards'])}({w.loaded(shape)}, {name})")
    w.line(1, f"a = wp.tile_dot({name}, {w.loaded(shape)})[0]")


def ended(w: TileWriter) -> None:
    """Write statements that store the variables."""
    for k, name in enumerate(w.names((w.R, w.C), "tm")[:2]):
        w.line(1, f"wp.tile_store(y[i], wp.tile_map(fold, {name}), offset=({k * w.R}, {k}))")
    w.line(1, "y[i, 0, 0] = a + b")
    if isinstance(w, PartTileWriter):
        w.line(1, "wp.tile_store(vs[i], v)")
        w.line(1, "wp.tile_store(hs[i], h)")


def memory(w: TileWriter) -> list[str]:
    """The setup of the arrays."""
    d, R, C = w.d, w.R, w.C
    shapes = {"x1": f"{2 * max(R, C) + 3}", "x2": f"({2 * R + 1}, {C + 1})", "x3": f"(2, {R + 1}, {max(C - 1, 1)})"}
    shapes |= {"x4": f"(1, {R + 1}, 2, {C})", "y": f"({THREADS}, {2 * R + 1}, {C + 1})"}
    shapes |= {"acc1": f"{R + 2}", "acc2": f"({R + 2}, {C})"}
    low = 0 if d.startswith("u") else -3
    make = "r.uniform(-1.2, 1.2, {})" if w.differentiable else f"r.integers({low}, 6, {{}}).astype('{d}')"
    setup = [f"r = np.random.default_rng({w.seed})", *(f"{name} = {make.format(s)}" for name, s in shapes.items())]
    if w.differentiable:
        return [*setup, f"memory = [{', '.join(shapes)}]"]
    if not isinstance(w, PartTileWriter):
        return [*setup, *layouts(w, [*shapes])]
    struct = f"np.dtype([('u', '{d}'), ('v', '{d}', ({w.size},))], align=True)"
    setup += [f"vs = r.integers(0, 5, ({THREADS}, {R + 1}, {w.size})).astype('{d}')"]
    setup += [f"hs = np.zeros(({THREADS}, {R + 1}), {struct})"]
    setup += ["hs['u'] = r.integers(0, 5, hs.shape); hs['v'] = r.integers(0, 5, hs['v'].shape)"]
    return [*setup, *layouts(w, [*shapes]), "memory += [vs, hs]"]


ARRAYS = {"x1": 1, "x2": 2, "x3": 3, "x4": 4, "y": 3, "acc1": 1, "acc2": 2}
"""The arrays of each program, with their dimensions."""


def program(kind: str, w: TileWriter) -> Program:
    """The program that a writer makes."""
    w.budget = w.number(3, 6) if w.differentiable else w.number(6, 14)
    begun(w)
    while w.budget > 0:
        w.statement(1, False)
    ended(w)
    params = [f"{name}: wp.array(dtype=wp.{w.d}, ndim={n})" for name, n in ARRAYS.items()]
    given = [*ARRAYS]
    if isinstance(w, PartTileWriter):
        params += [f"vs: wp.array2d(dtype=wp.{w.vec})", "hs: wp.array2d(dtype=Pair)"]
        given += ["vs", "hs"]
    setup = [*memory(w), f"args = [{', '.join(given)}, {w.number(0, 3)}]"]
    others: list[dict[str, Any]] = [
        {"vector_width": 1},
        {"vector_width": w.pick([4, 8, 16])},
        {"max_unroll": 0},
        {"max_unroll": 64, "vector_width": w.pick([0, 4])},
        {"device": "emulated"},
        {"device": "interpreter"},
        {"deterministic": True} if w.differentiable else {"mode": "debug", "vector_width": w.pick([0, 1])},
    ]
    settings = ({}, *w.r.sample(others, 1 if w.differentiable else 3))
    grids = ((w.pick([1, 2, 4, THREADS, THREADS]),),)
    source = "\n".join([functions(w) + "@wp.kernel", f"def k({', '.join([*params, 'n: int'])}):", *w.lines]) + "\n"
    positions = tuple(range(len(ARRAYS))) if w.differentiable else ()
    made = Program(kind, w.seed, source, "\n".join(setup) + "\n", grids, settings, positions, REFUSALS)
    return dataclasses.replace(made, second=w.differentiable and w.chance(0.1))


def tiles(seed: int, known: frozenset[str]) -> Program:
    """A program of tiles of exact numbers."""
    r = Writer(seed)
    dtype = r.pick([*EXACT, HALF])
    if dtype != HALF and r.chance(0.4):
        return program("tiles", PartTileWriter(seed, known, dtype))
    return program("tiles", TileWriter(seed, known, dtype, differentiable=False))


def tile_gradients(seed: int, known: frozenset[str]) -> Program:
    """A program of tiles with gradients."""
    return program("tile_gradients", TileWriter(seed, known, "float64", differentiable=True))
