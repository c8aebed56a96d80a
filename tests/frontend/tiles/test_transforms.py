"""Fourier transforms of tiles of many lengths, against NumPy."""

import math
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.builtins import tile_fourier

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
    crossed(
        [(1,), (3, 2), (3,), (7,), (2, 2, 30), (64,), (243,), (68,), (1, 256), (800,), (1001,), (512,), (8,)], every=2
    ),
    ids=str,
)
def test_lengths(shape: tuple[int, ...]):
    """Stages of radix 2 to 16 and 17, which is a loop, over neighbours and over elements that lie apart."""
    require_transforms(shape)


def require_transforms(shape: tuple[int, ...]) -> None:
    """Compare the transforms of such tiles with NumPy's."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((BLOCKS, *shape)) + 1j * rng.standard_normal((BLOCKS, *shape))
    x = wp.array(z[..., None].view(np.float64), dtype=wp.vec2d)
    there, back = wp.zeros_like(x), wp.zeros_like(x)
    wp.launch_tiled(transforming(shape), dim=BLOCKS, inputs=[x, there, back], block_dim=64)
    for got, wanted in ((there, np.fft.fft(z)), (back, np.fft.ifft(z) * shape[-1])):
        np.testing.assert_allclose(got.numpy().view(np.complex128)[..., 0], wanted, rtol=1e-12, atol=1e-12)


def test_roots_that_the_kernel_computes(monkeypatch: pytest.MonkeyPatch):
    """Those of long transforms are no constants."""
    monkeypatch.setattr(tile_fourier, "MOST_TABULATED", 30)
    require_transforms((2, 120))


@pytest.mark.parametrize("n", [1, 2, 16, 17 * 19, 48, 64, 100, 128, 2048, 3 * 2**9, 2 * 13**2, 4 * 10**5])
def test_radices(n: int):
    found = tile_fourier.radices(n)
    assert math.prod(found) == n
    odd = [r for r in found if r % 2]
    assert found[: len(odd)] == sorted(odd, reverse=True)
    assert all(r in (2, 4, 8, 16) for r in found[len(odd) :])
    assert len(found) < 2 or found[-1] ** 2 <= n or len(found) == len(odd)


@pytest.mark.parametrize("length", crossed([256, 1024, 24, 80], every=2))
def test_single_precision(length: int):
    """Errors are those of roots that are rounded once; the transform back gives what there was."""

    @wp.kernel(module="unique", enable_backward=False)
    def there_and_back(
        x: wp.array2d(dtype=wp.vec2f), there: wp.array2d(dtype=wp.vec2f), back: wp.array2d(dtype=wp.vec2f)
    ):
        i = wp.tid()
        t = wp.tile_load(x[i], shape=length)
        wp.tile_fft(t)
        wp.tile_store(there[i], t)
        wp.tile_ifft(t)
        wp.tile_store(back[i], t)

    x = np.random.default_rng(1).standard_normal((5, 2 * length)).astype(np.float32)
    arrays = [wp.zeros((5, length), dtype=wp.vec2f) for _ in range(2)]
    wp.launch_tiled(there_and_back, dim=5, inputs=[x.reshape(5, length, 2), *arrays], block_dim=64)
    there, back = (a.numpy().view(np.complex64)[..., 0] for a in arrays)
    wanted = np.fft.fft(x.view(np.complex64).astype(np.complex128))
    assert np.abs(there - wanted).max() < 5e-7 * np.abs(wanted).max()
    np.testing.assert_allclose(back / length, x.view(np.complex64), atol=2e-6)
