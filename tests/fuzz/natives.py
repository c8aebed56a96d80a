"""Programs that call native functions: random C++ snippets, and for the oracle the same in Python."""

from __future__ import annotations

import dataclasses

from tests.fuzz.numbers import THREADS, NumberWriter, finished, layouts, settings_of, sizes, values_of
from tests.fuzz.program import Program

CPP = {"uint32": "uint32_t", "uint64": "uint64_t", "uint16": "uint16_t", "float64": "double", "float32": "float"}
"""Types that wrap around in C++, too, and floats, of which only sums are made: nothing that could be fused."""


class NativeWriter(NumberWriter):
    """Statements that call the native functions; ``twins`` are these in Python."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.t = self.pick(list(CPP))
        self.types = sorted({self.t, "int32"})
        self.natives: list[str] = []
        self.twins: list[str] = []
        self.calls: list[str] = []
        self.values: list[str] = []
        self.kinds += [self.call] * 6

    def both(self, names: list[str], depth: int = 0) -> tuple[str, str]:
        """An expression of the type in C++ and in Python."""
        if depth > 2 or self.chance(0.25):
            c = self.number(0, 9)
            atoms = [(n, n) for n in names] * 2 + [(f"{CPP[self.t]}({c})", f"wp.{self.t}({c})")]
            return self.pick([*atoms, (f"{CPP[self.t]}(n)", f"wp.{self.t}(n)")])
        (a, p), (b, q) = self.both(names, depth + 1), self.both(names, depth + 1)
        op = self.pick("+-" if self.t.startswith("float") else "+-*&|^")
        if self.chance(0.2):
            op = self.pick(["<", ">", "==", "!="])
            (c, r), (d, s) = self.both(names, depth + 2), self.both(names, depth + 2)
            return f"({a} {op} {b} ? {c} : {d})", f"({r} if {p} {op} {q} else {s})"
        return f"{CPP[self.t]}({a} {op} {b})", f"({p} {op} {q})"

    def native(self, name: str, params: str, cpp: list[str], twin: list[str], result: bool, writes: str) -> None:
        arrow = f" -> wp.{self.t}" if result else ""
        snippet = "\\n".join(cpp)
        self.natives += [
            f'@wp.func_native("{snippet}", writes=[{writes}])',
            f"def {name}({params}){arrow}: ...",
            "",
            "",
        ]
        self.twins += ["@wp.func", f"def {name}({params}):", *(f"    {line}" for line in twin), "", ""]

    def functions_of(self, k: int) -> None:
        """One native function of a few kinds."""
        t, names = self.t, ["a", "b"]
        (e, p), (f, q), (g, r) = (self.both(names) for _ in range(3))
        op = self.pick(["<", ">", "!="])
        start = [f"for (int k = 0; k < n; ++k) a = {g};"], ["for _ in range(n):", f"    a = {r}"]
        kind = self.pick(["value", "value", "reads", "stores", "sums", "refs"])
        if kind == "value":
            params = f"a: wp.{t}, b: wp.{t}, n: int"
            cpp = [*start[0], f"if (a {op} b) return {e};", f"return {f};"]
            twin = [*start[1], f"if a {op} b:", f"    return {p}", f"return {q}"]
            self.native(f"f{k}", params, cpp, twin, True, "")
            self.values.append(f"f{k}({{a}}, {{b}}, {{n}})")
        elif kind == "reads":
            params = f"a: wp.{t}, x: wp.array(dtype=wp.{t}), i: int, n: int"
            (e, p), (g, r) = self.both(["a", "x[i]", "x[n % 3]"]), self.both(["a", "x[i]"])
            cpp = [f"for (int k = 0; k < n; ++k) a = {g};", f"return x.shape[0] > n ? {e} : a;"]
            twin = ["for _ in range(n):", f"    a = {r}", f"return {p} if len(x) > n else a"]
            self.native(f"f{k}", params, cpp, twin, True, "")
            self.values.append(f"f{k}({{a}}, x_{t}, i, {{n}})")
        elif kind == "stores":
            params = f"y: wp.array2d(dtype=wp.{t}), i: int, a: wp.{t}, b: wp.{t}, n: int"
            cpp = [*start[0], f"if (n > 1) y(i, 1) = {e};", f"y(i, 2) = {CPP[t]}(y(i, 2) + {f});"]
            twin = [*start[1], "if n > 1:", f"    y[i, 1] = {p}", f"y[i, 2] = y[i, 2] + {q}"]
            self.native(f"f{k}", params, cpp, twin, False, "'y'")
            self.calls.append(f"f{k}(y_{t}, i, {{a}}, {{b}}, {{n}})")
        elif kind == "sums":
            params = "s: wp.array(dtype=wp.uint32), i: int, n: int"
            cpp = ["wp::atomic_add(s, i % 3, uint32_t(n + i));", "wp::atomic_add(s, n, 1u);"]
            twin = ["wp.atomic_add(s, i % 3, wp.uint32(n + i))", "wp.atomic_add(s, n, wp.uint32(1))"]
            self.native(f"f{k}", params, cpp, twin, False, "'s'")
            self.calls.append(f"f{k}(s, i, {{n}})")
        else:
            params = f"a: wp.ref[wp.{t}], b: wp.{t}, n: int"
            cpp = [f"if (n == 2) return;\\na = {e};", f"if (a {op} b) a = {f};"]
            twin = ["if n == 2:", "    return", f"a = {p}", f"if a {op} b:", f"    a = {q}"]
            self.native(f"f{k}", params, cpp, twin, False, "")
            self.calls.append(f"f{k}({{v}}, {{b}}, {{n}})")

    def filled(self, form: str) -> str:
        a, b = self.expression(self.t, 2), self.expression(self.t, 2)
        return form.format(a=a, b=b, n=f"({self.small()}) % 4", v=self.pick(self.variables[self.t]))

    def real_number(self, t: str, depth: int) -> str:
        e, f = self.expression(t, depth), self.expression(t, depth)
        return self.pick([f"({e} + {f})", f"({e} - {f})", f"wp.min({e}, {f})"])

    def small(self) -> str:
        return self.pick([*self.loops, "2", "3", "i % 4", "q & 3"])

    def call(self, depth: int, loop: bool) -> None:
        form = self.pick([*self.calls, *self.values])
        line = self.filled(form)
        self.line(depth, f"{self.pick(self.variables[self.t])} = {line}" if form in self.values else line)

    def literal(self, t: str) -> str:
        return super().literal(t) if t in ("int32", "bool") else f"wp.{t}({self.number(0, 9)})"


def natives(seed: int, known: frozenset[str]) -> Program:
    """A program of native functions."""
    w = NativeWriter(seed, known)
    w.budget = w.number(10, 16)
    for k in range(w.number(1, 3)):
        w.functions_of(k)
    t = w.t
    params = [f"x_{t}: wp.array(dtype=wp.{t})", f"y_{t}: wp.array2d(dtype=wp.{t})", "s: wp.array(dtype=wp.uint32)"]
    x = values_of(t, str(THREADS), seed) if t not in ("float32", "float64") else f"np.arange({THREADS}) / 4"
    setup = [f"x_{t} = ({x}).astype('{t}')", f"y_{t} = np.zeros(({THREADS}, 3), '{t}')", "s = np.zeros(8, 'uint32')"]
    w.line(1, "i = wp.tid()")
    w.line(1, "q = int(1)")
    w.declare(1, t, f"x_{t}[i]")
    w.declare(1, t, w.literal(t))
    w.declare(1, "int32", "i * 3")
    while w.budget > 4:
        w.statement(1, False)
    w.line(1, f"y_{t}[i, 0] = {w.filled(w.values[0]) if w.values else w.variables[t][0]}")
    setup += [*layouts(w, [f"x_{t}", f"y_{t}"]), "memory.append(s)", f"args = [x_{t}, y_{t}, s]"]
    settings = tuple(s for s in settings_of(w) if "device" not in s)  # the emulation runs no C++ for CUDA
    made = finished("natives", w, w.natives, params, setup, sizes(w)[-2:], settings)
    return dataclasses.replace(made, oracle="\n".join(w.twins))
