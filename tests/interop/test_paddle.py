"""Paddle: memory and gradients are shared."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

import warp_like as wp  # noqa: E402
from warp_like.interop.view import as_array  # noqa: E402


def test_tensor_is_shared():
    t = paddle.arange(6, dtype="float32").reshape([2, 3])
    w = wp.from_paddle(t)
    assert w.ptr == t.data_ptr()
    assert np.array_equal(w.numpy(), t.numpy())
    assert not w.requires_grad
    w.fill_(7)
    assert (t == 7).all()
    assert wp.from_paddle(t, dtype=wp.vec3).shape == (2,)
    assert as_array(paddle.zeros([2])).dtype is wp.float32
    with pytest.raises(TypeError, match="needs a Paddle tensor"):
        wp.from_paddle(np.zeros(3))


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_dtype_both_ways(name):
    t = paddle.ones([3]).astype(name)
    w = wp.from_paddle(t)
    assert w.list() == [1, 1, 1]
    assert w.dtype is getattr(wp, name)
    assert wp.dtype_from_paddle(t.dtype) is w.dtype
    assert wp.dtype_to_paddle(w.dtype) == t.dtype
    back = wp.to_paddle(w)
    assert back.dtype == t.dtype
    assert back.data_ptr() == t.data_ptr()


def test_leaf_gradient_is_the_tensors():
    t = paddle.ones([3])
    t.stop_gradient = False
    w = wp.from_paddle(t)
    assert w.requires_grad
    assert w.grad.ptr == t.grad.data_ptr()
    w.grad.fill_(2)
    assert t.grad.numpy().tolist() == [2, 2, 2]
    opt = paddle.optimizer.SGD(learning_rate=0.5, parameters=[t])
    opt.step()
    assert w.list() == [0, 0, 0]
    opt.clear_grad()
    for drop in (lambda: t.clear_gradient(False), lambda: setattr(t, "grad", None)):
        drop()
        w._attach_grad()
        assert t.grad.numpy().tolist() == [0, 0, 0]
        w.grad.fill_(1)
        assert t.grad.numpy().tolist() == [1, 1, 1]
        assert t.grad.data_ptr() == w.grad.ptr
    w.requires_grad = False
    assert t.grad is None


def test_to_paddle():
    w = wp.array(np.arange(6).reshape(2, 3), dtype=wp.vec3, requires_grad=True)
    t = wp.to_paddle(w)
    assert t.data_ptr() == w.ptr
    assert t.shape == [2, 3]
    assert not t.stop_gradient
    assert t.grad.data_ptr() == w.grad.ptr
    with pytest.raises(ValueError, match="negative strides"):
        wp.to_paddle(wp.zeros(3)[::-1])


def test_devices():
    assert wp.device_from_paddle(paddle.CPUPlace()) is wp.get_device("cpu")
    assert wp.device_to_paddle("cpu") == "cpu"


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


# ---- direct launches


def make_leaf():
    t = paddle.ones([4])
    t.stop_gradient = False
    return t


@pytest.mark.parametrize(
    "make",
    [
        lambda: paddle.ones([4]),
        make_leaf,
        lambda: paddle.ones([4, 2])[:, 0],
        lambda: paddle.create_parameter([4], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)),
    ],
    ids=["tensor", "leaf", "strided", "parameter"],
)
def test_direct_launches_write_the_tensor_itself(make):
    t = make()
    before = t.data_ptr(), t._inplace_version()
    for _ in range(3):
        wp.launch(double, 4, [t])
    assert t.numpy().tolist() == [8, 8, 8, 8]
    assert (t.data_ptr(), t._inplace_version()) == (before[0], before[1] + 3)
    assert t.grad is None


@pytest.mark.parametrize(
    ("t", "given"),
    [
        (paddle.ones([4], dtype="float64"), r"paddle\.Tensor of dtype paddle\.float64 and shape \(4,\)"),
        (paddle.ones([4, 1]), r"array2d\[float32\]"),
    ],
)
def test_direct_launches_check_dtype_and_dimensions(t, given):
    with pytest.raises(TypeError, match=rf"kernel `double`, argument 1 `x`: expected array1d\[float32\], got {given}"):
        wp.launch(double, 1, [t])
    assert (t == 1).all()


def test_zero_dimensions_are_an_array_of_one():
    t = paddle.full([], 3.0)
    wp.launch(double, 1, [t])
    assert float(t) == 6


def test_components_of_more_than_four_dimensions():
    @wp.kernel
    def transpose(m: wp.array4d(dtype=wp.mat22), out: wp.array4d(dtype=wp.mat22)):
        i, j, k, n = wp.tid()
        out[i, j, k, n] = wp.transpose(m[i, j, k, n])

    t = paddle.arange(64, dtype="float32").reshape([2, 2, 2, 2, 2, 2])
    out = paddle.zeros_like(t)
    wp.launch(transpose, (2, 2, 2, 2), [t, out])
    assert np.array_equal(out.numpy(), t.numpy().swapaxes(4, 5))


def test_writes_bump_the_version():
    t = paddle.ones([4])
    a = wp.from_paddle(t)
    for write in (
        lambda: wp.launch(double, 4, [t]),
        lambda: wp.launch(double, 4, [a]),
        lambda: wp.launch(double, 2, [a[2:]]),
        lambda: a.fill_(1.0),
        lambda: a.assign([1, 2, 3, 4]),
    ):
        before = t._inplace_version()
        write()
        assert t._inplace_version() == before + 1
    before = t._inplace_version()
    wp.launch(square, 4, [t, paddle.zeros([4])])
    assert t._inplace_version() == before


def test_paddle_notices_a_saved_tensor_that_a_kernel_wrote():
    x = make_leaf()
    y = x.exp()  # saves its result
    wp.launch(double, 4, [wp.from_paddle(y.detach())])
    with pytest.raises(Exception, match="(?i)inplace"):
        y.sum().backward()


# ---- gradients


def test_a_tape_leaves_the_gradient_in_the_tensor():
    x, y = make_leaf(), paddle.zeros([4])
    y.stop_gradient = False
    with wp.Tape() as tape:
        wp.launch(square, 4, [x, y])
    tape.backward(grads={tape.launches[0].args[1]: wp.ones(4)})
    assert x.grad.numpy().tolist() == [2, 2, 2, 2]


def test_there_and_back_is_the_same_tensor():
    t = make_leaf()
    assert wp.to_paddle(wp.from_paddle(t)) is t
    a = wp.zeros(3, requires_grad=True)
    t = wp.to_paddle(a)
    assert wp.to_paddle(a) is t
    assert wp.to_paddle(a, requires_grad=False) is not t
    a.grad = wp.full(3, 9.0)
    assert t.grad.data_ptr() == a.grad.ptr
    t.clear_gradient(False)
    t.grad = None
    a._attach_grad()
    assert t.grad.data_ptr() == a.grad.ptr
    assert a.grad.list() == [0, 0, 0]


@pytest.mark.parametrize("direction", ["tensors", "arrays"])
def test_adam_moves_all_points_to_the_origin(direction):
    @wp.kernel
    def loss(p: wp.array(dtype=wp.vec2), total: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(total, 0, wp.dot(p[i], p[i]))

    start = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    total = wp.zeros(1, requires_grad=True)
    if direction == "tensors":
        t = paddle.to_tensor(start, stop_gradient=False)
        points = wp.from_paddle(t, dtype=wp.vec2)
    else:
        points = wp.array(start, dtype=wp.vec2, requires_grad=True)
        t = wp.to_paddle(points)
    opt = paddle.optimizer.Adam(learning_rate=0.1, parameters=[t])
    with wp.Tape() as tape:
        wp.launch(loss, 20, [points], [total])
    for step in range(300):
        tape.backward(loss=total)
        if step == 0:
            np.testing.assert_allclose(t.grad.numpy(), 2 * start, rtol=1e-6)
        opt.step()
        opt.clear_grad()
        tape.zero()
    assert np.abs(t.numpy()).max() < 1e-2
    assert np.array_equal(points.numpy(), t.numpy())


# ---- lifetimes


def test_memory_outlives_the_tensor_and_its_emptying():
    t = paddle.full([1000], 2.0)
    a = wp.from_paddle(t)
    view = a[500:].numpy()
    t._clear_data()
    del t, a
    gc.collect()
    filler = [paddle.full([1000], 9.0) for _ in range(4)]
    assert view.sum() == 1000
    del filler


def test_streams():
    with pytest.raises(RuntimeError, match="device 'cpu' has no streams"):
        wp.stream_from_paddle("cpu")


def test_clean_exit_with_everything_alive():
    code = (
        "import paddle, sys, warp_like as wp\n"
        "t = paddle.zeros([3]); t.stop_gradient = False; a = wp.from_paddle(t)\n"
        "w = wp.zeros(3, requires_grad=True); x = wp.to_paddle(w); y = w.to_paddle(); c = w.__dlpack__()\n"
        "op = wp.paddle_op\n"
        "keep = [t, a, w, x, y, c, a.grad, x.grad]; keep.append(keep); w.keep = keep\n"
        "sys.modules['kept_to_the_end'] = keep\n"
        "print('end')"
    )
    out = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True)
    noise = [line for line in out.stderr.splitlines() if "ccache" not in line and "warnings.warn" not in line]
    assert (out.returncode, out.stdout.strip(), noise) == (0, "end", [])


LOADER = """
import numpy as np, paddle, warp_like as wp

