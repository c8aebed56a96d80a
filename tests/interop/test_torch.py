"""PyTorch: memory and gradients are shared, and the tie survives what optimizers do to `.grad`."""

import gc
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest

import warp_like as wp
from warp_like.interop.view import as_array
from warp_like.ir import types as ir

torch = pytest.importorskip("torch")

BASE = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    "t",
    [
        BASE,
        BASE.T if BASE.ndim == 2 else BASE.permute(2, 0, 1),
        BASE[:, ::2],
        BASE[1, 2:],
        torch.ones(5).expand(3, 5),
        BASE[:, 4:],
        torch.nn.Parameter(BASE.clone()),
        BASE.clone().requires_grad_()[1:],
    ],
)
def test_every_layout_is_shared(t):
    w = as_array(t)
    assert w.shape == tuple(t.shape)
    assert w.strides == tuple(4 * s for s in t.stride())
    assert w.ptr == t.data_ptr() or t.numel() == 0
    assert np.array_equal(w.numpy(), t.detach().numpy())
    assert not w.readonly


@pytest.mark.parametrize("t", ir.SCALARS, ids=str)
def test_every_dtype_both_ways(t):
    source = torch.ones(3, dtype=getattr(torch, str(t)))
    w = wp.from_torch(source)
    assert w.dtype._ir_type_ == t
    assert w.list() == [1, 1, 1]
    assert w.ptr == source.data_ptr()
    assert wp.dtype_to_torch(w.dtype) == source.dtype
    assert wp.dtype_from_torch(source.dtype) is w.dtype
    back = wp.to_torch(wp.full(3, 1, dtype=w.dtype))
    assert back.dtype == source.dtype
    assert bool((back == source).all())


def test_from_torch_components_and_single_elements():
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    w = wp.from_torch(t, dtype=wp.vec3)
    assert w.shape == (2,)
    assert w[1] == (3, 4, 5)
    assert w.ptr == t.data_ptr()
    assert wp.from_torch(torch.tensor(5.0)).shape == (1,)
    assert wp.from_torch(t[0], dtype=wp.vec3).list() == [(0, 1, 2)]
    assert wp.from_torch(torch.zeros(0, 2)).shape == (0, 2)


@pytest.mark.parametrize(
    ("make", "dtype", "error", "message"),
    [
        (
            lambda: torch.zeros(3),
            wp.float64,
            TypeError,
            "expected elements of float64, got a PyTorch tensor of float32",
        ),
        (lambda: torch.zeros(2, 4), wp.vec3, ValueError, "trailing dimensions"),
        (lambda: torch.zeros(3, 2).T, wp.vec3, ValueError, "side by side"),
        (lambda: torch.zeros(3, dtype=torch.complex64), None, TypeError, "no counterpart"),
        (lambda: torch._neg_view(torch.zeros(3)), None, ValueError, "lazily conjugated or negated"),
        (lambda: torch.zeros((1,) * 9), None, ValueError, "at most 8 dimensions"),
        (
            lambda: torch.zeros(3, device="meta"),
            None,
            ValueError,
            "PyTorch tensor (can't be shared|lies on DLPack device)",
        ),
        (lambda: torch.zeros(3).to_sparse(), None, ValueError, "the PyTorch tensor can't be shared"),
        (lambda: np.zeros(3), None, TypeError, "needs a PyTorch tensor"),
    ],
)
def test_what_can_not_be_shared(make, dtype, error, message):
    with pytest.raises(error, match=message):
        wp.from_torch(make(), dtype=dtype)


def test_memory_outlives_the_tensor_and_its_storage_swap():
    t = torch.full((1000,), 3.0)
    w = wp.from_torch(t)
    t.data = torch.zeros(1)
    del t
    gc.collect()
    torch.zeros(1000)
    assert w.numpy().sum() == 3000


