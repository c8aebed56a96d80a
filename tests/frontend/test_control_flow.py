"""Branches, loops and early exits do what Python does."""

import sys

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import build, define, launch
from warp_like.ir import ops


def both(pyfunc, n_out, *args):
    """Run a kernel on int32 arrays by Python and by the interpreter; return both outputs.

    The kernel's first parameter is the output, the second the thread's index; tid() itself is not called.
    """
    got = np.zeros(n_out, np.int32)
    launch(pyfunc, 1, got, *args)
    expected = np.zeros(n_out, np.int32)
    pyfunc(expected, *args)
    return got.tolist(), expected.tolist()


def check(pyfunc, *cases):
    for args in cases:
        got, expected = both(pyfunc, 8, *args)
        assert got == expected, f"{pyfunc.__name__}{args}"


def test_if_elif_else():
    def k(out: wp.array(dtype=int), x: int):
        if x < 0:
            y = 1
        elif x == 0:
            y = 2
        else:
            y = 3
            y += x
        out[0] = y

    check(k, (-1,), (0,), (5,))


def test_variable_reassigned_in_one_branch_keeps_its_value_in_the_other():
    def k(out: wp.array(dtype=int), x: int):
        y = 7
        if x > 2:
            y = x
        out[0] = y

    check(k, (1,), (9,))


def test_early_return():
    def k(out: wp.array(dtype=int), x: int):
        if x < 0:
            return
        out[0] = 1
        if x > 10:
            out[1] = 2
            return
        else:
            out[2] = 3
        out[3] = 4

    check(k, (-1,), (0,), (11,))


def test_return_nested_in_both_branches():
    def k(out: wp.array(dtype=int), x: int):
        y = 0
        if x > 0:
            if x > 5:
                return
            y = 1
        else:
            if x < -5:
                return
            y = 2
        out[0] = y

    check(k, (1,), (6,), (-1,), (-6,))


def test_for_with_break_continue_and_return():
    def k(out: wp.array(dtype=int), n: int, a: int, b: int, c: int):
        s = 0
        for i in range(n):
            if i == a:
                continue
            if i == b:
                break
            if i == c:
                out[1] = s
                return
            s += i
        out[0] = s

    check(k, (10, 2, 7, 50), (10, 2, 50, 4), (10, 50, 50, 50), (0, 0, 0, 0), (10, 3, 3, 3))


def test_nested_loops_with_exits():
    def k(out: wp.array(dtype=int), n: int, m: int):
        count = 0
        for i in range(n):
            for j in range(n):
                if j > i:
                    break
                if (i + j) % 3 == 0:
                    continue
                if count > m:
                    out[0] = count
                    out[1] = i
                    return
                count += j
        out[2] = count

    check(k, (6, 1000), (6, 5), (0, 0), (3, 0))


def test_while_with_exits():
    def k(out: wp.array(dtype=int), n: int):
        i = 0
        while i < n:
            i += 2
            if i == 6:
                continue
            if i > 9:
                break
            out[1] = i
        out[0] = i

    check(k, (0,), (5,), (50,))


def test_while_true():
    def k(out: wp.array(dtype=int), n: int):
        i = 0
        while True:
            i += 1
            if i * i > n:
                break
        out[0] = i
        while True:
            i += 3
            if i > n:
                out[1] = i
                return

    check(k, (0,), (20,), (1000,))


def test_condition_of_while_is_not_evaluated_after_break():
    def k(out: wp.array(dtype=int), a: wp.array(dtype=int)):
        i = 0
        while a[i] > 0:
            i += 1
            if i == a.shape[0]:
                break
        out[0] = i

    got = np.zeros(1, np.int32)
    launch(k, 1, got, np.array([1, 2, 3], np.int32))  # the interpreter refuses an index out of range
    assert got[0] == 3


