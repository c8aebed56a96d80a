"""The one place that decides whether an object of another library can be used without a copy.

``as_array`` gives an array over the object's own memory, or raises and says why it can't: it never copies.
In order of preference it uses NumPy's own attributes, DLPack's C exchange API (for PyTorch before 2.10, which lacks
it, the tensor's methods), ``__dlpack__``,
``__array_interface__``, ``__cuda_array_interface__``, the buffer protocol and, as read-only data, ``__array__``. The
array keeps the memory's owner alive.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warp_like import _native
from warp_like.base.contract import MAX_DIMS
from warp_like.interop import torch_reader, versions
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, bind_foreign
from warp_like.runtime.memory.allocation import ElementType, contiguous_strides, element_type
from warp_like.runtime.memory.device import Device, get_device, get_devices, is_cuda_available
from warp_like.runtime.memory.stream import get_stream
from warp_like.values import Composite, scalar_from_numpy

_DLPACK_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}  # 3 is page-locked, 13 managed by CUDA
_DLPACK_SCALARS = {(_DLPACK_CODES[t.kind], t.bits, 1): t for t in ir.SCALARS}


@dataclass(frozen=True)
class Memory:
    """What is known of foreign memory: strides in bytes, the device by name, and the object that keeps it alive."""

    kind: str
    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: ir.Scalar
    readonly: bool
    owner: Any
    device: str = "cpu"


def as_array(obj: Any, dtype: Any = None, *, reinterpret: bool = False) -> array:
    """Return an array over the memory of ``obj``.

    Args:
        obj: An array of any library.
        dtype: The element type wanted; trailing dimensions become the components of a vec or mat. The scalar
            type of ``obj`` when left out.
        reinterpret: Whether bits may be read otherwise; see ``over``.

    Raises:
        TypeError: ``obj`` is no array, or its dtype is another.
        ValueError: The layout, the device or the number of dimensions can't be used.
    """
    if isinstance(obj, array):
        return obj if dtype is None or element_type(dtype).code == obj.type_code else obj.view(dtype)
    element = None if dtype is None else element_type(dtype)
    if element is not None and element.is_struct:
        return _over_records(obj, element)
    return over(describe(obj), element, reinterpret=reinterpret)


def _over_records(obj: Any, element: ElementType) -> array:
    """An array of structs over a structured NumPy array with the same fields in the same places."""
    if not isinstance(obj, np.ndarray) or obj.dtype != element.numpy:
        given = f"a NumPy array of {obj.dtype}" if isinstance(obj, np.ndarray) else type(obj).__name__
        raise TypeError(f"expected a NumPy array of {element.numpy}, which is {element.type}, got {given}")
    if element.holds:
        raise ValueError(f"the addresses in it keep no memory alive; make an array of instances of {element.type}")
    if not obj.flags.aligned:
        raise ValueError("the NumPy array's elements are not aligned; copy it first")
    shape, strides = (obj.shape, obj.strides) if obj.ndim else ((1,), (element.itemsize,))
    if len(shape) > MAX_DIMS:
        raise ValueError(f"an array has at most {MAX_DIMS} dimensions, got a NumPy array of shape {shape}")
    readonly = not obj.flags.writeable
    return bind_foreign(element, obj.ctypes.data, shape, strides, readonly, get_device("cpu"), obj)


def over(memory: Memory, element: ElementType | None, *, reinterpret: bool = False) -> array:
    """Return an array over ``memory`` with elements of type ``element``, or of its own scalars.

    With ``reinterpret``, integers may be read as those of the same size with or without sign, and bools as integers.
    """
    if element is None:
        element = element_type(memory.scalar)
    if element.scalar != memory.scalar and not (reinterpret and _reads_as(memory.scalar, element.scalar)):
        raise TypeError(f"expected elements of {element.type}, got a {memory.kind} of {memory.scalar}")
    shape, strides = memory.shape, memory.strides
    inner = len(element.shape)
    if inner:
        if shape[-inner:] != element.shape:
            raise ValueError(
                f"expected trailing dimensions {element.shape} for elements of {element.host.__name__}, "
                f"got a {memory.kind} of shape {shape}"
            )
        packed = contiguous_strides(element.shape, memory.scalar.bits // 8)
        apart = any(s != p and n > 1 for n, s, p in zip(element.shape, strides[-inner:], packed, strict=True))
        if apart and 0 not in shape:  # NumPy gives an array without elements strides of 0
            raise ValueError(
                f"the components of {element.host.__name__} have to lie side by side, got a {memory.kind} of "
                f"shape {shape} with strides {strides} bytes; make it contiguous first"
            )
        shape, strides = shape[:-inner], strides[:-inner]
    _require_sound(memory)
    if not shape:  # a single element is an array of one
        shape, strides = (1,), (element.itemsize,)
    if len(shape) > MAX_DIMS:
        raise ValueError(f"an array has at most {MAX_DIMS} dimensions, got a {memory.kind} of shape {memory.shape}")
    made = bind_foreign(element, memory.ptr, shape, strides, memory.readonly, _device_of(memory), memory.owner)
    if not made.is_aligned:
        size = memory.scalar.bits // 8
        raise ValueError(f"the {memory.kind}'s elements are not aligned to their size of {size} bytes; copy it first")
    return made


def _require_sound(memory: Memory) -> None:
    """Refuse memory that can't be: elements at address 0, beyond all addresses, or further apart than they go."""
    if min(memory.shape, default=0) < 0:
        raise ValueError(f"a {memory.kind} of shape {memory.shape} has a negative extent")
    if 0 in memory.shape:
        return
    if not memory.ptr:
        raise ValueError(f"the {memory.kind} has elements but no memory")
    size = memory.scalar.bits // 8
    reach = [(n - 1) * s for n, s in zip(memory.shape, memory.strides, strict=True)]
    below, above = (sum(abs(r) for r in reach if (r < 0) is negative) for negative in (True, False))
    outside = memory.ptr < below or memory.ptr + above + size >= 1 << 63
    if outside or max(below + above, math.prod(memory.shape) * size) >= 1 << 63:
        raise ValueError(
            f"a {memory.kind} of shape {memory.shape} with strides {memory.strides} bytes at address {memory.ptr:#x} "
            "describes more memory than there can be"
        )


