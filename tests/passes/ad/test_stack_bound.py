"""How much stack an adjoint needs is told from its arguments: enough, and where they tell all exactly that."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import warp_like as wp
from tests.backend.running import pack
from tests.cuda_emulation import Context, CudaKernel
from tests.passes.ad.random_kernels import THREADS, sources
from tests.passes.ad.test_random_kernels import (
    COUNTERS,
    INDICES,
    QUICK,
    WRT,
    Step,
    launches,
    module,
    random_arrays,
    typed,
)
from warp_like import _native
from warp_like.backend.llvm.cuda import stack_size
from warp_like.backend.target import Options as Lowering
from warp_like.base.contract import MAX_DIMS, StackOp
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.frontend.build import build_kernel
from warp_like.ir.core import Function
from warp_like.ir.types import Array
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.ad.stack_bound import stack_bound
from warp_like.passes.pipeline import Options, finish, optimise, prepare


@wp.kernel
def counted(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def by_extent(x: wp.array2d(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    r = x[i, 0]
    for k in range(1, x.shape[1], 2):
        r = wp.sin(r) * x[i, k]
    y[i] = r


@wp.kernel
def two_loops(x: wp.array(dtype=float), n: int, m: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n):
        r = wp.sin(r)
    for _ in range(m):
        r = r * r
    y[i] = r


@wp.kernel
def nested(x: wp.array(dtype=float), n: int, m: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n):
        for _ in range(m):
            r = wp.sin(r)
    y[i] = r


@wp.kernel
def triangle(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for k in range(n):
        for _ in range(k):
            r = wp.sin(r)
    y[i] = r


@wp.kernel
def by_thread(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(i + 1):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def backwards(x: wp.array(dtype=float), n: int, step: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n, 3, step):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def unsigned(x: wp.array(dtype=float), n: wp.uint32, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(wp.uint32(2), n):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def by_time(x: wp.array(dtype=float), total: float, dt: float, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(int(total / dt)):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def leaving(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n):
        r = wp.sin(r)
        if r > 10.0:
            break
    y[i] = r


@wp.kernel(checkpoint_loops=True)
def checkpointed(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def overwriting(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    for _ in range(n):
        x[i] = wp.sin(x[i])


@wp.kernel
def branching(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    if i % 2 == 0:
        for _ in range(n):
            r = wp.sin(r)
    else:
        for _ in range(2 * n):
            r = wp.cos(r)
    y[i] = r


@wp.kernel
def by_data(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(n[i]):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def until(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    while r > 0.1:
        r = wp.sin(r)
    y[i] = r


N = 6


@wp.kernel
def window(x: wp.array(dtype=float), lo: int, n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(lo, lo + n):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def window_at_data(x: wp.array(dtype=float), lo: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    for _ in range(lo[i], lo[i] + 4):
        r = wp.sin(r)
    y[i] = r


@wp.kernel
def by_three(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    k = 0
    while k < n:
        r = wp.sin(r)
        k += 3
    y[i] = r


def reverse(kernel: Any) -> Function:
    types = tuple(t for _, t in kernel.parameters)
    wrt = tuple(i for i, t in enumerate(types) if isinstance(t, Array) and t.dtype.is_float)
    return optimised(kernel.source, Signature(types, True, False, wrt, (), kernel.compile_options()))


def program(f: Function) -> bytes:
    return b"".join(struct.pack("<iii4xd", *step) for step in stack_bound(f, stack_size))


def bound(f: Function, args: Sequence[Any], dims: tuple[int, ...] = (N,)) -> int:
    extents = (*dims, *[1] * (MAX_DIMS - len(dims)))
    block = pack(f, args)
    return _native.stack_bound(program(f), bytes(block), extents)


def needed(f: Function, args: Sequence[Any], capacity: int) -> int:
    """What a launch with stacks of ``capacity`` bytes says that it would have needed; 0 if that was enough."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    context = Context(capacity, 2)
    CudaKernel(f, Lowering(fuse_fp=False))(copies, (N,), context, 2, 1)
    return context.get("stack_needed")


def arguments(kernel: Any, f: Function, numbers: Sequence[Any]) -> list[Any]:
    """Arrays of ones (64 columns) and numbers for the parameters of an adjoint."""
    left = iter(numbers)
    made: list[Any] = []
    for p in f.params:
        if not isinstance(p.type, Array):
            made.append(next(left))
            continue
        dtype = {"int32": np.int32, "float64": np.float64}.get(str(p.type.dtype), np.float32)
        made.append(np.ones((N,) if p.type.ndim == 1 else (N, 64), dtype))
    return made


EXACT = [
    (counted, [9], 36),
    (counted, [0], 0),
    (counted, [-3], 0),
    (by_extent, [], 8 * 32),
    (two_loops, [5, 7], 48),
    (by_thread, [], 4 * N),
    (backwards, [20, -3], 24),
    (backwards, [2, -3], 0),
    (backwards, [20, 3], 0),
    (unsigned, [9], 28),
    (unsigned, [1], 0),
    (leaving, [11], 44),
    (overwriting, [12], 48),
]


@pytest.mark.parametrize(("kernel", "numbers", "expected"), EXACT, ids=lambda x: getattr(x, "key", str(x)))
def test_what_arguments_tell_exactly(kernel: Any, numbers: list[int], expected: int) -> None:
    f = reverse(kernel)
    args = arguments(kernel, f, numbers)
    assert bound(f, args) == expected
    assert needed(f, args, expected) == 0
    assert not expected or needed(f, args, expected - 4)


