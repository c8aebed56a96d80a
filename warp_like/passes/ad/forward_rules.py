"""How each op makes the tangents of its results from those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warp_like.analysis.memory import root_of
from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.loops import Index, tabulate
from warp_like.builtins.operators import total_of_products
from warp_like.builtins.spec import Cooperative, Elementwise, Expand, NoGradient, Overload, resolve
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Scalar, Tile, Type, is_differentiable, is_large
from warp_like.passes.ad.activity import gradient_is_zero
from warp_like.passes.ad.adjoints import components
from warp_like.passes.ad.functions import Binder, inlined
from warp_like.passes.ad.rules import of_winners, require_only_kind
from warp_like.passes.bodies import body_of
from warp_like.passes.expand import loop_over_components
from warp_like.passes.inline import inline
from warp_like.passes.rewriter import rewrite

if TYPE_CHECKING:
    from warp_like.passes.ad.forward import Forward


# --- builtins -----------------------------------------------------------------------------------------------


def _apply(r: Forward, o: ops.Apply) -> None:
    row = resolve(o.fn, [a.type for a in o.args]).overload
    if gradient_is_zero(o) or not any(is_differentiable(x.type) for x in o.results):
        r.keep(o)
    elif isinstance(row.adjoint, NoGradient):
        r.keep(o)
        r.mark_without_derivative(
            o, f"{row.name}() has no gradient: {row.adjoint.reason}", "keep its result out of the derivative"
        )
    elif o.fn == "where":
        _where(r, o)
    elif isinstance(row.lower, Cooperative):
        _cooperative(r, o, row.lower)
    elif isinstance(row.lower, Elementwise) and isinstance(o.result.type, Tile):
        scalar = row.lower.scalar
        _run_body(r, o, lambda b, *args: loop_over_components(b, scalar, o.result, args))
    elif isinstance(row.lower, Elementwise):
        r.keep(o)
        r.set(o.result, _elementwise(r, row.lower.scalar, o))
    elif (body := body_of(row.lower)) is not None and (
        row.adjoint is None or not (len(o.results) > 1 or _is_scalar_valued(o))
    ):
        _expand_or_apply_rule(r, o, body, row)
    elif row.adjoint is None:
        raise WarpCodegenError(f"{row.name}() has no gradient")
    else:
        r.keep(o)
        _apply_rule(r, row, o)


def _is_scalar_valued(o: ops.Apply) -> bool:
    return all(isinstance(x.type, Scalar) for x in o.results)


def _where(r: Forward, o: ops.Apply) -> None:
    r.keep(o)
    cond, x, y = o.args
    r.set(o.result, r.b.select(r.value(cond), r.or_zero(x), r.or_zero(y)))


def _cooperative(r: Forward, o: ops.Apply, lower: Cooperative) -> None:
    """The tangents of all threads meet where their values do; the adjoint's rule gives this thread's part alone."""
    r.keep(o)
    assert lower.tangent is not None
    r.set(o.result, lower.tangent(r.b, r.or_zero(o.args[0]), r.value(o.result), *(r.value(a) for a in o.args)))


def _elementwise(r: Forward, name: str, o: ops.Apply) -> Value:
    """Put the tangents of the components together."""
    if is_large(o.result.type):
        return _elementwise_loop(r, name, o)
    out = components(r.b, r.value(o.result))
    primals = [_column(r, r.value(a), len(out)) for a in o.args]
    tangents = [_column(r, t, len(out)) for t in (r.tangent(a) for a in o.args)]
    found = []
    for i, x in enumerate(out):
        args, changes = [c[i] for c in primals], [c[i] for c in tangents]
        row = resolve(name, [a.type for a in args if a is not None]).overload
        got = _scalar_tangent(r, row, args, changes, x)  # type: ignore[arg-type]
        found.append(got if got is not None else r.b.zero(x.type))
    return r.b.make(o.result.type, found)


def _elementwise_loop(r: Forward, name: str, o: ops.Apply) -> Value:
    """Make the tangents of the components one after the other."""
    out, primals, tangents = r.value(o.result), [r.value(a) for a in o.args], [r.tangent(a) for a in o.args]

    def at(v: Value, index: Index) -> Value:
        return v if isinstance(v.type, Scalar) else r.b.extract(v, *index)

    def component(index: Index) -> Value:
        args = [at(a, index) for a in primals]
        changes = [None if t is None else at(t, index) for t in tangents]
        row = resolve(name, [a.type for a in args]).overload
        x = at(out, index)
        got = _scalar_tangent(r, row, args, changes, x)
        return r.b.zero(x.type) if got is None else got

    return tabulate(r.b, out.type, component)


def _column(r: Forward, v: Value | None, count: int) -> Sequence[Value | None]:
    """The components of an aggregate, or a scalar or nothing repeated."""
    return [v] * count if v is None or isinstance(v.type, Scalar) else components(r.b, v)


def _scalar_tangent(
    r: Forward, row: Overload, args: list[Value], tangents: list[Value | None], out: Value
) -> Value | None:
    """The tangent of a scalar function of scalars: the rule multiplies what it gets by the derivative."""
    if isinstance(row.adjoint, NoGradient) and row.adjoint.zero:
        return None
    body = body_of(row.lower)
    if row.adjoint is None and body is not None:
        return _body_tangent(r, body, args, tangents)
    if row.adjoint is None or isinstance(row.adjoint, NoGradient):
        raise WarpCodegenError(f"{row.name}() has no gradient")
    terms = []
    for k, t in enumerate(tangents):
        if t is not None:
            terms.append(_results(row.adjoint(r.b, r.b.cast(t, out.type), out, *args))[k])
    return _total(r, terms)


def _body_tangent(r: Forward, lower: Expand, args: list[Value], tangents: list[Value | None]) -> Value | None:
    """The tangent of a body for values of the new function; what it computes again is merged later."""
    sources = [Value(a.type, a.hint) for a in args]
    r.cloner.mapping.update(zip(sources, args, strict=True))
    for source, t in zip(sources, tangents, strict=True):
        r.set(source, t)
    block, outs = _body(r, lower, sources)
    r.run_new(block, sources)
    return r.tangent(outs[0])


def _body(r: Forward, lower: Expand, args: Sequence[Value]) -> tuple[Block, tuple[Value, ...]]:
    with r.b.into(Block()) as block:
        got = lower.body(r.b, *args)
    return block, _results(got)


def _expand_or_apply_rule(r: Forward, o: ops.Apply, lower: Expand, row: Overload) -> None:
    """Differentiate the body; one that iterates is left to the rule, which knows what it converges to."""
    block, outs = _body(r, lower, o.args)
    large = any(is_large(v.type) for v in (*o.args, *o.results))
    if not large and row.adjoint is not None and any(isinstance(x, (ops.For, ops.While)) for x in block.walk()):
        r.keep(o)
        _apply_rule(r, row, o)
        return
    _run(r, o, block, outs)


def _run_body(r: Forward, o: ops.Apply, body: Callable[..., Any]) -> None:
    """Differentiate what ``body`` makes of the arguments."""
    _run(r, o, *_body(r, Expand(body), o.args))


def _run(r: Forward, o: ops.Apply, block: Block, outs: tuple[Value, ...]) -> None:
    r.run_new(block, o.args)
    for old, new in zip(o.results, outs, strict=True):
        r.cloner.mapping[old] = r.value(new)
        r.set(old, r.tangent(new))


def _apply_rule(r: Forward, row: Overload, o: ops.Apply) -> None:
    """Multiply the tangents by the Jacobian: one row of it for each scalar of the results."""
    args = [r.value(a) for a in o.args]
    tangents = [r.tangent(a) for a in o.args]
    outs = [r.value(x) for x in o.results]
    if len(outs) == 1 and all(isinstance(v.type, Scalar) for v in (*args, *outs)):
        r.set(o.result, _scalar_tangent(r, row, args, tangents, outs[0]))
        return
    assert callable(row.adjoint)
    for k, (old, out) in enumerate(zip(o.results, outs, strict=True)):
        found = []
        for i, x in enumerate(components(r.b, out)):
            seeds = [_unit(r, v, i if j == k else None) for j, v in enumerate(outs)]
            single = len(outs) == 1
            adjoints = _results(row.adjoint(r.b, seeds[0] if single else seeds, outs[0] if single else outs, *args))
            terms = [
                _inner(r, a, t) for a, t in zip(adjoints, tangents, strict=True) if a is not None and t is not None
            ]
            total = _total(r, terms)
            found.append(total if total is not None else r.b.zero(x.type))
        r.set(old, found[0] if isinstance(out.type, Scalar) else r.b.make(out.type, found))


def _unit(r: Forward, like: Value, at: int | None) -> Value:
    """The value of the type of ``like`` whose component ``at`` is one and whose others are zero."""
    if isinstance(like.type, Scalar):
        return r.b.constant(0.0 if at is None else 1.0, like.type)
    return r.b.constant(tuple(float(i == at) for i in range(len(r.b.components(like)))), like.type)


def _inner(r: Forward, a: Value, t: Value) -> Value:
    """The sum of the products of the components."""
    if is_large(a.type):
        return total_of_products(r.b, a, t)
    products = [r.b.mul(p, q) for p, q in zip(components(r.b, a), components(r.b, t), strict=True)]
    total = _total(r, products)
    assert total is not None
    return total


def _total(r: Forward, terms: Sequence[Value | None]) -> Value | None:
    total: Value | None = None
    for t in terms:
        if t is not None:
            total = t if total is None else r.b.add(total, t)
    return total


def _results(got: Any) -> tuple[Any, ...]:
    return got if isinstance(got, tuple) else (got,)


# --- functions with a gradient of the user's own --------------------------------------------------------------


def _call(r: Forward, o: ops.Call) -> None:
    """Multiply the tangents by the Jacobian that the user's gradient function gives: a row for each scalar result."""
    r.keep(o)
    for a in o.args:
        if isinstance(a.type, Array) and r.tangent(a) is not None:
            raise WarpCodegenError(
                f"`{o.callee.name}` has a gradient function, which gives the gradient of the array `{a.hint}` as "
                "additions to its adjoint; forward mode can't turn these into a tangent",
                help="use reverse mode, or give the function the elements that it needs as arguments",
            )
    outs = [r.value(x) for x in o.results]
    for k, (old, out) in enumerate(zip(o.results, outs, strict=True)):
        if not is_differentiable(out.type):
            continue
        found = []
        for i, x in enumerate(components(r.b, out)):
            seeds = [_unit(r, v, i if j == k else None) for j, v in enumerate(outs)]
            total = _total(r, _products_with_gradient(r, o, seeds))
            found.append(r.b.zero(x.type) if total is None else total)
        r.set(old, found[0] if isinstance(out.type, Scalar) else r.b.make(out.type, found))


