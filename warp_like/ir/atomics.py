"""The table of atomic updates: one row for each kind, which all floors ask.

A row says what an update does to an element and what may be done with it: with which elements it works, how updates of
several threads are combined before one of them meets the element, whether their order shows, what LLVM calls it, and
its derivative. Nothing else in the package lists kinds; ``docs/recipes/add_an_atomic.md`` adds one.

Rows that need to compute in a kernel hold functions of ``b``, an emitter of builtins. All they do is for one scalar,
since the components of an element are updated each on its own; what only adds may take whole values as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.ir.core import Value
from warp_like.ir.types import FLOATS, Scalar, Type, scalar_of


class Names(Frozen):
    """LLVM's names of an operation by the type of its numbers; empty where it has none."""

    signed: str = ""
    unsigned: str = ""
    floats: str = ""

    def of(self, t: Scalar) -> str:
        """Return the name for numbers of type ``t``."""
        return self.floats if t.is_float else self.signed if t.is_signed else self.unsigned


class AtomicKind(Frozen):
    """A kind of atomic update.

    Attributes:
        name: The kind, as in ``wp.atomic_<name>``.
        does: What it does to an element, for the reference; nothing where there is no builtin made of the row.
        works_on: Whether there is such an update of numbers of a type.
        needs: What it works on, where a message says so.
        operator: The sign of the augmented assignment that is this update.
        new: ``new(b, old, value)`` is the new number; nothing where that is ``value``.
        identity: The ``value`` that changes no number of a type, not even the sign of zero.
        reduction: The kind that combines the values of several threads into one, whose update then does what theirs
            do, one after the other; it reduces lanes, warps and chunks. It may take the values in any order.
        sign: 1 or -1 where it adds or subtracts ``value``: such updates need not be atomic where threads have copies,
            and their derivatives are such updates.
        commutes: Whether updates in any order leave the same number, but for rounding.
        rounds: Whether floats are rounded, so that their order shows.
        takes: Whether it reads the element and leaves ``value`` at one time such that one thread gets what was there:
            of several lanes the last one. The reverse of a store is made of it, and nobody waits for it.
        derivative: ``x`` times the derivative of what all threads leave by ``value``, as ``derivative(b, x)``; with
            ``winners`` as ``derivative(b, value, final, x)``. Nothing where there is none, as the order shows.
        winners: The derivative looks at the element's ``final`` number, when all threads are done.
        gradient: What the reference says of the derivative.
        no_gradient: Why there is none.
        rmw: LLVM's ``atomicrmw``; without a name, a loop around a compare-and-swap does it.
        operation: LLVM's instruction, or an intrinsic as ``llvm.smin``, that gives the new number. Lanes of a vector
            are reduced by what has its name, so what is a ``reduction`` has one. Without it the backend calls ``new``
            where it needs the number, with scalars, and with builtins that it lowers itself.
        redux: The reduction of a warp that CUDA has for 32-bit integers.
        rmw_of_half: Whether CUDA has it for float16; other 16-bit floats compute in float32.
        changes_if: The comparison of ``value`` with the old number that says whether the update changes anything:
            who has no instruction that is as cheap as a look looks first.
    """

    name: str
    works_on: Callable[[Scalar], bool]
    needs: str = ""
    does: str = ""
    operator: str = ""
    new: Callable[[Any, Value, Value], Value] | None = None
    identity: Callable[[Scalar], float] | None = None
    reduction: str = ""
    sign: int = 0
    commutes: bool = False
    rounds: bool = False
    takes: bool = False
    derivative: Callable[..., Value] | None = None
    winners: bool = False
    gradient: str = ""
    no_gradient: str = ""
    rmw: Names = Names()
    operation: Names = Names()
    redux: Names = Names()
    rmw_of_half: bool = False
    changes_if: str = ""

    @property
    def has_floats(self) -> bool:
        """Whether it works on a type of floats."""
        return any(map(self.works_on, FLOATS))

    @property
    def is_exact(self) -> bool:
        """Whether values may be combined in any order and number, and then give the same bits."""
        return self.reduction == self.name and not self.rounds

    def has_order(self, t: Type) -> bool:
        """Return whether the order of updates of elements of type ``t`` shows in what they leave."""
        scalar = scalar_of(t)
        return not self.commutes or (self.rounds and (scalar is None or not scalar.is_int))


KINDS: dict[str, AtomicKind] = {}
"""The rows by name, in the order of the reference."""


def declare(kind: AtomicKind) -> None:
    """Add a row to the table."""
    KINDS[kind.name] = kind


def has_atomic(kind: str, t: Type) -> bool:
    """Return whether elements of type ``t`` have this update."""
    scalar = scalar_of(t)
    return scalar is not None and KINDS[kind].works_on(scalar)


def listed(kinds: Iterable[AtomicKind], word: str) -> str:
    """Return the names of the builtins of ``kinds`` as they stand in a sentence, ``word`` before the last one."""
    *names, last = [f"atomic_{k.name}()" for k in kinds]
    return f"{', '.join(names)} {word} {last}" if names else last


def extremes(word: str) -> str:
    """Return the names of the kinds whose derivative looks at the final number, ``word`` before the last one."""
    return listed((k for k in KINDS.values() if k.winners), word)


