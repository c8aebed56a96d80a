"""Gradients of textures to the arrays that they were made of.

A texture has its texels as float32 of its own, with all levels of detail, and adjoints of launches add to a gradient of
the same layout. The texels are a copy, so the adjoint of copying adds this gradient to that of the array: each level
first to the finer one, whose means it has. A tape does so at the place where the copy was made (``Tape.record_copy``).
"""

from __future__ import annotations

import math
import weakref
from typing import Any

from warp_like.frontend.builtin import Builtin
from warp_like.runtime.arrays.array import array, bind_foreign
from warp_like.runtime.arrays.creation import clone
from warp_like.runtime.arrays.float_fields import part_of, scalars_of
from warp_like.runtime.arrays.objects import Copied, Descriptor, locked
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import dtypes

tid, where = Builtin("tid"), Builtin("where")
float32: Any = dtypes.float32
Shape = tuple[int, ...]


@kernel(enable_backward=False)
def _add_means(coarse: Any, fine: Any) -> None:
    i, j, k, c = tid()
    a, b, d = where(fine.shape[0] > 1, 2, 1), where(fine.shape[1] > 1, 2, 1), where(fine.shape[2] > 1, 2, 1)
    if i // a < coarse.shape[0] and j // b < coarse.shape[1] and k // d < coarse.shape[2]:  # odd ones are left out
        fine[i, j, k, c] += coarse[i // a, j // b, k // d, c] / float32(a * b * d)


@kernel(enable_backward=False)
def _add(x: Any, to: Any) -> None:
    i, j, k, c = tid()
    to[i, j, k, c] += to.dtype(x[i, j, k, c])


class TexelMemory:
    """The texels of a texture as kernels find them.

    Args:
        memory: The texels of all levels, float32.
        shapes: The shape of each level, as ``(..., w, v, u, channel)``.
        descriptor: That of the texture.
    """

    def __init__(self, memory: array, shapes: list[Shape], descriptor: Descriptor) -> None:
        self.memory = memory
        self.ndim = len(shapes[0]) - 1
        self.shapes = [(*(1,) * (4 - len(shape)), *shape) for shape in shapes]
        self.descriptor = weakref.ref(descriptor)
        self.lock = descriptor.passing

    def follow(self, source: array | TexelMemory | None) -> None:
        """Let adjoints of launches send gradients on to what the texels have just been copied from.

        Args:
            source: An array that requires a gradient, or the texels of a texture; others have none to give it to.
        """
        alive = self.descriptor()
        assert alive is not None
        before = source._copied if isinstance(source, TexelMemory) else None
        if source is None or (isinstance(source, TexelMemory) and before is None):
            alive.graded, alive.copied = {}, None
            return
        self.memory.requires_grad = True
        alive.graded = {"gradient": self.memory}
        held = source.memory if isinstance(source, TexelMemory) else source

        def pass_on() -> None:  # which no adjoint of another thread adds to meanwhile
            with locked((self.lock, *([source.lock] if isinstance(source, TexelMemory) else []))):
                self._pass_on(source)

        alive.copied = Copied(pass_on, held, self.memory, before)
        if recorder.active is not None and recorder.active.history is not None:
            recorder.active.record_copy(alive.copied)

    @property
    def _copied(self) -> Copied | None:
        alive = self.descriptor()
        return None if alive is None else alive.copied

    def _pass_on(self, source: array | TexelMemory) -> None:
        """Add the gradient of the texels to that of ``source``."""
        gradient = self.memory.grad
        if gradient is None:
            return
        levels = [self._level(gradient, n) for n in range(len(self.shapes))]
        for coarse, fine in zip(levels[:0:-1], levels[-2::-1], strict=True):
            _launch(_add_means, coarse, fine)
        wanted = source._first_gradient() if isinstance(source, TexelMemory) else self._gradient_of(source)
        if wanted is not None:
            _launch(_add, levels[0], wanted)
        gradient.zero_()

    def record_reading(self, dest: array) -> None:
        """Tell a tape that is recording that the texels have just been copied to an array."""
        tape, copied = recorder.active, self._copied
        if copied is None or tape is None or tape.history is None:
            return
        if dest.grad is None:
            tape.history.cut.append(dest)
            return

        def pass_back() -> None:
            given, wanted = self._gradient_of(dest), self._first_gradient()
            if given is not None and wanted is not None:
                with self.lock:
                    _launch(_add, given, wanted)

        tape.record_copy(copied, earlier=True)
        tape.record_func(pass_back, [dest, self.memory])

    def _first_gradient(self) -> array | None:
        gradient = self.memory.grad
        return None if gradient is None else self._level(gradient, 0)

    def _gradient_of(self, a: array) -> array | None:
        """The gradient of an array whose scalars are the first level, of shape ``(w, v, u, channel)``."""
        if a.grad is None:
            return None
        found = scalars_of(a.grad)
        no_channels = (0,) * (found.ndim < self.ndim + 1)
        return part_of(found, 0, self.shapes[0], ((0,) * (3 - self.ndim) + found.strides + no_channels))

    def _level(self, gradient: array, n: int) -> array:
        """The gradient of a level, of shape ``(w, v, u, channel)``."""
        before = sum(map(math.prod, self.shapes[:n]))
        at = gradient.ptr + 4 * before
        return bind_foreign(gradient.element, at, self.shapes[n], None, False, gradient.device, gradient)


def _launch(what: Any, x: array, to: array) -> None:
    given = x if x.device == to.device else clone(x, device=to.device, requires_grad=False)
    launch(what, to.shape, [given], [to], device=to.device, record_tape=False)
