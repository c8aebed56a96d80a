"""What optimizers that take one step for each gradient have in common: parameters, state, launches.

A step is one small launch for each device, which counts steps and computes the step's coefficients in float64, and one
launch for each field of each array, which does all of the algorithm's arithmetic. The count is on the device, so that
each replay of a captured graph is another step.

One launch for many arrays would have to find each of them through an array of structs. Such accesses are gathers: that
was eighteen times slower for large arrays, and a recorded launch costs an eighth of a microsecond.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

import warp_like as wp
from warp_like.optim import arguments, rates
from warp_like.optim.launches import Kernels, Launches
from warp_like.runtime.arrays import float_fields

Buffer = Any
"""What is kept for a parameter: an array of its shape, or for structs one for each field of floats, by name."""

Parts = list[tuple[float_fields.Field, list[wp.array]]]
"""The fields of a parameter: the scalars of each in the parameter, and in its buffers."""

COEFFICIENTS = 12
"""The length of the array of coefficients; its first number is how many steps were taken."""


class Bound(NamedTuple):
    """The launches of a step, and the kernels and gradients that they are of."""

    kernels: Kernels
    gradients: list[Any]
    launches: Launches

    def fits(self, kernels: Kernels, gradients: list[Any]) -> bool:
        """Return whether they are a step by these kernels and gradients."""
        same = map(operator.is_, gradients, self.gradients)
        return kernels is self.kernels and all(same)


class Optimizer:
    """The base of ``Adam``, ``AdamW`` and ``SGD``.

    Attributes:
        params: The arrays that are optimized, as they were given.
        t: How many steps were taken.
    """

    _buffers: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold a buffer for each parameter."""
    _numbers: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold the settings."""

    def __init__(self, params: Any) -> None:
        self.params: Any = None
        self._arrays: list[wp.array] = []
        self._coefficients: dict[wp.Device, wp.array] = {}
        self._bound: Bound | None = None
        self._parts: list[Parts] = []
        for name in self._buffers:
            setattr(self, name, [])
        self.set_params(params)

    def set_params(self, params: Any) -> None:
        """Set the arrays to optimize, and allocate their buffers.

        Buffers that fit are kept with what is in them, and follow a parameter to another device.

        Args:
            params: A list of arrays of floats, of vectors and matrices, or of structs; of any library. None for none.

        Raises:
            TypeError: It is no list, or an element is no such array.
            ValueError: An array is read-only, or stands there twice.
        """
        arrays = [] if params is None else arguments.parameters(params, type(self).__name__)
        steps = self.t
        for name in self._buffers:
            old = getattr(self, name)
            known = old if len(old) == len(arrays) else [None] * len(arrays)
            setattr(self, name, [_fitted(buffer, a) for buffer, a in zip(known, arrays, strict=True)])
        devices = dict.fromkeys(a.device for a in arrays)
        known_devices, self._coefficients = self._coefficients, {}
        for device in devices:
            fresh = wp.zeros(COEFFICIENTS, dtype=wp.float64, device=device)
            self._coefficients[device] = known_devices.get(device, fresh)
        self.params, self._arrays, self._bound, self._parts = params, arrays, None, []
        if steps:
            self.t = steps

    @property
    def t(self) -> int:
        """How many steps were taken; of a CUDA device, this waits."""
        return next((int(k.numpy()[0]) for k in self._coefficients.values()), 0)

    @t.setter
    def t(self, steps: int) -> None:
        for k in self._coefficients.values():
            k[:1].fill_(steps)

    def reset_internal_state(self) -> None:
        """Set buffers and the count of steps to zero, as before the first step."""
        for name in self._buffers:
            for buffer in getattr(self, name):
                for a in _arrays_of(buffer).values():
                    a.zero_()
        for k in self._coefficients.values():
            k.zero_()

    def step(self, grad: Sequence[Any] | None = None) -> None:
        """Change the parameters by one step.

        Tapes do not record it. A capture does: each replay of the graph is a step.

        Args:
            grad: A gradient for each parameter, of its shape and dtype; the parameters' own, ``grad``, when left out.

        Raises:
            RuntimeError: There are no parameters, or one has no gradient.
            TypeError: A gradient has another dtype.
            ValueError: A gradient has another shape, or there are too few or too many.
        """
        given = arguments.gradients(grad, self.params, type(self).__name__)
        kernels = self._kernels()
        if self._bound is None or not self._bound.fits(kernels, given):
            self._bound = Bound(kernels, given, self._launches(kernels, given))
        for k in self._coefficients.values():
            self._advance(k)
        self._bound.launches.run()

    def _launches(self, kernels: Kernels, given: list[Any]) -> Launches:
        found = Launches()
        for i, (p, grad) in enumerate(zip(self._arrays, given, strict=True)):
            where = f" (parameter {i} of {len(given)})" if len(given) > 1 else ""
            g = arguments.require_like(grad, p, type(self).__name__, where)
            if i == len(self._parts):
                self._parts.append(parts(p, [getattr(self, name)[i] for name in self._buffers]))
            for field, arrays in self._parts[i]:
                found.add(kernels, [arrays[0], field.of(g), *arrays[1:]], self._coefficients[p.device])
        return found

    def _kernels(self) -> Kernels:
        raise NotImplementedError

    def _advance(self, k: wp.array) -> None:
        """Count a step and compute its coefficients."""
        raise NotImplementedError

    # --- saving ---

    def state_dict(self) -> dict[str, Any]:
        """Return settings, count of steps and buffers as numbers and NumPy arrays, which ``pickle`` and others save.

        The parameters themselves are not among them. The arrays are copies.
        """
        state: dict[str, Any] = {"optimizer": type(self).__name__, "t": self.t}
        for name in self._numbers:
            value = getattr(self, name)
            state[name] = float(value) if isinstance(value, wp.array) else value
        for name in self._buffers:
            state[name] = [_saved(buffer) for buffer in getattr(self, name)]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict()`` returned, for parameters of the same shapes and dtypes.

        Buffers are written in place, so graphs that hold a step go on with the restored state.

        Raises:
            KeyError: Something is missing.
            ValueError: It is of another optimizer, or of other parameters; then nothing has changed.
        """
        name = type(self).__name__
        if state["optimizer"] != name:
            raise ValueError(f"this is the state of {state['optimizer']}, not of {name}")
        pairs: list[tuple[wp.array, np.ndarray[Any, Any]]] = []
        for buffers in self._buffers:
            own, saved = getattr(self, buffers), state[buffers]
            if len(own) != len(saved):
                raise ValueError(f"{name} has {len(own)} parameters, the state has {len(saved)}")
            for i, (buffer, values) in enumerate(zip(own, saved, strict=True)):
                pairs += _restored(buffer, values, f"{name} {buffers}[{i}]")
        numbers = {number: state[number] for number in self._numbers}
        for a, values in pairs:
            a.assign(values)
        for number, value in numbers.items():
            current = getattr(self, number)
            if isinstance(current, wp.array):
                current.fill_(value)
            else:
                setattr(self, number, value)
        self.t = state["t"]


