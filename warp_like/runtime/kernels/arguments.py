"""Checking and converting launch arguments, with messages that name kernel, argument, expected and given.

This is the slow path: the native dispatcher takes well-formed arguments by itself, and what it does not take comes
here, to be converted into something that it takes or refused with the reason.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from warp_like import values
from warp_like.base.contract import MAX_DIMS
from warp_like.base.warn import warn
from warp_like.ir import types as ir
from warp_like.ir.literal import int_range
from warp_like.runtime.arrays import interop_hooks, objects
from warp_like.runtime.arrays.array import array, bind_foreign, new_array
from warp_like.runtime.arrays.indexed import indexedarray
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import dtypes

if TYPE_CHECKING:
    from warp_like.frontend.source import Source


class Declared(Protocol):
    """What has a source that declares parameters: a kernel."""

    @property
    def source(self) -> Source:
        """The source."""


class Site:
    """Where an argument stands, for messages, and where arrays have to lie: on the CPU unless said otherwise.

    ``declared`` is the kernel, if messages are to show where it declares the parameter.
    """

    def __init__(
        self,
        kernel: str,
        position: int,
        name: str,
        expected: ir.Type | None,
        device: Device | None = None,
        declared: Declared | None = None,
    ) -> None:
        self.device = device or get_device("cpu")
        self.text = f"kernel `{kernel}`, argument {position + 1} `{name}`"
        self.name = name
        self.expected = expected
        self.declared = declared

    def type_error(self, given: str, value: Any = None) -> TypeError:
        """The exception for ``value``, which is ``given`` in words and of another type."""
        return TypeError(self._worded(f"got {given}", value))

    def value_error(self, why: str, value: Any = None) -> ValueError:
        """The exception for a value that does not fit."""
        return ValueError(self._worded(why, value))

    def _worded(self, why: str, value: Any) -> str:
        """The message, the place where the parameter is declared, and what to write instead where that is known."""
        from warp_like.runtime.kernels.argument_advice import advice, place  # for messages alone

        help = advice(self.name, self.expected, value)
        return "\n".join(
            [
                f"{self.text}: expected {self.expected}, {why}",
                *place(self.declared, self.name),
                *([f"  help: {help}"] if help is not None else []),
            ]
        )


def grid_dims(kernel: str, dim: Any) -> tuple[int, ...]:
    """Return ``dim`` as one to eight extents: of no dimensions, such as the shape of a number, as one thread.

    Raises:
        TypeError: It is neither an int nor a sequence of ints.
        ValueError: There are more than eight dimensions, one is negative, or their product exceeds 2^63 - 1.
    """
    several = isinstance(dim, Sequence) and not isinstance(dim, (str, bytes))
    given = tuple(dim) or (1,) if several or (isinstance(dim, np.ndarray) and dim.ndim == 1) else (dim,)
    if len(given) > MAX_DIMS:
        raise ValueError(f"kernel `{kernel}`: dim takes up to {MAX_DIMS} extents, got {len(given)}: {dim!r}")
    extents = []
    for d in map(dtypes.item_of, given):
        if isinstance(d, (bool, np.bool_)) or not hasattr(d, "__index__") or np.ndim(d):
            help = ""
            if isinstance(d, (float, np.floating)):
                help = f"\n  help: n // 2 is an int where n / 2 is a float; int({d}) converts"
            raise TypeError(
                f"kernel `{kernel}`: dim takes an int or a sequence of ints, got {_describe(d)} in {dim!r}{help}"
            )
        n = operator.index(d)
        if n < 0:
            raise ValueError(f"kernel `{kernel}`: dim can't be negative, got {dim!r}")
        extents.append(n)
    if math.prod(extents) > 2**63 - 1:
        raise ValueError(f"kernel `{kernel}`: a grid has at most 2^63 - 1 threads, got dim={dim!r}")
    return tuple(extents)


def convert(site: Site, value: Any) -> Any:
    """Return ``value`` as the native dispatcher takes it for ``site.expected``.

    Raises:
        TypeError: It has another type, number of dimensions, dtype or device.
        ValueError: It is a number that does not fit.
        RuntimeError: It is an array over a tensor that has lost its memory.
    """
    t = site.expected
    if isinstance(t, ir.Array):
        return _convert_array(site, t, value)
    if isinstance(t, ir.Scalar):
        return _convert_scalar(site, t, value)
    assert t is not None
    return _convert_composite(site, t, value)


def _convert_array(site: Site, t: ir.Array, value: Any) -> array:
    if value is None or (_NO_ARRAYS and value is _NO_ARRAYS.get((t, get_device("cpu")))):
        return no_array(t, site.device)
    original = value
    if not isinstance(value, array):
        try:
            value = interop_hooks.as_array(value, values.from_ir(t.dtype), recorder.active is not None)
        except TypeError as e:
            raise site.type_error(_describe(value), value) from e
        except ValueError as e:  # an array that can't be shared: the reason is all that is wrong with it
            raise site.type_error(f"{_describe(value)}: {e}", value) from e
    given = array_type(value)
    if given != t:
        raise site.type_error(f"{given} of shape {value.shape}" if given.ndim != t.ndim else str(given), original)
    if str(value.device) != str(site.device):  # jax_callable has an object of its own
        reached = _reached(site, value)
        if reached is not None:
            return reached
        raise TypeError(
            f"{site.text}: the launch is on {site.device}, the array on {value.device}; launch with "
            f"device='{value.device}', or pass a copy: wp.clone(a, device='{site.device}')"
        )
    if not value.has_memory:
        raise RuntimeError(
            f"{site.text}: the array's memory is gone: the tensor that it was made from has been freed or resized since"
        )
    return value


def _reached(site: Site, value: array) -> array | None:
    """An array elsewhere as one of the launch's device, whose kernels can use its memory; None where they can't.

    A gradient would not be found there, so a tape records no launch that would need it. The CPU waits for the device
    that a managed array is of: the device's own kernels, and those of others that use the array, are done then.
    """
    if recorder.active is not None and value.requires_grad:
        return None
    from warp_like.runtime.arrays.access import can_access  # not loaded unless arrays lie elsewhere

    if not can_access(site.device, value):
        return None
    if site.device.backend.streams is None:
        value.device.synchronize()
    return bind_foreign(value.element, value.ptr, value.shape, value.strides, value.readonly, site.device, value)


def no_array(t: ir.Array, device: Device | None = None) -> array:
    """Return what kernels take for an array that is None: one without elements, which is false as a condition."""
    place = device or get_device("cpu")
    if (t, place) not in _NO_ARRAYS:
        _NO_ARRAYS[t, place] = new_array(element_type(t.dtype), (0,) * t.ndim, place, zero=True)
    return _NO_ARRAYS[t, place]


_NO_ARRAYS: dict[tuple[ir.Array, Device], array] = {}


def place_of(args: Sequence[Any]) -> Device:
    """Return the device that a launch's arrays lie on; the CPU where there are none."""
    return next((a.device for a in args if isinstance(a, array)), get_device("cpu"))


