"""The declaration of builtins and the registry that all later stages read.

A row gives name, signature, documentation, NumPy reference, lowering and adjoint. A call is settled in two steps:
``bind`` puts keyword arguments and defaults in their places, ``resolve`` finds the overload and all types.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from warp_like.builtins.overload import (
    Adjoint,
    Adjoints,
    Cooperative,
    Elementwise,
    Expand,
    Inline,
    Lowering,
    NoGradient,
    NoMatch,
    Overload,
    Resolved,
    Rule,
    Special,
    Symbol,
    Target,
)
from warp_like.builtins.patterns import Argument, Literal
from warp_like.ir.rewrite import MEETING, OUTLINED
from warp_like.ir.types import Lanes, Type, lane_type, scalar_of


class Registry(MutableMapping[str, list[Overload]]):
    """Every row by the builtin's name, in the order in which overloads are tried.

    A name with a leading underscore is no public builtin: the bodies of other rows use it. Modules with further rows
    are imported where a name is asked for that may be theirs; all of them for the list of names.
    """

    def __init__(self) -> None:
        self.declared: dict[str, list[Overload]] = {}
        self._expected: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}

    def expect(self, modules: Mapping[str, str]) -> None:
        """Import each of ``modules``, in this order, when one of its names is asked for; a star ends a beginning."""
        for module, names in modules.items():
            words = names.split()
            beginnings = tuple([word[:-1] for word in words if word.endswith("*")])
            self._expected[module] = frozenset(words), beginnings

    def rows(self, name: str) -> Iterator[Overload]:
        """Iterate over the rows of ``name``, none if there is no such builtin; import what has more when it gets there.

        So an operator on scalars needs no table of quaternions.
        """
        known = self.declared.get(name, [])
        at = 0
        while True:
            for row in known[at:]:
                yield row
                at += 1
            more = self._load_next(name)
            known = self.declared.get(name, [])
            if not more and at == len(known):
                return

    def _load_next(self, name: str) -> bool:
        """Import one module that may declare ``name``, if there is one left; all for a hidden name that none lists."""
        for module, (names, beginnings) in tuple(self._expected.items()):
            if name in names or name.startswith(beginnings):
                self._import(module)
                return True
        if name.startswith("_") and name not in self.declared and self._expected:
            self._load_all()
            return True
        return False

    def _import(self, module: str) -> None:
        importlib.import_module(module)  # another thread that imports it is waited for
        self._expected.pop(module, None)

    def _load_all(self) -> None:
        for module in tuple(self._expected):
            self._import(module)

    def __contains__(self, name: object) -> bool:
        listed = any(name in names for names, _ in self._expected.values())
        return listed or (isinstance(name, str) and next(self.rows(name), None) is not None)

    def __getitem__(self, name: str) -> list[Overload]:
        while self._load_next(name):
            pass
        return self.declared[name]

    def __setitem__(self, name: str, rows: list[Overload]) -> None:
        self.declared[name] = rows

    def __delitem__(self, name: str) -> None:
        del self.declared[name]

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return iter(self.declared)

    def __len__(self) -> int:
        self._load_all()
        return len(self.declared)


REGISTRY = Registry()

ASSIGNING: set[str] = set()
"""The builtins with a row that assigns to its arguments, of those that have been asked for."""

COOPERATIVE: set[str] = set()
"""The builtins with a ``Cooperative`` lowering, of those that have been asked for; all rows of a name are alike."""

_T = TypeVar("_T")


def builtin(
    *,
    group: str,
    lower: Lowering,
    name: str | None = None,
    adjoint: Adjoint = None,
    ref: Callable[..., Any] | None = None,
    assigns: tuple[str, ...] = (),
    example: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare one overload; the decorated function gives parameter names, patterns, result and documentation.

    ``assigns`` names the parameters that a call changes; their new values come last among the results. ``example`` is
    for builtins that only kernels can call: lines of a kernel with an array ``a`` of float32, ``n`` of int32.
    """

    def decorate(signature: Callable[..., Any]) -> Callable[..., Any]:
        special = isinstance(lower, Special)
        hints = signature.__annotations__
        params = _parameters(signature) if special else signature.__code__.co_varnames[: signature.__code__.co_argcount]
        row = Overload(
            name=name or signature.__name__.rstrip("_"),
            group=group,
            params=params,
            patterns=() if special else tuple([hints[p] for p in params]),
            result=None if special else hints.get("return"),
            text=signature.__doc__ or "",
            lower=lower,
            adjoint=adjoint,
            ref=ref,
            defaults=signature.__defaults__ or (),
            assigns=assigns,
            example=example,
        )
        _add(row)
        return signature

    return decorate


def _add(row: Overload) -> None:
    REGISTRY.declared.setdefault(row.name, []).append(row)
    if isinstance(row.lower, Inline) and row.lower.outlined:
        OUTLINED.add(row.name)
    if isinstance(row.lower, Cooperative):
        COOPERATIVE.add(row.name)
        if row.lower.meets:
            MEETING.add(row.name)
    if row.assigns:
        ASSIGNING.add(row.name)


