"""User functions: what ``@wp.func`` makes of a Python function, and the choice among overloads.

Declaring another overload makes a new ``Function`` that holds the earlier overloads too, so a kernel that captured
the earlier one keeps its meaning. Only the gradient and the replay function of an overload are given to it later.
"""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warp_like import values
from warp_like.base.by_name import ByName
from warp_like.base.errors import WarpCodegenError
from warp_like.base.frozen import Frozen
from warp_like.frontend.names import HasOwnNames
from warp_like.frontend.parameters import array_annotation
from warp_like.frontend.source import Source, annotation_names, defining_scope, file_lines, read
from warp_like.ir import types as ir
from warp_like.ir.literal import Literal
from warp_like.values.annotation import ref

if TYPE_CHECKING:
    from warp_like.builtins.patterns import Argument
    from warp_like.frontend.declaration import Declaration


class Snippets(Frozen):
    """The arguments of ``wp.func_native``.

    Attributes:
        forward: The body.
        adjoint: The body of the gradient function, or None.
        replay: What the reverse sweep runs in place of ``forward`` to have its result again, or None.
        writes: The names of the arrays that ``forward`` writes; None for all of them.
    """

    forward: str
    adjoint: str | None
    replay: str | None
    writes: tuple[str, ...] | None


class Overload:
    """One definition of a function; ``names`` come before those that are around it.

    ``customs`` holds its ``gradient`` and ``replay`` functions, where the user gave it any; ``lines`` its file as it
    was when it was declared. One that ``takes_copies`` changes no tile of its caller's.
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        names: Mapping[str, Any] | None = None,
        lines: tuple[str, ...] | None = None,
        native: Snippets | None = None,
    ) -> None:
        self.native = native
        self.pyfunc = pyfunc
        self.names: Mapping[str, Any] = names or {}
        self.lines = lines
        self.customs: dict[str, Overload] = {}
        self.takes_copies = False

    @functools.cached_property
    def source(self) -> Source:
        """The source, read when first needed."""
        return read(self.pyfunc, "func", self.names, self.lines)

    @functools.cached_property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters."""
        if self.source.has_stars:
            raise WarpCodegenError(
                f"func `{self.source.name}` takes any number of arguments, and kernel code has no such calls",
                self.source.header,
                help="name each parameter, or write an overload for each number of them",
            )
        return self.source.params

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """The default values by parameter."""
        positional = self.params[: self.source.pyfunc.__code__.co_argcount]
        given = getattr(self.pyfunc, "__defaults__", None) or ()
        found = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
        return found | (getattr(self.pyfunc, "__kwdefaults__", None) or {})

    def annotation(self, name: str) -> Any:
        """The annotation of a parameter, of a ``wp.ref`` what it refers to; ``Any`` where there is none."""
        found = self.source.annotations.get(name, Any)
        return found.dtype if isinstance(found, ref) else found

    @functools.cached_property
    def references(self) -> tuple[str, ...]:
        """The parameters that are ``wp.ref``."""
        return tuple(p for p in self.source.params if isinstance(self.source.annotations.get(p), ref))

    @functools.cached_property
    def types(self) -> tuple[ir.Type | None, ...]:
        """The types of the parameters, None where any or several fit."""
        return tuple(self._type(name) for name in self.params)

    def _type(self, name: str) -> ir.Type | None:
        try:
            return parameter_type(self.annotation(name))
        except TypeError as error:
            raise WarpCodegenError(
                f"argument `{name}` of func `{self.source.name}`: {error}",
                self.source.parameter_loc(name),
                help=array_annotation(name, self.annotation(name)),
            ) from None

    def place(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any] | None:
        """Return the arguments in the order of the parameters; None where names or number do not fit.

        A default is returned as ``Default``.
        """
        if len(args) > self.source.pyfunc.__code__.co_argcount:
            return None
        placed = list(args)
        for name in self.params[len(args) :]:
            if name in keywords:
                placed.append(keywords[name])
            elif name in self.defaults:
                placed.append(Default(self.defaults[name]))
            else:
                return None
        return placed if set(keywords) <= set(self.params[len(args) :]) else None

    def accepts(self, name: str, arg: Argument | tuple[Any, ...] | None) -> int | None:
        """Return how well an argument fits; None where it does not.

        0 stands for exactly, 1 for a generic parameter, 2 for a literal that adapts.

        ``arg`` is None for something that has no type, such as a function; a tuple of these for a tuple.
        """
        return _accepts(self.annotation(name), self.types[self.params.index(name)], arg)

    def signature(self) -> str:
        """Return the call as text, with types."""
        return f"{self.source.name}({', '.join(map(self._shown, self.params, self.types))})"

    def _shown(self, name: str, t: ir.Type | None) -> str:
        annotation = self.annotation(name)
        if t is None and (annotation is Any or is_callable_annotation(annotation)):
            return name
        return f"{name}: {shown(annotation)}"


