"""The recipe "add a builtin", followed step by step in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "docs" / "recipes" / "add_a_builtin.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
APPEND = re.compile(r"# append to (\S+)\n")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's rows appended."""
    folder = tmp_path_factory.mktemp("recipe")
    shutil.copytree(ROOT / "warp_like", folder / "warp_like", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for block in BLOCK.findall(RECIPE.read_text(encoding="utf-8")):
        place = APPEND.match(block)
        if place:
            path = folder / place[1]
            path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{block[place.end() :]}", encoding="utf-8")
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy, with a cache of its own."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "WARP_LIKE_CACHE_DIR": str(folder / "cache")}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_recipe_changes_one_file() -> None:
    blocks = BLOCK.findall(RECIPE.read_text(encoding="utf-8"))
    assert sum(bool(APPEND.match(b)) for b in blocks) == 1


def test_what_the_recipe_shows_runs(copy: Path) -> None:
    blocks = BLOCK.findall(RECIPE.read_text(encoding="utf-8"))
    program = copy / "program.py"
    program.write_text("\n\n".join(b for b in blocks if not APPEND.match(b)), encoding="utf-8")
    done = run(copy, str(program))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_of_the_table_find_the_row(copy: Path) -> None:
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/builtins", "-k", "softplus")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= 5, done.stdout  # documented, typed, compared and differentiated


def test_the_row_is_in_the_reference(copy: Path) -> None:
    extension = str(ROOT / "docs" / "_ext")
    done = run(
        copy,
        "-c",
        f"import sys; sys.path.append({extension!r}); import builtin_pages; print(builtin_pages.group('Scalar Math'))",
    )
    assert "softplus(x: F) -> F" in done.stdout, done.stdout + done.stderr
    assert ">>> wp.softplus(0.5)\n0.974" in done.stdout
    assert "`adj_x += g / (exp(-x) + 1)`" in done.stdout
