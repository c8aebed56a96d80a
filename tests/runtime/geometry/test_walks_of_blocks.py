"""Walks that the threads of a block make together, as sets beside brute force, in blocks of several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import sampled
from tests.runtime.geometry.test_mesh import ball, made
from tests.runtime.launching.test_cpu_blocks import cpu_blocks

V3 = wp.array(dtype=wp.vec3)
COUNTS = wp.array2d(dtype=int)
rng = np.random.default_rng(12)
LOW = (rng.random((60, 3)) * 5).astype(np.float32)
HIGH = LOW + rng.random((60, 3)).astype(np.float32)
GROUPS = (np.arange(60) % 3).astype(np.int32)
A = (rng.random((7, 3)) * 5).astype(np.float32)
A[-1] = 100.0  # which meets nothing
B = A + np.float32(3.0)
BLOCKS = [1, 3, 64]


@wp.kernel
def boxes(bvh: wp.uint64, a: V3, b: V3, seen: COUNTS, steps: wp.array(dtype=int)):
    i = wp.tid()
    query = wp.tile_bvh_query_aabb(bvh, a[i], b[i])
    while wp.tile_query_valid(query):
        item = wp.untile(wp.tile_bvh_query_next(query))
        if item >= 0:
            wp.atomic_add(seen, i, item, 1)
        wp.atomic_add(steps, i, 1)


@wp.kernel
def of_a_group(bvh: wp.Bvh, a: V3, b: V3, group: int, seen: COUNTS):
    i = wp.tid()
    query = wp.tile_bvh_query_aabb(bvh, a[i], b[i], wp.bvh_get_group_root(bvh, group))
    while wp.tile_query_valid(query):
        found = wp.tile_bvh_query_next(query)
        item = wp.untile(found)
        if item >= 0:
            wp.atomic_add(seen, i, item, 1)


@wp.kernel
def along_rays(bvh: wp.uint64, a: V3, d: V3, seen: COUNTS):
    i = wp.tid()
    query = wp.tile_bvh_query_ray(bvh, a[i], d[i])
    while wp.tile_query_valid(query):
        item = wp.untile(wp.tile_bvh_query_next(query))
        if item >= 0:
            wp.atomic_add(seen, i, item, 1)


@wp.kernel
def faces(mesh: wp.uint64, a: V3, b: V3, seen: COUNTS):
    i = wp.tid()
    query = wp.tile_mesh_query_aabb(mesh, a[i], b[i])
    while wp.tile_query_valid(query):
        face = wp.untile(wp.tile_mesh_query_aabb_next(query))
        if face >= 0:
            wp.atomic_add(seen, i, face, 1)


@wp.kernel
def older_names(bvh: wp.uint64, mesh: wp.uint64, a: V3, b: V3, d: V3, seen: wp.array3d(dtype=int)):
    i = wp.tid()
    query = wp.bvh_query_aabb_tiled(bvh, a[i], b[i])
    while wp.tile_query_valid(query):
        item = wp.untile(wp.bvh_query_next_tiled(query))
        if item >= 0:
            wp.atomic_add(seen, 0, i, item, 1)
    query = wp.bvh_query_ray_tiled(bvh, a[i], d[i])
    while wp.tile_query_valid(query):
        item = wp.untile(wp.bvh_query_next_tiled(query))
        if item >= 0:
            wp.atomic_add(seen, 1, i, item, 1)
    other = wp.mesh_query_aabb_tiled(mesh, a[i], b[i])
    while wp.tile_query_valid(other):
        item = wp.untile(wp.mesh_query_aabb_next_tiled(other))
        if item >= 0:
            wp.atomic_add(seen, 2, i, item, 1)


def meeting(low, high, a, b):
    return ((low[None] <= b[:, None]) & (high[None] >= a[:, None])).all(-1)


def met_by_rays(low, high, a, d):
    """Slabs in float64; none of the rays lies in a plane of a box."""
    ends = [(x[None].astype(np.float64) - a[:, None]) / d[:, None] for x in (low, high)]
    near, far = np.minimum(*ends).max(-1), np.maximum(*ends).min(-1)
    return (far >= 0) & (far >= near)


def trees(**options):
    boxes = [wp.array(x, dtype=wp.vec3) for x in (LOW, HIGH)]
    return [wp.Bvh(*boxes, constructor=c, leaf_size=n, **options) for c, n in (("sah", 1), ("lbvh", 4))]


def run(kernel, given, shape, block_dim, blocks=True, **options):
    seen = wp.zeros(shape, dtype=int)
    with cpu_blocks(blocks):
        wp.launch_tiled(kernel, dim=len(A), inputs=given, outputs=[seen], block_dim=block_dim, **options)
    return seen.numpy()


@pytest.mark.parametrize("block_dim", BLOCKS)
def test_boxes_come_once_and_in_full_tiles(block_dim):
    wanted = meeting(LOW, HIGH, A, B)
    counts = wanted.sum(1)
    assert counts.min() == 0
    assert counts.max() > 8
    for bvh in trees():
        steps = wp.zeros(len(A), dtype=int)
        seen = wp.zeros((len(A), 60), dtype=int)
        with cpu_blocks():
            given = [bvh.id, A, B]
            wp.launch_tiled(boxes, dim=len(A), inputs=given, outputs=[seen, steps], block_dim=block_dim)
        np.testing.assert_array_equal(seen.numpy(), wanted)
        np.testing.assert_array_equal(steps.numpy(), (-(-counts // block_dim) + 1) * block_dim)


@pytest.mark.parametrize(("block_dim", "blocks"), sampled([(64, False), (3, True), (64, True)], every=2))
def test_rays_groups_and_faces(block_dim, blocks):
    d = rng.normal(size=A.shape).astype(np.float32)
    for bvh in trees():
        found = run(along_rays, [bvh.id, A, d], (len(A), 60), block_dim, blocks)
        np.testing.assert_array_equal(found, met_by_rays(LOW, HIGH, A, d))
    for bvh in trees(groups=wp.array(GROUPS)):
        for group in (0, 2):
            found = run(of_a_group, [bvh, A, B, group], (len(A), 60), block_dim, blocks)
            np.testing.assert_array_equal(found, meeting(LOW, HIGH, A, B) & (group == GROUPS))
    p, corners = ball(4)
    mesh, a, b = made(p, corners), A / 3 - 1, A / 3 - 0.5
    found = run(faces, [mesh.id, a, b], (len(A), len(corners)), block_dim, blocks)
    wanted = meeting(p[corners].min(1), p[corners].max(1), a, b)
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


def test_older_names():
    p, corners = ball(4)
    mesh, d = made(p, corners), rng.normal(size=A.shape).astype(np.float32)
    bvh = trees()[0]
    found = run(older_names, [bvh.id, mesh.id, A, B, d], (3, len(A), max(60, len(corners))), 64, False)
    np.testing.assert_array_equal(found[0, :, :60], meeting(LOW, HIGH, A, B))
    np.testing.assert_array_equal(found[1, :, :60], met_by_rays(LOW, HIGH, A, d))
    np.testing.assert_array_equal(found[2, :, : len(corners)], meeting(p[corners].min(1), p[corners].max(1), A, B))


@wp.kernel
def nested(bvh: wp.Bvh, low: V3, high: V3, a: V3, b: V3, found: wp.array(dtype=int)):
    """Pairs of boxes of which one meets the block's box, and the other one meets the first."""
    i = wp.tid()
    query = wp.tile_bvh_query_aabb(bvh, a[i], b[i])
    while wp.tile_query_valid(query):
        items = wp.tile_bvh_query_next(query)
        for k in range(items.shape[0]):
            item = items[k]
            if item < 0:
                break
            other = wp.tile_bvh_query_aabb(bvh, low[item], high[item])
            while wp.tile_query_valid(other):
                if wp.untile(wp.tile_bvh_query_next(other)) >= 0:
                    wp.atomic_add(found, i, 1)


