"""JAX primitives whose meaning is a function of arrays, with batches.

Their parameters are ``body``, the function, and ``levels``: the batches that it runs over, innermost first, each with
its size and which operands have it, as a leading dimension. The results have all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from warp_like.interop.jaxffi.target import jax_module

Levels = tuple[tuple[int, tuple[bool, ...]], ...]


def batched(body: Callable[..., list[Any]], levels: Levels) -> Callable[..., list[Any]]:
    """Return ``body`` over batches, as a function of arrays."""
    f = body
    for size, mapped in levels:
        f = jax_module().vmap(f, in_axes=tuple(0 if m else None for m in mapped), axis_size=size)
    return f


class BatchedPrimitive:
    """A primitive whose meaning is a function of arrays, given with each use of it."""

    def __init__(self, name: str, lower: Callable[[Any, Levels], Callable[..., list[Any]]] = batched) -> None:
        """Make one; ``lower`` gives the function that stands for a body and its levels in compiled programs."""
        jax = jax_module()
        from jax.extend.core import Primitive, jaxpr_as_fun
        from jax.interpreters import batching, mlir

        self._lower = functools.lru_cache(maxsize=1024)(lambda body, levels: jax.jit(lower(body, levels), inline=True))
        p = self.primitive = Primitive(name)
        p.multiple_results = True
        p.def_impl(lambda *operands, body, levels, program: self._lower(body, levels)(*operands))
        p.def_abstract_eval(lambda *operands, body, levels, program: program.out_avals)
        run = mlir.lower_fun(lambda *operands, program: jaxpr_as_fun(program)(*operands), multiple_results=True)
        mlir.register_lowering(p, lambda ctx, *operands, body, levels, program: run(ctx, *operands, program=program))
        batching.primitive_batchers[p] = self._batch

    def bind(self, operands: Sequence[Any], body: Callable[..., list[Any]], levels: Levels = ()) -> list[Any]:
        """Put ``body`` over batches into the program that JAX traces."""
        # Among the parameters, where JAX looks for what needs to know the devices when it is compiled.
        program = jax_module().make_jaxpr(self._lower(body, levels))(*operands)
        return self.primitive.bind(*operands, body=body, levels=levels, program=program)

    def _batch(self, operands: Sequence[Any], dims: Sequence[Any], body: Any, levels: Levels, program: Any) -> Any:
        numpy = jax_module().numpy
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        moved = [x if d is None else numpy.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        ys = self.bind(moved, body, (*levels, (size, tuple(d is not None for d in dims))))
        return ys, [0] * len(ys)
