"""The driver's interface through cuda-python, on a stand-in for the driver's library (``libcuda.c``).

Each program runs in a process of its own. It shows that each call passes what the C function takes, and gives back what
that returns.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from warp_like.runtime.cuda import driver

pytest.importorskip("cuda.bindings.driver", reason="cuda-python is not installed")

ROOT = Path(__file__).resolve().parents[3]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

DIRECTLY = """
from warp_like.runtime.cuda.driver import Block, Driver, NATIVE_CALLS
from warp_like.runtime.cuda.errors import CudaError
import ctypes
import sys

d = Driver()
assert d.version() == 13000
assert d.device_count() == 2
assert d.device_name(1) == "Stub 1"
assert d.device_uuid(1) == bytes([1] * 16)
assert d.device_pci_bus_id(1) == "0000:01:00.0"
assert d.device_total_memory(1) == 2 << 30
names = "COMPUTE_CAPABILITY_MAJOR COMPUTE_CAPABILITY_MINOR MULTIPROCESSOR_COUNT".split()
assert [d.device_attribute(0, name) for name in names] == [9, 0, 132]
for name in (
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN MAX_THREADS_PER_MULTIPROCESSOR UNIFIED_ADDRESSING MEMORY_POOLS_SUPPORTED "
    "MANAGED_MEMORY IPC_EVENT_SUPPORTED"
).split():
    assert d.device_attribute(0, name) == 1
assert d.can_access_peer(0, 1) is True

def fails(code, call, *args):
    try:
        call(*args)
    except CudaError as e:
        assert e.code == code, e
        return str(e)
    raise AssertionError(call)

fails(201, d.context_synchronize)
assert d.context_current() == 0
context, other = d.primary_context_retain(1), d.primary_context_retain(0)
d.context_push(context)
assert d.context_current() == context
assert d.context_device() == 1
d.context_synchronize()
d.context_enable_peer(other)
fails(704, d.context_enable_peer, other)
d.context_disable_peer(other)
assert d.memory_info() == (1 << 20, 1 << 30)

assert d.stream_priority_range() == (0, -5)
stream = d.stream_create(0, -3)
assert d.stream_priority(stream) == -3
assert d.stream_flags(stream) == 1
assert d.stream_is_complete(stream) is False
assert d.stream_is_complete(0) is True
event = d.event_create(2)
d.event_record(event, stream)
d.stream_wait_event(stream, event)
d.stream_synchronize(stream)
d.event_synchronize(event)
assert d.event_is_complete(event) is True
assert d.event_elapsed(event, event) == 1.5

assert (d.exchange_capture_mode("RELAXED"), d.exchange_capture_mode("GLOBAL")) == ("GLOBAL", "RELAXED")
d.stream_begin_capture(stream, "RELAXED")
assert d.stream_is_capturing(stream) is True and d.stream_is_capturing(0) is False
graph = d.stream_end_capture(stream)
executable = d.graph_instantiate(graph)
assert d.graph_update(executable, graph) is True and d.graph_update(graph, graph) is False
assert d.graph_size(graph) == 3
d.graph_print(graph, "graph.dot", True)
d.graph_destroy(graph)
d.graph_destroy_executable(executable)

d.stream_begin_capture(stream, "THREAD_LOCAL")
graph, nodes = d.stream_capture_state(stream)
assert graph and nodes == ()
condition = d.graph_condition(graph, context)
body = d.stream_add_conditional(stream, condition, context, False)
graph_now, (node,) = d.stream_capture_state(stream)
assert graph_now == graph and body not in (0, graph)
side = d.stream_create(0, 0)
d.stream_begin_capture_to(side, body)
assert d.stream_capture_state(side) == (body, ())
inner = d.graph_condition(body, context)
assert inner != condition
assert d.stream_add_conditional(side, inner, context, True) not in (0, body, graph)
assert d.stream_end_capture(side) == body
again = d.graph_condition(graph, context)
d.stream_add_conditional(stream, again, context, True)
_, (later,) = d.stream_capture_state(stream)
assert later != node
assert d.stream_end_capture(stream) == graph
stub = ctypes.CDLL("libcuda.so.1")
assert [stub.conditional_nodes(kind) for kind in (0, 1)] == [1, 2]
d.stream_destroy(side)

