"""OpenCL devices as a target: memory that kernels reach by address, and programs in SPIR-V."""
