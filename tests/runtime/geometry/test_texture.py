"""Textures: samples beside NumPy in float64, in every mode."""

import gc

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret

F = wp.array(dtype=float)
CLOSEST, LINEAR = wp.TextureFilterMode
WRAP, CLAMP, MIRROR, BORDER = wp.TextureAddressMode
rng = np.random.default_rng(5)


@wp.kernel
def sample_1d(tex: wp.Texture1D, x: F, lod: float, out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, x[i], dtype=float, lod=lod)


@wp.kernel
def sample_2d(tex: wp.Texture2D, x: wp.array(dtype=wp.vec2), lod: float, out: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, x[i], wp.vec4, lod)
    two = wp.texture_sample(tex, x[i][0], x[i][1], lod=lod, dtype=wp.vec2)
    wp.expect_eq(two, wp.vec2(out[i][0], out[i][1]))


@wp.kernel
def sample_3d(tex: wp.Texture3D, x: wp.array(dtype=wp.vec3), lod: float, out: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, uvw=x[i], dtype=wp.vec2, lod=lod)


KERNELS = {1: (sample_1d, float, wp.float32), 2: (sample_2d, wp.vec2, wp.vec4), 3: (sample_3d, wp.vec3, wp.vec2)}


def along(x, size, base, mode, linear, normalized):
    """The two texels along an axis, -1 outside, and the weight of the second."""
    t = x.astype(np.float64) * size / (1 if normalized else base)
    if mode in (WRAP, MIRROR):
        t = np.mod(t, size * (2 if mode == MIRROR else 1))
    if linear:
        t = t - 0.5
    if mode == CLAMP:
        t = np.clip(t, 0, size - 1)
    i = np.floor(t).astype(int)
    f = t - i if linear else np.zeros(len(t))

    def texel(i):
        if mode == WRAP:
            return i % size
        if mode == MIRROR:
            return np.where(i % (2 * size) < size, i % (2 * size), 2 * size - 1 - i % (2 * size))
        return np.clip(i, 0, size - 1) if mode == CLAMP else np.where((i >= 0) & (i < size), i, -1)

    return texel(i), texel(i + 1), f


def reference(level, base, x, modes, linear, normalized):
    """Samples of one level, whose axes are (w, v, u, channel)."""
    n = x.shape[1]
    sizes = level.shape[-2::-1]
    axes = [along(x[:, k], sizes[k], base[k], modes[k], linear, normalized) for k in range(n)]
    total = np.zeros((len(x), level.shape[-1]))
    for corner in range(2**n):
        place, weight = [], np.ones(len(x))
        for k, (first, second, f) in enumerate(axes):
            far = corner >> k & 1
            place.append(second if far else first)
            weight *= f if far else 1 - f
        inside = np.min(place, axis=0) >= 0
        texels = level[tuple(np.maximum(p, 0) for p in place[::-1])]
        total += np.where((inside & (weight > 0))[:, None], texels * weight[:, None], 0)
    return total


def as_floats(a):
    if a.dtype.kind in "iu" and a.dtype.itemsize < 4:
        return np.maximum(a / float(np.iinfo(a.dtype).max), -1)
    return a.astype(np.float64)


def texels(shape, dtype):
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


def sampled(tex, x, lod=-1.0, options=None):
    kernel, place, dtype = KERNELS[tex.ndim]
    out = wp.zeros(len(x), dtype=dtype)
    given = wp.array(x[:, 0] if tex.ndim == 1 else x, dtype=place)
    wp.launch(kernel, dim=len(x), inputs=[tex, given, lod], outputs=[out], options=options or {})
    return out.numpy().reshape(len(x), -1)


def places(n, ndim, size, seed=1):
    found = np.random.default_rng(seed).uniform(-2.3, 3.3, (n, ndim)) * size
    found[:5] = np.array([0, 1, 0.5, -1, 2])[:, None] * size
    return found.astype(np.float32)