def _reads_as(held: ir.Scalar, wanted: ir.Scalar | None) -> bool:
    """Whether what is held may be read as integers of a type: a bool is one, an integer is not always a bool."""
    return wanted is not None and wanted.is_int and (held.is_int or held.is_bool) and held.bits == wanted.bits


def _device_of(memory: Memory) -> Device:
    if memory.device == "cpu":
        return get_device("cpu")
    try:
        return get_device(memory.device)
    except (RuntimeError, ValueError):
        here = ", ".join(map(str, get_devices()))
        raise ValueError(
            f"the {memory.kind} lies on {memory.device}, and the devices here are: {here}; copy it to one of them first"
        ) from None


def describe(obj: Any) -> Memory:
    """Return what is known of the memory of ``obj``; see ``as_array`` for what it raises."""
    if isinstance(obj, np.ndarray):
        return _numpy_memory(obj, "NumPy array", obj)
    if not isinstance(obj, (np.generic, Composite)):  # single values, though they offer buffers
        for way in _WAYS:
            found = way(obj)
            if found is not None:
                return found
    raise TypeError(
        f"expected an array, got {type(obj).__module__}.{type(obj).__qualname__}".replace(" builtins.", " ")
    )


def _numpy_memory(a: np.ndarray[Any, Any], kind: str, owner: Any) -> Memory:
    if type(a) is not np.ndarray and isinstance(a, np.ma.MaskedArray):  # NumPy loads `ma` when it is asked for
        raise TypeError("a masked NumPy array can't be used: its mask would be ignored; use a.filled() or a.data")
    scalar = scalar_from_numpy(a.dtype)
    if scalar is None:
        order = " (foreign byte order)" if not a.dtype.isnative else ""
        raise TypeError(f"the {kind}'s dtype {a.dtype}{order} has no counterpart")
    return Memory(kind, a.ctypes.data, a.shape, a.strides, scalar, not a.flags.writeable, owner)


