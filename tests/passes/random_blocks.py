"""Random kernels of blocks whose threads work together; ``check(seed)`` compares them with threads in plain Python.

The threads of the oracle take turns: one runs until it meets the others, then the next one does. Programs have no
races, so every other order gives the same. Half of them have exact numbers and are compared to the last bit; the
others are smooth, and their gradients are compared with finite differences, too.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

import warp_like as wp
from tests.frontend.support import define
from tests.passes.block_oracle import teams

T = TypeVar("T")
COLUMNS = 5
ROOM = 8
"""The elements of shared and own arrays."""
BLOCKS = (2, 3, 4, 5, 8, 16, 17)
GRIDS = (1, 2, 5, 8, 16, 19)


def in_turns(names: dict[str, Any], args: list[Any], dims: tuple[int, ...], block_dim: int) -> None:
    """Run kernel ``k`` once for each thread of the grid, block after block along its last dimension."""
    for team, indices in teams(dims, block_dim):
        space: dict[str, Any] = {"wp": team, "range": range, "B": block_dim}
        for name in ("k", "f", "g", "fl"):
            if name in names:
                space[name] = types.FunctionType(names[name].func.__code__, space)
        team.run(space["k"], args, indices)


class Program:
    """A random kernel: ``x`` is read, ``y`` and ``c`` hold results of each thread, ``z`` those that blocks add up."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.smooth = self.r.random() < 0.4
        self.with_tiles = self.r.random() < 0.4
        self.rows = self.pick([None, None, 1, 2, 3])
        self.lines: list[str] = []
        self.made = 0
        self.names: dict[str, list[str]] = {kind: [] for kind in ("f", "i", "uf", "ui", "v", "own", "shared", "tile")}
        self.functions = self.r.random() < 0.5
        self.budget = self.r.randint(6, 22)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.r.randrange(len(options))]

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def new(self, kind: str) -> str:
        self.made += 1
        name = f"{kind}{self.made}"
        return name

    # --- values -------------------------------------------------------------------------------------------------

    def folded(self, e: str) -> str:
        """A small number."""
        return f"wp.sin({e})" if self.smooth else f"(({e}) - wp.float64(8.0) * fl(({e}) / wp.float64(8.0)))"

    def index(self, depth: int = 0) -> str:
        """An int32 of the thread, not negative."""
        options = ["i", "j", str(self.r.randint(0, 5)), "n", *self.names["i"], *self.names["ui"], "i % 3", "j // 2"]
        e = self.pick(options)
        if depth < 2 and self.chance(0.4):
            e = f"({e} {self.pick(['+', '*', '&', '|', '+'])} {self.index(depth + 1)})"
        return f"({e} % 11)" if "*" in e else e

    def same_index(self, depth: int = 0) -> str:
        """One that is the same for the block."""
        options = [str(self.r.randint(0, 5)), "n", *self.names["ui"], *self.names["ui"], "r" if self.rows else "n"]
        e = self.pick([*options, "wp.block_dim()"])
        if depth < 2 and self.chance(0.3):
            e = f"(({e} {self.pick(['+', '*'])} {self.same_index(depth + 1)}) % 7)"
        return e

    def condition(self) -> str:
        """One that differs between threads; of indices alone where the numbers are smooth."""
        if self.smooth or self.chance(0.5):
            a = self.index()
            return f"{a} {self.pick(['<', '>', '==', '!=', '>='])} {self.index()}"
        return f"{self.number(1)} {self.pick(['<', '>', '>='])} {self.number(1)}"

    def same_condition(self) -> str:
        a = self.same_index()
        if not self.smooth and self.chance(0.3):
            return f"{self.same_number(1)} {self.pick(['<', '>='])} {self.same_number(1)}"
        return f"{a} {self.pick(['<', '>', '==', '!='])} {self.same_index()}"

    def same_number(self, depth: int = 0) -> str:
        options = [f"wp.float64({self.same_index(1)})", f"x[{self.same_index(1)}]", *self.names["uf"] * 3]
        e = self.pick(options)
        if depth < 2 and self.chance(0.4):
            e = f"({e} {self.pick(['+', '-', '*'])} {self.same_number(depth + 1)})"
        return self.folded(e) if "*" in e else e

    def number(self, depth: int = 0) -> str:
        options = [f"wp.float64({self.index(1)})", "x[i]", *self.names["f"] * 2, *self.names["uf"]]
        options += [f"x[{self.index(1)} % 20]", f"y[{self.me()}, {self.r.randrange(COLUMNS)}]"]
        options += [f"{a}[{self.index(1)} % {ROOM}]" for a in self.names["own"]]
        options += [f"{v}[{self.pick('01')}]" for v in self.names["v"]]
        e = self.pick(options)
        if depth < 2 and self.chance(0.5):
            e = f"({e} {self.pick(['+', '-', '*', '+'])} {self.number(depth + 1)})"
        if self.functions and depth < 2 and self.chance(0.1):
            e = f"f({e}, {self.index(1)})"
        return self.folded(e) if "*" in e or "f(" in e else e

    def me(self) -> str:
        return f"r * {max(GRIDS)} + i" if self.rows else "i"

    # --- statements ---------------------------------------------------------------------------------------------

    def block(self, depth: int, meets: bool, most: int = 4, loop: bool = False) -> None:
        outside = {k: list(v) for k, v in self.names.items()}
        before = len(self.lines)
        for _ in range(self.r.randint(1, most)):
            self.statement(depth, meets, loop)
        if len(self.lines) == before:
            self.line(depth, "q = q + 1")
        self.names = outside

    def statement(self, depth: int, meets: bool, loop: bool) -> None:
        self.budget -= 1
        kinds: list[Callable[[int, bool], None]] = [self.assign, self.declare, self.store, self.whole, self.own_store]
        kinds += [self.add]
        if depth < 4 and self.budget > 0:
            kinds += [self.if_, self.for_]
        if meets:
            kinds += [self.reduce, self.reduce, self.vote, self.share, self.same, self.whole_sum, self.neighbour]
            kinds += [self.call] * self.functions
            kinds += [self.tile, self.tile_change, self.tile_read] * 2 * self.with_tiles
            kinds += [self.leave, self.tile_swap] * self.with_tiles
            if depth < 4 and self.budget > 0:
                kinds += [self.same_if, self.same_for, self.same_for, self.while_, self.same_loop]
                kinds += [self.strided_for] * 2 * self.with_tiles
        self.pick(kinds)(depth, meets)

    def declare(self, depth: int, meets: bool) -> None:
        kind = self.pick(["f", "f", "i", "v", "own"])
        name = self.new(kind)
        value = {
            "f": lambda: self.number(),
            "i": lambda: f"int({self.index()})",
            "v": lambda: f"wp.vec2d({self.number()}, {self.number()})",
            "own": lambda: f"wp.zeros(shape={ROOM}, dtype=wp.float64)",
        }[kind]()
        self.line(depth, f"{name} = {value}")
        self.names[kind].append(name)

    def assign(self, depth: int, meets: bool) -> None:
        if self.names["f"]:
            name = self.pick(self.names["f"])
            self.line(depth, f"{name} = {self.folded(name + ' + ' + self.number())}")

    def whole(self, depth: int, meets: bool) -> None:
        name = self.pick([*self.names["i"], "q"])
        self.line(depth, f"{name} = ({name} + {self.index()}) % 13")

    def same(self, depth: int, meets: bool) -> None:
        """Numbers that all threads of the block have alike."""
        kind = self.pick(["uf", "ui"])
        value = self.same_number() if kind == "uf" else f"int({self.same_index()})"
        if self.names[kind] and self.chance(0.6):
            name = self.pick(self.names[kind])
            value = self.folded(f"{name} + {value}") if kind == "uf" else f"({name} + {value}) % 7"
            self.line(depth, f"{name} = {value}")
        else:
            name = self.new(kind)
            self.line(depth, f"{name} = {value}")
            self.names[kind].append(name)

    def store(self, depth: int, meets: bool) -> None:
        k = self.pick([str(self.r.randrange(COLUMNS)), f"{self.index()} % {COLUMNS}"])
        place = f"y[{self.me()}, {k}]"
        how = self.r.random()
        if how < 0.3 and self.smooth:
            self.line(depth, f"{place} += {self.number()}")
        elif how < 0.5 and not self.smooth:
            self.line(depth, f"{place} = {self.folded(place + ' + ' + self.number())}")
        elif not self.smooth or self.chance(0.3):
            self.line(depth, f"{place} = {self.number()}")
        else:
            self.line(depth, f"c[{self.me()}] = c[{self.me()}] + {self.index()}")

    def own_store(self, depth: int, meets: bool) -> None:
        if self.names["own"]:
            self.line(depth, f"{self.pick(self.names['own'])}[{self.index()} % {ROOM}] = {self.number()}")

    def add(self, depth: int, meets: bool) -> None:
        """What threads of all blocks add, of whole numbers where all is exact."""
        self.line(depth, f"wp.atomic_add(z, {self.index()} % 4, {self.number()})")

    def if_(self, depth: int, meets: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.block(depth + 1, False)
        if self.chance(0.4):
            self.line(depth, "else:")
            self.block(depth + 1, False)

    def for_(self, depth: int, meets: bool) -> None:
        name = self.new("m")
        self.line(depth, f"for {name} in range({self.index()} % 4):")
        self.names["i"].append(name)
        if self.chance(0.3):
            self.line(depth + 1, f"if {self.condition()}:")
            self.line(depth + 2, self.pick(["break", "continue"]))
        self.block(depth + 1, False, 3)
        self.names["i"].remove(name)

    def same_loop(self, depth: int, meets: bool) -> None:
        """A loop in which threads do not meet, and that gives something that is the same for all of them."""
        name, total = self.new("m"), self.new("ui")
        self.line(depth, f"{total} = int(0)")
        self.line(depth, f"for {name} in range({self.same_index()} % 4):")
        self.names["i"].append(name)
        self.block(depth + 1, False, 2)
        self.names["i"].remove(name)
        self.line(depth + 1, f"{total} = {total} + {name} + {self.same_index()} % 3")
        self.names["ui"].append(total)

    def same_if(self, depth: int, meets: bool) -> None:
        self.line(depth, f"if {self.same_condition()}:")
        self.block(depth + 1, True)
        if self.chance(0.5):
            self.line(depth, "else:")
            self.block(depth + 1, True)

    def same_for(self, depth: int, meets: bool) -> None:
        name = self.new("m")
        self.line(depth, f"for {name} in range({self.same_index()} % 4):")
        self.names["ui"].append(name)
        if self.chance(0.2):
            self.line(depth + 1, f"if {self.same_condition()}:")
            self.line(depth + 2, self.pick(["break", "continue"]))
        self.block(depth + 1, True, 4)
        self.names["ui"].remove(name)

    def strided_for(self, depth: int, meets: bool) -> None:
        """A loop in which threads take turns, of which all do as many iterations."""
        name, count = self.new("m"), f"{self.same_index()} % 3"
        bounds = [f"j, ({count}) * B", f"i, (i // B + {count}) * wp.block_dim()", f"j, B * ({count}) + B"]
        self.line(depth, f"for {name} in range({self.pick(bounds)}, {self.pick(['B', 'wp.block_dim()', '2 * B'])}):")
        self.names["i"].append(name)
        self.block(depth + 1, True, 3)
        self.names["i"].remove(name)

    def while_(self, depth: int, meets: bool) -> None:
        if self.with_tiles:
            return
        name = self.new("w")
        self.line(depth, f"{name} = int({self.index()} % 3)")
        self.line(depth, f"while wp.block_any({name} > 0):")
        self.block(depth + 1, True, 3)
        self.line(depth + 1, f"{name} = {name} - 1")

    def reduce(self, depth: int, meets: bool) -> None:
        if self.with_tiles:
            return
        name = self.new("uf")
        op = self.pick(["sum", "sum", "max", "min"])
        if self.smooth and op != "sum":
            name = self.new("ui")
            self.line(depth, f"{name} = wp.block_{op}({self.index()}) % 7")
            self.names["ui"].append(name)
            return
        value = self.number() if op == "sum" or not self.smooth else f"wp.float64({self.index()})"
        self.line(
            depth,
            f"{name} = {self.folded(f'wp.block_{op}({value})')}" if self.smooth else f"{name} = wp.block_{op}({value})",
        )
        if not self.smooth:
            self.line(depth, f"{name} = {self.folded(name)}")
        self.names["uf"].append(name)

    def whole_sum(self, depth: int, meets: bool) -> None:
        if self.with_tiles:
            return
        name = self.new("ui")
        self.line(depth, f"{name} = wp.block_{self.pick(['sum', 'max', 'min'])}({self.index()}) % 7")
        self.names["ui"].append(name)

    def vote(self, depth: int, meets: bool) -> None:
        if self.with_tiles:
            return
        self.line(depth, f"if wp.block_{self.pick(['any', 'all'])}({self.condition()}):")
        self.block(depth + 1, True)

    def share(self, depth: int, meets: bool) -> None:
        """Each thread gives something to another one."""
        if self.with_tiles or self.smooth:
            return
        if not self.names["shared"]:
            return
        name, got = self.pick(self.names["shared"]), self.new("f")
        self.line(depth, f"{name}[j] = {self.number()}")
        self.line(depth, "wp.block_sync()")
        self.line(depth, f"{got} = {name}[(j + {self.index()}) % wp.block_size()]")
        self.line(depth, "wp.block_sync()")
        self.names["f"].append(got)

    def neighbour(self, depth: int, meets: bool) -> None:
        """Through memory."""
        if self.with_tiles or self.smooth:
            return
        k, got = self.r.randrange(COLUMNS), self.new("f")
        self.line(depth, "wp.block_sync()")
        self.line(depth, f"{got} = y[{self.me()} - j + (j + {self.r.randint(1, 3)}) % wp.block_size(), {k}]")
        self.line(depth, "wp.block_sync()")
        self.names["f"].append(got)

    def call(self, depth: int, meets: bool) -> None:
        if self.with_tiles:
            return
        name = self.new("f")
        self.line(depth, f"{name} = {self.folded(f'g({self.number()}, {self.index()})')}")
        self.names["f"].append(name)

    def tile(self, depth: int, meets: bool) -> None:
        name = self.new("tile")
        value = f"wp.tile({self.number()})"
        if self.chance(0.5):
            value = f"wp.tile_full(shape=B, value={self.same_number()}, dtype=wp.float64)"
        self.line(depth, f"{name} = {value}")
        self.names["tile"].append(name)

    def tile_change(self, depth: int, meets: bool) -> None:
        if self.names["tile"]:
            name = self.pick(self.names["tile"])
            at = self.pick(["j", "j", f"{self.index()} % B", f"{self.same_index()} % B"])
            value = self.same_number() if at.endswith("B") and "j" not in at else self.number()
            if at == "j":
                self.line(depth, f"{name}[j] {self.pick(['+=', '=', '-='])} {value}")
            else:
                self.line(depth, f"{name}[{at}] {self.pick(['+=', '-='])} {value}")

    def tile_read(self, depth: int, meets: bool) -> None:
        if not self.names["tile"]:
            return
        t = self.pick(self.names["tile"])
        if self.chance(0.4):
            name = self.new("uf")
            self.line(depth, f"{name} = {self.folded(f'wp.tile_sum({t})[0]')}")
            self.names["uf"].append(name)
        else:
            name = self.new("f")
            self.line(depth, f"{name} = {self.folded(self.pick([f'wp.untile({t})', f'{t}[j]']))}")
            self.names["f"].append(name)

    def tile_swap(self, depth: int, meets: bool) -> None:
        if len(self.names["tile"]) > 1:
            a, b = self.r.sample(self.names["tile"], 2)
            self.line(depth, f"{a}, {b} = {b}, {a}")

    def leave(self, depth: int, meets: bool) -> None:
        """Some threads end here; the others go on with work on tiles."""
        self.line(depth, f"if {self.condition()}:")
        if self.chance(0.5):
            self.store(depth + 1, False)
        self.line(depth + 1, "return")

    # --- the whole ----------------------------------------------------------------------------------------------

    def source(self) -> str:
        """The program's text."""
        self.line(1, "r, i = wp.tid()" if self.rows else "i = wp.tid()")
        self.line(1, "j = wp.block_thread()")
        self.line(1, "q = int(1)")
        if not self.with_tiles and not self.smooth and self.chance(0.6):
            self.line(1, f"shared0 = wp.shared_array(shape={max(BLOCKS)}, dtype=wp.float64)")
            self.names["shared"].append("shared0")
        for _ in range(2):
            self.declare(1, True)
        while self.budget > 0:
            self.statement(1, True, False)
        for name in (*self.names["f"], *self.names["uf"]):
            self.line(1, f"y[{self.me()}, {self.r.randrange(COLUMNS)}] {'+=' if self.smooth else '='} {name}")
        for t in self.names["tile"]:
            self.line(
                1, f"y[{self.me()}, 0] = wp.untile({t})" if not self.smooth else f"y[{self.me()}, 0] += wp.untile({t})"
            )
        self.line(1, f"c[{self.me()}] = c[{self.me()}] + q")
        text = "@wp.kernel\ndef k(x: wp.array(dtype=wp.float64), y: wp.array2d(dtype=wp.float64), "
        text += "z: wp.array(dtype=wp.float64), c: wp.array(dtype=int), n: int):\n" + "\n".join(self.lines) + "\n"
        head = "@wp.func\ndef fl(v: wp.float64):\n    return wp.floor(v)\n\n\n"
        head += "@wp.func\ndef f(v: wp.float64, a: int):\n    if a % 3 == 1:\n        return v + wp.float64(a)\n"
        head += "    s = wp.float64(0.0)\n    for k in range(a % 5):\n        s = s + v\n    return s\n\n\n"
        head += "@wp.func\ndef g(v: wp.float64, a: int):\n    s = wp.block_sum(v + wp.float64(a))\n"
        head += "    return s - wp.float64(wp.block_max(a)) * v\n\n\n"
        return head + text


def arguments(p: Program, seed: int) -> list[Any]:
    """What a launch of the program gets; ``n`` comes last."""
    rng = np.random.default_rng(seed)
    rows = (p.rows or 1) * max(GRIDS)
    x = rng.uniform(-1.0, 1.0, 24) if p.smooth else rng.integers(-3, 4, 24).astype(float)
    return [x, np.zeros((rows, COLUMNS)), np.zeros(4), np.zeros(rows, np.int32), int(rng.integers(0, 4))]


def expected(names: dict[str, Any], args: list[Any], dims: tuple[int, ...], block_dim: int) -> list[Any]:
    """What the oracle says that the arrays hold after a launch."""
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    in_turns(names, args, dims, block_dim)
    return args


SETTINGS: tuple[dict[str, Any], ...] = ({}, {"vector_width": 4}, {"mode": "debug"}, {"vector_width": 1})
REFUSALS = ("the gradient needs", "differs between them", "for the threads of a block together")
"""What messages say of programs that are refused, and may be."""


def check(seed: int) -> None:
    """Compare a random program with the oracle, under one setting."""
    p = Program(seed)
    source, block_dim, options = p.source(), p.pick(BLOCKS), p.pick(SETTINGS)
    names = define(source, B=block_dim)
    n = p.pick(GRIDS)
    dims = (p.rows, n) if p.rows else (n,)
    note = f"seed {seed}, block_dim {block_dim}, grid {dims}, options {options}\n{source}"
    given = arguments(p, seed)
    wanted = expected(names, given, dims, block_dim)
    got = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    before, wp.config.enable_cpu_blocks = wp.config.enable_cpu_blocks, True
    try:
        wp.launch(names["k"], dims, got, block_dim=block_dim, options={"fuse_fp": False, **options})
        tolerance = 1e-9 if p.smooth else 0.0
        for a, b in zip(got[1:4], wanted[1:4], strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=note)
        if p.smooth:
            _check_gradient(names, given, dims, block_dim, note)
    except wp.WarpCodegenError as e:
        if not any(words in str(e) for words in REFUSALS):
            raise
    finally:
        wp.config.enable_cpu_blocks = before


def _check_gradient(names: dict[str, Any], given: list[Any], dims: tuple[int, ...], block_dim: int, note: str) -> None:
    """Compare the derivative along a random direction with that of the oracle."""
    rng = np.random.default_rng(5)
    x, y, z, c, n = given
    weights = [rng.uniform(-1.0, 1.0, a.shape) for a in (y, z)]
    along = rng.uniform(-1.0, 1.0, x.shape)

    def total(at: Any) -> float:
        _, *results = expected(names, [at, *given[1:]], dims, block_dim)
        return float(sum((w * r).sum() for w, r in zip(weights, results, strict=False)))

    h = 1e-5
    slope = (
        8 * (total(x + h * along) - total(x - h * along)) - (total(x + 2 * h * along) - total(x - 2 * h * along))
    ) / (12 * h)
    inputs = [wp.array(a, dtype=wp.float64, requires_grad=True) for a in (x, y, z)]
    with wp.Tape() as tape:
        wp.launch(names["k"], dims, [*inputs, wp.array(c), n], block_dim=block_dim)
    tape.backward(grads={a: wp.array(w, dtype=wp.float64) for a, w in zip(inputs[1:], weights, strict=True)})
    found = float((inputs[0].grad.numpy() * along).sum())
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-6, err_msg=note)
