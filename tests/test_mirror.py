"""The tests mirror the package: the tests of a module are in the folder of its name.

A folder under ``tests/`` is a folder of the package, or stands in ``APART``. A file is named like the module that it
tests, or, where it tests what several modules do together, by a topic of its own. Who looks for ``x.py`` looks for
``test_x.py`` in the same folder; so if a file of this name is anywhere, there is one in that folder.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

APART = {
    "docs": "the documentation, its recipes and the examples",
    "exts": "the extensions, which are packages of their own",
    "fuzz": "random programs for all floors at once",
    "public": "public programs, which `make test-public` installs and runs",
    "soaking": "all kinds of work for minutes, which `make soak` runs",
    "native": "the C++ extension, whose source is in native/",
}
UNTESTED = {
    "builtins/device": "bodies of builtins, which the table tests of builtins/ run row by row",
    "jax_experimental": "older paths of functions that tests/interop tests",
    "passes/team": "tests/passes/test_team.py and tests/runtime/cuda test them together",
    "runtime/cpu": "the device that all other tests run on",
}
"""Folders of the package that need no folder of tests."""


def folders(root: Path) -> set[str]:
    """Return the folders below ``root`` that hold Python files or such folders, by their paths from there."""
    above = {folder for file in root.rglob("*.py") for folder in file.relative_to(root).parents}
    return {folder.as_posix() for folder in above - {Path()}}


def test_files(tests: Path) -> list[Path]:
    """Return the test files that mirror the package, by their paths from ``tests``."""
    found = sorted(p.relative_to(tests) for p in tests.rglob("test_*.py"))
    return [p for p in found if p.parts[0] not in APART]


test_files.__test__ = False  # type: ignore[attr-defined]


def misplaced(tests: Path, package: Path) -> list[str]:
    """Return the files that are named like a module whose own folder has no tests of this name."""
    homes: dict[str, set[Path]] = {}
    for module in package.rglob("*.py"):
        homes.setdefault(module.stem, set()).add(module.relative_to(package).parent)
    found = []
    for file in test_files(tests):
        wanted = homes.get(file.stem.removeprefix("test_"), set())
        if wanted and not any((tests / home / file.name).exists() for home in wanted):
            found.append(f"{file.as_posix()}: the module is in {', '.join(sorted(map(str, wanted)))}")
    return found


def test_every_folder_is_one_of_the_package():
    mirrored = {f for f in folders(ROOT / "tests") if f.split("/")[0] not in APART}
    assert mirrored <= folders(ROOT / "warp_like")


def test_every_folder_of_the_package_has_tests():
    package = folders(ROOT / "warp_like")
    without = {f for f in package if not any((ROOT / "tests" / f).glob("**/test_*.py"))}
    assert without == set(UNTESTED) & package


def test_a_file_named_like_a_module_is_where_the_module_is():
    assert misplaced(ROOT / "tests", ROOT / "warp_like") == []


@pytest.mark.parametrize("folder, found", [("passes", 0), ("runtime", 1)])
def test_a_file_in_another_folder_than_its_module_is_found(tmp_path, folder, found):
    tests, package = tmp_path / "tests", tmp_path / "package"
    for path in (package / "passes" / "cse.py", tests / folder / "test_cse.py", tests / "runtime" / "test_topic.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert len(misplaced(tests, package)) == found


def test_every_test_file_says_what_it_tests():
    files = [ROOT / "tests" / file for file in test_files(ROOT / "tests")]
    silent = [str(file) for file in files if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]
    assert silent == []
