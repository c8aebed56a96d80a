"""Line information: which line of the user's Python each instruction comes from, as LLVM's debug metadata.

It is made when ``lineinfo`` is set, and says lines alone, so that it costs nothing at run time: PTX gets ``.loc``
directives, cubins and the CPU's objects a line table, by which gdb, cuda-gdb, Nsight and compute-sanitizer show the
kernel's source. An instruction of an inlined function belongs to that function's lines, inlined where it was called.
For CUDA, columns are the numbers of ``places``: ``backend/call_sites.py`` puts columns and calls in their place.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from warp_like.base.loc import Loc, current_loc

if TYPE_CHECKING:
    from warp_like.backend.llvm.writer import Writer

MAX_PLACES = (1 << 16) - 1
"""The largest column that LLVM keeps. Places beyond have no column."""


class LineInfo:
    """The debug metadata of one module.

    Args:
        w: The module's writer.
        name: The kernel's name.
        symbol: The entry's symbol.
        loc: Where the kernel is defined.
    """

    def __init__(self, w: Writer, name: str, symbol: str, loc: Loc) -> None:
        self._w = w
        self._loc = loc
        self.places: list[Loc] = []  # on CUDA, where columns are their numbers
        kind = "DebugDirectivesOnly" if w.target.is_cuda else "LineTablesOnly"
        self._unit = w.metadata(
            "unit",
            f"distinct !DICompileUnit(language: DW_LANG_Python, file: {self._file(loc.file)}, isOptimized: true, "
            f'producer: "warp_like", runtimeVersion: 0, emissionKind: {kind})',
        )
        w.flag(2, "Debug Info Version", 3)
        w.name_metadata("llvm.dbg.cu", self._unit)
        w.flag(7, "Dwarf Version", 4)
        self.entry = self._function(loc.file, name, loc.line, f", linkageName: {quoted(symbol)}")

    def here(self) -> str:
        """Return what is appended to an instruction that is written now."""
        return f", !dbg {self._location(current_loc() or self._loc)}"

    @functools.cache  # noqa: B019 (lives as long as the writer)
    def _location(self, loc: Loc) -> str:
        if loc.caller is None:
            scope, inlined = self._in_entry(loc.file), ""
        else:
            scope = self._function(loc.file, loc.function, loc.line)
            inlined = f", inlinedAt: {self._location(loc.caller)}"
        column = loc.col + 1
        if self._w.target.is_cuda:
            self.places.append(loc)
            column = len(self.places) if len(self.places) <= MAX_PLACES else 0
        text = f"!DILocation(line: {loc.line}, column: {column}, scope: {scope}{inlined})"
        return self._w.metadata(text, f"distinct {text}")

    def _in_entry(self, file: str) -> str:
        """The entry's scope, for lines of ``file``."""
        if file == self._loc.file:
            return self.entry
        text = f"distinct !DILexicalBlockFile(scope: {self.entry}, file: {self._file(file)}, discriminator: 0)"
        return self._w.metadata(text, text)

    def _function(self, file: str, name: str, line: int, linkage: str = "") -> str:
        where = self._file(file)
        types = self._w.metadata("no types", "!{null}")
        signature = self._w.metadata("signature", f"!DISubroutineType(types: {types})")
        return self._w.metadata(
            f"function {name} {file}{linkage}",
            f"distinct !DISubprogram(name: {quoted(name)}{linkage}, scope: {where}, file: {where}, line: {line}, "
            f"type: {signature}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})",
        )

    def _file(self, file: str) -> str:
        folder, name = os.path.split(file)
        text = f"!DIFile(filename: {quoted(name)}, directory: {quoted(folder)})"
        return self._w.metadata(text, text)


def quoted(text: str | bytes) -> str:
    """Return ``text`` as LLVM writes strings."""
    data = text.encode() if isinstance(text, str) else text
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data) + '"'
