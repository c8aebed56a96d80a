"""Gradient and replay functions: what ``@wp.func_grad`` and ``@wp.func_replay`` give a function.

A gradient function takes the arguments of its function and then the adjoint of each result. In it ``wp.adjoint[x]``
is the adjoint of argument ``x``: for an array, the array of adjoints; for anything else a variable of that name, zero
at first, which the function returns; ``wp.adjoint[x.field]`` is a field of that of a struct. So a gradient function is
built as one that takes, after what its text says, ``wp.adjoint[x]`` for each differentiable argument, and returns those
that are not arrays. Its syntax tree is rewritten to say this, and everything else is as in any function.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.frontend.flow import never_falls
from warp_like.frontend.function import Function, Overload, is_callable_annotation
from warp_like.frontend.host import ADJOINT, Host
from warp_like.frontend.source import Source, annotation_names, file_lines
from warp_like.ir.types import Array, Type, is_differentiable

ParameterTypes = Mapping[str, Type | Host]


def adjoint_name(parameter: str) -> str:
    """Return the name of the variable that ``wp.adjoint[parameter]`` is."""
    return f"wp.adjoint[{parameter}]"


# --- declaring ---


def attach(function: Function, role: str, pyfunc: Any) -> None:
    """Make ``pyfunc`` the gradient (``role`` is ``gradient``) or the replay of the overload whose arguments it takes.

    Raises:
        WarpCodegenError: It takes the arguments of no overload, or of several.
    """
    new = Overload(pyfunc, annotation_names(pyfunc), lines=file_lines(pyfunc))
    fitting = [o for o in function.overloads if _starts_like(new, o)]
    if role == "replay":
        fitting = [o for o in fitting if len(o.params) == len(new.params)]
    if len(fitting) > 1:
        fitting = [o for o in fitting if len(o.params) + _result_count(o) == len(new.params)]
    if len(fitting) != 1:
        takes = " or ".join(o.signature() for o in function.overloads)
        after = ", and then the adjoint of each result" if role == "gradient" else ""
        raise WarpCodegenTypeError(
            f"a {role} function takes the arguments of its function, with the same annotations{after}: got "
            f"{new.signature()} for {takes}",
            new.source.header,
        )
    fitting[0].customs[role] = new


def _starts_like(new: Overload, overload: Overload) -> bool:
    n = len(overload.params)
    if len(new.params) < n:
        return False
    return all(_same_annotation(new, a, overload, b) for a, b in zip(new.params, overload.params, strict=False))


def _same_annotation(new: Overload, a: str, overload: Overload, b: str) -> bool:
    given, wanted = new.annotation(a), overload.annotation(b)
    if is_callable_annotation(given) or is_callable_annotation(wanted):
        return is_callable_annotation(given) and is_callable_annotation(wanted)
    t = overload.types[overload.params.index(b)]
    if t is not None:
        return bool(new.types[new.params.index(a)] == t)
    return bool(given == wanted)


def _result_count(overload: Overload) -> int:
    """The number of results as the syntax shows it."""
    for node in ast.walk(overload.source.node):
        if isinstance(node, ast.Return) and node.value is not None:
            return len(node.value.elts) if isinstance(node.value, ast.Tuple) else 1
    return 0


# --- building ---


def gradient_parameters(overload: Overload, given: Sequence[Any], results: Sequence[Type]) -> ParameterTypes:
    """Return the parameters of the gradient function of ``overload``: those in its text, then the adjoints.

    Raises:
        WarpCodegenTypeError: It does not take the adjoints of the results.
    """
    gradient = overload.customs["gradient"]
    name, own = overload.source.name, gradient.params[len(given) :]
    of_results = "its result" if len(results) == 1 else f"each of its {len(results)} results"
    if len(own) != len(results):
        raise WarpCodegenTypeError(
            f"the gradient function `{gradient.source.name}` takes the {_count(len(given), 'argument')} of `{name}` "
            f"and the adjoint of {of_results}, got {_count(len(gradient.params), 'parameter')}",
            gradient.source.header,
            help=f"def {gradient.source.name}({_call(overload, results)})",
        )
    for parameter, t in zip(own, results, strict=True):
        if gradient.accepts(parameter, t) is None:
            raise WarpCodegenTypeError(
                f"`{parameter}` is the adjoint of a result of `{name}`, which is {t}",
                gradient.source.parameter_loc(parameter),
                help=f"def {gradient.source.name}({_call(overload, results)})",
            )
    found = dict(zip(gradient.params, [*given, *results], strict=True))
    arguments = zip(gradient.params, given, strict=False)
    adjoints = {adjoint_name(p): t for p, t in arguments if isinstance(t, Type) and is_differentiable(t)}
    return {**found, **adjoints}


def require_replay(overload: Overload, results: Sequence[Type], given: Sequence[Type]) -> None:
    """Raise unless the replay function of ``overload``, which returns ``given``, returns ``results``.

    Raises:
        WarpCodegenTypeError: It returns something else.
    """
    if tuple(given) != tuple(results):
        replay = overload.customs["replay"]
        raise WarpCodegenTypeError(
            f"the replay function `{replay.source.name}` returns {_list(given)}, and `{overload.source.name}` returns "
            f"{_list(results)}",
            replay.source.header,
            help="return the same types",
        )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _list(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _call(overload: Overload, results: Sequence[Type]) -> str:
    shown = [f"{n}: {t}" if t is not None else n for n, t in zip(overload.params, overload.types, strict=True)]
    adjoints = ["adj_ret"] if len(results) == 1 else [f"adj_ret_{k}" for k in range(len(results))]
    return ", ".join([*shown, *(f"{n}: {t}" for n, t in zip(adjoints, results, strict=True))])


def gradient_source(overload: Overload, params: ParameterTypes) -> Source:
    """Return the source of the gradient function of ``overload`` in the form that is built.

    Raises:
        WarpCodegenError: It returns something, or asks for an adjoint that there is not.
    """
    source = overload.customs["gradient"].source
    arguments = dict(list(params.items())[: len(overload.params)])
    rewriter = _Adjoints(source, overload.source.name, arguments)
    node: ast.FunctionDef = copy.deepcopy(source.node)
    node.body = [rewriter.visit(s) for s in node.body]
    if not never_falls(node.body):
        node.body.append(rewriter.result(node.body[-1]))
    return source.with_node(node)


class _Adjoints(ast.NodeTransformer):
    """Makes ``wp.adjoint[x]`` a variable, and lets every return return those that are not arrays."""

    def __init__(self, source: Source, function: str, arguments: ParameterTypes) -> None:
        self.source = source
        self.function = function
        self.arguments = arguments

    def result(self, place: ast.stmt) -> ast.Return:
        """The statement that ends the function at ``place``."""
        names = []
        for p, t in self.arguments.items():
            if isinstance(t, Type) and is_differentiable(t) and not isinstance(t, Array):
                names.append(_at(ast.Name(adjoint_name(p), ast.Load()), place))
        if not names:
            return _at(ast.Return(None), place)
        value = names[0] if len(names) == 1 else _at(ast.Tuple(names, ast.Load()), place)
        return _at(ast.Return(value), place)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise WarpCodegenTypeError(
                "a gradient function returns nothing: it adds to the adjoints of the arguments",
                self.source.loc(node),
                help=f"{adjoint_name(next(iter(self.arguments), 'x'))} += ...",
            )
        return self.result(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self.source.meaning(node.value) is not ADJOINT:
            return self.generic_visit(node)
        with at(self.source.loc(node)):
            fields: list[str] = []
            part = node.slice
            while isinstance(part, ast.Attribute):
                fields, part = [part.attr, *fields], part.value
            name = part.id if isinstance(part, ast.Name) else ""
            t = self.arguments.get(name)
            if t is None:
                raise WarpCodegenError(
                    f"wp.adjoint[...] takes an argument of `{self.function}`, got `{ast.unparse(node.slice)}`",
                    help=f"its arguments are {', '.join(self.arguments)}",
                )
            if isinstance(t, Host) or not is_differentiable(t):
                what = f"`{name}`, a function," if isinstance(t, Host) else f"`{name}`, which is {t},"
                raise WarpCodegenTypeError(f"{what} has no adjoint")
        found: ast.expr = _at(ast.Name(adjoint_name(name), ast.Load() if fields else node.ctx), node)
        for k, field in enumerate(fields):
            found = _at(ast.Attribute(found, field, node.ctx if k == len(fields) - 1 else ast.Load()), node)
        return found


def _at(node: Any, place: ast.AST) -> Any:
    return ast.copy_location(node, place)
