"""L-BFGS beside PyTorch's and SciPy's."""

import pickle

import numpy as np
import pytest

import warp_like as wp
from warp_like.optim.lbfgs import TRIES
from warp_like.optim.line_search import CURVATURE, DECREASE, Point, search


@wp.kernel
def rosenbrock(x: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    """The sum over pairs of coordinates; its minimum is 0 at (1, ..., 1)."""
    i = wp.tid()
    a = x[2 * i]
    b = x[2 * i + 1]
    one = wp.float64(1.0)
    wp.atomic_add(loss, 0, wp.float64(100.0) * (b - a * a) * (b - a * a) + (one - a) * (one - a))


START = np.tile([-1.2, 1.0], 3) + 0.1 * np.arange(6)


class Valley:
    """Rosenbrock's function of an array, with its gradient by a tape."""

    def __init__(self, start=START):
        self.x = wp.array(start, dtype=wp.float64, requires_grad=True)
        self.loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        self.loss.zero_()
        self.x.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(rosenbrock, dim=len(self.x) // 2, inputs=[self.x], outputs=[self.loss])
        tape.backward(self.loss)
        return self.loss


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 1e-3, "max_iter": 40},
        {"lr": 1e-3, "max_iter": 40, "history_size": 3},
        {"line_search_fn": "strong_wolfe", "max_iter": 15, "history_size": 5},
    ],
)
def test_the_way_of_pytorch(settings):
    """The same parameters after each step, from the same number of evaluations."""
    torch = pytest.importorskip("torch")
    valley, t = Valley(), torch.nn.Parameter(torch.tensor(START))
    ours, theirs = wp.optim.LBFGS([valley.x], **settings), torch.optim.LBFGS([t], **settings)

    def loss():
        theirs.zero_grad()
        a, b = t[::2], t[1::2]
        value = (100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2).sum()
        value.backward()
        return value

    for _ in range(3):
        first = theirs.step(loss)
        assert ours.step(valley) == pytest.approx(first.item(), rel=1e-7)
        np.testing.assert_allclose(valley.x.numpy(), t.detach().numpy(), rtol=1e-7)
    assert valley.calls == theirs.state[t]["func_evals"]


def test_the_minimum_of_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    valley = Valley()
    optimizer = wp.optim.LBFGS(
        [valley.x], max_iter=200, tolerance_change=0.0, tolerance_grad=1e-8, line_search_fn="strong_wolfe"
    )
    optimizer.step(valley)
    assert optimizer.status == "gradient"

    def value(x):
        a, b = x[::2], x[1::2]
        slope = np.empty_like(x)
        slope[::2], slope[1::2] = -400.0 * a * (b - a * a) - 2.0 * (1.0 - a), 200.0 * (b - a * a)
        return (100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2).sum(), slope

    found = optimize.minimize(
        value, START, jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 0.0, "maxcor": 100}
    )
    np.testing.assert_allclose(valley.x.numpy(), found.x, atol=1e-7)
    assert valley.calls <= 1.5 * found.nfev


@wp.struct
class Pair:
    a: wp.vec2
    b: wp.float16
    n: int


def test_parameters_of_several_kinds():
    """A quadratic bowl over vectors in a strided array, structs, halves, and nothing: each ends where it should."""
    whole = wp.zeros((3, 4), dtype=wp.vec3)
    params = [whole[:, ::2], wp.zeros(2, dtype=Pair), wp.zeros(5, dtype=wp.float16), wp.zeros(0)]
    grads = [wp.zeros(p.shape, dtype=p.dtype) for p in params]
    for p, g in zip(params, grads, strict=True):
        p.grad = g

    def bowl():
        total = 0.0
        for p in params:
            values, slope = p.numpy(), p.grad.numpy().copy()
            parts = ("a", "b") if p.dtype is Pair else (...,)
            for part in parts:
                away = values[part].astype(float) - 0.5
                slope[part] = away
                total += 0.5 * (away**2).sum()
            p.grad.assign(slope)
        return total

    optimizer = wp.optim.LBFGS(params, line_search_fn="strong_wolfe", tolerance_grad=1e-6)
    assert optimizer.step(bowl) == pytest.approx(0.125 * (18 + 6 + 5))
    assert optimizer.status == "gradient"
    assert (whole.numpy()[:, ::2] == 0.5).all()
    assert not whole.numpy()[:, 1::2].any()
    assert params[1].numpy()["a"].tolist() == [[0.5, 0.5]] * 2
    assert params[1].numpy()["n"].tolist() == [0, 0]
    assert params[2].list() == [0.5] * 5


