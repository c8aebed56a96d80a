"""``jax_kernel``: a kernel as a function of JAX arrays, for use under jit, vmap, grad, scan, shard_map."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from warp_like.base.by_name import ByName
from warp_like.base.settings import settings
from warp_like.interop.jaxffi.arguments import declared_type, fit, output_shapes, split, split_structs
from warp_like.interop.jaxffi.linear import differentiable, require_enabled, undifferentiable
from warp_like.interop.jaxffi.modes import require_known
from warp_like.interop.jaxffi.operation import JaxStorage, TracedOperation
from warp_like.interop.jaxffi.target import compiled, jax_module
from warp_like.interop.jaxffi.varying import alike
from warp_like.interop.operation import Place
from warp_like.ir.types import Array, Struct, Type, element_shape
from warp_like.runtime.kernels.argument_advice import not_a_kernel
from warp_like.runtime.kernels.arguments import Site, grid_dims
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.blocks import Blocks, checked_blocks, in_blocks
from warp_like.runtime.memory.device import get_device, is_cuda_available

F = TypeVar("F", bound="JaxKernel")
_MADE = "_functions_for_jax"

_RECENT = 64
_recent: dict[int, Any] = {}
"""The functions that were asked for last. So one that is made anew in each step of a loop is traced once."""

_VMAP_METHODS = ("broadcast_all", "expand_dims", "sequential", "sequential_unrolled")


def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    vmap_method: str = "broadcast_all",
    launch_dims: int | Sequence[int] | None = None,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | None = None,
    module_preload_mode: Any = None,
    enable_backward: bool = False,
    has_side_effect: bool = False,
    block_dim: int | None = None,
    zero_outputs: bool = True,
) -> JaxKernel:
    """Make a kernel a function of JAX arrays.

    The function takes the kernel's parameters but for the last ones, which are its outputs, and returns a list of JAX
    arrays: the in-out arguments, then the outputs. It works under JAX's transformations. Trailing dimensions of arrays
    become the components of vec and mat elements. Numbers may be Python's, or traced. A struct is given as an instance,
    or as a dict of its fields, which may be JAX arrays.

    Args:
        kernel: A function decorated with ``wp.kernel``. Its arguments come first, its outputs last.
        num_outputs: How many arrays it returns, in-out arguments included.
        vmap_method: ``sequential`` and ``sequential_unrolled`` call the kernel once for each element of a batch; all
            others run the whole batch in one call. The results are the same.
        launch_dims: The grid. When left out, the first dimensions of the first array argument, as many as the kernel
            asks of ``wp.tid()``.
        output_dims: The shape of the outputs, with or without the dimensions of their elements: an extent, extents, or
            a dict of these by parameter name. The grid's when left out, or that of the first array argument where the
            grid has fewer dimensions than the output. Both can be given to a single call as well.
        in_out_argnames: Arguments that the kernel changes. They are returned; the caller's arrays stay as they are.
        module_preload_mode: A ``wp.JaxModulePreloadMode``, taken for Warp's programs. It changes nothing: kernels are
            compiled for the CPU when JAX traces the call, and loaded on a CUDA device at the first call there.
        enable_backward: Whether JAX may ask for derivatives, up to the third, in forward and reverse mode.
        has_side_effect: Whether the call stays when its results are not used, as for a kernel that prints.
        block_dim: The threads of a block. On CUDA, what the kernel's options say when left out, else as many as it
            allows. On the CPU, one unless ``wp.config.enable_cpu_blocks`` is set when JAX traces the call.
            ``launch_dims`` counts threads, as ``wp.launch`` does.
        zero_outputs: Whether outputs hold zeros before the kernel runs. Without, what it does not write is undefined.

    Returns:
        The function; the same one again for the same arguments, so that what JAX has compiled for it is used again, if
        somebody holds it or it is one of the last 64 that were asked for.

    Raises:
        ImportError: JAX is not installed.
        TypeError: ``kernel`` is no kernel, or an output is no array.
        ValueError: The number or the names of outputs do not fit the kernel, or a block can't have so many threads.

    Example:
        >>> (out,) = jax.jit(wp.jax_kernel(square))(jax.numpy.arange(4.0))
        >>> out
        Array([0., 1., 4., 9.], dtype=float32)
    """
    jax_module()
    if not isinstance(kernel, Kernel):
        raise not_a_kernel("jax_kernel()", kernel)
    require_known(kernel.parameter_names, None, module_preload_mode, (), ())
    return made_once(
        JaxKernel,
        kernel,
        kernel,
        num_outputs,
        vmap_method,
        hashable(launch_dims),
        hashable(output_dims),
        tuple(in_out_argnames or ()),
        enable_backward,
        has_side_effect,
        zero_outputs,
        _threads(kernel.key, block_dim),
    )


def made_once(cls: type[F], function: Any, described: Any, *choices: Any) -> F:
    """Return what ``cls`` makes of a function and choices: the same as the last time if that is still held.

    The function refers to it weakly. What JAX has traced refers to the function, and lives as long as what was made: a
    strong reference would close a circle through JAX's caches, which no garbage collector sees.
    """
    try:
        made = vars(function).setdefault(_MADE, weakref.WeakValueDictionary())
        key = (cls, id(function), *choices)  # a copy of a kernel shares what it keeps
        known: F | None = made.get(key)
    except TypeError:  # a method, or a mistake among the choices, which is said below
        return cls(described, *choices)
    if known is None:
        known = made[key] = cls(described, *choices)
    _recent.pop(id(known), None)
    _recent[id(known)] = known
    for oldest in list(_recent)[:-_RECENT]:
        _recent.pop(oldest, None)
    return known


def _threads(key: str, block_dim: Any) -> int | None:
    """Return the threads of a block, None for what the kernel's options say."""
    if block_dim is None:
        return None
    number = int(block_dim) if isinstance(block_dim, np.integer) else block_dim
    threads = checked_blocks(key, None, None, number).threads
    if threads is None:
        raise ValueError(f"kernel `{key}`: a block has 1 to 1024 threads, got block_dim={block_dim}")
    return threads


