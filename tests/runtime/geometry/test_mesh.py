"""Meshes: rays and nearest points, beside brute force in float64."""

import gc

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret

V3 = wp.array(dtype=wp.vec3)


@wp.kernel
def cast(mesh: wp.uint64, x: V3, d: V3, most: float, group: int, f: wp.array2d(dtype=int), t: wp.array2d(dtype=float)):
    i = wp.tid()
    root = -1
    if group >= 0:
        root = wp.mesh_get_group_root(mesh, group)
    hit = wp.mesh_query_ray(mesh, x[i], d[i], most, root)
    f[i, 0] = wp.where(hit.result, hit.face, -1)
    f[i, 1] = wp.mesh_query_ray_count_intersections(mesh, x[i], d[i], root)
    f[i, 2] = wp.where(wp.mesh_query_ray_anyhit(mesh, x[i], d[i], most, root), 1, 0)
    if hit.result:
        t[i, 0] = hit.t
        t[i, 1] = hit.sign
        y = wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v)
        t[i, 2] = wp.length(y - (x[i] + d[i] * hit.t))
        t[i, 3] = wp.length(hit.normal - wp.mesh_eval_face_normal(mesh, hit.face))


@wp.kernel
def nearest(mesh: wp.uint64, x: V3, most: float, f: wp.array2d(dtype=int), y: V3):
    i = wp.tid()
    hit = wp.mesh_query_point(mesh, x[i], most)
    f[i, 0] = wp.where(hit.result, hit.face, -1)
    if hit.result:
        f[i, 1] = int(hit.sign)
        y[i] = wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v)


@wp.kernel
def look_up(mesh: wp.Mesh, index: wp.array2d(dtype=int), x: V3, v: V3, between: V3):
    i = wp.tid()
    index[i, 0] = wp.mesh_get_index(mesh, i)
    x[i] = wp.mesh_get_point(mesh, i)
    v[i] = wp.mesh_get_velocity(mesh, i)
    between[i] = wp.mesh_eval_velocity(mesh, i, 0.5, 0.25)
    for face in wp.mesh_query_aabb(mesh, x[i], x[i]):
        index[i, 1] += face + 1
    for face in wp.bvh_query_aabb(wp.mesh_get_bvh(mesh), x[i], x[i]):
        index[i, 2] += face + 1


@wp.kernel
def depths(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
    if hit.result:
        out[i] = hit.t + 0.5 * hit.u + 0.25 * hit.v


@wp.kernel
def distances(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
    if hit.result:
        out[i] = wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - x[i])


def ball(n, rough=0.0, seed=0):
    """A closed mesh with faces that have no area at its poles."""
    a, b = np.meshgrid(np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, 2 * n, endpoint=False), indexing="ij")
    p = np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], -1).reshape(-1, 3)
    p *= 1 + rough * np.random.default_rng(seed).uniform(size=(len(p), 1))
    p[: 2 * n], p[-2 * n :] = p[0], p[-1]
    row, k = np.arange(2 * n), np.arange(n)[:, None] * 2 * n
    i, j = k + row, k + (row + 1) % (2 * n)
    faces = np.concatenate([np.stack(c, -1).reshape(-1, 3) for c in ((i, i + 2 * n, j), (j, i + 2 * n, j + 2 * n))])
    return p.astype(np.float32), faces.astype(np.int32)


def made(p, faces, **options):
    return wp.Mesh(wp.array(p, dtype=wp.vec3), wp.array(faces.ravel(), dtype=int), **options)


def rays_on(p, faces, x, d):
    """Where each ray meets each face, in lengths of its direction, infinite for none; and how clear that is."""
    a, b, c = (p[faces[:, k]].astype(np.float64) for k in range(3))
    x, d = x.astype(np.float64)[:, None], d.astype(np.float64)[:, None]
    with np.errstate(all="ignore"):
        n = np.cross(b - a, c - a)
        t = ((a - x) * n).sum(-1) / (d * n).sum(-1)
        y, size = x + d * t[..., None], (n * n).sum(-1)
        u = (np.cross(c - b, y - b) * n).sum(-1) / size
        v = (np.cross(a - c, y - c) * n).sum(-1) / size
        inside = np.min([u, v, 1 - u - v], axis=0)
        return np.where((inside >= 0) & (t >= 0), t, np.inf), (np.abs(inside) > 1e-4) & (np.abs(t) > 1e-5)


