"""Arrays out: views, copies, and which of the two; views are kept and memory lives under them."""

import gc
import itertools
import subprocess
import sys
import weakref

import numpy as np
import pytest

import warp_like as wp
from warp_like.interop.view import as_array

LIBRARIES = ("numpy", "torch", "jax", "paddle")


def export(a, library, **options):
    if library != "numpy":
        pytest.importorskip(library)
    return getattr(a, f"to_{library}")(**options)


def after_pending_calls(function):
    """Call a function once Python has done what waits for its main thread, as it does where a function begins.

    PyTorch frees a tensor without the GIL, so the deleter of the memory below leaves our reference to the main thread.
    A collection right after it finds the array in use. Where JAX is loaded, the collector calls Python first.
    """
    return function()


def address(x):
    if isinstance(x, np.ndarray):
        return x.ctypes.data
    return x.unsafe_buffer_pointer() if hasattr(x, "unsafe_buffer_pointer") else x.data_ptr()


def locked(*shape):
    a = wp.array(np.arange(np.prod(shape)), dtype=float).numpy().reshape(shape)  # NumPy aligns its own by chance
    a.flags.writeable = False
    return as_array(a)


# ---- copy = None, True, False


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("copy", [None, True, False])
def test_view_or_copy(library, copy):
    a = wp.array(np.arange(12.0).reshape(2, 2, 3), dtype=wp.vec3)
    x = export(a, library, copy=copy)
    assert tuple(x.shape) == (2, 2, 3)
    assert (address(x) == a.ptr) == (not copy)
    assert np.array_equal(np.asarray(x), a.numpy())
    if library != "jax" and not copy:  # what JAX looks at must not change
        a.fill_(7.0)
        assert (np.asarray(x) == 7).all()
    elif copy:
        before = np.asarray(x).copy()
        a.fill_(7.0)
        assert np.array_equal(np.asarray(x), before)


LAYOUTS = {
    "strided": lambda: wp.array(np.arange(12.0).reshape(3, 4), dtype=float)[:, ::2],
    "transposed": lambda: wp.array(np.arange(12.0).reshape(3, 4), dtype=float).transpose(),
    "negative": lambda: wp.array(np.arange(4.0), dtype=float)[::-1],
    "unaligned": lambda: wp.array(np.arange(40.0), dtype=float)[1:],
    "read-only": lambda: locked(3, 4),
    "broadcast": lambda: as_array(np.broadcast_to(wp.ones(4).numpy(), (3, 4))),
    "empty": lambda: wp.zeros((0, 3)),
    "single": lambda: wp.zeros(1),
    "column": lambda: wp.array(np.arange(12.0).reshape(3, 4), dtype=float)[:, :1],
}
NEEDS_COPY = {
    "numpy": {},
    "torch": {
        "negative": "has negative strides (-4,), which PyTorch has not",
        "read-only": "is read-only, and PyTorch has no read-only tensors",
        "broadcast": "is read-only, and PyTorch has no read-only tensors",
    },
    "jax": {
        "strided": "has strides (16, 8), and the arrays of JAX have no gaps",
        "column": "has strides (16, 4), and the arrays of JAX have no gaps",
        "broadcast": "has strides (0, 4), and the arrays of JAX have no gaps",
        "negative": "and JAX aligns its arrays to 64 bytes",
        "unaligned": "and JAX aligns its arrays to 64 bytes",
    },
    "paddle": {
        "negative": "has negative strides (-4,), which Paddle has not",
        "read-only": "is read-only, and Paddle has no read-only tensors",
        "broadcast": "is read-only, and Paddle has no read-only tensors",
    },
}