ENOUGH = [
    (nested, [5, 7], 48),  # when the inner loop saves, one state of the outer one has been taken back
    (triangle, [9], 4 * (9 + 8)),
    (by_time, [1.0, 0.1], 44),
    (branching, [5], 60),  # both sides are counted
    (checkpointed, [100], 4 * (10 + 11 + 2)),
    (checkpointed, [10000], 4 * (100 + 101 + 2)),
]


@pytest.mark.parametrize(("kernel", "numbers", "most"), ENOUGH, ids=lambda x: getattr(x, "key", str(x)))
def test_what_is_enough_and_little_more(kernel: Any, numbers: list[Any], most: int) -> None:
    f = reverse(kernel)
    args = arguments(kernel, f, numbers)
    found = bound(f, args)
    assert 0 < found <= most
    assert needed(f, args, found) == 0


@pytest.mark.parametrize("kernel", [by_data, until], ids=lambda k: k.key)
def test_what_depends_on_data_has_no_bound(kernel: Any) -> None:
    f = reverse(kernel)
    assert stack_bound(f, stack_size) == ()
    assert bound(f, arguments(kernel, f, [])) == -1


def test_numbers_that_tell_nothing() -> None:
    f = reverse(by_time)
    most = 4 * (2**31 - 1)
    for total, dt in ((1.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0)):
        assert bound(f, arguments(by_time, f, [total, dt])) >= most


def test_bounds_of_a_range_that_wrap() -> None:
    """The end of a range is on the other side of its beginning where the sum of the two has wrapped."""
    f = reverse(window)
    for lo, n, trips in ((5, 7, 7), (5, -7, 0), (2**31 - 8, 7, 7), (-(2**31), 7, 7)):
        assert bound(f, arguments(window, f, [lo, n])) == 4 * trips
    assert bound(f, arguments(window, f, [2**31 - 3, 7])) >= 0
    assert bound(f, arguments(window, f, [-(2**31) + 3, -10])) >= 4 * (2**32 - 10)
    f = reverse(window_at_data)
    assert bound(f, arguments(window_at_data, f, [])) == 16
    f = reverse(by_three)
    assert bound(f, arguments(by_three, f, [10])) == 16
    assert bound(f, arguments(by_three, f, [2**31 - 1])) == -1  # it starts again from the least number


def test_only_programs_are_run() -> None:
    for wrong in (
        [(StackOp.ADD, 0, 0, 0.0)],
        [(StackOp.ARGUMENT, 4, 5, 0.0)],
        [(StackOp.THREAD, 2, 1, 0.0)],
        [(99, 0, 0, 0.0)],
        [(StackOp.CONSTANT, 0, 0, 1.0), (StackOp.LIMITED, 0, 65, 1.0)],
    ):
        packed = b"".join(struct.pack("<iii4xd", *step) for step in wrong)
        with pytest.raises(ValueError, match="not a program for the bound of a stack"):
            _native.stack_bound(packed, bytes(8), (1, 1, 1, 1))


def interval(code: StackOp, lows: Sequence[float], highs: Sequence[float]) -> float:
    """The upper end of an operation on the intervals between ``lows`` and ``highs``."""
    steps: list[tuple[int, int, int, float]] = []
    for low, high in zip(lows, highs, strict=True):
        k = len(steps)
        steps += [(StackOp.CONSTANT, 0, 0, low), (StackOp.CONSTANT, 0, 0, high + 1), (StackOp.INDEX, k, k + 1, 1.0)]
    steps.append((code, 2, 5, 0.0))
    packed = b"".join(struct.pack("<iii4xd", *step) for step in steps)
    return _native.stack_bound(packed, b"", (1, 1, 1, 1))


def test_intervals_hold_what_numbers_give() -> None:
    rng = np.random.default_rng(0)
    exact = {
        StackOp.ADD: lambda x, y: x + y,
        StackOp.SUBTRACT: lambda x, y: x - y,
        StackOp.MULTIPLY: lambda x, y: x * y,
        StackOp.MINIMUM: min,
        StackOp.MAXIMUM: max,
        StackOp.QUOTIENT: lambda x, y: int(x / y),
        StackOp.REMAINDER: lambda x, y: x % y,
        StackOp.LESS: lambda x, y: int(x < y),
        StackOp.EQUAL: lambda x, y: int(x == y),
    }
    for _ in range(200):
        lows = rng.integers(-40, 60, 2)
        highs = lows + rng.integers(0, 30, 2)
        for code, op in exact.items():
            if code in (StackOp.QUOTIENT, StackOp.REMAINDER) and lows[1] <= 0:
                continue
            most = max(op(int(x), int(y)) for x in range(lows[0], highs[0] + 1) for y in range(lows[1], highs[1] + 1))
            found = interval(code, lows, highs)
            if most >= 0:
                assert -(-most // 4) * 4 <= found
                assert code == StackOp.REMAINDER or found <= -(-most // 4) * 4


@settings(QUICK, max_examples=8)
@given(source=sources(), step=launches(1))
def test_random_adjoints_have_room(source: str, step: Step) -> None:
    _, (name, n, s) = step
    kernel = module(source)[name]
    options = Options(checkpoint_loops=kernel.option("checkpoint_loops"), verify=True)
    f = prepare(build_kernel(kernel.source, tuple(t for _, t in kernel.parameters), wide=False), options)
    f = adjoint(f, WRT, options)
    f = finish(optimise(f, options), options)
    arrays = [*typed(random_arrays(0)), INDICES.copy(), COUNTERS.copy()]
    args = [*arrays, n, s, *typed(random_arrays(1)), *(arrays[i].copy() for i in f.prelaunch_copies)]
    found = bound(f, args, (THREADS,))
    if found < 0:
        return
    context = Context(found, 2)
    CudaKernel(f, Lowering(fuse_fp=False))(args, (THREADS,), context, 2, 1)
    assert context.get("stack_needed") == 0
