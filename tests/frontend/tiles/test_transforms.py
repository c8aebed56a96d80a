"""Fourier transforms of tiles of many lengths, against NumPy."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed

BLOCKS = 2


def transforming(shape: tuple[int, ...]) -> Any:
    """A kernel that transforms tiles there, and back from what they were."""

    @wp.kernel(module="unique", enable_backward=False)
    def transforms(
        x: wp.array(dtype=wp.vec2d, ndim=len(shape) + 1),
        there: wp.array(dtype=wp.vec2d, ndim=len(shape) + 1),
        back: wp.array(dtype=wp.vec2d, ndim=len(shape) + 1),
    ):
        i = wp.tid()
        t = wp.tile_load(x[i], shape=shape)
        u = t
        wp.tile_fft(t)
        wp.tile_store(there[i], t)
        wp.tile_ifft(u)
        wp.tile_store(back[i], u)

    return transforms


@pytest.mark.parametrize(
    "shape",
    crossed([(1,), (3, 2), (3,), (7,), (2, 2, 30), (64,), (243,), (68,), (1, 256), (800,), (1001,)], every=2),
    ids=str,
)
def test_lengths(shape: tuple[int, ...]):
    """Stages of radix 2, 3, 4, 5, 7 and 17, which is a loop, over neighbours and over elements that lie apart."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((BLOCKS, *shape)) + 1j * rng.standard_normal((BLOCKS, *shape))
    x = wp.array(z[..., None].view(np.float64), dtype=wp.vec2d)
    there, back = wp.zeros_like(x), wp.zeros_like(x)
    wp.launch_tiled(transforming(shape), dim=BLOCKS, inputs=[x, there, back], block_dim=64)
    for got, wanted in ((there, np.fft.fft(z)), (back, np.fft.ifft(z) * shape[-1])):
        np.testing.assert_allclose(got.numpy().view(np.complex128)[..., 0], wanted, rtol=1e-12, atol=1e-12)
