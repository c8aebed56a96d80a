"""Build the native extension in place, for development: ``python build_lib.py [--werror] [--debug]``.

The build is incremental and needs no network: CMake, a C++17 compiler, and Ninja where there is one. The
extension lands in ``warp_like/`` next to the Python sources. ``pip wheel .`` builds from the same CMake
files.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"


def find_program(name: str) -> str | None:
    """Return the path of ``name``, looking beside the running interpreter first, then on ``PATH``."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def build_dir(debug: bool) -> Path:
    """Return the build directory of this interpreter and configuration."""
    return BUILD / f"{sys.implementation.cache_tag}-{'debug' if debug else 'release'}"


def configure(cmake: str, directory: Path, debug: bool, werror: bool) -> None:
    """Let CMake write the build files, from scratch if those there were made elsewhere."""
    command = [
        cmake,
        f"-S{ROOT}",
        f"-B{directory}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_BUILD_TYPE={'Debug' if debug else 'Release'}",
        f"-DWL_WERROR={'ON' if werror else 'OFF'}",
        "-DWL_IN_PLACE=ON",
    ]
    ninja = find_program("ninja")
    if ninja:
        command += ["-GNinja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
        return
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run(command, check=True)


def build(debug: bool = False, werror: bool = False) -> Path:
    """Build the extension and return its path."""
    cmake = find_program("cmake")
    if cmake is None:
        raise SystemExit("build_lib.py needs CMake: pip install cmake ninja")
    directory = build_dir(debug)
    configure(cmake, directory, debug, werror)
    subprocess.run([cmake, "--build", str(directory), "--parallel"], check=True)
    return ROOT / "warp_like" / f"_native{importlib.machinery.EXTENSION_SUFFIXES[0]}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--werror", action="store_true", help="fail on compiler warnings")
    parser.add_argument("--debug", action="store_true", help="build without optimisation, with assertions")
    parser.add_argument("--clean", action="store_true", help="remove what was built before")
    options = parser.parse_args()
    if options.clean:
        shutil.rmtree(BUILD, ignore_errors=True)
    print(f"built {build(options.debug, options.werror).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
