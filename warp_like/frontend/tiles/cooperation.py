"""Between the threads of a block and tiles."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.tiles import tabulated, tile_type
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.frontend.tile_views import TileView
from warp_like.frontend.tiles import parts, structs
from warp_like.frontend.tiles.arguments import Arguments, require_element
from warp_like.frontend.tiles.each_thread import Values, each_thread
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Mat, Scalar, Tile, TileStack, Vec, bool_, element_shape, tile_stack

Handler = Callable[[Context, ast.Call], Operand]


def _tile(ctx: Context, node: ast.Call) -> Operand:
    """``tile(x)``: the threads' values side by side; components of vectors and matrices are dimensions in front."""
    a = Arguments(ctx, node, "tile", "x preserve_type", 1)
    x = ctx.value(a["x"])
    require_element(ctx, x.type, a["x"])
    b, count = ctx.b, ctx.session.block_dim
    if isinstance(x.type, Scalar) or a.flag("preserve_type", False):
        return b.threads(x, count) if count > 1 else b.fill(Tile((1,), x.type), x)
    if not isinstance(x.type, (Vec, Mat)):
        raise WarpCodegenTypeError(
            f"tile() of {with_article(str(x.type))} keeps it whole", help="wp.tile(x, preserve_type=True)"
        )
    t = Tile((*element_shape(x.type), count), x.type.dtype)
    if count == 1:
        return tabulated(b, t, lambda at: b.extract(x, *at[:-1]))
    rows = b.threads(x, count)
    return tabulated(b, t, lambda at: b.extract(rows, at[-1], *at[:-1]))


def _untile(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "untile", "a", 1)
    x = a.tile("a")
    t, b, count = tile_type(x), ctx.b, ctx.session.block_dim
    *inner, last = t.shape
    if last != count or len(inner) > 2 or (inner and not isinstance(t.dtype, Scalar)):
        raise WarpCodegenTypeError(
            f"untile() takes a tile with an element for each thread of the block, which is {count}, got {t}"
        )
    mine = b.block_thread() if count > 1 else b.index(0)
    if not inner:
        return b.extract(x, mine)
    assert isinstance(t.dtype, Scalar)
    if len(inner) == 1:
        return b.make(Vec(inner[0], t.dtype), [b.extract(x, k, mine) for k in range(inner[0])])
    made = Mat(inner[0], inner[1], t.dtype)
    return b.make(made, [b.extract(x, r, c, mine) for r in range(inner[0]) for c in range(inner[1])])


def _from_thread(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_from_thread", "shape value thread_idx storage", 3)
    value = ctx.value(a["value"])
    thread = ctx.settle(ctx.index(a["thread_idx"]))
    require_element(ctx, value.type, a["value"])
    b, count = ctx.b, ctx.session.block_dim
    if count > 1:
        value = b.extract(b.threads(value, count), thread)
    return b.fill(Tile(a.shape(), value.type), value)


def _scatter(name: str, adds: bool) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        options = " atomic" if adds else ""
        given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "a"), None)
        first = None if given is None else ctx.reference(given)
        t = first.type if isinstance(first, (Value, TileView)) else None
        ndim = len(t.shape) if isinstance(t, Tile) else 1
        indices = "ijkl"[:ndim]
        a = Arguments(ctx, node, name, f"a {' '.join(indices)} value has_value{options}", ndim + 3)
        a.preset("a", first)
        view, old = parts.changing(ctx, a, "a"), a.tile("a")
        where = [ctx.settle(ctx.index(a[p])) for p in indices]
        element = tile_type(old).dtype
        if adds and element == bool_:
            raise WarpCodegenTypeError("tile_scatter_add() adds no truth values", help="wp.tile_scatter_masked(...)")
        value = ctx.convert(ctx.expr(a["value"]), element, f"the value of {name}()", a["value"])
        condition = ctx.condition(ctx.expr(a["has_value"]))
        b = ctx.b
        if isinstance(condition, bool):
            condition = b.constant(condition, bool_)

        def put(thread: Values, tile: Values) -> tuple[Values, Values]:
            wanted, new, *at = thread
            (x,) = tile
            with b.into(Block()) as then:
                made = structs.combined(b, "add", b.extract(x, *at), new) if adds else new
                b.yield_(b.insert_component(x, made, *at))
            with b.into(Block()) as orelse:
                b.yield_(x)
            return b.if_(wanted, then, orelse), ()

        (made,), _ = each_thread(ctx, [condition, value, *where], [old], (), put)
        parts.replace(ctx, view, made)
        return NOTHING

    return build


