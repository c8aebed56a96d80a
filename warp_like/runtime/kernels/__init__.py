"""Kernels, their modules, and the programs that are compiled for them."""