@wp.kernel
def until_enough(bvh: wp.Bvh, a: V3, b: V3, most: int, sums: wp.array(dtype=int)):
    """Steps end where the block has seen enough; what is left of the walk is not made."""
    i = wp.tid()
    total = 0
    query = wp.tile_bvh_query_aabb(bvh, a[i], b[i])
    while wp.tile_query_valid(query):
        items = wp.tile_bvh_query_next(query)
        some = wp.tile_sum(wp.tile_map(one_each, items))
        total += some[0]
        if total >= most:
            break
    sums[i] = total


@wp.func
def one_each(item: int):
    return wp.where(item >= 0, 1, 0)


@pytest.mark.parametrize("block_dim", [1, 16])
def test_walks_in_walks_and_early_ends(block_dim):
    low, high = (wp.array(x, dtype=wp.vec3) for x in (LOW, HIGH))
    bvh = wp.Bvh(low, high)
    first, pairs = meeting(LOW, HIGH, A, B), meeting(LOW, HIGH, LOW, HIGH).sum(1)
    found = run(nested, [bvh, low, high, A, B], len(A), block_dim)
    np.testing.assert_array_equal(found, (first * pairs).sum(1))
    found = run(until_enough, [bvh, A, B, 3], len(A), block_dim)
    enough = -(-3 // block_dim) * block_dim
    np.testing.assert_array_equal(found, np.minimum(first.sum(1), enough))


@wp.kernel
def by_function(bvh: wp.uint64, a: V3, b: V3, seen: COUNTS):
    i = wp.tid()
    if i % 2 == 0:
        query = wp.tile_bvh_query_aabb(bvh, a[i], b[i])
        while wp.tile_query_valid(query):
            item = wp.untile(wp.tile_bvh_query_next(query))
            if item >= 0:
                wp.atomic_add(seen, i, item, 1)


@pytest.mark.parametrize("block_dim", [1, 8])
def test_branches_of_the_block_and_empty_trees(block_dim):
    wanted = meeting(LOW, HIGH, A, B)
    wanted[1::2] = False
    for bvh in trees():
        for mode in ("release", "debug"):
            found = run(by_function.with_options({"mode": mode}), [bvh.id, A, B], (len(A), 60), block_dim)
            np.testing.assert_array_equal(found, wanted)
    nothing = wp.zeros(0, dtype=wp.vec3)
    for id in (wp.Bvh(nothing, nothing).id, wp.uint64(0)):
        assert not run(by_function, [id, A, B], (len(A), 60), block_dim).any()


@wp.kernel
def weights_of(bvh: wp.Bvh, a: V3, b: V3, x: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    query = wp.tile_bvh_query_aabb(bvh, a[i], b[i])
    while wp.tile_query_valid(query):
        item = wp.untile(wp.tile_bvh_query_next(query))
        if item >= 0:
            wp.atomic_add(total, i, x[item] * x[item])


@pytest.mark.parametrize(("block_dim", "blocks"), [(8, False), (8, True)])
def test_gradients_pass_through_the_loop(block_dim, blocks):
    x = wp.array(rng.normal(size=60), dtype=float, requires_grad=True)
    total = wp.zeros(len(A), dtype=float, requires_grad=True)
    with cpu_blocks(blocks), wp.Tape() as tape:
        wp.launch_tiled(weights_of, len(A), inputs=[trees()[0], A, B, x], outputs=[total], block_dim=block_dim)
    tape.backward(grads={total: wp.ones(len(A), dtype=float)})
    wanted = meeting(LOW, HIGH, A, B)
    np.testing.assert_allclose(total.numpy(), (wanted * x.numpy() ** 2).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 2 * wanted.sum(0) * x.numpy(), rtol=1e-5, atol=1e-5)


@wp.kernel
def no_variable(bvh: wp.Bvh, a: V3, out: wp.array(dtype=int)):
    out[wp.tid()] = wp.untile(wp.tile_bvh_query_next(wp.tile_bvh_query_aabb(bvh, a[0], a[0])))


@wp.kernel
def plain_walk(bvh: wp.Bvh, a: V3, out: wp.array(dtype=int)):
    query = wp.bvh_query_aabb(bvh, a[0], a[0])
    out[wp.tid()] = wp.untile(wp.tile_bvh_query_next(query))


@wp.kernel
def apart(bvh: wp.Bvh, a: V3, out: wp.array(dtype=int)):
    i, j = wp.tid()
    query = wp.tile_bvh_query_aabb(bvh, a[j], a[j])
    out[i] = wp.untile(wp.tile_bvh_query_next(query))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (no_variable, "takes a variable that holds a query of the block"),
        (plain_walk, "takes a variable that holds a query of the block, got struct BvhQuery"),
        (apart, "work on tiles is done for the threads of a block together"),
    ],
)
def test_mistakes(kernel, message):
    with cpu_blocks(), pytest.raises(wp.WarpCodegenError, match=message):
        wp.launch_tiled(kernel, dim=len(A), inputs=[trees()[0], A, wp.zeros(99, dtype=int)], block_dim=4)


@wp.func
def first_of(query: wp.BvhQueryTiled):
    return wp.tile_bvh_query_next(query)[0]


@wp.func
def first_face(query: wp.MeshQueryAABBTiled):
    return wp.tile_mesh_query_aabb_next(query)[0]


@wp.kernel
def by_types(bvh: wp.uint64, mesh: wp.uint64, a: V3, b: V3, out: COUNTS):
    i = wp.tid()
    out[i, 0] = first_of(wp.tile_bvh_query_aabb(bvh, a[i], b[i]))
    out[i, 1] = first_face(wp.tile_mesh_query_aabb(mesh, a[i], b[i]))


def test_types_of_queries():
    p, corners = ball(4)
    wanted = meeting(LOW, HIGH, A, B), meeting(p[corners].min(1), p[corners].max(1), A, B)
    found = run(by_types, [trees()[0].id, made(p, corners).id, A, B], (len(A), 2), 4)
    for k, met in enumerate(wanted):
        for i, item in enumerate(found[:, k]):
            assert met[i, item] if met[i].any() else item == -1
