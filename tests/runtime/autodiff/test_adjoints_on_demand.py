"""Recording asks which arrays an adjoint reads; only a backward pass compiles it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.runtime.arrays.recording import program_of


@pytest.fixture(autouse=True)
def _nothing_on_disk() -> Iterator[None]:
    wp.config.cache_kernels = False
    yield
    del wp.config.cache_kernels


def kernels() -> tuple[Any, Any]:
    """Kernels that no other test has compiled."""

    @wp.kernel
    def squared_in_place(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] * x[i]

    @wp.kernel
    def sine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.sin(x[i])

    return squared_in_place, sine


def has_code(record: Any) -> bool:
    """Whether the adjoint of a recorded launch has been compiled."""
    wrt = tuple(i for i, a in enumerate(record.args) if a.requires_grad)
    return bool(program_of(record, wrt, record.same).artifacts)


def test_recording_compiles_no_adjoint() -> None:
    squared_in_place, sine = kernels()
    x = wp.array(np.array([2.0, 3.0], np.float32), requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squared_in_place, 2, inputs=[x])  # overwrites what its own adjoint reads
        wp.launch(sine, 2, inputs=[x, y])
        wp.launch(squared_in_place, 2, inputs=[x])  # overwrites what the adjoint before it reads
    assert not any(map(has_code, tape.launches))
    first, second, _ = tape.launches
    assert list(first.prelaunch_copies) == [0]
    assert list(second.saved) == [0]
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    assert all(map(has_code, tape.launches))
    start = np.array([2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), np.cos(start**2) * 2 * start, rtol=1e-6)


def test_strided_arrays_get_a_variant_of_their_own_afterwards() -> None:
    squared_in_place, _ = kernels()
    whole = wp.array(np.arange(1.0, 7.0, dtype=np.float32), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squared_in_place, 3, inputs=[whole[::2]])
    assert not has_code(tape.launches[0])
    tape.backward(grads={whole: wp.ones(6, dtype=float)})
    np.testing.assert_allclose(whole.grad.numpy(), [2, 1, 6, 1, 10, 1])
