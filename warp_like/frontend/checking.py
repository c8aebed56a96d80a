"""``assert``, the ``expect`` functions and ``breakpoint``: what a kernel says about itself."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend.arguments import arguments
from warp_like.frontend.context import Context, statement, with_article
from warp_like.frontend.host import Host
from warp_like.frontend.operands import NOTHING, Operand, describe, require_value_kind
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Scalar, bool_, scalar_of

MAX_SHOWN = 8
"""An error shows the components of values that have at most this many."""


@statement(ast.Assert)
def build_assert(ctx: Context, node: ast.Assert) -> None:
    """``assert condition, "message"``: checked in debug mode."""
    with ctx.without_assignment("in `assert`"):
        operand = ctx.expr(node.test)
    with ctx.at(node.test):
        truth = ctx.condition(operand)
    message = ""
    if node.msg is not None:
        said = ctx.expr(node.msg)
        with ctx.at(node.msg):
            if not isinstance(said, Host) or not isinstance(said.obj, str):
                raise WarpCodegenTypeError(f"the message of `assert` is text, got {describe(said)}")
        message = f": {said.obj}"
    ok = ctx.b.constant(truth, bool_) if isinstance(truth, bool) else truth
    text = _escaped(f"`assert {ast.unparse(node.test)}` does not hold{message}")
    ctx.b.insert(ops.Check("assert", text, ok, ()))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def expect(name: str) -> Callable[[Context, ast.Call], Operand]:
    """Return the handler of ``expect_eq``, ``expect_neq`` or ``expect_near``."""
    params = ("a", "b", "tolerance") if name == "expect_near" else ("a", "b")

    def build(ctx: Context, node: ast.Call) -> Operand:
        given = arguments(node, name, params, 2)
        a, b = _pair(ctx, name, given["a"], given["b"])
        pairs = list(zip(ctx.b.components(a), ctx.b.components(b), strict=True))
        scalar = scalar_of(a.type)
        assert scalar is not None
        if name == "expect_near":
            if not scalar.is_float:
                raise WarpCodegenTypeError(f"expect_near() takes floats, got {with_article(str(a.type))}")
            tolerance = ctx.expr(given["tolerance"]) if "tolerance" in given else Literal(1e-6)
            most = ctx.convert(tolerance, scalar, "the tolerance of expect_near()")
            held = [ctx.b.le(ctx.b.abs(ctx.b.sub(x, y)), most) for x, y in pairs]
        else:
            held = [ctx.b.eq(x, y) for x, y in pairs]
        ok = held[0]
        for more in held[1:]:
            ok = ctx.b.bit_and(ok, more)
        if name == "expect_neq":
            ok = ctx.b.unot(ok)
        shown = pairs if len(pairs) <= MAX_SHOWN else []
        text = _escaped(f"`{ast.unparse(node)}` does not hold")
        if shown:
            n = len(shown)
            text += f": {_numbers(0, n, a.type)} and {_numbers(n, 2 * n, a.type)}"
        values = (*(x for x, _ in shown), *(y for _, y in shown))
        ctx.b.insert(ops.Check("expect", text, ok, values))
        return NOTHING

    return build


def _numbers(first: int, end: int, t: object) -> str:
    listed = ", ".join(f"{{{k}}}" for k in range(first, end))
    return listed if isinstance(t, Scalar) else f"[{listed}]"


def _pair(ctx: Context, name: str, first: ast.expr, second: ast.expr) -> tuple[Value, Value]:
    """The values compared, of one type; a literal takes the type of the other."""
    a, b = (require_value_kind(ctx.expr(node)) for node in (first, second))
    if isinstance(a, Literal) and isinstance(b, Value):
        with ctx.at(first):
            a = ctx.convert(a, b.type, f"argument `a` of {name}()", first)
    given = ctx.settle(a)
    if not isinstance(given.type, (Scalar, *Aggregate)):
        with ctx.at(first):
            raise WarpCodegenTypeError(f"{name}() compares numbers and vectors, got {with_article(str(given.type))}")
    with ctx.at(second):
        return given, ctx.convert(b, given.type, f"argument `b` of {name}()", second)


def build_breakpoint(ctx: Context, node: ast.Call) -> Operand:
    """Build ``wp.breakpoint()``."""
    arguments(node, "breakpoint", (), 0)
    ctx.b.insert(ops.Breakpoint())
    return NOTHING


HANDLERS = {"breakpoint": build_breakpoint, **{n: expect(n) for n in ("expect_eq", "expect_neq", "expect_near")}}
