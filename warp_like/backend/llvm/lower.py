"""One function's body to LLVM: structured control becomes blocks and phis, ops become instructions.

Every ``Value`` has one representation (``values.Rep``). An integer that indexes an array is evaluated again in
64 bits (add, subtract, multiply, negate, constants, casts, thread and loop indices), so that LLVM sees affine
addresses: but for ops that may wrap (``analysis.ranges``), whose results are extended as they are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

from warp_like.analysis.intervals import type_range
from warp_like.analysis.ranges import Ranges
from warp_like.backend.llvm import block as blocks
from warp_like.backend.llvm import lane_partials, lanes, memory, neighbours, runtime_calls
from warp_like.backend.llvm.accumulators import Accumulators
from warp_like.backend.llvm.async_copies import lower_async_copy, lower_await_copies
from warp_like.backend.llvm.block import Team
from warp_like.backend.llvm.casts import bitcast, cast
from warp_like.backend.llvm.components import Index, Position, extract, insert
from warp_like.backend.llvm.consecutive import ConsecutiveAccess
from warp_like.backend.llvm.control_flow import lower_for, lower_if, lower_while
from warp_like.backend.llvm.cuda import Stack
from warp_like.backend.llvm.indexed import Slots, known_inside
from warp_like.backend.llvm.instructions import apply_builtin
from warp_like.backend.llvm.inverse_roots import quotient_by_roots
from warp_like.backend.llvm.lanes import Access, LaneIndex, PrivateAccess
from warp_like.backend.llvm.matrix_units import lower_load_fragments, lower_multiply_add
from warp_like.backend.llvm.native_calls import call_function
from warp_like.backend.llvm.pieces import Cutter
from warp_like.backend.llvm.polls import Polls
from warp_like.backend.llvm.shuffle import compressed, iota, splat
from warp_like.backend.llvm.values import ArrayRef, LaneScalar, Rep, beside, constant, leaves, register_type, vector
from warp_like.backend.llvm.writer import Writer
from warp_like.base.loc import enter, leave
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import is_counted_from_end
from warp_like.ir.types import Array, Lanes, Scalar, int32, int64, lane_type

_OfLanes = ops.Load | ops.Store | ops.Atomic | ops.NestedArray | ops.LoadConsecutive | ops.StoreConsecutive
_WIDENED = {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw"}


class Lowering:
    """Lowers the ops of one function into a writer.

    Args:
        w: Where the text goes.
        ranges: Returns the ranges of the function's integers.
        ndim: The dimensions of the grid that the kernel sees.
        tid: Returns the i64 register of the thread's index, given axis and ndim.
        thread: Returns the i64 register of the flat thread index.
        active: The mask of the lanes that have a thread.
        partial: Whether that are never all of them.
        stack: The thread's stack on CUDA.
        accumulators: What all threads reduce into, on the CPU.
        team: The thread's block and warp, on CUDA, where the function asks anything of them.
        polls: Where the code polls, on the CPU.
    """

    def __init__(
        self,
        w: Writer,
        ranges: Callable[[], Ranges],
        ndim: int,
        tid: Callable[[int, int], str],
        extent: Callable[[int, int], str],
        thread: Callable[[], str],
        active: str = "",
        partial: bool = False,
        stack: Stack | None = None,
        accumulators: Accumulators | None = None,
        team: Team | None = None,
        polls: Polls | None = None,
    ) -> None:
        self.w = w
        self._find_ranges = ranges
        self._ndim = ndim
        self._thread_index = tid
        self._grid_extent = extent
        self._thread = thread
        self._active = active
        self._partial = partial
        self._stack = stack
        self._accumulators = accumulators
        self._team = team
        self.polls = polls
        self._lane = ""  # the number of the lane that runs on its own
        self._reps: dict[Value, Rep] = {}
        self._shared_addresses: dict[Op, str] = {}  # CUDA's
        self.neighbours: dict[Op, neighbours.Group] = {}
        self._summed: set[Op | None] = set()  # sums over lanes whose vectors are added
        self.summed_products: set[Value] = set()
        self.slots = Slots()
        self.cutter: Cutter | None = None
        self.wide: list[dict[Value, str]] = [{}]  # indices in 64 bits, by the block that they are known in

    # --- values ---

    def bind(self, v: Value, rep: Rep) -> None:
        """Set what ``v`` is."""
        self._reps[v] = rep

    def rep(self, v: Value) -> Rep:
        """Return what ``v`` is."""
        return self._reps[v]

    def scalars(self, v: Value) -> tuple[str, ...]:
        """Return the registers of a value that is no array."""
        rep = self._reps[v]
        assert isinstance(rep, tuple), v
        return rep

    def scalar(self, v: Value) -> str:
        """Return the register of a scalar."""
        (x,) = self.scalars(v)
        return x

    def array(self, v: Value) -> ArrayRef:
        """Return an array."""
        rep = self._reps[v]
        assert isinstance(rep, ArrayRef), v
        return rep

    @functools.cached_property
    def ranges(self) -> Ranges:
        """The ranges of the function's integers."""
        return self._find_ranges()

    def index(self, v: Value) -> str:
        """Return integer ``v`` as i64, evaluated in 64 bits as far as its expression can't wrap."""
        t = v.type
        assert isinstance(t, Scalar)
        if t.bits == 64:
            return self.scalar(v)
        constant_ = ops.constant_value(v)
        if constant_ is not None:
            return str(int(constant_))
        for known in reversed(self.wide):
            if v in known:
                return known[v]
        got = self._widen(v, t)
        self.wide[-1][v] = got
        return got

    def _widen(self, v: Value, t: Scalar) -> str:
        match v.op:
            case ops.Apply(fn=fn, args=(a, b)) as o if fn in _WIDENED and self.ranges.cannot_wrap(o):
                return self.w.op(f"{_WIDENED[fn]} i64 {self.index(a)}, {self.index(b)}")
            case ops.Apply(fn="neg", args=(a,)) as o if self.ranges.cannot_wrap(o):
                return self.w.op(f"sub nsw i64 0, {self.index(a)}")
            case ops.Cast(x=x) as o if isinstance(x.type, Scalar) and x.type.is_int and self.ranges.cannot_wrap(o):
                return self.index(x)
        return cast(self.w, self.scalar(v), t, int64)

    # --- blocks ---

    def body(self, f: Function) -> None:
        """Lower the body of ``f``, whose parameters are bound; it yields nothing that anybody reads."""
        if self.w.target.is_gpu:
            from warp_like.backend.llvm import warp

            self._shared_addresses = warp.shared_addresses(f)
        if any(isinstance(rep, ArrayRef) and rep.partials for rep in self._reps.values()):
            found = (o for o in lane_partials.find_additions(f) if self.array(o.array).partials)
            self._summed = {o.value.op for o in found}
            if self.w.options.fuse_fp:
                from warp_like.backend.llvm import summed_products

                self.summed_products = summed_products.find_products(f, self._summed)
        self.block(f.body, [])

    def block(self, b: Block, params: Sequence[tuple[Value, Rep]]) -> list[Rep]:
        """Lower ``b``; return what it yields."""
        self.wide.append({})
        for p, rep in params:
            self.bind(p, rep)
        self.neighbours |= neighbours.find_groups(b, self._is_sum, lambda o: self.ranges.cannot_wrap(o))
        if self.cutter is None:
            for o in b.ops[:-1]:
                self.op(o)
        else:
            self.cutter.write(self.w, b.ops[:-1], self.op)
        out = [self.rep(v) for v in b.yielded]
        self.wide.pop()
        return out

    def op(self, o: Op) -> None:
        """Lower one op."""
        before = enter(o.loc)
        try:
            if isinstance(o, ops.LANE_BY_LANE) and o.mask and not self._is_outlined_in_lanes(o):
                from warp_like.backend.llvm.lane_by_lane import lower_lane_by_lane

                lower_lane_by_lane(self, o, o.mask[0])
            else:
                _LOWER[type(o)](self, o)
        finally:
            leave(before)

    def _is_outlined_in_lanes(self, o: Op) -> bool:
        from warp_like.backend.llvm.outlined import in_lanes

        return in_lanes(o)

    def bind_all(self, values: Sequence[Value], like: Sequence[Rep], registers: Sequence[str]) -> None:
        """Give ``values`` the form of ``like`` with other registers."""
        at_ = 0
        for v, rep in zip(values, like, strict=True):
            n = len(rep.parts if isinstance(rep, ArrayRef) else rep)
            parts = tuple(registers[at_ : at_ + n])
            self.bind(v, rep.with_parts(parts) if isinstance(rep, ArrayRef) else parts)
            at_ += n

    _if_, _for_, _while_ = lower_if, lower_for, lower_while

    # --- memory ---

    def indices(self, array: Value, ref: ArrayRef, indices: Sequence[Value]) -> list[str]:
        """Return indices into ``ref`` as i64, checked where the options ask for it."""
        wide = [self.index(i) for i in indices]
        self._require_inside(array, wide, ref.shape)
        return wide

    def address(self, o: Op, array: Value, indices: Sequence[Value]) -> str:
        """Return the address of an element."""
        ref = self.array(array)
        return memory.element_address(self.w, ref, self.indices(array, ref, indices))

    def _require_inside(self, array: Value, indices: Sequence[str], shape: Sequence[str]) -> None:
        """If the options ask for it, leave the kernel unless all indices are below their extents."""
        w = self.w
        if not (w.options.debug and indices) or (isinstance(array.op, ops.AtAddress) and array.op.constant):
            return  # what bounds indices into an object's memory is known to the bodies of builtins
        tests = [w.op(f"icmp ult i64 {i}, {n}") for i, n in zip(indices, shape, strict=False)]
        ok = tests[0]
        for t in tests[1:]:
            ok = w.op(f"and i1 {ok}, {t}")
        n = len(indices)
        at_, of = (", ".join(f"{{{k}}}" for k in span) for span in (range(n), range(n, n + len(shape))))
        where, of = (f"({at_})" if n > 1 else at_), f"({of},)" if len(shape) == 1 else f"({of})"
        text = f"index {where} is out of range for {_array_name(array)} of shape {of}"
        self._leave_unless(ok, "index", text, [(int64, x) for x in (*indices, *shape)])

    def _leave_unless(self, ok: str, kind: str, text: str, values: Sequence[runtime_calls.Number]) -> None:
        w = self.w
        good, bad = w.label("good"), w.label("bad")
        w.branch(ok, good, bad, likely=True)
        w.start(bad)
        runtime_calls.leave(w, kind, text, values, self.thread())
        w.start(good)

    def thread(self) -> str:
        """Return the i64 register of the flat index of the thread, the first one's where lanes run together."""
        return self.w.op(f"add nsw i64 {self._thread()}, {self._lane}") if self._lane else self._thread()

    # --- lanes ---

    @contextlib.contextmanager
    def in_lane(self, lane: str) -> Iterator[None]:
        """Lower code that the lane with the number in the i64 register ``lane`` runs on its own."""
        self._lane = lane
        self.wide.append({})
        yield
        self.wide.pop()
        self._lane = ""

    def access(self, o: ops.Load | ops.Store | ops.Atomic) -> Access:
        """Return the elements that the lanes of ``o`` touch."""
        place = self._place(o)
        if place[1].lanes > 1:
            return PrivateAccess(*place)
        if place[1].scattered:
            from warp_like.backend.llvm.scattered_arrays import ScatteredAccess

            return ScatteredAccess(*place)
        made = Access(*place)
        made.gathers = not self._active and self.w.target.has_fast_gathers  # loops of a thread that look through items
        return made

    def _place(self, o: _OfLanes) -> tuple[Writer, ArrayRef, list[LaneIndex], int, str, bool]:
        """Return what an access of lanes is made from."""
        (mask,) = o.mask
        assert isinstance(mask.type, Lanes)
        width = mask.type.width
        indices = [self._lane_index(i, width) for i in o.indices]
        return self.w, self.array(o.array), indices, width, self.scalar(mask), self._partial

    def _lane_index(self, i: Value, width: int) -> LaneIndex:
        if not isinstance(i.type, Lanes):
            return LaneIndex(self.index(i))
        if isinstance(i.op, ops.Iota) and (first := self._first_of(i.op, i.op.stride * (width - 1))):
            return LaneIndex(first, i.op.stride)
        ((t, _),) = leaves(i.type)
        return LaneIndex(stride=None, registers=self.scalar(i), type=t)

    def _first_of(self, sequence: ops.Iota, reach: int) -> str:
        """Return the i64 register that the indices of lanes go from, evenly up to ``reach``; nothing if they may not.

        Each lane's own index is the sequence modulo 2**bits. In 64 bits that is what addresses are computed in. Of a
        signed sequence the lane with the least index is extended. Another one is as far above, or it has passed the
        type's greatest value: then its own index is negative, and no lane at work has such an index. An unsigned one
        has to be known not to wrap.
        """
        base = sequence.base
        t = base.type
        assert isinstance(t, Scalar)
        if t.bits == 64:  # lanes further apart might come round to the same element
            return self.scalar(base) if abs(reach) < 1 << 31 else ""
        (low, high), (least, greatest) = self.ranges.of(base), type_range(t)
        if least <= low + min(reach, 0) and high + max(reach, 0) <= greatest:
            return self.index(base)
        if not t.is_signed or abs(reach) > greatest:
            return ""
        if reach >= 0:
            return self.index(base)
        last = self.w.op(f"add i{t.bits} {self.scalar(base)}, {reach}")
        return self.w.op(f"sub i64 {cast(self.w, last, t, int64)}, {reach}")

    def _active_mask(self, o: ops.ActiveMask) -> None:
        self.bind(o.result, (self._active or constant(True, leaves(o.result.type)[0][0]),))

    def _broadcast(self, o: ops.Broadcast) -> None:
        scalars = [t for t, _ in leaves(o.result.type)]
        pairs = zip(scalars, self.scalars(o.x), strict=True)
        self.bind(o.result, tuple(splat(self.w, t, x) for t, x in pairs if isinstance(t, LaneScalar)))

    def _iota(self, o: ops.Iota) -> None:
        w = self.w
        ((t, _),) = leaves(o.result.type)
        assert isinstance(t, LaneScalar)
        reg = register_type(t)
        steps = w.op(f"mul {reg} {iota(t)}, {constant(o.stride, t)}") if o.stride != 1 else iota(t)
        self.bind(o.result, (w.op(f"add {reg} {splat(w, t, self.scalar(o.base))}, {steps}"),))

    def _compress(self, o: ops.Compress) -> None:
        types = [t for t, _ in leaves(o.x.type)]
        mask, parts = self.scalar(o.kept), zip(types, self.scalars(o.x), strict=True)
        self.bind(o.result, tuple(compressed(self.w, t, x, mask) for t, x in parts if isinstance(t, LaneScalar)))

    def _lane_reduce(self, o: ops.LaneReduce) -> None:
        if o in self._summed:
            return  # the addition takes the lanes
        w, t = self.w, o.x.type
        assert isinstance(t, Lanes)
        mask = self.scalar(o.mask[0]) if o.mask else lanes.full_mask(t.width)
        if o.kind == "any":
            self.bind(o.result, (lanes.any_lane(w, t.width, self.scalar(o.x)),))
            return
        if o.kind == "bits":
            self.bind(o.result, (lanes.as_bits(w, t.width, self.scalar(o.x), mask),))
            return
        scalar, parts = leaves(t)[0][0], self.scalars(o.x)
        assert isinstance(scalar, LaneScalar)
        self.bind(o.result, tuple(lanes.reduce_together(w, o.kind, scalar, parts, mask)))

    # --- ops ---

    def _constant(self, o: ops.Constant) -> None:
        scalars = [s for s, _ in leaves(o.result.type)]
        numbers = o.value if isinstance(o.value, tuple) else (o.value,)
        self.bind(o.result, tuple(constant(x, s) for x, s in zip(numbers, scalars, strict=True)))

    def _apply(self, o: ops.Apply) -> None:
        types = [a.type for a in o.args]
        if o.fn in blocks.NAMES:
            assert self._team is not None
            self.bind(o.result, blocks.lower(self.w, self._team, o.fn, types, [self.scalars(a) for a in o.args]))
            return
        if is_counted_from_end(o) and isinstance(o.result.type, Scalar) and not self.w.target.is_gpu:
            self.bind(o.result, (self._counted_from_end(o),))
            return
        if self.summed_products:
            from warp_like.backend.llvm.summed_products import added_product

            if (added := added_product(o, self.summed_products)) is not None:
                self._add_product(o, *added)
                return
        made = quotient_by_roots(self.w, o, self.scalar)
        if made is None and len(self.wide) > 2:  # in a loop, where the inverse may be known in front of it
            from warp_like.backend.llvm.uniform_quotients import quotient_by_uniform

            made = quotient_by_uniform(self.w, o, self.scalar)
        self.bind(o.result, (made,) if made else apply_builtin(self.w, o.fn, types, [self.rep(a) for a in o.args]))

    def _add_product(self, o: ops.Apply, product: Value, other: Value, subtracts: bool) -> None:
        from warp_like.backend.llvm import summed_products

        scalars = [t for t, _ in leaves(o.result.type)]
        parts = zip(scalars, *self.factors(product), self.scalars(other), strict=True)
        made = []
        for t, a, b, c in parts:
            assert isinstance(t, LaneScalar)
            factor = self.w.op(f"fneg {register_type(t)} {a}") if subtracts else a
            made.append(summed_products.multiply_add(self.w, t, factor, b, c))
        self.bind(o.result, tuple(made))

    def factors(self, product: Value) -> list[tuple[str, ...]]:
        """Return the registers of both factors for each component of a product."""
        assert isinstance(product.op, ops.Apply)
        n = len(self.scalars(product))
        return [x if len(x) == n else x * n for x in map(self.scalars, product.op.args)]

    def _counted_from_end(self, o: ops.Apply) -> str:
        """An index: by a branch, which costs less than a select, since hardly any index is negative."""
        w, t = self.w, register_type(o.result.type)
        test, moved, index = (self.scalar(a) for a in o.args)
        add, done, before = w.label("from_end"), w.label("index"), w.block
        w.branch(w.op(f"xor i1 {test}, true"), done, add, likely=True)
        w.start(add)
        w.jump(done)
        w.start(done)
        return w.op(f"phi {t} [ {index}, %{before} ], [ {moved}, %{add} ]")

    def _cast(self, o: ops.Cast) -> None:
        pairs = zip(self.scalars(o.x), leaves(o.x.type), leaves(o.result.type), strict=True)
        self.bind(o.result, tuple(cast(self.w, x, a, b) for x, (a, _), (b, _) in pairs))

    def _bitcast(self, o: ops.Bitcast) -> None:
        ((a, _),), ((b, _),) = leaves(o.x.type), leaves(o.result.type)
        self.bind(o.result, (bitcast(self.w, self.scalar(o.x), a, b),))

    def _make(self, o: ops.Make) -> None:
        if isinstance(o.result.type, Array):  # nobody looks at it
            none = ("0",) * o.result.type.ndim
            self.bind(o.result, ArrayRef(o.result.type, "null", none, () if self.w.options.contiguous else none))
            return
        self.bind(o.result, tuple(x for e in o.elements for x in self.scalars(e)))

    def _extract(self, o: ops.Extract) -> None:
        if (place := self.slots.of(o.x)) is not None:
            self.bind(o.result, place.extract([self._component(i) for i in o.indices], known_inside(self, o)))
            return
        self.bind(o.result, extract(self.w, o.x.type, self.scalars(o.x), [self._component(i) for i in o.indices]))

    def _insert(self, o: ops.Insert) -> None:
        at_ = [self._component(i) for i in o.indices]
        if (place := self.slots.of(o.x)) is not None:
            place.insert(self.scalars(o.value), at_, known_inside(self, o))
            self.slots.put(o.result, place)
            self.bind(o.result, ())
            return
        self.bind(o.result, insert(self.w, o.x.type, self.scalars(o.x), self.scalars(o.value), at_))

    def _component(self, i: Value) -> Index:
        known = ops.constant_value(i)
        if known is not None:
            return int(known)
        if not isinstance(i.type, Lanes):
            return Position(self.index(i), int64)
        ((t, _),) = leaves(i.type)
        if t.bits >= 32:
            return Position(self.scalar(i), t)
        return Position(cast(self.w, self.scalar(i), t, beside(int32, t)), beside(int32, t))

    def _tid(self, o: ops.Tid) -> None:
        wide = self._thread_index(o.axis, o.ndim)
        t = o.result.type
        assert isinstance(t, Scalar)
        if t.bits == 64:
            self.bind(o.result, (wide,))
            return
        self.wide[-1][o.result] = wide
        self.bind(o.result, (self.w.op(f"trunc nuw nsw i64 {wide} to i32"),))

    def _grid_dim(self, o: ops.GridDim) -> None:
        extent = self._grid_extent(o.axis, o.ndim)
        assert isinstance(o.result.type, Scalar)
        wide = o.result.type.bits == 64
        self.bind(o.result, (extent if wide else self.w.op(f"trunc nuw nsw i64 {extent} to i32"),))

    def _dim(self, o: ops.Dim) -> None:
        extent, ((t, _),) = self.array(o.array).shape[o.axis], leaves(o.result.type)
        if t.bits == 64:
            self.bind(o.result, (extent,))
            return
        fits = ""
        if isinstance(o.result.type, Scalar) and self.ranges.cannot_wrap(o):
            self.wide[-1][o.result] = extent
            fits = "nuw nsw "
        self.bind(o.result, (self.w.op(f"trunc {fits}{vector('i64', t)} {extent} to {register_type(t)}"),))

    def _view(self, o: ops.View) -> None:
        ref = self.array(o.array)
        if o.field is not None:
            self.bind(o.result, memory.field_view(self.w, ref, o.field))
            return
        self.bind(o.result, memory.view(self.w, ref, self.indices(o.array, ref, o.indices)))

    def _slice(self, o: ops.Slice) -> None:
        ref = self.array(o.array)
        start, count, step = ([self.index(i) for i in part] for part in (o.start, o.count, o.step))
        dropped = [axis for axis in range(len(start)) if axis not in o.kept]
        self._require_inside(o.array, [start[axis] for axis in dropped], [ref.shape[axis] for axis in dropped])
        self.bind(o.result, memory.sliced(self.w, ref, start, count, step, o.kept))

    def _local_array(self, o: ops.LocalArray) -> None:
        whole = o.result.type
        t, lanes = (whole.of, whole.width) if isinstance(whole, Lanes) else (whole, 1)
        assert isinstance(t, Array)
        if o.shared:
            assert self._team is not None
            self.bind(o.result, memory.shared_array(self.w, self._team, t, o.shape, zeroed=o.zeroed))
            return
        self.bind(o.result, memory.local_array(self.w, t, o.shape, lanes, zeroed=o.zeroed))

    def _table(self, o: ops.Table) -> None:
        t = o.result.type
        assert isinstance(t, Array)
        self.bind(o.result, memory.table(self.w, t, o.values))

    def _components(self, o: ops.Components) -> None:
        self.bind(o.result, memory.components(self.array(o.array)))

    def _empty(self, o: ops.Empty) -> None:
        self.bind(o.result, tuple(constant(0, t) for t, _ in leaves(o.result.type)))

    def _nested(self, o: ops.NestedArray) -> None:
        t = lane_type(o.result.type)
        assert isinstance(t, Array)
        if o.mask:
            from warp_like.backend.llvm.scattered_arrays import arrays_at

            self.bind(o.result, arrays_at(t, *self._place(o)))
            return
        where = self.address(o, o.array, o.indices)
        self.bind(o.result, memory.nested_array(self.w, t, self.array(o.array), where))

    def _barrier(self, o: ops.Barrier) -> None:
        blocks.barrier(self.w)

    def _at_address(self, o: ops.AtAddress) -> None:
        assert isinstance(o.result.type, Array)
        data = self.w.op(f"inttoptr i64 {self.scalar(o.address)} to {self.w.array_pointer}")
        self.bind(o.result, ArrayRef(o.result.type, data, tuple(self.index(n) for n in o.shape), ()))

    def _address(self, o: ops.Address) -> None:
        ref = self.array(o.array)
        self.bind(o.result, (self.w.op(f"ptrtoint {memory.pointer(self.w, ref)} {ref.data} to i64"),))

    def _is_live(self, o: ops.IsLive) -> None:
        self.bind(o.result, (runtime_calls.is_live(self.w, self.scalar(o.id), o.kind),))

    def _load(self, o: ops.Load) -> None:
        if o.mask:
            self.bind(o.result, self.access(o).load())
            return
        self.bind(o.result, memory.load_element(self.w, self.array(o.array), self.address(o, o.array, o.indices)))

    _multiply_add = lower_multiply_add
    _load_fragments = lower_load_fragments
    _async_copy = lower_async_copy
    _await_copies = lower_await_copies

    def bind_numbers(self, o: Op, registers: Sequence[str]) -> None:
        """Give each result of ``o``, which is a number, its register."""
        for r, x in zip(o.results, registers, strict=True):
            self.bind(r, (x,))

    def _load_consecutive(self, o: ops.LoadConsecutive) -> None:
        self.bind_numbers(o, ConsecutiveAccess(*self._place(o), len(o.results)).load())

    def _store_consecutive(self, o: ops.StoreConsecutive) -> None:
        ConsecutiveAccess(*self._place(o), len(o.values)).store([self.scalar(v) for v in o.values])

    def _store(self, o: ops.Store) -> None:
        if o.mask:
            self.access(o).store(self.scalars(o.value))
            return
        memory.store_element(self.w, self.array(o.array), self.address(o, o.array, o.indices), self.scalars(o.value))

    def _atomic(self, o: ops.Atomic) -> None:
        if self._accumulators is not None and self.array(o.array).reduced:
            self._accumulate(o, self._accumulators)
            return
        if o.mask:
            neighbours.lower_atomic(self, o)
            return
        if o.value.op in self._summed:
            lane_partials.add_vector(self, o)
            return
        w, array, value = self.w, self.array(o.array), self.scalars(o.value)
        where = self.address(o, o.array, o.indices)
        parts = [(t, x) for (t, _), x in zip(leaves(o.value.type), value, strict=True)]
        shared = "" if array.thread_private else self._shared_addresses.get(o, "")
        from warp_like.backend.llvm import warp

        if not shared or not all(warp.is_reduced(t) for t, _ in parts):
            from warp_like.backend.llvm import lane_sums

            self.bind(o.result, lane_sums.update_element(w, o, array, where, value))
            return

        def each(scalars: list[str]) -> None:
            memory.atomic_element(w, o.kind, array, where, tuple(scalars))

        warp.update(w, o.kind, where, parts, each, uniform=shared == "always")
        self.bind(o.result, tuple(constant(0, t) for t, _ in parts))  # which nobody reads

    def _is_sum(self, array: Value) -> bool:
        rep = self._reps.get(array)
        return isinstance(rep, ArrayRef) and bool(rep.sum)

    def _accumulate(self, o: ops.Atomic, into: Accumulators) -> None:
        """Combine the update with those of other threads; nobody reads its result."""
        scalars = [t for t, _ in leaves(o.value.type)]
        indices = [(self.scalar(i), i.type) for i in o.indices if isinstance(i.type, Scalar)]
        mask = self.scalar(o.mask[0]) if o.mask else ""
        into.add(o.kind, self.array(o.array), indices, list(zip(scalars, self.scalars(o.value), strict=True)), mask)
        self.bind(o.result, tuple(constant(0, t) for t in scalars))

    def _atomic_cas(self, o: ops.AtomicCas) -> None:
        where, pointer = self.address(o, o.array, o.indices), memory.pointer(self.w, self.array(o.array))
        compare, value = self.scalars(o.compare), self.scalars(o.value)
        self.bind(o.result, memory.compare_and_swap(self.w, leaves(o.value.type), where, compare, value, pointer))

    _native = call_function

    def _print(self, o: ops.Print) -> None:
        runtime_calls.print_values(self.w, o.parts, [(a.type, self.scalars(a)) for a in o.args], o.formats)

    def _check(self, o: ops.Check) -> None:
        values = [(t, self.scalar(v)) for v in o.values if isinstance(t := v.type, Scalar)]
        self._leave_unless(self.scalar(o.ok), o.kind, o.text, values)

    def _breakpoint(self, o: ops.Breakpoint) -> None:
        runtime_calls.breakpoint_(self.w)

    def _push(self, o: ops.Push) -> None:
        push = functools.partial(runtime_calls.push, self.w) if self._stack is None else self._stack.push
        push(o.value.type, self.scalars(o.value))

    def _pop(self, o: ops.Pop) -> None:
        t = o.result.type
        self.bind(o.result, runtime_calls.pop(self.w, t) if self._stack is None else self._stack.pop(t))


