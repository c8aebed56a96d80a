"""Kernels and functions as users declare them: ``@wp.kernel`` and ``@wp.func``."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from warp_like import values
from warp_like.base.settings import Setting, settings
from warp_like.compiler.signature import COMPILE_SETTINGS, Options, Signature
from warp_like.frontend.function import Function, make_function
from warp_like.frontend.parameters import leaf_parameters, parameters
from warp_like.frontend.source import Source, read
from warp_like.ir.types import Struct, Type, leaf_fields
from warp_like.runtime.program import Program

if TYPE_CHECKING:
    from warp_like.backend.target import Target

_kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()


class Kernel:
    """A kernel: a typed Python function that runs once for each thread of a grid. Made by ``wp.kernel``.

    Attributes:
        key: The name in messages.
        func: The Python function.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        enable_backward: bool | None = None,
        checkpoint_loops: bool | None = None,
    ) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.key = key or func.__name__
        self.enable_backward = enable_backward
        self.checkpoint_loops = checkpoint_loops
        self.fast: Any = None  # the native dispatcher that `launch` tries first
        self._programs: dict[tuple[Any, ...], Program] = {}
        _kernels.add(self)

    @functools.cached_property
    def source(self) -> Source:
        """The source."""
        return read(self.func, "kernel")

    @functools.cached_property
    def declared(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter as the user wrote it; None where the type is inferred at launch."""
        return parameters(self.source)

    @functools.cached_property
    def parameters(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter of the compiled kernel: of a struct, those of its fields."""
        return leaf_parameters(self.declared)

    @functools.cached_property
    def takes_structs(self) -> bool:
        """Whether a parameter is a struct, so that ``parameters`` are others than ``declared``."""
        return any(isinstance(t, Struct) for _, t in self.declared)

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters in order."""
        return [name for name, _ in self.parameters]

    def program(
        self,
        types: tuple[Type, ...],
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
    ) -> Program:
        """Return the program for these argument types, or its adjoint with respect to the arrays ``wrt``.

        ``same`` lists pairs of parameters that are one array, later one first, for an adjoint. ``tangent`` lists the
        parameters, of the kernel or of the adjoint, that have tangents: the program is then one of forward mode.
        """
        key = (types, wrt, same, tangent)
        found = self._programs.get(key)
        if found is None:
            found = self._programs.setdefault(key, Program(self, types, wrt, same, tangent))
        return found

    def options(self) -> Options:
        """Return the options to compile with: the settings, and what the kernel was declared with."""
        current = Options.current()
        if self.checkpoint_loops is None:
            return current
        return current.replace(checkpoint_loops=self.checkpoint_loops)

    def forget_programs(self) -> None:
        """Drop what has been compiled, because options changed."""
        self.fast = None
        self.forget_adjoints()
        self._programs.clear()

    def forget_adjoints(self) -> None:
        """Let adjoint launches, those of recorded launches too, be checked anew."""
        for program in self._programs.values():
            if program.dispatcher is not None:
                program.dispatcher.forget_adjoints()

    def inspect(
        self,
        stage: str = "optimised",
        args: Sequence[Any] | None = None,
        target: str | None = None,
        wrt: Sequence[str] | None = None,
    ) -> str:
        """Return the text of one stage of compilation.

        Args:
            stage: ``ir`` (as the frontend built it), ``optimised`` (as the backend gets it), ``llvm`` (before LLVM's
                own passes), ``asm`` or ``ptx``.
            args: Types or example values for the parameters; needed where annotations leave types open.
            target: ``cpu`` (this machine, the default) or a CUDA architecture such as ``sm_80``.
            wrt: Show the adjoint with respect to these array parameters instead of the kernel.

        Raises:
            ValueError: An unknown stage, target or parameter.
            WarpCodegenError: The kernel can't be compiled.

        Example:
            >>> print(saxpy.inspect("asm"))
        """
        names = self.parameter_names
        unknown = [name for name in wrt or () if name not in names]
        if unknown:
            raise ValueError(f"kernel `{self.key}` has no parameter `{unknown[0]}`; it has {', '.join(names)}")
        positions = None if wrt is None else tuple(sorted(names.index(name) for name in wrt))
        where = _target(target)
        types = self._inspected_types(args)
        signature = Signature(types, wrt=positions, options=self.options(), sums=not where.is_cuda)
        from warp_like.compiler import pipeline  # not loaded unless something is compiled

        return pipeline.stage_text(self.source, signature, where, stage)

    def inspect_ir(self, args: Sequence[Any] | None = None) -> str:
        """Return the IR as the frontend built it."""
        return self.inspect("ir", args)

    def inspect_llvm(self, args: Sequence[Any] | None = None, target: str | None = None) -> str:
        """Return the LLVM IR."""
        return self.inspect("llvm", args, target)

    def inspect_asm(self, args: Sequence[Any] | None = None) -> str:
        """Return the machine code of this machine's processor as assembly."""
        return self.inspect("asm", args)

    def inspect_ptx(self, args: Sequence[Any] | None = None, target: str = "sm_80") -> str:
        """Return the PTX for a CUDA architecture; needs no GPU."""
        return self.inspect("ptx", args, target)

    def _inspected_types(self, args: Sequence[Any] | None) -> tuple[Type, ...]:
        from warp_like.runtime.arguments import infer_type

        given = list(args) if args is not None else [None] * len(self.parameters)
        if args is not None and len(given) != len(self.declared):
            raise ValueError(f"kernel `{self.key}` has {len(self.declared)} parameters, got {len(given)} args")
        if args is not None:
            given = [x for (_, t), arg in zip(self.declared, given, strict=True) for x in _spread(t, arg)]
        types = []
        for (name, declared), arg in zip(self.parameters, given, strict=True):
            if declared is None and arg is None:
                raise ValueError(f"kernel `{self.key}`: the type of `{name}` is inferred at launch; pass args=[...]")
            types.append(declared if declared is not None else _type_or_value(arg, infer_type))
        return tuple(types)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a kernel is launched, not called."""
        raise TypeError(f"kernel `{self.key}` is not called; run it with wp.launch({self.key}, dim=..., inputs=[...])")

    def __repr__(self) -> str:
        return f"<warp_like kernel {self.key}>"


def _spread(t: Type | None, arg: Any) -> list[Any]:
    """An example argument; None for each field of a struct, whose types are known."""
    return [None] * len(leaf_fields(t)) if isinstance(t, Struct) else [arg]


def _type_or_value(arg: Any, infer: Callable[[Any], Type]) -> Type:
    if isinstance(arg, Type):
        return arg
    t = values.to_ir(arg) if values.is_type(arg) else infer(arg)
    assert t is not None
    return t


def _target(text: str | None) -> Target:
    from warp_like.backend.target import cuda_target, host_target

    if text is None or text == "cpu":
        return host_target()
    if text.startswith("sm_"):
        return cuda_target(text)
    raise ValueError(f'there is no target {text!r}; targets are "cpu" and CUDA architectures such as "sm_80"')


def kernel(
    f: Callable[..., Any] | None = None, *, enable_backward: bool | None = None, checkpoint_loops: bool | None = None
) -> Any:
    """Declare a kernel: a function that runs once for each thread of a launch.

    Parameters need annotations: scalars (``int``, ``float``, ``wp.float64``), vectors and matrices (``wp.vec3``),
    arrays (``wp.array(dtype=float)``, ``wp.array2d[float]``). The function returns nothing. Its source is read when it
    is first launched, so mistakes in it are reported then.

    Args:
        f: The function.
        enable_backward: Whether gradients may be asked of this kernel; ``wp.config.enable_backward`` when left out.
        checkpoint_loops: Whether its reverse sweep saves the state of loops at checkpoints only, and runs them a
            second time between these; ``wp.config.checkpoint_loops`` when left out.

    Example:
        >>> @wp.kernel
        ... def scale(x: wp.array(dtype=float), a: float):
        ...     i = wp.tid()
        ...     x[i] = a * x[i]
    """
    if f is None:
        return functools.partial(kernel, enable_backward=enable_backward, checkpoint_loops=checkpoint_loops)
    return Kernel(f, enable_backward=enable_backward, checkpoint_loops=checkpoint_loops)


def func(f: Callable[..., Any]) -> Function:
    """Declare a function that kernels and other functions can call.

    It is compiled into its callers. Functions of one name in one place, with different parameter types, are
    overloads of each other.

    Example:
        >>> @wp.func
        ... def square(v: float):
        ...     return v * v
    """
    return make_function(f)


def func_grad(function: Function) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the gradient of a function, in place of the one that the compiler would make.

    The gradient function takes the arguments of ``function``, with the same annotations, and then the adjoint of each
    of its results. It adds to ``wp.adjoint[x]`` for each argument ``x`` that has a gradient; for an array that is the
    array of adjoints, whose elements several threads may add to. It runs in the reverse sweep, reads arrays as they are
    after the launch, and writes to nothing but adjoints. Of several overloads it belongs to the one whose arguments it
    takes.

    Raises:
        TypeError: ``function`` was not made by ``wp.func``.
        WarpCodegenError: The arguments are not those of the function.

    Example:
        >>> @wp.func
        ... def safe_sqrt(x: float):
        ...     return wp.sqrt(x)
        >>> @wp.func_grad(safe_sqrt)
        ... def adj_safe_sqrt(x: float, adj_ret: float):
        ...     if x > 0.0:
        ...         wp.adjoint[x] += 0.5 / wp.sqrt(x) * adj_ret
    """
    return _custom(function, "gradient")


def func_replay(function: Function) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what the reverse sweep calls instead of ``function`` to have its results again.

    It takes the same arguments and returns the same types, reads arrays as they are after the launch, and writes
    nothing. It serves functions that can't simply run again, such as those that return the old value of an atomic.

    Raises:
        TypeError: ``function`` was not made by ``wp.func``.
        WarpCodegenError: The arguments are not those of the function.

    Example:
        >>> @wp.func
        ... def take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
        ...     taken[i] = wp.atomic_add(counter, 0, 1)
        ...     return taken[i]
        >>> @wp.func_replay(take)
        ... def replay_take(counter: wp.array(dtype=int), taken: wp.array(dtype=int), i: int):
        ...     return taken[i]
    """
    return _custom(function, "replay")


def _custom(function: Function, role: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if not isinstance(function, Function):
        name = {"gradient": "func_grad", "replay": "func_replay"}[role]
        raise TypeError(f"{name}() takes a function made by @wp.func, got {type(function).__name__}")

    def declare(f: Callable[..., Any]) -> Callable[..., Any]:
        from warp_like.frontend.gradients import attach

        attach(function, role, f)
        for k in list(_kernels):  # any of them may call the function
            k.forget_programs()
        return f

    return declare


def constant(value: Any) -> Any:
    """Return ``value``. Kernels may use any number, vector or matrix by its name; this only says so to the reader.

    Example:
        >>> GRAVITY = wp.constant(wp.vec3(0.0, -9.81, 0.0))
    """
    return value


def _options_changed(setting: Setting) -> None:
    if setting.name in COMPILE_SETTINGS:
        for k in list(_kernels):
            k.forget_programs()
    elif setting.name in ("print_launches", "enable_backward"):
        for k in list(_kernels):
            k.fast = None
            k.forget_adjoints()


settings.on_change(_options_changed)
