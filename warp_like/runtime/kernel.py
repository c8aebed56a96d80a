"""Kernels and functions as users declare them: ``@wp.kernel`` and ``@wp.func``."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warp_like import _native, values
from warp_like.base.errors import WarpCodegenError
from warp_like.base.settings import Setting, settings
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.lookup import compile_kernel
from warp_like.compiler.signature import COMPILE_SETTINGS, Options, Signature
from warp_like.frontend.function import Function, Snippets, make_function
from warp_like.frontend.parameters import leaf_parameters, parameters
from warp_like.frontend.source import Source, annotation_names, file_lines, read
from warp_like.ir.types import Struct, Type, leaf_fields
from warp_like.runtime.device import Device
from warp_like.runtime.module import Module, module_for
from warp_like.runtime.options import OwnOptions
from warp_like.runtime.program import Program

if TYPE_CHECKING:
    from warp_like.backend.target import Target
    from warp_like.runtime.explanation import Explanation

_kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()


class Precompiled:
    """The variants of a kernel that an ahead-of-time module holds.

    Attributes:
        path: The file.
        options: What they were compiled with.
        variants: The artifacts by ``contiguous``, ``wide``, ``sums`` and ``wrt`` of their signatures.
        alone: The kernel that is declared has another source, so that nothing is compiled beside these.
    """

    def __init__(
        self, path: str, options: Options, variants: dict[tuple[bool, bool, bool, tuple[int, ...] | None], Artifact]
    ) -> None:
        self.path = path
        self.options = options
        self.variants = variants
        self.alone = False

    def find(self, s: Signature) -> Artifact | None:
        """Return the artifact for ``s``, or one that assumes less and serves as well; None where there is none."""
        if s.options != self.options or s.tangent is not None or s.same:
            return None
        for wide in dict.fromkeys((s.wide, True)):
            for sums in dict.fromkeys((s.sums, False)):
                for contiguous in dict.fromkeys((s.contiguous, False)):
                    found = self.variants.get((contiguous, wide, sums, s.wrt))
                    if found is not None:
                        return found
        return None


class Kernel(_native.Launchable):
    """A kernel: a typed Python function that runs once for each thread of a grid. Made by ``wp.kernel``.

    Attributes:
        key: The name in messages and in its module.
        func: The Python function.
        module: The module that it belongs to.
        options: The options that it has for itself, a mapping; ``option()`` gives what holds in the end.
        launch_bounds: For CUDA, the most threads of a block and the fewest blocks of a multiprocessor (0: any).
        base: The kernel that this is with other options (see ``with_options``), or None.
        generic: The generic kernel that this is an instance of, or None.
        overloads: Of a generic kernel, the instances that ``wp.overload`` has declared, by their types.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: Module | ModuleType | str | None = None,
        options: Mapping[str, Any] | None = None,
        launch_bounds: tuple[int, int] | None = None,
    ) -> None:
        if not hasattr(func, "__name__"):
            raise TypeError(f"a kernel is made from a function, got {type(func).__name__} {func!r}")
        functools.update_wrapper(self, func)
        self.func = func
        self.key = key or func.__name__
        self.options = OwnOptions("kernel", self.key, self._options_changed)
        self.launch_bounds = launch_bounds
        self.base: Kernel | None = None
        self.generic: Kernel | None = None
        self.overloads: dict[str, Kernel] = {}
        self.precompiled: dict[str, Precompiled] = {}  # by target: `cpu`, or a CUDA architecture
        self._lines = file_lines(func)
        self._names = annotation_names(func)
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._instances: dict[tuple[Type, ...], Kernel] = {}
        self._with_options: dict[frozenset[tuple[str, str]], Kernel] = {}
        self.options.update(options or {})
        self.module = module_for(module, getattr(func, "__module__", None), self.key)
        self.module.register(self)
        _kernels.add(self)

    @functools.cached_property
    def source(self) -> Source:
        """The source."""
        return read(self.func, "kernel", self._names, self._lines)

    @functools.cached_property
    def declared(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter as the user wrote it; None where the type is inferred at launch."""
        return parameters(self.source)

    @functools.cached_property
    def is_generic(self) -> bool:
        """Whether the types of some parameters are inferred at launch."""
        return any(t is None for _, t in self.declared)

    def instance(self, types: tuple[Type, ...]) -> Kernel:
        """Return this generic kernel with concrete types in place of those that it leaves open."""
        found = self._instances.get(types)
        if found is None:
            found = self._copy(generic=self, overloads={}, precompiled=dict(self.precompiled))
            for derived in ("declared", "parameters", "positions", "takes_structs", "is_generic"):
                found.__dict__.pop(derived, None)
            found.source = self.source.with_types({name: t for (name, _), t in zip(self.declared, types, strict=True)})
            found = self._instances.setdefault(types, found)
        return found

    def with_options(self, options: Mapping[str, Any] | None = None, /, **more: Any) -> Kernel:
        """Return this kernel with other options, compiled apart from it; the same one each time for the same options.

        What is not given is as here, also when that changes later. ``wp.launch(options=...)`` launches such a kernel.

        Raises:
            ValueError: There is no such option, or it can't have that value.
            TypeError: An option has another type.

        Example:
            >>> wp.launch(square.with_options(fast_math=True), dim=n, inputs=[x], outputs=[y])
        """
        if self.generic is not None:
            return self.generic.with_options(options, **more).instance(tuple(t for _, t in self.declared if t))
        if not isinstance(options, (Mapping, type(None))):
            raise TypeError(f"kernel `{self.key}`: options is a dict, got {type(options).__name__}")
        given = {**(options or {}), **more}
        key = frozenset((name, repr(value)) for name, value in given.items())
        found = self._with_options.get(key)
        if found is None:
            found = self._copy(base=self)
            found.options = OwnOptions("kernel", self.key, found._options_changed)
            found.options.update(given)
            found = self._with_options.setdefault(key, found)
        return found

    def _copy(self, **changed: Any) -> Kernel:
        """This kernel with other attributes, and with nothing compiled."""
        made: Kernel = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__, _programs={}, _instances={}, _with_options={}, **changed)
        self.module.attach(made)
        _kernels.add(made)
        return made

    @functools.cached_property
    def parameters(self) -> list[tuple[str, Type | None]]:
        """Name and type of each parameter of the compiled kernel: of a struct, those of its fields."""
        return leaf_parameters(self.declared)

    @functools.cached_property
    def positions(self) -> list[int]:
        """For each of ``parameters`` the position of the argument that it is, or is a field of."""
        return [i for i, p in enumerate(self.declared) for _ in leaf_parameters([p])]

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of ``parameters`` of a kernel that leaves none open."""
        return tuple(t for _, t in self.parameters if t is not None)

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
        device: Device | None = None,
    ) -> Program:
        """Return the program for these argument types, or its adjoint with respect to the arrays ``wrt``.

        ``same`` lists pairs of parameters that are one array, later one first, for an adjoint. ``tangent`` lists the
        parameters, of the kernel or of the adjoint, that have tangents: the program is then one of forward mode.
        ``device`` is what it is compiled for; the CPU when left out.
        """
        key = (types, wrt, same, tangent, None if device is None or device.is_cpu else device)
        found = self._programs.get(key)
        if found is None:
            found = self._programs.setdefault(key, Program(self, types, wrt, same, tangent, device))
        return found

    def option(self, name: str) -> Any:
        """Return the value of an option: the kernel's own, else its module's, else that of ``wp.config``."""
        own = self.options.get(name) if self.options else None
        if own is not None:
            return own
        return self.module.options[name] if self.base is None else self.base.option(name)

    def compile_options(self) -> Options:
        """Return the options to compile with."""
        return Options.of(self.option, self.launch_bounds)

    @property
    def file(self) -> str:
        """The file that defines the kernel."""
        return self.source.file

    def artifact(self, signature: Signature, target: Target | None = None) -> Artifact:
        """Return the compiled code for ``signature``: of an ahead-of-time module, else from the cache or compiled now.

        Raises:
            WarpCodegenError: The kernel can't be compiled, or not differentiated.
        """
        code = self.precompiled.get("cpu" if target is None else target.name)
        found = code.find(signature) if code is not None else None
        if found is None and code is not None and code.alone:
            raise WarpCodegenError(
                f"kernel `{self.key}` was loaded from {code.path} without regard to its source here, and what is asked "
                "for is not in there",
                help="other options, and some adjoints, are not; compile the module again, or load it without "
                "strip_hash=True",
            )
        return compile_kernel(self.source, signature, target) if found is None else found

    def forget_programs(self) -> None:
        """Drop what has been compiled, because options changed."""
        self.fast = self.others = None
        self.forget_adjoints()
        for dispatcher in self._dispatchers():
            dispatcher.stale = True
        self._programs.clear()

    def _options_changed(self) -> None:
        self.forget_programs()
        for kernel in (*self._instances.values(), *self._with_options.values()):
            kernel._options_changed()

    def forget_adjoints(self) -> None:
        """Let adjoint launches, those of recorded launches too, be checked anew."""
        for dispatcher in self._dispatchers():
            dispatcher.forget_adjoints()

    def set_deterministic(self) -> None:
        """Let what has been compiled follow the option ``deterministic``."""
        for dispatcher in self._dispatchers():
            dispatcher.deterministic = bool(self.option("deterministic"))

    def _dispatchers(self) -> list[_native.Dispatcher]:
        return [p.dispatcher for p in list(self._programs.values()) if p.dispatcher is not None]

    def inspect(
        self,
        stage: str = "optimised",
        args: Sequence[Any] | None = None,
        target: str | None = None,
        wrt: Sequence[str] | None = None,
    ) -> str:
        """Return the text of one stage of compilation.

        Args:
            stage: ``ir`` (as the frontend built it), ``optimised`` (when all passes have run), ``lanes`` (as the CPU
                runs it, several threads at a time), ``llvm`` (before LLVM's own passes), ``asm``, ``ptx`` or
                ``sass`` (CUDA's machine code).
            args: Types or example values for the parameters; needed where annotations leave types open.
            target: ``cpu`` (this machine, the default) or a CUDA architecture such as ``sm_80``.
            wrt: Show the adjoint with respect to these array parameters instead of the kernel.

        Raises:
            ValueError: An unknown stage, target or parameter.
            WarpCodegenError: The kernel can't be compiled.

        Example:
            >>> assembly = square.inspect("asm")
        """
        names = self.parameter_names
        unknown = [name for name in wrt or () if name not in names]
        if unknown:
            raise ValueError(f"kernel `{self.key}` has no parameter `{unknown[0]}`; it has {', '.join(names)}")
        positions = None if wrt is None else tuple(sorted(names.index(name) for name in wrt))
        where = _target(target)
        types = self._inspected_types(args)
        signature = Signature(types, wrt=positions, options=self.compile_options(), sums=not where.is_cuda)
        from warp_like.compiler import pipeline  # not loaded unless something is compiled

        return pipeline.stage_text(self.source, signature, where, stage)

    def explain(self, args: Sequence[Any] | None = None) -> Explanation:
        """Say how the kernel is compiled and run: cache key, where the code is from, time per stage, lanes and why.

        Args:
            args: Types or example values for the parameters: tell of the variant for them, compiling it where that has
                not happened. Without them: of all variants that launches have needed so far, or, where there are none
                and all types are known, of the one for contiguous arrays.

        Returns:
            A text that prints and shows in notebooks; its ``variants`` hold the same as data.

        Raises:
            ValueError: Nothing was launched yet and annotations leave types open.
            WarpCodegenError: The kernel can't be compiled.

        Example:
            >>> print(square.explain([x, y]))
            kernel `square`
            <BLANKLINE>
              forward, contiguous arrays
                arguments  x: array1d[float32], y: array1d[float32]
            ...
        """
        from warp_like.runtime.explanation import explain  # few programs ask

        kernels = [self, *self._instances.values()]
        programs = [p for k in kernels for p in k._programs.values() if p.artifacts]
        if args is not None or not programs:
            types = self._inspected_types(args)
            program = self.instance(types).program(types) if self.is_generic else self.program(types)
            if not program.artifacts:
                program.require(contiguous=True, wide=False, sums=True)
            programs = [program]
        return explain(self, programs)

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

    def inspect_sass(self, args: Sequence[Any] | None = None, target: str = "sm_80") -> str:
        """Return the machine code for a CUDA architecture as text; needs no GPU, but NVIDIA's tools.

        Raises:
            RuntimeError: ``ptxas``, or both ``nvdisasm`` and ``cuobjdump``, are not on this machine.
        """
        return self.inspect("sass", args, target)

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

    def __reduce__(self) -> str:
        return self.func.__qualname__  # by name, as functions are pickled and copied