@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]

class Data(paddle.io.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        x, y = np.full(100_000, i, np.float32), np.zeros(100_000, np.float32)
        wp.launch(double, dim=100_000, inputs=[x, y])
        t, u = paddle.to_tensor([float(i)]), paddle.zeros([1])
        wp.launch(double, dim=1, inputs=[t, u])
        return np.concatenate([y[-1:], u.numpy()])

x, y = wp.ones(100_000), wp.zeros(100_000)
wp.launch(double, dim=100_000, inputs=[x, y])  # the thread pool is there when the workers are forked
loader = paddle.io.DataLoader(Data(), batch_size=2, num_workers=2)
print([part.numpy().tolist() for part in loader])
"""


def test_launches_in_the_workers_of_a_data_loader(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LOADER)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=env, timeout=120)
    wanted = [[[4.0 * i, 4.0 * i], [4.0 * i + 2.0, 4.0 * i + 2.0]] for i in range(4)]
    assert out.stdout.splitlines()[-1:] == [str(wanted)], out.stderr


# ---- what is asked for by the arguments


def test_a_gradient_that_is_asked_for_is_published():
    t = paddle.ones([3])
    w = wp.from_paddle(t, requires_grad=True)
    assert w.grad.ptr == t.grad.data_ptr()
    w.grad.fill_(2)
    assert t.grad.tolist() == [2, 2, 2]
    t.clear_gradient(False)
    w._attach_grad()
    assert t.grad.tolist() == [0, 0, 0]
    assert wp.from_paddle(paddle.zeros([2], dtype="int32"), requires_grad=True).grad.list() == [0, 0]


def test_integers_of_the_same_size():
    t = paddle.to_tensor([3, 4], dtype="int64")
    a = wp.from_paddle(t, dtype=wp.uint64)
    assert (a.dtype, a.ptr, a.list()) == (wp.uint64, t.data_ptr(), [3, 4])
    assert wp.from_paddle(paddle.to_tensor([True, False]), dtype=wp.uint8).list() == [1, 0]
    with pytest.raises(TypeError, match="expected elements of float32, got a Paddle tensor of int64"):
        wp.from_paddle(t, dtype=wp.float32)
