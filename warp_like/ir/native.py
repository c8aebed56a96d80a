"""Native code of the user: a snippet of C++ or CUDA C++, and what a compiled kernel must know to call it."""

from __future__ import annotations

from warp_like.base.frozen import Frozen
from warp_like.base.hashing import digest
from warp_like.ir.types import Struct, Type, leaf_fields


class NativeCode(Frozen):
    """A snippet as the body of a function.

    Attributes:
        name: The name of the function, for messages.
        text: The snippet, which sees the parameters by their names.
        params: Name and type of each parameter; of a struct, the dotted path and type of each field.
        result: The type of what the snippet returns, or None.
        written: The names of the array parameters that it may write; the others are constant to it.
        updated: The names of those parameters that are no arrays and that it changes: their new values are results.
        structs: Name and type of each struct that the snippet sees in place of its fields.
    """

    name: str
    text: str
    params: tuple[tuple[str, Type], ...]
    result: Type | None
    written: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    structs: tuple[tuple[str, Struct], ...] = ()

    @property
    def returned(self) -> tuple[tuple[str, Type], ...]:
        """Path and type of each part of what is returned: the fields of a struct, else all of it, without a path."""
        if isinstance(self.result, Struct):
            return tuple(leaf_fields(self.result))
        return () if self.result is None else (("", self.result),)

    @property
    def results(self) -> tuple[Type, ...]:
        """The types of the results: what is returned, then the updated parameters."""
        types = dict(self.params)
        return (*(t for _, t in self.returned), *(types[name] for name in self.updated))

    @property
    def symbol(self) -> str:
        """The name under which it is compiled: equal for equal code."""
        return f"wl_native_{digest(repr(self))[:24]}"

    def __str__(self) -> str:
        return self.name