def _from_exchange_api(obj: Any) -> Memory | None:
    kind = _kind(obj)
    try:
        info = _native.tensor_info(obj)
        if info is None and versions.is_readable(obj):
            info = _native.tensor_info(obj)
    except ImportError as e:
        raise ValueError(str(e)) from e
    except (RuntimeError, BufferError, TypeError) as e:  # no dense memory: sparse, meta, another layout
        advice = "; to trace a launch, make the kernel an operator (wp.torch_op)" if torch_reader.is_fake(obj) else ""
        raise ValueError(f"the {kind} can't be shared: {str(e).partition(chr(10))[0]}{advice}") from e
    if info is None:
        return None
    if (getattr(obj, "is_conj", None) and obj.is_conj()) or (getattr(obj, "is_neg", None) and obj.is_neg()):
        raise ValueError(
            f"the {kind} is a lazily conjugated or negated view; resolve it first (resolve_conj, resolve_neg)"
        )
    return from_info(info, kind, _storage_of(obj))


def _storage_of(obj: Any) -> Any:
    """A tensor that shares memory and version with ``obj``, and has the memory when ``obj`` is emptied or moved."""
    if not hasattr(obj, "detach"):
        return obj
    alias = obj.detach()
    if type(obj).__module__.partition(".")[0] == "paddle":
        # Paddle's alias is the same tensor inside, and is emptied with it; what DLPack gives out is not.
        alias._memory = _native.tensor_memory(alias)
    return alias


def from_info(info: tuple[Any, ...], kind: str, owner: Any = None) -> Memory:
    """Return the memory that a tuple of ``_native.tensor_info`` or ``_native.dlpack_import`` describes."""
    ptr, shape, strides, code, device, readonly, own = info
    scalar = _DLPACK_SCALARS.get(code)
    if scalar is None:
        raise TypeError(
            f"the {kind}'s dtype (DLPack code {code[0]}, {code[1]} bits, {code[2]} lanes) has no counterpart"
        )
    place = _dlpack_device(device, kind)
    return Memory(kind, ptr, shape, strides, scalar, readonly, own if owner is None else owner, place)


def _dlpack_device(device: tuple[Any, ...], kind: str) -> str:
    """The name of a device by DLPack's numbers; refused where kernels never run there."""
    number, ordinal = map(int, device)
    place = _DLPACK_DEVICES.get(number)
    if place is None:
        raise ValueError(
            f"the {kind} lies on DLPack device {(number, ordinal)}, and kernels run on the CPU and on CUDA devices; "
            "copy it there first"
        )
    return f"{place}:{ordinal}" if place == "cuda" else place


def _is_jax(obj: Any) -> bool:
    """Whether ``obj`` is a JAX array, whose immutability DLPack does not tell."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(obj, jax.Array)


def _capsule_of(obj: Any, kind: str) -> Any:
    """A DLPack capsule of ``obj``, versioned where it offers that: only then is read-only memory marked."""
    wanted = _consumer_stream(obj)
    if _is_jax(obj) and not wanted:
        obj.block_until_ready()  # on CUDA, the stream waits
    try:
        return obj.__dlpack__(max_version=(1, 0), **wanted)
    except TypeError:
        return obj.__dlpack__(**wanted)
    except BufferError as e:
        raise ValueError(f"the {kind} can't be shared: {e}") from e


def _consumer_stream(obj: Any) -> dict[str, int]:
    """What tells the producer of CUDA memory which stream is to wait for its work: the device's current one."""
    kind, ordinal = map(int, obj.__dlpack_device__()) if hasattr(obj, "__dlpack_device__") else (1, 0)
    if _DLPACK_DEVICES.get(kind) != "cuda" or not is_cuda_available():
        return {}
    return {"stream": get_stream(f"cuda:{ordinal}").cuda_stream or 1}


def _from_dlpack(obj: Any) -> Memory | None:
    if not hasattr(obj, "__dlpack__"):
        return None
    kind = _kind(obj)
    if _is_jax(obj) and obj.is_deleted():
        obj.block_until_ready()  # which raises and says so
    if hasattr(obj, "__dlpack_device__"):
        _dlpack_device(obj.__dlpack_device__(), kind)  # asked first: a capsule may cost a copy
    memory = from_info(_native.dlpack_import(_capsule_of(obj, kind)), kind, obj if _tells_stream(obj) else None)
    return replace(memory, readonly=True) if _is_jax(obj) else memory


