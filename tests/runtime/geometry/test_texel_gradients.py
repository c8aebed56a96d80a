"""Gradients to the texels of textures, beside NumPy in float64: samples are linear in the texels."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.runtime.geometry import random_texture_tapes
from tests.runtime.geometry.test_texture import (
    CLAMP,
    CLASSES,
    CLOSEST,
    KERNELS,
    LINEAR,
    WRAP,
    along,
    every_address_mode,
    places,
)

rng = np.random.default_rng(11)
F = wp.array(dtype=float)


def scattered(shape, x, seed, modes, linear, normalized, base=None):
    """The gradient of ``(seed * samples).sum()`` to texels of ``shape``, whose axes are (w, v, u, channel)."""
    ndim, sizes = len(shape) - 1, shape[-2::-1]
    axes = [along(x[:, k], sizes[k], (base or sizes)[k], modes[k], linear, normalized) for k in range(ndim)]
    total = np.zeros(shape)
    channels = min(shape[-1], seed.shape[1])
    for corner in range(2**ndim):
        place, weight = [], np.ones(len(x))
        for k, (first, second, f) in enumerate(axes):
            far = corner >> k & 1
            place.append(second if far else first)
            weight *= f if far else 1 - f
        inside = np.min(place, axis=0) >= 0
        at = tuple(p[inside] for p in place[::-1])
        np.add.at(total[..., :channels], at, (weight[:, None] * seed)[inside, :channels])
    return total


def gradient(tex, x, seed, lod=-1.0, options=None, tape=None):
    """Run samples and their adjoint; return the gradient of the coordinates."""
    kernel, place, dtype = KERNELS[tex.ndim]
    if options:
        kernel = kernel.with_options(options)
    out = wp.zeros(len(x), dtype=dtype, requires_grad=True)
    given = wp.array(x[:, 0] if tex.ndim == 1 else x, dtype=place, requires_grad=True)
    with tape or wp.Tape() as tape:
        wp.launch(kernel, dim=len(x), inputs=[tex, given, lod], outputs=[out])
    tape.backward(grads={out: wp.array(seed.reshape(out.numpy().shape), dtype=dtype)})
    return given.grad.numpy()


def seeds(n, ndim):
    return rng.normal(size=(n, {1: 1, 2: 4, 3: 2}[ndim])).astype(np.float32)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_every_address_mode(linear, normalized):
    def make(shape):
        return wp.array(rng.normal(size=shape), dtype=float, requires_grad=True)

    for shape in ((6, 1), (1, 1), (5, 8, 2), (1, 3, 4), (3, 4, 2, 1)):
        for data, tex, modes, x in every_address_mode(shape, linear, normalized, make):
            seed = seeds(len(x), len(shape) - 1)
            before = gradient(CLASSES[tex.ndim](data.numpy(), **keywords(tex)), x, seed)
            assert (gradient(tex, x, seed) == before).all()  # of the coordinates
            wanted = scattered(shape, x, seed, modes, linear, normalized)
            np.testing.assert_allclose(data.grad.numpy(), wanted, rtol=1e-4, atol=1e-4)


def keywords(tex):
    """What makes a texture like ``tex``."""
    modes = (tex.address_mode_u, tex.address_mode_v, tex.address_mode_w)
    return {
        "filter_mode": tex.filter_mode,
        "address_mode": modes[: tex.ndim] if tex.ndim > 1 else modes[0],
        "normalized_coords": tex.normalized_coords,
    }


def means(fine):
    """The next level, in float64."""
    for axis in range(fine.ndim - 1):
        n = max(fine.shape[axis] // 2, 1)
        even, odd = (np.take(fine, np.minimum(2 * np.arange(n) + k, fine.shape[axis] - 1), axis) for k in (0, 1))
        fine = (even + odd) / 2
    return fine


@pytest.mark.parametrize("between", [CLOSEST, LINEAR])
@pytest.mark.parametrize("dtype", [wp.float32, wp.float16])
def test_levels_of_detail(between, dtype):
    """The gradient times a direction is what texels changed that way change, as all is linear."""
    for shape in ((9, 1), (8, 13, 2), (3, 1, 5, 4)):
        ndim = len(shape) - 1
        for lod in (0.3, 1.7, 50.0):
            data = wp.array(rng.normal(size=shape), dtype=dtype, requires_grad=True)
            tex = CLASSES[ndim](data, num_mip_levels=0, mip_filter_mode=between, address_mode=WRAP)
            x = places(40, ndim, 1)
            seed = seeds(40, ndim)
            gradient(tex, x, seed, lod)
            levels = [rng.normal(size=shape)]
            while max(levels[-1].shape[:-1]) > 1:
                levels.append(means(levels[-1]))
            at = min(lod, len(levels) - 1)
            low = int(at) if between == LINEAR else int(at + 0.5)
            wanted = 0.0
            for n, part in ((low, 1 - (at - low) * (between == LINEAR)), (low + 1, (at - low) * (between == LINEAR))):
                if part:
                    adjoint = scattered(levels[n].shape, x, seed, [WRAP] * 3, True, True, shape[-2::-1])
                    wanted += part * (adjoint * levels[n]).sum()
            found = (data.grad.numpy().astype(np.float64) * levels[0]).sum()
            assert found == pytest.approx(wanted, rel=1e-4 if dtype is wp.float32 else 1e-2, abs=1e-3)


@pytest.mark.parametrize("width", [1, 16])
def test_many_samples_of_one_texel(width):
    """Every thread adds to the same texels; the order of the sums does not show in deterministic mode."""
    n = 3000
    x = (np.full((n, 2), 0.5) + rng.uniform(-1e-3, 1e-3, (n, 2))).astype(np.float32)
    seed, found = seeds(n, 2), []
    for deterministic in (False, True, True):
        data = wp.array(np.ones((3, 3)), dtype=float, requires_grad=True)
        gradient(wp.Texture2D(data), x, seed, options={"vector_width": width, "deterministic": deterministic})
        found.append(data.grad.numpy())
    wanted = scattered((3, 3, 1), x, seed, [CLAMP] * 2, True, True)[..., 0]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(found[1], wanted, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(found[1], found[2])


def test_layouts_of_the_data():
    x, seed = places(50, 2, 1), seeds(50, 2)

    def made(a):
        a.requires_grad = True
        return a

    whole = rng.normal(size=(6, 5, 2)).astype(np.float32)
    cases = [
        (made(wp.array(whole[..., 0])), lambda g: g[..., None]),
        (made(wp.array(whole, dtype=wp.vec2)), lambda g: g),
        (made(wp.array(whole.astype(np.float16), dtype=wp.vec2h)), lambda g: g),
        (made(wp.array(np.tile(whole, (1, 2, 1))))[:, ::2], lambda g: g),
        (made(wp.array(whole)).transpose((1, 0, 2)), lambda g: g),
        (made(wp.array(whole[0])), lambda g: g[..., None]),
    ]
    for data, texels in cases:
        gradient(wp.Texture2D(data), x, seed)
        found = texels(data.grad.numpy())
        wanted = scattered(found.shape, x, seed, [CLAMP] * 2, True, True)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=4e-3 if found.dtype == np.float16 else 1e-4)


@wp.kernel
def scaled(a: F, by: float, out: F):
    i = wp.tid()
    out[i] = by * a[i]


@wp.kernel
def at_middles(tex: wp.Texture1D, out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, (float(i) + 0.5) / float(tex.width), dtype=float)


def params(n=4):
    return [wp.array(rng.normal(size=n), dtype=float, requires_grad=True) for _ in range(4)]


def test_the_gradient_goes_to_what_was_copied_when():
    """Data that other launches write before and after the copy: the texture has the numbers of the copy."""
    a, b, data, out = params()
    with wp.Tape() as tape:
        wp.launch(scaled, dim=4, inputs=[a, 2.0], outputs=[data])
        tex = wp.Texture1D(data)
        wp.launch(scaled, dim=4, inputs=[b, 3.0], outputs=[data])
        wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
    np.testing.assert_allclose(out.numpy(), 2 * a.numpy(), rtol=1e-6)
    for count in (1, 2):  # adds up
        tape.backward(grads={out: wp.ones(4, dtype=float)})
        np.testing.assert_allclose(a.grad.numpy(), 2 * count)
        np.testing.assert_array_equal(b.grad.numpy(), 0)
    tape.zero()
    assert not a.grad.numpy().any()
    tape.backward(grads={out: wp.ones(4, dtype=float), data: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy(), 2)
    np.testing.assert_allclose(b.grad.numpy(), 3)


def test_copies_from_before_the_tape():
    a, data, out, other = params()
    tex = wp.Texture1D(data)
    with wp.Tape() as tape:
        wp.launch(scaled, dim=4, inputs=[a, 2.0], outputs=[data])
        with wp.ScopedTimer("scopes move", print=False):
            tape.record_scope_begin("samples")
            wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
            wp.launch(at_middles, dim=4, inputs=[tex], outputs=[other])
            tape.record_scope_end()
    assert "samples" in tape.visualize()
    data.assign(np.ones(4))  # the texture does not see it, nor does its gradient need it
    tape.backward(grads={out: wp.ones(4, dtype=float), other: wp.ones(4, dtype=float)})
    np.testing.assert_array_equal(a.grad.numpy(), 0)
    np.testing.assert_allclose(data.grad.numpy(), 2)
    with wp.Tape() as again:  # which records the copy for itself
        wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
    again.backward(grads={out: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(data.grad.numpy(), 3)
    again.reset()
    assert not data.grad.numpy().any()


def test_steps_of_an_optimizer():
    """Fit a ramp to numbers: the texture takes the new data in each step, inside of the tape or before it."""
    wanted = wp.array(rng.normal(size=4), dtype=float)
    for inside in (False, True):
        data, out = wp.zeros(4, dtype=float, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
        tex = wp.Texture1D(data)
        for _ in range(20):
            if not inside:
                tex.copy_from(data)
            with wp.Tape() as tape:
                if inside:
                    tex.copy_from(data)
                wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
            tape.backward(grads={out: wp.array(out.numpy() - wanted.numpy())})
            data.assign(data.numpy() - 0.5 * data.grad.numpy())
            tape.zero()
        np.testing.assert_allclose(data.numpy(), wanted.numpy(), atol=1e-4)


def test_textures_of_textures():
    a, out, back, more = params()
    first = wp.Texture1D(a)
    second = wp.Texture1D(width=4, dtype=wp.float32)
    second.copy_from(first)
    with wp.Tape() as tape:
        wp.launch(at_middles, dim=4, inputs=[second], outputs=[out])
        second.copy_to(back)
        wp.launch(scaled, dim=4, inputs=[back, 4.0], outputs=[more])
    tape.backward(grads={out: wp.ones(4, dtype=float), more: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy(), 5)
    second.copy_from(np.zeros(4, np.float32))  # of no array that has a gradient
    tape.zero()
    with wp.Tape() as tape:
        wp.launch(at_middles, dim=4, inputs=[second], outputs=[out])
    tape.backward(grads={out: wp.ones(4, dtype=float)})
    assert not a.grad.numpy().any()
    with wp.Tape() as tape:
        wp.launch(at_middles, dim=4, inputs=[first], outputs=[out])
    first.copy_from(np.zeros(4, np.float32))
    with pytest.raises(RuntimeError, match="needs the texture that it queried as it was then"):
        tape.backward(grads={out: wp.ones(4, dtype=float)})


@pytest.mark.parametrize("first", [0, tail(40), tail(340)])
def test_random_tapes(first):
    for seed in range(first, first + (40 if first == 0 else 300)):
        random_texture_tapes.check(seed)


@wp.struct
class Scene:
    tex: wp.Texture1D
    gain: float


@wp.kernel
def in_struct(scene: Scene, use: wp.array(dtype=int), out: F):
    i = wp.tid()
    total = 0.0
    for k in range(use[i]):
        if (i + k) % 2 == 0:
            u = (float((i + k) % 4) + 0.5) / 4.0
            total += scene.gain * wp.texture_sample(scene.tex, u, dtype=float) * wp.texture_sample(scene.tex, u, float)
    out[i] = total


def test_structs_loops_and_branches():
    a, *_ = params()
    use, n = np.arange(20, dtype=np.int32) % 4, 20
    out = wp.zeros(n, dtype=float, requires_grad=True)
    scene = Scene(tex=wp.Texture1D(a), gain=3.0)
    gc.collect()
    with wp.Tape() as tape:
        wp.launch(in_struct, dim=n, inputs=[scene, use], outputs=[out])
    tape.backward(grads={out: wp.ones(n, dtype=float)})
    counts = np.zeros(4)
    for i in range(n):
        for k in range(use[i]):
            counts[(i + k) % 4] += (i + k) % 2 == 0
    np.testing.assert_allclose(a.grad.numpy(), 6 * counts * a.numpy(), rtol=1e-5)
    with wp.Tape() as tape:  # of no texture
        wp.launch(in_struct, dim=n, inputs=[Scene(), use], outputs=[out])
    tape.backward(grads={out: wp.ones(n, dtype=float)})


@wp.kernel
def in_array(textures: wp.array(dtype=wp.Texture1D), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = wp.texture_sample(textures[i], (float(j) + 0.5) / 4.0, dtype=float)


def test_arrays_of_textures():
    several = params()
    made = [wp.Texture1D(a if k != 1 else a.numpy()) for k, a in enumerate(several)]
    out = wp.zeros((4, 4), dtype=float, requires_grad=True)
    seed = rng.normal(size=(4, 4)).astype(np.float32)
    with wp.Tape() as tape:
        wp.launch(in_array, dim=(4, 4), inputs=[wp.array(made, dtype=wp.Texture1D)], outputs=[out])
    tape.backward(grads={out: wp.array(seed)})
    for k, a in enumerate(several):
        np.testing.assert_allclose(a.grad.numpy(), 0 if k == 1 else seed[k], rtol=1e-5, atol=1e-6)


def test_explicit_adjoint_launches_and_debug_mode():
    a, out, *_ = params()
    tex = wp.Texture1D(a, num_mip_levels=2)
    for kernel in (at_middles, at_middles.with_options({"mode": "debug"})):
        for count in (1, 2):
            wp.launch(kernel, 4, [tex], [out], [None], [wp.ones(4, dtype=float)], adjoint=True)
            np.testing.assert_allclose(a.grad.numpy(), count)
        a.grad.zero_()


def test_captures():
    a, out, *_ = params()
    tex = wp.Texture1D(a)
    with wp.Tape() as tape:
        wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
    out.grad.fill_(1.0)
    with wp.ScopedCapture() as capture:
        tape.backward()
    assert not a.grad.numpy().any()
    for count in (1, 2):
        out.grad.fill_(1.0)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(a.grad.numpy(), count)
    out.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(a.grad.numpy(), 3)


def test_a_gradient_given_up_for_a_time():
    a, out, *_ = params()
    x = wp.array(places(9, 1, 1)[:4, 0], dtype=float, requires_grad=True)
    tex = wp.Texture1D(a)
    sample = KERNELS[1][0]
    with wp.Tape() as tape:
        wp.launch(sample, dim=4, inputs=[tex, x, -1.0], outputs=[out])
    a.requires_grad = False
    tape.backward(grads={out: wp.ones(4, dtype=float)})
    assert x.grad.numpy().any()
    a.requires_grad = True
    tape.backward(grads={out: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy().sum(), 4, rtol=1e-5)  # weights add up to 1
    way = wp.ones(4, dtype=float)
    (change,) = wp.autograd.jvp(sample, 4, inputs=[tex, x, -1.0], outputs=[out], tangents=[None, way, None])
    np.testing.assert_allclose(change.numpy(), x.grad.numpy() / 2, rtol=1e-5, atol=1e-6)


@wp.kernel
def squared(tex: wp.Texture1D, x: F, total: F):
    s = wp.texture_sample(tex, x[wp.tid()], dtype=float)
    wp.atomic_add(total, 0, s * s)


def test_products_with_the_hessian_of_coordinates():
    a, *_ = params()
    start = np.float32([0.3, 0.42, 0.55, 0.7])
    x, total = wp.array(start, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    tex = wp.Texture1D(a)
    way = wp.ones(4, dtype=float)
    _, found = wp.autograd.hvp(squared, 4, inputs=[tex, x], outputs=[total], tangents=[None, way])
    slope = 4 * (a.numpy()[1:] - a.numpy()[:-1])[np.floor(4 * start - 0.5).astype(int)]
    np.testing.assert_allclose(found.numpy(), 2 * slope**2, rtol=1e-4)


def test_other_libraries_see_a_constant():
    jax = pytest.importorskip("jax")
    a, out, *_ = params()
    tex = wp.Texture1D(a)
    f = wp.jax_kernel(KERNELS[1][0], enable_backward=True)

    def loss(x):
        return f(tex, x, -1.0)[0].sum()

    def backward():
        with wp.Tape() as tape:
            wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
        tape.backward(grads={out: wp.ones(4, dtype=float)})

    backward()
    slope = jax.grad(loss)(jax.numpy.linspace(0.1, 0.9, 7))
    assert np.isfinite(slope).all()
    backward()
    np.testing.assert_allclose(a.grad.numpy(), 2)  # nothing that JAX has run


def test_nothing_is_left_behind():
    from warp_like.runtime.arrays import objects

    gc.collect()
    gc.disable()
    try:
        before = len(objects._descriptors)
        for _ in range(3):
            a, out, *_ = params()
            with wp.Tape() as tape:
                tex = wp.Texture1D(a)
                wp.launch(at_middles, dim=4, inputs=[tex], outputs=[out])
            tape.backward(grads={out: wp.ones(4, dtype=float)})
            del tape, tex
        assert len(objects._descriptors) == before
    finally:
        gc.enable()


@wp.kernel
def first_texels(tex: wp.Texture1D, out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, (float(i % 4) + 0.5) / 4.0, dtype=float)


@wp.kernel
def first_vertices(mesh: wp.uint64, out: F):
    i = wp.tid()
    out[i] = wp.mesh_get_point(mesh, i % 3)[0]


def test_backward_passes_of_several_threads():
    """Each adds to the gradient of one texture, or of one mesh, and none ends what another one shows or passes on."""
    n, rounds = 60_000, 8
    data, points = wp.zeros(4, dtype=float, requires_grad=True), wp.zeros(3, dtype=wp.vec3, requires_grad=True)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    for kernel, given, source in ((first_texels, wp.Texture1D(data), data), (first_vertices, mesh.id, points)):

        def work(kernel=kernel, given=given):
            for _ in range(rounds):
                out = wp.zeros(n, dtype=float, requires_grad=True)
                with wp.Tape() as tape:
                    wp.launch(kernel, n, inputs=[given], outputs=[out])
                tape.backward(grads={out: wp.ones(n, dtype=float)})

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(work) for _ in range(3)]:
                done.result()
        assert source.grad.numpy().sum() == 3 * rounds * n


@pytest.mark.parametrize("dtype", [wp.uint8, wp.int16, wp.int32])
def test_formats_without_gradients(dtype):
    data = wp.zeros((2, 3), dtype=dtype, requires_grad=True)
    with pytest.raises(ValueError, match="`data` requires a gradient, which samples send to float32 and float16 alone"):
        wp.Texture2D(data)
    with pytest.raises(ValueError, match="`src` requires a gradient"):
        wp.Texture2D(data.numpy()).copy_from(data)


def test_ptx():
    for (kernel, *_), arch in zip(KERNELS.values(), ("sm_75", "sm_80", "sm_90"), strict=True):
        text = kernel.inspect("ptx", target=arch, wrt=["x", "out"])
        assert "red." in text or "atom." in text
