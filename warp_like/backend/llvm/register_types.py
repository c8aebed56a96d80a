"""The type of the register that an instruction of LLVM makes, read from its text.

The text is what the lowering writes: types are spelled out, none is named.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"ptr addrspace\(\d+\)|ptr|i\d+|float|double|half|bfloat|void")
_FLAGS = re.compile(
    r"(?:(?:tail|nuw|nsw|nneg|exact|disjoint|inbounds|nusw|samesign|volatile|atomic|fast|nnan|ninf|nsz|arcp|contract|afn"
    r"|reassoc) )*"
)
_CASTS = re.compile(r"trunc|[zs]ext|fptrunc|fpext|fpto[us]i|[us]itofp|ptrtoint|inttoptr|bitcast|addrspacecast")
_OF_FIRST_OPERAND = re.compile(
    r"f?(add|sub|mul|rem|div|neg)|[us](rem|div)|shl|[la]shr|and|or|xor|freeze|load|phi|insertelement|insertvalue"
)


class UnknownType(Exception):
    """An instruction is of a form that the lowering did not write when this was written."""


def type_of(text: str) -> str:
    """Return the type that the instruction ``text`` gives, which comes without the name and the equals sign before it.

    Raises:
        UnknownType: Its form is not known.
    """
    head, _, rest = text.partition(" ")
    if head == "tail":
        head, _, rest = rest.partition(" ")
    rest = rest[_FLAGS.match(rest).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    if _OF_FIRST_OPERAND.fullmatch(head):
        return _first(rest)
    if _CASTS.fullmatch(head):
        return _first(rest.rpartition(" to ")[2])
    match head:
        case "icmp" | "fcmp":
            return _like(_first(rest.partition(" ")[2]), "i1")
        case "select":
            return _first(_parts(rest)[1])
        case "alloca":
            return "ptr"
        case "getelementptr":
            operands = [_first(part) for part in _parts(rest)[1:]]
            vectors = [t for t in operands if t.startswith("<")]
            return _like(vectors[0], "ptr") if vectors else operands[0]
        case "extractelement":
            return _first(rest).partition(" x ")[2][:-1]
        case "shufflevector":
            vector, _, mask = _parts(rest)
            return f"{_first(mask).partition(' x ')[0]} x {_first(vector).partition(' x ')[2]}"
        case "extractvalue":
            whole, *at = _parts(rest)
            return _member(_first(whole), [int(k) for k in at])
        case "call":
            return _returned(rest)
        case "atomicrmw":
            return _first(_parts(rest)[1])
        case "cmpxchg":
            return f"{{{_first(_parts(rest)[1])}, i1}}"
    raise UnknownType(text)


def _first(text: str) -> str:
    """Return the type that ``text`` begins with."""
    word = _WORD.match(text)
    if word is not None:
        return word[0]
    if text[:1] not in ("<", "[", "{"):
        raise UnknownType(text)
    depth = 0
    for n, c in enumerate(text):
        depth += (c in "<[{(") - (c in ">]})")
        if depth == 0:
            return text[: n + 1]
    raise UnknownType(text)


def _parts(text: str) -> list[str]:
    """Return what commas separate in ``text``, outside of brackets."""
    out, depth, begin = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "<[{(") - (c in ">]})")
        if c == "," and depth == 0:
            out.append(text[begin:n].strip())
            begin = n + 1
    return [*out, text[begin:].strip()]


def _like(type: str, of: str) -> str:
    """Return ``of``, or a vector of it where ``type`` is a vector."""
    return f"{type.partition(' x ')[0]} x {of}>" if type.startswith("<") else of


def _member(type: str, at: list[int]) -> str:
    for k in at:
        if type.startswith("["):
            type = type[1:-1].partition(" x ")[2]
        else:
            type = _parts(type[1:-1])[k]
    return type


def _returned(rest: str) -> str:
    """Return the type of a call, whose convention and attributes come before it."""
    before = rest.partition("@")[0]
    if "(" in before.replace("addrspace(", "") or "asm" in before.split():
        raise UnknownType(rest)
    words = before.strip()
    start = 0
    while start < len(words):
        try:
            found = _first(words[start:])
        except UnknownType:
            found = ""
        if found and words[start:] == found:
            return found
        space = words.find(" ", start)
        if space < 0:
            break
        start = space + 1
    raise UnknownType(rest)
