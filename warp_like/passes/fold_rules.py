"""The rules of ``fold`` for ops without blocks, one table by op class and one by builtin.

A rule gets the emitter and an op whose operands are final; it returns the value that replaces the result, or
None. A rule that emits must return what it emitted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Op, Value
from warp_like.ir.types import Scalar, Tile, element_count, element_shape, is_large, scalar_of
from warp_like.passes.arithmetic import Number, compute, convert, reinterpret, rounded

Rule = Callable[[Emitter, Any], "Value | None"]


def same_constant(a: Value, b: Value) -> bool:
    """Return whether ``a`` and ``b`` are constants of one type and value (``0.0`` and ``-0.0`` differ)."""
    x, y = ops.constant_value(a), ops.constant_value(b)
    return x is not None and a.type == b.type and repr(x) == repr(y)


def constant_at(b: Emitter, o: Op, value: Any) -> Value:
    """Emit ``value`` as the result type of ``o`` at its location."""
    with at(o.loc):
        return b.constant(value, o.result.type)


# --- builtins -----------------------------------------------------------------------------------------------


def _apply(b: Emitter, o: ops.Apply) -> Value | None:
    if len(o.results) != 1:
        return None
    values = [v.op.value for v in o.args if isinstance(v.op, ops.Constant)]
    if o.args and len(values) == len(o.args) and not any(isinstance(v, tuple) for v in values):
        types = [v.type for v in o.args if isinstance(v.type, Scalar)]
        result = o.result.type
        got = compute(o.fn, values, types, result) if isinstance(result, Scalar) else None
        if got is not None:
            return constant_at(b, o, got)
    identity = _IDENTITIES.get(o.fn)
    return identity(b, o) if identity else None


def _is(v: Value, number: Number) -> bool:
    """Whether every component of ``v`` is the constant ``number``."""
    got = ops.constant_value(v)
    if got is None:
        return False
    values = got if isinstance(got, tuple) else (got,)
    if any(abs(x - number) > 0.5 for x in values):
        return False  # no type rounds that far, and to round takes long
    scalar = scalar_of(v.type)
    assert scalar is not None
    return all(x == number or _rounds_to(x, scalar, number) for x in values)


@functools.lru_cache(maxsize=256)
def _rounds_to(x: Number, t: Scalar, number: Number) -> bool:
    return rounded(x, t) == number


def _is_int(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def _keeps(x: Value, o: Op) -> Value | None:
    """``x`` if it has the type of the result."""
    return x if x.type == o.result.type else None


def _adds_nothing(zero: Value, x: Value, sign: float) -> bool:
    """Whether ``x + zero`` (``sign`` 1) or ``x - zero`` (-1) is ``x``: ``-0.0 + 0.0`` and ``-0.0 - -0.0`` are 0.0."""
    if not _is(zero, 0):
        return False
    scalar, got = scalar_of(zero.type), ops.constant_value(zero)
    if scalar is not None and scalar.is_int:
        return True
    signs = {sign * math.copysign(1.0, c) for c in (got if isinstance(got, tuple) else (got,))}
    return signs == {-1.0} or _is_no_negative_zero(x)


def _is_no_negative_zero(x: Value) -> bool:
    """Whether no component of the float ``x`` can be -0.0. Sums can: a product before underflows in an ``fma``."""
    got = ops.constant_value(x)
    if got is not None:
        return all(c != 0 or math.copysign(1.0, c) > 0 for c in (got if isinstance(got, tuple) else (got,)))
    match x.op:
        case ops.Apply(fn="abs" | "exp"):
            return True
        case ops.Apply(fn="mul", args=(a, c)):
            return a is c and isinstance(a.type, Scalar)
        case ops.Cast(x=a):
            return _is_int(a)
    return False


def _add(b: Emitter, o: ops.Apply) -> Value | None:
    x, y = o.args
    if _adds_nothing(y, x, 1.0):
        return _keeps(x, o)
    return _keeps(y, o) if _adds_nothing(x, y, 1.0) else None


def _sub(b: Emitter, o: ops.Apply) -> Value | None:
    x, y = o.args
    if x is y and _is_int(x):
        return constant_at(b, o, 0)
    return _keeps(x, o) if _adds_nothing(y, x, -1.0) else None


def _mul(b: Emitter, o: ops.Apply) -> Value | None:
    x, y = o.args
    if isinstance(y.type, Scalar) and _is(y, 1):
        return _keeps(x, o)
    if isinstance(x.type, Scalar) and _is(x, 1):
        return _keeps(y, o)
    if _is_int(x) and _is_int(y) and (_is(x, 0) or _is(y, 0)):
        return constant_at(b, o, 0)
    return None


def _div(b: Emitter, o: ops.Apply) -> Value | None:
    x, y = o.args
    return _keeps(x, o) if isinstance(y.type, Scalar) and _is(y, 1) else None


def _undo(fn: str) -> Rule:
    """``f(f(x))`` is ``x``."""

    def rule(b: Emitter, o: ops.Apply) -> Value | None:
        inner = o.args[0].op
        if isinstance(inner, ops.Apply) and inner.fn == fn and len(inner.args) == 1:
            return _keeps(inner.args[0], o)
        return None

    return rule


def _where(b: Emitter, o: ops.Apply) -> Value | None:
    cond, x, y = o.args
    known = ops.constant_value(cond)
    if isinstance(known, bool):
        return x if known else y
    if x is y or same_constant(x, y):
        return x
    if ops.constant_value(x) is True and ops.constant_value(y) is False:
        return _keeps(cond, o)
    return _where_positive(b, o)


def _where_positive(b: Emitter, o: ops.Apply) -> Value | None:
    """What is chosen where ``v > 0``, or a factor of it, need not be another value where ``v == 0``."""
    cond, x, y = o.args
    if not (isinstance(cond.op, ops.Apply) and cond.op.fn == "gt" and _is(cond.op.args[1], 0)):
        return None
    v = cond.op.args[0]
    chosen = _unless_zero(x, v)
    with at(o.loc):
        if chosen is None and isinstance(x.op, ops.Apply) and x.op.fn == "mul":
            factors = [_unless_zero(a, v) for a in x.op.args]
            if any(a is not None for a in factors):
                chosen = b.mul(*(a if a is not None else given for a, given in zip(factors, x.op.args, strict=True)))
        return None if chosen is None else b.select(cond, chosen, y)


def _unless_zero(x: Value, v: Value) -> Value | None:
    """What ``x`` is where ``v`` is not 0, if it has another value there."""
    match x.op:
        case ops.Apply(fn="where", args=(Value(op=ops.Apply(fn="eq", args=(a, zero))), _, other)):
            return other if a is v and _is(zero, 0) else None
    return None


def _shift(b: Emitter, o: ops.Apply) -> Value | None:
    x, y = o.args
    return _keeps(x, o) if _is(y, 0) else None


def _idempotent(b: Emitter, o: ops.Apply) -> Value | None:
    x, *rest = o.args  # min() and max() of one vector have no second
    return _keeps(x, o) if rest == [x] else None


def _reflexive(truth: bool) -> Rule:
    """A comparison of an integer with itself."""

    def rule(b: Emitter, o: ops.Apply) -> Value | None:
        x, y = o.args
        return constant_at(b, o, truth) if x is y and _is_int(x) else None

    return rule


def _equality(truth: bool) -> Rule:
    """An integer equals itself, and the square root of a number is 0 where the number is."""
    itself = _reflexive(truth)

    def rule(b: Emitter, o: ops.Apply) -> Value | None:
        x, y = o.args
        root, zero = (x, y) if isinstance(x.op, ops.Apply) else (y, x)
        if not isinstance(root.op, ops.Apply) or root.op.fn != "sqrt" or not _is(zero, 0.0):
            return itself(b, o)
        with at(o.loc):
            replaced: Value = b.apply(o.fn, root.op.args[0], zero)
        return replaced

    return rule


_IDENTITIES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _undo("neg"),
    "unot": _undo("unot"),
    "invert": _undo("invert"),
    "where": _where,
    "lshift": _shift,
    "rshift": _shift,
    "bit_and": _idempotent,
    "bit_or": _idempotent,
    "min": _idempotent,
    "max": _idempotent,
    "eq": _equality(True),
    "le": _reflexive(True),
    "ge": _reflexive(True),
    "ne": _equality(False),
    "lt": _reflexive(False),
    "gt": _reflexive(False),
}


# --- conversions --------------------------------------------------------------------------------------------


def _cast(b: Emitter, o: ops.Cast) -> Value | None:
    if o.x.type == o.result.type:
        return o.x
    source, to = scalar_of(o.x.type), scalar_of(o.result.type)
    assert source is not None
    assert to is not None
    known = ops.constant_value(o.x)
    if known is not None:
        flat = known if isinstance(known, tuple) else (known,)
        got = [convert(x, source, to) for x in flat]
        if any(x is None for x in got):
            return None
        return constant_at(b, o, tuple(got) if isinstance(known, tuple) else got[0])
    inner = o.x.op
    if isinstance(inner, ops.Cast) and inner.x.type == o.result.type and _holds(source, to):
        return inner.x
    return None


def _holds(wide: Scalar, narrow: Scalar) -> bool:
    """Whether casting from ``narrow`` to ``wide`` and back changes nothing; integers wrap there and back."""
    if wide.kind == narrow.kind or (wide.is_int and narrow.is_int):
        return wide.bits >= narrow.bits
    if narrow.is_bool:
        return True
    return narrow.kind == "bfloat" and wide.is_float and wide.bits >= 32


def _bitcast(b: Emitter, o: ops.Bitcast) -> Value | None:
    source, to = o.x.type, o.result.type
    if source == to:
        return o.x
    known = ops.constant_value(o.x)
    if known is None or not isinstance(source, Scalar) or not isinstance(to, Scalar):
        return None
    got = reinterpret(known, source, to)
    return None if got is None else constant_at(b, o, got)


# --- aggregates ---------------------------------------------------------------------------------------------


def _position(x: Value, indices: tuple[Value, ...]) -> tuple[int, ...] | None:
    """The constant, in-range place of a component; a row of a matrix is one index."""
    at_ = [ops.constant_value(i) for i in indices]
    shape = element_shape(x.type)
    if any(i is None or not 0 <= i < n for i, n in zip(at_, shape, strict=False)):
        return None
    return tuple(at_)


def _span(x: Value, position: tuple[int, ...]) -> slice:
    """Where in the flat scalars of ``x`` the component lies."""
    shape = element_shape(x.type)
    width = math.prod(shape[len(position) :])
    flat = 0
    for i, n in zip(position, shape, strict=False):
        flat = flat * n + i
    return slice(flat * width, (flat + 1) * width)


def _extract(b: Emitter, o: ops.Extract) -> Value | None:
    if isinstance(o.x.op, ops.Fill):
        return _of_fill(b, o, o.x.op)
    position = _position(o.x, o.indices)
    if position is None:
        return None
    row = o.x.op
    if isinstance(row, ops.Extract) and (outer := _position(row.x, row.indices)) is not None:
        o.x, o.indices, position = row.x, (*row.indices, *o.indices), (*outer, *position)
    while isinstance(o.x.op, ops.Insert):  # look behind insertions elsewhere
        inner = o.x.op
        there = _position(inner.x, inner.indices)
        if there == position:
            return inner.value
        if there is None or there == position[: len(there)] or position == there[: len(position)]:
            return None
        o.x = inner.x
    span = _span(o.x, position)
    known = ops.constant_value(o.x)
    if known is not None:
        return constant_at(b, o, known[span] if _is_row(o) else known[span.start])
    if not isinstance(o.x.op, ops.Make):
        return None
    elements = o.x.op.elements[span]
    return _aggregate(b, o, elements) if _is_row(o) else elements[0]


def _of_fill(b: Emitter, o: ops.Extract, fill: ops.Fill) -> Value:
    """A part of a tile whose elements are all the same."""
    t = fill.result.type
    assert isinstance(t, Tile)
    with at(o.loc):
        if isinstance(o.result.type, Tile):
            return b.fill(o.result.type, fill.x)
        within = o.indices[len(t.shape) :]
        return b.extract(fill.x, *within) if within else fill.x


def _is_row(o: ops.Extract) -> bool:
    return not isinstance(o.result.type, Scalar)


def _insert(b: Emitter, o: ops.Insert) -> Value | None:
    position = _position(o.x, o.indices)
    if position is None or not isinstance(o.value.type, Scalar):
        return None
    old = o.value.op
    if isinstance(old, ops.Extract) and old.x is o.x and _position(old.x, old.indices) == position:
        return o.x
    elements = None if is_large(o.x.type) else _scalars(b, o.x, o)
    if elements is None:
        return None
    elements[_span(o.x, position)] = [o.value]
    return _aggregate(b, o, elements)


def _aggregate(b: Emitter, o: Op, elements: Sequence[Value]) -> Value:
    """Emit the result of ``o`` from its scalars; a constant if they all are."""
    known = [ops.constant_value(v) for v in elements]
    if all(v is not None for v in known):
        return constant_at(b, o, tuple(known))
    with at(o.loc):
        return b.make(o.result.type, elements)


def _scalars(b: Emitter, x: Value, o: Op) -> list[Value] | None:
    """The scalars of an aggregate that was made of them or is constant."""
    if isinstance(x.op, ops.Make):
        return list(x.op.elements)
    known = ops.constant_value(x)
    scalar = scalar_of(x.type)
    if known is None or scalar is None:
        return None
    with at(o.loc):
        return [b.constant(v, scalar) for v in known]


def _make(b: Emitter, o: ops.Make) -> Value | None:
    t = o.result.type
    if scalar_of(t) is None or isinstance(t, Tile):
        return None
    known = [ops.constant_value(v) for v in o.elements]
    if all(v is not None for v in known):
        return constant_at(b, o, tuple(known))
    first = o.elements[0].op
    if not isinstance(first, ops.Extract) or first.x.type != t:
        return None
    for k, v in enumerate(o.elements):
        part = v.op
        if not isinstance(part, ops.Extract) or part.x is not first.x:
            return None
        position = _position(part.x, part.indices)
        if position is None or _span(part.x, position) != slice(k, k + 1):
            return None
    return first.x if len(o.elements) == element_count(t) else None


# --- memory -------------------------------------------------------------------------------------------------


def _through_views(b: Emitter, o: Any) -> Value | None:
    """Address the array itself instead of a view of it."""
    if isinstance(o, ops.View) and o.field is not None:
        return None
    while isinstance(o.array.op, ops.View) and o.array.op.field is None:
        o.array, o.indices = o.array.op.array, (*o.array.op.indices, *o.indices)
    return None


def _dim(b: Emitter, o: ops.Dim) -> Value | None:
    while isinstance(view := o.array.op, ops.View):
        o.array, o.axis = view.array, o.axis + len(view.indices)
    match view:
        case ops.Slice():
            return b.cast(view.count[o.axis], o.result.type)
        case ops.LocalArray():
            return b.constant(view.shape[o.axis], o.result.type)
    return None


RULES: dict[type[Op], Rule] = {
    ops.Apply: _apply,
    ops.Cast: _cast,
    ops.Bitcast: _bitcast,
    ops.Extract: _extract,
    ops.Insert: _insert,
    ops.Make: _make,
    ops.View: _through_views,
    ops.Load: _through_views,
    ops.NestedArray: _through_views,
    ops.Store: _through_views,
    ops.Atomic: _through_views,
    ops.AtomicCas: _through_views,
    ops.Dim: _dim,
}
