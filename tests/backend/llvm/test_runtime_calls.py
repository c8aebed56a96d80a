"""The per-thread stack, printing, and the life of loaded code."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from tests.backend.kernels import reversing
from tests.backend.running import Kernel, Runtime, check
from tests.ir_builder import start, tid
from warp_like.backend.compile import entry_name, to_object
from warp_like.backend.cpu import load, load_with_llvm
from warp_like.backend.target import Options, host_target
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import (
    Array,
    Mat,
    Type,
    Vec,
    bool_,
    element_shape,
    float32,
    float64,
    int8,
    int32,
    uint64,
)


@pytest.mark.parametrize("t", [float32, bool_, int8, Vec(3, float64), Mat(3, 3, float32)], ids=str)
@pytest.mark.parametrize("capacity", [0, 16, 4096])
def test_stack(t: Type, capacity: int) -> None:
    x = np.random.default_rng(0).integers(0, 2, (3, 17, *element_shape(t)))
    x = x.astype(bool if t == bool_ else str(t if t in (float32, int8) else t.dtype))
    got = check(reversing(t), [x, np.zeros_like(x)], (3,), capacity=capacity)
    np.testing.assert_array_equal(got[1], x[:, ::-1])


def test_stack_grows_only_when_full() -> None:
    runtime = Runtime(capacity=16)
    x = np.zeros((1, 8), "f")
    Kernel(reversing(float32), runtime=runtime)([x, x.copy()], (1,))
    assert 1 <= runtime.grown <= 4
    before = runtime.grown
    Kernel(reversing(float32), runtime=runtime)([x, x.copy()], (1,))
    assert runtime.grown == before


def test_print() -> None:
    f, b = start("printing", x=Array(float32, 1), v=Vec(2, int32), m=Mat(2, 2, float32), u=uint64)
    x, v, m, u = f.params
    i = tid(b)
    value = b.load(x, [i])
    b.insert(ops.Print(("thread ", ": ", " % ", " ", " ", " ", "\n"), (i, value, v, m, u, b.gt(value, 1.0))))
    b.insert(ops.Print(('only "text" and ünïcode\\n\n',), ()))
    b.yield_()
    check(f, [np.array([0.5, -2, 1e10], "f"), [3, -4], [[1, 2], [3, 4]], 2**64 - 1], (3,))


def simple(name: str = "simple") -> Function:
    f, b = start(name, x=Array(float32, 1))
    i = tid(b)
    b.store(f.params[0], [i], b.exp(b.load(f.params[0], [i])))
    b.yield_()
    return f


def test_loaded_code_lives_as_long_as_its_object() -> None:
    kernels = [Kernel(simple()) for _ in range(5)]
    addresses = {k.loaded.address("wl_simple") for k in kernels}
    assert len(addresses) == 5
    x = np.zeros(3, "f")
    last = kernels[-1]
    del kernels
    gc.collect()
    last([x], (3,))
    np.testing.assert_allclose(x, 1)


def test_compiling_from_many_os_threads() -> None:
    results: list[np.ndarray] = []

    def work(k: int) -> None:
        x = np.full(100, k, "f")
        Kernel(simple(f"simple{k}"))([x], (100,))
        results.append(x / np.exp(np.float32(k)))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(results) == 6
    np.testing.assert_allclose(results, 1, rtol=1e-6)


def test_same_input_gives_the_same_object() -> None:
    made = {to_object(simple(), host_target(), Options()) for _ in range(2)}
    assert len(made) == 1


def test_damaged_object_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    data = to_object(simple(), host_target(), Options())
    with pytest.raises(RuntimeError):
        load(data[: len(data) // 2], ("wl_simple",), {})
    with pytest.raises(RuntimeError):
        load(data, ("wl_other",), {})
    capfd.readouterr()


def test_entry_name_is_an_identifier() -> None:
    f, _ = start("ns.Class.<locals>.größe-1")
    assert entry_name(f).isidentifier()
    assert entry_name(f).isascii()


def test_both_loaders_give_the_same_code() -> None:
    data = to_object(simple(), host_target(), Options())
    for loaded in (load(data, ("wl_simple",), {}), load_with_llvm(data, ("wl_simple",), {})):
        assert loaded.address("wl_simple") % 16 == 0
        with pytest.raises(KeyError):
            loaded.address("wl_other")
