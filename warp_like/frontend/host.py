"""Python objects that kernel code mentions: which of them it can use, and as what."""

from __future__ import annotations

import builtins as python
import enum
import types
from typing import Any

from warp_like import values
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.function import Function
from warp_like.ir.literal import Literal
from warp_like.ir.types import Type

PYTHON_BUILTINS: dict[Any, str] = {
    python.min: "min",
    python.max: "max",
    python.abs: "abs",
    python.round: "round",
    python.pow: "pow",
    python.len: "len",
    python.print: "print",
    python.range: "range",
    python.reversed: "reversed",
    python.type: "type",
}
"""Python's own functions that kernel code may call, by the name of what they do there."""


class Adjoint:
    """What ``wp.adjoint`` is: ``wp.adjoint[x]`` in a gradient function is the adjoint of argument ``x``."""

    def __getitem__(self, argument: Any) -> Any:
        raise TypeError("wp.adjoint[...] belongs to the code of a gradient function, see wp.func_grad")

    def __repr__(self) -> str:
        return "wp.adjoint"


ADJOINT = Adjoint()


class Host:
    """A Python object; ``text`` is how the user wrote it."""

    __slots__ = ("obj", "text")

    def __init__(self, obj: Any, text: str) -> None:
        self.obj = obj
        self.text = text


def number(obj: Any) -> Literal | None:
    """Return a plain Python number or an integer enum's member as a literal; None for anything else."""
    if isinstance(obj, enum.Enum):
        return Literal(int(obj.value)) if isinstance(obj, int) else None
    if type(obj) in (bool, int, float):
        return Literal(obj)
    return None


def builtin_name(obj: Any) -> str | None:
    """Return the name of the builtin that ``obj`` is, or None."""
    if isinstance(obj, Builtin):
        return obj.name
    if isinstance(obj, (types.BuiltinFunctionType, type)):
        return PYTHON_BUILTINS.get(obj)
    return None


def is_callable(obj: Any) -> bool:
    """Return whether kernel code can call ``obj``: a builtin, a user function, or a type.

    Only these may go by another name in kernel code: what they mean does not depend on how they are reached,
    so the cache key sees it.
    """
    return isinstance(obj, Function) or builtin_name(obj) is not None or values.is_type(obj)


def type_named(host: Host) -> Type | None:
    """Return the type that a Python object names; None for a generic one.

    Raises:
        WarpCodegenTypeError: It names none.
    """
    try:
        return values.to_ir(host.obj)
    except TypeError as error:
        raise WarpCodegenTypeError(str(error)) from None


def not_a_value(host: Host) -> WarpCodegenTypeError:
    """Return the error for a Python object where a value is due."""
    obj = host.obj
    kind = type(obj).__name__
    if is_callable(obj):
        return WarpCodegenTypeError(f"expected a value, got `{host.text}`", help=f"call it: {host.text}(...)")
    if obj is ADJOINT:
        return WarpCodegenTypeError(
            "wp.adjoint belongs to a gradient function, which @wp.func_grad declares",
            help="wp.adjoint[x] there is the adjoint of argument `x`",
        )
    if isinstance(obj, str):
        return WarpCodegenTypeError("text has no meaning in kernel code outside of print()", help="use a number")
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
        help="constants are numbers, vectors, matrices and integer enums; pass anything else as an argument",
    )


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"
