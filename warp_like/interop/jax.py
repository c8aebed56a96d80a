"""JAX: arrays over the memory of JAX arrays, which are immutable, and JAX arrays over ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like import _native
from warp_like.interop import export, versions, view
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device, DeviceLike, get_device
from warp_like.values import class_of, numpy_dtype, scalar_from_numpy, to_ir


@functools.cache
def _jax() -> Any:
    try:
        import jax
    except ImportError as e:
        raise ImportError("this needs JAX: pip install jax") from e
    versions.require_version(jax)
    return jax


def from_jax(jax_array: Any, dtype: Any = None) -> array:
    """Return a read-only array over the memory of ``jax_array``, once the work that computes it is done.

    Args:
        jax_array: A JAX array.
        dtype: The element type; trailing dimensions become the components of a vec or mat. Integers are read as those
            of the same size that it names, bools as integers of 8 bits.

    Example:
        >>> wp.from_jax(jax.numpy.arange(3)).list()
        [0, 1, 2]
    """
    if not isinstance(jax_array, _jax().Array):
        raise TypeError(f"from_jax() needs a JAX array, got {type(jax_array).__name__}")
    made = _over_buffer(jax_array, dtype)
    return view.as_array(jax_array, dtype, reinterpret=True) if made is None else made


def _over_buffer(x: Any, dtype: Any) -> array | None:
    """The array if the buffer protocol, ten times as fast as JAX's DLPack, gives the memory: on the CPU, read-only."""
    try:
        buffer = memoryview(x)
    except (TypeError, ValueError, BufferError, RuntimeError):  # as_array says what is wrong with it, if anything is
        return None
    x.block_until_ready()
    made: array | None = _native.share(buffer, dtype) if buffer.readonly else None
    return made


def to_jax(warp_array: array) -> Any:
    """Return a JAX array of ``warp_array``'s contents, over the same memory where JAX can share it, else a copy.

    JAX takes its arrays for immutable: don't write to ``warp_array`` while the result is in use. It converts numbers of
    64 bits to 32 unless ``jax_enable_x64`` is set. The method ``warp_array.to_jax(copy=...)`` says whether it is to
    be a copy.

    Example:
        >>> wp.to_jax(wp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    return export_jax(warp_array)


def export_jax(a: array, copy: bool | None = None) -> Any:
    """Return the elements of ``a`` as a JAX array; see ``wp.array.to_jax``.

    Nothing is kept for the next call: JAX remembers the values of its arrays, and ours change.
    """
    if (copy is None or copy is False) and isinstance(a, array) and a.is_contiguous and _is_kept(a.dtype):
        # Nothing of what `source` looks for can be in the way but these.
        usual = a.size and not a.readonly and not a.ptr % JAX.alignment and a.device.is_cpu
        make = _importer() if usual else None
        if make is not None:
            return make(a)
    source = export.source(JAX, a, copy)
    # JAX asks for capsules that can't say that memory is read-only; as it never writes, none is needed.
    return _jax().dlpack.from_dlpack(source._alias(source, readonly=False) if source.readonly else source)


@functools.cache
def _is_kept(dtype: Any) -> bool:
    """Whether JAX has the scalars of ``dtype``, and never converts them."""
    scalar = element_type(dtype).scalar
    return scalar is not None and scalar.bits < 64 and hasattr(_jax().numpy, str(scalar))


@functools.cache
def _importer() -> Callable[[array], Any] | None:
    """Return what makes a JAX array over an array's memory without the layers of ``jax.dlpack.from_dlpack``.

    It is the function of jaxlib that those layers end in. That is no public one, so it is used only where it turns out
    to give the same as the public one.
    """
    jax = _jax()

    def make(a: array) -> Any:
        return take(_native.dlpack_capsule(a, False), jax.local_devices(backend="cpu")[0], None, None, _CPU)

    sample = array([1.0, 2.0], dtype=class_of(ir.float32))
    try:
        from jaxlib import _jax as jaxlib

        take = jaxlib.dlpack_managed_tensor_to_buffer
        ours, theirs = make(sample), jax.dlpack.from_dlpack(sample)
        facts = [(type(x), x.dtype, x.shape, x.sharding, x.committed, x.weak_type) for x in (ours, theirs)]
        shared = {x.unsafe_buffer_pointer() for x in (ours, theirs)} == {sample.ptr}
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):  # another version's, or no CPU backend
        return None
    return make if shared and facts[0] == facts[1] else None


_CPU = 1  # DLPack's number


def dtype_from_jax(jax_dtype: Any) -> Any:
    """Return the scalar class of a JAX dtype."""
    scalar = scalar_from_numpy(jax_dtype)
    if scalar is None:
        raise TypeError(f"JAX dtype {jax_dtype} has no counterpart")
    return class_of(scalar)


def dtype_to_jax(warp_dtype: Any) -> Any:
    """Return the JAX dtype of a scalar class."""
    t = to_ir(warp_dtype)
    if not isinstance(t, ir.Scalar):
        raise TypeError(f"only a scalar type has a JAX dtype, got {warp_dtype!r}")
    name = "bool_" if t.is_bool else str(t)
    return getattr(_jax().numpy, name)


def _narrowed(t: ir.Scalar) -> str | None:
    """Say what JAX makes of numbers of 64 bits, unless it is told to keep them."""
    if t.bits < 64:
        return None
    kept = _jax().dtypes.canonicalize_dtype(numpy_dtype(t))
    return None if kept.itemsize == 8 else f"holds {t}, which JAX makes {kept} unless jax_enable_x64 is set"


def _strides(a: array) -> str | None:
    """Say which strides JAX does not take. Before 0.8 it reads elements in another order as if they were in rows."""
    why = export.gaps("JAX", a)
    if why is None and not a.is_contiguous and _jax().__version_info__ < (0, 8):
        return f"has strides {a.strides}, and JAX before 0.8 takes only rows"
    return why


JAX = export.Library(
    "JAX",
    "to_jax",
    dtype_to_jax,
    narrows=_narrowed,
    readonly=True,
    strides=_strides,
    alignment=64,
)


def device_from_jax(jax_device: Any) -> Device:
    """Return the device of a JAX device.

    Raises:
        RuntimeError: It belongs to another process.
        ValueError: It is neither a CPU nor a GPU.
    """
    if jax_device.process_index != _jax().process_index():
        raise RuntimeError(
            f"{jax_device!r} belongs to process {jax_device.process_index} of a JAX program of several processes"
        )
    if jax_device.platform == "cpu":
        return get_device("cpu")
    if jax_device.platform not in ("gpu", "cuda"):
        raise ValueError(f"kernels do not run on {jax_device!r}, a device of platform {jax_device.platform!r}")
    # JAX counts the devices of all processes, the driver those of this one.
    local = getattr(jax_device, "local_hardware_id", None)
    return get_device(f"cuda:{jax_device.id if local is None else local}")


def device_to_jax(warp_device: DeviceLike) -> Any:
    """Return the JAX device of a device: of those that this process has, where JAX runs on several."""
    place = export.require_device(JAX, get_device(warp_device))
    return _jax().local_devices(backend="cpu" if place.is_cpu else "gpu")[max(place.ordinal, 0)]
