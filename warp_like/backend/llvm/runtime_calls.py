"""Calls from kernels to the runtime: the per-thread stack, printing, reports of errors.

The CPU's context begins with ``{ char* stack; int64 top; int64 capacity; ... }``; the ``wl_*`` functions are the
native extension's. CUDA prints through ``vprintf``; its stack and its reports are in ``cuda``.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm import cuda
from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.memory import load_value, store_value
from warp_like.backend.llvm.values import leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.base.contract import CONTEXT
from warp_like.base.faults import FAULTS, encode
from warp_like.base.loc import current_loc
from warp_like.ir.layout import size_of
from warp_like.ir.objects import mark_of
from warp_like.ir.types import (
    Lanes,
    Mat,
    Scalar,
    Type,
    bfloat16,
    element_count,
    float32,
    float64,
    int32,
    int64,
    uint64,
)

RUNTIME_SYMBOLS = (
    "wl_stack_grow",
    "wl_local_memory",
    "wl_lane_partials",
    "wl_is_live",
    "wl_tree_ray",
    "wl_tree_rays",
    "wl_tree_point",
    "wl_next_in_box",
    "wl_poll",
    "wl_fail",
    "wl_breakpoint",
    "wl_print_begin",
    "wl_print_bool",
    "wl_print_i64",
    "wl_print_u64",
    "wl_print_f64",
    "wl_print_format_i64",
    "wl_print_format_f64",
    "wl_print_str",
    "wl_print_end",
)
"""Every function that compiled CPU code may call in the native extension."""

_AT = CONTEXT.offsets


def push(w: Writer, t: Type, value: tuple[str, ...]) -> None:
    """Save a value on the thread's stack, growing it where it is full; values lie there without gaps."""
    size = size_of(t)
    top = _field(w, "top")
    end = w.op(f"add nuw nsw i64 {top}, {size}")
    fits = w.op(f"icmp sle i64 {end}, {_field(w, 'capacity')}")
    grow, ready = w.label("grow"), w.label("ready")
    w.branch(fits, ready, grow, likely=True)
    w.start(grow)
    w.declare("wl_stack_grow", "void @wl_stack_grow(ptr, i64)")
    w.do(f"call void @wl_stack_grow(ptr %ctx, i64 {size}) {w.attributes('nounwind cold')}")
    w.jump(ready)
    w.start(ready)
    stack = w.op(f"load ptr, ptr {_field_address(w, 'stack')}, align 8")
    store_value(w, _stack_leaves(t), w.op(f"getelementptr inbounds i8, ptr {stack}, i64 {top}"), value, "", align=1)
    w.do(f"store i64 {end}, ptr {_field_address(w, 'top')}, align 8")


def pop(w: Writer, t: Type) -> tuple[str, ...]:
    """Take back the value saved last."""
    top = w.op(f"sub nuw nsw i64 {_field(w, 'top')}, {size_of(t)}")
    stack = w.op(f"load ptr, ptr {_field_address(w, 'stack')}, align 8")
    value = load_value(w, _stack_leaves(t), w.op(f"getelementptr inbounds i8, ptr {stack}, i64 {top}"), "", align=1)
    w.do(f"store i64 {top}, ptr {_field_address(w, 'top')}, align 8")
    return value


def _stack_leaves(t: Type) -> tuple[tuple[Scalar, int], ...]:
    """Return the scalars of a value with their places on the stack, where all lanes of one lie together."""
    width = t.width if isinstance(t, Lanes) else 1
    return tuple((s, offset * width) for s, offset in leaves(t))


def _field_address(w: Writer, name: str) -> str:
    return w.op(f"getelementptr inbounds i8, ptr %ctx, i64 {_AT[name]}")


def _field(w: Writer, name: str) -> str:
    return w.op(f"load i64, ptr {_field_address(w, name)}, align 8")


# --- errors ---------------------------------------------------------------------------------------------------

Number = tuple[Scalar, str]
"""A scalar in a register."""


def leave(w: Writer, kind: str, text: str, values: Sequence[Number], thread: str) -> None:
    """Report an error and leave the entry point; ends the block. ``kind`` is one of ``FAULTS``."""
    encoded = encode(text, "".join(_letter(t) for t, _ in values), current_loc(), w.run)
    if w.target.is_device:
        cuda.fail(w, FAULTS[kind].code, encoded, values, thread)
        return
    buffer = w.alloca(f"[{max(len(values), 1)} x i64]", 8)
    for i, (t, x) in enumerate(values):
        at = w.op(f"getelementptr inbounds i8, ptr {buffer}, i64 {8 * i}")
        if t.is_float:
            w.do(f"store double {cast(w, x, t, float64)}, ptr {at}, align 8")
        else:
            w.do(f"store i64 {cast(w, x, t, int64 if t.is_signed else uint64)}, ptr {at}, align 8")
    w.declare("wl_fail", "void @wl_fail(ptr, i32, ptr, i64, i32, ptr)")
    given = f"ptr %ctx, i32 {FAULTS[kind].code}, ptr {w.string(encoded)}, i64 {thread}, i32 {len(values)}, ptr {buffer}"
    w.do(f"call void @wl_fail({given}) {w.attributes('nounwind cold')}")
    w.do("ret void")


def _letter(t: Scalar) -> str:
    if t.is_float:
        return "f" if t.bits <= 32 else "d"
    return "b" if t.is_bool else "i" if t.is_signed else "u"


def breakpoint_(w: Writer) -> None:
    """Stop in a debugger."""
    if w.target.is_cuda:
        w.do('call void asm sideeffect "brkpt;", ""()')
        return
    w.declare("wl_breakpoint", "void @wl_breakpoint(ptr)")
    w.do(f"call void @wl_breakpoint(ptr %ctx) {w.attributes('nounwind')}")


