"""From artifacts to kernels of an OpenCL device, and their launches, which have finished when they return."""

from __future__ import annotations

import ctypes
import math
import struct
import weakref
from typing import TYPE_CHECKING, Any

from warp_like.backend.target import Target
from warp_like.base.contract import CUDA_CONTEXT, MAX_DIMS
from warp_like.base.reach import pack_reaches
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature
from warp_like.runtime.cpu.programs import clock
from warp_like.runtime.opencl.device import OpenClDevice

__all__ = ["Loaded", "clock", "install", "max_threads", "target_of"]

if TYPE_CHECKING:
    from warp_like import _native
    from warp_like._native import CudaLaunchRequest as Request
    from warp_like.runtime.kernels.program import Place, Program

MOST_ITEMS = 1 << 20
"""The most work items of a launch; each goes on to other places of a larger grid."""

GROUP = 64
"""The number of work items is a multiple of this one, so that OpenCL can make groups of them."""

_OTHERS = 8 * MAX_DIMS + 16
"""The bytes of an entry's parameters beside its argument block."""


class Loaded:
    """The code of one variant on a device.

    Attributes:
        kernel: OpenCL's handle.
        max_threads: No limit of what a launch may ask for.
    """

    max_threads = 1 << 30

    def __init__(self, program: Program, artifact: Artifact) -> None:
        device = program.device
        assert isinstance(device, OpenClDevice)
        self._program, self._artifact, self.device = weakref.ref(program), artifact, device
        self._opencl = device.api.program(device.context, device.handle, artifact.code.binary)
        self.kernel: int = device.api.kernel(self._opencl, artifact.code.entry)
        self._record = device.allocate(CUDA_CONTEXT.size, zero=True) if artifact.code.faults else None

    def __del__(self) -> None:
        if hasattr(self, "kernel") and not self.device.is_inherited:
            self.device.api.release(self.kernel, self._opencl)

    def launch(self, arguments: bytes, dims: tuple[int, ...]) -> None:
        """Run it over a grid, and raise what its threads have reported."""
        count = math.prod(dims)
        items = -(-min(count, MOST_ITEMS) // GROUP) * GROUP
        most = self.device.api.parameter_bytes(self.device.handle) - _OTHERS
        if len(arguments) > most:
            raise ValueError(
                f"{self._artifact.code.entry.removeprefix('wl_')} has {len(arguments)} bytes of arguments, and "
                f"{self.device} takes {most}; pass some in an array, for example one of structs that hold arrays"
            )
        block = arguments.ljust(max(-(-len(arguments) // 8) * 8, 8), b"\0")
        values = (block, struct.pack(f"={MAX_DIMS}q", *dims), struct.pack("=q", count))
        record = self._record
        self.device.launch(self.kernel, values, 0 if record is None else record.ptr, items)
        if record is not None:
            self._check(record)

    def _check(self, record: Any) -> None:
        seen = ctypes.create_string_buffer(CUDA_CONTEXT.size)
        self.device.copy([(ctypes.addressof(seen), record.ptr, CUDA_CONTEXT.size)])
        if struct.unpack_from("<i", seen, CUDA_CONTEXT.offsets["code"])[0]:
            self.device.clear(record.ptr, CUDA_CONTEXT.size)
            program = self._program()
            assert program is not None, "a program that launches is there"
            raise program.reported(self._artifact, seen.raw)


def target_of(device: OpenClDevice) -> Target:
    """Return what to compile for: SPIR-V with what the device has."""
    return device.target


def install(program: Program, signature: Signature) -> tuple[_native.Dispatcher, Place, Artifact]:
    """Compile a variant for the program's device, load it, and let the dispatcher run it.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or does what the device does not have.
        OpenClError: The driver does not take the code.
    """
    device = program.device
    assert isinstance(device, OpenClDevice)
    artifact = program.kernel.artifact(signature, device.target)
    dispatcher = program.dispatcher or program.new_dispatcher(signature, artifact)
    loaded = Loaded(program, artifact)
    dispatcher.runner = _run
    place = (signature.contiguous, signature.wide, signature.sums)
    dispatcher.install(*place, loaded.kernel, loaded, 1, 0, 0, 1, pack_reaches(artifact.effects.reaches))
    program.loaded[place] = loaded
    return dispatcher, place, artifact


def _run(request: Request) -> None:
    request.code.launch(request.arguments, request.dims)


def max_threads(program: Program, place: Place) -> int:
    """Return a number that no block exceeds: blocks are of one thread."""
    threads: int = program.loaded[place].max_threads
    return threads
