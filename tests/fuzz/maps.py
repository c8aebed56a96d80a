"""Programs of ``wp.map``: functions over arrays that are broadcast, into arrays of the user's or new ones."""

from __future__ import annotations

import dataclasses

from tests.fuzz.numbers import NUMBERS, NumberWriter, finished, values_of
from tests.fuzz.program import Program
from tests.fuzz.threads import GRIDS, LARGEST

HELD = [t for t in NUMBERS if t != "bfloat16"]
INDICES = "[i0, i1, i2, i3]"
ORDERS = ("", "", ".T.copy().T", "[::-1]", "[..., ::-1]", "[::-1].copy()[::-1]")
"""What is done to an array, so that its elements lie in another order, or it is a view."""


class MapWriter(NumberWriter):
    """Writes the function; its arguments and results, and the kernel that does the same."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.ndim = self.pick([1, 1, 2, 3, 4])
        self.types = self.r.sample(HELD, self.number(1, 2))
        self.params: list[str] = []
        self.setup: list[str] = []
        self.args: list[str] = []
        self.given: list[str] = []
        self.outputs: list[str] = []

    def parameter(self, k: int, annotated: bool) -> tuple[str, str]:
        """The type of an argument, and how the kernel hands it to the function."""
        t, name = self.pick(self.types), f"a{k}"
        self.params.append(f"{name}: wp.{t}")
        if k and annotated and self.chance(0.25):  # a number; it has the type of the parameter
            self.args.append(self.pick(["0", "1", "2", "5"] if t in self.ints() else ["0.5", "2.0", "1", "3.0"]))
            self.given.append(f"args[{k}]")
            return t, name
        whole = k == 0 or self.chance(0.4)
        first = 0 if whole else self.number(0, self.ndim - 1)
        ones = [not whole and self.chance(0.4) for _ in range(first, self.ndim)]
        axes = range(first, self.ndim)
        shape = ", ".join("1" if one else f"dims[{axis}]" for axis, one in zip(axes, ones, strict=True))
        at = ", ".join("0" if one else f"i{axis}" for axis, one in zip(axes, ones, strict=True))
        made = values_of(t, f"({shape},)", self.number(0, 999)) + self.pick(ORDERS)
        if whole and self.chance(0.25):
            made = f"Selected({made}, [np.arange(dims[0], dtype='int32')[::-1].copy(), None][: {self.ndim}], '{t}')"
        self.setup.append(f"{name} = {made}")
        self.params[-1] = f"{name}: wp.array(dtype=wp.{t}, ndim={len(ones)})"
        self.args.append(name)
        self.given.append(f"args[{k}]")
        return t, f"{name}[{at}]"

    def ints(self) -> list[str]:
        return [t for t in HELD if not t.startswith("float")]

    def mapped(self, types: list[str], annotated: bool, form: str) -> tuple[list[str], list[str]]:
        """The lines of the function ``f``, and the types of its results."""
        names = [f"p{k}" for k in range(len(types))]
        for n, t in zip(names, types, strict=True):
            self.variables.setdefault(t, []).append(n)
        self.types = sorted(set(types))
        results = [self.pick(types) for _ in range(1 if form == "lambda" else self.pick([1, 1, 2, 3]))]
        if form == "lambda":
            return [f"f = lambda {', '.join(names)}: {self.settled(results[0])}", ""], results
        self.budget = 5
        self.kinds = [k for k in self.kinds if k != self.leave]
        self.block(3, 1, False)
        if self.chance(0.5):
            self.line(1, f"if {self.condition()}:")
            self.line(2, f"return {', '.join(self.settled(t) for t in results)}")
        self.line(1, f"return {', '.join(self.settled(t) for t in results)}")
        heads = [f"{n}: wp.{t}" if annotated else n for n, t in zip(names, types, strict=True)]
        return ["@wp.func"] * (form == "func") + [f"def f({', '.join(heads)}):", *self.lines, "", ""], results

    def output(self, k: int, t: str) -> None:
        """An array for a result: one of its own, or that of an argument."""
        name = f"o{k}"
        self.params.append(f"{name}: wp.array(dtype=wp.{t}, ndim={self.ndim})")
        order = self.pick(ORDERS)
        self.setup.append(f"{name} = np.zeros(dims, '{t}'){order}")
        self.args.append(name)
        self.outputs.append(name)


def maps(seed: int, known: frozenset[str]) -> Program:
    """A program of one ``wp.map``."""
    w = MapWriter(seed, known)
    form = w.pick(["func", "func", "function", "lambda"])
    annotated = form != "lambda" and w.chance(0.6)
    read = [w.parameter(k, annotated) for k in range(w.number(1, 3))]
    types, taken = [t for t, _ in read], [e for _, e in read]
    above, results = w.mapped(types, annotated, form)
    count = len(read)
    for k, t in enumerate(results):
        w.output(k, t)
    reused = next((k for k, (t, e) in enumerate(read) if t == results[0] and e.count("i") == w.ndim), None)
    same = len(results) == 1 and reused is not None and w.chance(0.3)
    if same:
        w.setup.append(f"o0 = a{reused}.data[::-1] if isinstance(a{reused}, Selected) else a{reused}")
    tids = [f"i{axis}" for axis in range(w.ndim)]
    kernel = ["@wp.kernel", f"def k({', '.join(w.params)}):", f"    {', '.join(tids)} = wp.tid()"]
    kernel += [f"    {', '.join(f'r{k}' for k in range(len(results)))} = f({', '.join(taken)})"]
    kernel += [f"    o{k}[{', '.join(tids)}] = r{k}" for k in range(len(results))]
    outs = [f"args[{count + k}]" for k in range(len(results))]
    inputs = ", ".join(w.given)
    several = f"[{', '.join(outs)}]"
    call = f"wp.map(f, {inputs}, out={outs[0] if len(outs) == 1 else several})"
    if not same and w.chance(0.4):
        call = f"made = wp.map(f, {inputs})\nfor to, a in zip({several}, made if type(made) is list else [made]):"
        call += "\n    assert a.numpy().dtype == to.dtype\n    to[...] = a.numpy()"
    w.setup += [f"memory = [{', '.join(w.outputs)}]", f"args = [{', '.join(w.args)}]"]
    grids = sorted({*w.r.sample(GRIDS[w.ndim], 2), LARGEST[w.ndim]})
    w.lines = []
    made = finished("maps", w, [], [], w.setup, grids)
    return dataclasses.replace(made, source="\n".join(above), oracle="\n".join(kernel) + "\n", call=call)
