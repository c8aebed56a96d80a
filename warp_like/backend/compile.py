"""The backend's front page: an IR function to LLVM IR, object code, assembly, PTX or SPIR-V; for each kind of target.

The functions given are kernels that hold no ``Call`` and no builtin with an ``Expand`` or ``Inline``
lowering.
"""

from __future__ import annotations

from typing import NamedTuple

from warp_like.backend.device_limits import require_supported
from warp_like.backend.llvm.accumulators import MOST_COMBINED
from warp_like.backend.llvm.block import works_in_blocks
from warp_like.backend.llvm.cuda import stack_size
from warp_like.backend.llvm.entry import covers, entry_name, lower_entry, uses_stack
from warp_like.backend.llvm.native_calls import snippets
from warp_like.backend.target import Options, Target
from warp_like.ir.core import Function

__all__ = [
    "MOST_COMBINED",
    "DeviceCode",
    "covers",
    "entry_name",
    "lower_to_llvm",
    "stack_size",
    "to_amd",
    "to_asm",
    "to_cuda",
    "to_object",
    "to_optimized_llvm",
    "to_ptx",
    "to_sass",
    "to_spirv",
    "uses_stack",
    "works_in_blocks",
]


def lower_to_llvm(function: Function, target: Target, options: Options) -> str:
    """Return the LLVM IR of ``function`` before LLVM's optimisations."""
    require_supported(function, target)
    return lower_entry(function, target, options).text


def to_optimized_llvm(function: Function, target: Target, options: Options) -> str:
    """Return the LLVM IR of ``function`` for the CPU after LLVM's optimisations."""
    from warp_like.backend.cpu import optimized_ir

    return optimized_ir(lower_entry(function, target, options), target)


def to_object(function: Function, target: Target, options: Options) -> bytes:
    """Return the object code of ``function`` for the CPU."""
    from warp_like.backend.cpu import compile_object

    made = compile_object(lower_entry(function, target, options), target)
    calls = snippets(function)
    if not calls:
        return made
    from warp_like.backend.snippets import join_objects  # most kernels have no native code

    return join_objects(made, calls)


def to_asm(function: Function, target: Target, options: Options) -> str:
    """Return the assembly of ``function`` for the CPU or AMD's GPUs, or for OpenCL the text of its SPIR-V."""
    if target.is_opencl:
        from warp_like.backend.spirv import disassembled

        return disassembled(lower_to_llvm(function, target, options))
    if target.is_amd:
        from warp_like.backend import amdgcn

        return amdgcn.compile_assembly(lower_to_llvm(function, target, options), target, flushes=options.fast_math)
    from warp_like.backend.cpu import compile_assembly

    return compile_assembly(lower_entry(function, target, options), target)


class DeviceCode(NamedTuple):
    """Code for a device, and the errors that it reports by number.

    For CUDA it is PTX or, for a target that is ``assembled``, a cubin; for OpenCL SPIR-V; for AMD's GPUs an object.
    """

    data: bytes
    faults: tuple[str, ...]


def to_cuda(function: Function, target: Target, options: Options) -> DeviceCode:
    """Return the code of ``function`` as the CUDA driver loads it."""
    from warp_like.backend.call_sites import target_with_calls, with_call_sites
    from warp_like.backend.nvptx import assemble, compile_ptx

    lowered = lower_entry(function, target, options)
    ptx = compile_ptx(lowered.text, target_with_calls(target) if lowered.places else target)
    if lowered.places:
        ptx = with_call_sites(ptx, lowered.places)
    calls = snippets(function)
    if calls:
        from warp_like.backend.snippets import join_ptx

        ptx = join_ptx(ptx, calls, target)
    return DeviceCode(assemble(ptx, target) if target.assembled else ptx.encode(), lowered.faults)


def to_sass(function: Function, target: Target, options: Options) -> str:
    """Return the machine code of ``function`` for CUDA as text."""
    from warp_like.backend.nvptx import disassemble

    return disassemble(to_cuda(function, target.replace(assembled=True), options).data)


def to_ptx(function: Function, target: Target, options: Options) -> str:
    """Return the PTX of ``function``."""
    return to_cuda(function, target.replace(assembled=False), options).data.decode()


def to_spirv(function: Function, target: Target, options: Options) -> DeviceCode:
    """Return the code of ``function`` as OpenCL drivers load it.

    Raises:
        WarpCodegenError: It does something that OpenCL devices, or those of this target, do not have.
    """
    from warp_like.backend.spirv import compile_spirv

    require_supported(function, target)
    lowered = lower_entry(function, target, options)
    return DeviceCode(compile_spirv(lowered.text), lowered.faults)


def to_amd(function: Function, target: Target, options: Options) -> DeviceCode:
    """Return the object of ``function`` for one of AMD's GPUs, as its linker takes it.

    Raises:
        WarpCodegenError: It does something that code for these GPUs can't do.
        RuntimeError: It needs math functions, whose library is not on this machine.
    """
    from warp_like.backend import amdgcn

    require_supported(function, target)
    lowered = lower_entry(function, target, options)
    return DeviceCode(amdgcn.compile_object(lowered.text, target, flushes=options.fast_math), lowered.faults)
