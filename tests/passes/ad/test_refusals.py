"""What reverse mode refuses, each with its whole message, and that a refusal changes no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warp_like as wp

f64 = wp.float64


def array(*numbers: float) -> Any:
    return wp.array(np.array(numbers), dtype=f64, requires_grad=True)


@wp.kernel
def update_and_read(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i])
    x[i] = wp.sin(y[0])


@wp.kernel
def augmented_and_read(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i // 2] += x[i]
    y[i] = y[i] * y[i]


@wp.kernel
def append(n: wp.array(dtype=int), x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    for k in range(out.shape[0]):
        slot = wp.atomic_add(n, 0, 1)
        out[slot] = x[k]


@wp.kernel
def exchange(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    wp.atomic_exch(y, 0, x[wp.tid()])


@wp.kernel
def compare_and_swap(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    wp.atomic_cas(y, 0, f64(0.0), x[wp.tid()])


@wp.kernel
def reinterpret(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.bfloat16)):
    i = wp.tid()
    y[i] = wp.cast(x[i], wp.bfloat16)


@wp.kernel
def highest_and_sum(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_max(y, i // 2, x[i] * x[i])
    wp.atomic_add(y, i // 2, x[i])


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def square_in_place(y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = y[i] * y[i]


@wp.kernel
def long_loop(x: wp.array(dtype=f64), n: int, y: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = v + 0.001 * wp.sin(v) * v
    y[i] = v


CASES: dict[str, tuple[Any, Callable[[], list[Any]]]] = {
    "reading_what_threads_update": (update_and_read, lambda: [array(1.0, 2.0), array(1.0)]),
    "reading_what_is_added_to": (augmented_and_read, lambda: [array(1.0, 2.0), array(3.0, 4.0)]),
    "result_of_an_atomic": (append, lambda: [wp.zeros(1, dtype=int), array(1.0, 2.0), array(0.0, 0.0)]),
    "atomic_exch": (exchange, lambda: [array(1.0, 2.0), array(0.0)]),
    "atomic_cas": (compare_and_swap, lambda: [array(1.0, 2.0), array(0.0)]),
    "reinterpreted_bits": (
        reinterpret,
        lambda: [wp.ones(2, dtype=t, requires_grad=True) for t in (wp.float16, wp.bfloat16)],
    ),
    "atomic_max_and_add": (highest_and_sum, lambda: [array(1.0, 2.0), array(0.0, 0.0)]),
    "overlapping_views": (square, lambda: (lambda a: [a[:4], a[1:]])(array(1.0, 2.0, 3.0, 4.0, 5.0))),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, golden: Callable[[str, str], None]) -> None:
    kernel, arguments = CASES[name]
    args = arguments()
    with wp.Tape() as tape:
        wp.launch(kernel, dim=args[-2].shape, inputs=args)
    differentiated = [a for a in args if a.requires_grad]
    before = [a.grad.numpy().copy() for a in differentiated]
    with pytest.raises((wp.WarpCodegenError, RuntimeError)) as caught:
        tape.backward(grads={args[-1]: wp.ones(args[-1].shape, dtype=args[-1].dtype)})
    for a, b in zip(differentiated, before, strict=True):
        np.testing.assert_array_equal(a.grad.numpy(), b)
    golden(f"refused_{name}", _message(caught.value))


def _message(error: BaseException) -> str:
    return str(error).replace(__file__, "test_refusals.py") + "\n"


def test_stale_copies(golden: Callable[[str, str], None]) -> None:
    y = array(2.0, 3.0)
    with wp.Tape() as tape:
        wp.launch(square_in_place, dim=2, inputs=[y])
    y.fill_(7.0)
    with pytest.raises(RuntimeError) as caught:
        tape.backward(grads={y: wp.ones(2, dtype=f64)})
    golden("refused_stale_copies", _message(caught.value))


def test_an_explicit_adjoint_of_a_kernel_that_overwrites_what_it_reads(golden: Callable[[str, str], None]) -> None:
    adjoint = wp.ones(2, dtype=f64)
    with pytest.raises(RuntimeError) as caught:
        wp.launch(square_in_place, dim=2, inputs=[array(2.0, 3.0)], adj_inputs=[adjoint], adjoint=True)
    np.testing.assert_array_equal(adjoint.numpy(), 1)
    golden("refused_explicit_adjoint", _message(caught.value))


def test_the_memory_limit(golden: Callable[[str, str], None]) -> None:
    x, y = array(0.7), array(0.0)
    with wp.Tape() as tape:
        wp.launch(long_loop, dim=1, inputs=[x, 100_000, y])
    wp.config.adjoint_stack_limit = 1 << 16
    try:
        with pytest.raises(MemoryError) as caught:
            tape.backward(grads={y: wp.ones(1, dtype=f64)})
    finally:
        del wp.config.adjoint_stack_limit
    golden("refused_memory_limit", _message(caught.value))


def test_starting_points(golden: Callable[[str, str], None]) -> None:
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    frozen = wp.zeros(1, dtype=f64)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x, y])
    attempts = {
        "two elements": {"loss": y},
        "no array": {"loss": 3.0},
        "requires_grad=False": {"loss": frozen},
        "shape": {"grads": {y: wp.ones(3, dtype=f64)}},
    }
    lines = []
    for name, arguments in attempts.items():
        with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
            tape.backward(**arguments)
        lines.append(f"{name}: {caught.type.__name__}: {caught.value}")
    golden("refused_starts", "\n".join(lines) + "\n")


def test_a_repeated_source(golden: Callable[[str, str], None]) -> None:
    x, y = array(1.0), wp.zeros((2, 1), dtype=f64, requires_grad=True)
    with wp.Tape(), pytest.raises(RuntimeError) as caught:
        y[:] = x
    golden("refused_repeated_source", _message(caught.value))
