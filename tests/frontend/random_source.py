"""Random kernels of integers that Python can run as well: nested branches, loops and exits of every kind."""

from __future__ import annotations

import random


class Generator:
    """Writes one kernel ``k(out, x, y)``; only names that Python surely has bound are read.

    With ``late``, every name is read that is assigned further up on any path: ``names`` lists them.
    """

    def __init__(self, seed: int, budget: int = 24, late: bool = False) -> None:
        self.r = random.Random(seed)
        self.budget = budget
        self.lines: list[str] = []
        self.fresh = 0
        self.late = late
        self.names = ["x", "y", "a", "b"]

    def kernel(self) -> str:
        """Return the source."""
        self.lines = ["def k(out: wp.array(dtype=int), x: int, y: int):", "    a = x", "    b = y + 1"]
        bound = self.block(["x", "y", "a", "b"], 1, loop=False)
        if bound is not None:
            for i, name in enumerate((self.names if self.late else bound)[-6:]):
                self.lines.append(f"    out[{i}] = {name}")
        return "\n".join(self.lines) + "\n"

    def block(self, bound: list[str], depth: int, loop: bool) -> list[str] | None:
        """Write statements; return the names bound after them, None where the end is not reached."""
        for _ in range(self.r.randint(1, 4)):
            after = self.statement(bound, depth, loop)
            if after is None:
                return None
            bound = after
        return bound

    def statement(self, bound: list[str], depth: int, loop: bool) -> list[str] | None:
        self.budget -= 1
        bound = list(self.names) if self.late else bound
        kinds = ["assign"] * 4 + ["store"]
        if self.budget > 0 and depth < 5:
            kinds += ["if"] * 4 + ["for"] * 2 + ["while"]
        if depth > 1:
            kinds += ["return"]
            if loop:
                kinds += ["break", "continue"] * 2
        return getattr(self, f"write_{self.r.choice(kinds)}")(bound, depth, loop)

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def write_assign(self, bound: list[str], depth: int, loop: bool) -> list[str]:
        if self.r.random() < 0.3:
            name = f"t{self.fresh}"
            self.fresh += 1
        else:
            name = self.r.choice([n for n in bound if n not in "xy"])
        if self.r.random() < 0.2 and name in bound:
            self.write(depth, f"{name} += {self.expression(bound)}")
            self.write(depth, f"{name} &= 1023")
        else:
            self.write(depth, f"{name} = {self.expression(bound)}")
        self.saw(name)
        return bound if name in bound else [*bound, name]

    def saw(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)

    def write_store(self, bound: list[str], depth: int, loop: bool) -> list[str]:
        self.write(depth, f"out[{self.r.randint(6, 7)}] += {self.expression(bound)}")
        return bound

    def write_return(self, bound: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"out[{self.r.randint(0, 7)}] = {self.expression(bound)}")
        self.write(depth, "return")

    def write_break(self, bound: list[str], depth: int, loop: bool) -> None:
        self.write(depth, "break")

    def write_continue(self, bound: list[str], depth: int, loop: bool) -> None:
        self.write(depth, "continue")

    def write_if(self, bound: list[str], depth: int, loop: bool) -> list[str] | None:
        self.write(depth, f"if {self.condition(bound)}:")
        before = list(self.names)
        then = self.block(bound, depth + 1, loop)
        orelse: list[str] | None = bound
        if self.r.random() < 0.5:
            self.write(depth, "else:")
            seen, self.names = self.names, before  # on this side nothing has assigned what the other one assigns
            orelse = self.block(bound, depth + 1, loop)
            self.names += [n for n in seen if n not in self.names]
        if then is None or orelse is None:
            return then if orelse is None else orelse
        return [n for n in then if n in orelse]

    def write_for(self, bound: list[str], depth: int, loop: bool) -> list[str]:
        index = f"i{self.fresh}" if self.r.random() < 0.8 else self.r.choice([n for n in bound if n not in "xy"])
        self.fresh += 1
        bounds = self.r.choice(["4", "x % 4", "1, 6, 2", "5, x % 3, -1", "y % 3 - 1, 3", "0, 7, x % 2 + 1"])
        self.write(depth, f"for {index} in range({bounds}):")
        self.saw(index)
        self.block([*bound, index] if index not in bound else bound, depth + 1, True)
        return bound

    def write_while(self, bound: list[str], depth: int, loop: bool) -> list[str]:
        counter = f"n{self.fresh}"
        self.fresh += 1
        self.write(depth, f"{counter} = 0")
        test = f"while {counter} < {self.r.randint(1, 5)}:" if self.r.random() < 0.6 else "while True:"
        self.write(depth, test)
        self.write(depth + 1, f"{counter} += 1")
        if "True" in test:
            self.write(depth + 1, f"if {counter} > {self.r.randint(1, 4)} or {self.condition([*bound, counter])}:")
            self.write(depth + 2, "break")
        # the counter is hidden from the body, which could keep it from growing
        self.block(bound, depth + 1, True)
        return bound

    def expression(self, bound: list[str]) -> str:
        a, b = (self.r.choice([*bound, str(self.r.randint(-5, 9))]) for _ in range(2))
        op = self.r.choice(["+", "-", "*", "&", "^"])
        text = f"(({a} {op} {b}) & 1023)"
        return f"({text} if {self.condition(bound)} else {a})" if self.r.random() < 0.15 else text

    def condition(self, bound: list[str]) -> str:
        sign = self.r.choice(["==", "<", ">", "!="])
        test = f"({self.r.choice(bound)} & 1023) % {self.r.randint(2, 4)} {sign} {self.r.randint(0, 2)}"
        kind = self.r.random()
        if kind < 0.15:
            return f"({test} and {self.condition(bound)})"
        if kind < 0.3:
            return f"not ({test} or {self.condition(bound)})"
        return f"1 <= {self.r.choice(bound)} < {self.r.randint(2, 30)}" if kind < 0.4 else test
