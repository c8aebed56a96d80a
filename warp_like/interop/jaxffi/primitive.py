"""JAX primitives whose meaning is a function of arrays, with batches.

Their parameters are ``body``, the function, and ``levels``: the batches that it runs over, innermost first, each with
its size and which operands have it, as a leading dimension. The results have all of them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from warp_like.interop.jaxffi.target import jax_module

Levels = tuple[tuple[int, tuple[bool, ...]], ...]
Body = Callable[..., list[Any]]
_LOWERED = 128  # bodies whose compiled programs are kept, about 1 MiB each


def batched(body: Body, levels: Levels) -> Body:
    """Return ``body`` over batches, as a function of arrays."""
    f = body
    for size, mapped in levels:
        f = jax_module().vmap(f, in_axes=tuple(0 if m else None for m in mapped), axis_size=size)
    return f


class BatchedPrimitive:
    """A primitive whose meaning is a function of arrays, given with each use of it."""

    def __init__(
        self, name: str, lower: Callable[[Any, Levels], Body] = batched, outline: Callable[[Any], Body] | None = None
    ) -> None:
        """Make one.

        Args:
            name: Its name.
            lower: Gives the function that stands for a body and its levels in compiled programs.
            outline: Gives a function with results of the same types as a body's, where that is cheaper to trace.
        """
        jax = jax_module()
        from jax.extend.core import Primitive
        from jax.interpreters import batching, mlir

        self._lower = functools.lru_cache(_LOWERED)(lambda body, levels: jax.jit(lower(body, levels), inline=True))
        self._outline = outline
        p = self.primitive = Primitive(name)
        p.multiple_results = True
        p.def_impl(lambda *operands, body, levels, program: self._lower(body, levels)(*operands))
        p.def_abstract_eval(lambda *operands, body, levels, program: program.out_avals)
        lowered = mlir.lower_fun(
            lambda *operands, body, levels, program: self._lower(body, levels)(*operands), multiple_results=True
        )
        mlir.register_lowering(p, lowered)
        batching.primitive_batchers[p] = self._batch
        if not hasattr(jax, "shard_map"):  # up to JAX 0.5, which asks each primitive what it does with equal operands
            shard_map: Any = importlib.import_module("jax.experimental.shard_map")
            shard_map.register_standard_check(p)
            shard_map.register_standard_rewrite(p)

    def bind(self, operands: Sequence[Any], body: Any, levels: Levels = ()) -> list[Any]:
        """Put ``body`` over batches into the program that JAX traces."""
        lowered = self._lower(body, levels) if self._outline is None else batched(self._outline(body), levels)
        # Among the parameters, where JAX looks for what needs to know the devices when it is compiled.
        program = jax_module().make_jaxpr(lowered)(*operands)
        return self.primitive.bind(*operands, body=body, levels=levels, program=program)

    def _batch(self, operands: Sequence[Any], dims: Sequence[Any], body: Any, levels: Levels, program: Any) -> Any:
        numpy = jax_module().numpy
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        moved = [x if d is None else numpy.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        ys = self.bind(moved, body, (*levels, (size, tuple(d is not None for d in dims))))
        return ys, [0] * len(ys)
