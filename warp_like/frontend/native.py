"""``wp.func_native``: functions whose bodies are native code of the user."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from warp_like import values
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.frontend.function import Overload
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Given
from warp_like.ir import ops
from warp_like.ir.builder import Builder
from warp_like.ir.core import Function, Value
from warp_like.ir.native import NativeCode
from warp_like.ir.types import Array, Struct, Type, is_differentiable


def build_native(overload: Overload, given: Sequence[Given], name: str) -> Function:
    """Return the function that runs a snippet, with its gradient and replay function.

    Raises:
        WarpCodegenTypeError: Native code can't take an argument or return the result.
    """
    snippets = overload.native
    assert snippets is not None
    _require_stub(overload)
    types = [_checked(overload, p, t) for p, t in zip(overload.params, given, strict=True)]
    params = tuple(zip(overload.params, types, strict=True))
    arrays = [p for p, t in params if isinstance(t, Array)]
    for p in snippets.writes or ():
        if p not in arrays:
            raise WarpCodegenTypeError(f"func_native `{name}` has no array argument `{p}`", overload.source.header)
    written = tuple(arrays) if snippets.writes is None else snippets.writes
    result = _result(overload)
    f = _function(overload, name, snippets.forward, params, result, written)
    if snippets.replay is not None:
        f.replay = _function(overload, f"{name}_replay", snippets.replay, params, result, ())
    if snippets.adjoint is not None:
        adjoints = tuple((f"adj_{p}", t) for p, t in params if is_differentiable(t))
        returned = () if result is None else (("adj_ret", result),)
        changed = tuple(p for p, t in adjoints if isinstance(t, Array))
        updated = tuple(p for p, t in adjoints if not isinstance(t, Array))
        all_params = (*params, *returned, *adjoints)
        f.gradient = _function(overload, f"{name}_adjoint", snippets.adjoint, all_params, None, changed, updated)
    return f


def _function(
    overload: Overload,
    name: str,
    text: str,
    params: tuple[tuple[str, Type], ...],
    result: Type | None,
    written: tuple[str, ...],
    updated: tuple[str, ...] = (),
) -> Function:
    code = NativeCode(name, text, params, result, written, updated)
    args = [Value(t, p) for p, t in params]
    f = Function(name, args, code.results, "func", overload.source.header)
    b = Builder(f.body)
    with at(overload.source.header), b.into(f.body):
        b.yield_(*b.insert(ops.Native(code, tuple(args)), *code.results).results)
    return f


def _checked(overload: Overload, parameter: str, t: Given) -> Type:
    element = t.dtype if isinstance(t, Array) else t
    if isinstance(element, (Host, Struct, tuple)):
        what = "a function" if isinstance(element, Host) else "a tuple" if isinstance(element, tuple) else f"{t}"
        raise WarpCodegenTypeError(
            f"argument `{parameter}` of func_native `{overload.source.name}` is {what}, which native code can't take",
            overload.source.header,
            help="pass numbers, vectors, matrices and arrays of these",
        )
    assert isinstance(t, Type)
    return t


def _result(overload: Overload) -> Type | None:
    annotation: Any = overload.source.annotations.get("return")
    if annotation is None:
        return None
    try:
        t = values.to_ir(annotation)
    except TypeError as error:
        raise WarpCodegenTypeError(
            f"the result of func_native `{overload.source.name}`: {error}", overload.source.header
        ) from None
    if t is None or isinstance(t, (Array, Struct)):
        raise WarpCodegenTypeError(
            f"the result of func_native `{overload.source.name}` is a number, vector or matrix of one type, got "
            f"{values.shown(annotation)}",
            overload.source.header,
        )
    return t


def _require_stub(overload: Overload) -> None:
    """Raise unless the body of a native function is empty: it would not be run.

    Raises:
        WarpCodegenError: It holds statements.
    """
    for s in overload.source.node.body:
        if not (isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))):
            raise WarpCodegenError(
                f"the body of func_native `{overload.source.name}` is its snippet, so the Python body is `...`",
                overload.source.loc(s),
            )