def advance(kernel: wp.Kernel, lr: float | wp.array, numbers: list[Any], k: wp.array, optimizer: str) -> None:
    """Count a step and compute its coefficients by ``kernel``, which gets the step length, ``numbers`` and ``k``."""
    inputs = [rates.passed(optimizer, lr, k), *numbers, k]
    wp.launch(kernel, dim=1, inputs=inputs, device=k.device, record_tape=False)


def step_alone(kernels: Kernels, p: wp.array, g: wp.array, buffers: list[Buffer], k: wp.array) -> None:
    """Launch a step for one parameter."""
    launches = Launches()
    for field, arrays in parts(p, buffers):
        launches.add(kernels, [arrays[0], field.of(g), *arrays[1:]], k)
    launches.run()


def parts(p: wp.array, buffers: list[Buffer]) -> Parts:
    """Return the fields of a parameter, with its scalars and those of its buffers."""
    found = float_fields.of_array(p) if p.size else []
    return [(f, [f.of(p), *(float_fields.scalars_of(_arrays_of(b)[f.name]) for b in buffers)]) for f in found]


def _arrays_of(buffer: Buffer) -> dict[str, wp.array]:
    return buffer if isinstance(buffer, dict) else {"": buffer}


def _fitted(buffer: Buffer | None, a: wp.array) -> Buffer:
    """Return a buffer for ``a``: the given one if it fits, which moves to the array's device, or zeros."""
    old = {} if buffer is None else _arrays_of(buffer)
    new: dict[str, wp.array] = {}
    for field in float_fields.of_array(a):
        known, dtype = old.get(field.name), field.accumulator
        if known is not None and known.shape == a.shape and known.dtype is dtype:
            new[field.name] = known.to(a.device)
        else:
            new[field.name] = wp.zeros(a.shape, dtype=dtype, device=a.device)
    return new.get("", new)


def _saved(buffer: Buffer) -> Any:
    if isinstance(buffer, dict):
        return {name: a.numpy().copy() for name, a in buffer.items()}
    return buffer.numpy().copy()


def _restored(buffer: Buffer, values: Any, what: str) -> list[tuple[wp.array, np.ndarray[Any, Any]]]:
    """Return the arrays of a buffer with what they shall hold."""
    own = _arrays_of(buffer)
    saved = values if isinstance(values, dict) else {"": values}
    if own.keys() != saved.keys():
        raise ValueError(f"{what} has the fields {sorted(own)}, the state {sorted(saved)}")
    for name, a in own.items():
        if a.numpy().shape != np.shape(saved[name]):
            field = f" field `{name}`" if name else ""
            raise ValueError(f"{what}{field} has shape {a.numpy().shape}, the state {np.shape(saved[name])}")
    return [(a, saved[name]) for name, a in own.items()]