# --- what rows are made of --------------------------------------------------------------------------------------

_ELEMENT = "the adjoint of the element"
_WINNER = f"{_ELEMENT} goes to each thread whose `value` is the final one"
_INTEGERS = "integers carry no gradient"
ORDER = "which thread's value stays depends on their order"


def wide_or_float(t: Scalar) -> bool:
    """Return whether ``t`` is of 32 bits or more, or a float."""
    return t.bits >= 32 or t.is_float


def _wide_integer(t: Scalar) -> bool:
    return t.is_int and t.bits >= 32


def _wide(t: Scalar) -> bool:
    return t.bits >= 32


def _zero(t: Scalar) -> float:
    return 0


def _ones(t: Scalar) -> float:
    return -1 if t.is_signed else (1 << t.bits) - 1


def _least(t: Scalar) -> float:
    """The least integer, or NaN: the maximum of NaN and a number is the number, also where that is infinite."""
    return math.nan if t.is_float else -(1 << t.bits - 1) if t.is_signed else 0


def _greatest(t: Scalar) -> float:
    """The greatest integer, or NaN, as for ``_least``."""
    return math.nan if t.is_float else (1 << t.bits - t.is_signed) - 1


def _of_winner(b: Any, value: Value, final: Value, x: Value) -> Value:
    chosen: Value = b.select(b.eq(value, final), x, b.zero(x.type))
    return chosen


def _bits(name: str, what: str, operator: str, identity: Callable[[Scalar], float]) -> AtomicKind:
    """An operation on the bits of integers that LLVM and CUDA call ``name``, and builtins ``bit_<name>``."""
    names = Names(name, name)
    return AtomicKind(
        name,
        _wide_integer,
        "it needs 32- or 64-bit integers",
        does=f"Replace an element of ``arr`` by its {what} with ``value``",
        operator=operator,
        new=lambda b, old, value: b.apply(f"bit_{name}", old, value),
        identity=identity,
        reduction=name,
        commutes=True,
        no_gradient=_INTEGERS,
        rmw=names,
        operation=names,
        redux=names,
    )


# --- the rows ---------------------------------------------------------------------------------------------------

declare(
    AtomicKind(
        "add",
        wide_or_float,
        does="Add ``value`` to an element of ``arr``",
        operator="+",
        new=lambda b, old, value: b.add(old, value),
        identity=lambda t: -0.0 if t.is_float else 0,
        reduction="add",
        sign=1,
        commutes=True,
        rounds=True,
        derivative=lambda b, x: x,
        gradient=f"`adj_value` gets {_ELEMENT}",
        rmw=Names("add", "add", "fadd"),
        operation=Names("add", "add", "fadd"),
        redux=Names("add", "add"),
        rmw_of_half=True,
    )
)
declare(
    AtomicKind(
        "sub",
        wide_or_float,
        does="Subtract ``value`` from an element of ``arr``",
        operator="-",
        new=lambda b, old, value: b.sub(old, value),
        identity=_zero,
        reduction="add",
        sign=-1,
        commutes=True,
        rounds=True,
        derivative=lambda b, x: b.neg(x),
        gradient=f"`adj_value` gets the negative of {_ELEMENT}",
        rmw=Names("sub", "sub"),
        operation=Names("sub", "sub", "fsub"),
    )
)
declare(
    AtomicKind(
        "min",
        wide_or_float,
        does="Replace an element of ``arr`` by the lesser of it and ``value``",
        new=lambda b, old, value: b.min(old, value),
        identity=_greatest,
        reduction="min",
        commutes=True,
        derivative=_of_winner,
        winners=True,
        gradient=_WINNER,
        rmw=Names("min", "umin", "fmin"),
        operation=Names("llvm.smin", "llvm.umin", "llvm.minimumnum"),
        redux=Names("min", "umin"),
        changes_if="lt",
    )
)
declare(
    AtomicKind(
        "max",
        wide_or_float,
        does="Replace an element of ``arr`` by the greater of it and ``value``",
        new=lambda b, old, value: b.max(old, value),
        identity=_least,
        reduction="max",
        commutes=True,
        derivative=_of_winner,
        winners=True,
        gradient=_WINNER,
        rmw=Names("max", "umax", "fmax"),
        operation=Names("llvm.smax", "llvm.umax", "llvm.maximumnum"),
        redux=Names("max", "umax"),
        changes_if="gt",
    )
)
declare(_bits("and", "bit-and", "&", _ones))
declare(_bits("or", "bit-or", "|", _zero))
declare(_bits("xor", "exclusive or", "^", _zero))
declare(
    AtomicKind(
        "exch",
        wide_or_float,
        does="Replace an element of ``arr`` by ``value``",
        no_gradient=ORDER,
        rmw=Names("xchg", "xchg", "xchg"),
    )
)
declare(AtomicKind("cas", _wide, "it needs 32- or 64-bit numbers", no_gradient=ORDER))  # an op of its own
declare(
    AtomicKind(
        "take",
        wide_or_float,
        takes=True,
        no_gradient=ORDER,
        rmw=Names("xchg", "xchg", "xchg"),
    )
)
