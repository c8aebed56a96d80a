"""The older place of ``init``, and of some of what ``warp_like`` itself has."""

from warp_like import init
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.device import Device, get_device, get_devices, synchronize

__all__ = ["Device", "Kernel", "get_device", "get_devices", "init", "launch", "synchronize"]
