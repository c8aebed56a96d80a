"""The op classes of the IR. All data; meaning is given by the interpreter, the passes and the backends.

A function whose ``lanes`` is not 1 computes with values of type ``Lanes``. Ops of values then work lane by lane: their
operands are all ``Lanes``, and so is the result. Memory accesses with a ``Lanes`` index or value happen for the lanes
of their ``mask``. Ops with effects other than these, and compare-and-swap, run once for each lane of their mask, the
first lane first; each operand is ``Lanes`` or the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warp_like.ir.core import Block, Function, Op, Value, attr, op, operand, region
from warp_like.ir.native import NativeCode
from warp_like.ir.types import Type

# --- values ---------------------------------------------------------------------------------------------------


@op("constant")
class Constant(Op):
    """A scalar (Python ``int``, ``float`` or ``bool``), or for vec, mat, quat and transform a flat tuple of them."""

    value: Any = attr()


@op("apply")
class Apply(Op):
    """The call of a builtin; which overload is meant follows from the operand types.

    Most ops are such calls, so they have methods of their own that take less time.
    """

    fn: str = attr()
    args: tuple[Value, ...] = operand()

    def operands(self) -> list[Value]:
        return [*self.args]

    def replace_operands(self, by: Mapping[Value, Value]) -> None:
        for v in self.args:
            if v in by:
                self.args = tuple([by.get(v, v) for v in self.args])
                return


@op("cast")
class Cast(Op):
    """Convert between scalars, or aggregates of one shape, by value.

    Float to integer truncates and saturates; NaN becomes 0. To bool is ``!= 0``. Integer to narrower integer wraps.
    """

    x: Value = operand()


@op("bitcast")
class Bitcast(Op):
    """Reinterpret the bits of a scalar as another scalar of the same width."""

    x: Value = operand()


@op("make")
class Make(Op):
    """Build a vec, mat (row-major), quat or transform from its scalars, or a struct from its fields.

    An array made of nothing has no elements; the frontend lets it stand where no array is given yet.
    """

    elements: tuple[Value, ...] = operand()


@op("empty")
class Empty(Op):
    """A vec, mat or tile whose components are all replaced before one is read."""


@op("fill")
class Fill(Op):
    """A tile all of whose elements are ``x``."""

    x: Value = operand()


@op("threads")
class TileOfThreads(Op):
    """The tile of the values that ``x`` has in the threads of the block, one after the other; all of them come by."""

    x: Value = operand()


@op("extract")
class Extract(Op):
    """Read a component of an aggregate: one index for a vec, quat, transform or matrix row, two for a matrix element.

    Of a tile, as many indices as it has dimensions read an element, and more of them a part of the element.

    Indices are integers, constant or not, in range; a dynamic index out of range reads component 0.
    """

    x: Value = operand()
    indices: tuple[Value, ...] = operand()


@op("insert")
class Insert(Op):
    """Return ``x`` with the component at ``indices`` replaced; out of range returns ``x`` as it was."""

    x: Value = operand()
    value: Value = operand()
    indices: tuple[Value, ...] = operand()


@op("field")
class GetField(Op):
    """Read the field of a struct at position ``field``."""

    x: Value = operand()
    field: int = attr()


# --- threads and memory ---------------------------------------------------------------------------------------


@op("tid")
class Tid(Op):
    """The thread's index along ``axis`` of a grid seen as ``ndim`` dimensional; surplus axes fold into the last.

    The frontend gives all of a kernel's ``Tid`` ops one ``ndim``: as many as the kernel asks for, and one more in code
    for grids of more dimensions (``Signature.shares_indices``), where the axis that nobody asks for is the last.

    It is an int32 in code for grids none of whose extents, seen so, exceeds ``contract.MAX_NARROW``, and else an int64.
    """

    axis: int = attr()
    ndim: int = attr()


@op("grid_dim")
class GridDim(Op):
    """The extent of the grid along ``axis``, of those that ``Tid`` ops of ``ndim`` dimensions see; of their type."""

    axis: int = attr()
    ndim: int = attr()


@op("dim")
class Dim(Op):
    """The extent of an array along ``axis``, as int32, which wraps, or int64."""

    array: Value = operand()
    axis: int = attr()


@op("view")
class View(Op):
    """The sub-array at leading ``indices``: its ndim is that of the array less their number.

    With ``field``, ``indices`` are empty and the result is the array of that field of all elements, which are structs.
    """

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    field: int | None = attr(None)


@op("components")
class Components(Op):
    """The scalars of vecs or mats in memory, along one dimension more, which is the last (row-major).

    ``array`` is an array of them, or a kernel's parameter that is one of them, which may only be read.
    """

    array: Value = operand()


@op("slice")
class Slice(Op):
    """A part of an array with strides of its own: it begins at ``start``, which has an index for each dimension.

    The dimensions ``kept`` go on from there, ``count`` elements by ``step`` each; the others are dropped. Where
    ``count`` is not 0, the first and the last element are in range.
    """

    array: Value = operand()
    start: tuple[Value, ...] = operand()
    count: tuple[Value, ...] = operand()
    step: tuple[Value, ...] = operand()
    kept: tuple[int, ...] = attr()


@op("nested")
class NestedArray(Op):
    """The array that the element of ``array`` at ``indices`` is: ``array`` has arrays as elements, a field of structs.

    Kernels do not change which arrays these are. Lanes out of the mask get an array of no elements.
    """

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("local", pure=False)
class LocalArray(Op):
    """An array of the thread's own with extents ``shape``: zero whenever the op runs, gone when the thread ends.

    One that is ``shared`` is the same for all threads of a block, which come by together. One that is not ``zeroed``
    holds anything; each element is written before it is read.
    """

    shape: tuple[int, ...] = attr()
    shared: bool = attr(default=False)
    zeroed: bool = attr(default=True)


@op("table")
class Table(Op):
    """A contiguous array of these numbers, the same for all threads, that nobody writes to."""

    values: tuple[float, ...] = attr()


@op("barrier", pure=False)
class Barrier(Op):
    """Wait for all threads of the block: what one wrote before, the others see afterwards."""


@op("at_address", pure=False)
class AtAddress(Op):
    """The contiguous array with extents ``shape`` at a memory ``address``, a uint64.

    One that is ``constant`` belongs to an object such as a mesh: no kernel writes it, and no argument overlaps it. With
    a ``kind`` (``contract.ObjectKind``), it is the descriptor of such an object, and the address is the object's id.
    ``gradient`` may hold a second address, of the adjoints of these elements, which is 0 where they have none.
    """

    address: Value = operand()
    shape: tuple[Value, ...] = operand()
    gradient: tuple[Value, ...] = operand(default=())
    constant: bool = attr(default=False)
    kind: int = attr(default=0)


@op("is_live")
class IsLive(Op):
    """Whether ``id``, a uint64, is that of a live object of ``kind``; debug mode checks ids that kernels use."""

    kind: int = attr()
    id: Value = operand()


@op("search")
class Search(Op):
    """The call of a builtin that searches an object, by the extension's function for it; as ``Apply`` otherwise.

    Lanes out of the mask get 0. Where the function has a form for lanes, they are searched for together.
    """

    fn: str = attr()
    args: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("outlined", pure=False)
class Outlined(Op):
    """The call of a builtin whose body stays a function, ``callee``: it computes, and reads memory of objects.

    Where it is not reached, an id may be anything, so it stays where it stands.
    A callee in lanes takes the mask as its ``ActiveMask``. Another one runs once for each lane of the mask.
    """

    callee: Function = attr()
    args: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("address")
class Address(Op):
    """The memory address of an array's first element, as uint64."""

    array: Value = operand()


