"""Kernels whose threads go along rows, in lanes with joined accesses; ``check(seed)`` compares with single threads.

``choose`` joins accesses in the loops of a thread alone. Here they are joined in lanes of the grid, which have masks,
strides and arguments that overlap. Arrays lie at protected pages.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.backend.running import Kernel
from tests.frontend.support import define
from tests.fuzz.program import Program
from tests.fuzz.rows import rows
from tests.guarded import IS_SUPPORTED, Moved
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from warp_like.backend.target import Options
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.licm import licm
from warp_like.passes.spmd.consecutive import load_consecutively
from warp_like.passes.spmd.join_accesses import join_accesses
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import widen

WIDTHS = (2, 4, 8, 16, 32)


def check(seed: int) -> int:
    """Compare the launches of one program; return how many accesses are joined, and do nothing where none are."""
    r = random.Random(seed)
    program = rows(seed)
    kernel = define(program.source, eager=True, Any=Any)["k"]
    f = optimised(kernel.source, Signature(kernel.types))
    try:
        wide = widen(f, r.choice(WIDTHS))
    except NotWidenable:
        return 0
    load_consecutively(wide)
    for step in (cse, join_accesses, licm, dce):
        step(wide)
    verify(wide)
    joined = sum(isinstance(o, (ops.LoadConsecutive, ops.StoreConsecutive)) for o in wide.body.walk())
    if joined:
        _compare(program, f, wide, r)
    return joined


def _compare(program: Program, f: Function, wide: Function, r: random.Random) -> None:
    contiguous = all(a.flags.c_contiguous for a in program.arguments(0)[1] if isinstance(a, np.ndarray))
    options = [Options(contiguous=k, fuse_fp=False, vector_math=False) for k in {contiguous, False}]
    compiled = [Kernel(wide, o) for o in options]
    for turn, dims in enumerate(program.grids):
        expected, args = program.arguments(turn)
        try:
            run(f, args, dims)
        except IndexError:
            continue  # a read beyond the end, which the writer of programs does not rule out
        message = f"seed {program.seed}, launch {turn}\n{program.source}"
        if turn == 0:
            got, args = program.arguments(turn)
            run_lanes(wide, args, dims)
            np.testing.assert_equal(got, expected, message)
        for kernel in compiled:
            got, args = program.arguments(turn)
            moved = Moved(args, r.choice(["begin", "end"])) if IS_SUPPORTED else None
            kernel(moved.args if moved else args, dims)
            if moved:
                moved.back()
            np.testing.assert_equal(got, expected, message)
