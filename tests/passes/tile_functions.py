"""IR of kernels on tiles as ``fuse`` and ``read_in_place`` get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.frontend.support import build
from warp_like.ir import ops
from warp_like.ir.core import Block, Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import is_large
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.expand import expand
from warp_like.passes.fold import fold
from warp_like.passes.pipeline import Options, optimise, prepare


def expanded(kernel: Any) -> Function:
    """The IR of a kernel, builtins as loops."""
    options = Options(verify=True)
    return dce(cse(fold(expand(optimise(prepare(build(kernel.func), options), options)))))


def after(f: Function, *passes: Callable[[Function], Function]) -> Function:
    """A copy of ``f`` to which the passes have been applied, without what is dead then."""
    g = clone_function(f)
    for apply in passes:
        g = dce(fold(apply(g)))
    return g


def tiles(f: Function) -> int:
    """The number of loops that make a tile, those inside of others not counted."""
    return _tiles(f.body)


def _tiles(b: Block) -> int:
    found = 0
    for o in b.ops:
        if isinstance(o, ops.For) and any(is_large(r.type) for r in o.results):
            found += 1
        else:
            found += sum(map(_tiles, o.regions()))
    return found
