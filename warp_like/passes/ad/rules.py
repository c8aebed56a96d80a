"""How each op sends the adjoints of its results to its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warp_like.analysis.memory import root_of, roots_written
from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import for_each, tabulate
from warp_like.builtins.spec import Elementwise, NoGradient, Overload, resolve
from warp_like.builtins.vector import combined
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS, AtomicKind
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Mat, Scalar, Tile, element_shape, is_differentiable, is_large
from warp_like.passes.ad.activity import gradient_address, reads_graded_memory
from warp_like.passes.ad.adjoints import components, wide_type
from warp_like.passes.ad.functions import reverse_call
from warp_like.passes.ad.markers import Replayed
from warp_like.passes.ad.order import ONE_THREAD, refuse_old_value, require_fixed
from warp_like.passes.ad.sweep import Sweep
from warp_like.passes.bodies import body_of


def _apply(r: Sweep, o: ops.Apply, *g: Value | None) -> None:
    resolved = resolve(o.fn, [a.type for a in o.args])
    args = list(o.args)
    full = [r.or_zero(x, res) for x, res in zip(g, o.results, strict=True)]
    outs = list(o.results)
    for primal, a in zip(o.args, _builtin_adjoints(r, resolved.overload, args, outs, full), strict=True):
        r.send(primal, a)
    if r.primal.objects and reads_graded_memory(o):
        _add_to_memory(r, resolved.overload.to_memory, [*args[:-1], *full])


def _add_to_memory(r: Sweep, name: str, args: list[Value]) -> None:
    """Write the body of the row that adds to the adjoints of an object's memory: a call of it would be free to move."""
    body = body_of(resolve(name, [a.type for a in args]).overload.lower)
    assert body is not None
    body.body(r.b, *args)


def _builtin_adjoints(
    r: Sweep, row: Overload, args: list[Value], outs: list[Value], g: list[Value]
) -> list[Value | None]:
    """Return one adjoint for each argument of a builtin, by its rule or that of its scalar form."""
    rule = row.adjoint
    if isinstance(rule, NoGradient):
        if rule.zero:
            return [None] * len(args)
        raise WarpCodegenError(f"{row.name}() has no gradient: {rule.reason}")
    if rule is not None:
        single = len(outs) == 1
        found = rule(r.b, g[0] if single else g, outs[0] if single else outs, *args)
        return list(found) if isinstance(found, tuple) else [found]
    if isinstance(row.lower, Elementwise):
        return _elementwise_adjoints(r, row.lower.scalar, args, outs[0], g[0])
    raise WarpCodegenError(f"{row.name}() has no gradient")


def _elementwise_adjoints(r: Sweep, name: str, args: list[Value], out: Value, g: Value) -> list[Value | None]:
    columns = [None if isinstance(a.type, Scalar) else components(r.b, a) for a in args]
    sums: list[list[Value | None]] = [[] for _ in args]
    for i, (gi, oi) in enumerate(zip(components(r.b, g), components(r.b, out), strict=True)):
        scalars = [a if c is None else c[i] for a, c in zip(args, columns, strict=True)]
        row = resolve(name, [s.type for s in scalars]).overload
        for total, x in zip(sums, _builtin_adjoints(r, row, scalars, [oi], [gi]), strict=True):
            total.append(x)
    return [_gather(r, a, total) for a, total in zip(args, sums, strict=True)]


def _gather(r: Sweep, arg: Value, parts: list[Value | None]) -> Value | None:
    """Put the adjoints by component together; those of a scalar that was repeated are summed."""
    known = [p for p in parts if p is not None]
    if not known:
        return None
    if isinstance(arg.type, Scalar):
        total = known[0]
        for p in known[1:]:
            total = r.b.add(total, p)
        return total
    zero = None if len(known) == len(parts) else r.b.zero(known[0].type)
    return r.b.make(arg.type, [zero if p is None and zero is not None else p for p in parts])  # type: ignore[misc]


def _cast(r: Sweep, o: ops.Cast, g: Value) -> None:
    if is_differentiable(o.x.type):
        r.send(o.x, r.b.cast(g, o.x.type))


def _bitcast(r: Sweep, o: ops.Bitcast, g: Value) -> None:
    raise WarpCodegenError("the gradient does not pass through a reinterpretation of bits")


def _make(r: Sweep, o: ops.Make, g: Value) -> None:
    if is_large(o.result.type) and len(set(o.elements)) == 1:
        r.send(o.elements[0], combined(r.b, r.b.add, r.b.cast(g, wide_type(g.type))))
    elif any(e in r.primal.varied for e in o.elements):
        for e, x in zip(o.elements, components(r.b, g), strict=True):
            r.send(e, x)


