"""Random numbers: how calls advance the state, and whether the numbers are what they say, by a few statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warp_like as wp
from warp_like.base.errors import WarpCodegenError

COUNT = 200_000


@wp.kernel
def draw(seed: int, uniform: wp.array2d(dtype=float), normal: wp.array(dtype=float), bits: wp.array(dtype=wp.uint32)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    uniform[i, 0] = wp.randf(state)
    uniform[i, 1] = wp.randf(state)
    normal[i] = wp.randn(state)
    bits[i] = wp.randu(state)


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    uniform = wp.zeros((COUNT, 2), dtype=float)
    normal, bits = wp.zeros(COUNT, dtype=float), wp.zeros(COUNT, dtype=wp.uint32)
    wp.launch(draw, dim=COUNT, inputs=[7], outputs=[uniform, normal, bits])
    return uniform.numpy(), normal.numpy(), bits.numpy()


def chi_square(counts: np.ndarray) -> float:
    """The probability that counts of equal expectation differ as much as these."""
    return float(stats.chisquare(counts.ravel()).pvalue)


def test_uniform_numbers_fill_the_square(drawn: tuple[np.ndarray, ...]) -> None:
    uniform = drawn[0]
    assert (uniform >= 0).all()
    assert (uniform < 1).all()
    assert chi_square(np.histogram2d(*uniform.T, bins=32, range=[[0, 1], [0, 1]])[0]) > 1e-4
    assert stats.kstest(uniform[:, 0], "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(uniform[:-1, 0], uniform[1:, 0])[0, 1]) < 0.01  # neighbouring threads
    assert abs(np.corrcoef(*uniform.T)[0, 1]) < 0.01


def test_normal_numbers(drawn: tuple[np.ndarray, ...]) -> None:
    assert stats.kstest(drawn[1], "norm").pvalue > 1e-4
    assert np.abs(drawn[1]).max() > 4


def test_every_bit_is_even_and_independent_of_its_neighbour(drawn: tuple[np.ndarray, ...]) -> None:
    bits = (drawn[2][:, None] >> np.arange(32, dtype=np.uint32)) & 1
    deviation = 5 * 0.5 / np.sqrt(COUNT)
    assert (np.abs(bits.mean(axis=0) - 0.5) < deviation).all()
    assert (np.abs((bits[:, 1:] ^ bits[:, :-1]).mean(axis=0) - 0.5) < deviation).all()
    assert (np.abs((bits[1:] ^ bits[:-1]).mean(axis=0) - 0.5) < deviation).all()


STREAMS, STEPS = 2000, 100


@wp.kernel
def draw_streams(seed: int, numbers: wp.array2d(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    for k in range(numbers.shape[1]):
        numbers[i, k] = wp.randf(state)


def streams(seed: int) -> np.ndarray:
    numbers = wp.zeros((STREAMS, STEPS), dtype=float)
    wp.launch(draw_streams, dim=STREAMS, inputs=[seed, numbers])
    return numbers.numpy()


def pairs_are_even(a: np.ndarray, b: np.ndarray) -> bool:
    counts = np.histogram2d(a.ravel(), b.ravel(), bins=40, range=[[0, 1], [0, 1]])[0]
    return chi_square(counts) > 1e-4


def test_streams_are_independent() -> None:
    x, other = streams(7), streams(8)
    for lag in (1, 2, 3, 7, 16):
        assert pairs_are_even(x[:, :-lag], x[:, lag:])  # along a stream
        assert pairs_are_even(x[:-lag], x[lag:])  # between the streams of threads
    assert pairs_are_even(x, other)  # between seeds
    assert pairs_are_even(x[:, 1:], other[:, :-1])
    assert pairs_are_even(x[1:], other[:-1])


def test_runs_gaps_and_maxima() -> None:
    x = streams(3)
    # Up and down: of three numbers in a row the middle one is an extreme with probability 2/3, in blocks apart.
    a, b, c = x[:, 0::4], x[:, 1::4], x[:, 2::4]
    turns = int(((b > a) == (b > c)).sum())
    assert stats.binomtest(turns, b.size, 2 / 3).pvalue > 1e-4
    # The lengths of gaps between numbers below 1/8 are geometric (Knuth, The Art of Computer Programming 2, 3.3.2 D).
    gaps = np.diff(np.flatnonzero(x.ravel() < 0.125)) - 1
    counts = np.bincount(np.minimum(gaps, 30), minlength=31)
    odds = 0.125 * 0.875 ** np.arange(31)
    odds[30] = 0.875**30
    assert stats.chisquare(counts, odds * len(gaps)).pvalue > 1e-4
    # The largest of five numbers to the power of five is uniform (the same, 3.3.2 C).
    assert stats.kstest(x.reshape(-1, 5).max(axis=1).astype(np.float64) ** 5, "uniform").pvalue > 1e-4


def test_hash_is_one_to_one() -> None:
    bits = np.array([int(wp.rand_init(i)) for i in range(3000)])
    assert len(np.unique(bits)) == 3000


@wp.kernel
def one_thread(out: wp.array(dtype=float), counts: wp.array(dtype=int)):
    state = wp.rand_init(3)
    for i in range(out.shape[0]):
        out[i] = wp.randf(state)
        if i % 2 == 0:
            n = wp.randi(state, 0, 6)
            counts[n] += 1


def test_a_loop_and_a_branch_advance_the_state() -> None:
    out, counts = wp.zeros(60_000, dtype=float), wp.zeros(6, dtype=int)
    wp.launch(one_thread, dim=1, outputs=[out, counts])
    numbers = out.numpy()
    assert stats.kstest(numbers, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02
    assert chi_square(counts.numpy()) > 1e-4


@wp.kernel
def poisson(lam: float, out: wp.array(dtype=wp.uint32)):
    i = wp.tid()
    state = wp.rand_init(11, i)
    out[i] = wp.poisson(state, lam)


@pytest.mark.parametrize("lam", [0.3, 4.0, 9.99, 10.0, 25.0, 300.0])
def test_poisson(lam: float) -> None:
    out = wp.zeros(COUNT, dtype=wp.uint32)
    wp.launch(poisson, dim=COUNT, inputs=[lam], outputs=[out])
    counts = np.bincount(out.numpy())
    lows = [k for k in range(len(counts)) if COUNT * stats.poisson.pmf(k, lam) > 20]
    observed = counts[lows[0] : lows[-1] + 1].astype(float)
    expected = COUNT * stats.poisson.pmf(np.arange(lows[0], lows[-1] + 1), lam)
    expected *= observed.sum() / expected.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_poisson_of_nothing() -> None:
    out = wp.ones(4, dtype=wp.uint32)
    wp.launch(poisson, dim=4, inputs=[0.0], outputs=[out])
    assert out.numpy().tolist() == [0] * 4


@wp.kernel
def table(cdf: wp.array(dtype=float), out: wp.array(dtype=int)):
    i = wp.tid()
    state = wp.rand_init(5, i)
    out[i] = wp.sample_cdf(state, cdf)


def test_sample_cdf() -> None:
    weights = np.array([0.1, 0.0, 0.5, 0.4])
    out = wp.zeros(COUNT, dtype=int)
    wp.launch(table, dim=COUNT, inputs=[wp.array(np.cumsum(weights), dtype=float)], outputs=[out])
    counts = np.bincount(out.numpy(), minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]], COUNT * weights[[0, 2, 3]]).pvalue > 1e-4
    wp.launch(table, dim=COUNT, inputs=[wp.array([0.1, 0.2], dtype=float)], outputs=[out])
    assert set(out.numpy()) == {0, 1}, "sums that end before 1 leave the rest to the last index"


@wp.kernel
def points(flat: wp.array2d(dtype=wp.vec2), solid: wp.array2d(dtype=wp.vec3)):
    i = wp.tid()
    state = wp.rand_init(2, i)
    flat[0, i] = wp.sample_triangle(state)
    flat[1, i] = wp.sample_unit_ring(state)
    flat[2, i] = wp.sample_unit_disk(state)
    flat[3, i] = wp.sample_unit_square(state)
    solid[0, i] = wp.sample_unit_sphere_surface(state)
    solid[1, i] = wp.sample_unit_sphere(state)
    solid[2, i] = wp.sample_unit_hemisphere_surface(state)
    solid[3, i] = wp.sample_unit_hemisphere(state)
    solid[4, i] = wp.sample_unit_cube(state)


def test_points_are_uniform() -> None:
    flat, solid = wp.zeros((4, COUNT), dtype=wp.vec2), wp.zeros((5, COUNT), dtype=wp.vec3)
    wp.launch(points, dim=COUNT, outputs=[flat, solid])
    triangle, ring, disk, square = flat.numpy()
    surface, ball, upper_surface, upper, cube = solid.numpy()
    uniform = {
        "triangle": (1 - triangle[:, 0]) ** 2,
        "ring": np.arctan2(ring[:, 1], ring[:, 0]) / (2 * np.pi) + 0.5,
        "disk": np.sum(disk**2, axis=1),
        "square": square[:, 0] + 0.5,
        "surface": surface[:, 2] / 2 + 0.5,
        "ball": np.linalg.norm(ball, axis=1) ** 3,
        "upper surface": upper_surface[:, 2],
        "upper": np.linalg.norm(upper, axis=1) ** 3,
        "cube": cube[:, 2] + 0.5,
    }
    assert [n for n, x in uniform.items() if stats.kstest(x, "uniform").pvalue <= 1e-4] == []
    assert (triangle.sum(axis=1) <= 1).all()
    assert (upper[:, 2] >= 0).all()
    for unit in (ring, surface, upper_surface):
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)


# --- what advances, and what can't ----------------------------------------------------------------------------


@wp.func
def twice(state: wp.uint32):
    return wp.randf(state) + wp.randf(state)


@wp.kernel
def by_value(out: wp.array(dtype=float)):
    state = wp.rand_init(1)
    out[0] = twice(state)
    out[1] = wp.randf(state)
    out[2] = wp.randf(wp.rand_init(1))


def test_a_function_gets_a_copy_of_the_state() -> None:
    out = wp.zeros(3, dtype=float)
    wp.launch(by_value, dim=1, outputs=[out])
    both, first, again = out.numpy()
    assert first == again
    assert 0 < both - first < 1


@wp.kernel
def between(low: wp.array(dtype=float), high: wp.array(dtype=float), out: wp.array(dtype=float)):
    state = wp.rand_init(1)
    out[0] = wp.randf(state, low[0], high[0])


def test_gradient_of_the_bounds() -> None:
    low, high = (wp.array([x], dtype=float, requires_grad=True) for x in (2.0, 4.0))
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(between, dim=1, inputs=[low, high], outputs=[out])
    tape.backward(grads={out: wp.ones(1, dtype=float)})
    u = (out.numpy() - 2) / 2
    np.testing.assert_allclose(high.grad.numpy(), u, rtol=1e-6)
    np.testing.assert_allclose(low.grad.numpy(), 1 - u, rtol=1e-6)


@wp.kernel
def in_a_branch(out: wp.array(dtype=float)):
    state = wp.rand_init(1)
    out[0] = wp.randf(state) if out[0] > 0.0 else 0.0


@wp.kernel
def after_and(out: wp.array(dtype=float)):
    state = wp.rand_init(1)
    if out[0] > 0.0 and wp.randf(state) > 0.5:
        out[0] = 1.0


@pytest.mark.parametrize(
    ("kernel", "place"),
    [
        (in_a_branch, "in one branch of `if ... else`"),
        (after_and, "after `and` or in a chain of comparisons"),
    ],
)
def test_where_the_state_can_not_be_advanced(kernel: wp.Kernel, place: str) -> None:
    with pytest.raises(WarpCodegenError) as caught:
        wp.launch(kernel, dim=1, outputs=[wp.zeros(1, dtype=float)])
    assert f"randf() changes a variable, so it can't stand {place}" in str(caught.value)
    assert "call it in a statement of its own before" in str(caught.value)


@wp.kernel
def in_a_condition(out: wp.array(dtype=float), afterwards: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(1, i)
    while wp.randf(state) > 0.3:
        out[i] += 1.0
    afterwards[i] = wp.randf(state)


@wp.kernel
def before_a_condition(out: wp.array(dtype=float), afterwards: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(1, i)
    x = wp.randf(state)
    while x > 0.3:
        out[i] += 1.0
        x = wp.randf(state)
    afterwards[i] = wp.randf(state)


def test_the_condition_of_a_loop_advances_the_state() -> None:
    found = []
    for kernel in (in_a_condition, before_a_condition):
        given = wp.zeros(50, dtype=float), wp.zeros(50, dtype=float)
        wp.launch(kernel, dim=50, outputs=given)
        found.append([a.numpy() for a in given])
    np.testing.assert_array_equal(*found)
    assert found[0][0].max() > 2.0


def test_same_numbers_in_ptx() -> None:
    """The sequence is integer arithmetic, which PTX spells out with the constants of the hash."""
    text = draw.inspect("ptx", target="sm_80")
    assert "747796405" in text
    assert "277803737" in text
