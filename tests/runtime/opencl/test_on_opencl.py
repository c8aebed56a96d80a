"""Kernels on an OpenCL device compute what they compute on the CPU."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from warp_like.base.errors import WarpCodegenError


def on_both(kernel: Any, dim: Any, inputs: list[Any], device: wp.Device, loss: int | None = None) -> None:
    """Launch on both devices; compare all arrays, and with ``loss``, an argument's number, the gradients."""
    seen = []
    for where in ("cpu", device):
        with wp.ScopedDevice(where):
            given = [wp.clone(x, device=where, requires_grad=x.requires_grad) if isinstance(x, wp.array) else x
                     for x in inputs]  # fmt: skip
            with wp.Tape() as tape:
                wp.launch(kernel, dim=dim, inputs=given, device=where)
            arrays = [x for x in given if isinstance(x, wp.array)]
            found = [x.numpy().copy() for x in arrays]
            if loss is not None:
                given[loss].grad.fill_(1.0)
                tape.backward()
                found += [x.grad.numpy().copy() for x in arrays if x.requires_grad]
            seen.append(found)
    for a, b in zip(*seen, strict=True):
        np.testing.assert_allclose(b, a, rtol=3e-5 if a.dtype == np.float32 else 1e-12, atol=1e-6)


def numbers(shape: Any, dtype: Any = np.float32, **options: Any) -> wp.array:
    """Positive numbers on the host, the same in each run."""
    made = 0.2 + 0.7 * np.random.default_rng(7).random(shape)
    return wp.array((made * (1 if np.dtype(dtype).kind == "f" else 100)).astype(dtype), device="cpu", **options)


@wp.kernel
def functions(x: wp.array(dtype=Any), y: wp.array2d(dtype=Any)):
    i = wp.tid()
    a = x[i]
    y[0, i] = wp.sin(a) + wp.cos(a) * wp.tan(a)
    y[1, i] = wp.asin(a) + wp.acos(a) * wp.atan(a) + wp.atan2(a, a * a)
    y[2, i] = wp.sinh(a) + wp.cosh(a) * wp.tanh(a)
    y[3, i] = wp.exp(a) + wp.log(a) + wp.log2(a) * wp.log10(a) + wp.pow(a, a)
    y[4, i] = wp.erf(a) + wp.erfc(a) + wp.cbrt(a) + wp.sqrt(a)
    y[5, i] = wp.floor(a * a) + wp.ceil(a) + wp.round(a) + wp.trunc(a) + wp.rint(a) + a % (a * a)
    y[6, i] = wp.min(a, a * a) + wp.max(a, a + a) + wp.abs(-a) + wp.sign(a) + wp.clamp(a, a * a, a + a)


@pytest.mark.parametrize("dtype", [np.float32, tail(np.float64)])
def test_functions(device, dtype):
    on_both(functions, 37, [numbers(37, dtype), wp.zeros((7, 37), dtype=dtype, device="cpu")], device)


@wp.kernel
def updates(x: wp.array(dtype=Any), y: wp.array2d(dtype=Any)):
    i = wp.tid()
    k = i % 3
    wp.atomic_add(y, 0, k, x[i])
    wp.atomic_sub(y, 1, k, x[i])
    wp.atomic_min(y, 2, k, x[i])
    wp.atomic_max(y, 3, k, x[i])
    wp.atomic_exch(y, 4, i, x[i])
    wp.atomic_cas(y, 5, i, y.dtype(0), x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.uint64, *map(tail, (np.float64, np.int32, np.uint32, np.int64))])
def test_updates(device, dtype):
    for n in (0, 1, 1003):
        on_both(updates, n, [numbers(n, dtype), wp.zeros((6, max(n, 3)), dtype=dtype, device="cpu")], device)


@wp.struct
class Body:
    place: wp.vec3
    mass: float
    parts: wp.array(dtype=int)


@wp.func
def pull(a: Body, b: Body):
    away = b.place - a.place
    return away * (b.mass / (wp.dot(away, away) + 0.1))


@wp.kernel
def step(bodies: wp.array(dtype=Body), out: wp.array2d(dtype=wp.vec3), turns: wp.array(dtype=wp.quat), n: int):
    i, j = wp.tid()
    force = wp.vec3()
    for k in range(n):
        if k == i:
            continue
        force += pull(bodies[i], bodies[k])
    own = wp.zeros(shape=4, dtype=float)
    for k in range(4):
        own[k] = float(k) * force[k % 3]
    count = j - j
    while count < j:
        count += bodies[i].parts[count % 2]
    m = wp.quat_to_matrix(turns[i]) @ wp.mat33(1.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 3.0, 1.0)
    out[i, j] = m @ (force * float(count)) + wp.vec3(own[1], own[2], own[3])


