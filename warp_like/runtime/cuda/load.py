"""From artifacts to functions of a device, and what their launches need beside arguments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from warp_like.backend.target import Target, cuda_target, nearest_architecture
from warp_like.base.reach import pack_reaches
from warp_like.base.settings import settings
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature
from warp_like.runtime.cuda.clock import Clock
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.faults import Report, reports_of
from warp_like.runtime.cuda.stack import FIRST_CAPACITY, Runner

if TYPE_CHECKING:
    from warp_like import _native
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.program import Place, Program


class Loaded:
    """The code of one variant, loaded into a device's context until this is gone.

    Attributes:
        artifact: What was loaded.
        function: The driver's handle of the entry.
        max_threads: The most threads that a block of it can have.
        report: Where it reports faults, or None if it has none.
        stack_capacity: The bytes of stack that its threads got last.
    """

    def __init__(self, program: Program, artifact: Artifact) -> None:
        device = program.device
        assert isinstance(device, CudaDevice)
        self.device = device
        self.artifact = artifact
        self.stack_capacity = FIRST_CAPACITY
        is_cubin = artifact.code.binary.startswith(b"\x7fELF")
        with device.guard:
            self.module = device.driver.module_load(artifact.code.binary if is_cubin else artifact.code.binary + b"\0")
            self.function: int = device.driver.module_function(self.module, artifact.code.entry)
            self.max_threads: int = device.driver.function_attribute(self.function, "MAX_THREADS_PER_BLOCK")
        self.report = Report(program, artifact) if artifact.code.faults or artifact.stack.used else None
        if self.report is not None:
            reports_of(device).add(self.report)

    def __del__(self) -> None:
        if hasattr(self, "module"):
            self.device.driver.release("module_unload", self.device.context, self.module)


def install(program: Program, signature: Signature) -> tuple[_native.Dispatcher, Place, Artifact]:
    """Compile a variant for the program's device, load it, and let the dispatcher run it.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
        CudaError: The driver does not take the code.
    """
    device = program.device
    assert isinstance(device, CudaDevice)
    artifact = program.kernel.artifact(signature, target_of(device))
    loaded = Loaded(program, artifact)
    dispatcher = program.dispatcher or program.new_dispatcher(signature, artifact, device.native)
    dispatcher.block_dim = usual_block(program.kernel)
    checks = signature.options.debug or signature.options.verify_fp
    program.waits = bool(artifact.code.faults and checks) or settings.verify_cuda
    if artifact.stack.used or program.waits:
        dispatcher.runner = Runner(program)
    place = (signature.contiguous, signature.wide, signature.sums)
    context = loaded.report.address if loaded.report is not None else 0
    reaches = pack_reaches(artifact.effects.reaches)
    team = artifact.schedule.team
    dispatcher.install(*place, loaded.function, loaded, team, loaded.max_threads, context, 1, reaches)
    program.loaded[place] = loaded
    return dispatcher, place, artifact


def max_threads(program: Program, place: Place) -> int:
    """Return the most threads that a block of a loaded variant can have."""
    threads: int = program.loaded[place].max_threads
    return threads


def clock(device: CudaDevice, name: str, filter: int, stream: Any, args: list[Any]) -> Clock:
    """Return what measures a launch by events of the device."""
    return Clock(device, name, filter, stream, args)


def usual_block(kernel: Kernel) -> int:
    """Return the threads of a block where a launch does not say: the option ``block_dim``, 0 meaning the default."""
    return int(kernel.option("block_dim")) or 256


def target_of(device: CudaDevice) -> Target:
    """Return what to compile for: the device's architecture, to machine code where there is an assembler for it."""
    return _target(device.arch)


@functools.lru_cache(maxsize=8)
def _target(arch: int) -> Target:
    from warp_like.backend.libdevice import find_ptxas

    known = nearest_architecture(arch)
    # What was compiled for an older architecture runs on a newer one as PTX, which the driver translates.
    return cuda_target(f"sm_{known}", assembled=known == arch and find_ptxas() is not None)
