"""Where the threads of a block meet, and what has to hold there.

Threads meet at barriers, at sums over the block, and at work on tiles. All threads of a block have to come to such a
place, and what is done there once takes values that are the same for all of them. Threads may leave their block early:
the others then go on with work on tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import free_values
from warp_like.ir.types import Tile
from warp_like.passes.uniform import BLOCK, Uniformity, cooperative


def all_ops(o: Op) -> Iterator[Op]:
    """Iterate over ``o`` and all ops in its blocks."""
    yield o
    for r in o.regions():
        yield from r.walk()


def needs(o: Op) -> list[Value]:
    """Return what ``o`` and the ops in its blocks take from outside."""
    return list(dict.fromkeys([*o.operands(), *(v for r in o.regions() for v in free_values(r))]))


def gathers(o: Op) -> bool:
    """Return whether ``o`` makes something of the values that all threads of the block have."""
    lower = cooperative(o)
    return isinstance(o, ops.TileOfThreads) or (lower is not None and lower.meets == "block")


def meets(o: Op) -> bool:
    """Return whether ``o`` itself is a place where the threads of a block meet; a choice of tiles is one, too."""
    match o:
        case ops.For() if o.together:
            return True
        case ops.LocalArray():
            return o.shared
        case ops.Barrier():
            return True
    return gathers(o) or any(isinstance(r.type, Tile) for r in o.results)


def partings(block: Block) -> Iterator[ops.If]:
    """Iterate over the branches after which threads on one side never meet others again: they have left their block.

    The threads on the other side go on with work on tiles. So it is after an early ``return``.
    """
    for o in reversed(block.ops):
        if isinstance(o, ops.If) and not o.results:
            meeting = [r for r in o.regions() if has_meeting(r)]
            if len(meeting) == 1 and not any(map(_is_for_all, meeting[0].walk())):
                yield o
                yield from partings(meeting[0])
        if any(map(meets, all_ops(o))):
            return


def has_meeting(block: Block) -> bool:
    """Return whether threads meet in ``block``."""
    return any(map(meets, block.walk()))


def _is_for_all(o: Op) -> bool:
    """Whether all threads of a block have to come to ``o``: to what CUDA has, too, where nobody knows who has left."""
    lower = cooperative(o)
    return (
        isinstance(o, ops.Barrier)
        or (isinstance(o, ops.LocalArray) and o.shared)
        or (lower is not None and lower.meets == "block")
    )


def require_all_together(known: Uniformity, block: Block) -> None:
    """Require that all threads of a block of the grid come to where they meet in ``block``.

    Raises:
        WarpCodegenError: A branch or loop may be taken by some of them alone.
    """
    for o in block.ops:
        if meets(o):
            with at(o.loc):
                _require_together(known, o)
        if not (isinstance(o, ops.For) and o.together):
            for r in o.regions():
                require_all_together(known, r)


def _require_together(known: Uniformity, o: Op) -> None:
    level, by = known.within[o]
    if level > BLOCK:
        where = f" of line {by.loc.line}" if by is not None and by.loc is not None else ""
        raise WarpCodegenError(
            f"{_what(o)} for the threads of a block together, but "
            + (
                f"the loop{where} may end earlier for some of them than for others"
                if isinstance(by, (ops.For, ops.While))
                else f"the condition{where} may hold for some of them alone"
            ),
            help="write it outside of what depends on the thread; what wp.block_any(condition) or "
            "wp.block_max(count) gives is the same for all threads",
        )


def require_same(known: Uniformity, o: Op, values: Iterable[Value]) -> None:
    """Require that ``values``, of which ``o`` makes something once for a block, are the same for all threads.

    Raises:
        WarpCodegenError: One of them may differ.
    """
    for v in values:
        if known.levels.get(v, BLOCK) > BLOCK:
            name = f"`{v.hint}`" if v.hint else "a value"
            raise WarpCodegenError(
                f"{_what(o)} once for the threads of a block, but {name} differs between them",
                help="wp.tile(x) makes a tile of the threads' values; wp.tile_from_thread() takes one of them",
            )


def require_no_meeting(o: Op) -> None:
    """Require that threads do not meet inside of what is done once for them, as a function that ``wp.tile_map`` calls.

    Raises:
        WarpCodegenError: They do.
    """
    for inner in all_ops(o):
        if gathers(inner) or isinstance(inner, ops.Barrier):
            with at(inner.loc):
                raise WarpCodegenError(
                    f"{_what(inner)} for the threads of a block, and this is done once for all of them",
                    help="call it outside, and give the function the result",
                )


def require_threads_in_kept_calls(block: Block) -> None:
    """Require that functions whose calls are kept, for they have a gradient of their own, are for one thread alone.

    Raises:
        WarpCodegenError: One of them, or its gradient, asks something of the threads of its block.
    """
    for o in block.walk():
        if isinstance(o, ops.Call):
            for inner in _with_calls(o.callee):
                if _asks_of_block(inner):
                    with at(o.loc):
                        raise WarpCodegenError(
                            f"`{o.callee.name}` has a gradient or a replay function of its own, which is for one "
                            f"thread, but there {_what(inner)} for the threads of a block",
                            help="call it outside, and give the function the result",
                        )


def _with_calls(f: Function | None) -> Iterator[Op]:
    """Iterate over the ops of ``f``, and of what it calls or is differentiated by."""
    if f is None:
        return
    for o in f.body.walk():
        yield o
        if isinstance(o, ops.Call):
            yield from _with_calls(o.callee)
    yield from _with_calls(f.gradient)
    yield from _with_calls(f.replay)


def _asks_of_block(o: Op) -> bool:
    return _is_for_all(o) or gathers(o) or (isinstance(o, ops.Apply) and o.fn in ("block_thread", "block_size"))


def _what(o: Op) -> str:
    """What the user calls it that ``o`` is done."""
    if isinstance(o, ops.Barrier):
        return "block_sync() is"
    if isinstance(o, ops.LocalArray):
        return "shared_array() is"
    if isinstance(o, ops.Apply) and cooperative(o) is not None:
        return f"{o.fn}() is"
    return "work on tiles is done"


__all__ = [
    "all_ops", "gathers", "has_meeting", "meets", "needs", "partings", "require_all_together", "require_no_meeting",
    "require_same", "require_threads_in_kept_calls",
]  # fmt: skip
