"""PyTorch's tensors without memory, and those that lose it while something of ours looks at them."""

import gc

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")

N = 1 << 16


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[a.inner if isinstance(a, Wrapped) else a for a in args], **(kwargs or {}))


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def freed():
    t = torch.ones(4)
    t.untyped_storage().resize_(0)
    return t


@pytest.mark.filterwarnings("ignore:.*data pointer of FakeTensor")
@pytest.mark.parametrize("make", [fake, freed, lambda: Wrapped(torch.ones(4))])
@pytest.mark.parametrize("written", [False, True])
def test_tensors_without_memory(make, written):
    t, y = make(), torch.full((4,), 7.0)
    with pytest.raises(TypeError, match=r"kernel `double`, argument [12] `[xy]`: .* no memory"):
        wp.launch(double, dim=4, inputs=[y, t] if written else [t, y])
    assert (y == 7.0).all()
    with pytest.raises((TypeError, ValueError), match="no memory"):
        wp.from_torch(t)


def test_tracing_a_launch_says_what_to_do():
    from torch.fx.experimental.proxy_tensor import make_fx

    def f(x):
        y = torch.zeros(4)
        wp.launch(double, dim=4, inputs=[x, y])
        return y

    with pytest.raises(TypeError, match=r"make the kernel an operator \(wp.torch_op\)"):
        make_fx(f, tracing_mode="fake")(torch.ones(4))
    op = wp.torch_op(double, shapes={"y": lambda x: x.shape})
    traced = make_fx(lambda x: op(x), tracing_mode="fake")(torch.ones(4))
    torch.testing.assert_close(traced(torch.ones(4)), torch.full((4,), 2.0))


def resize(t):
    t.resize_(4 * N)


def free(t):
    t.untyped_storage().resize_(0)


def shrink(t):
    t.untyped_storage().resize_(16)


LOSSES = [resize, free, shrink]
GONE = "the memory of an array of shape .* is gone|the array's memory is gone"


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("which", [0, 1])
def test_recorded_launches_and_graphs(lose, which):
    for again in (recorded, captured):
        tensors = torch.ones(N), torch.zeros(N)
        run = again(tensors)
        run()
        assert (tensors[1] == 2.0).all()
        lose(tensors[which])
        with pytest.raises(RuntimeError, match=GONE):
            run()


def recorded(tensors):
    return wp.launch(double, dim=N, inputs=list(tensors), record_cmd=True).launch


def captured(tensors):
    with wp.ScopedCapture() as capture:
        wp.launch(double, dim=N, inputs=list(tensors))
    return lambda: wp.capture_launch(capture.graph)


USES = {
    "launch": lambda a: wp.launch(double, dim=N, inputs=[a, wp.zeros(N, dtype=float)]),
    "fill": lambda a: a.fill_(3.0),
    "zero": lambda a: a.zero_(),
    "numpy": lambda a: a.numpy(),
    "asarray": np.asarray,
    "list": lambda a: a.list(),
    "element": lambda a: a[3],
    "to_torch": wp.to_torch,
    "dlpack": lambda a: a.__dlpack__(),
    "interface": lambda a: a.__array_interface__,
    "buffer": memoryview,
    "clone": wp.clone,
    "copy": lambda a: wp.copy(wp.zeros(N, dtype=float), a),
    "copy to": lambda a: wp.copy(a, wp.zeros(N, dtype=float)),
    "sum": wp.utils.array_sum,
    "map": lambda a: a * 2.0,
    "address": lambda a: a.ptr,
    "reshape": lambda a: a.reshape((2, N // 2)).numpy(),
    "assign": lambda a: a.assign(np.zeros(N, np.float32)),
    "scan": lambda a: wp.utils.array_scan(a, wp.zeros(N, dtype=float)),
}


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:], lambda a: a.reshape(N)])
@pytest.mark.parametrize("use", USES)
def test_arrays(use, view, lose):
    t = torch.ones(N)
    a = view(wp.from_torch(t))
    assert a.has_memory
    lose(t)
    assert not a.has_memory
    with pytest.raises(RuntimeError, match=GONE):
        USES[use](a)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("lose", LOSSES)
def test_of_tensors_with_a_gradient_and_of_results(lose, requires_grad):
    leaf = torch.ones(N, requires_grad=requires_grad)
    for t in (leaf, leaf * 2.0):
        a = wp.from_torch(t, requires_grad=False)
        lose(t.data if lose is resize else t)
        if lose is not resize:  # `t.data` is another tensor of the same storage
            assert not a.has_memory


def other_memory(t):
    t.set_(torch.full((N,), 5.0))


def other_data(t):
    t.data = torch.full((N,), 5.0)


@pytest.mark.parametrize("move", [other_memory, other_data])
def test_a_tensor_that_points_elsewhere_leaves_its_memory_alive(move):
    x, y = torch.ones(N), torch.zeros(N)
    command = wp.launch(double, dim=N, inputs=[x, y], record_cmd=True)
    a = wp.from_torch(x)
    move(x)
    gc.collect()
    junk = torch.zeros(N)
    command.launch()
    assert (y == 2.0).all()
    a.fill_(3.0)
    assert a.has_memory
    assert not junk.any()
    assert (x == 5.0).all()
    part = a[: N // 2].reshape((2, N // 4))
    assert part.has_memory
    part.fill_(4.0)
    command.launch()
    assert (y[: N // 2] == 8.0).all()
    assert (y[N // 2 :] == 6.0).all()


def test_memory_that_came_back_is_used_again():
    t = torch.ones(N)
    a = wp.from_torch(t)
    free(t)
    assert not a.has_memory
    t.untyped_storage().resize_(4 * N)
    if t.data_ptr() == a_address(a):
        a.fill_(2.0)
        assert (t == 2.0).all()


def a_address(a):
    return a.ptr if a.has_memory else None


def test_arrays_of_other_owners_have_their_memory():
    for a in (wp.zeros(3), wp.array(np.zeros(3), copy=False), wp.from_torch(torch.zeros(0)), wp.zeros(0)):
        assert a.has_memory