def test_state_is_saved_and_restored():
    through, first = Valley(), Valley()
    settings = {"max_iter": 4, "history_size": 3, "line_search_fn": "strong_wolfe"}
    a, b = wp.optim.LBFGS([through.x], **settings), wp.optim.LBFGS([first.x], **settings)
    for _ in range(2):
        a.step(through)
        b.step(first)
    second = Valley(first.x.numpy())
    c = wp.optim.LBFGS([second.x])
    c.load_state_dict(pickle.loads(pickle.dumps(b.state_dict())))
    assert (c.max_iter, c.t) == (4, b.t)
    for _ in range(3):
        assert a.step(through) == c.step(second)
    np.testing.assert_array_equal(through.x.numpy(), second.x.numpy())
    with pytest.raises(ValueError, match="LBFGS has parameters of 2 numbers, the state is of 6"):
        wp.optim.LBFGS([wp.zeros(2)]).load_state_dict(b.state_dict())
    with pytest.raises(ValueError, match="this is the state of Adam, not of LBFGS"):
        c.load_state_dict(wp.optim.Adam([second.x]).state_dict())


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_ends_with_a_status(line_search):
    """Whatever the loss does, a step ends."""
    x = wp.ones(2, dtype=wp.float64, requires_grad=True)

    def run(loss, slope, **settings):
        def closure():
            x.grad.assign(np.asarray(slope(x.numpy()), dtype=float))
            return loss(x.numpy())

        x.fill_(1.0)
        optimizer = wp.optim.LBFGS([x], line_search_fn=line_search, **settings)
        optimizer.step(closure)
        return optimizer.status

    with np.errstate(all="ignore"):
        assert run(lambda x: np.nan, lambda x: x) == "not finite"
        assert run(lambda x: x.sum(), lambda x: x * np.nan) == "not finite"
        assert run(lambda x: np.inf, lambda x: x) == "not finite"
        assert run(lambda x: 0.0, lambda x: 0.0 * x) == "gradient"
        assert run(lambda x: (x**2).sum(), lambda x: 2.0 * x, lr=0.0) in ("change", "gradient")
        assert run(lambda x: x.sum(), lambda x: np.ones(2), max_iter=5) in ("iterations", "evaluations", "change")
        assert run(lambda x: (x**2).sum(), lambda x: -x) in ("change", "iterations", "evaluations")  # a wrong gradient
        assert run(lambda x: -np.log(x).sum(), lambda x: -1.0 / x, lr=50.0)  # there is no minimum


def test_the_number_of_evaluations_is_limited():
    for line_search in (None, "strong_wolfe"):
        valley = Valley()
        optimizer = wp.optim.LBFGS([valley.x], lr=1e-3, max_eval=3, line_search_fn=line_search)
        optimizer.step(valley)
        assert optimizer.status == "evaluations"
        assert 3 <= valley.calls <= 3 + TRIES


def test_what_is_refused():
    x = wp.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"LBFGS parameters must be set before calling step\(\), got None"):
        wp.optim.LBFGS().step(lambda: 0.0)
    with pytest.raises(RuntimeError, match="LBFGS parameter 0 has no gradient"):
        wp.optim.LBFGS([wp.zeros(2)]).step(lambda: 0.0)
    with pytest.raises(ValueError, match="LBFGS `line_search_fn` is 'strong_wolfe' or None, got 'armijo'"):
        wp.optim.LBFGS([x], line_search_fn="armijo")
    with (
        pytest.raises(RuntimeError, match=r"LBFGS.step\(\) needs results at once, which a capture does not give"),
        wp.ScopedCapture(),
    ):
        wp.optim.LBFGS([x]).step(lambda: 0.0)
    assert wp.optim.LBFGS([]).step(lambda: 3.0) == 3.0


def test_the_line_search():
    """Points of random polynomials and of steep functions fulfil both conditions."""
    rng = np.random.default_rng(6)
    lines = [np.polynomial.Polynomial([1.0, -abs(a), b, c, d * d + 0.1]) for a, b, c, d in rng.standard_normal((60, 4))]
    lines = [(p, p.deriv()) for p in lines]
    lines.append((lambda t: -t / (t * t + 2.0), lambda t: (t * t - 2.0) / (t * t + 2.0) ** 2))
    lines.append((lambda t: np.exp(-4.0 * t) + 0.1 * t, lambda t: 0.1 - 4.0 * np.exp(-4.0 * t)))
    for first in (1e-3, 1.0, 30.0):
        for value, slope in lines:
            start = Point(0.0, float(value(0.0)), float(slope(0.0)))
            if start.slope > -1e-3:
                continue
            found = search(lambda t: Point(t, float(value(t)), float(slope(t))), start, first, 0.0, 40)  # noqa: B023
            assert found.loss <= start.loss + DECREASE * found.t * start.slope
            assert abs(found.slope) <= -CURVATURE * start.slope