@pytest.mark.parametrize("leave", [False, True])
@pytest.mark.parametrize(
    "bounds", [(0, 10, 1), (0, 10, 3), (10, 0, -1), (9, -1, -4), (5, 5, 1), (5, 0, 1), (0, 5, -1), (-3, 4, 2)]
)
def test_range_of_every_sign(bounds, leave):
    def plain(out: wp.array(dtype=int), lo: int, hi: int, step: int):
        n = 0
        for i in range(lo, hi, step):
            n = n * 3 + i
        out[0] = n

    def leaving(out: wp.array(dtype=int), lo: int, hi: int, step: int):
        n = 0
        for i in range(lo, hi, step):
            n = n * 3 + i
            if n > 1000:
                break
        out[0] = n

    check(leaving if leave else plain, bounds)


def test_range_with_constant_step_and_exit():
    def k(out: wp.array(dtype=int), n: int):
        s = 0
        for i in range(n, 0, -2):
            s += i
            if s > 20:
                break
        out[0] = s
        for i in range(4):
            out[i + 1] = i

    check(k, (3,), (30,), (-1,))


@pytest.mark.parametrize("leave", ["", "if i > hi: break"])
def test_a_step_of_zero_at_run_time_runs_nothing(leave):
    k = define(f"""
        def k(out: wp.array(dtype=int), hi: int, step: int):
            for i in range(0, hi, step):
                out[0] += 1
                {leave}
    """)["k"]
    out = np.zeros(1, np.int32)
    launch(k, 1, out, 5, 0)
    assert out[0] == 0


def test_a_leaving_loop_up_to_the_greatest_int_ends():
    def k(out: wp.array(dtype=int), lo: int, hi: int, step: int):
        for i in range(lo, hi, step):
            out[0] += 1
            if i < 0:
                break

    check(k, (2147483640, 2147483647, 3), (2147483640, 2147483647, 1))


def test_index_that_existed_before_keeps_its_last_value():
    def k(out: wp.array(dtype=int), n: int):
        i = 7
        for i in range(n):  # noqa: B007
            out[1] += 1
        out[0] = i

    check(k, (0,), (3,))


def test_index_reassigned_in_the_body_does_not_change_the_count():
    def k(out: wp.array(dtype=int), n: int):
        for i in range(n):
            i = i * 10
            out[0] += i

    check(k, (4,))


def test_swap_in_a_loop():
    def k(out: wp.array(dtype=int), n: int):
        a = 0
        b = 1
        for _ in range(n):
            a, b = b, a + b
        out[0] = a
        out[1] = b

    check(k, (0,), (1,), (10,))


def test_conditions_of_numbers():
    def k(out: wp.array(dtype=int), x: int):
        if x:
            out[0] = 1
        if not x:
            out[1] = 1
        if x and x > 2:
            out[2] = 1
        if x < 0 or x == 4:
            out[3] = 1
        while x > 0:
            x -= 1
        out[4] = x

    check(k, (0,), (1,), (3,), (4,), (-1,))


def test_short_circuit_does_not_evaluate_the_right_side():
    def k(out: wp.array(dtype=int), a: wp.array(dtype=int), i: int):
        if i < a.shape[0] and a[i] > 0:
            out[0] = 1
        if i >= a.shape[0] or a[i] > 0:
            out[1] = 1

    for i in (0, 1, 5):
        got = np.zeros(2, np.int32)
        a = np.array([1, 0], np.int32)
        launch(k, 1, got, a, i)
        assert got.tolist() == [int(i < 2 and a[i] > 0), int(i >= 2 or a[i] > 0)]


def test_chained_comparison_evaluates_each_operand_once():
    def k(out: wp.array(dtype=int), lo: int, hi: int):
        if lo <= wp.atomic_add(out, 1, 1) < hi < 9:
            out[0] = 1

    for lo, hi in ((0, 1), (1, 5), (0, 0), (0, 10)):
        got = np.zeros(2, np.int32)
        launch(k, 1, got, lo, hi)
        assert got.tolist() == [int(lo <= 0 < hi < 9), 1]


def test_ternary_evaluates_one_side():
    def k(out: wp.array(dtype=int), x: int):
        out[0] = wp.atomic_add(out, 1, 5) if x > 0 else wp.atomic_add(out, 2, 7)
        out[3] = 1 if x > 1 else 2
        out[4] = x if x > 1 else -1

    for x in (0, 2):
        got = np.zeros(5, np.int32)
        launch(k, 1, got, x)
        assert got.tolist() == [0, 5 * (x > 0), 7 * (x <= 0), 1 if x > 1 else 2, x if x > 1 else -1]