@op("load", pure=False)
class Load(Op):
    """Read an element of an array; as many indices as the array has dimensions. Lanes out of the mask get 0."""

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("store", pure=False)
class Store(Op):
    """Write an element of an array."""

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    value: Value = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("atomic", pure=False)
class Atomic(Op):
    """Update an element atomically (each component on its own) and return its old value.

    ``kind`` is a row of the table in ``atomics.py``, which says what the update does.
    """

    kind: str = attr()
    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    value: Value = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("atomic_cas", pure=False)
class AtomicCas(Op):
    """Store each component of ``value`` where the element's equals that of ``compare``; return the old element."""

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    compare: Value = operand()
    value: Value = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("native", pure=False)
class Native(Op):
    """Run native code of the user on ``args``; the results are what it returns, then what it updates."""

    code: NativeCode = attr()
    args: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("print", pure=False)
class Print(Op):
    """Print ``args`` one after the other with ``parts`` around them: one more part than args, ends of line included.

    ``formats`` holds a C format for each of ``args``, as ``%5d`` or ``%.3e``; without it, the shortest form is printed.
    One that is ``together`` shows a tile of the block: once, where all else is the same for the block's threads, too.
    """

    parts: tuple[str, ...] = attr()
    args: tuple[Value, ...] = operand()
    formats: tuple[str, ...] = attr(())
    together: bool = attr(default=False)
    mask: tuple[Value, ...] = operand(default=())


@op("check", pure=False)
class Check(Op):
    """End the launch with an error unless ``ok`` holds.

    ``kind`` is one of those in ``base.faults``. ``text`` says what is wrong, with ``{0}``, ``{1}``, ... where the
    scalars ``values`` belong.
    """

    kind: str = attr()
    text: str = attr()
    ok: Value = operand()
    values: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("breakpoint", pure=False)
