"""Geometry on a CUDA device: once in emulation, and on a GPU where there is one."""

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.geometry.test_bvh import visit as walk_boxes
from tests.runtime.geometry.test_hash_grid import candidates, in_order, run, visit, visit_with_for
from tests.runtime.geometry.test_mesh import ball, cast, depths, distance, nearest, points_and_directions, rays_on


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


@pytest.mark.parametrize("n", [1, 2, 37])
def test_trees(device, n):
    rng = np.random.default_rng(n)
    low = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    low[: n // 3] = low[0]  # many in one place
    high = low + rng.uniform(0, 0.5, (n, 3)).astype(np.float32)
    if n > 2:
        low[5, 1] = np.nan
    boxes = [wp.array(a, dtype=wp.vec3, device=device) for a in (low, high)]
    groups = (np.arange(n) % 3 * 7 - 7).astype(np.int32)
    own = wp.array(groups, dtype=int, device=device)
    for bvh, group in ((wp.Bvh(*boxes), -1), (wp.Bvh(*boxes, groups=own), 7), (wp.Bvh(*boxes, groups=own), 0)):
        wanted = (low[:, None] <= high).all(-1) & (high[:, None] >= low).all(-1)
        if group >= 0 and group in groups:
            wanted &= groups == group
        for _ in range(2):
            seen = wp.zeros((n, n), dtype=int, device=device)
            inputs = [bvh.id, 0, *boxes, 0.0, group, 0.0]
            wp.launch(walk_boxes, n, inputs=inputs, outputs=[seen], device=device)
            np.testing.assert_array_equal(seen.numpy(), wanted)
            for a in boxes:
                a.assign(a.numpy() * np.float32(2.0))
            bvh.refit()
        for a, before in zip(boxes, (low, high), strict=True):
            a.assign(before)
    with pytest.raises(RuntimeError, match=f"`uppers` is on cpu, and the other arrays on {device}"):
        wp.Bvh(boxes[0], wp.array(high, dtype=wp.vec3, device="cpu"))


def test_meshes(device):
    p, faces = ball(4, rough=0.2)
    x, d = points_and_directions(30)
    points = wp.array(p, dtype=wp.vec3, device=device)
    mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))
    for scale in (1.0, 2.0):
        points.assign(p * scale)
        mesh.refit()
        on = [wp.array(a, dtype=wp.vec3, device=device) for a in (x, d)]
        f, t = wp.zeros((30, 3), dtype=int, device=device), wp.zeros((30, 4), dtype=float, device=device)
        g, y = wp.zeros((30, 2), dtype=int, device=device), wp.zeros(30, dtype=wp.vec3, device=device)
        wp.launch(cast, 30, inputs=[mesh.id, *on, 100.0, -1], outputs=[f, t], device=device)
        wp.launch(nearest, 30, inputs=[mesh.id, on[0], 100.0], outputs=[g, y], device=device)
        lengths, clear = rays_on(p * scale, faces, x, d)
        sure = clear.all(1)
        np.testing.assert_array_equal(f.numpy()[sure, 1], np.isfinite(lengths).sum(1)[sure])
        hit = sure & np.isfinite(lengths).any(1)
        np.testing.assert_array_equal(f.numpy()[sure, 0] >= 0, hit[sure])
        np.testing.assert_allclose(t.numpy()[hit, 0], lengths.min(1)[hit], rtol=1e-4, atol=1e-5)
        off = np.linalg.norm(y.numpy() - x, axis=1)
        np.testing.assert_allclose(off, distance(p * np.float32(scale), faces, x).min(1), rtol=1e-4, atol=2e-5)
    with pytest.raises(NotImplementedError, match="winding numbers are supported on the CPU alone"):
        wp.Mesh(points, mesh.indices, support_winding_number=True)


def test_graphs_refit_to_the_points_of_the_time(device):
    """A graph from before other points were assigned reads those, boxes and corners alike."""
    p, faces = ball(3)
    x, d = (wp.array(a, dtype=wp.vec3, device=device) for a in points_and_directions(30))
    mesh = wp.Mesh(wp.array(p, dtype=wp.vec3, device=device), wp.array(faces.ravel(), dtype=int, device=device))
    with wp.ScopedCapture(device) as capture:
        mesh.refit()

    def found():
        out = wp.zeros(30, dtype=float, device=device)
        wp.launch(depths, dim=30, inputs=[mesh.id, x, d], outputs=[out], device=device)
        return out.numpy()

    mesh.points = wp.array(2.0 * p, dtype=wp.vec3, device=device)
    wanted = found()
    mesh.points.assign(p)
    mesh.refit()
    assert (found() != wanted).any()
    mesh.points.assign(2.0 * p)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(found(), wanted)


def test_gradients_under_captures(device):
    """Each run of a graph adds to the gradient of the capture; launches before and after it to that of the time."""
    p, faces = ball(3)
    x, d = (wp.array(a, dtype=wp.vec3, device=device) for a in points_and_directions(40))
    points = wp.array(p, dtype=wp.vec3, requires_grad=True, device=device)
    mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))
    out = wp.zeros(40, dtype=float, device=device)
    adj = wp.ones(40, dtype=float, device=device)

    def work():
        adjoints = {"adj_inputs": [None] * 3, "adj_outputs": [adj], "adjoint": True}
        wp.launch(depths, dim=40, inputs=[mesh.id, x, d], outputs=[out], device=device, **adjoints)

    def after(do):
        mesh.points.grad.zero_()
        do()
        return mesh.points.grad.numpy().copy()

    with wp.ScopedCapture(device) as capture:
        work()
    wanted = after(work)
    assert wanted.any()
    captured = mesh.points.grad
    np.testing.assert_allclose(after(lambda: wp.capture_launch(capture.graph)), wanted, rtol=1e-5)
    mesh.points.grad = wp.zeros(mesh.points.size, dtype=wp.vec3, device=device)
    np.testing.assert_allclose(after(work), wanted, rtol=1e-5)
    assert not after(lambda: wp.capture_launch(capture.graph)).any()
    np.testing.assert_allclose(captured.numpy(), 2 * wanted, rtol=1e-5)
    np.testing.assert_allclose(after(work), wanted, rtol=1e-5)
