"""Tests of this folder run on a stand-in for OpenCL, and on the first OpenCL device, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import warp_like as wp
from tests.runtime.opencl.stand_in import StandIn, to_text
from warp_like.backend import compile as backend
from warp_like.base.settings import settings
from warp_like.runtime.memory.device import forget_devices
from warp_like.runtime.opencl import device as devices


@pytest.fixture(scope="module", params=["stand-in", "device"])
def device(request: pytest.FixtureRequest) -> Iterator[wp.Device]:
    """An OpenCL device, as the current device."""
    forget_devices("opencl")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "stand-in":
            api = StandIn()
            patch.setattr(devices, "libraries", lambda: ["stand-in"])
            patch.setattr(devices, "OpenCl", lambda _: api)
            patch.setattr(backend, "to_spirv", to_text)
            patch.setattr(settings, "cache_kernels", False)
        try:
            found = wp.get_device("opencl:0")
        except RuntimeError as e:
            pytest.skip(f"no OpenCL device; `pip install intel-opencl-rt` makes one of this processor ({e})")
        with wp.ScopedDevice(found):
            yield found
        for kernel in wp.get_module("tests.runtime.opencl.test_on_opencl").kernels.values():
            kernel.forget_programs()
    forget_devices("opencl")
