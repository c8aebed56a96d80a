"""How the emulation of CUDA runs the threads of a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests import matrix_unit_emulation as matrix_units
from tests.cuda_emulation import LANES, _Team

COUNT = 40  # a warp, and a part of one


def run(thread: Callable[[_Team, int], None]) -> list[BaseException]:
    """Run a block, and return the errors of its threads."""
    from threading import Thread

    team = _Team(COUNT, whole=False, lanes=LANES)
    running = [Thread(target=team.run, args=(lambda _, number: thread(team, number), 0, n)) for n in range(COUNT)]
    for one in running:
        one.start()
    team.give_turn()
    for one in running:
        one.join(60.0)
        assert not one.is_alive()
    return team.errors


def test_threads_meet_at_barriers_and_lanes_exchange_values() -> None:
    before, sums, after = [], {}, []

    def thread(team: _Team, n: int) -> None:
        before.append(n)
        team.wait(team.block)
        sums[n] = team.exchange((n,), lambda given, lane: sum(x for (x,) in given.values()) - given[lane][0])
        after.append(len(before))

    assert not run(thread)
    assert after == [COUNT] * COUNT
    assert sums == {n: sum(range(32)) - n for n in range(32)} | {n: sum(range(32, COUNT)) - n for n in range(32, COUNT)}


def test_nobody_waits_for_threads_that_have_ended() -> None:
    waited = []

    def thread(team: _Team, n: int) -> None:
        for _ in range(n % 3):
            team.wait(team.block)
            waited.append(n)

    assert not run(thread)
    assert len(waited) == sum(n % 3 for n in range(COUNT))


@pytest.mark.parametrize("step", [1, -1], ids=["reads of what comes later", "writes before a read"])
def test_a_missing_barrier_shows(step: int) -> None:
    memory, found = [0] * (COUNT + 1), []

    def thread(team: _Team, n: int) -> None:
        if step == 1:
            memory[n] = 1
            found.append(memory[(n + 1) % COUNT])
        else:
            found.append(memory[n + 1])
            team.wait(team.block)
            team.wait(team.block)  # after which the other end begins
            found.append(memory[n + 1])
            memory[n] = 1

    assert not run(thread)
    assert sum(found) > 0 if step == -1 else sum(found) < COUNT


def test_an_endless_wait_is_an_error() -> None:
    errors = run(lambda team, n: team.wait(team.block if n % 2 else team._warps[n // 32]) and None)
    assert len(errors) == COUNT
    assert all("never come by" in str(error) for error in errors)


def test_sums_of_matrix_units_are_cut_off() -> None:
    """Terms have no digit below the last one of the largest, and neither has their sum; it is rounded toward zero."""
    for sign in (1.0, -1.0):
        terms = sign * np.array([1.0, *[2.0**-24] * 16])
        assert matrix_units._cut_sum(terms) == sign  # the sum is 1 + 2**-20
        assert matrix_units._cut_sum(np.array([sign, sign * (1 + 2.0**-23)])) == 2.0 * sign
    assert matrix_units._cut_sum(np.array([1.0, 2.0**-23, -1.0])) == np.float32(2.0**-23)
    assert np.isnan(matrix_units._cut_sum(np.array([np.inf, -np.inf])))


def test_bank_conflicts() -> None:
    of_words = lambda stride: matrix_units.conflicts([(4 * stride * k, 4) for k in range(32)])  # noqa: E731
    assert [of_words(stride) for stride in (0, 1, 2, 3, 4, 32, 33)] == [0, 0, 1, 0, 3, 31, 0]
    assert matrix_units.conflicts([(8 * k, 8) for k in range(32)]) == 0
    assert matrix_units.conflicts([(128 * k, 8) for k in range(32)]) == 2 * 15
    assert matrix_units.conflicts_of_rows(2, [16 * k for k in range(32)]) == 0
    assert matrix_units.conflicts_of_rows(2, [128 * k for k in range(32)]) == 2 * 7
