"""Random kernels whose threads share elements: the gradient is that of some order of their accesses, or refused.

A kernel is a few stores, atomic updates and reads of two arrays. The oracle carries derivatives along, through every
order in which the accesses of all threads can follow each other; for one thread there is one, and no refusal. Where
threads read what others store, no order need be found: the values that each saw are not kept.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.long_tail import examples

SIZE = 6
PLACES = ("0", "1", "i", "i + 1", "i % 2", "place[i]", "2 * i", "2 * i + 1", "2 * i + i % 2", "3 - i")
PLACE = np.array([2, 0, 2], np.int32)
VALUES = ("x[i] * f64(1.5)", "wp.sin(t)", "t * x[i]", "f64(0.5)")


class Access(NamedTuple):
    """One statement: what it does, to which array, where, with which value, and whether only where ``x[i] > 0``."""

    kind: str
    array: str
    place: str
    value: str
    conditional: bool

    def text(self) -> str:
        at = f"{self.array}[{self.place}]"
        match self.kind:
            case "store":
                line = f"{at} = {self.value}"
            case "add":
                line = f"{at} += {self.value}"
            case "read":
                line = f"t = t + {at} * x[i]"
            case kind:
                line = f"t = t + wp.atomic_{kind}({self.array}, {self.place}, {self.value})"
        return f"    if x[i] > f64(0.0):\n        {line}\n" if self.conditional else f"    {line}\n"


def accesses() -> st.SearchStrategy[list[Access]]:
    one = st.builds(
        Access,
        st.sampled_from(["store", "store", "add", "add", "read", "sub", "exch"]),
        st.sampled_from("ab"),
        st.sampled_from(PLACES),
        st.sampled_from(VALUES),
        st.booleans(),
    )
    return st.lists(one, min_size=1, max_size=4)


COUNT = iter(range(10**9))


def kernel_of(program: Sequence[Access]) -> Any:
    arrays = ", ".join(f"{name}: wp.array(dtype=f64)" for name in ("a", "b", "x", "out"))
    text = f"def shared({arrays}, place: wp.array(dtype=int)):\n    i = wp.tid()\n    t = x[i] * x[i]\n"
    text += "".join(s.text() for s in program) + "    out[i] = t\n"
    file = f"<sharing {next(COUNT)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"wp": wp, "f64": wp.float64}
    exec(compile(text, file, "exec"), space)
    return wp.kernel(space["shared"], module="unique"), text


# --- the oracle: numbers with their derivatives ---------------------------------------------------------------


class Dual(NamedTuple):
    x: float
    d: np.ndarray

    def plus(self, other: Dual, sign: float = 1.0) -> Dual:
        return Dual(self.x + sign * other.x, self.d + sign * other.d)

    def times(self, other: Dual) -> Dual:
        return Dual(self.x * other.x, self.d * other.x + self.x * other.d)


def number(x: float, like: Dual) -> Dual:
    return Dual(x, np.zeros_like(like.d))


def value_of(text: str, t: Dual, x: Dual) -> Dual:
    match VALUES.index(text):
        case 0:
            return x.times(number(1.5, x))
        case 1:
            return Dual(math.sin(t.x), math.cos(t.x) * t.d)
        case 2:
            return t.times(x)
    return number(0.5, x)


def index_of(place: str, i: int) -> int:
    return int(eval(place, {"i": i, "place": PLACE}))


def orders(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All orders of threads, of which thread ``i`` still has ``left[i]`` accesses to make."""
    if not any(left):
        yield ()
    for i, n in enumerate(left):
        if n:
            for rest in orders((*left[:i], n - 1, *left[i + 1 :])):
                yield (i, *rest)