class Breakpoint(Op):
    """Stop in a debugger, if there is one."""

    mask: tuple[Value, ...] = operand(default=())


LANE_BY_LANE = (Search, Outlined, AtomicCas, Native, Print, Check, Breakpoint)
"""The ops that run once for each lane of their mask; ``Outlined`` where its callee is not in lanes itself."""


# --- the per-thread stack of the reverse sweep ----------------------------------------------------------------


@op("push", pure=False)
class Push(Op):
    """Save a value for the ``Pop`` ops of the same ``slot``. Pushes and pops of a thread nest like brackets."""

    slot: int = attr()
    value: Value = operand()


@op("pop", pure=False)
class Pop(Op):
    """Take back the value saved last."""

    slot: int = attr()


# --- lanes ----------------------------------------------------------------------------------------------------


@op("active_mask")
class ActiveMask(Op):
    """The lanes that have a thread of the grid, as a mask; at least one has."""


@op("broadcast")
class Broadcast(Op):
    """Give every lane the value ``x``."""

    x: Value = operand()


@op("iota")
class Iota(Op):
    """``base`` in lane 0, and ``stride`` more from each lane to the next; ``base`` is an integer."""

    base: Value = operand()
    stride: int = attr()


@op("lane_reduce")
class LaneReduce(Op):
    """Reduce a ``Lanes`` value over the lanes of ``mask`` to one value.

    ``kind`` is ``any`` (of a bool), ``bits``, a uint64 in which each lane with a true bool has its bit, ``last``, the
    value of the last lane in the mask, or a kind of atomic update that is its own ``reduction``. The result is of no
    use where the mask is empty, but for ``any`` and ``bits``, which give false and 0.
    """

    kind: str = attr()
    x: Value = operand()
    mask: tuple[Value, ...] = operand(default=())


@op("compress")
class Compress(Op):
    """The lanes of ``x`` for which ``kept`` holds, moved to the front in their order; the others may be anything."""

    x: Value = operand()
    kept: Value = operand()


@op("load_consecutive", pure=False)
class LoadConsecutive(Op):
    """Read as many elements as there are results for each lane of ``mask``, at ``indices`` and those that follow.

    They follow along the last dimension, and all of them are in the array. Lanes out of the mask get 0.
    """

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand()


@op("store_consecutive", pure=False)
class StoreConsecutive(Op):
    """Write ``values`` for each lane of ``mask``, at ``indices`` and at those that follow along the last dimension."""

    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    values: tuple[Value, ...] = operand()
    mask: tuple[Value, ...] = operand()


# --- copies to shared memory ----------------------------------------------------------------------------------


@op("async_copy", pure=False)
class AsyncCopy(Op):
    """Begin to copy neighbours from ``array``, at ``indices`` and along its last dimension, to ``out`` at ``index``.

    There is one for each of ``inside``, a bool; where that is false, zero is written, and nothing is read. Nobody may
    touch the elements of ``out`` before the thread has come to ``AwaitCopies``.
    """

    out: Value = operand()
    index: Value = operand()
    array: Value = operand()
    indices: tuple[Value, ...] = operand()
    inside: tuple[Value, ...] = operand()


@op("await_copies", pure=False)
class AwaitCopies(Op):
    """Wait for all copies that the thread has begun."""


# --- matrix units of a GPU ------------------------------------------------------------------------------------


@op("contract")
class Contract(Op):
    """The matrix product of tiles ``x`` and ``y``, by the threads of a block; plus a tile, if ``plus`` has one.

    ``turned_x`` says that ``x`` stands for its transpose, ``turned_y`` that ``y`` does. Products and sums have the
    result's type, float32 where factors are floats of 16 bits. ``unit`` names the matrix
    unit that adds up, see ``passes/team/units.py``.
    """

    x: Value = operand()
    y: Value = operand()
    plus: tuple[Value, ...] = operand()
    unit: str = attr()
    turned_x: bool = attr(default=False)
    turned_y: bool = attr(default=False)


@op("contract_in_memory", pure=False)
class ContractInMemory(Op):
    """``Contract`` on arrays of one dimension, which hold the tiles row by row: writes ``out``, or adds to it.

    ``extents`` are the rows of the product, the length of its sums, and its columns.
    """

    out: Value = operand()
    x: Value = operand()
    y: Value = operand()
    extents: tuple[int, int, int] = attr()
    adds: bool = attr()
    unit: str = attr()
    turned_x: bool = attr(default=False)
    turned_y: bool = attr(default=False)


