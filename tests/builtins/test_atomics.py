"""Atomics: every kind on every dtype that has it, on scalars and whole values, with many threads at one element."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import COMBINE
from tests.long_tail import sampled
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.ir.atomics import KINDS as TABLE
from warp_like.ir.atomics import has_atomic
from warp_like.ir.types import uint8
from warp_like.values import to_ir

INTS = [wp.int32, wp.uint32, wp.int64, wp.uint64]
FLOATS = [wp.float32, wp.float64]
HALVES = [wp.float16]
KINDS = {
    kind.name: [t for t in INTS + FLOATS + HALVES if has_atomic(kind.name, to_ir(t))]
    for kind in TABLE.values()
    if kind.does and kind.commutes
}
THREADS, ELEMENTS = 600, 7


def values_of(dtype: Any) -> dict[str, Any]:
    """The types made of a scalar, by name."""
    made = {"scalar": dtype, "vec3": wp.types.vector(3, dtype), "mat23": wp.types.matrix((2, 3), dtype)}
    if dtype in FLOATS + HALVES:
        made |= {"quat": wp.types.quaternion(dtype), "transform": wp.types.transformation(dtype)}
    return made


CASES = [(kind, dtype, name) for kind, dtypes in KINDS.items() for dtype in dtypes for name in values_of(dtype)]


def kernel(code: str, ndim: int = 1) -> Any:
    head = "@wp.kernel\ndef k(x: wp.array(dtype=Any), y: wp.array(dtype=Any, ndim={n}), old: wp.array(dtype=Any)):\n"
    file = f"<atomics {hash(code)}>"
    text = head.replace("{n}", str(ndim)) + code
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"wp": wp, "Any": Any}
    exec(compile(text, file, "exec"), namespace)
    return namespace["k"]


def limit_of_values(kind: str, dtype: Any) -> int:
    """Below what values are drawn, so that 600 updates in any order give one result: none rounds or overflows."""
    row = TABLE[kind]
    exact = dtype in INTS or not row.rounds or (row.reduction == "add" and dtype not in HALVES)
    return 100 if exact else 2


@pytest.mark.parametrize(
    ("kind", "dtype", "name"), sampled(CASES, every=2), ids=[f"{k}-{d.__name__}-{n}" for k, d, n in CASES]
)
def test_many_threads(kind: str, dtype: Any, name: str) -> None:
    t = values_of(dtype)[name]
    shape = wp.zeros(1, dtype=t).numpy().shape[1:]
    rng = np.random.default_rng(5)
    numpy = wp.zeros(1, dtype=dtype).numpy().dtype
    x = rng.integers(0, limit_of_values(kind, dtype), (THREADS, *shape)).astype(numpy)
    y = rng.integers(0, 100, (ELEMENTS, *shape)).astype(numpy)
    expected = y.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(THREADS):
            expected[i % ELEMENTS] = COMBINE[kind](expected[i % ELEMENTS], x[i])
    arrays = [wp.array(a, dtype=t) for a in (x, y, x)]
    run = kernel(f"    i = wp.tid()\n    old[i] = wp.atomic_{kind}(y, i % {ELEMENTS}, x[i])\n")
    wp.launch(run, dim=THREADS, inputs=arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), expected)
    if kind in ("add", "sub"):  # of the threads at an element, one has seen it as it was
        seen = arrays[2].numpy()
        assert all((y[e] == seen[e::ELEMENTS]).reshape(-1, *shape).any(axis=0).all() for e in range(ELEMENTS))


EXCHANGED = [(dtype, name) for dtype in INTS + FLOATS for name in values_of(dtype)]


@pytest.mark.parametrize(
    ("dtype", "name"), sampled(EXCHANGED, every=2), ids=[f"{d.__name__}-{n}" for d, n in EXCHANGED]
)
def test_exchange_and_compare(dtype: Any, name: str) -> None:
    t = values_of(dtype)[name]
    shape = wp.zeros(1, dtype=t).numpy().shape[1:]
    numpy = wp.zeros(1, dtype=dtype).numpy().dtype
    x = np.arange(1, 1 + THREADS * int(np.prod(shape))).reshape(THREADS, *shape).astype(numpy)
    x, y, old = (wp.array(a, dtype=t) for a in (x, np.zeros((1, *shape), numpy), np.zeros_like(x)))
    wp.launch(kernel("    i = wp.tid()\n    old[i] = wp.atomic_exch(y, 0, x[i])\n"), dim=THREADS, inputs=[x, y, old])
    seen = np.concatenate([old.numpy(), y.numpy()])  # each value was put in once and found once
    expected = np.concatenate([x.numpy(), np.zeros((1, *shape))])
    np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(expected, axis=0))
    y.zero_()
    swap = kernel("    i = wp.tid()\n    old[i] = wp.atomic_cas(y, 0, x[i] - x[i], x[i])\n")
    wp.launch(swap, dim=THREADS, inputs=[x, y, old])
    winner = y.numpy()[0]
    assert (winner != 0).all()
    found = old.numpy()
    np.testing.assert_array_equal((found == 0).sum(axis=0), np.ones(shape), "one thread each finds nothing there")
    assert ((found == 0) | (found == winner)).all()
    assert "cas" in swap.inspect("ptx", args=[x, y, old], target="sm_80")


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_dimensions_and_strides(ndim: int) -> None:
    memory = np.zeros((2,) * ndim + (3,), np.float32)
    y = wp.array(memory[..., 1], dtype=float, copy=False)  # every third number of memory
    x, old = wp.ones(50, dtype=float), wp.zeros(50, dtype=float)
    at = ", ".join(["i % 2"] + ["0"] * (ndim - 1))
    run = kernel(f"    i = wp.tid()\n    old[i] = wp.atomic_add(y, {at}, x[i])\n", ndim)
    wp.launch(run, dim=50, inputs=[x, y, old])
    expected = np.zeros((2,) * ndim)
    expected[(slice(None), *[0] * (ndim - 1))] = 25
    np.testing.assert_array_equal(y.numpy(), expected)
    assert memory.sum() == 50


OWN = [c for c in CASES if c[1] in (wp.uint32, wp.float32)] + [
    ("exch", wp.float32, "mat23"),
    ("exch", wp.int32, "scalar"),
]


@pytest.mark.parametrize(
    ("kind", "dtype", "name"), sampled(OWN, every=2), ids=[f"{k}-{d.__name__}-{n}" for k, d, n in OWN]
)
def test_on_an_array_of_the_threads_own(kind: str, dtype: Any, name: str) -> None:
    """There is no atomic instruction there, but the same result."""
    t = values_of(dtype)[name]
    shape = wp.zeros(1, dtype=t).numpy().shape[1:]
    rng = np.random.default_rng(6)
    x, y = (rng.integers(0, 100, (8, *shape)).astype(wp.zeros(1, dtype=dtype).numpy().dtype) for _ in range(2))
    found = [wp.array(a, dtype=t) for a in (x, y, x)]
    code = "    i = wp.tid()\n    own = wp.zeros(2, dtype=y.dtype)\n    own[1] = y[i]\n"
    code += f"    old[i] = wp.atomic_{kind}(own, i - i + 1, x[i])\n    y[i] = own[1]\n"
    wp.launch(kernel(code), dim=8, inputs=found)
    np.testing.assert_array_equal(found[2].numpy(), y)
    np.testing.assert_array_equal(found[1].numpy(), COMBINE[kind](y, x))


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_compare_by_bits_and_each_component_on_its_own(own: bool) -> None:
    before = np.array([[0.0, 0.0], [np.nan, 1.0], [2.0, 3.0]], np.float32)
    compare = np.array([[0.0, -0.0], [np.nan, 4.0], [5.0, 3.0]], np.float32)
    expected = np.array([[9.0, 0.0], [9.0, 1.0], [2.0, 9.0]], np.float32)
    x, y = (wp.array(a, dtype=wp.vec2) for a in (compare, before))
    old = wp.zeros(3, dtype=wp.vec2)
    swap = "wp.atomic_cas({}, x[i], wp.vec2(9.0, 9.0))\n"
    code = f"    i = wp.tid()\n    old[i] = {swap.format('y, i')}"
    if own:
        code = "    i = wp.tid()\n    own = wp.zeros(1, dtype=wp.vec2)\n    own[0] = y[i]\n"
        code += f"    old[i] = {swap.format('own, 0')}    y[i] = own[0]\n"
    wp.launch(kernel(code), dim=3, inputs=[x, y, old])
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(old.numpy(), before)


def test_a_kind_on_a_new_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes one word in the table: here a byte, in lanes and one by one, shared and own, and for CUDA."""
    row = TABLE["xor"]
    monkeypatch.setitem(TABLE, "xor", row.replace(works_on=lambda t: t == uint8 or row.works_on(t)))
    x = np.arange(THREADS).astype(np.uint8)
    for width in (0, 1):
        arrays = [wp.array(a, dtype=wp.uint8) for a in (x, np.full(ELEMENTS, 7, np.uint8), x)]
        code = f"    i = wp.tid()\n    wp.atomic_xor(y, i % {ELEMENTS}, x[i])\n"
        code += "    own = wp.zeros(2, dtype=wp.uint8)\n    own[i % 2] ^= x[i]\n    old[i] = own[i % 2]\n"
        run = kernel(code)
        wp.launch(run, dim=THREADS, inputs=arrays, options={"vector_width": width})
        expected = [7 ^ np.bitwise_xor.reduce(x[e::ELEMENTS]) for e in range(ELEMENTS)]
        np.testing.assert_array_equal(arrays[1].numpy(), expected)
        np.testing.assert_array_equal(arrays[2].numpy(), x)
        assert "atom" in run.inspect("ptx", args=arrays, target="sm_80")


REFUSED = [
    ("wp.atomic_add(y, 0, x[0])", wp.int8, "atomic_add() does not work on elements of int8"),
    ("wp.atomic_add(y, 0, x[0])", wp.uint16, "atomic_add() does not work on elements of uint16"),
    ("wp.atomic_and(y, 0, x[0])", wp.float32, "atomic_and() does not work on elements of float32"),
    ("wp.atomic_xor(y, 0, x[0])", wp.vec3, "atomic_xor() does not work on elements of vec3[float32]"),
    ("wp.atomic_cas(y, 0, x[0], x[0])", wp.float16, "atomic_cas() does not work on elements of float16"),
    ("wp.atomic_exch(y, 0, x[0])", wp.bool, "atomic_exch() does not work on elements of bool"),
]


@pytest.mark.parametrize(("call", "dtype", "message"), REFUSED, ids=[m for *_, m in REFUSED])
def test_refused(call: str, dtype: Any, message: str) -> None:
    with pytest.raises(WarpCodegenTypeError) as caught:
        wp.launch(kernel(f"    {call}\n"), dim=1, inputs=[wp.zeros(1, dtype=dtype) for _ in range(3)])
    assert caught.value.reason == message
