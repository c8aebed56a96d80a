"""The example of each analysis: a function, with what is known of its values, as the module's docstring prints it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.ir_builder import loop, start, tid
from warp_like.analysis.memory import analyse
from warp_like.base.contract import StackOp
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.layout import size_of
from warp_like.ir.printer import print_function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes import effects, sums, uniform
from warp_like.passes.ad import activity, plan, stack_bound, tangent_activity
from warp_like.passes.ad.adjoint import plan_adjoint
from warp_like.passes.spmd import strides

X = Array(float32, 1)


@dataclass
class Facts:
    """What an analysis finds of a function: a note for each value that has one."""

    module: Any
    build: Callable[[], Function]
    notes: Callable[[Function], dict[Value, str]]


def _levels(f: Function) -> dict[Value, str]:
    known = uniform.Uniformity(f).levels
    return {v: ("block", "warp", "thread")[level] for v, level in known.items()}


def _varied(f: Function) -> dict[Value, str]:
    return dict.fromkeys(activity.varied_values(f, [f.params[0]]), "varied")


def _tangent_activity(f: Function) -> dict[Value, str]:
    found = tangent_activity.TangentActivity([f.params[0]])
    found.block(f.body)
    return dict.fromkeys(found.varied, "varied")


def _strides(f: Function) -> dict[Value, str]:
    return {v: f"stride {stride}" for v, stride in strides.find_strides(f).items()}


def _planned(f: Function) -> dict[Value, str]:
    return {v: type(d).__name__.lower() for v, d in plan_adjoint(f, [0]).decisions.items()}


def _uses(f: Function) -> dict[Value, str]:
    def said(use: effects.Use) -> str:
        return ", ".join(name for name, holds in zip(use._fields_, use.as_tuple(), strict=True) if holds)

    return {f.params[i]: said(use) for i, use in effects.array_uses(analyse(f)).items()}


def _sums(f: Function) -> dict[Value, str]:
    memory = analyse(f)
    summed, private = sums.plain_additions(memory)
    found = dict.fromkeys(summed, "summed") | dict.fromkeys(private, "thread-private")
    found |= dict.fromkeys(sums.reduced_arrays(memory), "reduced")
    return {f.params[i]: note for i, note in found.items()}


def _bound(f: Function) -> dict[Value, str]:
    names = {number: name.lower() for name, number in vars(StackOp).items() if isinstance(number, int)}
    return {f.params[-1]: "the bound is " + ", ".join(names[op] for op, *_ in stack_bound.stack_bound(f, size_of))}


def _adding() -> Function:
    f, b = start(x=X, total=X, count=X, top=X)
    i, (x, total, count, top) = tid(b), f.params
    v = b.load(x, [i])
    b.atomic("add", total, [b.cast(v, int32)], v)
    b.atomic("add", count, [i], v)
    b.atomic("max", top, [b.constant(0, int32)], v)
    b.yield_()
    return f


def _saving() -> Function:
    f, b = start(x=X, n=int32)
    i, (x, n) = tid(b), f.params
    with loop(b, 0, n):
        b.insert(ops.Push(0, b.load(x, [i])))
    with loop(b, 0, n):
        b.store(x, [i], b.insert(ops.Pop(0), float32).result)
    b.yield_()
    return f


def _in_place() -> Function:
    f, b = start(x=X)
    i, (x,) = tid(b), f.params
    v = b.load(x, [i])
    b.store(x, [i], b.mul(v, v))
    b.yield_()
    return f


def _active() -> Function:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    v = b.load(x, [i])
    c = b.load(y, [i])
    b.store(y, [i], b.mul(b.add(v, c), b.floor(v)))
    b.yield_()
    return f


def _on_stack() -> Function:
    f, b = start(x=X, y=X)
    i, (x, y) = tid(b), f.params
    b.insert(ops.Push(0, b.load(x, [i])))
    c = b.load(y, [i])
    v = b.insert(ops.Pop(0), float32).result
    b.store(x, [i], b.mul(v, c))
    b.yield_()
    return f


def _indices() -> Function:
    f, b = start(x=X, k=int32)
    i, (x, k) = tid(b), f.params
    b.store(x, [b.mul(i, 2)], b.add(b.load(x, [b.add(i, k)]), b.load(x, [b.mul(k, k)])))
    b.yield_()
    return f


def _levelled() -> Function:
    f, b = start(x=X, y=X, n=int32)
    x, y, n = f.params
    first = b.load(x, [n])
    warp = b.div(b.block_thread(), b.warp_size())
    b.store(y, [tid(b)], b.add(first, b.cast(b.mul(warp, n), float32)))
    b.yield_()
    return f


FACTS: dict[str, Facts] = {
    "effects": Facts(effects, _adding, _uses),
    "sums": Facts(sums, _adding, _sums),
    "stack_bound": Facts(stack_bound, _saving, _bound),
    "uniform": Facts(uniform, _levelled, _levels),
    "activity": Facts(activity, _active, _varied),
    "plan": Facts(plan, _in_place, _planned),
    "tangent_activity": Facts(tangent_activity, _on_stack, _tangent_activity),
    "strides": Facts(strides, _indices, _strides),
}
"""By the name of the module."""


def annotated(facts: Facts) -> str:
    """The text of the function: notes on parameters below the first line, on other values behind their own."""
    f = facts.build()
    notes = facts.notes(f)
    header, rest = lines_with_notes(f, notes).split("\n", 1)
    return "\n".join([header, *(f"  # %{p.hint}: {notes[p]}" for p in f.params if p in notes), rest])


def lines_with_notes(f: Function, notes: dict[Value, str]) -> str:
    """The text of ``f`` with a note behind the lines whose first result has one."""
    made = iter([o for o in f.body.walk() if o.results])
    lines = []
    for line in print_function(f).splitlines():
        note = notes.get(next(made).results[0]) if line.lstrip().startswith("%") else None
        lines.append(f"{line:<44}# {note}" if note else line)
    return "\n".join(lines) + "\n"
