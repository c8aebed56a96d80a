"""Python functions of several launches as JAX operations: the function runs when JAX traces it, and launches nothing.

Each launch becomes a call in JAX's program. What an array's memory holds is followed from launch to launch as a JAX
value: a call that writes to it gives the next value. So views, temporaries and arrays that are written more than once
work as they do in plain launches, and JAX shares the memory of values that are not needed any more.
"""

from __future__ import annotations

import ctypes
import dataclasses
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from warp_like import _native
from warp_like.interop.jaxffi.call import constant, jax_dtype
from warp_like.interop.jaxffi.linear import differentiable
from warp_like.interop.jaxffi.operation import JaxStorage, TracedOperation
from warp_like.interop.jaxffi.target import jax_module
from warp_like.interop.jaxffi.writes import constant_like, copy_elements
from warp_like.interop.operation import Place
from warp_like.ir.layout import size_of
from warp_like.ir.types import Array, Scalar, scalar_of
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.binding import bind_new
from warp_like.runtime.arrays.recording import Capture, Record, Write
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.memory.allocation import ElementType
from warp_like.runtime.memory.device import Device, get_device
from warp_like.runtime.memory.recorder import recorder


class Placeholder(array):
    """An array of which only the shape and the type are known."""

    def _no_elements(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            "in a function for jax_callable(), arrays have no elements on the host, since JAX runs the launches later; "
            "do this with a kernel, or outside of the function"
        )

    numpy = list = tolist = _read = to = _no_elements
    __array__ = __dlpack__ = _no_elements
    __array_interface__ = property(_no_elements)


