"""Compiles one kernel of a public package, and says what came of it."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import warp_like as wp
from warp_like.base.missing_names import MISSING
from warp_like.ir.types import Array, Type

NOT_HERE = "exists in Warp and not here: "
"""In messages about a name of Warp that is missing."""

REFUSED = {"is can't be changed by a kernel": "arrays in elements that kernels replace"}
"""What this release refuses by intention (the page "Coming from Warp"), by words of its message."""


@dataclass(frozen=True)
class Result:
    """What came of a kernel.

    Attributes:
        name: Of the kernel, with its module.
        needs: The missing subsystem that it uses, or what is refused by intention; empty where it uses none.
        error: Why it can't be compiled, for any other reason; empty where it can.
        seconds: How long that took.
    """

    name: str
    needs: str = ""
    error: str = ""
    seconds: float = 0.0


def names(kernels: list[Any]) -> list[str]:
    """Return a name for each kernel: its function's with the module, numbered where several have one."""
    counts: dict[str, int] = {}
    found = []
    for k in kernels:
        name = f"{k.func.__module__}.{k.func.__qualname__}"
        counts[name] = count = counts.get(name, 0) + 1
        found.append(name if count == 1 else f"{name} ({count})")
    return found


def examples(kernel: Any) -> list[tuple[Type, ...]]:
    """Return types to try for a generic kernel: float32, alone and in arrays of all numbers of dimensions."""
    element = wp.float32._ir_type_
    choices: list[list[Type]] = []
    for name, t in kernel.declared:
        ndim = getattr(kernel.source.annotations[name], "ndim", None)
        arrays = [Array(element, n) for n in ([ndim] if isinstance(ndim, int) else range(1, 5))]
        choices.append([t] if t is not None else [*arrays, *([] if isinstance(ndim, int) else [element])])
    return list(itertools.product(*choices))


def compile_now(kernel: Any) -> None:
    """Compile a kernel for the CPU; a generic one as far as it has been declared, or for the first types that fit."""
    instances = list(kernel.overloads.values()) if kernel.is_generic else [kernel]
    for instance in instances:
        instance.current().program(instance.types).require(contiguous=True, wide=False, sums=True)
    if not instances:
        _compile_example(kernel)


def _compile_example(kernel: Any) -> None:
    first: Exception | None = None
    for types in examples(kernel):
        try:
            made = kernel.instance(types)
            made.current().program(made.types).require(contiguous=True, wide=False, sums=True)
        except wp.WarpCodegenError as e:
            first = first or e
        else:
            return
    assert first is not None
    raise first


def missing_subject(text: str) -> str:
    """Return the subsystem that a message names, such as ``tiles``, or what is refused by intention."""
    for words, subject in REFUSED.items():
        if words in text:
            return subject
    subject = text.partition(NOT_HERE)[2].partition(" not in this release")[0]
    return subject.removesuffix(" is").removesuffix(" are")


def stood_in(text: str) -> str:
    """Return the subsystem whose objects a message, or a type, names by a stand-in."""
    name = text.partition("StandIn")[2]
    for missing, subject in MISSING.items():
        if missing[0].isupper() and name.startswith(missing):
            return subject.removesuffix(" is").removesuffix(" are")
    return ""


def result(name: str, kernel: Any) -> Result:
    """Compile a kernel."""
    began = time.perf_counter()
    try:
        compile_now(kernel)
        needs, error = stood_in(str([t for _, t in kernel.declared])), ""
    except Exception as e:  # what a user would see, of whatever kind
        needs = missing_subject(str(e)) or stood_in(str(e))
        error = "" if needs else f"{type(e).__name__}: {e}"
    return Result(name, needs, error, time.perf_counter() - began)