def _spread(t: Type | None, arg: Any) -> list[Any]:
    """An example argument; None for each field of a struct, whose types are known."""
    return [None] * len(leaf_fields(t)) if isinstance(t, Struct) else [arg]


def _type_or_value(arg: Any, infer: Callable[[Any], Type]) -> Type:
    if isinstance(arg, Type):
        return arg
    is_value = isinstance(arg, _native.Array)  # whose class stands for a generic type
    t = infer(arg) if is_value or not values.is_type(arg) else values.to_ir(arg)
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
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    launch_bounds: int | tuple[int, int] | None = None,
    module: Module | ModuleType | str | None = None,
    module_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Declare a kernel: a function that runs once for each thread of a launch.

    Parameters need annotations: scalars (``int``, ``float``, ``wp.float64``), vectors and matrices (``wp.vec3``),
    arrays (``wp.array(dtype=float)``, ``wp.array2d[float]``). The function returns nothing. Its source is compiled when
    it is first launched, so mistakes in it are reported then.

    Args:
        f: The function.
        name: The kernel's name in messages and in its module; that of the function when left out.
        enable_backward: Whether gradients may be asked of this kernel; its module's option when left out.
        launch_bounds: For CUDA: the most threads that a block will have, or these and the fewest blocks that a
            multiprocessor should hold.
        module: The module that the kernel belongs to, by name or as an object; ``"unique"`` gives it one of its own.
            The Python module that defines it when left out.
        module_options: Options of the new module, with ``module="unique"``.
        options: ``fast_math``, ``fuse_fp``, ``max_unroll``, ``mode`` or ``checkpoint_loops`` for this kernel, in place
            of its module's; see the page on settings.

    Raises:
        ValueError: There is no such option, or it can't have that value; or ``module_options`` comes without
            ``module="unique"``.
        TypeError: An option has another type.

    Example:
        >>> @wp.kernel
        ... def scale(x: wp.array(dtype=float), a: float):
        ...     i = wp.tid()
        ...     x[i] = a * x[i]
        >>> @wp.kernel(enable_backward=False, fast_math=True)
        ... def decay(x: wp.array(dtype=float), a: float):
        ...     i = wp.tid()
        ...     x[i] = x[i] * wp.exp(-a)
    """
    if module_options is not None and not (isinstance(module, str) and module == "unique"):
        raise ValueError('module_options belong to a module of the kernel\'s own: @wp.kernel(module="unique", ...)')
    if not isinstance(module_options, (Mapping, type(None))):
        raise TypeError(f"module_options is a dict, got {type(module_options).__name__}")
    bounds = _bounds(launch_bounds)

    def declare(f: Callable[..., Any]) -> Kernel:
        made = Kernel(f, name, module, {"enable_backward": enable_backward, **options}, bounds)
        if module_options:
            made.module.options.update(module_options)
        return made

    return declare if f is None else declare(f)


def _bounds(given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    pair = (given, 0) if isinstance(given, int) else tuple(given) if isinstance(given, (tuple, list)) else ()
    pair = (*pair, 0) if len(pair) == 1 else pair
    if len(pair) != 2 or not all(type(n) is int for n in pair) or not 0 < pair[0] <= 1024 or pair[1] < 0:
        raise ValueError(
            "launch_bounds is the most threads of a block, 1 to 1024, or a pair of these and the fewest blocks of a "
            f"multiprocessor, got {given!r}"
        )
    return pair


def func(
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    module: Module | ModuleType | str | None = None,
    inline: bool | None = None,
) -> Any:
    """Declare a function that kernels and other functions can call.

    It is compiled into its callers. Functions of one name in one place, with different parameter types, are
    overloads of each other.

    Args:
        f: The function; a lambda takes arguments of any types.
        name: Its name in messages and in its module; its own when left out.
        module: The module that lists it, as for ``wp.kernel``.
        inline: Taken for Warp's programs: functions are always compiled into their callers.

    Example:
        >>> @wp.func
        ... def square(v: float):
        ...     return v * v
    """

    def declare(f: Callable[..., Any]) -> Function:
        made = make_function(f)
        if made.redefines:
            _forget_all_programs()
        made.name = name or made.name
        module_for(module, made.module, made.name).functions[made.name] = made
        return made

    return declare if f is None else declare(f)


def func_native(
    snippet: str,
    adj_snippet: str | None = None,
    replay_snippet: str | None = None,
    *,
    writes: Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Function]:
    """Declare a function whose body is C++, or CUDA C++ where kernels are compiled for CUDA.

    The Python function below gives the types; its body is ``...``. The snippet sees the arguments by their names:
    numbers, ``wp::vec_t<3, float>`` with ``v[i]``, ``wp::mat_t<2, 2, float>`` with ``m(i, j)``, ``wp::quat_t<float>``
    with ``q.x``, and arrays with ``a(i, j)``, ``a.shape[0]``, ``a.data`` and ``wp::atomic_add(a, i, x)``. It runs once
    for each call in each thread, and returns a value if the Python function is annotated with one. It is compiled by
    the host's C++ compiler (the environment variable ``CXX``, or ``c++``, ``g++`` or ``clang++`` on ``PATH``), and for
    CUDA by ``nvcc``.

    Args:
        snippet: The body.
        adj_snippet: The body of the gradient: it adds to ``adj_x`` for each argument ``x`` made of floats, an array for
            an array, given ``adj_ret``, the adjoint of what is returned. Arrays are as they are after the launch.
            Several threads that add to one element need ``wp::atomic_add``. Without it the function has no gradient.
        replay_snippet: What the reverse sweep runs to have the result again; it writes nothing. Without it ``snippet``
            is run again if it writes nothing.
        writes: The names of the arrays that ``snippet`` writes; the compiler refuses writes to others. All of them when
            left out, so that kernels which call it need arrays that can be written.

    Raises:
        TypeError: A snippet is no text.
        WarpCodegenError: When the kernel is compiled: there is no compiler, or it refuses the snippet; a parameter is a
            struct or a function.

    Example:
        >>> @wp.func_native("return x * x;", adj_snippet="adj_x += 2.0f * x * adj_ret;")
        ... def square(x: float) -> float: ...
    """
    for name, text in (("snippet", snippet), ("adj_snippet", adj_snippet), ("replay_snippet", replay_snippet)):
        if not isinstance(text, str) and (text is not None or name == "snippet"):
            raise TypeError(f"func_native(): {name} is text, got {type(text).__name__}")
    native = Snippets(snippet, adj_snippet, replay_snippet, None if writes is None else tuple(writes))

    def declare(f: Callable[..., Any]) -> Function:
        made = make_function(f, native=native)
        if made.redefines:
            _forget_all_programs()
        module_for(None, made.module, made.name).functions[made.name] = made
        return made

    return declare


def func_grad(forward_fn: Function) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the gradient of a function, in place of the one that the compiler would make.

    The gradient function takes the arguments of ``forward_fn``, with the same annotations, and then the adjoint of each
    of its results. It adds to ``wp.adjoint[x]`` for each argument ``x`` that has a gradient; for an array that is the
    array of adjoints, whose elements several threads may add to. It runs in the reverse sweep, reads arrays as they are
    after the launch, and writes to nothing but adjoints. Of several overloads it belongs to the one whose arguments it
    takes.

    Raises:
        TypeError: ``forward_fn`` was not made by ``wp.func``.
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
    return _custom(forward_fn, "gradient")


def func_replay(forward_fn: Function) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what the reverse sweep calls instead of ``forward_fn`` to have its results again.

    It takes the same arguments and returns the same types, reads arrays as they are after the launch, and writes
    nothing. It serves functions that can't simply run again, such as those that return the old value of an atomic.

    Raises:
        TypeError: ``forward_fn`` was not made by ``wp.func``.
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
    return _custom(forward_fn, "replay")


def _custom(function: Function, role: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if not isinstance(function, Function):
        name = {"gradient": "func_grad", "replay": "func_replay"}[role]
        raise TypeError(f"{name}() takes a function made by @wp.func, got {type(function).__name__}")

    def declare(f: Callable[..., Any]) -> Callable[..., Any]:
        from warp_like.frontend.gradients import attach

        attach(function, role, f)
        _forget_all_programs()
        return f

    return declare


def constant(x: Any) -> Any:
    """Return ``x``. Kernels may use any number, vector or matrix by its name; this only says so to the reader.

    Example:
        >>> GRAVITY = wp.constant(wp.vec3(0.0, -9.81, 0.0))
    """
    return x


def _forget_all_programs() -> None:
    """Let every kernel be compiled anew: any of them may call a function that has changed."""
    for k in list(_kernels):
        k.forget_programs()


def _options_changed(setting: Setting) -> None:
    if setting.name in COMPILE_SETTINGS or setting.name in ("verify_cuda", "block_dim"):
        for k in list(_kernels):
            k.forget_programs()
    elif setting.name == "enable_backward":
        for k in list(_kernels):
            k.fast = k.others = None
            k.forget_adjoints()
    elif setting.name == "deterministic":
        for k in list(_kernels):
            k.set_deterministic()
    elif setting.name == "print_launches":
        hold_fast_launches(0)


_held = 0  # captures and timings that run now, in any thread
_holding = threading.Lock()


def hold_fast_launches(change: int) -> None:
    """Note that something begins (1) or ends (-1) that has to see every launch: none begins without Python then."""
    global _held
    with _holding:
        _held += change
        _native.hold_launches(_held > 0 or settings.print_launches)


hold_fast_launches(0)
settings.on_change(_options_changed)
