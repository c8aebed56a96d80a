"""The names of a function while it is being built.

A variable has one type from its first assignment to the end of the function. A name that is not bound on
every path, or that would need an array chosen at run time, stays in the scope as ``Unbound`` with the reason,
which is told when the name is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from warp_like import values
from warp_like.base.errors import WarpCodegenKeyError, WarpCodegenTypeError
from warp_like.base.loc import Loc
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Operand, describe, same_shape
from warp_like.ir.core import Value
from warp_like.ir.types import Array


@dataclass(frozen=True, eq=False)
class Variable:
    """A name with its current value; ``loc`` is where it got its type, None for a parameter."""

    value: Operand
    loc: Loc | None


@dataclass(frozen=True, eq=False)
class Unbound:
    """A name that can't be read here."""

    reason: str
    help: str | None = None


class Scope:
    """Names at one point of a function; each branch has a copy, so that it can't change what others see."""

    def __init__(self, names: dict[str, Variable | Unbound] | None = None) -> None:
        self.names = names if names is not None else {}

    def copy(self) -> Scope:
        """Return an independent copy."""
        return Scope(dict(self.names))

    def variable(self, name: str) -> Variable | None:
        """Return the variable of this name where it can be read."""
        found = self.names.get(name)
        return found if isinstance(found, Variable) else None

    def read(self, name: str) -> Operand | None:
        """Return the value of ``name``, None where the function does not assign it.

        Raises:
            WarpCodegenKeyError: It is not bound on every path that leads here.
        """
        found = self.names.get(name)
        if isinstance(found, Unbound):
            raise WarpCodegenKeyError(found.reason, help=found.help)
        return found.value if found is not None else None

    def bind(self, name: str, value: Operand, loc: Loc | None) -> None:
        """Assign ``value`` to ``name``.

        Raises:
            WarpCodegenTypeError: The variable has another type already.
        """
        old = self.variable(name)
        if old is None:
            self.names[name] = Variable(value, loc)
            return
        if not isinstance(old.value, Host) and not same_shape(old.value, value):
            raise _changed(name, old, value, loc)
        self.names[name] = Variable(value, old.loc)

    def replace(self, name: str, value: Operand) -> None:
        """Give a variable another value of the same type."""
        old = self.variable(name)
        assert old is not None
        self.names[name] = Variable(value, old.loc)


def _changed(name: str, old: Variable, value: Operand, loc: Loc | None) -> WarpCodegenTypeError:
    where = f"since line {old.loc.line}" if old.loc is not None else "as a parameter"
    now = f" in line {loc.line}" if loc is not None else ""
    array = isinstance(value, Value) and isinstance(value.type, Array)
    return WarpCodegenTypeError(
        f"`{name}` is {_a(describe(old.value))} {where} and can't become {_a(describe(value))}{now}: "
        "a variable keeps its type",
        help="use another name"
        if array or isinstance(value, (tuple, Host))
        else f"use another name, or convert to {describe(old.value)}",
    )


def _a(text: str) -> str:
    if text.startswith(("`", "a ", "literal")):
        return text
    return f"an {text}" if text.startswith(("int", "array")) else f"a {text}"


def unknown(name: str, known: list[str]) -> WarpCodegenKeyError:
    """Return the error for a name that means nothing."""
    if name in values.NAMED or name in REGISTRY:
        return WarpCodegenKeyError(f"`{name}` is not defined", help=f"did you mean `wp.{name}`?")
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, known, n=1)
    return WarpCodegenKeyError(f"`{name}` is not defined", help=f"did you mean `{near[0]}`?" if near else None)
