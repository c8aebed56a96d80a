"""The recipe "add a pass", followed step by step in a copy of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import Recipe, count_passed, require_success

RECIPE = Recipe("add_a_pass.md")
NAME = "shift_divisions"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's pass."""
    folder = tmp_path_factory.mktemp("recipe")
    RECIPE.follow(folder)
    return folder


def test_the_recipe_changes_the_list_and_the_pipeline_alone() -> None:
    assert [name for name in RECIPE.files if name.startswith("warp_like")] == [
        f"warp_like/passes/{NAME}.py",
        "warp_like/base/passes.py",
        "warp_like/passes/pipeline.py",
    ]


def test_what_the_recipe_shows_runs_and_is_dumped(copy: Path) -> None:
    printed = require_success(copy, "program.py", WARP_LIKE_DUMP=f"before:{NAME},after:{NAME}")
    assert "floordiv" in printed.partition(f"after:{NAME}")[0]
    assert "rshift" in printed.partition(f"after:{NAME}")[2]


def test_its_own_tests_pass_and_those_of_the_list(copy: Path) -> None:
    files = [f"tests/passes/test_{name}.py" for name in (NAME, "docstrings", "runner", "stages")]
    assert count_passed(copy, *files) > 60


@pytest.mark.long
def test_kernels_give_the_same_results_as_before(copy: Path) -> None:
    """The division agrees with NumPy for every type, and random functions with the interpreter."""
    assert count_passed(copy, "tests/builtins/test_reference.py", "-k", "floordiv") >= 1
    assert count_passed(copy, "tests/passes/test_random.py::test_pipeline_keeps_meaning") == 1
