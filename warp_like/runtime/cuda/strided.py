"""Copies on a device that the driver's copies of blocks would need many calls for: a kernel does them."""

from __future__ import annotations

from typing import Any

from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import bind_foreign
from warp_like.runtime.cuda.device import CudaDevice
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.stream import Stream

tid = Builtin("tid")

_AXES = 4
"""How many dimensions the kernel copies; most copies have fewer once neighbouring dimensions are merged."""

_UNITS = ((8, ir.uint64), (4, ir.uint32), (2, ir.uint16), (1, ir.uint8))


@kernel(enable_backward=False)
def _copy(source: Any, target: Any) -> None:
    i, j, k, m = tid()
    target[i, j, k, m] = source[i, j, k, m]


def copy_strided(
    device: CudaDevice, to: int, source: int, dims: list[tuple[int, int, int]], run: int, stream: Stream
) -> bool:
    """Copy runs of ``run`` bytes along ``dims`` (extent, stride at ``to``, stride at ``source``); False if it can't.

    The innermost dimension is the last one.
    """
    strides = [s for d in dims for s in d[1:]]
    size, scalar = next(u for u in _UNITS if all(x % u[0] == 0 for x in (to, source, run, *strides)))
    whole = [*dims, (run // size, size, size)] if run > size else dims
    if len(whole) > _AXES:
        return False
    whole = [(1, 0, 0)] * (_AXES - len(whole)) + whole
    shape = tuple(n for n, _, _ in whole)
    element = element_type(scalar)
    sides = []
    for which, address in ((2, source), (1, to)):
        steps = tuple(d[which] for d in whole)
        sides.append(bind_foreign(element, address, shape, steps, which == 2, device, None))
    launch(_copy, shape, sides[:1], sides[1:], device=device, stream=stream, record_tape=False)
    return True
