"""The kernel by which a CUDA graph's condition is set: what ``capture_if`` and ``capture_while`` launch.

A device sets conditions by a function that CUDA documents as one of its device runtime, ``cudaGraphSetConditional``. It
needs no library: assembler and linker leave the name open, as they do for ``malloc`` and ``vprintf``, and the driver
fills it in when it loads the module.
"""

from __future__ import annotations

import functools

from warp_like.backend.target import Target

ENTRY = "wl_set_condition"
"""The entry's name. Its parameters are 64-bit: the address of the flag, the bytes of the flag (1 or 4), the graph's
handle of the condition, and 1 for the condition that the flag is zero, 0 for the condition that it is not."""

_TEXT = """target triple = "{triple}"

declare void @cudaGraphSetConditional(i64, i32)

define ptx_kernel void @{entry}(ptr addrspace(1) %flag, i64 %bytes, i64 %handle, i64 %inverted) {{
  %narrow = icmp eq i64 %bytes, 1
  br i1 %narrow, label %byte, label %word
byte:
  %b = load i8, ptr addrspace(1) %flag
  %wide = zext i8 %b to i32
  br label %found
word:
  %w = load i32, ptr addrspace(1) %flag
  br label %found
found:
  %x = phi i32 [ %wide, %byte ], [ %w, %word ]
  %set = icmp ne i32 %x, 0
  %other = icmp ne i64 %inverted, 0
  %holds = xor i1 %set, %other
  %value = zext i1 %holds to i32
  call void @cudaGraphSetConditional(i64 %handle, i32 %value)
  ret void
}}
"""


def setter_llvm(target: Target) -> str:
    """Return the kernel's LLVM IR."""
    return _TEXT.format(triple=target.triple, entry=ENTRY)


@functools.lru_cache(maxsize=4)
def setter_code(target: Target) -> bytes:
    """Return the kernel as the driver loads it: PTX, or a cubin for a target that is ``assembled``."""
    from warp_like.backend.nvptx import assemble, compile_ptx

    ptx = compile_ptx(setter_llvm(target), target)
    return assemble(ptx, target) if target.assembled else ptx.encode()