def _fill(r: Sweep, o: ops.Fill, g: Value) -> None:
    t, wide = o.result.type, wide_type(g.type)
    assert isinstance(t, Tile)
    assert isinstance(wide, Tile)
    start = r.b.zero(wide.dtype)
    total = for_each(r.b, t, [start], lambda i, s: [r.b.add(s, r.b.cast(r.b.extract(g, *i), wide.dtype))])[0]
    r.send(o.x, total)


def _flat_index(t: Any, indices: tuple[Value, ...]) -> int | None:
    """Return the flat position of a scalar component when all indices are constant, else None."""
    numbers = [ops.constant_value(i) for i in indices]
    if any(n is None for n in numbers):
        return None
    if isinstance(t, Mat):
        return int(numbers[0] * t.cols + numbers[1]) if len(numbers) == 2 else None
    return int(numbers[0])


def _extract(r: Sweep, o: ops.Extract, g: Value) -> None:
    if o.x not in r.primal.varied:
        return
    at = _flat_index(o.x.type, o.indices)
    if at is not None and not is_large(o.x.type):
        r.adjoints.add_component(o.x, at, g)
        return
    # an index out of range reads component 0
    indices = list(o.indices)
    read = [r.b.select(_in_range(r, i, n), i, r.b.zero(i.type)) for i, n in zip(indices, _extents(o.x), strict=False)]
    if is_large(o.x.type):
        r.adjoints.add_at(o.x, read, g)
    else:
        r.send(o.x, r.b.insert_component(r.b.zero(o.x.type), g, *read))


def _extents(x: Value) -> tuple[int, ...]:
    return element_shape(x.type)


def _in_range(r: Sweep, i: Value, n: int) -> Value:
    result: Value = r.b.bit_and(r.b.ge(i, 0), r.b.lt(i, n))
    return result


def _insert(r: Sweep, o: ops.Insert, g: Value) -> None:
    indices = list(o.indices)
    if o.value in r.primal.varied:
        x = r.b.extract(g, *indices)
        if any(ops.constant_value(i) is None for i in o.indices):  # an index out of range inserts nothing
            for i, n in zip(indices, _extents(o.x), strict=False):
                x = r.b.select(_in_range(r, i, n), x, r.b.zero(x.type))
        r.send(o.value, x)
    if o.x in r.primal.varied:
        r.send(o.x, r.b.insert_component(g, r.b.zero(o.value.type), *indices))


def _load(r: Sweep, o: ops.Load, g: Value) -> None:
    address = gradient_address(o.array) if r.primal.objects else None
    if address is None:
        _add_to_element(r, o, g)
        return
    with r.b.into(Block()) as known:
        _add_to_element(r, o, g)
        r.b.yield_()
    with r.b.into(Block()) as unknown:
        r.b.yield_()
    r.b.if_(r.b.ne(address, r.b.zero(address.type)), known, unknown)


def _add_to_element(r: Sweep, o: ops.Load, g: Value) -> None:
    target = r.adjoint_array(o.array)
    if target is not None:
        require_fixed(o, r.primal.memory, r.primal.varied)
        r.b.atomic("add", target, list(o.indices), g)


def _require_not_of_an_object(r: Sweep, o: ops.Store | ops.Atomic | ops.AtomicCas) -> None:
    if r.primal.objects and gradient_address(o.array) is not None:
        raise WarpCodegenError(
            "the gradient does not pass through writes to the memory of an object that a query reads",
            help="give the kernel the array as an argument, and write to that",
        )


def _store(r: Sweep, o: ops.Store) -> None:
    _require_not_of_an_object(r, o)
    source = r.adjoint_array(o.array)
    if source is None:
        return
    indices, zero = list(o.indices), r.b.zero(o.value.type)
    root = root_of(o.array)
    if o.value in r.primal.varied and root not in r.primal.private and root.kind != "local":
        r.send(o.value, r.b.atomic("take", source, indices, zero))
        return
    r.send(o.value, r.b.load(source, indices))
    r.b.store(source, indices, zero)


def _atomic(r: Sweep, o: ops.Atomic) -> None:
    _require_not_of_an_object(r, o)
    _require_no_old_value(r, o)
    source = r.adjoint_array(o.array)
    if source is None:
        return
    kind = KINDS[o.kind]
    if kind.derivative is None:
        raise _no_gradient(o)
    if o.value not in r.primal.varied:
        return
    indices = list(o.indices)
    if not kind.winners:
        r.send(o.value, kind.derivative(r.b, r.b.load(source, indices)))
        return
    require_only_kind(r.primal.f, o, "gradient")
    final = r.b.load(o.array, indices)
    r.send(o.value, of_winners(r.b, kind, o.value, final, r.b.load(source, indices)))


