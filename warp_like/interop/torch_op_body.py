"""What a PyTorch operator made by ``torch_op`` computes: its arguments checked, its outputs, its gradients.

Nothing here registers anything. A body gets tensors and numbers and returns fresh tensors: it never writes to
what it was given, never records on a tape and never looks at ``requires_grad``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from warp_like.interop import view
from warp_like.interop.torch import _torch, dtype_to_torch, to_torch
from warp_like.ir import types as ir
from warp_like.runtime.arguments import Site, convert, grid_dims
from warp_like.runtime.array import array
from warp_like.runtime.device import get_device
from warp_like.runtime.differentiation import adjoint_arguments, adjoint_program
from warp_like.runtime.kernel import Kernel
from warp_like.runtime.launch import launch, run
from warp_like.runtime.memory import element_type
from warp_like.runtime.program import Program
from warp_like.runtime.recording import Record, recorder
from warp_like.runtime.tape import Tape

ShapeRule = Callable[..., Any] | tuple[int, ...] | int


@dataclass(frozen=True)
class OpSignature:
    """The parameters of a kernel or function, and what an operator made of it takes and gives.

    Attributes:
        name: The operator's name in messages.
        names: The parameters' names.
        types: Their types.
        outputs: Positions of the results, in order.
        in_out: Positions of those results that start as a copy of an argument.
        shapes: By position, the shape of a result where it is not that of the first array argument.
    """

    name: str
    names: tuple[str, ...]
    types: tuple[ir.Type, ...]
    outputs: tuple[int, ...]
    in_out: tuple[int, ...]
    shapes: dict[int, ShapeRule]

    @functools.cached_property
    def inputs(self) -> tuple[int, ...]:
        """Positions of what the caller gives: all parameters but the pure outputs."""
        return tuple(i for i in range(len(self.types)) if i not in self.outputs or i in self.in_out)

    @functools.cached_property
    def arrays(self) -> tuple[int, ...]:
        """Positions of the arrays among ``inputs``."""
        return tuple(i for i in self.inputs if isinstance(self.types[i], ir.Array))

    @functools.cached_property
    def wrt(self) -> tuple[int, ...]:
        """Positions of the inputs that can have gradients."""
        return tuple(i for i in self.arrays if ir.is_differentiable(self.types[i]))

    @functools.cached_property
    def from_outputs(self) -> tuple[int, ...]:
        """Positions of the outputs that can have gradients."""
        return tuple(i for i in self.outputs if ir.is_differentiable(self.types[i]))

    @functools.cached_property
    def torch_dtypes(self) -> dict[int, Any]:
        """The dtype of the tensor for each array parameter."""
        arrays = [i for i, t in enumerate(self.types) if isinstance(t, ir.Array)]
        return {i: dtype_to_torch(ir.scalar_of(self.array_type(i).dtype)) for i in arrays}

    @functools.cached_property
    def element_shapes(self) -> dict[int, tuple[int, ...]]:
        """The trailing dimensions of the tensor for each array parameter."""
        return {i: ir.element_shape(self.array_type(i).dtype) for i in self.torch_dtypes}

    def array_type(self, position: int) -> ir.Array:
        """The type of an array parameter."""
        t = self.types[position]
        assert isinstance(t, ir.Array)
        return t

    @functools.cached_property
    def _expected(self) -> tuple[tuple[int, int, Any, int, tuple[int, ...]], ...]:
        """For each array: place among the arguments, position, dtype, all dimensions, trailing shape."""
        rows = []
        for place, i in enumerate(self.inputs):
            if i in self.arrays:
                inner = self.element_shapes[i]
                rows.append((place, i, self.torch_dtypes[i], self.array_type(i).ndim + len(inner), inner))
        return tuple(rows)

    def check(self, args: Sequence[Any]) -> None:
        """Refuse tensors that the kernel can't take.

        Raises:
            TypeError: Something is no tensor, or its dtype or number of dimensions is another.
            ValueError: Its trailing dimensions are not those of the elements, or it is not on the CPU.
        """
        tensor = _torch().Tensor
        for place, i, dtype, ndim, inner in self._expected:
            t = args[place]
            where = f"operator `{self.name}`, argument `{self.names[i]}`"
            if not isinstance(t, tensor):
                raise TypeError(f"{where}: expected a tensor for {self.types[i]}, got {type(t).__name__}")
            if t.dtype != dtype or t.dim() != ndim:
                raise TypeError(
                    f"{where}: expected a tensor of {dtype} with {ndim} dimensions for {self.types[i]}, got "
                    f"{t.dtype} of shape {tuple(t.shape)}"
                )
            if inner and tuple(t.shape[-len(inner) :]) != inner:
                raise ValueError(f"{where}: expected trailing dimensions {inner}, got shape {tuple(t.shape)}")
            if t.device.type not in ("cpu", "meta"):
                raise ValueError(f"{where}: kernels run on the CPU, the tensor is on {t.device}")

    def output_shapes(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the shape of each result, components included.

        Raises:
            ValueError: A given rule yields another number of dimensions than the parameter has.
        """
        by_position = dict(zip(self.inputs, args, strict=True))
        found: list[tuple[Any, ...]] = []
        for i in self.outputs:
            if i in self.in_out:
                found.append(tuple(by_position[i].shape))
                continue
            rule, ndim = self.shapes.get(i), self.array_type(i).ndim
            if rule is None:
                outer = tuple(by_position[self.arrays[0]].shape[:ndim])
            else:
                given = rule(*args) if callable(rule) else rule
                outer = tuple(given) if isinstance(given, Sequence) else (given,)
            if len(outer) != ndim:
                raise ValueError(
                    f"operator `{self.name}`: the shape of `{self.names[i]}` has to have {ndim} dimensions, got {outer}"
                )
            found.append((*outer, *self.element_shapes[i]))
        return found

    def new_outputs(self, args: Sequence[Any]) -> list[Any]:
        """Return tensors for the results: zeros, or a copy of the argument."""
        torch = _torch()
        by_position = dict(zip(self.inputs, args, strict=True))
        found = []
        for i, shape in zip(self.outputs, self.output_shapes(args), strict=True):
            if i in self.in_out:
                found.append(by_position[i].clone(memory_format=torch.contiguous_format))
            else:
                found.append(torch.zeros(shape, dtype=self.torch_dtypes[i], device="cpu"))
        return found

    def parameters(self, args: Sequence[Any]) -> list[Any]:
        """Return ``args`` by parameter, None for the pure outputs; tensors resolved, components made values."""
        found: list[Any] = [None] * len(self.types)
        for i, value in zip(self.inputs, args, strict=True):
            t = self.types[i]
            if isinstance(t, ir.Array):
                found[i] = value.resolve_neg() if value.is_neg() else value
            elif isinstance(t, ir.Scalar):
                found[i] = value
            else:
                found[i] = convert(self.site(i), np.reshape(value, ir.element_shape(t)))
        return found

    def as_array(self, position: int, tensor: Any) -> array:
        """Return an array over a tensor, as the parameter at ``position`` takes it."""
        found = convert(self.site(position), tensor)
        assert isinstance(found, array)
        return found

    def site(self, position: int) -> Site:
        """Where a parameter stands, for messages."""
        return Site(self.name, position, self.names[position], self.types[position])


