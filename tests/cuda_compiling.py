"""Compiling for CUDA, too, whatever is compiled for the CPU: ``pytest --for-cuda`` does so in each test.

What PTX the assembler refuses, or what can't be lowered, fails the test whose kernel it is. Kernels that call native
code are left out: ``tests/runtime/test_func_native.py`` has its own tests of CUDA's side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warp_like.backend.compile import to_ptx
from warp_like.backend.libdevice import require_ptxas
from warp_like.backend.nvptx import assemble
from warp_like.backend.target import Target, cuda_target
from warp_like.compiler import pipeline
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function

ARCHITECTURES = ("sm_80", "sm_90")
_seen: set[str] = set()


def require_cuda_code(f: Function, signature: Signature) -> None:
    """Lower the finished ``f`` for each architecture, and assemble what was not assembled before."""
    if any(isinstance(o, ops.Native) for o in f.body.walk()):
        return
    for arch in ARCHITECTURES:
        target = cuda_target(arch)
        ptx = to_ptx(f, target, pipeline._lowering(signature, f, target))
        if ptx not in _seen:
            assemble(ptx, arch)
            _seen.add(ptx)


@contextmanager
def also_for_cuda() -> Iterator[None]:
    """Compile for CUDA whatever is compiled for the CPU meanwhile."""
    require_ptxas()
    before = pipeline._in_lanes

    def both(f: Function, signature: Signature, target: Target, *more: Any) -> Any:
        if not target.is_cuda:
            require_cuda_code(f, signature)
        return before(f, signature, target, *more)

    pipeline._in_lanes = both
    try:
        yield
    finally:
        pipeline._in_lanes = before
