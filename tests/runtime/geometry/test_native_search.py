"""The extension's searches of trees beside the kernel language's, and beside brute force in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.runtime.geometry.test_mesh import V3, ball, distance, made, rays_on
from warp_like.backend.target import Target, host_target

native = pytest.mark.skipif(not host_target().has_native_searches, reason="needs x86-64 with AVX2")


def kernels():
    @wp.kernel
    def search(
        mesh: wp.uint64,
        x: V3,
        d: V3,
        most: float,
        group: int,
        face: wp.array2d(dtype=int),
        t: wp.array(dtype=float),
        y: V3,
    ):
        i = wp.tid()
        root = wp.mesh_get_group_root(mesh, group)
        hit = wp.mesh_query_ray(mesh, x[i], d[i], most, root)
        face[i, 0] = wp.where(hit.result, hit.face, -1)
        face[i, 2] = wp.where(wp.mesh_query_ray_anyhit(mesh, x[i], d[i], most, root), 1, 0)
        t[i] = wp.where(hit.result, hit.t, -1.0)
        near = wp.mesh_query_point_no_sign(mesh, x[i], most)
        face[i, 1] = wp.where(near.result, near.face, -1)
        if near.result:
            y[i] = wp.mesh_eval_position(mesh, near.face, near.u, near.v)

    return search


def run(kernel, mesh, x, d, most=1.0e6, group=-1):
    n = len(x)
    face, t, y = wp.zeros((n, 3), dtype=int), wp.zeros(n, dtype=float), wp.zeros(n, dtype=wp.vec3)
    wp.launch(kernel, n, inputs=[mesh.id, x, d, most, group], outputs=[face, t, y])
    return face.numpy(), t.numpy(), y.numpy()


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Runs a search by the extension, then as the kernel's own code."""
    own, of_extension = kernels(), kernels()
    one = made(np.eye(3), np.int32([[0, 1, 2]]))
    ray = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)
    run(of_extension, one, *ray)
    with monkeypatch.context() as patched:
        patched.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
        patched.setattr(Target, "has_native_searches", False)
        run(own, one, *ray)
    return lambda *args, **more: (run(of_extension, *args, **more), run(own, *args, **more))


def shapes():
    """Meshes that are hard to search, by name."""
    rng = np.random.default_rng(11)
    p, faces = ball(9, rough=0.1)
    yield "a ball, with faces twice and without area", p, np.concatenate([faces, faces[::7], faces[:9, [0, 0, 1]]])
    corners = rng.normal(size=(300, 3, 3))
    corners[:100, 2] = corners[:100, 0] + (corners[:100, 1] - corners[:100, 0]) * rng.uniform(size=(100, 1))
    corners[:100, 2] += 1.0e-3 * rng.normal(size=(100, 3))  # slivers
    corners[100:140] = corners[100:140].round()  # on the planes of a grid, some in one point
    corners[140:150, 1, 2] = np.nan
    yield "triangles anywhere, slivers among them", corners.reshape(-1, 3), np.arange(900).reshape(-1, 3)
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6), [0, 2], indexing="ij"), -1).reshape(-1, 3)
    i = (np.arange(5)[:, None] * 12 + 2 * np.arange(5)).ravel()
    flat = np.concatenate([np.stack([i, i + 12, i + 2], -1), np.stack([i + 2, i + 12, i + 14], -1)])
    yield "two planes", grid - 2.5, np.concatenate([flat, flat + 1])
    yield "far from the origin", p + np.float32([3.0e3, -2.0e3, 1.0e3]), faces
    yield "one place many times", np.eye(3), np.tile(np.int32([0, 1, 2]), (5000, 1))