def is_live(w: Writer, id: str, kind: int) -> str:
    """Whether ``id`` is that of a live object: the runtime knows; on CUDA the mark at its address tells."""
    if w.target.is_device:
        mark = w.op(f"load i64, {w.array_pointer} {w.op(f'inttoptr i64 {id} to {w.array_pointer}')}, align 8")
        return w.op(f"icmp eq i64 {mark}, {mark_of(kind)}")
    w.declare("wl_is_live", "i32 @wl_is_live(i64, i32)")
    found = w.op(f"call i32 @wl_is_live(i64 {id}, i32 {kind}) {w.attributes('nounwind')}")
    return w.op(f"icmp ne i32 {found}, 0")


# --- printing -----------------------------------------------------------------------------------------------


Piece = str | tuple[Scalar, str, str]
"""Text, or a scalar in a register with its C format, empty for the shortest form."""


def print_values(
    w: Writer, parts: tuple[str, ...], args: list[tuple[Type, tuple[str, ...]]], formats: tuple[str, ...]
) -> None:
    """Print ``args`` with ``parts`` around them, as one piece."""
    pieces: list[Piece] = [parts[0]]
    for part, (t, rep), form in zip(parts[1:], args, formats or ("",) * len(args), strict=True):
        pieces += [(*p, form) if not isinstance(p, str) else p for p in _pieces(t, rep)]
        pieces.append(part)
    if w.target.is_cuda:
        _vprintf(w, pieces)
    else:
        _print_through_context(w, pieces)


def _pieces(t: Type, rep: tuple[str, ...]) -> list[str | tuple[Scalar, str]]:
    """Return a value's text as strings and scalars: ``[a, b]`` for a vec, ``[[a, b], [c, d]]`` for a mat."""
    scalars = [s for s, _ in leaves(t)]
    if isinstance(t, Scalar):
        return [(scalars[0], rep[0])]
    row = t.cols if isinstance(t, Mat) else element_count(t)
    out: list[str | tuple[Scalar, str]] = ["[" * (2 if isinstance(t, Mat) else 1)]
    for i, (s, x) in enumerate(zip(scalars, rep, strict=True)):
        if i:
            out.append(", " if i % row else "], [")
        out.append((s, x))
    return [*out, "]" * (2 if isinstance(t, Mat) else 1)]


def _print_through_context(w: Writer, pieces: list[Piece]) -> None:
    def call(name: str, *args: str) -> None:
        types = ["ptr", *(a.split(" ", 1)[0] for a in args)]
        w.declare(name, f"void @{name}({', '.join(types)})")
        w.do(f"call void @{name}({', '.join(['ptr %ctx', *args])}) {w.attributes('nounwind')}")

    call("wl_print_begin")
    for piece in pieces:
        if isinstance(piece, str):
            if piece:
                call("wl_print_str", f"ptr {w.string(piece)}")
            continue
        s, x, form = piece
        if form:
            type, x = _formatted(w, s, x, form)
            call(f"wl_print_format_{'f64' if type == 'double' else 'i64'}", f"ptr {w.string(form)}", f"{type} {x}")
        elif s.is_bool:
            call("wl_print_bool", f"i32 {cast(w, x, s, int32)}")
        elif s.is_float:
            call("wl_print_f64", f"double {cast(w, x, s, float64)}", f"i32 {-16 if s == bfloat16 else s.bits}")
        elif s.is_signed:
            call("wl_print_i64", f"i64 {cast(w, x, s, int64)}")
        else:
            call("wl_print_u64", f"i64 {cast(w, x, s, uint64)}")
    call("wl_print_end")


def _formatted(w: Writer, s: Scalar, x: str, form: str) -> tuple[str, str]:
    """A scalar as C's ``printf`` takes it for ``form``: a double, or a long long of the conversion's signedness."""
    if form[-1] in "aAeEfFgG":
        return "double", cast(w, x, s, float64)
    if form[-1] in "uoxX" and s.is_signed:
        s = Scalar("uint", s.bits)  # as C converts: -1 is the largest unsigned integer of its width
    return "i64", cast(w, x, s, int64 if s.is_signed else uint64)


def _vprintf(w: Writer, pieces: list[Piece]) -> None:
    form, values = "", []
    for piece in pieces:
        if isinstance(piece, str):
            form += piece.replace("%", "%%")
            continue
        s, x, given = piece
        if given:
            form, value = form + given, _formatted(w, s, x, given)
            if given[-1] == "c":
                value = ("i32", w.op(f"trunc i64 {value[1]} to i32"))
        elif s.is_bool:
            text = w.select(x, "ptr", w.string("True"), w.string("False"))
            form, value = form + "%s", ("ptr", text)
        elif s.is_float:
            form, value = (
                form + ("%g" if s.bits <= float32.bits else "%.17g"),
                ("double", cast(w, x, s, float64)),
            )
        else:
            to = int64 if s.is_signed else uint64
            form, value = form + ("%lld" if s.is_signed else "%llu"), ("i64", cast(w, x, s, to))
        values.append(value)
    buffer = w.alloca(f"[{max(len(values), 1)} x i64]", 8)
    at = 0
    for t, x in values:  # each at its natural alignment, as C passes them
        size = 4 if t == "i32" else 8
        at = (at + size - 1) // size * size
        w.do(f"store {t} {x}, ptr {w.op(f'getelementptr inbounds i8, ptr {buffer}, i64 {at}')}, align {size}")
        at += size
    w.declare("vprintf", "i32 @vprintf(ptr, ptr)")
    text = w.string(form)
    w.op(f"call i32 @vprintf(ptr {text}, ptr {buffer})")
