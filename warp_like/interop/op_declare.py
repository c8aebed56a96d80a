"""Making an operator of a kernel or a function: what its outputs and their shapes are, and what can't be one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warp_like import values
from warp_like.analysis.memory import analyse
from warp_like.compiler.signature import Signature
from warp_like.frontend.source import annotation_names, parse
from warp_like.interop.op_body import Body, FunctionBody, KernelBody
from warp_like.interop.op_signature import OpSignature, Tensors
from warp_like.ir import types as ir
from warp_like.passes.effects import array_uses
from warp_like.runtime.kernels.kernel import Kernel


def declare(
    tensors: Tensors,
    function: Kernel | Callable[..., Any],
    outputs: Sequence[str] | str | None,
    in_out: Sequence[str] | str,
    shapes: Mapping[str, Any] | None,
    dim: Any,
    as_tensors: Sequence[str] | str,
    block_dim: int | None,
) -> Body:
    """Return the body of an operator; the arguments are those of ``torch_op``, which says what is raised."""
    maker = tensors.maker
    if not isinstance(function, Kernel) and not callable(function):
        raise TypeError(f"{maker}() takes a kernel or a function, got {type(function).__name__}")
    for what, value in (("dim", dim), ("block_dim", block_dim)):
        if not isinstance(function, Kernel) and value is not None:
            raise ValueError(f"{maker}({function.__name__}): a function gives {what} to the launches that it makes")
    if isinstance(function, Kernel):
        function = function.current()
    names, types = _parameters(maker, tensors.library, function)
    title = function.key if isinstance(function, Kernel) else function.__name__
    chosen, kept = _outputs(maker, title, function, names, types, _listed(outputs), _listed(in_out) or ())
    rules = _shapes(maker, title, names, chosen, kept, shapes or {})
    numbers = _numbers(maker, title, function, names, types, _listed(as_tensors) or ())
    sig = OpSignature(title, names, types, chosen, kept, rules, tensors, numbers)
    _require_shapes(sig)
    return KernelBody(function, sig, dim, block_dim) if isinstance(function, Kernel) else FunctionBody(function, sig)


def components(value: Any) -> Any:
    """Return the numbers of a vector or matrix as a flat list, anything else as it is."""
    host = values.constant_of(value) if isinstance(value, values.Composite) else None
    return list(host[1]) if host is not None else value


def in_order(sig: OpSignature, what: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return an operator's arguments by position.

    Raises:
        TypeError: They are not the operator's.
    """
    inputs = [sig.names[i] for i in sig.inputs]
    rest = inputs[len(args) :]
    if set(rest) != set(kwargs) or len(args) > len(inputs):
        raise TypeError(f"{what!r} takes ({', '.join(inputs)})")
    return (*args, *(kwargs[name] for name in rest))


def _listed(given: Sequence[str] | str | None) -> tuple[str, ...] | None:
    return (given,) if isinstance(given, str) else None if given is None else tuple(given)


def _parameters(maker: str, library: str, function: Any) -> tuple[tuple[str, ...], tuple[ir.Type, ...]]:
    """Names and types, all of them ones that operators know."""
    if isinstance(function, Kernel):
        title, found = f"kernel `{function.key}`", list(function.declared)
    else:
        title, source = f"function `{function.__name__}`", parse(function, "operator", annotation_names(function))
        code = function.__code__
        found = []
        for p in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if p not in source.annotations:
                raise TypeError(f"{maker}(): argument `{p}` of {title} has no annotation")
            found.append((p, values.to_ir(source.annotations[p])))
    for name, t in found:
        if t is None:
            raise TypeError(
                f"{maker}(): the type of argument `{name}` of {title} is inferred at launch, and an operator needs "
                "it before; annotate it with a concrete dtype"
            )
        if ir.scalar_of(t.dtype if isinstance(t, ir.Array) else t) is None:
            raise TypeError(
                f"{maker}(): argument `{name}` of {title} is a {t}, and operators of {library} take arrays, "
                "numbers, vectors and matrices; give a struct's fields as arguments of their own"
            )
    return tuple(name for name, _ in found), tuple(t for _, t in found if t is not None)


