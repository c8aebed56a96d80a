"""wp.utils on arrays of CUDA devices, in emulation and on a GPU, against NumPy; what waits, and captures."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed, tail

u = wp.utils
SIZES = (0, 1, 31, 33, 600, 2500)


@pytest.fixture(autouse=True)
def kernels_are_compiled_anew():
    """The kernels are the library's: what was loaded for one driver must not be there for the next one."""
    yield
    for kernel in wp.get_module("warp_like.runtime.cuda.algorithms").kernels.values():
        kernel.forget_programs()
    for kernel in [*wp.get_module("warp_like.runtime.operations.algorithms").kernels.values(), squared]:
        kernel.forget_programs()


def numbers(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, n).astype(dtype) if "float" in dtype else rng.integers(0, 50, n).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", tail("float16"), "uint8", tail("int64")])
def test_sums(device, dtype):
    for n in SIZES:
        check_sums(device, dtype, n)


def check_sums(device, dtype, n):
    x, y = numbers(n, dtype), numbers(n, dtype, 1)
    a, b = wp.array(x, device=device), wp.array(y, device=device)
    wide = np.float64 if "float" in dtype else np.int64
    tolerance = {"rtol": 2 * np.finfo(dtype).eps, "atol": 1e-12} if "float" in dtype else {}
    np.testing.assert_allclose(float(u.array_sum(a)), x.astype(wide).sum(), **tolerance)
    np.testing.assert_allclose(float(u.array_inner(a, b)), (x.astype(wide) * y.astype(wide)).sum(), **tolerance)
    out = wp.full(1, 7, dtype=a.dtype, device=device)
    assert u.array_sum(a, out=out) is out
    assert out.numpy()[0] == np.asarray(u.array_sum(a)).astype(dtype)


def test_sums_of_more_than_a_block_has_are_two_launches(device):
    x = numbers(20_000, "float32")
    a = wp.array(x, device=device)
    wanted = x.astype(np.float64).sum()
    np.testing.assert_allclose(u.array_sum(a), wanted, rtol=1e-6)
    with wp.ScopedTimer("sums", cuda_filter=wp.TIMING_KERNEL, print=False) as timer:
        u.array_sum(a)
    names = [r.name for r in timer.timing_results]
    assert len([n for n in names if "_block_sums" in n]) == 2, names
    assert u.array_sum(a) == u.array_sum(a)