# --- stacks ---


def _stack(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_stack", "capacity dtype", 2)
    (capacity,) = a.shape("capacity", 1)
    return ctx.b.zero(tile_stack(capacity, a.dtype()))


class _Held:
    """The stack in a variable, which is argument ``s`` of a call.

    Raises:
        WarpCodegenTypeError: It is something else.
    """

    def __init__(self, ctx: Context, a: Arguments) -> None:
        node, self.ctx = a["s"], ctx
        operand = ctx.expr(node)
        if not (isinstance(node, ast.Name) and isinstance(operand, Value) and isinstance(operand.type, TileStack)):
            with ctx.at(node):
                raise WarpCodegenTypeError(
                    f"{a.name}() takes a variable that holds a tile_stack(), got {describe(operand)}"
                )
        self.name, self.type = node.id, operand.type
        self.elements, self.count = (ctx.b.get_field(operand, k) for k in range(2))

    def replace(self, elements: Value, count: Value) -> None:
        """Let the variable hold other values."""
        new = self.ctx.b.make(self.type, [elements, count])
        new.hint = self.name
        self.ctx.scope.replace(self.name, new)


def _push(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_stack_push", "s value has_value", 3)
    held, b = _Held(ctx, a), ctx.b
    t = held.type.elements
    value = ctx.convert(ctx.expr(a["value"]), t.dtype, "the value of tile_stack_push()", a["value"])
    wanted = ctx.convert(ctx.expr(a["has_value"]), bool_, "`has_value` of tile_stack_push()", a["has_value"])

    def put(thread: Values, stack: Values) -> tuple[Values, Values]:
        (new, there), (elements, top) = thread, stack
        fits = b.bit_and(there, b.lt(top, t.shape[0]))
        with b.into(Block()) as then:
            b.yield_(b.insert_component(elements, new, top))
        with b.into(Block()) as orelse:
            b.yield_(elements)
        (elements,) = b.if_(fits, then, orelse)
        return (elements, b.select(fits, b.add(top, 1), top)), (b.select(fits, top, b.index(-1)),)

    after, (place,) = each_thread(ctx, [value, wanted], [held.elements, held.count], [held.count.type], put)
    held.replace(*after)
    return place


def _pop(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_stack_pop", "s", 1)
    held, b = _Held(ctx, a), ctx.b

    def take(thread: Values, stack: Values) -> tuple[Values, Values]:
        (there,), (top,) = thread, stack
        some = b.bit_and(there, b.gt(top, 0))
        left = b.select(some, b.sub(top, 1), top)
        return (left,), (b.extract(held.elements, left), b.select(some, left, b.index(-1)))

    everyone = [b.constant(True, bool_)]
    gets = [held.type.elements.dtype, held.count.type]
    (left,), (value, place) = each_thread(ctx, everyone, [held.count], gets, take)
    held.replace(held.elements, left)
    return value, place


def _clear(ctx: Context, node: ast.Call) -> Operand:
    held = _Held(ctx, Arguments(ctx, node, "tile_stack_clear", "s", 1))
    held.replace(held.elements, ctx.b.index(0))
    return NOTHING


def _count(ctx: Context, node: ast.Call) -> Operand:
    return _Held(ctx, Arguments(ctx, node, "tile_stack_count", "s", 1)).count


HANDLERS = {
    "tile": _tile,
    "untile": _untile,
    "tile_from_thread": _from_thread,
    "tile_scatter_add": _scatter("tile_scatter_add", True),
    "tile_scatter_masked": _scatter("tile_scatter_masked", False),
    "tile_stack": _stack,
    "tile_stack_push": _push,
    "tile_stack_pop": _pop,
    "tile_stack_clear": _clear,
    "tile_stack_count": _count,
}
