"""The backend's front page: an IR function to LLVM IR, object code, assembly or PTX.

The functions given are kernels that hold no ``Call`` and no builtin with an ``Expand`` or ``Inline``
lowering.
"""

from __future__ import annotations

from warp_like.backend.llvm.entry import entry_name, lower_entry
from warp_like.backend.snippets import join_objects, join_ptx, snippets
from warp_like.backend.target import Options, Target
from warp_like.ir.core import Function

__all__ = ["entry_name", "lower_to_llvm", "to_asm", "to_object", "to_optimized_llvm", "to_ptx"]


def lower_to_llvm(function: Function, target: Target, options: Options) -> str:
    """Return the LLVM IR of ``function`` before LLVM's optimisations."""
    return lower_entry(function, target, options)


def to_optimized_llvm(function: Function, target: Target, options: Options) -> str:
    """Return the LLVM IR of ``function`` for the CPU after LLVM's optimisations."""
    from warp_like.backend.cpu import optimized_ir

    return optimized_ir(lower_entry(function, target, options), target)


def to_object(function: Function, target: Target, options: Options) -> bytes:
    """Return the object code of ``function`` for the CPU."""
    from warp_like.backend.cpu import compile_object

    made = compile_object(lower_entry(function, target, options), target)
    calls = snippets(function)
    return join_objects(made, calls) if calls else made


def to_asm(function: Function, target: Target, options: Options) -> str:
    """Return the assembly of ``function`` for the CPU."""
    from warp_like.backend.cpu import compile_assembly

    return compile_assembly(lower_entry(function, target, options), target)


def to_ptx(function: Function, target: Target, options: Options) -> str:
    """Return the PTX of ``function``."""
    from warp_like.backend.nvptx import compile_ptx

    made = compile_ptx(lower_entry(function, target, options), target)
    calls = snippets(function)
    return join_ptx(made, calls, target) if calls else made