@pytest.mark.parametrize("shape", [(5, 70), (2, 3, 4, 33), (0, 3), (3, 0)], ids=str)
def test_sums_along_axes(device, shape):
    x = numbers(shape, "float32").reshape(shape)
    a = wp.array(x, device=device)
    for axis in range(len(shape)):
        wanted = x.astype(np.float64).sum(axis, keepdims=True)
        np.testing.assert_allclose(u.array_sum(a, axis=axis).numpy(), wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            u.array_inner(a, a, axis=axis).numpy(), (x.astype(np.float64) ** 2).sum(axis, keepdims=True), rtol=1e-6
        )
    turned = a.transpose()
    wanted = x.T.astype(np.float64).sum(0, keepdims=True)
    np.testing.assert_allclose(u.array_sum(turned, axis=0).numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_sums_of_vectors_and_bools(device):
    x = numbers((40, 3, 3), "float32")
    a = wp.array(x, dtype=wp.vec3, device=device)
    np.testing.assert_allclose(u.array_sum(a), x.sum((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(u.array_inner(a, a), (x.astype(np.float64) ** 2).sum(), rtol=1e-6)
    by_row = u.array_inner(a, a, axis=1)
    np.testing.assert_allclose(by_row.numpy()[:, 0], (x.astype(np.float64) ** 2).sum((1, 2)), rtol=1e-6)
    np.testing.assert_allclose(u.array_sum(a, axis=0).numpy(), x.sum(0, keepdims=True), rtol=1e-5)
    flags = np.arange(100) % 3 == 0
    assert u.array_sum(wp.array(flags, device=device)) == 34
    assert u.array_sum(wp.array(x[:, 0, 0], device=device)[::2]) == pytest.approx(x[::2, 0, 0].sum(), rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_prefix_sums(device, dtype):
    for n in SIZES:
        check_prefix_sums(device, dtype, n)


def check_prefix_sums(device, dtype, n):
    x = numbers(n, dtype)
    a, out = wp.array(x, device=device), wp.zeros(n, dtype=wp.dtype_from_numpy(dtype), device=device)
    wanted = np.cumsum(x.astype(np.float64 if "float" in dtype else np.int64)).astype(dtype)
    tolerance = {"rtol": 2 * np.finfo(dtype).eps, "atol": 1e-12} if "float" in dtype else {}
    u.array_scan(a, out)
    np.testing.assert_allclose(out.numpy(), wanted, **tolerance)
    u.array_scan(a, a, inclusive=False)
    np.testing.assert_allclose(a.numpy(), np.concatenate([[0], wanted[:-1]])[:n], **tolerance)


def test_prefix_sums_of_vectors_and_strided_arrays(device):
    x = numbers((100, 3), "float32")
    a, out = wp.array(x, dtype=wp.vec3, device=device), wp.zeros(100, dtype=wp.vec3, device=device)
    u.array_scan(a, out)
    np.testing.assert_allclose(out.numpy(), x.cumsum(0), rtol=1e-5, atol=1e-6)
    y = np.arange(100, dtype=np.int32)
    b, target = wp.array(y, device=device), wp.zeros(100, dtype=int, device=device)
    u.array_scan(b[::-2], target[::2])
    np.testing.assert_array_equal(target.numpy()[::2], y[::-2].cumsum())
    assert not target.numpy()[1::2].any()


@pytest.mark.parametrize("dtype", crossed(["int32", "uint32", "int64", "float32", "float64"], every=2))
def test_sorts(device, dtype):
    for n in (0, 1, 2, 63, 65, 300):
        check_sort(device, dtype, n)


def check_sort(device, dtype, n):
    x = (numbers(n, "float64") * 20).round().astype(dtype)
    if "float" in dtype and n > 8:
        x[:8] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).tiny / 2, -np.finfo(dtype).tiny / 2]
    keys, values = wp.array(x, device=device), wp.array(np.arange(n), dtype=int, device=device)
    u.radix_sort_pairs(keys, values, n)
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(values.numpy(), order)
    np.testing.assert_array_equal(keys.numpy(), x[order])


def test_sorts_of_bits_vectors_and_the_first_pairs(device):
    x = np.random.default_rng(1).integers(0, 2**32, 200, dtype=np.uint32)
    keys, values = wp.array(x, device=device), wp.array(np.arange(400).reshape(200, 2), dtype=wp.vec2i, device=device)
    u.radix_sort_pairs(keys, values, 150, begin_bit=5, end_bit=18)
    order = np.argsort((x[:150] >> 5) & 0x1FFF, kind="stable")
    np.testing.assert_array_equal(keys.numpy(), np.concatenate([x[:150][order], x[150:]]))
    np.testing.assert_array_equal(values.numpy()[:150, 0], 2 * order)
    np.testing.assert_array_equal(values.numpy()[150:], np.arange(300, 400).reshape(50, 2))


def test_sorts_of_segments(device):
    x = numbers(300, "float32")
    starts, ends = [200, 0, 40, 40, 100, 290], [250, 40, 40, 90, 101, 300]
    keys, values = wp.array(x, device=device), wp.array(np.arange(300), dtype=int, device=device)
    given = (wp.array(v, dtype=int, device=device) for v in (starts, ends))
    u.segmented_sort_pairs(keys, values, 300, *given)
    order = np.arange(300)
    for s, e in zip(starts, ends, strict=True):
        order[s:e] = s + np.argsort(x[s:e], kind="stable")
    np.testing.assert_array_equal(values.numpy(), order)
    np.testing.assert_array_equal(keys.numpy(), x[order])


def test_segments_that_the_cpu_refuses_touch_nothing_else(device):
    x = numbers(50, "int32")
    guarded = wp.array(np.concatenate([x, np.full(20, -1, np.int32)]), device=device)
    keys, values = guarded[:50], wp.array(np.arange(50), dtype=int, device=device)
    starts, ends = (wp.array(v, dtype=int, device=device) for v in ([-5, 30, 60, 8], [10, 70, 65, 20]))
    u.segmented_sort_pairs(keys, values, 50, starts, ends)
    assert sorted(values.list()) == list(range(50))
    np.testing.assert_array_equal(keys.numpy(), x[values.numpy()])
    assert (guarded.numpy()[50:] == -1).all()


def test_runs(device):
    for n in (0, 1, 2, 33, 300):
        for length in (1, 3, 100):
            check_runs(device, n, length)


def check_runs(device, n, length):
    x = np.random.default_rng(2).integers(0, 2, n) if length == 1 else np.arange(n) // length
    a = wp.array(x, dtype=int, device=device)
    found, lengths = (wp.full(n, -1, dtype=int, device=device) for _ in range(2))
    count = wp.full(1, -1, dtype=int, device=device)
    assert u.runlength_encode(a, found, lengths, run_count=count) is count
    starts = [i for i in range(n) if i == 0 or x[i] != x[i - 1]]
    k = len(starts)
    assert count.list() == [k]
    assert found.list() == [*x[starts], *[-1] * (n - k)]
    assert lengths.list() == [*np.diff([*starts, n]), *[-1] * (n - k)]
    assert u.runlength_encode(a, found, lengths) == k


def test_a_capture_takes_them(device):
    x, keys = wp.zeros(100, dtype=float, device=device), wp.zeros(100, dtype=int, device=device)
    values, total, scanned = (wp.zeros(n, dtype=d, device=device) for n, d in ((100, int), (1, float), (100, float)))
    start = wp.array(np.arange(100), dtype=int, device=device)
    with wp.ScopedCapture(device) as capture:
        u.array_sum(x, out=total)
        u.array_scan(x, scanned)
        wp.copy(values, start)
        u.radix_sort_pairs(keys, values, 100)
    for seed in (3, 4):
        y, k = numbers(100, "float32", seed), numbers(100, "int32", seed)
        x.assign(y)
        keys.assign(k)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(total.numpy(), [y.sum()], rtol=1e-5)
        np.testing.assert_allclose(scanned.numpy(), y.cumsum(), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(values.numpy(), np.argsort(k, kind="stable"))
    with (
        wp.ScopedCapture(device),
        pytest.raises(RuntimeError, match=r"array_sum\(\) without `out` needs results at once"),
    ):
        u.array_sum(x)


def test_a_tape_differentiates_sums(device):
    x = wp.array(numbers(50, "float32"), device=device, requires_grad=True)
    total = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        u.array_inner(x, x, out=total)
    tape.backward(total)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)


@wp.kernel
def squared(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


def test_fingerprints(device):
    from warp_like.runtime.cuda.algorithms import fingerprint

    x = numbers(1000, "float32")
    a = wp.array(x, device=device)
    found = {
        fingerprint(a),
        fingerprint(wp.array(x[::-1].copy(), device=device)),
        fingerprint(a[:999]),
        fingerprint(a[::2]),
    }
    for i in (0, 500, 999):
        y = x.copy()
        y[i] = np.nextafter(y[i], np.float32(2))
        found.add(fingerprint(wp.array(y, device=device)))
    assert len(found) == 7
    assert fingerprint(wp.clone(a)) == fingerprint(a)
    assert fingerprint(wp.array(x[::2].copy(), device=device)) == fingerprint(a[::2])
    bits = wp.array(np.arange(13) % 2 == 0, device=device)
    assert fingerprint(bits) == fingerprint(wp.clone(bits))
    assert fingerprint(a[:0]) == 0


def test_a_tape_of_kernels_that_overwrite(device):
    start = np.linspace(0.5, 1.5, 40).astype(np.float32)

    def gradient():
        x = wp.array(start, device=device, requires_grad=True)
        with wp.Tape() as tape:
            for _ in range(3):
                wp.launch(squared, dim=40, inputs=[x], device=device)
        return x, tape

    x, tape = gradient()
    tape.backward(grads={x: wp.ones(40, dtype=float, device=device)})
    np.testing.assert_allclose(x.grad.numpy(), 8 * start.astype(np.float64) ** 7, rtol=1e-5)
    x, tape = gradient()
    x.assign(start)
    with pytest.raises(
        RuntimeError, match="which the recorded program overwrote, and the array has been changed since"
    ):
        tape.backward(grads={x: wp.ones(40, dtype=float, device=device)})


def test_a_capture_takes_a_tape_of_kernels_that_overwrite(device):
    start = np.linspace(0.5, 1.5, 40).astype(np.float32)
    x, seed = wp.array(start, device=device, requires_grad=True), wp.ones(40, dtype=float, device=device)
    given = wp.array(start, device=device)
    with wp.ScopedCapture(device) as capture:
        wp.copy(x, given)
        x.grad.zero_()
        with wp.Tape() as tape:
            for _ in range(2):
                wp.launch(squared, dim=40, inputs=[x], device=device)
        tape.backward(grads={x: seed})
    for factor in (1.0, 0.5):
        given.assign(factor * start)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(x.grad.numpy(), 4 * (factor * start.astype(np.float64)) ** 3, rtol=1e-5)


def test_nothing_waits(fake):
    """With the fake no kernel runs; what is shown is that the host asks for no result."""
    x, out = wp.zeros(5000, dtype=float, device="cuda:0"), wp.zeros(1, dtype=float, device="cuda:0")
    keys, values = (wp.zeros(100, dtype=int, device="cuda:0") for _ in range(2))
    fake.forget()
    u.array_sum(x, out=out)
    u.array_scan(x, x)
    u.radix_sort_pairs(keys, values, 100)
    waits = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"}
    assert fake.launches
    assert not waits & set(fake.names())


def test_arrays_of_several_devices(fake):
    with pytest.raises(
        RuntimeError, match=r"array_inner\(\) takes arrays of one device, got some on cuda:0 and some on cpu"
    ):
        u.array_inner(wp.zeros(3, device="cuda:0"), wp.zeros(3))
    with pytest.raises(
        RuntimeError, match=r"array_sum\(\) takes arrays of one device, got some on cuda:0 and some on cuda:1"
    ):
        u.array_sum(wp.zeros(3, device="cuda:0"), out=wp.zeros(1, device="cuda:1"))