def require_given(site: Site, value: array) -> None:
    """Refuse None for an array that every thread of the kernel accesses.

    Raises:
        TypeError: ``value`` stands for None.
    """
    t = site.expected
    if isinstance(t, ir.Array) and value is _NO_ARRAYS.get((t, value.device)):
        raise TypeError(f"{site.text}: expected {t}, got None, and every thread accesses its elements")


def require_writable(site: Site, value: array) -> None:
    """Refuse an array that the kernel writes and its owner does not let anybody write.

    Raises:
        ValueError: ``value`` is read-only.
    """
    if value.readonly:
        raise ValueError(f"{site.text}: the kernel writes this array, and the one given is read-only; pass a copy")


def require_aligned(site: Site, value: array) -> None:
    """Refuse an array whose elements lie where the processor, or generated code, does not read them.

    Raises:
        ValueError: An element of ``value`` is not aligned.
    """
    if not value.is_aligned:
        where = f"the first one at {value.ptr:#x}, with strides {value.strides}"
        raise ValueError(f"{site.text}: the array's elements are not aligned ({where}); pass a copy")


def _convert_scalar(site: Site, t: ir.Scalar, value: Any) -> bool | int | float:
    if t == ir.uint64 and (found := objects.id_of(value)) is not None and 0 <= found < 1 << 64:
        return found
    number = _python_number(value)
    if number is None:
        raise site.type_error(_describe(value), value)
    if t.is_bool:
        if isinstance(number, float):
            raise site.type_error(_describe(value), value)
        return bool(number)
    if t.is_int:
        if isinstance(number, float):
            raise site.type_error(_describe(value), value)
        lo, hi = int_range(t)
        if not lo <= number <= hi:
            raise site.value_error(f"which holds {lo} to {hi}, got {number}", value)
        return int(number)
    try:
        real = float(number)
    except OverflowError:
        raise site.value_error(f"got {number}, which is too large") from None
    if math.isfinite(real) and abs(real) > _LARGEST[t]:
        raise site.value_error(f"whose largest number is {_LARGEST[t]:g}, got {real:g}")
    return real


