"""What loops ask for each iteration, in lanes: the conditions of ``filter_loops.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import Cloner, free_values
from warp_like.ir.types import Array, Lanes, bool_, int32, scalar_of
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold
from warp_like.passes.fold_comparisons import fold_comparisons
from warp_like.passes.spmd.filters import Filter, Level, needed
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import widen

_LESS = {"lt": True, "le": True, "gt": False, "ge": False}
"""Comparisons, and whether they hold where the first number is the smaller one."""


class Condition:
    """Whether iterations do something, in lanes.

    Attributes:
        width: The number of lanes; 1 where elements lie apart and gathers take longer than loads.
        found: The loop.
        item: A load whose result lanes are given, in place of the number of the iteration. Where they are ``in_line``,
            the first one is given instead; it is no negative number, and the others follow on it.
    """

    def __init__(
        self, found: Filter, width: int, item: ops.Load | None, *, gathers: bool, in_line: bool = False
    ) -> None:
        o, b = found.loop, Emitter(Block())
        self.found, self.width, self.item = found, width, item
        with at(o.loc):
            given = Value(int32)
            number = given if item is not None and not in_line else b.insert(ops.Tid(0, 1), int32).result
            cloner = Cloner({o.body.params[0] if item is None else item.result: number})
            _emit_condition(b, cloner, found.levels, set(needed(found)) - {item})
        free = [v for v in free_values(b.block) if v is not given]
        constants = [v.op for v in free if isinstance(v.op, ops.Constant)]
        self._free = [v for v in free if v.op not in constants]
        f = Function("condition", [Value(v.type, v.hint) for v in (*self._free, given)], loc=o.loc)
        cloner = Cloner(dict(zip((*self._free, given), f.params, strict=True)))
        f.body.ops += [cloner.op(x) for x in (*constants, *b.block.ops)]
        if in_line:  # an index that counts from the end where it is negative is one in line
            f = dce(fold(fold_comparisons(f)))
        self._lanes = widen(f, width, varying=f.params[-1:])
        if not gathers and any(isinstance(x, ops.Load) and _is_apart(x) for x in self._lanes.body.walk()):
            self._lanes, self.width = f, 1

    def reads_in_line(self) -> list[tuple[Value, int]] | None:
        """The arrays of which lanes read the elements of their items, and their axes; None if they read others too."""
        params, found = dict(zip(self._lanes.params, self._free, strict=False)), []
        for o in self._lanes.body.walk():
            if o.regions():  # lanes behind the last item would decide what is read there
                return None
            axes = [n for n, i in enumerate(o.indices) if isinstance(i.type, Lanes)] if isinstance(o, ops.Load) else []
            if not isinstance(o, ops.Load) or not (axes or isinstance(o.array.type, Lanes)):
                continue
            first = o.indices[axes[0]].op if len(axes) == 1 else None
            is_item = isinstance(first, ops.Iota) and first.stride == 1 and isinstance(first.base.op, ops.Tid)
            if not is_item or o.array not in params or not isinstance(o.array.type, Array):
                return None
            found.append((params[o.array], axes[0]))
        return found

    def emit(self, b: Emitter, value: Callable[[Value], Value], given: Value, mask: Value | None = None) -> Value:
        """Return it for the lanes of ``mask``; ``given`` is the first number, or the items in lanes."""
        *params, last = self._lanes.params
        cloner = Cloner({**dict(zip(params, map(value, self._free), strict=True)), last: given})
        for x in self._lanes.body.ops[:-1]:
            if isinstance(x, ops.Tid):
                cloner.mapping[x.result] = given
            elif isinstance(x, ops.ActiveMask) and mask is not None:
                cloner.mapping[x.result] = mask
            else:
                b.block.ops.append(cloner.op(x))
        return cloner.value(self._lanes.body.yielded[0])


def condition_in_line(found: Filter, vector_bits: int, item: ops.Load) -> Condition | None:
    """The condition for items that follow on each other, where two vectors of it are one of items."""
    if bits_of(found) != 32:
        return None
    try:
        made = Condition(found, vector_bits // 32, item, gathers=True, in_line=True)
    except NotWidenable:
        return None
    return made if made.reads_in_line() else None


def _emit_condition(b: Emitter, cloner: Cloner, levels: Sequence[Level], wanted: Collection[Op]) -> None:
    """Yield whether the last of ``levels`` is reached and does something; only ``wanted`` ops are computed."""
    (block, branch, side), *inner = levels
    b.block.ops += [cloner.op(x) for x in block.ops if x in wanted]
    squared = None if inner else _without_root(b, cloner, branch.cond, side)  # a guard must be exact
    held = squared or cloner.value(branch.cond)
    held = held if side else b.unot(held)
    if inner:
        with b.into(Block()) as then:
            _emit_condition(b, cloner, inner, wanted)
        with b.into(Block()) as otherwise:
            b.yield_(b.constant(False, bool_))
        held = b.if_(held, then, otherwise)[0]
    b.yield_(held)


def _without_root(b: Emitter, cloner: Cloner, cond: Value, side: bool) -> Value | None:
    """Return ``cond`` where it compares a root, by the number under it: it holds wherever ``cond`` is ``side``.

    A root in lanes takes as long as all else. What passes by rounding alone is found out when the iteration runs.
    """
    test = cond.op
    if not isinstance(test, ops.Apply) or test.fn not in _LESS:
        return None
    small, large = test.args if _LESS[test.fn] == side else test.args[::-1]
    t = scalar_of(small.type)
    if not (isinstance(small.op, ops.Apply) and small.op.fn == "sqrt") or small.type != t or t.bits not in (32, 64):
        return None
    under, bound = cloner.value(small.op.args[0]), cloner.value(large)
    info = np.finfo(f"float{t.bits}")
    most = b.add(b.mul(b.mul(bound, bound), 1.0 + 16.0 * float(info.eps)), float(info.tiny))
    return b.le(under, most) if side else b.gt(under, most)


def _is_apart(o: ops.Load) -> bool:
    """Whether lanes read elements that do not follow on each other."""
    return any(isinstance(i.type, Lanes) and not isinstance(i.op, ops.Iota) for i in o.indices)


def bits_of(found: Filter) -> int:
    """The bits of the widest numbers that the condition is computed with."""
    made = (scalar_of(r.type) for o in needed(found) if isinstance(o, ops.Apply) for r in o.results)
    return max([32, *(s.bits for s in made if s is not None and s.is_float)])


__all__ = ["Condition", "bits_of", "condition_in_line"]