def distance(p, faces, x):
    """The distance of each point to each face, infinite where that has no area."""
    a, b, c = (p[faces[:, k]].astype(np.float64) for k in range(3))
    x = x.astype(np.float64)[:, None]

    def to_edge(s, e):
        along = np.clip(((x - s) * (e - s)).sum(-1) / np.maximum(((e - s) ** 2).sum(-1), 1e-300), 0, 1)
        return np.linalg.norm(s + (e - s) * along[..., None] - x, axis=-1)

    n = np.cross(b - a, c - a)
    size = (n * n).sum(-1)
    with np.errstate(all="ignore"):
        u = (np.cross(c - b, x - b) * n).sum(-1) / size
        v = (np.cross(a - c, x - c) * n).sum(-1) / size
        plane = np.abs(((x - a) * n).sum(-1)) / np.sqrt(size)
    inside = (u >= 0) & (v >= 0) & (u + v <= 1)
    found = np.where(inside, plane, np.min([to_edge(a, b), to_edge(b, c), to_edge(c, a)], axis=0))
    return np.where(size > 0, found, np.inf)


def run_cast(mesh, x, d, most=100.0, group=-1):
    f, t = wp.zeros((len(x), 3), dtype=int), wp.zeros((len(x), 4), dtype=float)
    wp.launch(cast, dim=len(x), inputs=[mesh.id, x, d, most, group], outputs=[f, t])
    return f.numpy(), t.numpy()


def run_nearest(mesh, x, most=100.0):
    f, y = wp.zeros((len(x), 2), dtype=int), wp.zeros(len(x), dtype=wp.vec3)
    wp.launch(nearest, dim=len(x), inputs=[mesh.id, x, most], outputs=[f, y])
    return f.numpy(), y.numpy()


def points_and_directions(n, seed=1):
    rng = np.random.default_rng(seed)
    x, d = rng.uniform(-1.6, 1.6, (n, 3)), rng.normal(size=(n, 3))
    d[: n // 5] = np.eye(3)[rng.integers(0, 3, n // 5)] * rng.choice([-2, 1], (n // 5, 1))
    return x.astype(np.float32), d.astype(np.float32)


@pytest.mark.parametrize("method", ["sah", "median", "lbvh"])
@pytest.mark.parametrize(("n", "leaf_size"), [(8, 1), (14, 4)])
def test_queries_find_what_brute_force_finds(method, n, leaf_size):
    p, faces = ball(n, rough=0.2)
    faces = np.concatenate([faces, faces[:20]])  # some twice
    mesh = made(p, faces, bvh_constructor=method, bvh_leaf_size=leaf_size)
    x, d = points_and_directions(400)
    t, clear = rays_on(p, faces, x, d)
    sure = clear.all(1)
    f, got = run_cast(mesh, x, d)
    np.testing.assert_array_equal(f[sure, 1], np.isfinite(t).sum(1)[sure])
    hits = np.isfinite(t).any(1)
    np.testing.assert_array_equal(f[sure, 2], hits[sure])
    np.testing.assert_array_equal(f[sure, 0] >= 0, hits[sure])
    both = hits & (f[:, 0] >= 0)
    np.testing.assert_allclose(got[both, 0], t.min(1)[both], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[both, 2:], 0, atol=2e-5)
    a, b, c = (p[faces[f[both, 0], k]] for k in range(3))
    np.testing.assert_array_equal(got[both, 1], -np.sign((np.cross(b - a, c - a) * d[both]).sum(-1)))
    far = (t.min(1) > 0.5) & hits
    assert (run_cast(mesh, x, d, most=0.5)[0][far & sure, 0] == -1).all()

    wanted = distance(p, faces, x).min(1)
    f, y = run_nearest(mesh, x)
    assert (f[:, 0] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(y - x, axis=1), wanted, rtol=1e-4, atol=2e-5)
    radius = np.linalg.norm(x, axis=1)
    clear = (radius < 0.95) | (radius > 1.25)
    np.testing.assert_array_equal(f[clear, 1], np.where(radius < 1, -1, 1)[clear])
    close = run_nearest(mesh, x, most=0.3)[0][:, 0] >= 0
    np.testing.assert_array_equal(close[np.abs(wanted - 0.3) > 1e-4], (wanted < 0.3)[np.abs(wanted - 0.3) > 1e-4])


def test_rays_do_not_slip_through_edges():
    grid = np.stack(np.meshgrid(np.arange(9), np.arange(9), [0], indexing="ij"), -1).reshape(-1, 3).astype(np.float32)
    i = (np.arange(8)[:, None] * 9 + np.arange(8)).ravel()
    faces = np.concatenate([np.stack([i, i + 9, i + 1], -1), np.stack([i + 1, i + 9, i + 10], -1)])
    x = np.random.default_rng(3).integers(1, 15, (500, 3)).astype(np.float32) / 2  # on edges, diagonals and vertices
    x[:, 2] = -3
    for direction in ([0, 0, 1], [0, 0, 0.25]):
        f, got = run_cast(made(grid, faces), x, np.tile(np.float32(direction), (500, 1)))
        assert (f[:, 0] >= 0).all()
        np.testing.assert_allclose(got[:, 0] * direction[2], 3)


@wp.kernel
def meeting(mesh: wp.uint64, x: V3, d: V3, out: wp.array2d(dtype=float), y: V3):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
    if hit.result:
        out[i, 0] = hit.t
        out[i, 1] = hit.u
        out[i, 2] = hit.v
        y[i] = wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v)


