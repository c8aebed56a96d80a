"""The commit hooks run the commands of ``make lint``, and continuous integration calls targets of the Makefile."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
WORKFLOWS = {file.stem: file for file in (ROOT / ".github" / "workflows").iterdir()}
CALLED = {
    "ci": {"build", "lint", "test", "docs", "dist"},
    "weekly": {"sanitize", "test-long", "test-versions", "test", "windows"},
    "wheels": set(),
}
"""Which targets of the Makefile the jobs of a workflow call."""
SUFFIXES = {"python": ".py", "pyi": ".pyi", "jupyter": ".ipynb", "c": ".h", "c++": ".cpp"}
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def hooks() -> dict[str, dict[str, Any]]:
    """The hooks by their commands."""
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # nothing is downloaded in another version than that of the tests
    return {hook["entry"]: hook for hook in repository["hooks"]}


def lint_commands() -> dict[str, list[str]]:
    """The commands of ``make lint``, each with the paths that it is given."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make")
    command = [make, "-n", "-s", "lint", "VENV=.venv", "EXISTING="]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        words = shlex.split(line)
        if "environment.py" not in line:
            paths = [w for w in words[1:] if (ROOT / w).exists() and w != "check"]
            found[" ".join(w for w in words if w not in paths)] = paths
    return found


def files_under(paths: list[str], suffixes: set[str]) -> set[str]:
    """The files with one of the suffixes, relative to the repository, that the paths are or hold."""
    found = (file for path in paths for file in walk(ROOT / path))
    return {file.relative_to(ROOT).as_posix() for file in found if file.suffix in suffixes}


def walk(start: Path) -> Iterator[Path]:
    """The files in a folder, or the one that ``start`` is; what is not ours may be large, and is not entered."""
    if start.is_file():
        yield start
    for folder, folders, files in os.walk(start):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        yield from (Path(folder, name) for name in files)


def test_the_hooks_are_the_commands_of_lint() -> None:
    commands = lint_commands()
    assert len(commands) >= 4
    assert {*hooks()} == {*commands}
    assert all(hook["language"] == "system" for hook in hooks().values())


def test_the_hooks_see_the_files_that_lint_sees() -> None:
    for command, paths in lint_commands().items():
        hook = hooks()[command]
        suffixes = {SUFFIXES[kind] for kind in hook["types_or"]}
        seen = {file for file in files_under(["."], suffixes) if re.search(hook["files"], file)}
        expected = files_under(paths or ["warp_like"], suffixes)  # mypy takes its files from pyproject.toml
        assert len(expected) > 10, command
        assert seen == expected, command
        assert paths or hook["pass_filenames"] is False, command


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in read(WORKFLOWS[workflow])["jobs"].values() for step in job["steps"]]


def test_all_workflows_are_known() -> None:
    assert {*WORKFLOWS} == {*CALLED}


@pytest.mark.parametrize("workflow", CALLED)
def test_workflows_call_targets_that_there_are(workflow: str) -> None:
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    called = {word for line in lines if line.startswith("make ") for word in line.split()[1:] if "=" not in word}
    assert called == CALLED[workflow]
    assert called <= {*TARGETS}


def test_every_target_has_a_recipe_and_is_phony() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert {*phony[1].split()} == {*TARGETS, "help"}


def claimed_versions() -> list[str]:
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)


def test_continuous_integration_tests_the_versions_of_python_that_the_package_claims() -> None:
    claimed = claimed_versions()
    least = re.search(r'^requires-python = ">=(.*)"$', PYPROJECT, re.MULTILINE)
    assert least is not None
    assert claimed[0] == least[1]
    matrix = read(WORKFLOWS["ci"])["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == claimed
    assert {"arm" in machine for machine in matrix["machine"]} == {False, True}


@pytest.mark.parametrize("workflow", CALLED)
def test_workflows_use_versions_of_python_that_the_package_claims(workflow: str) -> None:
    used = [step["with"]["python-version"] for step in steps(workflow) if "setup-python" in step.get("uses", "")]
    assert used
    assert {version for version in used if not version.startswith("$")} <= {*claimed_versions()}


@pytest.mark.parametrize("workflow", CALLED)
def test_workflows_need_no_secrets_and_name_no_host(workflow: str) -> None:
    text = WORKFLOWS[workflow].read_text(encoding="utf-8")
    assert "secrets" not in text
    assert "://" not in text
    assert read(WORKFLOWS[workflow])["permissions"] == {"contents": "read"}


def test_wheels_are_built_for_what_the_package_claims() -> None:
    """Every version of Python, and the systems of the classifiers; no wheel is promised for another system."""
    settings = PYPROJECT[PYPROJECT.index("[tool.cibuildwheel]") :]
    builds = re.search(r"^build = \[(.*)\]$", settings, re.MULTILINE)
    assert builds is not None
    assert re.findall(r'"cp(\d)(\d+)-\*"', builds[1]) == [tuple(v.split(".")) for v in claimed_versions()]
    systems = set(re.findall(r'"Operating System :: (?:POSIX :: |Microsoft :: )?(\w+)"', PYPROJECT))
    machines = read(WORKFLOWS["wheels"])["jobs"]["wheels"]["strategy"]["matrix"]["machine"]
    named = {"ubuntu": "Linux", "macos": "MacOS", "windows": "Windows"}
    assert {named[machine.partition("-")[0]] for machine in machines} == systems
    assert {machine.endswith("-arm") for machine in machines if machine.startswith("ubuntu")} == {False, True}


def test_the_program_that_tries_wheels_refuses_the_repository_and_runs(tmp_path, monkeypatch, capsys) -> None:
    command = re.search(r'^test-command = "python \{project\}/(.*)"$', PYPROJECT, re.MULTILINE)
    assert command is not None
    monkeypatch.setenv("WARP_LIKE_CACHE_DIR", "")  # which the program sets
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    monkeypatch.setattr("sys.argv", ["first_kernel.py"])
    program = runpy.run_path(str(ROOT / command[1]))
    main = program["main"]
    with pytest.raises(SystemExit, match="is not in"):
        main()
    monkeypatch.setitem(main.__globals__, "check_place", lambda: None)
    main()
    assert "a first kernel in" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", ".pre-commit-config.yaml"])
def test_guides_name_commands_that_there_are(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", text))
    assert named
    assert named <= {*TARGETS}
