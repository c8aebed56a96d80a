"""Build the native extension for Windows on another system, and try the package under Wine where there is one.

    windows.py [--build-only]

Zig's C++ compiler from the package index builds it for ``x86_64-windows-gnu``, by the same CMake files as elsewhere.
All that it needs lies in ``build/windows``: the compiler, and a Python for Windows of the version that runs this
script. That Python's library and modules are those that the wheel of Panda3D carries to make programs for Windows from
elsewhere; its standard library and headers are those of this Python, since they differ in ``pyconfig.h`` alone.

``WINE`` names the command of a 64-bit Wine. ``PIP_FLAGS`` goes to pip.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "windows"
PYTHON = PLACE / "python"
ZIG = PLACE / "tools" / "ziglang" / "zig"
TOOLS = ("ziglang==0.17.1",)
RUNTIME = ("panda3d==1.10.16", "numpy==1.26.4", "llvmlite==0.50.0")
VERSION = f"{sys.version_info.major}{sys.version_info.minor}"
TARGET = "x86_64-windows-gnu"

CONFIGURATION = """\
// What CPython's headers ask about Windows on x86-64.
#pragma once
#define MS_WIN32
#define MS_WINDOWS
#define MS_WIN64
#define NT_THREADS
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL
#define PLATFORM "win32"
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define ALIGNOF_MAX_ALIGN_T 8
#define HAVE_SSIZE_T 1
#define HAVE_STDDEF_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_WCHAR_H 1
#define HAVE_STDARG_PROTOTYPES
#define WITH_DOC_STRINGS 1
#define WITH_PYMALLOC 1
#include <io.h>
#include <sys/types.h>
"""

PROGRAM = """\
#include <wchar.h>
int Py_Main(int count, wchar_t** arguments);
int wmain(int count, wchar_t** arguments) { return Py_Main(count, arguments); }
"""


def pip(*arguments: str) -> None:
    """Call pip."""
    options = os.environ.get("PIP_FLAGS", "").split()
    subprocess.run([sys.executable, "-m", "pip", *arguments[:1], "--quiet", *options, *arguments[1:]], check=True)


def fetch() -> None:
    """Fetch the compiler, and the wheels for Windows."""
    if not (PLACE / "tools" / "ziglang").is_dir():
        pip("install", "--target", str(PLACE / "tools"), *TOOLS)
    if not list((PLACE / "wheels").glob("*.whl")):
        wanted = ["--platform=win_amd64", f"--python-version={VERSION}", "--only-binary=:all:", "--no-deps"]
        pip("download", "--dest", str(PLACE / "wheels"), *wanted, *RUNTIME)


def program(name: str) -> str | None:
    """Return the path of a program, which may lie beside the running interpreter."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def with_cache() -> dict[str, str]:
    """Return the environment for Zig, which builds its C++ library at the first use and keeps it."""
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(PLACE / "zig-cache")}


def zig(*arguments: str) -> None:
    """Call Zig."""
    subprocess.run([str(ZIG), *arguments], check=True, env=with_cache())


def exported(library: Path) -> list[str]:
    """Return the names that a Windows library exports."""
    data = library.read_bytes()

    def text(at: int) -> str:
        return data[at : data.index(b"\0", at)].decode()

    (head,) = struct.unpack_from("<I", data, 0x3C)
    count, optional = struct.unpack_from("<2xH12xH", data, head + 4)
    sections = [struct.unpack_from("<4I", data, head + 24 + optional + 40 * i + 8) for i in range(count)]

    def place(address: int) -> int:
        return next(at + address - start for size, start, _, at in sections if start <= address < start + size)

    table = place(struct.unpack_from("<I", data, head + 24 + 112)[0])
    (names,) = struct.unpack_from("<I", data, table + 24)
    addresses = struct.unpack_from(f"<{names}I", data, place(struct.unpack_from("<I", data, table + 32)[0]))
    return [text(place(address)) for address in addresses]