CLASSES = {1: wp.Texture1D, 2: wp.Texture2D, 3: wp.Texture3D}


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4"])
def test_every_dtype_and_number_of_channels(dtype):
    t = np.dtype(dtype)
    for ndim, channels in ((1, 1), (2, 1), (2, 2), (2, 4), (3, 2), (3, 4)):
        shape = (5, 4, 7)[3 - ndim :]
        data = texels((*shape, channels), t)
        tex = CLASSES[ndim](data)
        assert tex.dtype is getattr(wp, {"u": "uint", "i": "int", "f": "float"}[t.kind] + str(8 * t.itemsize))
        assert (tex.num_channels, tex.width, tex.ndim) == (channels, 7, ndim)
        linear = not (t.kind in "iu" and t.itemsize == 4)
        assert tex.filter_mode == (LINEAR if linear else CLOSEST)
        x = places(60, ndim, 1)
        wanted = reference(as_floats(data), shape[::-1], x, [CLAMP] * 3, linear, True)
        got = sampled(tex, x)
        scale = np.abs(wanted).max()
        n = min(channels, got.shape[1])
        np.testing.assert_allclose(got[:, :n], wanted[:, :n], rtol=2e-6, atol=4e-6 * scale)
        assert not got[:, n:].any()


def every_address_mode(shape, linear, normalized, make):
    """Yield ``make(shape)``, a texture of it in each address mode, the modes, and places where no sample jumps."""
    ndim, across = len(shape) - 1, shape[-2]
    for modes in ((WRAP,) * 3, (CLAMP,) * 3, (MIRROR,) * 3, (BORDER,) * 3, (WRAP, BORDER, MIRROR)):
        data = make(shape)
        tex = CLASSES[ndim](
            data,
            address_mode=modes if ndim > 1 else modes[0],
            filter_mode=LINEAR if linear else CLOSEST,
            normalized_coords=normalized,
        )
        x = places(80, ndim, 1 if normalized else across)
        if not linear:  # texels change there, by rounding
            x = x[(np.abs(x * across % 1 - 0.5) < 0.49).all(1)] if normalized else np.floor(x) + 0.25
        yield data, tex, modes, x


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_every_address_mode(linear, normalized):
    def make(shape):
        return rng.normal(size=shape).astype(np.float32)

    for shape in ((6, 1), (1, 1), (5, 8, 1), (3, 4, 2, 1)):
        for data, tex, modes, x in every_address_mode(shape, linear, normalized, make):
            wanted = reference(data, shape[-2::-1], x, modes, linear, normalized)
            np.testing.assert_allclose(sampled(tex, x)[:, :1], wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("between", [CLOSEST, LINEAR])
def test_levels_of_detail(between):
    for ndim, shape in ((1, (9,)), (2, (8, 13)), (3, (4, 6, 5))):
        data = rng.normal(size=(*shape, 1)).astype(np.float32)
        tex = CLASSES[ndim](data, num_mip_levels=0, mip_filter_mode=between)
        levels = [data.astype(np.float64)]
        while max(levels[-1].shape) > 1:
            a = levels[-1]
            for axis in range(ndim):
                n = max(a.shape[axis] // 2, 1)
                even, odd = (np.take(a, np.minimum(2 * np.arange(n) + k, a.shape[axis] - 1), axis) for k in (0, 1))
                a = (even + odd) / 2
            levels.append(a)
        assert tex.num_mip_levels == len(levels)
        assert tex.is_mipmapped
        x = places(40, ndim, 1)
        each = [reference(a, shape[::-1], x, [CLAMP] * 3, True, True) for a in levels]
        for lod in (-1.0, 0.0, 0.3, 1.0, 1.6, 50.0, np.nan):
            at = min(max(lod, 0.0), len(levels) - 1) if lod == lod else 0.0
            low = int(at) if between == LINEAR else int(at + 0.5)
            f = at - low if between == LINEAR else 0.0
            wanted = each[low] * (1 - f) + (each[low + 1] * f if f else 0)
            np.testing.assert_allclose(sampled(tex, x, lod)[:, :1], wanted, rtol=1e-4, atol=1e-5)


@wp.struct
class Scene:
    tex: wp.Texture2D
    gain: float


@wp.kernel
def of_struct(scene: Scene, out: F):
    i = wp.tid()
    u = (float(i) + 0.5) / float(scene.tex.width)
    out[i] = scene.gain * wp.texture_sample(scene.tex, wp.vec2(u, 0.5), dtype=float)


@wp.kernel
def of_array(textures: wp.array(dtype=wp.Texture2D), scenes: wp.array(dtype=Scene), out: wp.array2d(dtype=float)):
    i = wp.tid()
    tex = textures[i]
    out[i, 0] = wp.texture_sample(tex, wp.vec2(0.5, 0.5), dtype=float)
    out[i, 1] = float(10 * tex.width + tex.height)
    out[i, 2] = wp.texture_sample(scenes[i].tex, wp.vec2(0.5, 0.5), dtype=float)


def test_textures_in_structs_and_arrays():
    data = np.arange(4, dtype=np.float32)[None]
    scene = Scene(tex=wp.Texture2D(data), gain=2.0)  # the struct keeps the texture
    gc.collect()
    out = wp.zeros(4, dtype=float)
    wp.launch(of_struct, dim=4, inputs=[scene], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), 2 * data[0])
    wp.launch(of_struct, dim=4, inputs=[Scene()], outputs=[out])  # of no texture
    np.testing.assert_array_equal(out.numpy(), 0)
    several = [wp.Texture2D(np.full((k + 1, 3), k + 0.5, np.float32)) for k in range(3)]
    textures = wp.array(several, dtype=wp.Texture2D)
    scenes = wp.array([Scene(tex=t) for t in several], dtype=Scene)
    found = wp.zeros((3, 3), dtype=float)
    wp.launch(of_array, dim=3, inputs=[textures, scenes], outputs=[found])
    np.testing.assert_array_equal(found.numpy(), [[k + 0.5, 31 + k, k + 0.5] for k in range(3)])


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_lanes_and_the_interpreter_agree(ndim):
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    data = rng.normal(size=(4, 3, 5, 2)[3 - ndim :]).astype(np.float32)
    tex, x = CLASSES[ndim](data, address_mode=WRAP), places(33, ndim, 1)
    alone = sampled(tex, x, options={"vector_width": 1})
    np.testing.assert_allclose(sampled(tex, x, options={"vector_width": 8}), alone, rtol=1e-5, atol=1e-6)
    kernel = KERNELS[ndim][0]
    out = np.zeros((3, alone.shape[1]), np.float32)
    fields = [int(tex.id), *(getattr(tex, n) for n in ("width", "height", "depth")[:ndim])]
    given = x[:3, 0] if ndim == 1 else x[:3]
    args = [*fields, given, -1.0, out[:, 0] if ndim == 1 else out]
    interpret(prepare(build_kernel(kernel.source, kernel.types)), args, (3,))
    np.testing.assert_allclose(out, alone[:3], rtol=1e-5, atol=1e-6)


@wp.kernel
def loss_of(tex: wp.Texture2D, x: wp.array(dtype=wp.vec2), lod: F, out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, x[i], dtype=float, lod=lod[i])


def test_gradients_to_coordinates_and_levels():
    n = 60
    tex = wp.Texture2D(rng.normal(size=(8, 16)).astype(np.float32), num_mip_levels=3, address_mode=(WRAP, MIRROR))
    x = wp.array(places(n, 2, 1, seed=3), dtype=wp.vec2, requires_grad=True)
    lod = wp.array(rng.uniform(0.1, 1.9, n), dtype=float, requires_grad=True)
    out = wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss_of, dim=n, inputs=[tex, x, lod], outputs=[out])
    tape.backward(grads={out: wp.ones(n, dtype=float)})
    h, checked = 2e-4, 0

    def at(dx, dl):
        wp.launch(loss_of, dim=n, inputs=[tex, x.numpy() + np.float32(dx), lod.numpy() + np.float32(dl), out])
        return out.numpy().astype(np.float64)

    for k, (dx, dl) in enumerate((([h, 0], 0), ([0, h], 0), ([0, 0], h))):
        low, middle, high = (at(np.multiply(dx, s), dl * s) for s in (-1, 0, 1))
        got = lod.grad.numpy() if k == 2 else x.grad.numpy()[:, k]
        smooth = np.abs(low + high - 2 * middle) < 1e-5
        np.testing.assert_allclose(got[smooth], ((high - low) / (2 * h))[smooth], rtol=0.02, atol=0.02)
        checked += smooth.sum()
    assert checked > 60


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_derivatives_in_both_modes(ndim):
    """The slopes along each axis in every address mode, between the places where they jump."""
    kernel, place, dtype = KERNELS[ndim]
    data = rng.normal(size=(4, 5, 7, 2)[3 - ndim :]).astype(np.float32)
    x = places(50, ndim, 1, seed=7)
    x += np.where(np.abs(x * 420 % 1 - 0.5) > 0.4, 0.3 / 420, 0).astype(np.float32)
    given = (lambda a: a[:, 0]) if ndim == 1 else (lambda a: a)
    for mode in (WRAP, CLAMP, MIRROR, BORDER):
        tex = CLASSES[ndim](data, address_mode=mode)

        def values(at, tex=tex):
            return sampled(tex, at.astype(np.float32)).astype(np.float64)

        out = wp.zeros(50, dtype=dtype, requires_grad=True)
        at = wp.array(given(x), dtype=place, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=50, inputs=[tex, at, -1.0], outputs=[out])
        tape.backward(grads={out: wp.array(np.ones(out.numpy().shape, np.float32), dtype=dtype)})
        found = at.grad.numpy().reshape(50, ndim)
        h = 1e-3
        for axis in range(ndim):
            step = h * np.eye(ndim)[axis]
            low, middle, high = values(x - step), values(x), values(x + step)
            smooth = np.abs(low + high - 2 * middle).max(1) < 1e-5
            assert smooth.sum() > 20
            slope = (high - low).sum(1) / (2 * h)
            np.testing.assert_allclose(found[smooth, axis], slope[smooth], rtol=0.01, atol=0.02)
            direction = wp.array(given(np.tile(np.eye(ndim)[axis], (50, 1))), dtype=place)
            (change,) = wp.autograd.jvp(
                kernel, dim=50, inputs=[tex, at, -1.0], outputs=[out], tangents=[None, direction, None]
            )
            total = change.numpy().reshape(50, -1).sum(1)
            np.testing.assert_allclose(total, found[:, axis], rtol=1e-4, atol=1e-4)


