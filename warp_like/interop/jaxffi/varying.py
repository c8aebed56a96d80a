"""Inside ``shard_map``: along which mesh axes values differ from device to device.

A call needs operands that all say the same, and results that say it too. Older versions of JAX keep no such record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warp_like.interop.jaxffi.target import jax_module


def _axes(x: Any) -> frozenset[Any]:
    t = jax_module().typeof(x) if hasattr(jax_module(), "typeof") else None
    kind = getattr(t, "manual_axis_type", None)
    return frozenset(kind.varying if kind is not None else getattr(t, "vma", ()))


def alike(operands: Sequence[Any]) -> list[Any]:
    """Return the operands, each varying along all axes along which one of them varies."""
    every = frozenset().union(*map(_axes, operands))
    return [_vary(x, every - _axes(x)) for x in operands]


def _vary(x: Any, axes: frozenset[Any]) -> Any:
    if not axes:
        return x
    lax = jax_module().lax
    return lax.pcast(x, tuple(axes), to="varying") if hasattr(lax, "pcast") else lax.pvary(x, tuple(axes))


def result_type(shape: tuple[int, ...], dtype: Any, operands: Sequence[Any]) -> Any:
    """Return the ``ShapeDtypeStruct`` of a result of a call with these operands, which are alike."""
    jax = jax_module()
    axes = _axes(operands[0]) if operands else frozenset()
    if not axes:
        return jax.ShapeDtypeStruct(shape, dtype)
    if hasattr(jax.sharding, "ManualAxisType"):
        mesh = jax.typeof(operands[0]).sharding.mesh
        return jax.ShapeDtypeStruct(
            shape,
            dtype,
            sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
            manual_axis_type=jax.sharding.ManualAxisType(varying=axes),
        )
    return jax.ShapeDtypeStruct(shape, dtype, vma=axes)
