"""Gradients add up over backward passes: what an earlier pass has left is nothing to start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def square_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def add_all(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.atomic_add(y, 0, x[wp.tid()])


@wp.kernel
def add(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += 3.0 * x[i]


@wp.kernel
def every_second(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i]


Arrays = tuple[Any, Any, Any, Any]


def in_place(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(square_in_place, 4, [x])
    wp.launch(add_all, 4, [x, s])
    wp.launch(square, 1, [s, out])


def in_part(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(square_in_place, 2, [x[1:3]])
    wp.launch(add_all, 4, [x, s])
    wp.launch(square, 1, [s, out])


def read_before(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(add_all, 4, [y, s])
    wp.launch(square, 4, [x, y])
    wp.launch(add_all, 4, [y, s])
    wp.launch(square, 1, [s, out])


def filled(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(square, 4, [x, y])
    wp.launch(add_all, 4, [x, s])
    x.fill_(2.0)
    wp.launch(add, 4, [x, y])
    wp.launch(add_all, 4, [y, s])
    wp.launch(square, 1, [s, out])


def over_rows(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(every_second, 4, [x, y])
    wp.launch(add, 2, [x[::2], y[::2]])
    wp.launch(add, 4, [x, y])
    wp.launch(add_all, 4, [y, s])
    wp.launch(add_all, 1, [s, out])


def copied(x: Any, y: Any, s: Any, out: Any) -> None:
    wp.launch(add, 4, [x, y])
    wp.copy(y, x)
    wp.launch(add, 4, [x, y])
    wp.launch(add_all, 4, [y, s])
    wp.launch(square, 1, [s, out])


def many(x: Any, y: Any, s: Any, out: Any) -> None:
    for _ in range(9):
        wp.launch(add, 4, [x, y])
    wp.launch(add_all, 4, [y, s])
    wp.launch(square, 1, [s, out])


PROGRAMS = [in_place, in_part, read_before, filled, over_rows, copied, many]


def arrays(retain: bool = False) -> Arrays:
    given = {"dtype": float, "requires_grad": True}
    x, y = wp.array([1.0, 2.0, 3.0, 4.0], **given), wp.array([0.5, 1.0, 1.5, 2.0], retain_grad=retain, **given)
    return x, y, wp.zeros(1, **given), wp.zeros(1, **given)


def gradients(program: Callable[..., None], seed: float, retain: bool = False) -> list[np.ndarray]:
    """Those of one pass over new arrays."""
    made = arrays(retain)
    with wp.Tape() as tape:
        program(*made)
    tape.backward(grads={made[-1]: wp.array([seed], dtype=float)})
    return [a.grad.numpy().copy() for a in made]


def expect(made: Arrays, sums: list[np.ndarray], seed: float) -> None:
    for a, wanted in zip(made[:-1], sums, strict=False):
        np.testing.assert_allclose(a.grad.numpy(), wanted, rtol=1e-6)
    assert made[-1].grad.list() == [seed] or made[-1].grad.list() == [0.0]  # what a pass starts from is set


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_passes_add_up(program: Callable[..., None], retain: bool) -> None:
    made, sums = arrays(retain), [np.zeros(1)] * 4
    with wp.Tape() as tape:
        program(*made)
    for seed in (1.0, -0.5, 0.0, 2.0):
        tape.backward(grads={made[-1]: wp.array([seed], dtype=float)})
        sums = [a + b for a, b in zip(sums, gradients(program, seed, retain), strict=True)]
        expect(made, sums, seed)
    tape.zero()
    tape.backward(grads={made[-1]: wp.array([3.0], dtype=float)})
    expect(made, gradients(program, 3.0, retain), 3.0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_passes_of_several_tapes_add_up(program: Callable[..., None]) -> None:
    made, sums = arrays(), [np.zeros(1)] * 4
    starts = [a.numpy().copy() for a in made]
    for _ in range(3):
        for a, start in zip(made, starts, strict=True):
            a.assign(start)
        with wp.Tape() as tape:
            program(*made)
        tape.backward(loss=made[-1])
        sums = [a + b for a, b in zip(sums, gradients(program, 1.0), strict=True)]
        expect(made, sums, 1.0)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_captured_passes_add_up(program: Callable[..., None], zero: bool) -> None:
    made = arrays()
    starts = [a.numpy().copy() for a in made]
    with wp.ScopedCapture() as capture:
        with wp.Tape() as tape:
            program(*made)
        if zero:
            tape.zero()
        tape.backward(loss=made[-1])
    for k in range(3):
        for a, start in zip(made, starts, strict=True):
            a.assign(start)
        wp.capture_launch(capture.graph)
        expect(made, [(1 if zero else k + 1) * g for g in gradients(program, 1.0)], 1.0)


def test_an_adjoint_may_be_the_array_s_own_gradient() -> None:
    x, _, s, _ = arrays()
    with wp.Tape() as tape:
        wp.launch(square_in_place, 4, [x])
        wp.launch(add_all, 4, [x, s])
    x.grad.fill_(10.0)
    tape.backward(grads={x: x.grad, s: wp.array([1.0], dtype=float)})
    assert x.grad.list() == [22.0, 44.0, 66.0, 88.0]
    tape.backward(grads={x[1:3]: x.grad[1:3]})
    assert x.grad.list() == [22.0, 44.0 * 4.0, 66.0 * 6.0, 88.0]
    tape.backward()  # starts from what the arrays hold
    assert x.grad.list() == [(22.0 + 1.0) * 2.0, (176.0 + 1.0) * 4.0, (396.0 + 1.0) * 6.0, (88.0 + 1.0) * 8.0]


@wp.struct
class Row:
    x: wp.array(dtype=float)
    n: int


@wp.struct
class Body:
    v: wp.vec2
    w: float


@wp.kernel
def halve_rows(rows: wp.array(dtype=Row)):
    i = wp.tid()
    for j in range(rows[i].n):
        rows[i].x[j] = 0.5 * rows[i].x[j]


@wp.kernel
def add_rows(rows: wp.array(dtype=Row), s: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(rows[i].n):
        wp.atomic_add(s, 0, 3.0 * rows[i].x[j])


@wp.kernel
def move(p: wp.array(dtype=Body)):
    i = wp.tid()
    p[i].w = p[i].w * p[i].v[0]
    p[i].v = p[i].v * 2.0


@wp.kernel
def add_bodies(p: wp.array(dtype=Body), s: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(s, 0, p[i].w * p[i].v[1])


def test_arrays_in_elements() -> None:
    xs = [wp.ones(n, dtype=float, requires_grad=True) for n in (1, 3)]
    rows = wp.array([Row(x=x, n=len(x)) for x in xs], dtype=Row)
    s = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(halve_rows, 2, [rows])
        wp.launch(add_rows, 2, [rows, s])
    for k in (1, 2, 3):
        tape.backward(loss=s)
        for x in xs:
            np.testing.assert_array_equal(x.grad.numpy(), np.full(len(x), 1.5 * k))


def test_structs() -> None:
    bodies = np.zeros(3, Body.numpy_dtype())
    bodies["v"], bodies["w"] = [[1, 2], [3, 4], [5, 6]], [1, 2, 3]
    (a, b), w = bodies["v"].T, bodies["w"]
    p = wp.array(bodies, dtype=Body, requires_grad=True)
    s = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, 3, [p])
        wp.launch(add_bodies, 3, [p, s])
    for k in (1, 2, 3):
        tape.backward(loss=s)
        found = p.grad.numpy()
        np.testing.assert_array_equal(found["v"], 2 * k * np.stack([w * b, w * a], 1))
        np.testing.assert_array_equal(found["w"], 2 * k * a * b)


def test_a_pass_that_fails_loses_no_sum() -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    fails = []

    def reverse() -> None:
        if fails:
            raise ArithmeticError("of the user's")

    with wp.Tape() as tape:
        tape.record_func(reverse, [x])
        wp.launch(square_in_place, 2, [x])
        wp.launch(add_all, 2, [x, total])
    tape.backward(loss=total)
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
    fails.append(True)
    with pytest.raises(ArithmeticError):
        tape.backward(loss=total)
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 8.0])  # the pass got as far as this before it failed
