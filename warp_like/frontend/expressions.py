"""Names, constants, operators, conditions and attributes."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence

from warp_like import values
from warp_like.base.errors import WarpCodegenAttributeError, WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend import constants, indexing, literals, plain_names, selection
from warp_like.frontend.context import Context, expression, with_article
from warp_like.frontend.control_flow import common_type
from warp_like.frontend.function import Function
from warp_like.frontend.host import USER_OPERATORS, Host, not_a_value
from warp_like.frontend.names import MISSING, dotted, is_namespace
from warp_like.frontend.operands import Extents, Operand, describe
from warp_like.frontend.scope import unknown
from warp_like.frontend.tile_views import TileView
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.rewrite import is_always_defined
from warp_like.ir.types import Array, IndexedArray, Quat, Scalar, Struct, Tile, Transform, Vec, bool_

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.MatMult: ("mul", "@"),
    ast.Div: ("div", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("mod", "%"),
    ast.Pow: ("pow", "**"),
    ast.LShift: ("lshift", "<<"),
    ast.RShift: ("rshift", ">>"),
    ast.BitAnd: ("bit_and", "&"),
    ast.BitOr: ("bit_or", "|"),
    ast.BitXor: ("bit_xor", "^"),
    ast.USub: ("neg", "-"),
    ast.UAdd: ("pos", "+"),
    ast.Invert: ("invert", "~"),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
}
"""The builtin and the sign of each operator."""


@expression(ast.Constant)
def build_constant(ctx: Context, node: ast.Constant) -> Operand:
    """A literal; text is for ``print`` alone."""
    if isinstance(node.value, (bool, int, float)):
        return Literal(node.value)
    if isinstance(node.value, complex):
        raise WarpCodegenTypeError("complex numbers can't be used in kernel code", help="keep both parts in a wp.vec2")
    return Host(node.value, ast.unparse(node))


@expression(ast.Name)
def build_name(ctx: Context, node: ast.Name) -> Operand:
    """A local variable, or what the name means around the function."""
    local = ctx.read(node.id)
    if local is not None:
        return local
    found = ctx.source.resolve(node.id)
    if found is MISSING:
        if (named := plain_names.type_called(node.id)) is not None:
            return named
        known = [*ctx.scope.names, *ctx.source.environment()]
        from warp_like.frontend import advice

        raise unknown(node.id, known, advice.thread_index(ctx.source, node.id, known))
    return constants.from_host(ctx, found, node.id)


@expression(ast.Tuple)
def build_tuple(ctx: Context, node: ast.Tuple) -> Operand:
    """Several values."""
    return tuple(ctx.expr(e) for e in node.elts)


# --- operators ---


@expression(ast.BinOp)
def build_binary(ctx: Context, node: ast.BinOp) -> Operand:
    """``a + b`` and its like."""
    a, b = ctx.expr(node.left), ctx.expr(node.right)
    return binary(ctx, node.op, a, b, [node.left, node.right])


def binary(ctx: Context, op: ast.AST, a: Operand, b: Operand, nodes: Sequence[ast.expr]) -> Operand:
    """Combine two operands by an operator."""
    name, symbol = OPERATORS[type(op)]
    numbers = True
    for operand, node in zip((a, b), nodes, strict=True):
        if type(operand) is Value and type(operand.type) is Scalar:
            continue
        numbers = False
        _require_operand(operand, symbol, node)
        if isinstance(op, ast.MatMult) and isinstance(operand, Value) and isinstance(operand.type, Tile):
            raise WarpCodegenTypeError(
                "`@` does not take tiles", help="wp.tile_matmul(a, b); `*` works element by element"
            )
    if isinstance(a, Literal) and isinstance(b, Literal):
        folded = literals.binary(name, a, b)
        if folded is not None:
            if name == "div" and literals.loses_fraction(a, b):
                _warn_of_fraction(a, b, folded)
            return folded
    own = None if numbers else _user_operator(ctx, name, (a, b), nodes)
    if own is None and isinstance(a, Value) and isinstance(a.type, Tile):
        from warp_like.frontend.tiles import structs  # few kernels have tiles

        own = structs.operator(ctx, name, a, b)
    return own if own is not None else ctx.apply(name, a, b, symbol=symbol, nodes=nodes)


def _warn_of_fraction(a: Literal, b: Literal, result: Literal) -> None:
    """Say that ``1 / 2`` is 0 in kernel code, as in Warp."""
    from warp_like.frontend.warn import warn

    warn(
        f"{a.value} / {b.value} divides integers, which gives {result.value}",
        help=f"write {float(a.value)} / {float(b.value)} for {a.value / b.value:g}, or // if it is meant",
    )


def _user_operator(ctx: Context, name: str, operands: Sequence[Operand], nodes: Sequence[ast.expr]) -> Operand | None:
    """The result of the user's ``add`` (say) for ``a + b`` of structs; None if there is no such function."""
    if name not in USER_OPERATORS or not any(isinstance(o, Value) and isinstance(o.type, Struct) for o in operands):
        return None
    function = ctx.source.resolve(name)
    from warp_like.frontend.overloads import call_operator

    return call_operator(ctx, function, operands, nodes) if isinstance(function, Function) else None


