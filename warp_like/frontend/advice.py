"""What to write instead, where a message needs more than types to know: the syntax around the mistake.

Each function returns the text of a ``help``, or None where there is no certain advice. Code that follows the text
compiles; ``tests/frontend/test_advice.py`` does so.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from warp_like.base.loc import Loc
from warp_like.builtins.explain import constructor
from warp_like.builtins.overload import NoMatch
from warp_like.builtins.spec import resolve
from warp_like.frontend.source import Source
from warp_like.ir.core import Value
from warp_like.ir.literal import Literal
from warp_like.ir.types import Scalar, Type, float32, int32, int64, uint64

_INDEX_NAMES = {"i", "j", "k", "l", "tid", "idx", "index", "row", "col", "thread", "thread_id"}
_ARRAY_MAKERS = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like")
_LISTS = ("array", "asarray", "tensor")


# --- names ---


def thread_index(source: Source, name: str, known: Collection[str]) -> str | None:
    """Advice on an undefined name that is used as an index, where nobody asked for the thread's index."""
    used = [n.slice for n in ast.walk(source.node) if isinstance(n, ast.Subscript)]
    at = next((s for s in used if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s))), None)
    if (name not in _INDEX_NAMES and at is None) or _asks_for_thread(source):
        return None
    if source.role != "kernel":
        return f"a function gets the thread's index as an argument: {source.name}({name}, ...)"
    parts = at.elts if isinstance(at, ast.Tuple) else []
    names = [n.id for n in parts if isinstance(n, ast.Name) and n.id not in known]
    if len(names) < 2:
        return f"`{name} = wp.tid()` gives the thread's index"
    return f"`{', '.join(names)} = wp.tid()` gives the thread's indices"


def _asks_for_thread(source: Source) -> bool:
    calls = (n.func for n in ast.walk(source.node) if isinstance(n, ast.Call))
    return any("tid" in (getattr(f, "attr", ""), getattr(f, "id", "")) for f in calls)


# --- variables that started as an integer ---


def another_start(source: Source, name: str, began: Loc | None, wanted: Type) -> str | None:
    """Advice on a variable that can't become a ``wanted``, as it was an integer literal where it ``began``."""
    literal = _first_literal(source, name, began)
    if literal is None or began is None:
        return None
    if wanted == float32:
        kind, text = "a float", f"{literal}.0"
    elif isinstance(wanted, Scalar) and not wanted.is_bool:
        kind = f"{'an' if str(wanted).startswith('int') else 'a'} {wanted}"
        text = f"wp.{wanted}({literal}{'.0' if wanted.is_float else ''})"
    elif (called := constructor(wanted)) is not None and literal == 0:
        kind, text = f"a {called}", f"{called}()"
    else:
        return None
    return f"start it as {kind}: `{name} = {text}` in line {began.line}"


def _first_literal(source: Source, name: str, began: Loc | None) -> int | None:
    """The integer literal that is assigned to a variable where it ``began``."""
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Assign) or began is None or source.loc(node).line != began.line:
            continue
        if not any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            return None
        return value if type(value) is int else None
    return None


def start_of_sum(
    source: Source, builtin: str, types: Sequence[Type | Literal], nodes: Sequence[ast.expr], begins: dict[str, Loc]
) -> str | None:
    """Advice on ``s = s + x`` and its like, whose types don't mix because ``s`` started as an integer literal.

    ``begins`` says where variables got their types.
    """
    for i, (node, t) in enumerate(zip(nodes, types, strict=True)):
        if not isinstance(node, ast.Name) or t != int32 or node.id not in begins:
            continue
        others = {o.default if isinstance(o, Literal) else o for k, o in enumerate(types) if k != i} - {int32}
        if len(others) != 1 or not _is_assigned_by(source, node):
            continue
        (wanted,) = others
        try:
            resolve(builtin, [wanted if k == i else o for k, o in enumerate(types)])
        except NoMatch:
            continue
        return another_start(source, node.id, begins[node.id], wanted)
    return None


def _is_assigned_by(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` stands in a statement that assigns the variable of that name."""
    for node in ast.walk(source.node):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        assigns = any(isinstance(t, ast.Name) and t.id == name.id for t in targets)
        if assigns and any(inner is name for inner in ast.walk(node)):
            return True
    return False


# --- numbers and vectors ---


def larger_integer(value: Any, what: str) -> str | None:
    """Advice on an integer literal that does not fit the type of ``what``."""
    holds = next((t for t in (int64, uint64) if Literal(value).fits(t)), None) if type(value) is int else None
    if holds is None:
        return None
    return f"wp.{holds} holds it: give {what} that type, an array by wp.array(dtype=wp.{holds})"


def as_vector(operand: tuple[Any, ...], node: ast.expr | None, wanted: Type | None = None) -> str | None:
    """Advice on a tuple of numbers where one value is due: the vector of them."""
    if not operand or not all(
        isinstance(o, Literal) or (isinstance(o, Value) and isinstance(o.type, Scalar)) for o in operand
    ):
        return None
    called = constructor(wanted) if wanted is not None else None
    if called is None:
        called = f"wp.vec{len(operand)}" if 2 <= len(operand) <= 4 else "wp.vector"
    inside = ", ".join(map(ast.unparse, node.elts)) if isinstance(node, ast.Tuple) else "..."
    return f"{called}({inside})"


# --- arrays made in a kernel ---


def local_array(call: ast.Call, name: str) -> str | None:
    """Advice on a call of ``np.zeros(3)`` and its like, by the function's name."""
    if name in _LISTS and call.args and isinstance(call.args[0], (ast.List, ast.Tuple)):
        return of_items(call.args[0])
    if name not in _ARRAY_MAKERS:
        return None
    first = next((k.value for k in call.keywords if k.arg == "shape"), call.args[0] if call.args else None)
    shape = "(n,)" if first is None or name.endswith("_like") else ast.unparse(first)
    if not isinstance(first, (ast.Tuple, ast.List)) and not shape.startswith("("):
        shape = f"({shape},)"
    then = "" if name.startswith(("zeros", "empty")) else ", and then a loop that sets its elements"
    return f"wp.zeros(shape={shape}, dtype=float){then}"


def of_items(items: ast.List | ast.Tuple) -> str:
    """Advice on a list that is written in kernel code."""
    n = len(items.elts)
    if n == 0:
        return "wp.zeros(shape=(n,), dtype=float) makes an array of n elements, for a constant n"
    called = f"wp.vec{n}" if 2 <= n <= 4 else "wp.vector"
    return f"{called}({', '.join(map(ast.unparse, items.elts))})"
