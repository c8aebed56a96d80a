"""Searches for vectors of rays (``native/wide_rays.cpp``): what each ray finds does not depend on its neighbours."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.runtime.geometry.test_mesh import V3, ball, made, rays_on
from tests.runtime.geometry.test_native_search import native, queries, shapes


@wp.kernel
def cast(mesh: wp.uint64, x: V3, d: V3, most: wp.array(dtype=float), group: int, face: wp.array2d(dtype=int)):
    i = wp.tid()
    face[i, 0] = -2
    if i % 5 != 3:  # some lanes of a vector have no ray
        root = wp.mesh_get_group_root(mesh, group)
        hit = wp.mesh_query_ray(mesh, x[i], d[i], most[i], root)
        face[i, 0] = wp.where(hit.result, hit.face, -1)
        face[i, 1] = wp.where(wp.mesh_query_ray_anyhit(mesh, x[i], d[i], most[i], root), 1, 0)


def run(width, mesh, x, d, most=np.inf, group=-1):
    n = len(x)
    face, ends = wp.zeros((n, 2), dtype=int), wp.array(np.broadcast_to(most, n), dtype=float)
    wp.launch(cast, n, [mesh.id, x, d, ends, group], [face], options={"vector_width": width})
    return face.numpy()


def pictures(p, n=500):
    """Rays from one point, neighbours close together; and some that all are the same."""
    clean = p[np.isfinite(p).all(1)]
    middle, size = clean.mean(0), np.ptp(clean, axis=0).max()
    k = np.arange(n)
    views = np.stack([0.1 + k % 25 / 20, 0.05 + k // 25 / 16, np.ones(n)], -1)
    views[-40:] = views[-40]
    eye = middle - size * np.array([0.6, 0.4, 1.0])
    return np.tile(eye, (n, 1)).astype(np.float32), views.astype(np.float32)


def straight(p, axis, n=400):
    """Rays along an axis, side by side; many begin on the planes of a grid, or where a corner is."""
    clean = p[np.isfinite(p).all(1)]
    low, size = clean.min(0), np.ptp(clean, axis=0).max()
    k = np.arange(n)
    x = low + size * np.stack([k % 20 / 20, k // 20 / 20, k % 20 / 20], -1)
    x[::3] = x[::3].round()
    x[1::5] = clean[k[1::5] * 7 % len(clean)]
    x[:, axis] = low[axis] - size
    d = np.zeros((n, 3))
    d[:, axis] = 1
    x[n // 2 :, axis] += 3 * size
    d[n // 2 :, axis] = -1
    return x.astype(np.float32), d.astype(np.float32)


@native
@pytest.mark.parametrize("width", [8, 16, 32, tail(2), tail(4), tail(64)])
def test_rays_find_in_vectors_what_they_find_alone(width):
    for name, p, faces in shapes():
        p = p.astype(np.float32)
        mesh = made(p, faces)
        for x, d in (queries(p), pictures(p), straight(p, 0), straight(p, 2)):
            most = np.where(np.arange(len(x)) % 7 == 1, np.float32(np.abs(x).max()), np.float32(np.inf))
            np.testing.assert_array_equal(run(width, mesh, x, d, most), run(1, mesh, x, d, most), name)


@native
def test_pictures_are_what_brute_force_finds():
    p, faces = ball(12, rough=0.1)
    x, d = pictures(p)
    t, clear = rays_on(p, faces, x, d)
    found, there = run(16, made(p, faces), x, d), np.arange(len(x)) % 5 != 3
    hits = np.isfinite(t).any(1)
    assert 100 < hits.sum() < 450
    sure = clear.all(1) & there
    np.testing.assert_array_equal(found[sure, 0], np.where(hits, t.argmin(1), -1)[sure])
    np.testing.assert_array_equal(found[sure, 1], hits[sure])
    assert (found[~there] == [-2, 0]).all()


@native
def test_odd_rays_are_alone_in_their_vector():
    """Rays that are none, or run along a box's side, change nothing for the others."""
    p, faces = ball(9, rough=0.1)
    mesh, (x, d) = made(p, faces), pictures(p, 64)
    plain = run(16, mesh, x, d)
    nan, inf = np.nan, np.inf
    odd = [([nan, 0, 0], [1, 0, 0], 1), ([0, 0, 0], [0, 0, 0], 1), ([0, inf, 0], [1, 0, 0], 1)]
    odd += [([0, 0, 0], [0, 0, 1], nan), ([0, 0, 0], [0, -inf, 1], 1), ([0, 0, 0], [1, 0, 0], -1)]
    most = np.full(64, inf, np.float32)
    for k, (start, direction, end) in enumerate(odd):
        x[10 * k + 1], d[10 * k + 1], most[10 * k + 1] = start, direction, end
    x[6], d[6] = [0, 0, 0], [0, 0, 1]
    found, strange = run(16, mesh, x, d, most), np.isin(np.arange(64), range(1, 60, 10))
    assert (found[strange & (np.arange(64) % 5 != 3)] == [-1, 0]).all()
    kept = ~strange & (np.arange(64) != 6)
    np.testing.assert_array_equal(found[kept], plain[kept])
    np.testing.assert_array_equal(found[6], run(1, mesh, x, d, most)[6])


