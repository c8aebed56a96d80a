"""Types called as functions: casts of scalars; vectors, matrices, quaternions and transforms from their parts."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from warp_like import values
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import constants, indexing
from warp_like.frontend.context import Context, cast_name, with_article
from warp_like.frontend.operands import Operand, describe, require_value_kind
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import (
    Aggregate,
    Array,
    Mat,
    Quat,
    Scalar,
    Struct,
    Transform,
    Type,
    Vec,
    element_count,
    element_shape,
    holds_arrays,
    int64,
    uint64,
)
from warp_like.values.arithmetic import converted


def construct(ctx: Context, t: Type, args: Sequence[Operand], nodes: Sequence[ast.expr]) -> Value:
    """Build ``t(*args)``."""
    if isinstance(t, Scalar):
        return _scalar(ctx, t, args)
    if isinstance(t, Aggregate):
        return _aggregate(ctx, t, args, nodes)
    if isinstance(t, Struct):
        return structure(ctx, t, values.from_ir(t), list(zip(args, nodes, strict=True)), {})
    what = "an array" if isinstance(t, Array) else str(t)
    raise WarpCodegenTypeError(f"{what} can't be made in kernel code", help="pass it as an argument of the kernel")


LocatedOperand = tuple[Operand, ast.expr]
"""An argument with its syntax."""


def structure(
    ctx: Context, t: Struct, cls: Any, args: Sequence[LocatedOperand], keywords: Mapping[str, LocatedOperand]
) -> Value:
    """Build a struct of fields by position and by name; the others get the defaults of ``cls``, or zero."""
    names = [name for name, _ in t.fields]
    if len(args) > len(names):
        raise WarpCodegenTypeError(f"{t.name}() takes at most {len(names)} fields, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, argument in keywords.items():
        indexing.field(t, name)
        if name in given:
            raise WarpCodegenTypeError(f"{t.name}() got field `{name}` twice")
        given[name] = argument
    parts = []
    for name, field in t.fields:
        if name in given:
            operand, node = given[name]
            with ctx.at(node):
                parts.append(ctx.convert(operand, field, f"field `{name}` of {t}", node))
        elif cls._defaults_.get(name) is not None:
            default = constants.from_host(ctx, cls._defaults_[name], name)
            parts.append(ctx.convert(default, field, f"field `{name}` of {t}"))
        else:
            parts.append(_unset(ctx, field))
    return ctx.b.make(t, parts)


def _unset(ctx: Context, t: Type) -> Value:
    """A field that is not given: zero, and for an array one that holds nothing, as None does on the host."""
    if not holds_arrays(t):
        return ctx.zero(t)
    if isinstance(t, Struct):
        return ctx.b.make(t, [_unset(ctx, field) for _, field in t.fields])
    assert isinstance(t, Array)
    nowhere = ops.AtAddress(ctx.b.constant(0, uint64), (ctx.b.constant(0, int64),) * t.ndim)
    return ctx.b.insert(nowhere, t).result


def _scalar(ctx: Context, t: Scalar, args: Sequence[Operand]) -> Value:
    if not args:
        return ctx.zero(t)
    if len(args) > 1:
        raise WarpCodegenTypeError(f"{cast_name(t)}() takes one value, got {len(args)}")
    operand = require_value_kind(args[0])
    if isinstance(operand, Literal):
        return ctx.b.constant(converted(operand.value, t), t)
    if not isinstance(operand.type, Scalar):
        raise WarpCodegenTypeError(f"{cast_name(t)}() takes a number, got {with_article(str(operand.type))}")
    return ctx.b.cast(operand, t)


def _aggregate(
    ctx: Context, t: Vec | Mat | Quat | Transform, args: Sequence[Operand], nodes: Sequence[ast.expr]
) -> Value:
    count = element_count(t)
    if not args:
        return ctx.zero(t)
    first = require_value_kind(args[0])
    if len(args) == 1 and isinstance(first, Value) and isinstance(first.type, Aggregate):
        if type(first.type) is type(t) and element_shape(first.type) == element_shape(t):
            return ctx.b.cast(first, t)
        if not isinstance(t, Transform) or first.type != Vec(3, t.dtype):
            given = with_article(str(first.type))
            raise WarpCodegenTypeError(f"{given} can't be converted to {with_article(str(t))}")
    args, nodes = _flattened(ctx, t, args, nodes)
    if len(args) == 1 and count > 1 and not isinstance(t, Quat):
        args, nodes = [args[0]] * count, [nodes[0]] * count
    for operand, node in zip(args, nodes, strict=True):
        _require_number(ctx, t, operand, node)
    if len(args) != count:
        raise _wrong_count(t, args)
    if all(isinstance(a, Literal) and a.fits(t.dtype) for a in args):
        return ctx.b.constant(tuple(a.value for a in args if isinstance(a, Literal)), t)
    same = all(a is args[0] for a in args)
    parts = [_component(ctx, t, a, n) for a, n in zip(args[: 1 if same else count], nodes, strict=False)]
    return ctx.b.make(t, parts * count if same else parts)


def _flattened(
    ctx: Context, t: Vec | Mat | Quat | Transform, args: Sequence[Operand], nodes: Sequence[ast.expr]
) -> tuple[Sequence[Operand], Sequence[ast.expr]]:
    """The numbers of arguments that are vectors and quaternions, with their syntax, where ``t`` may be made of them."""
    types = [a.type if isinstance(a, Value) else None for a in args]
    v3, q = Vec(3, t.dtype), Quat(t.dtype)
    match t:
        case Quat():
            fits = len(args) == 2 and types[0] == v3 and not isinstance(types[1], Aggregate)
        case Transform():
            fits = types in ([v3], [v3, q])
        case Vec():
            vectors = [x for x in types if isinstance(x, Vec) and x.dtype == t.dtype]
            fits = len(vectors) == len(args) and sum(v.length for v in vectors) == t.length
        case _:
            fits = False
    if not fits:
        return args, nodes
    given: list[tuple[Operand, ast.expr]] = []
    for a, node in zip(args, nodes, strict=True):
        given += [(x, node) for x in ctx.b.components(a)] if isinstance(a, Value) else [(a, node)]
    if types == [v3] and isinstance(t, Transform):
        given += [(Literal(x), nodes[0]) for x in (0.0, 0.0, 0.0, 1.0)]
    return [a for a, _ in given], [node for _, node in given]


def _component(ctx: Context, t: Vec | Mat | Quat | Transform, operand: Operand, node: ast.expr) -> Value:
    with ctx.at(node):
        return ctx.convert(operand, t.dtype, f"a component of {with_article(str(t))}", node)


def _require_number(ctx: Context, t: Vec | Mat | Quat | Transform, operand: Operand, node: ast.expr) -> None:
    with ctx.at(node):
        operand = require_value_kind(operand)
        if isinstance(operand, Value) and isinstance(operand.type, Aggregate):
            raise WarpCodegenTypeError(
                f"{with_article(str(t))} is made of numbers, got {with_article(str(operand.type))}",
                help="wp.matrix_from_rows(...) makes a matrix of vectors"
                if isinstance(t, Mat)
                else "give its components one by one",
            )


def _wrong_count(t: Vec | Mat | Quat | Transform, args: Sequence[Operand]) -> WarpCodegenTypeError:
    n = element_count(t)
    shown = describe(args[0]) if len(args) == 1 else str(len(args))
    ways = {
        Quat: f"{n} numbers, or of a vector of 3 and a number",
        Transform: f"none, 1 or {n} numbers, or of a vector of 3 and a quaternion",
    }.get(type(t), f"none, 1 or {n} numbers")
    return WarpCodegenTypeError(f"{with_article(str(t))} is made of {ways}, got {shown}")