@op("multiply_add")
class MultiplyAdd(Op):
    """A step of a matrix unit: the lanes of a warp give their parts of ``a``, ``b`` and ``c``, and get those of a sum.

    Parts of factors that are floats of 16 bits come two in a uint32.
    """

    a: tuple[Value, ...] = operand()
    b: tuple[Value, ...] = operand()
    c: tuple[Value, ...] = operand()
    unit: str = attr()


@op("load_fragments", pure=False)
class LoadFragments(Op):
    """Read matrices of 8 x 8 numbers of 16 bits from shared memory, one for each result; the lanes get their parts.

    ``index`` is in lane ``8 * k + r`` that of the first of 8 neighbours, row ``r`` of matrix ``k``. A lane gets
    elements ``2 * (lane % 4)`` and the next one of row ``lane // 4``, of the transpose if it is ``turned``.
    """

    array: Value = operand()
    index: Value = operand()
    turned: bool = attr()


# --- control flow ---------------------------------------------------------------------------------------------


@op("if", pure=False)
class If(Op):
    """Run one of two blocks; the results are what it yields."""

    cond: Value = operand()
    then: Block = region()
    orelse: Block = region()


@op("for", pure=False)
class For(Op):
    """Count from ``lo`` towards ``hi`` (exclusive) by ``step``, carrying values; a step of 0 runs it zero times.

    ``body`` has the parameters ``(i, *carried)`` and yields the next carried values. ``i`` has the type of ``lo``.
    One that is ``together`` is work of the block, which is done once for all its threads. Iterations of one over
    ``threads`` are what the threads of a block do, so they may run in any order. One that ``sums``, the reverse of
    another loop, may add to the values that it carries in any order. One that is ``simd`` goes over columns that may
    be computed side by side, in the lanes of a vector.
    """

    lo: Value = operand()
    hi: Value = operand()
    step: Value = operand()
    init: tuple[Value, ...] = operand()
    body: Block = region()
    together: bool = attr(default=False)
    threads: bool = attr(default=False)
    sums: bool = attr(default=False)
    simd: bool = attr(default=False)


@op("while", pure=False)
class While(Op):
    """Repeat ``body`` while ``cond`` yields true. Both blocks have the carried values as parameters.

    ``cond`` yields one bool; ``body`` yields the next carried values.
    """

    init: tuple[Value, ...] = operand()
    cond: Block = region()
    body: Block = region()


@op("yield", pure=False)
class Yield(Op):
    """End a block with its results."""

    values: tuple[Value, ...] = operand()


@op("call", pure=False)
class Call(Op):
    """Call a user function; the inliner replaces it."""

    callee: Function = attr()
    args: tuple[Value, ...] = operand()


VIEWS = (View, Slice)
"""The ops whose result is a part of the array that they take."""

PARTS = (*VIEWS, Components)
"""They, and what ``lower_large_values`` makes, which earlier passes do not see."""


def base_array(array: Value) -> Value:
    """Return the array that ``array`` is a view of, directly or through other views; itself where it is none."""
    while isinstance(array.op, PARTS):
        array = array.op.array
    return array


def constant_value(v: Value) -> Any:
    """Return the Python value of ``v`` when it is a ``Constant``, else None."""
    return v.op.value if isinstance(v.op, Constant) else None


def is_scalar_constant(v: Value, number: float) -> bool:
    """Return whether ``v`` is the scalar constant ``number``."""
    got = constant_value(v)
    return got is not None and not isinstance(got, tuple) and got == number


__all__ = [
    "ActiveMask",
    "Address",
    "Apply",
    "AtAddress",
    "AsyncCopy",
    "Atomic",
    "AtomicCas",
    "AwaitCopies",
    "Barrier",
    "base_array",
    "Bitcast",
    "Breakpoint",
    "Broadcast",
    "Call",
    "Contract",
    "ContractInMemory",
    "Cast",
    "Check",
    "Components",
    "Compress",
    "Constant",
    "constant_value",
    "Dim",
    "Empty",
    "Extract",
    "Fill",
    "For",
    "GetField",
    "GridDim",
    "If",
    "Insert",
    "Iota",
    "is_scalar_constant",
    "IsLive",
    "Search",
    "LANE_BY_LANE",
    "LaneReduce",
    "Load",
    "LoadConsecutive",
    "LoadFragments",
    "LocalArray",
    "Table",
    "Make",
    "MultiplyAdd",
    "Native",
    "NestedArray",
    "Outlined",
    "PARTS",
    "Pop",
    "Print",
    "Push",
    "Slice",
    "Store",
    "StoreConsecutive",
    "Tid",
    "TileOfThreads",
    "Type",
    "View",
    "VIEWS",
    "While",
    "Yield",
]
