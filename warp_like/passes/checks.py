"""Checks of a running kernel: what ``assert`` says, and what debug mode and ``verify_fp`` look at.

A check ends the launch with an error. It is an op like others, so it stands where the program would go wrong, and the
reverse sweep, which computes the same again, leaves it out.

Debug checks run before ``fold``, so that they see the divisions and indices that the user wrote; ``finite_checks``
comes last, on what is stored.

Before::

    kernel k(%x: array1d[int32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : int32
      %2 = div %1, %n : int32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[int32], %n: int32) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : int32
      %2 = constant 0 : int32
      %3 = ne %n, %2 : bool
      check 'division' 'an integer is divided by zero by `/`' %3
      %4 = div %1, %n : int32
      store %x[%0], %4
      yield
    }
"""

from __future__ import annotations

from warp_like.base.contract import ERROR_VALUES
from warp_like.base.loc import at
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.objects import NAMES
from warp_like.ir.rewrite import INTEGER_DIVISIONS, OUTLINED, has_op, is_integer_division
from warp_like.ir.types import Struct, bool_, element_shape, is_large, scalar_of
from warp_like.passes.bodies import function_of
from warp_like.passes.effects import queried_objects
from warp_like.passes.rewriter import Rewriter, rewrite

DEBUG_KINDS = ("assert", "unassigned", "pivot")
"""The checks of the frontend that debug mode alone keeps."""


def debug_checks(f: Function, debug: bool) -> Function:
    """Check divisions of integers and computed component indices of ``f`` in place; without ``debug`` drop others.

    Those of ``DEBUG_KINDS`` are dropped, which stand where the user or the frontend put them.
    For a function without calls: the place of a check ends in the chain of its callers.
    """
    if debug:
        return rewrite(f, _Debug())
    return rewrite(f, _Release()) if has_op(f, ops.Check) else f


def finite_checks(f: Function) -> Function:
    """Check that all floats which ``f`` writes to arrays are finite, in place."""
    return rewrite(f, _Finite())


class _Release(Rewriter):
    def visit(self, o: Op) -> None:
        if not (isinstance(o, ops.Check) and o.kind in DEBUG_KINDS):
            super().visit(o)


class _Checking(Rewriter):
    def require(self, kind: str, text: str, ok: Value, *values: Value) -> None:
        self.b.insert(ops.Check(kind, text, ok, values))


class _Debug(_Checking):
    def visit(self, o: Op) -> None:
        with at(o.loc):
            match o:
                case ops.Apply() if is_integer_division(o):
                    text = f"an integer is divided by zero by `{INTEGER_DIVISIONS[o.fn]}`"
                    if is_large(o.args[1].type):
                        from warp_like.builtins.vector import combined

                        found = combined(self.b, self.b.bit_and, o.args[1], lambda x: self.b.ne(x, 0))
                        self.require("division", text, found)
                    else:
                        for part in self.b.components(o.args[1]):
                            self.require("division", text, self.b.ne(part, 0))
                case ops.Extract() | ops.Insert():
                    self.component(o)
                case ops.AtAddress() if o.kind:
                    self.live(o.address, o.kind)
                case ops.Apply(fn=fn) if fn in OUTLINED:
                    self.ids(o)
        super().visit(o)

    def live(self, id: Value, kind: int, *, or_zero: bool = False) -> None:
        def is_live() -> Value:
            return self.b.insert(ops.IsLive(kind, id), bool_).result

        ok = self.b.branch(self.b.eq(id, 0), lambda: self.b.constant(True, bool_), is_live) if or_zero else is_live()
        text = f"{{0}} is not the id of a {NAMES[kind]} that is alive on this device"
        self.require("id", text, ok, id)

    def ids(self, o: ops.Apply) -> None:
        """Check the ids that an outlined builtin takes: its body has no checks, and 0 means no object."""
        for place, kind in queried_objects(function_of(o.fn, tuple(a.type for a in o.args))):
            self.live(o.args[place], kind, or_zero=True)

    def component(self, o: ops.Extract | ops.Insert) -> None:
        shape = element_shape(o.x.type)
        for index, extent, axis in zip(o.indices, shape, range(len(shape)), strict=False):
            if ops.constant_value(index) is not None:
                continue
            what = ("row", "column")[axis] if len(shape) == 2 else "component"
            text = f"{what} {{0}} is out of range: {_article(str(o.x.type))} has {extent}"
            inside = self.b.bit_and(self.b.ge(index, 0), self.b.lt(index, extent))
            self.require("index", text, inside, _as_written(index))


def _as_written(index: Value) -> Value:
    """The index before the extent is added to a negative one."""
    match index.op:
        case ops.Apply(fn="where", args=(_, added, plain)) if isinstance(added.op, ops.Apply):
            return plain
    return index


def _article(text: str) -> str:
    return f"an {text}" if text.startswith("array") else f"a {text}"


class _Finite(_Checking):
    def visit(self, o: Op) -> None:
        if isinstance(o, (ops.Store, ops.Atomic)) and not isinstance(o.value.type, Struct):
            scalar = scalar_of(o.value.type)
            if scalar is not None and scalar.is_float:
                with at(o.loc):
                    self.finite(o)
        super().visit(o)

    def finite(self, o: ops.Store | ops.Atomic) -> None:
        from warp_like.builtins.vector import combined

        ok = combined(self.b, self.b.bit_and, o.value, self.b.isfinite)
        parts = [] if is_large(o.value.type) else self.b.components(o.value)
        shown = parts if 0 < len(parts) <= ERROR_VALUES - len(o.indices) else []
        what = ", ".join(f"{{{k}}}" for k in range(len(shown))) or "a value that is not finite"
        what = f"[{what}]" if len(shown) > 1 else what
        at_ = ", ".join(f"{{{len(shown) + k}}}" for k in range(len(o.indices)))
        where = f"({at_})" if len(o.indices) > 1 else at_
        text = f"{what} is written to {_array_name(o.array)} at index {where}"
        self.require("finite", text, ok, *shown, *o.indices)


def _array_name(array: Value) -> str:
    array = ops.base_array(array)
    return f"array `{array.hint}`" if array.hint else "an array"
