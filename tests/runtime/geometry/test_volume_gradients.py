"""Gradients to the voxels of volumes, beside central differences: samples are linear in the voxels."""

import numpy as np
import pytest

import warp_like as wp

rng = np.random.default_rng(8)
V3 = wp.array(dtype=wp.vec3)
POINTS = np.int32([[0, 0, 0], [8, 0, 0], [0, 8, 0], [0, 0, -8], [300, 5000, -7]])


def made(background):
    volume = wp.Volume.allocate_by_tiles(POINTS, 0.5, background)
    volume.values.assign(rng.normal(size=volume.values.numpy().shape))
    return volume


def kernel_of(t, grad_type):
    @wp.kernel(module="unique")
    def look(v: wp.Volume, x: V3, out: wp.array2d(dtype=t), slope: wp.array(dtype=grad_type)):
        i = wp.tid()
        g = grad_type()
        out[i, 0] = wp.volume_sample(v, x[i], wp.Volume.LINEAR, dtype=t)
        out[i, 1] = wp.volume_sample(v, x[i], wp.Volume.CLOSEST, dtype=t)
        out[i, 2] = wp.volume_sample_grad(v, x[i], wp.Volume.LINEAR, g, dtype=t)
        out[i, 3] = wp.volume_lookup(v, int(x[i][0]), 0, 0, dtype=t)
        slope[i] = g

    return look


@pytest.mark.parametrize(
    ("background", "grad_type"),
    [
        (0.5, wp.vec3),
        (wp.vec3(1.0, 2.0, 3.0), wp.mat33),
        (wp.vec4d(1.0, 2.0, 3.0, 4.0), wp.types.matrix(shape=(4, 3), dtype=wp.float64)),
    ],
)
def test_samples(background, grad_type):
    volume = made(background)
    look, n = kernel_of(volume.dtype, grad_type), 200
    x = np.concatenate([rng.uniform(-9, 17, (n - 20, 3)), POINTS[-1] + rng.uniform(0, 5, (20, 3))]).astype(np.float32)
    shapes = {"out": ((n, 4), volume.dtype), "slope": (n, grad_type)}

    def outputs(**given):
        return [wp.zeros(shape, dtype=t, **given) for shape, t in shapes.values()]

    seeds = [rng.normal(size=o.numpy().shape) for o in outputs()]

    def loss():
        outs = outputs()
        wp.launch(look, dim=n, inputs=[volume, x], outputs=outs)
        return sum(float((s * o.numpy()).sum(dtype=np.float64)) for s, o in zip(seeds, outs, strict=True))

    assert not volume.requires_grad
    volume.requires_grad = True
    outs = outputs(requires_grad=True)
    given = wp.array(x, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(look, dim=n, inputs=[volume, given], outputs=outs)
    grads = {o: wp.array(s, dtype=o.dtype) for o, s in zip(outs, seeds, strict=True)}
    tape.backward(grads=grads)
    found = volume.values.grad.numpy().astype(np.float64)
    assert np.abs(given.grad.numpy()).max() > 0
    base = volume.values.numpy().copy()
    for _ in range(3):
        way = rng.normal(size=base.shape)
        ends = []
        for step in (1, -1):
            volume.values.assign(base + step * way)
            ends.append(loss())
        np.testing.assert_allclose((found * way).sum(), (ends[0] - ends[1]) / 2, rtol=1e-3, atol=1e-2)
    volume.values.assign(base)
    tape.backward(grads=grads)  # adds
    np.testing.assert_allclose(volume.values.grad.numpy(), 2 * found, rtol=1e-4, atol=1e-4)
    tape.zero()
    assert not volume.values.grad.numpy().any()
    volume.requires_grad = False
    assert volume.values.grad is None
    with wp.Tape() as tape:
        wp.launch(look, dim=n, inputs=[volume, given], outputs=outs)
    volume.values.zero_()
    with pytest.raises(RuntimeError, match="needs the volume that it queried as it was then"):
        tape.backward(grads=grads)


@wp.kernel
def square(parameters: wp.array2d(dtype=float), values: wp.array2d(dtype=float)):
    i, j = wp.tid()
    values[i, j] = parameters[i, j] * parameters[i, j]


@wp.kernel
def total(v: wp.Volume, x: V3, out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, wp.volume_sample_f(v, x[wp.tid()], wp.Volume.LINEAR))


def test_values_that_kernels_write():
    """A launch writes the values as an array, another one samples them: the gradient passes through both."""
    volume = made(0.0)
    volume.requires_grad = True
    values = volume.values
    parameters = wp.array(rng.normal(size=values.shape), dtype=float, requires_grad=True)
    x = wp.array(rng.uniform(0, 6, (50, 3)), dtype=wp.vec3)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=values.shape, inputs=[parameters], outputs=[values])
        wp.launch(total, dim=50, inputs=[volume, x], outputs=[out])
    tape.backward(out)
    weights = parameters.grad.numpy() / (2 * parameters.numpy())
    np.testing.assert_allclose(weights.sum(), 50, rtol=1e-4)
    np.testing.assert_allclose((weights * parameters.numpy() ** 2).sum(), out.numpy()[0], rtol=1e-4)


@wp.kernel
def put(v: wp.Volume, a: wp.array(dtype=float)):
    wp.volume_store_f(v, 1, 2, 3, 2.0 * a[0])


def test_stores_refuse_to_be_differentiated():
    volume = made(0.0)
    volume.requires_grad = True
    a, out = (wp.ones(1, dtype=float, requires_grad=True) for _ in range(2))
    x = wp.array([[1.0, 2.0, 3.0]], dtype=wp.vec3)
    with wp.Tape() as tape:
        wp.launch(put, dim=1, inputs=[volume, a])
        wp.launch(total, dim=1, inputs=[volume, x], outputs=[out])
    with pytest.raises(RuntimeError, match="needs the volume that it queried as it was then"):
        tape.backward(out)


def test_rebuilds_have_a_new_gradient():
    volume = wp.Volume.allocate_by_tiles(POINTS[:1], 1.0, 2.0, max_tiles=4)
    volume.requires_grad = True
    volume.rebuild(POINTS[:3])
    assert volume.values.grad.shape == (3, 512)
    for background in (1, None):
        with pytest.raises(RuntimeError, match="have no gradient"):
            wp.Volume.allocate([0] * 3, [7] * 3, 1.0, background).requires_grad = True