def _outputs(
    maker: str,
    title: str,
    function: Any,
    names: tuple[str, ...],
    types: tuple[ir.Type, ...],
    outputs: tuple[str, ...] | None,
    in_out: tuple[str, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the positions of all results, and of those among them that are arguments too."""
    for name in (*(outputs or ()), *in_out):
        if name not in names or not isinstance(types[names.index(name)], ir.Array):
            raise ValueError(f"{maker}({title}): there is no array argument `{name}`; it has {', '.join(names)}")
    kept = {names.index(name) for name in in_out}
    chosen = {names.index(name) for name in outputs or ()} | kept
    if isinstance(function, Kernel):
        written = function.program(types).effects.writes
        if outputs is None:
            chosen |= {i for i in written if i not in kept}
            _require_plain(maker, function, names, types, chosen - kept)
        changed = [names[i] for i in written if i not in chosen]
        if changed:
            raise ValueError(
                f"{maker}({title}): the kernel changes `{changed[0]}`, and an operator must not change its "
                f"arguments; name it in outputs or in in_out"
            )
    if not chosen:
        raise ValueError(f"{maker}({title}): there is no output; name the arrays to return in outputs")
    return tuple(sorted(chosen)), tuple(sorted(kept))


def _require_plain(
    maker: str, kernel: Kernel, names: Sequence[str], types: tuple[ir.Type, ...], written: set[int]
) -> None:
    """Refuse to guess about arrays that the kernel loads as well: they may be meant as arguments."""
    from warp_like.compiler.pipeline import optimised  # the compiler is not loaded before it is needed

    signature = Signature(types, options=kernel.compile_options())
    accesses = array_uses(analyse(optimised(kernel.captured_source, signature)))
    for i in sorted(written):
        if accesses[i].loaded:
            raise ValueError(
                f'{maker}({kernel.key}): the kernel both reads and writes `{names[i]}`; say in_out=["{names[i]}"] if '
                f'it is an argument of which a changed copy is returned, or outputs=["{names[i]}"] if it starts as '
                "zeros"
            )


def _numbers(
    maker: str, title: str, function: Any, names: Sequence[str], types: tuple[ir.Type, ...], given: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the positions of the parameters that ``as_tensors`` names."""
    for name in given:
        if name not in names or isinstance(types[names.index(name)], ir.Array):
            plain = [n for n, t in zip(names, types, strict=True) if not isinstance(t, ir.Array)]
            raise ValueError(f"{maker}({title}): as_tensors names `{name}`; what is no array is: {', '.join(plain)}")
    if given and not isinstance(function, Kernel):
        raise ValueError(
            f"{maker}({title}): a function passes numbers on to its launches, and no gradient comes back from there; "
            f"declare `{given[0]}` as an array of one element"
        )
    return tuple(sorted(map(list(names).index, given)))


def _shapes(
    maker: str,
    title: str,
    names: Sequence[str],
    outputs: Sequence[int],
    in_out: Sequence[int],
    shapes: Mapping[str, Any],
) -> dict[int, Any]:
    pure = [names[i] for i in outputs if i not in in_out]
    for name, rule in shapes.items():
        if name not in pure:
            raise ValueError(f"{maker}({title}): shapes names `{name}`, the outputs are {', '.join(pure)}")
        if not callable(rule) and not isinstance(rule, (int, tuple, list)):
            raise TypeError(f"{maker}({title}): a shape is an int, a tuple or a function, got {rule!r}")
    return {names.index(name): tuple(r) if isinstance(r, list) else r for name, r in shapes.items()}


def _require_shapes(sig: OpSignature) -> None:
    """Require that the shape of each output is given or follows from the first array argument."""
    for i in sig.outputs:
        if i in sig.in_out or i in sig.shapes:
            continue
        if not sig.arrays or sig.array_type(sig.arrays[0]).ndim != sig.array_type(i).ndim:
            what = f"`{sig.names[sig.arrays[0]]}`, which has other dimensions" if sig.arrays else "no array argument"
            raise ValueError(
                f"{sig.tensors.maker}({sig.name}): the shape of `{sig.names[i]}` does not follow from {what}; give "
                f'shapes={{"{sig.names[i]}": ...}}'
            )
