"""Memory pools, and access between devices.

Memory of a pool is opened to other devices pool by pool (``set_mempool_access_enabled``), memory that comes from the
driver directly by context (``set_peer_access_enabled``). In both, ``target_device`` has the memory and ``peer_device``
gets access to it. Copies between devices need neither.
"""

from __future__ import annotations

from types import TracebackType

from warp_like.runtime.arrays.array import array
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.errors import CudaError
from warp_like.runtime.memory.allocation import MemoryKind
from warp_like.runtime.memory.device import Device, DeviceLike, get_device

_ALREADY_ENABLED, _NOT_ENABLED = 704, 705
_LARGEST = 2**64 - 1


def _cuda(device: DeviceLike, what: str) -> CudaDevice:
    place = get_device(device)
    if not isinstance(place, CudaDevice):
        raise ValueError(f"device '{place}' has no {what}")
    return place


def _pooled(device: DeviceLike) -> CudaDevice:
    place = _cuda(device, "memory pool")
    if not place.is_mempool_supported:
        raise RuntimeError(f"device '{place}' has no memory pool: the device or its driver does not support it")
    return place


# ---- pools


def is_mempool_supported(device: DeviceLike) -> bool:
    """Return whether a device has a memory pool, so that allocations are ordered by streams."""
    place = get_device(device)
    return isinstance(place, CudaDevice) and place.is_mempool_supported


def is_mempool_enabled(device: DeviceLike) -> bool:
    """Return whether arrays on a device come from its memory pool."""
    place = get_device(device)
    return isinstance(place, CudaDevice) and place.is_mempool_enabled


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Let new arrays on a device come from its memory pool, as they do unless told otherwise, or from the driver.

    Memory from the driver can be opened by other processes; to allocate and to free it waits for the device.

    Raises:
        RuntimeError: The device has no memory pool.
        ValueError: The device is the CPU.
    """
    if enable:
        _pooled(device).mempool_wanted = True
    else:
        _cuda(device, "memory pool").mempool_wanted = False


def set_mempool_release_threshold(device: DeviceLike, threshold: int | float) -> None:
    """Set how much memory that nothing uses a pool keeps, instead of giving it back when something is waited for.

    Args:
        device: The device.
        threshold: Bytes; a number from 0 to 1 is a part of the device's memory.

    Raises:
        RuntimeError: The device has no memory pool.
        ValueError: The device is the CPU.
        ValueError: ``threshold`` is negative.
    """
    place = _pooled(device)
    if threshold < 0:
        raise ValueError(f"the release threshold is a number of bytes or a part of the memory, got {threshold}")
    nbytes = int(threshold * place.total_memory) if threshold <= 1 else int(threshold)
    place.driver.set_pool_attribute(place.pool, "RELEASE_THRESHOLD", min(nbytes, _LARGEST))


def get_mempool_release_threshold(device: DeviceLike = None) -> int:
    """Return how many bytes that nothing uses a pool keeps.

    Raises:
        RuntimeError: The device has no memory pool.
        ValueError: The device is the CPU.
    """
    return _attribute(device, "RELEASE_THRESHOLD")


def get_mempool_used_mem_current(device: DeviceLike = None) -> int:
    """Return how many bytes of a pool are in use, by anybody in this process.

    Raises:
        RuntimeError: The device has no memory pool.
        ValueError: The device is the CPU.
    """
    return _attribute(device, "USED_MEM_CURRENT")


def get_mempool_used_mem_high(device: DeviceLike = None) -> int:
    """Return the most bytes of a pool that were in use at once.

    Raises:
        RuntimeError: The device has no memory pool.
        ValueError: The device is the CPU.
    """
    return _attribute(device, "USED_MEM_HIGH")


def _attribute(device: DeviceLike, name: str) -> int:
    place = _pooled(device)
    found: int = place.driver.pool_attribute(place.pool, name)
    return found


class _Scope:
    """Sets a switch in a ``with`` block."""

    def __init__(self, enable: bool) -> None:
        self.enable = enable
        self._saved: list[bool] = []

    def _get(self) -> bool:
        raise NotImplementedError

    def _set(self, enable: bool) -> None:
        raise NotImplementedError

    def __enter__(self) -> None:
        self._saved.append(self._get())
        self._set(self.enable)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set(self._saved.pop())


class ScopedMempool(_Scope):
    """Switches the use of a device's memory pool on or off in a ``with`` block.

    Example:
        >>> with wp.ScopedMempool("cuda:0", False):
        ...     shared = wp.zeros(1000, device="cuda:0")  # which another process can open
    """

    def __init__(self, device: DeviceLike, enable: bool) -> None:
        super().__init__(enable)
        self.device = get_device(device)

    def _get(self) -> bool:
        return is_mempool_enabled(self.device)

    def _set(self, enable: bool) -> None:
        set_mempool_enabled(self.device, enable)


# ---- access between devices


def is_mempool_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether ``peer_device`` can be given access to the memory pool of ``target_device``."""
    return is_mempool_supported(target_device) and is_peer_access_supported(target_device, peer_device)


