"""Operands: the forms of an expression of kernel code while it is being built.

* ``ir.Value``: something that the kernel computes.
* ``Literal``: a number whose type its use decides. Constants stay literals until an op needs them.
* ``tuple``: several of these.
* ``Host``: a Python object that only the compiler sees: a function, a type, a module, text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.patterns import Literal
from warp_like.frontend.host import Host, not_a_value
from warp_like.ir.core import Value
from warp_like.ir.types import Type

Operand = Value | Literal | tuple[Any, ...] | Host

ArgumentType = Type | Host | tuple[Any, ...]
"""What a user function is built for: for each argument its type, the Python object that it is, or a tuple of these."""


class Extents(tuple[Value, ...]):
    """The ``shape`` of an array of ``len(self)`` dimensions: beyond these its entries are 0, up to the fourth."""

    ENTRIES = 4


NOTHING: tuple[Any, ...] = ()
"""The result of a call that returns nothing."""


def describe(operand: Operand) -> str:
    """Return what ``operand`` is, for messages."""
    match operand:
        case Value():
            return str(operand.type)
        case Literal():
            return str(operand)
        case ():
            return "a call without a result"
        case tuple():
            return f"a tuple of {len(operand)}"
        case Host():
            return f"`{operand.text}`"
    raise AssertionError(operand)


def type_of(operand: Operand) -> Type | Literal | None:
    """Return what a signature is matched against; None where ``operand`` has no type."""
    if isinstance(operand, Value):
        return operand.type
    return operand if isinstance(operand, Literal) else None


def flatten(operand: Operand) -> list[Value]:
    """Return the values that ``operand`` holds, in order."""
    if isinstance(operand, Value):
        return [operand]
    if isinstance(operand, tuple):
        return [v for part in operand for v in flatten(part)]
    return []


Nesting = tuple[Any, ...] | None
"""Where values stand in nested tuples: None for a value, and a tuple of these for a tuple."""


def nesting_of(operand: Operand) -> Nesting:
    """Return where the values of ``operand`` stand; the result of a call that returns nothing counts as one."""
    return tuple(map(nesting_of, operand)) if isinstance(operand, tuple) and operand else None


def leaves(operand: Operand) -> list[Operand]:
    """Return what stands in ``operand`` where ``nesting_of`` has a value, in order."""
    return [o for part in operand for o in leaves(part)] if isinstance(operand, tuple) and operand else [operand]


def nested(nesting: Nesting, values: list[Value]) -> Operand:
    """Return values in tuples as ``nesting`` says, taken from the front of ``values``."""
    return values.pop(0) if nesting is None else tuple(nested(part, values) for part in nesting)


def rebuild(operand: Operand, replacements: list[Value]) -> Operand:
    """Return ``operand`` with its values replaced, taking them from the front of ``replacements``."""
    if isinstance(operand, Value):
        return replacements.pop(0)
    if isinstance(operand, tuple):
        return type(operand)(rebuild(part, replacements) for part in operand)
    return operand


def same_shape(a: Operand, b: Operand) -> bool:
    """Return whether two operands hold values of the same types in the same structure."""
    if isinstance(a, Value) and isinstance(b, Value):
        return a.type == b.type
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_shape, a, b))
    if isinstance(a, Host) and isinstance(b, Host):
        return a.obj is b.obj
    return isinstance(a, Literal) and a == b


def require_value_kind(
    operand: Operand, help: Callable[[tuple[Any, ...]], str | None] | None = None
) -> Value | Literal:
    """Return ``operand`` where it is a number or another value; ``help`` gives advice on a tuple.

    Raises:
        WarpCodegenTypeError: It is a tuple, a function, a type or a module.
    """
    if isinstance(operand, (Value, Literal)):
        return operand
    if isinstance(operand, Host):
        raise not_a_value(operand)
    raise WarpCodegenTypeError(
        f"expected a value, got {describe(operand)}", help=help(operand) if help is not None else None
    )
