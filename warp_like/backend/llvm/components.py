"""Reading and replacing components of aggregates at constant and at dynamic indices.

An index out of range counts as 0 for reading; writing there changes nothing. Few components are chosen among
by selects, which vectorise; many go through stack memory, where in lanes each component is a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from warp_like.backend.llvm.shuffle import gather, iota, scatter, splat
from warp_like.backend.llvm.values import LaneScalar, constant, leaves, register_type, vector
from warp_like.backend.llvm.writer import Writer
from warp_like.base.frozen import Frozen
from warp_like.ir.layout import align_of
from warp_like.ir.types import Mat, Scalar, Type, element_count, int64, lane_type

SELECT_LIMIT = 16


class Position(Frozen):
    """A dynamic index: its register, of an integer type of at least 32 bits, in lanes or not."""

    register: str
    type: Scalar

    def is_at(self, w: Writer, k: int) -> str:
        """Append a test for position ``k``."""
        return w.op(f"icmp eq {register_type(self.type)} {self.register}, {constant(k, self.type)}")

    def is_inside(self, w: Writer, n: int) -> str:
        """Append a test for a position among ``n``."""
        return w.op(f"icmp ult {register_type(self.type)} {self.register}, {constant(n, self.type)}")

    @property
    def test(self) -> str:
        """The LLVM type of a test."""
        return vector("i1", self.type)


Index = int | Position


def extract(w: Writer, t: Type, x: tuple[str, ...], indices: Sequence[Index]) -> tuple[str, ...]:
    """Return the component of ``x`` at ``indices``, or the row when there is one index into a matrix."""
    shape, scalar = lane_type(t), leaves(t)[0][0]
    if not isinstance(shape, Mat):
        return _pick(w, scalar, [(c,) for c in x], indices[0])
    row = _pick(w, scalar, [x[r * shape.cols : (r + 1) * shape.cols] for r in range(shape.rows)], indices[0])
    return row if len(indices) == 1 else _pick(w, scalar, [(c,) for c in row], indices[1])


def _pick(w: Writer, t: Scalar, items: list[tuple[str, ...]], index: Index) -> tuple[str, ...]:
    if isinstance(index, int):
        return items[index if 0 <= index < len(items) else 0]
    if len(items) > SELECT_LIMIT:
        return _pick_in_memory(w, t, items, index)
    reg = register_type(t)
    got = items[0]
    for k, item in enumerate(items[1:], 1):
        here = index.is_at(w, k)
        got = tuple(w.select(here, reg, a, b, index.test) for a, b in zip(item, got, strict=True))
    return got


def _pick_in_memory(w: Writer, t: Scalar, items: list[tuple[str, ...]], index: Position) -> tuple[str, ...]:
    width = len(items[0])
    memory = _Memory(w, t, [c for item in items for c in item])
    first = memory.scaled(index, width, index.is_inside(w, len(items)), 0)
    return tuple(memory.load(memory.moved(first, k)) for k in range(width))


def insert(w: Writer, t: Type, x: tuple[str, ...], value: tuple[str, ...], indices: Sequence[Index]) -> tuple[str, ...]:
    """Return ``x`` with the component (or row) at ``indices`` replaced by ``value``."""
    shape, scalar = lane_type(t), leaves(t)[0][0]
    dims = (shape.rows, shape.cols) if isinstance(shape, Mat) else (len(x),)
    width = len(value)
    if all(isinstance(i, int) for i in indices):
        return _insert_at(x, value, [i for i in indices if isinstance(i, int)], dims)
    if len(x) > SELECT_LIMIT:
        return _insert_in_memory(w, scalar, x, value, indices, dims)
    reg, out = register_type(scalar), []
    for k, old in enumerate(x):
        at = divmod(k, dims[1]) if len(dims) == 2 else (k,)
        here, by = _all(w, [_equal(w, i, n) for i, n in zip(indices, at, strict=False)])
        out.append(old if here == "false" else w.select(here, reg, value[k % width], old, by))
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
    t: Scalar,
    x: tuple[str, ...],
    value: tuple[str, ...],
    indices: Sequence[Index],
    dims: tuple[int, ...],
) -> tuple[str, ...]:
    # Components out of range are written behind the others.
    memory = _Memory(w, t, [*x, *value])
    at = memory.flat(indices, dims, len(x))
    for k, v in enumerate(value):
        memory.store(memory.moved(at, k), v)
    return tuple(memory.load(k) for k in range(len(x)))


_Test = tuple[str, str]
"""A test's register and LLVM type."""


