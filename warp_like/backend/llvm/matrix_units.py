"""Steps of matrix units, by the intrinsics of NVPTX: ``mma.sync`` and ``ldmatrix`` (PTX ISA, since sm_80)."""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm.block import SHARED
from warp_like.backend.llvm.writer import Writer

_STEPS = {
    "float64": ("m8n8k4.row.col.f64", "double", "double"),
    "float16": ("m16n8k16.row.col.f32.f32", "<2 x half>", "float"),
    "bfloat16": ("m16n8k16.row.col.bf16", "i32", "float"),
}
"""The names of the units' intrinsics, and the types of the parts of factors and of sums."""


def multiply_add(w: Writer, unit: str, factors: Sequence[str], sums: Sequence[str]) -> tuple[str, ...]:
    """Return the lane's part of the product, added to ``sums``."""
    name, part, total = _STEPS[unit]
    given = [w.op(f"bitcast i32 {x} to {part}") if part.startswith("<") else x for x in factors]
    types = [part] * len(given) + [total] * len(sums)
    return _several(w, f"llvm.nvvm.mma.{name}", [total] * len(sums), types, [*given, *sums])


def load_fragments(w: Writer, address: str, count: int, *, turned: bool) -> tuple[str, ...]:
    """Return the lane's parts of ``count`` matrices; ``address`` is that of a row, see ``ops.LoadFragments``."""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if turned else ''}.b16.p3"
    return _several(w, name, ["i32"] * count, [SHARED], [address])


def _several(
    w: Writer, name: str, results: Sequence[str], types: Sequence[str], args: Sequence[str]
) -> tuple[str, ...]:
    """Call an intrinsic that has several results."""
    struct = f"{{ {', '.join(results)} }}"
    made = w.intrinsic(name, struct, list(types), list(args))
    return tuple(w.op(f"extractvalue {struct} {made}, {k}") for k in range(len(results)))
