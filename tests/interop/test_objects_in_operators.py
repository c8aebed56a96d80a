"""Operators of PyTorch and JAX that query a mesh: gradients pass to their inputs, and none to the mesh's points.

An operator has no effect beside its results. So nothing is added to ``mesh.points.grad``, of which no library knows.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import warp_like as wp

OLD, WARNED = 7.0, "no gradient passes to the mesh"


@wp.kernel
def distances(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    hit = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
    y = wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v)
    out[i] = wp.length_sq(y - x[i])


def measure(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)) -> None:
    """Launch the kernel, for operators made of functions."""
    wp.launch(distances, dim=x.shape[0], inputs=[mesh, x], outputs=[out])


@pytest.fixture
def mesh() -> Any:
    """A triangle in the plane z = 0, whose points have old numbers as their gradient."""
    points = wp.array([[0, 0, 0], [4, 0, 0], [0, 4, 0]], dtype=wp.vec3, requires_grad=True)
    made = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    made.points.grad.fill_(OLD)
    return made


PLACES = np.array([[1.0, 1.0, 2.0], [0.5, 1.5, -3.0]], np.float32)
GRADIENT = PLACES * np.array([0.0, 0.0, 2.0], np.float32)  # of z * z


def untouched(mesh: Any) -> bool:
    return bool((mesh.points.grad.numpy() == OLD).all())


@pytest.fixture(params=["hidden", "shown"])
def beside(request: Any, mesh: Any) -> Any:
    """Let the gradient of the points be shown, as it is while a tape's adjoint runs in another thread."""
    if request.param == "hidden":
        yield
        return
    mesh._descriptor.show(mesh._descriptor.gradients())
    yield
    mesh._descriptor.hide()


@pytest.mark.parametrize("kind", ["kernel", "function", "batch"])
def test_pytorch(mesh: Any, beside: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    made = measure if kind == "function" else distances
    op = wp.torch_op(made, outputs=["out"], shapes={"out": lambda mesh, x: x.shape[0]})
    x = torch.tensor(PLACES, requires_grad=True)
    for _ in range(2):
        x.grad = None
        one = functools.partial(op, int(mesh.id))
        total = (torch.func.vmap(one)(x[:, None]) if kind == "batch" else one(x)).sum()
        with pytest.warns(UserWarning, match=WARNED):
            total.backward()
        np.testing.assert_allclose(x.grad.numpy(), GRADIENT, rtol=1e-5, atol=1e-5)
        assert untouched(mesh)


def test_jax(mesh: Any, beside: Any) -> None:
    jax = pytest.importorskip("jax")
    op = wp.jax_kernel(distances, enable_backward=True)
    found = jax.grad(lambda x: op(int(mesh.id), x)[0].sum())(PLACES)
    np.testing.assert_allclose(np.asarray(found), GRADIENT, rtol=1e-5, atol=1e-5)
    assert untouched(mesh)


def test_hessian_vector_products(mesh: Any, beside: Any) -> None:
    x, out = wp.array(PLACES, dtype=wp.vec3), wp.zeros(2, dtype=float)
    given = {"tangents": [None, wp.ones(2, dtype=wp.vec3)], "adj_outputs": [wp.ones(2, dtype=float)]}
    products = wp.autograd.hvp(distances, dim=2, inputs=[mesh.id, x], outputs=[out], **given)
    np.testing.assert_allclose(products[1].numpy(), [[0, 0, 2]] * 2, atol=1e-4)
    assert untouched(mesh)


def test_a_tape_adds_to_the_points(mesh: Any) -> None:
    x, out = wp.array(PLACES, dtype=wp.vec3), wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        measure(mesh.id, x, out)
    tape.backward(grads={out: wp.ones(2, dtype=float)}, zero=True)
    np.testing.assert_allclose(mesh.points.grad.numpy().sum(axis=0), -GRADIENT.sum(axis=0), rtol=1e-5, atol=1e-5)