def test_an_old_jax_gets_a_copy_of_a_transposed_array(monkeypatch):
    """It would read the elements in the order of the memory."""
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax, "__version_info__", (0, 7, 2))
    a = LAYOUTS["transposed"]()
    assert np.array_equal(np.asarray(a.to_jax()), a.numpy())
    assert address(a.to_jax()) != a.ptr
    assert np.array_equal(np.asarray(wp.to_jax(a)), a.numpy())
    with pytest.raises(ValueError, match="JAX before 0.8 takes only rows"):
        a.to_jax(copy=False)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(library, layout):
    if layout == "transposed" and library == "jax" and pytest.importorskip("jax").__version_info__ < (0, 8):
        pytest.skip("this JAX gets a copy")
    a = LAYOUTS[layout]()
    expected = np.array(a.numpy())
    assert np.array_equal(np.asarray(export(a, library)), expected)
    assert np.array_equal(np.asarray(export(a, library, copy=True)), expected)
    reason = NEEDS_COPY[library].get(layout)
    if reason is None:
        x = export(a, library, copy=False)
        assert np.array_equal(np.asarray(x), expected)
        assert address(x) == a.ptr or a.size == 0
        return
    with pytest.raises(ValueError) as error:
        export(a, library, copy=False)
    assert str(error.value).startswith(f"to_{library}(copy=False): {a!r} can't be shared: it ")
    assert str(error.value).endswith(reason)
    x = export(a, library, copy=None)
    assert address(x) != a.ptr


def test_a_read_only_array_is_a_view_for_jax():
    jax = pytest.importorskip("jax")
    a = wp.from_jax(jax.numpy.arange(3.0))
    assert a.readonly
    assert address(a.to_jax(copy=False)) == a.ptr
    assert not a.to_numpy(copy=False).flags.writeable


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_what_no_copy_helps(library):
    @wp.struct
    class Pair:
        x: float
        y: float

    with pytest.raises(TypeError, match=r"holds structs, for which \w+ has no dtype"):
        export(wp.zeros(2, dtype=Pair), library)
    with pytest.raises(TypeError, match="copy is None, True or False, got 'yes'"):
        export(wp.zeros(2), library, copy="yes")
    assert wp.zeros(2, dtype=Pair).to_numpy(copy=True).dtype.names == ("x", "y")
    with pytest.raises(TypeError, match="copy is None, True or False, got 1"):
        wp.zeros(2).to_numpy(copy=1)


def test_paddle_has_no_uint16():
    paddle = pytest.importorskip("paddle")
    assert str(paddle.uint16) == "paddle.bfloat16"  # a view would show other numbers
    for call in (lambda a: a.to_paddle(copy=True), wp.to_paddle):
        with pytest.raises(TypeError, match="Paddle has no dtype for"):
            call(wp.zeros(2, dtype=wp.uint16))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_dtype(library):
    for name in ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"):
        a = wp.ones(3, dtype=getattr(wp, name))
        narrowed = library == "jax" and name.endswith("64")
        for copy in (None, True, False):
            if narrowed and copy is False:
                with pytest.raises(ValueError, match=f"it holds {name}, which JAX makes {name[:-2]}32 unless"):
                    export(a, library, copy=copy)
                continue
            x = export(a, library, copy=copy)
            assert str(x.dtype).rpartition(".")[2] == (name[:-2] + "32" if narrowed else name)
            assert np.asarray(x).tolist() == [1, 1, 1]
    a = wp.full(3, 1.5, dtype=wp.bfloat16)
    x = export(a, library)
    assert address(x) == a.ptr
    values = x.view(np.uint16) == 0x3FC0 if library == "numpy" else x == 1.5
    assert bool(values.all())


def test_jax_keeps_64_bits_when_told_to():
    jax = pytest.importorskip("jax")
    a = wp.ones(8, dtype=wp.float64)
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enable_x64(True):
        x = a.to_jax(copy=False)
        assert x.unsafe_buffer_pointer() == a.ptr
        assert x.dtype == np.float64


