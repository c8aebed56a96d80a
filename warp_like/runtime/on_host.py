"""Functions of the host that take arrays of CUDA devices as well: on copies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from warp_like.runtime.array import array
from warp_like.runtime.recording import recorder, refuse_capture

F = TypeVar("F", bound=Callable[..., Any])


def on_host(function: F) -> F:
    """Let ``function``, which works in the host's memory, take arrays of one CUDA device.

    They are copied to the host, and back where the function has changed them; what it returns goes to the device.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, array)]
        if not any(a.device.is_cuda for a in given):
            return function(*args, **kwargs)
        return _through_copies(function, given, args, kwargs)

    return cast(F, call)


def _through_copies(
    function: Callable[..., Any], given: list[array], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    name, device = function.__name__, given[0].device
    for a in given:
        if a.device is not device:
            raise TypeError(f"{name}() takes arrays of one device, got some on {device} and some on {a.device}")
        if recorder.active is not None and a.requires_grad:
            raise RuntimeError(f"a tape does not differentiate {name}() of arrays on {device} ({a!r}); use a kernel")
    refuse_capture(f"{name}() of arrays on {device}")
    copies = {id(a): _Copy(a) for a in given}
    made = function(*(_swapped(copies, a) for a in args), **{k: _swapped(copies, a) for k, a in kwargs.items()})
    for c in copies.values():
        c.write_back()
    if isinstance(made, array):
        return next((c.original for c in copies.values() if c.host is made), None) or made.to(device)
    return made


class _Copy:
    """An array of a device, and its elements on the host."""

    def __init__(self, original: array) -> None:
        self.original = original
        self.host = original.to("cpu", requires_grad=False)
        self._before = self.host.numpy().tobytes()

    def write_back(self) -> None:
        """Copy to the device what has changed."""
        if self.host.numpy().tobytes() != self._before:
            self.original.assign(self.host)


def _swapped(copies: dict[int, _Copy], given: Any) -> Any:
    return copies[id(given)].host if isinstance(given, array) else given
