"""Geometry on a CUDA device: once in emulation, and on a GPU where there is one."""

import numpy as np
import pytest

import warp_like as wp
from tests.runtime.geometry.test_bvh import visit as walk_boxes
from tests.runtime.geometry.test_hash_grid import candidates, in_order, run, visit, visit_with_for
from tests.runtime.geometry.test_mesh import ball, cast, depths, distance, nearest, points_and_directions, rays_on
from tests.runtime.geometry.test_sides_of_meshes import winding
from tests.runtime.geometry.test_walks_of_blocks import along_rays as rays_of_blocks
from tests.runtime.geometry.test_walks_of_blocks import nested as boxes_of_boxes


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


def test_walks_of_a_block(device):
    """Beside the same walks in blocks of one thread on the CPU."""
    rng = np.random.default_rng(5)
    low = rng.uniform(-1, 1, (50, 3)).astype(np.float32)
    high = low + np.float32(0.4)
    a = rng.uniform(-1, 1, (3, 3)).astype(np.float32)
    b, d = a + np.float32(0.5), rng.normal(size=(3, 3)).astype(np.float32)
    found = []
    for place in ("cpu", device):
        vectors = [wp.array(x, dtype=wp.vec3, device=place) for x in (low, high, a, b, d)]
        bvh = wp.Bvh(*vectors[:2])
        seen, pairs = (wp.zeros(shape, dtype=int, device=place) for shape in ((3, 50), 3))
        given = {"dim": 3, "block_dim": 8, "device": place}
        wp.launch_tiled(rays_of_blocks, inputs=[bvh.id, vectors[2], vectors[4], seen], **given)
        wp.launch_tiled(boxes_of_boxes, inputs=[bvh, *vectors[:4], pairs], **given)
        found.append((seen.numpy(), pairs.numpy()))
    for got, wanted in zip(found[1], found[0], strict=True):
        assert wanted.any()
        np.testing.assert_array_equal(got, wanted)


def test_winding_numbers(device):
    """Those of the CPU, also after a refit."""
    p, faces = ball(3, rough=0.2)
    x = np.random.default_rng(7).uniform(-1.5, 1.5, (40, 3)).astype(np.float32)
    found = {}
    for place in ("cpu", device):
        points, indices = (wp.array(a, dtype=t, device=place) for a, t in ((p, wp.vec3), (faces.ravel(), int)))
        mesh = wp.Mesh(points, indices, support_winding_number=True)
        for scale in (1.0, 1.3):
            points.assign(p * np.float32(scale))
            mesh.refit()
            signs = wp.zeros(40, dtype=int, device=place)
            given = wp.array(x, dtype=wp.vec3, device=place)
            wp.launch(winding, dim=40, inputs=[mesh.id, given, 0.5, 2.0], outputs=[signs], device=place)
            found[place, scale] = signs.numpy()
    for scale in (1.0, 1.3):
        np.testing.assert_array_equal(found[device, scale], found["cpu", scale])
        assert len(np.unique(found[device, scale])) > 1


