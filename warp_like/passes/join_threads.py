"""The threads of a block as one: on the CPU, blocks of several threads become code that a block runs.

The code of a thread is cut where the threads of its block meet: at barriers, sums over the block, and work on tiles.
Each piece between two cuts becomes a loop over the threads of the block. What a thread has computed before a cut and
needs after it is kept in a tile, an element for each thread, or computed again where that is cheap; arrays of the
thread's own that live across a cut get a dimension more. What is the same for all threads is computed once.

A block is one thread of the grid from here on, so gradients, lanes and backends see nothing new. The grid that such a
function runs over has ``1 / block_dim`` of the extent along the axis on which the threads of a block lie. Threads that
run one after the other between two cuts are one of the orders in which they may run. Where branches or loops hold a
cut, all threads of the block have to take them together; that is checked, and refused where it isn't so.

This is an example for blocks of 64 threads.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = constant 2.0 : float32
      %3 = mul %1, %2 : float32
      %4 = block_sum %3 : float32
      %5 = sub %3, %4 : float32
      store %x[%0], %5
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = constant 64 : int32
      %1 = constant 2.0 : float32
      %2 = empty : tile[64] of float32
      %3 = constant 0 : int32
      %4 = constant 1 : int32
      %5 = for threads %7 in %3, %0, %4 (%6 = %2) : tile[64] of float32 {
        %8 = tid 0 of 1 : int32
        %9 = constant 64 : int32
        %10 = mul %8, %9 : int32
        %11 = add %10, %7 : int32
        %12 = load %x[%11] : float32
        %13 = mul %12, %1 : float32
        %14 = insert %6[%7], %13 : tile[64] of float32
        yield %14
      }
      %15 = tile_sum %5 : tile[1] of float32
      %16 = constant 0 : int32
      %17 = extract %15[%16] : float32
      %18 = constant 0 : int32
      %19 = constant 1 : int32
      for threads %20 in %18, %0, %19 {
        %21 = extract %5[%20] : float32
        %22 = tid 0 of 1 : int32
        %23 = constant 64 : int32
        %24 = mul %22, %23 : int32
        %25 = add %24, %20 : int32
        %26 = sub %21, %17 : float32
        store %x[%25], %26
        yield
      }
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, clone_function, without_body
from warp_like.ir.types import Array, Scalar, Tile, Type, int32
from warp_like.passes.blocks import require_room
from warp_like.passes.joined_block import JoinedBlock, Thread
from warp_like.passes.meetings import (
    all_ops,
    gathers,
    has_meeting,
    meets,
    needs,
    partings,
    require_all_together,
    require_no_meeting,
    require_same,
    require_threads_in_kept_calls,
)
from warp_like.passes.rewriter import Rewriter
from warp_like.passes.strided_loops import align_strided_loops
from warp_like.passes.uniform import BLOCK, Uniformity, cooperative

CHEAP = frozenset(
    ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge", "bit_and", "bit_or", "bit_xor", "where", "unot")
)
"""Builtins of integers that are computed again in each piece, so that indices stay what is known of the thread."""

_READS = (ops.Load, ops.AtAddress, ops.If, ops.For, ops.While, ops.Yield)
_EFFECTS = (ops.Store, ops.Atomic, ops.AtomicCas, ops.Native, ops.Call, ops.Print, ops.Check, ops.Breakpoint)


def join_threads(f: Function, block_dim: int, axis: int, rest: int = 0) -> Function:
    """Return the code of a block of ``block_dim`` threads, which lie side by side along ``axis`` of the grid.

    The last block along that axis has ``rest`` threads, where that is not 0.

    Raises:
        WarpCodegenError: Not all threads of a block come by where they meet, or work on tiles differs between them.
    """
    require_room(f)
    require_threads_in_kept_calls(f.body)
    f = clone_function(f)
    _WhoIsWho(block_dim, axis).function(f)
    align_strided_loops(f, block_dim, axis)
    made = without_body(f)
    _Joiner(f, made, block_dim, axis, rest).function(f, made)
    made.is_tiled = made.is_joined = True
    return made


class _WhoIsWho(Rewriter):
    """Puts the thread's number and index in front of everything, and constants for what each block has alike."""

    def __init__(self, block_dim: int, axis: int) -> None:
        super().__init__()
        self.block_dim, self.axis = block_dim, axis
        self.front: dict[tuple[str, Type], Op] = {}

    def function(self, f: Function) -> None:
        self.block(f.body)
        f.body.ops[:0] = self.front.values()

    def visit(self, o: Op) -> None:
        lower = cooperative(o)
        name = o.fn if isinstance(o, ops.Apply) else o.NAME
        if (isinstance(o, ops.Tid) and o.axis == self.axis) or name in ("block_thread", "block_size"):
            self.replace(o, self.front.setdefault((name, o.result.type), o).results)
        elif name == "block_dim":
            self.replace(o, (self.b.constant(self.block_dim, o.result.type),))
        elif isinstance(o, ops.Apply) and lower is not None and lower.meets != "block":
            self.replace(o, (lower.alone(self.b, *o.args),))  # a warp is one thread
        else:
            super().visit(o)