class Body(Protocol):
    """What ``torch_op_register`` registers."""

    signature: OpSignature

    def forward(self, args: Sequence[Any]) -> list[Any]:
        """Return the results for checked arguments."""

    def reads_outputs(self) -> bool:
        """Return whether ``backward`` needs the results."""

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Return gradients for those of ``signature.wrt`` that ``needs`` marks.

        Args:
            grads: The gradients of the differentiable results.
            args: What ``forward`` got.
            results: What it returned, if ``reads_outputs()``.
            needs: For each of ``signature.wrt``, whether its gradient is wanted.
        """


class KernelBody:
    """One launch; its gradient is one launch of the kernel's adjoint."""

    def __init__(self, kernel: Kernel, signature: OpSignature, dim: Any) -> None:
        self.kernel = kernel
        self.signature = signature
        self.dim = dim
        self._device = get_device("cpu")
        self._adjoints: dict[tuple[int, ...], tuple[Program, Program | None]] = {}

    def forward(self, args: Sequence[Any]) -> list[Any]:
        """Run the kernel."""
        sig = self.signature
        given = sig.parameters(args)
        results = sig.new_outputs(args)
        for i, result in zip(sig.outputs, results, strict=True):
            given[i] = result
        with not_recorded():
            launch(self.kernel, self._dims(args, results), given, device=self._device, record_tape=False)
        return results

    def _dims(self, args: Sequence[Any], results: Sequence[Any]) -> Any:
        if self.dim is not None:
            return self.dim(*args) if callable(self.dim) else self.dim
        sig = self.signature
        first = args[sig.inputs.index(sig.arrays[0])] if sig.arrays else results[0]
        return tuple(first.shape[: self._tid_ndim])

    @functools.cached_property
    def _tid_ndim(self) -> int:
        return self.kernel.program(self.signature.types).any_artifact.tid_ndim

    def reads_outputs(self) -> bool:
        """Ask the compiled adjoint."""
        program = self._adjoint(self._record([], ()), self._differentiable)
        return program is not None and any(i in program.any_artifact.reads for i in self.signature.outputs)

    @functools.cached_property
    def _differentiable(self) -> dict[int, Any]:
        return dict.fromkeys({*self.signature.wrt, *self.signature.from_outputs})

    def _record(self, given: list[Any], dims: tuple[int, ...]) -> Record:
        return Record(self.kernel, dims, self.signature.types, given)

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Run the adjoint."""
        torch, sig = _torch(), self.signature
        given = sig.parameters(args)
        adjoints: dict[int, Any] = {
            i: torch.zeros(given[i].shape, dtype=given[i].dtype, device="cpu")
            for i, needed in zip(sig.wrt, needs, strict=True)
            if needed and i not in sig.in_out
        }
        for i, grad in zip(sig.from_outputs, grads, strict=True):
            # a copy: the reverse sweep consumes the adjoint of what the kernel overwrites
            adjoints[i] = grad.resolve_neg().clone(memory_format=torch.contiguous_format)
        originals = list(given)
        for k, (i, shape) in enumerate(zip(sig.outputs, sig.output_shapes(args), strict=True)):
            if results:
                given[i] = results[k]
            elif given[i] is None:  # the adjoint does not read it
                given[i] = adjoints[i] if i in adjoints else torch.empty(shape, dtype=sig.torch_dtypes[i], device="cpu")
        wanted = [i for i, needed in zip(sig.wrt, needs, strict=True) if needed]
        with not_recorded():
            self._run_adjoint(given, originals, adjoints, self._dims(args, [given[i] for i in sig.outputs]))
        return [adjoints[i] for i in wanted]

    def _run_adjoint(self, given: list[Any], originals: list[Any], adjoints: dict[int, Any], dim: Any) -> None:
        sig = self.signature
        record = self._record(given, grid_dims(self.kernel.key, dim))
        program = self._adjoint(record, adjoints)
        if program is None:
            return
        for i in program.any_artifact.scratch:
            before = originals[i]
            if before is None:
                before = _torch().zeros(given[i].shape, dtype=given[i].dtype, device="cpu")
            record.scratch[i] = sig.as_array(i, before)
        arguments = adjoint_arguments(record, program, adjoints)
        dispatcher = program.dispatcher
        if dispatcher is None or not dispatcher.try_launch(record.dims, arguments, (), None):
            record.args = [convert(sig.site(i), a) for i, a in enumerate(given)]
            adjoints = {i: sig.as_array(i, a) for i, a in adjoints.items()}
            run(program, record.dims, adjoint_arguments(record, program, adjoints))

    def _adjoint(self, record: Record, adjoints: dict[int, Any]) -> Program | None:
        """The kernel's adjoint; looked up once, until the kernel is compiled anew."""
        wrt = tuple(sorted(adjoints))
        forward = self.kernel.program(self.signature.types)
        known = self._adjoints.get(wrt)
        if known is not None and known[0] is forward:
            return known[1]
        program = adjoint_program(record, adjoints)
        if program is None and self.signature.in_out:  # what the kernel overwrites still loses its gradient
            program = self.kernel.program(self.signature.types, wrt)
        self._adjoints[wrt] = forward, program
        return program


