"""Running a program as users do, under each of its settings, and comparing with the oracle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import warp_like as wp
from tests.frontend.support import build, define
from tests.fuzz import derivatives
from tests.fuzz.arguments import Hosted
from tests.fuzz.forced import forced
from tests.fuzz.program import Choices, Program, differs, settled
from tests.fuzz.scalars import Faults, InvalidProgram
from tests.guarded import Moved, guarded

ALWAYS = {"fuse_fp": False, "cache_kernels": False}
"""The oracle rounds after each operation."""
BESIDE = ("device", "guarded", "forced")
"""The settings that are none of ``wp.config``."""
CLOSE = 1e-9
"""How close the values of programs with gradients are, which call functions like the sine."""


@dataclass(frozen=True)
class Finding:
    """What went wrong with a program.

    Attributes:
        kind: In a word that stays the same while the program shrinks: `wrong`, `crashes`, `raises TypeError`, ...
        setting: Under which setting; None where that is not known.
        turn: In which launch.
    """

    kind: str
    setting: dict[str, Any] | None = None
    turn: int = 0
    details: str = ""


@contextlib.contextmanager
def configured(setting: dict[str, Any]) -> Iterator[None]:
    """Let ``wp.config`` have these values, launches run on the device, arrays lie at protected pages, and so on."""
    names = {n: x for n, x in {**ALWAYS, **setting}.items() if n not in BESIDE}
    with contextlib.ExitStack() as stack:
        for name, value in names.items():
            setattr(wp.config, name, value)
            stack.callback(delattr, wp.config, name)
        if setting.get("device") == "emulated":
            from tests.on_device import on_device

            stack.enter_context(on_device("emulated"))
        if setting.get("forced"):
            stack.enter_context(forced())
        if "guarded" in setting:
            stack.enter_context(guarded(setting["guarded"]))
        yield


@dataclass
class Wanted:
    """What the oracle says of one launch."""

    memory: list[np.ndarray]
    choices: Choices
    faulty: bool
    tangents: list[list[np.ndarray]]


def by_oracle(program: Program, turn: int) -> Wanted:
    """The right results.

    Raises:
        InvalidProgram: There are none.
    """
    Faults.divisions_by_zero = 0
    memory, choices = program.expected(turn)
    faulty = Faults.divisions_by_zero > 0
    return Wanted(memory, choices, faulty, derivatives.expected(program, turn) if program.gradients else [])


def check(program: Program) -> Finding | None:
    """Run a program; what is wrong, if anything.

    Raises:
        InvalidProgram: It can't be told what is right.
    """
    wanted = [by_oracle(program, turn) for turn in range(len(program.grids))]
    names = define(program.source, eager=True, Any=Any)
    for setting in program.settings:
        with configured({**program.configuration, **setting}):
            if setting.get("forced"):  # kernels have no code yet
                names = define(program.source, eager=True, Any=Any)
            for turn, right in enumerate(wanted):
                found = _checked(program, names, setting, turn, right)
                if found is not None:
                    return found
    return None


def _checked(
    program: Program, names: dict[str, Any], setting: dict[str, Any], turn: int, right: Wanted
) -> Finding | None:
    memory, args = program.arguments(turn)
    try:
        moved = Moved(args, setting["guarded"]) if "guarded" in setting else None
        hosted = Hosted(moved.args if moved else args, names)
        if setting.get("device") == "interpreter":
            interpreted(names["k"], program.grids[turn], hosted.args)
        else:
            space = {"wp": wp, "np": np, "dims": program.dims(turn), "options": program.options, "args": hosted.args}
            exec(program.call, {**names, **space})
        hosted.fetch()
        if moved:
            moved.back()
        for k, (got, wanted) in enumerate(zip(memory, right.memory, strict=True)):
            a, b = settled(program, k, got, wanted, right.choices)
            rtol = CLOSE if program.gradients else 0.0
            if differs(a, b, rtol):
                return Finding("wrong", setting, turn, shown(k, a, b, rtol))
        if program.gradients and setting.get("device") != "interpreter":
            mode = derivatives.wrong(program, names["k"], turn, right.tangents)
            if mode is not None:
                return Finding(f"wrong {mode[0]} derivative", setting, turn, mode[1])
        if program.second:
            numbers = derivatives.wrong_second(program, names["k"], turn)
            if numbers is not None:
                return Finding("wrong second derivative", setting, turn, numbers)
    except InvalidProgram:
        raise
    except Exception as e:
        if right.faulty and setting.get("mode") == "debug" and isinstance(e, ZeroDivisionError):
            return None
        if any(words in str(e) for words in program.refusals):
            raise InvalidProgram(f"refused: {e}") from e
        return Finding(f"raises {type(e).__name__}", setting, turn, str(e))
    return None


def interpreted(kernel: Any, dims: tuple[int, ...], args: list[Any]) -> None:
    """Launch a kernel by the interpreter of the IR."""
    from tests.interpreter import run

    run(build(kernel.func), args, dims)


def shown(k: int, got: np.ndarray, wanted: np.ndarray, rtol: float) -> str:
    """The elements of memory ``k`` that differ."""
    where = [at for at in np.ndindex(got.shape) if differs(np.asarray(got[at]), np.asarray(wanted[at]), rtol)]
    return "\n".join(f"memory[{k}]{list(at)}: got {got[at]!r}, expected {wanted[at]!r}" for at in where[:6])


__all__ = ["Finding", "InvalidProgram", "Wanted", "by_oracle", "check", "configured"]
