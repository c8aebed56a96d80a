"""Builtins that stay functions: each is written once for a module, beside the entry, and called.

Values are passed scalar by scalar. The version for lanes takes those that vary as vectors, then the mask.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from warp_like.analysis.ranges import find_ranges
from warp_like.backend.llvm.values import leaves, register_type
from warp_like.backend.llvm.writer import Writer, aligned
from warp_like.ir import ops
from warp_like.ir.core import Function, Op

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering


def in_lanes(o: Op) -> bool:
    """Return whether ``o`` calls a function that works on all lanes at once."""
    return isinstance(o, ops.Outlined) and o.callee.schedule.lanes > 1


def call_outlined(lowering: Lowering, o: ops.Outlined) -> None:
    """Append the call of a builtin, writing its function where that is the first, and bind its results."""
    w = lowering.w
    head, name, result = _head(w, o.callee)
    w.define(name, head, result, lambda: _body(lowering, o.callee))
    given = [
        f"{register_type(t)} {x}" for v in o.args for (t, _), x in zip(leaves(v.type), lowering.scalars(v), strict=True)
    ]
    if in_lanes(o):
        given.append(f"<{o.callee.schedule.lanes} x i1> {lowering.scalar(o.mask[0])}")
    made = w.op(f"call fastcc {result} {name}({', '.join(given)}) {w.attributes('nounwind')}")
    at = iter(range(sum(len(leaves(r.type)) for r in o.results)))
    for r in o.results:
        lowering.bind(r, tuple(w.op(f"extractvalue {result} {made}, {next(at)}") for _ in leaves(r.type)))


def _head(w: Writer, f: Function) -> tuple[str, str, str]:
    """The line that defines ``f`` up to its brace, its name, and the type of what it returns."""
    name = f"@{f.name}.{w.number_of(f)}"
    types = [register_type(t) for p in f.params for t, _ in leaves(p.type)]
    if f.schedule.lanes > 1:
        types.append(f"<{f.schedule.lanes} x i1>")
    params = ", ".join(f"{t} %p{n}" for n, t in enumerate(types))
    result = f"{{{', '.join(register_type(t) for v in f.body.yielded for t, _ in leaves(v.type))}}}"
    vectors = f'{aligned(w.target.vector_bits // 8)} "prefer-vector-width"="{w.target.vector_bits}"'
    attributes = w.attributes("nounwind noinline" + ("" if w.target.is_device else vectors))
    return f"define internal fastcc {result} {name}({params}) {attributes}", name, result


def _body(caller: Lowering, f: Function) -> str:
    """Append the ops of ``f``; return what it returns."""
    w = caller.w
    count = sum(len(leaves(p.type)) for p in f.params)
    mask = f"%p{count}" if f.schedule.lanes > 1 else ""

    def nowhere(*_: int) -> str:
        raise AssertionError(f"{f.name}() asks for the thread's place")

    lowering = type(caller)(w, functools.cache(lambda: find_ranges(f)), 1, nowhere, nowhere, nowhere, mask)
    at = iter(range(count))
    for p in f.params:
        lowering.bind(p, tuple(f"%p{next(at)}" for _ in leaves(p.type)))
    lowering.body(f)
    result = "undef"
    made = [(t, x) for v in f.body.yielded for (t, _), x in zip(leaves(v.type), lowering.scalars(v), strict=True)]
    whole = f"{{{', '.join(register_type(t) for t, _ in made)}}}"
    for n, (t, x) in enumerate(made):
        result = w.op(f"insertvalue {whole} {result}, {register_type(t)} {x}, {n}")
    return result
