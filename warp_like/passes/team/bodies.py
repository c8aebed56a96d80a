"""Builtins on tiles that the threads of a team do together: sums, extremes, products, factors and solves.

Each thread goes over every ``team``-th element, then the block combines what the threads have found. Products only get
another size of what a thread sums at once, so that all threads have some; their loops are shared out like others
(``distribute.py``). Where the target has a matrix unit for a product, it becomes a ``Contract`` instead, and takes in
the tile that it is added to. This is an example for teams of 32 threads.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = fill %1 : tile[64] of float32
      %3 = tile_sum %2 : tile[1] of float32
      %4 = constant 0 : int32
      %5 = extract %3[%4] : float32
      store %x[%0], %5
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = fill %1 : tile[64] of float32
      %3 = block_thread  : int32
      %4 = extract %2[%3] : float32
      %5 = constant 1 : int32
      %6 = constant 2 : int32
      %7 = constant 1 : int32
      %8 = for %10 in %5, %6, %7 (%9 = %4) : float32 {
        %11 = constant 32 : int32
        %12 = mul %10, %11 : int32
        %13 = add %12, %3 : int32
        %14 = extract %2[%13] : float32
        %15 = add %9, %14 : float32
        yield %15
      }
      %16 = block_sum %8 : float32
      %17 = fill %16 : tile[1] of float32
      %18 = constant 0 : int32
      %19 = extract %17[%18] : float32
      store %x[%0], %19
      yield
    }
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from warp_like.base.loc import at
from warp_like.builtins.device import tiles as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import product
from warp_like.builtins.precision import in_float32
from warp_like.builtins.spec import Inline
from warp_like.builtins.tiles import BY_TENSOR_CORES, as_tile, at_number, tile_type
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import count_uses
from warp_like.ir.types import Mat, Scalar, Tile, bool_, element_count, float32, float64, int32
from warp_like.passes.bodies import body_of
from warp_like.passes.pair_products import PRODUCTS, before_widening
from warp_like.passes.rewriter import Rewriter, rewrite
from warp_like.passes.team.units import UNITS, share_of

MOST_IN_REGISTERS = 16
"""The most components of elements of which each thread combines its own: larger ones may lie in memory."""

Element = Callable[[tuple[Value, ...]], Value]
Combine = Callable[[Value, Value], Value]
Body = Callable[..., Value]

SIZES = ((8, 8), (8, 4), (4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 2), (1, 1))
"""The rows and columns of a product that a thread may sum at once, best first."""


def expand_together(f: Function, team: int, units: Sequence[str] = ()) -> Function:
    """Put the bodies for ``team`` threads in the place of calls, in place; the target has these matrix ``units``."""
    return rewrite(f, _Expander(f, team, units))


class _Expander(Rewriter):
    """Puts the bodies in place.

    Attributes:
        contracted: The products that matrix units compute, with the products that they were.
    """

    def __init__(self, f: Function, team: int, units: Sequence[str]) -> None:
        super().__init__()
        self.bodies = _bodies(team)
        self.team, self.units = team, units
        self.uses = count_uses(f.body) if units else {}
        self.contracted: dict[Value, Value] = {}

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Apply) and self.units and self.contract(o):
            return
        body = self.bodies.get(o.fn) if isinstance(o, ops.Apply) else None
        if body is None:
            super().visit(o)
            return
        assert isinstance(o, ops.Apply)
        if element_count(tile_type(o.args[0]).dtype) > MOST_IN_REGISTERS:
            self.keep(o)
            return
        with at(o.loc):
            self.replace(o, [body(self.b, *o.args)])

    # --- matrix units ---

    def contract(self, o: ops.Apply) -> bool:
        """Let a matrix unit compute ``o``, if it is a product for one, or adds to one that was computed just before."""
        with at(o.loc):
            if o.fn == "add":
                made = self.added(o)
            else:
                name = o.fn.removesuffix(BY_TENSOR_CORES)
                made = self.product(o, PRODUCTS[name], o.fn != name) if name in PRODUCTS else None
        if made is not None:
            self.replace(o, [made])
        return made is not None

    def product(self, o: ops.Apply, turned: tuple[bool, bool], is_asked: bool) -> Value | None:
        """The product by a matrix unit, if there is one: that of 16-bit floats only where it ``is_asked`` for."""
        x, y = (before_widening(v) if is_asked else v for v in o.args)
        unit = str(tile_type(x).dtype)
        if unit not in self.units or tile_type(y).dtype != tile_type(x).dtype:
            return None
        if not (is_asked or UNITS[unit].rounds_to_nearest):
            return None
        m, n = tile_type(o.result).shape
        depth = tile_type(x).shape[0 if turned[0] else 1]
        if share_of(unit, (m, depth, n), self.team) is None:
            return None
        result = tile_type(o.result)
        wide = Tile(result.shape, float32) if tile_type(x).dtype == result.dtype != float64 else result
        made = self.b.insert(ops.Contract(x, y, (), unit, *turned), wide).result
        if wide == result:
            self.contracted[made] = o.result
        return self.b.cast(made, result)

    def added(self, o: ops.Apply) -> Value | None:
        """``o``, whose operands are tiles, as a product that adds to one of them: if it is used nowhere else."""
        for tile, found in (o.args, o.args[::-1]):
            whole, p = self.contracted.get(found), found.op
            if whole is None or self.uses[whole] != 1 or p not in self.b.block.ops or tile.type != found.type:
                continue
            assert isinstance(p, ops.Contract)
            fused = ops.Contract(p.x, p.y, (tile,), p.unit, p.turned_x, p.turned_y)
            return self.b.insert(fused, found.type).result
        return None


def _bodies(team: int) -> dict[str, Body]:
    def summed(b: Emitter, x: Value) -> Value:
        return _combined(b, team, tile_type(x), lambda at: b.extract(x, *at), b.add, "block_sum")

    def dot(b: Emitter, x: Value, y: Value) -> Value:
        t = tile_type(x).dtype
        pair = b.mul if isinstance(t, Scalar) else b.ddot if isinstance(t, Mat) else b.dot
        return _combined(
            b, team, tile_type(x), lambda at: pair(b.extract(x, *at), b.extract(y, *at)), b.add, "block_sum"
        )

    def extreme(name: str) -> Body:
        def body(b: Emitter, x: Value) -> Value:
            combine = lambda p, q: b.apply(name, p, q)  # noqa: E731
            return _combined(b, team, tile_type(x), lambda at: b.extract(x, *at), combine, f"block_{name}")

        return body

    return {
        "tile_sum": in_float32(summed),
        "tile_dot": in_float32(dot),
        "tile_min": extreme("min"),
        "tile_max": extreme("max"),
        **_ALGEBRA,
        **{
            f"{name}{end}": in_float32(_product(team, turned_x=turned_x, turned_y=turned_y))
            for name, (turned_x, turned_y) in PRODUCTS.items()
            for end in ("", BY_TENSOR_CORES)
        },
    }


def _in_kernel_language(function: Callable[..., object], *flags: bool) -> Body:
    made = body_of(Inline(function))
    assert made is not None
    return lambda b, *args: made.body(b, *args, *(b.constant(flag, bool_) for flag in flags))


_ALGEBRA: dict[str, Body] = {
    "_tile_cholesky": _in_kernel_language(device.cholesky_together),
    "_tile_lower_solve": _in_kernel_language(device.solve_together, False, False),
    "_tile_lower_solve_t": _in_kernel_language(device.solve_together, True, True),
    "_tile_upper_solve": _in_kernel_language(device.solve_together, True, False),
    "_tile_upper_solve_t": _in_kernel_language(device.solve_together, False, True),
}


def _combined(b: Emitter, team: int, t: Tile, element: Element, combine: Combine, of_block: str) -> Value:
    """Return the elements combined, as a tile of one.

    Threads for which there is no element begin with zero in a sum, and else with the first element.
    """
    count = math.prod(t.shape)
    thread, rounds = b.block_thread(), -(-count // team)

    def of(e: Value) -> Value:
        return element(at_number(b, t, e))

    if count >= team:
        mine = of(thread)
    else:
        there = b.lt(thread, count)
        mine = of(b.select(there, thread, b.index(0)))
        if of_block == "block_sum":
            mine = b.branch(there, lambda: mine, lambda: b.zero(mine.type))
    if rounds > 1:
        r, total = Value(int32), Value(mine.type)
        with b.into(Block([r, total])) as body:
            e = b.add(b.mul(r, team), thread)
            if count % team:
                b.yield_(b.branch(b.lt(e, count), lambda: combine(total, of(e)), lambda: total))
            else:
                b.yield_(combine(total, of(e)))
        (mine,) = b.for_(b.index(1), b.index(rounds), b.index(1), [mine], body)
    return as_tile(b, b.apply(of_block, mine))


def _product(team: int, *, turned_x: bool, turned_y: bool) -> Body:
    def body(b: Emitter, x: Value, y: Value) -> Value:
        m, k = tile_type(x).shape[::-1] if turned_x else tile_type(x).shape
        n = tile_type(y).shape[0 if turned_y else 1]
        made = Tile((m, n), tile_type(x).dtype)
        return product(
            b,
            made,
            (m, k, n),
            lambda i, p: b.extract(x, p, i) if turned_x else b.extract(x, i, p),
            lambda p, j: b.extract(y, j, p) if turned_y else b.extract(y, p, j),
            lambda i, j: (i, j),
            size_of_block(m, n, team),
        )

    return body


def size_of_block(rows: int, columns: int, team: int) -> tuple[int, int]:
    """Return the rows and columns of a product that a thread sums at once: the largest with work for all threads."""
    whole = [(r, c) for r, c in SIZES if rows % r == 0 and columns % c == 0]
    return next(((r, c) for r, c in whole if rows * columns >= team * r * c), (1, 1))


__all__ = ["expand_together", "size_of_block"]
