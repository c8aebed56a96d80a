"""Integers wrap, in one thread and in lanes: indices, branches, ranges and gradients; against Python's integers."""

from collections.abc import Iterator

import numpy as np
import pytest

import warp_like as wp
from tests import wrapping as cases
from tests.long_tail import crossed, sampled

WIDTHS = (1, 0, 4, 16)


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest) -> Iterator[int]:
    before = wp.config.vector_width
    wp.config.vector_width = request.param
    yield request.param
    wp.config.vector_width = before


@pytest.mark.parametrize("name", crossed(cases.TYPES, every=2))
def test_indices(width: int, name: str) -> None:
    kernel = cases.index_kernel(name)
    for given, expected in cases.index_cases(name):
        out = np.zeros(expected.shape, np.float32)
        wp.launch(kernel, cases.THREADS, [*given, out])
        np.testing.assert_array_equal(out, expected, err_msg=str(given[1:]))


@pytest.mark.parametrize("name", cases.TYPES)
def test_gathers(width: int, name: str) -> None:
    """An unsigned index beyond half of its type is not a negative one."""
    n = min(cases.ends(name)[1], 40_000) + 1
    a = np.arange(n, dtype=np.float32)
    at = np.linspace(0, n - 1, 50).astype(name)
    out = np.zeros(50, np.float32)
    wp.launch(cases.gather_kernel(name), 50, [a, at, out])
    np.testing.assert_array_equal(out, a[at.astype(int)] + a[at.astype(int) // 2])


def test_what_is_computed_on_the_way_to_an_index_wraps(width: int) -> None:
    n, threads = 1024, 4096
    a, out = np.arange(n, dtype=np.float32), np.zeros(threads, np.float32)
    wp.launch(cases.hashed, threads, [n, a, out])
    h = np.array([cases.wrap(i * 1664525 + 1013904223, "int32") for i in range(threads)])
    r = np.sign(h) * (np.abs(h) % n)
    np.testing.assert_array_equal(out, np.where(r >= 0, r, -1))


@pytest.mark.parametrize("name", crossed(cases.TYPES, every=2))
def test_branches(width: int, name: str) -> None:
    kernel = cases.branch_kernel(name)
    for given, expected in cases.branch_cases(name):
        out = np.zeros(expected.shape, np.int32)
        wp.launch(kernel, cases.THREADS, [*given, out])
        np.testing.assert_array_equal(out, expected, err_msg=str(given))


STEPS = [("int32", 1, False), ("int32", -1, False), ("int32", 10**9, True), ("int32", None, False)]
STEPS += [("int8", 50, False), ("uint8", None, True), ("int64", -(2**62), False), ("uint64", 2**62 + 1, True)]


@pytest.mark.parametrize(("name", "step", "checkpoint"), sampled(STEPS, every=2))
def test_loops_and_their_gradients(name: str, step: int | None, checkpoint: bool) -> None:
    kernel = cases.loop_kernel(name, step)
    signs = (1, -1) if name.startswith("i") else (1,)
    x = np.linspace(0.6, 1.4, 5)
    for by in [step] if step is not None else [s * k for k in (1, 40) for s in signs]:
        for lo, hi in cases.loop_cases(name, by):
            for width in (1, 4):
                options = {"vector_width": width, "checkpoint_loops": checkpoint}
                given = wp.array(x, dtype=wp.float64, requires_grad=True)
                out = wp.zeros((3, 5), dtype=wp.float64, requires_grad=True)
                with wp.Tape() as tape:
                    wp.launch(kernel, 5, [lo, hi, by, 1 if by > 0 else -1, given, out], options=options)
                tape.backward(grads={out: wp.ones((3, 5), dtype=wp.float64)})
                wanted = [cases.loop_expected(name, lo, hi, by, i, v) for i, v in enumerate(x)]
                where = f"range({lo}, {hi}, {by}), {width} lanes"
                np.testing.assert_allclose(out.numpy().T, [w for w, _ in wanted], rtol=1e-12, err_msg=where)
                np.testing.assert_allclose(given.grad.numpy(), [g for _, g in wanted], rtol=1e-12, err_msg=where)


def test_a_step_of_zero_at_run_time_runs_a_loop_zero_times(width: int) -> None:
    for name in ("int32", "uint64"):
        kernel = cases.loop_kernel(name, None)
        x, out = np.full(5, 2.0), np.zeros((3, 5))
        wp.launch(kernel, 5, [3, 9, 0, 1, x, out])
        np.testing.assert_array_equal(out, 2.0)


@wp.kernel
def late(a: wp.array2d(dtype=float), far: int, out: wp.array(dtype=float)):
    i = wp.tid()
    if i >= 5:
        out[i] = a[0, i - 5] + a[(i - 5) / far, i - 5]


def test_lanes_that_do_not_read_may_be_far_from_the_array(width: int) -> None:
    """The addresses of the lanes at work go from that of the first one, whose own may lie outside of all memory."""
    whole = np.arange(2**14, dtype=np.float32)
    rows = np.lib.stride_tricks.as_strided(whole, (2, 40), (4 * 40, 4))
    for a in (rows, rows[:, ::-1], np.asfortranarray(rows)):
        out = np.zeros(45, np.float32)
        wp.launch(late, 45, [a, 10**6, out])
        np.testing.assert_array_equal(out[5:], 2 * a[0])


@wp.kernel
def around(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    k = wp.int64(i) * wp.int64(2**62)
    if k == wp.int64(0):
        wp.atomic_add(x, k, y[i])


def test_lanes_that_come_round_to_one_element_all_add_to_it(width: int) -> None:
    x, y = np.zeros(2, np.float32), np.ones(64, np.float32)
    wp.launch(around, 64, [x, y])
    assert x.tolist() == [16, 0]


@wp.kernel
def divided(a: wp.array(dtype=int), b: wp.array(dtype=int), out: wp.array2d(dtype=int)):
    i = wp.tid()
    out[0, i] = a[i] / b[i]
    out[1, i] = a[i] // b[i]
    out[2, i] = a[i] % b[i]
    out[3, i] = -a[i]
    out[4, i] = wp.abs(a[i])
    out[5, i] = a[i] << b[i]


def test_divisions_never_trap(width: int) -> None:
    least = -(2**31)
    pairs = [(least, -1), (least, 0), (7, 0), (-7, 0), (0, 0), (least, 1), (-7, 2), (7, -2), (least, 33), (5, -33)]
    a, b = np.array(pairs * 4, np.int32).T.copy()
    out = np.zeros((6, len(a)), np.int32)
    wp.launch(divided, len(a), [a, b, out])
    for k, (x, y) in enumerate(pairs):
        quotient = 0 if y == 0 else abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
        floor = 0 if y == 0 else x // y
        wanted = [quotient, floor, 0 if y == 0 else x - y * quotient, -x, abs(x), x << (y & 31)]
        assert out[:, k].tolist() == [cases.wrap(v, "int32") for v in wanted], (x, y)


@wp.kernel(mode="debug")
def past(x: wp.array(dtype=float), by: int):
    i = wp.tid()
    if i > 0:
        x[i + by] = 1.0


def test_debug_mode_checks_the_wrapped_index() -> None:
    with pytest.raises(IndexError, match="-2147483648"):
        wp.launch(past, 2, [np.zeros(4, np.float32), 2**31 - 1])
