"""The interpreter for functions in lanes: each op of lanes is run once a lane, by the scalar interpreter.

In a function of one thread, lanes are iterations of its loops; all of them are at work.

A value in lanes is a list of scalar values. It is as strict as the scalar interpreter, and stricter on masks: what a
lane outside of its mask would read or write is never looked at.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interpreter import _EXECUTE, COMBINE, MAX_STEPS, Env, InterpreterError, _Thread, empty_array
from tests.interpreter_values import argument, coerce
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.rewrite import grid_ndim
from warp_like.ir.types import Array, Lanes, element_shape, lane_type


def run_lanes(f: Function, args: Sequence[Any], dims: tuple[int, ...], printed: list[str] | None = None) -> None:
    """Execute a kernel that ``widen`` made over the grid ``dims``; arrays in ``args`` change in place.

    ``printed`` receives the text of each ``print``.
    """
    ndim, grid = grid_ndim(f), dims
    dims = (*dims, *[1] * (ndim - len(dims)))
    dims = (*dims[: ndim - 1], math.prod(dims[ndim - 1 :]))
    values = [argument(a, p.type) for a, p in zip(args, f.params, strict=True)]
    budget = [MAX_STEPS]
    with np.errstate(all="ignore"):
        steps = [f.schedule.rows if k == ndim - 2 else 1 for k in range(ndim - 1)]
        for row in itertools.product(*(range(0, n, step) for n, step in zip(dims[:-1], steps, strict=True))):
            for start in range(0, dims[-1], f.schedule.lanes):
                active = min(f.schedule.lanes, dims[-1] - start)
                vector = _Vector(
                    (*row, start), dims, f.schedule.lanes, active, printed if printed is not None else [], budget
                )
                vector.grid = grid
                vector.call(f, values)
                if vector.stack:
                    raise InterpreterError("pushes were not popped")


class _Vector(_Thread):
    """A vector of threads: ``thread`` is the first one's index, ``active`` how many there are."""

    def __init__(
        self,
        thread: tuple[int, ...],
        dims: tuple[int, ...],
        width: int,
        active: int,
        printed: list[str],
        budget: list[int],
    ) -> None:
        super().__init__(thread, dims, printed, budget)
        self.width = width
        self.active = active

    def execute(self, o: Op, env: Env) -> list[Any]:
        if not o.regions() and any(isinstance(v.type, Lanes) for v in (*o.operands(), *o.results)):
            return self.wide(o, env)
        return super().execute(o, env)

    def wide(self, o: Op, env: Env) -> list[Any]:
        width = next(v.type.width for v in (*o.results, *o.operands()) if isinstance(v.type, Lanes))
        lanes = range(width)
        match o:
            case ops.ActiveMask():
                return [[np.bool_(self.width == 1 or k < self.active) for k in lanes]]
            case ops.Broadcast():
                return [[env[o.x]] * width]
            case ops.Iota():
                return [[coerce(_wrapped(env[o.base], k * o.stride), o.base.type) for k in lanes]]
            case ops.Compress():
                kept = [x for x, on in zip(env[o.x], env[o.kept], strict=True) if on]
                return [[*kept, *env[o.x][len(kept) :]]]
            case ops.LaneReduce():
                return [self.lane_reduce(o, env, width)]
            case ops.Push():
                self.stack.append((o.slot, env[o.value]))
                return []
            case ops.Pop():
                slot, value = self.stack.pop()
                if slot != o.slot:
                    raise InterpreterError(f"pop of slot {o.slot}, but the top is slot {slot}")
                return [value]
        mask = env[o.mask[0]] if getattr(o, "mask", ()) else [True] * width
        if isinstance(o, ops.Atomic) and o.kind == "take":  # the last lane takes first
            rows = [self.lane(o, env, k) if mask[k] else _nothing(o) for k in reversed(lanes)][::-1]
        else:
            rows = [self.lane(o, env, k) if mask[k] else _nothing(o) for k in lanes]
        return [list(column) for column in zip(*rows, strict=True)]

    def lane(self, o: Op, env: Env, k: int) -> list[Any]:
        one = _one_lane(o)
        pairs = zip(one.operands(), o.operands(), strict=True)
        own = {a: env[v][k] if isinstance(v.type, Lanes) else env[v] for a, v in pairs}
        return _EXECUTE[type(o)](self, one, own)

    def lane_reduce(self, o: ops.LaneReduce, env: Env, width: int) -> Any:
        mask = env[o.mask[0]] if o.mask else [True] * width
        chosen = [x for x, on in zip(env[o.x], mask, strict=True) if on]
        if o.kind == "any":
            return np.bool_(any(chosen))
        if o.kind == "bits":
            pairs = zip(env[o.x], mask, strict=True)
            return np.uint64(sum(1 << k for k, (x, on) in enumerate(pairs) if x and on))
        if not chosen:
            raise InterpreterError(f"lane_reduce {o.kind} of no lane at {o.loc}")
        if o.kind == "last":
            return chosen[-1]
        return coerce(functools.reduce(COMBINE[o.kind], chosen), o.result.type)


def _wrapped(base: Any, by: int) -> Any:
    info = np.iinfo(base.dtype)
    return base.dtype.type((int(base) + by - int(info.min)) % (1 << info.bits) + int(info.min))


def _nothing(o: Op) -> list[Any]:
    """What a lane out of the mask gets."""
    types = [lane_type(r.type) for r in o.results]
    return [empty_array(t) if isinstance(t, Array) else coerce(np.zeros(element_shape(t)), t) for t in types]


@functools.cache
def _one_lane(o: Op) -> Op:
    """``o`` with operands and results of the types of one lane, and without a mask."""
    one = object.__new__(type(o))
    one.__dict__.update(o.__dict__)
    one.map_operands(lambda v: Value(lane_type(v.type), v.hint, v.op))
    one.results = tuple(Value(lane_type(r.type), r.hint, one) for r in o.results)
    return one
