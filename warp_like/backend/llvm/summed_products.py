"""Products that are summed twice: over lanes, at an element, and over a loop's iterations, in a register.

The adjoint of ``x[j] - x[i]`` in a loop over ``j`` adds a product to one element and subtracts it from the other. LLVM
fuses a product with an addition where nobody else takes the product. Here each of several additions is fused with it,
and nobody needs the product itself. That is only done where the options let operations be fused.
"""

from __future__ import annotations

from collections.abc import Collection

from warp_like.backend.llvm.values import LaneScalar, leaves, register_type, suffix
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Lanes


def find_products(f: Function, sums: Collection[Op | None]) -> set[Value]:
    """Return the products in lanes of which ``sums`` are the sums over the lanes, and that else are only added."""
    found = {o.x for o in sums if isinstance(o, ops.LaneReduce) and _is_product(o.x)}
    users: dict[Value, list[Op]] = {}
    for o in f.body.walk() if found else ():
        for v in o.operands():
            users.setdefault(v, []).append(o)

    def adds(o: Op, v: Value) -> bool:
        match o:
            case ops.Apply(fn="neg"):
                return all(adds(u, o.result) for u in users.get(o.result, ()))
            case ops.Apply(fn="add" | "sub", args=(x, _)):
                return o.fn == "add" or x is not v
        return o in sums

    return {v for v in found if len(users[v]) > 1 and all(adds(o, v) for o in users[v])}


def _is_product(v: Value) -> bool:
    """Whether ``v`` is a product of floats, or of a float and a vector, in lanes."""
    if not (isinstance(v.type, Lanes) and isinstance(v.op, ops.Apply) and v.op.fn == "mul"):
        return False
    parts = [[t for t, _ in leaves(a.type)] for a in v.op.args]
    first = parts[0][0]
    if any(t != first for p in parts for t in p) or min(map(len, parts)) > 1:
        return False
    return isinstance(first, LaneScalar) and first.is_float and first.bits >= 32


def added_product(o: ops.Apply, products: Collection[Value]) -> tuple[Value, Value, bool] | None:
    """Return which of ``products`` ``o`` adds to what other number, and whether it subtracts it."""
    if o.fn not in ("add", "sub"):
        return None
    x, y = o.args
    for v, other in ((y, x), (x, y)) if o.fn == "add" else ((y, x),):
        negated = isinstance(v.op, ops.Apply) and v.op.fn == "neg"
        product = v.op.args[0] if isinstance(v.op, ops.Apply) and negated else v
        if product in products and other.type == product.type:
            return product, other, negated != (o.fn == "sub")
    return None


def multiply_add(w: Writer, t: LaneScalar, a: str, b: str, c: str) -> str:
    """Append ``a * b + c``, fused where the processor can."""
    reg = register_type(t)
    return w.intrinsic(f"llvm.fmuladd.{suffix(t)}", reg, [reg] * 3, [a, b, c], w.fp)
