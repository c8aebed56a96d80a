"""Builtins that make vectors, matrices, quaternions and transforms whose type follows from the arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from warp_like import values
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import for_each
from warp_like.builtins.patterns import Literal
from warp_like.frontend import constructors
from warp_like.frontend.arguments import (
    arguments,
    by_form,
    count_argument,
    options_of,
    positional_only,
    scalar_argument,
)
from warp_like.frontend.context import Context
from warp_like.frontend.host import Host
from warp_like.frontend.operands import Operand
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Mat, Quat, Scalar, Transform, Type, Vec, element_count, float32, is_large, scalar_of

Handler = Callable[[Context, ast.Call], Operand]


def _vector(ctx: Context, node: ast.Call) -> Operand:
    options = options_of(node, "vector", ("length", "dtype"))
    args = [ctx.expr(a) for a in node.args]
    length = count_argument(ctx, options["length"], "the length of vector()", 0) if "length" in options else None
    if length is None:
        if not args:
            raise WarpCodegenTypeError("vector() needs its components or a length", help="wp.vector(x, y, z)")
        only = args[0] if len(args) == 1 else None
        length = element_count(only.type) if isinstance(only, Value) and isinstance(only.type, Vec) else len(args)
    return constructors.construct(ctx, Vec(length, _dtype(ctx, options, args, "vector")), args, node.args)


def _matrix(ctx: Context, node: ast.Call) -> Operand:
    nodes, options = by_form(node, "matrix", (("pos", "rot", "scale"),), ("shape", "dtype"))
    args = [ctx.expr(a) for a in nodes]
    if [type(a.type) if isinstance(a, Value) else None for a in args] == [Vec, Quat, Vec]:
        return ctx.apply("transform_compose", *args, nodes=nodes)
    shape = _shape(ctx, options["shape"]) if "shape" in options else None
    if shape is None:
        raise WarpCodegenTypeError("matrix() needs a shape of two constants", help="wp.matrix(..., shape=(2, 3))")
    return constructors.construct(ctx, Mat(*shape, _dtype(ctx, options, args, "matrix")), args, nodes)


def _shape(ctx: Context, node: ast.expr) -> tuple[int, int] | None:
    """The shape of a matrix, where it is two positive constants."""
    shape = ctx.expr(node)
    if isinstance(shape, Host) and isinstance(shape.obj, tuple):
        shape = tuple(map(Literal, shape.obj))
    match shape:
        case (Literal(value=int(rows)), Literal(value=int(cols))) if rows > 0 and cols > 0:
            return rows, cols
    return None


def _dtype(ctx: Context, options: dict[str, ast.expr], args: Sequence[Operand], name: str) -> Scalar:
    """The scalar type asked for, or that of the arguments."""
    if "dtype" in options:
        return scalar_argument(ctx, options["dtype"], f"the dtype of {name}()")
    found = (scalar_of(a.type) for a in args if isinstance(a, Value))
    typed = next((s for s in found if s is not None), None)
    if typed is not None:
        return typed
    defaults = [a.default for a in args if isinstance(a, Literal)]
    if not defaults:
        raise WarpCodegenTypeError(f"{name}() needs its components or a dtype", help=f"wp.{name}(..., dtype=float)")
    return next((d for d in defaults if d.is_float), defaults[0])


def _matrix_from(name: str, by_rows: bool) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        vectors = [ctx.value(a) for a in positional_only(node, name)]
        types = {v.type for v in vectors}
        t = vectors[0].type if vectors else None
        if len(types) != 1 or not isinstance(t, Vec):
            shown = ", ".join(str(v.type) for v in vectors) or "nothing"
            raise WarpCodegenTypeError(f"{name}() needs vectors of one type, got {shown}")
        n = len(vectors)
        whole = Mat(n, t.length, t.dtype) if by_rows else Mat(t.length, n, t.dtype)
        if is_large(whole):
            return _large_matrix(ctx, whole, vectors, by_rows)
        lines = [ctx.b.components(v) for v in vectors]
        if not by_rows:
            lines = [list(column) for column in zip(*lines, strict=True)]
        return ctx.b.make(whole, [c for line in lines for c in line])

    return build


def _large_matrix(ctx: Context, t: Mat, vectors: Sequence[Value], by_rows: bool) -> Value:
    """Replace the rows, or the columns, one after the other."""
    b, made = ctx.b, ctx.b.insert(ops.Empty(), t).result
    for k, v in enumerate(vectors):
        if by_rows:
            made = b.insert_component(made, v, k)
        else:
            made = _with_column(b, made, k, v)
    return made


def _with_column(b: Emitter, m: Value, k: int, v: Value) -> Value:
    return for_each(b, v.type, [m], lambda index, m: [b.insert_component(m, b.extract(v, *index), *index, k)])[0]


def _identity(ctx: Context, node: ast.Call) -> Operand:
    given = arguments(node, "identity", ("n", "dtype"), 2)
    n = count_argument(ctx, given["n"], "the size of identity()")
    t = Mat(n, n, scalar_argument(ctx, given["dtype"], "the dtype of identity()"))
    return ctx.b.constant(tuple(int(r == c) for r in range(n) for c in range(n)), t)


def _quaternion(ctx: Context, node: ast.Call) -> Operand:
    nodes, options = by_form(node, "quaternion", (("x", "y", "z", "w"), ("ijk", "real"), ("quat",)), ("dtype",))
    args = [ctx.expr(a) for a in nodes]
    return constructors.construct(ctx, Quat(_float_dtype(ctx, options, args, "quaternion")), args, nodes)


def _transformation(ctx: Context, node: ast.Call) -> Operand:
    nodes, options = by_form(node, "transformation", _TRANSFORM, ("dtype",))
    args = [ctx.expr(a) for a in nodes]
    return constructors.construct(ctx, Transform(_float_dtype(ctx, options, args, "transform")), args, nodes)


def transform(ctx: Context, node: ast.Call, t: Transform) -> Operand:
    """``wp.transform(p, q)``, where the type is called."""
    nodes, _ = by_form(node, "transform", _TRANSFORM, ())
    return constructors.construct(ctx, t, [ctx.expr(a) for a in nodes], nodes)


_TRANSFORM = (("p", "q"), ("p",))


def require_agreement(ctx: Context, node: ast.Call, t: Type, name: str) -> None:
    """Refuse keywords where type ``t`` is called, but those that say what it is: ``wp.mat22(m, shape=(2, 2))``."""
    for k in node.keywords:
        if k.arg == "dtype" and not isinstance(t, Scalar):
            given: Any = scalar_argument(ctx, k.value, f"the dtype of {name}()")
            own: Any = scalar_of(t)
        elif k.arg == "length" and isinstance(t, Vec):
            given, own = count_argument(ctx, k.value, f"the length of {name}()", 0), t.length
        elif k.arg == "shape" and isinstance(t, Mat):
            given, own = _shape(ctx, k.value), (t.rows, t.cols)
        else:
            raise WarpCodegenTypeError(f"{name}() takes its arguments by position")
        if given != own:
            with ctx.at(k.value):
                raise WarpCodegenTypeError(f"the {k.arg} of {name}() is {own}", help=f"leave out {k.arg}=...")


def _float_dtype(ctx: Context, options: dict[str, ast.expr], args: Sequence[Operand], name: str) -> Scalar:
    """The float type asked for, or that of the arguments; numbers without a type are float32."""
    typed = "dtype" in options or any(isinstance(a, Value) for a in args)
    return _require_float(_dtype(ctx, options, args, name), name) if typed else float32


def _require_float(t: Scalar, name: str) -> Scalar:
    if not t.is_float:
        raise WarpCodegenTypeError(f"the dtype of a {name} is a float type, got {t}")
    return t


def _identity_of(name: str, kind: type[Quat | Transform], numbers: tuple[float, ...]) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        given = arguments(node, f"{name}_identity", ("dtype",), 0)
        t = scalar_argument(ctx, given["dtype"], f"the dtype of {name}_identity()") if given else float32
        return ctx.b.constant(numbers, kind(_require_float(t, name)))

    return build


def _type_of(make: Callable[..., Any], params: tuple[str, ...], construct: Handler) -> Handler:
    """What builds the call of ``wp.types.vector`` and its like.

    With components it makes a value, as ``construct`` does. Without, it is the type, which is called in turn, and as a
    value the zero of that type.
    """

    def build(ctx: Context, node: ast.Call) -> Operand:
        if not _names_type(ctx, node):
            return construct(ctx, node)
        given = arguments(node, f"types.{make.__name__}", params, len(params))
        options: dict[str, Any] = {"dtype": values.from_ir(scalar_argument(ctx, given["dtype"], "the dtype"))}
        if "length" in given:
            options["length"] = count_argument(ctx, given["length"], "the length of a vector")
        if "shape" in given:
            options["shape"] = _shape(ctx, given["shape"])
            if options["shape"] is None:
                raise WarpCodegenTypeError("the shape of a matrix is two constants", help="shape=(2, 3)")
        try:
            zero = ctx.zero(make(**options)._ir_type_)
        except (TypeError, ValueError) as error:
            raise WarpCodegenTypeError(str(error)) from None
        ctx.zeros_of_types.add(zero)
        return zero

    return build


def _names_type(ctx: Context, node: ast.Call) -> bool:
    """Whether the arguments are those of a type, as ``(length=3, dtype=float)`` and ``(3, float)``: no components."""
    keywords = {k.arg for k in node.keywords}
    if not node.args:
        return keywords <= {"length", "shape", "dtype"}
    if len(node.args) > 2:
        return False
    with ctx.branch():  # dropped: what is built here only tells what the arguments are
        last = ctx.expr(node.args[-1])
    if len(node.args) == 1 and "dtype" in keywords:
        return isinstance(last, (tuple, Literal)) and not keywords & {"length", "shape"}
    return isinstance(last, Host)


HANDLERS: dict[str, Handler] = {
    "vector": _vector,
    "matrix": _matrix,
    "matrix_from_rows": _matrix_from("matrix_from_rows", by_rows=True),
    "matrix_from_cols": _matrix_from("matrix_from_cols", by_rows=False),
    "identity": _identity,
    "types.vector": _type_of(values.vector, ("length", "dtype"), _vector),
    "types.matrix": _type_of(values.matrix, ("shape", "dtype"), _matrix),
    "types.quaternion": _type_of(values.quaternion, ("dtype",), _quaternion),
    "types.transformation": _type_of(values.transformation, ("dtype",), _transformation),
    "quaternion": _quaternion,
    "quat_identity": _identity_of("quat", Quat, (0.0, 0.0, 0.0, 1.0)),
    "transformation": _transformation,
    "transform_identity": _identity_of("transform", Transform, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)),
}
"""The builtins that are built here, by name."""