def make_python() -> None:
    """Lay out a Python for Windows, with the headers and the import library to build for it."""
    if (PYTHON / "python.exe").exists():
        return
    shutil.rmtree(PYTHON, ignore_errors=True)
    shutil.copytree(
        sysconfig.get_path("stdlib"), PYTHON / "Lib", ignore=shutil.ignore_patterns("site-packages", "test")
    )
    shutil.copytree(sysconfig.get_path("include"), PYTHON / "include")
    (PYTHON / "include" / "pyconfig.h").write_text(CONFIGURATION)
    packages = PYTHON / "Lib" / "site-packages"
    for wheel in (PLACE / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            if not wheel.name.startswith("panda3d"):
                archive.extractall(packages)
                continue
            for member in archive.namelist():
                folder, _, name = member.partition("/")
                if folder == "deploy_libs" and not name.startswith("api-ms-win"):
                    (PYTHON / name).write_bytes(archive.read(member))
    library = f"python{VERSION}"
    rows = "".join(f"  {name}\n" for name in exported(PYTHON / f"{library}.dll"))
    (PYTHON / "exports.def").write_text(f"LIBRARY {library}.dll\nEXPORTS\n{rows}")
    zig("dlltool", "-m", "i386:x86-64", "-d", str(PYTHON / "exports.def"), "-l", str(PYTHON / f"lib{library}.dll.a"))
    (PYTHON / "python.c").write_text(PROGRAM)
    parts = [str(PYTHON / name) for name in ("python.c", f"lib{library}.dll.a")]
    zig("cc", "-target", TARGET, "-municode", *parts, "-o", str(PYTHON / "python.exe"))


def build() -> Path:
    """Build the extension, and put the package into the packages of the Python for Windows; return the extension."""
    out = PLACE / "cmake"
    cmake, ninja = program("cmake"), program("ninja")
    if not cmake or not ninja:
        sys.exit("windows.py needs CMake and Ninja: pip install cmake ninja")
    options = {
        "CMAKE_MAKE_PROGRAM": ninja,
        "CMAKE_SYSTEM_NAME": "Windows",
        "CMAKE_SYSTEM_PROCESSOR": "AMD64",
        "CMAKE_CXX_COMPILER": f"{ZIG};c++",
        "CMAKE_CXX_COMPILER_TARGET": TARGET,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",  # linking a program would take minutes at first
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": str(PYTHON / "include"),
        "Python_LIBRARY": str(PYTHON / f"libpython{VERSION}.dll.a"),
        "WL_WERROR": "ON",
    }
    settings = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run([cmake, "-GNinja", f"-S{ROOT}", f"-B{out}", *settings], check=True, env=with_cache())
    subprocess.run([cmake, "--build", str(out), "--target", "_native"], check=True, env=with_cache())
    (extension,) = (out / "native").glob("_native*.pyd")
    package = PYTHON / "Lib" / "site-packages" / "warp_like"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "warp_like", package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    installed = package / f"_native.cp{VERSION}-win_amd64.pyd"  # CMake names it after the Python that builds
    shutil.copy(extension, installed)
    return installed


def wine() -> str | None:
    """Return the command of a Wine for programs of 64 bits."""
    return shutil.which(os.environ.get("WINE", "")) or shutil.which("wine64") or shutil.which("wine")


def run(command: str, *arguments: str) -> None:
    """Run the Python for Windows."""
    settings = {"WINEPREFIX": str(PLACE / "prefix"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    environment = {**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    program = [command, str(PYTHON / "python.exe"), *arguments]
    subprocess.run(program, check=True, env=environment, stdin=subprocess.DEVNULL)


def main() -> None:
    """Build, and run a first kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build-only", action="store_true", help="don't run the package, even where there is Wine")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    fetch()
    make_python()
    print(f"built {build().relative_to(ROOT)}", flush=True)
    command = None if options.build_only else wine()
    if command:
        run(command, str(ROOT / ".ci" / "first_kernel.py"))
    else:
        print("not run: there is no Wine, or --build-only was given")


if __name__ == "__main__":
    main()
