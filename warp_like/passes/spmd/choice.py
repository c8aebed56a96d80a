"""Which kernels are compiled for lanes, and for how many.

LLVM's own vectoriser can't vectorise over threads what has loops of its own; that is what lanes are for. Code without
loops it does as well as lanes do, or hardly at all. On one core with AVX-512, 16 lanes take about as long as its code
(between 0.9 and 1.1 times) for saxpy, a Jacobi step, sines, rotations by quaternions, a Runge-Kutta step, random
numbers and noise. It takes 2 times as long as they do for a lattice Boltzmann step, whose neighbours across the edge it
gathers, 2 to 4 times for inverses of 3 x 3 matrices and 7 to 10 times for their singular values. So code without loops
runs in lanes too, unless it does nothing but sum over the threads: LLVM keeps such sums in vector registers, where
lanes add up each vector, which takes twice the time.

A loop whose iterations wait for each other (a sum, Newton steps) keeps the processor busier with several vectors at
once (register blocking): so there are as many lanes as fill one register, times 2 or 4 where the loop's values still
fit the register file. Calls of the math library overwrite all registers: there it pays only if calls wait for other
ones, with or without a loop, or if the loop adds over the lanes. Times 4 only where all lanes run a loop equally often,
since a loop ends with its last lane; and no more than one register where a loop gathers, since so many elements that
lie apart crowd each other out of the first cache. The threads that do not fill all these lanes go by one register's.
Additions to neighbouring elements of an array wait for each other in the same way, and so does a reduction over the
threads that stays in registers. Of remainders in float64 there are two.

Kernels on tiles have loops over elements, which run in vectors in a single thread: those of products in lanes
(``widen_loops.py``), others by LLVM. Where most of the work is in
such loops (products, maps, sums), these are faster; where iterations wait for each other (factorisations, solves),
lanes are. ``cost.py`` compares both. Where the tiles of a whole register's lanes take too much memory, there are half
or a fourth as many lanes.

Grids of blocks often have short rows, of one block or a few. So a kernel on tiles that runs in lanes along them is
compiled for one thread at a time, too, which runs rows that are shorter than ``Schedule.fewest``: those that take less
time so than the vector of which they fill a part.

Other kernels with loops are compiled once more, when they are first launched over many short rows, such as those of a
grid of (100000, 3): their lanes go on in the next row where that costs less than vectors of which a few lanes work.

A loop that looks through many items for few, as one over the points near to another, is a matter for one thread: lanes
would wait for each other, and its iterations do better (``filter_loops.py``). Such threads may go along the cells of a
hash grid (``object_order.py``).

Where neighbouring rows of the grid load the same vectors in a loop, or add to the same ones, there is also code for
several rows at once (``coarsening.py``), which does more for each access: a naive matrix product takes half the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from warp_like.base.frozen import Frozen
from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.layout import size_of
from warp_like.ir.rewrite import clone_function, count_ops, find_ops, free_values, grid_ndim, has_effects, has_op
from warp_like.ir.types import Array, Lanes, bool_, element_count, float64, lane_type, scalar_of
from warp_like.passes import stages
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.licm import licm
from warp_like.passes.runner import DEFAULT, Options, Runner
from warp_like.passes.spmd.coarsening import ROWS, coarsen, share_vectors
from warp_like.passes.spmd.consecutive import load_consecutively
from warp_like.passes.spmd.cost import gathers_in_loops, gathers_vectors, has_lane_search, lane_cost, thread_cost
from warp_like.passes.spmd.strides import MAX_LANES, find_strides
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import calls_library, widen

FILTERED_BITS = 256
"""The fewest bits of vectors with which loops look through items (``filter_loops.py``): some of a vector are loaded."""
LARGEST, MOST_LOOPS = 8000, 2400
"""The most ops and loops of a kernel that is widened unasked. LLVM's time grows with the number of ops, and no
faster than that of loops, since the backend cuts them into functions of a few: 1,200 loops take 4 s."""
MOST_WHOLE = 300
"""The most loops where the backend makes no cuts: with line information. LLVM takes 8 s for 400 of them in vectors."""
OPS_OF_LOOP = 16
"""How many ops for each loop a kernel may have in any case: where there are loops, there are cuts."""
LARGEST_BLOCKED = 600
"""The most ops of one whose values may take more than one register."""
LARGEST_PRIVATE = 256 << 10
"""The most stack memory that the arrays of all lanes' own may take, in bytes, also where the user asks for lanes."""
FEWEST = 4
"""The fewest lanes that are chosen where those of a whole register would take more: 4 factor matrices of 64 x 64 three
times as fast as one thread does, 8 those of 48 x 48 five times."""
PRIVATE_IN_CACHE = 16 << 10
"""How much of it may be used for register blocking: half of a small first cache."""
FLATTENED = 1.2
"""How many times the cost of lanes along the last dimension lanes may cost that go on in the next row. These are full
whatever the grid is, where rows of one thread took 8 to 30 times as long. Where rows are long, a factorisation takes
1.07 times as long with them, and a scan of 6 elements, which is left as it is, 1.8 times."""
SHORT = 4
"""How many threads a short row has where it is not known: so many of a vector's lanes along rows are at work."""
SIDE_BY_SIDE = 32
"""How many lanes there are where they search an object together. Rays on a mesh take 1.2 times as long in 8 lanes, and
as long in 64, which take twice as long to compile. The threads that do not fill them are lanes under a mask, since code
for fewer lanes would have to be compiled, too."""
CROWDED = 1.5
"""How many times the register file a loop may need in the order of its ops. LLVM goes component by component and needs
less: Runge-Kutta steps of three components, which need 44 registers of 32, are faster than with half as many."""
REDUCED = 4.0
"""The same for a loop that adds over the lanes. Loads of what does not fit cost less than another such sum, which
shuffles each register of it: with AVX2, the gradient of a sum over all pairs, where one vector needs 15 registers of
16, takes 0.70 of the time with 4 vectors at once."""