@expression(ast.UnaryOp)
def build_unary(ctx: Context, node: ast.UnaryOp) -> Operand:
    """``-a``, ``not a`` and their like."""
    a = ctx.expr(node.operand)
    if isinstance(node.op, ast.Not):
        truth = ctx.condition(a)
        if isinstance(truth, bool):
            return Literal(not truth)
        return ctx.apply("unot", truth)
    name, symbol = OPERATORS[type(node.op)]
    _require_operand(a, symbol, node.operand)
    if isinstance(a, Literal):
        folded = literals.unary(name, a)
        if folded is not None:
            return folded
    own = _user_operator(ctx, name, (a,), [node.operand])
    return own if own is not None else ctx.apply(name, a, symbol=symbol, nodes=[node.operand])


def _require_operand(operand: Operand, symbol: str, node: ast.expr) -> None:
    if isinstance(operand, Host):
        raise not_a_value(operand)
    if isinstance(operand, tuple):
        from warp_like.frontend import advice

        help = advice.as_vector(operand, node) if isinstance(node, ast.Tuple) else None
        raise WarpCodegenTypeError(f"`{symbol}` does not take {describe(operand)}", help=help)
    if isinstance(operand, Value) and isinstance(operand.type, Array):
        raise WarpCodegenTypeError(
            f"`{symbol}` does not take an array: a kernel works on elements", help="index it: a[i]"
        )


@expression(ast.Compare)
def build_compare(ctx: Context, node: ast.Compare) -> Operand:
    """``a < b``, and chains of it, each operand evaluated once and only if needed."""
    for op in node.ops:
        if type(op) not in OPERATORS:
            word = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[type(op)]
            raise WarpCodegenError(
                f"`{word}` can't be used in kernel code", help=_array_test(node) or "compare values with == and !="
            )
    left = ctx.expr(node.left)
    if (test := _array_test(node)) is not None:
        raise WarpCodegenTypeError("None has no meaning in kernel code", help=test)

    def compare(i: int, a: Operand) -> Operand:
        b = ctx.expr(node.comparators[i])
        last = node.comparators[i - 1] if i else node.left
        from warp_like.frontend.comparing import signed_with_uint64

        held: Operand | None = signed_with_uint64(ctx, OPERATORS[type(node.ops[i])][0], a, b)
        if held is None:
            from warp_like.frontend.comparing import comparable

            held = binary(ctx, node.ops[i], *comparable(ctx, a, b), [last, node.comparators[i]])
        if i + 1 == len(node.ops):
            return held
        return _short_circuit(ctx, held, lambda: compare(i + 1, b), stop_on=False)

    return compare(0, left)


def _array_test(node: ast.Compare) -> str | None:
    """How a comparison with None is written, which asks whether there is an array."""
    sides = [node.left, *node.comparators]
    if len(sides) != 2 or not any(isinstance(s, ast.Constant) and s.value is None for s in sides):
        return None
    given = ast.unparse(next((s for s in sides if not (isinstance(s, ast.Constant) and s.value is None)), sides[0]))
    wanted = given if isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) else f"not {given}"
    return f"`if {wanted}:` asks whether an array was given"


