"""The text form of the IR: stable, readable, one op a line."""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Struct


def print_function(f: Function) -> str:
    """Return the text of ``f``."""
    return _Printer().function(f)


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.next = 0

    def function(self, f: Function) -> str:
        params = ", ".join(f"{self.name(p)}: {p.type}" for p in f.params)
        results = f" -> ({', '.join(map(str, f.results))})" if f.results else ""
        self.lines.append(f"{f.role} {f.name}({params}){results} {{")
        self.block(f.body, 1)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def name(self, v: Value) -> str:
        if v not in self.names:
            base = v.hint
            if not base:
                base, self.next = str(self.next), self.next + 1
            text, n = base, 1
            while text in self.taken:
                text, n = f"{base}.{n}", n + 1
            self.taken.add(text)
            self.names[v] = f"%{text}"
        return self.names[v]

    def block(self, b: Block, depth: int) -> None:
        for o in b.ops:
            self.op(o, depth)

    def names_of(self, values: tuple[Value, ...] | list[Value]) -> str:
        return ", ".join(self.name(v) for v in values)

    def op(self, o: Op, depth: int) -> None:
        pad = "  " * depth
        head = f"{self.names_of(o.results)} = " if o.results else ""
        types = f" : {', '.join(str(r.type) for r in o.results)}" if o.results else ""
        self.lines.append(f"{pad}{head}{self.text(o)}{types}{' {' if o.regions() else ''}")
        for i, r in enumerate(o.regions()):
            if i > 0:
                word = {"if": "else", "while": "do"}[o.NAME]
                self.lines.append(f"{pad}}} {word}{self.params(r)} {{")
            self.block(r, depth + 1)
        if o.regions():
            self.lines.append(f"{pad}}}")

    def params(self, b: Block) -> str:
        return f" ({', '.join(f'{self.name(p)}: {p.type}' for p in b.params)})" if b.params else ""

    def text(self, o: Op) -> str:
        mask = getattr(o, "mask", ())
        return self.unmasked(o) + (f" if {self.names_of(mask)}" if mask else "")

    def unmasked(self, o: Op) -> str:
        match o:
            case ops.Constant():
                return f"constant {o.value}"
            case ops.Apply():
                return f"{o.fn} {self.names_of(o.args)}"
            case ops.Tid():
                return f"tid {o.axis} of {o.ndim}"
            case ops.GridDim():
                return f"grid_dim {o.axis} of {o.ndim}"
            case ops.Dim():
                return f"dim {self.name(o.array)}, {o.axis}"
            case ops.GetField(x=x, field=field) if isinstance(x.type, Struct):
                return f"field {self.name(x)}.{x.type.fields[field][0]}"
            case ops.View(array=array, field=int(field)) if isinstance(array.type, Array):
                assert isinstance(array.type.dtype, Struct)
                return f"view {self.name(array)}.{array.type.dtype.fields[field][0]}"
            case ops.Load() | ops.LoadConsecutive() | ops.View() | ops.NestedArray():
                return f"{o.NAME} {self.name(o.array)}[{self.names_of(o.indices)}]"
            case ops.Slice():
                spans = dict(zip(o.kept, zip(o.count, o.step, strict=True), strict=True))
                parts = []
                for axis, start in enumerate(o.start):
                    parts.append(self.name(start))
                    if axis in spans:
                        parts[-1] += f" + {self.name(spans[axis][0])} by {self.name(spans[axis][1])}"
                return f"slice {self.name(o.array)}[{', '.join(parts)}]"
            case ops.Print():
                formats = f" {o.formats!r}" if o.formats else ""
                return f"print {'together ' if o.together else ''}{o.parts!r}{formats} {self.names_of(o.args)}"
            case ops.Check():
                return f"check {o.kind!r} {o.text!r} {self.names_of((o.ok, *o.values))}"
            case ops.Breakpoint():
                return "breakpoint"
            case ops.Store():
                return f"store {self.name(o.array)}[{self.names_of(o.indices)}], {self.name(o.value)}"
            case ops.StoreConsecutive():
                return f"{o.NAME} {self.name(o.array)}[{self.names_of(o.indices)}], {self.names_of(o.values)}"
            case ops.Atomic():
                return f"atomic_{o.kind} {self.name(o.array)}[{self.names_of(o.indices)}], {self.name(o.value)}"
            case ops.AtomicCas():
                at = f"{self.name(o.array)}[{self.names_of(o.indices)}]"
                return f"atomic_cas {at}, {self.name(o.compare)}, {self.name(o.value)}"
            case ops.Extract():
                return f"extract {self.name(o.x)}[{self.names_of(o.indices)}]"
            case ops.Insert():
                return f"insert {self.name(o.x)}[{self.names_of(o.indices)}], {self.name(o.value)}"
            case ops.For():
                i, *carried = o.body.params
                init = self.bindings(carried, o.init)
                once = "together " if o.together else "threads " if o.threads else "simd " if o.simd else ""
                return f"for {once}{self.name(i)} in {self.name(o.lo)}, {self.name(o.hi)}, {self.name(o.step)}{init}"
            case ops.While():
                return f"while{self.bindings(o.cond.params, o.init)}"
            case ops.LocalArray():
                return f"{'shared' if o.shared else 'local'} {o.shape!r}{'' if o.zeroed else ' not zeroed'}"
            case ops.AtAddress():
                what = f" object {o.kind}" if o.kind else " constant" if o.constant else ""
                return f"{o.NAME}{what} {self.names_of(o.operands())}"
            case ops.LaneReduce():
                return f"lane_reduce {o.kind} {self.name(o.x)}"
            case ops.Native():
                return f"native {o.code.name}({self.names_of(o.args)})"
            case ops.Call() | ops.Outlined():
                return f"{o.NAME} {o.callee.name}({self.names_of(o.args)})"
        extra = "".join(f" {v!r}" for v in o.attributes().values())
        operands = f" {self.names_of(o.operands())}" if o.operands() else ""
        return f"{o.NAME}{extra}{operands}"

    def bindings(self, params: list[Value], init: tuple[Value, ...]) -> str:
        pairs = [f"{self.name(p)} = {self.name(v)}" for p, v in zip(params, init, strict=True)]
        return f" ({', '.join(pairs)})" if pairs else ""