def _equal(w: Writer, i: Index, n: int) -> _Test:
    if isinstance(i, int):
        return ("true" if i == n else "false"), "i1"
    return i.is_at(w, n), i.test


def _all(w: Writer, tests: list[_Test]) -> _Test:
    if any(t == "false" for t, _ in tests):
        return "false", "i1"
    dynamic = [t for t in tests if t[0] != "true"]
    got, by = dynamic[0] if dynamic else ("true", "i1")
    for t, other in dynamic[1:]:
        if by != other:  # one index is the same in all lanes, the other is not
            (got, by), (t, other) = ((t, other), (got, by)) if by == "i1" else ((got, by), (t, other))
            got = w.select(t, by, got, "zeroinitializer")
        else:
            got = w.op(f"and {by} {got}, {t}")
    return got, by


class InMemory:
    """A vector or matrix in stack memory, whose components are read and changed at indices that all lanes share.

    Args:
        w: Where the text goes.
        t: The type, which may have lanes.
    """

    def __init__(self, w: Writer, t: Type) -> None:
        self.w, shape = w, lane_type(t)
        self._count = element_count(shape)
        self._dims = (shape.rows, shape.cols) if isinstance(shape, Mat) else (self._count,)
        self._memory = _Memory(w, leaves(t)[0][0], [], self._count + self._dims[-1])

    def fill(self, x: tuple[str, ...]) -> None:
        """Store all components."""
        for k, c in enumerate(x):
            self._memory.store(k, c)

    def all(self) -> tuple[str, ...]:
        """Return all components."""
        return tuple(self._memory.load(k) for k in range(self._count))

    def extract(self, indices: Sequence[Index], inside: Sequence[bool]) -> tuple[str, ...]:
        """Return the component at ``indices``, or a matrix's row; ``inside`` tells which indices are in range."""
        first = self._position(indices, inside, reads=True)
        return tuple(self._memory.load(self._memory.moved(first, k)) for k in range(self._width(indices)))

    def insert(self, value: tuple[str, ...], indices: Sequence[Index], inside: Sequence[bool]) -> None:
        """Replace the component, or the row, at ``indices``: if out of range, what is behind the components."""
        first = self._position(indices, inside, reads=False)
        for k, x in enumerate(value):
            self._memory.store(self._memory.moved(first, k), x)

    def _width(self, indices: Sequence[Index]) -> int:
        return self._count // math.prod(self._dims[: len(indices)])

    def _position(self, indices: Sequence[Index], inside: Sequence[bool], *, reads: bool) -> Position:
        w, total, ok = self.w, "0", ""
        strides = (self._dims[-1], 1) if len(self._dims) == 2 else (1,)
        for index, n, stride, known in zip(indices, self._dims, strides, inside, strict=False):
            at = str(index) if isinstance(index, int) else index.register
            if not known:
                test = w.op(f"icmp ult i64 {at}, {n}")
                at = w.select(test, "i64", at, "0") if reads else at
                ok = w.op(f"and i1 {ok}, {test}") if ok else test
            scaled = w.op(f"mul i64 {at}, {stride}") if stride != 1 else at
            total = w.op(f"add i64 {total}, {scaled}") if total != "0" else scaled
        if ok and not reads:
            total = w.select(ok, "i64", total, str(self._count))
        return Position(total, int64)


