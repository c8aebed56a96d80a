"""Integers wrap on a CUDA device as they do on the CPU: indices, branches, ranges and gradients."""

from collections.abc import Iterator

import numpy as np
import pytest

import warp_like as wp
from tests import wrapping as cases
from tests.long_tail import crossed, sampled


@pytest.fixture(autouse=True)
def _forgotten(device: str) -> Iterator[None]:
    """Drop the code of the shared kernels with the device that it was made for."""
    yield
    for kernel in cases.ALL:
        kernel.forget_programs()


@pytest.mark.parametrize("name", crossed(cases.TYPES, every=2))
def test_indices_and_branches(device: str, name: str) -> None:
    for make, found, dtype in (
        (cases.index_kernel, cases.index_cases, float),
        (cases.branch_kernel, cases.branch_cases, int),
    ):
        kernel = make(name)
        for given, expected in found(name):
            inputs = [wp.array(v, device=device) if isinstance(v, np.ndarray) else v for v in given]
            out = wp.zeros(expected.shape, dtype=dtype, device=device)
            wp.launch(kernel, cases.THREADS, [*inputs, out], device=device)
            np.testing.assert_array_equal(out.numpy(), expected, err_msg=str(given[-2:]))


def test_what_is_computed_on_the_way_to_an_index_wraps(device: str) -> None:
    n, threads = 64, 300
    a = wp.array(np.arange(n, dtype=np.float32), device=device)
    out = wp.zeros(threads, dtype=float, device=device)
    wp.launch(cases.hashed, threads, [n, a, out], device=device)
    h = np.array([cases.wrap(i * 1664525 + 1013904223, "int32") for i in range(threads)])
    r = np.sign(h) * (np.abs(h) % n)
    np.testing.assert_array_equal(out.numpy(), np.where(r >= 0, r, -1))


@pytest.mark.parametrize(
    ("name", "step"), sampled([("int32", 1), ("int32", -(10**9)), ("int32", None), ("uint8", 3)], every=2)
)
def test_loops_and_their_gradients(device: str, name: str, step: int | None) -> None:
    kernel = cases.loop_kernel(name, step)
    x = np.linspace(0.6, 1.4, 3)
    by = step or 40
    for lo, hi in cases.loop_cases(name, by):
        given = wp.array(x, dtype=wp.float64, device=device, requires_grad=True)
        out = wp.zeros((3, 3), dtype=wp.float64, device=device, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, 3, [lo, hi, by, 1 if by > 0 else -1, given, out], device=device)
        tape.backward(grads={out: wp.ones((3, 3), dtype=wp.float64, device=device)})
        wanted = [cases.loop_expected(name, lo, hi, by, i, v) for i, v in enumerate(x)]
        where = f"range({lo}, {hi}, {by})"
        np.testing.assert_allclose(out.numpy().T, [w for w, _ in wanted], rtol=1e-12, err_msg=where)
        np.testing.assert_allclose(given.grad.numpy(), [g for _, g in wanted], rtol=1e-12, err_msg=where)
