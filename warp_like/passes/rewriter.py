"""What passes are built from: a forward walk that rebuilds blocks, and pruning of carried values.

A pass visits ops in order, so the operands of an op are final when the op is visited. What a pass replaces
goes into ``mapping`` and is looked up for every later operand; nothing is ever patched behind the walk.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value


class Rewriter:
    """Walks a function and rebuilds its blocks in place; a subclass overrides ``visit`` for what it changes.

    ``b`` emits at the place that is being rebuilt.
    """

    def __init__(self) -> None:
        self.mapping: dict[Value, Value] = {}
        self.b = Emitter(Block())

    def value(self, v: Value) -> Value:
        """What stands for ``v`` from here on."""
        return self.mapping.get(v, v)

    @property
    def maps_alone(self) -> bool:
        """Whether ``value`` gives what ``mapping`` holds and nothing else, as long as one block is rebuilt."""
        return type(self).value is Rewriter.value

    def block(self, block: Block) -> None:
        """Rebuild ``block``."""
        with self.b.into(Block()) as out:
            self.splice(block.ops)
        block.ops = out.ops

    def splice(self, sequence: Sequence[Op]) -> None:
        """Visit ``sequence`` at the current place."""
        if not self.maps_alone:
            for o in sequence:
                o.map_operands(self.value)
                self.visit(o)
            return
        mapping, visit = self.mapping, self.visit
        for o in sequence:
            if mapping:
                o.replace_operands(mapping)
            visit(o)

    def visit(self, o: Op) -> None:
        """Keep ``o``, whose operands are final, or emit others and replace its results."""
        if o._REGIONS:
            for r in o.regions():
                self.block(r)
        self.b.block.ops.append(o)

    def keep(self, o: Op) -> None:
        """Put ``o`` at the current place."""
        self.b.block.ops.append(o)

    def replace(self, o: Op, values: Sequence[Value]) -> None:
        """Let ``values`` stand for the results of ``o``."""
        self.mapping.update(zip(o.results, values, strict=True))


def rewrite(f: Function, rewriter: Rewriter) -> Function:
    """Rebuild the body of ``f`` in place; returns ``f``."""
    rewriter.block(f.body)
    return f


def prune_results(o: Op, kept: Sequence[bool]) -> None:
    """Drop results of an ``If``, carried values of a ``For`` or ``While``, that are not ``kept``."""
    if all(kept):
        return

    def pick(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(v for v, keep in zip(values, kept, strict=True) if keep)

    o.results = pick(o.results)
    match o:
        case ops.If():
            yields = [r.ops[-1] for r in o.regions()]
        case ops.For():
            o.init = pick(o.init)
            o.body.params = [o.body.params[0], *pick(o.body.params[1:])]
            yields = [o.body.ops[-1]]
        case ops.While():
            o.init = pick(o.init)
            for r in o.regions():
                r.params = list(pick(r.params))
            yields = [o.body.ops[-1]]
        case _:
            raise TypeError(f"{o.NAME} carries no values")
    for y in yields:
        assert isinstance(y, ops.Yield)
        y.values = pick(y.values)