class _Joiner:
    """Writes the code of a block.

    Attributes:
        joined: The threads as the code that is written knows them.
        pending: Ops of the threads that are not yet written: those of the piece that the next cut ends.
    """

    def __init__(self, f: Function, made: Function, block_dim: int, axis: int, rest: int) -> None:
        self.known = Uniformity(f, axis=axis, block_dim=block_dim, partings=partings(f.body))
        self.block_dim, self.axis, self.rest = block_dim, axis, rest
        self.b = Emitter(made.body)
        with self.b.into(made.body), at(f.loc):
            size = self._size(f)
        self.joined = JoinedBlock(self.b, block_dim, size, dict(zip(f.params, made.params, strict=True)))
        self.uniform, self.rows, self.arrays = self.joined.uniform, self.joined.rows, self.joined.arrays
        self.pending: list[Op] = []
        self.users: dict[Value, list[Op]] = {}
        for o in f.body.walk():
            for v in o.operands():
                self.users.setdefault(v, []).append(o)
        self.meeting = {o for o in f.body.walk() if any(meets(x) or self._is_shown_once(x) for x in all_ops(o))}
        require_all_together(self.known, f.body)
        self.cheap = self._cheap_ops(f)

    def function(self, f: Function, made: Function) -> None:
        with self.b.into(made.body), at(f.loc):
            self._ends(f.body, ())

    def _size(self, f: Function) -> Value:
        """How many threads the block has."""
        if not self.rest:
            return self.b.index(self.block_dim)
        tids = [o for o in f.body.walk() if isinstance(o, ops.Tid)]
        ndim = max((o.ndim for o in tids), default=self.axis + 1)
        if self.axis >= ndim:
            if ndim == f.tid_ndim:  # where threads share no indices, an axis without one has one block
                return self.b.index(self.rest)
            ndim = self.axis + 1
            for o in tids:
                o.ndim = ndim
        t = next((o.result.type for o in tids), int32)
        number = self.b.insert(ops.Tid(self.axis, ndim), t).result
        last = self.b.sub(self.b.insert(ops.GridDim(self.axis, ndim), t).result, 1)
        return self.b.select(self.b.eq(number, last), self.b.index(self.rest), self.b.index(self.block_dim))

    def _cheap_ops(self, f: Function) -> set[Op]:
        """The ops of threads that are written wherever their result is needed: indices, mostly."""
        found: set[Op] = set()
        for o in f.body.walk():
            if len(o.results) != 1 or not isinstance(o.result.type, Scalar) or o.result.type.is_float:
                continue
            is_index = isinstance(o, ops.Tid) or (isinstance(o, ops.Apply) and o.fn == "block_thread")
            is_number = isinstance(o, ops.Cast) or (isinstance(o, ops.Apply) and o.fn in CHEAP)
            if self._is_of_thread(o.result) and (
                is_index or (is_number and all(not self._is_of_thread(v) or v.op in found for v in o.operands()))
            ):
                found.add(o)
        return found

    def _is_shown_once(self, o: Op) -> bool:
        """Whether ``o`` prints a tile, and all threads of the block would print the same."""
        shown = isinstance(o, ops.Print) and o.together and not any(map(self._is_of_thread, o.args))
        return shown and self.known.within[o][0] <= BLOCK

    def _is_of_thread(self, v: Value) -> bool:
        return self.known.levels[v] > BLOCK

    # --- blocks of code ---

    def _visit(self, o: Op) -> None:
        if isinstance(o, ops.Apply) and o.fn == "block_size":
            self.uniform[o.result] = self.joined.size
        elif self.known.is_number_of_block(o):
            assert isinstance(o, ops.Apply)
            tid, by = o.args
            assert isinstance(tid.op, ops.Tid)
            self.uniform[o.result] = self.b.apply(o.fn, self.joined.first_of(tid.op), self.uniform[by])
        elif self._is_once(o):
            if any(isinstance(inner, ops.Load) for inner in all_ops(o)) and self._writes():
                self._flush()
            self._once(o)
        elif o in self.meeting:
            self._flush()
            self._meet(o)
        elif o not in self.cheap:
            self.pending.append(o)
            same = [r for r in o.results if not self._is_of_thread(r)]
            if same:  # all threads do the same, and something else, too
                self._flush(same)
                self.uniform.update({r: self.joined.of_any(self.rows[r]) for r in same})

    def _is_once(self, o: Op) -> bool:
        """Whether ``o`` gives the same to all threads and does nothing else."""
        if not o.results or any(map(gathers, all_ops(o))) or any(map(self._is_of_thread, needs(o))):
            return False
        return all(
            (inner.PURE or isinstance(inner, _READS)) and not any(map(self._is_of_thread, inner.results))
            for inner in all_ops(o)
        )

    def _writes(self) -> bool:
        return any(isinstance(inner, _EFFECTS) for o in self.pending for inner in all_ops(o))

    def _once(self, o: Op) -> None:
        """Let the block do ``o``."""
        self.b.block.ops.append(Cloner(self.uniform).op(o))

    # --- pieces ---

    def _flush(self, also: Sequence[Value] = ()) -> None:
        """Write the piece that ends here, and keep what is needed after it, and the values ``also``."""
        piece, self.pending = self.pending, []
        inside = {inner for o in piece for inner in all_ops(o)}
        kept: dict[Value, None] = dict.fromkeys(also)
        for o in piece:
            for r in o.results:
                if any(u not in inside for u in self.users.get(r, ())):
                    self._keep(r, kept, inside)
        if piece or kept:
            self._loop(piece, list(kept))

    def _keep(self, v: Value, kept: dict[Value, None], inside: set[Op]) -> None:
        """Note what has to be kept of ``v``: arrays are made again from what they are made of."""
        if not isinstance(v.type, Array):
            kept[v] = None
        elif isinstance(v.op, ops.LocalArray):
            o = v.op
            t = Array(v.type.dtype, v.type.ndim + 1)
            made = ops.LocalArray((self.block_dim, *o.shape), zeroed=o.zeroed)
            self.arrays[v] = self.b.insert(made, t, hint=v.hint).result
        elif v.op is not None:
            for x in v.op.operands():
                if self._is_of_thread(x) and x.op in inside and x.op not in self.cheap:
                    self._keep(x, kept, inside)

    def _loop(self, piece: Sequence[Op], kept: Sequence[Value]) -> None:
        """Write the loop over the threads of the block that runs ``piece`` and keeps ``kept``."""
        types = [Tile((self.block_dim,), v.type) for v in kept]
        some_miss = self.rest or self.joined.present is not None
        starts = [self.b.zero(t) if some_miss else self.b.insert(ops.Empty(), t).result for t in types]

        def body(i: Value, *rows: Value) -> Sequence[Value]:
            thread = Thread(self.joined, i)
            thread.run(piece)
            return [self.b.insert_component(row, thread.value(v), i) for row, v in zip(rows, kept, strict=True)]

        for v, row in zip(kept, self.joined.each(starts, body, in_any_order=True), strict=True):
            row.hint = v.hint
            self.rows[v] = row

    def _row(self, v: Value) -> Value:
        """Return the tile of what the threads have for ``v``."""
        if not self._is_of_thread(v) and not self.rest and self.joined.present is None:
            return self.b.fill(Tile((self.block_dim,), v.type), self.uniform[v])
        if v not in self.rows:
            assert not self.pending
            self._loop((), (v,))
            return self.rows.pop(v)  # cheap ones are computed again elsewhere
        return self.rows[v]

    # --- where threads meet ---

    def _meet(self, o: Op) -> None:
        lower = cooperative(o)
        match o:
            case ops.Barrier():
                pass
            case ops.LocalArray():
                self.uniform[o.result] = self.b.insert(
                    ops.LocalArray(o.shape), o.result.type, hint=o.result.hint
                ).result
            case ops.TileOfThreads():
                self.uniform[o.result] = self.joined.of_present(self._row(o.x))
            case ops.Apply() if lower is not None:
                self.uniform[o.result] = self.joined.combined(o.fn, self._row(o.args[0]))
            case ops.Insert() if any(map(self._is_of_thread, (o.value, *o.indices))):
                self._insert(o)
            case ops.For() if not o.together:
                self._for(o)
            case ops.While():
                self._while(o)
            case ops.If():
                self._if(o)
            case _:
                require_same(self.known, o, needs(o))
                require_no_meeting(o)
                self._once(o)

    def _insert(self, o: ops.Insert) -> None:
        """Let each thread replace an element of a tile, the last thread last."""
        value, indices = self._row(o.value), [self._row(v) for v in o.indices]

        def put(i: Value, tile: Value) -> Sequence[Value]:
            where = [self.b.extract(row, i) for row in indices]
            return [self.b.insert_component(tile, self.b.extract(value, i), *where)]

        (self.uniform[o.result],) = self.joined.each([self.uniform[o.x]], put)

    def _carried(self, params: Sequence[Value], block: Block) -> None:
        """Give ``block`` parameters for ``params``: tiles for what differs between threads."""
        for p in params:
            t = Tile((self.block_dim,), p.type) if self._is_of_thread(p) else p.type
            new = Value(t, p.hint)
            block.params.append(new)
            (self.rows if self._is_of_thread(p) else self.uniform)[p] = new

    def _start(self, v: Value, p: Value) -> Value:
        """What carried value ``p`` begins with."""
        return self._row(v) if self._is_of_thread(p) else self.uniform[v]

    def _results(self, o: Op, values: Sequence[Value]) -> None:
        for r, v in zip(o.results, values, strict=True):
            (self.rows if self._is_of_thread(r) else self.uniform)[r] = v

    def _ends(self, block: Block, like: Sequence[Value]) -> None:
        """Write ``block`` to its end, where each of its results is kept as the value of ``like`` is."""
        for o in block.ops[:-1]:
            with at(o.loc):
                self._visit(o)
        self._flush()
        self.b.yield_(*(self._start(v, p) for v, p in zip(block.yielded, like, strict=True)))

    def _for(self, o: ops.For) -> None:
        require_same(self.known, o, (o.lo, o.hi, o.step))
        init = [self._start(v, r) for v, r in zip(o.init, o.results, strict=True)]
        with self.b.into(Block()) as body:
            self._carried(o.body.params, body)
            self._ends(o.body, o.results)
        lo, hi, step = (self.uniform[v] for v in (o.lo, o.hi, o.step))
        self._results(o, self.b.for_(lo, hi, step, init, body))

    def _while(self, o: ops.While) -> None:
        init = [self._start(v, r) for v, r in zip(o.init, o.results, strict=True)]
        with self.b.into(Block()) as cond:
            self._carried(o.cond.params, cond)
            require_same(self.known, o, o.cond.yielded)
            self._ends(o.cond, o.cond.yielded)
        with self.b.into(Block()) as body:
            self._carried(o.body.params, body)
            self._ends(o.body, o.results)
        self._results(o, self.b.while_(init, cond, body))

    def _if(self, o: ops.If) -> None:
        if o in self.known.partings and self._is_of_thread(o.cond):
            self._part(o)
            return
        require_same(self.known, o, (o.cond,))
        sides = []
        for side in o.regions():
            with self.b.into(Block()) as made:
                self._ends(side, o.results)
            sides.append(made)
        self._results(o, self.b.if_(self.uniform[o.cond], *sides))

    def _part(self, o: ops.If) -> None:
        """Let the threads on one side go on with work on tiles; the others do what is left to them and are gone."""
        on = next(r for r in o.regions() if has_meeting(r))
        nothing = Block()
        nothing.ops.append(ops.Yield(()))
        off = ops.If(o.cond, *(nothing if r is on else r for r in o.regions()))
        off.loc = o.loc
        self.pending.append(off)
        self._flush()
        before = self.joined.present, self.joined.one_of_them
        stay, some, one = self.joined.staying(self._row(o.cond), where=on is o.then)
        with self.b.into(Block()) as rest:
            self.joined.present, self.joined.one_of_them = stay, one
            self._ends(on, ())
            self.joined.present, self.joined.one_of_them = before
        with self.b.into(Block()) as none:
            self.b.yield_()
        self.b.if_(some, rest, none)
