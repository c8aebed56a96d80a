"""PyTorch's tensors without memory, and those that lose it while something of ours looks at them."""

import gc

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, name

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


def recorded(x, y):
    return wp.launch(double, dim=N, inputs=[x, y], record_cmd=True).launch


def recorded_later(x, y):
    command = wp.launch(double, dim=N, inputs=[other(), other()], record_cmd=True)
    command.set_params([x, y])
    return command.launch


def recorded_backward(x, y):
    x, y = wp.from_torch(x), wp.from_torch(y)  # tensors themselves are read anew by each such launch
    gradients = {"adj_inputs": [x], "adj_outputs": [y], "adjoint": True}
    return wp.launch(double, dim=N, inputs=[other()], outputs=[other()], record_cmd=True, **gradients).launch


def captured(x, y):
    with wp.ScopedCapture() as capture:
        wp.launch(double, dim=N, inputs=[x, y])
    return lambda: wp.capture_launch(capture.graph)


def captured_twice(x, y):
    once = captured(x, y)
    with wp.ScopedCapture() as capture:
        once()
    return lambda: wp.capture_launch(capture.graph)


def captured_copy(x, y):
    x, y = wp.from_torch(x), wp.from_torch(y)
    with wp.ScopedCapture() as capture:
        wp.copy(y, x)
        wp.launch(double, dim=N, inputs=[x, y])
    return lambda: wp.capture_launch(capture.graph)


def captured_choice(x, y):
    flag = wp.from_torch(x).view(wp.int32)
    with wp.ScopedCapture() as capture:
        wp.capture_if(flag, on_true=lambda: wp.launch(double, dim=N, inputs=[x, y]))
    return lambda: wp.capture_launch(capture.graph)


def in_a_struct(x, y):
    h = Holder()
    h.x = wp.from_torch(x)
    y = wp.from_torch(y)
    return lambda: wp.launch(double_held, dim=N, inputs=[h, y])


def through_an_indexed_array(x, y):
    x, y = indexed(wp.from_torch(x)), wp.from_torch(y)
    return lambda: wp.launch(double_indexed, dim=N, inputs=[x, y])


