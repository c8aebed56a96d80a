"""How a lower part of the package calls a higher one, which it does not import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Provider(Generic[T]):
    """What a higher part does for a lower one, which declares it as a protocol ``T``.

    The higher part registers how it is loaded when its package is imported; it is loaded at the first call.

    Args:
        what: What it is, for messages.

    Example:
        >>> greeter: Provider[Greeter] = Provider("greetings")  # in the lower part
        >>> greeter.register(load_greeter)  # in the higher one
        >>> greeter.get().greet("Ann")
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._load: Callable[[], T] | None = None
        self._loaded: T | None = None

    def register(self, load: Callable[[], T]) -> None:
        """Let ``load()`` return it; called once, when somebody first asks."""
        self._load, self._loaded = load, None

    def get(self) -> T:
        """Return it.

        Raises:
            RuntimeError: Nobody has registered it.
        """
        if self._loaded is None:
            if self._load is None:
                raise RuntimeError(f"nothing has been registered for {self.what}")
            self._loaded = self._load()
        return self._loaded
