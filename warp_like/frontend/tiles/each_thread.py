"""What each thread of a block does to something that the block has, one thread after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp_like.builtins.loops import over
from warp_like.frontend.context import Context
from warp_like.frontend.tile_views import TileView
from warp_like.ir.core import Value
from warp_like.ir.types import Tile, Type, bool_

Values = Sequence[Value]

IN_ANY_ORDER = ("add", "sub", "bit_and", "bit_or", "bit_xor")
"""What several threads may do to one element, whose order does not matter then."""


def each_thread(
    ctx: Context,
    given: Values,
    held: Values,
    gets: Sequence[Type],
    body: Callable[[Values, Values], tuple[Values, Values]],
) -> tuple[Values, Values]:
    """Do something for each thread of the block.

    Args:
        ctx: Where it is built.
        given: Values of the thread; zero for those of the block's threads that the grid does not have.
        held: Values of the block, which the threads change.
        gets: The types of what a thread gets.
        body: Takes a thread's values and the block's; returns the block's next ones, and what the thread gets.

    Returns:
        The block's last values, and what this thread has got.
    """
    b, count = ctx.b, ctx.session.block_dim
    if count == 1:
        return body(given, held)
    rows = [b.threads(v, count) for v in given]

    def one(at: tuple[Value, ...], *now: Value) -> list[Value]:
        last, got = body([b.extract(row, *at) for row in rows], now[: len(held)])
        filled = zip(now[len(held) :], got, strict=True)
        return [*last, *(b.insert_component(row, v, *at) for row, v in filled)]

    last = over(b, (count,), [*held, *(b.zero(Tile((count,), t)) for t in gets)], one)
    mine = b.block_thread()
    return last[: len(held)], [b.extract(row, mine) for row in last[len(held) :]]


def change_element(ctx: Context, view: TileView, given: Values, change: Callable[[Value, Values], Value]) -> None:
    """Let each thread change an element of a tile; threads may name the same one.

    ``change`` takes the element as the threads before have left it, and the values ``given`` of the thread.
    """
    b = ctx.b

    def one(thread: Values, tile: Values) -> tuple[Values, Values]:
        is_there, *values = thread
        at, (whole,) = values[len(given) :], tile
        old = b.extract(whole, *at)
        new = change(old, values[: len(given)])
        return (b.insert_component(whole, b.select(is_there, new, old), *at),), ()

    there = b.constant(True, bool_)
    (made,), _ = each_thread(ctx, [there, *given, *view.places(b, ())], [ctx.viewed(view)], (), one)
    made.hint = view.root
    ctx.scope.replace(view.root, made)


__all__ = ["IN_ANY_ORDER", "Values", "change_element", "each_thread"]
