"""The bodies of builtins: what stands for a call of a row that is written with other builtins.

A body in the kernel language is built once for the types of its arguments, simplified, and copied into each caller.
All ops of a copy have the place of the call.
"""

from __future__ import annotations

import functools

from warp_like.base.loc import current_loc
from warp_like.builtins.emit import Emitter
from warp_like.builtins.spec import Expand, Inline, Lowering, resolve
from warp_like.frontend.build import build_inline
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.rewrite import Cloner, clone_function
from warp_like.ir.types import Type
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold
from warp_like.passes.inline import inline
from warp_like.passes.licm import licm
from warp_like.passes.unroll import unroll

MAX_UNROLL, MAX_UNROLLED_OPS = 4, 256
"""Few: an iteration that calls other builtins is larger than its ops here."""


def body_of(lower: Lowering) -> Expand | None:
    """Return the body of a row in the form that the emitter runs, None for a row that has none."""
    if isinstance(lower, Inline):
        return _expansion(lower)
    return lower if isinstance(lower, Expand) else None


@functools.cache
def _expansion(lower: Inline) -> Expand:
    return Expand(lambda b, *args: _copy(b, _function(lower, tuple(a.type for a in args)), args))


@functools.lru_cache(maxsize=1024)
def function_of(fn: str, types: tuple[Type, ...]) -> Function:
    """Return the function that calls of an outlined builtin share, in the form of the IR in which they are made."""
    lower = resolve(fn, types).overload.lower
    assert isinstance(lower, Inline)
    f = clone_function(_function(lower, types))
    f.name = fn
    licm(f)
    dce(f)
    return f


@functools.lru_cache(maxsize=1024)
def _function(lower: Inline, types: tuple[Type, ...]) -> Function:
    f = build_inline(lower, types)
    inline(f)
    fold(f)
    unroll(f, MAX_UNROLL, MAX_UNROLLED_OPS)
    fold(f)
    cse(f)
    dce(f)
    return f


def _copy(b: Emitter, f: Function, args: tuple[Value, ...]) -> Value | tuple[Value, ...]:
    cloner = Cloner(dict(zip(f.params, args, strict=True)))
    new = Block()
    new.ops = [cloner.op(o) for o in f.body.ops[:-1]]
    here = current_loc()
    for o in new.walk():
        o.loc = here
    b.block.ops.extend(new.ops)
    results = tuple(cloner.value(v) for v in f.body.yielded)
    return results[0] if len(results) == 1 else results