def _require_no_old_value(r: Sweep, o: ops.Atomic | ops.AtomicCas) -> None:
    if r.adjoints.take(o.result) is not None:
        raise refuse_old_value(o)


def _no_gradient(o: ops.Atomic | ops.AtomicCas) -> WarpCodegenError:
    kind = KINDS["cas" if isinstance(o, ops.AtomicCas) else o.kind]
    return WarpCodegenError(
        f"atomic_{kind.name}() on `{root_of(o.array).array.hint}` has no gradient: {kind.no_gradient}",
        help=f"use an array without requires_grad, or atomic_add, atomic_min or atomic_max{ONE_THREAD}",
    )


def of_winners(b: Emitter, kind: AtomicKind, value: Value, final: Value, x: Value) -> Value:
    """Return what an update by ``value`` makes of ``x``, the element's adjoint or the value's tangent."""
    assert kind.derivative is not None
    if is_large(value.type):
        change = kind.derivative
        return tabulate(b, value.type, lambda i: change(b, *(b.extract(v, *i) for v in (value, final, x))))
    columns = zip(components(b, value), components(b, final), components(b, x), strict=True)
    parts = [kind.derivative(b, *column) for column in columns]
    return parts[0] if isinstance(value.type, Scalar) else b.make(value.type, parts)


def require_only_kind(f: Function, o: ops.Atomic, what: str) -> None:
    """Refuse where the final value need not be a winner's, since the kernel changes the array in another way too."""
    root, name = root_of(o.array), root_of(o.array).array.hint
    for x in f.body.walk():
        if root in roots_written(x) and not (isinstance(x, ops.Atomic) and x.kind == o.kind):
            raise WarpCodegenError(
                f"atomic_{o.kind}() on `{name}` has no {what} here: the same kernel changes `{name}` in "
                "another way too, which hides whose value has won",
                help=f"change the array in two kernels, one after the other{ONE_THREAD if what == 'gradient' else ''}",
            )


def _atomic_cas(r: Sweep, o: ops.AtomicCas) -> None:
    _require_not_of_an_object(r, o)
    _require_no_old_value(r, o)
    if r.adjoint_array(o.array) is not None:
        raise _no_gradient(o)


def _native(r: Sweep, o: ops.Native, *g: Value | None) -> None:
    raise WarpCodegenError(
        f"`{o.code.name}` is native code, which has no gradient of its own",
        help="give func_native an adj_snippet, or use an array without requires_grad",
    )


def _replayed(r: Sweep, o: Replayed, g: Value) -> None:
    r.send(o.value, g)


def _pop(r: Sweep, o: ops.Pop, g: Value) -> None:
    raise WarpCodegenError(
        "the gradient of a wp.grad() of a function with a loop that saves its state is not supported",
        help="give the loop a constant range that is unrolled, or use wp.autograd.hvp for second derivatives",
    )


def _nothing(r: Sweep, o: Op, *g: Value | None) -> None:
    """Constants and indices have no operands that carry a gradient."""


RULES: dict[type[Op], Callable[..., None]] = {
    ops.Apply: _apply,
    ops.Cast: _cast,
    ops.Bitcast: _bitcast,
    ops.Make: _make,
    ops.Extract: _extract,
    ops.Insert: _insert,
    ops.Load: _load,
    ops.Store: _store,
    ops.Atomic: _atomic,
    ops.AtomicCas: _atomic_cas,
    ops.Constant: _nothing,
    ops.Empty: _nothing,
    ops.Fill: _fill,
    ops.Tid: _nothing,
    ops.GridDim: _nothing,
    ops.Dim: _nothing,
    ops.View: _nothing,
    ops.Slice: _nothing,
    ops.NestedArray: _nothing,
    ops.LocalArray: _nothing,
    ops.AtAddress: _nothing,
    ops.Address: _nothing,
    ops.IsLive: _nothing,
    ops.Print: _nothing,
    ops.Check: _nothing,
    ops.Breakpoint: _nothing,
    ops.Pop: _pop,
    ops.Native: _native,
    ops.Call: reverse_call,
    Replayed: _replayed,
}
"""The rule of each op: ``rule(reversal, op, *adjoints of the results)``; control flow is elsewhere."""