plain, pooled = d.mem_alloc(64), d.mem_alloc_async(64, stream)
managed, host = d.mem_alloc_managed(64), d.mem_alloc_host(64)
text = ctypes.create_string_buffer(bytes(range(64)), 64)
d.copy_to_device(plain, ctypes.addressof(text), 64, stream)
d.copy_on_device(pooled, plain, 64, stream)
d.copy_peer(managed, context, pooled, other, 64, stream)
d.copy_to_host(host, managed, 64, stream)
assert ctypes.string_at(host, 64) == bytes(range(64))
d.copy_blocks(Block(plain, False, 8, 2), Block(host, True, 16, 2), 4, 2, 2, stream)
got = ctypes.string_at(plain, 32)
assert [got[i : i + 4] for i in (0, 8, 16, 24)] == [bytes(range(i, i + 4)) for i in (0, 16, 32, 48)]
d.fill(plain, 7, 1, 4, stream)
d.fill(plain + 4, 0x0102, 2, 2, stream)
d.fill(plain + 8, 0x01020304, 4, 1, stream)
assert ctypes.string_at(plain, 12) == bytes([7] * 4 + [2, 1, 2, 1, 4, 3, 2, 1])

pool = d.default_pool(1)
d.set_pool_attribute(pool, "RELEASE_THRESHOLD", 1 << 40)
assert d.pool_attribute(pool, "RELEASE_THRESHOLD") == 1 << 40
assert d.pool_attribute(pool, "USED_MEM_CURRENT") == d.pool_attribute(pool, "USED_MEM_HIGH") == 7
d.pool_trim(pool, 0)
assert d.pool_access(pool, 1) is False
d.set_pool_access(pool, 1, True)
assert d.pool_access(pool, 1) is True

handle = d.memory_handle(plain)
assert len(handle) == 64
assert d.open_memory(handle) == plain
d.close_memory(plain)
assert d.open_event(d.event_handle(event)) == event
assert d.pointer_device(plain) == 1
assert [d.pointer_kind(a) for a in (plain, managed, pooled)] == ["plain", "managed", "pool"]
fails(1, d.pointer_kind, 0)
assert d.allocation_range(plain + 1 & ~15) == (plain + 1 & ~15, 64)

module = d.module_load(b"// wl_kernel" + bytes(1))
function = d.module_function(module, "wl_kernel")
fails(500, d.module_function, module, "wl_other")
assert "line 1: bad" in fails(218, d.module_load, b"bad" + bytes(1))
assert d.module_global(module, "x") == (module, 8)
assert d.function_attribute(function, "MAX_THREADS_PER_BLOCK") == 1024
assert d.occupancy(function, 256) == 8
assert d.suggested_block(function) == (264, 768)
d.launch_thread(function, stream, 1, 1 << 40)
d.profiler_start(), d.profiler_stop()
d.module_unload(module)

d.mem_free(plain), d.mem_free(managed), d.mem_free_async(pooled, stream), d.mem_free_host(host)
d.context_pop()
assert d.context_current() == 0
d.release("event_destroy", context, event)
d.release("stream_destroy", context, stream)
d.primary_context_release(0)
addresses = d.native_addresses()
assert set(addresses) == set(NATIVE_CALLS) and all(addresses.values())
print(*(name for name in sys.argv[1:] if stub.was_called(name.encode()) <= 0))
"""

AS_A_USER = """
import ctypes
import sys
import numpy as np
import warp_like as wp

@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]

def step(x, y):
    wp.launch(saxpy, dim=10, inputs=[x, y, 2.0], device="cuda:0")

assert wp.get_device("cuda:0").arch == 90
x = wp.array(np.arange(10), dtype=float, device="cuda:0")
y = wp.zeros(10, device="cuda:0")
for _ in range(3):
    step(x, y)
stub = ctypes.CDLL("libcuda.so.1")
assert stub.launch_count() == 3
wp.synchronize()
assert x[2:5].list() == [2.0, 3.0, 4.0]
there = x.to("cuda:1")
assert there.list() == list(range(10))
pinned = wp.full(10, 3.0, pinned=True)
wp.copy(x, pinned)
with wp.ScopedStream(wp.Stream("cuda:0")) as stream:
    step(x, y)
    stream.record_event()
