"""The example of each pass: a small function that shows its effect, which the docstring of its module prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.ir_builder import branch, loop, start, tid
from warp_like.base.contract import ObjectKind
from warp_like.builtins import loops
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Struct, Tile, Vec, bfloat16, bool_, float32, int32, int64, uint64
from warp_like.passes import (
    blocks,
    checks,
    count_from_end,
    cse,
    dce,
    decouple_iterations,
    expand,
    flatten_structs,
    fold,
    fold_comparisons,
    fuse,
    inline,
    join_threads,
    licm,
    local_arrays,
    lower_array_selects,
    lower_large_values,
    lower_slices,
    nested_arrays,
    object_order,
    pair_products,
    read_in_place,
    split_vectors,
    strided_loops,
    unroll,
)
from warp_like.passes.ad import (
    adjoint,
    checkpoint,
    emission,
    forward,
    functions,
    hoist,
    order,
    saved_results,
    value_gradients,
)
from warp_like.passes.runner import DEFAULT
from warp_like.passes.spmd import coarsening, consecutive, filter_loops, flatten_grid, join_accesses, widen, widen_loops
from warp_like.passes.team import bodies, distribute

X, N, X2, BX = Array(float32, 1), Array(int32, 1), Array(float32, 2), Array(bfloat16, 1)
POINT = Struct("Point", (("a", float32), ("b", float32)))
CELL = Struct("Cell", (("items", X), ("mass", float32)))


@dataclass
class Example:
    """A function, the pass that is shown on it, and arguments with which both versions do the same.

    Attributes:
        module: The module whose docstring shows it.
        apply: The pass; it may change the function in place.
        build: Makes the function.
        args: Makes the arguments of a launch; None where the pass changes what the function is.
        threads: The extents of the grid.
    """

    module: Any
    apply: Callable[[Function], Any]
    build: Callable[[], Function]
    args: Callable[[], Sequence[Any]] | None = None
    threads: tuple[int, ...] = (4,)

    def both(self) -> tuple[Function, Function]:
        """The function before and after the pass."""
        before = self.build()
        work = clone_function(before)
        work.primal = before.primal
        after = self.apply(work)
        return before, after if isinstance(after, Function) else work


def floats() -> np.ndarray:
    return np.arange(1, 5, dtype=np.float32)


def _square(replay: bool = False) -> Function:
    f, b = start("square", "func", (float32,), v=float32)
    b.yield_(b.mul(f.params[0], f.params[0]))
    if replay:
        f.replay = _square()
        f.replay.name = "square_again"
    return f


def _calls(replay: bool = False) -> Function:
    f, b = start(x=X)
    i = tid(b)
    v = b.insert(ops.Call(_square(replay), (b.load(f.params[0], [i]),)), float32).result
    b.store(f.params[0], [i], v)
    b.yield_()
    return f


def _structs() -> Function:
    f, b = start(p=Array(POINT, 1), x=X)
    i = tid(b)
    point = b.load(f.params[0], [i])
    b.store(f.params[1], [i], b.insert(ops.GetField(point, 1), float32).result)
    b.yield_()
    return f


def _choice() -> Function:
    f, b = start(c=bool_, x=X, y=X)
    c, x, y = f.params
    (chosen,) = branch(b, c, lambda: (x,), lambda: (y,))
    b.store(chosen, [tid(b)], b.constant(1.0, float32))
    b.yield_()
    return f


def _slice() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    one, two = b.constant(1, int64), b.constant(2, int64)
    part = b.slice(x, [one], [two], [two], (0,))
    b.store(x, [i], b.load(part, [i]))
    b.yield_()
    return f


def _indirect() -> Function:
    f, b = start(x=N)
    i, (x,) = tid(b), f.params
    b.store(x, [i], b.load(x, [b.load(x, [i])]))
    b.yield_()
    return f


def _local() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    own = b.insert(ops.LocalArray((3,)), X).result
    b.atomic("add", own, [i], b.load(x, [i]))
    b.store(x, [i], b.load(own, [i]))
    b.yield_()
    return f


def _large() -> Function:
    t = Vec(100, float32)
    f, b = start(x=Array(t, 1), y=Array(t, 1))
    i, (x, y) = tid(b), f.params
    v = b.load(x, [i])
    total = loops.fold(b, t, lambda at: b.extract(v, *at), b.add)
    b.store(y, [i], b.insert_component(v, total, 0))
    b.yield_()
    return f


def _checked() -> Function:
    f, b = start(y=X)
    with loop(b, 0, 10) as body:
        inside = b.bit_and(b.ge(body.i, 0), b.lt(body.i, 10))
        b.store(f.params[0], [b.index(0)], b.select(inside, b.cast(body.i, float32), b.constant(0.0, float32)))
    b.yield_()
    return f


def _reverse_of_map() -> Function:
    f, b = start(x=X, y=X)
    t = Vec(100, float32)
    g = loops.tabulate(b, t, lambda at: b.load(f.params[0], at))
    with loop(b, 99, -1, -1, [g]) as body:
        (rest,), at = body.carried, body.i
        b.atomic("add", f.params[1], [at], b.extract(rest, at))
        body.next = (b.insert_component(rest, b.constant(0.0, float32), at),)
    b.yield_()
    return f


def _sum_of_products() -> Function:
    f, b = start(y=X)
    (y,) = f.params
    t = Vec(100, float32)
    x = loops.tabulate(b, t, lambda at: b.cast(at[0], float32))
    product = loops.tabulate(b, t, lambda at: b.mul(b.extract(x, *at), 2.0))
    b.store(y, [tid(b)], loops.fold(b, t, lambda at: b.extract(product, *at), b.add))
    b.yield_()
    return f


def _sum_of_row() -> Function:
    f, b = start(x=X, n=int32, y=X)
    x, n, y = f.params
    t = Vec(100, float32)
    with loop(b, 0, n, init=[b.insert(ops.Fill(b.constant(0.0, float32)), Tile((100,), float32)).result]) as load:
        load.next = (b.insert_component(load.carried[0], b.load(x, [load.i]), load.i),)
    total = loops.fold(b, t, lambda at: b.extract(load.results[0], *at), b.add)
    b.store(y, [tid(b)], total)
    b.yield_()
    return f


def _division() -> Function:
    f, b = start(x=N, n=int32)
    i, (x, n) = tid(b), f.params
    b.store(x, [i], b.div(b.load(x, [i]), n))
    b.yield_()
    return f


def _foldable() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    two = b.add(b.constant(1.0, float32), b.constant(1.0, float32))
    b.store(x, [i], b.mul(b.mul(b.load(x, [i]), 1.0), two))
    b.yield_()
    return f


def _twice() -> Function:
    f, b = start(x=X)
    (x,) = f.params
    with loop(b, 0, 2) as body:
        b.store(x, [body.i], b.constant(1.0, float32))
    b.yield_()
    return f


def _repeated() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    b.store(x, [i], b.add(b.load(x, [i]), b.load(x, [i])))
    b.yield_()
    return f


def _dead() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    v = b.load(x, [i])
    b.mul(v, v)
    b.store(x, [i], b.neg(v))
    b.yield_()
    return f


def _invariant() -> Function:
    f, b = start(x=X, n=int32, s=float32)
    x, n, s = f.params
    with loop(b, 0, n) as body:
        b.store(x, [body.i], b.mul(s, s))
    b.yield_()
    return f


def _lerp() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    v = b.load(x, [i])
    b.store(x, [i], b.lerp(v, b.neg(v), 0.5))
    b.yield_()
    return f


def _nested() -> Function:
    f, b = start(cells=Array(CELL, 1))
    i = tid(b)
    items = b.field_view(f.params[0], 0)
    b.store(items, [i], b.nested(items, [i]))
    b.store(b.field_view(f.params[0], 1), [i], b.constant(1.0, float32))
    b.yield_()
    return f


def _shared() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    common = b.insert(ops.LocalArray((4,), shared=True), X).result
    b.store(common, [i], b.load(x, [i]))
    b.insert(ops.Barrier())
    b.store(x, [i], b.load(common, [i]))
    b.yield_()
    return f


def _of_block() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    value = b.mul(b.load(x, [i]), 2.0)
    b.store(x, [i], b.sub(value, b.block_sum(value)))
    b.yield_()
    return f


def _strided() -> Function:
    f, b = start(x=X, n=int32)
    x, n = f.params
    thread = b.apply("block_thread")
    width = b.constant(4, int32)
    with loop(b, thread, b.mul(n, width), width) as body:
        b.store(x, [body.i], b.block_sum(b.load(x, [body.i])))
    b.yield_()
    return f


def _sum_of_tile() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    t = b.fill(Tile((64,), float32), b.load(x, [i]))
    b.store(x, [i], b.extract(b.tile_sum(t), 0))
    b.yield_()
    return f


def _product_of_tiles() -> Function:
    f, b = start(x=BX)
    i, (x,) = tid(b), f.params
    left, right = (b.fill(Tile(shape, bfloat16), b.load(x, [i])) for shape in ((4, 2), (2, 16)))
    b.store(x, [i], b.extract(b.apply("_tile_product_by_tensor_cores", left, right), 0, 0))
    b.yield_()
    return f


def _reversed_rows() -> Function:
    f, b = start(x=X2, y=X2)
    i, (x, y) = tid(b), f.params
    row = b.insert(ops.LocalArray((64,), zeroed=False), X).result
    with loop(b, 0, 64) as body:
        b.store(row, [body.i], b.load(x, [i, body.i]))
    with loop(b, 0, 64) as body:
        b.store(y, [i, body.i], b.load(row, [b.sub(63, body.i)]))
    b.yield_()
    return f


def _recurrence() -> Function:
    f, b = start(x=X, n=int32)
    i, (x, n) = tid(b), f.params
    with loop(b, 0, n, init=[b.load(x, [i])]) as body:
        body.next = (b.sin(body.carried[0]),)
    b.store(x, [i], body.results[0])
    b.yield_()
    return f


def _sum() -> Function:
    f, b = start(x=X, y=X, n=int32)
    i, (x, y, n) = tid(b), f.params
    with loop(b, 0, n, init=[b.constant(0.0, float32)]) as body:
        body.next = (b.add(body.carried[0], b.load(x, [i])),)
    b.store(y, [i], body.results[0])
    b.yield_()
    return f


def _old_value() -> Function:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    b.store(y, [i], b.atomic("add", x, [i], b.constant(2.0, float32)))
    b.yield_()
    return f


def _compaction() -> Function:
    f, b = start(n=N, x=X, out=X)
    i, (n, x, out) = tid(b), f.params
    place = b.atomic("add", n, [b.index(0)], b.constant(1, int32))
    b.store(out, [place], b.load(x, [i]))
    b.yield_()
    return f


def _squares() -> Function:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    v = b.load(x, [i])
    b.store(y, [i], b.mul(v, v))
    b.yield_()
    return f


def _in_place() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    v = b.load(x, [i])
    b.store(x, [i], b.mul(v, v))
    b.yield_()
    return f


def _gradient() -> Function:
    primal = _square()
    f, _ = start("grad_square", "func", (float32,), v=float32)
    f.primal = primal
    g, b = start(x=X)
    i = tid(b)
    b.store(g.params[0], [i], b.insert(ops.Call(f, (b.load(g.params[0], [i]),)), float32).result)
    b.yield_()
    return g


def _rows() -> Function:
    f, b = start(x=X, out=X2)
    x, out = f.params
    j = tid(b, 1, 2)
    b.store(out, [tid(b, 0, 2), j], b.load(x, [j]))
    b.yield_()
    return f


def _scaled() -> Function:
    f, b = start(x=X, s=float32)
    i, (x, s) = tid(b), f.params
    b.store(x, [i], b.mul(b.load(x, [i]), s))
    b.yield_()
    return f


def _row_sums() -> Function:
    f, b = start(x=X2, out=X, n=int32)
    (x, out, n), i = f.params, tid(b)
    with loop(b, 0, n, init=[b.constant(0.0, float32)]) as sums:
        sums.next = (b.add(sums.carried[0], b.load(x, [i, sums.i])),)
    b.store(out, [i], sums.results[0])
    b.yield_()
    return f


def _pair_sums() -> Function:
    f, b = start(x=X, y=X)
    (x, y), i = f.params, tid(b)
    first = b.mul(i, 2)
    b.store(y, [i], b.add(b.load(x, [first]), b.load(x, [b.add(first, 1)])))
    b.yield_()
    return f


def _columns() -> Function:
    """The sums of 6 columns of 3 numbers each, of which a thread stores one."""
    f, b = start(x=X, y=X)
    sums = b.insert(ops.LocalArray((6,), zeroed=False), X).result

    def column(j: Value) -> list[Value]:
        def add(k: Value, total: Value) -> list[Value]:
            return [b.add(total, b.load(f.params[0], [b.add(b.mul(k, 6), j)]))]

        b.store(sums, [j], loops.counted(b, 1, 3, [b.load(f.params[0], [j])], add)[0])
        return []

    loops.counted(b, 0, 6, [], column, simd=True)
    i = tid(b)
    b.store(f.params[1], [i], b.load(sums, [i]))
    b.yield_()
    return f


def _near() -> Function:
    """A sum over those numbers that a polynomial of the distance finds near."""
    f, b = start(x=X, out=X, n=int32)
    (x, out, n), i = f.params, tid(b)
    with loop(b, 0, n, init=[b.constant(0.0, float32)]) as sums:
        d = b.sub(b.load(x, [sums.i]), b.load(x, [i]))
        square = b.mul(d, d)
        far = b.add(square, b.mul(square, b.add(square, b.mul(d, square))))
        (total,) = sums.carried
        sums.next = branch(b, b.lt(far, 0.5), lambda: (b.add(total, d),), lambda: (total,))
    b.store(out, [i], sums.results[0])
    b.yield_()
    return f


def _around() -> Function:
    """The element above, or the last one of the column."""
    f, b = start(x=X2, out=X)
    (x, out), i = f.params, tid(b)
    place = b.make(Vec(2, int32), [b.sub(i, 1), b.constant(0, int32)])
    last = b.sub(b.dim(x, 0), 1)
    (place,) = branch(b, b.lt(b.extract(place, 0), 0), lambda: (b.insert_component(place, last, 0),), lambda: (place,))
    b.store(out, [i], b.load(x, [b.extract(place, 0), b.extract(place, 1)]))
    b.yield_()
    return f


def _of_points() -> Function:
    """Each thread reads a point of its own, and the number of points in a hash grid."""
    f, b = start(grid=uint64, x=Array(Vec(3, float32), 1), out=X)
    (grid, x, out), i = f.params, tid(b)
    words = ops.AtAddress(grid, (b.constant(9, int64),), constant=True, kind=ObjectKind.HASH_GRID)
    count = b.load(b.insert(words, Array(uint64, 1)).result, [b.index(7)])
    b.store(out, [i], b.mul(b.extract(b.load(x, [i]), b.index(0)), b.cast(count, float32)))
    b.yield_()
    f.tid_ndim = 1
    return f


EXAMPLES: dict[str, Example] = {
    "inline": Example(inline, inline.inline, _calls, lambda: [floats()]),
    "flatten_structs": Example(flatten_structs, flatten_structs.flatten_structs, _structs),
    "lower_array_selects": Example(
        lower_array_selects, lower_array_selects.lower_array_selects, _choice, lambda: [True, floats(), floats()]
    ),
    "count_from_end": Example(
        count_from_end, count_from_end.count_from_end, _indirect, lambda: [np.array([3, 2, 1, 0], np.int32)]
    ),
    "lower_slices": Example(lower_slices, lower_slices.lower_slices, _slice, lambda: [floats()], (2,)),
    "fold_comparisons": Example(
        fold_comparisons, fold_comparisons.fold_comparisons, _checked, lambda: [floats()], (1,)
    ),
    "decouple_iterations": Example(
        decouple_iterations,
        decouple_iterations.decouple_iterations,
        _reverse_of_map,
        lambda: [np.linspace(0, 1, 100, dtype=np.float32), np.zeros(100, np.float32)],
        (1,),
    ),
    "split_vectors": Example(
        split_vectors,
        split_vectors.split_vectors,
        _around,
        lambda: [np.arange(12, dtype=np.float32).reshape(4, 3), floats()],
    ),
    "fuse": Example(fuse, fuse.fuse, _sum_of_products, lambda: [floats()]),
    "read_in_place": Example(
        read_in_place,
        read_in_place.read_in_place,
        _sum_of_row,
        lambda: [np.linspace(0, 1, 100, dtype=np.float32), 70, floats()],
    ),
    "lower_large_values": Example(
        lower_large_values,
        lower_large_values.lower_large_values,
        _large,
        lambda: [np.linspace(0, 1, 300, dtype=np.float32).reshape(3, 100), np.zeros((3, 100), np.float32)],
        (3,),
    ),
    "lower_local_atomics": Example(local_arrays, local_arrays.lower_local_atomics, _local, lambda: [floats()], (3,)),
    "debug_checks": Example(
        checks, lambda f: checks.debug_checks(f, True), _division, lambda: [np.arange(4, dtype=np.int32), 2]
    ),
    "fold": Example(fold, fold.fold, _foldable, lambda: [floats()]),
    "unroll": Example(unroll, unroll.unroll, _twice, lambda: [floats()]),
    "cse": Example(cse, cse.cse, _repeated, lambda: [floats()]),
    "keep_nested_arrays": Example(nested_arrays, nested_arrays.keep_nested_arrays, _nested),
    "dce": Example(dce, dce.dce, _dead, lambda: [floats()]),
    "licm": Example(licm, licm.licm, _invariant, lambda: [floats(), 3, 2.0]),
    "expand": Example(expand, expand.expand, _lerp, lambda: [floats()]),
    "pair_products": Example(
        pair_products,
        pair_products.pair_products,
        _product_of_tiles,
        lambda: [np.arange(16256, 16260, dtype=np.uint16)],
    ),
    "join_threads": Example(join_threads, lambda f: join_threads.join_threads(f, 64, 0), _of_block),
    "align_strided_loops": Example(strided_loops, lambda f: strided_loops.align_strided_loops(f, 4, 0), _strided),
    "expand_together": Example(bodies, lambda f: bodies.expand_together(f, 32), _sum_of_tile),
    "distribute": Example(
        distribute, lambda f: distribute.distribute(f, 32, apart=True, contiguous=True), _reversed_rows
    ),
    "in_single_threads": Example(blocks, blocks.in_single_threads, _shared),
    "split_loops": Example(checkpoint, checkpoint.split_loops, _recurrence, lambda: [floats(), 7]),
    "hoist_loads": Example(hoist, hoist.hoist_loads, _sum, lambda: [floats(), floats(), 3]),
    "in_order": Example(order, order.in_order, _old_value, lambda: [floats(), floats()]),
    "load_results": Example(saved_results, saved_results.load_results, _compaction),
    "lower_replayed": Example(functions, functions.lower_replayed, lambda: _calls(replay=True)),
    "differentiate": Example(adjoint, lambda f: adjoint.differentiate(f, [0, 1]), _squares),
    "differentiate, saving": Example(emission, lambda f: adjoint.differentiate(f, [0]), _in_place),
    "tangent": Example(forward, lambda f: forward.tangent(f, [0, 1]), _squares),
    "lower_gradients": Example(
        value_gradients, lambda f: _callee(value_gradients.lower_gradients(f, DEFAULT)), _gradient
    ),
    "coarsen": Example(
        coarsening, lambda f: coarsening.coarsen(f, 2), _rows, lambda: [floats(), np.zeros((4, 4), np.float32)], (4, 4)
    ),
    "flatten_grid": Example(
        flatten_grid, flatten_grid.flatten_grid, _rows, lambda: [floats(), np.zeros((4, 4), np.float32)], (4, 4)
    ),
    "widen": Example(widen, lambda f: widen.widen(f, 4), _scaled),
    "filter_loops": Example(filter_loops, lambda f: filter_loops.filter_loops(f, 128), _near),
    "in_object_order": Example(object_order, lambda f: object_order.in_object_order(f, f.params[0]), _of_points),
    "widen_loops": Example(widen_loops, lambda f: widen_loops.widen_loops(f, 128, 16), _columns),
    "load_consecutively": Example(consecutive, consecutive.load_consecutively, lambda: widen.widen(_row_sums(), 4)),
    "join_accesses": Example(join_accesses, join_accesses.join_accesses, lambda: widen.widen(_pair_sums(), 4)),
}
"""By the name of the pass in ``base.passes.ROUTE``, or of the function where it runs inside of another pass."""


def _callee(f: Function) -> Function:
    (call,) = [o for o in f.body.walk() if isinstance(o, ops.Call)]
    return call.callee
