"""``f(*v)``: the parts of a tuple, vector, matrix or slice of an array as arguments of a call."""

from __future__ import annotations

import ast
import copy

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import constants, indexing
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand, describe
from warp_like.frontend.scope import Variable
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Array, element_shape


def without_stars(ctx: Context, node: ast.Call) -> ast.Call:
    """Return a call with a name for each part of what its ``*`` unpack; the names are variables then.

    Raises:
        WarpCodegenTypeError: How many parts there are is not known when the kernel is built.
    """
    if not any(isinstance(a, ast.Starred) for a in node.args):
        return node
    made = copy.copy(node)
    made.args = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            made.args.append(argument)
            continue
        shown = ast.unparse(argument.value)
        with ctx.at(argument):
            parts = _parts(ctx, argument.value)
        for k, part in enumerate(parts):
            name = f"{shown}[{k}]"  # no name that a program can write, and what messages should say
            ctx.scope.names[name] = Variable(part, ctx.source.loc(argument))
            made.args.append(ast.copy_location(ast.Name(name, ast.Load()), argument))
    return made


def _parts(ctx: Context, node: ast.expr) -> list[Operand]:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        base = ctx.expr(node.value)
        if isinstance(base, Value) and isinstance(base.type, Array):
            return [indexing.read(ctx, base, [ctx.b.index(k)]) for k in _indices(ctx, node.slice)]
    operand = constants.opened(ctx, ctx.expr(node))
    if isinstance(operand, tuple):
        return list(operand)
    if isinstance(operand, Value) and isinstance(operand.type, Aggregate):
        return [ctx.b.extract(operand, ctx.b.index(k)) for k in range(element_shape(operand.type)[0])]
    raise WarpCodegenTypeError(
        f"`*` unpacks a tuple, a vector, the rows of a matrix or a part of an array, got {describe(operand)}",
        help="a[0:3] says how many elements of an array are meant" if _is_array(operand) else None,
    )


def _is_array(operand: Operand) -> bool:
    return isinstance(operand, Value) and isinstance(operand.type, Array)


def _indices(ctx: Context, part: ast.Slice) -> range:
    """The indices of a slice whose bounds are known now."""
    start, stop, step = (
        _bound(ctx, b, default) for b, default in ((part.lower, 0), (part.upper, None), (part.step, 1))
    )
    if start is None or stop is None or step is None or min(start, stop) < 0 or step < 1:
        raise WarpCodegenTypeError(
            "`*` unpacks a part of an array between two constants, which say how many elements it has",
            help="*a[0:3]",
        )
    return range(start, stop, step)


def _bound(ctx: Context, node: ast.expr | None, default: int | None) -> int | None:
    if node is None:
        return default
    operand = ctx.expr(node)
    return operand.value if isinstance(operand, Literal) and type(operand.value) is int else None
