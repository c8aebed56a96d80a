"""Registering an operator with PyTorch: its schema, and its rules for shapes, autograd, vmap and autocast.

Each operator is a pair: the forward, and a backward that is an operator itself, so that ``torch.compile`` sees both.
The backward's own derivative is registered too: it raises.


PyTorch's registered operators have no derivative inside ``torch.func`` transformations. There, and where a gradient is
to be differentiated again (``create_graph=True``), an ``autograd.Function`` with the same rules takes their place. Its
own derivatives are in ``torch_derivative.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from warp_like.interop.op_body import Body
from warp_like.interop.op_signature import Absent, OpSignature
from warp_like.interop.torch import _torch
from warp_like.interop.torch_batches import (
    Watched,
    Whole,
    backward_whole,
    forward_whole,
    has_fixed_shapes,
    in_forward_mode,
    is_plain,
    vmap_rule,
)
from warp_like.interop.torch_derivative import Derivatives, derivatives_of
from warp_like.ir import types as ir

_libraries: dict[str, Any] = {}  # by qualified name; an operator lives as long as its library


def register(qualname: str, body: Body) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """Register ``body`` as ``namespace::name``, replacing what has that name.

    Returns:
        What ``torch.ops`` holds, and two functions of the same arguments: one for use inside ``torch.func``, and one
        that goes past PyTorch's dispatcher and is right where ``is_plain`` says so.
    """
    torch = _torch()
    namespace, name = qualname.split("::")
    if qualname in _libraries:
        _libraries.pop(qualname)._destroy()
    library = _libraries[qualname] = torch.library.Library(namespace, "FRAGMENT")
    sig = body.signature
    takes = [f"{_schema_type(sig, i)} {sig.names[i]}" for i in sig.inputs]
    gives = ", ".join(["Tensor"] * len(sig.outputs))
    backward = f"{name}_backward"
    library.define(f"{name}({', '.join(takes)}) -> {gives if len(sig.outputs) == 1 else f'({gives})'}")
    library.define(
        f"{backward}({', '.join(['Tensor[] grads', 'Tensor[] results', 'bool[] needs', *takes])}) -> Tensor[]"
    )
    namespace_ops = getattr(torch.ops, namespace)
    forward_op, gradient_op = getattr(namespace_ops, name).default, getattr(namespace_ops, backward).default
    backward_op = _with_stand_ins(gradient_op)
    derivatives = derivatives_of(body)
    again = _transformed_backward(body, backward_op, derivatives)

    def gradient(grads: list[Any], results: list[Any], needs: list[bool], *args: Any) -> Any:
        watched = torch.is_grad_enabled() and is_plain(grads)  # create_graph=True
        return (again if watched else backward_op)(grads, results, needs, *args)

    _register_forward(library, qualname, body, forward_op, _autograd_rules(body, gradient, derivatives))
    _register_backward(
        library, f"{namespace}::{backward}", body, gradient_op, _refusal(sig, "inside a compiled function")
    )
    rules = _autograd_rules(body, again, derivatives)
    transformed = _transformed(forward_op, rules, forward_whole(body), _over_batch(body, derivatives))
    return forward_op, transformed, _direct(body, gradient, derivatives)


def is_taken(qualname: str) -> bool:
    """Return whether ``register`` has made an operator of that name."""
    return qualname in _libraries


def _schema_type(sig: OpSignature, position: int) -> str:
    t = sig.types[position]
    if position in sig.given_tensors:
        return "Tensor"
    scalar = ir.scalar_of(t)
    assert scalar is not None
    word = "bool" if scalar.is_bool else "float" if scalar.is_float else "int"
    return word if isinstance(t, ir.Scalar) else f"{word}[]"


def _with_stand_ins(op: Any) -> Callable[..., Any]:
    """The backward operator with tensors that hold no memory in place of those that nobody reads."""
    torch = _torch()

    def call(grads: Any, results: Any, needs: Any, *args: Any) -> Any:
        device = grads[0].device
        given = [
            torch.empty((), dtype=a.dtype, device=device).expand(a.shape) if isinstance(a, Absent) else a for a in args
        ]
        return op(grads, results, needs, *given)

    return call


class Rules(NamedTuple):
    """The rules of an ``autograd.Function``."""

    setup: Callable[..., None]
    backward: Callable[..., Any]
    jvp: Callable[..., Any]


def _register_forward(library: Any, qualname: str, body: Body, op: Any, rules: Rules) -> None:
    torch, sig = _torch(), body.signature
    single = len(sig.outputs) == 1

    def run(*args: Any) -> Any:
        sig.check(args)
        results = body.forward(args)
        return results[0] if single else tuple(results)

    def fake(*args: Any) -> Any:
        sig.check(args)
        device = next((a.device for a in args if isinstance(a, torch.Tensor)), "cpu")
        shapes = sig.output_shapes(args)
        results = [
            torch.empty(shape, dtype=sig.dtypes[i], device=device) for i, shape in zip(sig.outputs, shapes, strict=True)
        ]
        return results[0] if single else tuple(results)

    library.impl(op, run, "CompositeExplicitAutograd")
    torch.library.register_fake(qualname, fake, lib=library)
    torch.library.register_vmap(qualname, vmap_rule(op, forward_whole(body)), lib=library)
    torch.library.register_autograd(qualname, rules.backward, setup_context=rules.setup, lib=library)
    for device in ("CPU", "CUDA"):
        library.impl(op, _autocast_rule(sig, op, device), f"Autocast{device}")


def _autograd_rules(body: Body, backward_op: Any, derivatives: Derivatives | None, more: int = 0) -> Rules:
    """What the forward saves, and how the backward is called. Of its last arguments, ``more`` are not the operator's.

    Tensors that the gradient does not read are not saved, and may be freed or changed meanwhile: the backward gets an
    ``Absent`` in place of each.
    """
    torch, sig = _torch(), body.signature
    places = [sig.inputs.index(i) for i in sig.wrt]
    floats = [sig.outputs.index(i) for i in sig.from_outputs]

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        reads_outputs, _, unread = body.answers()
        results = ()
        if reads_outputs and any(ctx.needs_input_grad[p] for p in places):
            results = output if isinstance(output, tuple) else (output,)
        forward_mode = in_forward_mode()
        if forward_mode:
            unread = frozenset()
        ctx.rest = [
            Absent(a.shape, a.dtype) if p in unread else None if isinstance(a, torch.Tensor) else a
            for p, a in enumerate(inputs)
        ]
        saved = [*(a for a, other in zip(inputs, ctx.rest, strict=True) if other is None), *results]
        ctx.save_for_backward(*saved)
        if forward_mode:
            ctx.save_for_forward(*saved)

    def arguments(ctx: Any) -> tuple[list[Any], list[Any]]:
        saved = iter(ctx.saved_tensors)
        return [next(saved) if other is None else other for other in ctx.rest], list(saved)

    def backward(ctx: Any, *grads: Any) -> Any:
        needs = [bool(ctx.needs_input_grad[p]) for p in places]
        found: list[Any] = [None] * (len(sig.inputs) + more)
        if any(needs):
            args, results = arguments(ctx)
            got = backward_op([grads[k] for k in floats], results, needs, *args)
            for p, grad in zip([p for p, n in zip(places, needs, strict=True) if n], got, strict=True):
                found[p] = grad
        return tuple(found) if len(found) > 1 else found[0]

    def jvp(ctx: Any, *tangents: Any) -> Any:
        args, _ = arguments(ctx)
        count = len(sig.inputs)
        if derivatives is None:
            return _refusal(sig, "because it is made of a function of several launches")(ctx)
        if more:
            *_, size, mask = args
            found = _over_elements(size, mask, derivatives.tangents, args[:count], tangents[:count])
        else:
            found = derivatives.tangents(args, tangents)
        return tuple(found) if len(found) > 1 else found[0]

    return Rules(setup, backward, jvp)


def _over_elements(size: int, mask: Sequence[bool], run: Callable[..., Sequence[Any]], *columns: Any) -> list[Any]:
    """Return what ``run`` gives for each element of a batch, stacked; ``mask`` says what has the batch in front."""

    def at(index: int) -> list[list[Any]]:
        return [
            [x.select(0, index) if m and x is not None else x for x, m in zip(column, mask, strict=True)]
            for column in columns
        ]

    rows = [run(*at(index)) for index in range(size)]
    return [None if xs[0] is None else _torch().stack(xs) for xs in zip(*rows, strict=True)]


def _refusal(sig: OpSignature, why: str) -> Callable[..., Any]:
    def refuse(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"operator `{sig.name}` has no second derivative and no forward mode {why}: it was differentiated again "
            "(create_graph=True, or a torch.func transformation inside another) or given tangents"
        )

    return refuse


def _register_backward(library: Any, qualname: str, body: Body, op: Any, refuse: Callable[..., None]) -> None:
    torch, sig = _torch(), body.signature
    places = [sig.inputs.index(i) for i in sig.wrt]

    def run(grads: Any, results: Any, needs: Any, *args: Any) -> list[Any]:
        unread = body.answers().places
        given = [Absent(a.shape, a.dtype) if p in unread else a for p, a in enumerate(args)]
        return body.backward(grads, given, results, needs)

    def fake(grads: Any, results: Any, needs: Any, *args: Any) -> list[Any]:
        wanted = [args[p] for p, needed in zip(places, needs, strict=True) if needed]
        return [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in wanted]

    library.impl(op, run, "CompositeExplicitAutograd")
    torch.library.register_fake(qualname, fake, lib=library)
    torch.library.register_vmap(qualname, vmap_rule(op), lib=library)
    torch.library.register_autograd(qualname, refuse, lib=library)


def _transformed(
    op: Any, rules: Rules, whole: Whole | None = None, watched: Watched | None = None
) -> Callable[..., Any]:
    """The operator inside ``torch.func``: an ``autograd.Function`` of the same rules, mapped as ``vmap_rule`` says."""
    function: Any = type(
        "TransformedOperator",
        (_torch().autograd.Function,),
        {
            "forward": staticmethod(lambda *args: op(*args)),
            "setup_context": staticmethod(rules.setup),
            "backward": staticmethod(rules.backward),
            "jvp": staticmethod(rules.jvp),
        },
    )
    function.vmap = staticmethod(vmap_rule(function.apply, whole, watched))
    return function.apply


def _direct(body: Body, gradient_op: Any, derivatives: Derivatives | None) -> Callable[..., Any]:
    """The operator without the dispatcher, which costs several times what a small launch does."""
    torch, sig = _torch(), body.signature
    places = [sig.inputs.index(i) for i in sig.wrt]

    def gradient(grads: list[Any], results: list[Any], needs: list[bool], *args: Any) -> Any:
        if torch.is_grad_enabled() or not is_plain(grads):  # create_graph=True, or under a mode
            return gradient_op(grads, results, needs, *args)
        return body.backward(grads, args, results, needs)

    rules = _autograd_rules(body, gradient, derivatives)

    def forward(ctx: Any, *args: Any) -> Any:
        output = run(args)
        rules.setup(ctx, args, output)
        return output

    def run(args: tuple[Any, ...]) -> Any:
        results = body.try_forward(args)
        if results is None:
            sig.check(args)
            results = body.forward(args)
        return results[0] if len(results) == 1 else tuple(results)

    function: Any = type(
        "DirectOperator",
        (torch.autograd.Function,),
        {
            "forward": staticmethod(forward),
            "backward": staticmethod(rules.backward),
            "jvp": staticmethod(rules.jvp),
        },
    )

    def call(*args: Any) -> Any:
        if torch.is_grad_enabled():
            for p in places:  # a loop takes less time than any()
                if args[p].requires_grad:
                    return function.apply(*args)
        return function.apply(*args) if in_forward_mode() else run(args)

    return call


def _transformed_backward(body: Body, op: Any, derivatives: Derivatives | None) -> Callable[..., Any]:
    """The backward inside ``torch.func``; its tensors stand in no lists, which ``autograd.Function`` ignores."""

    def forward(grads: int, results: int, needs: Any, *flat: Any) -> tuple[Any, ...]:
        end = grads + results
        return tuple(op(list(flat[:grads]), list(flat[grads:end]), needs, *flat[end:]))

    flat = _transformed(forward, _second_rules(body.signature, derivatives), backward_whole(body))

    def call(grads: Sequence[Any], results: Sequence[Any], needs: Any, *args: Any) -> Any:
        return flat(len(grads), len(results), needs, *grads, *results, *args)

    return call


def _second_rules(sig: OpSignature, derivatives: Derivatives | None, over_batch: bool = False) -> Rules:
    """The rules of a backward: of its arguments the last are its gradients, results and arguments in a row.

    In front of these are how many gradients and results there are, and which gradients are needed. Before them are,
    ``over_batch``, the size of the batch and which arguments have it.
    """
    torch = _torch()
    first = 5 if over_batch else 3

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.head, flat = inputs[:first], inputs[first:]
        ctx.rest = [None if isinstance(x, torch.Tensor) else x for x in flat]
        saved = [x for x in flat if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)

    def parts(ctx: Any) -> tuple[int, int, list[Any]]:
        if derivatives is None:
            _refusal(sig, "because it is made of a function of several launches")(ctx)
        saved = iter(ctx.saved_tensors)
        grads, results = ctx.head[-3:-1]
        return grads, grads + results, [next(saved) if x is None else x for x in ctx.rest]

    def run(ctx: Any, end: int, one: Callable[..., Sequence[Any]], grads: Any, args: Any) -> list[Any]:
        """Do it for each element of the batch; ``grads`` and ``args`` are lists of columns."""
        if not over_batch:
            return list(one(*grads, *args))
        size, mask = ctx.head[:2]
        every = [True] * len(grads[0])
        n = len(every)
        columns = [[*g, *a] for g, a in zip(grads, args, strict=True)]

        def split(*rows: Any) -> Sequence[Any]:
            return one(*(r[:n] for r in rows), *(r[n:] for r in rows))

        return _over_elements(size, [*every, *mask], split, *columns)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        n, end, flat = parts(ctx)
        needs = ctx.head[-1]
        count = len(cotangents)
        moving = ctx.needs_input_grad[first:][end:]
        assert derivatives is not None  # ``parts`` has refused

        def one(grads: Any, args: Any) -> Sequence[Any]:
            found = derivatives.gradient_vjp(grads[count:], args, needs, grads[:count], moving)
            return [*found[0], *found[1]]

        found = run(ctx, end, one, [[*cotangents, *flat[:n]]], [flat[end:]])
        of_args = found[n:]
        if over_batch:
            mask = ctx.head[1]
            of_args = [g if m or g is None else g.sum(0) for g, m in zip(of_args, mask, strict=True)]
        return (*[None] * first, *found[:n], *[None] * (end - n), *of_args)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        n, end, flat = parts(ctx)
        moving = tangents[first:]
        assert derivatives is not None  # ``parts`` has refused

        def one(grads: Any, grad_tangents: Any, args: Any, arg_tangents: Any) -> Sequence[Any]:
            return derivatives.gradient_jvp(grads, args, ctx.head[-1], grad_tangents, arg_tangents)

        return tuple(run(ctx, end, one, [flat[:n], moving[:n]], [flat[end:], moving[end:]]))

    return Rules(setup, backward, jvp)


def _over_batch(body: Body, derivatives: Derivatives | None) -> Watched | None:
    """The operator over a whole batch where autograd or another transformation watches.

    It is an ``autograd.Function`` of the operator's arguments, the batch in front of those that have it, then the size
    of the batch and which arguments have it. Gradients of those that have not are summed over it.
    """
    if not has_fixed_shapes(body):
        return None
    torch, sig = _torch(), body.signature
    forward, backward = forward_whole(body), backward_whole(body)
    places = [sig.inputs.index(i) for i in sig.wrt]

    def dims_of(mask: Sequence[bool]) -> list[int | None]:
        return [0 if batched else None for batched in mask]

    def run(*args: Any) -> Any:
        *given, size, mask = args
        return forward(size, dims_of(mask), given)[0]

    def run_gradient(size: int, mask: Any, grads: int, results: int, needs: Any, *flat: Any) -> Any:
        dims = [None, None, None, *[0] * (grads + results), *dims_of(mask)]
        return backward(size, dims, (grads, results, needs, *flat))[0]

    gradient = _transformed(run_gradient, _second_rules(sig, derivatives, over_batch=True))

    def gradients(grads: Sequence[Any], results: Sequence[Any], needs: Any, *args: Any) -> list[Any]:
        *given, size, mask = args
        stand_ins = [
            torch.zeros((), dtype=a.dtype).expand(a.shape) if isinstance(a, Absent) else a for a in given
        ]  # zeros: second derivatives may look at them
        found = gradient(size, mask, len(grads), len(results), needs, *grads, *results, *stand_ins)
        wanted = [p for p, needed in zip(places, needs, strict=True) if needed]
        return [g if mask[p] else g.sum(0) for p, g in zip(wanted, found, strict=True)]

    over_batch = _transformed(run, _autograd_rules(body, gradients, derivatives, more=2))

    def watched(size: int, dims: Sequence[Any], args: Sequence[Any]) -> Any:
        mask = tuple(isinstance(d, int) for d in dims)
        found = over_batch(*(a.movedim(d, 0) if m else a for a, d, m in zip(args, dims, mask, strict=True)), size, mask)
        return (found, 0) if isinstance(found, torch.Tensor) else (found, (0,) * len(found))

    return watched


def _autocast_rule(sig: OpSignature, op: Any, device: str) -> Callable[..., Any]:
    """Give each floating-point tensor of 16 or 32 bits the dtype that the kernel declares."""
    torch = _torch()
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device}"))

    def rule(*args: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*sig.autocast(args))

    return rule