_LOWER: dict[type[Op], Callable[[Lowering, object], None]] = {
    getattr(ops, name): getattr(Lowering, method)
    for name, method in {
        "ActiveMask": "_active_mask",
        "Address": "_address",
        "Apply": "_apply",
        "AtAddress": "_at_address",
        "IsLive": "_is_live",
        "Search": "_native",
        "Outlined": "_native",
        "AsyncCopy": "_async_copy",
        "AwaitCopies": "_await_copies",
        "Atomic": "_atomic",
        "AtomicCas": "_atomic_cas",
        "Barrier": "_barrier",
        "Bitcast": "_bitcast",
        "Breakpoint": "_breakpoint",
        "Broadcast": "_broadcast",
        "Cast": "_cast",
        "Check": "_check",
        "Components": "_components",
        "Constant": "_constant",
        "Dim": "_dim",
        "Empty": "_empty",
        "Extract": "_extract",
        "For": "_for_",
        "If": "_if_",
        "Insert": "_insert",
        "Iota": "_iota",
        "Compress": "_compress",
        "LaneReduce": "_lane_reduce",
        "Load": "_load",
        "LoadConsecutive": "_load_consecutive",
        "LoadFragments": "_load_fragments",
        "LocalArray": "_local_array",
        "Make": "_make",
        "MultiplyAdd": "_multiply_add",
        "Native": "_native",
        "NestedArray": "_nested",
        "Pop": "_pop",
        "Print": "_print",
        "Push": "_push",
        "Slice": "_slice",
        "Store": "_store",
        "Table": "_table",
        "StoreConsecutive": "_store_consecutive",
        "Tid": "_tid",
        "GridDim": "_grid_dim",
        "View": "_view",
        "While": "_while_",
    }.items()
}


def _array_name(array: Value) -> str:
    """Return what a message calls an array."""
    whole = ops.base_array(array)
    name = f"array `{whole.hint}`" if whole.hint else "an array"
    return name if whole is array else f"a part of {name}"
