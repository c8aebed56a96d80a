"""A backward pass that fails in the middle leaves parts of sums in gradients; the next one does not build on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warp_like as wp

FAILED = r"the last backward\(\) of this tape failed"


@wp.kernel
def iterate(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = v * v
    y[i] = v


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def recorded(retain: bool = False) -> tuple[wp.Tape, Any, Any, dict[Any, Any]]:
    """Return a tape, its input and the array between two launches, and adjoints to start from."""
    x = wp.array([1.0, 1.5], dtype=float, requires_grad=True)
    y, z = (wp.zeros(2, dtype=float, requires_grad=True, retain_grad=retain) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(iterate, 2, [x, 2, y])
        wp.launch(square, 2, [y, z])
    return tape, x, y, {z: wp.ones(2, dtype=float)}


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "native"])
def test_the_next_pass_is_refused_until_gradients_are_zero(checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, x, y, grads = recorded(retain=checked)
    tape.backward(grads=grads)
    expected = 8 * x.numpy() ** 7
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    for again in ("zero", "at once"):
        tape.zero()
        with monkeypatch.context() as limited:
            limited.setattr(wp.config, "adjoint_stack_limit", 0)
            with pytest.raises(MemoryError):
                tape.backward(grads=grads)
        assert y.grad.numpy().any()  # what the first launch would start from twice
        for _ in range(2):
            with pytest.raises(RuntimeError, match=FAILED):
                tape.backward(grads=grads)
        if again == "zero":
            tape.zero()
        tape.backward(grads=grads, zero=again == "at once")
        np.testing.assert_array_equal(x.grad.numpy(), expected)
        tape.backward(grads=grads)  # and from then on, gradients add up again
        np.testing.assert_array_equal(x.grad.numpy(), 2 * expected)


def test_refusals_are_no_failures() -> None:
    tape, x, _, grads = recorded()
    tape.backward(grads=grads)
    with pytest.raises(ValueError, match="adjoint of shape"):
        tape.backward(grads={next(iter(grads)): wp.ones(3, dtype=float)})
    tape.backward(grads=grads)
    np.testing.assert_array_equal(x.grad.numpy(), 16 * x.numpy() ** 7)


def test_a_refusal_does_not_make_up_for_a_failure() -> None:
    x, y = wp.array([1.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)

    def fail() -> None:
        raise ArithmeticError("of the user's")

    with wp.Tape() as tape:
        tape.record_func(fail, [x])
        wp.launch(square, 1, [x, y])
    with pytest.raises(ArithmeticError):
        tape.backward(loss=y)
    with pytest.raises(ValueError, match="adjoint of shape"):
        tape.backward(grads={y: wp.ones(3, dtype=float)}, zero=True)
    with pytest.raises(RuntimeError, match=FAILED):
        tape.backward(loss=y)
    tape.reset()
    with tape:
        wp.launch(square, 1, [x, y])
    tape.backward(loss=y)
    np.testing.assert_array_equal(x.grad.numpy(), [2.0])
