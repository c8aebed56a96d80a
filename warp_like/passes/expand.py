"""Replace builtin calls by the bodies that their rows give.

Differentiation first expands rows that have a body and no adjoint rule; what is left is expanded before the
backend, which therefore sees only rows of ``Symbol``, ``Target`` and ``Elementwise`` of those.

Leaves no builtin that has a body (``stages.LOWERED``); a body may call builtins, which are expanded, too.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = neg %1 : float32
      %3 = constant 0.5 : float32
      %4 = lerp %1, %2, %3 : float32
      store %x[%0], %4
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = neg %1 : float32
      %3 = constant 0.5 : float32
      %4 = constant 1.0 : float32
      %5 = sub %4, %3 : float32
      %6 = mul %1, %5 : float32
      %7 = mul %2, %3 : float32
      %8 = add %6, %7 : float32
      store %x[%0], %8
      yield
    }
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import cast

from warp_like.base.loc import at
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import Index, tabulate
from warp_like.builtins.spec import Elementwise, Inline, Overload, resolve
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.rewrite import OUTLINED, clone_function
from warp_like.ir.types import Scalar, Tile, Type, bool_, element_count, is_large, lane_type, scalar_of
from warp_like.passes.bodies import body_of, function_of
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold
from warp_like.passes.rewriter import Rewriter, rewrite


def expand(f: Function, only: Callable[[Overload], bool] | None = None, *, native: bool = False) -> Function:
    """Expand calls in place until none is left to expand.

    Args:
        f: The function.
        only: Which rows to expand, asked for rows that have a body and of ``Elementwise`` (whose body is the scalar
            call for each component). Without it: all rows that have a body, and of ``Elementwise`` where the
            scalar row has one, or where a vector or matrix is large.
        native: Functions of the extension take the place of bodies where there are any. Otherwise bodies take theirs.
    """
    return rewrite(f, _Expander(only, native))


@functools.lru_cache(maxsize=1024)
def outlined(fn: str, types: tuple[Type, ...]) -> Function:
    """Return the function of an outlined builtin, ready for a backend."""
    f = clone_function(function_of(fn, types))
    expand(f)
    fold(f)
    cse(f)
    dce(f)
    return f


def is_lowered(o: ops.Apply) -> bool:
    """Return whether backends lower a call: its row has no body, nor has that of its components."""
    types = tuple(lane_type(v.type) for v in o.args)
    lower = resolve(o.fn, types).overload.lower
    return body_of(lower) is None and not (isinstance(lower, Elementwise) and _has_scalar_body(lower, types))


def _has_scalar_body(lower: Elementwise, types: tuple[Type, ...]) -> bool:
    scalars = [scalar_of(t) for t in types]
    scalar = resolve(lower.scalar, [s for s in scalars if s is not None]).overload
    return body_of(scalar.lower) is not None


def _is_large_choice(o: ops.Apply | ops.Search) -> bool:
    return o.fn == "where" and is_large(o.result.type) and o.args[0].type == bool_


def has_components(arg: Value, result: Value) -> bool:
    """Return whether an argument of an ``Elementwise`` call has a component, or element, for each one of the result."""
    return isinstance(arg.type, Tile) if isinstance(result.type, Tile) else not isinstance(arg.type, Scalar)


def loop_over_components(b: Emitter, scalar: str, result: Value, args: Sequence[Value]) -> Value:
    """Apply ``scalar`` to the components, or elements, one after the other, to make a value like ``result``."""

    def component(index: Index) -> Value:
        parts = [b.extract(a, *index) if has_components(a, result) else a for a in args]
        return cast(Value, b.apply(scalar, *parts))

    return tabulate(b, result.type, component)


class _Expander(Rewriter):
    def __init__(self, only: Callable[[Overload], bool] | None, native: bool) -> None:
        super().__init__()
        self.only = only
        self.native = native

    def visit(self, o: Op) -> None:
        if not isinstance(o, ops.Apply | ops.Search) or (isinstance(o, ops.Search) and self.native):
            super().visit(o)
            return
        types = tuple(v.type for v in o.args)
        row = resolve(o.fn, types).overload
        lower = row.lower
        body = body_of(lower)
        if o.fn in OUTLINED and self.only is None:
            self.outline(o, types)
        elif self.native and isinstance(lower, Inline) and lower.native:
            self.emit(o, lambda *args: self.b.insert(ops.Search(o.fn, args), o.result.type).result)
        elif body is not None and (self.only is None or self.only(row)):
            self.emit(o, lambda *args: body.body(self.b, *args))
        elif _is_large_choice(o) and self.only is None:
            self.emit(o, lambda *args: loop_over_components(self.b, "where", o.result, args))
        elif isinstance(lower, Elementwise) and self.wants_components(row, lower, types):
            self.emit(o, lambda *args: self.components(o, lower.scalar, args))
        else:
            self.keep(o)

    def outline(self, o: ops.Apply | ops.Search, types: tuple[Type, ...]) -> None:
        """Call the function that all calls share; what it calls in turn has to be expanded, too."""
        callee = outlined(o.fn, types)
        self.emit(o, lambda *args: self.b.insert(ops.Outlined(callee, args), *callee.results).results)

    def wants_components(self, row: Overload, lower: Elementwise, types: tuple[Type, ...]) -> bool:
        large = any(map(is_large, types))
        if self.only is not None:
            return self.only(row) or (large and row.adjoint is None)
        return large or _has_scalar_body(lower, types)

    def components(self, o: ops.Apply | ops.Search, scalar: str, args: tuple[Value, ...]) -> Value:
        if is_large(o.result.type):
            return loop_over_components(self.b, scalar, o.result, args)
        whole = next(a for a in args if not isinstance(a.type, Scalar))
        count = element_count(whole.type)
        columns = [[a] * count if isinstance(a.type, Scalar) else self.b.components(a) for a in args]
        return self.b.make(o.result.type, [self.b.apply(scalar, *row) for row in zip(*columns, strict=True)])

    def emit(self, o: ops.Apply | ops.Search, body: Callable[..., Value | tuple[Value, ...] | None]) -> None:
        with at(o.loc), self.b.into(Block()) as made:
            got = body(*o.args)
        self.splice(made.ops)  # a body may call rows that have bodies themselves
        results = () if got is None else (got,) if isinstance(got, Value) else got
        self.replace(o, [self.value(v) for v in results])
