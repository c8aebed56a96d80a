"""CuPy's arrays in kernels, and our arrays in CuPy: one memory, one stream's order.

Needs an NVIDIA GPU and CuPy; says so where one of them is missing.
"""

import importlib.util

import numpy as np

import warp_like as wp


@wp.kernel
def smooth(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    rows, cols = x.shape[0], x.shape[1]
    total = 0.0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            total += x[(i + di + rows) % rows, (j + dj + cols) % cols]
    out[i, j] = total / 9.0


def missing() -> str | None:
    """What this machine lacks, or None."""
    if not wp.is_cuda_available():
        return "there is no CUDA device"
    return None if importlib.util.find_spec("cupy") else "CuPy is not installed"


def launch_on_cupy(cupy, field: np.ndarray) -> np.ndarray:
    """CuPy makes the arrays; the kernel gets them as they are."""
    x, out = cupy.asarray(field), cupy.empty_like(cupy.asarray(field))
    wp.launch(smooth, dim=x.shape, inputs=[x, out], device="cuda:0")
    return cupy.asnumpy(out)


def compute_with_cupy(cupy, field: np.ndarray) -> np.ndarray:
    """We make the arrays; CuPy computes with them."""
    x = wp.array(field, dtype=float, device="cuda:0")
    view = cupy.asarray(x)  # by __cuda_array_interface__
    assert view.data.ptr == x.ptr
    total = cupy.zeros_like(view)
    for shift in ((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
        total += cupy.roll(view, shift, axis=(0, 1))
    return cupy.asnumpy(total / 9.0)


def main(size: int = 512) -> None:
    """Run both ways and compare."""
    lacking = missing()
    if lacking is not None:
        print(f"skipped: {lacking}")
        return
    import cupy

    field = np.random.default_rng(1).random((size, size), dtype=np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:  # kernels on CuPy's arrays run where CuPy works
        ours, theirs = launch_on_cupy(cupy, field), compute_with_cupy(cupy, field)
    error = float(np.abs(ours - theirs).max())
    print(f"largest difference between the kernel and CuPy: {error:.1e}")
    assert error < 1.0e-5


if __name__ == "__main__":
    main()
