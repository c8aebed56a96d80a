"""Replace calls of user functions by their bodies.

Afterwards a function holds no ``Call`` but those that are to be kept. The location of every inlined op ends in the
chain of its callers, so that a message about it shows the way from the kernel.

Relies on nothing. A call of a function with a gradient or replay of its own is kept where the caller asks for that.

Before::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = call square(%1) : float32
      store %x[%0], %2
      yield
    }

After::

    kernel k(%x: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      store %x[%0], %2
      yield
    }
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.base.errors import WarpCodegenError
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op
from warp_like.ir.rewrite import Cloner, has_op
from warp_like.passes.rewriter import Rewriter, rewrite


def is_custom(f: Function) -> bool:
    """Return whether the user gave ``f`` a gradient or a replay function: differentiation starts with its calls."""
    return f.gradient is not None or f.replay is not None


def inline(f: Function, keep: Callable[[Function], bool] | None = None) -> Function:
    """Inline every call in ``f``, nested ones too, but those of callees to ``keep``; callees stay as they are.

    Raises:
        WarpCodegenError: A function calls itself, directly or through others.
    """
    return rewrite(f, _Inliner(keep)) if has_op(f, ops.Call) else f


class _Inliner(Rewriter):
    def __init__(self, keep: Callable[[Function], bool] | None) -> None:
        super().__init__()
        self.is_kept = keep
        self.active: list[Function] = []

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Call) and not (self.is_kept is not None and self.is_kept(o.callee)):
            self.call(o)
        else:
            super().visit(o)

    def call(self, o: ops.Call) -> None:
        if o.callee in self.active:
            raise WarpCodegenError(f"function `{o.callee.name}` calls itself, which kernels can't do", o.loc)
        cloner = Cloner(dict(zip(o.callee.params, o.args, strict=True)))
        body = Block()
        body.ops = [cloner.op(inner) for inner in o.callee.body.ops]
        for inner in body.walk():
            inner.loc = o.loc if inner.loc is None else inner.loc.called_from(o.loc)
        self.active.append(o.callee)
        self.splice(body.ops[:-1])
        self.active.pop()
        self.replace(o, [self.value(v) for v in body.yielded])
