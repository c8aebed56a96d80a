"""Every row of the tables is complete: names, documentation, reference, lowering, adjoint."""

from __future__ import annotations

import inspect
import keyword
import subprocess
import sys
from pathlib import Path

import pytest

import warp_like.builtins
from tests.builtins.calls import cases, rows
from warp_like.backend.llvm import block
from warp_like.builtins.patterns import Literal
from warp_like.builtins.spec import (
    REGISTRY,
    Cooperative,
    Elementwise,
    Expand,
    Inline,
    NoGradient,
    NoMatch,
    Overload,
    Special,
    Symbol,
    Target,
    bind,
    resolve,
)
from warp_like.frontend.builtin import public_builtins
from warp_like.ir.types import FLOATS, INTS, Vec, bool_, float16, float32, float64, int32, uint8, uint32

ALL = [row for overloads in REGISTRY.values() for row in overloads]
GROUPS = {
    "Scalar Math",
    "Vector Math",
    "Quaternion Math",
    "Transformations",
    "Spatial Math",
    "Geometry",
    "Other",
    "Random",
    "Operators",
    "Utility",
    "Blocks and Warps",
    "Tiles",
    "Objects",  # none of them public
}

DRAWN_IN_LOOPS = ("poisson",)
"""Builtins without a reference: no formula gives what their rejection of numbers ends with."""


@pytest.mark.parametrize("row", ALL, ids=lambda r: f"{r.name}-{'-'.join(r.params)}")
def test_row_is_documented(row: Overload) -> None:
    first = row.doc.splitlines()[0]
    assert row.group in GROUPS
    assert first[0].isupper(), row.doc
    assert row.doc.endswith("."), row.doc
    assert all(p.lstrip("*").isidentifier() and not keyword.iskeyword(p) for p in row.params)
    assert len(row.patterns) == (0 if isinstance(row.lower, Special) else len(row.params))


@pytest.mark.parametrize("row", rows(), ids=lambda r: f"{r.name}-{'-'.join(map(str, r.patterns))}")
def test_row_is_complete(row: Overload) -> None:
    if not row.name.startswith("_") and row.name not in DRAWN_IN_LOOPS:
        assert row.ref is not None
    match row.lower:
        case Expand(body):
            arity = len(inspect.signature(body).parameters)
            assert arity == len(row.params) + 1
        case Elementwise(scalar):
            assert any(isinstance(r.lower, (Target, Symbol, Expand)) for r in REGISTRY[scalar])
        case Symbol(libm, nvptx, llvm):
            assert libm.isidentifier()
            assert nvptx == f"__nv_{libm}"
            assert not llvm or llvm.startswith("llvm.")
        case other:
            assert isinstance(other, (Target, Inline, Cooperative))
    if isinstance(row.adjoint, NoGradient):
        assert row.adjoint.reason
    elif row.adjoint is None:
        assert isinstance(row.lower, (Expand, Inline, Elementwise)), "nothing to differentiate"
    else:
        assert len(inspect.signature(row.adjoint).parameters) == len(row.params) + 3


def test_an_elementwise_row_finds_a_scalar_rule() -> None:
    for case in cases(float64):
        if isinstance(case.row.lower, Elementwise) and case.row.adjoint is None:
            scalar = resolve(case.row.lower.scalar, [float64] * len(case.types)).overload
            assert scalar.adjoint is not None, f"{case}: {scalar.name} has no rule of its own"


def test_every_row_can_be_called() -> None:
    reached = {id(c.row) for t in (float32, float16, int32, uint32, bool_, uint8) for c in cases(t)}
    assert [r.name for r in rows() if id(r) not in reached] == []


def test_the_backend_writes_few_rows_by_hand() -> None:
    by_hand = {r.name for r in ALL if isinstance(r.lower, Target)}
    assert by_hand == {
        *("add", "sub", "mul", "div", "mod", "neg", "lt", "le", "gt", "ge", "eq", "ne", "unot", "where"),
        *("bit_and", "bit_or", "bit_xor", "lshift", "rshift", "invert", "bit_count", "_dot_of_pairs"),
    }


