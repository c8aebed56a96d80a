"""Errors that kernels report from the device: a check that failed, an assert.

A kernel that can fail has a record (``CudaContext`` in ``base/contract.py``) in page-locked memory, which the device
writes and the host reads without a copy. Where checks were asked for (``mode="debug"``, ``verify_fp``) the host waits
for each launch and looks; for the checks of all modes (``expect_eq``) and for graphs it looks whenever it has waited
for something. What is raised is what the CPU raises.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING

from warp_like import _native
from warp_like.base.contract import CUDA_CONTEXT
from warp_like.base.weak import WeakObjects
from warp_like.compiler.artifact import Artifact
from warp_like.runtime.cuda.memory import allocate_pinned

if TYPE_CHECKING:
    from warp_like.runtime.cuda.device import CudaDevice
    from warp_like.runtime.kernels.program import Program

AT = CUDA_CONTEXT.offsets


class Report:
    """The record of one variant.

    Attributes:
        address: Where it lies, for host and device.
        fixed_stack: The bytes of stack that the user has given each thread of an adjoint, where its arguments do not
            tell what it needs; else 0.
    """

    def __init__(self, program: Program, artifact: Artifact) -> None:
        from warp_like.runtime.cuda.device import CudaDevice

        assert isinstance(program.device, CudaDevice)
        self._program = weakref.ref(program)
        self._artifact = artifact
        self.fixed_stack = 0
        self._memory = allocate_pinned(program.device, CUDA_CONTEXT.size, zero=True)
        self.address = self._memory.ptr

    def check(self) -> None:
        """Raise what the kernel has reported, and make room for another report."""
        failed = ctypes.c_int32.from_address(self.address + AT["code"]).value
        needed = ctypes.c_int64.from_address(self.address + AT["stack_needed"]).value
        if not failed and not needed:
            return
        record = ctypes.string_at(self.address, CUDA_CONTEXT.size)
        _native.clear_memory(self._memory)
        program = self._program()
        if program is not None and not failed and self.fixed_stack:
            raise MemoryError(
                f"the adjoint of kernel `{program.kernel.key}`: a thread needed {needed} bytes of stack, and "
                f"adjoint_stack_size gives it {self.fixed_stack}; the gradients of that launch are not whole. Set it "
                f"to {needed} at least before the capture, or before JAX compiles the program"
            )
        if program is not None and not failed:
            raise RuntimeError(
                f"kernel `{program.kernel.key}`: a thread of its adjoint needed {needed} bytes of stack, more than its "
                "arguments told; the gradients are wrong. Please report this as a bug"
            )
        if program is not None:
            raise program.reported(self._artifact, record)


def reports_of(device: CudaDevice) -> Reports:
    """Return the records of a device."""
    if device.reports is None:
        device.reports = Reports(device)
    return device.reports


class Reports:
    """The records of a device."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._known: WeakObjects[Report] = WeakObjects()

    def add(self, report: Report) -> None:
        """Look at ``report`` as well."""
        self._known.add(report)

    def check(self) -> None:
        """Raise the error that a kernel has reported, if one has."""
        for report in list(self._known):
            report.check()