@dataclass(eq=False)
class Memory:
    """A piece of memory that arrays are views of.

    Attributes:
        owner: The native buffer.
        scalar: What it is taken to be made of; views may see it otherwise.
        value: The JAX value of all of it, flat; None while it is what the host has put there.
        name: The argument, where it is one that must not be written.
    """

    owner: Any
    scalar: Scalar
    value: Any
    name: str | None = None

    def current(self) -> Any:
        """The JAX value of what the memory holds."""
        if self.value is None:
            held = np.frombuffer(ctypes.string_at(self.owner.ptr, self.owner.nbytes), jax_dtype(self.scalar))
            numpy = jax_module().numpy
            if jax_module().dtypes.canonicalize_dtype(held.dtype) != held.dtype:
                raise TypeError(
                    f"in a function for jax_callable(), a launch takes an array of {self.scalar}, and JAX has no "
                    '64-bit types unless jax.config.update("jax_enable_x64", True) is called first'
                )
            self.value = numpy.asarray(held) if held.view(np.uint8).any() else numpy.zeros(held.shape, held.dtype)
        return self.value

    def storage(self) -> JaxStorage:
        """What the JAX value of the memory is."""
        return JaxStorage((self.owner.nbytes // size_of(self.scalar),), self.scalar)


class Tracing(Capture):
    """Follows the launches of one function, and adds their kernels to ``kernels``."""

    def __init__(self, vmap_method: str, has_side_effect: bool, kernels: set[Kernel]) -> None:
        self.kernels = kernels
        self.vmap_method = vmap_method
        self.has_side_effect = has_side_effect
        self._memories: dict[int, Memory] = {}
        # The native launch path runs what is on the CPU's own device object, and nothing else.
        cpu = get_device("cpu")
        self._device = Device(cpu.alias, cpu.name, cpu.ordinal, cpu.dlpack_type)

    def __enter__(self) -> Tracing:
        self._outer, recorder.active = recorder.active, self
        return self

    def __exit__(self, *_: Any) -> None:
        recorder.active = self._outer

    def placeholder(self, element: ElementType, shape: tuple[int, ...], value: Any, name: str | None) -> array:
        """Return an array that stands for the JAX array ``value``; one with a name must not be written."""
        self_: array = _native.Array.__new__(Placeholder)
        bind_new(self_, element, shape, self._device, zero=False)
        assert element.scalar is not None
        self._memories[id(self_.owner)] = Memory(self_.owner, element.scalar, value.reshape(-1), name)
        return self_

    def value_of(self, a: array, full_shape: tuple[int, ...]) -> Any:
        """Return the JAX value of a placeholder at the end."""
        return self._memory(a).current().reshape(full_shape)

    def _memory(self, a: array) -> Memory:
        owner = a.owner
        found = self._memories.get(id(owner))
        if found is None:
            if not isinstance(owner, _native.Buffer):
                raise TypeError(
                    "in a function for jax_callable(), launches take its arguments and arrays made by wp.zeros() and "
                    f"the like, got an array over the memory of a {type(owner).__name__}"
                )
            scalar = a.element.scalar
            if scalar is None:
                raise TypeError("JAX has no counterpart of structs; an array of them can't be used in a jax_callable()")
            found = self._memories[id(owner)] = Memory(owner, scalar, None)
        return found

    def record_write(self, write: Write) -> bool:
        """See ``Capture``."""
        if write.values is None:
            raise RuntimeError(
                "in a function for jax_callable(), the host computes nothing with arrays, since JAX runs the launches "
                "later; do this with a kernel, or outside of the function"
            )
        self._refuse_if_constant(self._memory(write.dest))
        source = write.values if isinstance(write.values, array) else constant_like(write.dest, write.values)
        copy_elements(write.dest, source)
        return True

    def refuse(self, what: str) -> NoReturn:
        """See ``Capture``."""
        raise RuntimeError(
            f"in a function for jax_callable(), {what}, since JAX runs the launches later; do this outside of it"
        )

    def take_launch(self, record: Record) -> None:
        """See ``Capture``."""
        self._require_jax_types(record)
        self.kernels.add(record.kernel)
        arrays = {i: a for i, a in enumerate(record.args) if isinstance(record.types[i], Array)}
        memories = {i: self._memory(a) for i, a in arrays.items()}
        first: dict[int, int] = {}
        places = {}
        for i, a in arrays.items():
            storage = first.setdefault(id(memories[i]), i)
            whole = a.is_contiguous and a.size == a.shape[0] == memories[i].storage().shape[0]
            strides = None if whole else a.strides
            places[i] = Place(storage, a.shape, strides, a.ptr - memories[i].owner.ptr)
        storages = {i: memories[i].storage() for i in first.values()}
        constants = {
            i: constant(t, record.args[i]).tobytes() for i, t in enumerate(record.types) if not isinstance(t, Array)
        }
        op = TracedOperation(
            record.kernel,
            record.types,
            record.dims,
            constants,
            storages,
            places,
            (),
            (),
            True,
            self.vmap_method,
            self.has_side_effect,
        )
        written = {places[i].storage for i in op.code().effects.writes}
        if not written and not self.has_side_effect:
            raise ValueError(f"kernel `{record.kernel.key}` writes no array; pass has_side_effect=True to have it run")
        for k in written:
            self._refuse_if_constant(memories[k])
        for i in op.code().effects.writes:
            if type(arrays[i]) is array:  # one that the function made: its memory won't hold what JAX computes
                arrays[i].__class__ = Placeholder
        op = dataclasses.replace(op, in_out=tuple(sorted(written)))
        results = differentiable(op, [memories[k].current() for k in op.dynamic])
        for k, result in zip(op.results, results, strict=True):
            memories[k].value = result

    def _require_jax_types(self, record: Record) -> None:
        if any(scalar_of(t.dtype if isinstance(t, Array) else t) is None for t in record.types):
            raise TypeError(f"kernel `{record.kernel.key}` takes a struct, which JAX does not have")

    def _refuse_if_constant(self, memory: Memory) -> None:
        if memory.name is not None:
            raise ValueError(
                f"the argument `{memory.name}` is written, and JAX arrays don't change; name it in "
                f'in_out_argnames=["{memory.name}"] to get it as a result'
            )
