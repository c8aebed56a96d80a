"""Arrays: addresses, loads, stores, atomics and views.

An element's address is evaluated in 64 bits. The accesses of array memory carry the access group by which the
grid loop says that threads do not order each other's accesses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from warp_like.backend.llvm.block import SHARED, Team, shared_memory
from warp_like.backend.llvm.casts import bitcast, extend_half, round_half
from warp_like.backend.llvm.combining import combined
from warp_like.backend.llvm.taking import where_alone
from warp_like.backend.llvm.values import ArrayRef, beside, constant, is_half, leaves, memory_type, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.atomics import KINDS, AtomicKind
from warp_like.ir.layout import align_of, field_offsets, size_of
from warp_like.ir.types import Array, Scalar, Struct, element_count, float16, float32, scalar_of

LARGE_LOCAL = 1 << 10
"""The bytes from which on LLVM is told which local array an access is to. Many together lie in one piece of memory,
where it could not tell."""


def access_group(w: Writer) -> str:
    """Return the metadata that puts an access into the grid loop's access group, away from all sums."""
    group = f", !llvm.access.group {w.metadata('access', 'distinct !{}')}"
    if w.options.sums:
        group += f", !noalias {_scopes(w, [sum_scope(w, i) for i in w.options.sums])}"
    return group


def invariant(w: Writer) -> str:
    """Return the metadata of a load from memory that nothing writes to meanwhile."""
    return f", !invariant.load {w.metadata('empty', '!{}')}"


def pointer(w: Writer, array: ArrayRef) -> str:
    """Return the LLVM type of the address of an element, or of those of all lanes' elements."""
    if array.scattered:
        return f"<{array.scattered} x ptr>"
    return SHARED if array.shared else "ptr" if array.local else w.array_pointer


def nested_array(w: Writer, t: Array, array: ArrayRef, address: str) -> ArrayRef:
    """Return the array whose place, extents and strides lie at ``address``, an element of ``array``."""
    p = pointer(w, array)
    note = access_group(w)
    data = w.op(f"load {w.array_pointer}, {p} {address}, align 8{note}")
    numbers = [
        w.op(f"load i64, {p} {component_address(w, address, 8 + 8 * k, p)}, align 8{note}") for k in range(2 * t.ndim)
    ]
    return ArrayRef(t, data, tuple(numbers[: t.ndim]), tuple(numbers[t.ndim :]))