@expression(ast.BoolOp)
def build_bool(ctx: Context, node: ast.BoolOp) -> Operand:
    """``and`` and ``or``: a bool; the right side is evaluated only if needed."""
    stop_on = isinstance(node.op, ast.Or)

    def part(i: int) -> Operand:
        operand = ctx.expr(node.values[i])
        with ctx.at(node.values[i]):
            truth = ctx.condition(operand)
        held: Operand = Literal(truth) if isinstance(truth, bool) else truth
        return held if i + 1 == len(node.values) else _short_circuit(ctx, held, lambda: part(i + 1), stop_on)

    return part(0)


def _short_circuit(ctx: Context, held: Operand, more: Callable[[], Operand], stop_on: bool) -> Operand:
    """``held or more()`` where ``stop_on``, else ``held and more()``."""
    if isinstance(held, Literal):
        return held if bool(held.value) is stop_on else more()
    assert isinstance(held, Value)
    word = "or" if stop_on else "and"
    with ctx.b.into(Block()) as block, ctx.without_assignment(f"after `{word}` or in a chain of comparisons"):
        other = more()
        right = ctx.convert(other, bool_, "a condition")
    if all(map(is_always_defined, block.ops)):  # cheaper to compute than to jump around
        ctx.b.block.ops.extend(block.ops)
        return ctx.apply("bit_or" if stop_on else "bit_and", held, right)
    with ctx.b.into(block):
        ctx.b.yield_(right)
    with ctx.b.into(Block()) as stopped:
        ctx.b.yield_(ctx.b.constant(stop_on, bool_))
    then, orelse = (stopped, block) if stop_on else (block, stopped)
    return ctx.b.if_(held, then, orelse)[0]


@expression(ast.IfExp)
def build_conditional(ctx: Context, node: ast.IfExp) -> Operand:
    """``a if condition else b``: one of the two is evaluated."""
    operand = ctx.expr(node.test)
    with ctx.at(node.test):
        cond = ctx.condition(operand)
    if isinstance(cond, bool):
        return ctx.expr(node.body if cond else node.orelse)
    blocks, given = [], []
    for side in (node.body, node.orelse):
        with ctx.b.into(Block()) as block, ctx.without_assignment("in one branch of `if ... else`"):
            given.append(ctx.expr(side))
        blocks.append(block)
    for side, g in zip((node.body, node.orelse), given, strict=True):
        if isinstance(g, (Host, tuple)):
            with ctx.at(side):
                raise WarpCodegenTypeError(
                    f"`if` can't choose {describe(g)} at run time", help="choose between numbers or vectors"
                )
    t = common_type(given)
    values = []
    for block, g, side in zip(blocks, given, (node.body, node.orelse), strict=True):
        with ctx.b.into(block), ctx.at(side):
            values.append(ctx.convert(g, t, "the other side of this `if`", side))
    if not isinstance(t, Array) and all(isinstance(o, ops.Constant) for block in blocks for o in block.ops):
        for block in blocks:
            ctx.b.block.ops.extend(block.ops)
        return ctx.b.select(cond, *values)
    for block, v in zip(blocks, values, strict=True):
        with ctx.b.into(block):
            ctx.b.yield_(v)
    return ctx.b.if_(cond, *blocks)[0]


def array_choice(ctx: Context, condition: Operand, a: Operand, b: Operand) -> Operand | None:
    """``a if condition else b`` of two arrays of one type; None for anything else."""
    if not (isinstance(a, Value) and isinstance(b, Value) and a.type == b.type and isinstance(a.type, Array)):
        return None
    cond = ctx.condition(condition)
    if isinstance(cond, bool):
        return a if cond else b
    blocks = []
    for array in (a, b):
        with ctx.b.into(Block()) as block:
            ctx.b.yield_(array)
        blocks.append(block)
    return ctx.b.if_(cond, *blocks)[0]


# --- parts of values ---


@expression(ast.Subscript)
def build_subscript(ctx: Context, node: ast.Subscript) -> Operand:
    """``a[i]``."""
    base = ctx.reference(node.value)
    if isinstance(base, TileView) or (isinstance(base, Value) and isinstance(base.type, Tile)):
        from warp_like.frontend.tiles import parts

        return parts.subscript(ctx, node, base)
    if isinstance(base, Host):
        key = ctx.expr(node.slice)
        literal = key.value if isinstance(key, Literal) else key.obj if isinstance(key, Host) else None
        if literal is None:
            raise not_a_value(base)
        return constants.item(ctx, base, literal)
    at = indexing.indices(ctx, node.slice)
    if isinstance(base, Extents) and isinstance(node.slice, ast.Constant):
        _warn_of_no_dimension(base, node)
    if isinstance(base, Value) and isinstance(base.type, IndexedArray):
        from warp_like.frontend import indexed_arrays

        return indexed_arrays.read(ctx, base, at)
    return indexing.read(ctx, base, at)


