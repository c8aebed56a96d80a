"""Reading and replacing components of aggregates at constant and at dynamic indices.

An index out of range counts as 0 for reading; writing there changes nothing. Few components are chosen among
by selects, which vectorise; many go through stack memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.backend.llvm.values import leaves, register_type
from warp_like.backend.llvm.writer import Writer
from warp_like.ir.layout import align_of
from warp_like.ir.types import Mat, Type, scalar_of

SELECT_LIMIT = 16

Index = int | str


def extract(w: Writer, t: Type, x: tuple[str, ...], indices: Sequence[Index]) -> tuple[str, ...]:
    """Return the component of ``x`` at ``indices``, or the row when there is one index into a matrix."""
    if not isinstance(t, Mat):
        return _pick(w, t, [(c,) for c in x], indices[0])
    row = _pick(w, t, [x[r * t.cols : (r + 1) * t.cols] for r in range(t.rows)], indices[0])
    return row if len(indices) == 1 else _pick(w, t, [(c,) for c in row], indices[1])


def _pick(w: Writer, t: Type, items: list[tuple[str, ...]], index: Index) -> tuple[str, ...]:
    if isinstance(index, int):
        return items[index if 0 <= index < len(items) else 0]
    if len(items) > SELECT_LIMIT:
        return _pick_in_memory(w, t, items, index)
    reg = _register(t)
    got = items[0]
    for k, item in enumerate(items[1:], 1):
        here = w.op(f"icmp eq i64 {index}, {k}")
        got = tuple(w.select(here, reg, a, b) for a, b in zip(item, got, strict=True))
    return got


def _pick_in_memory(w: Writer, t: Type, items: list[tuple[str, ...]], index: str) -> tuple[str, ...]:
    width = len(items[0])
    memory = _spill(w, t, [c for item in items for c in item])
    inside = w.op(f"icmp ult i64 {index}, {len(items)}")
    first = w.op(f"mul i64 {w.select(inside, 'i64', index, '0')}, {width}")
    return tuple(_reload(w, t, memory, w.op(f"add i64 {first}, {k}")) for k in range(width))


def insert(w: Writer, t: Type, x: tuple[str, ...], value: tuple[str, ...], indices: Sequence[Index]) -> tuple[str, ...]:
    """Return ``x`` with the component (or row) at ``indices`` replaced by ``value``."""
    dims = (t.rows, t.cols) if isinstance(t, Mat) else (len(x),)
    width = len(value)
    if all(isinstance(i, int) for i in indices):
        return _insert_at(x, value, [int(i) for i in indices], dims)
    if len(x) > SELECT_LIMIT:
        return _insert_in_memory(w, t, x, value, indices, dims)
    reg, out = _register(t), []
    for k, old in enumerate(x):
        at = divmod(k, dims[1]) if len(dims) == 2 else (k,)
        here = _all(w, [_equal(w, i, n) for i, n in zip(indices, at, strict=False)])
        out.append(old if here == "false" else w.select(here, reg, value[k % width], old))
    return tuple(out)


def _insert_at(
    x: tuple[str, ...], value: tuple[str, ...], indices: list[int], dims: tuple[int, ...]
) -> tuple[str, ...]:
    if not all(0 <= i < n for i, n in zip(indices, dims, strict=False)):
        return x
    first = indices[0] if len(dims) == 1 else indices[0] * dims[1] + (indices[1] if len(indices) == 2 else 0)
    return x[:first] + value + x[first + len(value) :]


def _insert_in_memory(
    w: Writer,
    t: Type,
    x: tuple[str, ...],
    value: tuple[str, ...],
    indices: Sequence[Index],
    dims: tuple[int, ...],
) -> tuple[str, ...]:
    inside = _all(w, [w.op(f"icmp ult i64 {i}, {n}") for i, n in zip(indices, dims, strict=False)])
    first = str(indices[0])
    if len(dims) == 2:
        first = w.op(f"mul i64 {first}, {dims[1]}")
    if len(indices) == 2:
        first = w.op(f"add i64 {first}, {indices[1]}")
    # What lies out of range is written behind the components.
    memory = _spill(w, t, [*x, *value])
    at = w.select(inside, "i64", first, str(len(x)))
    for k, v in enumerate(value):
        address = _component(w, t, memory, w.op(f"add i64 {at}, {k}"))
        w.do(f"store {_register(t)} {v}, ptr {address}, align {_align(t)}")
    return tuple(_reload(w, t, memory, str(k)) for k in range(len(x)))


def _equal(w: Writer, i: Index, n: int) -> str:
    if isinstance(i, int):
        return "true" if i == n else "false"
    return w.op(f"icmp eq i64 {i}, {n}")


def _all(w: Writer, tests: list[str]) -> str:
    if "false" in tests:
        return "false"
    dynamic = [t for t in tests if t != "true"]
    got = dynamic[0] if dynamic else "true"
    for t in dynamic[1:]:
        got = w.op(f"and i1 {got}, {t}")
    return got


def _register(t: Type) -> str:
    return register_type(leaves(t)[0][0])


def _align(t: Type) -> int:
    scalar = scalar_of(t)
    assert scalar is not None
    return align_of(scalar)


def _spill(w: Writer, t: Type, values: list[str]) -> str:
    memory = w.alloca(f"[{len(values)} x {_register(t)}]", _align(t))
    for k, x in enumerate(values):
        w.do(f"store {_register(t)} {x}, ptr {_component(w, t, memory, str(k))}, align {_align(t)}")
    return memory


def _reload(w: Writer, t: Type, memory: str, index: str) -> str:
    return w.op(f"load {_register(t)}, ptr {_component(w, t, memory, index)}, align {_align(t)}")


def _component(w: Writer, t: Type, memory: str, index: str) -> str:
    return w.op(f"getelementptr inbounds {_register(t)}, ptr {memory}, i64 {index}")
