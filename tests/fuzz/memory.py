"""The oracle's arrays, which notice races: a program whose result depends on the order of threads is no test.

Each number in memory is a cell. Threads may share a cell if all of them only read it; if all write the same value and
none reads it; or if all update it by atomics of one commuting kind whose results nobody uses. Arrays of which a program
says that the order of threads decides something are held to less: see ``Program.unordered``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.aggregates import Aggregate, AggregateType, Struct, converted, in_range
from tests.fuzz.scalars import INT32, InvalidProgram, ScalarType, binary

MANY = -2
"""More than one thread."""
NOBODY = -1


class Cell:
    """Who did what with one number in memory."""

    __slots__ = ("adder", "kind", "reader", "used", "value", "varied", "writer")

    def __init__(self) -> None:
        self.reader = self.writer = self.adder = NOBODY
        self.kind, self.value = "", None
        self.varied = self.used = False


class Memory:
    """The cells of one launch, by address; ``thread`` is the one that runs."""

    def __init__(self, exact: bool, unordered: Sequence[tuple[np.ndarray, str]] = ()) -> None:
        self.cells: dict[int, Cell] = {}
        self.thread = 0
        self.exact = exact
        self.unordered = [(np.lib.array_utils.byte_bounds(a), how) for a, how in unordered]
        self.stored: dict[int, dict[int, Any]] = {}

    def loose(self, address: int) -> str | None:
        """What the order of threads decides there."""
        return next((how for (low, high), how in self.unordered if low <= address < high), None)

    def choices(self) -> dict[int, list[Any]]:
        """By address, the values of which any may stay: the last that each thread stored."""
        return {address: list(by_thread.values()) for address, by_thread in self.stored.items()}

    def cell(self, address: int) -> Cell:
        found = self.cells.get(address)
        if found is None:
            found = self.cells[address] = Cell()
        return found

    def joined(self, who: int) -> int:
        return self.thread if who in (NOBODY, self.thread) else MANY

    def others(self, who: int) -> bool:
        return who not in (NOBODY, self.thread)

    def read(self, address: int) -> None:
        c = self.cell(address)
        if self.loose(address) in ("free", "sorted"):
            return
        if self.others(c.writer) or self.others(c.adder):
            raise InvalidProgram("race: a read of what another thread writes")
        c.reader = self.joined(c.reader)

    def write(self, address: int, value: Any) -> None:
        c = self.cell(address)
        how = self.loose(address)
        if how in ("free", "sorted"):
            return
        if how == "any":
            self.store_any(c, address, value)
            return
        same = c.writer == NOBODY or c.value == value or (value != value and c.value != c.value)
        if self.others(c.adder) or self.others(c.reader):
            raise InvalidProgram("race: a write of what another thread uses")
        if self.others(c.writer) and (not same or c.varied or c.reader != NOBODY):
            raise InvalidProgram("race: two threads write")
        c.varied |= not same
        c.writer, c.value = self.joined(c.writer), value

    def store_any(self, c: Cell, address: int, value: Any) -> None:
        """A store of a thread beside others; no thread may have read, nor read later, unless it is the only one."""
        if self.others(c.adder) or self.others(c.reader):
            raise InvalidProgram("race: a write of what another thread uses")
        if self.others(c.writer) and c.reader != NOBODY:
            raise InvalidProgram("race: two threads write")
        c.writer = self.joined(c.writer)
        self.stored.setdefault(address, {})[self.thread] = value

    def attempt(self, address: int, value: Any) -> None:
        """An atomic that may store the value, in another order of the threads."""
        if self.loose(address) == "any":
            self.stored.setdefault(address, {})[self.thread] = value

    def update(self, address: int, kind: str, value: Any, used: bool) -> None:
        c = self.cell(address)
        if self.loose(address):
            self.attempt(address, value)
            return
        if self.others(c.writer) or self.others(c.reader):
            raise InvalidProgram("race: an atomic beside a read or a write")
        if self.others(c.adder) and (c.kind != kind or c.used or used or kind == "cas"):
            raise InvalidProgram("race: atomics that do not commute")
        if self.exact and kind == "add" and isinstance(value, np.floating):
            most = 16 if value.dtype.itemsize == 2 else 4096
            if not abs(value) <= most or (value * 64) % 1 or (value.dtype.itemsize == 2 and value % 1):
                raise InvalidProgram("a sum that rounds")
        c.used |= used
        c.adder, c.kind = self.joined(c.adder), kind


COMBINE = {
    "add": lambda old, x: binary("Add", old, x),
    "sub": lambda old, x: binary("Sub", old, x),
    "and": lambda old, x: binary("BitAnd", old, x),
    "or": lambda old, x: binary("BitOr", old, x),
    "xor": lambda old, x: binary("BitXor", old, x),
    "min": lambda old, x: x if x < old else old,
    "max": lambda old, x: x if x > old else old,
    "exch": lambda old, x: x,
}
COMMUTES = {"sub": "add", "exch": "cas"}
"""The kind that an update counts as, where that is another one."""
LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3}


class ArrayType:
    """What a parameter is annotated with."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim


