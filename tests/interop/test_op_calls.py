"""Operators' calls in one native function: they give what the general way gives, and leave to it what is unusual."""

import numpy as np
import pytest

import warp_like as wp
from tests.interop.operator_kernels import both, square, square_here, wave, weighted
from warp_like import _native
from warp_like.interop.op_body import KernelBody

torch = pytest.importorskip("torch")
f64 = wp.float64
FACTOR = 3


@wp.kernel
def turned(v: wp.array(dtype=wp.vec3d), m: wp.mat33d, index: wp.array(dtype=int), out: wp.array(dtype=wp.vec3d)):
    i = wp.tid()
    out[i] = m * v[index[i]]


@wp.kernel
def linear(x: wp.array2d[f64], s: f64, y: wp.array2d[f64]):
    i, j = wp.tid()
    y[i, j] = s * x[i, j] * f64(FACTOR)


@wp.kernel
def last(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[x.shape[0] - 1]


MATRIX = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, 3.0], [1.5, 0.25, -2.0]])


def numbers(*shape):
    return torch.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape))


def of_square(x):
    return [x * x]


def of_wave(x, s):
    return [torch.sin(x) * s]


def of_both(x, s):
    y = x * x * s
    return [y, y * y]


def of_weighted(x, w):
    return [(x * w * w).sum().reshape(1)]


def of_turned(v, m, index):
    return [v[index.long()] @ torch.as_tensor(m, dtype=v.dtype).reshape(3, 3).T]


def of_linear(x, s):
    return [s * x * FACTOR]


def of_last(x):
    return [x * x[-1:]]


CASES = {
    "square": (square, {}, of_square, lambda n: [numbers(n)]),
    "number": (wave, {}, of_wave, lambda n: [numbers(n), 1.5]),
    "int for a float": (wave, {}, of_wave, lambda n: [numbers(n), 2]),
    "number as a tensor": (wave, {"as_tensors": "s"}, of_wave, lambda n: [numbers(n), torch.tensor(0.5).double()]),
    "two results": (both, {"outputs": ["y", "z"]}, of_both, lambda n: [numbers(n), 0.5]),
    "shape": (weighted, {"shapes": {"total": 1}}, of_weighted, lambda n: [numbers(n, 3), numbers(3)]),
    "in place": (square_here, {"in_out": "x"}, of_square, lambda n: [numbers(n)]),
    "a grid": (square, {"dim": 4}, of_square, lambda n: [numbers(4)]),
    "matrix": (turned, {}, of_turned, lambda n: [numbers(n, 3), MATRIX.ravel().tolist(), torch.arange(n).int()]),
    "strided": (linear, {}, of_linear, lambda n: [numbers(3, n).t(), 0.25]),
    "lazily negated": (square, {}, of_square, lambda n: [torch._neg_view(numbers(n))]),
    "expanded": (last, {}, of_last, lambda n: [numbers(1).expand(n) if n else numbers(0)]),
}


def results_and_gradients(function, args):
    given = [a.detach().requires_grad_() if torch.is_tensor(a) and a.is_floating_point() else a for a in args]
    found = function(*given)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    weights = [torch.arange(1.0, y.numel() + 1.0, dtype=y.dtype).reshape(y.shape) for y in found]
    leaves = [a for a in given if torch.is_tensor(a) and a.requires_grad]
    return found + list(torch.autograd.grad(found, leaves, weights))


@pytest.mark.parametrize("case", CASES)
def test_calls_agree_with_pytorch(case, monkeypatch):
    """Calls go the general way until there is code for them, and where adjoints need copies from before the launch."""
    kernel, options, reference, make = CASES[case]
    op = wp.torch_op(kernel, **options)
    for n in (5, 1):
        results_and_gradients(op, make(n))
    general = set()
    for name in ("forward", "_backward"):
        whole = getattr(KernelBody, name)

        def noted(self, *args, name=name, whole=whole):
            general.add(name)
            return whole(self, *args)

        monkeypatch.setattr(KernelBody, name, noted)
    for n in (4, 1, 0, 33):
        args = make(n)
        for got, expected in zip(results_and_gradients(op, args), results_and_gradients(reference, args), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-14, atol=1e-14)
            assert got.is_contiguous()
        with torch.no_grad():
            found = op(*args)
        torch.testing.assert_close(found if isinstance(found, tuple) else (found,), tuple(reference(*args)))
    copies = {"two results", "in place"}
    assert general == (
        {"forward", "_backward"} if case == "lazily negated" else {"_backward"} if case in copies else set()
    )