MOST_SAVED = 16 << 10
"""How many bytes of vectors a loop may need that calls the math library. A call overwrites every register, so all
values are saved around it anyway; this is half of a small first cache."""

LONG_SUM = 4
"""How many operations on floats that wait for each other make a call of the math library late, so that a second vector
fills the time: sums of products, as in the layers of networks, take 0.85 of the time with two."""


class Choice(Frozen):
    """A function to be lowered, one thread or ``width`` lanes at a time, and why."""

    function: Function
    width: int
    reason: str


def choose(
    f: Function,
    vector_bits: int,
    registers: int,
    wanted: int,
    reduced: Sequence[int] = (),
    options: Options = DEFAULT,
    *,
    gathers: bool = False,
    apart: Sequence[int] = (),
    private: Sequence[int] = (),
    short_rows: bool = False,
    whole: bool = False,
) -> Choice:
    """Return ``f`` in the form in which the CPU runs it.

    Where that is one thread at a time, loops of the thread's own run in lanes.

    Args:
        f: What ``finish`` left.
        vector_bits: The width of the target's vector registers.
        registers: How many it has.
        wanted: The lanes that the user asks for; 0 leaves the choice to the rules here, 1 means no lanes.
        reduced: The arrays, by position, into whose elements the backend reduces in registers.
        options: Whether the passes verify and show what they give.
        gathers: Whether gathers take less time than loads (``Target.has_fast_gathers``).
        apart: The arrays, by position, that overlap no other argument.
        private: Those to which threads add without atomics, each to elements of its own.
        short_rows: Whether the rows of the grid have a few threads, fewer than a vector.
        whole: Whether the backend leaves a function of many loops whole.
    """
    most_loops = MOST_WHOLE if whole else MOST_LOOPS
    if not wanted and vector_bits >= FILTERED_BITS and _looks_through_rows(f, apart):
        made = Choice(f, 1, "a thread looks through many items for few")
    else:
        made = _chosen(f, vector_bits, registers, wanted, reduced, options, private, short_rows, most_loops)
    loops = _Loops(vector_bits, registers, gathers, tuple(apart))
    if made.width == 1:
        from warp_like.passes.object_order import in_object_order, ordering

        alone, id = (
            _with_loops_in_lanes(made.function, loops, options),
            ordering(made.function),
        )
        if id is None:
            return made.replace(function=alone)
        run = Runner("object_order", clone_function(alone), options, stages.widened())
        position = made.function.params.index(id)
        run("in_object_order", lambda f: in_object_order(f, f.params[position]))
        return made.replace(function=run.end(), reason=f"{made.reason}; threads go in the order of an object's items")
    schedule = made.function.schedule
    if schedule.alone is not None:
        alone = _with_loops_in_lanes(schedule.alone, loops, options)
        made.function.schedule = schedule.replace(alone=alone)
    return made


