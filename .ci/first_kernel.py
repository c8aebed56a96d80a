"""Try an installed wheel: import it, run a kernel and its gradient with nothing cached, and say how long that took.

    first_kernel.py [--without-compiler]

``cibuildwheel`` and ``make dist`` run this outside of the repository. ``--without-compiler`` also makes sure that the
process could not have used one.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cl", "cmake", "ninja", "ld", "as")

os.environ["WARP_LIKE_CACHE_DIR"] = tempfile.mkdtemp()  # before the import: what a first user has

import numpy as np  # noqa: E402

import warp_like as wp  # noqa: E402


@wp.kernel
def lengths(points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)) -> None:
    """Write the length of each point."""
    i = wp.tid()
    out[i] = wp.length(points[i])


def check_no_compiler() -> None:
    """End the process if a compiler could have been used."""
    found = [name for name in COMPILERS if shutil.which(name)]
    named = [name for name in ("CC", "CXX") if name in os.environ]
    if found or named:
        sys.exit(f"there are compilers: {', '.join(found + named)}")


def check_place() -> None:
    """End the process if the package is not the installed one."""
    if not Path(wp.__file__).is_relative_to(sys.prefix):
        sys.exit(f"{wp.__file__} is not in {sys.prefix}")


def main() -> None:
    """Run the kernel and its gradient, and compare both with NumPy's results."""
    check_place()
    if "--without-compiler" in sys.argv[1:]:
        check_no_compiler()
    rows = np.array([[3.0, 4.0, 0.0], [0.0, 5.0, 12.0]], dtype=np.float32)
    points = wp.array(rows, dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    began = time.perf_counter()
    with wp.Tape() as tape:
        wp.launch(lengths, dim=2, inputs=[points], outputs=[out])
    took = time.perf_counter() - began
    tape.backward(grads={out: wp.ones(2, dtype=float)})
    np.testing.assert_allclose(out.numpy(), [5.0, 13.0], rtol=1e-6)
    np.testing.assert_allclose(points.grad.numpy(), rows / [[5.0], [13.0]], rtol=1e-6)
    print(f"Python {sys.version.split()[0]}, {wp.__version__}: a first kernel in {1e3 * took:.0f} ms, and its gradient")


if __name__ == "__main__":
    main()
