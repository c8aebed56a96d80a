"""The reference of the builtins: every row has an example that runs, and derivatives read like formulas."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.builtins.spec import REGISTRY

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
import builtin_pages

ROWS = [row for name, rows in REGISTRY.items() if not name.startswith("_") for row in rows]
IDS = [builtin_pages.signature(row) for row in ROWS]


def run_in_kernel(name: str, example: str) -> tuple[np.ndarray, np.ndarray]:
    """Run an example as a kernel; return the arrays ``a`` and ``n``."""
    head = "@wp.kernel\ndef k(a: wp.array(dtype=float), n: wp.array(dtype=int)):\n"
    code = head + "".join(f"    {line}\n" for line in example.splitlines())
    file = f"<example of {name} {hash(example)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    namespace: dict[str, Any] = {}
    exec(compile(code, file, "exec"), {"wp": wp}, namespace)
    a, n = wp.array(np.linspace(0.1, 1.0, 4), dtype=float), wp.zeros(4, dtype=int)
    wp.launch(namespace["k"], dim=4, inputs=[a, n])
    return a.numpy(), n.numpy()


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_example_runs(row: Any) -> None:
    language, example = builtin_pages.example_of(row)
    if language == "pycon":
        call, result = example.split("\n", 1)
        assert call.startswith(f">>> wp.{row.name}(")
        assert result != "None"
    else:
        assert row.name in example or row.name == "len", example
        run_in_kernel(row.name, example)


def test_examples_in_kernels_do_what_they_show() -> None:
    shown = ("tid", "atomic_add", "atomic_max", "lower_bound", "static", "len")
    found = {r.name: run_in_kernel(r.name, builtin_pages.example_of(r)[1]) for r in ROWS if r.name in shown}
    np.testing.assert_allclose(found["tid"][0], [0, 1, 2, 3])
    np.testing.assert_array_equal(found["atomic_add"][1], [6, 0, 0, 0])
    np.testing.assert_array_equal(found["atomic_max"][1], [3, 0, 0, 0])
    np.testing.assert_array_equal(found["lower_bound"][1], [2, 0, 0, 0])  # the second of its forms
    np.testing.assert_allclose(found["static"][0][0], 1024.0)
    np.testing.assert_allclose(found["len"][0], np.ones(4))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sin", "`adj_x += g * cos(x)`"),
        ("mul", "`adj_a += g * b`, `adj_b += g * a`"),
        ("min", "`adj_a += where(result == a, g, 0)`, `adj_b += where(result == a, 0, g)`"),
        ("floor", "Gradient: zero; it is constant between its steps."),
        ("quat_rotate", "Gradient: that of the formula."),
    ],
)
def test_derivatives_are_formulas(name: str, expected: str) -> None:
    assert expected in builtin_pages.gradient(REGISTRY[name][0])


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_every_row_says_its_derivative(row: Any) -> None:
    said = builtin_pages.gradient(row)
    assert said.startswith("Gradient")
    assert len(said) > len("Gradient: .") + 3


def test_a_signature() -> None:
    assert builtin_pages.signature(REGISTRY["qr3"][0]) == "qr3(A: mat[3, 3, W]) -> mat[3, 3, W], mat[3, 3, W]"
    assert builtin_pages.signature(REGISTRY["norm_huber"][0]) == "norm_huber(v: vec[N, F], delta: F = 1.0) -> F"
    assert builtin_pages.signature(REGISTRY["randf"][0]) == "randf(state: uint32) -> float32"
