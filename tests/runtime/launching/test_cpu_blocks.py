"""The blocks of launches on the CPU: what kernels see of them, with `enable_cpu_blocks` and without."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define


@contextlib.contextmanager
def cpu_blocks(enabled: bool = True) -> Iterator[None]:
    before = wp.config.enable_cpu_blocks
    wp.config.enable_cpu_blocks = enabled
    try:
        yield
    finally:
        wp.config.enable_cpu_blocks = before


@wp.func
def scaled(x: float):
    return x * float(wp.block_dim())


@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = scaled(x[i])


@wp.kernel
def indices(out: wp.array2d(dtype=int)):
    i, j = wp.tid()
    out[i, j] = wp.block_dim() * 1000 + i * 10 + j


@wp.kernel
def plain(x: wp.array(dtype=float)):
    x[wp.tid()] += 1.0


def factors(n: int = 5, **how: object) -> list[float]:
    x, y = wp.ones(n), wp.zeros(n)
    wp.launch(scale, n, [x], [y], **how)
    return sorted(set(y.list()))


def test_a_block_has_one_thread_unless_enabled():
    for how in ({}, {"block_dim": None}, {"block_dim": -7}, {"block_dim": 0}, {"block_dim": 1}):
        for enabled in (False, True):
            with cpu_blocks(enabled):
                assert factors(**how) == [1.0]
    assert factors(block_dim=64) == [1.0]


def test_blocks_of_any_size_and_grids_that_do_not_fill_them():
    with cpu_blocks():
        for threads in (1, 2, 31, 64, 1023, 1024):
            assert factors(threads + 1, block_dim=threads) == [threads]
            assert factors(block_dim=threads) == [threads]
        assert factors(0, block_dim=4) == []
        out = wp.zeros((3, 4), dtype=int)
        wp.launch(indices, (3, 4), [out], block_dim=8)
        np.testing.assert_array_equal(out.numpy(), 8000 + 10 * np.arange(3)[:, None] + np.arange(4))


def test_more_than_1024_threads_are_refused_in_any_case():
    for enabled in (False, True):
        with cpu_blocks(enabled):
            for act in (
                lambda: factors(block_dim=1025),
                lambda: wp.Launch(plain, "cpu", block_dim=1025),
                lambda: wp.force_load("cpu", [plain.module], block_dim=1025),
            ):
                with pytest.raises(ValueError, match="a block has 1 to 1024 threads, got block_dim=1025"):
                    act()


def test_each_launch_has_its_own_blocks():
    with cpu_blocks():
        assert [factors(block_dim=n)[0] for n in (4, 8, 1, 4)] == [4, 8, 1, 4]
        assert factors() == [1.0]
        with cpu_blocks(False):
            assert factors(block_dim=4) == [1.0]
        assert factors(block_dim=4) == [4.0]
    assert factors(block_dim=4) == [1.0]
    assert factors() == [1.0]


def test_kernels_that_ask_nothing_are_compiled_once():
    with cpu_blocks():
        x = wp.zeros(3)
        wp.launch(plain, 3, [x], block_dim=4)
        wp.launch(plain, 3, [x], block_dim=8)
        assert plain.in_blocks(8) is plain
        assert plain.fast is not None
        assert x.list() == [2.0] * 3
        assert not plain.asks_about_blocks
        assert scale.asks_about_blocks


def test_a_builtin_under_another_name():
    threads = wp.block_dim
    source = "@wp.kernel\ndef k(out: wp.array(dtype=int)):\n    out[wp.tid()] = {}()\n"
    for call, names in (("threads", {"threads": threads}), ("block_dim", {})):
        out = wp.zeros(2, dtype=int)
        with cpu_blocks():
            wp.launch(define(source.format(call), **names)["k"], 2, [out], block_dim=16)
        assert out.list() == [16, 16]


def test_generic_kernels():
    @wp.kernel
    def k(x: wp.array(dtype=wp.Any)):
        i = wp.tid()
        x[i] = x.dtype(wp.block_dim())

    with cpu_blocks():
        for dtype in (wp.float64, wp.int16):
            x = wp.zeros(3, dtype=dtype)
            wp.launch(k, 3, [x], block_dim=32)
            assert x.list() == [32] * 3
            wp.launch(k, 3, [x])
            assert x.list() == [1] * 3


def test_records_keep_their_blocks():
    x, y = wp.full(3, 2.0, requires_grad=True), wp.zeros(3, requires_grad=True)
    with cpu_blocks(), wp.Tape() as tape:
        wp.launch(scale, 3, [x], [y], block_dim=4)
    tape.backward(grads={y: wp.ones(3)})
    assert y.list() == [8.0] * 3
    assert x.grad.list() == [4.0] * 3
    with cpu_blocks():
        command = wp.launch(scale, 3, [x], [y], block_dim=16, record_cmd=True)
    assert command.block_dim == 16
    command.launch()
    assert y.list() == [32.0] * 3
    with cpu_blocks(), wp.ScopedCapture() as capture:
        wp.launch(scale, 3, [x], [y], block_dim=32)
    y.zero_()
    wp.capture_launch(capture.graph)
    assert y.list() == [64.0] * 3


def test_launches_made_by_hand():
    for enabled, expected in ((False, 1), (True, 4)):
        with cpu_blocks(enabled):
            assert wp.Launch(scale, "cpu").block_dim == 1
            for kernel in (scale, plain):
                assert wp.Launch(kernel, "cpu", block_dim=4).block_dim == expected


def test_modules_are_loaded_for_their_blocks():
    source = "@wp.kernel(module='unique')\ndef k(out: wp.array(dtype=int)):\n    out[wp.tid()] = wp.block_dim()\n"
    kernel = define(source)["k"]
    with cpu_blocks():
        wp.force_load("cpu", [kernel.module], block_dim=4)
        assert kernel.in_blocks(4)._programs
        assert not kernel._programs
    wp.force_load("cpu", [kernel.module], block_dim=4)
    assert kernel._programs


def test_maps_and_jacobians():
    x = wp.ones(2, requires_grad=True)
    y = wp.zeros_like(x, requires_grad=True)
    with cpu_blocks():
        assert wp.map(scaled, x).list() == [1.0, 1.0]
        assert wp.map(scaled, x, block_dim=2).list() == [2.0, 2.0]
        for how, expected in (({}, 1.0), ({"block_dim": 2}, 2.0)):
            found = wp.autograd.jacobian(scale, dim=2, inputs=[x], outputs=[y], **how)
            np.testing.assert_array_equal(found[0, 0].numpy(), expected * np.eye(2))


TOGETHER = {
    "block_sum": ("x[i] = wp.block_sum(x[i])", [4.0, 4.0, 4.0, 4.0, 2.0, 2.0]),
    "block_thread": ("x[i] = float(wp.block_thread())", [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]),
    "block_size": ("x[i] = float(wp.block_size())", [4.0, 4.0, 4.0, 4.0, 2.0, 2.0]),
    "warp_any": ("x[i] = 1.0 if wp.warp_any(i > 0) else 0.0", [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    "shared_array": (
        "s = wp.shared_array(shape=4, dtype=float)\n"
        "    wp.atomic_add(s, 0, x[i])\n    wp.block_sync()\n    x[i] = s[0]",
        [4.0, 4.0, 4.0, 4.0, 2.0, 2.0],
    ),
    "block_sync": ("x[i] = 1.0 + float(i)\n    wp.block_sync()", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "bits of an element": (
        "t = wp.tile_zeros(shape=2, dtype=int)\n    t[1] |= 1 << wp.block_thread()\n    x[i] = float(t[1])",
        [15.0, 15.0, 15.0, 15.0, 3.0, 3.0],
    ),
    "tile": ("x[i] = wp.tile_sum(wp.tile(x[i]))[0]", [4.0, 4.0, 4.0, 4.0, 2.0, 2.0]),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_threads_work_together(name):
    body, wanted = TOGETHER[name]
    kernel = define(f"@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    i = wp.tid()\n    {body}\n")["k"]
    alone = wp.ones(6)
    wp.launch(kernel, 6, [alone], block_dim=4)  # blocks of one thread
    with cpu_blocks():
        x, again = wp.ones(6), wp.ones(6)
        wp.launch(kernel, 6, [x], block_dim=4)
        assert x.list() == wanted
        wp.launch(kernel, 6, [again])
        assert again.list() == alone.list()


@wp.kernel
def of_blocks(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.block_sum(x[i]) * x[i]


def test_tapes_graphs_and_recorded_launches_keep_blocks_whose_threads_work_together():
    x, y = wp.array(np.arange(6.0), dtype=float, requires_grad=True), wp.zeros(6, requires_grad=True)
    wanted = np.repeat([6.0, 9.0], [4, 2]) * np.arange(6)
    with cpu_blocks(), wp.Tape() as tape:
        wp.launch(of_blocks, 6, [x], [y], block_dim=4)
    np.testing.assert_array_equal(y.numpy(), wanted)
    tape.backward(grads={y: wp.ones(6)})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * np.repeat([6.0, 9.0], [4, 2]))
    with cpu_blocks():
        command = wp.launch(of_blocks, 6, [x], [y], block_dim=4, record_cmd=True)
        with wp.ScopedCapture() as capture:
            wp.launch(of_blocks, 6, [x], [y], block_dim=4)
    for run in (command.launch, lambda: wp.capture_launch(capture.graph)):
        y.zero_()
        run()
        np.testing.assert_array_equal(y.numpy(), wanted)
    assert command.dims == (6,)
    command.set_dim(5)
    assert command.dims == (5,)
    y.zero_()
    command.launch()
    np.testing.assert_array_equal(y.numpy(), [*(6.0 * np.arange(4)), 16.0, 0.0])


def test_launches_made_by_hand_have_grids_of_threads():
    x, y = wp.ones(12), wp.zeros(12)
    with cpu_blocks():
        command = wp.Launch(of_blocks, "cpu", block_dim=4)
        command.set_params([x, y])
        for n in (12, 8, 3):
            y.zero_()
            command.set_dim(n)
            command.launch()
            assert command.dims == (n,)
            assert y.list() == [4.0] * (n - n % 4) + [float(n % 4)] * (n % 4) + [0.0] * (12 - n)


@wp.kernel
def in_rows(out: wp.array2d(dtype=int)):
    i, j = wp.tid()
    out[i, j] = wp.block_sum(j) + 1000 * i


def test_blocks_lie_in_rows_of_the_grid():
    out = wp.zeros((2, 6), dtype=int)
    with cpu_blocks():
        wp.launch(in_rows, (2, 6), [out], block_dim=4)
    np.testing.assert_array_equal(out.numpy(), [[6, 6, 6, 6, 9, 9], [1006, 1006, 1006, 1006, 1009, 1009]])


@wp.kernel
def asks_for_no_thread(out: wp.array(dtype=int)):
    wp.atomic_add(out, 0, wp.block_sum(1) + 100 * wp.block_thread())


@wp.kernel
def asks_for_rows(out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.block_sum(wp.block_thread())


def test_grids_of_more_dimensions_than_the_kernel_asks_for():
    with cpu_blocks():
        for n, wanted in ((4, 616), (6, 616 + 2 * 2 + 100)):
            out = wp.zeros(1, dtype=int)
            wp.launch(asks_for_no_thread, n, [out], block_dim=4)
            assert out.list() == [wanted]
        for last, wanted in ((4, 6), (3, 3)):
            out = wp.zeros(3, dtype=int)
            wp.launch(asks_for_rows, (3, last), [out], block_dim=4)
            assert out.list() == [wanted] * 3


def test_kernels_in_blocks_are_pickled():
    kernel = of_blocks.in_blocks(4, 0, 2)
    assert pickle.loads(pickle.dumps(kernel)) is kernel
