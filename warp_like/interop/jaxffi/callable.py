"""``jax_callable``: a Python function of several launches as a function of JAX arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warp_like import values as host_values
from warp_like.compiler.signature import Options
from warp_like.frontend.source import host_annotations
from warp_like.interop.jaxffi.arguments import is_array, split
from warp_like.interop.jaxffi.call import constant, number
from warp_like.interop.jaxffi.capture import Tracing
from warp_like.interop.jaxffi.hosted import run_on_host
from warp_like.interop.jaxffi.kernel import JaxKernel, hashable, made_once
from warp_like.interop.jaxffi.modes import require_known
from warp_like.interop.jaxffi.operation import TracedOperation
from warp_like.interop.jaxffi.target import jax_module
from warp_like.ir.types import Array, Struct, Type
from warp_like.runtime.kernels.arguments import Site, convert
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.memory.allocation import element_type


def jax_callable(
    func: Callable[..., None],
    num_outputs: int = 1,
    graph_mode: Any = None,
    vmap_method: str = "broadcast_all",
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | None = None,
    stage_in_argnames: Sequence[str] | None = None,
    stage_out_argnames: Sequence[str] | None = None,
    graph_cache_max: int | None = None,
    module_preload_mode: Any = None,
    has_side_effect: bool = False,
    *,
    on_host: bool = False,
) -> JaxCallable:
    """Make a Python function of several launches a function of JAX arrays.

    ``func`` takes arrays and numbers, annotated as a kernel's parameters are, launches kernels on them and returns
    nothing. Its last parameters are the outputs. It runs once for each choice of shapes, types and numbers, when JAX
    traces the call; arrays have no elements then, so it can't look at them. It may make temporary arrays, and take
    views. Numbers are Python's and not traced. With ``on_host``, it runs whenever JAX's program does.

    Args:
        func: The function.
        num_outputs: How many arrays it returns, in-out arguments included.
        graph_mode: A ``wp.JaxCallableGraphMode``, taken for Warp's programs, as ``stage_in_argnames``,
            ``stage_out_argnames``, ``graph_cache_max`` and ``module_preload_mode``. They change nothing: each launch
            is a call of its own in JAX's program, whose graphs are XLA's affair.
        vmap_method: As for ``jax_kernel``.
        output_dims: As for ``jax_kernel``; the shape of the first array argument when left out.
        in_out_argnames: Arguments that the function changes. They are returned; the caller's arrays stay as they are.
        stage_in_argnames: See ``graph_mode``.
        stage_out_argnames: See ``graph_mode``.
        graph_cache_max: See ``graph_mode``.
        module_preload_mode: See ``graph_mode``.
        has_side_effect: Whether launches stay whose results are not used.
        on_host: Have JAX's program call the function back on the host, with arrays of the CPU. It may look at elements
            then, as solvers do (``wp.optim.linear``). Its gradient runs it again under a ``wp.Tape``, so arrays that it
            makes in between need ``requires_grad=True``; there are no second derivatives.

    Returns:
        The function; the same one again for the same arguments, so that what JAX has compiled for it is used again.

    Raises:
        ImportError: JAX is not installed.
        TypeError: A parameter is not annotated, or an output is no array.
        ValueError: The number or the names of outputs do not fit the function, or ``on_host`` is asked for with
            ``has_side_effect``.

    Example:
        >>> def fourth_power(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        ...     half = wp.zeros_like(x)
        ...     wp.launch(square, dim=x.shape, inputs=[x], outputs=[half])
        ...     wp.launch(square, dim=x.shape, inputs=[half], outputs=[y])
        >>> (out,) = wp.jax_callable(fourth_power)(jax.numpy.arange(4.0))
        >>> out
        Array([ 0.,  1., 16., 81.], dtype=float32)
    """
    jax_module()
    described: Any = _Described(func)
    require_known(
        described.parameter_names, graph_mode, module_preload_mode, stage_in_argnames or (), stage_out_argnames or ()
    )
    if on_host and has_side_effect:
        raise ValueError("jax_callable(): on_host=True goes with has_side_effect=False")
    return made_once(
        JaxCallable,
        func,
        described,
        on_host,
        num_outputs,
        vmap_method,
        None,
        hashable(output_dims),
        tuple(in_out_argnames or ()),
        False,
        has_side_effect,
        True,
    )


class _Described:
    """A function as ``JaxKernel`` wants to know it."""

    takes_structs = False

    def __init__(self, func: Callable[..., None]) -> None:
        self.func = func
        self.key = getattr(func, "__name__", type(func).__name__)
        self.__doc__ = func.__doc__
        texts = any(isinstance(p.annotation, str) for p in inspect.signature(func).parameters.values())
        hints = host_annotations(func) if texts else {}
        self.parameters: list[tuple[str, Type | None]] = []
        self.declared = self.parameters
        for p in inspect.signature(func).parameters.values():
            annotation = hints.get(p.name, p.annotation)
            if annotation is inspect.Parameter.empty:
                raise TypeError(f"the argument `{p.name}` of `{self.key}` has no annotation")
            t = host_values.to_ir(annotation)
            if isinstance(t, Struct):
                raise TypeError(f"`{self.key}` takes a struct, which JAX does not have; take its fields one by one")
            self.parameters.append((p.name, t))
        self.positions = list(range(len(self.parameters)))

    @property
    def parameter_names(self) -> list[str]:
        return [name for name, _ in self.parameters]

    def compile_options(self) -> Options:
        """The settings that the kernels it launches depend on."""
        return Options.current()


class JaxCallable(JaxKernel):
    """A Python function of several launches as a function of JAX arrays, made by ``jax_callable``."""

    def __init__(self, described: Any, on_host: bool, *choices: Any) -> None:
        self.on_host = on_host
        super().__init__(described, *choices)

    def _split(self, site: Site, t: Type, value: Any) -> tuple[Any, bytes | None]:
        if isinstance(t, Array):
            return split(site, t, value)
        if is_array(value) and isinstance(value, jax_module().core.Tracer):
            raise site.type_error("a traced value; numbers are static here, close over them or pass them as arrays")
        return None, constant(t, convert(site, np.asarray(value)[()] if is_array(value) else value)).tobytes()

    def _default_grid(self, types: tuple[Type, ...], first: tuple[int, ...]) -> tuple[int, ...]:
        return first  # which gives outputs their shape; launches have grids of their own

    def _traced(self, kernels: set[Kernel]) -> Kernel:
        return self.kernel  # the function: the kernels that it launches are known when it has run

    def _in_blocks(self, kernel: Kernel, dims: tuple[int, ...]) -> tuple[Kernel, tuple[int, ...], int]:
        return kernel, dims, 0  # launches say their own

    def _run(self, op: TracedOperation, values: Sequence[Any], kernels: set[Kernel]) -> list[Any]:
        if self.on_host:
            return run_on_host(op, values)
        given = dict(zip(op.dynamic, values, strict=True))
        arguments: list[Any] = []
        with Tracing(op.vmap_method, op.has_side_effect, kernels) as tracing:
            for i, t in enumerate(op.types):
                if not isinstance(t, Array):
                    arguments.append(number(t, op.constants[i]))
                    continue
                element = element_type(host_values.from_ir(t.dtype))
                value = given[i] if i in given else op.storages[i].zeros()
                name = op.kernel.parameter_names[i] if i not in op.results else None
                arguments.append(tracing.placeholder(element, op.storages[i].shape, value, name))
            returned = self.kernel.func(*arguments)
            if returned is not None:
                raise TypeError(
                    f"`{op.kernel.key}` returns {type(returned).__name__}; its outputs are its last arguments"
                )
            return [tracing.value_of(arguments[i], op.storages[i].full_shape) for i in op.results]