class FunctionBody:
    """A function that launches kernels; its gradient runs it again under a tape."""

    def __init__(self, function: Callable[..., Any], signature: OpSignature) -> None:
        self.function = function
        self.signature = signature

    def forward(self, args: Sequence[Any]) -> list[Any]:
        """Call the function."""
        results = self.signature.new_outputs(args)
        self._call(self._arrays(args, results))
        return results

    def _arrays(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The arguments of the function: its inputs as arrays that nobody may write."""
        sig = self.signature
        given = sig.parameters(args)
        for i, t in enumerate(sig.types):
            if i in sig.outputs:
                given[i] = sig.as_array(i, results[sig.outputs.index(i)])
            elif isinstance(t, ir.Array):
                memory = replace(view.describe(given[i]), readonly=True)
                given[i] = view.over(memory, element_type(t.dtype))
        return given

    def _call(self, given: Sequence[Any], tape: Tape | None = None) -> None:
        with not_recorded(), contextlib.nullcontext() if tape is None else tape:
            returned = self.function(*given)
        if returned is not None:
            raise TypeError(
                f"operator `{self.signature.name}`: the function writes its results into its output arrays and "
                f"returns nothing, got {type(returned).__name__}"
            )

    def reads_outputs(self) -> bool:
        """No: they are computed again."""
        return False

    def backward(
        self, grads: Sequence[Any], args: Sequence[Any], results: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """Record the function on a tape and run that backward."""
        sig = self.signature
        given = self._arrays(args, sig.new_outputs(args))
        wanted = [i for i, needed in zip(sig.wrt, needs, strict=True) if needed]
        for i in {*wanted, *sig.from_outputs}:
            given[i].requires_grad = True
        tape = Tape()
        self._call(given, tape)
        with not_recorded():
            seeds = {given[i]: sig.as_array(i, g.resolve_neg()) for i, g in zip(sig.from_outputs, grads, strict=True)}
            tape.backward(grads=seeds)
        return [to_torch(given[i].grad, requires_grad=False) for i in wanted]


@contextlib.contextmanager
def not_recorded() -> Iterator[None]:
    """Keep a tape that the caller may have open from recording the launches inside."""
    saved, recorder.active = recorder.active, None
    try:
        yield
    finally:
        recorder.active = saved
