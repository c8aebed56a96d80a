"""A kernel with everything settled that JAX knows when it traces a call: types, shapes, grid, constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warp_like.interop.jaxffi.call import Call
from warp_like.interop.jaxffi.target import Code, compiled
from warp_like.ir.layout import size_of
from warp_like.ir.types import Array, Type
from warp_like.runtime.kernel import Kernel

_LARGE = 1 << 18  # bytes of an output from which on finding out whether it needs to be zeroed pays


@dataclass(frozen=True)
class Operation:
    """One traced call.

    Attributes:
        kernel: The kernel.
        types: The types of its parameters.
        shapes: The shape of each array parameter, without the dimensions of its elements.
        dims: The grid.
        constants: The bytes of scalar parameters that JAX has no type for, by position.
        in_out: Positions of the arrays that are arguments and results.
        outputs: Positions of the arrays that are only results.
        zero_outputs: Whether ``outputs`` hold zeros before the kernel runs.
        vmap_method: As for ``jax.ffi.ffi_call``.
        has_side_effect: Whether the call stays when its results are not used.
    """

    kernel: Kernel
    types: tuple[Type, ...]
    shapes: Mapping[int, tuple[int, ...]]
    dims: tuple[int, ...]
    constants: Mapping[int, bytes]
    in_out: tuple[int, ...]
    outputs: tuple[int, ...]
    zero_outputs: bool
    vmap_method: str
    has_side_effect: bool

    @property
    def dynamic(self) -> tuple[int, ...]:
        """Positions of the arguments that JAX passes."""
        return tuple(i for i in range(len(self.types)) if i not in self.constants and i not in self.outputs)

    @property
    def results(self) -> tuple[int, ...]:
        """Positions of what the call returns."""
        return (*self.in_out, *self.outputs)

    def code(self, wrt: tuple[int, ...] | None = None) -> Code:
        """Return the compiled kernel, or its adjoint with respect to the arrays ``wrt``.

        Raises:
            ValueError: The kernel writes an argument that is no result.
            WarpCodegenError: It can't be compiled, or not differentiated.
        """
        wide = self.kernel.program(self.types).is_wide(self.dims)
        code = compiled(self.kernel, self.types, wrt, wide=wide)
        if wrt is None:
            for i in code.artifact.writes:
                if i not in self.results:
                    name = self.kernel.parameter_names[i]
                    raise ValueError(
                        f"kernel `{self.kernel.key}` writes its argument `{name}`, and JAX arrays don't change; "
                        f'name it in in_out_argnames=["{name}"] to get it as a result'
                    )
        return code

    def _covers(self, code: Code, i: int, t: Array) -> bool:
        large = math.prod(self.shapes[i]) * size_of(t.dtype) >= _LARGE
        return large and self.shapes[i] == self.dims and i in code.covers

    def forward(self, values: Sequence[Any]) -> list[Any]:
        """Put the kernel into the program that JAX traces; ``values`` are the dynamic arguments."""
        given = dict(zip(self.dynamic, values, strict=True))
        code = self.code()
        call = Call(code, self.dims)
        for i, t in enumerate(self.types):
            if not isinstance(t, Array):
                call.value(i, self.constants[i] if i in self.constants else given[i])
            elif i in self.outputs:
                call.write(i, self.shapes[i], zero=self.zero_outputs and not self._covers(code, i, t))
            elif i in self.in_out:
                call.write(i, self.shapes[i], given[i])
            elif i in code.artifact.reads:
                call.read(i, given[i], self.shapes[i])
            else:
                call.unused(i, self.shapes[i])
        return call.run(vmap_method=self.vmap_method, has_side_effect=self.has_side_effect)
