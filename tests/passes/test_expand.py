"""Expansion of builtins that have a body. (No postponed annotations: the rows' are read as they are.)"""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.interpreter import evaluate
from tests.ir_builder import expect, start
from warp_like.base.loc import Loc, at
from warp_like.builtins import spec
from warp_like.builtins.patterns import VF, F
from warp_like.builtins.spec import Elementwise, Expand, Overload, builtin
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Vec, float32
from warp_like.ir.verify import verify
from warp_like.passes.expand import expand


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """Rows for these tests: a body, one that calls it, its vector form, one with a branch and two results."""

    @builtin(group="Test", lower=Expand(lambda b, x: b.mul(x, x)))
    def t_square(x: F) -> F:
        """Return ``x * x``."""

    @builtin(group="Test", lower=Expand(lambda b, x: b.add(b.t_square(b.t_square(x)), 1.0)))
    def t_quartic(x: F) -> F:
        """Return ``x ** 4 + 1``."""

    @builtin(name="t_square", group="Test", lower=Elementwise("t_square"))
    def t_square_vec(x: VF) -> VF:
        """Return the squares."""

    def order(b, x, y):
        low = b.branch(b.lt(x, y), lambda: x, lambda: y)
        return low, b.max(x, y)

    @builtin(group="Test", lower=Expand(order))
    def t_order(x: F, y: F) -> (F, F):  # type: ignore[syntax]
        """Return both in order."""

    yield
    for name in ("t_square", "t_quartic", "t_order"):
        del spec.REGISTRY[name]
    spec._resolve.cache_clear()


def applied(f: Function) -> list[str]:
    return [o.fn for o in f.body.walk() if isinstance(o, ops.Apply)]


def test_bodies_that_call_bodies() -> None:
    f, b = start("f", "func", (float32,), x=float32)
    with at(Loc("k.py", 4, 0, 4, 9)):
        made = b.t_quartic(f.params[0])
    b.yield_(made)
    expect(
        expand(f),
        """
        func f(%x: float32) -> (float32) {
          %0 = mul %x, %x : float32
          %1 = mul %0, %0 : float32
          %2 = constant 1.0 : float32
          %3 = add %1, %2 : float32
          yield %3
        }
        """,
    )
    assert all(o.loc is not None and o.loc.line == 4 for o in f.body.ops[:-1])


def test_vectors_of_scalar_bodies() -> None:
    vec = Vec(2, float32)
    f, b = start("f", "func", (vec,), v=vec)
    b.yield_(b.add(b.t_square(f.params[0]), f.params[0]))
    expand(f)
    verify(f)
    assert applied(f) == ["mul", "mul", "add"]  # the sum of vectors is left to the backend
    np.testing.assert_array_equal(evaluate(f, [[2, 3]]), [6, 12])


def test_several_results_and_regions() -> None:
    f, b = start("f", "func", (float32, float32), x=float32, y=float32)
    b.yield_(*b.t_order(*f.params))
    expand(f)
    verify(f)
    assert evaluate(f, [3, -2]) == (-2, 3)


def test_only_the_rows_asked_for() -> None:
    f, b = start("f", "func", (float32, Vec(2, float32)), x=float32, v=Vec(2, float32))
    x, v = f.params
    b.yield_(b.t_quartic(x), b.add(v, v))
    asked: list[Overload] = []

    def quartic(row: Overload) -> bool:
        asked.append(row)
        return row.name == "t_quartic"

    expand(f, quartic)
    verify(f)
    assert applied(f) == ["t_square", "t_square", "add", "add"]
    assert {row.name for row in asked} == {"t_quartic", "t_square", "add"}
    expand(f, lambda row: isinstance(row.lower, Elementwise))
    verify(f)
    assert applied(f) == ["t_square", "t_square", "add", "add", "add"]
