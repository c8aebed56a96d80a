"""Lambdas as functions of the kernel language: found in their file, and read as a ``def`` that returns their body."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator
from typing import Any

from warp_like.base.errors import WarpCodegenError

LAMBDA = "<lambda>"
"""Python's name for the function that a lambda makes."""


def find_lambda(pyfunc: types.FunctionType, lines: tuple[str, ...]) -> ast.FunctionDef:
    """Return the definition that says what the lambda ``pyfunc`` says, with its places in the file ``lines``.

    Raises:
        WarpCodegenError: The file holds no such lambda any more, or several that can't be told apart.
    """
    code = pyfunc.__code__
    candidates = [n for n in _lambdas(lines) if n.lineno == code.co_firstlineno and _parameters(n) == _declared(code)]
    if len(candidates) > 1:
        candidates = [n for n in candidates if _spans(n.body, code)] or candidates
        candidates = [n for n in candidates if not any(m is not n and m in ast.walk(n) for m in candidates)]
    if not candidates:
        raise WarpCodegenError(
            f"the source of the lambda in line {code.co_firstlineno} of {code.co_filename} is not what was run: the "
            "file has changed",
            help="restart Python or reload the module",
        )
    if len({ast.dump(n) for n in candidates}) > 1:
        raise WarpCodegenError(
            f"line {code.co_firstlineno} of {code.co_filename} holds several lambdas that can't be told apart",
            help="write each on a line of its own, or with def",
        )
    return _definition(candidates[0])


@functools.lru_cache(maxsize=8)
def _lambdas(lines: tuple[str, ...]) -> tuple[ast.Lambda, ...]:
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.Lambda))


def _parameters(node: ast.Lambda) -> tuple[str, ...]:
    a = node.args
    return tuple(p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs])


def _declared(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _spans(body: ast.expr, code: types.CodeType) -> bool:
    """Whether the instructions of ``code`` come from inside ``body``; true where Python does not say (3.10)."""
    first = (body.lineno, body.col_offset)
    last = (body.end_lineno or 0, body.end_col_offset or 0)
    return all(first <= start and end <= last for start, end in _positions(code))


def _positions(code: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    if not hasattr(code, "co_positions"):
        return
    for line, end_line, col, end_col in code.co_positions():
        if None not in (line, end_line, col, end_col) and end_col > col:
            yield (line, col), (end_line, end_col)


def _definition(node: ast.Lambda) -> ast.FunctionDef:
    returned = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef(LAMBDA, node.args, [returned], [])
    if hasattr(made, "type_params"):
        made.type_params = []
    return ast.copy_location(made, node)


def lambda_text(node: ast.FunctionDef) -> str:
    """Return the text of a lambda found by ``find_lambda``; equal texts mean equal code."""
    returned = node.body[0]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    return f"lambda {ast.unparse(node.args)}: {ast.unparse(returned.value)}\n"
