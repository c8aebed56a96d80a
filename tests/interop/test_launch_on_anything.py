"""Arrays of every library as launch arguments: what other frameworks of this kind read wrongly, copy or crash on."""

import threading

import numpy as np
import pytest

import warp_like as wp
from tests.interop.capsules import Capsule
from warp_like.ir import types as ir

LIBRARIES = ("numpy", "torch", "jax", "paddle")


def make(library, values, dtype="float32"):
    """An array of the library, holding ``values``."""
    values = np.asarray(values)
    if library == "numpy":
        return values.astype(dtype)
    framework = pytest.importorskip(library)
    if library == "torch":
        return framework.tensor(values.tolist(), dtype=getattr(framework, dtype))
    if library == "jax":
        return framework.numpy.asarray(values, dtype=dtype)
    return framework.to_tensor(values).astype(dtype)


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def clear(x: wp.array(dtype=float)):
    x[wp.tid()] = 0.0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 3)])
def test_another_number_of_dimensions_is_refused(library, shape):
    x, out = make(library, np.ones(shape)), np.zeros(3, np.float32)
    with pytest.raises(TypeError, match=r"argument 1 `x`: expected array1d\[float32\], got array2d\[float32\]"):
        wp.launch(double, 3, [x, out])
    with pytest.raises(TypeError, match=r"argument 2 `y`: expected array1d\[float32\]"):
        wp.launch(double, 3, [out, x])
    assert not out.any()


@pytest.mark.parametrize("library", LIBRARIES)
def test_another_dtype_is_refused(library):
    x = make(library, [1, 2, 3], "int32")
    with pytest.raises(TypeError, match=r"expected array1d\[float32\], got .*int32 and shape \(3,\)"):
        wp.launch(double, 3, [x, np.zeros(3, np.float32)])


def test_what_nobody_may_write_is_refused():
    jax = pytest.importorskip("jax")
    locked = np.ones(3, np.float32)
    locked.flags.writeable = False
    for x in (locked, np.broadcast_to(np.float32(1), 3), jax.numpy.ones(3), memoryview(bytes(12)).cast("f")):
        with pytest.raises(ValueError, match="the kernel writes this array, and the one given is read-only"):
            wp.launch(clear, 3, [x])
        out = np.zeros(3, np.float32)
        wp.launch(double, 3, [x, out])
        assert np.array_equal(out, 2 * np.asarray(x))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "dtype",
    [str(t) for t in ir.SCALARS],
)
def test_every_dtype_directly(library, dtype):
    if (library, dtype) in (("numpy", "bfloat16"), ("paddle", "uint16")) or (library == "jax" and dtype.endswith("64")):
        pytest.skip("the library has no such arrays")
    if library == "paddle" and dtype in ("uint32", "uint64"):
        pytest.skip("Paddle converts nothing to it")

    @wp.kernel(module="unique")
    def copy(x: wp.array(dtype=getattr(wp, dtype)), y: wp.array(dtype=getattr(wp, dtype))):
        i = wp.tid()
        y[i] = x[i]

    x = make(library, [1, 0, 1], dtype)
    y = wp.zeros(3, dtype=getattr(wp, dtype))
    wp.launch(copy, 3, [x, y])
    assert y.list() == [1, 0, 1]


@pytest.mark.parametrize("library", LIBRARIES)
def test_complex_numbers_are_refused(library):
    x = make(library, [1, 2], "complex64")
    with pytest.raises(TypeError, match=r"argument 1 `x`: expected array1d\[float32\], got .*complex64"):
        wp.launch(double, 2, [x, np.zeros(2, np.float32)])


