"""Builtins whose bodies are written in the kernel language, as functions that the frontend can build."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from types import CodeType
from typing import Any

from warp_like import values
from warp_like.builtins.overload import Inline
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.function import Overload
from warp_like.values.dtypes import SCALAR_CLASSES


@functools.cache
def inline_overload(lower: Inline) -> Overload:
    """Return the body of a builtin as a user function would be: all names in it are builtins and types."""
    mentioned = set(_names(lower.function.__code__))
    types: dict[str, Any] = {str(t): cls for t, cls in SCALAR_CLASSES.items()}
    types |= {name: values.class_of(values.NAMED[name]) for name in mentioned if name in values.NAMED}
    if lower.called or lower.native:
        from warp_like.values.geometry import STRUCTS  # most programs have no need of them

        types |= {**STRUCTS, "INFINITY": math.inf, "PI": math.pi}
    made = Overload(lower.function, {**types, **{name: Builtin(name) for name in mentioned if name in REGISTRY}})
    made.takes_copies = True
    return made


def _names(code: CodeType) -> Iterator[str]:
    """The global names and attributes that a function mentions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
