"""Random programs of the kernel language that are Python as well: the statements and expressions that users write."""

from __future__ import annotations

import random

FUNCTIONS = """
@wp.func
def noted(notes: wp.array(dtype=int), which: int, answer: bool):
    wp.atomic_add(notes, which, 1)
    return answer


@wp.func
def first_over(limit: int, step: int):
    for i in range(0, 20, 3):
        if i * step > limit:
            return i
        if i - step == limit:
            break
    return int(-1)


@wp.func
def halves(x: int, y: int):
    if x > y:
        return y / 2, x // 2
    return x % 5, y


@wp.func
def mixed(v: wp.vec3, i: int, scale: float = 2.0):
    w = v + v
    w[i % 3] = scale
    w.y -= 1.0
    return w
"""

HEAD = "\n\ndef k(xs: wp.array2d(dtype=int), out: wp.array2d(dtype=int), reals: wp.array2d(dtype=float),"
HEAD += " notes: wp.array(dtype=int)):"


class Program:
    """Writes one program; all choices come from ``seed``.

    Floats are integers of small size, for which float32 is exact in any order.
    """

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.budget = 24
        self.notes = 0

    def source(self) -> str:
        """Return the text of the functions and of the kernel ``k``."""
        self.lines = ["    t = wp.tid()", "    a = xs[t, 0]", "    b = xs[t, 1]", "    c = int(3)"]
        self.lines += ["    f = float(1.0)", "    g = float(a % 8)", "    v = wp.vec3(1.0, g, 2.0)"]
        self.block(["a", "b", "c"], 1, loop=False)
        self.lines += [f"    out[t, {i}] = {x}" for i, x in enumerate("abc")]
        self.lines += ["    reals[t, 0] = f", "    reals[t, 1] = g"]
        self.lines += [f"    reals[t, {2 + i}] = v[{i}]" for i in range(3)]
        return FUNCTIONS + "\n".join([HEAD, *self.lines]) + "\n"

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, ints: list[str], depth: int, loop: bool) -> None:
        for _ in range(self.r.randint(2, 4)):
            self.budget -= 1
            kinds = ["assign"] * 3 + ["augment", "swap", "several", "real", "component", "slice", "store", "note"]
            if self.budget > 0 and depth < 4:
                kinds += ["if"] * 3 + ["for"] * 2 + ["while", "static"]
            if loop:
                kinds += ["leave"] * 2
            getattr(self, f"write_{self.r.choice(kinds)}")(ints, depth, loop)

    def variable(self) -> str:
        return self.r.choice("abc")

    # --- statements ---

    def write_assign(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"{self.variable()} = {self.integer(ints)}")

    def write_augment(self, ints: list[str], depth: int, loop: bool) -> None:
        op = self.r.choice(["+", "-", "&", "|", "^", ">>", "//", "%"])
        self.write(depth, f"{self.variable()} {op}= {self.integer(ints)}")

    def write_swap(self, ints: list[str], depth: int, loop: bool) -> None:
        a, b, c = self.r.sample("abc", 3)
        self.write(depth, f"{a}, {b} = {b}, {a}" if self.r.random() < 0.5 else f"{a}, {b}, {c} = {b}, {c}, {a}")

    def write_several(self, ints: list[str], depth: int, loop: bool) -> None:
        a, b = self.r.sample("abc", 2)
        self.write(depth, f"{a}, {b} = halves({self.integer(ints)}, {self.integer(ints)})")

    def write_real(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"{self.r.choice('fg')} = {self.real(ints)}")

    def write_component(self, ints: list[str], depth: int, loop: bool) -> None:
        i = self.r.choice(ints)
        target = self.r.choice(["v.x", "v.z", "v[1]", "v[-1]", "v[-3]", f"v[({i} & 255) % 3]"])
        self.write(depth, f"{target} {self.r.choice(['=', '+=', '-='])} {self.real(ints)}")
        self.write(depth, f"{target} = wp.clamp({target}, -50.0, 50.0)")

    def write_slice(self, ints: list[str], depth: int, loop: bool) -> None:
        choices = ["v[0:2] = v[1:3]", "v[1:] = v[:2] + v[1:]", "v[::2] = v[::-2]", "v = mixed(v, {i} & 7)"]
        choices += ["v = mixed(v, 1, scale=f)", "v = v[::-1]", "v += wp.vec3(f, g, 1.0)"]
        self.write(depth, self.r.choice(choices).format(i=self.r.choice(ints)))
        parts = ", ".join(f"wp.clamp({part}, -50.0, 50.0)" for part in ("v.x", "v[1]", "v[-1]"))
        self.write(depth, f"v = wp.vec3({parts})")

    def write_store(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"out[t, {self.r.choice(['3', '4', '-1'])}] += {self.integer(ints)} & 255")

    def write_note(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"{self.variable()} = int({self.condition(ints)}) + int({self.condition(ints)})")

    def write_if(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"if {self.condition(ints)}:")
        self.block(ints, depth + 1, loop)
        if self.r.random() < 0.3:
            self.write(depth, f"elif {self.condition(ints)}:")
            self.block(ints, depth + 1, loop)
        if self.r.random() < 0.5:
            self.write(depth, "else:")
            self.block(ints, depth + 1, loop)

    def write_for(self, ints: list[str], depth: int, loop: bool) -> None:
        i = self.name("i")
        x = self.r.choice(ints)
        bounds = ["4", f"{x} & 7", "1, 6, 2", f"5, {x} & 3, -1", f"({x} & 3) - 1, 3", f"0, 7, ({x} & 1) + 1"]
        text = f"range({self.r.choice(bounds)})"
        self.write(depth, f"for {i} in {f'reversed({text})' if self.r.random() < 0.2 else text}:")
        self.block([*ints, i], depth + 1, True)

    def write_while(self, ints: list[str], depth: int, loop: bool) -> None:
        n = self.name("n")
        self.write(depth, f"{n} = int(0)")
        endless = self.r.random() < 0.4
        self.write(depth, f"while {'True' if endless else f'{n} < {self.r.randint(1, 4)} and {self.condition(ints)}'}:")
        self.write(depth + 1, f"{n} += 1")
        if endless:
            self.write(depth + 1, f"if {n} > {self.r.randint(1, 4)} or {self.condition(ints)}:")
            self.write(depth + 2, "break")
        self.block(ints, depth + 1, True)

    def write_static(self, ints: list[str], depth: int, loop: bool) -> None:
        i = self.name("s")
        items = "".join(f"{self.r.randint(-3, 9)}, " for _ in range(self.r.randint(1, 3)))
        self.write(depth, f"for {i} in ({items}):")
        self.write(depth + 1, f"{self.variable()} {self.r.choice(['+', '-', '^'])}= {i}")
        if self.r.random() < 0.5:
            self.write(depth + 1, f"if {self.condition(ints)}:")
            self.write(depth + 2, self.r.choice(["break", "continue"]))
            self.write(depth + 1, f"{self.variable()} += {i} * 2")

    def write_leave(self, ints: list[str], depth: int, loop: bool) -> None:
        self.write(depth, f"if {self.condition(ints)}:")
        self.write(depth + 1, self.r.choice(["break", "continue", "return"] if depth > 2 else ["break", "continue"]))

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    # --- expressions ---

    def integer(self, ints: list[str], depth: int = 0) -> str:
        """An integer that is no literal."""
        x, kind = self.r.choice(ints), self.r.random()
        if depth > 2 or kind < 0.2:
            return x
        a = self.integer(ints, depth + 1)
        b = self.r.choice([self.integer(ints, depth + 1), str(self.r.randint(-9, 9))])
        if kind < 0.55:
            return f"({a} {self.r.choice(['+', '-', '&', '|', '^'])} {b})"
        if kind < 0.65:
            return f"(({a} & 4095) * ({b} & 4095))"
        if kind < 0.8:
            return f"({a} {self.r.choice(['/', '//', '%'])} {b})"
        if kind < 0.88:
            return f"({a} {self.r.choice(['<<', '>>'])} {self.r.choice(['3', '1', f'({x} & 31)'])})"
        if kind < 0.92:
            return f"{self.r.choice(['-', '~'])}{a}"
        if kind < 0.97:
            return f"({a} if {self.condition(ints, depth + 1)} else int({b}))"
        return f"first_over({a}, {b})"

    def real(self, ints: list[str]) -> str:
        """A float, an integer of small size."""
        parts = ["f", "g", "v.y", "v[-1]", f"float({self.r.choice(ints)} & 15)", "wp.dot(v, v)", "2.0"]
        a, b = self.r.choice(parts[:-1]), self.r.choice(parts)
        text = f"{a} {self.r.choice(['+', '-', '*'])} {b}"
        if self.r.random() < 0.2:
            text = f"{text} if {self.condition(ints)} else -{a}"
        return f"wp.clamp({text}, -50.0, 50.0)"

    def condition(self, ints: list[str], depth: int = 0) -> str:
        """A bool; parts of it may leave a note that they were evaluated."""
        kind = self.r.random()
        if depth < 2 and kind < 0.35:
            parts = [self.condition(ints, depth + 1) for _ in range(self.r.choice([2, 3]))]
            joined = self.r.choice([" and ", " or "]).join(parts)
            return f"not ({joined})" if self.r.random() < 0.3 else f"({joined})"
        x, y = f"({self.r.choice(ints)} & 63)", f"({self.r.choice(ints)} & 63)"
        signs = ["==", "<", ">", "!=", "<=", ">="]
        if kind < 0.5:
            return f"{self.r.randint(0, 9)} {self.r.choice(signs)} {x} {self.r.choice(signs)} {y}"
        if kind < 0.6:
            return f"f {self.r.choice(signs)} g"
        test = f"{x} % {self.r.randint(2, 4)} {self.r.choice(signs)} {self.r.randint(0, 2)}"
        if kind < 0.8:
            self.notes = (self.notes + 1) % 16
            return f"noted(notes, {self.notes}, {test})"
        return test
