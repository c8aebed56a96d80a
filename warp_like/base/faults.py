"""Errors that compiled code reports while it runs: their numbers, their exceptions, and the words about them.

Compiled code holds a text made by ``encode`` and hands it over together with the numbers that belong into it; only the
host makes words and an exception of them, by ``explain``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from warp_like.base.contract import FIRST_FAULT
from warp_like.base.frozen import Frozen
from warp_like.base.loc import Loc


class Fault(Frozen):
    """A kind of error; numbers below ``FIRST_FAULT`` are the runtime's own."""

    code: int
    exception: type[Exception]


FAULTS: dict[str, Fault] = {
    "index": Fault(FIRST_FAULT, IndexError),
    "assert": Fault(FIRST_FAULT + 1, AssertionError),
    "expect": Fault(FIRST_FAULT + 1, AssertionError),
    "division": Fault(FIRST_FAULT + 2, ZeroDivisionError),
    "finite": Fault(FIRST_FAULT + 3, FloatingPointError),
    "unassigned": Fault(FIRST_FAULT + 4, UnboundLocalError),
    "pivot": Fault(FIRST_FAULT + 5, ArithmeticError),
    "id": Fault(FIRST_FAULT + 6, ValueError),
}
"""The errors by the kind of check that finds them."""


def encode(text: str, kinds: str, loc: Loc | None, run: str = "thread") -> str:
    """Return what compiled code holds of an error.

    Args:
        text: What is wrong, with ``{0}``, ``{1}``, ... for the numbers.
        kinds: A letter for each number: ``i`` and ``u`` for integers, ``f`` for a float32, ``d`` for other floats,
            ``b`` for a bool.
        loc: Where in the user's source.
        run: What a run of the code is, as it is numbered: a thread of the grid, or a block.
    """
    place = "" if loc is None else f"line {loc.line} of {loc.file}"
    if loc is not None and loc.role == "func" and loc.function:
        place += f" in func `{loc.function}`"
    return f"{kinds}\n{run}\n{place}\n{text}"


def explain(subject: str, code: int, encoded: str, values: Sequence[int], thread: int) -> Exception:
    """Return the exception for an error that ``subject``, a kernel, has reported."""
    kinds, run, place, text = encoded.split("\n", 3)
    words = text.format(*(_number(k, v) for k, v in zip(kinds, values, strict=True)))
    exception = next(f.exception for f in FAULTS.values() if f.code == code)
    return exception(f"{subject}: {words} in {run} {thread}" + (f", {place}" if place else ""))


def _number(kind: str, bits: int) -> str:
    """A number from the 64 bits in which it came."""
    if kind in "fd":
        (x,) = struct.unpack("=d", struct.pack("=q", bits))
        return str(np.float32(x) if kind == "f" else x)
    return str(bool(bits)) if kind == "b" else str(bits % (1 << 64) if kind == "u" else bits)
