"""A kind of device is a folder: one with memory of its own, made here, runs whole programs.

``runtime/memory/backend.py`` says what a backend is asked. The one here has its memory apart from the host's, so NumPy
sees copies alone. Its kernels are those of the CPU.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like import _native
from warp_like.runtime.cpu import algorithms, programs
from warp_like.runtime.launching.graph import Graph, set_capture
from warp_like.runtime.memory.allocation import MemoryKind, contiguous_strides
from warp_like.runtime.memory.allocators import BuiltinAllocator
from warp_like.runtime.memory.device import OTHER_DLPACK_TYPE, Device, devices_of, forget_devices
from warp_like.runtime.memory.registry import Unavailable, backend_of, kinds, register, unregister

RUNTIME = Path(wp.__file__).parent / "runtime"


class AtticDevice(Device):
    """A device whose memory is up in the attic."""

    kind = "attic"

    def __init__(self, ordinal: int) -> None:
        super().__init__(f"{self.kind}:{ordinal}", "a trunk", ordinal, OTHER_DLPACK_TYPE)


class _Elements:
    """Shows NumPy the elements of an array of the attic, which `array.numpy()` does not."""

    def __init__(self, a: Any) -> None:
        inner = () if a.element.is_struct else a.element.shape
        unit = a.itemsize if a.element.is_struct else a._raw_dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "data": (a.ptr, False),
            "shape": (*a.shape, *inner),
            "strides": (*a.strides, *contiguous_strides(inner, unit)),
            "typestr": f"|V{unit}" if a.element.is_struct else a._raw_dtype.str,
        }


class AtticAlgorithms:
    """Those of the CPU, but for one that takes no other device's arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(algorithms, name)

    def fingerprint(self, a: Any) -> int:
        return hash(a.numpy().tobytes())


