"""Providers: how a lower part calls a higher one that it does not import."""

from __future__ import annotations

from typing import Protocol

import pytest

from warp_like.base.provider import Provider


class Greeter(Protocol):
    def greet(self, name: str) -> str: ...


class English:
    def greet(self, name: str) -> str:
        return f"Hello {name}"


def test_it_is_loaded_once_when_somebody_asks() -> None:
    loads = []

    def load() -> Greeter:
        loads.append(1)
        return English()

    greeter: Provider[Greeter] = Provider("greetings")
    greeter.register(load)
    assert loads == []
    assert greeter.get().greet("Ann") == "Hello Ann"
    assert greeter.get() is greeter.get()
    assert loads == [1]


def test_registering_again_replaces_it() -> None:
    greeter: Provider[Greeter] = Provider("greetings")
    first, second = English(), English()
    greeter.register(lambda: first)
    assert greeter.get() is first
    greeter.register(lambda: second)
    assert greeter.get() is second


def test_a_missing_registration_is_named() -> None:
    greeter: Provider[Greeter] = Provider("greetings")
    with pytest.raises(RuntimeError, match="nothing has been registered for greetings"):
        greeter.get()
