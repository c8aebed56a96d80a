"""The lowering of IR to LLVM IR text. Nothing here imports llvmlite: it writes text."""
