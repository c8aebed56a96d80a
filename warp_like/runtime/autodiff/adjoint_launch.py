"""Running the reverse sweep of one launch: for tapes, and for ``wp.launch(..., adjoint=True)``.

With ``record_cmd=True`` that returns an ``AdjointLaunch``, which keeps what the user gave, and runs as any explicit
adjoint launch does, through ``launch``.
"""

from __future__ import annotations

from typing import Any

from warp_like.runtime.arrays import objects
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Capture, Record, program_of
from warp_like.runtime.autodiff.differentiation import adjoint_arguments, adjoint_program, bind_adjoints
from warp_like.runtime.autodiff.history import require_intact
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.blocks import Blocks
from warp_like.runtime.launching.derivative_hooks import WithAdjoints
from warp_like.runtime.launching.launch import Launch, launch, run
from warp_like.runtime.memory.recorder import recorder


def run_adjoint(record: Record, adjoints: dict[int, array], blocks: Blocks | None = None) -> None:
    """Run the reverse sweep of a launch: adds to ``adjoints`` of what the kernel reads.

    Without ``blocks``, in blocks of as many threads as the launch had.

    Raises:
        RuntimeError: Gradients are switched off for the kernel, or it overwrote memory that its gradient needs.
        WarpCodegenError: The kernel can't be differentiated.
    """
    program = adjoint_program(record, adjoints)
    if program is not None:
        blocks = blocks or Blocks(threads=record.block_dim or None)
        arguments = adjoint_arguments(record, program, adjoints)
        with objects.gradients_shown(program.effects, record.args):
            run(program, record.dims, arguments, blocks)


def _require_run() -> None:
    """Refuse an adjoint launch where launches are taken over: its adjoint would run without them."""
    if isinstance(recorder.active, Capture):
        recorder.active.refuse("no adjoints run")


def run_given(record: Record, inputs: WithAdjoints, outputs: WithAdjoints, blocks: Blocks) -> None:
    """Run an explicit adjoint launch, for arguments and their adjoints as the user gave them."""
    _require_run()
    adjoints = bind_adjoints(record.kernel, record.types, record.args, inputs, outputs)
    require_intact(record, adjoints)
    if recorder.active is not None and recorder.active.history is not None:
        recorder.active.history.before_writes(adjoints.values())
        recorder.active.history.adjoints += adjoints.values()
    run_adjoint(record, adjoints, blocks)
    objects.pass_on(program_of(record).effects, record.args)


def command(
    program: Program, record: Record, inputs: WithAdjoints, outputs: WithAdjoints, blocks: Blocks
) -> AdjointLaunch:
    """Return an explicit adjoint launch that can be repeated; what is wrong with its adjoints is said now."""
    _require_run()
    bind_adjoints(record.kernel, record.types, record.args, inputs, outputs)
    return AdjointLaunch(record.kernel, record.dims, program, record.args, inputs, outputs, blocks)


class AdjointLaunch(Launch):
    """The reverse sweep of a launch with its arguments and their adjoints bound.

    Args:
        kernel: The kernel.
        dims: The grid.
        program: Of the forward launch.
        params: The checked arguments.
        inputs: The launch's ``inputs`` and ``adj_inputs``.
        outputs: The launch's ``outputs`` and ``adj_outputs``.
        blocks: Where on CUDA it runs.
    """

    def __init__(
        self,
        kernel: Kernel,
        dims: tuple[int, ...],
        program: Program,
        params: list[Any],
        inputs: WithAdjoints,
        outputs: WithAdjoints,
        blocks: Blocks,
    ) -> None:
        self._bind(kernel, dims, program, params, False, blocks)
        self._inputs = len(inputs[0])
        self._values: list[Any] = []
        self._adjoints: list[Any] = []
        for values, adjoints in (inputs, outputs):
            self._values += values
            self._adjoints += [*adjoints, *[None] * (len(values) - len(adjoints))]

    def _launch_checked(self, stream: Any = None) -> None:
        k = self._inputs
        launch(
            self.kernel,
            self._dims,
            self._values[:k],
            self._values[k:],
            self._adjoints[:k],
            self._adjoints[k:],
            self.device,
            self.blocks.stream if stream is None else stream,
            adjoint=True,
            record_tape=False,
            max_blocks=self.blocks.most,
            block_dim=self.blocks.threads,
        )

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set one argument, or with ``adjoint`` its adjoint, by position; adjoints are checked when it runs.

        Raises:
            IndexError: There is no such parameter.
        """
        if adjoint:
            self._require_parameter(index)
            self._adjoints[index] = value
        else:
            super().set_param_at_index(index, value)
            self._values[index] = value
