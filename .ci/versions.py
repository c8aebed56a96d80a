"""What ``make test-versions`` runs: the tests of interoperability with the oldest and newest supported versions.

    versions.py [--list] [--docs] [--jobs 2] [ROW ...]

Each row of ``ROWS`` has a virtual environment of its own, ``build/versions/ROW``, which is made once and reused; remove
the folder to install newer packages. The native extension is built once for each Python, in a copy of the tree,
``build/versions/source-X.Y``; the checkout itself is only read. A row needs ``pythonX.Y`` on the PATH; rows whose
interpreter is not there are told and left out.

Results go to ``build/versions/results.json``, row by row, and the table of all rows to ``build/versions/table.md``.
``--docs`` writes this table into ``docs/versions.md``. The exit status is 1 if a test failed.

``PIP_FLAGS`` goes to pip: PyTorch's packages for Linux bring CUDA's libraries, several GiB, unless it names an index
without them.

The oldest versions are the bounds in ``pyproject.toml``. Uses the standard library alone, of Python 3.10 or later.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from environment import BUILD_TOOLS, interpreter_of, name_of, read_pyproject

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "versions"
RESULTS = BUILD / "results.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- versions: begin -->\n", "<!-- versions: end -->\n"

PACKAGES = {"numpy": "numpy", "llvmlite": "llvmlite", "torch": "torch", "jax": "jax", "paddle": "paddlepaddle"}
TOOLS = ("cuda-bindings", "flatbuffers", "hypothesis", "pytest", "pytest-xdist")
"""What the tests use beside, in the versions of the extra ``test``."""

CORE = ("tests/native", "tests/interop", "tests/runtime/arrays")
FRAMEWORK = ("tests/interop",)


@dataclass(frozen=True)
class Row:
    """An environment.

    Attributes:
        python: The interpreter's version.
        oldest: Keys of ``PACKAGES`` that are installed in their oldest supported version; others in their newest.
        newest: Further keys, to install; NumPy and llvmlite are always there.
        also: Further requirements; versions of JAX import absl to export programs, and do not name it.
        tests: What is run.
    """

    python: str
    oldest: tuple[str, ...] = ()
    newest: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    tests: tuple[str, ...] = FRAMEWORK

    def requirements(self) -> list[str]:
        """Return what pip is to install."""
        bounds = oldest_versions()
        wanted = [f"{PACKAGES[key]}=={bounds[key]}" for key in self.oldest]
        wanted += [
            PACKAGES[key] for key in dict.fromkeys(("numpy", "llvmlite", *self.newest)) if key not in self.oldest
        ]
        project = read_pyproject()
        tools = [r for r in project["project"]["optional-dependencies"]["test"] if name_of(r) in TOOLS]
        return [*wanted, *self.also, *tools, *BUILD_TOOLS, "setuptools"]


ROWS = {
    "oldest": Row("3.10", oldest=("numpy", "llvmlite"), tests=CORE),
    "python-3.10": Row("3.10", tests=CORE),
    "python-3.11": Row("3.11", tests=CORE),
    "python-3.12": Row("3.12", tests=CORE),
    "python-3.13": Row("3.13", tests=CORE),
    "python-3.14": Row("3.14", tests=CORE),
    "torch-oldest": Row("3.11", oldest=("torch",)),
    "torch-newest": Row("3.11", newest=("torch",)),
    "jax-oldest": Row("3.11", oldest=("jax",), also=("absl-py",)),
    "jax-newest": Row("3.11", newest=("jax",)),
    "paddle-oldest": Row("3.11", oldest=("paddle",)),
    "paddle-newest": Row("3.11", newest=("paddle",)),
}


def oldest_versions() -> dict[str, str]:
    """Return the lower bounds in ``pyproject.toml``, by key of ``PACKAGES``."""
    project = read_pyproject()["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(r for key in ("torch", "jax", "paddle") for r in extras[key])]
    bounds = {name_of(r): r.partition(">=")[2] for r in listed}
    return {key: bounds[package] for key, package in PACKAGES.items()}


def run(name: str, row: Row, jobs: int) -> dict | None:
    """Return the row's result; None where its interpreter is not there."""
    python = shutil.which(f"python{row.python}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        print(f"{name}: there is no python{row.python} on the PATH that starts", flush=True)
        return None
    environment = prepare_environment(name, row, python)
    source = prepare_source(row, environment)
    report = BUILD / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [str(environment), "-m", "pytest", "-q", "-n", str(jobs), f"--junitxml={report}", *row.tests]
    print(f"{name}: {' '.join(row.tests)}", flush=True)
    importable = {**clean_environment(), "PYTHONPATH": str(source)}  # also by the programs that tests start
    status = subprocess.run(command, cwd=source, env=importable).returncode
    if not report.exists():
        raise SystemExit(f"{name}: pytest ended with status {status} and wrote no report")
    return {"date": datetime.date.today().isoformat(), **installed(environment), **counts(report, status)}


def clean_environment() -> dict[str, str]:
    """Return the environment variables without those that lead Python to other packages."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def prepare_environment(name: str, row: Row, python: str) -> Path:
    """Make the row's environment unless it is there, and return its interpreter."""
    folder = BUILD / name
    wanted = row.requirements()
    record = folder / "installed.json"
    if record.exists() and json.loads(record.read_text()) == wanted:
        return interpreter_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True, env=clean_environment())
    print(f"{name}: installing {', '.join(wanted)}", flush=True)
    options = os.environ.get("PIP_FLAGS", "").split()
    install = [str(interpreter_of(folder)), "-m", "pip", "install", "-q", *options, *wanted]
    subprocess.run(install, check=True, env=clean_environment())
    record.write_text(json.dumps(wanted))
    return interpreter_of(folder)


