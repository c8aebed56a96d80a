"""The signature of an operator made of a kernel or a function: what it takes and gives, in tensors.

PyTorch's operators and Paddle's share it, and their bodies (``op_body.py``). What differs between the libraries is
behind ``Tensors``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.kernels.arguments import Site, convert

ShapeRule = Callable[..., Any] | tuple[int, ...] | int


class Tensors(Protocol):
    """What operators need to know of a library's tensors.

    Attributes:
        maker: The function that makes operators, for messages.
        library: The library's name, for messages.
        kind: The class of tensors.
        classes: Those of its classes that are no more than tensors.
        seed: As ``copy``, where what is lazy in a tensor may be so in the copy.
    """

    maker: str
    library: str
    kind: Any
    classes: tuple[Any, ...]
    seed: Callable[[Any], Any]

    def dtype(self, scalar: Any) -> Any:
        """Return the library's dtype of a scalar type; TypeError if there is none."""

    def elsewhere(self, t: Any) -> str | None:
        """Return the device of a tensor, if it has data on one on which kernels don't run."""

    def zeros(self, shape: Any, dtype: Any) -> Any:
        """Return a tensor of zeros in the host's memory."""

    def zeros_like(self, t: Any) -> Any:
        """Return contiguous zeros of the shape and dtype of a tensor in the host's memory."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return a tensor of anything in the host's memory."""

    def cast(self, t: Any, dtype: Any) -> Any:
        """Return a tensor of another dtype, to which gradients flow."""

    def copy(self, t: Any) -> Any:
        """Return a contiguous copy of a tensor, with nothing left to be done lazily."""

    def plain(self, t: Any) -> Any:
        """Return a tensor's values with nothing left to be done lazily, without a copy where that can be."""

    def over(self, a: array) -> Any:
        """Return a tensor over the memory of an array."""


