"""The oracle's indexed arrays, and its arrays of structs that hold arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.aggregates import Struct
from tests.fuzz.arguments import Nested, Selected
from tests.fuzz.memory import Arr, ArrayType, Memory
from tests.fuzz.scalars import INT32, TYPES, InvalidProgram


class SelectedArr(Arr):
    """Elements of an array, chosen by ``chosen``, one array of indices for each dimension."""

    def __init__(self, a: np.ndarray, dtype: Any, memory: Memory | None, chosen: list[Any]) -> None:
        super().__init__(a, dtype, memory)
        every = [np.arange(n) for n in a.shape[: self.ndim]]
        chosen = [*chosen, *[None] * (self.ndim - len(chosen))]
        self.chosen = [e if c is None else c for c, e in zip(chosen, every, strict=True)]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(INT32(len(c)) for c in self.chosen)

    def __len__(self) -> int:
        return len(self.chosen[0])

    def indices(self, at: Any) -> tuple[Any, ...]:
        at = at if isinstance(at, tuple) else (at,)
        if len(at) > self.ndim:
            raise InvalidProgram("too many indices")
        pairs = zip(at, self.chosen, strict=False)
        return tuple(i if isinstance(i, slice) else int(c[self.index(i, len(c))]) for i, c in pairs)

    def __getitem__(self, at: Any) -> Any:
        at = self.indices(at)
        spans = [i for i in at if isinstance(i, slice)]
        if len(at) == self.ndim and not spans:
            return self.load(at)
        first = tuple(i for i in at if not isinstance(i, slice))
        if any(isinstance(i, slice) for i in at[: len(first)]):
            raise InvalidProgram("an index after a slice")
        chosen = list(self.chosen[len(first) :])
        for k, span in enumerate(spans):
            chosen[k] = chosen[k][slice(*(None if b is None else int(b) for b in (span.start, span.stop, span.step)))]
        return SelectedArr(self.a[first], self.type, self.memory, chosen)


class NestedArr(Arr):
    """An array of structs; each holds arrays of its own."""

    def __init__(self, given: Nested, struct: Any, memory: Memory | None) -> None:
        super().__init__(given.values, struct, memory)
        self.own = Arr(given.values, struct, memory)
        self.arrays = {
            name: [parameter(a, struct.fields[name], memory) for a in arrays] for name, arrays in given.arrays.items()
        }

    def __getitem__(self, at: Any) -> Any:
        (i,) = self.indices(at)
        return Element(self, i)

    def resolved(self, steps: list[tuple[str, Any]]) -> tuple[Arr, tuple[Any, ...], tuple[int, ...]]:
        if len(steps) > 1 and steps[1][1] in self.arrays:
            (i,) = self.indices(steps[0][1])
            if len(steps) < 3:
                raise InvalidProgram("an array field is assigned")
            return self.arrays[steps[1][1]][i].resolved(steps[2:])
        return self.own.resolved(steps)

    def store(self, steps: list[tuple[str, Any]], x: Any) -> None:
        if len(steps) > 1:
            super().store(steps, x)
            return
        (i,) = self.indices(steps[0][1])
        for name in x.fields:
            if name not in self.arrays:
                self.own.field(name).save((i,), getattr(x, name))
            elif getattr(x, name) is not self.arrays[name][i]:
                raise InvalidProgram("an array field is changed")


class Element(Struct):
    """An element that is not loaded yet; ``copy`` does."""

    def __init__(self, array: NestedArr, i: int) -> None:
        self._array, self._i = array, i

    def __getattr__(self, name: str) -> Any:
        if name in self._array.arrays:
            return self._array.arrays[name][self._i]
        if name not in self._array.type.fields:
            raise AttributeError(name)
        return self._array.own.field(name).load((self._i,))

    def copy(self) -> Struct:
        t = self._array.type
        made: Struct = t(*(getattr(self, name) for name in t.fields))
        return made


def parameter(a: Any, t: ArrayType, memory: Memory | None) -> Arr:
    """The oracle's array for an argument of the type."""
    if isinstance(a, Selected):
        return SelectedArr(a.data, t.dtype, memory, a.indices)
    if isinstance(a, Nested):
        return NestedArr(a, t.dtype, memory)
    return Arr(a, TYPES[a.dtype.name] if t.dtype is Any else t.dtype, memory)