class JaxKernel(ByName):
    """A kernel as a function of JAX arrays, made by ``jax_kernel``."""

    def __init__(
        self,
        kernel: Kernel,
        num_outputs: int,
        vmap_method: str,
        launch_dims: Any,
        output_dims: Any,
        in_out_argnames: tuple[str, ...],
        enable_backward: bool,
        has_side_effect: bool,
        zero_outputs: bool,
        block_dim: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.block_dim = block_dim
        self.launch_dims = hashable(launch_dims)
        self.output_dims = hashable(output_dims)
        self.enable_backward = enable_backward
        self.has_side_effect = has_side_effect
        self.zero_outputs = zero_outputs
        self.vmap_method = _checked_vmap(vmap_method)
        self.__name__ = kernel.key
        self.__module__ = getattr(kernel.func, "__module__", None) or "__main__"
        self.__qualname__ = getattr(kernel.func, "__qualname__", kernel.key)
        self.__doc__ = kernel.__doc__
        self._jitted: dict[Any, tuple[Any, set[Kernel]]] = {}  # with the kernels that it has traced
        self._place(num_outputs, in_out_argnames)

    def _place(self, num_outputs: int, in_out_argnames: tuple[str, ...]) -> None:
        """Find out which parameters are arguments, which are results."""
        key, names = self.kernel.key, self.kernel.parameter_names
        for name, t in self.kernel.parameters:
            if isinstance(t, Array) and isinstance(t.dtype, Struct):
                raise TypeError(
                    f"kernel `{key}`: the parameter `{name}` is an array of structs, which JAX does not have; take an "
                    "array for each field"
                )
        if len(set(in_out_argnames)) < len(in_out_argnames):
            raise ValueError(f"kernel `{key}`: in_out_argnames names an argument twice: {', '.join(in_out_argnames)}")
        pure = num_outputs - len(in_out_argnames)
        if num_outputs < 1 or pure < 0 or pure > len(names):
            raise ValueError(
                f"kernel `{key}` has {len(names)} parameters: num_outputs, which counts the in-out arguments, can't be "
                f"{num_outputs} with {len(in_out_argnames)} of these"
            )
        self.arguments = tuple(range(len(names) - pure))
        self.outputs = tuple(range(len(names) - pure, len(names)))
        for name in in_out_argnames:
            if name not in names[: len(self.arguments)]:
                raise ValueError(f"kernel `{key}`: in_out_argnames names `{name}`, which is no argument")
        self.in_out = tuple(i for i in self.arguments if names[i] in in_out_argnames)
        self.declared = self.kernel.declared[: len(self.kernel.declared) - pure]
        for name, t in self.kernel.declared[len(self.declared) :]:
            if isinstance(t, Struct):
                raise TypeError(f"kernel `{key}`: the output `{name}` has to be annotated as an array, it is {t}")
        for i in (*self.in_out, *self.outputs):
            t = self.kernel.parameters[i][1]
            if not isinstance(t, Array) and (t is not None or i in self.outputs):
                raise TypeError(
                    f"kernel `{key}`: the output `{names[i]}` has to be annotated as an array, it is {t or 'left open'}"
                )

    def __call__(
        self, *args: Any, output_dims: Any = None, launch_dims: Any = None, vmap_method: str | None = None
    ) -> list[Any]:
        """Run the kernel; see ``jax_kernel``."""
        key, params = self.kernel.key, self.kernel.parameters
        if len(args) != len(self.declared):
            names = ", ".join(name for name, _ in self.declared)
            raise ValueError(f"kernel `{key}` takes {len(self.declared)} arguments ({names}), got {len(args)}")
        if self.kernel.takes_structs:
            args = tuple(split_structs(key, self.declared, args))
        types: list[Type] = []
        dynamic, constants = [], []
        for i, value in enumerate(args):
            name, declared = params[i]
            number = self.kernel.positions[i]
            t = declared_type(f"kernel `{key}`, argument {number + 1} `{name}`", declared, value)
            passed, data = self._split(Site(key, number, name, t), t, value)
            types.append(t)
            if data is None:
                dynamic.append(passed)
            else:
                constants.append((i, data))
        types += [params[i][1] for i in self.outputs]  # type: ignore[misc]
        call = (
            tuple(types),
            tuple(constants),
            self.launch_dims if launch_dims is None else hashable(launch_dims),
            self.output_dims if output_dims is None else hashable(output_dims),
            self.vmap_method if vmap_method is None else _checked_vmap(vmap_method),
            self.kernel.compile_options(),
            settings.enable_cpu_blocks,
        )
        jitted, kernels = self._jitted.get(call, (None, set()))
        if jitted is None or any(k.current() is not k for k in kernels):
            kernels = set()
            jitted = self._jit(*call[:-2], kernels)
            self._jitted[call] = jitted, kernels
        return jitted(*dynamic)

    def _jit(
        self,
        types: tuple[Type, ...],
        constants: tuple[tuple[int, bytes], ...],
        launch_dims: Any,
        output_dims: Any,
        vmap_method: str,
        kernels: set[Kernel],
    ) -> Any:
        def call(*dynamic: Any) -> list[Any]:
            return self._trace(types, dict(constants), launch_dims, output_dims, vmap_method, dynamic, kernels)

        call.__name__ = call.__qualname__ = self.kernel.key
        return jax_module().jit(call, inline=True)

    def _trace(
        self,
        types: tuple[Type, ...],
        constants: dict[int, bytes],
        launch_dims: Any,
        output_dims: Any,
        vmap_method: str,
        dynamic: Sequence[Any],
        kernels: set[Kernel],
    ) -> list[Any]:
        key, names = self.kernel.key, self.kernel.parameter_names
        positions = [i for i in self.arguments if i not in constants]
        numbers = self.kernel.positions
        values = [
            fit(Site(key, numbers[i], names[i], types[i]), types[i], x) for i, x in zip(positions, dynamic, strict=True)
        ]
        shapes = {}
        for i, x in zip(positions, values, strict=True):
            t = types[i]
            if isinstance(t, Array):
                shapes[i] = tuple(x.shape[: x.ndim - len(element_shape(t.dtype))])
        dims = self._grid(launch_dims, types, shapes)
        outputs = [(names[i], types[i]) for i in self.outputs]
        if isinstance(output_dims, tuple) and output_dims[:1] == ("by name",):
            output_dims = dict(output_dims[1:])
        first = shapes[min(shapes)] if shapes else None
        shapes |= dict(zip(self.outputs, output_shapes(key, outputs, output_dims, dims, first), strict=True))  # type: ignore[arg-type]
        kernel, dims, block_dim = self._in_blocks(self._traced(kernels), dims)
        op = TracedOperation(
            kernel,
            types,
            dims,
            constants,
            {i: JaxStorage(shape, types[i].dtype) for i, shape in shapes.items()},  # type: ignore[attr-defined]
            {i: Place(i, shape) for i, shape in shapes.items()},
            self.in_out,
            self.outputs,
            self.zero_outputs,
            vmap_method,
            self.has_side_effect,
            block_dim,
        )
        # Made alike before the derivative is taken: then JAX sums the gradients over the devices itself.
        return self._run(op, alike(values), kernels)

    def _traced(self, kernels: set[Kernel]) -> Kernel:
        """The kernel for the values that its names have now; it is added to ``kernels``."""
        kernels.add(current := self.kernel.current())
        return current

    def _in_blocks(self, kernel: Kernel, dims: tuple[int, ...]) -> tuple[Kernel, tuple[int, ...], int]:
        """Return the kernel for its blocks, its grid, and the threads of a block where the code does not say."""
        on_cuda = jax_module().default_backend() != "cpu" and is_cuda_available()
        device = get_device("cuda:0" if on_cuda else "cpu")
        kernel, _, dims = in_blocks(kernel, device, Blocks(threads=self.block_dim), dims)
        return kernel, dims, 0 if kernel.cpu_block_axis >= 0 else self.block_dim or 0

    def _split(self, site: Site, t: Type, value: Any) -> tuple[Any, bytes | None]:
        return split(site, t, value)

    def _run(self, op: TracedOperation, values: Sequence[Any], kernels: set[Kernel]) -> list[Any]:
        op.require_results()
        if not self.enable_backward:
            return undifferentiable(op, values)
        require_enabled(op)
        return differentiable(op, values)

    def _grid(self, launch_dims: Any, types: tuple[Type, ...], shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        if launch_dims is not None:
            return grid_dims(self.kernel.key, launch_dims)
        if not shapes:
            raise ValueError(f"kernel `{self.kernel.key}` has no array argument that gives the grid; pass launch_dims=")
        return self._default_grid(types, shapes[min(shapes)])

    def _default_grid(self, types: tuple[Type, ...], first: tuple[int, ...]) -> tuple[int, ...]:
        return compiled(self.kernel, types, sums=True).artifact.schedule.default_grid(first)

    def __repr__(self) -> str:
        return f"<warp_like kernel {self.kernel.key} for JAX>"


def _checked_vmap(method: str) -> str:
    if method not in _VMAP_METHODS:
        raise ValueError(f"vmap_method is one of {', '.join(_VMAP_METHODS)}, got {method!r}")
    # In one call, arguments without the batch's dimension are not repeated along it.
    return "expand_dims" if method == "broadcast_all" else method


def hashable(dims: Any) -> Any:
    """Return extents as they are kept: tuples, and dicts as tuples that say so."""
    if isinstance(dims, dict):
        return ("by name", *((name, hashable(d)) for name, d in dims.items()))
    return tuple(dims) if isinstance(dims, list) else dims
