"""Reading and running the code blocks of the documentation's pages.

A page's Python blocks run in order in one namespace, each from a file of its own: ``errors.py``,
``errors_2.py`` and so on for ``errors.md``. So the lines that an error names are those of the block, wherever
it stands in the page. A block fenced as ``output`` right after holds what the Python block before it prints.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the 1-based line of the page where the text starts."""

    language: str
    text: str
    line: int


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _FENCE.finditer(text)]


def run_blocks(page: Path, blocks: list[Block], folder: Path) -> None:
    """Run the Python blocks from files in ``folder``, and compare the ``output`` blocks."""
    module = types.ModuleType(f"page_{page.stem}")
    sys.modules[module.__name__] = module
    printed = ""
    count = 0
    for block in blocks:
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            count += 1
            path = folder / (f"{page.stem}.py" if count == 1 else f"{page.stem}_{count}.py")
            path.write_text(block.text, encoding="utf-8")  # kernels are compiled from their source
            try:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(block.text, str(path), "exec"), module.__dict__)
            except Exception as error:
                raise AssertionError(f"the block at {place} raises {type(error).__name__}: {error}") from error
            printed = out.getvalue().replace(f"{folder}/", "")
        elif block.language == "output":
            same = doctest.OutputChecker().check_output(block.text, printed, doctest.ELLIPSIS)
            assert same, f"{place} says\n{block.text}\nbut the block before prints\n{printed}"


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function that runs all blocks of a page, in an empty folder."""

    def run(page: Path) -> None:
        blocks = read_blocks(page)
        if any("import torch" in b.text for b in blocks):
            pytest.importorskip("torch")
        if any("import jax" in b.text for b in blocks):
            pytest.importorskip("jax")
        if any("import paddle" in b.text for b in blocks):
            pytest.importorskip("paddle")
        if any("warp_like_viewer" in b.text for b in blocks):
            pytest.importorskip("PIL")
            monkeypatch.syspath_prepend(str(ROOT / "exts" / "viewer" / "src"))
        monkeypatch.chdir(tmp_path)
        run_blocks(page, blocks, tmp_path)

    return run
