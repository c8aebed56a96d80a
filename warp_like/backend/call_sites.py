"""Call sites of the functions that instructions of PTX were inlined from, for cuda-gdb and Nsight.

LLVM writes ``.loc file line column`` and drops the calls. So the columns that it gets are the numbers of places, which
become what PTX says since version 7.2: the place's own line and column, and for one that was inlined ``function_name``
and ``inlined_at``, after a directive for the call itself (PTX ISA, "Debugging Directives: .loc").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warp_like.backend.target import Target
from warp_like.base.loc import Loc

_LOC = re.compile(r"^\t\.loc\t(\d+) (\d+) (\d+)(.*)$", re.MULTILINE)
_FILE = re.compile(r'^\t\.file\t(\d+) "(.*)"$', re.MULTILINE)
_LAST_OLDER, _VERSION = 86, "+ptx72"


def target_with_calls(target: Target) -> Target:
    """Return ``target`` with a version of PTX that knows calls, which drivers for CUDA 12 read for all devices."""
    return target.replace(features=_VERSION) if target.arch <= _LAST_OLDER else target


def with_call_sites(ptx: str, places: Sequence[Loc]) -> str:
    """Return ``ptx`` with the lines, columns and calls of ``places``, whose numbers from 1 on its columns are."""
    writer = _Writer(ptx, places)
    text = _LOC.sub(lambda found: "\n".join(writer.directives(found)), ptx)
    return text + writer.sections()


class _Writer:
    def __init__(self, ptx: str, places: Sequence[Loc]) -> None:
        self._places = places
        self._files = {path: int(number) for number, path in _FILE.findall(ptx)}
        self._known = len(self._files)
        self._names: dict[str, int] = {}
        self._at: dict[tuple[str, int], list[Loc]] = {}
        for place in places:
            self._at.setdefault((place.file, place.line), []).append(place)

    def directives(self, found: re.Match[str]) -> Iterator[str]:
        """The lines that replace one ``.loc``."""
        number, line, column = (int(found[k]) for k in (1, 2, 3))
        place = self._places[column - 1] if column else self._only(number, line)
        if place is None or place.line != line:
            yield found[0]
            return
        yield from self._located(place, place.col + 1 if column else 0, found[4])

    def _only(self, number: int, line: int) -> Loc | None:
        """The place in a line, where LLVM has merged several of one function's call."""
        path = next((p for p, n in self._files.items() if n == number), "")
        found = self._at.get((path, line), [])
        return found[0] if len({(p.function, p.caller) for p in found}) == 1 else None

    def _located(self, place: Loc, column: int, rest: str = "") -> Iterator[str]:
        """The directive of a place, and before it those of the calls that have led there, the outermost first."""
        text = f"\t.loc\t{self._file(place.file)} {place.line} {column}"
        if place.caller is not None:
            yield from self._located(place.caller, place.caller.col + 1)
            call = f"{self._file(place.caller.file)} {place.caller.line} {place.caller.col + 1}"
            name = self._names.setdefault(place.function, len(self._names))
            text += f", function_name $L__function_name{name}, inlined_at {call}"
        yield text + rest

    def _file(self, path: str) -> int:
        return self._files.setdefault(path, len(self._files) + 1)

    def sections(self) -> str:
        """The files that LLVM has not named, and the names of the functions."""
        files = "".join(f'\t.file\t{n} "{path}"\n' for path, n in self._files.items() if n > self._known)
        if not self._names:
            return files
        names = (
            f"$L__function_name{n}:\n.b8 {','.join(map(str, [*name.encode(), 0]))}\n" for name, n in self._names.items()
        )
        return f"{files}\t.section\t.debug_str\n\t{{\n{''.join(names)}\t}}\n"
