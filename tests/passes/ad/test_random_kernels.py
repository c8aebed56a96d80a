"""Reverse mode of random kernels and of random programs on a tape, against dual numbers in plain Python."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, currently_in_test_context, given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.interpreter import run
from tests.long_tail import seeds
from tests.passes.ad import dual_kernels
from tests.passes.ad.random_kernels import HEADER, SHAPES, SIGNATURE, STRUCTS, THREADS, VECTORS, sources
from warp_like.frontend.build import build_kernel
from warp_like.passes.ad.adjoint import adjoint
from warp_like.passes.pipeline import Options, prepare

NAMES = list(SHAPES)
WRT = range(len(NAMES))
INDICES = np.array([2, 0, 0, 3], np.int32)
COUNTERS = np.arange(2 * THREADS, dtype=np.int32).reshape(THREADS, 2) % 4
RECORD = np.dtype([("u", np.float64), ("t", np.float64, 3)])
MAKERS = [dual_kernels.Vector if n in VECTORS else dual_kernels.pair if n in STRUCTS else None for n in SHAPES]
STRIDES = [int(np.prod(s)) for s in SHAPES.values()]
MODERATE = 1e4
"""Beyond this, rounding is amplified so much that nothing can be compared."""

QUICK = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
turns = pytest.mark.parametrize("turn", seeds(6, few=1))
"""Each turn has examples of its own; the suite takes one of them."""
_modules = count()

FIXED = (
    HEADER
    + SIGNATURE.format(options="", name="k0")
    + """
    for j in range(n):
        if j == i:
            continue
        a, b = turned(a, wp.sin(b), 2)
        y[i, j % 3] = wp.sin(row[q]) * a + clipped(b, c)
        v[j % 3] = row[j % 3]
        v = wp.cross(v, p[j % 2]) * 0.4 + v * 0.5
        turns = int(0)
        while turns < 3 and a > 0.1:
            turns += 1
            c = wp.sin(c) * z[2 * i + turns % 2] + 0.3
            z[2 * i] = z[2 * i + 1] * c
            if c > 0.9:
                break
        wp.atomic_sub(acc, j % 2, a * c)
        q = (q + turns) % 3
    out[i, 0] = a * wp.dot(v, v)
    if a > 0.5:
        return
    out[i, q % 2] = out[i, 0] * b
"""
)

Step = tuple[str, Any]
"""``("launch", (kernel, n, s))`` or a write of the host: ``("copy", (to, from))``, ``("fill", name)``."""


@dataclass
class Expected:
    """What dual numbers give."""

    values: list[np.ndarray]
    gradients: list[np.ndarray]


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept_on_disk() -> Iterator[None]:
    wp.config.cache_kernels = False
    yield
    del wp.config.cache_kernels


def random_arrays(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.2, 1.2, shape) for shape in SHAPES.values()]


def module(source: str) -> dict[str, Any]:
    """Execute the source of kernels, so that their text can be found again."""
    file = f"<random kernels {next(_modules)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"wp": wp, "f64": wp.float64, "__name__": "random_kernels"}
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space


def by_dual_numbers(source: str, steps: Sequence[Step], seeds: Sequence[np.ndarray]) -> Expected:
    """Run the program in plain Python."""
    starts = random_arrays(0)
    dual_kernels.Dual.largest = 0.0
    arrays = dual_kernels.inputs(starts, MAKERS)
    memory = dict(zip(NAMES, arrays, strict=True))
    counters = COUNTERS.copy()
    for kind, what in steps:
        if kind == "launch":
            kernel, n, s = what
            try:
                dual_kernels.launch(source, kernel, THREADS, [*arrays, INDICES, counters, n, dual_kernels.dual(s)])
            except (ValueError, OverflowError):  # of the sine of infinity, say
                dual_kernels.Dual.largest = np.inf
                break
        elif kind == "copy":
            to, origin = what
            memory[to][...] = memory[origin].reshape(memory[to].shape)
        else:
            memory[what][...] = dual_kernels.dual(0.5)
    if currently_in_test_context():
        assume(dual_kernels.Dual.largest < MODERATE)
    flat = dual_kernels.pulled_back(arrays, seeds, sum(STRIDES))
    parts = np.split(flat, np.cumsum(STRIDES)[:-1])
    return Expected(dual_kernels.values(arrays), [g.reshape(a.shape) for g, a in zip(parts, starts, strict=True)])


def typed(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies with structs as elements where the kernels have them."""
    return [
        a.copy().view(RECORD)[..., 0] if name in STRUCTS else a.copy() for name, a in zip(NAMES, arrays, strict=True)
    ]


