"""The objects that users see, such as ``wp.sin``: builtins in kernels, and functions on the host."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.ir.literal import Literal

if TYPE_CHECKING:
    from warp_like.builtins.overload import Overload
    from warp_like.builtins.patterns import Argument


@functools.cache
def public_builtin(name: str) -> Builtin | None:
    """Return the public builtin of this name, or None. This loads the part of their table in which it may be."""
    from warp_like.builtins.spec import REGISTRY

    if name.startswith("_") or name not in REGISTRY:
        return None
    found = Builtin(name)
    found.__doc__ = "\n\n".join(f"``{row.signature()}``: {row.doc}" for row in found.rows)
    return found


@functools.lru_cache(maxsize=1)
def public_builtins() -> dict[str, Builtin]:
    """Return all public builtins by name, sorted. This loads their table."""
    from warp_like.builtins.spec import REGISTRY

    found = {name: public_builtin(name) for name in sorted(REGISTRY)}
    return {name: builtin for name, builtin in found.items() if builtin is not None}


class Builtin:
    """A builtin function.

    In a kernel the compiler knows it by its name. On the host it may be called with numbers, vectors and matrices,
    where it computes what a kernel would, to the precision of the result's dtype.

    Attributes:
        name: Its name.
        mapped: What ``wp.map`` has made of it, by the types and shapes of a call.

    Example:
        >>> wp.clamp(7, low=0, high=5)
        5
        >>> wp.normalize(wp.vec2(3.0, 4.0))
        vec2f([0.6, 0.8])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = name
        self.__qualname__ = name
        self.mapped: dict[Any, Any] = {}

    @property
    def rows(self) -> tuple[Overload, ...]:
        """The overloads, in the order in which they are tried."""
        from warp_like.builtins.spec import REGISTRY

        return tuple(REGISTRY[self.name])

    @property
    def key(self) -> str:
        """The name, as Warp calls it."""
        return self.name

    @property
    def group(self) -> str:
        """The heading under which the reference lists it."""
        return self.rows[0].group

    @property
    def doc(self) -> str:
        """What the first overload does."""
        return self.rows[0].doc

    def is_builtin(self) -> bool:
        """Return True."""
        return True

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Compute the builtin on host values.

        Raises:
            TypeError: The builtin is for kernels only, or no overload takes the arguments.
        """
        from warp_like.builtins.spec import Special, bind, resolve

        if any(isinstance(row.lower, Special) for row in self.rows):
            if self.rows[0].ref is not None:
                return self.rows[0].ref(*args, **keywords)
            if self.name == "tile_stack":
                return _stack_annotation(*args, **keywords)
            raise TypeError(
                f"wp.{self.name}() is for kernels: call it inside a function decorated with @wp.kernel or @wp.func"
            )
        given = bind(self.name, args, keywords)
        pairs = [(a, a.value) if isinstance(a, Literal) else self._argument(a) for a in given]
        resolved = resolve(self.name, [t for t, _ in pairs])
        ref = resolved.overload.ref
        if ref is None:
            raise TypeError(f"wp.{self.name}() is for kernels and has no host form")
        with np.errstate(all="ignore"):
            value = ref(*(_working(v, t) for (_, v), t in zip(pairs, resolved.args, strict=True)))
            several = value if isinstance(value, tuple) else (value,)
            found = [_result(v, t) for v, t in zip(several, resolved.results, strict=True)]
        return self._outcome(resolved.overload, found, given)

    def _outcome(self, row: Overload, found: list[Any], args: list[Any]) -> Any:
        """What a call gives: where it is made for its changes, they are made in ``args``, which hold vectors and such.

        Numbers can't be changed; then the new values are the result.
        """
        from warp_like.values import Composite

        kept = len(found) - len(row.assigns)
        changed = [args[row.params.index(name)] for name in row.assigns]
        if kept == 0 and all(isinstance(old, Composite) for old in changed):
            for old, new in zip(changed, found, strict=True):
                old._write(new._numbers())
            return None
        found = found[:kept] or found
        return found[0] if len(found) == 1 else tuple(found)

    def _argument(self, value: Any) -> tuple[Argument, Any]:
        if type(value) in (bool, int, float):
            return Literal(value), value
        from warp_like.values import constant_of  # needs the native extension, which the compiler's floors do without
        from warp_like.values.dtypes import item_of

        typed = constant_of(value)
        if typed is None and item_of(value) is not value:
            return self._argument(item_of(value))
        if typed is None:
            raise TypeError(
                f"wp.{self.name}() takes numbers, vectors and matrices on the host, got {type(value).__name__}; "
                "arrays are for kernels"
            )
        return typed

    def __getitem__(self, params: Any) -> Any:
        """Return the annotation of a tile: ``wp.tile[float, 4, 8]``; any tile where one of these is ``typing.Any``.

        Raises:
            TypeError: It is another builtin, or these are no type and extents.
        """
        if self.name != "tile":
            raise TypeError(f"wp.{self.name} is a function")
        from warp_like.values import to_ir

        dtype, *shape = params if isinstance(params, tuple) else (params,)
        if dtype is Any or Any in shape:
            return Any
        if not 1 <= len(shape) <= 4 or not all(type(n) is int and n > 0 for n in shape):
            raise TypeError(f"a tile has 1 to 4 positive extents: wp.tile[float, 4, 8], got {tuple(shape)}")
        element = to_ir(dtype)
        return Any if element is None else ir.Tile(tuple(shape), element)

    def __repr__(self) -> str:
        return f"<builtin wp.{self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Builtin, (self.name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Builtin) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Builtin, self.name))


def _stack_annotation(capacity: int, dtype: Any) -> Any:
    """The annotation of a parameter that takes a ``wp.tile_stack``."""
    from warp_like.values import to_ir

    if type(capacity) is not int or capacity < 1:
        raise TypeError(f"the capacity of a tile_stack is a positive number, got {capacity!r}")
    element = to_ir(dtype)
    if element is None:
        raise TypeError(f"the elements of a tile_stack have a type of the kernel language, got {dtype!r}")
    return ir.tile_stack(capacity, element)


def _working(value: Any, t: ir.Type) -> Any:
    """``value`` rounded to ``t`` and then, for floats, held in double precision."""
    from warp_like.values.dtypes import as_number, numpy_dtype

    scalar = ir.scalar_of(t)
    if scalar is None:
        raise TypeError(f"{t} has no host form")
    dtype = np.dtype(np.float64) if scalar.is_float else numpy_dtype(scalar)
    if isinstance(t, ir.Scalar):
        return dtype.type(as_number(value, t))
    return np.array(value, dtype).reshape(ir.element_shape(t))


def _result(value: Any, t: ir.Type) -> Any:
    from warp_like.values import class_of
    from warp_like.values.dtypes import host_number

    if not isinstance(t, ir.Scalar):
        return class_of(t)._from_ndarray(np.asarray(value).reshape(ir.element_shape(t)))
    array = np.asarray(value).reshape(())
    if t == ir.bfloat16:
        return class_of(t)(float(array))
    return host_number(array.astype("bool" if t.is_bool else str(t)).item(), t)
