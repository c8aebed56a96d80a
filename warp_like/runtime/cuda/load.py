"""From artifacts to functions of a device, and what their launches need beside arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warp_like.backend.target import Target
from warp_like.base.reach import pack_reaches
from warp_like.base.settings import settings
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature
from warp_like.runtime.cuda.clock import Clock
from warp_like.runtime.cuda.code import during_captures, load_code, target_of
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.faults import Report, reports_of
from warp_like.runtime.cuda.stack import FIRST_CAPACITY, Runner

__all__ = ["Loaded", "clock", "install", "max_threads", "target_of", "usual_block"]

if TYPE_CHECKING:
    from warp_like import _native
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.program import Place, Program


class Loaded:
    """The code of one variant, loaded into a device's context until this is gone.

    Args:
        program: Whose code it is.
        compiled: Compiles it for a target.

    Attributes:
        artifact: What was loaded.
        function: The driver's handle of the entry.
        max_threads: The most threads that a block of it can have.
        report: Where it reports faults, or None if it has none.
        stack_capacity: The bytes of stack that its threads got last.
    """

    def __init__(self, program: Program, compiled: Callable[[Target], Artifact]) -> None:
        device = program.device
        assert isinstance(device, CudaDevice)
        self.device = device
        self.stack_capacity = FIRST_CAPACITY
        self.artifact, self.module = load_code(device, compiled, lambda made: made.code.binary)
        artifact = self.artifact
        with device.guard:
            self.function: int = device.driver.module_function(self.module, artifact.code.entry)
            self.max_threads: int = device.driver.function_attribute(self.function, "MAX_THREADS_PER_BLOCK")
        with during_captures(device):
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
    loaded = Loaded(program, lambda target: program.kernel.artifact(signature, target))
    artifact = loaded.artifact
    dispatcher = program.dispatcher or program.new_dispatcher(signature, artifact, device.native)
    dispatcher.block_dim = usual_block(program.kernel)
    checks = signature.options.debug or signature.options.verify_fp
    program.waits = bool(artifact.code.faults and checks) or settings.verify_cuda
    if artifact.stack.used or program.waits:
        dispatcher.runner = Runner(program)
    place = (signature.contiguous, signature.wide, signature.sums)
    context = loaded.report.address if loaded.report is not None else 0
    reaches = pack_reaches(artifact.effects.reaches)
    team, places = artifact.schedule.team, artifact.schedule.places
    most = resident_threads(loaded, program.kernel) if artifact.schedule.combines else 0
    dispatcher.install(*place, loaded.function, loaded, team, loaded.max_threads, context, places, reaches, False, most)
    program.loaded[place] = loaded
    return dispatcher, place, artifact


def resident_threads(loaded: Loaded, kernel: Kernel) -> int:
    """Return how many threads the device runs at once, in blocks of the usual size."""
    device, block = loaded.device, min(usual_block(kernel), loaded.max_threads)
    with device.guard:
        blocks: int = device.driver.occupancy(loaded.function, block)
    return max(blocks, 1) * device.sm_count * block


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
