"""Sums of 16-bit floats: made in float32 and rounded once.

The square of 256 is beyond float16, and bfloat16 has eight bits. So what adds up products computes with float32 inside,
and gives back the operands' type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like.builtins.emit import Emitter
from warp_like.ir.core import Value
from warp_like.ir.types import float32, scalar_of, with_scalar


def in_float32(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``body``, a lowering or an adjoint, such that operands of 16-bit floats are float32 inside of it."""

    @functools.wraps(body)
    def build(b: Emitter, *args: Value) -> Any:
        narrow = next((s for a in args if (s := scalar_of(a.type)) is not None and s.is_float), None)
        if narrow is None or narrow.bits != 16:
            return body(b, *args)
        result = body(b, *(b.cast(a, with_scalar(a.type, float32)) for a in args))
        if isinstance(result, Value):
            return b.cast(result, with_scalar(result.type, narrow))
        return tuple(b.cast(r, with_scalar(r.type, narrow)) for r in result)

    return build
