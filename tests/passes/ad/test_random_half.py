"""Reverse mode of random kernels in float16 and bfloat16, against dual numbers that are rounded as the kernel rounds.

The reference rounds every number as the kernel does, so that both take the same branches, and follows the derivatives
exactly. Rounding the derivatives as well makes an error in proportion to what the sum of their terms would be if none
cancelled, which the dual numbers carry along. A wrong term is as large as that, the tolerance a few hundredths of it.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, currently_in_test_context, given, settings
from hypothesis import strategies as st

import warp_like as wp
from tests.long_tail import examples, seeds
from tests.passes.ad import dual_kernels
from tests.passes.ad.random_kernels import SHAPES, STRUCTS, THREADS, VECTORS, sources
from tests.passes.ad.test_random_kernels import CHANGES, COUNTERS, FIXED, INDICES, MAKERS, NAMES, STRIDES, random_arrays

OPERATIONS = 60
"""How many roundings the terms of a derivative take at most, in units of half the last place."""
LARGEST = 60.0
"""Numbers and derivatives beyond this could leave the range of float16."""
_modules = count()


def half(x: float) -> float:
    return float(np.float16(x))


def brain(x: float) -> float:
    """Round to bfloat16, to nearest and ties to even."""
    bits = int(np.float32(x).view(np.uint32))
    return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))


FORMATS = {"float16": (wp.float16, half, 2.0**-11), "bfloat16": (wp.bfloat16, brain, 2.0**-8)}


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept_on_disk() -> Iterator[None]:
    wp.config.cache_kernels = False
    yield
    del wp.config.cache_kernels


def with_types(source: str) -> str:
    """The kernels with the names of types that ``space`` gives a meaning."""
    return source.replace("wp.vec3d", "V3").replace("wp.vec2d", "V2").replace("wp.mat22d", "M22")


def space(source: str, dtype: Any) -> dict[str, Any]:
    """Execute the source for scalars of ``dtype``."""
    file = f"<random kernels in half precision {next(_modules)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    vectors = {f"V{n}": wp.types.vector(length=n, dtype=dtype) for n in (2, 3)}
    matrix = wp.types.matrix(shape=(2, 2), dtype=dtype)
    made: dict[str, Any] = {"wp": wp, "f64": dtype, "M22": matrix, **vectors, "__name__": "random_kernels"}
    exec(compile(source, file, "exec", dont_inherit=True), made)
    return made


def made(name: str, numbers: np.ndarray, dtype: Any, names: dict[str, Any]) -> wp.array:
    """An array with a gradient: of structs, vectors or numbers."""
    if name not in STRUCTS:
        element = names["V3"] if name in VECTORS else dtype
        return wp.array(numbers, dtype=element, requires_grad=True)
    flat = wp.array(numbers, dtype=dtype).numpy()
    records = np.ascontiguousarray(flat).view(np.dtype(names["Pair"].numpy_dtype()))[..., 0]
    return wp.array(records, dtype=names["Pair"], requires_grad=True)


def numbers(a: wp.array, name: str, dtype: Any) -> np.ndarray:
    """The elements of ``a`` as float64, structs by their numbers."""
    if name not in STRUCTS:
        return a._values().astype(np.float64).reshape(SHAPES[name])
    raw = np.ascontiguousarray(a.numpy())
    scalars = raw.view(np.uint16 if dtype is wp.bfloat16 else np.float16).reshape(SHAPES[name])
    return wp.array(scalars, dtype=dtype)._values().astype(np.float64) if dtype is wp.float16 else decoded(scalars)


def decoded(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def compiled(source: str, name: str) -> dict[str, Any]:
    """The kernels of ``source`` for scalars of the format ``name``."""
    return space(with_types(source), FORMATS[name][0])


def check(source: str, n: int, s: float, name: str, reference: str = "", names: dict[str, Any] | None = None) -> None:
    """Compare the kernel ``k0`` with dual numbers, of another kernel where there is a ``reference``.

    ``names`` are the kernels of ``source`` where they are there already.
    """
    dtype, rounded, eps = FORMATS[name]
    names = names or compiled(source, name)
    source, reference = with_types(source), with_types(reference or source)
    starts = [np.vectorize(rounded)(a) for a in random_arrays(0)]
    seeds = [np.vectorize(rounded)(a) for a in random_arrays(1)]
    duals, expected, sizes = by_rounded_dual_numbers(reference, starts, seeds, n, rounded(s), rounded)

    arrays = [made(k, a, dtype, names) for k, a in zip(NAMES, starts, strict=True)]
    with wp.Tape() as tape:
        wp.launch(names["k0"], dim=THREADS, inputs=[*arrays, wp.array(INDICES), wp.array(COUNTERS.copy()), n, s])
    for k, a, wanted in zip(NAMES, arrays, duals, strict=True):  # the same branches: else nothing can be compared
        same = np.allclose(numbers(a, k, dtype).ravel(), wanted, rtol=4 * eps, atol=4 * eps)
        assume(same) if currently_in_test_context() else None
    given = {a: made(k, seed, dtype, names) for k, a, seed in zip(NAMES, arrays, seeds, strict=True)}
    tape.backward(grads=given)
    for k, a, wanted, size in zip(NAMES, arrays, expected, sizes, strict=True):
        got = numbers(a.grad, k, dtype)
        bound = OPERATIONS * eps * size + eps
        assert np.all(np.abs(got - wanted) <= bound), f"gradient of {k}: {got}, not {wanted} to {bound}\n{source}"


def by_rounded_dual_numbers(
    source: str, starts: Sequence[np.ndarray], seeds: Sequence[np.ndarray], n: int, s: float, rounded: Any
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """The final numbers, the gradients, and how large they are if no terms cancel."""
    dual_kernels.Dual.largest, dual_kernels.Dual.rounded = 0.0, staticmethod(rounded)
    try:
        arrays = dual_kernels.inputs(starts, MAKERS)
        dual_kernels.launch(source, "k0", THREADS, [*arrays, INDICES, COUNTERS.copy(), n, dual_kernels.dual(s)])
    except ValueError:  # the sine of a number beyond the format's range
        if not currently_in_test_context() or dual_kernels.Dual.largest < LARGEST:
            raise
        assume(False)
    finally:
        dual_kernels.Dual.rounded = staticmethod(float)
    flats = [f(arrays, seeds, sum(STRIDES)) for f in (dual_kernels.pulled_back, dual_kernels.pulled_back_sizes)]
    if currently_in_test_context():
        assume(max(dual_kernels.Dual.largest, flats[1].max()) < LARGEST)
    gradients, sizes = (
        [part.reshape(a.shape) for part, a in zip(np.split(f, np.cumsum(STRIDES)[:-1]), starts, strict=True)]
        for f in flats
    )
    return dual_kernels.values(arrays), gradients, sizes


@pytest.mark.parametrize("turn", seeds(6, few=1))
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(3, few=1), deadline=None, suppress_health_check=list(HealthCheck))
@given(source=sources(), n=st.integers(0, 4), s=st.sampled_from([-0.6, 0.35, 1.1]))
def test_compiled(name: str, turn: int, source: str, n: int, s: float) -> None:
    check(source, n, s, name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_wrong_derivative_would_be_found(name: str) -> None:
    names = compiled(FIXED, name)
    check(FIXED, 3, 0.35, name, names=names)
    for change in (CHANGES[0], lambda text: text.replace("b * 0.5", "b * 0.75").replace("0.3 * b", "0.2 * b")):
        with pytest.raises(AssertionError, match="gradient of"):
            check(FIXED, 3, 0.35, name, change(FIXED), names)