def numbers(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays with the fields of structs as numbers along a last axis."""
    return [
        np.ascontiguousarray(a).view(np.float64).reshape(SHAPES[name]) for name, a in zip(NAMES, arrays, strict=True)
    ]


def by_interpreter(space: dict[str, Any], steps: Sequence[Step], seeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The gradients by the adjoint IR, executed by the interpreter."""
    states = [[*typed(random_arrays(0)), INDICES.copy(), COUNTERS.copy()]]
    compiled: list[tuple[Any, list[Any]]] = []
    for _, (name, n, s) in steps:
        kernel = space[name]
        options = Options(checkpoint_loops=kernel.option("checkpoint_loops"), verify=True)
        types = tuple(t for _, t in kernel.parameters)
        f = prepare(build_kernel(kernel.source, types, wide=False), options)
        after = [a.copy() for a in states[-1]]
        run(f, [*after, n, s], (THREADS,))
        states.append(after)
        compiled.append((adjoint(f, WRT, options), [n, s]))
    gradients = typed(seeds)
    for (g, rest), before, after in reversed(list(zip(compiled, states, states[1:], strict=False))):
        arrays = [a.copy() for a in after]
        run(g, [*arrays, *rest, *gradients, *(before[i].copy() for i in g.prelaunch_copies)], (THREADS,))
    return numbers(gradients)


def by_tape(
    space: dict[str, Any], steps: Sequence[Step], seeds: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The final arrays and the gradients by compiled code and a tape."""
    types = [wp.vec3d if n in VECTORS else space["Pair"] if n in STRUCTS else wp.float64 for n in NAMES]
    starts = zip(NAMES, typed(random_arrays(0)), types, strict=True)
    arrays = {name: wp.array(a, dtype=t, requires_grad=True) for name, a, t in starts}
    index, counters = wp.array(INDICES), wp.array(COUNTERS.copy())
    with wp.Tape() as tape:
        for kind, what in steps:
            if kind == "launch":
                kernel, n, s = what
                wp.launch(space[kernel], dim=THREADS, inputs=[*arrays.values(), index, counters, n, s])
            elif kind == "copy":
                to, origin = what
                wp.copy(arrays[to], arrays[origin].reshape(arrays[to].shape))
            else:
                arrays[what].fill_(0.5)
    after = numbers([a.numpy().copy() for a in arrays.values()])
    given = zip(arrays.values(), typed(seeds), types, strict=True)
    tape.backward(grads={a: wp.array(seed, dtype=t) for a, seed, t in given})
    return after, numbers([a.grad.numpy() for a in arrays.values()])


def agree(got: Sequence[np.ndarray], expected: Expected, source: str) -> None:
    scale = max(1.0, dual_kernels.Dual.largest)
    for name, a, b in zip(NAMES, got, expected.gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9 * scale, err_msg=f"gradient of {name}\n{source}")


def launches(kernels: int) -> st.SearchStrategy[Step]:
    return st.tuples(
        st.just("launch"),
        st.tuples(st.integers(0, kernels - 1).map("k{}".format), st.integers(0, 4), st.sampled_from([-0.6, 0.35, 1.1])),
    )


WRITES: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("copy"), st.sampled_from([("z", "out"), ("out", "z")])),
    st.tuples(st.just("fill"), st.sampled_from(["y", "z", "out", "acc"])),
)


@turns
@settings(QUICK, max_examples=8)
@given(source=sources(), step=launches(1))
def test_adjoint_ir(turn: int, source: str, step: Step) -> None:
    seeds = random_arrays(1)
    expected = by_dual_numbers(source, [step], seeds)
    agree(by_interpreter(module(source), [step], seeds), expected, source)


@turns
@settings(QUICK, max_examples=4)
@given(source=sources(), step=launches(1))
def test_compiled(turn: int, source: str, step: Step) -> None:
    check_tape(source, [step])


@turns
@settings(QUICK, max_examples=3)
@given(source=sources(), step=launches(1))
def test_compiled_for_lanes(turn: int, source: str, step: Step) -> None:
    """Also what is so short, or gathers so much, that it would be left to LLVM: a full vector and a rest."""
    wp.config.vector_width = 4
    try:
        check_tape(source, [step])
    finally:
        del wp.config.vector_width


@turns
@settings(QUICK, max_examples=3)
@given(
    source=sources(kernels=2, statements=4),
    steps=st.lists(st.one_of(launches(2), launches(2), WRITES), min_size=2, max_size=5),
)
def test_several_launches_and_writes(turn: int, source: str, steps: list[Step]) -> None:
    check_tape(source, steps)


@turns
@settings(QUICK, max_examples=3)
@given(source=sources(updates=True), step=launches(1))
def test_atomic_updates_are_right_or_refused(turn: int, source: str, step: Step) -> None:
    try:
        check_tape(source, [step])
    except wp.WarpCodegenError as error:
        if "which the same kernel updates by atomics\n  --> " not in str(error):
            raise


def check_tape(source: str, steps: list[Step]) -> None:
    seeds = random_arrays(1)
    expected = by_dual_numbers(source, steps, seeds)
    after, gradients = by_tape(module(source), steps, seeds)
    scale = max(1.0, dual_kernels.Dual.largest)
    for a, b in zip(after, expected.values, strict=True):
        np.testing.assert_allclose(a.ravel(), b, rtol=1e-9, atol=1e-10 * scale, err_msg=source)
    agree(gradients, expected, source)


CHANGES: list[Callable[[str], str]] = [
    lambda text: text.replace("wp.sin(b)", "wp.cos(b)"),
    lambda text: text.replace("- 0.3 * b", "- 0.31 * b"),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_a_wrong_derivative_would_be_found(change: int) -> None:
    """The reference is sensitive: a kernel that differs a little from what is compiled fails the comparison."""
    source = FIXED
    seeds = random_arrays(1)
    step: Step = ("launch", ("k0", 3, 0.35))
    expected = by_dual_numbers(CHANGES[change](source), [step], seeds)
    got = by_interpreter(module(source), [step], seeds)
    with pytest.raises(AssertionError):
        agree(got, expected, source)


def test_a_fixed_kernel_with_everything() -> None:
    check_tape(FIXED, [("launch", ("k0", 3, 0.35)), ("copy", ("z", "out")), ("launch", ("k0", 2, 1.1))])