def test_structs_loops_and_grids(device):
    def made(where: Any) -> wp.array:
        bodies = []
        for i in range(5):
            b = Body()
            b.place, b.mass = wp.vec3(float(i), float(i * i), 1.0), 1.0 + i
            b.parts = wp.array([1, 2 + i], dtype=int, device=where)
            bodies.append(b)
        return wp.array(bodies, dtype=Body, device=where)

    turns = wp.array([wp.quat_rpy(0.1 * i, 0.2, 0.3) for i in range(5)], dtype=wp.quat, device="cpu")
    found = []
    for where in ("cpu", device):
        out = wp.zeros((5, 7), dtype=wp.vec3, device=where)
        wp.launch(step, dim=(5, 7), inputs=[made(where), out, wp.clone(turns, device=where), 5], device=where)
        found.append(out.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


@wp.kernel
def blend(x: wp.array2d(dtype=float), w: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    k = (i + j) % w.shape[0]
    y[i, j] += wp.sin(x[i, j] * w[k]) + wp.max(x[i, j], w[k]) / w[k]


def test_gradients_without_a_stack(device):
    x, w = numbers((6, 11), requires_grad=True), numbers(4, requires_grad=True)
    on_both(blend, (6, 11), [x, w, numbers((6, 11), requires_grad=True)], device, loss=2)
    on_both(blend, (3, 5), [x, w, numbers((6, 11), requires_grad=True)], device, loss=2)


def test_strides_and_views(device):
    x, y = wp.clone(numbers((8, 10)), device=device), wp.zeros((4, 10), device=device)
    w = wp.ones(3, device=device)
    wp.launch(blend, dim=(4, 5), inputs=[x[::-2, ::2], w, y[:, 1::2]])
    given = numbers((8, 10)).numpy()[::-2, ::2]
    want = np.zeros((4, 10), np.float32)
    want[:, 1::2] = np.sin(given) + 1.0
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    y[1:3, ::3].assign(np.arange(8.0).reshape(2, 4))
    want[1:3, ::3] = np.arange(8.0).reshape(2, 4)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    assert np.array_equal(y[::-1, 2].numpy(), y.numpy()[::-1, 2])
    y[:, 0].fill_(7.0)
    wp.copy(y[:, 5], y[:, 0])
    assert y.numpy()[:, 5].tolist() == [7.0] * 4
    back = wp.clone(y[1], device="cpu")
    assert np.array_equal(back.numpy(), y.numpy()[1])
    line = wp.array(np.arange(10, dtype=np.float32), device=device)
    wp.copy(line[1:], line[:9])  # which overlap
    assert line.numpy().tolist() == [0.0, *range(9)]


@pytest.mark.parametrize("dtype", [float, int, wp.float16, wp.bfloat16, wp.vec3, wp.mat22, bool, wp.uint8])
def test_copies(device, dtype):
    host = wp.zeros(6, dtype=dtype, device="cpu")
    host.assign((np.arange(host.numpy().size) % 2).reshape(host.numpy().shape))
    a = wp.clone(host, device=device)
    assert np.array_equal(a.numpy(), host.numpy())
    a.numpy()[...] = 7  # a copy
    assert np.array_equal(a[::-2].numpy(), host.numpy()[::-2])
    other = wp.zeros(6, dtype=dtype)
    wp.copy(other, a)
    other[:3].assign(a[3:])
    assert np.array_equal(other.numpy(), host.numpy()[[3, 4, 5, 3, 4, 5]])


def test_all_memory_is_given_back(device):
    gc.collect()
    before = device.live_bytes
    held = wp.zeros(1 << 16)
    assert device.live_bytes >= before + (1 << 18)
    assert device.free_memory < device.total_memory
    del held
    gc.collect()
    assert device.live_bytes <= before


def test_whole_arrays(device):
    keys, values = wp.array([3, 1, 2, 1], dtype=int), wp.array([0, 1, 2, 3], dtype=int)
    assert wp.utils.array_sum(keys) == 7
    wp.utils.radix_sort_pairs(keys, values)
    assert (keys.list(), values.list()) == ([1, 1, 2, 3], [1, 3, 2, 0])
    wp.utils.array_scan(keys, values)
    assert values.list() == [1, 2, 4, 7]
    assert (wp.ones(3) * 2.0 + 1.0).list() == [3.0] * 3


@wp.kernel
def double(x: wp.array(dtype=float)):
    x[wp.tid()] *= 2.0


def test_graphs_and_records(device):
    x = wp.ones(3)
    with wp.ScopedCapture() as capture:
        wp.launch(double, dim=3, inputs=[x])
    wp.capture_launch(capture.graph)
    command = wp.launch(double, dim=2, inputs=[x], record_cmd=True)
    command.launch()
    assert x.list() == [4.0, 4.0, 2.0]
    with pytest.raises(TypeError, match="the launch is on opencl:0, the array on cpu"):
        wp.launch(double, dim=3, inputs=[wp.ones(3, device="cpu")])


@wp.kernel(mode="debug")
def checked(x: wp.array(dtype=float), at: int):
    i = wp.tid()
    if i == 2:
        x[at] = 1.0


def test_errors_of_kernels(device):
    x = wp.zeros(4)
    with pytest.raises(IndexError, match=r"index 4 is out of range for array `x` of shape \(4,\) in thread 2"):
        wp.launch(checked, dim=4, inputs=[x, 4])
    wp.launch(checked, dim=4, inputs=[x, 3])
    assert x.list() == [0.0, 0.0, 0.0, 1.0]


@wp.kernel
def tiled(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    x, y = wp.tile_load(a, shape=(4, 8), offset=(i * 4, 0)), wp.tile_load(b, shape=(8, 4), offset=(0, j * 4))
    wp.tile_store(c, wp.tile_matmul(x, y), offset=(i * 4, j * 4))


def test_tiles(device):
    a, b = (wp.clone(numbers(s), device=device) for s in ((8, 8), (8, 12)))
    c = wp.zeros((8, 12))
    wp.launch_tiled(tiled, dim=(2, 3), inputs=[a, b, c], block_dim=32)
    np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-5)


@wp.kernel
def prints(x: wp.array(dtype=float)):
    print(x[wp.tid()])


@wp.kernel
def narrow(x: wp.array(dtype=wp.float16)):
    wp.atomic_add(x, 0, wp.float16(1.0))


@wp.kernel
def kept(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = wp.sin(s) * x[i]
    y[i] = s


def test_refusals(device):
    with pytest.raises(WarpCodegenError, match="can't print"):
        wp.launch(prints, dim=1, inputs=[wp.zeros(1)])
    with pytest.raises(WarpCodegenError, match="update 32 and 64 bits atomically"):
        wp.launch(narrow, dim=1, inputs=[wp.zeros(1, dtype=wp.float16)])
    x, y = wp.ones(3, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kept, dim=3, inputs=[x, y, 4])
    with pytest.raises(WarpCodegenError, match="can't save values of loops"):
        tape.backward(grads={y: wp.ones(3)})
    with pytest.raises(RuntimeError, match="has no streams"):
        wp.get_stream(device)
    with pytest.raises(TypeError, match="the launch is on opencl:0, the array on cpu"):
        wp.launch(double, dim=3, inputs=[np.ones(3, np.float32)])
    with pytest.raises(MemoryError, match="opencl:0 has no room for"):
        wp.empty(1 << 46, dtype=wp.uint8)


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


def test_nothing_takes_the_device_for_one_of_cuda(device, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    a = wp.ones(3, requires_grad=True)
    for export in (wp.to_torch, wp.to_jax, a.to_torch.__func__, a.to_jax.__func__):
        with pytest.raises(TypeError, match=r"lies on opencl:0, a device that (PyTorch|JAX) does not know"):
            export(a)
    assert a.to_torch(device="cpu").tolist() == [1.0, 1.0, 1.0]
    for imported in (torch.from_dlpack, np.from_dlpack):
        with pytest.raises(BufferError, match="DLPack has no number for opencl:0"):
            imported(a)
    for named in (wp.device_to_torch, wp.device_to_jax):
        with pytest.raises(ValueError, match="does not know devices such as opencl:0"):
            named(device)
    monkeypatch.setattr(wp.config, "deterministic", True)
    with pytest.raises(wp.WarpDeterminismError, match="what it computes on opencl:0 depends on the order"):
        wp.launch(total, dim=3, inputs=[a, wp.zeros(1)])
    monkeypatch.setattr(wp.config, "deterministic", False)
    wp.launch(total, dim=3, inputs=[a, wp.zeros(1)])
    assert "forward on opencl:0, contiguous arrays, plain additions\n" in str(total.explain())
    with pytest.raises(ValueError, match="CUDA architectures such as"):
        total.explain(target="opencl")
    for work in (wp.compile_aot_module, wp.load_aot_module):
        with pytest.raises(ValueError, match="for the CPU and for CUDA devices, not for opencl:0"):
            work(total.module, device=device)


def test_a_forked_process_does_not_use_the_device(device, monkeypatch):
    x = wp.ones(3)
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    for work in (x.numpy, x.zero_, lambda: wp.ones(3), lambda: wp.launch(double, dim=3, inputs=[x])):
        with pytest.raises(RuntimeError, match="opencl:0 can't be used in a process that was forked after OpenCL"):
            work()
    monkeypatch.undo()
    wp.launch(double, dim=3, inputs=[x])
    assert x.list() == [2.0] * 3
