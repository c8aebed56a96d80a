"""The machine code of a CUDA architecture as the disassembler shows it: its instructions, by kind, and its loops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warp_like.base.frozen import Frozen

_CODE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):", re.MULTILINE)
_LINE = re.compile(r'//## File ".*?", line (\d+)')
_REGISTER = re.compile(r"\bR(\d+)")
_BITS = re.compile(r"\.(?:[US])?(8|16|64|128)\b")

GLOBAL_LOADS = ("LDG", "LD", "LDGSTS")
GLOBAL_STORES = ("STG", "ST")
GLOBAL_UPDATES = ("ATOMG", "ATOM", "REDG", "RED")
_KINDS = {
    "global memory": (*GLOBAL_LOADS, *GLOBAL_STORES, *GLOBAL_UPDATES),
    "shared memory": ("LDS", "STS", "ATOMS", "LDSM"),
    "local memory": ("LDL", "STL"),
    "float32": ("FADD", "FMUL", "FFMA", "HADD2", "HMUL2", "HFMA2", "HMNMX2", "FADD2", "FMUL2", "FFMA2"),
    "multiplication": ("IMAD",),
    "float64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "special": ("MUFU", "F2I", "I2F", "F2F", "I2I", "FRND", "POPC", "FLO", "BREV", "I2FP", "F2FP"),
    "control": (
        "BRA",
        "EXIT",
        "BSSY",
        "BSYNC",
        "CALL",
        "RET",
        "BAR",
        "WARPSYNC",
        "NOP",
        "JMP",
        "BRX",
        "YIELD",
        "BREAK",
    ),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


class Instruction(Frozen):
    """One instruction.

    Attributes:
        address: Where it is, in bytes from the function's start.
        name: What it does, without what qualifies it: ``LDG``.
        text: All of it but a predicate: ``LDG.E.128 R8, desc[UR4][R2.64]``.
        target: The label that it jumps to, or nothing.
        line: The line of the source, where the code tells; else 0.
    """

    address: int
    name: str
    text: str
    target: str = ""
    line: int = 0

    @property
    def kind(self) -> str:
        """What part of a multiprocessor runs it."""
        return _KIND_OF.get(self.name, "uniform" if self.name[0] == "U" else "integer")

    @property
    def bits(self) -> int:
        """The width of a memory access."""
        found = _BITS.search(self.text.split(" ", 1)[0])
        return int(found[1]) if found else 32

    @property
    def registers(self) -> tuple[list[int], list[int]]:
        """The registers that it writes and those that it reads, one for each operand."""
        stores = self.name in (*GLOBAL_STORES, "STS", "STL", "RED", "REDG")
        _, _, operands = self.text.partition(" ")
        found = [int(number) for number in _REGISTER.findall(operands)]
        writes = not stores and bool(re.match(r"(?:U?P\d\w*, )*R\d", operands))
        return (found[:1], found[1:]) if writes else ([], found)


class Loop(Frozen):
    """A loop of a function: its instructions, in the order of their addresses."""

    code: tuple[Instruction, ...]

    @property
    def line(self) -> int:
        """The first line of the source that it comes from; 0 where the code does not tell."""
        return min((i.line for i in self.code if i.line), default=0)


class MachineCode(Frozen):
    """The code of one kernel.

    Attributes:
        code: Its instructions.
        labels: The addresses of labels.
    """

    code: tuple[Instruction, ...]
    labels: dict[str, int]

    def loops(self) -> list[Loop]:
        """Return its innermost loops, in order."""
        spans = []
        for i in self.code:
            start = self.labels.get(i.target, i.address + 1)
            if start < i.address:
                spans.append((start, i.address))
        inner = [s for s in spans if not any(s != o and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
        return [Loop(tuple(i for i in self.code if low <= i.address <= high)) for low, high in sorted(set(inner))]

    def uniform_accesses(self) -> frozenset[int]:
        """Return the addresses of the instructions that access one place of memory for a whole warp, as far as seen.

        A register differs from lane to lane where it comes from the thread's number, by way of other registers. What
        predicates decide is left out.
        """
        differs: set[int] = set()
        found: set[int] = set()
        at, repeated = 0, set[int]()
        places = {i.address: k for k, i in enumerate(self.code)}
        while at < len(self.code):
            i = self.code[at]
            written, read = i.registers
            varies = "SR_TID" in i.text or "SR_LANEID" in i.text or not differs.isdisjoint(read)
            count = 2 if ".WIDE" in i.text else max(i.bits // 32, 1)
            for r in (r + k for r in written for k in range(count)):
                differs = differs | {r} if varies else differs - {r}
            if i.kind == "global memory":
                found = found - {i.address} if varies else found | {i.address}
            back = self.labels.get(i.target, i.address + 1)
            if back <= i.address and i.address not in repeated:  # once more, with what the first round leaves
                repeated.add(i.address)
                at = places.get(back, at)
            else:
                at += 1
        return frozenset(found)


def parse(text: str) -> MachineCode:
    """Return the first function of a disassembler's text, without what only fills its last line up.

    Raises:
        ValueError: There is no code in the text.
    """
    start = text.find(".text.")
    found = list(_instructions(text[start:] if start >= 0 else text))
    if not found:
        raise ValueError("the disassembler shows no code")
    while found and found[-1][0].name == "NOP":
        found.pop()
    code = [i for i, _ in found]
    labels = {label: i.address for i, names in found for label in names}
    last = code[-1]
    if last.target and labels.get(last.target) == last.address:  # a jump to itself behind the end
        code.pop()
    return MachineCode(tuple(code), labels)


def _instructions(text: str) -> Iterator[tuple[Instruction, list[str]]]:
    """Each instruction with the labels before it."""
    labels: list[str] = []
    line = 0
    for row in text.splitlines():
        if label := _LABEL.match(row):
            labels.append(label[1])
        elif place := _LINE.search(row):
            line = int(place[1])
        elif code := _CODE.search(row):
            address, _, operation, operands = code.groups()
            target = re.search(r"\.L_x_\d+", operands)
            name = operation.split(".")[0]
            whole = f"{operation} {operands.strip()}".strip()
            yield (
                Instruction(int(address, 16), name, whole, target[0] if target and name == "BRA" else "", line),
                labels,
            )
            labels = []
