"""Python objects of the kernel's surroundings: what they mean in kernel code."""

from __future__ import annotations

import builtins as python
import difflib
import types
from typing import Any, TypeVar

from warp_like import values
from warp_like.base.errors import WarpCodegenAttributeError, WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins import Builtin
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.context import Context
from warp_like.frontend.function import Function
from warp_like.frontend.operands import Host, Operand, number
from warp_like.ir.types import Type

_T = TypeVar("_T")

PYTHON_BUILTINS: dict[Any, str] = {
    python.min: "min",
    python.max: "max",
    python.abs: "abs",
    python.round: "round",
    python.pow: "pow",
    python.len: "len",
    python.print: "print",
    python.range: "range",
    python.type: "type",
}
"""Python's own functions that kernel code may call, by the name of what they do there."""


def builtin_name(obj: Any) -> str | None:
    """Return the name of the builtin that ``obj`` is, or None."""
    if isinstance(obj, Builtin):
        return obj.name
    if obj is static:
        return "static"
    if isinstance(obj, (types.BuiltinFunctionType, type)):
        return PYTHON_BUILTINS.get(obj)
    return None


def is_callable(obj: Any) -> bool:
    """Return whether kernel code can call ``obj``: a builtin, a user function, or a type."""
    return isinstance(obj, Function) or builtin_name(obj) is not None or values.is_type(obj)


def names_type(obj: Any) -> bool:
    """Return whether ``obj`` is a type of the kernel language."""
    return obj is not Any and values.is_type(obj)


def type_named(host: Host) -> Type | None:
    """Return the type that a Python object names; None for a generic one.

    Raises:
        WarpCodegenTypeError: It names none.
    """
    try:
        return values.to_ir(host.obj)
    except TypeError as error:
        raise WarpCodegenTypeError(str(error)) from None


def constant(x: _T) -> _T:
    """Return ``x``: a number, vector or matrix for kernels to use as a constant.

    Kernels see captured and module-level numbers anyway; this checks that ``x`` is one, and says what it is for.

    Raises:
        TypeError: ``x`` has no meaning in kernel code.
    """
    if number(x) is None and values.constant_of(x) is None:
        raise TypeError(
            f"a constant of kernel code is a number, a vector or a matrix, got {type(x).__name__}"
        )
    return x


def static(expr: _T) -> _T:
    """Return ``expr``; in kernel code, the Python expression is evaluated when the kernel is compiled.

    Example:
        >>> @wp.kernel
        ... def k(x: wp.array(dtype=float)):
        ...     x[wp.tid()] = wp.static(math.sqrt(2.0))
    """
    return expr


def from_host(ctx: Context, obj: Any, text: str) -> Operand:
    """Return what a Python object is in kernel code; ``text`` is how the user wrote it."""
    literal = number(obj)
    if literal is not None:
        return literal
    typed = values.constant_of(obj)
    if typed is not None:
        t, content = typed
        return ctx.b.constant(content, t)
    return Host(obj, text)


def attribute(ctx: Context, host: Host, name: str) -> Operand:
    """Return attribute ``name`` of a Python object."""
    text = f"{host.text}.{name}"
    try:
        found = getattr(host.obj, name)
    except AttributeError:
        near = difflib.get_close_matches(name, [n for n in dir(host.obj) if not n.startswith("_")], n=1)
        raise WarpCodegenAttributeError(
            f"`{host.text}` has no `{name}`", help=f"did you mean `{host.text}.{near[0]}`?" if near else None
        ) from None
    return from_host(ctx, found, text)


def item(ctx: Context, host: Host, key: Any) -> Operand:
    """Return ``host[key]`` for a constant key: numbers and typed constants in a tuple, list or dict."""
    text = f"{host.text}[{key}]"
    if not isinstance(host.obj, (tuple, list, dict)):
        raise not_a_value(host)
    try:
        found = host.obj[key]
    except (IndexError, KeyError):
        raise WarpCodegenValueError(f"`{host.text}` has no element {key!r}") from None
    operand = from_host(ctx, found, text)
    if isinstance(operand, Host) and not is_callable(found):
        raise not_a_value(operand)
    return operand


def not_a_value(host: Host) -> WarpCodegenTypeError:
    """Return the error for a Python object where a value is due."""
    obj = host.obj
    kind = type(obj).__name__
    if is_callable(obj):
        return WarpCodegenTypeError(f"expected a value, got `{host.text}`", help=f"call it: {host.text}(...)")
    if isinstance(obj, str):
        return WarpCodegenTypeError(
            "text has no meaning in kernel code outside of print()", help="use a number"
        )
    if obj is None:
        return WarpCodegenTypeError(
            "None has no meaning in kernel code", help="use a number that stands for nothing, such as -1"
        )
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__dlpack__"):
        return WarpCodegenTypeError(
            f"`{host.text}` is {_article(kind)} {kind}, which a kernel can't capture",
            help="pass it as an argument of the kernel",
        )
    return WarpCodegenTypeError(
        f"`{host.text}` is {_article(kind)} {kind}, which has no meaning in kernel code",
        help="constants are numbers, vectors, matrices and integer enums; anything else is an argument of the kernel",
    )


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"


def builtin_names() -> list[str]:
    """Return the names of all public builtins."""
    return [n for n in REGISTRY if not n.startswith("_")]