def test_another_device():
    torch = pytest.importorskip("torch")
    a = wp.ones(3)
    assert a.to_torch(device="cpu").data_ptr() == a.ptr
    assert a.to_torch(device=torch.device("cpu"), copy=True).data_ptr() != a.ptr
    assert a.to_torch(device="meta").shape == (3,)
    with pytest.raises(ValueError, match="it lies on cpu, and the result is to lie on meta"):
        a.to_torch(device="meta", copy=False)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"to_torch\(\): PyTorch can't use device cuda"):
            a.to_torch(device="cuda")


# ---- into an array


def test_from_numpy_copies_in():
    a = wp.zeros((2, 2), dtype=wp.vec3)
    a.from_numpy(np.arange(12.0).reshape(2, 2, 3))
    assert a[1, 1] == (9, 10, 11)
    b = wp.zeros((2, 3), dtype=wp.int8).transpose()
    b.from_numpy(np.arange(6, dtype=np.int64).reshape(3, 2))
    assert b.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    half = wp.full(2, 1.5, dtype=wp.bfloat16)
    half.from_numpy(half.to_numpy(copy=True))  # bits, as they came
    assert half.list() == [1.5, 1.5]
    half.from_numpy(np.array([2.0, 3.0]))
    assert half.list() == [2.0, 3.0]


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 1, 3), (2, 3, 1), ()])
def test_shapes_must_match_exactly(shape):
    torch = pytest.importorskip("torch")
    a = wp.zeros(2, dtype=wp.vec3)
    for name, data in (("numpy", np.zeros(shape)), ("torch", torch.zeros(shape))):
        with pytest.raises(ValueError) as error:
            getattr(a, f"from_{name}")(data)
        expected = f"array(shape=(2,), dtype=vec3f) takes data of shape (2, 3), got shape {shape}"
        assert str(error.value) == f"from_{name}(): {expected}"


