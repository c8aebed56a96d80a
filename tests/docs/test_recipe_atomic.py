"""The recipe "add an atomic", followed step by step in a copy of the package, with more rows of other sorts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import ROOT, Recipe, append, count_passed, require_success

RECIPE = Recipe("add_an_atomic.md")

MORE_ROWS = """
declare(
    AtomicKind(
        "nand",
        _wide_integer,
        does="Replace an element of ``arr`` by the complement of its bit-and with ``value``",
        new=lambda b, old, value: b.invert(b.bit_and(old, value)),
        no_gradient=_INTEGERS,
        rmw=Names("nand", "nand"),
    )
)
declare(
    AtomicKind(
        "twice",
        wide_or_float,
        does="Add ``value`` twice to an element of ``arr``",
        operator="<<",
        new=lambda b, old, value: b.add(old, b.mul(value, 2)),
        identity=lambda t: -0.0 if t.is_float else 0,
        reduction="add",
        commutes=True,
        rounds=True,
        derivative=lambda b, x: b.mul(x, 2),
        gradient=f"`adj_value` gets twice {_ELEMENT}",
    )
)
"""
"""One that LLVM has an instruction for and whose order shows; and one that needs a function, with a gradient."""

MORE_MEANINGS = """
COMBINE["nand"] = lambda old, x: ~(old & x)
COMBINE["twice"] = lambda old, x: old + x + x
"""

PROGRAM = """
import numpy as np
import warp_like as wp


@wp.kernel
def shared(x: wp.array(dtype=wp.uint32), y: wp.array(dtype=wp.uint32)):
    wp.atomic_nand(y, 0, x[0])


@wp.kernel
def scattered(x: wp.array(dtype=int), y: wp.array(dtype=int), old: wp.array(dtype=int)):
    i = wp.tid()
    own = wp.zeros(2, dtype=int)
    own[1] = y[i]
    wp.atomic_nand(own, 1, x[i])
    old[i] = wp.atomic_nand(y, i, x[i]) + own[1]


@wp.kernel
def twice(x: wp.array(dtype=wp.vec2), y: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    wp.atomic_twice(y, 0, x[i])
    y[1 + i % 2] <<= x[i]
    y[3][1] <<= x[i][0]


given, before = np.arange(100, dtype=np.int32), np.arange(100, dtype=np.int32)[::-1].copy()
vectors = np.arange(20, dtype=np.float32).reshape(10, 2)
for width in (0, 1):
    options = {"vector_width": width}
    x, y = wp.array(np.array([0xFFFF00FF], np.uint32)), wp.array(np.array([0x12345678], np.uint32))
    wp.launch(shared, dim=33, inputs=[x, y], options=options)  # each flips the bits of the mask
    assert y.numpy()[0] == 0xFFFFFFFF ^ (0x12345678 & 0xFFFF00FF), hex(y.numpy()[0])

    x, y, old = (wp.array(a) for a in (given, before, given))
    wp.launch(scattered, dim=100, inputs=[x, y, old], options=options)
    assert (y.numpy() == ~(given & before)).all()
    assert (old.numpy() == before + ~(given & before)).all()

    x, y = wp.array(vectors, dtype=wp.vec2, requires_grad=True), wp.zeros(4, dtype=wp.vec2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(twice, dim=10, inputs=[x, y], options=options)
    assert (y.numpy()[:3] == 2 * np.array([vectors.sum(0), vectors[::2].sum(0), vectors[1::2].sum(0)])).all()
    assert (y.numpy()[3] == [0, 2 * vectors[:, 0].sum()]).all()
    tape.backward(grads={y: wp.array([[1, 2], [3, 4], [5, 6], [7, 8]], dtype=wp.vec2)})
    expected = [[2 * (1 + (3, 5)[i % 2] + 8), 2 * (2 + (4, 6)[i % 2])] for i in range(10)]
    assert (x.grad.numpy() == expected).all(), x.grad.numpy()
    (tangent,) = wp.autograd.jvp(twice, 10, [x], [y], tangents=[wp.ones(10, dtype=wp.vec2)])
    assert (tangent.numpy()[:, 1] == [20, 10, 10, 20]).all(), tangent.numpy()

assert "atomicrmw nand" in shared.inspect("llvm")
assert "lane_reduce" not in shared.inspect("lanes")
assert "lane_reduce add" in twice.inspect("lanes")
for kernel in (shared, scattered, twice):
    for arch in ("sm_75", "sm_90"):
        assert ".visible .entry" in kernel.inspect("ptx", target=arch)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's row and more of them."""
    folder = tmp_path_factory.mktemp("recipe")
    RECIPE.follow(folder)
    append(folder / "warp_like" / "ir" / "atomics.py", MORE_ROWS)
    append(folder / "tests" / "interpreter.py", MORE_MEANINGS)
    (folder / "more.py").write_text(PROGRAM, encoding="utf-8")
    return folder


def test_the_recipe_changes_one_file_of_the_package() -> None:
    assert RECIPE.files == ["warp_like/ir/atomics.py", "tests/interpreter.py"]


def test_what_the_recipe_shows_runs(copy: Path) -> None:
    require_success(copy, "program.py")


def test_other_rows_run(copy: Path) -> None:
    require_success(copy, "more.py")


@pytest.mark.long
def test_the_tests_find_the_rows(copy: Path) -> None:
    table, builtin = "tests/ir/test_atomics.py", "tests/builtins/test_atomics.py"
    names = ("test_many_threads", "test_on_an_array_of_the_threads_own")
    cases = [f"{builtin}::{name}[{kind}-float32-vec3]" for name in names for kind in ("mul", "twice")]
    assert count_passed(copy, table, *cases) > 30


def test_the_rows_are_in_the_reference(copy: Path) -> None:
    extension = str(ROOT / "docs" / "_ext")
    show = "import builtin_pages; print(builtin_pages.group('Utility'))"
    page = require_success(copy, "-c", f"import sys; sys.path.append({extension!r}); {show}")
    assert "Multiply an element of `arr` by `value` atomically" in page
    assert "`adj_value` gets twice the adjoint of the element" in page