def _products_with_gradient(r: Forward, o: ops.Call, seeds: list[Value]) -> list[Value]:
    """Run the gradient function of a call for the adjoints ``seeds`` of its results."""
    assert o.callee.gradient is not None
    bound = inline(clone_function(o.callee.gradient))
    args = [*(r.value(a) for a in o.args), *seeds]
    values, missing = [], set()
    for a in o.args:
        if isinstance(a.type, Array) and is_differentiable(a.type):
            missing.add(root_of(bound.params[len(args)]))
            args.append(r.value(a))
        elif is_differentiable(a.type):
            values.append(a)
            args.append(r.b.zero(a.type))
    rewrite(bound, Binder(o.callee.name, missing, set(), set()))
    body, results = inlined(bound, args, o.loc)
    r.b.block.ops += body
    pairs = [(g, r.tangent(a)) for a, g in zip(values, results, strict=True)]
    return [_inner(r, g, t) for g, t in pairs if t is not None]


# --- values -------------------------------------------------------------------------------------------------


def _linear(r: Forward, o: Op) -> None:
    """The tangent of an op that is linear in its float operands: the same op of their tangents."""
    r.keep(o)
    if is_differentiable(o.result.type):
        r.set(o.result, r.b.insert(_with_tangents(r, o), o.result.type, hint=o.result.hint).result)


