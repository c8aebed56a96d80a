"""Launches that the host has to see through: adjoints with a stack, and kernels whose checks it waits for.

The stacks of a launch's threads lie in one arena. Where the arguments tell how much a thread saves at most, the arena
is made as large as that, and the launch is one like any other. Where it depends on data, the host waits for the launch;
if a stack was too small, it puts back what the kernel has written and launches again with a larger arena. The contract
with the compiled code is in ``backend/llvm/cuda.py``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from warp_like import _native
from warp_like._native import CudaLaunchRequest as Request
from warp_like.base.contract import CUDA_CONTEXT, RunError
from warp_like.base.settings import settings
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.faults import AT
from warp_like.runtime.cuda.memory import allocate
from warp_like.runtime.memory.stream import Stream

if TYPE_CHECKING:
    from warp_like.runtime.cuda.load import Loaded
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.program import Program

FIRST_CAPACITY = 256
"""Bytes of stack for each thread at first."""


def fixed_size(kernel: Kernel, loaded: Loaded) -> int:
    """Return the bytes of stack that the user gives each thread of a launch that can't be repeated; -1 for none.

    What a thread needs beyond that, the launch's report says when it is looked at.
    """
    size = int(kernel.option("adjoint_stack_size")) // 4 * 4
    if size <= 0:
        return -1
    assert loaded.report is not None
    loaded.report.fixed_stack = size
    return size


class Runner:
    """Gets the launches of one program in place of the driver."""

    def __init__(self, program: Program) -> None:
        assert isinstance(program.device, CudaDevice)
        self.program = program
        self.device = program.device

    def __call__(self, request: Request) -> None:
        """Launch, wait, and raise what the kernel reported."""
        loaded: Loaded = request.code
        name = f"kernel `{self.program.kernel.key}`"
        stream = Stream(self.device, cuda_stream=request.stream)
        if loaded.artifact.stack.used:
            capacity = _native.stack_bound(loaded.artifact.stack.bound, request.arguments, request.dims)
            if capacity < 0 and stream.is_capturing:
                capacity = fixed_size(self.program.kernel, loaded)
            if not self._is_affordable(request, loaded, capacity):
                if stream.is_capturing:
                    raise RuntimeError(self._refusal(name, capacity))
                self._with_stack(request, loaded, stream)
                return
            self._bounded(request, loaded, stream, capacity)
        else:
            request.launch(0 if loaded.report is None else loaded.report.address)
        if self.program.waits and not stream.is_capturing:  # a graph's reports are looked at when something waits
            stream.synchronize()

    def _is_affordable(self, request: Request, loaded: Loaded, capacity: int) -> bool:
        """Whether a thread needs no more than ``capacity`` bytes, and all that the device runs at once can have it."""
        if not 0 <= capacity <= settings.adjoint_stack_limit:
            return False
        resident = self._resident(request, loaded)
        return self._fitting(request, capacity) >= min(request.blocks, resident)

    def _refusal(self, name: str, capacity: int) -> str:
        if capacity < 0:
            return (
                f"the adjoint of {name} saves the state of loops whose length depends on data, so that the host has to "
                "see whether its stack was large enough, which a capture does not allow; do it outside of the capture, "
                "give the loops lengths that arguments, shapes or the grid tell, or say how much stack a thread gets "
                "(wp.config.adjoint_stack_size, or @wp.kernel(adjoint_stack_size=...))"
            )
        return (
            f"the adjoint of {name} may need {capacity} bytes of stack for each thread, more than the device has room "
            "for or wp.config.adjoint_stack_limit allows; capture fewer threads or shorter loops, or declare the "
            "kernel with @wp.kernel(checkpoint_loops=True), which saves less and computes more"
        )

    def _bounded(self, request: Request, loaded: Loaded, stream: Stream, capacity: int) -> None:
        blocks = min(request.blocks, self._resident(request, loaded))
        nbytes = max(blocks * request.block_dim * capacity, 4)
        capture = self.device.capture
        if stream.is_capturing and capture is not None:
            arena = capture.scratch(stream, nbytes)
        else:
            arena = allocate(self.device, nbytes, False, stream)
        assert loaded.report is not None
        request.launch(loaded.report.address, blocks, arena.ptr, capacity)

    def _with_stack(self, request: Request, loaded: Loaded, stream: Stream) -> None:
        driver, queue = self.device.driver, stream.cuda_stream
        saved = [(ptr, nbytes, allocate(self.device, nbytes, False, stream)) for ptr, nbytes in request.written]
        header = allocate(self.device, CUDA_CONTEXT.size, False, stream)
        with self.device.guard:
            for ptr, nbytes, copy in saved:
                driver.copy_on_device(copy.ptr, ptr, nbytes, queue)
            while True:
                needed = self._try_launch(request, loaded, stream, header)
                if not needed:
                    return
                for ptr, nbytes, copy in saved:
                    driver.copy_on_device(ptr, copy.ptr, nbytes, queue)
                loaded.stack_capacity = self._grown(loaded.stack_capacity, needed)

    def _try_launch(self, request: Request, loaded: Loaded, stream: Stream, header: _native.Buffer) -> int:
        """Launch once; returns the bytes of stack that a thread asked for in vain, 0 if none did."""
        driver, queue = self.device.driver, stream.cuda_stream
        capacity = loaded.stack_capacity
        blocks = self._blocks(request, loaded, capacity)
        arena = allocate(self.device, blocks * request.block_dim * capacity, False, stream)
        record = bytearray(CUDA_CONTEXT.size)
        raw = np.frombuffer(record, np.uint8)
        driver.fill(header.ptr, 0, 1, CUDA_CONTEXT.size, queue)
        request.launch(header.ptr, blocks, arena.ptr, capacity)
        driver.copy_to_host(raw.ctypes.data, header.ptr, CUDA_CONTEXT.size, queue)
        stream.synchronize()
        if struct.unpack_from("<i", record, AT["code"])[0]:
            raise self.program.reported(loaded.artifact, bytes(record))
        needed: int = struct.unpack_from("<q", record, AT["stack_needed"])[0]
        return needed

    def _blocks(self, request: Request, loaded: Loaded, capacity: int) -> int:
        """How many blocks to launch: what the device runs at once, and has the memory for stacks for."""
        return max(1, min(request.blocks, self._resident(request, loaded), self._fitting(request, capacity)))

    def _resident(self, request: Request, loaded: Loaded) -> int:
        """How many blocks the device runs at once."""
        with self.device.guard:
            blocks: int = self.device.driver.occupancy(loaded.function, request.block_dim)
        return max(1, blocks * self.device.sm_count)

    def _fitting(self, request: Request, capacity: int) -> int:
        """How many blocks' stacks take a quarter of the free memory."""
        with self.device.guard:
            free, _ = self.device.driver.memory_info()
        return int(free // 4 // max(request.block_dim * capacity, 1))

    def _grown(self, capacity: int, needed: int) -> int:
        """A capacity that holds ``needed`` bytes.

        Raises:
            MemoryError: ``adjoint_stack_limit`` is less.
        """
        limit = settings.adjoint_stack_limit // 4 * 4
        if needed > limit:
            raise self.program.explain_error(RunError.STACK_LIMIT, 0, 0)
        return min(max(2 * capacity, (needed + 3) // 4 * 4), limit)
