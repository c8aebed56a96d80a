"""Following a recipe of the documentation step by step, in a copy of the package and its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_APPEND = re.compile(r"# append to (\S+)\n")


class Recipe:
    """A page whose Python blocks are appended to files, where they say so, or make up a program."""

    def __init__(self, name: str) -> None:
        blocks = _BLOCK.findall((ROOT / "docs" / "recipes" / name).read_text(encoding="utf-8"))
        places = [(_APPEND.match(b), b) for b in blocks]
        self.appended = [(place[1], block[place.end() :]) for place, block in places if place]
        self.program = "\n\n".join(block for place, block in places if not place)

    def follow(self, folder: Path) -> None:
        """Make in ``folder`` a copy in which the steps are done, and ``program.py``."""
        for part in ("warp_like", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for name, text in self.appended:
            append(folder / name, text)
        (folder / "program.py").write_text(self.program, encoding="utf-8")


def append(path: Path, text: str) -> None:
    """Add lines to the end of a file."""
    path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{text}", encoding="utf-8")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy, with a cache of its own."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "WARP_LIKE_CACHE_DIR": str(folder / "cache")}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def require_success(folder: Path, *command: str) -> str:
    """Run Python on the copy; return what it prints."""
    done = run(folder, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def count_passed(folder: Path, *selection: str) -> int:
    """Run tests of the copy, which must pass; return how many there were."""
    printed = require_success(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection)
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None, printed
    return int(passed[1])
