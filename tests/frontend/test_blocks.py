"""What threads of a block do together is refused where not all of them come by, and taken where all of them do."""

from __future__ import annotations

from typing import Any

import pytest

import warp_like as wp
from tests.backend.llvm.test_block import finished


def message(kernel: Any) -> list[str]:
    with pytest.raises(wp.WarpCodegenError) as e:
        wp.launch(kernel, 1, [wp.ones(1), wp.zeros(1, dtype=int), 1])
    return str(e.value).splitlines()


OUTSIDE = "what wp.block_any(condition) or wp.block_max(count) gives is the same for all threads"


def test_a_sum_in_a_branch_that_threads_take_apart() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        if x[i] > 0.0:
            wp.atomic_add(x, 0, wp.block_sum(x[i]))

    said = message(k)
    line = k.func.__code__.co_firstlineno + 3
    assert said[0] == (
        "all threads of a block have to reach block_sum() together, but the condition of line "
        f"{line} may hold for some of them alone"
    )
    assert "wp.block_sum(x[i])" in said[2]
    assert said[-1] == (
        "  help: call it outside of the branch; a thread that has nothing to add gives wp.where(condition, value, 0); "
        + OUTSIDE
    )


def test_a_barrier_in_a_loop_that_threads_leave_at_different_times() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        for _ in range(n[i]):
            wp.block_sync()

    said = message(k)
    assert said[0] == (
        "all threads of a block have to reach block_sync() together, but the loop of line "
        f"{k.func.__code__.co_firstlineno + 3} may end earlier for some of them than for others"
    )
    assert said[-1] == f"  help: call it outside of the loop; {OUTSIDE}"


def test_what_follows_an_early_return() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        if i >= m:
            return
        s = wp.shared_array(shape=4, dtype=float)
        x[i] = s[0]

    assert message(k)[0].startswith("all threads of a block have to reach shared_array() together")


def test_a_function_is_looked_into() -> None:
    @wp.func
    def most(v: float):
        return wp.warp_max(v)

    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        while x[i] < 1.0:
            x[i] = most(x[i])

    said = message(k)
    assert said[0].startswith("all threads of a warp have to reach warp_max() together, but the loop")
    assert "most(x[i])" in "\n".join(said)


def test_too_much_memory() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        s = wp.shared_array(shape=(64, 192), dtype=float)
        x[0] = wp.block_sum(s[0, 0])

    assert message(k)[0] == "the threads of a block share 49280 bytes here, 128 of them for sums; 49152 are there"


def test_it_has_no_address() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        s = wp.shared_array(shape=4, dtype=float)
        if s.ptr == wp.uint64(0):
            x[0] = 1.0

    assert message(k)[0] == "an array that a block shares has no address"


def test_shapes_are_constants() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        s = wp.shared_array(shape=m, dtype=float)
        x[0] = s[0]

    assert message(k)[0].startswith("the shape of an array in a kernel is made of positive constants")


def test_places_that_all_threads_reach() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        total = 0.0
        if m > 3 and n[m] > 0:  # arguments, and elements of what is only read
            total += wp.block_sum(x[i])
        for j in range(x.shape[0]):
            if j % 2 == 0:
                total += wp.block_max(x[i])
            if wp.block_all(x[i] > total):
                break
            if j == 7:
                continue
            wp.block_sync()
        rounds = wp.block_max(n[i])
        for _ in range(rounds):
            total += wp.warp_sum(x[i])
        if wp.block_thread() // wp.warp_size() == 0:  # a whole warp
            total += wp.warp_shuffle_down(x[i], 1)
        if wp.warp_any(x[i] > 0.0):
            total += wp.warp_max(x[i])
        x[i] = total

    assert finished(k) is not None


def test_a_warp_is_no_block() -> None:
    @wp.kernel
    def k(x: wp.array(dtype=float), n: wp.array(dtype=int), m: int):
        i = wp.tid()
        if wp.warp_any(x[i] > 0.0):
            x[i] = wp.block_sum(1.0)

    assert message(k)[0].startswith("all threads of a block have to reach block_sum() together, but the condition")