class Absent:
    """Stands for a tensor whose elements nobody reads: a backward pass needs no more of it than this."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype


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
        tensors: The library.
        as_tensors: Positions of numbers, vectors and matrices that are given as tensors.
    """

    name: str
    names: tuple[str, ...]
    types: tuple[ir.Type, ...]
    outputs: tuple[int, ...]
    in_out: tuple[int, ...]
    shapes: dict[int, ShapeRule]
    tensors: Tensors
    as_tensors: tuple[int, ...] = ()

    @functools.cached_property
    def inputs(self) -> tuple[int, ...]:
        """Positions of what the caller gives: all parameters but the pure outputs."""
        return tuple(i for i in range(len(self.types)) if i not in self.outputs or i in self.in_out)

    @functools.cached_property
    def arrays(self) -> tuple[int, ...]:
        """Positions of the arrays among ``inputs``."""
        return tuple(i for i in self.inputs if isinstance(self.types[i], ir.Array))

    @functools.cached_property
    def given_tensors(self) -> tuple[int, ...]:
        """Positions of the tensors among ``inputs``."""
        return tuple(i for i in self.inputs if i in self.arrays or i in self.as_tensors)

    @functools.cached_property
    def wrt(self) -> tuple[int, ...]:
        """Positions of the inputs that can have gradients."""
        return tuple(i for i in self.given_tensors if ir.is_differentiable(self.types[i]))

    @functools.cached_property
    def from_outputs(self) -> tuple[int, ...]:
        """Positions of the outputs that can have gradients."""
        return tuple(i for i in self.outputs if ir.is_differentiable(self.types[i]))

    @functools.cached_property
    def dtypes(self) -> dict[int, Any]:
        """The dtype of each parameter's tensor, where it is one."""
        found = [i for i, t in enumerate(self.types) if isinstance(t, ir.Array) or i in self.as_tensors]
        return {i: self.tensors.dtype(ir.scalar_of(self.element(i))) for i in found}

    @functools.cached_property
    def element_shapes(self) -> dict[int, tuple[int, ...]]:
        """The trailing dimensions of each parameter's tensor, where it is one."""
        return {i: ir.element_shape(self.element(i)) for i in self.dtypes}

    def element(self, position: int) -> ir.Type:
        """The type of an array's elements, or of a number, vector or matrix."""
        t = self.types[position]
        return t.dtype if isinstance(t, ir.Array) else t

    def array_type(self, position: int) -> ir.Array:
        """The type of an array parameter."""
        t = self.types[position]
        assert isinstance(t, ir.Array)
        return t

    @functools.cached_property
    def _expected(self) -> tuple[tuple[int, int, Any, int, tuple[int, ...]], ...]:
        """For each tensor: place among the arguments, position, dtype, all dimensions, trailing shape."""
        rows = []
        for place, i in enumerate(self.inputs):
            if i in self.given_tensors:
                inner, t = self.element_shapes[i], self.types[i]
                outer = t.ndim if isinstance(t, ir.Array) else 0
                rows.append((place, i, self.dtypes[i], outer + len(inner), inner))
        return tuple(rows)

    @functools.cached_property
    def _numbers(self) -> tuple[tuple[int, int], ...]:
        """For each number, vector and matrix that is given as such: place among the arguments, position."""
        return tuple((place, i) for place, i in enumerate(self.inputs) if i not in self.given_tensors)

    def check(self, args: Sequence[Any]) -> None:
        """Refuse tensors that the kernel can't take.

        Raises:
            TypeError: Something is no tensor, or its dtype or number of dimensions is another.
            ValueError: Its trailing dimensions are not those of the elements, or it is not on the CPU.
        """
        tensors = self.tensors
        for place, i, dtype, ndim, inner in self._expected:
            t = args[place]
            usual = isinstance(t, tensors.kind) and t.dtype == dtype and t.ndim == ndim
            if not usual or (inner and tuple(t.shape[-len(inner) :]) != inner) or tensors.elsewhere(t) is not None:
                raise self._misfit(t, i, dtype, ndim, inner)
        for place, i in self._numbers:
            if isinstance(args[place], tensors.kind):
                name = self.names[i]
                raise TypeError(
                    f"operator `{self.name}`, argument `{name}`: expected {self.types[i]}, got a tensor; give numbers, "
                    f'or make the operator with as_tensors=["{name}"], which gives the tensor its gradient'
                )

    def _misfit(self, t: Any, i: int, dtype: Any, ndim: int, inner: tuple[int, ...]) -> Exception:
        """What is wrong with the tensor given for parameter ``i``."""
        where = f"operator `{self.name}`, argument `{self.names[i]}`"
        if not isinstance(t, self.tensors.kind):
            return TypeError(f"{where}: expected a tensor for {self.types[i]}, got {type(t).__name__}")
        if t.dtype != dtype or t.ndim != ndim:
            return TypeError(
                f"{where}: expected a tensor of {dtype} with {ndim} dimensions for {self.types[i]}, got "
                f"{t.dtype} of shape {tuple(t.shape)}"
            )
        if inner and tuple(t.shape[-len(inner) :]) != inner:
            return ValueError(f"{where}: expected trailing dimensions {inner}, got shape {tuple(t.shape)}")
        return ValueError(f"{where}: kernels run on the CPU, the tensor is on {self.tensors.elsewhere(t)}")

    @functools.cached_property
    def _narrow(self) -> tuple[Any, ...]:
        return tuple(map(self.tensors.dtype, (ir.float16, ir.bfloat16, ir.float32)))

    def autocast(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments with each floating-point tensor of 16 or 32 bits in the dtype that is declared."""
        found = list(args)
        for place, i in enumerate(self.inputs):
            dtype = getattr(found[place], "dtype", None)
            if i in self.wrt and dtype in self._narrow and dtype != self.dtypes[i]:
                found[place] = self.tensors.cast(found[place], self.dtypes[i])
        return found

    def output_shapes(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the shape of each result, components included.

        Raises:
            ValueError: A given rule yields another number of dimensions than the parameter has.
        """
        return [self._output_shape(i, args) for i in self.outputs]

    def _output_shape(self, i: int, args: Sequence[Any]) -> tuple[Any, ...]:
        if i in self.in_out:
            return tuple(args[self.inputs.index(i)].shape)
        rule, ndim = self.shapes.get(i), self.array_type(i).ndim
        if rule is None:
            outer = tuple(args[self.inputs.index(self.arrays[0])].shape[:ndim])
        else:
            given = rule(*args) if callable(rule) else rule
            outer = tuple(given) if isinstance(given, Sequence) else (given,)
        if len(outer) != ndim:
            raise ValueError(
                f"operator `{self.name}`: the shape of `{self.names[i]}` has to have {ndim} dimensions, got {outer}"
            )
        return (*outer, *self.element_shapes[i])

    def new_outputs(self, args: Sequence[Any]) -> list[Any]:
        """Return tensors for the results: zeros, or a copy of the argument."""
        return [
            self.tensors.zeros(self._output_shape(i, args), self.dtypes[i]) if rule is None else rule[0](args[rule[1]])
            for i, rule in self.fresh.items()
        ]

    @functools.cached_property
    def fresh(self) -> dict[int, tuple[Callable[[Any], Any], int] | None]:
        """For each result what makes its tensor of one argument, and that one's place; None if it takes several."""
        return {i: self._fresh(i) for i in self.outputs}

    def _fresh(self, i: int) -> tuple[Callable[[Any], Any], int] | None:
        tensors, dtype, inner, ndim = self.tensors, self.dtypes[i], self.element_shapes[i], self.array_type(i).ndim
        if i in self.in_out:
            return tensors.copy, self.inputs.index(i)
        if i in self.shapes:
            if callable(self.shapes[i]) or not self.inputs:
                return None
            return (lambda _: tensors.zeros(self._output_shape(i, ()), dtype)), 0
        first = self.arrays[0]
        place = self.inputs.index(first)
        if (self.dtypes[first], self.element_shapes[first], self.array_type(first).ndim) == (dtype, inner, ndim):
            return tensors.zeros_like, place
        return (lambda t: tensors.zeros((*t.shape[:ndim], *inner), dtype)), place

    def parameters(self, args: Sequence[Any]) -> list[Any]:
        """Return ``args`` by parameter, None for the pure outputs; tensors resolved, components made values."""
        found: list[Any] = [None] * len(self.types)
        for place, i, load in self.loads:
            value = args[place]
            found[i] = value if load is None or type(value) is Absent else load(value)
        return found

    @functools.cached_property
    def loads(self) -> list[tuple[int, int, Callable[[Any], Any] | None]]:
        """For each argument: place, position, and what makes a launch's argument of it; None where it is one."""
        return [(place, i, self._load(i)) for place, i in enumerate(self.inputs)]

    def _load(self, i: int) -> Callable[[Any], Any] | None:
        t, site = self.types[i], self.site(i)
        if isinstance(t, ir.Array):
            return self.tensors.plain
        if isinstance(t, ir.Scalar):
            return (lambda value: convert(site, value.item())) if i in self.as_tensors else None
        if i in self.as_tensors:
            return lambda value: convert(site, value.tolist())
        return lambda value: convert(site, np.reshape(value, ir.element_shape(t)))

    def as_array(self, position: int, tensor: Any) -> array:
        """Return an array over a tensor, as the parameter at ``position`` takes it, or its adjoint."""
        site = Site(self.name, position, self.names[position], ir.adjoint_type(self.types[position]))
        found = convert(site, tensor)
        assert isinstance(found, array)
        return found

    def site(self, position: int) -> Site:
        """Where a parameter stands, for messages."""
        return Site(self.name, position, self.names[position], self.types[position])