def declare_row(
    name: str, lower: Lowering, params: Mapping[str, Any], result: Any, *, group: str, doc: str, **more: Any
) -> None:
    """Declare a row whose signature is data: ``params`` gives names and patterns, ``more`` is as for ``builtin``.

    For rows that differ in little, and for those that only the bodies of others use.
    """
    special = isinstance(lower, Special)
    patterns, result = ((), None) if special else (tuple(params.values()), result)
    rest = {"adjoint": None, "ref": None, **more}
    _add(Overload(name, group, tuple(params), patterns, result, doc, lower, **rest))


def _parameters(signature: Callable[..., Any]) -> tuple[str, ...]:
    """Parameter names in order, ``*`` before one that takes any number of arguments."""
    code = signature.__code__
    names, count = code.co_varnames, code.co_argcount
    by_name = count + code.co_kwonlyargcount
    several = [f"*{names[by_name]}"] if code.co_flags & inspect.CO_VARARGS else []
    return (*names[:count], *several, *names[count:by_name])


def resolve(
    name: str, args: Sequence[Argument], symbol: str | None = None, texts: Sequence[str] | None = None
) -> Resolved:
    """Return the overload of builtin ``name`` that takes ``args``.

    Args:
        name: The builtin.
        args: Types, or literals that adapt to the other arguments.
        symbol: The operator that the user wrote instead of the name, for messages.
        texts: The source text of each argument, for messages.

    Raises:
        NoMatch: None does.
    """
    try:
        return _resolve(name, tuple(args))
    except NoMatch:
        from warp_like.builtins.explain import Call, explain

        call = Call(name, tuple(args), tuple(REGISTRY[name]), symbol, tuple(texts) if texts is not None else None)
        raise explain(call) from None


@functools.cache
def may_call_library(name: str) -> bool:
    """Return whether a row of builtin ``name`` is a function of the math library without an intrinsic of LLVM's."""
    return any(
        isinstance(row.lower, Symbol) and not row.lower.llvm for row in REGISTRY.declared.get(name) or REGISTRY[name]
    )


def lane_search(name: str, args: Sequence[Type]) -> str:
    """Return the function of the extension that searches for all lanes together; empty where there is none.

    Args:
        name: A builtin with one overload for these arguments.
        args: The types of its arguments, some of them ``Lanes``.
    """
    lower = resolve(name, [lane_type(t) for t in args]).overload.lower
    numbers = (scalar_of(lane_type(t)) for t in args if isinstance(t, Lanes))
    together = isinstance(lower, Inline) and all(t is not None and t.is_float for t in numbers)
    return lower.lanes if isinstance(lower, Inline) and together else ""


@functools.lru_cache(maxsize=512)
def _resolve(name: str, args: tuple[Argument, ...]) -> Resolved:
    literals = [a for a in args if isinstance(a, Literal)]
    if literals and len(literals) == len(
        args
    ):  # nothing to adapt to: abs(-3) is an int although abs takes floats first
        with contextlib.suppress(NoMatch):
            return _resolve(name, tuple(a.default for a in literals))
    for row in REGISTRY.rows(name):
        if isinstance(row.lower, Special):
            raise TypeError(f"{name}() is built by the frontend and has no overloads to resolve")
        if len(args) == len(row.params):
            got = row.match(args)
            if isinstance(got, Resolved):
                return got
    raise NoMatch(name)


def bind(name: str, args: Sequence[_T], keywords: Mapping[str, _T]) -> list[_T | Literal]:
    """Return the positional arguments of a call: keywords put in place, left out ones as literals of their defaults.

    Raises:
        NoMatch: No overload has these arguments by name and number.
    """
    for row in REGISTRY.rows(name):
        bound = _bind(row, args, keywords)
        if bound is not None:
            return bound
    if not keywords:
        return list(args)  # a wrong number of them: resolve() says so
    rows = REGISTRY[name]
    takes = " or ".join(dict.fromkeys(r.signature() for r in rows))
    known = {p for r in rows for p in r.params}
    for keyword in keywords:
        if keyword not in known:
            raise NoMatch(f"{name}() has no argument `{keyword}`", takes)
    given = ", ".join([f"{len(args)} by position"] * bool(args) + [f"`{k}`" for k in keywords])
    raise NoMatch(f"{name}() has no form with these arguments: {given}", takes)


def _bind(row: Overload, args: Sequence[_T], keywords: Mapping[str, _T]) -> list[_T | Literal] | None:
    bound: list[_T | Literal] = list(args)
    first = len(row.params) - len(row.defaults)
    for i, param in list(enumerate(row.params))[len(args) :]:
        if param in keywords:
            bound.append(keywords[param])
        elif i >= first:
            bound.append(Literal(row.defaults[i - first]))
        else:
            return None
    rest = set(keywords) - set(row.params[len(args) :])
    return bound if not rest and len(bound) == len(row.params) else None


__all__ = [
    "ASSIGNING",
    "COOPERATIVE",
    "REGISTRY",
    "Adjoint",
    "Adjoints",
    "Cooperative",
    "Elementwise",
    "Expand",
    "Inline",
    "Lowering",
    "NoGradient",
    "NoMatch",
    "Overload",
    "Registry",
    "Resolved",
    "Rule",
    "Special",
    "Symbol",
    "Target",
    "bind",
    "builtin",
    "declare_row",
    "lane_search",
    "may_call_library",
    "resolve",
]