def gradient(program: Sequence[Access], inputs: dict[str, np.ndarray], order: Sequence[int], seed: Any) -> np.ndarray:
    """The derivative of the seeded sum of ``a``, ``b`` and ``out`` by ``a``, ``b`` and ``x``, one behind the other."""
    n = len(inputs["x"])
    flat = np.concatenate([inputs[k] for k in "abx"])
    units = [Dual(float(v), row) for v, row in zip(flat, np.eye(len(flat)), strict=True)]
    memory = {"a": units[:SIZE], "b": units[SIZE : 2 * SIZE]}
    x = units[2 * SIZE :]
    t = [v.times(v) for v in x]
    nexts = [0] * n
    for i in order:
        s = program[nexts[i]]
        nexts[i] += 1
        if s.conditional and x[i].x <= 0:
            continue
        at, cells = index_of(s.place, i), memory[s.array]
        old, v = cells[at], value_of(s.value, t[i], x[i])
        match s.kind:
            case "store" | "exch":
                cells[at] = v
            case "add":
                cells[at] = old.plus(v)
            case "sub":
                cells[at] = old.plus(v, -1.0)
        if s.kind == "read":
            t[i] = t[i].plus(old.times(x[i]))
        elif s.kind in ("sub", "exch"):
            t[i] = t[i].plus(old)
    ends = [*memory["a"], *memory["b"], *t]
    return sum(w * e.d for w, e in zip(np.concatenate(seed), ends, strict=True))


def compiled(kernel: Any, inputs: dict[str, np.ndarray], seed: Any, width: int) -> np.ndarray:
    n = len(inputs["x"])
    a, b, x = (wp.array(inputs[k], dtype=wp.float64, requires_grad=True) for k in "abx")
    out = wp.zeros(n, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        options = {"vector_width": width} if width else None
        wp.launch(kernel, dim=n, inputs=[a, b, x, out, wp.array(PLACE)], options=options)
    seeds = {array: wp.array(w, dtype=wp.float64) for array, w in zip((a, b, out), seed, strict=True)}
    tape.backward(grads=seeds)
    return np.concatenate([v.grad.numpy() for v in (a, b, x)])


def reads_what_others_store(program: Sequence[Access], n: int) -> bool:
    """Whether a thread may see a plain store of another one."""
    for s in program:
        for r in program:
            if s.kind != "store" or r.array != s.array or r.kind in ("store", "add"):
                continue
            places = [[index_of(o.place, i) for i in range(n)] for o in (s, r)]
            if any(places[0][i] == places[1][j] for i in range(n) for j in range(n) if i != j):
                return True
    return False


def setting(n: int, number: int) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(number)
    inputs = {"a": rng.normal(size=SIZE), "b": rng.normal(size=SIZE), "x": rng.normal(size=n)}
    return inputs, [rng.normal(size=SIZE), rng.normal(size=SIZE), rng.normal(size=n)]


QUICK = settings(
    max_examples=examples(25, few=10), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@QUICK
@given(program=accesses(), number=st.integers(0, 99))
def test_one_thread(program: list[Access], number: int) -> None:
    kernel, text = kernel_of(program)
    inputs, seed = setting(1, number)
    expected = gradient(program, inputs, [0] * len(program), seed)
    np.testing.assert_allclose(compiled(kernel, inputs, seed, 0), expected, rtol=1e-10, atol=1e-10, err_msg=text)


@QUICK
@given(program=accesses(), number=st.integers(0, 99), n=st.integers(2, 3), width=st.sampled_from([0, 1, 4]))
def test_several_threads(program: list[Access], number: int, n: int, width: int) -> None:
    n = 2 if len(program) > 3 else n
    assume(not reads_what_others_store(program, n))
    kernel, text = kernel_of(program)
    inputs, seed = setting(n, number)
    try:
        got = compiled(kernel, inputs, seed, width)
    except wp.WarpCodegenError:
        return
    found = {tuple(np.round(gradient(program, inputs, o, seed), 12)) for o in orders((len(program),) * n)}
    assert any(np.allclose(got, e, rtol=1e-10, atol=1e-10) for e in found), f"{text}{got}\n{found}"
