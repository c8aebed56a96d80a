"""One generated program: the source of a kernel, how its arguments are made, its grids and the settings to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz import plain
from tests.fuzz.scalars import InvalidProgram


@dataclass(frozen=True)
class Program:
    """A program, whose kernel is ``k``.

    Attributes:
        kind: The generator that wrote it.
        seed: What the generator was given.
        source: The text of functions and the kernel; it knows ``wp`` and ``Any``.
        setup: Text that sets ``memory``, the arrays that are compared, and ``args``; it knows ``np``, ``dims`` and
            ``turn``, the number of the launch.
        grids: The grids that the kernel is launched on, each on new arguments.
        settings: What is tried: values of ``wp.config``, and ``device``.
        gradients: The positions of the float64 arrays whose gradients are compared, too.
        refusals: Words of messages with which the compiler may refuse the program.
    """

    kind: str
    seed: int
    source: str
    setup: str
    grids: tuple[tuple[int, ...], ...]
    settings: tuple[dict[str, Any], ...] = ({},)
    gradients: tuple[int, ...] = ()
    refusals: tuple[str, ...] = ()

    def arguments(self, turn: int) -> tuple[list[np.ndarray], list[Any]]:
        """New memory for a launch, and the arguments over it.

        Raises:
            InvalidProgram: The text does not make them; it may be what a shrunk program has left of one.
        """
        space: dict[str, Any] = {"np": np, "dims": self.grids[turn], "turn": turn}
        try:
            exec(self.setup, space)
            return space["memory"], space["args"]
        except (NameError, KeyError, IndexError, ValueError) as e:
            raise InvalidProgram(f"no arguments: {e}") from e

    def expected(self, turn: int) -> list[np.ndarray]:
        """The memory after a launch, by the oracle.

        Raises:
            InvalidProgram: Nothing is defined to come out.
        """
        memory, args = self.arguments(turn)
        plain.run(self.source, args, self.grids[turn], exact=not self.gradients)
        return memory


def differs(got: np.ndarray, wanted: np.ndarray, rtol: float = 0.0) -> bool:
    """Whether two arrays differ; NaN equals NaN, and 0.0 equals -0.0."""
    if wanted.dtype.names:
        return any(differs(got[n], wanted[n], rtol) for n in wanted.dtype.names)
    if wanted.dtype.kind == "f":
        return not np.allclose(got, wanted, rtol=rtol, atol=rtol, equal_nan=True)
    return not np.array_equal(got, wanted)
