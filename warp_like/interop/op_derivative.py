"""Derivatives of operators made of kernels, of any order that there is: one call with its arguments known.

``derivative.py`` says which launches a derivative takes, and this runs them on a library's tensors at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warp_like.compiler.artifact import Effects
from warp_like.compiler.signature import Role, Signature, entry_roles
from warp_like.interop.derivative import Form, differentiable_results, needed_results
from warp_like.interop.op_body import KernelBody, not_recorded
from warp_like.interop.op_signature import OpSignature, Tensors
from warp_like.interop.operation import Held, Operation, Place, Storage
from warp_like.ir.types import Array, Scalar, adjoint_type, element_shape, scalar_of
from warp_like.runtime.autodiff.differentiation import require_backward
from warp_like.runtime.kernels.arguments import Site, convert, grid_dims
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.launching.launch import run


@dataclass(frozen=True)
class TensorStorage(Storage):
    """The memory of one tensor."""

    tensors: Tensors

    def zeros(self) -> Any:
        """A tensor of zeros."""
        return self.tensors.zeros(self.full_shape, self.tensors.dtype(scalar_of(self.element)))


@dataclass(frozen=True)
class ProgramCode:
    """A program, as derivatives see it."""

    program: Program

    @property
    def effects(self) -> Effects:
        """What it reads and writes."""
        return self.program.effects

    @property
    def signature(self) -> Signature:
        """What it is compiled for, up to the variant."""
        return self.program.signature(contiguous=True, wide=False, sums=False)

    @property
    def roles(self) -> tuple[Role, ...]:
        """For each parameter of the entry point what it is to which of the kernel's parameters."""
        return entry_roles(self.signature, self.effects.prelaunch_copies)


@dataclass(frozen=True, eq=False)
class TensorOperation(Operation):
    """One call of an operator. ``constants`` holds the numbers, vectors and matrices that are no tensors.

    Attributes:
        signature: That of the operator.
    """

    signature: OpSignature

    to_stop = "detach what must not be differentiated again"
    to_reverse = "backward(), torch.func.grad, torch.func.jacrev"

    def storage(self, k: int) -> Storage:
        """Return a storage; for a scalar that of its gradient."""
        return self.storages[k] if k in self.storages else TensorStorage((1,), self.types[k], self.signature.tensors)

    def code(
        self,
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
        again: tuple[int, ...] | None = None,
    ) -> ProgramCode:
        """Return the program of the kernel, or of a derivative of it."""
        kernel = self.kernel
        forward = kernel.program(self.types).over(self.dims)
        alone = wrt is not None and forward.in_order(self.dims, same)
        shares = forward.shares_indices
        spares = wrt is not None and bool(forward.effects.objects)
        return ProgramCode(
            kernel.program(self.types, wrt, same, tangent, None, alone, shares, again, spares_objects=spares)
        )

    def launch(
        self, code: ProgramCode, scalars: Mapping[tuple[str, int], Any], held: dict[tuple[str, int], Held]
    ) -> None:
        """Run a program; what it writes are copies."""
        tensors, names = self.signature.tensors, self.kernel.parameter_names
        reads, writes = set(code.effects.reads), set(code.effects.writes)
        copied: set[int] = set()
        args: list[Any] = []
        for n, (role, i) in enumerate(code.roles):
            t = adjoint_type(self.types[i]) if "adjoint" in role else self.types[i]
            site = Site(self.signature.name, i, names[i], t)
            if not isinstance(t, Array):
                known = self.constants.get(i) if role == "value" else None
                args.append(convert(site, _components(t, scalars[role, i])) if known is None else known)
                continue
            k = self.places[i].storage if i in self.places else i
            h = held.setdefault((role, k), Held(self.storage(k)))
            if n in writes and id(h) not in copied:
                h.value = h.storage.zeros() if h.value is None else tensors.copy(h.value)
                copied.add(id(h))
            elif n in reads:
                h.value = tensors.plain(h.start())
            args.append(convert(site, h.start()))
        with not_recorded():
            run(code.program, self.dims, args)

    def zero_where(self, condition: Any, x: Any) -> Any:
        """Compute it."""
        return x.where(condition, x.new_zeros(()))


def _components(t: Any, value: Any) -> Any:
    """A tensor as a launch takes it for a number, a vector or a matrix."""
    return value.item() if isinstance(t, Scalar) else value.tolist()


def operation(body: KernelBody, args: Sequence[Any]) -> TensorOperation:
    """Return the call of an operator with these arguments, of which the shapes of tensors and the numbers are kept."""
    sig = body.signature
    by_position = dict(zip(sig.inputs, args, strict=True))
    shapes = {i: tuple(by_position[i].shape) for i in sig.arrays}
    shapes |= dict(zip(sig.outputs, sig.output_shapes(args), strict=True))
    outer = {i: shape[: sig.array_type(i).ndim] for i, shape in shapes.items()}
    results = [_Shaped(shape) for _, shape in sorted((i, shapes[i]) for i in sig.outputs)]
    constants: dict[int, Any] = {}
    for i in sig.inputs:
        if i not in sig.given_tensors:
            value, t = by_position[i], sig.types[i]
            constants[i] = convert(sig.site(i), value if isinstance(t, Scalar) else np.reshape(value, element_shape(t)))
    kernel, dims = body.placed(args, results)
    return TensorOperation(
        kernel,
        sig.types,
        grid_dims(kernel.key, dims),
        constants,
        {i: TensorStorage(shape, sig.element(i), sig.tensors) for i, shape in outer.items()},
        {i: Place(i, shape) for i, shape in outer.items()},
        sig.in_out,
        tuple(i for i in sig.outputs if i not in sig.in_out),
        sig,
    )


@dataclass(frozen=True)
class _Shaped:
    """Stands for a result of which the shape is known."""

    shape: tuple[int, ...]


def tangent_form(body: KernelBody, args: Sequence[Any], moving: Sequence[int]) -> Form:
    """Return the derivative of an operator's results in a direction, which the arguments at ``moving`` have."""
    require_backward(body.kernel)
    op = operation(body, args)
    return Form(op, (differentiable_results(op), tuple(moving)), 0)


def adjoint_form(body: KernelBody, args: Sequence[Any], wanted: Sequence[int]) -> Form:
    """Return the gradient of weighted results with respect to the arguments at ``wanted``."""
    op = operation(body, args)
    return Form(op, (differentiable_results(op), tuple(wanted)), 1)


def weights_in_order(form: Form, body: KernelBody, by_output: Sequence[Any]) -> list[Any]:
    """Return the weights of ``signature.from_outputs`` in the order in which a form takes them."""
    by_position = dict(zip(body.signature.from_outputs, by_output, strict=True))
    return [by_position[k] for k in form.slots[0]]


def evaluate(body: KernelBody, form: Form, operands: Sequence[Any]) -> list[Any]:
    """Run a form: its operands are the call's tensors and the parts of its filled slots.

    What the kernel reads of its own results is computed again.
    """
    op, sig = form.op, body.signature
    count = len(op.dynamic)
    needed = needed_results(op)
    given = list(operands[:count])
    results: list[Any] = []
    if needed:
        by_position = op.given(given) | dict(op.constants)
        computed = dict(zip(sig.outputs, body.forward([_plain(by_position[i]) for i in sig.inputs]), strict=True))
        results = [computed[k] for k in needed]
    return form(*given, *results, *operands[count:])


def _plain(value: Any) -> Any:
    return list(value._numbers()) if hasattr(value, "_numbers") else value