def is_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether kernels on ``peer_device`` can use the memory pool of ``target_device``."""
    target, peer = get_device(target_device), get_device(peer_device)
    if not (isinstance(target, CudaDevice) and isinstance(peer, CudaDevice) and target.is_mempool_supported):
        return False
    return target is peer or bool(target.driver.pool_access(target.pool, peer.ordinal))


def set_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Let kernels on ``peer_device`` use the memory pool of ``target_device``, or not.

    Raises:
        RuntimeError: The devices can't reach each other's memory.
        ValueError: One of them is the CPU, whose access can't be enabled.
    """
    if not enable and not (get_device(target_device).is_mempool_supported and get_device(peer_device).is_cuda):
        return
    target, peer = _pooled(target_device), _cuda(peer_device, "access to memory pools")
    if target is peer:
        return
    if enable:
        _require_peers(target, peer)
    target.driver.set_pool_access(target.pool, peer.ordinal, enable)


def is_peer_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether ``peer_device`` can address the memory of ``target_device``."""
    target, peer = get_device(target_device), get_device(peer_device)
    return isinstance(target, CudaDevice) and peer.can_access(target)


def is_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether ``set_peer_access_enabled`` has let ``peer_device`` use the memory of ``target_device``."""
    target, peer = get_device(target_device), get_device(peer_device)
    if not (isinstance(target, CudaDevice) and isinstance(peer, CudaDevice)):
        return False
    return target is peer or target in peer.peers


def set_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Let kernels on ``peer_device`` use memory of ``target_device`` that is not of its pool, or not.

    Raises:
        RuntimeError: The devices can't reach each other's memory.
        ValueError: One of them is the CPU, whose access can't be enabled.
    """
    if not enable and not (get_device(target_device).is_cuda and get_device(peer_device).is_cuda):
        return
    target, peer = _cuda(target_device, "peers"), _cuda(peer_device, "peers")
    if target is peer or enable == (target in peer.peers):
        return
    if enable:
        _require_peers(target, peer)
    context = target.context
    with peer.guard:
        try:
            (peer.driver.context_enable_peer if enable else peer.driver.context_disable_peer)(context)
        except CudaError as e:  # another library has done so already
            if e.code != (_ALREADY_ENABLED if enable else _NOT_ENABLED):
                raise
    (peer.peers.add if enable else peer.peers.discard)(target)


def _require_peers(target: CudaDevice, peer: CudaDevice) -> None:
    if not peer.can_access(target):
        raise RuntimeError(
            f"device '{peer}' can't reach the memory of '{target}': nothing connects them that allows it; copy with "
            "wp.copy()"
        )


class _AccessScope(_Scope):
    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        super().__init__(enable)
        self.target_device = get_device(target_device)
        self.peer_device = get_device(peer_device)


class ScopedMempoolAccess(_AccessScope):
    """Lets ``peer_device`` use the memory pool of ``target_device``, or not, in a ``with`` block."""

    def _get(self) -> bool:
        return is_mempool_access_enabled(self.target_device, self.peer_device)

    def _set(self, enable: bool) -> None:
        set_mempool_access_enabled(self.target_device, self.peer_device, enable)


class ScopedPeerAccess(_AccessScope):
    """Lets ``peer_device`` use memory of ``target_device`` that is not of its pool, or not, in a ``with`` block."""

    def _get(self) -> bool:
        return is_peer_access_enabled(self.target_device, self.peer_device)

    def _set(self, enable: bool) -> None:
        set_peer_access_enabled(self.target_device, self.peer_device, enable)


def can_access(device: Device, a: array) -> bool:
    """Return whether kernels on ``device`` can use the memory of an array of another device; one of the two is ours."""
    home = a.device
    if not isinstance(device, CudaDevice):
        return bool(a.memory_kind == MemoryKind.CUDA_MANAGED)
    if not isinstance(home, CudaDevice):
        return a.pinned
    match a.memory_kind:
        case MemoryKind.CUDA_MANAGED:
            return True
        case MemoryKind.CUDA_MEMPOOL:
            return is_mempool_access_enabled(home, device)
    return is_peer_access_enabled(home, device)
