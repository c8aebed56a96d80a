"""Calls of functions: of the user's native code, as ``backend.snippets`` passes arguments, and of the extension's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_like.backend.llvm.lanes import mask_bits
from warp_like.backend.llvm.memory import load_value, pointer, store_value, strides_of
from warp_like.backend.llvm.shuffle import splat
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, Rep, leaves, one_lane, register_type
from warp_like.builtins.spec import Inline, lane_search, resolve
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.layout import size_of
from warp_like.ir.rewrite import find_ops
from warp_like.ir.types import Lanes, Scalar, Type, float32, float64, int32, int64, uint32, uint64

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

BY_VALUE = (int32, uint32, int64, uint64, float32, float64)
"""The types that a snippet takes by value; others by address."""


def snippets(f: Function) -> list[ops.Native]:
    """Return a call of each piece of native code in ``f``."""
    found = {o.code.symbol: o for o in find_ops(f.body, ops.Native)}
    return list(found.values())


def call_function(lowering: Lowering, o: ops.Native | ops.Search | ops.Outlined) -> None:
    """Append a call of any of these kinds."""
    match o:
        case ops.Native():
            call_native(lowering, o)
        case ops.Search():
            search(lowering, o)
        case ops.Outlined():
            from warp_like.backend.llvm.outlined import call_outlined

            call_outlined(lowering, o)


def call_native(lowering: Lowering, o: ops.Native) -> None:
    """Append the call of native code and bind its results."""
    w, code = lowering.w, o.code
    args: list[tuple[str, str]] = []
    updated: dict[str, str] = {}
    for (name, t), v in zip(code.params, o.args, strict=True):
        rep = lowering.rep(v)
        if isinstance(rep, ArrayRef):
            args.append(("ptr", _array(lowering, rep)))
        elif isinstance(t, Scalar) and t in BY_VALUE and name not in code.updated:
            args.append((register_type(t), rep[0]))
        else:
            args.append(("ptr", _memory(lowering, t, rep)))
            updated[name] = args[-1][1]
    places = [_memory(lowering, t, None) for _, t in code.returned]
    args += [("ptr", place) for place in places]
    places += [updated[name] for name in code.updated]
    w.declare(code.symbol, f"void @{code.symbol}({', '.join(t for t, _ in args)})")
    w.do(f"call void @{code.symbol}({', '.join(f'{t} {x}' for t, x in args)}) {w.attributes('nounwind')}")
    for result, place in zip(o.results, places, strict=True):
        lowering.bind(result, load_value(w, leaves(result.type), place, ""))


def search(lowering: Lowering, o: ops.Search) -> None:
    """Append the call of the extension's function that searches an object, on the scalars of the arguments."""
    w, lower = lowering.w, resolve(o.fn, [v.type for v in o.args]).overload.lower
    assert isinstance(lower, Inline)
    scalars = [
        (register_type(t), x) for v in o.args for (t, _), x in zip(leaves(v.type), lowering.scalars(v), strict=True)
    ]
    ((t, _),) = leaves(o.result.type)
    w.declare(lower.native, f"{register_type(t)} @{lower.native}({', '.join(t for t, _ in scalars)})")
    given = ", ".join(f"{t} {x}" for t, x in scalars)
    lowering.bind(o.result, (w.op(f"call {register_type(t)} @{lower.native}({given}) {w.attributes('nounwind')}"),))


def search_lanes(lowering: Lowering, o: ops.Search, mask: Value) -> bool:
    """Append the call that searches for all lanes of ``mask`` together, if there is one; return whether there is."""
    w, function = lowering.w, lane_search(o.fn, [v.type for v in o.args])
    if not function:
        return False
    assert isinstance(mask.type, Lanes)
    width = mask.type.width
    scalars = [(t, x) for v in o.args for (t, _), x in zip(leaves(v.type), lowering.scalars(v), strict=True)]
    numbers = [(t, x) for t, x in scalars if one_lane(t).is_float]
    row = 4 * width
    rows = w.alloca(f"[{len(numbers) * width} x float]", 64)
    for i, (t, x) in enumerate(numbers):
        lanes = x if isinstance(t, LaneScalar) else splat(w, LaneScalar("float", 32, width), x)
        place = w.op(f"getelementptr inbounds i8, ptr {rows}, i64 {i * row}")
        w.do(f"store <{width} x float> {lanes}, ptr {place}, align {min(row, 64)}")
    bits = mask_bits(w, width, lowering.scalar(mask))
    found = w.alloca(f"[{width} x i32]", 64)
    args = [(register_type(t), x) for t, x in scalars if not one_lane(t).is_float]
    args += [("ptr", rows), ("i32", str(width)), ("i64", bits if width == 64 else w.op(f"zext i{width} {bits} to i64"))]
    args += [("ptr", found)]
    w.declare(function, f"void @{function}({', '.join(t for t, _ in args)})")
    w.do(f"call void @{function}({', '.join(f'{t} {x}' for t, x in args)}) {w.attributes('nounwind')}")
    lowering.bind(o.result, (w.op(f"load <{width} x i32>, ptr {found}, align {min(row, 64)}"),))
    return True


def _memory(lowering: Lowering, t: Type, value: Rep | None) -> str:
    """The address of stack memory for a ``t`` that holds ``value``."""
    w = lowering.w
    place = w.alloca(f"[{max(size_of(t), 1)} x i8]", 16)
    if value is not None:
        assert isinstance(value, tuple)
        store_value(w, leaves(t), place, value, "")
    return place


def _array(lowering: Lowering, array: ArrayRef) -> str:
    """The address of stack memory that describes an array as ``ir.layout`` does."""
    w = lowering.w
    n = array.type.ndim
    place = w.alloca(f"[{8 + 16 * n} x i8]", 16)
    data = array.data
    if pointer(w, array) != "ptr":
        data = w.op(f"addrspacecast {pointer(w, array)} {data} to ptr")
    w.do(f"store ptr {data}, ptr {place}, align 8")
    for k, x in enumerate((*array.shape, *strides_of(w, array))):
        w.do(f"store i64 {x}, ptr {w.op(f'getelementptr inbounds i8, ptr {place}, i64 {8 + 8 * k}')}, align 8")
    return place
