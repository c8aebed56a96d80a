"""Derivatives of operators in PyTorch, in reverse and forward mode, and their derivatives: ``Form``s as functions.

A sum of forms is an ``autograd.Function`` of their operands, whose rules give such sums again. The rules work on
tensors of any level of ``torch.func``. They compute nothing themselves: inside of a ``jvp``, PyTorch 2.13 loses the
tangents of outer levels in all operations but calls of further functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from warp_like.interop.derivative import Form
from warp_like.interop.op_body import Body, KernelBody
from warp_like.interop.op_derivative import adjoint_form, evaluate, tangent_form, weights_in_order
from warp_like.interop.op_signature import Absent
from warp_like.interop.torch import _torch
from warp_like.interop.torch_batches import vmap_rule
from warp_like.ir.types import is_differentiable

Tangents = Sequence[Any]
"""The tangent of each tensor; None for those that don't move."""

Term = tuple[Form, Sequence[Any]]
"""A form, and its operands."""


class Derivatives:
    """The derivatives of one operator that is made of a kernel."""

    def __init__(self, body: KernelBody) -> None:
        self.body = body
        self.signature = body.signature

    def tangents(self, args: Sequence[Any], tangents: Tangents) -> list[Any]:
        """Return the tangent of each result; None for those that are not of floats.

        Args:
            args: The operator's arguments.
            tangents: One for each of them.
        """
        sig = self.signature
        by_position = dict(zip(sig.inputs, tangents, strict=True))
        moving = [i for i in sig.wrt if by_position[i] is not None]
        form = tangent_form(self.body, args, moving)
        found = self._sum([(form, [*self._given(form, args), *(by_position[i] for i in moving)])])
        changes = dict(zip(form.slots[0], found, strict=True))
        return [changes.get(i) for i in sig.outputs]

    def gradient_vjp(
        self,
        grads: Sequence[Any],
        args: Sequence[Any],
        needs: Sequence[bool],
        cotangents: Sequence[Any],
        moving: Sequence[bool],
    ) -> tuple[list[Any], list[Any]]:
        """Return the gradients of a backward with respect to ``grads`` and those of ``args`` that ``moving`` marks.

        See ``Body.backward``.
        """
        form, operands = self._adjoint(grads, args, needs)
        count = len(form.op.dynamic)
        by_position = dict(zip(self.signature.inputs, moving, strict=True))
        wanted = [by_position[i] for i in form.op.dynamic]
        found = self._vjp(form, operands, cotangents, [*wanted, *[True] * (len(operands) - count)])
        return self._by_argument(form, found)

    def gradient_jvp(
        self,
        grads: Sequence[Any],
        args: Sequence[Any],
        needs: Sequence[bool],
        grad_tangents: Tangents,
        arg_tangents: Tangents,
    ) -> list[Any]:
        """Return the tangents of what a backward returns."""
        form, operands = self._adjoint(grads, args, needs)
        by_position = dict(zip(self.signature.inputs, arg_tangents, strict=True))
        moving = [by_position[i] for i in form.op.dynamic]
        return list(self._sum(_changes(form, operands, [*moving, *weights_in_order(form, self.body, grad_tangents)])))

    def _adjoint(self, grads: Sequence[Any], args: Sequence[Any], needs: Sequence[bool]) -> tuple[Form, list[Any]]:
        wanted = [i for i, needed in zip(self.signature.wrt, needs, strict=True) if needed]
        form = adjoint_form(self.body, args, wanted)
        return form, [*self._given(form, args), *weights_in_order(form, self.body, grads)]

    def _given(self, form: Form, args: Sequence[Any]) -> list[Any]:
        """The tensors among an operator's arguments; zeros for those of which no derivative depends on the elements."""
        by_position = dict(zip(self.signature.inputs, args, strict=True))
        found = (by_position[i] for i in form.op.dynamic)
        return [_torch().zeros(x.shape, dtype=x.dtype) if isinstance(x, Absent) else x for x in found]

    def _by_argument(self, form: Form, found: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients of a form's operands, by the operator's differentiable results and by its arguments."""
        op, sig = form.op, self.signature
        count = len(op.dynamic)
        by_position = dict(zip(op.dynamic, found[:count], strict=True))
        weights = dict(zip(form.slots[0], found[count:], strict=True))
        return [weights[i] for i in sig.from_outputs], [by_position.get(i) for i in sig.inputs]

    def _sum(self, terms: Sequence[Term]) -> Any:
        """Return the results of forms, added."""
        forms = tuple(form for form, _ in terms)
        return self._run(forms, *(x for _, operands in terms for x in operands))

    @functools.cached_property
    def _run(self) -> Callable[..., Any]:
        """A sum of forms: the forms, then the operands of each."""
        body = self.body

        def terms(forms: Sequence[Form], flat: Sequence[Any]) -> Iterator[tuple[Form, Sequence[Any]]]:
            start = 0
            for form in forms:
                end = start + len(form.op.dynamic) + sum(len(form.slots[k]) for k in form.filled)
                yield form, flat[start:end]
                start = end

        def forward(forms: Sequence[Form], *flat: Any) -> Any:
            columns = zip(*(evaluate(body, form, operands) for form, operands in terms(forms, flat)), strict=True)
            return tuple(sum(each[1:], each[0]) for each in columns)

        def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
            ctx.forms = inputs[0]
            ctx.save_for_backward(*inputs[1:])
            ctx.save_for_forward(*inputs[1:])

        def backward(ctx: Any, *cotangents: Any) -> Any:
            needs = [needed for _, needed in terms(ctx.forms, ctx.needs_input_grad[1:])]
            given = terms(ctx.forms, ctx.saved_tensors)
            found = (self._vjp(form, x, cotangents, n) for (form, x), n in zip(given, needs, strict=True))
            return None, *(x for each in found for x in each)

        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            moving = [changes for _, changes in terms(ctx.forms, tangents)]
            given = terms(ctx.forms, ctx.saved_tensors)
            return self._sum([t for (form, x), m in zip(given, moving, strict=True) for t in _changes(form, x, m)])

        rules: dict[str, Callable[..., Any]] = {
            "forward": forward,
            "setup_context": setup,
            "backward": backward,
            "jvp": jvp,
        }
        function: Any = type(
            "KernelDerivative",
            (_torch().autograd.Function,),
            {name: staticmethod(rule) for name, rule in rules.items()},
        )
        function.vmap = staticmethod(vmap_rule(function.apply))
        return function.apply

    def _vjp(self, form: Form, operands: Sequence[Any], cotangents: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
        """Return the gradients of those operands that ``needs`` marks."""
        op = form.op
        count = len(op.dynamic)
        fixed, parts, marked = operands[:count], _parts(form, operands), _parts(form, needs)
        parts[form.open] = list(cotangents)
        found: dict[int, list[Any]] = {}
        for k in form.filled:
            chosen = [n for n, needed in enumerate(marked[k]) if needed or k == 0]
            found[k] = [None] * len(marked[k])
            if any(marked[k]):
                opened = form.with_parts(k, tuple(form.slots[k][n] for n in chosen)).opened(k)
                results = self._sum([(opened, [*fixed, *_flat(opened, parts)])])
                for n, x in zip(chosen, results, strict=True):
                    found[k][n] = x
        arguments = [n for n in range(count) if needs[n]]
        of_arguments: list[Any] = [None] * count
        if arguments:
            deeper = form.derivative(tuple(op.dynamic[n] for n in arguments))
            opened = deeper.opened(len(deeper.slots) - 1)
            for n, x in zip(arguments, self._sum([(opened, [*fixed, *_flat(opened, parts)])]), strict=True):
                of_arguments[n] = x
        return [*of_arguments, *(x for k in form.filled for x in found[k])]


def _changes(form: Form, operands: Sequence[Any], tangents: Tangents) -> list[Term]:
    """Return what the tangent of a form's results is the sum of."""
    op, torch = form.op, _torch()
    count = len(op.dynamic)
    fixed, parts = operands[:count], _parts(form, operands)
    found: list[Term] = []
    for k, changes in _parts(form, tangents).items():
        moving = [n for n, t in enumerate(changes) if t is not None]
        if moving and k == 0:  # all weights are needed
            changes = [torch.zeros_like(x) if t is None else t for x, t in zip(parts[k], changes, strict=True)]
            moving = list(range(len(changes)))
        if moving:
            changed = form.with_parts(k, tuple(form.slots[k][n] for n in moving))
            found.append((changed, [*fixed, *_flat(changed, {**parts, k: [changes[n] for n in moving]})]))
    arguments = [
        n for n, i in enumerate(op.dynamic) if tangents[n] is not None and is_differentiable(op.storage(i).element)
    ]
    if arguments:
        deeper = form.derivative(tuple(op.dynamic[n] for n in arguments))
        given = {**parts, len(form.slots): [tangents[n] for n in arguments]}
        found.append((deeper, [*fixed, *_flat(deeper, given)]))
    return found


def _parts(form: Form, operands: Sequence[Any]) -> dict[int, list[Any]]:
    """Return the operands of each slot that is filled."""
    parts, start = {}, len(form.op.dynamic)
    for k in form.filled:
        end = start + len(form.slots[k])
        parts[k] = list(operands[start:end])
        start = end
    return parts


def _flat(form: Form, parts: Mapping[int, Sequence[Any]]) -> list[Any]:
    return [x for k in form.filled for x in parts[k]]


def derivatives_of(body: Body) -> Derivatives | None:
    """Return the derivatives of an operator; None where it has a gradient alone, as one that a function computes."""
    return Derivatives(body) if isinstance(body, KernelBody) else None