def test_numbers_that_do_not_fit():
    torch = pytest.importorskip("torch")
    a = wp.zeros(2, dtype=wp.uint8)
    for fill, make in ((a.from_numpy, np.array), (a.from_torch, torch.tensor)):
        with pytest.warns(UserWarning, match="300 does not fit uint8"):
            fill(make([1, 300]))
        assert a.list() == [1, 44]
        with pytest.warns(UserWarning, match="fractions are cut off"):
            fill(make([3.0, 1.5]))
        assert a.list() == [3, 1]
        fill(make([1.0, 2.0]))
        assert a.list() == [1, 2]
    with pytest.raises(TypeError, match="needs a NumPy array, got list"):
        a.from_numpy([1, 2])
    with pytest.raises(TypeError, match="needs a PyTorch tensor, got ndarray"):
        a.from_torch(np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        locked(2).from_numpy(np.zeros(2))


def test_from_torch_copies_in():
    torch = pytest.importorskip("torch")
    a = wp.zeros(3)
    a.from_torch(torch.arange(3.0, dtype=torch.float64, requires_grad=True))
    assert a.list() == [0, 1, 2]
    a.from_torch(torch.ones(3, dtype=torch.bfloat16))
    assert a.list() == [1, 1, 1]
    a.from_torch(torch.arange(6.0)[::2])
    assert a.list() == [0, 2, 4]
    a.from_torch(torch._neg_view(torch.ones(3)))
    assert a.list() == [-1, -1, -1]


def test_copying_in_is_a_write_that_a_tape_sees():
    @wp.kernel
    def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    x, y = wp.ones(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, [x], [y])
        x.from_numpy(np.full(2, 5.0))
    tape.backward(grads={y: wp.ones(2)})
    assert x.list() == [5, 5]
    assert x.grad.list() == [2, 2]  # the derivative where the launch read it, at 1


# ---- views are kept


@pytest.mark.parametrize("library", ["torch", "paddle"])
def test_a_view_is_given_out_again(library):
    a = wp.zeros((2, 3))
    x = export(a, library)
    assert export(a, library) is x
    assert export(a, library, copy=False) is x
    assert export(a, library, copy=True) is not x
    assert getattr(wp, f"to_{library}")(a) is x
    assert export(a.transpose(), library) is not x
    identity = id(x)
    del x
    assert id(export(a, library)) == identity  # it has waited


def test_a_view_of_which_something_else_was_made_is_not():
    torch = pytest.importorskip("torch")
    for change in (
        lambda t: t.requires_grad_(),
        lambda t: t.t_(),
        lambda t: t.resize_(1),
        lambda t: setattr(t, "data", torch.ones(2, 3)),
        lambda t: t.unsqueeze_(0),
    ):
        a = wp.zeros((2, 3))
        t = a.to_torch()
        change(t)
        again = a.to_torch()
        assert again is not t
        assert (tuple(again.shape), again.stride(), again.requires_grad) == ((2, 3), (3, 1), False)
        assert again.data_ptr() == a.ptr
    paddle = pytest.importorskip("paddle")
    for change in (lambda t: setattr(t, "stop_gradient", False), lambda t: t.reshape_([6]), lambda t: t._clear_data()):
        a = wp.zeros((2, 3))
        t = a.to_paddle()
        change(t)
        assert a.to_paddle() is not t
        assert a.to_paddle().data_ptr() == a.ptr
    with torch.inference_mode():
        a = wp.zeros(2)
        a.to_torch()
    assert not a.to_torch().is_inference()
    assert paddle is not None


def test_numpy_views_do_not_share_shape_and_flags():
    a = wp.zeros((2, 3))
    x = a.numpy()
    x.shape = (6,)
    x.flags.writeable = False
    assert a.numpy().shape == (2, 3)
    assert a.numpy().flags.writeable
    assert locked(3).numpy().flags.writeable is False


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_keeps_an_array_alive_but_its_users(library):
    a = wp.zeros(1000)
    array_gone, memory_gone = weakref.ref(a), weakref.ref(a.owner)
    x = export(a, library)
    del a
    assert array_gone() is None or library == "jax"  # without the collector: there is no cycle
    assert memory_gone() is not None
    assert np.asarray(x).sum() == 0
    del x
    gc.collect()
    assert memory_gone() is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_cycles_through_an_owner_are_collected(library):
    class Owner(np.ndarray):
        pass

    owner = np.zeros(1000, np.float32).view(Owner)
    owner.array = as_array(owner)
    gone = weakref.ref(owner.array)
    export(owner.array, library)
    del owner
    after_pending_calls(gc.collect)
    assert gone() is None


def test_deleter_that_knows_the_array():
    pytest.importorskip("torch")
    memory, freed = np.zeros(4, np.float32), []
    box = {}

    def deleter(ptr, size):
        freed.append((ptr, size, len(box)))

    box["a"] = wp.array(ptr=memory.ctypes.data, shape=4, dtype=float, deleter=deleter)
    box["a"].to_torch()
    box["a"].numpy()
    box.clear()
    gc.collect()
    assert freed == [(memory.ctypes.data, 16, 0)]


# ---- lifetimes


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_every_order_of_deletion(library, order):
    """An array, a view of it in a library, an array over that view: the last one reads what was written."""
    a = wp.full(100, 3.0)
    memory_gone = weakref.ref(a.owner)
    seen = export(a, library)
    chain = [a, seen, as_array(seen).reshape(10, 10).transpose()]
    del a, seen
    for gone in order[:2]:
        chain[gone] = None
        gc.collect()
        filler = [wp.full(100, 9.0) for _ in range(3)]  # would land in memory given back too early
        del filler
    last = chain[order[2]]
    values = last.numpy() if isinstance(last, wp.array) else np.asarray(last)
    assert values.sum() == 300
    del last, values
    chain.clear()
    gc.collect()
    assert memory_gone() is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_clean_exit_with_views_alive(library):
    if library != "numpy":
        pytest.importorskip(library)
    code = (
        "import sys, warp_like as wp\n"
        f"export = lambda a, **k: a.to_{library}(**k)\n"
        "a = wp.zeros((3, 4), requires_grad=True); b = a.transpose(); c = wp.zeros(5)[::-1]\n"
        "views = [export(a), export(b), export(c), export(a, copy=True)]\n"
        f"views.append(wp.to_{library}(a)) if hasattr(wp, 'to_{library}') else None\n"
        "arrays = [wp.from_dlpack(views[0])]\n"
        "cycle = [views, arrays, a]; cycle.append(cycle); a.cycle = cycle\n"
        "sys.modules['kept_to_the_end'] = cycle; wp.kept = cycle\n"
        "print('end')"
    )
    out = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True)
    noise = [line for line in out.stderr.splitlines() if "ccache" not in line and "warnings.warn" not in line]
    assert (out.returncode, out.stdout.strip(), noise) == (0, "end", [])