@pytest.mark.parametrize("library", LIBRARIES)
def test_single_elements_and_many_dimensions(library):
    out = np.zeros(1, np.float32)
    wp.launch(double, 1, [make(library, np.float32(4)), out])
    assert out[0] == 8

    @wp.kernel
    def trace(m: wp.array4d(dtype=wp.mat22), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.trace(m[i, 0, 0, 0])

    six = np.arange(8, dtype=np.float32).reshape(2, 1, 1, 1, 2, 2)
    sums = np.zeros(2, np.float32)
    wp.launch(trace, 2, [make(library, six), sums])
    assert sums.tolist() == [3, 11]
    with pytest.raises(TypeError, match="expected array1d"):
        wp.launch(double, 1, [make(library, np.ones((1,) * 5)), out])
    wp.launch(double, 0, [make(library, np.zeros(0)), out])


@pytest.mark.parametrize("library", ["torch", "paddle"])
def test_leaves_are_arguments_like_any_other(library):
    x = make(library, [1.0, 2.0])
    if library == "torch":
        x.requires_grad_()
    else:
        x.stop_gradient = False
    out = make(library, [0.0, 0.0])
    wp.launch(double, 2, [x, out])
    assert out.tolist() == [2, 4]
    assert x.grad is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_ways_in(library):
    x = make(library, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    a = wp.array(x, dtype=wp.vec3)
    assert a.list() == [(1, 2, 3), (4, 5, 6)]
    assert wp.clone(x).numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    to = wp.zeros((2, 3))
    wp.copy(to, x)
    assert to.numpy().sum() == 21
    to.assign(x)
    assert to.numpy().sum() == 21

    @wp.struct
    class Points:
        at: wp.array(dtype=wp.vec3)
        scale: float

    @wp.kernel
    def lengths(p: Points, out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = p.scale * wp.dot(p.at[i], p.at[i])

    points = Points()
    points.at, points.scale = x, 2.0
    out = np.zeros(2, np.float32)
    wp.launch(lengths, 2, [points, out])
    assert out.tolist() == [28, 154]
    for wrong in (make(library, np.ones((2, 3)), "int32"), make(library, np.ones((2, 2)))):
        with pytest.raises(
            TypeError, match=r"field `at` of struct Points is array1d\[vec3\[float32\]\], got .*: expected"
        ):
            points.at = wrong
    with pytest.raises(TypeError, match=r"is array1d\[vec3\[float32\]\], got array2d\[vec3\[float32\]\]"):
        points.at = make(library, np.ones((2, 2, 3)))


def test_a_tensor_in_a_struct_gets_its_gradient():
    torch = pytest.importorskip("torch")

    @wp.struct
    class Holder:
        x: wp.array(dtype=float)

    @wp.kernel
    def squares(h: Holder, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = h.x[i] * h.x[i]

    holder, y = Holder(), wp.zeros(2, requires_grad=True)
    holder.x = x = torch.tensor([1.0, 2.0], requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, 2, [holder, y])
    tape.backward(grads={y: wp.ones(2)})
    assert x.grad.tolist() == [2, 4]


def test_the_callers_gradient_stays_as_it_is():
    torch = pytest.importorskip("torch")

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            wp.launch(double, len(x), [x, y])
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad_y):
            x, y = ctx.saved_tensors
            grad_x = torch.zeros_like(x)
            wp.launch(double, len(x), [x, y], adj_inputs=[grad_x, grad_y], adjoint=True)
            return grad_x

    x = torch.ones(3, requires_grad=True)
    seed = torch.full((3,), 5.0)
    Double.apply(x).backward(seed)
    assert seed.tolist() == [5, 5, 5]
    assert x.grad.tolist() == [10, 10, 10]

    def inside(grad):  # a backward pass within a backward pass
        with torch.enable_grad():
            z = torch.ones(3, requires_grad=True)
            Double.apply(z).sum().backward()
        return grad * z.grad

    x.grad = None
    y = Double.apply(x)
    y.register_hook(inside)
    y.sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


@pytest.mark.parametrize("library", ["torch", "paddle"])
def test_threads_export_and_launch(library):
    pytest.importorskip(library)
    arrays = [wp.zeros(16) for _ in range(4)]
    failures = []

    def work(a):
        try:
            for i in range(200):
                t = getattr(a, f"to_{library}")()
                wp.launch(double, 16, [t, t])
                a.fill_(float(i))
                assert t.data_ptr() == a.ptr
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


class Speaker:
    """An object of which nothing is known but that it speaks DLPack."""

    def __init__(self, base, *, versions=True, device=(1, 0)):
        self.base, self.versions, self.device = base, versions, device
        self.asked = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked += 1
        if options and not self.versions:
            raise TypeError("what is max_version?")
        return self.base.__dlpack__(**options)


@wp.kernel
def turn(v: wp.array2d(dtype=wp.vec2), w: wp.array2d(dtype=wp.vec2)):
    i, j = wp.tid()
    w[i, j] = wp.vec2(-v[i, j][1], v[i, j][0])


def test_objects_that_speak_dlpack_are_launched_on_directly():
    """Launches read their capsules in native code, and keep them until they have ended."""
    y, z = wp.zeros(40), wp.zeros((3, 4), dtype=wp.vec2)
    wp.launch(double, dim=40, inputs=[wp.zeros(40), y])
    wp.launch(double, dim=40, inputs=[wp.zeros(80)[::2], y])  # the variant for strides is there, too
    wp.launch(turn, dim=(3, 4), inputs=[z, z])
    a = np.random.default_rng(0).random(80).astype(np.float32)
    grid = np.random.default_rng(1).random((3, 4, 2)).astype(np.float32)
    for versions in (True, False):
        x = Speaker(a[::-2], versions=versions)
        assert double.fast.try_launch(40, [x, y], [], None)
        np.testing.assert_array_equal(y.numpy(), 2.0 * a[::-2])
        assert x.asked == (1 if versions else 2)
        assert turn.fast.try_launch((3, 4), [Speaker(grid, versions=versions), z], [], None)
        np.testing.assert_array_equal(z.numpy(), np.stack([-grid[..., 1], grid[..., 0]], axis=-1))
    out = np.zeros(40, np.float32)
    assert double.fast.try_launch(40, [y, Speaker(out)], [], None)
    np.testing.assert_array_equal(out, 2.0 * y.numpy())
    packed = Capsule(a.ctypes.data, (40,))  # no strides; its deleter is the capsule's, which frees nothing
    assert double.fast.try_launch(40, [packed, y], [], None)
    np.testing.assert_array_equal(y.numpy(), 2.0 * a[:40])
    assert not packed.is_used
    assert double.fast.try_launch(0, [Speaker(np.zeros(0, np.float32)), y], [], None)


def test_objects_that_speak_dlpack_wrongly_are_refused():
    y = wp.full(4, 7.0)
    wp.launch(double, dim=4, inputs=[y, wp.zeros(4)])
    good = np.ones(4, np.float32)
    fixed = good.copy()
    fixed.flags.writeable = False
    at = good.ctypes.data

    class Broken(Speaker):
        def __dlpack__(self, **options):
            raise KeyError("no")

    class NoCapsule(Speaker):
        def __dlpack__(self, **options):
            return 5

    bad = [
        (Speaker(good.astype(np.float64)), TypeError),
        (Speaker(good.reshape(2, 2)), TypeError),
        (Speaker(good, device=(8, 0)), ValueError),
        (Broken(good), KeyError),
        (NoCapsule(good), TypeError),
        (Capsule(at, (4,), version=(9, 0)), ValueError),
        (Capsule(at, (1 << 60, 1 << 60)[:1], (1 << 40,)), ValueError),
        (Capsule(0, (4,)), ValueError),
        (Capsule(at, (-4,)), ValueError),
        (Capsule(at, None, ndim=1), ValueError),
    ]
    for x, error in bad:
        assert not double.fast.try_launch(4, [x, y], [], None)
        with pytest.raises((error, TypeError, ValueError, BufferError)):
            wp.launch(double, dim=4, inputs=[x, y])
    assert not double.fast.try_launch(4, [y, Speaker(fixed)], [], None)
    with pytest.raises(ValueError, match="read-only"):
        wp.launch(double, dim=4, inputs=[y, Speaker(fixed)])
    assert y.list() == [7.0] * 4
    assert fixed.tolist() == [1.0] * 4