def test_volumes(device):
    """Samples, numbers, stores and gradients are those of the CPU; values that kernels have written are saved."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(9, 5, 10)).astype(np.float32)
    x = rng.uniform(-2, 11, (40, 3)).astype(np.float32)
    ijk = np.int32([[0, 0, 0], [8, 4, 9], [1, 2, 3], [99, 0, 0]])
    found = {}
    for place in ("cpu", device):
        volume = wp.Volume.load_from_numpy(a, voxel_size=0.5, bg_value=2.0, device=place)
        volume.requires_grad = True
        index = wp.Volume.allocate_by_voxels(ijk[:3], 1.0, device=place, max_active_voxels=9)
        status = wp.array([9], dtype=wp.uint32, device=place)
        index.rebuild(wp.array(ijk[1:3], dtype=wp.vec3i, device=place), status)
        given = wp.array(x, dtype=wp.vec3, device=place)
        points = wp.array(ijk, dtype=wp.vec3i, device=place)
        out = wp.zeros((40, 2), dtype=float, device=place, requires_grad=True)
        numbers = wp.zeros(4, dtype=int, device=place)
        data = wp.array(rng.permutation(3).astype(np.float32), dtype=float, device=place, requires_grad=True)
        data.assign([1.0, 2.0, 3.0])
        with wp.Tape() as tape:
            wp.launch(sample_both, 40, inputs=[volume.id, index.id, given, data], outputs=[out], device=place)
        tape.backward(grads={out: wp.full((40, 2), 1.0, dtype=float, device=place)})
        wp.launch(number_and_store, 4, inputs=[volume.id, index.id, points], outputs=[numbers], device=place)
        tiles = wp.zeros(9, dtype=wp.vec3i, device=place)
        volume.get_tiles(tiles)
        found[place] = [
            *(out.numpy(), numbers.numpy(), data.grad.numpy(), volume.values.grad.numpy(), volume.values.numpy()),
            *(tiles.numpy(), volume.array().numpy(), index.get_voxels().numpy(), status.numpy()),
        ]
        assert volume.device == wp.get_device(place)
    for got, wanted in zip(found[device], found["cpu"], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    there = wp.Volume.load_from_numpy(a, device="cpu").id
    with pytest.raises(ValueError, match=f"alive on {device}"):
        wp.launch(number_and_store, 4, inputs=[there, index.id, points], outputs=[numbers], device=device)


@wp.kernel
def sample_both(
    v: wp.uint64,
    index: wp.uint64,
    x: wp.array(dtype=wp.vec3),
    data: wp.array(dtype=float),
    out: wp.array2d(dtype=float),
):
    i = wp.tid()
    out[i, 0] = wp.volume_sample_f(v, wp.volume_world_to_index(v, x[i]), wp.Volume.LINEAR)
    out[i, 1] = wp.volume_sample_index(index, x[i], wp.Volume.LINEAR, data, 0.5)


@wp.kernel
def number_and_store(v: wp.uint64, index: wp.uint64, x: wp.array(dtype=wp.vec3i), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.volume_lookup_index(index, x[i][0], x[i][1], x[i][2])
    wp.volume_store_f(v, x[i][0], x[i][1], x[i][2], float(i))


@wp.kernel
def enlarge(picture: wp.Texture2D, uv: wp.array(dtype=wp.vec2), out: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    out[i] = wp.texture_sample(picture, uv[i], dtype=wp.vec2, lod=0.7)


def test_textures(device):
    rng = np.random.default_rng(2)
    texels, at = rng.integers(0, 256, (8, 6, 2), dtype=np.uint8), rng.uniform(-1, 2, (30, 2)).astype(np.float32)
    found = {}
    for place in ("cpu", device):
        picture = wp.Texture2D(texels, address_mode=wp.TextureAddressMode.MIRROR, num_mip_levels=0, device=place)
        uv = wp.array(at, dtype=wp.vec2, device=place, requires_grad=True)
        out = wp.zeros(30, dtype=wp.vec2, device=place, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(enlarge, 30, inputs=[picture, uv], outputs=[out], device=place)
        tape.backward(grads={out: wp.full(30, wp.vec2(1.0, 2.0), dtype=wp.vec2, device=place)})
        found[place] = out.numpy(), uv.grad.numpy()
    for got, wanted in zip(found[device], found["cpu"], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=f"alive on {device}"):
        wp.launch(enlarge, 30, inputs=[wp.Texture2D(texels, device="cpu"), uv], outputs=[out], device=device)
    one = wp.Texture2D(texels, device=device)
    back = wp.zeros((8, 6, 2), dtype=wp.uint8, device=device)
    one.copy_to(back)
    np.testing.assert_array_equal(back.numpy(), texels)
    one.copy_from(wp.zeros((8, 6, 2), dtype=wp.uint8, device=device))
    wp.launch(enlarge, 30, inputs=[one, uv], outputs=[out], device=device)
    assert not out.numpy().any()


def test_gradients_to_texels(device):
    rng = np.random.default_rng(3)
    texels, at = rng.normal(size=(8, 6, 2)).astype(np.float32), rng.uniform(-1, 2, (30, 2)).astype(np.float32)
    found = []
    for data_on, place in (("cpu", "cpu"), (device, device), ("cpu", device)):
        data = wp.array(texels, dtype=float, requires_grad=True, device=data_on)
        picture = wp.Texture2D(data, address_mode=wp.TextureAddressMode.MIRROR, num_mip_levels=0, device=place)
        uv = wp.array(at, dtype=wp.vec2, device=place)
        out = wp.zeros(30, dtype=wp.vec2, device=place, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(enlarge, 30, inputs=[picture, uv], outputs=[out], device=place)
        tape.backward(grads={out: wp.full(30, wp.vec2(1.0, 2.0), dtype=wp.vec2, device=place)})
        found.append(data.grad.numpy())
    assert found[0].any()
    for got in found[1:]:
        np.testing.assert_allclose(got, found[0], rtol=1e-4, atol=1e-5)


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