@pytest.mark.parametrize("origin", LIBRARIES)
@pytest.mark.parametrize("target", LIBRARIES)
def test_from_each_library_to_each(origin, target):
    """Also Paddle to JAX, which the two can't do between themselves. The memory stays where it is."""
    x = export(wp.array(np.arange(6.0).reshape(2, 3), dtype=float), origin)
    a = as_array(x)
    immutable = origin == "jax"
    assert a.readonly == immutable
    if immutable and target in ("torch", "paddle"):
        with pytest.raises(ValueError, match="is read-only"):
            export(a, target, copy=False)
        y = export(a, target)
    else:
        y = export(a, target, copy=False)
        assert address(y) == address(x)
    del x, a
    gc.collect()
    assert np.asarray(y).tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- writes that the libraries notice


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


def version(t):
    return t._version if hasattr(t, "_version") else t._inplace_version()


@pytest.mark.parametrize("library", ["torch", "paddle"])
@pytest.mark.parametrize("through", ["to", "gradient", "other"])
def test_writes_to_an_array_count_as_changes_of_its_views(library, through):
    pytest.importorskip(library)
    a = wp.ones((2, 3), requires_grad=through == "gradient")
    t = getattr(wp, f"to_{library}")(a) if through == "gradient" else export(a, library)
    if through == "other":  # of another array over the same memory
        t = export(a.transpose()[1:], library)
    alias = t.detach()
    for write in (
        lambda: wp.launch(double, 3, [a[0]]),
        lambda: wp.launch(double, 6, [a.reshape(6)]),
        lambda: wp.launch(double, 6, [a.view(wp.float32).flatten()]),
        lambda: wp.launch(double, 6, [wp.array(a, copy=False).flatten()]),
        lambda: a.fill_(1.0),
        lambda: a.assign(np.ones((2, 3))),
    ):
        before = version(t)
        write()
        assert version(t) == before + 1
        assert version(alias) == version(t)
    before = version(t)
    wp.launch(double, 3, [wp.clone(a)[0]])
    assert version(t) == before


def test_torch_notices_that_a_saved_view_was_overwritten():
    torch = pytest.importorskip("torch")
    a = wp.ones(3)
    w = torch.ones(3, requires_grad=True)
    y = (a.to_torch() * w).sum()
    wp.launch(double, 3, [a])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_views_of_tensors_write_to_the_tensor():
    """Other arrays over a tensor's memory are told apart from ours."""
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 3)
    a = wp.from_torch(t)
    for view in (
        a.view(wp.float32),
        wp.array(a, copy=False),
        wp.array(t, copy=False),
        a.view(wp.vec3).view(wp.float32),
    ):
        before = t._version
        wp.launch(double, 6, [view.flatten()])
        assert t._version == before + 1