def _tells_stream(obj: Any) -> bool:
    """Whether ``obj`` is CuPy's, which says only in Python on which stream it works; launches on ``obj`` will ask."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(obj, cupy.ndarray):
        return False

    def current(ordinal: int) -> int:
        with cupy.cuda.Device(ordinal):
            return int(cupy.cuda.get_current_stream().ptr)

    _native.set_stream_hook(type(obj), current)
    return True


class _Interface:
    """Shows NumPy the array interface of an object, and none of the others that it would prefer."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _from_array_interface(obj: Any) -> Memory | None:
    interface = getattr(obj, "__array_interface__", None)
    if interface is None:
        return None
    if isinstance(interface, dict) and "data" in interface and "shape" not in interface:
        # NumPy 2.2 ends the process here
        raise ValueError(f"the __array_interface__ of the {_kind(obj)} is malformed: it has data and no shape")
    try:
        a = np.asarray(_Interface(interface, obj))
    except (ArithmeticError, AttributeError, BufferError, LookupError, SyntaxError, TypeError, ValueError) as e:
        raise ValueError(f"the __array_interface__ of the {_kind(obj)} is malformed: {type(e).__name__}: {e}") from e
    if interface.get("mask") is not None:  # NumPy ignores it
        raise TypeError(f"the {_kind(obj)} has a mask, which would be ignored")
    wanted = interface.get("data")
    if isinstance(wanted, tuple) and a.ctypes.data != wanted[0]:  # otherwise it is a buffer, which NumPy shares
        raise ValueError(f"NumPy copies the {_kind(obj)} instead of sharing its memory")
    return _numpy_memory(a, _kind(obj), a)


def _from_cuda_array_interface(obj: Any) -> Memory | None:
    described = getattr(obj, "__cuda_array_interface__", None)
    if described is None:
        return None
    kind = _kind(obj)
    _tells_stream(obj)
    try:
        shape, dtype = tuple(map(int, described["shape"])), np.dtype(described["typestr"])
        (ptr, readonly), strides, mask = described["data"], described.get("strides"), described.get("mask")
        strides = contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(map(int, strides))
        stream = described.get("stream")
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise ValueError(f"the __cuda_array_interface__ of the {kind} is malformed: {type(e).__name__}: {e}") from e
    if mask is not None:
        raise TypeError(f"the {kind} has a mask, which would be ignored")
    scalar = scalar_from_numpy(dtype)
    if scalar is None:
        raise TypeError(f"the {kind}'s dtype {dtype} has no counterpart")
    if stream is not None and (not isinstance(stream, int) or stream <= 0):
        raise ValueError(f"the __cuda_array_interface__ of the {kind} names stream {stream!r}, which is none")
    return Memory(kind, int(ptr), shape, strides, scalar, bool(readonly), obj, _taken_over(int(ptr), stream))


def _taken_over(ptr: int, stream: int | None) -> str:
    """The device where ``ptr`` lies, which the interface does not tell; its stream waits for the producer's."""
    if not is_cuda_available():
        return "cuda:0"
    from warp_like.runtime.cuda import transfer
    from warp_like.runtime.cuda.device import device_of

    device = device_of(ptr)
    if stream is not None:
        transfer.take_over(device, stream)
    return device.alias


def _from_buffer(obj: Any) -> Memory | None:
    try:
        view = memoryview(obj)
    except TypeError:
        return None
    return _numpy_memory(np.asarray(view), _kind(obj), view)


def _from_array_method(obj: Any) -> Memory | None:
    if not hasattr(obj, "__array__") or isinstance(obj, np.generic):
        return None
    a = np.asarray(obj)
    found = _numpy_memory(a, _kind(obj), a)
    return replace(found, readonly=True)


_WAYS: tuple[Callable[[Any], Memory | None], ...] = (
    _from_exchange_api,
    _from_dlpack,
    _from_array_interface,
    _from_cuda_array_interface,
    _from_buffer,
    _from_array_method,
)


_KINDS = {
    "torch": "PyTorch tensor",
    "jaxlib": "JAX array",
    "jax": "JAX array",
    "paddle": "Paddle tensor",
    "cupy": "CuPy array",
    "numba": "numba device array",
    "warp_like": "warp_like array",
}


def _kind(obj: Any) -> str:
    """What to call ``obj`` in a message."""
    module = type(obj).__module__.partition(".")[0]
    return _KINDS.get(module) or f"{type(obj).__name__} object"
