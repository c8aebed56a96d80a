"""The files that know Windows compile for it, where `make windows` has fetched the compiler."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    return runpy.run_path(str(ROOT / ".ci" / "windows.py"))


def test_the_names_that_a_library_exports_are_read(script, tmp_path) -> None:
    library = tmp_path / "a.dll"
    library.write_bytes(_library(["Py_First", "Py_Second"]))
    assert script["exported"](library) == ["Py_First", "Py_Second"]


def _library(names: list[str]) -> bytes:
    """A file with the headers of a library for Windows, and one section at 0x1000 that holds the table of exports."""
    start, at = 0x1000, 0x200
    texts, places = b"", []
    for name in names:
        places.append(start + 40 + 4 * len(names) + len(texts))
        texts += name.encode() + b"\0"
    table = bytearray(40)
    table[24:28] = len(names).to_bytes(4, "little")
    table[32:36] = (start + 40).to_bytes(4, "little")
    section = bytes(table) + b"".join(place.to_bytes(4, "little") for place in places) + texts
    data = bytearray(at + len(section))
    data[0x3C:0x40] = (0x40).to_bytes(4, "little")
    data[0x46:0x48] = (1).to_bytes(2, "little")  # sections
    data[0x54:0x56] = (0xF0).to_bytes(2, "little")  # bytes of the optional header
    data[0x40 + 24 + 112 : 0x40 + 24 + 116] = start.to_bytes(4, "little")
    header = [len(section), start, len(section), at]
    data[0x40 + 24 + 0xF0 + 8 : 0x40 + 24 + 0xF0 + 24] = b"".join(n.to_bytes(4, "little") for n in header)
    data[at:] = section
    return bytes(data)


@pytest.mark.parametrize("name", ["platform_windows", "elf", "context"])
def test_files_compile_for_windows(script, tmp_path, name: str) -> None:
    zig, headers = script["ZIG"], script["PYTHON"] / "include"
    generated = script["PLACE"] / "cmake" / "native" / "generated"
    if not zig.exists() or not headers.is_dir() or not generated.is_dir():
        pytest.skip("`make windows` has not fetched the compiler")
    command = [str(zig), "c++", "-target", script["TARGET"], "-std=c++17", "-Wall", "-Werror", "-c"]
    command += [f"-I{headers}", f"-I{generated}", str(ROOT / "native" / f"{name}.cpp"), "-o", str(tmp_path / "a.obj")]
    subprocess.run(command, check=True, env=script["with_cache"]())
    assert (tmp_path / "a.obj").read_bytes()[:2] == b"\x64\x86"  # an object for Windows on x86-64
