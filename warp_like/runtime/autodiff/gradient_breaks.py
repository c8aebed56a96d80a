"""Gradients that stop between two launches, at an array that has none or that has another one.

A gradient passes from launch to launch through the gradients of the arrays between them. Where such an array has
none, the chain ends there, which a program may want (it is ``detach`` in other libraries) and more often forgot. It
ends as well where one launch writes to memory through one array and the next reads it through another, each with a
gradient of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warp_like.base.warn import warn
from warp_like.ir.types import Array, is_differentiable
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Record, Write, program_of
from warp_like.runtime.autodiff.history import extent, share_memory


def warn_of_cut(launches: Iterable[object], copies: Iterable[array], adjoints: Sequence[array]) -> bool:
    """Warn where a recorded launch reads what was made of arrays with gradients before, and a gradient is missing.

    Only the first such place is named. Host writes in between make the array plain numbers for a reader no less, but
    are not looked at: a warning may then come too much, never too little.

    Args:
        launches: What was recorded.
        copies: Arrays without gradients that the host has copied arrays with gradients to.
        adjoints: Gradients that were computed meanwhile, which a tape does not differentiate.

    Returns:
        Whether there is such a place.
    """
    made: list[tuple[array, str, str]] = [(a, "", "") for a in copies]  # with the argument and the kernel that made it
    for r in launches:
        if not isinstance(r, Record):
            continue
        effects = program_of(r).effects
        names = r.kernel.parameter_names
        arrays = {i: r.args[i] for i, t in enumerate(r.types) if isinstance(t, Array) and is_differentiable(t)}
        read = [i for i in effects.reads if i in arrays]
        written = [i for i in effects.writes if i in arrays]
        if any(arrays[i].requires_grad for i in written):
            for i in read:
                if any(share_memory(a, arrays[i]) for a in adjoints):
                    _warn(
                        f"no gradient passes from kernel `{r.kernel.key}` back through the computation of a gradient: "
                        f"`{names[i]}` of `{r.kernel.key}` is one, which a tape does not differentiate; use "
                        "wp.autograd.hvp() for second derivatives"
                    )
                    return True
                for a, name, kernel in made if not arrays[i].requires_grad else ():
                    if share_memory(a, arrays[i]):
                        _warn_of_missing(kernel, name, r.kernel.key, names[i])
                        return True
        if any(arrays[i].requires_grad for i in read):
            made += [(arrays[i], names[i], r.kernel.key) for i in written if not arrays[i].requires_grad]
    return False


def warn_of_aliases(launches: Iterable[object], arrays: Sequence[array]) -> bool:
    """Warn where a launch reads with one gradient what another has written with another, in the same memory.

    Only the first such place is named.

    Args:
        launches: What was recorded.
        arrays: All arrays with gradients among it.

    Returns:
        Whether there is such a place.
    """
    if not _may_alias(arrays):
        return False
    made: list[tuple[array, str, str]] = []
    for r in launches:
        if not isinstance(r, Record):
            made += [(r.dest, "", "")] if isinstance(r, Write) else []
            continue
        effects, names = program_of(r).effects, r.kernel.parameter_names
        own = [(r.args[i], names[i], r.kernel.key) for i in effects.writes if _has_gradient(r.args[i])]
        for i in effects.reads:
            earlier = next((m for m in reversed(made) if _overlap(m[0], r.args[i])), None)
            for last in [earlier, *(m for m in own if _overlap(m[0], r.args[i]))]:
                if last is None or share_memory(last[0].grad_array, r.args[i].grad_array):
                    continue
                writer = f"kernel `{last[2]}`" if last[2] else "what was copied there"
                written = f"`{last[1]}` of `{last[2]}`" if last[2] else "the array copied to"
                _warn(
                    f"no gradient passes from kernel `{r.kernel.key}` back to {writer}: {written} and `{names[i]}` of "
                    f"`{r.kernel.key}` are two arrays over the same memory, each with a gradient of its own; make one "
                    "of the other by slicing, reshape or view, which share it"
                )
                return True
        made += own
    return False


def _may_alias(arrays: Sequence[array]) -> bool:
    """Whether memory of two arrays overlaps that lie at different distances from their gradients."""
    found = sorted((*extent(a), a.grad_array.ptr - a.ptr) for a in arrays)
    end, distance = 0, 0  # of the array that ends last
    for first, last, apart in found:
        if first < end and apart != distance:
            return True
        if last > end:
            end, distance = last, apart
    return False


def _has_gradient(a: object) -> bool:
    return isinstance(a, array) and a.requires_grad


def _overlap(a: array, b: object) -> bool:
    return isinstance(b, array) and b.requires_grad and share_memory(a, b)


def _warn_of_missing(writer: str, written: str, reader: str, read: str) -> None:
    to, between = f"kernel `{writer}`", f"the array between them, `{written}` of `{writer}` and `{read}` of `{reader}`"
    if not writer:
        to, between = "the array that was copied", f"the copy, `{read}` of `{reader}`"
    _warn(
        f"no gradient passes from kernel `{reader}` back to {to}: {between}, has no gradient; make it with "
        "requires_grad=True",
    )


def _warn(text: str) -> None:
    """Warn at the user's call of ``backward``."""
    warn(f"{text}, or ignore this if the gradient is meant to stop there")
