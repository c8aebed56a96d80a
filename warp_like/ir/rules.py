"""What the verifier can be asked to check beside the rules of the IR itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.ir.core import Op
from warp_like.ir.types import Type


class Rule(Frozen):
    """Something that holds from some stage on: of every op, or of the types of all values.

    Attributes:
        text: What is wrong where it does not hold.
        broken: Returns whether an op breaks it; asked of ops of the classes ``among``.
        among: See ``broken``.
        broken_by: Returns whether a value of a type breaks it.
    """

    text: str
    broken: Callable[[Any], bool] | None = None
    among: tuple[type[Op], ...] = ()
    broken_by: Callable[[Type], bool] | None = None