def test_leaf_gradient_is_the_tensors():
    t = torch.randn(4, 2, requires_grad=True)
    w = wp.from_torch(t)
    assert w.requires_grad
    assert w.grad.ptr == t.grad.data_ptr()
    assert not t.grad.any()
    w.grad.fill_(2)
    assert (t.grad == 2).all()
    again = wp.from_torch(t)
    assert again.grad.ptr == w.grad.ptr
    assert (t.grad == 2).all(), "an existing gradient is used, not cleared"
    v = wp.from_torch(t, dtype=wp.vec2)
    assert v.grad.dtype is wp.vec2
    assert v.grad.ptr == t.grad.data_ptr()
    assert not wp.from_torch(t, requires_grad=False).requires_grad
    assert not wp.from_torch(torch.zeros(2)).requires_grad
    plain = torch.zeros(2)
    asked = wp.from_torch(plain, requires_grad=True)
    assert asked.requires_grad
    assert asked.grad.ptr == plain.grad.data_ptr()
    asked.grad.fill_(1)
    plain.grad = None
    asked._attach_grad()
    assert plain.grad.tolist() == [0, 0], "a dropped gradient means zero"
    with torch.inference_mode():
        assert wp.from_torch(torch.zeros(2), requires_grad=True).requires_grad
    assert wp.from_torch(torch.zeros(2, dtype=torch.int32), requires_grad=True).grad.list() == [0, 0]


def test_gradient_of_a_transposed_parameter():
    t = torch.zeros(3, 4).T.requires_grad_()
    w = wp.from_torch(t)
    w.grad.assign(np.arange(12).reshape(4, 3))
    assert t.grad.tolist() == np.arange(12).reshape(4, 3).tolist()
    assert w.grad.strides == tuple(4 * s for s in t.grad.stride())


def test_own_gradient_argument():
    t, g = torch.zeros(3), torch.ones(3)
    assert wp.from_torch(t, grad=g).grad.ptr == g.data_ptr()
    assert wp.from_torch(t, grad=wp.ones(3)).grad.list() == [1, 1, 1]
    with pytest.raises(ValueError, match="gradient"):
        wp.from_torch(t, grad=torch.ones(4))


def test_grad_mode_off_keeps_the_tensors_gradient_alone():
    t = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        w = wp.from_torch(t)
    assert w.requires_grad
    assert t.grad is None
    w.grad.fill_(1)
    w._attach_grad()
    assert t.grad is None


def test_function_body_passes_the_gradient_once():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = wp.from_torch(x)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            ctx.x.grad.assign(as_array(g * 2))
            return wp.to_torch(ctx.x.grad)

    x = torch.ones(3, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_result_of_an_operation_warns():
    t = torch.zeros(3, requires_grad=True) * 2
    with pytest.warns(UserWarning, match=r"wp\.torch_op"):
        w = wp.from_torch(t)
    assert w.requires_grad
    assert w.grad.list() == [0, 0, 0]


@pytest.mark.parametrize("direction", ["in", "out"])
def test_dropped_gradient_is_attached_again_as_zero(direction):
    if direction == "in":
        t = torch.ones(3, requires_grad=True)
        w = wp.from_torch(t)
    else:
        w = wp.ones(3, requires_grad=True)
        t = wp.to_torch(w)
    w.grad.fill_(5)
    torch.optim.SGD([t], lr=1.0).zero_grad()
    assert t.grad is None
    w._attach_grad()
    assert t.grad.data_ptr() == w.grad.ptr
    assert t.grad.tolist() == [0, 0, 0]
    w.grad.fill_(1)
    w._attach_grad()
    assert t.grad.tolist() == [1, 1, 1], "an attached gradient is left alone"


def test_exchanged_gradient_is_copied_in():
    t = torch.ones(3, requires_grad=True)
    w = wp.from_torch(t)
    shared = w.grad.ptr
    t.grad = torch.full((3,), 4.0)
    w._attach_grad()
    assert t.grad.data_ptr() == shared == w.grad.ptr
    assert w.grad.list() == [4, 4, 4]
    t.grad = None
    (t * 3).sum().backward()
    w._attach_grad()
    assert w.grad.list() == [3, 3, 3]
    assert t.grad.data_ptr() == shared


def test_views_attach_the_whole_and_exported_views_attach_themselves():
    t = torch.ones(4, requires_grad=True)
    view = wp.from_torch(t)[1:3]
    t.grad = None
    view._attach_grad()
    view.grad.fill_(2)
    assert t.grad.tolist() == [0, 2, 2, 0]
    w = wp.ones(4, requires_grad=True)
    part = wp.to_torch(w[1:3])
    part.grad = None
    w._attach_grad()
    w.grad.fill_(7)
    assert part.grad.tolist() == [7, 7]


def test_array_whose_gradient_is_exchanged_takes_the_tensor_along():
    t = torch.ones(3, requires_grad=True)
    w = wp.from_torch(t)
    w.grad = wp.full(3, 9.0)
    assert t.grad.data_ptr() == w.grad.ptr
    w.requires_grad = False
    assert t.grad is None


def test_to_torch():
    w = wp.array(np.arange(6).reshape(2, 3), dtype=wp.vec3, requires_grad=True)
    t = wp.to_torch(w)
    assert t.is_leaf
    assert t.requires_grad
    assert t.data_ptr() == w.ptr
    assert tuple(t.shape) == (2, 3)
    assert t.grad.data_ptr() == w.grad.ptr
    assert wp.to_torch(w) is t
    plain = wp.to_torch(w, requires_grad=False)
    assert not plain.requires_grad
    assert plain.data_ptr() == w.ptr
    assert tuple(wp.to_torch(w.view(float).transpose()).stride()) == (1, 3)
    assert wp.to_torch(wp.zeros((0, 2))).shape == (0, 2)
    assert wp.to_torch(wp.zeros(2, dtype=wp.mat22)).shape == (2, 2, 2)
    t.grad = None
    assert wp.to_torch(w).grad.data_ptr() == w.grad.ptr


def test_there_and_back_is_the_same_tensor():
    t = torch.zeros(3, requires_grad=True)
    assert wp.to_torch(wp.from_torch(t)) is t
    plain = torch.zeros(3)
    assert wp.to_torch(wp.from_torch(plain)).data_ptr() == plain.data_ptr()


def test_to_torch_refuses_what_tensors_can_not_be():
    readonly = np.zeros(3, np.float32)
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="no read-only tensors"):
        wp.to_torch(as_array(readonly))
    with pytest.raises(ValueError, match="negative strides"):
        wp.to_torch(wp.zeros(3)[::-1])
    with pytest.raises(TypeError, match="needs a warp_like array"):
        wp.to_torch(np.zeros(3))