def local_array(w: Writer, t: Array, shape: tuple[int, ...], lanes: int = 1, *, zeroed: bool = True) -> ArrayRef:
    """Return an array of this thread alone, one for each of ``lanes`` lanes; ``zeroed``: filled with zeros here."""
    size, align = size_of(t.dtype) * math.prod(shape) * lanes, 16 if lanes == 1 else 64
    data = w.local(size, align)
    if zeroed:
        w.declare("llvm.memset.p0.i64", "void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        w.do(f"call void @llvm.memset.p0.i64(ptr align {align} {data}, i8 0, i64 {size}, i1 false)")
    note = "" if w.target.is_device or size < LARGE_LOCAL else _local_note(w)
    return ArrayRef(t, data, tuple(map(str, shape)), (), local=True, note=note, lanes=lanes)


def table(w: Writer, t: Array, values: Sequence[float]) -> ArrayRef:
    """Return a constant array of these numbers."""
    scalar = t.dtype
    assert isinstance(scalar, Scalar)
    kind = memory_type(scalar)
    elements = ", ".join([f"{kind} {constant(x, scalar)}" for x in values])
    name = w.table(f"[{len(values)} x {kind}] [{elements}], align 64")
    return ArrayRef(t, name, (str(len(values)),), (), local=True, note=invariant(w))


def _local_note(w: Writer) -> str:
    """Return the metadata of accesses to a new local array: they touch none of the earlier ones that have a note."""
    domain = w.metadata("locals", "distinct !{{self}}")
    earlier = list(w.local_scopes)
    scope = w.metadata(f"local {len(earlier)}", f"distinct !{{{{self}}, {domain}}}")
    w.local_scopes.append(scope)
    return f", !alias.scope {_scopes(w, [scope])}" + (f", !noalias {_scopes(w, earlier)}" if earlier else "")


def shared_array(w: Writer, team: Team, t: Array, shape: tuple[int, ...], *, zeroed: bool) -> ArrayRef:
    """Return an array that the threads of a block have together, filled with zeros here if it is ``zeroed``."""
    size = size_of(t.dtype) * math.prod(shape)
    data = shared_memory(w, team, size) if zeroed else w.shared(size)
    return ArrayRef(t, data, tuple(map(str, shape)), (), shared=True, narrow=True)


def parameter_note(w: Writer, position: int, arrays: list[int]) -> str:
    """Return the metadata of accesses to an array parameter that overlaps none of the other ``arrays``, where written.

    So accesses to neighbouring elements meet, whatever stands between them.
    """
    domain = w.metadata("parameters", "distinct !{{self}}")
    scopes = {k: w.metadata(f"parameter {k}", f"distinct !{{{{self}}, {domain}}}") for k in arrays}
    others = [scope for k, scope in scopes.items() if k != position]
    return f", !alias.scope {_scopes(w, [scopes[position]])}" + (f", !noalias {_scopes(w, others)}" if others else "")


def sum_scope(w: Writer, position: int) -> str:
    """Return the alias scope of the array parameter at ``position``, which is summed into."""
    domain = w.metadata("sums", "distinct !{{self}}")
    return w.metadata(f"sum {position}", f"distinct !{{{{self}}, {domain}}}")


def _scopes(w: Writer, scopes: list[str]) -> str:
    return w.metadata(f"scopes {scopes}", f"!{{{', '.join(scopes)}}}")


def note_of(w: Writer, array: ArrayRef) -> str:
    """Return the metadata of an access to elements of ``array`` that is not atomic.

    The stack is used by one thread after the other: that order counts. So does the order of additions to a sum.
    """
    if array.local or array.shared:
        return array.note
    return _sum_note(w, array.sum) if array.sum else access_group(w) + array.note


def _sum_note(w: Writer, scope: str) -> str:
    """Return the metadata of an access to a sum. Threads share its elements, so it is in no access group."""
    note = f", !alias.scope {_scopes(w, [scope])}"
    others = [s for s in (sum_scope(w, i) for i in w.options.sums) if s != scope]
    return note + (f", !noalias {_scopes(w, others)}" if others else "")


def element_address(w: Writer, array: ArrayRef, indices: list[str], *, in_bounds: bool = True) -> str:
    """Return the address of the element (or sub-array) at leading i64 ``indices``.

    There is such an element if this is ``in_bounds``; else nobody may access it, and the address is exact all the same
    modulo 2**64, so that neighbours are found from it.
    """
    nsw, inbounds = ("nsw ", "inbounds ") if in_bounds else ("", "")
    if array.strides:
        terms = [w.op(f"mul {nsw}i64 {i}, {s}") for i, s in zip(indices, array.strides, strict=False)]
        offset = functools.reduce(lambda a, b: w.op(f"add {nsw}i64 {a}, {b}"), terms)
        return w.op(f"getelementptr {inbounds}i8, {pointer(w, array)} {array.data}, i64 {offset}")
    linear = indices[0]
    for axis in range(1, len(array.shape)):
        if in_bounds and array.narrow:
            linear = _scaled(w, linear, array.shape[axis])
        else:
            linear = w.op(f"mul {nsw}i64 {linear}, {array.shape[axis]}")
        if axis < len(indices) and indices[axis] != "0":
            linear = w.op(f"add {nsw}i64 {linear}, {indices[axis]}")
    size = array.element_size
    return w.op(f"getelementptr {inbounds}[{size} x i8], {pointer(w, array)} {array.data}, i64 {linear}")


def _scaled(w: Writer, index: str, extent: str) -> str:
    """Return ``index`` times ``extent``, which fits 32 bits: one instruction of a GPU, and else several."""
    factors = [w.op(f"trunc nsw i64 {x} to i32") for x in (index, extent)]
    return w.op(f"sext i32 {w.op(f'mul nsw i32 {factors[0]}, {factors[1]}')} to i64")


def view(w: Writer, array: ArrayRef, indices: list[str]) -> ArrayRef:
    """Return the sub-array of ``array`` at leading ``indices``."""
    n = len(indices)
    t = Array(array.type.dtype, array.type.ndim - n)
    data = element_address(w, array, indices)
    return array.replace(type=t, data=data, shape=array.shape[n:], strides=array.strides[n:])


def field_view(w: Writer, array: ArrayRef, field: int) -> ArrayRef:
    """Return the array of one field of the structs in ``array``: strided, whatever ``array`` is."""
    t = array.type.dtype
    assert isinstance(t, Struct)
    offset = field_offsets(t)[field] * array.lanes
    if array.scattered:  # some of them may be no arrays
        data = w.op(f"getelementptr i8, {pointer(w, array)} {array.data}, i64 {offset}")
        array = array.replace(adjacent="")
    else:
        data = component_address(w, array.data, offset, pointer(w, array))
    part = Array(t.fields[field][1], array.type.ndim)
    return array.replace(type=part, data=data, strides=strides_of(w, array), thread_private=False, align=0)


def components(array: ArrayRef) -> ArrayRef:
    """Return the array of the components of ``array``, whose elements are vectors or matrices."""
    scalar, n = scalar_of(array.type.dtype), element_count(array.type.dtype)
    assert scalar is not None
    step, count = str(size_of(scalar) * array.lanes), str(n)
    if array.scattered:
        step, count = f"splat (i64 {step})", f"splat (i64 {count})"
    strides = (*array.strides, step) if array.strides else ()
    t, shape = Array(scalar, array.type.ndim + 1), (*array.shape, count)
    return array.replace(type=t, shape=shape, strides=strides, reduced=False, narrow=False, align=0, adjacent="")


def strides_of(w: Writer, array: ArrayRef) -> tuple[str, ...]:
    """Return the byte strides of ``array``, computed where it is contiguous."""
    if array.strides:
        return array.strides
    step = str(array.element_size)
    strides = [step]
    for extent in reversed(array.shape[1:]):
        step = w.op(f"mul nsw i64 {extent}, {step}")
        strides.insert(0, step)
    return tuple(strides)


def sliced(
    w: Writer, array: ArrayRef, start: list[str], count: list[str], step: list[str], kept: tuple[int, ...]
) -> ArrayRef:
    """Return the part of ``array`` from ``start`` on along ``kept``: contiguous where that can be seen."""
    data = element_address(w, array, start)
    strides: tuple[str, ...] = ()
    if array.strides or not _stays_contiguous(array, start, count, step, kept):
        whole = strides_of(w, array)
        pairs = [(whole[axis], by) for axis, by in zip(kept, step, strict=True)]
        # Of a step beyond the end the product may overflow: then there is one element, and nothing steps.
        strides = tuple(s if by == "1" else w.op(f"mul i64 {s}, {by}") for s, by in pairs)
    return array.replace(type=Array(array.type.dtype, len(kept)), data=data, shape=tuple(count), strides=strides)


def _stays_contiguous(
    array: ArrayRef, start: list[str], count: list[str], step: list[str], kept: tuple[int, ...]
) -> bool:
    """Whether the last dimensions are kept, the first of them in part and the others whole."""
    n = len(array.shape)
    if kept != tuple(range(n - len(kept), n)) or any(by != "1" for by in step):
        return False
    inner = zip(kept[1:], count[1:], strict=True)
    return all(start[axis] == "0" and extent == array.shape[axis] for axis, extent in inner)


def load_value(
    w: Writer, t_leaves: tuple[tuple[Scalar, int], ...], address: str, note: str, pointer: str = "ptr",
    align: int = 0,
) -> tuple[str, ...]:  # fmt: skip
    """Return the scalars of a value in memory; ``align`` where the address is not a multiple of just their sizes."""
    out = []
    for scalar, offset in t_leaves:
        mem = memory_type(scalar)
        at = component_address(w, address, offset, pointer)
        x = w.op(f"load {mem}, {pointer} {at}, align {_aligned(scalar, offset, align)}{note}")
        out.append(w.op(f"icmp ne {mem} {x}, zeroinitializer") if scalar.is_bool else x)
    return tuple(out)


def store_value(
    w: Writer, t_leaves: tuple[tuple[Scalar, int], ...], address: str, values: tuple[str, ...], note: str,
    pointer: str = "ptr", align: int = 0,
) -> None:  # fmt: skip
    """Write the scalars of a value to memory; ``align`` where the address is not a multiple of just their sizes."""
    for (scalar, offset), x in zip(t_leaves, values, strict=True):
        at = component_address(w, address, offset, pointer)
        x = w.op(f"zext {register_type(scalar)} {x} to {memory_type(scalar)}") if scalar.is_bool else x
        w.do(f"store {memory_type(scalar)} {x}, {pointer} {at}, align {_aligned(scalar, offset, align)}{note}")


def _aligned(t: Scalar, offset: int, align: int) -> int:
    """The alignment of a scalar at ``offset`` from an address that is a multiple of ``align``."""
    return math.gcd(align, offset) if align else align_of(t)


def component_address(w: Writer, address: str, offset: int, pointer: str = "ptr") -> str:
    """Return ``address`` plus a constant number of bytes."""
    return w.op(f"getelementptr inbounds i8, {pointer} {address}, i64 {offset}") if offset else address


def load_element(w: Writer, array: ArrayRef, address: str) -> tuple[str, ...]:
    """Return the element at ``address``."""
    note = note_of(w, array) + (invariant(w) if array.constant else "")
    return load_value(w, leaves(array.type.dtype), address, note, pointer(w, array), array.align)


def store_element(w: Writer, array: ArrayRef, address: str, value: tuple[str, ...]) -> None:
    """Write the element at ``address``."""
    store_value(w, leaves(array.type.dtype), address, value, note_of(w, array), pointer(w, array), array.align)


def atomic_element(w: Writer, kind: str, array: ArrayRef, address: str, value: tuple[str, ...]) -> tuple[str, ...]:
    """Update each component of the element at ``address`` atomically; return the old ones."""
    assert not array.local, "atomics on local arrays are lowered before"
    if KINDS[kind].takes:
        return _take_element(w, kind, array, address, value)
    if array.counter and KINDS[kind].sign and not (array.sum or array.thread_private):
        (t, _), (x,) = leaves(array.type.dtype)[0], value
        return where_alone(
            w,
            [register_type(t)],
            lambda: [count_plainly(w, kind, t, address, x)],
            lambda: [update_atomically(w, kind, t, address, x, pointer(w, array))],
        )
    old = []
    where = pointer(w, array)
    for (scalar, offset), x in zip(leaves(array.type.dtype), value, strict=True):
        at = component_address(w, address, offset, where)
        if KINDS[kind].sign and (array.sum or array.thread_private):
            old.append(_add_plain(w, kind, scalar, at, x, array))
        else:
            old.append(update_atomically(w, kind, scalar, at, x, where))
    return tuple(old)


def _take_element(w: Writer, kind: str, array: ArrayRef, address: str, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the element at ``address``; return the old one."""
    types = [register_type(t) for t, _ in leaves(array.type.dtype)]
    given = array, address, value
    return where_alone(w, types, lambda: exchange_plainly(w, *given), lambda: exchange_element(w, kind, *given))


def exchange_element(w: Writer, kind: str, array: ArrayRef, address: str, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace each component of the element at ``address`` by an update of this kind; return the old ones."""
    where = pointer(w, array)
    parts = ((t, component_address(w, address, offset, where)) for t, offset in leaves(array.type.dtype))
    return tuple(update_atomically(w, kind, t, at, x, where) for (t, at), x in zip(parts, value, strict=True))


def exchange_plainly(w: Writer, array: ArrayRef, address: str, value: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the element at ``address``, which no other OS thread touches meanwhile; return the old one."""
    parts = leaves(array.type.dtype)
    old = load_value(w, parts, address, "")
    store_value(w, parts, address, value, "")
    return old


def count_plainly(w: Writer, kind: str, t: Scalar, address: str, x: str) -> str:
    """Add to the integer at ``address``, which no other OS thread touches meanwhile; return the old one.

    Threads may mean the same element, and ask for its order, so this is in no access group. A loop may wait for what
    another program writes there, so each load is done, where it stands (``monotonic``).
    """
    reg, place = register_type(t), f"{w.array_pointer} {address}"
    old = w.op(f"load atomic {reg}, {place} monotonic, align {align_of(t)}")
    new = combined(w, kind, t, old, x, "")
    w.do(f"store atomic {reg} {new}, {place} monotonic, align {align_of(t)}")
    return old


def _add_plain(w: Writer, kind: str, t: Scalar, at: str, x: str, array: ArrayRef) -> str:
    """Add or subtract without atomics."""
    reg, note = register_type(t), note_of(w, array)
    old = w.op(f"load {reg}, {w.array_pointer} {at}, align {align_of(t)}{note}")
    new = added(w, kind, t, old, x, array)
    w.do(f"store {reg} {new}, {w.array_pointer} {at}, align {align_of(t)}{note}")
    return old


def added(w: Writer, kind: str, t: Scalar, old: str, x: str, array: ArrayRef) -> str:
    """Return ``old`` and ``x``, added or subtracted. What threads add to a sum has no order; a thread's own has."""
    flags = "reassoc " if array.sum and not w.options.fast_math else ""
    if is_half(t):
        wide = combined(w, kind, beside(float32, t), extend_half(w, old, t), extend_half(w, x, t), f"{flags}{w.fp}")
        return round_half(w, wide, t)
    return combined(w, kind, t, old, x, f"{flags}{w.fp}")


def update_atomically(w: Writer, kind: str, t: Scalar, at: str, x: str, pointer: str = "") -> str:
    """Update the scalar at address ``at``, of the type ``pointer`` or that of arrays; return the old one."""
    row, place = KINDS[kind], f"{pointer or w.array_pointer} {at}"
    if row.changes_if and not is_half(t) and not w.target.is_device:
        return _if_it_changes(w, row, t, at, x)
    if row.sign < 0 and t.is_float and _has_instruction(w, KINDS[row.reduction], t):
        row, x = KINDS[row.reduction], w.op(f"fneg {register_type(t)} {x}")
    if not _has_instruction(w, row, t) or (w.target.is_device and t.is_float and row.changes_if):
        return _by_swapping(w, kind, t, place, x)
    if t.is_bool:
        x = w.op(f"zext i1 {x} to i8")
    old = _read_modify_write(w, row, t, place, x)
    return w.op(f"icmp ne i8 {old}, 0") if t.is_bool else old


def _has_instruction(w: Writer, row: AtomicKind, t: Scalar) -> bool:
    """Whether the target updates a ``t`` by one instruction, as far as LLVM knows it."""
    if w.target.is_opencl and t.is_float and row.operation.floats:
        return False  # those of floats are extensions of SPIR-V
    if is_half(t) and row.operation.floats:  # else its bits alone are moved
        return t == float16 and row.rmw_of_half and w.target.is_cuda
    return bool(row.rmw.of(t))


def _read_modify_write(w: Writer, row: AtomicKind, t: Scalar, place: str, x: str) -> str:
    number = "i8" if t.is_bool else register_type(t)
    scope = _scope(w) if w.target.is_amd else ""  # PTX has the device's where nothing is said
    order = f"{scope} monotonic, align {align_of(t)}{access_group(w)}"
    return w.op(f"atomicrmw {row.rmw.of(t)} {place}, {number} {x}{order}")


def _if_it_changes(w: Writer, row: AtomicKind, t: Scalar, at: str, x: str) -> str:
    """Look first whether ``x`` changes anything: of many numbers few do, and an update takes far longer than a look.

    A float that is no number, in memory or given, goes on to the update.
    """
    reg, place = register_type(t), f"{w.array_pointer} {at}"
    seen = w.op(f"load atomic {reg}, {place} monotonic, align {align_of(t)}")
    test = "fcmp u" if t.is_float else "icmp s" if t.is_signed else "icmp u"
    changes = w.op(f"{test}{row.changes_if} {reg} {x}, {seen}")
    before, update, done = w.block, w.label("update"), w.label("updated")
    w.branch(changes, update, done)
    w.start(update)
    old = _read_modify_write(w, row, t, place, x)
    w.jump(done)
    w.start(done)
    phi = w.phis([reg])
    phi.add([seen], before)
    phi.add([old], update)
    phi.finish()
    return phi.registers[0]


def _by_swapping(w: Writer, kind: str, t: Scalar, place: str, x: str) -> str:
    """Append a compare-and-swap loop, which ends where nothing changes; 16-bit floats compute in float32."""
    bits = Scalar("int", t.bits)
    value, wide = (extend_half(w, x, t), float32) if is_half(t) else (x, t)
    compared = KINDS[kind].changes_if if w.target.is_device else ""

    def update(old_bits: str) -> str:
        old = bitcast(w, old_bits, bits, t)
        if is_half(t):
            new = round_half(w, combined(w, kind, float32, extend_half(w, old, t), value), t)
        else:
            new = combined(w, kind, t, old, value)
        return bitcast(w, new, t, bits)

    def changes(old_bits: str) -> str:
        old = bitcast(w, old_bits, bits, t)
        return w.op(f"fcmp u{compared} {register_type(wide)} {value}, {extend_half(w, old, t) if is_half(t) else old}")

    return bitcast(w, _swap_loop(w, place, bits.bits, update, changes if compared and t.is_float else None), bits, t)


def _scope(w: Writer) -> str:
    """Which threads an update is atomic for: on a GPU its own, as with the atomic instructions that it has."""
    scope = "agent" if w.target.is_amd else "device"
    return f' syncscope("{scope}")' if w.target.is_device else ""


def _swap_loop(
    w: Writer, place: str, bits: int, update: Callable[[str], str], changes: Callable[[str], str] | None
) -> str:
    """Replace the ``bits`` at ``place`` by their update, for as long as it ``changes`` them; return the old ones."""
    i, order, scope = f"i{bits}", f"align {bits // 8}", _scope(w)
    first = w.op(f"load atomic {i}, {place}{scope} monotonic, {order}")
    before, loop, done = w.block, w.label("retry"), w.label("swapped")
    w.jump(loop)
    w.start(loop)
    phi = w.phis([i])
    (old,) = phi.registers
    if changes is not None:
        swap = w.label("swap")
        w.branch(changes(old), swap, done)
        w.start(swap)
    new = update(old)
    pair = w.op(f"cmpxchg weak {place}, {i} {old}, {i} {new}{scope} monotonic monotonic, {order}")
    seen = w.op(f"extractvalue {{ {i}, i1 }} {pair}, 0")
    ok = w.op(f"extractvalue {{ {i}, i1 }} {pair}, 1")
    phi.add([first], before)
    phi.add([seen], w.block)
    phi.finish()
    w.branch(ok, done, loop)
    w.start(done)
    return old


def compare_and_swap(
    w: Writer,
    t_leaves: tuple[tuple[Scalar, int], ...],
    address: str,
    compare: tuple[str, ...],
    value: tuple[str, ...],
    pointer: str,
) -> tuple[str, ...]:
    """Store each scalar of ``value`` where the bits of the element's equal ``compare``'s; return the old element."""
    old = []
    for (t, offset), wanted, new in zip(t_leaves, compare, value, strict=True):
        bits = Scalar("int", t.bits)
        i, at = f"i{t.bits}", component_address(w, address, offset, pointer)
        a, b = bitcast(w, wanted, t, bits), bitcast(w, new, t, bits)
        order = f"{_scope(w)} monotonic monotonic, align {align_of(t)}{access_group(w)}"
        pair = w.op(f"cmpxchg {pointer} {at}, {i} {a}, {i} {b}{order}")
        old.append(bitcast(w, w.op(f"extractvalue {{ {i}, i1 }} {pair}, 0"), bits, t))
    return tuple(old)
