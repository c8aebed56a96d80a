"""Running the adjoints of launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warp_like.base.settings import settings
from warp_like.frontend.parameters import leaf_parameters
from warp_like.ir.types import Array, Type, adjoint_type, is_differentiable, scalar_of
from warp_like.runtime.arrays import nested, objects
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.arrays.recording import Record, program_of
from warp_like.runtime.autodiff.nested_gradients import refresh_gradients
from warp_like.runtime.kernels.arguments import Site, convert, place_of, require_writable
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import Program
from warp_like.runtime.kernels.structs import split_adjoints
from warp_like.runtime.memory.device import Device
from warp_like.values import Composite


def gradients_of(record: Record) -> dict[int, array]:
    """Return the gradient of each array argument that has one, by position."""
    found = {}
    for i, (t, a) in enumerate(zip(record.types, record.args, strict=True)):
        if isinstance(t, Array) and is_differentiable(t) and a.requires_grad:
            found[i] = a.grad
    return found


def adjoint_program(record: Record, adjoints: dict[int, array]) -> Program | None:
    """Return the adjoint of a launch, not yet compiled; None when it leaves all gradients as they are.

    A launch without sources that have a gradient still takes the gradient of the elements that it overwrites.

    Raises:
        SwitchedOff: Gradients are switched off for the kernel.
        WarpCodegenError: The kernel can't be differentiated.
    """
    kernel = record.kernel
    forward = program_of(record).effects
    sources = {*forward.reads, *(i for i, t in enumerate(record.types) if not isinstance(t, Array))}
    targets = {*forward.writes, *(i for i, _ in forward.nested_writes)}
    changed = sources.union(forward.stores)
    wrt = tuple(sorted(adjoints))
    dispatcher = program_of(record).dispatcher
    if settings.print_launches or nested.used_by(forward):
        dispatcher = None  # each is intercepted
    if targets.isdisjoint(adjoints) or (changed.isdisjoint(adjoints) and not forward.objects):
        if dispatcher is not None:
            dispatcher.install_adjoint(wrt, None)
        return None
    require_backward(kernel)
    program = program_of(record, wrt, record.same, bool(forward.objects) and objects.gradients_are_hidden())
    serves_all = not (program.effects.prelaunch_copies or record.same or program.alone or forward.objects)
    if serves_all and dispatcher is not None:
        dispatcher.install_adjoint(wrt, program.dispatcher)
    return program


class SwitchedOff(RuntimeError):
    """A gradient would pass through a kernel for which gradients are switched off."""


def require_backward(kernel: Kernel) -> None:
    """Refuse to differentiate a kernel for which gradients are switched off.

    Raises:
        SwitchedOff: They are.
    """
    if not kernel.option("enable_backward"):
        raise SwitchedOff(f"kernel `{kernel.key}`: gradients are switched off (enable_backward=False)")


def adjoint_arguments(record: Record, program: Program, adjoints: dict[int, array]) -> list[Any]:
    """Return the arguments of a launch's adjoint.

    Raises:
        RuntimeError: The launch overwrote memory that its gradient needs, and no copy is there.
    """
    effects = program.effects
    if record.refusal is not None:
        raise RuntimeError(record.refusal)
    missing = [i for i in effects.prelaunch_copies if i not in record.prelaunch_copies]
    if missing:
        name = record.kernel.parameter_names[missing[0]]
        raise RuntimeError(
            f"kernel `{record.kernel.key}`: the gradient needs the elements of `{name}` from before the launch, which "
            "overwrites them; record the launch on a Tape with gradients on, which keeps a copy"
        )
    objects.require_gradients(effects, record.args)
    args = [record.saved.get(i, a) for i, a in enumerate(record.args)]
    args += [adjoints[i] for i in sorted(adjoints)]
    for i in effects.prelaunch_copies:
        repeats_stores = len(args) in effects.writes
        args.append(
            clone(record.prelaunch_copies[i], requires_grad=False) if repeats_stores else record.prelaunch_copies[i]
        )
    return args


def bind_adjoints(
    kernel: Kernel,
    types: tuple[Type, ...],
    args: list[Any],
    inputs: tuple[Sequence[Any], Sequence[Any]],
    outputs: tuple[Sequence[Any], Sequence[Any]],
) -> dict[int, array]:
    """Return the adjoint array of each argument that has one, for an explicit adjoint launch.

    Args:
        kernel: The kernel.
        types: The types of its parameters.
        args: The checked arguments.
        inputs: The launch's ``inputs`` and ``adj_inputs``.
        outputs: The launch's ``outputs`` and ``adj_outputs``.
    """
    given: list[Any] = []
    for name, (values, adjoints) in (("adj_inputs", inputs), ("adj_outputs", outputs)):
        if len(adjoints) > len(values):
            raise ValueError(f"kernel `{kernel.key}`: {name} has {len(adjoints)} entries for {len(values)} arguments")
        given += [*adjoints, *[None] * (len(values) - len(adjoints))]
    given = split_adjoints(kernel, given)
    last_input = len(leaf_parameters(kernel.declared[: len(inputs[0])]))
    place = place_of(args)
    forward = kernel.program(types, device=place).effects
    consumed = set(forward.stores) - set(forward.reads)  # what the kernel reads as well gets a gradient in its place
    found: dict[int, array] = {}
    for i, (t, a, adjoint) in enumerate(zip(types, args, given, strict=True)):
        if not isinstance(t, Array):
            if not _is_plain_value(adjoint):
                found[i] = _bind_value_adjoint(kernel, i, t, adjoint, place)
            continue
        if not is_differentiable(t):
            continue
        if adjoint is None:
            if a.grad is not None:
                a._attach_grad()
                refresh_gradients([a])
                found[i] = clone(a.grad) if a.retain_grad and i in consumed else a.grad
            continue
        name = f"adj_{kernel.parameter_names[i]}"
        bound = convert(Site(kernel.key, kernel.positions[i], name, t, place), adjoint)
        if bound.shape != a.shape:
            raise ValueError(f"kernel `{kernel.key}`: `{name}` has shape {bound.shape}, its array {a.shape}")
        if i in consumed:
            bound = clone(bound)  # the reverse sweep consumes these; the caller's stay as they are
        elif i < last_input:
            require_writable(Site(kernel.key, kernel.positions[i], name, t), bound)
        found[i] = bound
    return found


def _is_plain_value(adjoint: Any) -> bool:
    """Whether an adjoint is none, or a number or vector: nothing that a gradient could be added to."""
    return adjoint is None or isinstance(adjoint, (bool, int, float, np.generic, Composite))


def _bind_value_adjoint(kernel: Kernel, i: int, t: Type, adjoint: Any, place: Device) -> array:
    """Return the array of one element to which the gradient of argument ``i``, which is no array, is added."""
    name = f"adj_{kernel.parameter_names[i]}"
    if scalar_of(t) is None or not is_differentiable(t):
        given = f"`{kernel.parameter_names[i]}` is {t}"
        raise TypeError(f"kernel `{kernel.key}`: {given}, which has no gradient; pass None")
    site = Site(kernel.key, kernel.positions[i], name, adjoint_type(t), place)
    bound: array = convert(site, adjoint)
    if bound.shape != (1,):
        raise ValueError(f"kernel `{kernel.key}`: `{name}` takes an array of one element, got shape {bound.shape}")
    require_writable(site, bound)
    return bound
