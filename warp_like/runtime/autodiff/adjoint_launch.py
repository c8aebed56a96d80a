"""Recorded reverse sweeps: what ``wp.launch(..., adjoint=True, record_cmd=True)`` returns.

They keep what the user gave, and run as any explicit adjoint launch does, through ``launch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.blocks import Blocks
from warp_like.runtime.launching.launch import Launch, launch


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
        inputs: tuple[Sequence[Any], Sequence[Any]],
        outputs: tuple[Sequence[Any], Sequence[Any]],
        blocks: Blocks,
    ) -> None:
        super().__init__(kernel, dims, program, params, False, blocks)
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
