"""SPMD on SIMD: from the code of one thread to code in which each vector lane is a thread.

``strides`` says how each value changes from lane to lane, ``stacks`` how the stack is used; ``widen`` rewrites a
function to lanes, with ``accesses`` for what reaches memory; ``choice`` says by ``cost`` which kernels are widened, and
how far. Where one thread runs alone, ``widen_loops`` lets loops of its own run in lanes.
"""
