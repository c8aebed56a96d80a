"""The names of a function while it is being built.

A variable has one type from its first assignment to the end of the function; outside of branches and loops alone, an
array may take the place of one with other dimensions. Where some paths alone assign it, its
value on the others is zero, and it may get another type later. A name that stands for different functions or types,
depending on the path, stays in the scope as ``Unbound`` with the reason, which is told when the name is read.
"""

from __future__ import annotations

from warp_like.base.errors import WarpCodegenKeyError, WarpCodegenTypeError
from warp_like.base.loc import Loc
from warp_like.builtins.emit import Emitter
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Operand, describe, flatten, rebuild, same_shape
from warp_like.frontend.tile_views import TileView
from warp_like.ir.core import Value
from warp_like.ir.types import Array, bool_


class Variable:
    """A name with its current value. It is not changed: another value is another ``Variable``.

    Attributes:
        value: The value.
        loc: Where it got its type, None for a parameter.
        assigned: Whether a path led here that assigns it: True on every path, False on none, or a bool of the kernel.
        is_loose: Its next assignment may change its type, as it is left from another iteration of an unrolled loop.
    """

    __slots__ = ("assigned", "is_loose", "loc", "value")

    def __init__(self, value: Operand, loc: Loc | None, assigned: bool | Value = True, is_loose: bool = False) -> None:
        self.value = value
        self.loc = loc
        self.assigned = assigned
        self.is_loose = is_loose

    @property
    def keeps_type(self) -> bool:
        """Whether all that is assigned to it later has its type."""
        return self.assigned is True and not self.is_loose


class Unbound:
    """A name that can't be read here; ``like`` is what it holds elsewhere, where that is known."""

    __slots__ = ("help", "like", "reason")

    def __init__(self, reason: str, help: str | None = None, like: Operand | None = None) -> None:
        self.reason = reason
        self.help = help
        self.like = like


def as_bool(b: Emitter, assigned: bool | Value) -> Value:
    """Return whether a variable is assigned as a bool of the kernel."""
    return b.constant(assigned, bool_) if isinstance(assigned, bool) else assigned


class Unassigned:
    """A name that no path assigns which leads here, though the function assigns it.

    Attributes:
        like: What it holds elsewhere, once that is known.
    """

    def __init__(self, like: Operand | None = None) -> None:
        self.like = like

    def variable(self, b: Emitter, like: Operand) -> Variable | None:
        """Return the variable that it is here, of the types of ``like``; None where that can't be."""
        zeros = [b.zero(v.type) for v in flatten(like)]
        return Variable(rebuild(like, zeros), None, assigned=False) if zeros else None


Entry = Variable | Unassigned | Unbound
"""What a scope holds of a name."""


def held_elsewhere(entry: Entry | None) -> Operand | None:
    """Return what a name with this entry holds on paths that assign it; None if that is unknown, or no value."""
    like = entry.value if isinstance(entry, Variable) else entry.like if entry is not None else None
    return like if like is not None and flatten(like) else None


class Scope:
    """Names at one point of a function; each branch has a copy, so that it can't change what others see.

    Attributes:
        names: What each name holds.
        is_inner: Whether it is that of a branch or a loop, whose names are merged with those around it.
    """

    def __init__(self, names: dict[str, Entry] | None = None, is_inner: bool = False) -> None:
        self.names = names if names is not None else {}
        self.is_inner = is_inner

    def copy(self) -> Scope:
        """Return an independent copy."""
        return Scope(dict(self.names), is_inner=True)

    def variable(self, name: str) -> Variable | None:
        """Return the variable of this name where it can be read."""
        found = self.names.get(name)
        return found if isinstance(found, Variable) else None

    def bind(self, name: str, value: Operand, loc: Loc | None) -> None:
        """Assign ``value`` to ``name``.

        Raises:
            WarpCodegenTypeError: The variable has another type already.
        """
        old = self.variable(name)
        if old is not None and not isinstance(old.value, Host) and not same_shape(old.value, value):
            if _is_part_of_tile(value, old.value) and not self.is_inner:
                self.names[name] = Variable(value, loc)
                return
            if old.keeps_type and (self.is_inner or not _both_arrays(old.value, value)):
                raise changed(name, old, value, loc)
            old = None
        self.names[name] = Variable(value, loc if old is None else old.loc)

    def replace(self, name: str, value: Operand) -> None:
        """Give a variable another value of the same type."""
        old = self.variable(name)
        assert old is not None
        self.names[name] = Variable(value, old.loc)


def changed(name: str, old: Variable, value: Operand, loc: Loc | None) -> WarpCodegenTypeError:
    """Return the error for a variable that would get a value of another type."""
    where = f"since line {old.loc.line}" if old.loc is not None else "as a parameter"
    now = f" in line {loc.line}" if loc is not None else ""
    array = isinstance(value, Value) and isinstance(value.type, Array)
    if isinstance(value, TileView) and _is_part_of_tile(value, old.value):
        return WarpCodegenTypeError(
            f"`{name}` is {_a(describe(old.value))} {where} and can't become a part of the tile in `{value.root}`"
            f"{now}, in a loop or branch",
            help=f"wp.tile_assign({name}, {value.text}) copies the part; another name can stand for it",
        )
    return WarpCodegenTypeError(
        f"`{name}` is {_a(describe(old.value))} {where} and can't become {_a(describe(value))}{now}: "
        "a variable keeps its type",
        help="use another name"
        if array or isinstance(value, (tuple, Host))
        else f"use another name, or convert to {describe(old.value)}",
    )


def _is_part_of_tile(value: Operand, old: Operand) -> bool:
    """Whether ``value`` is a part of a tile, of the type that the tile ``old`` has."""
    return isinstance(value, TileView) and isinstance(old, Value) and value.type == old.type


def _both_arrays(old: Operand, new: Operand) -> bool:
    return all(isinstance(x, Value) and isinstance(x.type, Array) for x in (old, new))


def _a(text: str) -> str:
    if text.startswith(("`", "a ", "literal")):
        return text
    return f"an {text}" if text.startswith(("int", "array")) else f"a {text}"


def unknown(name: str, known: list[str], otherwise: str | None = None) -> WarpCodegenKeyError:
    """Return the error for a name that means nothing; ``otherwise`` is the help where no known name is similar."""
    if name in REGISTRY:
        return WarpCodegenKeyError(f"`{name}` is not defined", help=f"did you mean `wp.{name}`?")
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, known, n=1) if otherwise is None or len(name) > 2 else []
    return WarpCodegenKeyError(f"`{name}` is not defined", help=f"did you mean `{near[0]}`?" if near else otherwise)
