"""Links between files of the repository lead somewhere: those of pages, notebooks and READMEs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?\s*\)|(?:href|src)=\\?\"([^\"\\]+)\\?\"")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_NOT_OURS = {".venv", "build", "node_modules", ".git"}


def pages() -> list[Path]:
    """All pages of Markdown and all notebooks."""
    found = [*ROOT.rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    return sorted(p for p in found if not _NOT_OURS & {*p.relative_to(ROOT).parts})


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and Sphinx make them."""
    text = _CODE.sub(lambda m: m[0] if m[0].count("\n") == 0 else "", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_that_there_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        text = _CODE.sub("", text)
    for match in _LINK.finditer(text):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue  # of another site
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


def test_readme_has_links() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(_LINK.findall(text)) > 20