def test_rays_along_a_face_meet_it_inside():
    """Rays nearly in a face's plane, and rays that begin on it: places by ``t`` and by the weights are one."""
    rng = np.random.default_rng(3)
    n, hits = 400, 0
    for _ in range(8):
        p = rng.uniform(-1, 1, (3, 3)).astype(np.float32)
        mesh = made(p, np.array([[0, 1, 2]]))
        e, f = (p[k].astype(np.float64) - p[0] for k in (1, 2))
        normal = np.cross(e, f)
        d = np.outer(rng.normal(size=n), e) + np.outer(rng.normal(size=n), f)
        d /= np.linalg.norm(d, axis=1)[:, None]
        d = (d + np.outer(10.0 ** rng.uniform(-9, -2, n), normal / np.linalg.norm(normal))).astype(np.float32)
        x = (rng.dirichlet([1, 1, 1], n) @ p - d * np.where(rng.random((n, 1)) < 0.3, 0, 2)).astype(np.float32)
        out, y = wp.zeros((n, 3)), wp.zeros(n, dtype=wp.vec3)
        wp.launch(
            meeting, n, inputs=[mesh.id, wp.array(x, dtype=wp.vec3), wp.array(d, dtype=wp.vec3)], outputs=[out, y]
        )
        t, u, v = out.numpy().T
        hits += np.count_nonzero(u)
        assert min(t.min(), u.min(), v.min(), (1 - u - v).min()) >= -1e-6
        assert (t >= 0).all()
        met = u > 0
        np.testing.assert_allclose((x + d * t[:, None])[met], y.numpy()[met], atol=1e-5)
    assert hits > n


def test_small_and_damaged_meshes():
    x, d = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)
    none = made(np.zeros((0, 3)), np.zeros((0, 3), np.int32))
    assert run_cast(none, x, d)[0].tolist() == [[-1, 0, 0]]
    assert run_nearest(none, x)[0][0, 0] == -1
    p = np.float32([[0, 0, 1], [1, 0, 1], [0, 1, 1], [np.nan, 0, 1], [5, 5, 5]])
    for faces, found in [([[0, 1, 2]], 0), ([[0, 1, 3], [0, 1, 2]], 1), ([[4, 4, 4]], -1), ([[0, 1, 3]], -1)]:
        mesh = made(p, np.int32(faces))
        ray = np.float32([[0.2, 0.2, 0]]), np.float32([[0, 0, 1]])
        assert run_cast(mesh, *ray)[0][0, 0] == found
        assert run_nearest(mesh, x)[0][0, 0] == found
    assert run_nearest(made(p, np.int32([[0, 1, 2]])), np.float32([[np.nan, 0, 0]]))[0][0, 0] == -1


def test_points_move():
    p, faces = ball(6)
    mesh, (x, d) = made(p, faces), points_and_directions(100)
    mesh.points.assign(p * 3 + 1)
    mesh.refit()
    fresh = made(p * 3 + 1, faces)
    for run in (run_cast, lambda m, x, d: run_nearest(m, x)):
        np.testing.assert_array_equal(run(mesh, x, d)[1], run(fresh, x, d)[1])
    mesh.points = wp.array(p, dtype=wp.vec3)
    np.testing.assert_array_equal(run_cast(mesh, x, d)[1], run_cast(made(p, faces), x, d)[1])


def test_groups():
    p, faces = ball(5)
    both = np.concatenate([p, p * 2]), np.concatenate([faces, faces + len(p)])
    mesh = made(*both, groups=wp.array(np.repeat([3, 9], len(faces)).astype(np.int32), dtype=int))
    x, d = points_and_directions(100)
    for group, single in [(3, made(p, faces)), (9, made(p * 2, faces)), (-1, made(*both))]:
        f, t = run_cast(mesh, x, d, group=group)
        g, s = run_cast(single, x, d)
        np.testing.assert_array_equal(f[:, 1:], g[:, 1:])
        np.testing.assert_array_equal(t[:, 0], s[:, 0])