def test_watched_memory_forgets_views_that_are_gone():
    torch = pytest.importorskip("torch")
    a = wp.ones(3)
    t = wp.to_torch(a, requires_grad=True)
    assert [weak() is t for weak in a.owner.watchers] == [True]
    del t
    gc.collect()
    wp.launch(double, 3, [a])
    assert a.owner.watchers is None
    kept = a.to_torch()
    for _ in range(5):
        wp.to_torch(a, requires_grad=True)
    assert len(a.owner.watchers) <= 2
    with torch.inference_mode():
        b = wp.ones(3)
        inside = b.to_torch()
        wp.launch(double, 3, [b])
        assert inside.tolist() == [2, 2, 2]
    assert kept.tolist() == [2, 2, 2]


# ---- without Python


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_views_are_what_the_protocols_give(layout):
    a = LAYOUTS[layout]()
    x, y = a.numpy(), a._show()
    assert (x.shape, x.dtype, x.flags.writeable) == (y.shape, y.dtype, y.flags.writeable)
    assert x.flags.c_contiguous == y.flags.c_contiguous
    assert x.flags.aligned
    assert not x.flags.owndata
    if a.size:
        assert (x.ctypes.data, x.strides) == (y.ctypes.data, y.strides)
    np.testing.assert_array_equal(x, y)


@wp.struct
class Ball:
    place: wp.vec3
    weight: wp.float64


def test_numpy_views_of_structs_and_halves():
    balls = wp.zeros(3, dtype=Ball)
    records = balls.numpy()
    records["weight"] = [1.0, 2.0, 3.0]
    records["place"][1] = 5.0
    assert balls.numpy()["weight"].tolist() == [1, 2, 3]
    assert balls.numpy()[1]["place"].tolist() == [5, 5, 5]
    assert wp.full(2, 1.0, dtype=wp.bfloat16).numpy().tolist() == [0x3F80, 0x3F80]
    assert wp.full((2, 2), 1.5, dtype=wp.float16).numpy().dtype == np.float16


@pytest.mark.parametrize("library", ["numpy", "torch", "paddle"])
def test_views_are_made_again_and_again_without_leaks(library):
    a = wp.zeros((3, 4), dtype=wp.vec3)
    owner = weakref.ref(a.owner)
    before = sys.getrefcount(a.owner), sys.getrefcount(a)
    for _ in range(100):
        b = a[1:]
        export(b, library)
        del b
    gc.collect()
    export(wp.zeros(1), library)  # gives back what deleters left behind
    assert (sys.getrefcount(a.owner), sys.getrefcount(a)) == before
    kept = export(a, library)
    del a
    gc.collect()
    assert owner() is not None
    del kept
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("library", ["torch", "paddle"])
def test_a_kept_view_is_checked_before_it_is_given_out(library):
    framework = pytest.importorskip(library)
    a = wp.array(np.arange(6.0).reshape(2, 3), dtype=float)
    t = export(a, library)
    assert export(a, library) is t
    if library == "torch":
        t.t_()
        assert export(a, library) is not t
        t = export(a, library)
        t.set_(framework.zeros(2, 3))
    else:
        t.reshape_([3, 2])
    fresh = export(a, library)
    assert fresh is not t
    assert (tuple(fresh.shape), fresh.data_ptr()) == ((2, 3), a.ptr)


def test_views_in_a_forked_child():
    pytest.importorskip("torch")
    code = (
        "import os, sys, numpy as np, torch, warp_like as wp\n"
        "a = wp.array(np.arange(4.0), dtype=float); t = wp.to_torch(a); x = a.numpy()\n"
        "child = os.fork()\n"
        "b = wp.full(4, 2.0)\n"
        "same = wp.to_torch(a) is t and a.numpy().ctypes.data == x.ctypes.data\n"
        "right = (wp.to_torch(b) + wp.to_torch(a)).tolist() == [2, 3, 4, 5] and b.numpy().sum() == 8\n"
        "del a, b, t, x\n"
        "if child == 0: os._exit(0 if same and right else 1)\n"
        "print(same and right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    out = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True)
    assert (out.returncode, out.stdout.strip(), out.stderr) == (0, "True 0", "")
