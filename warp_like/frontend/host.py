"""Python objects that kernel code mentions: which of them it can use, and as what."""

from __future__ import annotations

import builtins as python
import enum
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from warp_like import values
from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.function import Function
from warp_like.ir.literal import Literal
from warp_like.ir.types import Type, is_empty

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

USER_OPERATORS = (
    *("add", "sub", "mul", "div", "floordiv", "mod", "pow", "lshift", "rshift", "bit_and", "bit_or", "bit_xor"),
    *("neg", "pos", "invert", "lt", "le", "gt", "ge", "eq", "ne"),
)
"""The operators that a function of the user's, of that name and around the kernel, defines for structs."""

_SAME_NAMES = (
    *("acos", "asin", "atan", "atan2", "cbrt", "ceil", "copysign", "cos", "cosh", "degrees", "erf", "erfc", "exp"),
    *("floor", "isfinite", "isinf", "isnan", "log", "log10", "log2", "pow", "radians", "rint", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
)
_OTHER_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "fabs": "abs",
    "absolute": "abs",
}
_OTHER_NAMES |= {"fmod": "mod", "power": "pow", "maximum": "max", "minimum": "min"}
_OTHER_NAMES |= {"deg2rad": "radians", "rad2deg": "degrees"}
MATHEMATICS = {name: name for name in _SAME_NAMES} | _OTHER_NAMES
"""The builtins that functions of ``math`` and universal functions of NumPy are in kernel code, by their names."""
NUMPY_DIFFERS = {
    "remainder": ("mod", "takes the sign of the dividend, not of the divisor"),
    "sign": ("sign", "is 1 at zero, not 0"),
}
"""Universal functions of NumPy for which kernel code has, as in Warp, a builtin that gives something else at times."""

_HOST_FUNCTIONS: dict[Any, str] = {
    values.vector: "types.vector",
    values.matrix: "types.matrix",
    values.quaternion: "types.quaternion",
    values.transformation: "types.transformation",
}
_T = TypeVar("_T")


def in_kernels(name: str) -> Callable[[_T], _T]:
    """Make kernel code understand a function or class of the runtime as the builtin ``name``."""

    def register(obj: _T) -> _T:
        _HOST_FUNCTIONS[obj] = name
        return obj

    return register


class Adjoint:
    """The type of ``wp.adjoint``: ``wp.adjoint[x]`` in a gradient function is the adjoint of argument ``x``."""

    def __getitem__(self, argument: Any) -> Any:
        raise TypeError("wp.adjoint[...] belongs to the code of a gradient function, see wp.func_grad")

    def __repr__(self) -> str:
        return "wp.adjoint"


ADJOINT = Adjoint()


class GradientOf:
    """The type of ``wp.grad(function)``: the gradient of a function, to be called in kernel code."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Raise: a gradient belongs to kernel code."""
        raise TypeError(f"{self!r} is called in kernel code; on the host, wp.Tape and wp.autograd give gradients")

    def __repr__(self) -> str:
        inner = self.function
        return f"wp.grad({repr(inner) if isinstance(inner, GradientOf) else getattr(inner, 'name', inner)})"


def grad(func: Any) -> GradientOf:
    """Return the gradient of a function, for use in kernel code.

    Called with the arguments of ``func``, it returns the derivative of what ``func`` returns with respect to each of
    them: one value for one argument, else a tuple. Where ``func`` returns several numbers, it is the derivative of
    their sum. Integers have the derivative zero; arrays are constants, and have none. The derivative with respect to a
    struct is such a struct, whose arrays stay what they are; that with respect to a tuple is a tuple. A gradient
    function that ``wp.func_grad`` has given is used. A kernel with ``wp.grad`` in it can be differentiated like any
    other, so that second derivatives are right too, unless ``func`` holds a loop whose length is known only at run
    time: that is refused.

    Args:
        func: A function made by ``wp.func``, a builtin, or another ``wp.grad(...)``.

    Raises:
        TypeError: It is none of these.

    Example:
        >>> @wp.func
        ... def energy(x: float, k: float):
        ...     return 0.5 * k * x * x
        >>> @wp.kernel
        ... def forces(x: wp.array(dtype=float), f: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     dx, dk = wp.grad(energy)(x[i], 3.0)
        ...     f[i] = -dx
    """
    if not isinstance(func, (Function, Builtin, GradientOf)):
        raise TypeError(f"grad() takes a function made by @wp.func or a builtin, got {type(func).__name__}")
    return GradientOf(func)


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
        if getattr(obj, "__module__", None) == "math":
            return MATHEMATICS.get(obj.__name__)
        return PYTHON_BUILTINS.get(obj) or _HOST_FUNCTIONS.get(obj)
    if isinstance(obj, np.ufunc):
        return MATHEMATICS.get(obj.__name__) or NUMPY_DIFFERS.get(obj.__name__, (None,))[0]
    return _HOST_FUNCTIONS.get(obj) if isinstance(obj, types.FunctionType) else None


def is_callable(obj: Any) -> bool:
    """Return whether kernel code can call ``obj``: a builtin, a user function, the gradient of one, or a type.

    Only these may go by another name in kernel code: what they mean does not depend on how they are reached,
    so the cache key sees it.
    """
    return isinstance(obj, (Function, GradientOf)) or builtin_name(obj) is not None or values.is_type(obj)


def type_named(host: Host, *, may_be_empty: bool = False) -> Type | None:
    """Return the type that a Python object names; None for a generic one.

    Raises:
        WarpCodegenTypeError: It names none, or one that has no components unless it ``may_be_empty``.
    """
    try:
        t = values.to_ir(host.obj)
    except TypeError as error:
        raise WarpCodegenTypeError(str(error)) from None
    if t is not None and is_empty(t) and not may_be_empty:
        raise WarpCodegenTypeError(f"{t} has no components: nothing can be made of it or hold it")
    return t


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