def _warn_of_no_dimension(shape: Extents, node: ast.Subscript) -> None:
    """Say that an array has fewer dimensions than a constant index into its shape means."""
    index = ast.literal_eval(node.slice)
    if len(shape) <= index < shape.ENTRIES:
        dimensions = "dimension" if len(shape) == 1 else "dimensions"
        from warp_like.frontend.warn import warn

        warn(f"`{ast.unparse(node)}` is 0, as the array has {len(shape)} {dimensions}")


@expression(ast.Attribute)
def build_attribute(ctx: Context, node: ast.Attribute) -> Operand:
    """``v.x``, ``a.shape``, or an attribute of a module."""
    base = ctx.expr(node.value)
    if isinstance(base, Host):
        _require_named(ctx, node, base.obj)
        return constants.attribute(ctx, base, node.attr)
    if isinstance(base, Value):
        match base.type:
            case Array():
                return _array_attribute(ctx, base, node.attr)
            case IndexedArray():
                from warp_like.frontend import indexed_arrays

                return indexed_arrays.attribute(ctx, base, node.attr)
            case Struct():
                return ctx.b.get_field(base, indexing.field(base.type, node.attr))
            case Vec() | Quat() if node.attr not in ("dtype", "length"):
                return ctx.b.extract(base, indexing.component(base.type, node.attr))
            case Transform() if node.attr not in ("dtype", "length"):
                return selection.extract(ctx, base, (indexing.member(base.type, node.attr),))
        constant = constants.type_attribute(base.type, node.attr, base.hint or str(base.type))
        if constant is not None:
            return constant
    if isinstance(base, Literal) and node.attr == "value" and isinstance(node.value, (ast.Name, ast.Attribute)):
        return base  # the number of an enum's member
    if isinstance(base, Literal) and node.attr == "dtype":
        return Host(base.default, f"{base}.dtype")
    raise WarpCodegenAttributeError(f"{_subject(base)} has no attribute `{node.attr}`")


def _require_named(ctx: Context, node: ast.Attribute, obj: object) -> None:
    """Refuse an attribute of an object that a variable or a tuple holds: the cache key would not see it change.

    It sees what a member of an enum is, and what a type is made of.
    """
    known = _OF_MEMBERS if isinstance(obj, enum.Enum) else _OF_TYPES if values.is_type(obj) else ()
    if node.attr in known or not is_namespace(obj):
        return
    parts = dotted(node.value)
    if parts is None or ctx.read(parts[0]) is not None:
        text = ast.unparse(node)
        kind = "function" if isinstance(obj, Function) else "class" if isinstance(obj, type) else "object"
        raise WarpCodegenAttributeError(
            f"`{text}` is an attribute of {with_article(kind)} that a variable holds, which kernel code can't read",
            help=f"take it of the {kind} by its own name, or pass `{text}` as an argument, too",
        )


_OF_MEMBERS = ("value", "name")
_OF_TYPES = ("dtype", "length", "shape", "ndim")


def _subject(base: Operand) -> str:
    return with_article(describe(base)) if isinstance(base, Value) else describe(base)


def _array_attribute(ctx: Context, array: Value, name: str) -> Operand:
    assert isinstance(array.type, Array)
    n = array.type.ndim
    if name == "shape":
        return Extents(ctx.b.dim(array, axis) for axis in range(n))
    if name == "ndim":
        return Literal(n)
    if name == "dtype":
        return Host(array.type.dtype, f"{array.hint or 'array'}.dtype")
    if name == "size":
        total: Operand = ctx.b.dim(array, 0)
        for axis in range(1, n):
            total = ctx.apply("mul", total, ctx.b.dim(array, axis))
        return total
    if name == "ptr":
        from warp_like.frontend import local_arrays

        return local_arrays.address_of(ctx, array)
    raise WarpCodegenAttributeError(
        f"{with_article(str(array.type))} has no attribute `{name}` in kernel code",
        help="it has shape, ndim, size, dtype and ptr",
    )