def test_what_threads_do_together_is_known_to_the_backend_and_has_tangents() -> None:
    together = [r for r in ALL if isinstance(r.lower, Cooperative)]
    assert {r.name for r in together} == block.NAMES
    for row in together:
        assert isinstance(row.lower, Cooperative)
        assert (row.lower.tangent is None) == isinstance(row.adjoint, NoGradient), row.name
        assert {row.lower.meets, row.lower.agrees} <= {"", "warp", "block"}


def test_names_with_an_underscore_are_not_public() -> None:
    assert "_acos" in REGISTRY
    assert not [n for n in public_builtins() if n.startswith("_")]
    assert {"sin", "where", "tid", "atomic_add"} <= set(public_builtins())


# --- literals and overloads -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("add", (Literal(1), Literal(2)), int32),
        ("add", (Literal(1), Literal(2.0)), float32),
        ("add", (Literal(1), float64), float64),
        ("mul", (Literal(2.0), Vec(3, float16)), Vec(3, float16)),
        ("div", (Vec(3, uint8), Literal(2)), Vec(3, uint8)),
        ("sin", (Literal(1),), float32),
        ("abs", (Literal(-1),), int32),
        ("min", (Literal(1), Literal(2)), int32),
        ("max", (Literal(0), Literal(1.5)), float32),
        ("where", (bool_, Literal(1), Literal(2.5)), float32),
        ("where", (int32, Literal(1), float64), float64),
        ("add", (Literal(3_000_000_000), Literal(1)), None),
    ],
)
def test_literals_take_the_type_of_their_neighbours(name: str, args: tuple[object, ...], result: object) -> None:
    got = resolve(name, args).results[0]  # type: ignore[arg-type]
    assert str(got) == ("int64" if result is None else str(result))


@pytest.mark.parametrize("t", FLOATS + INTS)
def test_arithmetic_takes_every_number(t: object) -> None:
    for name in ("add", "sub", "mul", "div", "mod", "floordiv", "min", "max"):
        assert resolve(name, (t, t)).results == (t,)  # type: ignore[arg-type]


def test_special_rows_are_not_resolved() -> None:
    with pytest.raises(TypeError, match="built by the frontend"):
        resolve("tid", ())


# --- binding --------------------------------------------------------------------------------------------------


def test_bind_orders_keywords_and_fills_defaults() -> None:
    assert bind("clamp", ["x"], {"high": "h", "low": "l"}) == ["x", "l", "h"]
    assert bind("norm_huber", ["v"], {}) == ["v", Literal(1.0)]
    assert bind("norm_huber", [], {"v": "v", "delta": "d"}) == ["v", "d"]
    assert bind("min", ["a"], {}) == ["a"]
    assert bind("where", ["c"], {"value_if_true": 1, "value_if_false": 2}) == ["c", 1, 2]


@pytest.mark.parametrize(
    ("name", "args", "keywords", "message"),
    [
        ("clamp", ["x"], {"lo": "l", "high": "h"}, "clamp() has no argument `lo`"),
        (
            "clamp",
            ["x", "l", "h"],
            {"x": "y"},
            "clamp() has no form with these arguments: 3 by position, `x`",
        ),
        ("clamp", [], {"x": "y"}, "clamp() has no form with these arguments: `x`"),
    ],
)
def test_bind_refuses(name: str, args: list[str], keywords: dict[str, str], message: str) -> None:
    with pytest.raises(NoMatch) as caught:
        bind(name, args, keywords)
    assert str(caught.value) == message
    assert caught.value.help == "wp.clamp(x, low, high)"


def test_importing_the_tables_imports_nothing_heavy() -> None:
    """The floors below know neither SciPy nor LLVM nor a framework; the package's ``__init__`` is left out of it."""
    program = f"""if True:
        import sys, types
        package = types.ModuleType("warp_like")
        package.__path__ = [{str(Path(warp_like.builtins.__file__).parents[1])!r}]
        sys.modules["warp_like"] = package
        import warp_like.builtins
        print([m for m in ("scipy", "llvmlite", "torch", "jax", "warp_like._native") if m in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
