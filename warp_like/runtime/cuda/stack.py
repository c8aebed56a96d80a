"""Launches that the host has to see through: adjoints with a stack, and kernels whose checks it waits for.

The stacks of a launch's threads lie in one arena. How much a thread saves may depend on data, so the host waits for
such a launch; if a stack was too small, it puts back what the kernel has written and launches again with a larger
arena. The contract with the compiled code is in ``backend/llvm/cuda.py``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native
from warp_like.base.settings import settings
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.cuda.faults import AT, SIZE, explained
from warp_like.runtime.cuda.memory import allocate
from warp_like.runtime.recording import refuse_capture
from warp_like.runtime.stream import Stream

if TYPE_CHECKING:
    from warp_like.runtime.cuda.load import Loaded
    from warp_like.runtime.program import Program

FIRST_CAPACITY = 256
"""Bytes of stack for each thread at first."""


class Runner:
    """Gets the launches of one program in place of the driver."""

    def __init__(self, program: Program) -> None:
        assert isinstance(program.device, CudaDevice)
        self.program = program
        self.device = program.device

    def __call__(self, attempt: Any) -> None:
        """Launch, wait, and raise what the kernel reported."""
        loaded: Loaded = attempt.code
        name = f"kernel `{self.program.kernel.key}`"
        stream = Stream(self.device, cuda_stream=attempt.stream)
        if loaded.artifact.uses_stack:
            refuse_capture(f"the adjoint of {name}")
            self._with_stack(attempt, loaded, stream)
            return
        attempt.launch(0 if loaded.report is None else loaded.report.address)
        if not stream.is_capturing:  # a graph's reports are looked at when something is waited for
            stream.synchronize()

    def _with_stack(self, attempt: Any, loaded: Loaded, stream: Stream) -> None:
        driver, queue = self.device.driver, stream.cuda_stream
        saved = [(ptr, nbytes, allocate(self.device, nbytes, False, stream)) for ptr, nbytes in attempt.written]
        header = allocate(self.device, SIZE, False, stream)
        with self.device.guard:
            for ptr, nbytes, copy in saved:
                driver.copy_on_device(copy.ptr, ptr, nbytes, queue)
            while True:
                needed = self._attempt(attempt, loaded, stream, header)
                if not needed:
                    return
                for ptr, nbytes, copy in saved:
                    driver.copy_on_device(ptr, copy.ptr, nbytes, queue)
                loaded.stack_capacity = self._grown(loaded.stack_capacity, needed)

    def _attempt(self, attempt: Any, loaded: Loaded, stream: Stream, header: _native.Buffer) -> int:
        """Launch once; returns the bytes of stack that a thread asked for in vain, 0 if none did."""
        driver, queue = self.device.driver, stream.cuda_stream
        capacity = loaded.stack_capacity
        blocks = self._blocks(attempt, loaded, capacity)
        arena = allocate(self.device, blocks * attempt.block_dim * capacity, False, stream)
        record = bytearray(SIZE)
        struct.pack_into("<Qq", record, AT["stack"], arena.ptr, capacity)
        raw = np.frombuffer(record, np.uint8)
        driver.copy_to_device(header.ptr, raw.ctypes.data, SIZE, queue)
        attempt.launch(header.ptr, blocks)
        driver.copy_to_host(raw.ctypes.data, header.ptr, SIZE, queue)
        stream.synchronize()
        if struct.unpack_from("<i", record, AT["code"])[0]:
            raise explained(self.program, loaded.artifact, bytes(record))
        needed: int = struct.unpack_from("<q", record, AT["stack_needed"])[0]
        return needed

    def _blocks(self, attempt: Any, loaded: Loaded, capacity: int) -> int:
        """How many blocks to launch: what the device runs at once, and has the memory for stacks for."""
        block = attempt.block_dim
        resident = self.device.driver.occupancy(loaded.function, block) * self.device.sm_count
        free, _ = self.device.driver.memory_info()
        return max(1, min(attempt.blocks, resident, free // 4 // (block * capacity)))

    def _grown(self, capacity: int, needed: int) -> int:
        """A capacity that holds ``needed`` bytes.

        Raises:
            MemoryError: ``adjoint_stack_limit`` is less.
        """
        limit = settings.adjoint_stack_limit // 4 * 4
        if needed > limit:
            raise self.program.explain_error(_native.ERROR_STACK_LIMIT, 0, 0)
        return min(max(2 * capacity, (needed + 3) // 4 * 4), limit)
