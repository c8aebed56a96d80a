"""Arguments that are no NumPy arrays: indexed arrays, and arrays of structs that hold arrays.

A program's setup describes them over memory of NumPy. ``indirect.py`` makes the oracle's arrays of the descriptions,
and ``Hosted`` those of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Selected:
    """The elements of ``data`` that arrays of indices select, one for each dimension; None takes a dimension whole.

    Attributes:
        dtype: The name of the element type.
    """

    def __init__(self, data: np.ndarray, indices: Sequence[np.ndarray | None], dtype: str) -> None:
        self.data, self.indices, self.dtype = data, list(indices), dtype


class Nested:
    """An array of structs of which each holds arrays of its own.

    Attributes:
        struct: The name of the struct.
        values: The fields that are no arrays.
        arrays: For each other field the arrays of all elements, which may be nested again.
    """

    def __init__(self, struct: str, values: np.ndarray, arrays: dict[str, list[Any]]) -> None:
        self.struct, self.values, self.arrays = struct, values, arrays


class Hosted:
    """Arguments as the package takes them.

    Attributes:
        args: The arguments; NumPy arrays and numbers stay as they are.
    """

    def __init__(self, args: Sequence[Any], names: dict[str, Any]) -> None:
        self.names = names
        self._made: list[tuple[Nested, Any]] = []
        self.args = [self.argument(a) for a in args]

    def argument(self, a: Any) -> Any:
        """One argument, over the same memory where that is possible."""
        import warp_like as wp

        if isinstance(a, Selected):
            data = wp.array(a.data, dtype=getattr(wp, a.dtype), copy=False)
            return wp.indexedarray(data, [None if i is None else wp.array(i, dtype=wp.int32) for i in a.indices])
        return self.nested(a) if isinstance(a, Nested) else a

    def nested(self, a: Nested) -> Any:
        """An array of structs, whose own fields are copies."""
        import warp_like as wp

        struct = self.names[a.struct]
        elements = []
        for k, row in enumerate(a.values):
            inner = {name: self.argument(arrays[k]) for name, arrays in a.arrays.items()}
            elements.append(struct(**{name: row[name].item() for name in a.values.dtype.names}, **inner))
        made = wp.array(elements, dtype=struct)
        self._made.append((a, made))
        return made

    def fetch(self) -> None:
        """Bring back what a launch has written to copies."""
        for a, made in self._made:
            for name in a.values.dtype.names:
                a.values[name] = made.numpy()[name]
