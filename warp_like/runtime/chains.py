"""Gradients that stop between two launches, at an array that has none.

A gradient passes from launch to launch through the gradients of the arrays between them. Where such an array has
none, the chain ends there, which a program may want (it is ``detach`` in other libraries) and more often forgot.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from warp_like.ir.types import Array, is_differentiable
from warp_like.runtime.array import array
from warp_like.runtime.history import share_memory
from warp_like.runtime.recording import Record, program_of


def warn_of_cut(launches: Iterable[object], copies: Iterable[array]) -> bool:
    """Warn where a recorded launch reads what was made of arrays with gradients before, and a gradient is missing.

    Only the first such place is named. Host writes in between make the array plain numbers for a reader no less, but
    are not looked at: a warning may then come too much, never too little.

    Args:
        launches: What was recorded.
        copies: Arrays without gradients that the host has copied arrays with gradients to.

    Returns:
        Whether there is such a place.
    """
    made: list[tuple[array, str, str]] = [(a, "", "") for a in copies]  # with the argument and the kernel that made it
    for r in launches:
        if not isinstance(r, Record):
            continue
        artifact = program_of(r).any_artifact
        names = r.kernel.parameter_names
        arrays = {i: r.args[i] for i, t in enumerate(r.types) if isinstance(t, Array) and is_differentiable(t)}
        read = [i for i in artifact.reads if i in arrays]
        written = [i for i in artifact.writes if i in arrays]
        if any(arrays[i].requires_grad for i in written):
            for i in read:
                for a, name, kernel in made if not arrays[i].requires_grad else ():
                    if share_memory(a, arrays[i]):
                        _warn(kernel, name, r.kernel.key, names[i])
                        return True
        if any(arrays[i].requires_grad for i in read):
            made += [(arrays[i], names[i], r.kernel.key) for i in written if not arrays[i].requires_grad]
    return False


def _warn(writer: str, written: str, reader: str, read: str) -> None:
    to, between = f"kernel `{writer}`", f"the array between them, `{written}` of `{writer}` and `{read}` of `{reader}`"
    if not writer:
        to, between = "the array that was copied", f"the copy, `{read}` of `{reader}`"
    warnings.warn(
        f"no gradient passes from kernel `{reader}` back to {to}: {between}, has no gradient; make it with "
        "requires_grad=True, or ignore this if the gradient is meant to stop there",
        UserWarning,
        stacklevel=5,
    )