class Arr:
    """An array over NumPy memory, whose last axes are the components of an element."""

    def __init__(self, a: np.ndarray, dtype: Any, memory: Memory | None) -> None:
        self.a, self.type, self.memory = a, dtype, memory
        self.parts = dtype.shape if isinstance(dtype, AggregateType) else ()
        self.ndim = a.ndim - len(self.parts)
        self.address = a.__array_interface__["data"][0]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(INT32(n) for n in self.a.shape[: self.ndim])

    @property
    def dtype(self) -> ScalarType:
        return self.type.dtype if isinstance(self.type, AggregateType) else self.type

    def __len__(self) -> int:
        return self.a.shape[0]

    def __iter__(self) -> Any:
        return (self[np.int32(i)] for i in range(len(self)))

    def field(self, name: str) -> Arr:
        return Arr(self.a[name], self.type.fields[name], self.memory)

    def indices(self, at: Any) -> tuple[Any, ...]:
        at = at if isinstance(at, tuple) else (at,)
        if len(at) > self.ndim:
            raise InvalidProgram("too many indices")
        return tuple(i if isinstance(i, slice) else self.index(i, n) for i, n in zip(at, self.a.shape, strict=False))

    def index(self, i: Any, n: int) -> int:
        if type(i) is not int and int(i) < 0:
            raise InvalidProgram("a computed index is negative")
        return in_range(i, n)

    def __getitem__(self, at: Any) -> Any:
        at = self.indices(at)
        if len(at) < self.ndim or any(isinstance(i, slice) for i in at):
            return Arr(self.a[tuple(_span(i) for i in at)], self.type, self.memory)
        return self.load(at)

    def load(self, at: tuple[int, ...]) -> Any:
        if isinstance(self.type, type):
            return self.type(*(self.field(name).load(at) for name in self.type.fields))
        if not self.parts:
            return self._read(at)
        return Aggregate(self.type, [self._read((*at, *k)) for k in np.ndindex(self.parts)])

    def __setitem__(self, at: Any, x: Any) -> None:
        at = self.indices(at)
        if len(at) < self.ndim or any(isinstance(i, slice) for i in at):
            raise InvalidProgram("a view is assigned")
        self.save(at, converted(x, self.type))

    def save(self, at: tuple[int, ...], x: Any) -> None:
        if isinstance(x, Struct):
            for name in x.fields:
                self.field(name).save(at, getattr(x, name))
        elif isinstance(x, Aggregate):
            for k, part in zip(np.ndindex(self.parts), x.parts, strict=True):
                self._write((*at, *k), part)
        else:
            self._write(at, x)

    def place(self, at: Any) -> int:
        """The address of an element."""
        return self._place(self.indices(at))

    def _place(self, at: tuple[int, ...]) -> int:
        return self.address + sum(i * s for i, s in zip(at, self.a.strides, strict=True))

    def _read(self, at: tuple[int, ...]) -> Any:
        if self.memory is not None:
            self.memory.read(self._place(at))
        return self.a[at]

    def _write(self, at: tuple[int, ...], x: Any) -> None:
        if self.memory is not None:
            self.memory.write(self._place(at), x)
        self.a[at] = x

    # --- parts of elements, and updates ---------------------------------------------------------------------

    def resolved(self, steps: list[tuple[str, Any]]) -> tuple[Arr, tuple[Any, ...], tuple[int, ...]]:
        """The array, the indices and the component that steps like ``[i].field[2]`` lead to."""
        array, at, part = self, (), ()
        for kind, what in steps:
            if kind == "." and isinstance(array.type, type):
                array = array.field(what)
            elif kind == ".":
                part += (LETTERS[what],)
            elif len(at) < array.ndim:
                at += what if isinstance(what, tuple) else (what,)
            else:
                part += what if isinstance(what, tuple) else (what,)
            if any(isinstance(i, slice) for i in at):
                array, at = array[at], ()
        return array, at, tuple(in_range(i, n) for i, n in zip(part, array.parts, strict=False))

    def store(self, steps: list[tuple[str, Any]], x: Any) -> None:
        """Assign to an element or a part of it."""
        array, at, part = self.resolved(steps)
        if not part:
            array[at] = x
            return
        at = (*array.indices(at), *part)
        array._write(at, converted(x, array.dtype))

    def update(self, steps: list[tuple[str, Any]], kind: str, x: Any, used: bool = False) -> Any:
        """An atomic update of an element or of a part of it; returns what was there."""
        array, at, part = self.resolved(steps)
        at = (*array.indices(at), *part)
        rest = itertools.product(*(range(n) for n in array.parts[len(part) :]))
        places = [(*at, *k) for k in rest]
        values = x.parts if isinstance(x, Aggregate) else [x] * len(places)
        old = [array._update(p, kind, v, used) for p, v in zip(places, values, strict=True)]
        return Aggregate(array.type, old) if isinstance(x, Aggregate) else old[0]

    def _update(self, at: tuple[int, ...], kind: str, x: Any, used: bool) -> Any:
        x = converted(x, self.dtype)
        if self.memory is not None:
            self.memory.update(self._place(at), COMMUTES.get(kind, kind), x, used)
        old = self.a[at]
        self.a[at] = COMBINE[kind](old, x)
        return old


def _span(i: Any) -> Any:
    if not isinstance(i, slice):
        return i
    return slice(*(None if k is None else int(k) for k in (i.start, i.stop, i.step)))