def test_exported_memory_lives_and_nothing_leaks():
    w = wp.full(1000, 2.0, requires_grad=True)
    dead = weakref.ref(w.owner)
    t = wp.to_torch(w)
    del w
    gc.collect()
    assert t.sum() == 2000
    assert dead() is not None
    assert not t.grad.any()
    del t
    gc.collect()
    assert dead() is None


def test_optimizer_moves_an_array():
    w = wp.ones(3, requires_grad=True)
    opt = torch.optim.SGD([wp.to_torch(w)], lr=0.5)
    for _ in range(2):
        opt.zero_grad()
        w._attach_grad()
        w.grad.fill_(1)
        opt.step()
    assert w.list() == [0, 0, 0]


def test_devices():
    assert wp.device_from_torch(torch.device("cpu")) is wp.get_device("cpu")
    assert wp.device_to_torch("cpu") == "cpu"
    assert wp.get_device(torch.device("cpu")) is wp.get_device("cpu")
    with pytest.raises(RuntimeError, match="not available here"):
        wp.device_from_torch(torch.device("cuda", 0))


@pytest.mark.parametrize("convert", [wp.stream_from_torch, wp.stream_to_torch])
def test_there_are_no_streams_on_the_cpu(convert):
    with pytest.raises(RuntimeError, match="device 'cpu' has no streams"):
        convert("cpu")


def test_return_ctype_gives_what_launches_take():
    t = torch.zeros(3)
    assert wp.from_torch(t, return_ctype=True).ptr == t.data_ptr()


def test_nothing_is_warned_about_in_plain_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wp.to_torch(wp.from_torch(torch.zeros(3, requires_grad=True)))


def test_importing_the_package_imports_no_framework():
    code = "import sys, warp_like; print([m for m in ('torch', 'jax', 'paddle') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_clean_exit_with_everything_alive():
    code = (
        "import torch, numpy as np, warp_like as wp\n"
        "t = torch.zeros(3, requires_grad=True); a = wp.from_torch(t); b = wp.to_torch(a)\n"
        "w = wp.zeros(3, requires_grad=True); x = wp.to_torch(w); n = np.from_dlpack(w); c = w.__dlpack__()\n"
        "v = wp.from_dlpack(x.detach()); view = memoryview(w); wp.keep = [t, a, b, w, x, n, c, v, view]\n"
        "print('end')"
    )
    out = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True)
    assert (out.returncode, out.stdout.strip(), out.stderr) == (0, "end", "")


def test_views_in_every_order_of_deletion():
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        t = torch.full((100,), 2.0)
        chain = [t, wp.from_torch(t)[10:], None]
        chain[2] = wp.to_torch(chain[1])
        del t
        for gone in order[:2]:
            chain[gone] = None
            gc.collect()
        last = chain[order[2]]
        assert float(last.numpy().sum()) in (200.0, 180.0)
