"""Gradients of queries to the vertices and velocities of a mesh, beside finite differences."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import sampled
from tests.runtime.geometry.test_mesh import V3, ball, depths, distances, points_and_directions


@wp.kernel
def mixed(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    arrays = wp.mesh_get(mesh)
    face = i % (arrays.indices.shape[0] / 3)
    y = arrays.points[arrays.indices[3 * face]]
    n = wp.mesh_eval_face_normal(mesh, face)
    v = wp.mesh_eval_velocity(mesh, face, 0.5, 0.2)
    total = wp.dot(y, d[i]) + wp.dot(n, x[i]) + wp.length_sq(v) + wp.mesh_get_point(mesh, i)[1]
    hit = wp.mesh_query_furthest_point_no_sign(mesh, x[i], 0.0)
    total += wp.length_sq(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - x[i])
    wp.atomic_add(out, 0, total * float(1 + i % 3))


@wp.kernel
def near_sign(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    a = wp.mesh_query_point_sign_normal(mesh, x[i], 100.0)
    y = wp.mesh_eval_position(mesh, a.face, a.u, a.v)
    out[i] = a.sign * (wp.length(y - x[i]) + a.u)


@wp.kernel
def one_of(ids: wp.array(dtype=wp.uint64), x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_ray(ids[i % 2], x[i], d[i], 100.0)
    if hit.result:
        out[i] = hit.t


@wp.kernel
def scale(x: V3, y: V3):
    i = wp.tid()
    y[i] = x[i] * wp.length(x[i])


N = 40


def taped(mesh, kernel, x, d, size=N):
    out = wp.zeros(size, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=N, inputs=[mesh.id, x, d], outputs=[out])
    return tape, out


def mesh_of(p, faces, **options):
    v = wp.array(p[:, ::-1].copy(), dtype=wp.vec3, requires_grad=True)
    flat = wp.array(faces.ravel(), dtype=int)
    return wp.Mesh(wp.array(p, dtype=wp.vec3, requires_grad=True), flat, velocities=v, **options)


@pytest.mark.parametrize(
    ("kernel", "width"),
    sampled([(depths, 1), (depths, 8), (distances, 8), (mixed, 1), (mixed, 8), (near_sign, 1)], every=3),
)
def test_gradients_reach_vertices(kernel, width):
    p, faces = ball(4, rough=0.3)
    faces = faces[np.linalg.norm(np.cross(*(p[faces[:, k]] - p[faces[:, 0]] for k in (1, 2))), axis=1) > 1e-3]
    mesh, (x, d) = mesh_of(p, faces), points_and_directions(N)
    kernel.module.options["vector_width"] = width
    tape, out = taped(mesh, kernel, x, d)
    weights = np.linspace(0.5, 1.5, N).astype(np.float32)
    tape.backward(grads={out: wp.array(weights)})
    for a in (mesh.points, mesh.velocities) if kernel is mixed else (mesh.points,):
        start, h, checked = a.numpy().copy(), 2e-3, 0
        for i in range(0, len(p), 3):
            for c in range(3):
                sides = []
                for sign in (-1, 0, 1):
                    moved = start.copy()
                    moved[i, c] += sign * h
                    a.assign(moved)
                    mesh.refit()
                    out.zero_()
                    wp.launch(kernel, dim=N, inputs=[mesh.id, x, d], outputs=[out])
                    sides.append(out.numpy().astype(np.float64))
                low, middle, high = sides
                smooth = np.abs(low + high - 2 * middle).max() < 3e-5 * (1 + np.abs(middle).max())
                if smooth and np.abs(high - low).max() > 1e-5:
                    wanted = (weights * (high - low)).sum() / (2 * h)
                    assert a.grad.numpy()[i, c] == pytest.approx(wanted, rel=0.03, abs=0.03)
                    checked += 1
        assert checked > 10
        a.assign(start)
        mesh.refit()
    tape.zero()
    assert not mesh.points.grad.numpy().any()
    kernel.module.options["vector_width"] = 0


def test_gradients_flow_on_to_what_made_the_points():
    p, faces = ball(4, rough=0.3)
    x, d = points_and_directions(N)
    first = wp.array(p, dtype=wp.vec3, requires_grad=True)
    points = wp.zeros(len(p), dtype=wp.vec3, requires_grad=True)
    mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int))
    out = wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scale, dim=len(p), inputs=[first], outputs=[points])
        mesh.refit()
        wp.launch(depths, dim=N, inputs=[mesh.id, x, d], outputs=[out])
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    alone = mesh_of(points.numpy(), faces)
    again, other = taped(alone, depths, x, d)
    again.backward(grads={other: wp.ones(N, dtype=float)})
    g, r = alone.points.grad.numpy(), np.linalg.norm(p, axis=1, keepdims=True)
    assert g.any()
    np.testing.assert_allclose(first.grad.numpy(), g * r + p * (g * p).sum(1, keepdims=True) / r, rtol=1e-4, atol=1e-5)


def test_gradients_of_meshes_by_ids_in_arrays():
    p, faces = ball(4, rough=0.3)
    x, d = points_and_directions(N)
    meshes = [mesh_of(p, faces), mesh_of(p * 2, faces)]
    out = wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        ids = wp.array([int(m.id) for m in meshes], dtype=wp.uint64)
        wp.launch(one_of, dim=N, inputs=[ids, x, d], outputs=[out])
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    for k, mesh in enumerate(meshes):
        alone = mesh_of(mesh.points.numpy(), faces)
        ones = np.zeros(N, np.float32)
        ones[k::2] = 1
        again, out = taped(alone, depths_alone, x, d)
        again.backward(grads={out: wp.array(ones)})
        np.testing.assert_allclose(mesh.points.grad.numpy(), alone.points.grad.numpy(), rtol=1e-4, atol=1e-4)


@wp.kernel
def depths_alone(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
    if hit.result:
        out[i] = hit.t


@pytest.mark.parametrize(
    "change",
    [
        lambda mesh: mesh.points.assign(mesh.points.numpy() + 1),  # recorded by no tape
        lambda mesh: mesh.refit(),
        lambda mesh: wp.launch(scale, dim=mesh.points.size, inputs=[mesh.velocities], outputs=[mesh.points]),
        lambda mesh: setattr(mesh, "points", wp.clone(mesh.points)),
        lambda mesh: mesh.velocities.zero_(),
    ],
)
def test_meshes_that_have_changed_are_refused(change):
    mesh, (x, d) = mesh_of(*ball(3)), points_and_directions(N)
    tape, out = taped(mesh, depths, wp.array(x, dtype=wp.vec3, requires_grad=True), d)
    change(mesh)
    with pytest.raises(RuntimeError, match="needs the mesh that it queried as it was then"):
        tape.backward(grads={out: wp.ones(N, dtype=float)})
    assert not mesh.points.grad or not mesh.points.grad.numpy().any()


def test_gradients_may_come_and_go():
    mesh, (x, d) = mesh_of(*ball(3)), points_and_directions(N)
    mesh.points.requires_grad = False
    x = wp.array(x, dtype=wp.vec3, requires_grad=True)
    tape, out = taped(mesh, depths, x, d)
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    wanted = x.grad.numpy().copy()
    assert wanted.any()
    assert mesh.points.grad is None
    tape.zero()
    mesh.points.requires_grad = True
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    first = mesh.points.grad.numpy().copy()
    np.testing.assert_array_equal(x.grad.numpy(), wanted)
    assert first.any()
    mesh.points.grad = wp.zeros(mesh.points.size, dtype=wp.vec3)  # another array
    tape.backward(grads={out: wp.ones(N, dtype=float)})
    np.testing.assert_allclose(mesh.points.grad.numpy(), first, rtol=1e-5, atol=1e-6)


def test_gradients_under_captures():
    """Each run of a graph adds to the gradient of the capture, whatever was shown before; and the others do not."""
    mesh, (x, d) = mesh_of(*ball(3)), points_and_directions(N)
    tape, out = taped(mesh, depths, x, d)

    def after(work):
        mesh.points.grad.zero_()
        out.grad.fill_(1.0)
        work()
        return mesh.points.grad.numpy().copy()

    out.grad.fill_(1.0)
    with wp.ScopedCapture() as capture:
        tape.backward()
    wanted = after(tape.backward)  # the graph has not run
    assert wanted.any()
    captured = mesh.points.grad
    np.testing.assert_allclose(after(lambda: wp.capture_launch(capture.graph)), wanted, rtol=1e-5)
    mesh.points.grad = wp.zeros(mesh.points.size, dtype=wp.vec3)
    np.testing.assert_allclose(after(tape.backward), wanted, rtol=1e-5)
    assert not after(lambda: wp.capture_launch(capture.graph)).any()
    np.testing.assert_allclose(captured.numpy(), 2 * wanted, rtol=1e-5)
    np.testing.assert_allclose(after(tape.backward), wanted, rtol=1e-5)


def test_explicit_adjoint_launches():
    """Of one kernel with mesh after mesh, and with another gradient: each adds to the gradient of its mesh."""
    x, d = points_and_directions(N)
    for size in (3, 3, 4):
        mesh = mesh_of(*ball(size))
        tape, out = taped(mesh, depths, x, d)
        tape.backward(grads={out: wp.ones(N, dtype=float)})
        wanted = mesh.points.grad.numpy().copy()
        assert wanted.any()
        for _ in range(2):
            mesh.points.grad = wp.zeros(mesh.points.size, dtype=wp.vec3)
            given = {"inputs": [mesh.id, x, d], "outputs": [out], "adj_outputs": [wp.ones(N, dtype=float)]}
            wp.launch(depths, dim=N, **given, adj_inputs=[None] * 3, adjoint=True)
            np.testing.assert_allclose(mesh.points.grad.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_gradients_that_are_not_contiguous_are_refused():
    mesh, (x, d) = mesh_of(*ball(3)), points_and_directions(N)
    memory = wp.zeros(2 * mesh.points.size, dtype=wp.vec3)
    mesh.points.grad = memory[::2]
    tape, out = taped(mesh, depths, x, d)
    with pytest.raises(RuntimeError, match="the gradient of an array of a mesh is contiguous"):
        tape.backward(grads={out: wp.ones(N, dtype=float)})
    assert not memory.numpy().any()


@wp.kernel
def move(mesh: wp.uint64, x: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    arrays = wp.mesh_get(mesh)
    arrays.points[i] = x[i]
    out[i] = x[i][0]


def test_writes_through_mesh_get():
    mesh, x = mesh_of(*ball(3)), wp.array(np.ones((N, 3)), dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(N, dtype=float, requires_grad=True)
    wp.launch(move, dim=5, inputs=[mesh.id, x], outputs=[out])
    np.testing.assert_array_equal(mesh.points.numpy()[:5], 1)
    with wp.Tape() as tape:
        wp.launch(move, dim=5, inputs=[mesh.id, x], outputs=[out])
    with pytest.raises(RuntimeError, match="writes to the memory of an object"):
        tape.backward(grads={out: wp.ones(N, dtype=float)})


@wp.kernel
def sizes(mesh: wp.uint64, out: wp.array(dtype=int)):
    arrays = wp.mesh_get(mesh)
    out[0], out[1], out[2] = arrays.points.shape[0], arrays.velocities.shape[0], arrays.indices.shape[0]


def test_arrays_of_no_mesh_are_empty():
    p, faces = ball(3)
    out = wp.full(3, 9, dtype=int)
    wp.launch(sizes, dim=1, inputs=[wp.Mesh(wp.array(p, dtype=wp.vec3), wp.array(faces.ravel(), dtype=int)).id, out])
    assert out.list() == [len(p), 0, faces.size]
    wp.launch(sizes, dim=1, inputs=[0, out])
    assert out.list() == [0, 0, 0]


@wp.kernel
def total_depth(mesh: wp.uint64, x: V3, d: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
    if hit.result:
        wp.atomic_add(out, 0, hit.t * hit.t)


def test_derivatives_of_others_leave_the_gradients_of_meshes_alone():
    """Whether a tape has shown them before or not: JAX and hvp() have no gradient for an object."""
    jax = pytest.importorskip("jax")
    mesh, (x, d) = mesh_of(*ball(3)), points_and_directions(N)
    tape, out = taped(mesh, total_depth, x, d, 1)
    tape.backward(out)
    before = mesh.points.grad.numpy().copy()
    assert before.any()
    f = wp.jax_kernel(total_depth, num_outputs=1, in_out_argnames=["out"], enable_backward=True, launch_dims=N)
    start = jax.numpy.zeros(1)
    slope = jax.grad(lambda x: f(int(mesh.id), x, d, start)[0].sum())(jax.numpy.array(x))
    assert np.abs(slope).max() > 0
    way = wp.ones(N, dtype=wp.vec3)
    given = wp.array(x, dtype=wp.vec3)
    total = wp.zeros(1, dtype=float)
    wp.autograd.hvp(total_depth, N, inputs=[mesh.id, given, d], outputs=[total], tangents=[None, way])
    np.testing.assert_array_equal(mesh.points.grad.numpy(), before)
    tape.backward(out)
    np.testing.assert_allclose(mesh.points.grad.numpy(), 2 * before, rtol=1e-5)