def _looks_through_rows(f: Function, apart: Sequence[int]) -> bool:
    if not has_op(f, ops.For):
        return False
    from warp_like.passes.spmd.filters import looks_through_rows

    return looks_through_rows(f, apart)


class _Loops(Frozen):
    """What loops in lanes depend on; see ``choose``."""

    vector_bits: int
    registers: int
    gathers: bool
    apart: tuple[int, ...]


def _with_loops_in_lanes(f: Function, loops: _Loops, options: Options) -> Function:
    """Return ``f``, which is run one thread at a time, with loops of its own in lanes."""
    from warp_like.passes.spmd.widen_loops import has_simd_loops, widen_loops

    bits, apart = loops.vector_bits, loops.apart
    filters = False
    if bits >= FILTERED_BITS and has_op(f, ops.For):
        from warp_like.passes.spmd.filter_loops import filter_loops
        from warp_like.passes.spmd.filters import find_filters

        filters = bool(find_filters(f, apart))
    if not has_simd_loops(f, bits) and not filters:
        return f
    from warp_like.passes.spmd.join_accesses import join_accesses

    run = Runner("loops", clone_function(f), options, stages.widened())
    run("widen_loops", lambda g: widen_loops(g, bits, loops.registers))
    if filters:
        run("filter_loops", lambda g: filter_loops(g, bits, apart, gathers=loops.gathers))
    run("load_consecutively", load_consecutively)
    run("cse", cse)
    run("join_accesses", join_accesses)
    run("licm", licm)
    run("dce", dce)
    return run.end()