def _accepts(annotation: Any, t: ir.Type | None, arg: Argument | tuple[Any, ...] | None) -> int | None:
    if isinstance(arg, tuple):
        return _accepts_tuple(annotation, arg)
    if arg is None:
        return 1 if annotation is Any or is_callable_annotation(annotation) else None
    if is_callable_annotation(annotation) or is_tuple_annotation(annotation):
        return None
    if isinstance(arg, Literal):
        if t is None:
            return 1 if values.accepts(annotation, arg.default) else None
        return 0 if t == arg.default else (2 if arg.fits(t) else None)
    if t is None:
        return 1 if values.accepts(annotation, arg) else None
    return 0 if t == arg else None


def _accepts_tuple(annotation: Any, args: tuple[Any, ...]) -> int | None:
    if annotation is Any or not is_tuple_annotation(annotation):
        return 1 if annotation is Any else None
    parts = tuple_parts(annotation)
    if parts is None:
        return 1
    if len(parts) != len(args):
        return None
    worst = 0
    for part, arg in zip(parts, args, strict=True):
        cost = _accepts(part, parameter_type(part), arg)
        if cost is None:
            return None
        worst = max(worst, cost)
    return worst


class Default(Frozen):
    """A parameter's default value, a Python object."""

    value: Any


class Function(ByName, HasOwnNames):
    """A function of the kernel language, made by ``wp.func``. Kernel code takes attributes that users give it.

    Attributes:
        name: Its name.
        module: The ``wp.Module`` that lists it; None where it was not declared by a decorator.
        qualname: Its name in the Python module.
        overloads: Its definitions, in the order of declaration.
        mapped: What ``wp.map`` has made of it, by the types and shapes of a call: kernels, which refer to the function,
            so that nothing else may hold them for it.
    """

    INTERNAL = frozenset(("name", "module", "qualname", "overloads", "mapped"))

    def __init__(self, overloads: Sequence[Overload]) -> None:
        last = overloads[-1].pyfunc
        functools.update_wrapper(self, last)
        self.name: str = last.__name__
        self.module: Any = None
        self.qualname: str = last.__qualname__
        self.overloads = tuple(overloads)
        self.mapped: dict[Any, Any] = {}

    @property
    def key(self) -> str:
        """The name, as Warp calls it; messages show it, and it may be set."""
        return self.name

    @key.setter
    def key(self, value: str) -> None:
        self.name = value

    @property
    def adj(self) -> Declaration:
        """The parameters and the place of the definition that came last, as ``Kernel.adj``."""
        from warp_like.frontend.declaration import Declaration

        return Declaration(self.overloads[-1].source, values.from_ir)

    @property
    def input_types(self) -> dict[str, Any]:
        """The annotations of the parameters by name, of the definition that came last; ``Any`` where there is none."""
        last = self.overloads[-1]
        return {name: last.source.annotations.get(name, Any) for name in last.params}

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values by parameter, of the definition that came last."""
        return self.overloads[-1].defaults

    def is_builtin(self) -> bool:
        """Return False: it is a user's."""
        return False

    @property
    def func(self) -> Callable[..., Any]:
        """The Python function of the definition that came last."""
        return self.overloads[-1].pyfunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Python function on host values; of several overloads, the one that fits them best.

        Raises:
            TypeError: No overload takes the arguments, or its body is native code.
        """
        chosen = self.overloads[0] if len(self.overloads) == 1 else self._fitting(args, kwargs)
        if chosen.references:
            raise TypeError(
                f"{self.name}() changes its argument `{chosen.references[0]}`, which kernel code alone can do"
            )
        if chosen.native is not None:
            raise TypeError(f"{self.name}() is native code, which is called from kernel code alone")
        return chosen.pyfunc(*args, **kwargs)

    def _fitting(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Overload:
        best: tuple[int, Overload] | None = None
        for overload in self.overloads:
            placed = overload.place(args, keywords)
            if placed is None:
                continue
            costs = [_host_cost(overload, name, x) for name, x in zip(overload.params, placed, strict=True)]
            total = sum(c for c in costs if c is not None)
            if None not in costs and (best is None or total < best[0]):
                best = total, overload
        if best is None:
            shown = [type(x).__name__ for x in args] + [f"{k}={type(x).__name__}" for k, x in keywords.items()]
            takes = " or ".join(o.signature() for o in self.overloads)
            raise TypeError(f"{self.name}() has no overload for ({', '.join(shown)}); there is {takes}")
        return best[1]

    def __repr__(self) -> str:
        return f"<warp_like function {self.name}>"


def _host_cost(overload: Overload, name: str, value: Any) -> int | None:
    """How far a host value is from a parameter, as ``Overload.accepts`` says it; None where it does not fit."""
    if isinstance(value, Default):
        return 0
    t = _host_type(value)
    if t is None and isinstance(found := overload.types[overload.params.index(name)], ir.Array):
        return 0 if getattr(value, "ndim", None) == found.ndim else None
    return overload.accepts(name, t)


def _host_type(value: Any) -> Any:
    """What ``Overload.accepts`` takes for a host value; None for an array and what else has no type of its own."""
    if isinstance(value, tuple):
        return tuple(map(_host_type, value))
    typed = values.constant_of(value)
    if typed is not None:
        return typed[0]
    return Literal(value) if type(value) in (bool, int, float) else getattr(value, "_ir_type_", None)


def make_function(
    pyfunc: Callable[..., Any], scope: Mapping[str, Any] | None = None, native: Snippets | None = None
) -> Function:
    """Make a function, or add an overload to the one of the same name that ``scope`` holds.

    Args:
        pyfunc: The Python function.
        scope: The names where it is being defined; those of its module, or of the frame that defines it, when
            left out.
        native: The body in native code, in place of the Python function's.

    Raises:
        TypeError: It is no function.
        WarpCodegenError: It is not a function whose source can be read.
    """
    if not hasattr(pyfunc, "__name__"):
        raise TypeError(f"a func is made from a function, got {type(pyfunc).__name__} {pyfunc!r}")
    new = Overload(pyfunc, annotation_names(pyfunc), file_lines(pyfunc), native)
    if scope is None:
        scope = defining_scope(pyfunc)
    earlier = scope.get(pyfunc.__name__)
    if not isinstance(earlier, Function) or (earlier.func.__module__, earlier.qualname) != (
        pyfunc.__module__,
        pyfunc.__qualname__,
    ):
        return Function([new])
    kept = [o for o in earlier.overloads if not _same_signature(o, new)]
    return Function([*kept, new])


def _same_signature(a: Overload, b: Overload) -> bool:
    """Whether ``b`` replaces ``a``: the same annotations, or a definition that can't be read."""
    try:
        return [a.annotation(n) for n in a.params] == [b.annotation(n) for n in b.params]
    except WarpCodegenError:
        return a.pyfunc.__annotations__ == b.pyfunc.__annotations__


