"""IR to machine code: one lowering to LLVM serves the CPU and NVPTX.

llvmlite is imported inside functions of this package only, so that importing it costs nothing.
"""
