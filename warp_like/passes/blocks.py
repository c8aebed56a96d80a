"""Threads of a block that work together: what has to hold of the program, and what is left of it on the CPU.

On CUDA a thread that waits for the others of its block or warp waits for ever where some of them never come by, so the
place has to be one that all reach or none. That is seen before the code is made, for every target, and refused.

``require_together`` changes nothing. ``in_single_threads`` runs on a finished function for the CPU, and leaves no
barrier, no shared array and no builtin that asks other threads. Where a launch has blocks of several threads, either
``join_threads`` has made one of them, or the kernel asks for nothing but how many they are.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = shared (4,) : array1d[float32]
      %2 = load %x[%0] : float32
      store %1[%0], %2
      barrier
      %3 = load %1[%0] : float32
      store %x[%0], %3
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = local (4,) : array1d[float32]
      %2 = load %x[%0] : float32
      store %1[%0], %2
      %3 = load %1[%0] : float32
      store %x[%0], %3
      yield
    }
"""

from __future__ import annotations

import math

from warp_like.base.errors import WarpCodegenError
from warp_like.base.loc import at
from warp_like.builtins.spec import COOPERATIVE
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.layout import size_of
from warp_like.ir.rewrite import find_ops, has_op, result_types
from warp_like.ir.types import Array, Tile, element_count, is_large, scalar_of
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.uniform import LEVELS, Uniformity, cooperative

MAX_SHARED_BYTES = 48 << 10
"""The most memory that a block shares: what every device has without asking for more."""


def works_together(f: Function) -> bool:
    """Return whether threads of ``f`` ask anything of their warp or block."""
    if has_op(f, ops.Barrier) or any(o.shared for o in find_ops(f.body, ops.LocalArray)):
        return True
    asking = [o for o in find_ops(f.body, ops.Apply) if o.fn in COOPERATIVE]
    return any(cooperative(o) is not None for o in asking)


def require_together(f: Function) -> None:
    """Refuse what threads of a block do together where not all of them come by; changes nothing.

    Raises:
        WarpCodegenError: They may not, or arrays that a block shares are too large, or leave the kernel.
    """
    if works_together(f):
        known = Uniformity(f)
        for o in f.body.walk():
            with at(o.loc):
                _require(o, known)
        require_room(f)


def relies_on_no_overlap(f: Function) -> bool:
    """Return whether threads of a block stay together only if what others write overlaps no array that is read."""
    if not works_together(f):
        return False
    known = Uniformity(f, no_overlap=False)
    met = ((o, _meets(o)) for o in f.body.walk())
    return any(place is not None and not _is_reached(o, place[1], known) for o, place in met)


def has_large_values(f: Function) -> bool:
    """Return whether a value of ``f`` is large, or an element of an array."""
    types = [*(p.type for p in f.params), *result_types(f.body)]
    return any(is_large(t.dtype if isinstance(t, Array) else t) for t in types)


def works_on_tiles(f: Function) -> bool:
    """Return whether a value of ``f`` is a tile."""
    return any(isinstance(t, Tile) for t in result_types(f.body))


def in_single_threads(f: Function, block_dim: int = 1) -> Function:
    """Write what is left of ``f`` where each thread is alone, in blocks of ``block_dim`` threads, in place."""
    return rewrite(f, _Alone(block_dim)) if works_together(f) else f


class _Alone(Rewriter):
    def __init__(self, block_dim: int) -> None:
        super().__init__()
        self.block_dim = block_dim

    def visit(self, o: Op) -> None:
        lower = cooperative(o)
        with at(o.loc):
            if isinstance(o, ops.Apply) and o.fn == "block_dim":
                self.replace(o, (self.b.constant(self.block_dim, o.result.type),))
                return
            match o:
                case ops.Barrier():
                    pass
                case ops.LocalArray(shared=True):
                    self.replace(o, self.b.insert(ops.LocalArray(o.shape), o.result.type, hint=o.result.hint).results)
                case ops.Apply() if lower is not None:
                    self.replace(o, (lower.alone(self.b, *o.args),))
                case _:
                    super().visit(o)


def _is_of_block(o: Op) -> bool:
    return isinstance(o, ops.Barrier) or (isinstance(o, ops.LocalArray) and o.shared)


def _meets(o: Op) -> tuple[str, str] | None:
    """What the user calls ``o``, and whose threads have to reach it together: those of a block or of a warp."""
    lower = cooperative(o)
    if lower is not None and lower.meets:
        assert isinstance(o, ops.Apply)
        return f"{o.fn}()", lower.meets
    if _is_of_block(o):
        return "block_sync()" if isinstance(o, ops.Barrier) else "shared_array()", "block"
    return None


def _is_reached(o: Op, whose: str, known: Uniformity) -> bool:
    return known.within[o][0] <= LEVELS[whose]


def _require(o: Op, known: Uniformity) -> None:
    place = _meets(o)
    if place is not None:
        _require_place(o, *place, known)
    elif isinstance(o, (ops.Address, ops.Native)) and any(map(_is_shared, o.operands())):
        raise WarpCodegenError(
            "an array that a block shares has no address", help="copy its elements to an array that is an argument"
        )


def _require_place(o: Op, what: str, whose: str, known: Uniformity) -> None:
    if _is_reached(o, whose, known):
        return
    _, by = known.within[o]
    where = f" of line {by.loc.line}" if by is not None and by.loc is not None else ""
    reason = f"the condition{where} may hold for some of them alone"
    if isinstance(by, (ops.For, ops.While)):
        reason = f"the loop{where} may end earlier for some of them than for others"
    value = "; a thread that has nothing to add gives wp.where(condition, value, 0)" if what.endswith("_sum()") else ""
    raise WarpCodegenError(
        f"all threads of a {whose} have to reach {what} together, but {reason}",
        help=f"call it outside of {'the loop' if isinstance(by, (ops.For, ops.While)) else 'the branch'}{value}; what "
        "wp.block_any(condition) or wp.block_max(count) gives is the same for all threads",
    )


def require_room(f: Function) -> None:
    """Refuse arrays that together are larger than what a block can share."""
    total = most = 0
    for o in f.body.walk():
        lower = cooperative(o)
        if isinstance(o, ops.LocalArray) and o.shared:
            assert isinstance(o.result.type, Array)
            total += -(-size_of(o.result.type.dtype) * math.prod(o.shape) // 16) * 16
        elif lower is not None and lower.meets == "block":
            most = max(most, slot_bytes(o.operands()[0]))
        if total + most > MAX_SHARED_BYTES:
            raise WarpCodegenError(
                f"the threads of a block share {total + most} bytes here, {most} of them for sums; "
                f"{MAX_SHARED_BYTES} are there",
                o.loc,
                help="make the array smaller, or take it as an argument of the kernel; one made in a loop that is "
                "unrolled counts for each round",
            )


def slot_bytes(value: Value) -> int:
    """Return the bytes that a block shares to combine ``value``: a place for each of its warps."""
    scalar = scalar_of(value.type)
    assert scalar is not None
    return 32 * element_count(value.type) * max(scalar.bits // 8, 4)


def _is_shared(v: Value) -> bool:
    base = ops.base_array(v).op
    return isinstance(base, ops.LocalArray) and base.shared