def is_callable_annotation(annotation: Any) -> bool:
    """Return whether a parameter with this annotation takes a function: ``wp.Function``, ``Callable``."""
    origin = getattr(annotation, "__origin__", annotation)
    return origin is collections.abc.Callable or origin is Function


def parameter_type(annotation: Any) -> ir.Type | None:
    """Return the type of a parameter with this annotation; None for a tuple, a function and what is generic.

    Raises:
        TypeError: It means nothing in kernel code.
    """
    if is_callable_annotation(annotation):
        return None
    if is_tuple_annotation(annotation):
        for part in tuple_parts(annotation) or ():
            parameter_type(part)
        return None
    return values.to_ir(annotation)


def is_tuple_annotation(annotation: Any) -> bool:
    """Return whether a parameter with this annotation takes a tuple: ``tuple``, ``tuple[float, int]``."""
    return annotation is tuple or getattr(annotation, "__origin__", None) is tuple


def tuple_parts(annotation: Any) -> tuple[Any, ...] | None:
    """Return the annotations of the parts of a tuple; None where any number of them fits."""
    parts = getattr(annotation, "__args__", (...,))
    return None if ... in parts else tuple(parts)


def shown(annotation: Any) -> str:
    """Return how messages name the annotation of a parameter."""
    if is_callable_annotation(annotation):
        return "function"
    if not is_tuple_annotation(annotation):
        return values.shown(annotation)
    parts = tuple_parts(annotation)
    return "tuple" if parts is None else f"tuple[{', '.join(map(shown, parts))}]"
