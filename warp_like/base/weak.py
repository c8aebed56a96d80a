"""A set that does not keep its objects alive, for several threads.

``weakref.WeakSet`` can't be walked through, nor be made a list, while another thread adds to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class WeakObjects(Generic[T]):
    """Objects that are alive. To walk through it is to see those that it had when the walk began.

    Example:
        >>> known = WeakObjects()
        >>> known.add(kernel)
        >>> list(known) == [kernel]
        True
    """

    def __init__(self) -> None:
        self._refs: weakref.WeakKeyDictionary[T, None] = weakref.WeakKeyDictionary()

    def add(self, one: T) -> None:
        """Add an object, if it is not there."""
        self._refs[one] = None

    def discard(self, one: T) -> None:
        """Remove an object, if it is there."""
        self._refs.pop(one, None)

    def __contains__(self, one: object) -> bool:
        return one in self._refs

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[T]:
        for ref in self._refs.keyrefs():  # a list, made in one step
            one = ref()
            if one is not None:
                yield one
