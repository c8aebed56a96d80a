"""From a compiled image to a module of the driver: machine code where driver, assembler and device fit, else PTX.

Machine code (a cubin) is loaded by drivers of the same major version of CUDA as its assembler, and by newer ones. It is
made by an assembler that knows the device. Where none on this machine fits both, and where the driver refuses machine
code all the same, the code is PTX, which the driver assembles itself.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

from warp_like.backend.target import FIRST_TOOLKIT, Target, cuda_target, nearest_architecture
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.errors import INVALID_IMAGE, NO_BINARY_FOR_GPU, CudaError, error

T = TypeVar("T")

_REFUSED = (INVALID_IMAGE, NO_BINARY_FOR_GPU)


def target_of(device: CudaDevice) -> Target:
    """Return what to compile for: the device's architecture, to machine code where there is an assembler for it."""
    found = _target(device.arch, device.driver.version())
    return found if device.takes_machine_code else found.replace(assembled=False)


@functools.lru_cache(maxsize=8)
def _target(arch: int, driver: int) -> Target:
    from warp_like.backend.libdevice import find_ptxas

    known, toolkit = nearest_architecture(arch), driver // 1000
    # What was compiled for an older architecture runs on a newer one as PTX, which the driver translates.
    assembled = known == arch and find_ptxas(FIRST_TOOLKIT[known], toolkit) is not None
    return cuda_target(f"sm_{known}", assembled=assembled, toolkit=toolkit if assembled else 0)


def load_code(device: CudaDevice, compiled: Callable[[Target], T], image: Callable[[T], bytes]) -> tuple[T, int]:
    """Compile for a device and load what comes out; once more as PTX where the driver refuses machine code.

    Args:
        device: Its context is current meanwhile.
        compiled: Compiles for a target.
        image: The PTX or the cubin in what ``compiled`` returns.

    Returns:
        What was compiled, and the driver's handle of the module.

    Raises:
        CudaError: The driver does not take the code. The message names the versions.
    """
    made = compiled(target_of(device))
    try:
        return made, _loaded(device, image(made))
    except CudaError as e:
        if e.code not in _REFUSED or not _is_cubin(image(made)):
            raise
        made = compiled(target_of(device).replace(assembled=False))
        if _is_cubin(image(made)):  # compiled ahead of time
            raise
    module = _loaded(device, image(made))
    device.takes_machine_code = False
    return made, module


@contextlib.contextmanager
def during_captures(device: CudaDevice) -> Iterator[None]:
    """Make the driver take calls of this thread that captures need not see, such as loading code.

    While a capture runs in global mode, as those of ``torch.cuda.graph`` do, it refuses them to all other threads, and
    such a call of the thread that captures would break the capture.
    """
    before = device.driver.exchange_capture_mode("RELAXED")
    try:
        yield
    finally:
        device.driver.exchange_capture_mode(before)


def _loaded(device: CudaDevice, image: bytes) -> int:
    try:
        with device.guard, during_captures(device):
            module: int = device.driver.module_load(image if _is_cubin(image) else image + b"\0")
    except CudaError as e:
        raise error(e.call, e.code, "\n".join(part for part in (e.detail, _versions(device, image)) if part)) from None
    return module


def _is_cubin(image: bytes) -> bool:
    return image.startswith(b"\x7fELF")


def _versions(device: CudaDevice, image: bytes) -> str:
    """Say who had to agree about an image."""
    from warp_like.backend.libdevice import describe_ptxas

    driver, oldest = device.driver.version(), FIRST_TOOLKIT[nearest_architecture(device.arch)]
    what = "machine code" if _is_cubin(image) else "PTX"
    return (
        f"{what} for {device.alias}, an sm_{device.arch}; the driver supports CUDA {driver // 1000}."
        f"{driver % 1000 // 10}; {describe_ptxas(oldest, driver // 1000)}"
    )
