"""Additions that ask what was there before: each thread gets a number of its own, on one OS thread and on several."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.backend.target import host_target
from warp_like.compiler.pipeline import optimised, stage_text
from warp_like.compiler.signature import Signature
from warp_like.passes.effects import counters


@wp.kernel
def places(at: wp.array(dtype=int), n: wp.array(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    out[i] = wp.atomic_add(n, at[i], n.dtype(1))


@wp.kernel
def taken(at: wp.array(dtype=int), n: wp.array2d(dtype=int), out: wp.array(dtype=int)):
    """Not for lanes; each place is given back by a thread in three."""
    i = wp.tid()
    row = n[at[i] % 2]
    place = wp.atomic_add(row, at[i], 1)
    if i % 3 == 0:
        for _ in range(at[i]):
            place -= 1
        wp.atomic_sub(n, at[i] % 2, at[i], 1)
    out[i] = place


@wp.kernel
def both(at: wp.array(dtype=int), n: wp.array(dtype=int), same: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.atomic_add(n, at[i], 1)
    wp.atomic_add(same, at[i], 1)


@wp.kernel
def floats(n: wp.array(dtype=float), m: wp.array(dtype=int), out: wp.array(dtype=float)):
    """A sum of floats, and one of which nobody asks."""
    i = wp.tid()
    out[i] = wp.atomic_add(n, 0, 1.0)
    wp.atomic_add(m, 0, 1)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(wp.config, "num_threads", request.param)
    return int(request.param)


def test_which_arrays_count() -> None:
    found = [counters(analyse(optimised(k.source, Signature(k.types)))) for k in (taken, both, floats)]
    assert found == [(1,), (1,), ()]


@pytest.mark.parametrize("dtype", [wp.int32, wp.uint64, wp.int64])
@pytest.mark.parametrize("width", [0, 1, 8])
@pytest.mark.parametrize("n", [1, 37, 20_000])
def test_each_thread_gets_a_number_of_its_own(threads: int, dtype: Any, width: int, n: int) -> None:
    at = np.random.default_rng(n).integers(0, 5, n).astype(np.int32)
    first = np.arange(5) * 100
    count, out = wp.array(first, dtype=dtype), wp.zeros(n, dtype=dtype)
    wp.launch(places, n, [wp.array(at), count, out], options={"vector_width": width})
    sizes = np.bincount(at, minlength=5)
    np.testing.assert_array_equal(count.numpy(), (first + sizes).astype(count.numpy().dtype))
    for k in range(5):
        numbers = out.numpy()[at == k]
        expected = (first[k] + np.arange(sizes[k])).astype(numbers.dtype)
        np.testing.assert_array_equal(np.sort(numbers), np.sort(expected))
        if threads == 1:
            np.testing.assert_array_equal(numbers, expected)


def test_rows_and_what_is_given_back(threads: int) -> None:
    n = 5000
    at = np.random.default_rng(0).integers(0, 4, n).astype(np.int32)
    count, out = wp.zeros((2, 4), dtype=int), wp.zeros(n, dtype=int)
    wp.launch(taken, n, [wp.array(at), count, out])
    left = np.zeros((2, 4), np.int32)
    np.add.at(left, (at % 2, at), np.where(np.arange(n) % 3, 1, 0))
    np.testing.assert_array_equal(count.numpy(), left)


def test_two_arguments_that_are_one_array(threads: int) -> None:
    n = 20_000
    at = np.random.default_rng(0).integers(0, 3, n).astype(np.int32)
    count, out = wp.zeros(3, dtype=int), wp.zeros(n, dtype=int)
    wp.launch(both, n, [wp.array(at), count, count, out])
    np.testing.assert_array_equal(count.numpy(), 2 * np.bincount(at, minlength=3))
    for k in range(3):
        assert len(np.unique(out.numpy()[at == k])) == (at == k).sum()


def test_two_python_threads(threads: int) -> None:
    """Launches of one counter by two threads of Python, each long enough to let go of the GIL."""
    n, repeats = 300_000, 3
    at, count = wp.zeros(n, dtype=int), wp.zeros(1, dtype=int)
    outs = [[wp.zeros(n, dtype=int) for _ in range(repeats)] for _ in range(2)]

    def launch(mine: list[wp.array]) -> None:
        for out in mine:
            wp.launch(places, n, [at, count, out], options={"vector_width": 1})

    workers = [threading.Thread(target=launch, args=(mine,)) for mine in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    numbers = np.sort(np.concatenate([out.numpy() for mine in outs for out in mine]))
    np.testing.assert_array_equal(numbers, np.arange(2 * repeats * n))


@wp.kernel
def wait(flag: wp.array(dtype=int), polls: wp.int64, out: wp.array(dtype=int)):
    for _ in range(polls):
        if wp.atomic_add(flag, 0, 0) > 0:
            out[0] = 1
            break


def test_a_loop_may_wait_for_what_the_host_writes() -> None:
    """LLVM leaves each load where it stands; it would take a plain one out of the loop."""
    text = stage_text(wait.captured_source, Signature(wait.types), host_target(), "llvm")
    assert re.search(r"= load atomic i32, .* monotonic", text)
    assert re.search(r"store atomic i32 .* monotonic", text)
