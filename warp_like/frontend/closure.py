"""Everything outside of its own text that a kernel depends on: what its cache key needs besides a signature.

Whatever the frontend may ask about a name, the description recorded here must change when the answer does.
The frontend only follows names, attributes of modules, classes, functions and plain objects, and constant items of
tuples, lists and dicts; objects reached in other ways (through a local variable, say) are refused when the kernel is
built, but for members of enums, which are described by their values.
Arguments of ``wp.static`` are Python, evaluated once, so their values count, and the names in them don't.
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from warp_like import values
from warp_like.base.errors import WarpCodegenError
from warp_like.frontend.function import Function, Overload
from warp_like.frontend.host import USER_OPERATORS, GradientOf, builtin_name, number
from warp_like.frontend.names import MISSING, Captured, Recording, dotted, follow
from warp_like.frontend.source import Source
from warp_like.frontend.syntax import add_children, all_nodes
from warp_like.values.struct import StructInstance

Dotted = tuple[str, ...]
"""A name and the attributes taken of it: ``a.b.c``."""


class References(NamedTuple):
    """The names that the text of a definition mentions; they follow from the text alone.

    Attributes:
        function: The name of the function in its text.
        params: The names of its parameters.
        names: The names in it that are not its own.
        callees: The names in it that are called; ``wp.static`` is among them where it is used.
        arguments: The names in arguments of what is called ``static``, by the name that is called.
    """

    function: str
    params: tuple[str, ...]
    names: tuple[Dotted, ...]
    callees: tuple[Dotted, ...]
    arguments: tuple[tuple[Dotted, tuple[Dotted, ...]], ...]

    def fit(self, source: Source) -> bool:
        """Return whether they can be those of ``source``: its file may have changed since it was run."""
        return self.function == source.written_name and self.params == source.params


def references(source: Source) -> References:
    """Return what a definition mentions, from its syntax tree.

    Raises:
        WarpCodegenError: The text is not that of the function.
    """
    return References(source.written_name, source.params, *_names(source.node))


def capture(source: Source, find: Callable[[Source], References] = references) -> Captured:
    """Return what the names that the kernel's code refers to mean, looked up as ``source`` does.

    The texts of user functions are included, and what they refer to in turn. ``find`` may know references from before.
    """
    walker = _Walker(find, Recording(source.around))
    walker.source("", source)
    return Captured(tuple(walker.found), tuple(walker.places), walker.names)


def sources(source: Source) -> list[Source]:
    """Return the definition and all others that its code refers to.

    Raises:
        WarpCodegenError: A text is not that of its function.
    """
    walker = _Walker(references, Recording(source.around))
    walker.source("", source)
    return walker.sources


def _names(node: ast.FunctionDef) -> tuple[Any, Any, Any]:
    """The dotted names in the body of a definition that are not local to it, as ``References`` lists them."""
    from warp_like.frontend.statics import local_names

    nodes = [n for s in node.body for n in all_nodes(s)]
    local = local_names(node, nodes)
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    called = [(call, callee) for call in calls if (callee := dotted(call.func)) is not None]
    static = [(call, callee) for call, callee in called if callee[-1] == "static"]
    arguments = {argument for call, _ in static for argument in call.args}
    local -= {
        callee[0] for _, callee in called if len(callee) == 1
    }  # a variable may have the name of a function: `f = f(x)`

    def outside(roots: Sequence[ast.AST]) -> tuple[Dotted, ...]:
        without = arguments.difference(roots)
        found = (parts for root in roots for parts in _mentioned(root, without))
        return tuple(dict.fromkeys(parts for parts in found if parts[0] not in local))

    callees = tuple(dict.fromkeys(callee for _, callee in called))
    return outside(node.body), callees, tuple((callee, outside(call.args)) for call, callee in static)


def _mentioned(root: ast.AST, without: set[ast.expr]) -> Iterator[Dotted]:
    """The names in ``root`` with the attributes taken of them, ``a.b.c`` as one."""
    stack = [root]
    while stack:
        node = stack.pop()
        parts = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if parts is not None:
            yield parts
        elif node not in without:
            add_children(stack, node)


def _is_static(source: Source, callee: Dotted) -> bool:
    obj, used = follow(source.around, source.resolve(callee[0]), callee[1:])
    return 1 + used == len(callee) and builtin_name(obj) == "static"


class _Walker:
    def __init__(self, find: Callable[[Source], References], names: Recording) -> None:
        self.find = find
        self.names = names
        self.found: list[tuple[str, str]] = []
        self.places: list[tuple[str, str]] = []
        self.sources: list[Source] = []
        self.seen: set[int] = set()

    def source(self, prefix: str, source: Source) -> None:
        """Record what a definition refers to."""
        mentioned = self.find(source)
        self.sources.append(source)
        source = source.within(self.names)
        place = (f"{prefix}place", f"{source.file}:{source.first_line}")
        (self.found if "expect_" in source.text else self.places).append(place)
        if source.role == "kernel":
            self.found += [(f"{prefix}{name}:", _annotation_text(a)) for name, a in source.annotations.items()]
        elif "return" in source.annotations:
            self.found.append((f"{prefix}return", _annotation_text(source.annotations["return"])))
        for name in source.defined(USER_OPERATORS):
            if isinstance(function := source.resolve(name), Function):  # which operators on structs mean
                self.object(f"{prefix}operator {name}", function)
        for parts in mentioned.names:
            self.dotted(prefix, source, parts)
        for callee, arguments in mentioned.arguments:
            for parts in () if _is_static(source, callee) else arguments:
                self.dotted(prefix, source, parts)
        if any(_is_static(source, callee) for callee in mentioned.callees):
            self.statics(prefix, source)

    def dotted(self, prefix: str, source: Source, parts: tuple[str, ...]) -> None:
        """Record what a dotted name means, attribute by attribute as far as they lead."""
        obj, used = follow(source.around, source.resolve(parts[0]), parts[1:])
        self.object(f"{prefix}{'.'.join(parts[: 1 + used])}", obj)

    def statics(self, prefix: str, source: Source) -> None:
        """Record the values of the expressions of ``wp.static``, which loops around them may give names to."""
        from warp_like.frontend.statics import values_of

        calls = [n for s in source.node.body for n in all_nodes(s) if isinstance(n, ast.Call)]
        calls.sort(
            key=lambda n: (n.lineno, n.col_offset)
        )  # in which expressions with effects are meant to be evaluated
        for callee, argument in ((dotted(call.func), call.args[0]) for call in calls if len(call.args) == 1):
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


def _annotation_text(annotation: Any) -> str:
    try:
        t = values.to_ir(annotation) if not isinstance(annotation, str) else None
    except TypeError:
        t = None
    return repr(annotation if t is None else t)


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
    if isinstance(obj, enum.Enum):  # of which kernel code may take the value wherever it stands
        return f"{type(obj).__module__}.{type(obj).__qualname__} {obj.name} {obj.value!r}"
    return f"{type(obj).__module__}.{type(obj).__qualname__}"