assert x.list() == wp.clone(x).list() == [3.0] * 10

flag = wp.zeros(1, dtype=int, device="cuda:0")
with wp.ScopedCapture("cuda:0") as capture:
    step(x, y)
    wp.capture_while(flag, lambda: wp.capture_if(flag, lambda: step(x, y)))
wp.capture_launch(capture.graph)
assert [stub.conditional_nodes(kind) for kind in (0, 1)] == [1, 1]
with wp.ScopedCudaProfiler("cuda:0"):
    assert wp.get_suggested_block_size(saxpy, "cuda:0") == (768, 264)
with wp.ScopedMempool("cuda:0", False):
    wp.zeros(10, device="cuda:0").zero_()
with wp.ScopedAllocator("cuda:0", wp.CudaManagedAllocator()):
    assert wp.zeros(10, device="cuda:0").memory_kind == wp.MemoryKind.CUDA_MANAGED
foreign = wp.array(ptr=x.ptr, shape=10, dtype=float, device="cuda:0", deleter=lambda *_: None)
wp.synchronize_device("cuda:0")
del x, y, there, pinned, flag, foreign, capture
print(*(name for name in sys.argv[1:] if stub.was_called(name.encode()) <= 0))
"""


CAPTURED = {"stream_end_capture", "stream_begin_capture_to", "stream_capture_state", "stream_add_conditional"}
"""What is called on streams that are captured, which the legacy default stream never is."""


def test_the_legacy_stream_is_named_where_0_could_be_the_threads_own():
    passed = []

    class Api:
        def __getattr__(self, name):
            if not name.startswith("cu"):
                return MagicMock()
            return lambda *args: passed.append(args) or (0, 7)

    made = driver.Driver.__new__(driver.Driver)
    made.api = Api()
    examples = {"int": 5, "str": "RELAXED", "Block": driver.Block(8, False, 1, 1)}
    tried = set()
    for name, method in inspect.getmembers(driver.Driver, inspect.isfunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if "stream" not in [p.name for p in parameters] or name in CAPTURED | {"stream_destroy"}:
            continue
        given = {p.name: 4 if p.name == "unit" else examples[p.annotation] for p in parameters if p.name != "args"}
        getattr(made, name)(**{**given, "stream": 99})
        place = passed[-1].index(99)
        for handle, expected in ((0, 1), (1, 1), (2, 2)):
            getattr(made, name)(**{**given, "stream": handle})
            assert passed[-1][place] == expected, name
        tried.add(name)
    assert {"copy_to_host", "event_record", "fill", "launch_thread", "stream_is_complete"} <= tried


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The folder with the stand-in."""
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("libcuda")
    source, out = Path(__file__).with_name("libcuda.c"), folder / "libcuda.so.1"
    flags = [
        "-O1",
        "-finstrument-functions",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
    ]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(out)], check=True)
    return folder


def calls() -> list[str]:
    """All functions of the driver that ``driver.py`` names, under the names that its library has."""
    source = Path(inspect.getsourcefile(driver)).read_text()
    found = set(re.findall(r"\bcu[A-Z]\w+", source))
    found.remove("cuMemsetD")  # of 8, 16 or 32 bits
    found.remove("cuGraphInstantiate")  # whose name in the library is another one
    found.remove("cuGetProcAddress")  # without which none of the others is there
    return sorted(found | {"cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async", "cuGraphInstantiateWithFlags"})


# What only XLA's calls need, which tests/runtime/cuda/test_xla_calls.py makes.
FOR_XLA = {"cuStreamGetCtx"}


@pytest.mark.parametrize(
    ("program", "exercised"),
    [
        pytest.param(DIRECTLY, set(calls()) - set(driver.NATIVE_CALLS), id="directly"),
        pytest.param(AS_A_USER, set(driver.NATIVE_CALLS) - FOR_XLA, id="as_a_user"),
    ],
)
def test_through_cuda_python(library, tmp_path, program, exercised):
    """Each program prints which of the functions it should have called it has not."""
    script = tmp_path / "program.py"
    script.write_text(program)
    path = os.pathsep.join([str(library), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    environment = {**os.environ, "LD_LIBRARY_PATH": path, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), *sorted(exercised)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
