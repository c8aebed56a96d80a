"""On which side of a mesh points lie, the furthest point, and faces within spheres, beside NumPy in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret
from tests.runtime.geometry.test_mesh import V3, ball, distance, made

rng = np.random.default_rng(7)


@wp.kernel
def signs(mesh: wp.uint64, x: V3, found: wp.array2d(dtype=int)):
    i = wp.tid()
    a = wp.mesh_query_point_sign_normal(mesh, x[i], 100.0)
    b = wp.mesh_query_point_sign_parity(mesh, x[i], 100.0, 3, 0.2)
    c = wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0)
    if a.result and b.result and c.result:
        found[i, 0], found[i, 1], found[i, 2] = int(a.sign), int(b.sign), int(c.sign)
        found[i, 3] = wp.abs(a.face - b.face) + wp.abs(b.face - c.face)


@wp.kernel
def winding(mesh: wp.uint64, x: V3, threshold: float, accuracy: float, found: wp.array(dtype=int)):
    i = wp.tid()
    hit = wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0, accuracy, threshold)
    found[i] = wp.where(hit.sign < 0.0, 1, 0)


@wp.kernel
def furthest(mesh: wp.uint64, x: V3, least: float, face: wp.array(dtype=int), y: V3):
    i = wp.tid()
    hit = wp.mesh_query_furthest_point_no_sign(mesh, x[i], least)
    face[i] = wp.where(hit.result, hit.face, -1)
    if hit.result:
        y[i] = wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v)


@wp.kernel
def near(mesh: wp.uint64, x: V3, radius: float, found: wp.array2d(dtype=int)):
    i = wp.tid()
    for face in wp.mesh_query_sphere(mesh, x[i], radius):
        found[i, face] += 1
    query = wp.mesh_query_sphere(mesh, x[i], radius)
    face = 0
    while wp.mesh_query_next(query, face):
        found[i, face] += 10


@wp.kernel
def older(mesh: wp.uint64, x: V3, d: V3, differs: wp.array(dtype=float)):
    i = wp.tid()
    inside, u, v, t, sign = 0.0, 0.0, 0.0, 0.0, 0.0
    face = -1
    normal = wp.vec3()
    total = 0.0
    if wp.mesh_query_point(mesh, x[i], 100.0, inside, face, u, v):
        a = wp.mesh_query_point(mesh, x[i], 100.0)
        total += wp.abs(a.sign - inside) + float(wp.abs(a.face - face)) + wp.abs(a.u - u) + wp.abs(a.v - v)
    else:
        total += 1.0
    if wp.mesh_query_point_no_sign(mesh, x[i], 100.0, face, u, v):
        total += float(wp.abs(wp.mesh_query_point_no_sign(mesh, x[i], 100.0).face - face))
    if wp.mesh_query_furthest_point_no_sign(mesh, x[i], 0.0, face, u, v):
        total += float(wp.abs(wp.mesh_query_furthest_point_no_sign(mesh, x[i], 0.0).face - face))
    if wp.mesh_query_point_sign_normal(mesh, x[i], 100.0, inside, face, u, v):
        total += wp.abs(wp.mesh_query_point_sign_normal(mesh, x[i], 100.0).sign - inside)
    if wp.mesh_query_point_sign_parity(mesh, x[i], 100.0, inside, face, u, v, 3):
        total += wp.abs(wp.mesh_query_point_sign_parity(mesh, x[i], 100.0, 3).sign - inside)
    if wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0, inside, face, u, v):
        total += wp.abs(wp.mesh_query_point_sign_winding_number(mesh, x[i], 100.0).sign - inside)
    if wp.mesh_query_ray(mesh, x[i], d[i], 100.0, t, u, v, sign, normal, face):
        hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
        total += wp.abs(hit.t - t) + wp.abs(hit.sign - sign) + wp.length(hit.normal - normal)
    differs[i] = total


def cube():
    p = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return p, np.int32([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])


def points(n):
    return rng.uniform(-1.7, 1.7, (n, 3)).astype(np.float32)


def solid_angles(p, faces, x):
    """The winding number of a mesh around each point."""
    a, b, c = (p[faces[:, k]].astype(np.float64) - x.astype(np.float64)[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(v, axis=-1) for v in (a, b, c))
    top = (a * np.cross(b, c)).sum(-1)
    bottom = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return (2 * np.arctan2(top, bottom)).sum(1) / (4 * np.pi)


@pytest.mark.parametrize("method", ["sah", "lbvh"])
def test_all_signs_agree_on_closed_meshes(method):
    for p, faces in (cube(), ball(10, rough=0.3)):
        mesh = made(p, faces, support_winding_number=True, bvh_constructor=method)
        x = points(400)
        x[:50] = 0.5 + rng.choice([-0.7, 0.0, 0.7], (50, 3))  # nearest to corners and edges of the cube
        x[:50] += np.float32([1e-3, 2e-3, 3e-3])  # rays at random, not through edges
        number = solid_angles(p, faces, x)
        sure = (np.abs(number - np.round(number)) < 1e-6) & (distance(p, faces, x).min(1) > 1e-3)
        found = wp.zeros((400, 4), dtype=int)
        wp.launch(signs, dim=400, inputs=[mesh.id, x], outputs=[found])
        wanted = np.where(number > 0.5, -1, 1)
        got = found.numpy()
        for k in range(3):
            np.testing.assert_array_equal(got[sure, k], wanted[sure])
        assert sure.sum() > 390
        assert 4 < (wanted < 0).sum() < 300
        assert not got[:, 3].any()


def test_parity_needs_no_orientation():
    p, faces = cube()
    mesh, x = made(p, np.where(np.arange(12)[:, None] % 3 == 0, faces[:, ::-1], faces)), points(200)
    found = wp.zeros((200, 4), dtype=int)
    wp.launch(signs, dim=200, inputs=[mesh.id, x], outputs=[found])
    np.testing.assert_array_equal(found.numpy()[:, 1] < 0, ((x > 0) & (x < 1)).all(1))


def test_winding_numbers_of_meshes_with_holes():
    p, faces = ball(12, rough=0.2)
    faces = faces[rng.uniform(size=len(faces)) > 0.3]
    x = points(500)
    wanted = solid_angles(p, faces, x)
    mesh = made(p, faces, support_winding_number=True)
    found = wp.zeros(500, dtype=int)
    for accuracy, tolerance in ((2.0, 0.02), (1e6, 1e-5)):
        for threshold in (-0.1, 0.1, 0.3, 0.5, 0.7):
            wp.launch(winding, dim=500, inputs=[mesh.id, x, threshold, accuracy], outputs=[found])
            sure = np.abs(wanted - threshold) > tolerance
            np.testing.assert_array_equal(found.numpy()[sure], (wanted > threshold)[sure])
    mesh.points.assign(p * 2 + 1)
    mesh.refit()
    wp.launch(winding, dim=500, inputs=[mesh.id, x * 2 + 1, 0.4, 2.0], outputs=[found])
    sure = np.abs(wanted - 0.4) > 0.02
    np.testing.assert_array_equal(found.numpy()[sure], (wanted > 0.4)[sure])


def test_the_furthest_point():
    p, faces = ball(9, rough=0.3)
    mesh, x = made(p, faces), points(200)
    used = p[np.unique(faces[distance(p, faces, x).max(0) < np.inf])]
    wanted = np.linalg.norm(used[None] - x[:, None], axis=2).max(1)
    face, y = wp.zeros(200, dtype=int), wp.zeros(200, dtype=wp.vec3)
    wp.launch(furthest, dim=200, inputs=[mesh.id, x, 0.0], outputs=[face, y])
    np.testing.assert_allclose(np.linalg.norm(y.numpy() - x, axis=1), wanted, rtol=1e-5)
    wp.launch(furthest, dim=200, inputs=[mesh.id, x, 2.0], outputs=[face, y])
    sure = np.abs(wanted - 2) > 1e-4
    np.testing.assert_array_equal(face.numpy()[sure] >= 0, (wanted > 2)[sure])


def test_faces_within_a_sphere():
    p, faces = ball(7, rough=0.2)
    mesh, x = made(p, faces), points(60)
    away = distance(p, faces, x)
    for radius in (0.3, 1.0):
        found = wp.zeros((60, len(faces)), dtype=int)
        wp.launch(near, dim=60, inputs=[mesh.id, x, radius], outputs=[found])
        sure = np.abs(away - radius) > 1e-4
        np.testing.assert_array_equal(found.numpy()[sure], np.where(away <= radius, 11, 0)[sure])
        assert found.numpy().any()


def test_older_forms_assign_their_arguments():
    p, faces = ball(6, rough=0.1)
    mesh, x = made(p, faces, support_winding_number=True), points(80)
    differs = wp.full(80, 9.0, dtype=float)
    wp.launch(older, dim=80, inputs=[mesh.id, x, points(80)], outputs=[differs])
    np.testing.assert_array_equal(differs.numpy(), 0)


def test_small_and_damaged_meshes():
    x = points(5)
    nothing = made(np.zeros((0, 3)), np.zeros((0, 3), np.int32), support_winding_number=True)
    flat = made(np.zeros((3, 3)), np.int32([[0, 1, 2]]), support_winding_number=True)
    for mesh in (nothing, flat):
        found = wp.zeros((5, 4), dtype=int)
        wp.launch(signs, dim=5, inputs=[mesh.id, x], outputs=[found])
        assert not found.numpy().any()
        face, y = wp.zeros(5, dtype=int), wp.zeros(5, dtype=wp.vec3)
        wp.launch(furthest, dim=5, inputs=[mesh.id, x, 0.0], outputs=[face, y])
        assert (face.numpy() == -1).all()
    p, faces = cube()
    damaged = np.concatenate([p, [[np.nan] * 3]]).astype(np.float32)
    mesh = made(damaged, np.concatenate([faces, np.int32([[0, 1, 8], [3, 3, 3]])]), support_winding_number=True)
    found = wp.zeros((5, 4), dtype=int)
    wp.launch(signs, dim=5, inputs=[mesh.id, np.float32([[0.3, 0.4, 0.6]] * 5)], outputs=[found])
    np.testing.assert_array_equal(found.numpy()[:, [0, 2]], -1)


@pytest.mark.parametrize("width", [1, 8])
def test_lanes_and_the_interpreter_agree(width):
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    p, faces = ball(3, rough=0.1)
    mesh, x = made(p, faces, support_winding_number=True), points(16)
    found = wp.zeros((16, 4), dtype=int)
    wp.launch(signs, dim=16, inputs=[mesh.id, x], outputs=[found], options={"vector_width": width})
    if width == 1:
        again = np.zeros((3, 4), np.int32)
        interpret(prepare(build_kernel(signs.source, signs.types)), [int(mesh.id), x[:3], again], (3,))
        np.testing.assert_array_equal(found.numpy()[:3], again)
    else:
        alone = wp.zeros((16, 4), dtype=int)
        wp.launch(signs, dim=16, inputs=[mesh.id, x], outputs=[alone], options={"vector_width": 1})
        np.testing.assert_array_equal(found.numpy(), alone.numpy())
