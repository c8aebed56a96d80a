"""``wp.grad(f)`` in kernel code: the gradient of a function as a function."""

from __future__ import annotations

import ast

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.overload import NoMatch, Special
from warp_like.builtins.spec import REGISTRY, bind
from warp_like.frontend import specials
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.context import Context
from warp_like.frontend.function import Function as UserFunction
from warp_like.frontend.host import GradientOf, Host, builtin_name
from warp_like.frontend.operands import Operand, describe, flatten
from warp_like.ir.core import Function, Value
from warp_like.ir.types import Array, Struct, is_differentiable


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


def builtin_primal(ctx: Context, name: str, node: ast.Call) -> tuple[Function, list[Value]]:
    """Return a function that calls a builtin with arguments of the types of those of ``node``, and these arguments."""
    rows = REGISTRY.get(name)
    if rows is None or name in specials.HANDLERS or any(isinstance(r.lower, Special) for r in rows):
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
    return f, args


def gradient_of(ctx: Context, primal: Function) -> Function:
    """Return the gradient of ``primal``, whose body ``passes.ad.value_gradients`` makes.

    Raises:
        WarpCodegenTypeError: It has none: it takes or returns no floats, or structs.
    """
    key = ("gradient", primal)
    found = ctx.session.functions.get(key)
    if found is not None:
        return found
    given = [p.type for p in primal.params]
    if any(isinstance(t, Struct) for t in (*given, *primal.results)):
        raise WarpCodegenTypeError(
            f"grad() of `{primal.name}`, which takes or returns a struct, is not supported",
            help="pass the fields one by one",
        )
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


def call_gradient(ctx: Context, primal: Function, args: list[Value]) -> Operand:
    """Call the gradient of ``primal``: one result for each argument that is no array."""
    return ctx.call(gradient_of(ctx, primal), args)
