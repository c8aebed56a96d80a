"""How the extension is linked: it shows only names that others look up, and its tables of addresses are read-only."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

from tests.native.loading import load_native

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {"PyInit__native", "__jit_debug_descriptor", "__jit_debug_register_code"}
DYNAMIC, DYNAMIC_SYMBOLS = 6, 11  # types of sections
GNU_STACK, GNU_RELRO = 0x6474E551, 0x6474E552  # types of segments
FLAGS, FLAGS_1 = 30, 0x6FFFFFFB  # tags of the dynamic section


class Elf:
    """What a shared library of 64 bits says of itself, byte order little."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01"
        self.data = data
        segments_at, sections_at = struct.unpack_from("<QQ", data, 32)
        segment_size, segment_count, section_size, section_count = struct.unpack_from("<4H", data, 54)
        # A section: name, type, flags, address, offset, size, link. A segment: type, flags.
        self._sections = [
            struct.unpack_from("<IIQQQQI", data, sections_at + k * section_size) for k in range(section_count)
        ]
        self.segments = dict(
            struct.unpack_from("<II", data, segments_at + k * segment_size) for k in range(segment_count)
        )

    def _rows(self, kind: int, row: str) -> list[tuple[int, ...]]:
        (section,) = (s for s in self._sections if s[1] == kind)
        return list(struct.iter_unpack(row, self.data[section[4] : section[4] + section[5]]))

    def dynamic(self) -> dict[int, int]:
        """The entries of the dynamic section; of a tag that is there more than once, the last one."""
        return dict(self._rows(DYNAMIC, "<QQ"))  # type: ignore[arg-type]

    def shown(self) -> set[str]:
        """The names that other libraries find here."""
        (symbols,) = (s for s in self._sections if s[1] == DYNAMIC_SYMBOLS)
        names_at = self._sections[symbols[6]][4]
        defined = [name for name, _, _, section, _, _ in self._rows(DYNAMIC_SYMBOLS, "<IBBHQQ") if section]
        starts = [names_at + name for name in defined]
        return {self.data[at : self.data.index(b"\0", at)].decode() for at in starts}


@pytest.fixture(scope="module")
def extension() -> Elf:
    if sys.platform != "linux":
        pytest.skip("other systems have other formats")
    path = load_native().__file__
    assert path is not None
    return Elf(Path(path).read_bytes())


def test_it_shows_only_the_names_that_python_and_debuggers_look_up(extension):
    assert extension.shown() == SHOWN


def test_addresses_of_functions_are_resolved_at_once_and_then_read_only(extension):
    tags = extension.dynamic()
    assert tags[FLAGS] & 8  # DF_BIND_NOW
    assert tags[FLAGS_1] & 1  # DF_1_NOW
    assert GNU_RELRO in extension.segments


def test_its_stack_is_not_executable(extension):
    assert extension.segments[GNU_STACK] & 1 == 0


def test_the_build_names_no_processor():
    """A wheel runs on other processors than that of its build; code for newer ones is chosen at run time."""
    for file in ("CMakeLists.txt", "native/CMakeLists.txt", "pyproject.toml", "build_lib.py"):
        assert re.findall(r"-m(?:arch|cpu|tune)\b|-ffast-math|-Ofast", (ROOT / file).read_text(encoding="utf-8")) == []
