"""The typed emitter: a builder that can call builtins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like.builtins.patterns import Literal
from warp_like.builtins.spec import REGISTRY, resolve
from warp_like.ir import ops
from warp_like.ir.builder import Builder
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Mat, Scalar, Struct, Type, Vec, element_count


def scalar_type(v: Value) -> Scalar:
    """The type of ``v``, which is a scalar."""
    assert isinstance(v.type, Scalar), v
    return v.type


def vec_type(v: Value) -> Vec:
    """The type of ``v``, which is a vector."""
    assert isinstance(v.type, Vec), v
    return v.type


def mat_type(v: Value) -> Mat:
    """The type of ``v``, which is a matrix."""
    assert isinstance(v.type, Mat), v
    return v.type


class Emitter(Builder):
    """A builder with a method for every builtin: ``b.sin(x)``, ``b.mul(x, 2.0)``.

    Numbers adapt to the types of the other arguments. A builtin of several results is called with ``apply``.
    """

    def apply(self, name: str, *args: Value | float) -> Any:
        """Call builtin ``name``; returns the result, a tuple of several, or None."""
        resolved = resolve(name, [a.type if isinstance(a, Value) else Literal(a) for a in args])
        values = []
        for a, t in zip(args, resolved.args, strict=True):
            values.append(a if isinstance(a, Value) else self.constant(a, t))
        results = self.insert(ops.Apply(name, tuple(values)), *resolved.results).results
        if not results:
            return None
        return results[0] if len(results) == 1 else results

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name.startswith("__") or name not in REGISTRY:
            raise AttributeError(name)
        return functools.partial(self.apply, name)

    def zero(self, type: Type) -> Value:
        """The zero of any value type; that of a struct has all fields zero."""
        if isinstance(type, Struct):
            return self.insert(ops.Make(tuple(self.zero(t) for _, t in type.fields)), type).result
        return super().zero(type)

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        """``a`` where ``cond``, else ``b``; both are computed."""
        got: Value = self.apply("where", cond, a, b)
        return got

    def splat(self, x: Value, like: Value) -> Value:
        """``x`` repeated over the components of ``like``; ``x`` itself when ``like`` is a scalar."""
        if isinstance(like.type, Scalar):
            return x
        return self.make(like.type, [x] * element_count(like.type))

    def branch(self, cond: Value, then: Any, orelse: Any) -> Any:
        """Build an ``If`` whose branches are the functions ``then()`` and ``orelse()``, each returning one value."""
        blocks = []
        for fn in (then, orelse):
            with self.into(Block()) as block:
                self.yield_(fn())
            blocks.append(block)
        return self.if_(cond, *blocks)[0]
