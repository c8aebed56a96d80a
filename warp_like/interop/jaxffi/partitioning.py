"""Calls on arrays that are spread over devices: under plain ``jit`` each device runs the call on the part it holds.

That is right along the dimensions of a batch, and along those of the grid along which the code falls apart
(``splitting.py``); what the parts add up to is then summed over the devices. Along all others the arrays are gathered
first.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like.base.contract import HoleStart
from warp_like.interop.jaxffi.call import Buffer, Call, Value, View
from warp_like.interop.jaxffi.primitive import BatchedPrimitive, Levels, batched
from warp_like.interop.jaxffi.target import jax_module

_WHOLE = -1
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


@dataclasses.dataclass(frozen=True)
class Split:
    """What falls apart along an axis of the grid.

    Attributes:
        dims: The buffers that are split, and the dimension along which.
        sums: The results to which each part adds.
    """

    dims: Mapping[Buffer, int]
    sums: frozenset[Buffer]


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
        self.axes = splits(call)
        self.sizes = {f"b{n}": size for n, (size, _) in enumerate(levels)} | {f"g{a}": call.dims[a] for a in self.axes}
        self.operands = [self._names(Buffer(False, n), v) for n, v in enumerate(call.operands)]
        self.results = [self._names(Buffer(True, n), v) for n, v in enumerate(call.results)]

    def _names(self, buffer: Buffer, value: Value) -> Factors:
        of_levels = [f"b{n}" for n, (_, mapped) in enumerate(self.levels) if buffer.is_result or mapped[buffer.index]]
        kind = "r" if buffer.is_result else "o"
        names = [f"{kind}{buffer.index}x{d}" for d in range(len(value.full_shape))]
        for a, split in self.axes.items():
            if buffer in split.dims:
                names[split.dims[buffer]] = f"g{a}"
        return (*reversed(of_levels), *names)

    def partition(self, mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Say how the partitioner splits the call; see ``jax.experimental.custom_partitioning``."""
        over = self._shards(
            mesh, [*zip(self.results, results, strict=True), *zip(self.operands, arguments, strict=True)]
        )
        parts = {name: math.prod(mesh.shape[a] for a in axes) for name, axes in over.items()}
        part = divided(self.call, {a: parts.get(f"g{a}", 1) for a in range(len(self.call.dims))})
        levels = tuple((size // parts.get(f"b{n}", 1), mapped) for n, (size, mapped) in enumerate(self.levels))
        of_results = [self._sharding(mesh, names, over) for names in self.results]
        of_arguments = tuple(self._sharding(mesh, names, over) for names in self.operands)
        sums = [
            tuple(m for a, split in self.axes.items() if Buffer(True, n) in split.sums for m in over.get(f"g{a}", ()))
            for n in range(len(self.results))
        ]

        def run_part(*operands: Any) -> list[Any]:
            parts = batched(part, levels)(*operands)
            psum = jax_module().lax.psum
            return [psum(y, axes) if axes else y for y, axes in zip(parts, sums, strict=True)]

        return mesh, run_part, of_results, of_arguments

    def infer(self, mesh: Any, arguments: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Say how the results are split where the arguments are; for partitioners that have no rules."""
        over = self._shards(mesh, zip(self.operands, arguments, strict=True))
        return [self._sharding(mesh, names, over) for names in self.results]

    def _shards(self, mesh: Any, arrays: Any) -> dict[str, tuple[str, ...]]:
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


def splits(call: Call) -> dict[int, Split]:
    """Return along which axes of its grid a call falls apart, and what is split with them."""
    ndim, axes = call.code.separable
    found = {}
    for axis, along in axes.items():
        extent = call.dims[axis]
        if extent < 2 or (axis == ndim - 1 and math.prod(call.dims[axis:]) != extent):
            continue  # further dimensions are folded into this one
        seen: dict[Buffer, int | None] = {}
        for i, view in call.views.items():
            if view.buffer is None:
                continue
            d = along.get(i, _WHOLE)
            if seen.setdefault(view.buffer, d) != d or not _can_be_split(call, view, d, extent):
                break
        else:
            seen |= {Buffer(False, s): seen[Buffer(True, n)] for n, s in enumerate(call.starts) if s >= 0}
            dims = {b: d for b, d in seen.items() if d is not None and d != _WHOLE}
            found[axis] = Split(dims, frozenset(b for b, d in seen.items() if d is None))
    return found


def _can_be_split(call: Call, view: View, d: int | None, extent: int) -> bool:
    """Return whether a view can be treated so: split along ``d``, summed where that is None, or left whole."""
    assert view.buffer is not None
    if d == _WHOLE:
        return True
    if d is None:
        return view.buffer.is_result and call.starts[view.buffer.index] == HoleStart.ZEROED
    value = (call.results if view.buffer.is_result else call.operands)[view.buffer.index]
    return view.strides is None and view.shape == value.shape and view.shape[d] == extent


def divided(call: Call, parts: Mapping[int, int]) -> Call:
    """Return the call that runs on one part of a grid that is split into so many parts along its axes."""
    axes = splits(call)
    dims = [n // parts.get(a, 1) for a, n in enumerate(call.dims)]
    part = Call(call.code, dims, call.vmap_method, call.has_side_effect, call.block_dim)

    def shrunk(buffer: Buffer, value: Value) -> Value:
        shape = list(value.shape)
        for a, split in axes.items():
            if buffer in split.dims:
                shape[split.dims[buffer]] //= parts.get(a, 1)
        return dataclasses.replace(value, shape=tuple(shape))

    part.operands = [shrunk(Buffer(False, n), v) for n, v in enumerate(call.operands)]
    part.results = [shrunk(Buffer(True, n), v) for n, v in enumerate(call.results)]
    part.scalars, part.starts, part.sums = call.scalars, call.starts, call.sums
    for i, view in call.views.items():
        along = {s.dims[view.buffer]: a for a, s in axes.items() if view.buffer in s.dims} if view.buffer else {}
        shape = tuple(n // parts.get(along.get(d, -1), 1) for d, n in enumerate(view.shape))
        part.views[i] = dataclasses.replace(view, shape=shape)
    return part