@native
def test_of_equal_faces_the_lowest_number_is_met():
    p, faces = ball(6)
    twice = np.concatenate([faces[::-1], faces, faces])  # also far apart in the tree's order
    x, d = pictures(p)
    for width in (1, 16):
        found = run(width, made(p, twice, bvh_leaf_size=1), x, d)[:, 0]
        assert (found < len(faces)).all()
        assert (found >= 0).any()


@native
def test_rays_that_meet_everything_find_the_first():
    """Rays have to wait with more nodes than most do."""
    n = 30_000
    z = np.random.default_rng(3).permutation(n).astype(np.float32)
    corners = np.float32([[-5, -5], [5, -5], [0, 5]])
    p = np.concatenate([np.tile(corners, (n, 1)), np.repeat(z, 3)[:, None]], 1)
    mesh = made(p, np.arange(3 * n).reshape(n, 3))
    rng = np.random.default_rng(4)
    up, inside = rng.integers(0, 2, (32, 1)), rng.integers(0, 2, (32, 1))
    height = np.where(inside, rng.uniform(0, n, (32, 1)), np.where(up, -9, n + 9))
    x = np.concatenate([rng.uniform(-0.5, 0.5, (32, 2)), height], 1).astype(np.float32)
    d = np.concatenate([rng.uniform(-1e-6, 1e-6, (32, 2)), 2 * up - 1], 1).astype(np.float32)
    away = np.where(d[:, 2:] > 0, z - x[:, 2:], x[:, 2:] - z)
    wanted = np.where(away >= 0, away, np.inf).argmin(1)
    for width in (1, 16):
        there = np.arange(32) % 5 != 3
        np.testing.assert_array_equal(run(width, mesh, x, d)[there, 0], wanted[there])


@native
def test_rays_that_go_together_through_many_layers():
    """They have to wait with more nodes than there is room for, and go on by themselves."""
    z = 1.16 ** np.arange(500)  # so that trees are deep where the rays begin
    p = np.concatenate([np.tile([[-5, -5], [5, -5], [0, 5]], (500, 1)), np.repeat(z, 3)[:, None]], 1)
    mesh = made(p.astype(np.float32), np.arange(1500).reshape(500, 3), bvh_leaf_size=1)
    rng = np.random.default_rng(5)
    height = np.repeat([0.5, z[20] * 1.01], 16)
    x = np.concatenate([rng.uniform(-0.5, 0.5, (32, 2)), height[:, None]], 1).astype(np.float32)
    d = np.tile(np.float32([0, 0, 1]), (32, 1))
    there = np.arange(32) % 5 != 3
    np.testing.assert_array_equal(run(16, mesh, x, d)[there, 0], np.repeat([0, 21], 16)[there])
    np.testing.assert_array_equal(run(16, mesh, x, -d)[there, 0], np.repeat([-1, 20], 16)[there])


@native
def test_kernels_that_search_have_many_lanes():
    @wp.kernel
    def met(mesh: wp.uint64, x: V3, d: V3, t: wp.array(dtype=float)):
        i = wp.tid()
        t[i] = wp.mesh_query_ray(mesh, x[i], d[i], 9.0).t

    p, faces = ball(9, rough=0.1)
    mesh, (x, d) = made(p, faces), pictures(p, 75)
    t = [wp.zeros(75, dtype=float) for _ in range(2)]
    wp.launch(met, 75, [mesh.id, x, d], [t[0]])
    (variant,) = met.explain().variants
    assert variant.lanes == 32
    wp.launch(met, 75, [mesh.id, x, d], [t[1]], options={"vector_width": 1})
    np.testing.assert_array_equal(*(a.numpy() for a in t))
    assert (t[0].numpy() > 0).any()


@native
def test_groups_are_searched_below_their_root():
    p, faces = ball(9, rough=0.2)
    groups = np.repeat([3, 9], len(faces)).astype(np.int32)
    both = np.concatenate([faces, faces + len(p)])
    mesh = made(np.concatenate([p, 2 * p]), both, groups=wp.array(groups, dtype=int), bvh_leaf_size=3)
    for x, d in (queries(p, 100), pictures(p, 100)):
        for group in (3, 9):
            found = run(16, mesh, x, d, group=group)
            np.testing.assert_array_equal(found, run(1, mesh, x, d, group=group))
            assert (groups[found[found[:, 0] >= 0, 0]] == group).all()
