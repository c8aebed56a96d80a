"""Recorded launches that save the results of their atomics, for a gradient that depends on them.

``passes/ad/saved_results.py`` makes the code. Such a record has one argument more than the kernel has parameters, and
its programs, forward and adjoint, are compiled for it. The results belong to the run that was recorded:
``history`` refuses a backward pass after another run.
"""

from __future__ import annotations

import math

from warp_like.ir.layout import SAVED_RESULTS
from warp_like.runtime.arrays.creation import empty
from warp_like.runtime.arrays.recording import Record
from warp_like.runtime.autodiff.differentiation import adjoint_program, gradients_of
from warp_like.runtime.kernels.program import Program
from warp_like.values import dtypes


def saving_results(program: Program, record: Record) -> tuple[Program, Record]:
    """Return the program and the record of a launch that keeps what its gradient needs; the given ones otherwise."""
    if not program.effects.saved_results or program.in_order(record.dims) or not gradients_of(record):
        return program, record
    types = (*record.types, SAVED_RESULTS)
    longer = record.kernel.program(types, device=program.device, shares_indices=program.shares_indices)
    each = record.kernel.cpu_block_dim if record.kernel.cpu_block_axis >= 0 else 1  # where the grid is one of blocks
    shape = (longer.effects.saved_results, math.prod(record.dims) * each)
    kept = empty(shape, dtype=dtypes.int64, device=program.device)
    made = Record(record.kernel, record.dims, types, [*record.args, kept], record.same)
    made.block_dim = record.block_dim
    try:
        adjoint = adjoint_program(made, gradients_of(made))
    except RuntimeError:  # compile errors are among them
        return program, record  # the backward pass says why
    if adjoint is None or len(record.args) not in adjoint.effects.reads:
        return program, record
    return longer, made