def test_faces_and_vertices():
    p = np.float32([[0, 0, 0], [1, 0, 0], [0, 2, 0], [3, 3, 3]])
    faces, v = np.int32([[0, 1, 2], [2, 1, 3]]), np.arange(12, dtype=np.float32).reshape(4, 3)
    mesh = made(p, faces, velocities=wp.array(v, dtype=wp.vec3))
    index, (x, w, between) = wp.zeros((8, 3), dtype=int), (wp.zeros(8, dtype=wp.vec3) for _ in range(3))
    wp.launch(look_up, dim=8, inputs=[mesh], outputs=[index, x, w, between])
    flat = faces.ravel()
    np.testing.assert_array_equal(index.numpy()[:, 0], [*flat, -1, -1])
    np.testing.assert_array_equal(x.numpy()[:6], p[flat])
    np.testing.assert_array_equal(w.numpy()[:6], v[flat])
    np.testing.assert_array_equal(between.numpy()[:2], [v[f].T @ np.float32([0.5, 0.25, 0.25]) for f in faces])
    np.testing.assert_array_equal(between.numpy()[2:], 0)
    np.testing.assert_array_equal(index.numpy()[:, 1], [3, 3, 3, 3, 3, 2, 3, 3])
    np.testing.assert_array_equal(index.numpy()[:, 1], index.numpy()[:, 2])
    mesh.velocities = None
    wp.launch(look_up, dim=8, inputs=[mesh], outputs=[index, x, w, between])
    assert not w.numpy().any()


@pytest.mark.parametrize("kernel", [depths, distances])
def test_gradients(kernel):
    p, faces = ball(5, rough=0.3)
    mesh, (x, d) = made(p, faces), points_and_directions(60)

    def values(x, d, tape=None):
        return wp.launch(kernel, dim=len(x), inputs=[mesh.id, x, d], outputs=[out]) or out.numpy().astype(np.float64)

    arrays = [wp.array(a, dtype=wp.vec3, requires_grad=True) for a in (x, d)]
    out = wp.zeros(60, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=60, inputs=[mesh.id, *arrays], outputs=[out])
    tape.backward(grads={out: wp.ones(60, dtype=float)})
    h, checked = 1e-3, 0
    for which in range(2 if kernel is depths else 1):
        for c in range(3):
            step = np.zeros(3, np.float32)
            step[c] = h
            sides = []
            for sign in (-1, 1, 0):
                out.zero_()
                moved = [a + (sign * step if k == which else 0) for k, a in enumerate((x, d))]
                sides.append(values(*moved))
            low, high, middle = sides
            smooth = np.abs(low + high - 2 * middle) < 2e-4 * (1 + np.abs(middle))
            smooth &= (np.abs(high - low) < 0.05) & (middle != 0)
            got = arrays[which].grad.numpy()[:, c]
            np.testing.assert_allclose(got[smooth], ((high - low) / (2 * h))[smooth], rtol=0.03, atol=0.02)
            checked += smooth.sum()
    assert checked > 40


@pytest.mark.parametrize("width", [4, 16])
def test_lanes_agree(width):
    p, faces = ball(6, rough=0.1)
    mesh, (x, d) = made(p, faces), points_and_directions(70)
    f, t = wp.zeros((70, 3), dtype=int), wp.zeros((70, 4), dtype=float)
    wp.launch(cast, dim=70, inputs=[mesh.id, x, d, 100.0, -1], outputs=[f, t], options={"vector_width": width})
    np.testing.assert_array_equal(f.numpy(), run_cast(mesh, x, d)[0])
    y = wp.zeros(70, dtype=wp.vec3)
    g = wp.zeros((70, 2), dtype=int)
    wp.launch(nearest, dim=70, inputs=[mesh.id, x, 9.0], outputs=[g, y], options={"vector_width": width})
    np.testing.assert_array_equal(g.numpy(), run_nearest(mesh, x)[0])


def test_the_interpreter_agrees():
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    p, faces = ball(3)
    mesh, (x, d) = made(p, faces), points_and_directions(4)
    f, t = np.zeros((4, 3), np.int32), np.zeros((4, 4), np.float32)
    interpret(prepare(build_kernel(cast.source, cast.types)), [int(mesh.id), x, d, 100.0, -1, f, t], (4,))
    np.testing.assert_array_equal(f, run_cast(mesh, x, d)[0])


