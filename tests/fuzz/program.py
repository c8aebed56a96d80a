"""One generated program: the source of a kernel, how its arguments are made, its grids and the settings to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz import plain
from tests.fuzz.arguments import Nested, Selected
from tests.fuzz.scalars import InvalidProgram

LAUNCH = "wp.launch(k, dim=dims, inputs=args)"


@dataclass(frozen=True)
class Program:
    """A program, whose kernel is ``k``.

    Attributes:
        kind: The generator that wrote it.
        seed: What the generator was given.
        source: The text of functions and the kernel; it knows ``wp`` and ``Any``.
        setup: Text that sets ``memory``, the arrays that are compared, and ``args``; it knows ``np``, ``dims``,
            ``turn``, the number of the launch, and the classes of ``arguments.py``.
        grids: The grids that the kernel is launched on, each on new arguments.
        settings: What is tried: values of ``wp.config``, ``device``, and ``guarded``, at which edge of protected pages
            arrays lie.
        gradients: The positions of the float64 arrays whose gradients are compared, too.
        refusals: Words of messages with which the compiler may refuse the program.
        call: What the host does with the arguments, if it is no launch of ``k``.
        oracle: What the oracle has in place of definitions that Python can't run, and of ``k`` where there is none.
        unordered: Positions of arrays in ``memory`` of which the order of threads decides something, and what: `free`
            only what atomics return meanwhile, `any` which of the stored values stays, `sorted` the places of values.
        second: Whether second derivatives are compared, too.
    """

    kind: str
    seed: int
    source: str
    setup: str
    grids: tuple[tuple[int, ...], ...]
    settings: tuple[dict[str, Any], ...] = ({},)
    gradients: tuple[int, ...] = ()
    refusals: tuple[str, ...] = ()
    call: str = LAUNCH
    oracle: str = ""
    unordered: tuple[tuple[int, str], ...] = ()
    second: bool = False

    @property
    def meant(self) -> str:
        """What the oracle runs."""
        return f"{self.source}\n{self.oracle}" if self.oracle else self.source

    def arguments(self, turn: int) -> tuple[list[np.ndarray], list[Any]]:
        """New memory for a launch, and the arguments over it.

        Raises:
            InvalidProgram: The text does not make them; it may be what a shrunk program has left of one.
        """
        space: dict[str, Any] = {
            "np": np,
            "dims": self.grids[turn],
            "turn": turn,
            "Selected": Selected,
            "Nested": Nested,
        }
        try:
            exec(self.setup, space)
            return space["memory"], space["args"]
        except (NameError, TypeError, AttributeError, KeyError, IndexError, ValueError) as e:
            raise InvalidProgram(f"no arguments: {e}") from e

    def expected(self, turn: int) -> tuple[list[np.ndarray], Choices]:
        """The memory after a launch, by the oracle, and which other values elements may have.

        Raises:
            InvalidProgram: Nothing is defined to come out.
        """
        memory, args = self.arguments(turn)
        loose = [(memory[k], how) for k, how in self.unordered]
        found = plain.run(self.meant, args, self.grids[turn], exact=not self.gradients, unordered=loose)
        choices = {}
        for k, how in self.unordered:
            if how == "any":
                first, size = memory[k].__array_interface__["data"][0], memory[k].itemsize
                at = {(address - first) // size: values for address, values in found.items()}
                choices[k] = {flat: values for flat, values in at.items() if 0 <= flat < memory[k].size}
        return memory, choices


Choices = dict[int, dict[int, list[Any]]]
"""By position in ``memory`` and place in the flat array: the values that threads stored."""


def settled(program: Program, k: int, got: np.ndarray, wanted: np.ndarray, choices: Choices) -> tuple[Any, Any]:
    """Memory ``k`` as it is and as it should be, without what hangs on the order of threads."""
    how = dict(program.unordered).get(k)
    if how == "sorted":
        return np.sort(got, axis=None), np.sort(wanted, axis=None)
    if how == "any":
        wanted = wanted.copy()
        for flat, values in choices[k].items():
            if got.flat[flat] in values:
                wanted.flat[flat] = got.flat[flat]
    return got, wanted


def differs(got: np.ndarray, wanted: np.ndarray, rtol: float = 0.0) -> bool:
    """Whether two arrays differ; NaN equals NaN, and 0.0 equals -0.0."""
    if wanted.dtype.names:
        return any(differs(got[n], wanted[n], rtol) for n in wanted.dtype.names)
    if wanted.dtype.kind == "f":
        return not np.allclose(got, wanted, rtol=rtol, atol=rtol, equal_nan=True)
    return not np.array_equal(got, wanted)
