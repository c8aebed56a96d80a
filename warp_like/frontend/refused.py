"""Python that kernel code does not have, syntax and functions: for each the reason, and what to write instead."""

from __future__ import annotations

import ast
import builtins as python
import types
from typing import Any

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend import advice
from warp_like.frontend.host import Host, not_a_value

_EXPRESSIONS: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("a lambda can't be used in kernel code", "write a function with @wp.func"),
    ast.ListComp: (
        "a list comprehension can't be used in kernel code: there are no lists",
        "write a for loop",
    ),
    ast.SetComp: ("a set comprehension can't be used in kernel code: there are no sets", "write a for loop"),
    ast.DictComp: (
        "a dict comprehension can't be used in kernel code: there are no dicts",
        "write a for loop",
    ),
    ast.GeneratorExp: ("a generator can't be used in kernel code", "write a for loop"),
    ast.Set: ("a set can't be made in kernel code", "use an array argument"),
    ast.Dict: ("a dict can't be made in kernel code", "use variables, or an array argument"),
    ast.Await: ("`await` has no meaning in kernel code", "call the function directly"),
    ast.Yield: ("`yield` has no meaning in kernel code", "return the value, or write it to an array"),
    ast.YieldFrom: ("`yield from` has no meaning in kernel code", "write a for loop"),
    ast.JoinedStr: (
        "an f-string can't be made in kernel code: there is no text at run time",
        "print(a, b) prints values",
    ),
    ast.NamedExpr: ("`:=` can't be used in kernel code", "assign in a statement of its own"),
    ast.Starred: ("`*` can't unpack in kernel code", "name each value"),
}

_STATEMENTS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: ("`try` can't be used in kernel code: nothing raises there", "test for the condition with if"),
    ast.Raise: (
        "`raise` can't be used in kernel code: a thread has nobody to raise to",
        "write an error code to an array, or use `assert`, which debug mode checks",
    ),
    ast.With: (
        "`with` can't be used in kernel code: there are no context managers",
        "write the steps one after the other",
    ),
    ast.ClassDef: ("a class can't be defined in kernel code", "define it outside of the kernel"),
    ast.FunctionDef: ("a function can't be defined inside a kernel", "define it outside with @wp.func"),
    ast.Import: ("`import` can't be used in kernel code", "import at the top of the module"),
    ast.ImportFrom: ("`import` can't be used in kernel code", "import at the top of the module"),
    ast.Global: (
        "`global` can't be used in kernel code: globals are constants there",
        "write to an array argument; to count in all threads: wp.atomic_add(counts, 0, 1)",
    ),
    ast.Nonlocal: (
        "`nonlocal` can't be used in kernel code: captured variables are constants there",
        "write to an array argument",
    ),
    ast.Delete: ("`del` can't be used in kernel code: variables end with the function", "leave it out"),
    ast.Match: ("`match` can't be used in kernel code", "write if and elif"),
    ast.AsyncFor: ("`async for` has no meaning in kernel code", "write a for loop over range(...)"),
    ast.AsyncWith: ("`async with` has no meaning in kernel code", "write the steps one after the other"),
    ast.AsyncFunctionDef: ("a function can't be defined inside a kernel", "define it outside with @wp.func"),
}


def expression(node: ast.expr) -> WarpCodegenError:
    """Return the error for an expression that has no handler."""
    if isinstance(node, ast.List):
        reason = "a list can't be made in kernel code: its length is not part of its type"
        return WarpCodegenError(reason, help=advice.of_items(node))
    reason, help = _EXPRESSIONS.get(type(node), (f"{type(node).__name__} can't be used in kernel code", None))
    return WarpCodegenError(reason, help=help)


def statement(node: ast.stmt) -> WarpCodegenError:
    """Return the error for a statement that has no handler."""
    reason, help = _STATEMENTS.get(type(node), (f"{type(node).__name__} can't be used in kernel code", None))
    return WarpCodegenError(reason, help=help)


# --- calls ---

_NO_LISTS = "kernel code has no lists: a vector, or wp.zeros(shape=(n,), dtype=...), holds several values"
_PYTHON: dict[Any, str] = {
    python.sum: "add up in a for loop",
    python.any: "test in a for loop",
    python.all: "test in a for loop",
    python.zip: "loop over indices: for i in range(len(a))",
    python.enumerate: "loop over indices: for i in range(len(a))",
    python.map: "call the function in a for loop",
    python.filter: "test in a for loop",
    python.list: _NO_LISTS,
    python.tuple: "write the items: (a[0], a[1])",
    python.sorted: _NO_LISTS,
    python.dict: "use variables, or an array argument",
    python.set: "use an array argument",
    python.str: "print(a, b) prints values",
    python.repr: "print(a, b) prints values",
    python.isinstance: "types are known when a kernel is compiled: write an overload of a function for each",
    python.complex: "keep both parts in a wp.vec2",
    python.divmod: "a // b and a % b",
}
_ARRAY_LIBRARIES = {"numpy", "torch", "jax", "paddle", "cupy"}


def call(callee: Host, node: ast.Call) -> WarpCodegenError:
    """Return the error for a call of a Python object that kernel code can't call."""
    obj = callee.obj
    if not callable(obj):
        return not_a_value(callee)
    if type(obj).__qualname__ == "Kernel":
        return WarpCodegenTypeError(
            f"`{callee.text}` is a kernel, which kernel code can't call",
            help="launch it after this one, or put what both do into a @wp.func",
        )
    if str(getattr(obj, "__module__", "")).startswith("warp_like."):
        return WarpCodegenTypeError(
            f"`{callee.text}` belongs to the host: kernel code can't call it",
            help=advice.local_array(node, obj.__name__) or "call it before or after the launch",
        )
    return WarpCodegenTypeError(
        f"`{callee.text}` is a Python function, which kernel code can't call", help=_instead(obj, node)
    )


def _instead(obj: Any, node: ast.Call) -> str:
    if isinstance(obj, (type, types.BuiltinFunctionType)) and obj in _PYTHON:
        return _PYTHON[obj]
    name = getattr(obj, "__name__", "")
    if type(obj).__module__ == "numpy" and name in REGISTRY:
        return f"wp.{name}(...)"
    library = str(getattr(obj, "__module__", "")).partition(".")[0]
    if library in _ARRAY_LIBRARIES:
        before = "call it before the launch, and pass the result as an argument"
        return advice.local_array(node, name) or before
    return "decorate it with @wp.func, or evaluate it when the kernel is compiled: wp.static(...)"
