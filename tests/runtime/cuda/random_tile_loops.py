"""Random kernels on tiles in loops and branches, on a CUDA device beside the CPU: loads, products, sums of products.

``check(seed)`` runs one on the emulated device. What matrix units hold in registers, and what copies have yet to
write, depends on what comes next in a block of code and in the next round of a loop. So programs mix these at random.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import define

S = 8
TILES = ("t0", "t1", "t2")
START = """
@wp.kernel
def k(a: wp.array2d(dtype=wp.float64), b: wp.array2d(dtype=wp.float64), out: wp.array2d(dtype=wp.float64), n: int):
    t0 = wp.tile_load(a, shape=(S, S))
    t1 = wp.tile_load(b, shape=(S, S), offset=(4, 4))
    t2 = wp.tile_load(a, shape=(S, S), offset=(-2, 8))
    total = wp.tile_zeros(shape=(S, S), dtype=wp.float64)
"""
END = """
    wp.tile_store(out, t0)
    wp.tile_store(out, t1, offset=(S, 0))
    wp.tile_store(out, t2[::-1, ::-1], offset=(2 * S, 0))
    wp.tile_store(out, total, offset=(3 * S, 0))
"""


class Writer:
    """Writes the statements of a kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def block(self, loops: int, indent: int) -> None:
        """Write a few statements in ``loops`` loops."""
        for _ in range(self.random.randint(3, 5)):
            if indent < 3 and self.random.random() < 0.3:
                head = self.random.choice([f"for k{loops} in range(n):", f"for k{loops} in range(3):", "if n > 1:"])
                self.lines.append("    " * indent + head)
                self.block(loops + head.startswith("for"), indent + 1)
            else:
                self.lines += ["    " * indent + line for line in self.statement(loops)]

    def statement(self, loops: int) -> list[str]:
        """A statement, or one and what keeps its numbers small."""
        draw = self.random
        x, y, z = (draw.choice(TILES) for _ in range(3))
        row, column = draw.randint(-3, 9), draw.choice([0, 8, 4, -4, 3])
        at = f"{row} + k{loops - 1}" if loops and draw.random() < 0.5 else f"{row}"
        factors = ", ".join(draw.choice([v, f"wp.tile_transpose({v})"]) for v in (y, z))
        half = "wp.float64(0.5)"
        return draw.choice(
            [
                [f"{x} = wp.tile_load({draw.choice('aab')}, shape=(S, S), offset=({at}, {column}))"],
                [f"wp.tile_matmul({factors}, total)"],
                [f"wp.tile_matmul({factors}, total)", "total = total * wp.float64(0.25)"],
                [f"wp.tile_matmul({factors}, {x})", f"{x} = {x} * wp.float64(0.05)"],
                [f"{x} += {y}", f"{x} = {x} * {half}"],
                [f"{x} = {y} * wp.tanh(wp.tile_sum({z})[0])"],
                [f"{x} = wp.tile_zeros(shape=(S, S), dtype=wp.float64)"],
                [f"{x} += total * wp.float64(0.03)"],
                [f"{x}[{draw.randint(0, 7)}, {draw.randint(0, 7)}] = {y}[{draw.randint(0, 7)}, 2]"],
            ]
        )


def source(seed: int) -> str:
    """The text of a kernel."""
    writer = Writer(seed)
    writer.block(0, 1)
    return START + "\n".join(writer.lines) + END


def compare(seed: int, device: str) -> Any:
    """Run a kernel on the CPU and on ``device``, and compare results and gradients; returns the kernel."""
    kernel = define(source(seed), S=S)["k"]
    given, found = np.random.default_rng(seed).normal(size=(2, 12, 16)) * 0.5, []
    for where in ("cpu", device):
        a, b, out = (
            wp.array(x, dtype=wp.float64, device=where, requires_grad=True) for x in (*given, np.zeros((4 * S, S)))
        )
        with wp.Tape() as tape:
            wp.launch_tiled(kernel, dim=1, inputs=[a, b, out, 2], block_dim=32, device=where)
        weights = np.random.default_rng(seed + 1).normal(size=out.shape)
        tape.backward(grads={out: wp.array(weights, dtype=wp.float64, device=where)})
        found.append([x.numpy() for x in (out, a.grad, b.grad)])
    for right, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, right, rtol=0.0, atol=1e-9 * max(1.0, np.abs(right).max()))
    return kernel


def check(seed: int) -> None:
    """Check a kernel on the emulated device."""
    from tests.runtime.cuda.emulated import EmulatedDriver, emulated_code
    from warp_like.runtime.cuda.driver import install

    with emulated_code():
        before = install(EmulatedDriver())
        try:
            compare(seed, "cuda:0").forget_programs()
        finally:
            install(before)
