"""From artifacts to functions in this process, and how long their launches take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.base.reach import pack_reaches
from warp_like.runtime.arrays.recording import TimingResult

if TYPE_CHECKING:
    from warp_like.compiler.artifact import Artifact, Effects
    from warp_like.compiler.signature import Signature
    from warp_like.runtime.kernels.program import Place, Program
    from warp_like.runtime.memory.device import Device


def target_of(device: Device) -> None:
    """Return None, which stands for this processor."""


def install(program: Program, signature: Signature) -> tuple[_native.Dispatcher, Place, Artifact]:
    """Compile a variant, load it, and let the dispatcher run it in the place that it has there.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    from warp_like.backend import cpu

    artifact = program.kernel.artifact(signature)
    if not _are_compared(artifact.effects, program.described_by(artifact).effects):
        artifact = program.kernel.artifact(signature.replace(sums=False))
    effects, schedule = artifact.effects, artifact.schedule
    loaded = cpu.load(artifact.code.binary, (artifact.code.entry,), _native.symbols())
    # Code that gains nothing from plain additions is the one that serves launches which have to be atomic.
    sums = signature.sums and bool(effects.sums or effects.thread_private or effects.reduced or effects.apart)
    dispatcher = program.dispatcher or program.new_dispatcher(signature, artifact)
    place = (signature.contiguous, signature.wide, sums)
    reaches = pack_reaches(effects.reaches)
    known = program.described_by(artifact).effects.takes
    takes = bool(effects.takes) and set(effects.takes).issubset(known)
    address = loaded.address(artifact.code.entry)
    dispatcher.install(*place, address, loaded, schedule.lanes, 0, 0, schedule.rows, reaches, takes)
    return dispatcher, place, artifact


def _are_compared(effects: Effects, described: Effects) -> bool:
    """Whether launches compare the arrays that plain code needs apart, by what the first variant's code does.

    Arrays that the kernel adds to at the thread's own index may be given again where that other argument keeps to the
    thread's own elements as well.
    """
    private = {*described.thread_private, *described.sums}
    return (
        set(effects.apart).issubset(described.apart)
        and set(effects.reduced).issubset(described.reduced)
        and set(effects.sums).issubset(described.sums)
        and private.issuperset(effects.thread_private)
        and (not effects.thread_private or set(described.own).issubset(effects.own))
    )


def max_threads(program: Program, place: Place) -> int:
    """Return how many OS threads a launch may use."""
    return _native.num_threads()


class _Clock:
    """Measures a launch, which has finished when it returns."""

    def __init__(self, device: Device, name: str, filter: int) -> None:
        self._facts = (device, name, filter)
        self._elapsed = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        self._elapsed = (time.perf_counter_ns() - self._start) / 1e6

    def result(self) -> TimingResult:
        """Return what it took."""
        return TimingResult(*self._facts, self._elapsed)


def clock(device: Device, name: str, filter: int, stream: Any, args: list[Any]) -> _Clock:
    """Return what measures a launch."""
    return _Clock(device, name, filter)