def test_constant_conditions_build_one_branch():
    FAST = True
    LEVEL = 2

    def k(out: wp.array(dtype=int)):
        if FAST:
            out[0] = 1
        else:
            out[0] = undefined_name  # noqa: F821  (never built)
        if LEVEL > 3:
            out[1] = 1
        elif LEVEL == 2:
            out[1] = 2
        out[2] = 3 if LEVEL == 2 else 4

    f = build(k)
    assert not any(isinstance(o, ops.If) for o in f.body.walk())
    got = np.zeros(3, np.int32)
    launch(k, 1, got)
    assert got.tolist() == [1, 2, 3]


def test_a_plain_loop_carries_only_what_it_assigns():
    def k(out: wp.array(dtype=float), n: int, x: float):
        unrelated = x * 2.0
        total = 0.0
        for i in range(n):
            step = float(i) * x
            if step > 3.0:
                total += step
            else:
                continue
        out[0] = total + unrelated

    (loop,) = [o for o in build(k).body.walk() if isinstance(o, ops.For)]
    assert [v.hint for v in loop.results] == ["total"]


def test_early_returns_make_no_bools():
    def k(out: wp.array(dtype=float), n: int):
        i = wp.tid()
        if i >= n:
            return
        if out[i] > 2.0:
            out[i] = 0.0
            return
        out[i] = 1.0

    assert not any(o.results for o in build(k).body.walk() if isinstance(o, ops.If))


def test_variables_of_a_tuple():
    def k(out: wp.array(dtype=int), a: wp.array2d(dtype=int), n: int):
        s = a.shape
        if n > 0:
            s = (s[1], s[0])
        for _ in range(n):
            s = (s[1], s[0])
        out[0], out[1] = s

    for n in range(3):
        got = np.zeros(2, np.int32)
        launch(k, 1, got, np.zeros((4, 5), np.int32), n)
        shape = (4, 5)
        for _ in range(n + (n > 0)):
            shape = shape[::-1]
        assert tuple(got) == shape


def test_names_of_a_loop_that_runs_are_there_after_it():
    def k(out: wp.array(dtype=int), n: int, m: int):
        for i in range(4):
            s = i * n
        out[0] = s + i
        for j in range(10, 0, -3):
            if j < m:
                break
        out[1] = j
        for p in range(3):
            if p == n:
                continue
            last = p
            for q in range(2):
                last = last * 10 + q
            out[3] = last + q
        out[2] = p * 100

    check(k, (5, 3), (0, 100), (2, 8), (1, 0))


SIDES = 6


def test_a_loop_reads_a_constant_beside_the_argument_that_a_builtin_changes():
    def k(out: wp.array(dtype=int)):
        state = wp.rand_init(7)
        for _ in range(100):
            out[wp.randi(state, 0, SIDES)] += 1
        for _ in range(100):
            out[wp.randi(state=state, low=0, high=SIDES)] += 1

    out = np.zeros(SIDES, np.int32)
    wp.launch(wp.kernel(k), dim=1, inputs=[out])
    assert out.sum() == 200
    assert out.min() > 0


def test_work_for_a_branch_does_not_grow_with_the_number_of_names():
    def calls(count: int) -> int:
        lines = ["def k(out: wp.array(dtype=float), x: float):"]
        for n in range(count):
            lines += [f"    a{n} = x", f"    for k{n} in range(3):", f"        a{n} += 1.0"]
            lines += [f"        if a{n} > 2.0:", "            break", f"    x += a{n}"]
        k = define("\n".join([*lines, "    out[0] = x\n"]))["k"]
        found = 0

        def count_call(frame: object, event: str, arg: object) -> None:
            nonlocal found
            found += event == "call"

        sys.setprofile(count_call)
        try:
            build(k)
        finally:
            sys.setprofile(None)
        return found

    assert calls(32) < 2.3 * calls(16)