def test_texels_are_copied():
    data = texels((3, 5), np.dtype("u1"))
    tex = wp.Texture2D(width=5, height=3, dtype=wp.uint8)
    assert not sampled(tex, places(9, 2, 1)).any()
    tex.copy_from(wp.array(data, dtype=wp.uint8))
    other = wp.Texture2D(data)
    np.testing.assert_array_equal(sampled(tex, places(9, 2, 1)), sampled(other, places(9, 2, 1)))
    back, array = np.zeros_like(data), wp.zeros((3, 5), dtype=wp.uint8)
    tex.copy_to(back)
    tex.copy_to(array)
    np.testing.assert_array_equal(back, data)
    np.testing.assert_array_equal(array.numpy(), data)
    vectors = wp.Texture2D(wp.array(rng.normal(size=(3, 5, 2)), dtype=wp.vec2))
    assert (vectors.num_channels, vectors.width, vectors.height) == (2, 5, 3)


def test_textures_come_and_go():
    """Objects are forgotten when nobody holds them."""
    from warp_like.runtime.arrays import objects

    gc.collect()
    before = len(objects._descriptors)
    data = np.zeros((16, 16), np.float32)
    for _ in range(50):
        wp.Texture2D(data)
    gc.collect()
    assert len(objects._descriptors) == before


