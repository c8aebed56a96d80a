"""Functions with many loops are cut: parts of their code, with a few loops each, become functions that they call.

LLVM's register allocator, its rotation of loops and its moves out of loops take time that grows with the square of the
loops in a function: 600 loops in lanes took it 20 s. In pieces, which take 2 s, it grows with the number of loops.

A block of IR writes one stretch of LLVM's text, which control enters at its top and leaves at its end. While the
lowering writes, ``Cutter`` marks stretches with enough loops in the text of the entry; ``carve`` moves them into
functions when all is written. Names stay as they are: registers that a stretch reads from outside become parameters,
and those it makes for later come back in a struct.

The entry's variables that are loaded and stored as a whole (the fuel of ``polls.py``, sums over the threads) go in and
out by value, so that LLVM keeps them in registers on both sides. All other memory goes by address.

    masked:                              masked:
      ;piece masked                        %p0 = call fastcc {float} @piece0(float %v1, ...)
      br label %for2                       %v9 = extractvalue {float} %p0, 0
    for2:                          ->      br label %endfor4
      %v9 = phi float [ %v1, %masked ] ... endfor4:
      ...
    endfor4:
      ;end endfor4
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from warp_like.backend.llvm.register_types import UnknownType, type_of
from warp_like.ir import ops
from warp_like.ir.core import Function, Op

if TYPE_CHECKING:
    from warp_like.backend.llvm.writer import Writer

MOST_TOGETHER = 96
"""The most loops of a function that is left whole. Such code takes LLVM half a second."""
LOOPS = 24
"""The loops of a piece. With 12 or 48 of them, compiling takes as long."""

_BEGIN, _END = "  ;piece ", "  ;end "
_LABELS = re.compile(r"label %[\w.]+|(?<=, )%[\w.]+(?= \])")
_NAME = re.compile(r"%[\w.]+")
_DEFINED = re.compile(r"  (%[\w.]+) = (.*)")
_VARIABLE = re.compile(r"  (%[\w.]+) = alloca ((?!\[).*), align (\d+)$")
_PARAMETER = re.compile(r"(ptr|i64)[^,()]* (%\w+)")


def is_cut(f: Function) -> bool:
    """Return whether ``f``, in lanes, has so many loops that it is cut."""
    return sum(isinstance(o, (ops.For, ops.While)) for o in f.body.walk()) > MOST_TOGETHER


class Cutter:
    """Marks the pieces of a function while its text is written."""

    def __init__(self) -> None:
        self._loops = 0  # those written that are in no piece

    def write(self, w: Writer, block: Sequence[Op], lower: Callable[[Op], None]) -> None:
        """Write the ops of a block by ``lower``, and mark the pieces of their text."""
        begin, label, loops = len(w.lines), w.block, self._loops
        for o in block:
            lower(o)
            self._loops += isinstance(o, (ops.For, ops.While))
            if self._loops - loops >= LOOPS:
                w.lines.insert(begin, _BEGIN + label)
                w.lines.append(_END + w.block)
                begin, label, self._loops = len(w.lines), w.block, loops


def has_pieces(lines: Sequence[str]) -> bool:
    """Return whether pieces are marked in ``lines``."""
    return any(line.startswith(_BEGIN) for line in lines)


class Carved(NamedTuple):
    """The lines of a function, and the functions that were part of it."""

    lines: list[str]
    functions: list[str]


class _Open(NamedTuple):
    """A piece whose end has not been reached: where it began, its first block, its lines."""

    begin: int
    label: str
    lines: list[str]


def carve(lines: list[str], reserved: Sequence[str], signature: str, attributes: str) -> Carved:
    """Move the marked pieces of a function into functions of their own.

    Args:
        lines: The function's, behind those that reserve memory.
        reserved: The lines that reserve its memory.
        signature: The line that defines it.
        attributes: The attributes of the new functions.
    """
    return _Carver(lines, reserved, signature, attributes).carve()


class _Carver:
    def __init__(self, lines: list[str], reserved: Sequence[str], signature: str, attributes: str) -> None:
        self._source = lines
        self._attributes = attributes
        self._types = {name: type for type, name in _PARAMETER.findall(signature)}
        self._variables: dict[str, tuple[str, str]] = {}  # type and alignment
        for line in reserved:
            if made := _DEFINED.match(line):
                self._types[made[1]] = "ptr"
            if found := _VARIABLE.match(line):
                self._variables[found[1]] = (found[2], found[3])
        self._made = {made[1]: made[2] for made in map(_DEFINED.match, lines) if made}
        self._uses: dict[str, tuple[int, int]] = {}  # the first and the last line that reads a register
        for n, line in enumerate(lines):
            self._look_at(n, line)
        self._functions: list[str] = []

    def _look_at(self, n: int, line: str) -> None:
        """Note what line ``n`` reads and defines."""
        for name in _read(line):
            first, _ = self._uses.get(name, (n, n))
            self._uses[name] = first, n
            if name in self._variables and not self._is_whole_access(name, line):
                del self._variables[name]

    def _is_whole_access(self, name: str, line: str) -> bool:
        """Whether ``line`` does nothing with the address ``name`` but to load or store the whole variable."""
        type, _ = self._variables[name]
        if _read(line).count(name) > 1:
            return False
        stores = line.startswith(f"  store {type} ") and f", ptr {name}, align " in line
        return stores or f" = load {type}, ptr {name}, align " in line

    def carve(self) -> Carved:
        whole: list[str] = []
        opened: list[_Open] = []
        for n, line in enumerate(self._source):
            here = opened[-1].lines if opened else whole
            if line.startswith(_BEGIN):
                opened.append(_Open(n, line[len(_BEGIN) :], []))
            elif line.startswith(_END):
                piece = opened.pop()
                here = opened[-1].lines if opened else whole
                here.extend(self._call(piece, n, line[len(_END) :]))
            else:
                here.append(line)
        return Carved(whole, self._functions)

    def _call(self, piece: _Open, end: int, last: str) -> list[str]:
        """Write the function of ``piece`` and return the code that calls it, or its lines if it can't be one."""
        if not _is_closed(piece):
            return piece.lines
        defined = [made[1] for made in map(_DEFINED.match, piece.lines) if made]
        inside = set(defined)
        read = dict.fromkeys(name for line in piece.lines for name in _read(line))
        taken = [name for name in read if name not in inside]
        given = [name for name in defined if self._is_read_outside(name, piece.begin, end)]
        try:
            for name in (*taken, *given):
                self._find_type(name)
        except UnknownType:
            return piece.lines
        return self._written(piece, last, taken, given)

    def _find_type(self, name: str) -> None:
        if name not in self._types:
            self._types[name] = type_of(self._made.get(name, ""))

    def _is_read_outside(self, name: str, begin: int, end: int) -> bool:
        first, last = self._uses.get(name, (begin, begin))
        return first < begin or last > end

    def _written(self, piece: _Open, last: str, taken: list[str], given: list[str]) -> list[str]:
        n = len(self._functions)
        variables = {v: self._variables[v] for v in taken if v in self._variables}
        types = [self._types[v] for v in given] + [t for t, _ in variables.values()]
        result = f"{{{', '.join(types)}}}"
        params, args, before, after, inside, outside = [], [], [], [], [], []
        for v in taken:
            if v not in variables:
                params.append(f"{self._types[v]} {v}")
                args.append(params[-1])
                continue
            t, align = variables[v]
            params.append(f"{t} {v}.in")
            args.append(f"{t} {v}.to{n}")
            before.append(f"  {v}.to{n} = load {t}, ptr {v}, align {align}")
            inside += [f"  {v} = alloca {t}, align {align}", f"  store {t} {v}.in, ptr {v}, align {align}"]
            after.append(f"  {v}.out = load {t}, ptr {v}, align {align}")
            outside.append(f"  store {t} {v}.from{n}, ptr {v}, align {align}")
        made, value = [*given, *(f"{v}.from{n}" for v in variables)], "poison"
        for k, (t, v) in enumerate(zip(types, [*given, *(f"{v}.out" for v in variables)], strict=True)):
            after.append(f"  %made{k} = insertvalue {result} {value}, {t} {v}, {k}")
            value = f"%made{k}"
        self._types.update((name, t) for name, t in zip(made, types, strict=True))
        self._types.update((f"{v}.to{n}", t) for v, (t, _) in variables.items())
        self._types[f"%piece{n}"] = result
        self._functions.append(
            "\n".join(
                [
                    f"define internal fastcc {result} @piece{n}({', '.join(params)}) {self._attributes} {{",
                    "start:",
                    *inside,
                    f"  br label %{piece.label}",
                    f"{piece.label}:",
                    *piece.lines,
                    *after,
                    f"  ret {result} {value if types else 'zeroinitializer'}",
                    "}",
                ]
            )
        )
        call = f"  %piece{n} = call fastcc {result} @piece{n}({', '.join(args)})"
        parts = [f"  {v} = extractvalue {result} %piece{n}, {k}" for k, v in enumerate(made)]
        return [*before, call, *parts, *outside, f"  br label %{last}", f"{last}:"]


def _read(line: str) -> list[str]:
    """Return the registers that ``line`` reads."""
    made = _DEFINED.match(line)
    return _NAME.findall(_LABELS.sub("", made[2] if made else line))


def _is_closed(piece: _Open) -> bool:
    """Whether control leaves ``piece`` at its end alone."""
    labels = {line[:-1] for line in piece.lines if line.endswith(":")}
    for line in piece.lines:
        text = line.strip()
        if text.startswith(("ret ", "unreachable", "switch ")):
            return False
        if any(label not in labels for label in re.findall(r"label %([\w.]+)", line)):
            return False
    return True