def through_views(x, y):
    x, y = wp.from_torch(x)[:], wp.from_torch(y).reshape((2, N // 2)).flatten()
    return lambda: wp.launch(double, dim=N, inputs=[x, y])


def on_a_tape(x, y):
    x, y = wp.from_torch(x, requires_grad=True), wp.from_torch(y, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(double, dim=N, inputs=[x], outputs=[y])

    def again():
        wp.launch(double, dim=N, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(N, dtype=float)})

    return again


BEFORE = [
    recorded,
    recorded_later,
    recorded_backward,
    captured,
    captured_twice,
    captured_copy,
    captured_choice,
    in_a_struct,
    through_an_indexed_array,
    through_views,
    on_a_tape,
]
"""What was made of two tensors before they lose their memory, and runs afterwards."""


@pytest.mark.parametrize(("make", "which", "lose"), crossed(BEFORE, [0, 1], LOSSES, every=2), ids=name)
def test_what_was_made_before_is_refused(make, which, lose):
    tensors = torch.ones(N), torch.zeros(N)
    run = make(*tensors)
    run()
    lose(tensors[which])
    with pytest.raises(RuntimeError, match=GONE):
        run()


@wp.struct
class Holder:
    x: wp.array(dtype=float)


@wp.kernel
def double_held(h: Holder, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = h.x[i] * 2.0


@wp.kernel
def double_indexed(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0


def launch_struct(a):
    h = Holder()
    h.x = a
    wp.launch(double_held, dim=N, inputs=[h, wp.zeros(N, dtype=float)])


def run_captured(work):
    with wp.ScopedCapture() as capture:
        work()
    wp.capture_launch(capture.graph)


def other():
    return wp.zeros(N, dtype=float)


def indexed(a):
    return a[wp.array(np.arange(N, dtype=np.int32))]


USES = {
    "launch": lambda a: wp.launch(double, dim=N, inputs=[a, other()]),
    "launch that writes": lambda a: wp.launch(double, dim=N, inputs=[other(), a]),
    "launch of a struct": launch_struct,
    "launch of an indexed array": lambda a: wp.launch(double_indexed, dim=N, inputs=[indexed(a), other()]),
    "recorded launch": lambda a: wp.launch(double, dim=N, inputs=[a, other()], record_cmd=True).launch(),
    "adjoint launch": lambda a: wp.launch(
        double, dim=N, inputs=[a], outputs=[other()], adj_inputs=[other()], adj_outputs=[other()], adjoint=True
    ),
    "adjoint launch into it": lambda a: wp.launch(
        double, dim=N, inputs=[other()], outputs=[other()], adj_inputs=[a], adj_outputs=[other()], adjoint=True
    ),
    "captured launch": lambda a: run_captured(lambda: wp.launch(double, dim=N, inputs=[a, other()])),
    "captured fill": lambda a: run_captured(lambda: a.fill_(3.0)),
    "captured zero": lambda a: run_captured(a.zero_),
    "captured copy": lambda a: run_captured(lambda: wp.copy(a, other())),
    "captured assign": lambda a: run_captured(lambda: a.assign(np.zeros(N, np.float32))),
    "fill": lambda a: a.fill_(3.0),
    "zero": lambda a: a.zero_(),
    "assign": lambda a: a.assign(np.zeros(N, np.float32)),
    "assign it": lambda a: other().assign(a),
    "assign a list": lambda a: a.assign([0.0] * N),
    "numpy": lambda a: a.numpy(),
    "asarray": np.asarray,
    "list": lambda a: a.list(),
    "element": lambda a: a[3],
    "set an element": lambda a: a.__setitem__(3, 1.0),
    "set a slice": lambda a: a.__setitem__(slice(0, 3), 1.0),
    "set all": lambda a: a.__setitem__(slice(None), other()),
    "iterate": lambda a: next(iter(a)),
    "slice": lambda a: a[2:9].numpy(),
    "slice and fill": lambda a: a[2:9].fill_(1.0),
    "strided slice and fill": lambda a: a[::3].fill_(1.0),
    "indexed": lambda a: indexed(a).numpy(),
    "indexed and fill": lambda a: indexed(a).fill_(1.0),
    "indexed contiguous": lambda a: indexed(a).contiguous(),
    "reshape": lambda a: a.reshape((2, N // 2)).numpy(),
    "flatten": lambda a: a.flatten().numpy(),
    "view": lambda a: a.view(wp.int32).numpy(),
    "transpose": lambda a: a.reshape((2, N // 2)).transpose((1, 0)).numpy(),
    "contiguous": lambda a: a[::2].contiguous(),
    "to": lambda a: a.to("cpu").numpy(),
    "to_torch": wp.to_torch,
    "to_jax": lambda a: pytest.importorskip("jax") and wp.to_jax(a),
    "to_paddle": lambda a: pytest.importorskip("paddle") and wp.to_paddle(a),
    "dlpack": lambda a: a.__dlpack__(),
    "from_dlpack": lambda a: torch.from_dlpack(a),
    "interface": lambda a: a.__array_interface__,
    "buffer": memoryview,
    "address": lambda a: a.ptr,
    "ctype": lambda a: a.__ctype__(),
    "array": wp.array,
    "clone": wp.clone,
    "copy": lambda a: wp.copy(other(), a),
    "copy to": lambda a: wp.copy(a, other()),
    "part copy": lambda a: wp.copy(a, other(), dest_offset=3, src_offset=1, count=5),
    "sum": wp.utils.array_sum,
    "inner": lambda a: wp.utils.array_inner(a, other()),
    "inner of another": lambda a: wp.utils.array_inner(other(), a),
    "scan": lambda a: wp.utils.array_scan(a, other()),
    "scan into it": lambda a: wp.utils.array_scan(other(), a),
    "sort": lambda a: wp.utils.radix_sort_pairs(a[: N // 2].view(wp.int32), wp.zeros(N, dtype=wp.int32), N // 4),
    "cast": lambda a: wp.utils.array_cast(a, wp.zeros(N, dtype=wp.float64)),
    "cast into it": lambda a: wp.utils.array_cast(wp.zeros(N, dtype=wp.float64), a),
    "map": lambda a: wp.map(lambda x: x * 2.0, a),
    "map into it": lambda a: wp.map(lambda x: x * 2.0, other(), out=a),
    "operator": lambda a: a * 2.0,
    "operator on the right": lambda a: other() + a,
    "in place": lambda a: a.__iadd__(1.0),
    "condition": lambda a: wp.capture_if(a.view(wp.int32), on_true=lambda: None),
}
"""What may be done with an array later: all of it touches the memory, or gives it to somebody who will."""

VIEWS = [lambda a: a, lambda a: a[:], lambda a: a.reshape(N)]


@pytest.mark.parametrize(("use", "view", "lose"), crossed(USES, VIEWS, LOSSES, every=3), ids=name)
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


def other_data_of_a_leaf(t):
    t.requires_grad_()
    t.data = torch.full((N,), 5.0)


MOVES = [other_memory, other_data, other_data_of_a_leaf]


@pytest.mark.parametrize(("make", "which", "move"), crossed(BEFORE, [0, 1], MOVES, every=2), ids=name)
def test_what_was_made_before_uses_the_memory_that_it_was_made_with(make, which, move):
    tensors = torch.ones(N), torch.zeros(N)
    run = make(*tensors)
    run()
    move(tensors[which])
    junk = torch.zeros(N)
    run()
    assert not junk.any()
    assert (tensors[which] == 5.0).all()
    left = 1.0 if which else 0.0 if make is recorded_backward else 2.0
    assert (tensors[1 - which] == left).all()


@pytest.mark.parametrize(("use", "move"), crossed(USES, MOVES, every=3), ids=name)
def test_arrays_keep_the_memory_that_they_were_made_with(use, move):
    t = torch.ones(N)
    a = wp.from_torch(t, requires_grad=False)
    move(t)
    junk = torch.zeros(N)
    assert a.has_memory
    USES[use](a)
    assert not junk.any()
    assert (t == 5.0).all()


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