Z = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.Texture2D([1.0]), ValueError, "`data` is a wp.array or a NumPy array"),
        (lambda: wp.Texture2D(np.zeros(3, np.float32)), ValueError, "`data` has 2 axes"),
        (lambda: wp.Texture2D(np.zeros((2, 2))), ValueError, "float16 or float32, got float64"),
        (lambda: wp.Texture2D(np.zeros((2, 2, 3), np.float32)), ValueError, "`num_channels` is 1, 2 or 4"),
        (lambda: wp.Texture2D(np.zeros((0, 2), np.float32)), ValueError, "a texel at least"),
        (lambda: wp.Texture2D(Z, width=4), ValueError, "`width` is 4, and the data have 3"),
        (lambda: wp.Texture2D(Z, dtype=wp.uint8), ValueError, "`dtype` is uint8, and the data are float32"),
        (lambda: wp.Texture2D(width=4, height=4), ValueError, "`dtype` says what texels are"),
        (lambda: wp.Texture2D(width=4, dtype=float), ValueError, "`height` is a positive number"),
        (lambda: wp.Texture2D(Z, filter_mode=7), ValueError, "`filter_mode` is a TextureFilterMode, got 7"),
        (lambda: wp.Texture2D(Z, address_mode_v=9), ValueError, "`address_mode_v` is a TextureAddressMode"),
        (lambda: wp.Texture2D(Z, num_mip_levels=3), ValueError, "`num_mip_levels` is 0 .all. to 2, got 3"),
        (lambda: wp.Texture2D(Z.astype(np.int32), filter_mode=LINEAR), ValueError, "32 bits are not filtered"),
        (
            lambda: wp.Texture2D(width=4, height=4, dtype=float, num_mip_levels=2),
            ValueError,
            "`data`, which is missing",
        ),
        (lambda: wp.Texture2D(Z).copy_from(np.zeros((3, 3), np.float32)), ValueError, "the texture has shape"),
        (lambda: wp.Texture2D(Z, num_mip_levels=0).copy_from(Z), RuntimeError, "several levels"),
        (lambda: wp.Texture(Z), TypeError, "Texture2D"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


@wp.kernel
def wrong_dtype(tex: wp.Texture2D, out: wp.array(dtype=wp.vec3)):
    out[0] = wp.texture_sample(tex, wp.vec2(0.5, 0.5), dtype=wp.vec3)


@wp.kernel
def wrong_place(tex: wp.Texture2D, out: F):
    out[0] = wp.texture_sample(tex, wp.vec3(0.5, 0.5, 0.5), dtype=float)


@wp.kernel
def wrong_texture(x: float, out: F):
    out[0] = wp.texture_sample(x, 0.5, dtype=float)


@pytest.mark.parametrize(
    ("kernel", "given", "message"),
    [
        (wrong_dtype, [wp.Texture2D(Z), wp.zeros(1, dtype=wp.vec3)], "float, wp.vec2 or wp.vec4, got vec3"),
        (wrong_place, [wp.Texture2D(Z), wp.zeros(1, dtype=float)], "`uv`"),
        (wrong_texture, [1.0, wp.zeros(1, dtype=float)], "takes a wp.Texture1D"),
    ],
)
def test_mistakes_in_kernels(kernel, given, message):
    with pytest.raises(wp.WarpCodegenError, match=message):
        wp.launch(kernel, dim=1, inputs=given)


def test_a_texture_that_is_gone_is_refused():
    tex = wp.Texture1D(np.ones(3, np.float32))
    record = np.zeros(1, wp.Texture1D.numpy_dtype())
    record["id"], record["width"] = int(tex.id), 3
    held = wp.array(record, dtype=wp.Texture1D)
    del tex
    gc.collect()
    gone = held.list()[0]
    with pytest.raises(ValueError, match="texture"):
        sampled(gone, places(9, 1, 1))