def prepare_source(row: Row, environment: Path) -> Path:
    """Bring the copy of the tree for the row's Python up to date, build the extension in it, and return its folder."""
    source = BUILD / f"source-{row.python}"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()}
    refresh(source, files)
    command = [str(environment), "build_lib.py"]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
    return source


def refresh(source: Path, files: Iterable[str]) -> None:
    """Copy what differs, and remove what is gone; files that are built there stay."""
    record = source / "build" / "copied.json"
    before = set(json.loads(record.read_text())) if record.exists() else set()
    for path in before - set(files):
        (source / path).unlink(missing_ok=True)
    for path in files:
        new, old = ROOT / path, source / path
        if not old.exists() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(new, old)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(sorted(files)))


def installed(environment: Path) -> dict:
    """Return the versions of Python and of the packages in an environment."""
    code = (
        "import json, platform, importlib.metadata as m\n"
        f"names = {PACKAGES!r}\n"
        "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "found = {k: there[p] for k, p in names.items() if p in there}\n"
        "print(json.dumps({'python': platform.python_version(), 'packages': found}))"
    )
    out = subprocess.run(
        [str(environment), "-c", code], capture_output=True, text=True, check=True, env=clean_environment()
    )
    return json.loads(out.stdout)


def counts(report: Path, status: int) -> dict:
    """Return how many tests passed, were skipped and failed, from pytest's report; ``status`` is how it ended."""
    cases = list(xml.parse(report).getroot().iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    names = sorted({f"{c.get('classname')}.{c.get('name')}" for c in failed})
    if status not in (0, 1):
        names.append(f"pytest ended with status {status}")
    return {
        "passed": len(cases) - len(failed) - skipped,
        "skipped": skipped,
        "failed": len(names),
        "failures": names,
    }


def table(results: dict[str, dict]) -> str:
    """Return the Markdown table of all rows."""
    head = ["row", "Python", *PACKAGES, "passed", "skipped", "failed", "date"]
    lines = [head]
    for name, row in ROWS.items():
        found = results.get(name)
        if found is None:
            missing = "not run" if shutil.which(f"python{row.python}") else "no interpreter"
            lines.append([name, row.python, *["" for _ in PACKAGES], missing, "", "", ""])
            continue
        versions = [found["packages"].get(key, "") for key in PACKAGES]
        numbers = [str(found[key]) for key in ("passed", "skipped", "failed")]
        lines.append([name, found["python"], *versions, *numbers, found["date"]])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    rows = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_page(text: str) -> None:
    """Put the table into the documentation."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the rows to run; all if none is named")
    parser.add_argument("--list", action="store_true", help="show the rows and what they install; run nothing")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/versions.md, too")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes run tests")
    options = parser.parse_args()
    unknown = sorted(set(options.rows) - set(ROWS))
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; the rows are {', '.join(ROWS)}")
    if options.list:
        for name, row in ROWS.items():
            print(f"{name}: Python {row.python}, {', '.join(row.requirements())}")
        return 0
    BUILD.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict] = {}
    failed = False
    for name in options.rows or ROWS:
        found = run(name, ROWS[name], options.jobs)
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}  # another row may have run meanwhile
        if found is None:
            results.pop(name, None)
        else:
            results[name] = found
            failed |= found["failed"] > 0
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        (BUILD / "table.md").write_text(table(results))
    print(table(results))
    if options.docs:
        write_page(table(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
