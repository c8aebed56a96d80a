"""Replace calls of user functions by their bodies.

Afterwards a function holds no ``Call``. The location of every inlined op ends in the chain of its callers, so
that a message about it shows the way from the kernel.
"""

from __future__ import annotations

from warp_like.base.errors import WarpCodegenError
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op
from warp_like.ir.rewrite import Cloner
from warp_like.passes.rewriter import Rewriter, rewrite


def inline(f: Function) -> Function:
    """Inline every call in ``f``, nested ones too; callees stay as they are.

    Raises:
        WarpCodegenError: A function calls itself, directly or through others.
    """
    return rewrite(f, _Inliner())


class _Inliner(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.active: list[Function] = []

    def visit(self, o: Op) -> None:
        if isinstance(o, ops.Call):
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
