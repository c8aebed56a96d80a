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
from warp_like.frontend.operands import ArgumentType
from warp_like.ir import ops
from warp_like.ir.builder import Builder, fields, from_fields
from warp_like.ir.core import Function, Value
from warp_like.ir.native import NativeCode
from warp_like.ir.types import Array, IndexedArray, Struct, Type, holds_arrays, is_differentiable, leaf_fields


def build_native(overload: Overload, given: Sequence[ArgumentType], name: str) -> Function:
    """Return the function that runs a snippet, with its gradient and replay function.

    Raises:
        WarpCodegenTypeError: Native code can't take an argument or return the result.
    """
    _require_stub(overload)
    types = [_checked(overload, p, t) for p, t in zip(overload.params, given, strict=True)]
    result = _result(overload)
    flat = _of_fields(overload, tuple(zip(overload.params, types, strict=True)), result, name)
    if not any(isinstance(t, Struct) for t in (*types, result)):
        return flat
    params = [Value(t, p) for p, t in zip(overload.params, types, strict=True)]
    f = Function(f"{name}_of_structs", params, () if result is None else (result,), "func", overload.source.header)
    b = Builder(f.body)
    with at(overload.source.header), b.into(f.body):
        call = b.insert(ops.Call(flat, tuple(x for p in params for x in fields(b, p))), *flat.results)
        b.yield_(*(() if result is None else (from_fields(b, result, list(call.results)),)))
    return f


def _of_fields(overload: Overload, params: tuple[tuple[str, Type], ...], result: Type | None, name: str) -> Function:
    """The function that runs a snippet, which takes and returns the fields of structs."""
    snippets = overload.native
    assert snippets is not None
    structs = tuple((p, t) for p, t in params if isinstance(t, Struct))
    leaves = _leaves(params)
    arrays = [p for p, t in leaves if isinstance(t, Array)]
    for p in snippets.writes or ():
        if p not in arrays:
            raise WarpCodegenTypeError(f"func_native `{name}` has no array argument `{p}`", overload.source.header)
    written = tuple(arrays) if snippets.writes is None else snippets.writes
    refs = overload.references
    f = _function(overload, NativeCode(name, snippets.forward, leaves, result, written, refs, structs))
    if snippets.replay is not None:
        replay = NativeCode(f"{name}_replay", snippets.replay, leaves, result, (), refs, structs)
        f.replay = _function(overload, replay)
    if snippets.adjoint is not None:
        adjoints = tuple((f"adj_{p}", t) for p, t in leaves if is_differentiable(t))
        returned = () if result is None else _leaves((("adj_ret", result),))
        changed = tuple(p for p, t in adjoints if isinstance(t, Array))
        updated = tuple(p for p, t in adjoints if not isinstance(t, Array))
        theirs = tuple((f"adj_{p}", t) for p, t in structs if is_differentiable(t))
        if isinstance(result, Struct):
            theirs += (("adj_ret", result),)
        given = (*leaves, *returned, *adjoints)
        code = NativeCode(f"{name}_adjoint", snippets.adjoint, given, None, changed, updated, (*structs, *theirs))
        f.gradient = _gradient(overload, code, [(f"adj_{p}", t) for p, t in leaves if p in refs])
    return f


def _leaves(params: tuple[tuple[str, Type], ...]) -> tuple[tuple[str, Type], ...]:
    """Parameters with each struct replaced by its fields."""
    return tuple(x for p, t in params for x in (leaf_fields(t, f"{p}.") if isinstance(t, Struct) else [(p, t)]))


def _function(overload: Overload, code: NativeCode) -> Function:
    args = [Value(t, p) for p, t in code.params]
    f = Function(code.name, args, code.results, "func", overload.source.header)
    b = Builder(f.body)
    with at(overload.source.header), b.into(f.body):
        b.yield_(*b.insert(ops.Native(code, tuple(args)), *code.results).results)
    return f


def _gradient(overload: Overload, code: NativeCode, refs: Sequence[tuple[str, Type]]) -> Function:
    """The gradient function, which is given the adjoints of what ``wp.ref`` parameters hold after the call as well.

    The snippet has one variable for that and for the adjoint of what the reference held before, which it leaves there.
    """
    plain = _function(overload, code)
    if not refs:
        return plain
    after = {name: Value(t, f"{name}_after") for name, t in refs}
    params = [Value(t, p) for p, t in code.params]
    first = next((k for k, (p, _) in enumerate(code.params) if p in code.updated or p in code.written), len(params))
    f = Function(code.name, [*params[:first], *after.values(), *params[first:]], code.results, "func", plain.loc)
    b = Builder(f.body)
    with at(overload.source.header), b.into(f.body):
        args = tuple(after.get(p, v) for (p, _), v in zip(code.params, params, strict=True))
        b.yield_(*b.insert(ops.Native(code, args), *code.results).results)
    return f


def _checked(overload: Overload, parameter: str, t: ArgumentType) -> Type:
    element = t.dtype if isinstance(t, Array) else t
    if isinstance(element, (Host, tuple)) or (isinstance(element, Struct) and not _is_plain(t)):
        what = "a function" if isinstance(element, Host) else "a tuple" if isinstance(element, tuple) else f"{t}"
        raise WarpCodegenTypeError(
            f"argument `{parameter}` of func_native `{overload.source.name}` is {what}, which native code can't take",
            overload.source.header,
            help="pass numbers, vectors, matrices, arrays of these, and structs of these",
        )
    assert isinstance(t, Type)
    if parameter in overload.references and isinstance(t, (Array, Struct)):
        raise WarpCodegenTypeError(
            f"argument `{parameter}` of func_native `{overload.source.name}` is {t}, which native code can't take by "
            "reference",
            overload.source.header,
            help="an array's elements are the caller's anyway" if isinstance(t, Array) else "return the struct",
        )
    return t


def _is_plain(t: Any) -> bool:
    """Whether native code takes a struct: it holds no indexed array and no array of structs; an array is not one."""
    if not isinstance(t, Struct) or isinstance(t, IndexedArray):
        return False
    inside = [f for _, f in t.fields if isinstance(f, Struct)]
    arrays = (f for _, f in t.fields if isinstance(f, Array))
    return all(map(_is_plain, inside)) and not any(isinstance(f.dtype, Struct) for f in arrays)


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
    if t is None or holds_arrays(t):
        raise WarpCodegenTypeError(
            f"the result of func_native `{overload.source.name}` is a number, vector, matrix or struct without "
            f"arrays, of one type, got {values.shown(annotation)}",
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
