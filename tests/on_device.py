"""Running on a CUDA device whatever the CPU runs: ``pytest --device cuda:0`` does so in each test of a launch.

A launch on the CPU happens there first, so that what it raises and what it prints stays as it is. Then the same launch
happens on the device, from copies of what the arrays held before, and what it computed there takes the place of what
the CPU did: a test that passes has seen the device's results. ``--device emulated`` takes the emulation of
``tests/runtime/cuda/emulated.py`` for the device, which shows that this works where there is no GPU; tests that look at
PTX find LLVM IR there, and fail.

Left to the CPU are launches with arrays inside of structs or other arguments that hold addresses, kernels that print or
call native code, adjoints with pre-launch copies (which the CPU alone needs), and launches that a graph records.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, bind_foreign
from warp_like.runtime.arrays.recording import activities
from warp_like.runtime.autodiff import adjoint_launch, jacobians, tangents, tape
from warp_like.runtime.kernels.kernel import hold_fast_launches
from warp_like.runtime.launching import launch
from warp_like.runtime.memory.recorder import recorder


class Counts:
    """How many launches ran on the device, and how many were left to the CPU."""

    on_device = 0
    left_out = 0


class Memory:
    """Memory of the host that arguments lie in, and its copy on a device."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        self.there: Any = None

    def host(self) -> np.ndarray[Any, Any]:
        """The bytes of the host."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * (self.end - self.begin)).from_address(self.begin))

    def send(self, device: Any) -> None:
        """Make the copy."""
        self.there = wp.array(self.host().copy(), dtype=wp.uint8, device=device)

    def fetch(self) -> None:
        """Copy back."""
        self.host()[:] = self.there.numpy()


def _extent(a: array) -> tuple[int, int]:
    steps = [(n - 1) * s for n, s in zip(a.shape, a.strides, strict=True)]
    return a.ptr + sum(s for s in steps if s < 0), a.ptr + sum(s for s in steps if s > 0) + a.itemsize


def _memories(args: list[Any]) -> list[Memory]:
    """The memory of the arrays, those that overlap as one."""
    found: list[Memory] = []
    for begin, end in sorted(_extent(a) for a in args if isinstance(a, array) and a.size):
        if found and begin < found[-1].end:
            found[-1].end = max(found[-1].end, end)
        else:
            found.append(Memory(begin, end))
    return found


def _moved(a: Any, memories: list[Memory], device: Any) -> Any:
    """The argument, on the device."""
    if not isinstance(a, array):
        return a
    if not a.size:
        return bind_foreign(a.element, 0, a.shape, a.strides, a.readonly, device, None)
    memory = next(m for m in memories if m.begin <= a.ptr < m.end)
    ptr = memory.there.ptr + a.ptr - memory.begin
    return bind_foreign(a.element, ptr, a.shape, a.strides, a.readonly, device, memory.there)


def _holds_addresses(t: ir.Type) -> bool:
    if isinstance(t, ir.Array):
        return _holds_addresses(t.dtype)
    if isinstance(t, ir.Struct):
        return any(isinstance(field, ir.Array) or _holds_addresses(field) for _, field in t.fields)
    return not isinstance(t, (ir.Scalar, ir.Vec, ir.Mat, ir.Quat, ir.Transform))


def _fits(program: Any, args: list[Any]) -> bool:
    effects = program.effects
    if not program.device.is_cpu or recorder.graph is not None or effects.prints or effects.prelaunch_copies:
        return False
    if any(_holds_addresses(t) for t in program.types):
        return False
    return all(isinstance(a, array) or not hasattr(a, "__dlpack__") for a in args)


@contextmanager
def on_device(name: str) -> Iterator[Counts]:
    """Let launches on the CPU happen on the device ``name``, too, whose results count."""
    counts = Counts()
    real = launch.run

    def run(program: Any, dims: tuple[int, ...], args: list[Any], blocks: Any = launch.USUAL) -> None:
        if not _fits(program, args):
            counts.left_out += 1
            real(program, dims, args, blocks)
            return
        device = wp.get_device("cuda:0" if name == "emulated" else name)
        asked = program.types, program.wrt, program.same, program.tangent, device
        there = program.kernel.program(*asked, shares_indices=program.shares_indices)
        memories = _memories(args)
        for memory in memories:
            memory.send(device)
        real(program, dims, args, blocks)
        real(there, dims, [_moved(a, memories, device) for a in args])
        wp.synchronize_device(device)
        written = [args[i] for i in program.effects.writes if isinstance(args[i], array) and args[i].size]
        for memory in memories:
            if any(memory.begin <= a.ptr < memory.end for a in written):
                memory.fetch()
        counts.on_device += 1

    hold_fast_launches(1)
    noted, activities.noted = activities.noted, []  # so that tapes let each launch be seen, too
    modules = (launch, adjoint_launch, tape, jacobians, tangents)
    for module in modules:
        module.run = run  # type: ignore[attr-defined]
    try:
        yield counts
    finally:
        for module in modules:
            module.run = real  # type: ignore[attr-defined]
        activities.noted = noted
        hold_fast_launches(-1)
