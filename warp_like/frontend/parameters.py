"""The parameters of a kernel, from its annotations; needs nothing of the compiler but the parsed source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from warp_like import values
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.frontend.source import Source
from warp_like.ir.types import Struct, Tile, Type, is_empty, leaf_fields
from warp_like.values.annotation import FixedArrayAnnotation


def parameters(source: Source) -> list[tuple[str, Type | None]]:
    """Return name and type of each parameter of a kernel; None where the type is inferred at launch.

    Raises:
        WarpCodegenError: A parameter has no annotation or one that means nothing, or can't be given at
            launch.
    """
    if source.has_stars:
        _refuse_stars(source)
    found = []
    for name in source.params:
        if name not in source.annotations and name in ("self", "cls") and name == source.params[0]:
            raise WarpCodegenTypeError(
                f"kernel `{source.name}` is a method, and a thread has no `{name}`",
                source.parameter_loc(name),
                help="define the kernel outside of the class, and pass what it needs as arguments: launch it with "
                f"inputs=[{name}.x, ...]",
            )
        if name not in source.annotations:
            raise WarpCodegenTypeError(
                f"argument `{name}` of kernel `{source.name}` has no annotation",
                source.parameter_loc(name),
                help=f"{name}: float, {name}: wp.array(dtype=float), ...",
            )
        if isinstance(getattr(source.annotations[name], "_annotation_", None), FixedArrayAnnotation):
            raise WarpCodegenTypeError(
                f"argument `{name}` of kernel `{source.name}` is a fixedarray, which only kernel code makes",
                source.parameter_loc(name),
                help=f"{name}: wp.array(dtype=...); fixedarray is for functions",
            )
        try:
            found.append((name, _type_of(source.annotations[name])))
        except TypeError as error:
            raise WarpCodegenTypeError(
                f"argument `{name}` of kernel `{source.name}`: {error}",
                source.parameter_loc(name),
                help=array_annotation(name, source.annotations[name]),
            ) from None
    return found


def _type_of(annotation: Any) -> Type | None:
    t = values.to_ir(annotation)
    if isinstance(t, Tile):
        raise TypeError(f"a {t} is made by kernel code: take an array, and load the tile from it")
    if t is not None and is_empty(t):
        raise TypeError(f"{t} has no components, so that no launch can give it")
    return t


def array_annotation(name: str, annotation: Any) -> str | None:
    """Return advice on a parameter annotated with a class of arrays or lists that is none of ours."""
    meant = getattr(annotation, "__origin__", annotation)
    if (
        values.is_type(meant)
        or not isinstance(meant, type)
        or not (meant is list or hasattr(meant, "__array__") or hasattr(meant, "__dlpack__"))
    ):
        return None
    return f"{name}: wp.array(dtype=float), or wp.array2d(dtype=float) for two dimensions"


def _refuse_stars(source: Source) -> NoReturn:
    a = source.node.args
    extra, star = (a.vararg, "*") if a.vararg is not None else (a.kwarg, "**")
    assert extra is not None
    raise WarpCodegenError(
        f"kernel `{source.name}` takes `{star}{extra.arg}`; a kernel has a fixed number of arguments",
        source.loc(extra),
        help="name each argument",
    )


def leaf_parameters(declared: Sequence[tuple[str, Type | None]]) -> list[tuple[str, Type | None]]:
    """Return the parameters of the compiled kernel: each struct is given field by field, named by its path."""
    found: list[tuple[str, Type | None]] = []
    for name, t in declared:
        found += leaf_fields(t, f"{name}.") if isinstance(t, Struct) else [(name, t)]
    return found
