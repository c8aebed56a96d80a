"""Native code of the user: a snippet of C++ or CUDA C++, and what a compiled kernel must know to call it."""

from __future__ import annotations

from warp_like.base.frozen import Frozen
from warp_like.base.hashing import digest
from warp_like.ir.types import Type


class NativeCode(Frozen):
    """A snippet as the body of a function.

    Attributes:
        name: The name of the function, for messages.
        text: The snippet, which sees the parameters by their names.
        params: Name and type of each parameter.
        result: The type of what the snippet returns, or None.
        written: The names of the array parameters that it may write; the others are constant to it.
        updated: The names of those parameters that are no arrays and that it changes: their new values are results.
    """

    name: str
    text: str
    params: tuple[tuple[str, Type], ...]
    result: Type | None
    written: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[Type, ...]:
        """The types of the results: what is returned, then the updated parameters."""
        types = dict(self.params)
        return (*([] if self.result is None else [self.result]), *(types[name] for name in self.updated))

    @property
    def symbol(self) -> str:
        """The name under which it is compiled: equal for equal code."""
        return f"wl_native_{digest(repr(self))[:24]}"

    def __str__(self) -> str:
        return self.name
