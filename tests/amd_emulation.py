"""LLVM IR for AMD's GPUs as that for CUDA's, which ``cuda_emulation.py`` runs on the CPU.

Each intrinsic becomes the one of NVPTX that ``_for_the_host`` there knows, or a function over the exchanges of its
teams, whose warps have 64 lanes here. What is not shown is what AMDGPU makes of the text.
"""

from __future__ import annotations

import re

_HELPERS = """
define internal i64 @amd.ballot(i1 %x) {
  %bit = zext i1 %x to i32
  %bits = call i64 @wl_ballot_of_all(i32 %bit)
  ret i64 %bits
}
define internal i32 @amd.bpermute(i32 %at, i32 %x) {
  %lane = lshr i32 %at, 2
  %got = call i64 @wl_shuffle(i32 0, i32 %x, i32 %lane, i32 63)
  %word = trunc i64 %got to i32
  ret i32 %word
}
"""
_DECLARED = (
    ("wl_ballot_of_all", "i64", "i32"),
    ("wl_first", "i64", "i64"),
    ("wl_active_of_all", "i64", ""),
    ("wl_shuffle", "i64", "i32, i32, i32, i32"),
    ("llvm.nvvm.barrier.sync", "void", "i32"),
)


def as_for_cuda(text: str) -> str:
    """Return the module ``text`` with CUDA's parameters, addresses and intrinsics."""
    text = re.sub(r"^declare .*@llvm\.amdgcn\..*\n", "", text, flags=re.MULTILINE)
    text = text.replace("define amdgpu_kernel", "define ptx_kernel").replace(", addrspace(5)", "")
    text = re.sub(r"ptr addrspace\(4\) byref\((\[\d+ x i8\])\)", r"ptr byval(\1)", text)
    for ours, theirs in (("workitem", "tid"), ("workgroup", "ctaid")):
        text = text.replace(f"@llvm.amdgcn.{ours}.id.x()", f"@llvm.nvvm.read.ptx.sreg.{theirs}.x()")
    # The registers end with the implicit arguments.
    implicit = "getelementptr i8, ptr %registers, i64 20"
    text = text.replace("call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()", implicit)
    text = re.sub(r"call i32 @llvm\.amdgcn\.mbcnt\.lo\([^)]*\)", "add i32 0, 0", text)
    lane = "call i32 @llvm.nvvm.read.ptx.sreg.laneid()"
    text = re.sub(r"call i32 @llvm\.amdgcn\.mbcnt\.hi\([^)]*\)", lane, text)
    text = text.replace("@llvm.amdgcn.ballot.i64(i1 true)", "@wl_active_of_all()")
    text = text.replace("@llvm.amdgcn.ballot.i64(", "@amd.ballot(").replace(
        "@llvm.amdgcn.ds.bpermute(", "@amd.bpermute("
    )
    text = text.replace("@llvm.amdgcn.readfirstlane.i64(", "@wl_first(")
    text = text.replace("call void @llvm.amdgcn.s.barrier()", "call void @llvm.nvvm.barrier.sync(i32 0)")
    text = re.sub(r"^.*@llvm\.amdgcn\.wave\.barrier.*\n|^  fence .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"@__ocml_(\w+)_f(32|64)\b", lambda m: f"@{m[1]}{'f' if m[2] == '32' else ''}", text)
    declared = "".join(f"declare {result} @{name}({given})\n" for name, result, given in _DECLARED)
    head, entry, rest = text.partition("define ptx_kernel")
    return head + declared + entry + rest + _HELPERS