class AtticBackend:
    """The attic as a target."""

    kind = "attic"
    shares_host_memory = False
    streams = None
    device_class: type[Device] = AtticDevice
    programs = programs
    algorithms = AtticAlgorithms()

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.live: dict[int, Any] = {}
        self.asked = 0

    def discover(self) -> dict[str, Device]:
        self.asked += 1
        if not self.count:
            raise Unavailable("the ladder is missing")
        made = [self.device_class(i) for i in range(self.count)]
        return {d.alias: d for d in made}

    def current_device(self) -> Device | None:
        return None

    def allocate(self, device: Device, nbytes: int, zero: bool) -> Any:
        room = ctypes.create_string_buffer(nbytes + 64)
        address = -(-ctypes.addressof(room) // 64) * 64
        if not zero:
            ctypes.memset(address, 0x5A, nbytes)
        self.live[address] = room
        return _native.Buffer.wrap(address, nbytes, self.live.__delitem__)

    def allocate_pinned(self, device: Device, nbytes: int, zero: bool) -> Any:
        raise RuntimeError("nothing in the attic is nailed down")

    def builtin_allocator(self, device: Device, pooled: bool) -> BuiltinAllocator | None:
        return None if pooled else BuiltinAllocator(lambda nbytes: self.allocate(device, nbytes, zero=False))

    def memory_kind(self, a: Any) -> MemoryKind:
        return MemoryKind.UNKNOWN

    def memory_handle(self, a: Any) -> bytes:
        raise RuntimeError("the trap door has no handle")

    def can_access(self, device: Device, a: Any) -> bool:
        return False

    def _elements(self, a: Any) -> Any:
        shown = np.asarray(_Elements(a))
        return shown.view(a.element.numpy) if a.element.is_struct else shown

    def write(self, dest: Any, values: Any, stream: Any) -> None:
        target: Any = self._elements(dest) if dest.device.kind == self.kind else dest.numpy()
        source: Any = values
        if isinstance(values, wp.array):
            source = self.read(values) if values.device.kind == self.kind else values.numpy()
        np.copyto(target, source)

    def read(self, a: Any) -> Any:
        return self._elements(a).copy()

    def begin_capture(self, device: Device, stream: Any, external: bool, mode: str) -> None:
        set_capture(Graph(device))

    def takes_conditions(self) -> bool:
        return True


class CellarDevice(AtticDevice):
    """One of a fourth kind."""

    kind = "cellar"


class CellarBackend(AtticBackend):
    """The same under another name, so that data goes between two kinds."""

    kind = "cellar"
    device_class = CellarDevice


def _with(backend: AtticBackend) -> Iterator[AtticBackend]:
    register(backend.kind, lambda: backend)
    try:
        yield backend
        for kernel in wp.get_module(__name__).kernels.values():
            kernel.forget_programs()
        gc.collect()
        assert not backend.live, f"{len(backend.live)} pieces of memory were not given back"
    finally:
        forget_devices(backend.kind)
        unregister(backend.kind)


@pytest.fixture
def attic() -> Iterator[AtticBackend]:
    yield from _with(AtticBackend())


@pytest.fixture
def cellar() -> Iterator[AtticBackend]:
    yield from _with(CellarBackend())


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.struct
class Pair:
    number: int
    where: wp.vec3


def test_devices_are_looked_for_when_somebody_asks(attic):
    assert kinds()[:2] == ["cpu", "cuda"]
    wp.zeros(3)
    wp.synchronize()
    assert not attic.asked
    assert wp.get_device("attic:1").alias == "attic:1"
    assert wp.get_device("attic") is wp.get_device("attic:0")
    assert attic.asked == 1
    device = wp.get_device("attic:1")
    assert not device.is_cpu
    assert not device.is_cuda
    assert not device.is_capturing
    assert device.backend is backend_of("attic") is attic
    assert set(map(str, wp.get_devices())) >= {"cpu", "attic:0", "attic:1"}
    assert "attic:0" not in map(str, wp.get_cuda_devices())
    with pytest.raises(
        RuntimeError, match=r"'attic:7' is not available here; the devices are: cpu,.* attic:0, attic:1$"
    ):
        wp.get_device("attic:7")
    with pytest.raises(ValueError, match="'attic:' is not the name of a device"):
        wp.get_device("attic:")


def test_why_there_is_none():
    for backend in _with(AtticBackend(count=0)):
        assert not wp.is_device_available("attic")
        with pytest.raises(RuntimeError, match=r"\(the ladder is missing\)$"):
            wp.get_device("attic:0")
        assert backend.asked == 1
    with pytest.raises(ValueError, match="'attic:0' is not the name of a device"):
        wp.get_device("attic:0")


def test_the_default_is_the_current_one(attic):
    with wp.ScopedDevice("attic:1") as device:
        assert wp.get_device("attic") is device
        assert wp.zeros(3).device is device
        assert devices_of("attic")["attic:1"] is device
    assert wp.get_device("attic") is wp.get_device("attic:0")
    assert wp.zeros(3).device == "cpu"


def in_thread(f):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result()


def test_each_thread_has_a_current_device(attic):
    """What one thread does inside of `ScopedDevice` does not redirect the launches of others."""

    def work():
        x = wp.full(3, 2.0)
        before = wp.get_device()
        with wp.ScopedDevice("attic:1"):
            entered.wait(10)
            y = wp.full(3, 3.0)
            wp.launch(square, dim=3, inputs=[y], outputs=[y])
            left.wait(10)
        return x, y, before, wp.get_device()

    entered, left = threading.Barrier(2), threading.Barrier(2)
    with ThreadPoolExecutor(1) as pool, wp.ScopedDevice("attic:0"):
        running = pool.submit(work)
        entered.wait(10)
        z = wp.full(3, 4.0)
        wp.launch(square, dim=3, inputs=[z], outputs=[z])
        assert wp.get_device() == "attic:0"
        left.wait(10)
        x, y, before, after = running.result()
    assert [str(d) for d in (x.device, y.device, z.device, before, after)] == [
        "cpu",
        "attic:1",
        "attic:0",
        "cpu",
        "cpu",
    ]
    assert (y.list(), z.list()) == ([9.0] * 3, [16.0] * 3)
    assert wp.get_device() == "cpu"


def test_threads_that_name_no_device_use_that_of_the_process(attic):
    try:
        wp.set_device("attic:1")
        assert in_thread(wp.get_device) == "attic:1"
        in_thread(lambda: wp.set_device("attic:0"))
        assert wp.get_device() == "attic:1"
        assert in_thread(wp.get_device) == "attic:0"
        with wp.ScopedDevice("cpu"), wp.ScopedDevice("attic:0") as inner:
            assert wp.get_device() is inner
        assert wp.get_device() == "attic:1"
    finally:
        wp.set_device("cpu")


@pytest.mark.parametrize("dtype", [float, int, wp.float16, wp.bfloat16, wp.vec3, wp.mat22, bool])
def test_copies(attic, dtype):
    host = wp.zeros(6, dtype=dtype)
    host.assign((np.arange(host.numpy().size) % 2).reshape(host.numpy().shape))
    a = wp.clone(host, device="attic:0")
    assert a.device == "attic:0"
    assert len(attic.live) == 1
    assert np.array_equal(a.numpy(), host.numpy())
    a.numpy()[...] = 7  # a copy
    assert np.array_equal(a.numpy(), host.numpy())
    assert np.array_equal(a[::-2].numpy(), host.numpy()[::-2])
    other = wp.zeros(6, dtype=dtype, device="attic:1")
    assert not other.numpy().any()
    wp.copy(other, a)
    other[:3].assign(a[3:])
    back = wp.clone(other, device="cpu")
    assert np.array_equal(back.numpy(), host.numpy()[[3, 4, 5, 3, 4, 5]])
    back[::2].assign(a[::2])
    assert np.array_equal(back.numpy()[::2], host.numpy()[::2])


def test_structs_and_fills(attic):
    a = wp.zeros(3, dtype=Pair, device="attic:0")
    one = Pair()
    one.number, one.where = 3, wp.vec3(1.0, 2.0, 3.0)
    a.assign([one, Pair(), one])
    assert a.numpy()["number"].tolist() == [3, 0, 3]
    assert [p.number for p in wp.clone(a, device="cpu").list()] == [3, 0, 3]
    b = wp.full(4, wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3, device="attic:0")
    b.fill_(2.5)
    b[1:2].zero_()
    assert b.numpy().tolist() == [[2.5] * 3, [0.0] * 3, [2.5] * 3, [2.5] * 3]
    with wp.ScopedDevice("attic:0"):
        assert (b * 2.0).numpy()[0].tolist() == [5.0] * 3


def test_data_goes_from_kind_to_kind_by_way_of_the_host(attic, cellar):
    a = wp.array([1.0, 2.0, 3.0], dtype=float, device="attic:0")
    b = wp.clone(a, device="cellar:1")
    assert b.device == "cellar:1"
    assert b.list() == [1.0, 2.0, 3.0]
    b.fill_(4.0)
    wp.copy(a[1:], b[1:])
    assert a.list() == [1.0, 4.0, 4.0]


def test_launches(attic):
    x, y = wp.array([1.0, 2.0, 3.0], dtype=float, device="attic:0"), wp.empty(3, device="attic:0")
    for _ in range(3):
        wp.launch(square, dim=3, inputs=[x], outputs=[y], device="attic:0")
    assert y.list() == [1.0, 4.0, 9.0]
    here, there = wp.array([5.0], dtype=float), wp.zeros(1)
    wp.launch(square, dim=1, inputs=[here], outputs=[there])
    assert there.list() == [25.0]
    with pytest.raises(TypeError, match="the launch is on attic:0, the array on cpu"):
        wp.launch(square, dim=1, inputs=[here], outputs=[y], device="attic:0")
    with pytest.raises(TypeError, match="the launch is on attic:1, the array on attic:0"):
        wp.launch(square, dim=3, inputs=[x], outputs=[y], device="attic:1")
    for _ in range(2):  # whether it is compiled or not
        with pytest.raises(TypeError, match="the launch is on attic:0, the array on cpu"):
            wp.launch(square, dim=3, inputs=[np.ones(3, np.float32)], outputs=[y], device="attic:0")
    with wp.ScopedDevice("attic:0"):
        wp.launch(square, dim=3, inputs=[y], outputs=[y])
        command = wp.launch(square, dim=2, inputs=[y], outputs=[y], record_cmd=True)
    command.launch()
    assert y.list() == [1.0, 256.0, 81.0]
    assert {v.device for v in square.explain().variants} == {"cpu", "attic:0"}


def test_launches_are_timed(attic):
    x = wp.ones(3, device="attic:0")
    wp.timing_begin()
    wp.launch(square, dim=3, inputs=[x], outputs=[x], device="attic:0")
    (result,) = wp.timing_end()
    assert (result.name, result.device) == ("square", "attic:0")
    assert result.elapsed > 0


def test_gradients(attic):
    x = wp.array([1.0, 2.0, 3.0], dtype=float, device="attic:0", requires_grad=True)
    y = wp.zeros(3, device="attic:0", requires_grad=True)
    total = wp.zeros(1, device="attic:0", requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y], device="attic:0")
        wp.utils.array_sum(y, out=total)
        x.fill_(0.0)
    tape.backward(total)
    assert total.list() == [14.0]
    assert x.grad.device == "attic:0"
    assert x.grad.list() == [2.0, 4.0, 6.0]
    del tape


