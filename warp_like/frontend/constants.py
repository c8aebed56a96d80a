"""Constants from the kernel's surroundings: numbers, vectors and matrices, by name, attribute or item."""

from __future__ import annotations

from typing import Any

from warp_like import values
from warp_like.base.errors import WarpCodegenAttributeError, WarpCodegenTypeError, WarpCodegenValueError
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.function import Function
from warp_like.frontend.host import GradientOf, Host, is_callable, not_a_value, number, type_named
from warp_like.frontend.names import MISSING, is_namespace, is_package
from warp_like.frontend.operands import Operand
from warp_like.ir.literal import Literal
from warp_like.ir.types import (
    Aggregate,
    Array,
    Mat,
    Quat,
    Scalar,
    Tile,
    Transform,
    Type,
    Vec,
    element_shape,
    holds_arrays,
)
from warp_like.values.struct import StructInstance


def from_host(ctx: Context, obj: Any, text: str) -> Operand:
    """Return what a Python object is in kernel code; ``text`` is how the user wrote it."""
    literal = number(obj)
    if literal is not None:
        return literal
    typed = values.constant_of(obj)
    if typed is not None:
        t, content = typed
        return ctx.b.constant(content, t)
    if isinstance(obj, StructInstance) and not holds_arrays(obj._ir_type_):
        t = obj._ir_type_
        fields = [(f, from_host(ctx, getattr(obj, name), name)) for name, f in t.fields]
        return ctx.b.make(t, [ctx.convert(operand, f, t.name) for f, operand in fields])
    return Host(obj, text)


def opened(ctx: Context, operand: Operand) -> Operand:
    """Return ``operand``; a Python tuple as a tuple of operands, to be passed and unpacked."""
    if not (isinstance(operand, Host) and isinstance(operand.obj, tuple)):
        return operand
    items = (from_host(ctx, obj, f"{operand.text}[{i}]") for i, obj in enumerate(operand.obj))
    return tuple(opened(ctx, item) for item in items)


def attribute(ctx: Context, host: Host, name: str) -> Operand:
    """Return attribute ``name`` of a Python object."""
    text = f"{host.text}.{name}"
    if isinstance(host.obj, (Builtin, GradientOf)):
        raise WarpCodegenAttributeError(f"`{host.text}` is a function, which has no attributes in kernel code")
    if is_package(host.obj) and name in ("float", "int"):
        return Host({"float": float, "int": int}[name], text)  # kernel code has these names in Warp
    if values.is_type(host.obj) and (of_type := type_attribute(type_named(host), name, host.text)) is not None:
        return of_type
    if isinstance(host.obj, Type):
        raise WarpCodegenAttributeError(f"the type {host.obj} has no attribute `{name}` in kernel code")
    if not is_namespace(host.obj):
        raise _attribute_of_object(host, text)
    found = ctx.source.around.look_up(host.obj, name)
    if found is MISSING:
        if is_package(host.obj):
            _refuse_missing_name(host.text, name)
        import difflib  # for messages alone

        known = host.obj.own_names if isinstance(host.obj, Function) else dir(host.obj)
        near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=1)
        raise WarpCodegenAttributeError(
            f"`{host.text}` has no `{name}`", help=f"did you mean `{host.text}.{near[0]}`?" if near else None
        )
    return from_host(ctx, found, text)


def _refuse_missing_name(module: str, name: str) -> None:
    """Raise if Warp has ``name`` and this package has not, or if it is another library's name for a builtin."""
    from warp_like.base import missing_names  # for messages alone

    why = missing_names.sentence(name, module)
    if why is not None:
        raise WarpCodegenAttributeError(why, help=missing_names.PAGE)
    if name in missing_names.OTHER_NAMES:
        known = missing_names.OTHER_NAMES[name]
        raise WarpCodegenAttributeError(f"`{module}` has no `{name}`", help=f"{module}.{known}()")


def _attribute_of_object(host: Host, text: str) -> WarpCodegenTypeError:
    """The error for an attribute of an array, a list or another object that kernel code takes as a whole."""
    if host.obj is None:
        return WarpCodegenTypeError(f"`{host.text}` is None, which has no attributes in kernel code")
    kind = with_article(type(host.obj).__name__)
    return WarpCodegenTypeError(
        f"`{text}` is an attribute of {kind} object, which kernel code can't read",
        help=f"pass `{text}` to the kernel as an argument, or write wp.static({text}) for its value at the first "
        "launch",
    )


def type_attribute(t: Type | None, name: str, text: str) -> Operand | None:
    """Return what ``length``, ``shape``, ``dtype`` or ``ndim`` of a type is; None for a type that has none."""
    if name == "dtype" and isinstance(t, Scalar):
        return Host(t, f"{text}.dtype")
    if name == "ndim" and isinstance(t, Array):
        return Literal(t.ndim)
    if name == "dtype" and isinstance(t, (*Aggregate, Array, Tile)):
        return Host(t.dtype, f"{text}.dtype")
    if name == "length" and isinstance(t, (Vec, Quat, Transform)):
        return Literal(element_shape(t)[0])
    if name == "shape" and isinstance(t, Tile):
        return tuple(Literal(n) for n in t.shape)
    if name == "shape" and isinstance(t, Mat):
        return tuple(Literal(n) for n in element_shape(t))
    return None


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
