"""Python functions that JAX's programs call back on the host, with arrays that have elements.

Such a function may decide by what it has computed, as solvers do. JAX knows nothing of the launches in it, so its
derivative is a second call back: the function runs again under a tape, which goes backward.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from warp_like import values as host_values
from warp_like.interop.jaxffi.call import jax_dtype, number
from warp_like.interop.jaxffi.operation import TracedOperation
from warp_like.interop.jaxffi.target import jax_module
from warp_like.ir.types import Array, scalar_of
from warp_like.runtime.arrays.array import array
from warp_like.runtime.autodiff.tape import Tape


def run_on_host(op: TracedOperation, values: Sequence[Any]) -> list[Any]:
    """Add a call of a Python function to the program that JAX traces, and return its results."""
    jax, call = jax_module(), _Call(op)
    on_host = functools.partial(jax.pure_callback, vmap_method="sequential")
    results = [jax.ShapeDtypeStruct(op.storages[i].full_shape, call.dtype(i)) for i in op.results]

    @jax.custom_vjp
    def run(*given: Any) -> Any:
        return on_host(call.forward, results, *given)

    def forward(*given: Any) -> Any:
        return run(*given), given

    def backward(given: Any, cotangents: Sequence[Any]) -> Any:
        wanted = [jax.ShapeDtypeStruct(given[k].shape, given[k].dtype) for k in call.floats]
        seeds = [g for g, i in zip(cotangents, op.results, strict=True) if call.is_float(i)]
        found = [np.zeros(w.shape, w.dtype) for w in wanted]
        if wanted and seeds:
            found = on_host(call.backward, wanted, list(given), seeds)
        gradients = [np.zeros(v.shape, jax.dtypes.float0) for v in given]
        for k, gradient in zip(call.floats, found, strict=True):
            gradients[k] = gradient
        return tuple(gradients)

    run.defvjp(forward, backward)
    return list(run(*values))


class _Call:
    """One call with everything settled but the elements of arrays.

    Attributes:
        floats: Which of the arrays that JAX passes have floats, and so gradients.
    """

    def __init__(self, op: TracedOperation) -> None:
        self._op = op
        self.floats = [k for k, i in enumerate(op.dynamic) if self.is_float(i)]

    def is_float(self, i: int) -> bool:
        """Whether parameter ``i`` has floats."""
        t = self._op.types[i]
        scalar = scalar_of(t.dtype if isinstance(t, Array) else t)
        return scalar is not None and scalar.is_float

    def dtype(self, i: int) -> Any:
        """The dtype of parameter ``i`` in JAX."""
        t = self._op.types[i]
        assert isinstance(t, Array)
        return jax_dtype(t.dtype)

    def _arguments(self, given: Sequence[Any], with_gradients: bool) -> dict[int, Any]:
        op, found = self._op, dict(zip(self._op.dynamic, map(np.asarray, given), strict=True))
        arguments: dict[int, Any] = {}
        for i, t in enumerate(op.types):
            if not isinstance(t, Array):
                arguments[i] = number(t, op.constants[i])
                continue
            elements = found.get(i)
            if elements is None:
                elements = np.zeros(op.storages[i].full_shape, self.dtype(i))
            grad = with_gradients and self.is_float(i)
            dtype = host_values.from_ir(t.dtype)
            arguments[i] = array(elements, dtype=dtype, device="cpu", copy=i in op.results, requires_grad=grad)
        return arguments

    def forward(self, *given: Any) -> list[np.ndarray]:
        """Run the function, and return its results."""
        arguments = self._arguments(given, with_gradients=False)
        self._run(arguments)
        return [arguments[i].numpy() for i in self._op.results]

    def backward(self, given: Sequence[Any], seeds: Sequence[Any]) -> list[np.ndarray]:
        """Run the function again, and return the gradients of the arrays of floats."""
        arguments = self._arguments(given, with_gradients=True)
        results = [arguments[i] for i in self._op.results if self.is_float(i)]
        first = {i: arguments[i] for i in self._op.dynamic}
        with Tape() as tape:
            self._run(arguments)
        tape.backward(
            grads={r: array(np.asarray(s), dtype=r.dtype, device="cpu") for r, s in zip(results, seeds, strict=True)}
        )
        return [first[self._op.dynamic[k]].grad.numpy() for k in self.floats]

    def _run(self, arguments: dict[int, Any]) -> None:
        returned = self._op.kernel.func(*(arguments[i] for i in range(len(arguments))))
        if returned is not None:
            raise TypeError(
                f"`{self._op.kernel.key}` returns {type(returned).__name__}; its outputs are its last arguments"
            )