def test_an_id_keeps_the_memory():
    p, faces = ball(4)
    mesh = made(p, faces)
    number, (x, d) = mesh.id, points_and_directions(20)
    wanted = run_cast(mesh, x, d)[0]
    f, t = wp.zeros((20, 3), dtype=int), wp.zeros((20, 4), dtype=float)
    command = wp.launch(cast, dim=20, inputs=[number, x, d, 100.0, -1], outputs=[f, t], record_cmd=True)
    del mesh, number
    gc.collect()
    wp.zeros(100_000, dtype=float).fill_(7.0)
    command.launch()
    np.testing.assert_array_equal(f.numpy(), wanted)


P, F = wp.zeros(3, dtype=wp.vec3), wp.array([0, 1, 2], dtype=int)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.Mesh([1.0], F), TypeError, "`points` is a wp.array"),
        (lambda: wp.Mesh(wp.zeros(3, dtype=float), F), RuntimeError, "`points` is a contiguous array"),
        (lambda: wp.Mesh(P, wp.zeros(3, dtype=float)), RuntimeError, "`indices` is a contiguous array"),
        (lambda: wp.Mesh(P, wp.array([0, 1], dtype=int)), RuntimeError, "three vertices for each face, got 2"),
        (lambda: wp.Mesh(P, wp.array([0, 1, 3], dtype=int)), ValueError, "names vertex 3, and there are 3 points"),
        (lambda: wp.Mesh(P, wp.array([0, -1, 2], dtype=int)), ValueError, "names vertex -1"),
        (lambda: wp.Mesh(P, F, velocities=wp.zeros(2, dtype=wp.vec3)), RuntimeError, "`velocities` has 2"),
        (lambda: wp.Mesh(P, F, groups=wp.zeros(2, dtype=int)), RuntimeError, "1 faces and 2 groups"),
        (lambda: wp.Mesh(P, F, bvh_leaf_size=0), ValueError, "at least one face"),
        (lambda: wp.Mesh(P, F, bvh_constructor="cubql", bvh_leaf_size=-1), ValueError, "at least one face"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(("faces", "leaf_size"), [(1, 4), (8, 8), (9, 1), (700, 4)])
def test_a_refit_gives_all_boxes_and_corners(faces, leaf_size):
    """Also of the last point, after which there is no memory, of NaN, and of faces that were or become degenerate."""
    rng = np.random.default_rng(faces)
    x = rng.normal(size=(faces + 2, 3)).astype(np.float32)
    corners = rng.integers(0, len(x), (faces, 3)).astype(np.int32)
    corners[0] = 0, 1, len(x) - 1
    points = wp.array(x, dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array(corners.ravel(), dtype=int), bvh_leaf_size=leaf_size)
    x = rng.normal(size=x.shape).astype(np.float32)
    x[0, 1] = np.nan
    points.assign(x)
    mesh.refit()

    tree, order = mesh._tree, mesh._tree.order.numpy()
    moved = x[corners[order]]
    low, high = np.nanmin(moved, 1), np.nanmax(moved, 1)
    np.testing.assert_array_equal(tree.boxes.numpy().reshape(-1, 6), np.concatenate([low, high], 1))
    nodes = tree.nodes.numpy()[: 8 * tree.node_count].reshape(-1, 8)
    skip, first = nodes.view(np.int32)[:, 6:].T
    starts = np.cumsum(np.where(first >= 0, skip, 0)) - np.where(first >= 0, skip, 0)
    for i, node in enumerate(nodes):
        end = first[i] + skip[i] if first[i] >= 0 else (starts[skip[i]] if skip[i] < len(nodes) else faces)
        items = slice(starts[i], end)
        np.testing.assert_array_equal(node[:6], np.concatenate([low[items].min(0), high[items].max(0)]))
    blocks = mesh._faces.blocks.numpy().reshape(-1, 10, 8)
    at, lane = np.divmod(mesh._faces.places.numpy(), 80)
    np.testing.assert_array_equal(blocks[at, :9, lane], moved.reshape(-1, 9))
    found = blocks.view(np.int32)[at, 9, lane]
    np.testing.assert_array_equal(np.where(found < 0, ~found, found), order)
    edges = moved.astype(np.float64) - moved[:, :1]
    area = np.linalg.norm(np.cross(edges[:, 1], edges[:, 2]), axis=1)
    np.testing.assert_array_equal(found < 0, ~(area > 1e-5))
