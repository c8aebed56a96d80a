"""Steps of matrix units, by the intrinsics of NVPTX: ``mma.sync`` and ``ldmatrix`` (PTX ISA, since sm_80)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warp_like.backend.llvm.block import SHARED
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

_STEPS = {
    "float64": ("m8n8k4.row.col.f64", "double", "double"),
    "float16": ("m16n8k16.row.col.f32.f32", "<2 x half>", "float"),
    "bfloat16": ("m16n8k16.row.col.bf16", "i32", "float"),
}
"""The names of the units' intrinsics, and the types of the parts of factors and of sums."""


def lower_multiply_add(lowering: Lowering, o: ops.MultiplyAdd) -> None:
    """Add the lane's part of a product to its sums."""
    w = lowering.w
    factors, sums = [lowering.scalar(v) for v in (*o.a, *o.b)], [lowering.scalar(v) for v in o.c]
    name, part, total = _STEPS[o.unit]
    given = [w.op(f"bitcast i32 {x} to {part}") if part.startswith("<") else x for x in factors]
    types = [part] * len(given) + [total] * len(sums)
    lowering.bind_numbers(o, _several(w, f"llvm.nvvm.mma.{name}", [total] * len(sums), types, [*given, *sums]))


def lower_load_fragments(lowering: Lowering, o: ops.LoadFragments) -> None:
    """Load the lane's parts of as many matrices as ``o`` has results."""
    row, count = lowering.address(o, o.array, [o.index]), len(o.results)
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if o.turned else ''}.b16.p3"
    lowering.bind_numbers(o, _several(lowering.w, name, ["i32"] * count, [SHARED], [row]))


def _several(
    w: Writer, name: str, results: Sequence[str], types: Sequence[str], args: Sequence[str]
) -> tuple[str, ...]:
    """Call an intrinsic that has several results."""
    struct = f"{{ {', '.join(results)} }}"
    made = w.intrinsic(name, struct, list(types), list(args))
    return tuple(w.op(f"extractvalue {struct} {made}, {k}") for k in range(len(results)))
