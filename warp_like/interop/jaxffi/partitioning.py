"""Calls on arrays that are spread over devices: under plain ``jit`` each device runs the call on the part it holds.

That is right along the dimensions of a batch, and along those of the grid along which the code falls apart
(``splitting.py``). Along all others the arrays are gathered first.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like.interop.jaxffi.call import Buffer, Call, Value
from warp_like.interop.jaxffi.primitive import BatchedPrimitive, Levels, batched
from warp_like.interop.jaxffi.target import jax_module

Factors = tuple[str, ...]  # a name for each dimension of an array; dimensions of one name are split alike


def run(call: Call) -> list[Any]:
    """Put a call into the program that JAX traces, and return its results."""
    operands = call.take_operands()
    if call.has_side_effect or jax_module().device_count() == 1:
        return call(*operands)
    return _primitive().bind(operands, call)


@functools.cache
def _primitive() -> Any:
    return BatchedPrimitive("warp_like_launch", _partitioned)


def _partitioned(call: Call, levels: Levels) -> Callable[..., list[Any]]:
    """Return a call over batches as a function that XLA's partitioner may split."""
    from jax.experimental.custom_partitioning import ArrayMapping, SdyShardingRule, custom_partitioning
    from jax.experimental.xla_metadata import set_xla_metadata

    plan = _Plan(call, levels)
    if not plan.sizes:
        return batched(call, levels)
    part = custom_partitioning(lambda *operands: batched(call, levels)(*operands))
    part.def_partition(
        plan.partition,
        infer_sharding_from_operands=plan.infer,
        sharding_rule=SdyShardingRule(
            tuple(ArrayMapping(*names) for names in plan.operands),
            tuple(ArrayMapping(*names) for names in plan.results),
        ),
    )

    def f(*operands: Any) -> list[Any]:
        # The program names the call by an address until it is partitioned. Programs that XLA keeps on disk are told
        # apart before that.
        with set_xla_metadata(warp_like=call.fingerprint()):
            return part(*operands)

    return f


class _Plan:
    """How a call over batches can be split.

    Attributes:
        sizes: The dimensions along which it can, by name, with their extents.
        operands: The names of the dimensions of each operand.
        results: The names of the dimensions of each result.
    """

    def __init__(self, call: Call, levels: Levels) -> None:
        self.call = call
        self.levels = levels
        axes = splits(call)
        self.sizes = {f"b{n}": size for n, (size, _) in enumerate(levels)} | {f"g{a}": call.dims[a] for a in axes}
        self.operands = [self._names(axes, Buffer(False, n), v) for n, v in enumerate(call.operands)]
        self.results = [self._names(axes, Buffer(True, n), v) for n, v in enumerate(call.results)]

    def _names(self, axes: Mapping[int, Mapping[Buffer, int]], buffer: Buffer, value: Value) -> Factors:
        of_levels = [f"b{n}" for n, (_, mapped) in enumerate(self.levels) if buffer.is_result or mapped[buffer.index]]
        kind = "r" if buffer.is_result else "o"
        names = [f"{kind}{buffer.index}x{d}" for d in range(len(value.full_shape))]
        for a, split in axes.items():
            if buffer in split:
                names[split[buffer]] = f"g{a}"
        return (*reversed(of_levels), *names)

    def partition(self, mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Say how the partitioner splits the call; see ``jax.experimental.custom_partitioning``."""
        over = self._spread(
            mesh, [*zip(self.results, results, strict=True), *zip(self.operands, arguments, strict=True)]
        )
        parts = {name: math.prod(mesh.shape[a] for a in axes) for name, axes in over.items()}
        part = divided(self.call, {a: parts.get(f"g{a}", 1) for a in range(len(self.call.dims))})
        levels = tuple((size // parts.get(f"b{n}", 1), mapped) for n, (size, mapped) in enumerate(self.levels))
        of_results = [self._sharding(mesh, names, over) for names in self.results]
        of_arguments = tuple(self._sharding(mesh, names, over) for names in self.operands)
        return mesh, lambda *operands: batched(part, levels)(*operands), of_results, of_arguments

    def infer(self, mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Say how the results are split where the arguments are; for partitioners that have no rules."""
        over = self._spread(mesh, zip(self.operands, arguments, strict=True))
        return [self._sharding(mesh, names, over) for names in self.results]

    def _spread(self, mesh: Any, arrays: Any) -> dict[str, tuple[str, ...]]:
        """Return over which axes of the mesh to split what can be, following how arrays are split already."""
        over: dict[str, tuple[str, ...]] = {}
        for names, array in arrays:
            spec = getattr(array.sharding, "spec", ())
            for name, axes in zip(names, spec, strict=False):
                axes = axes if isinstance(axes, tuple) else (axes,) if isinstance(axes, str) else ()
                taken = {a for others in over.values() for a in others}
                whole = name in self.sizes and self.sizes[name] % math.prod(mesh.shape[a] for a in axes) == 0
                if axes and whole and name not in over and not taken & set(axes):
                    over[name] = axes
        return over

    def _sharding(self, mesh: Any, names: Factors, over: Mapping[str, tuple[str, ...]]) -> Any:
        sharding = jax_module().sharding
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*(over.get(name) for name in names)))


def splits(call: Call) -> dict[int, dict[Buffer, int]]:
    """Return along which axes of its grid a call falls apart, and which dimension of each buffer is split with them."""
    ndim, axes = call.code.separable
    found = {}
    for axis, along in axes.items():
        extent = call.dims[axis]
        if extent < 2 or (axis == ndim - 1 and math.prod(call.dims[axis:]) != extent):
            continue  # further dimensions are folded into this one
        split: dict[Buffer, int] = {}
        for i, view in call.views.items():
            d = along.get(i, -1)
            if view.buffer is None:
                continue
            value = (call.results if view.buffer.is_result else call.operands)[view.buffer.index]
            plain = view.strides is None and view.shape == value.shape
            if split.setdefault(view.buffer, d) != d or (d >= 0 and not (plain and view.shape[d] == extent)):
                break
        else:
            starts = {Buffer(False, s): split[Buffer(True, n)] for n, s in enumerate(call.starts) if s >= 0}
            found[axis] = {b: d for b, d in (split | starts).items() if d >= 0}
    return found


def divided(call: Call, parts: Mapping[int, int]) -> Call:
    """Return the call that runs on one part of a grid that is split into so many parts along its axes."""
    axes = splits(call)
    dims = [n // parts.get(a, 1) for a, n in enumerate(call.dims)]
    part = Call(call.code, dims, call.vmap_method, call.has_side_effect)

    def shrunk(buffer: Buffer, value: Value) -> Value:
        shape = list(value.shape)
        for a, split in axes.items():
            if buffer in split:
                shape[split[buffer]] //= parts.get(a, 1)
        return dataclasses.replace(value, shape=tuple(shape))

    part.operands = [shrunk(Buffer(False, n), v) for n, v in enumerate(call.operands)]
    part.results = [shrunk(Buffer(True, n), v) for n, v in enumerate(call.results)]
    part.scalars, part.starts, part.sums = call.scalars, call.starts, call.sums
    for i, view in call.views.items():
        along = {} if view.buffer is None else {s[view.buffer]: a for a, s in axes.items() if view.buffer in s}
        shape = tuple(n // parts.get(along.get(d, -1), 1) for d, n in enumerate(view.shape))
        part.views[i] = dataclasses.replace(view, shape=shape)
    return part
