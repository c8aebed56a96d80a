"""``backward(zero=True)``: gradients that launches set to zero on their way hold nothing of what was in them before.

All numbers are small integers, so sums are exact in any order, and results are compared bit by bit. Gradients are large
enough to be set to zero by launches (``native/zeroing.h``), and full of old numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import warp_like as wp
from warp_like import _native as native

N = 40_001
"""Elements of an array; a gradient of 128 KiB is large."""

OLD = 7.0


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def guarded(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < x.shape[0]:
        y[i] = x[i] * x[i]


@wp.kernel
def with_next(x: wp.array(dtype=float), s: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(s, 0, x[i] * x[i + 1])


@wp.kernel
def with_both(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1]


@wp.kernel
def behind(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 2:
        y[i] = x[i - 3] * x[i - 2]


@wp.kernel
def around_the_end(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    before = i - 1
    if i == 0:
        before = x.shape[0] - 1
    y[i] = x[before] * x[i]


@wp.kernel
def turned(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[x.shape[0] - 1 - i]


@wp.kernel
def gathered(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[(i * 17) % x.shape[0]]


@wp.kernel
def of_two(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a[i] * b[i]


@wp.kernel
def of_rows(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i, 0] * x[i, 2]


@wp.kernel
def of_cells(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


@wp.kernel
def of_vectors(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.dot(x[i], x[i + 2])


@wp.kernel
def in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 3.0 * x[i]


@pytest.fixture(autouse=True, params=[1, 4], ids=["one thread", "four threads"])
def number_of_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    native.set_num_threads(request.param)
    yield
    native.set_num_threads(0)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Return small integers."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def old(a: np.ndarray, dtype: Any = float) -> Any:
    """Return an array whose gradient is full of old numbers."""
    made = wp.array(a, dtype=dtype, requires_grad=True)
    made.grad.fill_(OLD)
    return made


def backward(launches: Callable[[], None], arrays: list[Any], grads: dict[Any, Any]) -> list[np.ndarray]:
    """Return the gradients after ``backward(zero=True)``: the first time, and when all is compiled."""
    with wp.Tape() as tape:
        launches()
    found = []
    for _ in range(2):
        for a in arrays:
            a.grad.fill_(OLD)
        tape.backward(grads=grads, zero=True)
        found.append([a.grad.numpy().copy() for a in arrays])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    return found[1]


def moved(a: np.ndarray, by: int) -> np.ndarray:
    """Return ``a`` with element ``i`` at ``i + by``, and zeros where nothing comes."""
    out = np.zeros_like(a)
    out[max(by, 0) : len(a) + min(by, 0)] = a[max(-by, 0) : len(a) - max(by, 0)]
    return out


class Case(NamedTuple):
    """A kernel of ``x`` and ``y``: its grid, and the gradient of ``x`` for values ``x`` and adjoints ``g`` of ``y``."""

    kernel: Any
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray]
    dim: int = N


def _both(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    g = np.where((np.arange(len(g)) > 0) & (np.arange(len(g)) < len(g) - 1), g, 0)
    return moved(g * moved(x, -1), -1) + moved(g * moved(x, 1), 1)


def _behind(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    g = np.where(np.arange(len(g)) > 2, g, 0)
    return moved(g * moved(x, 2), -3) + moved(g * moved(x, 3), -2)


def _gathered(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    np.add.at(out, np.arange(len(x)) * 17 % len(x), g)
    return out


CASES = {
    "own": Case(square, lambda x, g: 2 * x * g),
    "smaller grid": Case(square, lambda x, g: 2 * x * np.where(np.arange(len(x)) < N // 2, g, 0), N // 2),
    "larger grid": Case(guarded, lambda x, g: 2 * x * g, N + 5000),
    "both neighbours": Case(with_both, _both),
    "only behind": Case(behind, _behind),
    "around the end": Case(around_the_end, lambda x, g: np.roll(x, 1) * g + np.roll(g * x, -1)),
    "turned": Case(turned, lambda x, g: g[::-1]),
    "gathered": Case(gathered, _gathered),
}


@pytest.mark.parametrize("name", CASES)
def test_accesses(name: str) -> None:
    case = CASES[name]
    a, g = numbers(N), numbers(N, seed=1)
    x, y = old(a), old(np.zeros(N))
    (found,) = backward(lambda: wp.launch(case.kernel, case.dim, [x, y]), [x], {y: wp.array(g, dtype=float)})
    np.testing.assert_array_equal(found, case.gradient(a, g))


@pytest.mark.parametrize("n", [33_000, N, 1 << 20])
def test_a_sum_over_neighbours(n: int) -> None:
    a = numbers(n)
    x, s = old(a), old(np.zeros(1))
    (found,) = backward(lambda: wp.launch(with_next, n - 1, [x, s]), [x], {s: wp.array([2.0], dtype=float)})
    np.testing.assert_array_equal(found, 2 * (moved(a, 1) + moved(a, -1)))


@pytest.mark.parametrize("deterministic", [False, True])
def test_deterministic_launches(deterministic: bool) -> None:
    kernel = wp.Kernel(with_next.func, options={"deterministic": deterministic}) if deterministic else with_next
    a = numbers(N)
    x, s = old(a), old(np.zeros(1))
    (found,) = backward(lambda: wp.launch(kernel, N - 1, [x, s]), [x], {s: wp.array([1.0], dtype=float)})
    np.testing.assert_array_equal(found, moved(a, 1) + moved(a, -1))


def test_rows_cells_and_vectors() -> None:
    a, g = numbers(N, 3), numbers(N, seed=1)
    x, y = old(a), old(np.zeros(N))
    (found,) = backward(lambda: wp.launch(of_rows, N, [x, y]), [x], {y: wp.array(g, dtype=float)})
    np.testing.assert_array_equal(found, np.stack([a[:, 2] * g, 0 * g, a[:, 0] * g], axis=1))

    x, y = old(a), old(np.zeros((N, 3)))
    h = numbers(N, 3, seed=2)
    expected = 2 * a * h
    expected[N - 9 :] = expected[:, 2] = 0
    grid = (N - 9, 2)
    (found,) = backward(lambda: wp.launch(of_cells, grid, [x, y]), [x], {y: wp.array(h, dtype=float)})
    np.testing.assert_array_equal(found, expected)

    x, y = old(a, wp.vec3), old(np.zeros(N))
    g[N - 2 :] = 0
    (found,) = backward(lambda: wp.launch(of_vectors, N - 2, [x, y]), [x], {y: wp.array(g, dtype=float)})
    g = g[:, None]
    np.testing.assert_array_equal(found, g * moved(a, -2) + moved(g * a, 2))


def test_chains_of_launches() -> None:
    a, g = numbers(N), numbers(N, seed=1)
    x, y, z, s = old(a), old(np.zeros(N)), old(np.zeros(N)), old(np.zeros(1))

    def launches() -> None:
        wp.launch(square, N, [x, y])
        wp.launch(of_two, N, [x, y, z])  # x * x * x, which touches both gradients before the first launch does
        wp.launch(with_next, N - 1, [x, s])

    found, _, _ = backward(launches, [x, y, z], {z: wp.array(g, dtype=float), s: wp.array([1.0], dtype=float)})
    np.testing.assert_array_equal(found, 3 * a * a * g + moved(a, 1) + moved(a, -1))


def test_an_array_given_twice_and_views_that_overlap() -> None:
    a, g = numbers(N), numbers(N, seed=1)
    x, y = old(a), old(np.zeros(N))
    (found,) = backward(lambda: wp.launch(of_two, N, [x, x, y]), [x], {y: wp.array(g, dtype=float)})
    np.testing.assert_array_equal(found, 2 * a * g)

    x, y = old(a), old(np.zeros(N))
    m = N - 5
    (found,) = backward(lambda: wp.launch(of_two, m, [x[:m], x[5:], y]), [x], {y: wp.array(g, dtype=float)})
    g[m:] = 0
    np.testing.assert_array_equal(found[:m], (g * moved(a, -5) + moved(g * a, 5))[:m])

    x, y, z = old(a), old(np.zeros(N)), old(np.zeros(N))
    inner = x[3:]

    def launches() -> None:
        wp.launch(square, N, [x, y])
        wp.launch(square, N - 3, [inner, z])

    (found,) = backward(launches, [x], {y: wp.array(g, dtype=float), z: wp.array(g, dtype=float)})
    np.testing.assert_array_equal(found, 2 * a * (g + moved(g, 3)))


def test_what_is_updated_in_place() -> None:
    x, g = old(numbers(N)), numbers(N, seed=1)
    (found,) = backward(lambda: wp.launch(in_place, N, [x]), [x], {x: wp.array(g, dtype=float)})
    np.testing.assert_array_equal(found, 3 * g)


def test_seeds_that_are_gradients() -> None:
    x, y = old(numbers(N)), old(np.zeros(N))
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
    for seed in (y.grad, x.grad):
        for _ in range(2):
            x.grad.fill_(OLD)
            y.grad.fill_(OLD)
            tape.backward(grads={y: seed}, zero=True)
            np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy() * OLD)


def test_gradients_that_no_launch_touches_and_earlier_starts() -> None:
    x, y, unused = old(numbers(N)), old(np.zeros(N)), old(np.zeros(N))
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
        wp.launch(square, 0, [unused, y])
    part = y[:10]
    tape.backward(grads={part: wp.ones(10, dtype=float)}, zero=True)
    for _ in range(2):
        unused.grad.fill_(OLD)
        tape.backward(grads={y: wp.ones(N, dtype=float)}, zero=True)
        np.testing.assert_array_equal(unused.grad.numpy(), 0)
        np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())


def test_views_of_other_libraries_see_the_gradient() -> None:
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(numbers(N)).requires_grad_()
    x, y = wp.from_torch(t), old(np.zeros(N))
    x.grad.fill_(OLD)
    seen, kept = t.grad, x.grad.numpy()
    (found,) = backward(lambda: wp.launch(square, N, [x, y]), [x], {y: wp.ones(N, dtype=float)})
    assert t.grad is seen
    for view in (seen.numpy(), kept):
        np.testing.assert_array_equal(view, found)
    np.testing.assert_array_equal(found, 2 * t.detach().numpy())


def test_in_graphs_and_with_retained_gradients() -> None:
    x, y, ones = old(numbers(N)), wp.zeros(N, dtype=float, requires_grad=True), wp.ones(N, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
    with wp.ScopedCapture() as capture:
        tape.backward(grads={y: ones}, zero=True)
    y.retain_grad = True
    for replay in (lambda: wp.capture_launch(capture.graph), lambda: tape.backward(grads={y: ones}, zero=True)):
        x.grad.fill_(OLD)
        replay()
        np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(y.grad.numpy(), 1)


def test_refusals_change_nothing() -> None:
    x, y = old(numbers(N)), old(np.zeros(N))
    with wp.Tape() as tape:
        wp.launch(square, N, [x, y])
    with pytest.raises(ValueError, match=r"backward\(zero=True\) needs loss= or grads="):
        tape.backward(zero=True)
    with pytest.raises(ValueError, match="adjoint of shape"):
        tape.backward(grads={y: wp.ones(3, dtype=float)}, zero=True)
    np.testing.assert_array_equal(x.grad.numpy(), OLD)


def test_a_launch_that_fails_leaves_no_old_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    @wp.kernel
    def iterate(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
        i = wp.tid()
        v = x[i]
        for _ in range(n):
            v = v * v
        y[i] = v

    x, y = old(numbers(N)), old(np.zeros(N))
    with wp.Tape() as tape:
        wp.launch(iterate, N, [x, 3, y])
    ones = wp.ones(N, dtype=float)
    tape.backward(grads={y: ones}, zero=True)
    expected = x.grad.numpy().copy()
    x.grad.fill_(OLD)
    monkeypatch.setattr(wp.config, "adjoint_stack_limit", 0)
    with pytest.raises(MemoryError):
        tape.backward(grads={y: ones}, zero=True)
    assert not (x.grad.numpy() == OLD).any()
    monkeypatch.undo()
    tape.backward(grads={y: ones}, zero=True)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
