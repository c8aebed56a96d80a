"""Following a recipe of the documentation step by step, in a copy of the package and its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(?:python|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"# (append to|new file|change) (\S+)\n")


@dataclass(frozen=True)
class Step:
    """What a block of a recipe does to a file: ``append to`` it, make it (``new file``), or ``change`` lines of it."""

    what: str
    file: str
    text: str

    def do(self, folder: Path) -> None:
        """Do it in a copy."""
        path = folder / self.file
        if self.what == "append to":
            append(path, self.text)
        elif self.what == "new file":
            assert not path.exists(), f"{self.file} is there already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
        else:
            change(path, self.text)


class Recipe:
    """A page whose blocks are steps, where their first line says so, or else make up a program."""

    def __init__(self, name: str) -> None:
        blocks = _BLOCK.findall((ROOT / "docs" / "recipes" / name).read_text(encoding="utf-8"))
        found = [(_STEP.match(b), b) for b in blocks]
        self.steps = [Step(m[1], m[2], block[m.end() :]) for m, block in found if m]
        self.program = "\n\n".join(block for m, block in found if not m)

    @property
    def files(self) -> list[str]:
        """The files that the recipe changes or makes, in its order."""
        return list(dict.fromkeys(step.file for step in self.steps))

    def follow(self, folder: Path) -> None:
        """Make in ``folder`` a copy in which the steps are done, and ``program.py``.

        Python's compiled files of the package are copied, too: those of unchanged files are used, by times and sizes.
        """
        shutil.copytree(ROOT / "warp_like", folder / "warp_like")
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for step in self.steps:
            step.do(folder)
        (folder / "program.py").write_text(self.program, encoding="utf-8")


def append(path: Path, text: str) -> None:
    """Add lines to the end of a file."""
    path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{text}", encoding="utf-8")


def change(path: Path, diff: str) -> None:
    """Replace the lines of ``diff`` with ``-`` or a space by those with ``+`` or a space; the file has them once."""
    lines = diff.splitlines()
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] in kept) for kept in ("- ", "+ "))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has these lines {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy, with a cache of its own and more environment variables."""
    own = {"PYTHONPATH": str(folder), "WARP_LIKE_CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **own, **variables}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def require_success(folder: Path, *command: str, **variables: str) -> str:
    """Run Python on the copy; return what it prints."""
    done = run(folder, *command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def count_passed(folder: Path, *selection: str) -> int:
    """Run tests of the copy, which must pass; return how many there were."""
    printed = require_success(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection)
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None, printed
    return int(passed[1])
