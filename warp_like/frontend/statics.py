"""``wp.static``: Python expressions evaluated when the kernel is built, and the loops that give their names values.

An expression may use the index of a loop over something that is itself known then; such a loop is unrolled when the
kernel is built. The cache key takes in all values that an expression has, so it finds the same loops.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.frontend import constants
from warp_like.frontend.context import Context
from warp_like.frontend.host import Host, builtin_name, is_callable, not_a_value
from warp_like.frontend.names import MISSING, copied, dotted
from warp_like.frontend.operands import Operand
from warp_like.frontend.source import Source
from warp_like.frontend.syntax import all_nodes
from warp_like.ir.core import Value
from warp_like.ir.types import Aggregate, Tile, element_shape

MAX_ITEMS = 1024
"""How many iterations a loop may have that is unrolled when the kernel is built."""


def static(ctx: Context, node: ast.Call) -> Operand:
    """Build ``wp.static(expression)``: evaluate Python now."""
    if len(node.args) != 1 or node.keywords:
        raise WarpCodegenTypeError("static() takes one expression", help="wp.static(...)")
    expression = with_lengths(ctx, node.args[0])
    known = known_locals(ctx)
    local = [n for n in _names(expression) if n in ctx.scope.names and n not in known]
    if local:
        ctx.read(local[0])
        raise WarpCodegenError(
            f"static() is evaluated when the kernel is compiled; `{local[0]}` has a value only when it runs",
            help="use names from outside of the kernel, the index of a loop over a constant range, or n = 3, assigned "
            "once",
        )
    value = evaluate_static(ctx.source, known, expression)
    operand = constants.from_host(ctx, value, ast.unparse(node))
    if isinstance(operand, Host) and not is_callable(value) and not isinstance(value, (str, tuple, list, dict, range)):
        raise not_a_value(operand)
    return operand


def known_locals(ctx: Context) -> dict[str, Any]:
    """Return the values of those variables that ``wp.static`` may use here."""
    held = ((n, v, ctx.scope.variable(n)) for n, v in local_numbers(ctx.source.node).items())
    return {n: v for n, v, variable in held if variable is not None and variable.assigned is True} | ctx.statics


def with_lengths(ctx: Context, expression: ast.expr) -> ast.expr:
    """Return an expression with numbers in place of ``len(v)`` where ``v`` is a variable whose length is known."""

    def length(name: str) -> int | None:
        held = ctx.scope.variable(name)
        if held is None or name in ctx.statics:
            return None
        if isinstance(held.value, tuple):
            return len(held.value)
        t = held.value.type if isinstance(held.value, Value) else None
        return element_shape(t)[0] if isinstance(t, (*Aggregate, Tile)) else None

    result: ast.expr = _Lengths(length).visit(copy.deepcopy(expression))
    return result


_SOME_LENGTH = 16
"""A stand-in for lengths that follow from types, used while the cache key is made, which holds the types anyway."""


class _Lengths(ast.NodeTransformer):
    """Puts numbers in place of the lengths of variables."""

    def __init__(self, length: Callable[[str], int | None]) -> None:
        self.length = length

    def visit_Call(self, node: ast.Call) -> ast.expr:
        made = self.generic_visit(node)
        assert isinstance(made, ast.Call)
        if isinstance(made.func, ast.Name) and made.func.id == "len" and len(made.args) == 1:
            argument = made.args[0]
            known = self.length(argument.id) if isinstance(argument, ast.Name) else None
            if known is not None:
                return ast.copy_location(ast.Constant(known), node)
        return made


def evaluate_static(source: Source, known: dict[str, Any], expression: ast.expr) -> Any:
    """Return the value of the expression of a ``wp.static`` call, which is evaluated once for all variants of the code.

    So the cache key and the code that it stands for agree, also where the expression has effects or gives something
    else each time.

    Args:
        source: The function in which it stands.
        known: The values of names that are local to it.
        expression: The expression, with numbers in place of lengths that are known.

    Raises:
        WarpCodegenError: It can't be evaluated.
    """
    used = {n: known[n] for n in _names(expression) if n in known}
    place = (expression.lineno, expression.col_offset, ast.unparse(expression))
    key = (*place, *((n, type(v), v if isinstance(v, (int, float, str)) else id(v)) for n, v in sorted(used.items())))
    if key not in source.statics:
        try:
            value = copied(_evaluate(source.environment() | known, expression))
        except Exception as error:
            raise WarpCodegenError(f"static() can't evaluate its expression: {type(error).__name__}: {error}") from None
        source.statics[key] = value, used  # kept, so that nothing else gets the identity of what was used
    return source.statics[key][0]


def _evaluate(environment: dict[str, Any], expression: ast.expr) -> Any:
    return eval(compile(ast.Expression(expression), "<wp.static>", "eval"), environment)


def loop_values(source: Source, known: dict[str, Any], node: ast.For, over: ast.expr) -> list[Any] | None:
    """Return what a loop over a range, tuple or list that Python can evaluate now assigns to its one name, else None.

    Args:
        source: The function.
        known: The values of names that are local to it.
        node: The loop.
        over: What it runs over, with its lengths known.
    """
    if not isinstance(node.target, ast.Name) or node.target.id in assigned_in(node.body):
        return None
    if not (local_names(source.node) - set(known)).isdisjoint(_names(over)):
        return None
    captured = _Captured(source, known)
    try:
        iterable = captured.visit(copy.deepcopy(over))
        found = list(_evaluate({**source.environment(), **known, **captured.values}, iterable))
    except Exception:  # not known now: an array, say. What is wrong with it is said where the loop is built.
        return None
    return found


def uses(source: Source, body: Sequence[ast.stmt], name: str) -> bool:
    """Return whether a ``wp.static`` call in ``body`` mentions ``name``."""
    calls = (n for s in body for n in all_nodes(s) if isinstance(n, ast.Call) and _is_static(source, n))
    return any(name in _names(call.args[0]) for call in calls)


def values_of(source: Source, expression: ast.expr) -> Iterator[Any]:
    """Iterate over the values of a ``wp.static`` expression: one, or one for each turn of the loops that it depends on.

    Raises:
        WarpCodegenError: It can't be evaluated.
    """
    loops = [n for n in all_nodes(source.node) if isinstance(n, ast.For) and any(x is expression for x in all_nodes(n))]
    if not any(isinstance(n.target, ast.Name) and n.target.id in _names(expression) for n in loops):
        loops = []
    yield from _turns(source, _some_lengths(source, expression), loops, local_numbers(source.node))


def _some_lengths(source: Source, expression: ast.expr) -> ast.expr:
    local = local_names(source.node)
    result: ast.expr = _Lengths(lambda n: _SOME_LENGTH if n in local else None).visit(copy.deepcopy(expression))
    return result


def _turns(source: Source, expression: ast.expr, loops: list[ast.For], known: dict[str, Any]) -> Iterator[Any]:
    if not loops:
        yield evaluate_static(source, known, expression)
        return
    first, *inner = loops
    values = loop_values(source, known, first, _some_lengths(source, first.iter))
    if values is None:
        yield from _turns(source, expression, inner, known)
        return
    assert isinstance(first.target, ast.Name)
    for value in values[:MAX_ITEMS]:
        yield from _turns(source, expression, inner, {**known, first.target.id: value})


class _Captured(ast.NodeTransformer):
    """Puts names for ``values`` in place of ``wp.static`` calls and attributes: those that the kernel is built for.

    Raises ``AttributeError`` where there is no such attribute that kernel code can read.
    """

    def __init__(self, source: Source, known: dict[str, Any]) -> None:
        self.source = source
        self.known = known
        self.values: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not _is_static(self.source, node):
            return self.generic_visit(node)
        return self._named(node, evaluate_static(self.source, self.known, node.args[0]))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        parts = dotted(node)
        if parts is None or parts[0] in self.known:
            return self.generic_visit(node)
        found = self.source.meaning(node)
        if found is MISSING:
            raise AttributeError(".".join(parts))
        return self._named(node, found)

    def _named(self, node: ast.expr, value: Any) -> ast.expr:
        name = f"captured {len(self.values)}"  # nothing that anybody could write
        self.values[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _is_static(source: Source, call: ast.Call) -> bool:
    return len(call.args) == 1 and not call.keywords and builtin_name(source.meaning(call.func)) == "static"


def mentions(node: ast.AST, name: str) -> bool:
    """Return whether ``name`` occurs in an expression."""
    return name in _names(node)


def _names(node: ast.AST) -> list[str]:
    return [n.id for n in all_nodes(node) if isinstance(n, ast.Name)]


def assigned_in(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that ``body`` assigns."""
    return _assigned(n for s in body for n in all_nodes(s))


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def local_numbers(node: ast.FunctionDef) -> dict[str, int | float]:
    """Return the names that a function assigns once, in ``name = 3``, and their numbers."""
    stores = [n.id for n in all_nodes(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    parameters = local_names(node) - set(stores)
    found = {}
    for s in all_nodes(node):
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value):
                if stores.count(name) == 1 and name not in parameters and _is_number(value):
                    found[name] = ast.literal_eval(value)
    return found


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def local_names(node: ast.FunctionDef, inside: Iterable[ast.AST] | None = None) -> set[str]:
    """Return the names that are local to a function; ``inside`` are the nodes of its body, where they are known."""
    a = node.args
    assigned = assigned_in(node.body) if inside is None else _assigned(inside)
    return {p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs]} | assigned
