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

from warp_like.builtins.explain import Call, explain
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
        self._expected: dict[str, tuple[str, ...]] = {}

    def expect(self, modules: Mapping[str, tuple[str, ...]]) -> None:
        """Import each of ``modules`` when a name is asked for that begins like one of its names."""
        self._expected.update(modules)

    def _load(self, name: str) -> None:
        """Import what may declare ``name``; all modules for the name of a row that only the bodies of others use."""
        hidden = name.startswith("_") and name not in self.declared
        for module, beginnings in tuple(self._expected.items()):
            if hidden or name.startswith(beginnings):
                importlib.import_module(module)  # another thread that imports it is waited for
                self._expected.pop(module, None)

    def _load_all(self) -> None:
        for module in tuple(self._expected):
            importlib.import_module(module)
            self._expected.pop(module, None)

    def __getitem__(self, name: str) -> list[Overload]:
        if self._expected:
            self._load(name)
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
    if isinstance(row.lower, Cooperative) and row.lower.meets:
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
        call = Call(name, tuple(args), tuple(REGISTRY[name]), symbol, tuple(texts) if texts is not None else None)
        raise explain(call) from None


@functools.cache
def may_call_library(name: str) -> bool:
    """Return whether a row of builtin ``name`` is a function of the math library without an intrinsic of LLVM's."""
    return any(isinstance(row.lower, Symbol) and not row.lower.llvm for row in REGISTRY[name])


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
    for row in REGISTRY[name]:
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
    rows = REGISTRY[name]
    for row in rows:
        bound = _bind(row, args, keywords)
        if bound is not None:
            return bound
    if not keywords:
        return list(args)  # a wrong number of them: resolve() says so
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
