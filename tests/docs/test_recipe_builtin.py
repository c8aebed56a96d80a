"""The recipe "add a builtin", followed step by step in a copy of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import ROOT, Recipe, count_passed, require_success

RECIPE = Recipe("add_a_builtin.md")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's rows appended."""
    folder = tmp_path_factory.mktemp("recipe")
    RECIPE.follow(folder)
    return folder


def test_the_recipe_changes_one_file() -> None:
    assert len(RECIPE.files) == 1


def test_what_the_recipe_shows_runs(copy: Path) -> None:
    require_success(copy, "program.py")


def test_the_tests_of_the_table_find_the_row(copy: Path) -> None:
    passed = count_passed(copy, "tests/builtins", "-k", "softplus")
    assert passed >= 5  # documented, typed, compared and differentiated


def test_the_row_is_in_the_reference(copy: Path) -> None:
    extension = str(ROOT / "docs" / "_ext")
    show = "import builtin_pages; print(builtin_pages.group('Scalar Math'))"
    page = require_success(copy, "-c", f"import sys; sys.path.append({extension!r}); {show}")
    assert "softplus(x: F) -> F" in page
    assert ">>> wp.softplus(0.5)\n0.974" in page
    assert "`adj_x += g / (exp(-x) + 1)`" in page
