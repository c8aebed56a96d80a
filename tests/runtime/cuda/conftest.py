"""The fake driver as a fixture, and devices to run whole programs on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import warp_like as wp
from tests.runtime.cuda import fake_native
from tests.runtime.cuda.emulated import EmulatedDriver, emulated_code
from tests.runtime.cuda.fake_driver import FakeDriver
from warp_like.runtime.cuda.driver import install


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    """A driver of two devices that records, in place of the real one for the length of a test.

    Afterwards nothing that was allocated may be left.
    """
    made = FakeDriver()
    before = install(made)
    try:
        yield made
        gc.collect()
        leaked = [f"{kind} of {nbytes} bytes" for kind, _, nbytes, _ in made.live.values()]
        assert not leaked
        assert not made.contexts
    finally:
        wp.set_device("cpu")
        install(before)
        fake_native.serving.clear()


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a device to run on; all that was compiled for it is dropped afterwards."""
    if request.param == "gpu":
        yield "cuda:0"
        wp.synchronize()
        return
    with emulated_code():
        before = install(EmulatedDriver())
        try:
            yield "cuda:0"
        finally:
            for kernel in wp.get_module(request.module.__name__).kernels.values():
                kernel.forget_programs()
            gc.collect()
            wp.set_device("cpu")
            install(before)
            fake_native.serving.clear()
