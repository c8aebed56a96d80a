"""A kernel with everything settled that its derivatives depend on: types, shapes, grid, constants.

JAX's traced calls are such operations, and PyTorch's operators once their arguments are known. What runs compiled code
is the library's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from warp_like.compiler.artifact import Effects
from warp_like.compiler.signature import Role, Signature
from warp_like.ir.layout import size_of
from warp_like.ir.types import Array, Type, element_shape
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.memory.allocation import contiguous_strides


class Code(Protocol):
    """A compiled kernel, or a derivative of it."""

    @property
    def signature(self) -> Signature:
        """What it is compiled for."""

    @property
    def effects(self) -> Effects:
        """What it reads and writes."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """For each parameter of the entry point what it is to which of the kernel's parameters."""


@dataclass(frozen=True)
class Storage:
    """The memory of one array of the library: its shape, without the dimensions of its elements, and what these are."""

    shape: tuple[int, ...]
    element: Type

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the library's array."""
        return (*self.shape, *element_shape(self.element))

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * size_of(self.element)

    def zeros(self) -> Any:
        """An array of zeros."""
        raise NotImplementedError


@dataclass(frozen=True)
class Place:
    """Where an array parameter lies: it starts ``shift`` bytes into a storage; contiguous where ``strides`` is None."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    shift: int = 0


@dataclass(eq=False)
class Held:
    """A storage in one call: what it holds before, None for zeros.

    Attributes:
        storage: Its shape and elements.
        value: The library's array that it starts as.
        fill: Whether it has to hold zeros without ``value``; else anything.
        keep: Whether it is a result also where the code writes none of it.
    """

    storage: Storage
    value: Any = None
    fill: bool = True
    keep: bool = False

    def start(self) -> Any:
        """What it holds before, as an array of the library."""
        return self.storage.zeros() if self.value is None else self.value


@dataclass(frozen=True, eq=False)
class Operation:
    """One call. Storages and scalars are named by the position of the first parameter that they fill.

    Attributes:
        kernel: The kernel.
        types: The types of its parameters.
        dims: The grid.
        constants: The scalar parameters that have no gradient and are known, by position, as ``launch`` takes them.
        storages: What the array parameters lie in.
        places: Where each of them lies.
        in_out: The storages that are arguments and results.
        outputs: The storages that are only results.
    """

    kernel: Kernel
    types: tuple[Type, ...]
    dims: tuple[int, ...]
    constants: Mapping[int, Any]
    storages: Mapping[int, Storage]
    places: Mapping[int, Place]
    in_out: tuple[int, ...]
    outputs: tuple[int, ...]

    storage_class: ClassVar[type[Storage]] = Storage
    to_stop: ClassVar[str]
    """What a user does about an argument that must not be differentiated again."""
    to_reverse: ClassVar[str]
    """How a user asks for reverse mode."""

    @property
    def dynamic(self) -> tuple[int, ...]:
        """The arguments that the library passes."""
        scalars = {i for i, t in enumerate(self.types) if not isinstance(t, Array)} - set(self.constants)
        return tuple(sorted(scalars | (set(self.storages) - set(self.outputs))))

    @property
    def results(self) -> tuple[int, ...]:
        """The storages that the call returns."""
        return (*self.in_out, *self.outputs)

    def storage(self, k: int) -> Storage:
        """Return a storage; for a scalar that of its gradient, to which all threads add."""
        return self.storages[k] if k in self.storages else self.storage_class((1,), self.types[k])

    def parameters_in(self, storages: Sequence[int]) -> tuple[int, ...]:
        """Return the positions of the array parameters that lie in one of these storages."""
        return tuple(i for i in sorted(self.places) if self.places[i].storage in storages)

    def code(
        self,
        wrt: tuple[int, ...] | None = None,
        same: tuple[tuple[int, int], ...] = (),
        tangent: tuple[int, ...] | None = None,
        again: tuple[int, ...] | None = None,
    ) -> Code:
        """Return the compiled kernel, or a derivative of it; see ``Signature`` for which.

        Raises:
            WarpCodegenError: It can't be compiled, or not differentiated.
        """
        raise NotImplementedError

    def launch(self, code: Any, scalars: Mapping[tuple[str, int], Any], held: dict[tuple[str, int], Held]) -> None:
        """Run compiled code, and let the storages that it writes hold what it leaves there.

        Args:
            code: The kernel or a derivative of it.
            scalars: The scalars that the library passes, by role and position; see ``Code.roles``.
            held: The storages, by role and name. Those that are missing are added, and hold zeros.
        """
        raise NotImplementedError

    def zero_where(self, condition: Any, x: Any) -> Any:
        """Return ``x`` with zeros where ``condition`` is false."""
        raise NotImplementedError

    def given(self, values: Sequence[Any]) -> dict[int, Any]:
        """Return the dynamic arguments by what they fill."""
        return dict(zip(self.dynamic, values, strict=True))

    def before(self, given: Mapping[int, Any]) -> dict[int, Held]:
        """Return what each storage holds before the kernel runs."""
        return {k: Held(s, given.get(k)) for k, s in self.storages.items()}

    def overlap(self, i: int, j: int) -> bool:
        """Return whether two array parameters have an element in common; if that is hard to tell, whether they may."""
        if self.places[i].storage != self.places[j].storage:
            return False
        storage = self.storages[self.places[i].storage]
        memory = np.empty(math.prod(storage.shape) * size_of(storage.element), np.uint8)
        a, b = self._view(i, memory), self._view(j, memory)
        try:
            return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True

    def same(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of array parameters that are one array, later one first."""
        first: dict[Any, int] = {}
        pairs = [(i, first.setdefault((self.places[i], self.types[i]), i)) for i in sorted(self.places)]
        return tuple((i, j) for i, j in pairs if i != j)

    def element(self, i: int) -> Type:
        """Return the type of the elements of an array parameter."""
        t = self.types[i]
        assert isinstance(t, Array)
        return t.dtype

    def _view(self, i: int, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return an array that lies in ``memory`` as a parameter lies in its storage."""
        place, size = self.places[i], size_of(self.element(i))
        strides = contiguous_strides(place.shape, size) if place.strides is None else place.strides
        return np.lib.stride_tricks.as_strided(memory[place.shift :], (*place.shape, size), (*strides, 1))