def _with_tangents(r: Forward, o: Op) -> Op:
    match o:
        case ops.Make():
            return ops.Make(tuple(_tangent_or_value(r, e) for e in o.elements))
        case ops.Fill():
            return ops.Fill(r.or_zero(o.x))
        case ops.Extract():
            return ops.Extract(r.or_zero(o.x), _values(r, o.indices))
        case ops.Insert():
            return ops.Insert(r.or_zero(o.x), r.or_zero(o.value), _values(r, o.indices))
        case ops.View():
            return ops.View(r.or_zero(o.array), _values(r, o.indices), o.field)
        case ops.Slice():
            return ops.Slice(r.or_zero(o.array), _values(r, o.start), _values(r, o.count), _values(r, o.step), o.kept)
        case ops.NestedArray():
            return ops.NestedArray(r.or_zero(o.array), _values(r, o.indices))
        case ops.Load():
            return ops.Load(r.or_zero(o.array), _values(r, o.indices))
    raise TypeError(f"{o.NAME} is not linear")


def _tangent_or_value(r: Forward, v: Value) -> Value:
    """The tangent; the value itself for an array or a number without derivative that a struct holds."""
    return r.or_zero(v) if is_differentiable(v.type) else r.value(v)


def _values(r: Forward, values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(r.value(v) for v in values)


def _cast(r: Forward, o: ops.Cast) -> None:
    r.keep(o)
    if is_differentiable(o.result.type):
        t: Type = o.result.type
        r.set(o.result, r.b.cast(r.or_zero(o.x), t))


def _bitcast(r: Forward, o: ops.Bitcast) -> None:
    r.keep(o)
    r.mark_without_derivative(
        o, "the derivative does not pass through a reinterpretation of bits", "use a conversion by value"
    )


# --- memory -------------------------------------------------------------------------------------------------


def _store(r: Forward, o: ops.Store) -> None:
    r.keep(o)
    target = r.tangent(o.array)
    if target is not None:
        r.b.store(target, _values(r, o.indices), r.or_zero(o.value))


def _atomic(r: Forward, o: ops.Atomic) -> None:
    r.keep(o)
    target = r.tangent(o.array)
    if target is None:
        return
    kind = KINDS[o.kind]
    if kind.takes:  # of an adjoint, whose tangent goes to one thread in the same way
        r.set(o.result, r.b.atomic(o.kind, target, _values(r, o.indices), r.value(o.value)))
        return
    if kind.derivative is None:
        raise _no_tangent(o)
    if kind.winners:
        _require_final_values(r.source, o)
    change = r.tangent(o.value)
    if change is not None and kind.winners:
        final = r.b.load(r.value(o.array), _values(r, o.indices))
        change = of_winners(r.b, kind, r.value(o.value), final, change)
    elif change is not None and not kind.sign:
        change = kind.derivative(r.b, change)
    if change is not None:
        r.b.atomic(o.kind if kind.sign else "add", target, _values(r, o.indices), change)
    _refuse_old_value(r, o)


def _require_final_values(f: Function, o: ops.Atomic) -> None:
    """Refuse a kernel that does something else if the array holds the final values beforehand."""
    if f.role == "tangent":  # of a tangent, which has been through this
        return
    require_only_kind(f, o, "tangent")
    root, name = root_of(o.array), root_of(o.array).array.hint
    for x in f.body.walk():
        if (o.result in x.operands()) or (isinstance(x, (ops.Load, ops.Native)) and root in map(root_of, x.operands())):
            raise WarpCodegenError(
                f"atomic_{o.kind}() on `{name}` has no tangent here: the same kernel also reads `{name}`, "
                "and what it sees depends on the order of the threads",
                help="read the array in a second kernel",
            )


def _atomic_cas(r: Forward, o: ops.AtomicCas) -> None:
    r.keep(o)
    if r.tangent(o.array) is not None:
        raise _no_tangent(o)


def _native(r: Forward, o: ops.Native) -> None:
    raise WarpCodegenError(
        f"`{o.code.name}` is native code, which has no tangent", help="use reverse mode, with an adj_snippet"
    )


def _no_tangent(o: ops.Atomic | ops.AtomicCas) -> WarpCodegenError:
    kind = KINDS["cas" if isinstance(o, ops.AtomicCas) else o.kind]
    return WarpCodegenError(
        f"atomic_{kind.name}() on `{root_of(o.array).array.hint}` has no tangent: {kind.no_gradient}",
        help="use atomic_add, atomic_min or atomic_max",
    )


def _refuse_old_value(r: Forward, o: ops.Atomic) -> None:
    r.mark_without_derivative(
        o,
        f"the old value that an atomic returns has no tangent: it depends on the order of the threads on "
        f"`{root_of(o.array).array.hint}`",
        "read the array in a second kernel",
    )


def _keep(r: Forward, o: Op) -> None:
    r.keep(o)


RULES: dict[type[Op], Callable[..., None]] = {
    ops.Apply: _apply,
    ops.Call: _call,
    ops.Cast: _cast,
    ops.Bitcast: _bitcast,
    ops.Make: _linear,
    ops.Extract: _linear,
    ops.Insert: _linear,
    ops.Fill: _linear,
    ops.View: _linear,
    ops.Slice: _linear,
    ops.NestedArray: _linear,
    ops.Load: _linear,
    ops.Store: _store,
    ops.Atomic: _atomic,
    ops.AtomicCas: _atomic_cas,
    ops.Dim: _keep,
    ops.GridDim: _keep,
    ops.Empty: _keep,
    ops.Print: _keep,
    ops.Check: _keep,
    ops.Native: _native,
    ops.Address: _keep,
}
"""The rule of each op: ``rule(forward, op)`` emits the op and sets the tangents of its results.

An op without an operand that has a tangent is emitted as it is. Control flow and the stack are in
``forward``.
"""
