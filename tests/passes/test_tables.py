"""Constants of many different components are data of the code, which nobody writes to."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import CudaKernel
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import crossed
from warp_like.backend.compile import to_ptx
from warp_like.backend.nvptx import assemble
from warp_like.backend.target import Options, cuda_target
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.passes.spmd.widen import widen

LENGTH, THREADS = 70, 90
NUMBERS: dict[Any, Any] = {
    wp.float32: lambda k: 1.0 / (k + 3),
    wp.float64: lambda k: -1.0 / (k + 3) if k else -0.0,
    wp.float16: lambda k: 0.25 * k,
    wp.int64: lambda k: k - (1 << 62) - 1,
    wp.uint32: lambda k: (1 << 32) - 1 - k,
    wp.uint8: lambda k: 3 * k,
}


def looking_up(dtype: Any) -> tuple[Any, np.ndarray]:
    """A kernel that reads a constant, and one that replaces a component of a copy; and the constant."""
    numbers = [NUMBERS[dtype](k) for k in range(LENGTH)]
    table = wp.types.vector(LENGTH, dtype)(*numbers)

    @wp.kernel(module="unique")
    def looks_up(at: wp.array(dtype=int), out: wp.array2d(dtype=dtype)):
        i = wp.tid()
        own = table
        own[at[i] % LENGTH] = dtype(7)
        out[i, 0] = table[at[i] % LENGTH]
        out[i, 1] = own[i % LENGTH]
        out[i, 2] = table[i % LENGTH]

    return looks_up, np.array(numbers, dtype=dtype.__name__)


def arguments(numbers: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """What the kernel gets, and what it stores."""
    at = np.random.default_rng(1).integers(0, LENGTH, THREADS).astype(np.int32)
    i = np.arange(THREADS) % LENGTH
    own = np.where(i == at, np.array(7, numbers.dtype), numbers[i])
    return [at, np.zeros((THREADS, 3), numbers.dtype)], np.stack([numbers[at], own, numbers[i]], axis=1)


@pytest.mark.parametrize("dtype", crossed(NUMBERS, every=2), ids=lambda t: t.__name__)
def test_constants_of_many_components(dtype: Any):
    """Compiled for one thread and for lanes, interpreted, and for CUDA."""
    kernel, numbers = looking_up(dtype)
    args, wanted = arguments(numbers)
    f = optimised(kernel.source, Signature(kernel.types))
    assert sum(isinstance(o, ops.Table) for o in f.body.walk()) == 1
    run(f, args, (THREADS,))
    np.testing.assert_array_equal(args[1], wanted)
    run_lanes(widen(f, 4), args, (THREADS,))
    np.testing.assert_array_equal(args[1], wanted)
    args, _ = arguments(numbers)
    wp.launch(kernel, THREADS, args, options={"vector_width": 8 if dtype is wp.float32 else 1})
    np.testing.assert_array_equal(args[1], wanted)
    args, _ = arguments(numbers)
    CudaKernel(f)(args, (THREADS,))
    np.testing.assert_array_equal(args[1], wanted)


def test_assembled():
    kernel, _ = looking_up(wp.float32)
    f = optimised(kernel.source, Signature(kernel.types))
    text = to_ptx(f, cuda_target("sm_80"), Options())
    assert "_table0" in text
    assemble(text, "sm_80")
    assert ".table0" in kernel.inspect("asm", target="opencl")
    assert "@.table0 = " in kernel.inspect("llvm", target="gfx90a")


def test_constants_of_few_numbers_are_stored():
    """An identity matrix is filled with zeros, and gets its ones."""

    @wp.kernel(module="unique")
    def of_ones(at: int, out: wp.array(dtype=float)):
        table = wp.identity(9, dtype=float)
        out[0] = table[at, at]

    f = optimised(of_ones.source, Signature(of_ones.types))
    assert not any(isinstance(o, ops.Table) for o in f.body.walk())