def test_a_call_that_is_not_plain_says_why():
    """After calls in one function the words are those of the general way."""
    op = wp.torch_op(wave)
    x = numbers(5)
    for _ in range(3):
        op(x, 2.0)
    bad = [
        ((x.float(), 2.0), TypeError, "expected a tensor of torch.float64"),
        ((x.reshape(1, 5), 2.0), TypeError, "with 1 dimensions"),
        ((x.numpy(), 2.0), TypeError, "expected a tensor for"),
        ((x, x), TypeError, "got a tensor; give numbers"),
        ((x, "2"), TypeError, "argument 2 `s`"),
        ((x, None), TypeError, "argument 2 `s`"),
    ]
    for args, error, message in bad:
        with pytest.raises(error, match=message):
            op(*args)
    assert torch.equal(op(x, np.float64(2.0)), op(x, 2.0))
    v = wp.torch_op(turned)
    index = torch.arange(2).int()
    for _ in range(2):
        v(numbers(2, 3), MATRIX.ravel().tolist(), index)
    with pytest.raises(ValueError, match="trailing dimensions"):
        v(numbers(2, 4), MATRIX.ravel().tolist(), index)
    with pytest.raises((TypeError, ValueError)):
        v(numbers(2, 3), [1.0, 2.0], index)


def test_what_watches_launches_sees_calls(capsys, monkeypatch):
    """Settings, captures, changed values and changed options count for calls that have run before."""
    op = wp.torch_op(linear)
    x = numbers(2, 3).requires_grad_()

    def run():
        y = op(x, 0.5)
        y.sum().backward()
        return y.detach()

    expected = run()
    for _ in range(2):
        assert torch.equal(run(), expected)
    with wp.Tape() as tape:
        assert torch.equal(run(), expected)
    assert not tape.launches
    capsys.readouterr()
    wp.config.print_launches = True
    try:
        run()
    finally:
        wp.config.print_launches = False
    assert "kernel: linear" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="capture"), wp.ScopedCapture():
        op(x, 0.5)
    linear.options["fast_math"] = True
    assert torch.equal(run(), expected)
    del linear.options["fast_math"]
    run()
    wp.config.enable_backward = False
    try:
        with pytest.raises(RuntimeError, match="switched off"):
            run()
    finally:
        wp.config.enable_backward = True
    run()
    monkeypatch.setitem(globals(), "FACTOR", 4)
    with pytest.raises(RuntimeError, match=r"FACTOR.* has changed since the operator was made"):
        op(x, 0.5)


def test_a_plan_is_checked_when_it_is_made():
    """No place of a plan lies outside of what a call has."""
    wp.torch_op(square)(numbers(2))
    dispatcher = square.program(square.types).dispatcher
    good = (dispatcher, (torch.Tensor,), 1, ((torch.zeros_like, 0),), (0,), (), (0, 1), (0, 1))
    assert torch.equal(_native.OpCall(*good).run((numbers(3),))[0], numbers(3) ** 2)
    for at, wrong in [
        (3, ((torch.zeros_like, 1),)),
        (3, ((None, 0),)),
        (4, (1,)),
        (5, (-1,)),
        (6, (0, 2)),
        (7, (2, 1)),
    ]:
        with pytest.raises(ValueError, match="OpCall"):
            _native.OpCall(*good[:at], wrong, *good[at + 1 :])
    call = _native.OpCall(*good)
    for args in ((), (1.0,), [numbers(3)], (numbers(3), 1), (torch.nn.Parameter(numbers(3)),)):
        assert call.run(args) is None
    with pytest.raises(RuntimeError):  # what a callable raises is the call's
        _native.OpCall(*good[:3], ((lambda t: t.reshape(99), 0),), *good[4:]).run((numbers(3),))