def _chosen(
    f: Function,
    vector_bits: int,
    registers: int,
    wanted: int,
    reduced: Sequence[int],
    options: Options,
    added: Sequence[int],
    short_rows: bool,
    most_loops: int,
) -> Choice:
    if wanted == 1:
        return Choice(f, 1, "vector_width is 1")
    bits = _widest(f)
    size = count_ops(f.body)
    private = _private_bytes(f)
    full = vector_bits // bits
    native = _lanes_that_fit(full, private)
    against = "" if wanted else _reason_against(f, size, most_loops)
    if private * (wanted or native) > LARGEST_PRIVATE:
        against = f"its threads' own arrays would take {private * (wanted or native)} bytes"
    if against:
        return Choice(f, 1, against)
    one = f
    try:
        wide = _widened(f, wanted or native, reduced, options)
        vectors = max(1.0, (wanted or native) / SHORT) if short_rows else 1.0
        if (f.is_tiled or vectors > 1.0) and grid_ndim(f) > 1:
            flat = _flattened(f, options, narrow=short_rows)
            filled = _widened(flat, wanted or native, reduced, options)
            if lane_cost(filled, 1) < max(FLATTENED, vectors) * lane_cost(wide, 1):
                f, wide, vectors = flat, filled, 1.0
        if wanted:
            return Choice(wide, wanted, "vector_width asks for it")
        cost = vectors * lane_cost(wide, 1, added)
        if cost >= thread_cost(one, 1, added):
            return Choice(_left_apart(one, wide), 1, "it gathers more than it computes")
        if one.is_tiled and cost >= (alone_cost := thread_cost(one, full, added)):
            return Choice(one, 1, "the elements of its tiles make vectors")
        alone = size > LARGEST_BLOCKED or gathers_in_loops(wide)
        most = MAX_LANES // native
        if private:
            most = min(most, _power_of_two(PRIVATE_IN_CACHE // (private * native)))
        times = 1 if alone else _register_blocking(wide, registers, vector_bits, most)
        if not alone and has_lane_search(wide):
            times = max(times, min(most, SIDE_BY_SIDE // native))
            wide = _widened(f, native * times, reduced, options)
        elif times > 1:
            remainder, wide = wide, _widened(f, native * times, reduced, options)
            wide.schedule = wide.schedule.replace(remainder=remainder)
        coarsened = _coarsened(f, native, registers, vector_bits, reduced, options)
        wide.schedule = wide.schedule.replace(coarsened=coarsened)
        fewest = 1
        if one.is_tiled and grid_ndim(f) > 1:
            fewest = min(math.ceil(native * cost / alone_cost), native)
        if fewest > 1:
            wide.schedule = wide.schedule.replace(alone=one, fewest=fewest)
    except NotWidenable as e:
        return Choice(one, 1, str(e))
    rows = f", {coarsened.schedule.rows} rows at once" if coarsened else ""
    rows += f", one thread at a time in rows of fewer than {fewest}" if fewest > 1 else ""
    return Choice(wide, native * times, f"{times} x {native * bits}-bit vectors of {bits}-bit numbers{rows}")


def _left_apart(f: Function, wide: Function) -> Function:
    """Return ``f`` for LLVM to leave as it is, where it would gather vectors, too; ``wide`` is ``f`` in lanes.

    Permutations of vectors of three numbers take 0.75 of the time so. Threads with loops it leaves apart in any case.
    """
    if has_op(f, ops.For, ops.While) or not gathers_vectors(wide):
        return f
    made = clone_function(f)
    made.schedule = made.schedule.replace(scalar=True)
    return made


def _lanes_that_fit(lanes: int, private: int) -> int:
    """``lanes``, or the half or a fourth of them whose own arrays of ``private`` bytes fit: still far ahead of none."""
    while lanes > FEWEST and private * lanes > LARGEST_PRIVATE:
        lanes //= 2
    return lanes


def _power_of_two(n: int) -> int:
    """The largest power of 2 up to ``n``, at least 1."""
    return 1 << max(n.bit_length() - 1, 0)


def _reason_against(f: Function, size: int, most_loops: int) -> str:
    """Why ``f``, of ``size`` ops, is left as it is where nobody asks for lanes."""
    if _only_sums(f):
        return "a sum over the threads: left to LLVM's vectoriser"
    if has_op(f, ops.Print):
        return "it prints, and the lines of a thread stay together"
    if has_op(f, ops.Breakpoint):
        return "it stops in a debugger"
    loops = len(find_ops(f.body, ops.For)) + len(find_ops(f.body, ops.While))
    largest = max(LARGEST, OPS_OF_LOOP * loops)
    for number, most, what in ((loops, most_loops, "loops"), (size, largest, "ops")):
        if number > most:
            return f"{number} {what} are too many to compile for lanes in reasonable time"
    return ""


def _private_bytes(f: Function) -> int:
    """The bytes of a thread's own arrays."""
    made = ((o.result.type, o.shape) for o in find_ops(f.body, ops.LocalArray))
    return sum(size_of(t.dtype) * math.prod(shape) for t, shape in made if isinstance(t, Array))


def _flattened(f: Function, options: Options, *, narrow: bool) -> Function:
    from warp_like.passes.spmd.flatten_grid import flatten_grid

    run = Runner("lanes", f, options, (*stages.differentiated(debug=False), stages.LOWERED))
    run("flatten_grid", lambda g: flatten_grid(g, narrow=narrow))
    return run.end()


def _widened(f: Function, width: int, reduced: Sequence[int], options: Options) -> Function:
    run = Runner("lanes", f, options, stages.widened())
    run("widen", lambda g: widen(g, width, reduced, scattered=True))
    run("load_consecutively", load_consecutively)
    run("cse", cse)
    run("dce", dce)
    return run.end()


def _coarsened(
    f: Function, native: int, registers: int, vector_bits: int, reduced: Sequence[int], options: Options
) -> Function | None:
    """``f`` in lanes for several rows of threads at once, where that saves accesses and the rows' values fit."""
    if not share_vectors(f):
        return None
    run = Runner("lanes", f, options, (*stages.differentiated(debug=False), stages.LOWERED))
    run("coarsen", lambda g: coarsen(g, ROWS))
    wide = _widened(run.end(), native, reduced, options)
    loops = [o for o in wide.body.walk() if isinstance(o, (ops.For, ops.While))]
    if any(_calls_library(loop) or _pressure(loop) > registers for loop in loops):
        return None
    times = 1 if gathers_in_loops(wide) else _register_blocking(wide, registers, vector_bits, MAX_LANES // native)
    return _widened(run.end(), native * times, reduced, options) if times > 1 else wide


def _only_sums(f: Function) -> bool:
    """Whether ``f`` has no loops, and all that it does is to add to elements that all threads share."""
    found = list(f.body.walk())
    if any(isinstance(o, (ops.For, ops.While)) for o in found):
        return False
    effects = [o for o in found if has_effects(o) and not isinstance(o, (ops.If, ops.Yield))]
    added = [i for o in effects if isinstance(o, ops.Atomic) and KINDS[o.kind].sign for i in o.indices]
    if not effects or not all(isinstance(o, ops.Atomic) and KINDS[o.kind].sign for o in effects):
        return False
    strides = find_strides(f)
    return all(strides[i] == 0 for i in added)


def _widest(f: Function) -> int:
    """The bits of the widest floating-point numbers that ``f`` computes with; 32 where there are none."""
    computed = (scalar_of(r.type) for o in f.body.walk() if isinstance(o, ops.Apply) for r in o.results)
    return max([32, *(s.bits for s in computed if s is not None and s.is_float)])


def _register_blocking(f: Function, registers: int, vector_bits: int, most: int) -> int:
    """How many registers each value of ``f`` may take, which now takes one."""
    saved = MOST_SAVED * 8 // vector_bits
    loops = [o for o in f.body.walk() if isinstance(o, (ops.For, ops.While))]
    reduces = _reduces_in_registers(f)
    chained = not (loops or reduces) and _chains_calls(f.body)
    times = min(most, 4) if loops or reduces or chained or _adds_to_neighbours(f) else 1
    if times == 1 and any(map(_is_remainder, f.body.walk())):
        times = min(most, 2)
    while chained and times > 1 and times * _most_alive(f.body) > saved:
        times //= 2
    if reduces and not loops:
        if any(map(calls_library, f.body.walk())):
            return 1
        while times > 1 and times * _most_alive(f.body) > registers:
            times //= 2
    if any(map(_calls_library, loops)) and not any(_has_waiting_calls(x) or _reduces(x) for x in loops):
        times = min(times, 2) if any(map(_calls_after_sums, loops)) else 1
    for loop in loops:
        if any(p.type == Lanes(bool_, f.schedule.lanes) for r in loop.regions() for p in r.params):
            times = min(times, 2)
        crowded = (REDUCED if _reduces(loop) else CROWDED) * registers
        room = saved if _calls_library(loop) else crowded
        while times > 1 and times * _pressure(loop) > room:
            times //= 2
    return times


def _is_remainder(o: Op) -> bool:
    """Whether ``o`` is a remainder of float64, which for long quotients takes many steps that wait for each other."""
    return isinstance(o, ops.Apply) and o.fn == "mod" and lane_type(o.result.type) == float64


def _calls_library(loop: Op) -> bool:
    return any(calls_library(o) for r in loop.regions() for o in r.walk())


def _has_waiting_calls(loop: Op) -> bool:
    return _waits_for_calls(loop) or _chains_calls(loop.regions()[-1])


def _calls_after_sums(loop: Op) -> bool:
    """Whether an iteration calls the math library with what many operations have given, each of which waits."""
    waited: dict[Value, int] = {}
    for o in loop.regions()[-1].ops:
        longest = max((waited.get(v, 0) for v in o.operands()), default=0)
        if calls_library(o) and longest >= LONG_SUM:
            return True
        waited.update((r, longest + isinstance(o, ops.Apply)) for r in o.results if _is_float(r))
    return False


def _chains_calls(b: Block) -> bool:
    """Whether a call of the math library in ``b`` waits for another one there."""
    made: set[Value] = set()  # by the calls, and by what waits for them
    for o in b.walk():
        waits = not made.isdisjoint(o.operands())
        if waits and calls_library(o):
            return True
        if waits or calls_library(o):
            made.update(o.results, *(r.params for r in o.regions()))
    return False


def _waits_for_calls(loop: Op) -> bool:
    """Whether a call of the math library waits for one of the iteration before."""
    body: Block = loop.regions()[-1]
    late = _dependent(body, (p for p in body.params if _is_float(p)))
    found = (r for o in body.walk() if calls_library(o) for r in o.results if r in late)
    later = _dependent(body, found)
    return any(y in later for y in body.yielded)


def _is_float(v: Value) -> bool:
    scalar = scalar_of(lane_type(v.type))
    return scalar is not None and scalar.is_float


def _dependent(b: Block, values: Iterable[Value]) -> set[Value]:
    """``values`` and those made in ``b`` that depend on them."""
    found = set(values)
    for o in b.walk():
        used = {*o.operands(), *(v for r in o.regions() for v in free_values(r))}
        if not found.isdisjoint(used):
            found.update(o.results, *(r.params for r in o.regions()))
    return found


def _reduces(loop: Op) -> bool:
    """Whether each iteration adds over the lanes, which takes as long for several registers as for one."""
    reductions = (o.kind for r in loop.regions() for o in r.walk() if isinstance(o, ops.LaneReduce))
    return any(kind in KINDS and KINDS[kind].sign for kind in reductions)


def _reduces_in_registers(f: Function) -> bool:
    """Whether ``f`` reduces over its threads such that each vector waits for the one before."""
    found = (o for o in f.body.walk() if isinstance(o, ops.Atomic) and o.mask)
    return any(not any(isinstance(v.type, Lanes) for v in (o.array, *o.indices)) for o in found)


def _adds_to_neighbours(f: Function) -> bool:
    """Whether ``f`` adds to one array at several places of neighbouring elements, as the gradient of a stencil does.

    What one addition stores, the next one loads as vectors that begin elsewhere, and so waits for the stores.
    """
    arrays = [o.array for o in f.body.ops if isinstance(o, ops.Atomic) and isinstance(o.indices[-1].op, ops.Iota)]
    return len(set(arrays)) < len(arrays)


def _pressure(loop: Op) -> int:
    """The most registers that an iteration of ``loop`` needs at one time, taking a vector for one."""
    body: Block = loop.regions()[-1]
    outer = (v for v in free_values(body) if not isinstance(v.op, ops.Broadcast))
    return _most_alive(body) + sum(map(_vectors, outer))


def _most_alive(b: Block) -> int:
    """The most registers that values made in ``b`` take at one time."""
    inside = {*b.params, *(r for o in b.ops for r in o.results)}
    alive: set[Value] = set()
    most = count = 0
    for o in reversed(b.ops):
        used = {v for v in (*o.operands(), *(v for r in o.regions() for v in free_values(r))) if v in inside}
        count += sum(map(_vectors, used - alive))
        alive |= used
        within = max((_most_alive(r) for r in o.regions()), default=0)
        most = max(most, count + within)
        made = alive.intersection(o.results)
        count -= sum(map(_vectors, made))
        alive -= made
    return max(most, sum(map(_vectors, b.params)))


def _vectors(v: Value) -> int:
    t = lane_type(v.type)
    return element_count(t) if isinstance(v.type, Lanes) and t != bool_ and not isinstance(t, Array) else 0
