"""What users declare kernels and functions with: ``@wp.kernel``, ``@wp.func`` and their like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from warp_like.frontend.function import Function, Snippets, make_function
from warp_like.runtime.kernels.kernel import Kernel, forget_all_programs
from warp_like.runtime.kernels.module import Module, module_for


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
        made.name = name or made.name
        return _listed(made, module)

    return declare if f is None else declare(f)


def _listed(made: Function, module: Module | ModuleType | str | None) -> Function:
    """``made``, which its module lists from now on."""
    made.module = module_for(module, made.func.__module__, made.name)
    made.module.functions[made.name] = made
    return made


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
        return _listed(made, None)

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
        forget_all_programs()
        return f

    return declare


def constant(x: Any) -> Any:
    """Return ``x``. Kernels may use any number, vector or matrix by its name; this only says so to the reader.

    Example:
        >>> GRAVITY = wp.constant(wp.vec3(0.0, -9.81, 0.0))
    """
    return x
