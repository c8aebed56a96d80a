"""What kernels ask of the runtime: the per-thread stack, printing, reports of bad indices.

The context begins with ``{ char* stack; int64 top; int64 capacity; ... }``; the ``wl_*`` functions are the
native extension's. CUDA has no context: it prints through ``vprintf`` and has no stack.
"""

from __future__ import annotations

from warp_like.backend.llvm.casts import cast
from warp_like.backend.llvm.memory import load_value, store_value
from warp_like.backend.llvm.values import leaves
from warp_like.backend.llvm.writer import Writer
from warp_like.base.errors import WarpCodegenError
from warp_like.ir.layout import size_of
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
    "wl_error",
    "wl_print_begin",
    "wl_print_bool",
    "wl_print_i64",
    "wl_print_u64",
    "wl_print_f64",
    "wl_print_str",
    "wl_print_end",
)
"""Every function that compiled CPU code may call in the native extension."""

INDEX_OUT_OF_RANGE = 16
"""The code that ``wl_error`` gets for an array index out of range (those below 16 are the runtime's own)."""

_STACK, _TOP, _CAPACITY = 0, 8, 16


def push(w: Writer, t: Type, value: tuple[str, ...]) -> None:
    """Save a value on the thread's stack, growing it where it is full."""
    _require_stack(w)
    size = _slot(t)
    top = _field(w, _TOP)
    end = w.op(f"add nuw nsw i64 {top}, {size}")
    fits = w.op(f"icmp sle i64 {end}, {_field(w, _CAPACITY)}")
    grow, ready = w.label("grow"), w.label("ready")
    w.branch(fits, ready, grow, likely=True)
    w.start(grow)
    w.declare("wl_stack_grow", "void @wl_stack_grow(ptr, i64)")
    w.do(f"call void @wl_stack_grow(ptr %ctx, i64 {size}) {w.attributes('nounwind cold')}")
    w.jump(ready)
    w.start(ready)
    stack = w.op("load ptr, ptr %ctx, align 8")
    store_value(w, _stack_leaves(t), w.op(f"getelementptr inbounds i8, ptr {stack}, i64 {top}"), value, "")
    w.do(f"store i64 {end}, ptr {_field_address(w, _TOP)}, align 8")


def pop(w: Writer, t: Type) -> tuple[str, ...]:
    """Take back the value saved last."""
    _require_stack(w)
    top = w.op(f"sub nuw nsw i64 {_field(w, _TOP)}, {_slot(t)}")
    stack = w.op("load ptr, ptr %ctx, align 8")
    value = load_value(w, _stack_leaves(t), w.op(f"getelementptr inbounds i8, ptr {stack}, i64 {top}"), "")
    w.do(f"store i64 {top}, ptr {_field_address(w, _TOP)}, align 8")
    return value


def _stack_leaves(t: Type) -> tuple[tuple[Scalar, int], ...]:
    """Return the scalars of a value with their places on the stack, where all lanes of one lie together."""
    width = t.width if isinstance(t, Lanes) else 1
    return tuple((s, offset * width) for s, offset in leaves(t))


def _slot(t: Type) -> int:
    return (size_of(t) + 7) // 8 * 8


def _field_address(w: Writer, offset: int) -> str:
    return w.op(f"getelementptr inbounds i8, ptr %ctx, i64 {offset}")


def _field(w: Writer, offset: int) -> str:
    return w.op(f"load i64, ptr {_field_address(w, offset)}, align 8")


def _require_stack(w: Writer) -> None:
    if w.target.is_cuda:
        raise WarpCodegenError(
            "the gradient of this loop saves values whose number is known only at run time, which CUDA does "
            "not support yet",
            help="give the loop a constant range, or differentiate on the CPU",
        )


def leave_at_bad_index(w: Writer, where: int, thread: str) -> None:
    """Report an index out of range and leave the entry point; ends the block."""
    w.declare("wl_error", "void @wl_error(ptr, i32, i32, i64)")
    how = w.attributes("nounwind cold")
    w.do(f"call void @wl_error(ptr %ctx, i32 {INDEX_OUT_OF_RANGE}, i32 {where}, i64 {thread}) {how}")
    w.do("ret void")


# --- printing -----------------------------------------------------------------------------------------------


def print_values(w: Writer, parts: tuple[str, ...], args: list[tuple[Type, tuple[str, ...]]]) -> None:
    """Print ``args`` with ``parts`` around them, as one line."""
    parts = (*parts[:-1], parts[-1].removesuffix("\n"))  # ending the line is the printer's part
    pieces: list[str | tuple[Scalar, str]] = [parts[0]]
    for part, (t, rep) in zip(parts[1:], args, strict=True):
        pieces += _pieces(t, rep)
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


def _print_through_context(w: Writer, pieces: list[str | tuple[Scalar, str]]) -> None:
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
        s, x = piece
        if s.is_bool:
            call("wl_print_bool", f"i32 {cast(w, x, s, int32)}")
        elif s.is_float:
            call("wl_print_f64", f"double {cast(w, x, s, float64)}", f"i32 {-16 if s == bfloat16 else s.bits}")
        elif s.is_signed:
            call("wl_print_i64", f"i64 {cast(w, x, s, int64)}")
        else:
            call("wl_print_u64", f"i64 {cast(w, x, s, uint64)}")
    call("wl_print_end")


def _vprintf(w: Writer, pieces: list[str | tuple[Scalar, str]]) -> None:
    form, values = "", []
    for piece in pieces:
        if isinstance(piece, str):
            form += piece.replace("%", "%%")
            continue
        s, x = piece
        if s.is_bool:
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
    for i, (t, x) in enumerate(values):
        w.do(f"store {t} {x}, ptr {w.op(f'getelementptr inbounds i8, ptr {buffer}, i64 {8 * i}')}, align 8")
    w.declare("vprintf", "i32 @vprintf(ptr, ptr)")
    text = w.string(form + "\n")
    w.op(f"call i32 @vprintf(ptr {text}, ptr {buffer})")
