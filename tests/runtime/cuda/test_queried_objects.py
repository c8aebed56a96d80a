"""Geometry on a CUDA device: once in emulation, and on a GPU where there is one."""

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.geometry.test_hash_grid import candidates, in_order, run, visit, visit_with_for


def test_hash_grids(device):
    rng = np.random.default_rng(4)
    p = rng.uniform(-2, 2, (40, 3)).astype(np.float32)
    x, groups = wp.array(p, dtype=wp.vec3, device=device), wp.array(np.arange(40) % 2, dtype=int, device=device)
    grid = wp.HashGrid(4, 4, 4, device=device)
    grid.build(x, 0.8, groups)
    for kernel in (visit, visit_with_for):
        seen, _ = run(kernel, grid.id, x, 0.8, 40, device)
        np.testing.assert_array_equal(seen, candidates(p, 0.8, 0.8, (4, 4, 4)))
    with pytest.raises(ValueError, match=f"alive on {device}"):
        wp.launch(in_order, dim=1, inputs=[wp.HashGrid(1, 1, 1, device="cpu").id], outputs=[groups], device=device)


def test_trees_are_refused(device):
    x, faces = wp.zeros(3, dtype=wp.vec3, device=device), wp.array([0, 1, 2], dtype=int, device=device)
    for make in (lambda: wp.Bvh(x, x), lambda: wp.Mesh(x, faces)):
        with pytest.raises(RuntimeError, match=f"trees are built on the CPU in this release; `.*` is on {device}"):
            make()
