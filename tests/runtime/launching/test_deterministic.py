"""``wp.config.deterministic``: the same bits whatever the number of threads, and whatever the time that they take."""

import subprocess
import sys

import numpy as np
import pytest

import warp_like as wp
from warp_like.analysis.memory import analyse
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.passes.sums import depends_on_order, plain_additions, sums_are_non_associative


@pytest.fixture
def deterministic():
    wp.config.deterministic = True
    yield
    del wp.config.deterministic
    del wp.config.num_threads


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i % 3, wp.sin(x[i]) * 1.0e3)


@wp.kernel
def waves(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    for k in range(20):
        s += wp.sin(x[i] * float(k)) * wp.exp(-x[i])
    out[i] = s


@wp.kernel
def smooth(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sin(x[i]) + wp.exp(-x[i]) * x[i]


@pytest.mark.parametrize(
    ("kernel", "size"), [(total, 3), (waves, 200_001), (smooth, 200_001)], ids=lambda k: getattr(k, "key", "")
)
def test_the_same_bits_for_any_number_of_threads(deterministic, kernel, size):
    x = np.random.default_rng(0).random(200_001).astype(np.float32)
    seen = set()
    for wp.config.num_threads in (1, 2, 3, 5) * 2:
        out = np.zeros(size, np.float32)
        wp.launch(kernel, len(x), [x, out])
        seen.add(out.tobytes())
    assert len(seen) == 1


def test_a_chunk_of_the_grid_is_like_the_whole(deterministic):
    x = np.random.default_rng(1).random(1000).astype(np.float32)
    out = np.zeros(1000, np.float32)
    wp.launch(smooth, 1000, [x, out])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, np.sin(wide) + np.exp(-wide) * wide, rtol=1e-6)


@wp.kernel
def counts(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    wp.atomic_add(out, x[wp.tid()], 1)


@wp.kernel
def own(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i, x[i])


@wp.kernel
def slots(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    out[wp.atomic_add(x, 0, 1)] = i


@wp.kernel
def halves(x: wp.array(dtype=float), out: wp.array(dtype=wp.float16)):
    wp.atomic_add(out, 0, wp.float16(x[wp.tid()]))


@wp.kernel
def largest(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_max(out, 0, x[wp.tid()])


@pytest.mark.parametrize(
    ("kernel", "order_dependent", "non_associative"),
    [
        (total, False, True),
        (slots, True, False),
        (halves, True, False),
        (counts, False, False),
        (own, False, False),
        (largest, False, False),
        (waves, False, False),
    ],
    ids=lambda k: getattr(k, "key", ""),
)
def test_what_depends_on_the_order_of_threads(kernel, order_dependent, non_associative):
    f = optimised(kernel.source, Signature(kernel.types))
    summed, _ = plain_additions(analyse(f))
    assert depends_on_order(analyse(f)) == (order_dependent or non_associative)
    assert (depends_on_order(analyse(f), summed), sums_are_non_associative(f, summed)) == (
        order_dependent,
        non_associative,
    )


def test_gradients(deterministic):
    x = np.random.default_rng(2).random(50_001).astype(np.float32)
    seen = set()
    for wp.config.num_threads in (1, 2, 4):
        points = wp.array(x, requires_grad=True)
        out = wp.zeros(3, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(total, len(x), [points, out])
        tape.backward(grads={out: wp.ones_like(out)})
        seen.add(points.grad.numpy().tobytes() + out.numpy().tobytes())
    assert len(seen) == 1


@wp.kernel
def histogram(x: wp.array(dtype=float), bins: wp.array(dtype=float), squares: wp.array(dtype=wp.float64)):
    v = x[wp.tid()]
    k = int(v * float(bins.shape[0]))
    wp.atomic_add(bins, k, v)
    wp.atomic_add(squares, k, wp.float64(v) * wp.float64(v))


@wp.kernel
def chain(x: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    f = wp.sin(x[i]) * 1.0e3
    wp.atomic_add(force, i, f)
    wp.atomic_add(force, i + 1, -f)


def bits_of(kernel, x, make):
    """What ``kernel`` gives for several numbers of threads, twice: a second launch knows what a thread costs."""
    seen = set()
    for wp.config.num_threads in (1, 2, 3, 8):
        for _ in range(2):
            outs = make()
            wp.launch(kernel, len(x), [x], outs)
            seen.add(b"".join(out.tobytes() for out in outs))
    return seen, outs


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200, 1000, 4096, 4097, 70_000, 300_001])
@pytest.mark.parametrize("bins", [1, 64, 10_000])  # copies of many bins cost more than their threads save
def test_sums_of_any_size(deterministic, n, bins):
    x = np.random.default_rng(n).random(n).astype(np.float32)
    start = np.random.default_rng(7).random(bins)
    seen, (found, squares) = bits_of(histogram, x, lambda: [start.astype(np.float32), start.copy()])
    assert len(seen) == 1
    at = (x * np.float32(bins)).astype(int)
    wide = x.astype(np.float64)
    sums = np.bincount(at, wide, bins)
    np.testing.assert_allclose(found, start.astype(np.float32) + sums, rtol=2e-7 * max(10, np.sqrt(n)))
    np.testing.assert_allclose(squares, start + np.bincount(at, wide**2, bins), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 100, 5000, 200_001])
def test_additions_to_neighbours(deterministic, n):
    x = np.random.default_rng(n).random(n).astype(np.float32)
    seen, (force,) = bits_of(chain, x, lambda: [np.zeros(n + 1, np.float32)])
    assert len(seen) == 1
    f = np.sin(x.astype(np.float64)) * 1e3
    np.testing.assert_allclose(force, np.append(f, 0) - np.append(0, f), atol=1e-3)


def test_sums_into_strided_and_overlapping_arrays(deterministic):
    x = np.random.default_rng(5).random(100_000).astype(np.float32)
    memory = np.zeros(200, np.float64)

    def strided():
        return [np.zeros(100, np.float32)[::2], np.zeros(100)[::2]]

    assert len(bits_of(histogram, x, strided)[0]) == 1

    def overlapping():
        memory[:] = 0
        return [memory.view(np.float32)[:50], memory[10:60]]

    assert len(bits_of(histogram, x, overlapping)[0]) == 1


def test_recorded_launches(deterministic):
    x = np.random.default_rng(3).random(100_000).astype(np.float32)
    out = np.zeros(3, np.float32)
    command = wp.launch(total, len(x), [x, out], record_cmd=True)
    seen = set()
    for wp.config.num_threads in (1, 2, 5):
        for _ in range(2):
            out[:] = 0
            command.launch()
            seen.add(out.tobytes())
    assert len(seen) == 1


PROGRAM = """
import os
import numpy as np
import warp_like as wp

@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    for _ in range(100):
        v = wp.sin(v)
    wp.atomic_add(out, i % 3, v)

wp.config.deterministic = True
wp.config.num_threads = 4
x, out = np.ones(100_000, np.float32), np.zeros(3, np.float32)
before = len(os.listdir("/proc/self/task"))
wp.launch(total, len(x), [x, out])
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_sums_are_shared_by_threads(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 3


def test_modules_and_kernels_have_the_option():
    mode = wp.config.DeterministicMode.RUN_TO_RUN

    @wp.kernel(deterministic=mode)
    def always(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, i % 3, wp.sin(x[i]) * 1.0e3)

    @wp.kernel(module="unique", module_options={"deterministic": True})
    def in_module(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, i % 3, wp.sin(x[i]) * 1.0e3)

    x = np.random.default_rng(0).random(100_001).astype(np.float32)
    try:
        for kernel in (always, in_module):
            assert len(bits_of(kernel, x, lambda: [np.zeros(3, np.float32)])[0]) == 1
            assert kernel.program(kernel.types).dispatcher.deterministic
        total.options["deterministic"] = False
        wp.config.deterministic = True
        wp.launch(total, len(x), [x, np.zeros(3, np.float32)])
        assert not total.program(total.types).dispatcher.deterministic
        del total.options["deterministic"]
        wp.launch(total, len(x), [x, np.zeros(3, np.float32)])
        assert total.program(total.types).dispatcher.deterministic
        wp.config.deterministic = False
        assert not total.program(total.types).dispatcher.deterministic
        assert always.program(always.types).dispatcher.deterministic
    finally:
        del wp.config.deterministic
        del wp.config.num_threads


@wp.kernel
def rows_of_own(x: wp.array(dtype=float), a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(40):
        s = wp.sin(s) + x[i]
    for k in range(a.shape[1]):
        wp.atomic_add(a, i, k, s)
        wp.atomic_add(b, i, k, 1.37 * s)


@wp.kernel
def rows_of_one(x: wp.array(dtype=float), a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i = wp.tid()
    for k in range(a.shape[1]):
        wp.atomic_add(a, i, k, x[i])
        wp.atomic_add(b, i, k, 2.0 * x[i])


@pytest.mark.on_cpu("other devices refuse such launches")
def test_elements_of_own_that_arguments_share(deterministic):
    """No two threads touch one element of an array; but two arguments may overlap, or all elements be one."""
    n, m = 1 << 15, 3
    x = (1e3 * np.random.default_rng(7).standard_normal(n)).astype(np.float32)
    memory, other = np.empty((n + n // 2, m), np.float32), np.zeros((n, m), np.float32)
    one_row = wp.array(ptr=memory.ctypes.data, shape=(n, m), strides=(0, 4), dtype=float, device="cpu")
    for a, b in ((memory[:n], memory[n // 2 :]), (one_row, other)):
        seen = set()
        for wp.config.num_threads in (1, 2, 2, 3):
            memory[:] = 0.1
            wp.launch(rows_of_own, n, [x, a, b])
            seen.add(memory.tobytes())
        assert len(seen) == 1


def test_arguments_that_are_one_array_of_own_elements(deterministic):
    """Each thread adds to its own row by either: that is no matter of order, on no device."""
    n, m = 5000, 3
    x = np.random.default_rng(9).integers(-9, 9, n).astype(np.float32)
    rows = wp.zeros((n, m), dtype=float)
    wp.launch(rows_of_one, n, [wp.array(x), rows, rows])
    np.testing.assert_array_equal(rows.numpy(), np.repeat(3 * x, m).reshape(n, m))


@wp.kernel
def clamped(x: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_max(out, i // 900, x[i])
    wp.atomic_min(out, i // 900, x[i] + 2)


def test_a_minimum_and_a_maximum_of_one_element_go_in_order(deterministic):
    assert depends_on_order(analyse(optimised(clamped.source, Signature(clamped.types))))
    x = np.random.default_rng(5).integers(-9, 9, 60_000).astype(np.int32)
    wanted = np.zeros(67, dtype=np.int32)
    for i, value in enumerate(x):
        wanted[i // 900] = min(max(wanted[i // 900], value), value + 2)
    one, lanes = clamped.with_options(vector_width=1), clamped.with_options(vector_width=16)
    results = []
    for wp.config.num_threads in (1, 2, 7):
        out, other = np.zeros_like(wanted), np.zeros_like(wanted)
        wp.launch(one, len(x), [x, out])
        np.testing.assert_array_equal(out, wanted)
        wp.launch(lanes, len(x), [x, other])
        results.append(other)
    np.testing.assert_array_equal(results, [results[0]] * 3)
