"""Generic kernels: finding the instance that a launch needs, and declaring instances ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like import values
from warp_like.frontend.parameters import parameters
from warp_like.frontend.source import annotation_names, file_lines, parse
from warp_like.ir.types import Type
from warp_like.runtime.arrays.array import array
from warp_like.runtime.kernels.arguments import infer_type
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.module import get_module
from warp_like.values.struct import StructInstance


def concrete(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]) -> Kernel:
    """Return the instance of ``kernel`` for the types of these arguments, in its current edition.

    Raises:
        TypeError: An argument is not what its parameter takes, or has no type of its own.
        ValueError: The number of arguments is wrong.
    """
    if not kernel.is_generic:
        return kernel.current()
    given = require_arguments(kernel, inputs, outputs)
    types = []
    for i, ((name, t), value) in enumerate(zip(kernel.declared, given, strict=True)):
        if t is None:
            t = _inferred(f"kernel `{kernel.key}`, argument {i + 1} `{name}`", kernel.source.annotations[name], value)
        types.append(t)
    found = kernel.instance(tuple(types))
    key = _kinds(given)
    if key is not None:
        kernel.launched[key] = found
    return found.current()


def known_instance(kernel: Kernel, inputs: Any, outputs: Any) -> Kernel | None:
    """Return the instance of a generic kernel that an earlier launch with such arguments took, if there is one."""
    if not kernel.launched or type(inputs) not in _LISTS or type(outputs) not in _LISTS:
        return None
    key = _kinds([*inputs, *outputs])
    return None if key is None else kernel.launched.get(key)


_LISTS = (list, tuple)
_NUMBERS = frozenset((type(None), bool, int, float))


def _kinds(given: Sequence[Any]) -> tuple[Any, ...] | None:
    """What the types of these arguments depend on; None where one of them is of another library."""
    kinds: list[Any] = []
    for value in given:
        kind = type(value)
        if kind is array:
            kinds.append((value.type_code, value.ndim))
        elif kind in _NUMBERS or isinstance(getattr(kind, "_ir_type_", None), Type):
            kinds.append(kind)
        else:
            return None
    return tuple(kinds)


def require_arguments(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Return the arguments of a launch in one list.

    Raises:
        TypeError: ``inputs`` or ``outputs`` is no list.
        ValueError: There are more or fewer than the kernel has parameters.
    """
    for name, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"kernel `{kernel.key}`: {name} takes a list or a tuple, got {type(given).__name__}")
    found = [*inputs, *outputs]
    if len(found) != len(kernel.declared):
        names = ", ".join(name for name, _ in kernel.declared)
        raise ValueError(
            f"kernel `{kernel.key}` takes {len(kernel.declared)} arguments ({names}), got {len(found)} "
            f"({len(inputs)} inputs and {len(outputs)} outputs)"
        )
    return found


def _inferred(site: str, annotation: Any, value: Any) -> Type:
    try:
        t = value._ir_type_ if isinstance(value, StructInstance) else infer_type(value)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{site}: {e}") from e
    if not values.accepts(annotation, t):
        raise TypeError(f"{site}: expected {values.shown(annotation)}, got {t}")
    return t


def overload(kernel: Kernel | Callable[..., Any], arg_types: Mapping[str, Any] | Sequence[Any] | None = None) -> Kernel:
    """Declare an instance of a generic kernel for given types.

    A generic kernel needs none to be launched: types are inferred then. A declared one is compiled by
    ``wp.load_module`` and ``wp.compile_aot_module``, and launching the instance itself skips the inference.

    Args:
        kernel: The generic kernel. Or, as a decorator, a function of its name in its module, whose annotations are the
            types and whose body means nothing.
        arg_types: A type for each parameter, in order; or the types of the generic parameters by name.

    Returns:
        The instance, which can be launched; as a decorator, the generic kernel.

    Raises:
        TypeError: There is no such generic kernel, or a type does not fit its parameter.
        ValueError: The number of types is wrong, or a name is none of its parameters.

    Example:
        >>> @wp.kernel
        ... def scale(x: wp.array(dtype=wp.Any), factor: wp.Any):
        ...     i = wp.tid()
        ...     x[i] = factor * x[i]
        >>> scale_f64 = wp.overload(scale, [wp.array(dtype=wp.float64), wp.float64])
        >>> @wp.overload
        ... def scale(x: wp.array(dtype=wp.vec3), factor: float): ...
    """
    if arg_types is None and callable(kernel) and not isinstance(kernel, Kernel):
        return _declared_by(kernel)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"overload() takes a generic kernel, got {type(kernel).__name__}")
    if not kernel.is_generic:
        raise TypeError(f"kernel `{kernel.key}` is not generic: the types of all its parameters are known")
    if arg_types is None:
        raise TypeError(f"overload() of kernel `{kernel.key}` needs the types of its arguments")
    by_name = _types_by_name(kernel, arg_types)
    chosen = tuple(_chosen(kernel, name, t, by_name) for name, t in kernel.declared)
    instance = kernel.instance(chosen)
    kernel.overloads.setdefault(", ".join(map(str, chosen)), instance)
    return instance


def _types_by_name(kernel: Kernel, arg_types: Any) -> dict[str, Any]:
    names = [name for name, _ in kernel.declared]
    if isinstance(arg_types, Mapping):
        unknown = [name for name in arg_types if name not in names]
        if unknown:
            raise ValueError(f"kernel `{kernel.key}` has no parameter `{unknown[0]}`; it has {', '.join(names)}")
        return dict(arg_types)
    if len(arg_types) != len(names):
        shown = ", ".join(names)
        raise ValueError(f"kernel `{kernel.key}` has {len(names)} parameters ({shown}), got {len(arg_types)} types")
    return dict(zip(names, arg_types, strict=True))


def _chosen(kernel: Kernel, name: str, declared: Type | None, by_name: Mapping[str, Any]) -> Type:
    """The type of parameter ``name`` in an instance."""
    site = f"kernel `{kernel.key}`, parameter `{name}`"
    if name not in by_name:
        if declared is None:
            raise ValueError(f"{site} is generic and needs a type")
        return declared
    try:
        t = values.to_ir(by_name[name])
    except TypeError as e:
        raise TypeError(f"{site}: {e}") from None
    annotation = kernel.source.annotations[name]
    if t is None:
        raise TypeError(f"{site}: {values.shown(by_name[name])} is generic itself; give a concrete type")
    if not values.accepts(annotation, t):
        raise TypeError(f"{site}: expected {values.shown(annotation)}, got {t}")
    return t


def _declared_by(stub: Callable[..., Any]) -> Kernel:
    """The generic kernel of which ``stub`` declares an instance."""
    name = getattr(stub, "__name__", type(stub).__name__)
    kernels = get_module(getattr(stub, "__module__", None) or "__main__").kernels
    # Its key may be a name of its own, given to wp.kernel.
    named = [kernels[name]] if name in kernels else [k for k in kernels.values() if k.func.__name__ == name]
    if len(named) != 1:
        keys = ", ".join(k.key for k in named)
        found = f"are several kernels `{name}` ({keys})" if named else f"is no kernel `{name}`"
        raise TypeError(f"@wp.overload: there {found} in module `{stub.__module__}`")
    generic = named[0]
    source = parse(stub, "overload", annotation_names(stub), file_lines(stub))
    given = dict(parameters(source))
    if list(given) != [n for n, _ in generic.declared]:
        names = ", ".join(n for n, _ in generic.declared)
        raise ValueError(f"@wp.overload: kernel `{name}` has the parameters {names}, got {', '.join(given)}")
    overload(generic, {n: source.annotations[n] for n in given})
    return generic
