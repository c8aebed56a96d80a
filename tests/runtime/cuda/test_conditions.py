"""Conditions in CUDA captures: what the driver is asked, and whole programs, in emulation and on a GPU."""

import gc
import subprocess

import numpy as np
import pytest

import warp_like as wp
from warp_like.backend.conditions import setter_code
from warp_like.backend.libdevice import find_ptxas
from warp_like.backend.target import cuda_target
from warp_like.runtime.cuda.errors import CudaError


@wp.kernel
def add(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = x[i] + a


@wp.kernel
def count_down(n: wp.array(dtype=int)):
    n[0] = n[0] - 1


@wp.kernel
def collatz(
    x: wp.array(dtype=int), steps: wp.array(dtype=int), is_even: wp.array(dtype=bool), busy: wp.array(dtype=bool)
):
    is_even[0] = x[0] % 2 == 0
    busy[0] = x[0] != 1
    if busy[0]:
        steps[0] = steps[0] + 1


@wp.kernel
def halve(x: wp.array(dtype=int)):
    x[0] = x[0] // 2


@wp.kernel
def triple(x: wp.array(dtype=int)):
    x[0] = 3 * x[0] + 1


@pytest.fixture
def x(fake):
    """An array of a float, and a flag."""
    held = [wp.zeros(1, device="cuda:0"), wp.zeros(1, dtype=int, device="cuda:0")]
    wp.launch(add, dim=1, inputs=[held[0], 0.0], device="cuda:0")
    yield held
    held.clear()
    for kernel in wp.get_module(__name__).kernels.values():
        kernel.forget_programs()


ASKED = (
    *("cuGraphConditionalHandleCreate", "cuLaunchKernel", "cuGraphAddNode", "cuStreamBeginCaptureToGraph"),
    "cuStreamEndCapture",
)


def test_what_the_driver_is_asked(fake, x):
    value, flag = x
    with wp.ScopedCapture("cuda:0") as capture:
        fake.forget()
        main = wp.get_stream("cuda:0")
        wp.capture_while(flag, lambda: wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0"))
        assert fake.names(*ASKED) == [
            *("cuGraphConditionalHandleCreate", "cuLaunchKernel", "cuGraphAddNode", "cuStreamBeginCaptureToGraph"),
            *("cuLaunchKernel", "cuLaunchKernel", "cuStreamEndCapture"),
        ]
        launches = [c.args for c in fake.calls if c.name == "cuLaunchKernel"]
        assert [args[0] for args in launches] == ["wl_set_condition", "wl_add", "wl_set_condition"]
        side = launches[1][-1]
        assert [args[-1] for args in launches] == [main.cuda_stream, side, side]
        assert side != main.cuda_stream
        fake.forget()
        wp.capture_if(flag, on_false=lambda: None)
        wp.capture_if(flag)
        assert [c.args[0] for c in fake.calls if c.name == "cuGraphAddNode"] == ["if"]
    assert len(capture.graph) == 4


def test_a_graph_keeps_the_condition(fake, x):
    flag = wp.ones(1, dtype=int, device="cuda:0")
    address = flag.ptr
    with wp.ScopedCapture("cuda:0") as capture:
        wp.capture_if(flag, on_true=lambda: None)
        del flag
    gc.collect()
    assert address in fake.live
    del capture
    gc.collect()
    assert address not in fake.live


def test_a_capture_of_another_library_takes_conditions(fake, x):
    value, flag = x
    theirs = wp.Stream("cuda:0", cuda_stream=0x7777)
    with wp.get_device("cuda:0").guard:
        fake.stream_begin_capture(theirs.cuda_stream)
        with wp.ScopedStream(theirs, sync_enter=False), wp.ScopedCapture("cuda:0", external=True):
            wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0")
            # The branch does not wait for what was captured before it: that would join the two captures.
            wp.capture_if(flag, on_true=lambda: wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0"))
            wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0")
        graph = fake.stream_end_capture(theirs.cuda_stream)
    assert len(fake.graphs[graph]) == 4
    fake.graph_destroy(graph)


def test_a_branch_that_raises(fake, x):
    value, flag = x

    def fail():
        wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0")
        raise ZeroDivisionError

    capture = wp.ScopedCapture("cuda:0")
    with pytest.raises(ZeroDivisionError), capture:
        wp.capture_while(flag, fail)
    assert not fake.captures
    assert wp.get_stream("cuda:0") == wp.get_device("cuda:0").stream
    with wp.ScopedCapture("cuda:0") as capture:
        wp.launch(add, dim=1, inputs=[value, 1.0], device="cuda:0")
    assert len(capture.graph) == 1


def test_what_is_refused(fake, x):
    value, flag = x
    side = wp.Stream("cuda:0")
    with wp.ScopedCapture("cuda:0"):
        with pytest.raises(
            ValueError, match=r"capture_if\(\) in a CUDA capture takes a condition on the device that is"
        ):
            wp.capture_if(wp.ones(1, dtype=int, device="cpu"), lambda: None)
        with pytest.raises(ValueError, match="takes no part in the capture that is running"):
            wp.capture_while(flag, lambda: None, stream=side)
        with pytest.raises(ValueError, match=r"capture_if\(\) takes a stream of cuda:0, got 3"):
            wp.capture_if(flag, lambda: None, stream=3)
        with pytest.raises(TypeError, match=r"capture_if\(\) takes functions and graphs, got int"):
            wp.capture_if(flag, 3)
        fake.cuda_version = 12020
        with pytest.raises(RuntimeError, match=r"needs a driver for CUDA 12\.4, and the installed one supports 12\.2"):
            wp.capture_while(flag, lambda: None)
        assert not wp.is_conditional_graph_supported()
        fake.cuda_version = 13000
        assert wp.is_conditional_graph_supported()
        main = wp.get_stream("cuda:0")
        with pytest.raises(
            RuntimeError, match=r"capture_if\(\): the branch used <.*> itself, where its work would not"
        ):
            wp.capture_if(flag, lambda: wp.launch(add, dim=1, inputs=[value, 1.0], stream=main))


def test_captures_on_the_cpu_take_conditions_without_a_driver():
    assert wp.is_conditional_graph_supported() in (True, False)
    if not wp.is_cuda_available():
        assert wp.is_conditional_graph_supported()


def test_a_driver_that_refuses(fake, x):
    _, flag = x
    fake.fail("cuGraphAddNode", 801)
    with pytest.raises(CudaError, match="cuGraphAddNode: CUDA_ERROR_NOT_SUPPORTED"), wp.ScopedCapture("cuda:0"):
        wp.capture_if(flag, lambda: None)


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_kernel_assembles_without_a_library(arch, tmp_path):
    assert setter_code(cuda_target(arch, assembled=True)).startswith(b"\x7fELF")
    text = setter_code(cuda_target(arch)).decode()
    assert ".extern .func cudaGraphSetConditional" in text
    # The name is the driver's: the assembler leaves no other function open.
    (tmp_path / "k.ptx").write_text(text.replace("cudaGraphSetConditional", "someFunction"))
    refused = subprocess.run(
        [str(find_ptxas()), f"--gpu-name={arch}", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.ptx")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Unresolved extern function 'someFunction'" in refused.stderr


# ---- whole programs


def test_a_loop_of_the_device(device):
    n, x = wp.array([3], dtype=int, device=device), wp.zeros(4, dtype=float, device=device)

    def body(step):
        wp.launch(add, dim=4, inputs=[x, step], device=device)
        wp.launch(count_down, dim=1, inputs=[n], device=device)

    with wp.ScopedCapture(device) as capture:
        x.fill_(1.0)
        wp.capture_while(n, body, step=2.0)
        wp.launch(add, dim=4, inputs=[x, 0.5], device=device)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(x.numpy(), [7.5] * 4)
    assert n.list() == [0]
    wp.capture_launch(capture.graph)  # no round
    np.testing.assert_array_equal(x.numpy(), [1.5] * 4)
    n.fill_(5)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(x.numpy(), [11.5] * 4)


def test_two_sides(device):
    flag, x = wp.array([True], dtype=bool, device=device), wp.zeros(1, dtype=float, device=device)
    with wp.ScopedCapture(device) as other:
        wp.launch(add, dim=1, inputs=[x, 10.0], device=device)
    with wp.ScopedCapture(device) as capture:
        wp.capture_if(flag, on_true=lambda: wp.launch(add, dim=1, inputs=[x, 1.0], device=device), on_false=other.graph)
    wp.capture_launch(capture.graph)
    assert x.list() == [1.0]
    flag.fill_(False)
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert x.list() == [21.0]


def test_a_branch_that_changes_the_condition(device):
    flag, x = wp.array([1], dtype=int, device=device), wp.zeros(1, dtype=float, device=device)

    def first():
        wp.launch(add, dim=1, inputs=[x, 1.0], device=device)
        wp.launch(count_down, dim=1, inputs=[flag], device=device)

    with wp.ScopedCapture(device) as capture:
        wp.capture_if(flag, first, lambda: wp.launch(add, dim=1, inputs=[x, 10.0], device=device))
    wp.capture_launch(capture.graph)
    assert x.list() == [1.0]  # not the second side as well
    wp.capture_launch(capture.graph)
    assert x.list() == [11.0]


def test_conditions_inside_of_a_loop(device):
    """Collatz's sequence: how many steps to 1."""
    x, steps = (wp.zeros(1, dtype=int, device=device) for _ in range(2))
    is_even, busy = (wp.zeros(1, dtype=bool, device=device) for _ in range(2))

    def look():
        wp.launch(collatz, dim=1, inputs=[x, steps, is_even, busy], device=device)

    def step():
        wp.capture_if(
            is_even,
            on_true=lambda: wp.launch(halve, dim=1, inputs=[x], device=device),
            on_false=lambda: wp.launch(triple, dim=1, inputs=[x], device=device),
        )
        look()

    with wp.ScopedCapture(device) as capture:
        steps.zero_()
        look()
        wp.capture_while(busy, step)
    for start, expected in ((1, 0), (6, 8), (27, 111)):
        x.fill_(start)
        wp.capture_launch(capture.graph)
        assert (x.list(), steps.list()) == ([1], [expected])