class _Memory:
    """Components in stack memory; with lanes, one vector for each.

    A place is a constant or a ``Position``.
    """

    def __init__(self, w: Writer, t: Scalar, values: list[str], size: int = 0) -> None:
        self.w, self.t = w, t
        self.one = t.one if isinstance(t, LaneScalar) else t
        self.width = t.width if isinstance(t, LaneScalar) else 1
        self.align = align_of(self.one) * self.width
        self.memory = w.alloca(f"[{size or len(values)} x {self.type}]", self.align)
        for k, x in enumerate(values):
            self.store(k, x)

    @property
    def type(self) -> str:
        """The LLVM type of a component in memory."""
        return vector("i8", self.t) if self.one.is_bool else register_type(self.t)

    def scaled(self, index: Position, by: int, ok: str, otherwise: int) -> Position:
        """``index * by`` where ``ok``, else ``otherwise``."""
        w, i = self.w, register_type(index.type)
        product = w.op(f"mul {i} {index.register}, {constant(by, index.type)}") if by != 1 else index.register
        return Position(w.select(ok, i, product, constant(otherwise, index.type), index.test), index.type)

    def moved(self, index: Position, by: int) -> Position:
        i = register_type(index.type)
        at = self.w.op(f"add {i} {index.register}, {constant(by, index.type)}") if by else index.register
        return Position(at, index.type)

    def flat(self, indices: Sequence[Index], dims: tuple[int, ...], otherwise: int) -> Position:
        """The row-major position of ``indices`` in ``dims``; ``otherwise`` where it is out of range."""
        w = self.w
        t = max((i.type for i in indices if isinstance(i, Position)), key=lambda t: isinstance(t, LaneScalar))
        i = register_type(t)
        total, ok = constant(0, t), constant(True, _bool_like(t))
        strides = (dims[1], 1) if len(dims) == 2 else (1,)
        for index, n, stride in zip(indices, dims, strides, strict=False):
            register = constant(index, t) if isinstance(index, int) else self._as(index, t)
            inside = Position(register, t).is_inside(w, n)
            ok = w.op(f"and {vector('i1', t)} {ok}, {inside}")
            total = w.op(f"add {i} {total}, {w.op(f'mul {i} {register}, {constant(stride, t)}')}")
        return Position(w.select(ok, i, total, constant(otherwise, t), vector("i1", t)), t)

    def _as(self, index: Position, t: Scalar) -> str:
        """``index`` in the type ``t``, which may have lanes where the index has none."""
        w, x = self.w, index.register
        if index.type.bits != t.bits:
            how = "trunc" if index.type.bits > t.bits else "sext"
            x = w.op(f"{how} {register_type(index.type)} {x} to {vector(f'i{t.bits}', index.type)}")
        if isinstance(t, LaneScalar) and not isinstance(index.type, LaneScalar):
            x = splat(w, t, x)
        return x

    def load(self, at: int | Position) -> str:
        w = self.w
        if isinstance(at, Position) and isinstance(at.type, LaneScalar):
            x = gather(w, LaneScalar(self._stored.kind, self._stored.bits, self.width), self._lane_pointers(at))
        else:
            x = w.op(f"load {self.type}, ptr {self._address(at)}, align {self.align}")
        return w.op(f"icmp ne {self.type} {x}, zeroinitializer") if self.one.is_bool else x

    def store(self, at: int | Position, x: str) -> None:
        w = self.w
        x = w.op(f"zext {register_type(self.t)} {x} to {self.type}") if self.one.is_bool else x
        if isinstance(at, Position) and isinstance(at.type, LaneScalar):
            scatter(w, LaneScalar(self._stored.kind, self._stored.bits, self.width), self._lane_pointers(at), x)
        else:
            w.do(f"store {self.type} {x}, ptr {self._address(at)}, align {self.align}")

    @property
    def _stored(self) -> Scalar:
        return Scalar("uint", 8) if self.one.is_bool else self.one

    def _address(self, at: int | Position) -> str:
        index = f"i64 {at}" if isinstance(at, int) else f"{register_type(at.type)} {at.register}"
        return self.w.op(f"getelementptr inbounds {self.type}, ptr {self.memory}, {index}")

    def _lane_pointers(self, at: Position) -> str:
        w, t = self.w, at.type
        assert isinstance(t, LaneScalar)
        i = register_type(t)
        offset = w.op(f"mul {i} {at.register}, {constant(self.width, t)}")
        offset = w.op(f"add {i} {offset}, {iota(t)}")
        size = align_of(self.one)
        return w.op(f"getelementptr [{size} x i8], ptr {self.memory}, {i} {offset}")


def _bool_like(t: Scalar) -> Scalar:
    return LaneScalar("bool", 8, t.width) if isinstance(t, LaneScalar) else Scalar("bool", 8)
