"""Reading and running the code blocks of the documentation's pages.

A page's Python blocks run in order in one namespace. They are compiled at the lines where they stand in the page, so
that a traceback or a kernel's error names the line of the page. A block fenced as ``output`` right after holds what the
Python block before it prints.
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
    """Run the Python blocks as a module ``<page>.py`` in ``folder``, and compare the ``output`` blocks.

    The file exists while they run, since kernels are compiled from their source.
    """
    path = folder / f"{page.stem}.py"
    lines: list[str] = []
    for block in blocks:
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    module = types.ModuleType(f"page_{page.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    printed = ""
    for block in blocks:
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, module.__dict__)
            printed = out.getvalue().replace(f"{folder}/", "")
        elif block.language == "output":
            same = doctest.OutputChecker().check_output(block.text, printed, doctest.ELLIPSIS)
            assert same, (
                f"{page.name}:{block.line} says\n{block.text}\nbut the block before prints\n{printed}"
            )


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function that runs all blocks of a page, in an empty folder."""

    def run(page: Path) -> None:
        blocks = read_blocks(page)
        if any("import torch" in b.text for b in blocks):
            pytest.importorskip("torch")
        monkeypatch.chdir(tmp_path)
        run_blocks(page, blocks, tmp_path)

    return run
