"""Random kernels of many loops, cut into pieces of a few; ``check(seed)`` compares with kernels that are left whole.

Results and gradients have to be the same to the last bit. So products are not fused with additions: LLVM fuses those
that stand in one block of its own, and which these are depends on the cuts. Launches are deterministic, as the order of
sums is not fixed otherwise.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import define
from warp_like.backend.llvm import pieces

WHOLE = {"MOST_TOGETHER": 10**9, "LOOPS": 10**9}
ROWS, TABLE, SUMS = 3, 7, 5


class _Maker:
    """Writes the text of a kernel; ``floats`` and ``ints`` are the names in scope, ``own`` the local arrays."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.lines: list[str] = []
        self.floats, self.ints = ["a", "b"], ["c"]
        self.own: list[str] = []
        self.indices: list[str] = []
        self.names = 0
        self.type = r.choice(["float", "float", "wp.float64"])

    def source(self) -> str:
        self.say(0, "i = wp.tid()")
        self.say(0, f"a = x[i]\n    b = {self.type}(1.5)\n    c = int(0)")
        self.block(0, self.r.randint(3, 7), 0)
        for name in self.own:
            self.say(0, f"a += {name}[{self.r.randrange(4)}]")
        for k, name in enumerate(["a", "b", f"{self.type}(c)"]):
            self.say(0, f"y[{k}, i] = {name}")
        t = self.type
        return (
            "@wp.func\n"
            f"def some(a: {t}, m: int):\n    s = {t}(0.0)\n    for q in range(m):\n        s += a * {t}(0.25)\n"
            "        if s > 2.0:\n            break\n    return s\n\n"
            '@wp.kernel(module="unique")\n'
            f"def k(x: wp.array(dtype={t}), n: wp.array(dtype=int), p: wp.array(dtype={t}), "
            f"y: wp.array2d(dtype={t}), total: wp.array(dtype={t}), near: wp.array(dtype={t}), "
            "count: wp.array(dtype=int)):\n" + "\n".join(self.lines) + "\n"
        )

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * (depth + 1) + line)

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def block(self, depth: int, count: int, loops: int) -> None:
        """Statements; names that are made in them are gone at their end."""
        known = [list(names) for names in (self.floats, self.ints, self.own, self.indices)]
        for _ in range(count):
            self.statement(depth, loops)
        if depth:
            self.floats, self.ints, self.own, self.indices = known

    def statement(self, depth: int, loops: int) -> None:
        r = self.r.random()
        if depth < 3 and r < 0.36:
            (self.loop if self.r.random() < 0.8 else self.while_loop)(depth, loops)
        elif depth < 3 and r < 0.47:
            self.say(depth, f"if {self.condition()}:")
            self.block(depth + 1, self.r.randint(1, 3), loops)
            if self.r.random() < 0.5:
                self.say(depth, "else:")
                self.block(depth + 1, self.r.randint(1, 2), loops)
        elif r < 0.60 and depth:
            self.say(depth, f"if {self.condition()}:")
            kinds = ["break", "continue"] if loops else ["return"]
            self.say(depth + 1, self.r.choice([*kinds, "return"]))
        elif r < 0.66 and not depth:
            name = self.name("own")
            self.say(depth, f"{name} = wp.zeros(shape=(4,), dtype={self.type})")
            self.own.append(name)
        elif r < 0.70:
            name, value = self.name("v"), self.value()
            self.say(depth, f"{name} = {value}")
            self.floats.append(name)
        else:
            self.say(depth, self.update())

    def loop(self, depth: int, loops: int) -> None:
        j = self.name("j")
        n = self.r.choice(["n[i]", "n[(i + 1) % n.shape[0]]", "p.shape[0]", "3", f"n[i] % {self.r.randint(2, 4)}"])
        bounds = self.r.choice([n, n, f"1, {n}", f"{n}, 0, -1", f"0, {n}, 2", f"c % 3, {n}"])
        self.say(depth, f"for {j} in range({bounds}):")
        self.indices.append(j)
        self.block(depth + 1, self.r.randint(1, 3), loops + 1)
        self.indices.remove(j)

    def while_loop(self, depth: int, loops: int) -> None:
        w = self.name("w")
        self.say(depth, f"{w} = int(0)")
        self.say(depth, f"while {w} < n[i] and {self.condition()}:")
        self.say(depth + 1, f"{w} += 1")
        self.ints.append(w)
        self.block(depth + 1, self.r.randint(1, 2), loops + 1)
        self.ints.remove(w)

    def condition(self) -> str:
        kinds = [f"{self.float()} > {self.r.choice([-0.5, 0.0, 0.25, 0.75])}", f"{self.int()} % 3 == 1", "n[i] > 2"]
        if self.indices:
            kinds += [f"{self.r.choice(self.indices)} > 1"]
        return self.r.choice(kinds)

    def float(self) -> str:
        return self.r.choice(self.floats)

    def int(self) -> str:
        return self.r.choice([*self.ints, *self.indices * 2, "n[i]"])

    def index(self, extent: int) -> str:
        return f"({self.int()}) % {extent}"

    def value(self) -> str:
        """A value of moderate size."""
        a, b, t = self.float(), self.float(), self.type
        kinds = [
            f"{a} * {b} * {t}(0.5)",
            f"wp.sin({a}) + {b} * {t}(0.125)",
            f"{a} * {t}(0.75) - {b}",
            f"x[(i + {self.r.randint(0, 3)}) % x.shape[0]] * {a}",
            f"p[{self.index(TABLE)}] * {a} + {b}",
            f"some({a}, {self.int()} % 4)",
            f"{t}({self.int()}) * {a} * {t}(0.1)",
            f"wp.where({self.condition()}, {a}, {b})",
            f"{a} / ({t}(1.0) + {b} * {b})",
            f"wp.sqrt(wp.abs({a}) + {t}(0.5))",
        ]
        if self.own:
            kinds += [f"{self.r.choice(self.own)}[{self.index(4)}] + {a} * {t}(0.5)"] * 3
        return f"wp.clamp({self.r.choice(kinds)}, {t}(-3.0), {t}(3.0))"

    def update(self) -> str:
        kinds = [
            f"{self.r.choice(['a', 'b', *self.floats])} = {self.value()}",
            f"{self.r.choice(['a', 'b'])} += {self.value()}",
            f"c += {self.int()} % 5 + 1",
            f"y[{self.r.randrange(ROWS, 2 * ROWS)}, i] += {self.value()}",
            f"wp.atomic_add(total, {self.index(SUMS)}, {self.value()})",
            f"wp.atomic_add(total, {self.r.randrange(SUMS)}, {self.value()})",
            f"wp.atomic_add(near, i + {self.r.randint(0, 2)}, {self.value()})",
            f"wp.atomic_add(count, {self.r.randrange(2)}, {self.int()})",
        ]
        if self.own:
            own = self.r.choice(self.own)
            kinds += [f"{own}[{self.index(4)}] = {self.value()}", f"{own}[{self.index(4)}] += {self.value()}"] * 2
        return self.r.choice(kinds)


