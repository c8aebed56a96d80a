"""Names that the body of a loop may be the first to assign, and that outlive an iteration.

Their type is known only when the body has assigned them. So the loop carries them, as further block parameters, from
the moment on at which somebody needs what the last iteration left.
"""

from __future__ import annotations

from warp_like.base.loc import current_loc
from warp_like.builtins.emit import Emitter
from warp_like.frontend.operands import Operand, flatten, rebuild, same_shape
from warp_like.frontend.scope import Entry, Unassigned, Variable, as_bool, changed, held_elsewhere
from warp_like.ir.core import Block, Value
from warp_like.ir.types import bool_


class FromLastIteration(Unassigned):
    """A name at the start of an iteration.

    Args:
        name: The name.
        outer: What it is before the loop.
        before: The block that the loop stands in.

    Attributes:
        inside: The variable that stands for it in the body, from when the loop carries it on.
        initial: Its values before the first iteration, and whether they were assigned.
        is_read: Whether it is read where not all paths assign it.
        always_left: Whether each iteration ends with a value assigned to it.
    """

    def __init__(self, name: str, outer: Entry | None, before: Block) -> None:
        super().__init__(held_elsewhere(outer))
        self.name = name
        self.inside: Variable | None = None
        self.initial: list[Value] = []
        self.is_read = False
        self.always_left = False
        self._outer = outer
        self._before = before

    def variable(self, b: Emitter, like: Operand) -> Variable | None:
        """Return the variable that the name is at the start of an iteration; None if it is one of other types."""
        if self.inside is None and flatten(like):
            with b.into(self._before):
                self.initial = self._values_before(b, like)
            loc = self._outer.loc if isinstance(self._outer, Variable) else current_loc()
            self.inside = fresh(self.name, Variable(like, loc))
        return self.inside if self.inside is not None and same_shape(self.inside.value, like) else None

    def _values_before(self, b: Emitter, like: Operand) -> list[Value]:
        outer = self._outer
        held = outer.variable(b, like) if isinstance(outer, Unassigned) else outer
        if not isinstance(held, Variable) or not same_shape(held.value, like):
            held = Unassigned().variable(b, like)
            assert held is not None
        return [*flatten(held.value), as_bool(b, held.assigned)]

    def left(self, b: Emitter, last: Entry | None) -> list[Value]:
        """Return what an iteration leaves, where the name is ``last`` at its end.

        Raises:
            WarpCodegenTypeError: It has another type there, and the next iteration reads it.
        """
        assert self.inside is not None
        if isinstance(last, Variable) and same_shape(last.value, self.inside.value):
            self.always_left = last.assigned is True
            return [*flatten(last.value), as_bool(b, last.assigned)]
        if isinstance(last, Variable) and self.is_read:
            raise changed(self.name, self.inside, last.value, last.loc)
        return values_of(self.inside)


def fresh(name: str, like: Variable) -> Variable:
    """Return a variable of the types of ``like``, of new values."""
    values = [Value(v.type, name) for v in flatten(like.value)]
    return Variable(rebuild(like.value, list(values)), like.loc, Value(bool_, f"{name}_is_assigned"))


def values_of(variable: Variable) -> list[Value]:
    """Return the values that a loop carries for a variable that some paths alone assign."""
    assert isinstance(variable.assigned, Value)
    return [*flatten(variable.value), variable.assigned]
