"""What launches need of differentiation, which stands above them: tapes that record them, and explicit adjoints.

A recording tape is found at ``recorder.active``; ``runtime/autodiff`` registers how adjoint launches run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from warp_like.base.provider import Provider
from warp_like.compiler.artifact import Effects
from warp_like.runtime.arrays.recording import Record
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.blocks import Blocks

if TYPE_CHECKING:
    from warp_like.runtime.arrays.array import array
    from warp_like.runtime.arrays.objects import Copied
    from warp_like.runtime.launching.launch import Launch

WithAdjoints = tuple[Sequence[Any], Sequence[Any]]
"""The ``inputs`` or ``outputs`` of a launch as the user gave them, and their adjoints."""


class TapeHistory(Protocol):
    """What a tape is told of launches that it does not record."""

    def before_unrecorded(self, effects: Effects, args: Sequence[Any]) -> None:
        """A launch that is not recorded is about to overwrite arrays."""


class RecordingTape(Protocol):
    """A tape that is recording."""

    @property
    def history(self) -> TapeHistory:
        """What it knows of memory."""

    def run_launch(self, program: Program, record: Record, blocks: Blocks) -> None:
        """Run a launch and record it."""

    def record_func(self, backward: Callable[[], None], arrays: Sequence[array]) -> None:
        """Record a function that the backward pass calls at this place."""

    def record_copy(self, copied: Copied, *, earlier: bool = False) -> None:
        """Record that an object's memory was made of an array: now, or before the tape began."""


class AdjointLaunches(Protocol):
    """Explicit adjoint launches: ``wp.launch(..., adjoint=True)``."""

    def run_given(self, record: Record, inputs: WithAdjoints, outputs: WithAdjoints, blocks: Blocks) -> None:
        """Run one now."""

    def command(
        self, program: Program, record: Record, inputs: WithAdjoints, outputs: WithAdjoints, blocks: Blocks
    ) -> Launch:
        """Return one that can be repeated; ``program`` is that of the forward launch."""


adjoint_launches: Provider[AdjointLaunches] = Provider("adjoint launches")