def queries(p, n=400):
    rng = np.random.default_rng(5)
    low, high = np.nanmin(p, 0), np.nanmax(p, 0)
    x, d = rng.uniform(low - 1, high + 1, (n, 3)), rng.normal(size=(n, 3))
    d[: n // 4] = np.eye(3)[rng.integers(0, 3, n // 4)] * rng.choice([-2, 1], (n // 4, 1))  # along axes
    clean = p[np.isfinite(p).all(1)]
    x[: n // 8] = clean[rng.integers(0, len(clean), n // 8)]  # from a vertex
    aimed = slice(n // 2, 3 * n // 4)
    d[aimed] = clean[rng.integers(0, len(clean), n // 4)] - x[aimed]  # at a vertex
    return x.astype(np.float32), d.astype(np.float32)


@native
@pytest.mark.parametrize("leaf_size", [tail(1), 4, tail(20)])
def test_both_find_what_brute_force_finds(both, leaf_size):
    for name, p, faces in shapes():
        p, faces = p.astype(np.float32), faces.astype(np.int32)
        x, d = queries(p)
        t, clear = rays_on(p, faces, x, d)
        clear, reach = clear.all(1), np.nanmax(np.abs(p))
        wanted = distance(p, faces, x)
        wanted = np.where(np.isnan(wanted), np.inf, wanted)
        for face, length, y in both(made(p, faces, bvh_leaf_size=leaf_size), x, d):
            hits = np.isfinite(t).any(1)
            np.testing.assert_array_equal(face[clear, 0] >= 0, hits[clear], name)
            np.testing.assert_array_equal(face[clear, 2] == 1, hits[clear], name)
            sure = hits & clear
            np.testing.assert_allclose(length[sure], t.min(1)[sure], rtol=1e-3, atol=2e-6 * reach, err_msg=name)
            assert (face[:, 1] >= 0).all()
            off = np.linalg.norm(y - x, axis=1)
            np.testing.assert_allclose(off, wanted.min(1), rtol=1e-4, atol=2e-6 * reach, err_msg=name)
            rows, tolerance = np.arange(len(x)), 1e-4 * wanted.min(1) + 4e-6 * reach
            assert (wanted[rows, face[:, 1]] <= wanted.min(1) + tolerance).all(), name  # a face that is as near
            np.testing.assert_allclose(t[sure, face[sure, 0]], t.min(1)[sure], rtol=1e-3, atol=2e-6 * reach)


@native
@pytest.mark.parametrize("exponent", [-40, 37])
def test_size_does_not_matter(both, exponent):
    """Scaling by a power of 2 rounds nothing: the same faces, the same distances."""
    for name, p, faces in shapes():
        p = p.astype(np.float32)
        x, d = queries(p)
        plain = both(made(p, faces), x, d, np.inf)
        scale = np.float32(2.0**exponent)
        for (face, t, y), (faces_of, ts, ys) in zip(
            plain, both(made(p * scale, faces), x * scale, d * scale, np.inf), strict=True
        ):
            np.testing.assert_array_equal(faces_of, face, name)
            np.testing.assert_array_equal(ts, t, name)
            np.testing.assert_array_equal(ys, y * scale, name)


@native
def test_a_fan_is_closed(both):
    """Rays at the edges and the middle of a fan of slivers meet it, from wherever they come."""
    a = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    rim = np.stack([np.cos(a), np.sin(a), 0 * a], -1)
    p = np.concatenate([rim, [[0.1, -0.2, 0.3]]]).astype(np.float32)
    faces = np.stack([np.arange(400), np.roll(np.arange(400), -1), np.full(400, 400)], -1).astype(np.int32)
    rng = np.random.default_rng(2)
    aim = p[400] + (p[rng.integers(0, 400, 4000)] - p[400]) * rng.uniform(0, 0.99, (4000, 1))
    aim[:100] = p[400]
    x = (aim + rng.normal(size=(4000, 3)) * [1, 1, 0.2] + [0, 0, 9]).astype(np.float32)
    (face, _, _), _ = both(made(p, faces), x, (aim - x).astype(np.float32))
    assert (face[:, 0] >= 0).all()


@native
def test_odd_arguments(both):
    mesh = made(*ball(6))
    inf, nan = np.inf, np.nan
    x = np.float32([[nan, 0, 0], [inf, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1e30, 0, 0], [0.1, 0.1, 0.1]])
    d = np.float32([[1, 0, 0], [1, 0, 0], [nan, 0, 0], [0, 0, 0], [0, 0, inf], [-1, 0, 0], [1e-30, 2e-30, 1e-30]])
    for most in (1e6, inf, 0.0, -1.0, nan):
        for face, _, _ in both(mesh, x, d, most):
            assert (face[:5, 0] == -1).all()
            assert (face[:2, 1] == -1).all()
            assert ((face[[2, 3, 6], 1] >= 0) == (most > 0)).all()
    for face, _, _ in both(made(np.zeros((0, 3)), np.zeros((0, 3), np.int32)), x, d):
        assert (face[:, :2] == -1).all()


@native
def test_groups_and_motion(both):
    p, faces = ball(9, rough=0.2)
    meshes = np.concatenate([p, p * 2]), np.concatenate([faces, faces + len(p)])
    groups = np.repeat([3, 9], len(faces)).astype(np.int32)
    mesh = made(*meshes, groups=wp.array(groups, dtype=int), bvh_leaf_size=3)
    for scale in (1.0, 30.0):
        mesh.points.assign(meshes[0] * scale)
        mesh.refit()
        x, d = queries(meshes[0] * scale)
        for group, size in ((3, 1), (9, 2)):
            t, clear = rays_on(p * np.float32(size * scale), faces, x, d)
            clear = clear.all(1)
            for face, length, _ in both(mesh, x, d, group=group):
                assert (groups[face[face[:, 0] >= 0, 0]] == group).all()
                np.testing.assert_array_equal(face[clear, 0] >= 0, np.isfinite(t).any(1)[clear])
                hit = clear & (face[:, 0] >= 0)
                np.testing.assert_allclose(length[hit], t.min(1)[hit], rtol=1e-3, atol=1e-5 * scale)