@contextlib.contextmanager
def _set(**values: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            setattr(wp.config, name, value)
            stack.callback(delattr, wp.config, name)
        yield


@contextlib.contextmanager
def _cut(**thresholds: int) -> Iterator[None]:
    """Let kernels that are compiled here be cut by these thresholds."""
    before = {name: getattr(pieces, name) for name in thresholds}
    try:
        for name, value in thresholds.items():
            setattr(pieces, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(pieces, name, value)


def _results(kernel: Any, size: int, seed: int, threads: int, backward: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    t = kernel.adj.args[0].type.dtype
    x = wp.array(rng.uniform(-2, 2, size), dtype=t, requires_grad=True)
    n = wp.array(rng.integers(0, 6, size), dtype=int)
    p = wp.array(rng.uniform(-2, 2, TABLE), dtype=t, requires_grad=True)
    y, total, near = (wp.zeros(s, dtype=t, requires_grad=True) for s in ((2 * ROWS, size), SUMS, size + 2))
    count = wp.zeros(2, dtype=int)
    with _set(num_threads=threads):
        with wp.Tape() as tape:
            wp.launch(kernel, dim=size, inputs=[x, n, p], outputs=[y, total, near, count])
        found = [a.numpy() for a in (y, total, near, count)]
        if backward:
            starts = {a: wp.array(rng.uniform(-1, 1, a.shape), dtype=t) for a in (y, total, near)}
            tape.backward(grads=starts)
            found += [a.grad.numpy() for a in (x, p)]
    return found


def check(seed: int) -> None:
    """Compare one kernel, whole and in pieces, on one thread and on two."""
    r = random.Random(seed)
    source = _Maker(r).source()
    size, width = r.choice([1, 8, 37, 200, 3000]), r.choice([2, 4, 8, 16])
    loops, backward = r.choice([1, 2, 3, 5]), r.random() < 0.7
    expected: list[np.ndarray] | None = None
    with _set(fuse_fp=False, cache_kernels=False, vector_width=width, deterministic=True):
        for thresholds in (WHOLE, {"MOST_TOGETHER": 0, "LOOPS": loops}):
            with _cut(**thresholds):
                kernel = define(source, eager=True)["k"]
                for threads in (1, 2):
                    got = _results(kernel, size, seed, threads, backward)
                    expected = got if expected is None else expected
                    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
                        message = f"seed {seed}, result {k}, {threads} threads, {thresholds}\n{source}"
                        np.testing.assert_array_equal(a, b, message)
