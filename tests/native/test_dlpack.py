"""DLPack capsules in both directions and both versions, in every order of release; the exchange API."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest

from tests.native import support as s
from tests.native.support import native, torch


class Exporter:
    """An object that NumPy and PyTorch import through `__dlpack__`."""

    def __init__(self, array: object, versioned: bool) -> None:
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **_: object) -> object:
        return native.dlpack_capsule(self.array, self.versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


IMPORTERS = {"torch": lambda x: torch.from_dlpack(x), "numpy": np.from_dlpack}


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("library", IMPORTERS)
@pytest.mark.parametrize(
    "code, inner", [(s.F32, ()), (s.vec(3, s.F64), (3,)), (s.mat(2, 2, s.I16), (2, 2)), (s.BOOL, ())]
)
def test_export(library: str, versioned: bool, code: int, inner: tuple[int, ...]) -> None:
    a = s.bound((3, 4), code, strides=(8 * s.size_of(code), 2 * s.size_of(code)))
    t = IMPORTERS[library](Exporter(a, versioned))
    assert tuple(t.shape) == (3, 4, *inner)
    assert np.asarray(t).strides == np.asarray(a).strides
    assert np.asarray(t).ctypes.data == a.ptr
    if library == "torch" or versioned:
        np.asarray(t)[...] = 1
        assert (np.asarray(a) == 1).all()


def test_export_of_bfloat16() -> None:
    t = torch.from_dlpack(Exporter(s.bound((3,), s.BF16), True))
    assert t.dtype == torch.bfloat16


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("library", IMPORTERS)
@pytest.mark.parametrize("order", list(itertools.permutations(["array", "capsule", "tensor"])))
def test_release_in_every_order(library: str, versioned: bool, order: tuple[str, ...]) -> None:
    a = s.bound((100,))
    alive = weakref.ref(a.owner)
    held = {"array": a, "capsule": native.dlpack_capsule(a, versioned)}
    if library == "torch":
        held["tensor"] = torch.utils.dlpack.from_dlpack(held["capsule"])
    else:
        exporter = Exporter(a, versioned)
        exporter.__class__ = type("Once", (Exporter,), {"__dlpack__": lambda self, **_: held["capsule"]})
        held["tensor"] = np.from_dlpack(exporter)
        del exporter
    del a
    for name in order:
        assert alive() is not None
        del held[name]
        gc.collect()
        if {"array", "tensor"} <= set(order[: order.index(name) + 1]):
            break
    assert alive() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_capsule_that_nobody_takes(versioned: bool) -> None:
    a = s.bound((4,))
    memory = a.owner
    before = sys.getrefcount(memory)
    capsule = native.dlpack_capsule(a, versioned)
    assert sys.getrefcount(memory) == before + 1
    del capsule
    assert sys.getrefcount(memory) == before


def test_export_refusals() -> None:
    frozen = s.bound((2,), readonly=True)
    with pytest.raises(BufferError, match="max_version"):
        native.dlpack_capsule(frozen, False)
    assert native.dlpack_import(native.dlpack_capsule(frozen, True))[5] is True
    assert not np.from_dlpack(Exporter(frozen, True)).flags.writeable
    for bad in (s.bound((4,), strides=(6,)), s.bound((2,), 0xFE), s.Array()):
        with pytest.raises(BufferError):
            native.dlpack_capsule(bad, True)
    with pytest.raises(TypeError):
        native.dlpack_capsule(np.zeros(3), True)


def test_release_on_another_thread_without_the_gil() -> None:
    a = s.bound((4,))
    memory = a.owner
    before = sys.getrefcount(memory)
    capsule = native.dlpack_capsule(a, True)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = get(capsule, b"dltensor_versioned")
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = b"used_dltensor_versioned"
    rename(capsule, used)
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(managed + 16).value)
    thread = threading.Thread(target=deleter, args=(managed,))  # ctypes lets go of the GIL for the call
    thread.start()
    thread.join()
    assert sys.getrefcount(memory) == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_import_from_torch(version: tuple[int, int] | None) -> None:
    t = torch.arange(12, dtype=torch.float32).reshape(3, 4)[:, ::2]
    capsule = t.__dlpack__(max_version=version)
    ptr, shape, strides, dtype, device, readonly, owner = native.dlpack_import(capsule)
    assert (ptr, shape, strides) == (t.data_ptr(), (3, 2), (16, 8))
    assert (dtype, device, readonly) == ((2, 32, 1), (1, 0), False)
    with pytest.raises(ValueError, match="consumed already"):
        native.dlpack_import(capsule)
    storage = weakref.ref(t.untyped_storage())
    del t, capsule
    assert ctypes.c_float.from_address(ptr + 8).value == 2
    del owner
    assert storage() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_import_from_numpy(version: tuple[int, int] | None) -> None:
    n = np.arange(6.0)[::-1]
    before = sys.getrefcount(n)
    ptr, shape, strides, dtype, _, readonly, owner = native.dlpack_import(n.__dlpack__(max_version=version))
    assert (ptr, shape, strides, dtype) == (n.__array_interface__["data"][0], (6,), (-8,), (2, 64, 1))
    assert not readonly
    assert sys.getrefcount(n) == before + 1
    del owner
    assert sys.getrefcount(n) == before


def test_import_keeps_the_read_only_flag() -> None:
    n = np.arange(6.0)
    n.flags.writeable = False
    assert native.dlpack_import(n.__dlpack__(max_version=(1, 0)))[5] is True


def test_import_round_trip_of_our_own() -> None:
    a = s.bound((3,), s.vec(3, s.F32))
    alive = weakref.ref(a.owner)
    ptr, shape, strides, dtype, device, _, owner = native.dlpack_import(native.dlpack_capsule(a, True))
    assert (ptr, shape, strides, dtype, device) == (a.ptr, (3, 3), (12, 4), (2, 32, 1), (1, 0))
    del a
    assert alive() is not None
    del owner
    assert alive() is None


@pytest.mark.parametrize("bad", [None, 5, np.zeros(3)])
def test_import_needs_a_capsule(bad: object) -> None:
    with pytest.raises(TypeError):
        native.dlpack_import(bad)


def test_import_refuses_another_major_version() -> None:
    a = s.bound((4,))
    memory = a.owner
    before = sys.getrefcount(memory)
    capsule = native.dlpack_capsule(a, True)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_uint32.from_address(get(capsule, b"dltensor_versioned")).value = 2
    with pytest.raises(BufferError, match="version 2"):
        native.dlpack_import(capsule)
    del capsule
    assert sys.getrefcount(memory) == before


def test_tensor_info() -> None:
    for t in (
        torch.zeros(3, 4)[:, 1:],
        torch.nn.Parameter(torch.zeros(2)),
        torch.zeros(2, dtype=torch.bfloat16),
    ):
        before = sys.getrefcount(t)
        ptr, shape, strides, dtype, device, readonly, owner = native.tensor_info(t)
        assert (ptr, shape) == (t.data_ptr(), tuple(t.shape))
        assert strides == tuple(n * t.element_size() for n in t.stride())
        assert dtype == (4 if t.dtype == torch.bfloat16 else 2, 8 * t.element_size(), 1)
        assert (device, readonly) == ((1, 0), False)
        assert owner is t
        del owner
        assert sys.getrefcount(t) == before
    assert native.tensor_info(np.zeros(3)) is None
    assert native.tensor_info(5) is None
    with pytest.raises(Exception, match=r"."):
        native.tensor_info(torch.zeros(3).to_sparse())


def test_many_tensor_classes() -> None:
    d = s.dispatcher(s.param(s.ARRAY, s.F32, 1))
    for i in range(100):
        t = torch.zeros(3).as_subclass(type(f"T{i}", (torch.Tensor,), {}))
        assert d.try_launch(3, [t], [], None), i
    assert d.try_launch(3, [torch.zeros(3)], [], None)


def test_write_hook_sees_what_the_kernel_writes() -> None:
    class Watched(torch.Tensor):
        pass

    seen: list[tuple[object, ...]] = []
    native.set_write_hook(Watched, seen.append)
    x, y, z = (torch.zeros(3).as_subclass(Watched) for _ in range(3))
    ours = s.Array()
    ours._bind(z.data_ptr(), (3,), None, s.F32, 4, False, None, s.CPU, z)
    writes = s.param(s.ARRAY, s.F32, 1, True)
    d = s.dispatcher(s.param(s.ARRAY, s.F32, 1), writes, writes, writes)
    assert d.try_launch(3, [x, y, ours._subview(0, (3,), (4,)), torch.zeros(3)], [], None)
    assert len(seen) == 1
    assert [id(t) for t in seen[0]] == [id(y), id(z)]
    assert d.try_launch(3, [x, y, ours, torch.zeros(4).double()], [], None) is False
    assert len(seen) == 1


def test_version_counter() -> None:
    pytest.importorskip("torch")
    s.run_python(
        """
        import torch
        native.set_write_hook(torch.Tensor, torch._C._increment_version)
        x, y = torch.zeros(3), torch.zeros(3, requires_grad=True)
        d = dispatcher(param(ARRAY, F32, 1), param(ARRAY, F32, 1, True))
        for _ in range(3):
            assert d.try_launch(3, [x, y], [], None)
        assert (x._version, y._version) == (0, 3)
        """
    )


def test_at_interpreter_exit() -> None:
    pytest.importorskip("torch")
    s.run_python(
        """
        import builtins, numpy as np, torch, threading
        a = bound((1000,))
        t = torch.utils.dlpack.from_dlpack(native.dlpack_capsule(a, True))
        legacy = torch.utils.dlpack.from_dlpack(native.dlpack_capsule(a, False))
        builtins.kept = [t, native.dlpack_capsule(a, False), legacy]
        owner = native.dlpack_import(torch.zeros(3).__dlpack__())[6]
        builtins.owner = (owner, native.dlpack_import(native.dlpack_capsule(a, True))[6])
        cycle = [native.dlpack_capsule(a, True)]; cycle.append(cycle)
        torch.nn.kept = t
        native.kept = native.Buffer.wrap(64, 1, lambda p: None)
        """
    )
