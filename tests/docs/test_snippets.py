"""Every Python block of the README and of the documentation runs, and prints what the page says it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.conftest import read_blocks

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 88
"""The width of code on the pages: without a scrollbar beside the table of contents."""

# A recipe changes the package's own files; test_recipe_builtin.py follows it in a copy.
PAGES = [
    p
    for p in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if p.parent.name != "recipes" and "```python" in p.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_page(page: Path, run_page: Callable[[Path], None]) -> None:
    run_page(page)


def test_the_guide_is_found() -> None:
    names = {p.name for p in PAGES}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "getting_started.md",
        "kernels.md",
        "gradients.md",
        "pytorch.md",
        "errors.md",
    } <= names


def test_code_fits_a_narrow_window() -> None:
    """Output wraps, and a diff has the columns of the file that it changes."""
    wide = [
        f"{page.relative_to(ROOT)}:{block.line + k}"
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        for block in read_blocks(page)
        if block.language not in ("output", "diff", "")
        for k, line in enumerate(block.text.splitlines())
        if len(line) > COLUMNS
    ]
    assert not wide


def test_programs_on_pages_fit_a_narrow_window() -> None:
    """Wherever the file is: ``examples/ruff.toml`` holds it for that folder alone."""
    wide = [
        f"{program.relative_to(ROOT)}:{number}"
        for program in shown_programs()
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert not wide


def shown_programs() -> list[Path]:
    """Return the files that pages include: by name, and all of the gallery."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    named = [
        (page, re.findall(r"^```{literalinclude} (\S+)", page.read_text(encoding="utf-8"), re.M)) for page in pages
    ]
    included = [(page.parent / name).resolve() for page, names in named for name in names]
    assert len(included) >= 10
    return [*included, *sorted((ROOT / "examples" / "gallery").glob("*.py"))]


def test_an_unclosed_or_misspelt_fence_is_not_skipped() -> None:
    """Fences that the runner would pass over: indented Python, or a language close to the two it knows."""
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            word = line.strip().lstrip("`")
            if line.strip().startswith("```") and word in ("python", "py", "python3", "output"):
                assert line in ("```python", "```output"), f"{page.name}:{number}: write ```python at the line's start"
