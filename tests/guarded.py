"""Memory between protected pages: a kernel that touches a byte in front of an array or behind it ends the process.

``Guarded`` is an allocator for the arrays of the package, ``Moved`` gives arrays of NumPy such memory for a while. An
array lies at one of the ends, the ``edge``, as pages are larger than most arrays of tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import warp_like as wp
from tests.fuzz.arguments import Nested, Selected

PAGE = mmap.PAGESIZE
IS_SUPPORTED = sys.platform == "linux"


class Block:
    """``nbytes`` bytes at the ``edge`` of some pages, ``begin`` or ``end``, with a protected page on both sides."""

    def __init__(self, nbytes: int, edge: str, align: int = 1) -> None:
        inside = max(-(-nbytes // PAGE), 1) * PAGE
        self._memory = mmap.mmap(-1, inside + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for page in (start, start + PAGE + inside):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
        self.address = start + PAGE + ((inside - nbytes) // align * align if edge == "end" else 0)


class Guarded:
    """An allocator for ``wp.set_device_allocator``."""

    def __init__(self, edge: str) -> None:
        self.edge = edge
        self._blocks: dict[int, Block] = {}

    def allocate(self, size_in_bytes: int) -> int:
        block = Block(size_in_bytes, self.edge)
        ctypes.memset(block.address, 0xAB, size_in_bytes)
        self._blocks[block.address] = block
        return block.address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        del self._blocks[ptr]


@contextlib.contextmanager
def guarded(edge: str) -> Iterator[None]:
    """Let the package's arrays on the CPU lie between protected pages."""
    before = wp.get_device("cpu").allocator
    wp.set_device_allocator("cpu", Guarded(edge))
    try:
        yield
    finally:
        wp.set_device_allocator("cpu", before)


class Moved:
    """Arguments whose arrays of NumPy are copies between protected pages; arrays that overlap do so there, too.

    Attributes:
        args: The arguments.
    """

    def __init__(self, args: Sequence[Any], edge: str) -> None:
        self._spans: list[tuple[int, int, int, Block]] = []  # from, to, where they are now
        found = [a for a in _arrays(args) if a.size]
        bounds = sorted((*np.lib.array_utils.byte_bounds(a), _alignment(a)) for a in found)
        while bounds:
            low, high, align = bounds.pop(0)
            while bounds and bounds[0][0] < high:
                _, end, other = bounds.pop(0)
                high, align = max(high, end), max(align, other)
            block = Block(high - low, edge, align)
            ctypes.memmove(block.address, low, high - low)
            self._spans.append((low, high, block.address, block))
        self.args = [self._argument(a) for a in args]

    def back(self) -> None:
        """Copy to where the arrays were."""
        for low, high, address, _ in self._spans:
            ctypes.memmove(low, address, high - low)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, Selected):
            indices = [None if i is None else self._array(i) for i in a.indices]
            return Selected(self._array(a.data), indices, a.dtype)
        if isinstance(a, Nested):
            arrays = {name: [self._argument(x) for x in of] for name, of in a.arrays.items()}
            return Nested(a.struct, a.values, arrays)
        return self._array(a) if isinstance(a, np.ndarray) else a

    def _array(self, a: np.ndarray) -> np.ndarray:
        at = a.ctypes.data
        for low, high, address, _ in self._spans:
            if a.size and low <= at < high:
                memory = (ctypes.c_char * (high - low)).from_address(address)
                return np.ndarray(a.shape, a.dtype, memory, at - low, a.strides)
        return a


def _arrays(args: Sequence[Any]) -> Iterator[np.ndarray]:
    """All arrays of NumPy in arguments, but those whose elements are copied anyway."""
    for a in args:
        if isinstance(a, Selected):
            yield from (x for x in (a.data, *a.indices) if x is not None)
        elif isinstance(a, Nested):
            for of in a.arrays.values():
                yield from _arrays(of)
        elif isinstance(a, np.ndarray):
            yield a


def _alignment(a: np.ndarray) -> int:
    """Of which power of two, up to 8, the address has to be a multiple."""
    return min(a.dtype.itemsize & -a.dtype.itemsize, 8)
