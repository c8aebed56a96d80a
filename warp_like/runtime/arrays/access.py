"""Whether kernels on one device can use memory of another."""

from __future__ import annotations

from typing import Any

from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.runtime.memory.device import DeviceLike, get_device


def can_access(device: DeviceLike, resource: Any) -> bool:
    """Return whether kernels on ``device`` can use the memory of an array as it is.

    Page-locked memory can be used by all CUDA devices, managed memory by the CPU as well. An indexed array can be used
    where its data and its indices can. False where it is not known.

    Raises:
        TypeError: ``resource`` is no array.
    """
    if isinstance(resource, indexedarray):
        return all(can_access(device, part) for part in resource._leaves())
    if not isinstance(resource, array):
        raise TypeError(f"can_access() takes a device and an array, got {type(resource).__name__}")
    place, home = get_device(device), resource.device
    if place is home:
        return True
    asked = home if place.backend.shares_host_memory else place
    can: bool = asked.backend.can_access(place, resource)
    return can