_LARGEST = {
    # halfway to the next power of two still rounds down to the largest finite number
    ir.float16: 65519.99,
    ir.bfloat16: 3.3961775292304601e38,
    ir.float32: 3.4028235677973362e38,
    ir.float64: math.inf,
}


def _python_number(value: Any) -> bool | int | float | None:
    """Return ``value`` as a Python number of its own kind, None if it is no number."""
    if isinstance(value, (bool, np.bool_, dtypes.bool)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    host = values.constant_of(value)
    if host is not None and isinstance(host[0], ir.Scalar):
        return host[1]
    item = dtypes.item_of(value)
    if item is not value:
        _warn_of_lost_gradient(value)
        return _python_number(item)
    if getattr(value, "ndim", 0):  # a tensor of several elements
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _warn_of_lost_gradient(given: Any) -> None:
    """Warn of a tensor with a gradient that is given for a number while a tape records."""
    if recorder.active is not None and getattr(given, "requires_grad", False):
        warn(
            "a tensor that requires a gradient is given for a number, and its gradient stops there; declare the "
            "parameter as wp.array(dtype=float), or make the kernel an operator with as_tensors=[...]"
        )


def _convert_composite(site: Site, t: ir.Type, value: Any) -> Any:
    cls = values.from_ir(t)
    if type(value) is cls:
        return value
    host = values.constant_of(value)
    if host is not None:
        if host[0] == t:
            return cls(*host[1])
        if not isinstance(host[0], ir.Aggregate) or ir.element_shape(host[0]) != ir.element_shape(t):
            raise site.type_error(str(host[0]))
        numbers: Any = host[1]
    elif isinstance(value, (list, tuple, np.ndarray)):
        numbers = _flat(t, value)
        if numbers is None:
            raise site.type_error(_describe_sequence(value))
    else:
        raise site.type_error(_describe(value))
    return cls(*(_convert_scalar(site, t.dtype, x) for x in numbers))  # type: ignore[attr-defined]


def _flat(t: Any, value: Any) -> Any:
    """The numbers of a sequence of the shape of a ``t``, or flat, or of a transform's two parts; None for others."""
    if isinstance(t, ir.Transform) and not isinstance(value, np.ndarray) and [np.size(x) for x in value] == [3, 4]:
        return [x for part in value for x in part]
    try:
        numbers = np.array(value, dtype=object)
    except ValueError:  # rows of different lengths
        return None
    return numbers.ravel() if numbers.shape in (ir.element_shape(t), (ir.element_count(t),)) else None


def _describe_sequence(value: Any) -> str:
    try:
        return f"a {type(value).__name__} of shape {np.shape(value)}"
    except ValueError:
        return f"a {type(value).__name__} whose parts differ in length"


def infer_type(value: Any) -> ir.Type:
    """Return the IR type of a launch argument whose parameter leaves it open.

    Raises:
        TypeError: It is nothing that a kernel takes.
    """
    if value is None:
        raise TypeError("None has no type to infer; launch an instance that wp.overload declares")
    host = values.constant_of(value)
    if host is not None:
        return host[0]
    if isinstance(value, bool):
        return ir.bool_
    if isinstance(value, int):
        return ir.int32
    if isinstance(value, float):
        return ir.float32
    if isinstance(value, indexedarray):
        return value.ir_type
    return array_type(value if isinstance(value, array) else interop_hooks.as_array(value, None))


def array_type(a: array) -> ir.Array:
    """Return the IR type of an array."""
    return _array_type(a.dtype, a.ndim)


@functools.lru_cache(maxsize=256)
def _array_type(dtype: Any, ndim: int) -> ir.Array:
    element = values.to_ir(dtype)
    assert element is not None
    return ir.Array(element, ndim)


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, indexedarray):
        return str(value.ir_type)
    if isinstance(value, array):
        return f"{array_type(value)} of shape {value.shape}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{kind} of dtype {value.dtype} and shape {tuple(value.shape)}"
    if isinstance(value, (bool, int, float, str)):
        return f"{kind} {value!r}"
    return kind


def same_arguments(args: list[Any]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of arguments that are one piece of memory seen the same way, later one first."""
    seen: dict[Any, int] = {}
    pairs = []
    for i, a in enumerate(args):
        if isinstance(a, array) and a.size:
            first = seen.setdefault((a.ptr, a.shape, a.strides, a.type_code), i)
            if first != i:
                pairs.append((i, first))
    return tuple(pairs)
