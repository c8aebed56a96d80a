"""What the code made for CUDA computes, run on the CPU: the grid, the adjoint's stack, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.backend.kernels import blur, reversing
from tests.backend.running import Kernel, compare, copies
from tests.backend.test_grid import trace
from tests.cuda_emulation import Context, CudaKernel
from tests.interpreter import run
from tests.random_ir import DIMS, arguments, functions
from warp_like.backend.llvm.cuda import stack_size
from warp_like.backend.target import Options
from warp_like.ir.core import Function
from warp_like.ir.types import Mat, Type, Vec, bool_, element_shape, float16, float32, float64, int8, int64
from warp_like.passes.pipeline import Options as PassOptions
from warp_like.passes.pipeline import finish, optimise, prepare


@settings(max_examples=25, deadline=None)
@given(f=functions())
def test_random_functions_run_as_interpreted(f: Function) -> None:
    for step in (prepare, optimise, finish):
        f = step(f, PassOptions(verify=True))
    wanted, got = copies(arguments()), copies(arguments())
    run(f, wanted, DIMS)
    CudaKernel(f, Options(fuse_fp=False))(got, DIMS)
    for a, b in zip(wanted, got, strict=True):
        if isinstance(a, np.ndarray):
            compare(b, a, 1e-5)


@pytest.mark.parametrize("dims", [(0,), (1,), (7,), (3, 5), (1, 9), (2, 3, 4), (2, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 64)], ids=str)
def test_every_thread_runs_once(ndim: int, dims: tuple[int, ...], shape: tuple[int, int]) -> None:
    total = int(np.prod(dims))
    wanted = [np.zeros(1, "i"), np.full((total, ndim), -1, "i")]
    got = copies(wanted)
    run(trace(ndim), wanted, dims)
    CudaKernel(trace(ndim))(got, dims, blocks=shape[0], threads=shape[1])
    assert got[0] == total
    np.testing.assert_array_equal(sorted(map(tuple, got[1])), sorted(map(tuple, wanted[1])))


# --- the stack ---

TYPES = [float32, float64, bool_, int8, int64, float16, Vec(3, float64), Mat(3, 3, float32)]


def _rows(t: Type, rows: int = 10, columns: int = 17) -> np.ndarray:
    x = np.random.default_rng(0).integers(0, 2, (rows, columns, *element_shape(t)))
    return x.astype(bool if t == bool_ else str(t if not hasattr(t, "dtype") else t.dtype))


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_values_come_back(t: Type) -> None:
    x = _rows(t)
    y = np.zeros_like(x)
    context = Context(17 * (stack_size(t) + 4), threads=6)  # exactly what is needed: the value and an int32
    CudaKernel(reversing(t))([x, y], (10,), context)
    assert context.get("stack_needed") == 0
    np.testing.assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("missing", [4, 8, 40, None])
def test_too_small_an_arena_says_what_is_needed(t: Type, missing: int | None) -> None:
    x = _rows(t)
    y = np.full_like(x, 7)
    needed = 17 * (stack_size(t) + 4)
    context = Context(0 if missing is None else needed - missing, threads=6)
    kernel = CudaKernel(reversing(t))
    kernel([x, y], (10,), context)
    assert context.get("stack_needed") == needed
    np.testing.assert_array_equal(y, np.full_like(x, 7))  # what would have been read is not written
    context = Context(context.get("stack_needed"), threads=6)
    kernel([x, y], (10,), context)
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_neighbours_touch_neighbouring_words() -> None:
    context = Context(8 * 17, threads=6)
    x = np.arange(6 * 17, dtype="f").reshape(6, 17)
    CudaKernel(reversing(float32))([x, np.zeros_like(x)], (6,), context)
    words = np.frombuffer(context.arena.raw[: 8 * 17 * 6], "f").reshape(34, 6)
    np.testing.assert_array_equal(words[::2], x.T)


# --- faults ---


def _messages(f: Function, args: list[Any], dims: tuple[int, ...]) -> tuple[list[str], list[str]]:
    on_cpu = Kernel(f, Options(debug=True))
    on_cpu(copies(args), dims)
    cuda, context = CudaKernel(f, Options(debug=True)), Context()
    cuda(copies(args), dims, context, 1, 1)
    fault = cuda.fault(context, "kernel")
    return [f"{type(e).__name__} {e}" for e in on_cpu.runtime.errors], [f"{type(fault).__name__} {fault}"]


def test_a_fault_says_what_the_cpu_says() -> None:
    x = np.zeros((4, 4), "f")
    cpu, cuda = _messages(blur(), [x, x.copy()], (2, 3))
    assert cpu == cuda
    assert cuda == ["IndexError kernel: index (1, 4) is out of range for array `x` of shape (4, 4) in thread 2"]


def test_the_first_fault_wins_and_the_others_run_on() -> None:
    x, y = np.ones((4, 4), "f"), np.zeros((4, 4), "f")
    kernel, context = CudaKernel(blur(), Options(debug=True)), Context()
    kernel([x, y], (2, 3), context, 2, 3)
    fault = kernel.fault(context)
    assert isinstance(fault, IndexError)
    assert str(fault).endswith("in thread 2")
    assert np.count_nonzero(y) == 4
    assert context.get("claimed", "i") == 1


def test_no_fault() -> None:
    x = np.ones((4, 4), "f")
    kernel, context = CudaKernel(blur(), Options(debug=True)), Context()
    kernel([x, x.copy()], (2, 2), context)
    assert kernel.fault(context) is None
    assert context.get("claimed", "i") == 0
