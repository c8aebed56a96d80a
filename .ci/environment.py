"""Make the project's virtual environment.

``environment.py VENV EXTRA...`` creates ``VENV`` when it is missing, installs the requirements that
``pyproject.toml`` lists (those of the build, of the package itself and of each extra), and puts the
repository on the environment's import path. What was installed is written down in the environment, so that
later runs touch no network and take no time until the list changes.

With ``EXISTING`` set among the environment variables, nothing is installed: the new environment sees the packages of
the Python that runs this, in whatever versions they are there, and it is said which ones are missing or others. What
is no package but needed all the same is looked for, too: a C++ compiler, Python's headers, and for CUDA the driver and
libdevice.

Runs on the bare Python that the user has, so it uses the standard library alone.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD_TOOLS = ["cmake", "ninja"]  # a wheel's build gets them from its backend, build_lib.py from here
RECORD = "warp_like-installed.json"


def main(venv: Path, extras: list[str]) -> int:
    """Create the environment when it is missing, and go on inside it."""
    python = interpreter_of(venv)
    if not python.exists():
        print(f"Creating the virtual environment {venv}", flush=True)
        fresh = not venv.exists()
        failed = subprocess.run([sys.executable, "-m", "venv", str(venv)]).returncode
        if failed:
            if fresh:  # half of an environment would be taken for a whole one the next time
                shutil.rmtree(venv, ignore_errors=True)
            return failed
    return subprocess.run([str(python), __file__, "--inside", str(venv), *extras]).returncode


def interpreter_of(venv: Path) -> Path:
    """Return the path of an environment's Python."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(venv: Path, extras: list[str]) -> int:
    """Install what is not on record. Runs on the environment's own Python."""
    project = read_pyproject()
    wanted = [*BUILD_TOOLS, *project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in extras:
        wanted += expand(project["project"]["optional-dependencies"], extra)
    record = venv / RECORD
    installed = json.loads(record.read_text()) if record.exists() else []
    missing = [r for r in dict.fromkeys(wanted) if r not in installed]
    if missing:
        print(f"Installing into {venv} (once): {', '.join(missing)}", flush=True)
        options = os.environ.get("PIP_FLAGS", "").split()
        command = [sys.executable, "-m", "pip", "install", *options, *dict.fromkeys(wanted)]
        failed = subprocess.run(command).returncode
        if failed:
            return failed
        record.write_text(json.dumps(sorted({*installed, *missing}), indent=1))
    add_to_import_path()
    return 0


NEEDED = ("cmake", "ninja", "cuda-bindings", "hypothesis", "pytest")
"""What the tests and the build can't do without, beside what the package itself needs; other tests are skipped."""

STAND_INS = {"cuda-python": "cuda-bindings"}
"""Packages that hold nothing but another one."""


def borrow(venv: Path, extras: list[str]) -> int:
    """Make an environment that sees the packages of this Python; fails where one is missing that is needed."""
    project = read_pyproject()
    wanted = [*BUILD_TOOLS, *project["project"]["dependencies"]]
    needed = {name_of(r) for r in wanted} | set(NEEDED)
    for extra in extras:
        wanted += expand(project["project"]["optional-dependencies"], extra)
    there = {r: version_of(STAND_INS.get(name_of(r), name_of(r))) for r in dict.fromkeys(wanted) if applies(r)}
    missing = sorted({name_of(r) for r, version in there.items() if version is None})
    others = [
        f"{name_of(r)} {v}"
        for r, v in there.items()
        if v is not None and "==" in r and not r.partition("==")[2].startswith(v)
    ]
    if others:
        print(f"In other versions than the tests are made for: {', '.join(others)}", flush=True)
    if missing:
        print(f"Not there: {', '.join(missing)}", flush=True)
    if "cuda" in extras:
        for hint in missing_for_cuda():
            print(f"Not there: {hint}", flush=True)
    lacking = sorted(n for n in needed if version_of(n) is None) + missing_for_the_build()
    if lacking:
        print(
            f"{sys.executable} lacks {', '.join(lacking)}, without which nothing can be built or tested",
            file=sys.stderr,
        )
        return 1
    if not interpreter_of(venv).exists():
        failed = subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)]).returncode
        if failed:
            return failed
    folder = subprocess.run(
        [str(interpreter_of(venv)), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    seen = dict.fromkeys([str(ROOT), sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]])
    Path(folder, "warp_like-borrowed.pth").write_text("".join(f"{path}\n" for path in seen))
    return 0


def missing_for_the_build() -> list[str]:
    """Return what the native extension can't be built without, of what no package of this Python brings."""
    compilers = [os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl"]
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    missing = []
    if not any(shutil.which(name.split()[0]) for name in compilers if name):
        missing.append("a C++ compiler (g++ or clang++ on PATH, or named by CXX)")
    if not header.is_file():
        missing.append(f"Python's headers ({header}; the package python3-dev of most systems)")
    return missing


def missing_for_cuda() -> list[str]:
    """Return what kernels on a GPU can't run without, and what becomes of the tests."""
    driver = load_file(ROOT / ".ci" / "has_gpu.py").missing()
    libdevice = load_file(ROOT / "warp_like" / "backend" / "libdevice.py").find_libdevice()
    hints = [f"a GPU that can be used ({driver}), so the tests that need one are skipped"] if driver else []
    if libdevice is None:
        hints.append(
            "libdevice.10.bc, so kernels that call wp.sin and the like can't be compiled for CUDA; it is in the CUDA "
            "Toolkit (CUDA_HOME names its folder), and in the packages nvidia-cuda-nvcc and triton"
        )
    return hints


def load_file(path: Path) -> Any:
    """Return the module in a file, which imports nothing that is not there yet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(requirement: str) -> str:
    """Return the package that a requirement names."""
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]


def applies(requirement: str) -> bool:
    """Return whether a requirement is one for this Python, as far as its version decides."""
    found = re.search(r"python_version (<|>=) '3\.(\d+)'", requirement)
    if found is None:
        return True
    older = sys.version_info[1] < int(found[2])
    return older == (found[1] == "<")


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_pyproject() -> dict:
    """Return the project's table of settings."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def expand(table: dict[str, list[str]], extra: str) -> list[str]:
    """Return the requirements of ``extra``, those of other extras that it refers to included."""
    found: list[str] = []
    for requirement in table[extra]:
        if requirement.startswith(("warp_like[", "warp-like[")):
            for name in requirement[requirement.index("[") + 1 : requirement.index("]")].split(","):
                found += expand(table, name.strip())
        else:
            found.append(requirement)
    return found


def add_to_import_path() -> None:
    """Let the environment's Python import the package from the working tree, as an editable install would."""
    path = Path(sysconfig.get_paths()["purelib"]) / "warp_like-development.pth"
    line = f"{ROOT}\n"
    if not path.exists() or path.read_text() != line:
        path.write_text(line)


if __name__ == "__main__":
    found = sys.version.split()[0]
    if sys.version_info < (3, 10):  # noqa: UP036  (whatever Python the user has comes here first)
        sys.exit(f"warp_like needs Python 3.10 or later; this is {found}. Try: make PYTHON=python3.12")
    if os.environ.get("EXISTING"):
        sys.exit(borrow(Path(sys.argv[1]), sys.argv[2:]))
    if sys.argv[1] == "--inside":
        sys.exit(install(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
