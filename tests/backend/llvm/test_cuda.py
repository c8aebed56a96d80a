"""What the code made for CUDA computes, run on the CPU: the grid, the adjoint's stack, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.backend.kernels import blur, reversing
from tests.backend.llvm.test_grid import trace
from tests.backend.running import Kernel, compare, copies
from tests.backend.test_ptx import accept
from tests.cuda_emulation import Context, CudaKernel
from tests.interpreter import run
from tests.ir_builder import branch, loop, start, tid
from tests.long_tail import crossed, name
from tests.random_ir import DIMS, arguments, functions
from warp_like.analysis.memory import analyse
from warp_like.backend.llvm.cuda import stack_size
from warp_like.backend.target import Options
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.layout import vector_align
from warp_like.ir.types import (
    Array,
    Mat,
    Type,
    Vec,
    bool_,
    element_shape,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    scalar_of,
    uint32,
    uint64,
)
from warp_like.passes.effects import constant_arrays
from warp_like.passes.pipeline import Options as PassOptions
from warp_like.passes.pipeline import finish, optimise, prepare


@settings(max_examples=25, deadline=None)
@given(f=functions())
def test_random_functions_run_as_interpreted(f: Function) -> None:
    for step in (prepare, optimise, finish):
        f = step(f, PassOptions(verify=True))
    wanted = copies(arguments())
    run(f, wanted, DIMS)
    for options in (Options(fuse_fp=False), Options(fuse_fp=False, contiguous=True, narrow=True)):
        got, context = copies(arguments()), Context(4096, threads=6)
        if options.contiguous and not all(a.flags.c_contiguous for a in got if isinstance(a, np.ndarray)):
            continue
        CudaKernel(f, options)(got, DIMS, context)
        assert context.get("stack_needed") == 0
        for a, b in zip(wanted, got, strict=True):
            if isinstance(a, np.ndarray):
                compare(b, a, 1e-5)


@pytest.mark.parametrize("dims", [(0,), (1,), (7,), (3, 5), (1, 9), (2, 3, 4), (2, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 64)], ids=str)
@pytest.mark.parametrize("narrow", [False, True], ids=["64", "32"])
def test_every_thread_runs_once(ndim: int, dims: tuple[int, ...], shape: tuple[int, int], narrow: bool) -> None:
    total = int(np.prod(dims))
    wanted = [np.zeros(1, "i"), np.full((total, ndim), -1, "i")]
    got = copies(wanted)
    run(trace(ndim), wanted, dims)
    CudaKernel(trace(ndim), Options(contiguous=narrow, narrow=narrow))(got, dims, blocks=shape[0], threads=shape[1])
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


# --- updates of one address by a warp ---

WIDE = [int32, uint32, int64, float32, float64, Vec(3, float32)]
KINDS = ["add", "sub", "min", "max", "and", "or", "xor"]


def gathering(kind: str, t: Type, where: str) -> Function:
    """All threads update one element, or in a loop one after the other, or that of their row, or those of their own."""
    f, b = start("gathering", x=Array(t, 1), y=Array(t, 1), n=int32)
    x, y, n = f.params
    value = b.load(x, [tid(b)])
    if where == "always":
        b.atomic(kind, y, [b.sub(n, 1)], value)
    elif where == "rows":  # along the last dimension but one
        b.atomic(kind, y, [b.add(b.insert(ops.Tid(0, 2), int32).result, b.sub(n, 2))], value)
    elif where == "mostly":
        with loop(b, 0, n) as each:
            b.atomic(kind, y, [each.i], value)
    else:
        b.atomic(kind, y, [b.mod(tid(b), n)], value)
    b.yield_()
    return f


@pytest.mark.parametrize(("where", "kind", "t"), crossed(["always", "mostly"], KINDS, WIDE, every=2), ids=name)
def test_a_warp_updates_one_address_at_once(kind: str, t: Type, where: str) -> None:
    scalar = scalar_of(t)
    assert scalar is not None
    if scalar.is_float and kind in ("and", "or", "xor"):
        return
    rng = np.random.default_rng(0)
    x = rng.integers(0 if scalar.kind == "uint" else -(2**30), 2**31, (64, *element_shape(t))).astype(str(scalar))
    f = gathering(kind, t, where)
    wanted, alone = [x, np.ones_like(x[:2]), 2], copies([x, np.ones_like(x[:2]), 2])
    run(f, wanted, (64,))
    for arch in ("sm_75", "sm_80") if t in (int32, uint32) and where == "always" else ("sm_80",):
        got = copies([x, np.ones_like(x[:2]), 2])
        kernel = CudaKernel(f, arch=arch)
        kernel.in_blocks(got, (64,), whole=True)
        compare(got[1], wanted[1], 1e-4 if scalar == float32 else 1e-12)
    kernel(alone, (64,), blocks=3, threads=7)
    compare(alone[1], wanted[1], 1e-4 if scalar == float32 else 1e-12)


@pytest.mark.parametrize("narrow", [False, True])
def test_warps_in_rows_of_a_grid(narrow: bool) -> None:
    x = np.random.default_rng(0).standard_normal(192).astype(np.float32)
    f, options = gathering("add", float32, "rows"), Options(contiguous=narrow, narrow=narrow)
    for arch in ("sm_80", "gfx942"):
        for dims, whole in (((4, 48), True), ((2, 64), True), ((1, 7), False), ((40, 3), False)):
            rows, columns = dims
            got = [x, np.ones(rows, np.float32), 2]
            CudaKernel(f, options, arch).in_blocks(got, dims, 2, 64 if whole else 5, whole=whole)
            sums = 1.0 + x[: rows * columns].reshape(dims).sum(axis=1, dtype=np.float64)
            np.testing.assert_allclose(got[1], sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_what_a_warp_exchanges(arch: str) -> None:
    once = accept(gathering("add", float32, "always"), arch)
    assert once.count("shfl.sync.bfly") == 5
    assert "match" not in once
    assert "match.all.sync.b64" in accept(gathering("add", float32, "mostly"), arch)
    assert "match.all.sync.b64" in accept(gathering("add", float32, "rows"), arch)
    assert "activemask" not in accept(gathering("add", float32, "own"), arch)
    words = accept(gathering("min", uint32, "always"), arch)
    assert ("redux.sync.min.u32" in words) == (arch != "sm_75")
    assert accept(gathering("add", int64, "always"), arch).count("shfl.sync.bfly") == 10


def test_an_update_whose_old_value_is_used_stays() -> None:
    f, b = start("numbering", count=Array(int32, 1), out=Array(int32, 1))
    b.store(f.params[1], [tid(b)], b.atomic("add", f.params[0], [b.index(0)], b.index(1)))
    b.yield_()
    assert "activemask" not in accept(f)


# --- what launches say of their arguments ---


def test_arrays_that_are_only_read() -> None:
    f, b = start("reading", x=Array(float32, 1), y=Array(float32, 1))
    x, y = f.params
    i = tid(b)
    b.store(y, [i], b.add(b.load(x, [i]), b.load(y, [i])))
    b.yield_()
    assert constant_arrays(analyse(f)) == (0,)
    ptx = accept(f, options=Options(contiguous=True, constant=(0,)))
    assert ptx.count("ld.global.nc") == 1
    assert ptx.count("ld.global.b32") == 1
    assert "ld.global.nc" not in accept(f)


def test_an_array_that_a_branch_has_chosen_may_be_written_to() -> None:
    f, b = start("choosing", x=Array(float32, 1), y=Array(float32, 1), z=Array(float32, 1))
    x, y, z = f.params
    i = tid(b)
    (a,) = branch(b, b.gt(i, 3), lambda: (x,), lambda: (y,))
    b.store(y, [i], b.load(a, [i]))
    b.store(z, [i], b.load(x, [i]))
    b.yield_()
    assert constant_arrays(analyse(f)) == (0,)
    ptx = accept(f, options=Options(contiguous=True, constant=(0,)))
    assert ptx.count("ld.global.nc") == 1


def test_memory_at_an_address_may_be_any_array() -> None:
    f, b = start("pointing", x=Array(float32, 1), at=uint64)
    i = tid(b)
    a = b.insert(ops.AtAddress(f.params[1], (b.index(8),)), Array(float32, 1)).result
    b.store(a, [i], b.load(f.params[0], [i]))
    b.yield_()
    assert constant_arrays(analyse(f)) == ()


@pytest.mark.parametrize(
    ("t", "width"), [(Vec(2, float32), "v2.b32"), (Vec(4, float32), "v4.b32"), (Mat(2, 2, float64), "v2.b64")], ids=str
)
def test_aligned_elements_move_as_one(t: Type, width: str) -> None:
    f, b = start("moving", x=Array(t, 1), y=Array(t, 1))
    b.store(f.params[1], [tid(b)], b.load(f.params[0], [tid(b)]))
    b.yield_()
    ptx = accept(f, options=Options(contiguous=True, aligned=True))
    assert f"ld.global.{width}" in ptx
    assert f"st.global.{width}" in ptx
    for options in (Options(contiguous=True), Options(aligned=True)):
        assert f".{width}" not in accept(f, options=options)


def test_alignment_of_elements() -> None:
    sizes = {float32: 4, Vec(2, float32): 8, Vec(3, float32): 4, Vec(4, float32): 16, Mat(4, 4, float64): 16, int8: 1}
    assert {t: vector_align(t) for t in sizes} == sizes
