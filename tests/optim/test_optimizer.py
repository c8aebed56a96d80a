"""What Adam and SGD share: parameters and gradients, state, tapes and graphs."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import warp_like as wp

MAKERS = [
    lambda p, lr=0.1: wp.optim.Adam(p, lr=lr),
    lambda p, lr=0.1: wp.optim.AdamW(p, lr=lr, weight_decay=0.1),
    lambda p, lr=0.1: wp.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True),
]
each_optimizer = pytest.mark.parametrize("make", MAKERS, ids=["Adam", "AdamW", "SGD"])


@wp.kernel
def squares(x: wp.array(dtype=float), scale: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, scale * x[i] * x[i])


def parameters(n=5):
    return wp.array(np.linspace(0.5, 1.0, n), dtype=float, requires_grad=True)


def recorded(x, loss):
    """A tape with the loss of ``x`` on it."""
    loss.zero_()
    with wp.Tape() as tape:
        wp.launch(squares, dim=x.shape, inputs=[x, 0.5], outputs=[loss])
    return tape


# --- tapes and graphs ---


@each_optimizer
def test_a_loop_over_tapes_finds_the_minimum(make):
    x, loss = parameters(), wp.zeros(1, requires_grad=True)
    optimizer = make([x], 0.05)
    for _ in range(300):
        tape = recorded(x, loss)
        tape.backward(loss)
        optimizer.step()
        tape.zero()
    assert np.abs(x.numpy()).max() < 1e-2
    assert optimizer.t == 300


def test_a_step_while_a_tape_records():
    """The tape does not record the step, and its adjoints see the parameters as they were."""
    x, loss = parameters(), wp.zeros(1, requires_grad=True)
    before = x.numpy().copy()
    optimizer = wp.optim.Adam([x], lr=0.5)
    with wp.Tape() as tape:
        wp.launch(squares, dim=5, inputs=[x, 0.5], outputs=[loss])
        optimizer.step([wp.ones(5)])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), before)
    np.testing.assert_allclose(x.numpy(), before - 0.5, rtol=1e-5)


@pytest.mark.parametrize("before", [0, 1, 3])  # the launches of a step are recorded when they run for the second time
@each_optimizer
def test_replays_of_a_graph_are_steps(make, before):
    """A whole iteration is captured: loss, gradient and step; the replays count steps, so biases are right."""
    x, y, loss = parameters(), parameters(), wp.zeros(1, requires_grad=True)
    captured, plain = make([x]), make([y])
    for _ in range(before):
        captured.step()
        plain.step()
    with wp.ScopedCapture() as capture:
        tape = recorded(x, loss)
        tape.backward(loss)
        captured.step()
        tape.zero()
    assert captured.t == before
    for _ in range(7):
        wp.capture_launch(capture.graph)
        tape = recorded(y, loss)
        tape.backward(loss)
        plain.step()
        tape.zero()
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    assert captured.t == plain.t == before + 7
    captured.reset_internal_state()  # also of the graph
    x.assign(np.linspace(0.5, 1.0, 5))
    y.assign(x)
    plain.reset_internal_state()
    wp.capture_launch(capture.graph)
    plain.step([wp.clone(y)])
    np.testing.assert_array_equal(x.numpy(), y.numpy())


@each_optimizer
def test_a_step_length_in_an_array(make):
    """Replays read it."""
    x, y, g = parameters(), parameters(), wp.full(5, 0.25)
    rate = wp.zeros(1, dtype=wp.float64)
    scheduled, plain = make([x], rate), make([y])
    with wp.ScopedCapture() as capture:
        scheduled.step([g])
    for value in (0.1, 0.01, 0.0, 0.5):
        rate.fill_(value)
        wp.capture_launch(capture.graph)
        plain.lr = value
        plain.step([g])
    np.testing.assert_array_equal(x.numpy(), y.numpy())
    with pytest.raises(TypeError, match=r"`lr` is a number or an array of one float, got array\(shape=\(2,\)"):
        make([x], wp.zeros(2))
    plain.lr = -1.0
    with pytest.raises(ValueError, match="`lr` is at least 0, got -1.0"):
        plain.step([g])


# --- state ---


@each_optimizer
def test_state_is_saved_and_restored(make):
    rng = np.random.default_rng(2)
    gradients = [
        [wp.array(rng.standard_normal(5), dtype=float), wp.array(rng.standard_normal((2, 3)), dtype=wp.vec3h)]
        for _ in range(6)
    ]

    def fresh():
        return [parameters(), wp.ones(2, dtype=wp.vec3h)]

    through, first, second = fresh(), fresh(), fresh()
    a, b = make(through), make(first)
    for g in gradients[:3]:
        a.step(g)
        b.step(g)
    c = make(second, 0.7)
    for p, q in zip(second, first, strict=True):
        p.assign(q)
    c.load_state_dict(pickle.loads(pickle.dumps(b.state_dict())))
    assert (c.lr, c.t) == (0.1, 3)
    for g in gradients[3:]:
        a.step(g)
        c.step(g)
    for p, q in zip(through, second, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_state_of_others_is_refused_and_changes_nothing():
    x = parameters()
    optimizer = wp.optim.Adam([x], lr=0.3)
    optimizer.step([wp.ones(5)])
    kept = optimizer.state_dict()
    cases = [
        (wp.optim.SGD([x]).state_dict(), ValueError, "this is the state of SGD, not of Adam"),
        (wp.optim.Adam([x, wp.zeros(2)]).state_dict(), ValueError, "Adam has 1 parameters, the state has 2"),
        (wp.optim.Adam([wp.zeros(4)]).state_dict(), ValueError, r"Adam m\[0\] has shape \(5,\), the state \(4,\)"),
        ({"optimizer": "Adam"}, KeyError, "m"),
    ]
    for state, error, message in cases:
        with pytest.raises(error, match=message):
            optimizer.load_state_dict(state)
    now = optimizer.state_dict()
    assert {name: now[name] for name in ("t", "lr", "beta1")} == {"t": 1, "lr": 0.3, "beta1": 0.9}
    np.testing.assert_array_equal(now["m"][0], kept["m"][0])


def test_parameters_that_are_set_again_keep_their_buffers():
    for dtype in (wp.float16, wp.float32, wp.vec3):
        p = wp.zeros(4, dtype=dtype)
        optimizer = wp.optim.Adam([p])
        optimizer.step([wp.ones(4, dtype=dtype)])
        m = optimizer.m[0]
        optimizer.set_params([wp.zeros(4, dtype=dtype)])
        assert optimizer.m[0] is m
        assert optimizer.t == 1
        optimizer.set_params([wp.zeros(5, dtype=dtype)])
        assert optimizer.m[0].shape == (5,)
        assert not optimizer.m[0].numpy().any()
    optimizer.reset_internal_state()
    assert optimizer.t == 0
    optimizer.set_params([])
    optimizer.step([])


# --- gradients and parameters of other libraries ---


def test_tensors_and_numpy_arrays():
    torch = pytest.importorskip("torch")
    t = torch.nn.Parameter(torch.linspace(0.5, 1.0, 5))
    host = np.linspace(0.5, 1.0, 5).astype(np.float32)
    x = parameters()
    optimizers = wp.optim.Adam([t]), wp.optim.Adam([host]), wp.optim.Adam([x])
    for k in range(4):
        g = np.full(5, k - 1.5, np.float32)
        t.grad = torch.from_numpy(g)  # another tensor each time
        optimizers[0].step()
        optimizers[1].step([g])
        optimizers[2].step([wp.array(g)])
    np.testing.assert_array_equal(t.detach().numpy(), x.numpy())
    np.testing.assert_array_equal(host, x.numpy())


def test_the_components_of_a_gradient_of_numpy():
    p = wp.zeros(2, dtype=wp.vec3)
    wp.optim.SGD([p], lr=1.0).step([np.ones((2, 3), np.float32)])
    assert p.numpy().tolist() == [[-1.0] * 3] * 2


def test_gradients_that_do_not_fit():
    x, y = wp.zeros(2), wp.zeros(3)
    optimizer = wp.optim.SGD([x, y])
    cases = [
        (None, RuntimeError, "SGD parameter 0 has no gradient: make it with requires_grad=True, or give gradients"),
        (wp.zeros(2), TypeError, r"SGD step\(\) takes a list of gradients, got array"),
        ([np.zeros(2), y], TypeError, r"SGD gradient \(parameter 0 of 2\): .*float64"),
        ([wp.zeros(2)], ValueError, "SGD has 2 parameters, got 1 gradients"),
        (
            [wp.zeros(2), wp.zeros(3, dtype=int)],
            TypeError,
            r"SGD gradient dtype must match parameter dtype float32, got int32 \(parameter 1 of 2\)",
        ),
        (
            [wp.zeros((2, 1)), y],
            ValueError,
            r"SGD gradient shape must match parameter shape \(2,\), got \(2, 1\) \(parameter 0 of 2\)",
        ),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            optimizer.step(given)
    with pytest.raises(RuntimeError, match=r"Adam parameters must be set before calling step\(\), got None"):
        wp.optim.Adam().step([])
    assert optimizer.t == 0
    assert x.list() == [0.0, 0.0]


def test_large_arrays():
    """More than one thread's share, beside NumPy."""
    n = 300_001
    rng = np.random.default_rng(4)
    start, g = rng.standard_normal((2, n)).astype(np.float32)
    p = wp.array(start)
    wp.optim.Adam([p], lr=0.01).step([wp.array(g)])
    expected = start - 0.01 * g.astype(np.float64) / (np.abs(g.astype(np.float64)) + 1e-8)
    np.testing.assert_allclose(p.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_importing_the_package_does_not_load_it():
    program = "import sys, warp_like as wp; assert 'warp_like.optim' not in sys.modules; wp.optim.Adam; wp.optim.LBFGS"
    subprocess.run([sys.executable, "-c", program], check=True)
