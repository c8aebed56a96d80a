"""Every recipe is listed where readers look, is followed by a test, and writes its files as the project does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.following import ROOT, Recipe

RECIPES = sorted(path.name for path in (ROOT / "docs" / "recipes").glob("*.md"))


@pytest.mark.parametrize("name", RECIPES)
def test_it_is_listed_and_followed(name: str) -> None:
    assert f"recipes/{name.removesuffix('.md')}\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert f"(docs/recipes/{name})" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tests = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_recipe_*.py")]
    assert any(f'"{name}"' in text for text in tests)


@pytest.mark.parametrize("name", [name for name in RECIPES if any(s.what == "new file" for s in Recipe(name).steps)])
def test_its_new_files_pass_lint(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for step in Recipe(name).steps:
        if step.what == "new file":
            step.do(tmp_path)
    own = 'lint.isort.known-first-party=["warp_like", "tests"]'  # which ruff sees where the whole packages are
    for command in (["format", "--check", "--diff"], ["check", "--config", own]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "."], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
