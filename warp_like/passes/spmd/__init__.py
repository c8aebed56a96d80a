"""SPMD on SIMD: from the code of one thread to code in which each vector lane is a thread.

``steps`` says how each value changes from lane to lane, ``widen`` rewrites a function to lanes, and ``choice`` says
which kernels are widened, and how far.
"""