def test_captures(attic):
    x = wp.array([2.0, 3.0], dtype=float, device="attic:0")
    with wp.ScopedCapture("attic:0") as capture:
        wp.launch(square, dim=2, inputs=[x], outputs=[x], device="attic:0")
    assert x.list() == [2.0, 3.0]
    wp.capture_launch(capture.graph)
    wp.capture_launch(capture.graph)
    assert x.list() == [16.0, 81.0]
    with pytest.raises(RuntimeError, match="attic:0 has no streams"):
        wp.capture_begin("attic:0", external=True)


def test_whole_arrays(attic):
    keys = wp.array([3, 1, 2, 1], dtype=int, device="attic:0")
    values = wp.array([0, 1, 2, 3], dtype=int, device="attic:0")
    assert wp.utils.array_sum(keys) == 7
    wp.utils.radix_sort_pairs(keys, values)
    assert (keys.list(), values.list()) == ([1, 1, 2, 3], [1, 3, 2, 0])
    wp.utils.array_scan(keys, values)
    assert values.list() == [1, 2, 4, 7]
    with pytest.raises(RuntimeError, match="some on attic:0 and some on cpu"):
        wp.utils.array_scan(keys, wp.zeros(4, dtype=int))


def test_what_it_does_not_have(attic):
    a = wp.zeros(3, device="attic:0")
    with pytest.raises(RuntimeError, match="'attic:0' has no streams"):
        wp.get_stream("attic:0")
    with pytest.raises(RuntimeError, match="no handle"):
        a.ipc_handle()
    assert wp.get_device("attic:0").mempool_allocator is None
    with pytest.raises(RuntimeError, match="nailed down"):
        wp.get_device("attic:0").pinned_allocator.allocate(8)
    assert not hasattr(a, "__cuda_array_interface__")
    assert a.memory_kind == MemoryKind.UNKNOWN
    assert not wp.can_access("cpu", a)
    assert not wp.can_access("attic:0", wp.zeros(3))
    assert wp.can_access("attic:0", a)


