"""The older place of ``init``, and of some of what ``warp_like`` itself has."""

from warp_like import init
from warp_like.runtime.device import Device, get_device, get_devices, synchronize
from warp_like.runtime.kernel import Kernel
from warp_like.runtime.launch import launch

__all__ = ["Device", "Kernel", "get_device", "get_devices", "init", "launch", "synchronize"]
