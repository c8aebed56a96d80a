"""Everything outside of its own text that a kernel depends on: what its cache key needs besides a signature.

Whatever the frontend may ask about a name, the description recorded here must change when the answer does.
The frontend only follows names, attributes of Python objects and constant items of tuples, lists and dicts;
objects reached in other ways (through a local variable, say) are refused when the kernel is built.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from warp_like import values
from warp_like.base.errors import WarpCodegenError
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.function import Function, Overload
from warp_like.frontend.host import USER_OPERATORS, GradientOf, builtin_name, number
from warp_like.frontend.source import MISSING, Source
from warp_like.values.struct import StructInstance

Dotted = tuple[str, ...]
"""A name and the attributes taken of it: ``a.b.c``."""


class References(NamedTuple):
    """What the text of a definition mentions; it follows from the text alone.

    Attributes:
        function: The name of the function.
        params: The names of its parameters.
        names: The names in it that are not its own.
        callees: The names in it that are called; ``wp.static`` is among them where it is used.
    """

    function: str
    params: tuple[str, ...]
    names: tuple[Dotted, ...]
    callees: tuple[Dotted, ...]

    def fit(self, source: Source) -> bool:
        """Return whether they can be those of ``source``: its file may have changed since it was run."""
        return self.function == source.name and self.params == source.params


def references(source: Source) -> References:
    """Return what a definition mentions, from its syntax tree.

    Raises:
        WarpCodegenError: The text is not that of the function.
    """
    return References(source.name, source.params, _names(source.node), _callees(source.node))


def reachable(
    source: Source, find: Callable[[Source], References] = references, places: bool = False
) -> list[tuple[str, str]]:
    """Return what the kernel's code refers to, as pairs of a name and a text that says what it means now.

    The texts of user functions are included, and what they refer to in turn. ``find`` may know references from before.
    With ``places`` it is also told where they stand, as it is of those whose compiled code names its lines anyway.
    """
    walker = _Walker(find, places)
    walker.source("", source)
    return walker.found


def sources(source: Source) -> list[Source]:
    """Return the definition and all others that its code refers to.

    Raises:
        WarpCodegenError: A text is not that of its function.
    """
    walker = _Walker(references, places=False)
    walker.source("", source)
    return walker.sources


def _names(node: ast.FunctionDef) -> tuple[Dotted, ...]:
    """The dotted names in a definition; in its body only those that are not local to it."""
    from warp_like.frontend.statics import local_names

    local = local_names(node)
    found = dict.fromkeys(parts for s in node.body for parts in _dotted(s) if parts[0] not in local)
    a = node.args
    for outside in [*a.defaults, *(d for d in a.kw_defaults if d is not None), *_annotations(node)]:
        found.update(dict.fromkeys(_dotted(outside)))
    return tuple(found)


def _annotations(node: ast.FunctionDef) -> list[ast.expr]:
    a = node.args
    given = [p.annotation for p in [*a.posonlyargs, *a.args, *a.kwonlyargs]] + [node.returns]
    return [g for g in given if g is not None]


def _dotted(root: ast.AST) -> Iterator[tuple[str, ...]]:
    """The names in ``root`` with the attributes taken of them, ``a.b.c`` as one."""
    stack = [root]
    while stack:
        node = stack.pop()
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            yield (base.id, *reversed(parts))
        else:
            stack.extend(ast.iter_child_nodes(node))


def _callee(call: ast.Call) -> Dotted | None:
    return next(_dotted(call.func), None) if isinstance(call.func, (ast.Name, ast.Attribute)) else None


def _callees(node: ast.FunctionDef) -> tuple[Dotted, ...]:
    calls = (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Call))
    return tuple({callee: None for call in calls if (callee := _callee(call)) is not None})


def _is_static(source: Source, callee: Dotted) -> bool:
    return builtin_name(_follow(source.resolve(callee[0]), callee[1:])[0]) == "static"


class _Walker:
    def __init__(self, find: Callable[[Source], References], places: bool) -> None:
        self.find = find
        self.places = places
        self.found: list[tuple[str, str]] = []
        self.sources: list[Source] = []
        self.seen: set[int] = set()

    def source(self, prefix: str, source: Source) -> None:
        """Record what a definition refers to."""
        self.sources.append(source)
        if self.places or "expect_" in source.text:
            self.found.append((f"{prefix}place", f"{source.file}:{source.first_line}"))
        if "return" in source.annotations:
            self.found.append((f"{prefix}return", _annotation_text(source.annotations["return"])))
        for name in source.defined(USER_OPERATORS):
            if isinstance(function := source.resolve(name), Function):  # which operators on structs mean
                self.object(f"{prefix}operator {name}", function)
        mentioned = self.find(source)
        for parts in mentioned.names:
            self.dotted(prefix, source, parts)
        if any(_is_static(source, callee) for callee in mentioned.callees):
            self.statics(prefix, source)

    def dotted(self, prefix: str, source: Source, parts: tuple[str, ...]) -> None:
        """Record what a dotted name means, attribute by attribute as far as they lead."""
        obj, used = _follow(source.resolve(parts[0]), parts[1:])
        self.object(f"{prefix}{'.'.join(parts[: 1 + used])}", obj)

    def statics(self, prefix: str, source: Source) -> None:
        """Record the values of the expressions of ``wp.static``, which loops around them may give names to."""
        from warp_like.frontend.statics import values_of

        calls = [n for s in source.node.body for n in ast.walk(s) if isinstance(n, ast.Call)]
        calls.sort(
            key=lambda n: (n.lineno, n.col_offset)
        )  # in which expressions with effects are meant to be evaluated
        for callee, argument in ((_callee(call), call.args[0]) for call in calls if len(call.args) == 1):
            if callee is None or not _is_static(source, callee):
                continue
            name = f"{prefix}static({ast.unparse(argument)})"
            try:
                for value in values_of(source, argument):
                    self.object(name, value)
            except WarpCodegenError as error:
                self.object(name, error.reason)

    def object(self, name: str, obj: Any) -> None:
        """Record one object."""
        if isinstance(obj, Function):
            self.found.append((name, f"func {obj.qualname}"))
            for k, overload in enumerate(obj.overloads):
                self.overload(f"{name}#{k}.", overload)
        elif isinstance(obj, GradientOf):
            self.found.append((name, "gradient"))
            self.object(f"{name}.of", obj.function)
        elif isinstance(obj, (tuple, list, range)):
            self.found.append((name, f"{type(obj).__name__} of {len(obj)}"))
            for k, part in enumerate(obj):
                self.object(f"{name}[{k}]", part)
        elif isinstance(obj, dict):
            self.found.append((name, f"dict of {len(obj)}"))
            for key, part in obj.items():
                self.object(f"{name}[{key!r}]", part)
        else:
            self.found.append((name, describe(obj)))

    def overload(self, prefix: str, overload: Overload) -> None:
        """Record one definition of a user function, once."""
        if id(overload) in self.seen:
            self.found.append((prefix, "as above"))
            return
        self.seen.add(id(overload))
        try:
            source = overload.source
            self.found.append((prefix, source.text))
            for parameter in overload.params:
                by = "ref " if parameter in overload.references else ""
                self.found.append((f"{prefix}{parameter}", by + _annotation_text(overload.annotation(parameter))))
            for parameter, value in overload.defaults.items():
                self.object(f"{prefix}{parameter}=", value)
            if overload.native is not None:
                self.found.append((f"{prefix}native", repr(overload.native)))
            for role, custom in overload.customs.items():
                self.overload(f"{prefix}{role}.", custom)
        except WarpCodegenError as error:  # the build says so if the function is used
            self.found.append((prefix, error.reason))
            return
        self.source(prefix, source)


def _follow(obj: Any, attributes: tuple[str, ...]) -> tuple[Any, int]:
    """Take attributes of a Python object until it is a value or lacks one; also return how many."""
    for used, name in enumerate(attributes):
        if obj is MISSING or number(obj) is not None or values.constant_of(obj) is not None:
            return obj, used
        try:
            obj = _attribute(obj, name)
        except AttributeError:
            return MISSING, used + 1
    return obj, len(attributes)


def _attribute(obj: Any, name: str) -> Any:
    """``getattr``, but builtins are known by name: asking the package for one would load their table."""
    is_package = isinstance(obj, types.ModuleType) and obj.__name__ == "warp_like"
    if is_package and name not in vars(obj) and name not in obj._LOADED_WHEN_USED:
        return Builtin(name)
    return getattr(obj, name)


def _annotation_text(annotation: Any) -> str:
    try:
        return repr(values.to_ir(annotation)) if not isinstance(annotation, str) else annotation
    except TypeError:
        return repr(annotation)


def describe(obj: Any) -> str:
    """Return a text that changes when the meaning of ``obj`` in kernel code does."""
    if obj is MISSING:
        return "undefined"
    literal = number(obj)
    if literal is not None:
        return f"{type(literal.value).__name__} {literal.value!r}"
    typed = values.constant_of(obj)
    if typed is not None:
        return f"{typed[0]!r} {typed[1]!r}"
    builtin = builtin_name(obj)
    if builtin is not None:
        return f"builtin {builtin}"
    if isinstance(obj, StructInstance):
        return f"{obj._ir_type_!r} {obj!r}"
    if values.is_type(obj):
        return f"type {_annotation_text(obj)} {getattr(obj, '_defaults_', '')}"
    if isinstance(obj, types.ModuleType):
        return f"module {obj.__name__}"
    if isinstance(obj, str):
        return f"text {obj!r}"
    return f"{type(obj).__module__}.{type(obj).__qualname__}"
