"""Build the IR of a kernel and of all functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from warp_like import values
from warp_like.base.depth import deeply
from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError
from warp_like.base.loc import at
from warp_like.builtins.overload import Inline
from warp_like.frontend import (  # they register handlers
    assignment,  # noqa: F401
    calls,  # noqa: F401
    expressions,  # noqa: F401
    references,
    statements,
)
from warp_like.frontend.context import Context, Returns, Session
from warp_like.frontend.control_flow import run
from warp_like.frontend.flow import Flow, Tail, with_tests_inside
from warp_like.frontend.function import Overload
from warp_like.frontend.host import Host
from warp_like.frontend.liveness import Liveness
from warp_like.frontend.operands import ArgumentType, Operand, leaves, nesting_of
from warp_like.frontend.parameters import leaf_parameters, parameters
from warp_like.frontend.scope import Variable
from warp_like.frontend.source import Source
from warp_like.frontend.tile_views import Aliases
from warp_like.ir import ops
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import blocks
from warp_like.ir.types import Array, Struct, Tile, Type, leaf_fields

_T = TypeVar("_T")
_INSTANCES = 32
"""How many instances of one generic function may be inside of one another."""


def build_kernel(
    source: Source,
    arg_types: Sequence[Type],
    *,
    wide: bool = False,
    shares_indices: bool = False,
    extents: int = 0,
    block_dim: int = 1,
) -> Function:
    """Build a kernel for concrete argument types.

    Args:
        source: The kernel.
        arg_types: A type for each parameter.
        wide: Make ``tid()`` int64, for grids with a dimension beyond ``contract.MAX_NARROW``. Since the kernel was
            written for int32, int32 and int64 then convert into each other without a cast.
        shares_indices: Build for grids that have more dimensions than the kernel asks for indices.
        extents: Build for grids of which only so many first extents exceed 1; 0 where all may.
        block_dim: How many threads of a block work on tiles together.

    Raises:
        WarpCodegenError: The code can't be compiled; the message shows the place, through all calls.
    """
    by_argument = parameters(source)
    declared = leaf_parameters(by_argument)
    if len(declared) != len(arg_types):
        raise WarpCodegenTypeError(
            f"kernel `{source.name}` has {len(declared)} arguments, got {len(arg_types)} types", source.header
        )
    for (name, t), given in zip(declared, arg_types, strict=True):
        if t is not None and t != given:
            raise WarpCodegenTypeError(
                f"argument `{name}` of kernel `{source.name}` is {t}, got {given}", source.header
            )
    leaves = dict(zip([name for name, _ in declared], arg_types, strict=True))
    types = {name: t if isinstance(t, Struct) else leaves[name] for name, t in by_argument}
    session = Session(wide, _calling, source.around, shares_indices, block_dim)
    f = at_any_depth(source, lambda: _build(session, source, types))
    if 0 < extents < f.tid_ndim:
        _leave_out_indices(f, extents)
    return f


def at_any_depth(source: Source, work: Callable[[], _T]) -> _T:
    """Return ``work()``, which compiles ``source``.

    Raises:
        WarpCodegenError: The kernel nests too deeply even for the large stack that is tried then.
    """
    try:
        return deeply(work)
    except RecursionError:
        raise WarpCodegenError(
            f"kernel `{source.name}` nests statements or expressions too deeply",
            source.header,
            help="split it into functions; each `elif`, and each `if` that may return or break, is one level deeper",
        ) from None


def _calling(session: Session, overload: Overload, given: tuple[ArgumentType, ...]) -> Function:
    """A user function for arguments given by their types, or as Python objects where they have none."""
    key = (overload, _key(given))
    found = session.functions.get(key)
    if found is not None:
        return found
    source = overload.source
    running = [k for k, _ in session.building]
    endless = sum(o is overload for o, _ in running) >= _INSTANCES
    if key in running or endless:
        first = next(n for n, (o, _) in enumerate(running) if o is overload)
        chain = [name for _, name in session.building[first:]]
        raise WarpCodegenError(
            f"`{source.name}` calls itself: {' -> '.join([*chain, source.name])}",
            source.header,
            help=f"a generic function may call itself for other types, but not more than {_INSTANCES} times"
            if endless
            else "kernel code has no recursion; write a loop",
        )
    if overload.native is not None:
        from warp_like.frontend.native import build_native

        session.functions[key] = found = build_native(overload, given, _unique(session, source.name))
        return found
    session.building.append((key, source.name))
    try:
        changed = references.changed(overload, given)
        found = _build(session, source, dict(zip(overload.params, given, strict=True)), changed=changed)
    finally:
        session.building.pop()
    session.functions[key] = found
    _add_customs(session, overload, found, given)
    return found


def _key(given: ArgumentType) -> Any:
    if isinstance(given, tuple):
        return tuple(map(_key, given))
    return given.obj if isinstance(given, Host) else ("value", given)


def _add_customs(session: Session, overload: Overload, f: Function, given: tuple[ArgumentType, ...]) -> None:
    """Build the gradient and the replay function that the user gave ``overload``."""
    refused = next((t for t in (*given, *f.results) if isinstance(t, tuple) or _holds_array(t)), None)
    if overload.customs and refused is not None:
        what = "takes a tuple" if isinstance(refused, tuple) else "takes or returns a struct with an array"
        raise WarpCodegenTypeError(
            f"`{overload.source.name}` {what}, so it can have no gradient or replay function of its own",
            overload.source.header,
            help="pass the values one by one" if isinstance(refused, tuple) else "pass the array by itself",
        )
    if overload.customs and any(isinstance(t, Array) for t in f.results):
        raise WarpCodegenTypeError(
            f"`{overload.source.name}` returns an array, so it can have no gradient or replay function of its own",
            overload.source.header,
            help="return an element, or index the array in the caller",
        )
    changed = references.changed(overload, given)
    if overload.customs and changed:
        raise WarpCodegenTypeError(
            f"`{overload.source.name}` changes its argument `{changed[0]}`, so it can have no gradient or replay "
            "function of its own",
            overload.source.header,
        )
    if "gradient" in overload.customs:
        from warp_like.frontend import gradients

        params = gradients.gradient_parameters(overload, given, f.results)
        f.gradient = _build(session, gradients.gradient_source(overload, params), params, Returns())
    if "replay" in overload.customs:
        f.replay = _calling(session, overload.customs["replay"], given)
        from warp_like.frontend import gradients

        gradients.require_replay(overload, f.results, f.replay.results)


def _holds_array(t: object) -> bool:
    return isinstance(t, Struct) and any(isinstance(leaf, Array) for _, leaf in leaf_fields(t))


def build_inline(lower: Inline, types: Sequence[Type]) -> Function:
    """Build the body of a builtin that is written in the kernel language: its names are builtins and types."""
    from warp_like.frontend.inlining import inline_overload

    return _calling(Session(False, call=_calling), inline_overload(lower), tuple(types))


def result_types(overload: Overload, types: Sequence[Type]) -> tuple[Type, ...]:
    """Return the types of what a user function returns for arguments of these types.

    Raises:
        WarpCodegenError: It can't be compiled for them.
    """
    return _calling(Session(False, call=_calling), overload, tuple(types)).results


def _build(
    session: Session,
    source: Source,
    given: Mapping[str, ArgumentType],
    returns: Returns | None = None,
    changed: tuple[str, ...] = (),
) -> Function:
    source = source.within(session.around)
    by_name = {name: _parameter_values(name, t, source.role == "kernel") for name, t in given.items()}
    params = [p for leaves in by_name.values() for p in leaves]
    f = Function(_unique(session, source.name), params, (), source.role, source.header)
    returns = returns or _annotated_returns(source)
    ctx = Context(session, source, returns, f.body)
    ctx.references = changed
    with at(source.header), ctx.b.into(f.body):
        for name, t in given.items():
            value = _assembled(ctx, t, list(by_name[name]))
            ctx.scope.names[name] = Variable(value, None)
    with at(source.header):
        body = with_tests_inside(source.node.body)
        body = statements.ended(body, changed) if source.role == "func" else body
        ctx.live = Liveness(body, changed)
        ctx.aliases = Aliases(body, always=any(isinstance(t, Tile) for t in given.values()))
        flow = run(ctx, body, Tail.KERNEL if source.role == "kernel" else Tail.NONE)
        results = _results(ctx, flow)
        with ctx.b.into(f.body):
            ctx.b.yield_(*results)
    f.results = tuple(v.type for v in results)
    if any(part is not None for part in returns.nesting):
        session.nestings[f] = returns.nesting
    _agree_on_grid(f, session.shares_indices)
    return f


def _agree_on_grid(f: Function, shares_indices: bool) -> None:
    """Let all thread indices of a kernel be of one grid: ``i = wp.tid()`` is the first one of ``i, j = wp.tid()``.

    Where threads share indices, the grid has a dimension more, along which nobody asks for an index. So each analysis
    sees that what these indices name is not the thread's own.
    """
    tids = [o for o in f.body.walk() if isinstance(o, ops.Tid)]
    f.tid_ndim = max((o.ndim for o in tids), default=0)
    for o in tids:
        o.ndim = f.tid_ndim + shares_indices


def _leave_out_indices(f: Function, extents: int) -> None:
    """Let indices of ``f`` beyond the first ``extents`` be 0, which they are in grids without further extents.

    So the other indices name the thread to each analysis, and lanes lie along the last of them.
    """
    for b in blocks(f.body):
        for n, o in enumerate(b.ops):
            if isinstance(o, ops.Tid) and o.axis >= extents:
                b.ops[n] = zero = ops.Constant(0)
                zero.loc, zero.results = o.loc, o.results
                zero.result.op = zero
            elif isinstance(o, ops.Tid):
                o.ndim = extents
    f.tid_ndim = extents


def _parameter_values(name: str, t: ArgumentType, split: bool) -> list[Value]:
    """The values that a function takes for a parameter; with ``split`` a struct is given field by field."""
    if isinstance(t, tuple):
        return [v for i, part in enumerate(t) for v in _parameter_values(f"{name}_{i}", part, split)]
    if isinstance(t, Host):
        return []
    leaves = leaf_parameters([(name, t)]) if split else [(name, t)]
    return [Value(leaf, path) for path, leaf in leaves if leaf is not None]


def _assembled(ctx: Context, t: ArgumentType, parts: list[Value]) -> Operand:
    """A parameter of type ``t`` from ``parts``: itself, or the parts of a struct or tuple; takes them away."""
    if isinstance(t, Host):
        return t
    if isinstance(t, tuple):
        return tuple(_assembled(ctx, part, parts) for part in t)
    if isinstance(t, Struct) and not (parts and parts[0].type == t):
        return ctx.b.make(t, [ctx.settle(_assembled(ctx, field, parts)) for _, field in t.fields])
    return parts.pop(0)


def _annotated_returns(source: Source) -> Returns:
    """The types that the annotation of a function's result asks for."""
    annotation = source.annotations.get("return", Any)
    if annotation is None or annotation is type(None):
        return Returns([], source.header, annotated=True)
    if annotation is Any:
        return Returns()
    parts = _members(annotation)
    if not isinstance(parts, tuple):
        parts = (parts,)
    try:
        types = [values.to_ir(t) for part in parts for t in leaves(part)]
    except TypeError as error:
        raise WarpCodegenTypeError(f"the result of {source.role} `{source.name}`: {error}", source.header) from None
    return Returns(types, source.header, annotated=True, nesting=tuple(map(nesting_of, parts)))


def _members(annotation: Any) -> Any:
    """The members of ``tuple[...]`` or ``typing.Tuple[...]`` as a tuple, tuples inside of it too."""
    if getattr(annotation, "__origin__", None) is not tuple:
        return annotation
    return tuple(map(_members, annotation.__args__))


def _results(ctx: Context, flow: Flow) -> list[Value]:
    if ctx.returns.annotated and ctx.returns.types and len(flow.results) <= len(ctx.references):
        raise WarpCodegenTypeError(
            f"`{ctx.source.name}` returns nothing, and its annotation says {ctx.returns.types[0]}"
        )
    return [ctx.settle(o) for o in flow.results]


def _unique(session: Session, name: str) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    session.names[plain] += 1
    count = session.names[plain]
    return plain if count == 1 else f"{plain}_{count}"
