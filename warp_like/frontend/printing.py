"""``print`` and ``printf``: text is cut into constant parts around scalar values."""

from __future__ import annotations

import ast
import re

from warp_like.base.errors import WarpCodegenTypeError, WarpCodegenValueError
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host, not_a_value
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Mat, Scalar


def build_print(ctx: Context, node: ast.Call) -> Operand:
    """``print(a, b)``: the values of this thread on one line."""
    if node.keywords:
        raise WarpCodegenTypeError(f"print() has no argument `{node.keywords[0].arg}` in kernel code")
    parts: list[str] = [""]
    args: list[Value] = []
    for i, a in enumerate(node.args):
        parts[-1] += " " if i else ""
        operand = ctx.expr(a)
        if isinstance(operand, Host) and isinstance(operand.obj, str):
            parts[-1] += operand.obj
            continue
        with ctx.at(a):
            _add_value(ctx, operand, parts, args)
    parts[-1] += "\n"
    ctx.b.insert(ops.Print(tuple(parts), tuple(args)))
    return NOTHING


def _add_value(ctx: Context, operand: Operand, parts: list[str], args: list[Value]) -> None:
    """Print a value: components separated by blanks, rows of a matrix by line ends."""
    if isinstance(operand, Host):
        raise not_a_value(operand)
    if isinstance(operand, tuple):
        for i, part in enumerate(operand):
            parts[-1] += " " if i else ""
            _add_value(ctx, part, parts, args)
        return
    value = ctx.settle(operand)
    if not isinstance(value.type, (Scalar, *Aggregate)):
        raise WarpCodegenTypeError(f"print() does not take {with_article(str(value.type))}", help="print its elements")
    cols = value.type.cols if isinstance(value.type, Mat) else 0
    for i, c in enumerate(ctx.b.components(value)):
        if i:
            parts[-1] += "\n" if cols and i % cols == 0 else " "
        args.append(c)
        parts.append("")


_SPECIFIER = re.compile(r"%(?:%|(?P<flags>[-+ #0]*[0-9]*(?:\.[0-9]+)?)(?P<length>hh|h|ll|l|z|j)?(?P<kind>[a-zA-Z]))")


def build_printf(ctx: Context, node: ast.Call) -> Operand:
    """``wp.printf(format, a, b)``."""
    if node.keywords or not node.args:
        raise WarpCodegenTypeError("printf() needs a format and its values by position", help='wp.printf("%d\\n", i)')
    fmt = ctx.expr(node.args[0])
    if not isinstance(fmt, Host) or not isinstance(fmt.obj, str):
        raise WarpCodegenTypeError(f"the format of printf() is text, got {describe(fmt)}", help='wp.printf("%d\\n", i)')
    parts, kinds, end = [""], [], 0
    for m in _SPECIFIER.finditer(fmt.obj):
        parts[-1] += fmt.obj[end : m.start()]
        end = m.end()
        if m.group() == "%%":
            parts[-1] += "%"
            continue
        if m.group("flags") or m.group("kind") not in "diufeg":
            raise WarpCodegenValueError(
                f"printf() has no `{m.group()}`: numbers print in their shortest form",
                help="%d, %u, %f and %g, without a width",
            )
        kinds.append(m.group("kind"))
        parts.append("")
    parts[-1] += fmt.obj[end:]
    if len(kinds) != len(node.args) - 1:
        raise WarpCodegenTypeError(f"the format of printf() asks for {len(kinds)} values, got {len(node.args) - 1}")
    args = [_formatted(ctx, a, kind) for a, kind in zip(node.args[1:], kinds, strict=True)]
    ctx.b.insert(ops.Print(tuple(parts), tuple(args)))
    return NOTHING


def _formatted(ctx: Context, node: ast.expr, kind: str) -> Value:
    value = ctx.value(node)
    wants_float = kind in "feg"
    if not isinstance(value.type, Scalar) or value.type.is_float != wants_float:
        with ctx.at(node):
            wanted = "a float" if wants_float else "an integer"
            raise WarpCodegenTypeError(f"%{kind} prints {wanted}, got {with_article(str(value.type))}")
    return value