def _names(source: str) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, and every attribute that it reads."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno


def _knows(source: str, kind: str) -> list[str]:
    """What a file outside of a target's folder should not say: the target's modules, and which kind a device is."""
    modules = f"warp_like.runtime.{kind}"
    return [f"{line} {n}" for n, line in _names(source) if f"{n}.".startswith(f"{modules}.") or n == "is_cuda"]


@pytest.mark.parametrize("kind", ["cpu", "cuda", "opencl"])
def test_the_runtime_does_not_know_its_targets(kind):
    folders = {kind, "cuda", "opencl"}  # what OpenCL lacks, the CPU does
    targets = [RUNTIME / "__init__.py", *(p for folder in folders for p in (RUNTIME / folder).rglob("*.py"))]
    files = [path for path in RUNTIME.rglob("*.py") if path not in targets]
    assert len(files) > 50
    assert not [f"{path}:{what}" for path in files for what in _knows(path.read_text(encoding="utf-8"), kind)]
    assert _knows((RUNTIME / "__init__.py").read_text(encoding="utf-8"), kind)


@pytest.mark.parametrize(
    "source",
    [
        "from warp_like.runtime.cuda.load import install",
        "from warp_like.runtime import cuda",
        "def f():\n    from warp_like.runtime.cuda import load",
        "import warp_like.runtime.cuda.load",
        "if device.is_cuda:\n    pass",
    ],
)
def test_the_check_itself_finds(source):
    assert len(_knows(source, "cuda")) == 1
