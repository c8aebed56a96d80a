"""``wp.grad(f)`` in kernel code: the gradient of a function as a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.overload import NoMatch, Special
from warp_like.builtins.spec import REGISTRY, bind
from warp_like.frontend import specials
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.context import Context
from warp_like.frontend.function import Function as UserFunction
from warp_like.frontend.host import GradientOf, Host, builtin_name
from warp_like.frontend.operands import Operand, describe, flatten
from warp_like.ir.builder import fields, from_fields
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, IndexedArray, Struct, is_differentiable, leaf_fields


def build_grad(ctx: Context, node: ast.Call) -> Host:
    """``wp.grad(f)``: something to call."""
    given = specials.arguments(node, "grad", ("func",), 1)["func"]
    function = ctx.expr(given)
    obj = function.obj if isinstance(function, Host) else None
    if isinstance(function, Host) and builtin_name(obj) is not None:
        obj = Builtin(str(builtin_name(obj)))
    if not isinstance(obj, (UserFunction, Builtin, GradientOf)):
        with ctx.at(given):
            raise WarpCodegenTypeError(
                f"grad() takes a function, got {describe(function)}",
                help="wp.grad(f)(x), with f a wp.func or a builtin",
            )
    return Host(GradientOf(obj), ast.unparse(node))


def builtin_primal(ctx: Context, name: str, node: ast.Call) -> tuple[Function, list[Operand]]:
    """Return a function that calls a builtin with arguments of the types of those of ``node``, and these arguments."""
    rows = REGISTRY.get(name)
    if rows is None or specials.handler(name) is not None or any(isinstance(r.lower, Special) for r in rows):
        raise WarpCodegenError(f"grad() can't differentiate {name}()", help=f"call {name}() in a wp.func, and use that")
    try:
        bound = bind(name, [ctx.expr(a) for a in node.args], {str(k.arg): ctx.expr(k.value) for k in node.keywords})
    except NoMatch as error:
        raise WarpCodegenTypeError(str(error), help=error.help) from None
    args = [ctx.settle(a) for a in bound]
    params = [Value(a.type, p) for a, p in zip(args, rows[0].params, strict=False)]
    f = Function(name, params, (), "func", ctx.source.loc(node))
    with ctx.b.into(f.body):
        results = flatten(ctx.apply(name, *params))
        ctx.b.yield_(*results)
    f.results = tuple(r.type for r in results)
    return f, list(args)


def flattened(ctx: Context, f: Function) -> Function:
    """Return ``f`` as a function of the fields of the structs that it takes, which returns those of its results."""
    if not any(isinstance(t, Struct) for t in (*(p.type for p in f.params), *f.results)):
        return f
    key = ("flattened", f)
    found = ctx.session.functions.get(key)
    if found is not None:
        return found
    leaves = [
        Value(t, path)
        for p in f.params
        for path, t in (leaf_fields(p.type, f"{p.hint}.") if isinstance(p.type, Struct) else [(p.hint, p.type)])
    ]
    made = Function(f.name, leaves, (), "func", f.loc)
    with ctx.b.into(made.body):
        parts = list(leaves)
        called = ctx.call(f, [from_fields(ctx.b, p.type, parts) for p in f.params])
        returned = [x for r in flatten(called) for x in fields(ctx.b, r)]
        ctx.b.yield_(*returned)
    made.results = tuple(x.type for x in returned)
    ctx.session.functions[key] = made
    return made


def gradient_of(ctx: Context, primal: Function) -> Function:
    """Return the gradient of ``primal``, whose body ``passes.ad.value_gradients`` makes.

    Raises:
        WarpCodegenTypeError: It has none: it takes or returns no floats.
    """
    key = ("gradient", primal)
    found = ctx.session.functions.get(key)
    if found is not None:
        return found
    given = [p.type for p in primal.params]
    values = tuple(t for t in given if not isinstance(t, Array))
    if not any(map(is_differentiable, values)) or not any(map(is_differentiable, primal.results)):
        raise WarpCodegenTypeError(
            f"`{primal.name}` has no gradient: it takes ({', '.join(map(str, given))}) and returns "
            f"{', '.join(map(str, primal.results)) or 'nothing'}",
            help="a gradient is that of floats with respect to floats; arrays are taken as constants",
        )
    made = Function(f"grad_{primal.name}", [Value(p.type, p.hint) for p in primal.params], values, "func", primal.loc)
    made.primal = primal
    ctx.session.functions[key] = made
    return made


def call_gradient(ctx: Context, primal: Function, args: Sequence[Operand]) -> Operand:
    """Call the gradient of ``primal``: one result for each argument that is no array, formed like it.

    ``primal`` takes the fields of the structs in ``args``.
    """
    leaves = [x for a in flatten(tuple(args)) for x in fields(ctx.b, a)]
    found = iter(flatten(ctx.call(gradient_of(ctx, primal), leaves)))
    results = tuple(_formed(ctx, a, found) for a in args if _has_gradient(a))
    return results[0] if len(results) == 1 else results


def _has_gradient(argument: Operand) -> bool:
    if isinstance(argument, tuple):
        return any(map(_has_gradient, argument))
    return isinstance(argument, Value) and not isinstance(argument.type, (Array, IndexedArray))


def _formed(ctx: Context, argument: Operand, found: Iterator[Value]) -> Operand:
    """The next gradients in the form of ``argument``; arrays in structs, which have none, stay what they are."""
    if isinstance(argument, tuple):
        return tuple(_formed(ctx, part, found) for part in argument if _has_gradient(part))
    assert isinstance(argument, Value)
    t = argument.type
    if isinstance(t, Array):
        return argument
    if not isinstance(t, Struct):
        return next(found)
    formed = [_formed(ctx, ctx.b.get_field(argument, k), found) for k in range(len(t.fields))]
    return ctx.b.make(t, [ctx.settle(x) for x in formed])
