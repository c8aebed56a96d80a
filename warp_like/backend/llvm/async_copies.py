"""Asynchronous copies from memory to shared memory: ``cp.async`` (PTX ISA, since sm_80).

A copy may have fewer bytes to read than to write: the others are zeros. So what is not there is not read, and its
address may be any.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warp_like.backend.llvm.block import SHARED
from warp_like.backend.llvm.memory import component_address, element_address
from warp_like.backend.llvm.writer import Writer
from warp_like.ir import ops

if TYPE_CHECKING:
    from warp_like.backend.llvm.lower import Lowering

_WHOLE = 16
"""The bytes of a copy of several elements, of which its addresses are multiples."""


def lower_async_copy(lowering: Lowering, o: ops.AsyncCopy) -> None:
    """Begin to copy an element for each of ``o.inside``.

    Several take 16 bytes. They are copied at once where all are inside and their address allows it, else one by one.
    """
    w, to, source = lowering.w, lowering.address(o, o.out, [o.index]), lowering.array(o.array)
    start = element_address(w, source, [lowering.index(i) for i in o.indices], in_bounds=False)
    size, inside = source.element_size, [lowering.scalar(v) for v in o.inside]
    if len(inside) == 1:
        _copy_one(w, to, start, size, inside[0])
        return
    assert size * len(inside) == _WHOLE
    there = functools.reduce(lambda a, b: w.op(f"and i1 {a}, {b}"), inside)
    low = w.op(f"and i64 {w.op(f'ptrtoint {w.array_pointer} {start} to i64')}, {_WHOLE - 1}")
    fits = w.op(f"icmp eq i64 {low}, 0")
    whole, parts, done = w.label("whole"), w.label("elements"), w.label("begun")
    w.branch(w.op(f"and i1 {there}, {fits}"), whole, parts, likely=True)
    w.start(whole)
    _call(w, f"cp.async.cg.shared.global.{_WHOLE}", [SHARED, w.array_pointer], [to, start])
    w.jump(done)
    w.start(parts)
    for k, is_inside in enumerate(inside):
        place = w.op(f"getelementptr i8, {w.array_pointer} {start}, i64 {size * k}")
        _copy_one(w, component_address(w, to, size * k, SHARED), place, size, is_inside)
    w.jump(done)
    w.start(done)


def _copy_one(w: Writer, to: str, start: str, size: int, inside: str) -> None:
    """Copy an element; one that is too short for an asynchronous copy is read and written here."""
    if size >= 4:
        count = w.select(inside, "i32", str(size), "0")
        _call(w, f"cp.async.ca.shared.global.{size}.s", [SHARED, w.array_pointer, "i32"], [to, start, count])
        return
    t = f"i{8 * size}"
    before, read, put = w.block, w.label("read"), w.label("put")
    w.branch(inside, read, put)
    w.start(read)
    found = w.op(f"load {t}, {w.array_pointer} {start}, align {size}")
    w.jump(put)
    w.start(put)
    phi = w.phis([t])
    phi.add(["0"], before)
    phi.add([found], read)
    phi.finish()
    w.do(f"store {t} {phi.registers[0]}, {SHARED} {to}, align {size}")


def lower_await_copies(lowering: Lowering, o: ops.AwaitCopies) -> None:
    """Wait for the thread's copies."""
    _call(lowering.w, "cp.async.wait.all", [], [])


def _call(w: Writer, name: str, types: Sequence[str], args: Sequence[str]) -> None:
    name = f"llvm.nvvm.{name}"
    w.declare(name, f"void @{name}({', '.join(types)})")
    given = ", ".join(f"{t} {a}" for t, a in zip(types, args, strict=True))
    w.do(f"call void @{name}({given})")
