"""Writing random programs: variables in scope by type, and control flow of every kind around other statements."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

MAX_DEPTH = 4


class Writer:
    """Writes a kernel. Subclasses add kinds of statements and of expressions.

    Attributes:
        variables: The names in scope by type (`int16`, `vec3i`, the name of a struct).
        loops: Indices of loops and counters in scope, of type int32, which are small and not negative.
        known: Whether programs may have what is known to go wrong (``KNOWN`` in ``kinds.py``).
        needs_index: Whether each thread needs an index of its own.
    """

    def __init__(self, seed: int, known: frozenset[str] = frozenset()) -> None:
        self.r = random.Random(seed)
        self.seed = seed
        self.needs_index = False
        self.known = known
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {}
        self.loops: list[str] = []
        self.fresh = 0
        self.budget = 30
        self.kinds: list[Callable[[int, bool], None]] = [self.if_, self.for_, self.while_, self.leave]

    # --- choosing -------------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return self.r.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.r.randrange(len(options))]

    def chance(self, share: float) -> bool:
        return self.r.random() < share

    def name(self, start: str) -> str:
        self.fresh += 1
        return f"{start}{self.fresh}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def declare(self, depth: int, t: str, value: str, start: str = "v") -> str:
        """Write ``name = value`` for a new variable of type ``t``."""
        name = self.name(start)
        self.line(depth, f"{name} = {value}")
        self.variables.setdefault(t, []).append(name)
        return name

    # --- what subclasses say --------------------------------------------------------------------------------

    def condition(self) -> str:
        """A condition whose value differs between threads, or not."""
        raise NotImplementedError

    def small(self) -> str:
        """An int32 expression that is small: nothing in it wraps."""
        raise NotImplementedError

    # --- control flow ---------------------------------------------------------------------------------------

    def block(self, most: int, depth: int, loop: bool) -> None:
        """Between one and ``most`` statements, and what they declare is out of scope afterwards."""
        known = {t: list(names) for t, names in self.variables.items()}
        for _ in range(self.number(1, most)):
            self.statement(depth, loop)
        self.variables = known

    def statement(self, depth: int, loop: bool) -> None:
        self.budget -= 1
        kinds = [k for k in self.kinds if self.fits(k, depth, loop)]
        self.pick(kinds)(depth, loop)

    def fits(self, kind: Any, depth: int, loop: bool) -> bool:
        """Whether a statement of a kind may stand here."""
        if kind in (self.if_, self.for_, self.while_):
            return depth < MAX_DEPTH and self.budget > 0
        return kind != self.leave or depth > 1

    def if_(self, depth: int, loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.block(3, depth + 1, loop)
        if self.chance(0.3):
            self.line(depth, f"elif {self.condition()}:")
            self.block(2, depth + 1, loop)
        if self.chance(0.5):
            self.line(depth, "else:")
            self.block(3, depth + 1, loop)

    def bounds(self) -> str:
        """The arguments of ``range``."""
        e = self.small()
        return self.pick(
            [
                *("2", "3", f"{e} % 5", f"1, {e} % 4 + 2", "5, -1, -2", f"{e} % 4, -1, -1", "0, 9, 4", f"{e} % 3, 4"),
                f"{e} % 6, {self.small()} % 6, {self.small()} % 3 + 1",
                f"{e} % 6, {self.small()} % 6 - 1, -1 - {self.small()} % 2",
            ]
        )

    def for_(self, depth: int, loop: bool) -> None:
        name = self.name("j")
        over = f"range({self.bounds()})"
        self.line(depth, f"for {name} in {f'reversed({over})' if self.chance(0.1) else over}:")
        self.loops.append(name)
        self.block(3, depth + 1, True)
        self.loops.pop()

    def while_(self, depth: int, loop: bool) -> None:
        name = self.name("w")
        self.line(depth, f"{name} = int(0)")
        test = f"{name} < {self.number(1, 6)}"
        endless = self.chance(0.3)
        self.line(depth, "while True:" if endless else f"while {test}{self.pick(['', f' and {self.condition()}'])}:")
        self.line(depth + 1, f"{name} += 1")
        if endless:
            self.line(depth + 1, f"if not ({test}) or {self.condition()}:")
            self.line(depth + 2, "break")
        self.loops.append(name)
        self.block(3, depth + 1, True)
        self.loops.pop()

    def leave(self, depth: int, loop: bool) -> None:
        """Leave a loop, or seldom the kernel."""
        how = self.pick(["break", "continue", "break", "continue", "return"]) if loop else "return"
        if how == "return" and self.chance(0.6) and depth < MAX_DEPTH:
            return self.if_(depth, loop)
        self.line(depth, f"if {self.condition()}:")
        self.line(depth + 1, how)
        return None
