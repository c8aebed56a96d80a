"""Rigid transformations on the host: a translation ``p`` and a rotation ``q``, stored as seven numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like.ir import types as ir
from warp_like.values.classes import class_of
from warp_like.values.composite import Composite, _quiet, flatten_argument, is_sequence
from warp_like.values.quat import multiply
from warp_like.values.vec import Vec

_IDENTITY = (0.0, 0.0, 0.0, 1.0)


class Transform(Vec):
    """Base of the transform classes, e.g. ``wp.transform``.

    An instance is made from a translation ``p`` of three numbers and a rotation ``q``, a quaternion, which is the
    identity if left out; from all seven numbers; or from one number for all of them. Without arguments it is the
    identity. ``*`` of two transforms is the one that applies the right one first; ``+``, ``-`` and ``*`` with a number
    work on the seven numbers.

    Example:
        >>> t = wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat_identity())
        >>> t.p
        vec3f([1.0, 2.0, 3.0])
        >>> (t * t).p
        vec3f([2.0, 4.0, 6.0])
    """

    __slots__ = ()

    def __new__(cls, *args: Any, p: Any = None, q: Any = None) -> Any:
        """Make an instance; ``p`` and ``q`` may be given by name."""
        if p is not None or q is not None:
            if len(args) > (p is None):
                raise TypeError(f"{cls.__name__} takes `p` and `q`, or numbers, got both")
            args = (*args, *(() if p is None else (p,))) or ((0.0, 0.0, 0.0),)
            args = args if q is None else (*args, q)
        return super().__new__(cls, *(args or ((0.0, 0.0, 0.0), _IDENTITY)))

    @classmethod
    def _arrange(cls, args: tuple[Any, ...]) -> list[Any]:
        parts = [flatten_argument(a) for a in args]
        if len(parts) == 1 and not is_sequence(args[0]):
            return parts[0] * 7
        if len(parts) == 2:  # a number fills its part
            parts = [part * n if len(part) == 1 else part for part, n in zip(parts, (3, 4), strict=True)]
        numbers = [x for part in parts for x in part]
        if [len(part) for part in parts] == [3]:
            numbers += _IDENTITY
        if len(numbers) != 7:
            given = ", ".join(str(len(part)) for part in parts)
            raise ValueError(
                f"{cls.__name__} takes 7 numbers, or a translation of 3 and a quaternion, got numbers: {given}"
            )
        return numbers

    @property
    def p(self) -> Any:
        """The translation, a new vector of three."""
        return self._part("p")

    @p.setter
    def p(self, value: Any) -> None:
        self._set_part("p", value)

    @property
    def q(self) -> Any:
        """The rotation, a new quaternion."""
        return self._part("q")

    @q.setter
    def q(self, value: Any) -> None:
        self._set_part("q", value)

    def _part(self, name: str) -> Any:
        at, t = self._parts_()[name]
        return class_of(t)._from_numbers(self._numbers()[at.start : at.stop])

    def _set_part(self, name: str, value: Any) -> None:
        at, t = self._parts_()[name]
        numbers = flatten_argument(value)
        if len(numbers) != len(at):
            raise ValueError(f"`{name}` of a {type(self).__name__} is a {t}, got {len(numbers)} numbers")
        new = list(self._numbers())
        new[at.start : at.stop] = numbers
        self._write(new)

    @classmethod
    def _parts_(cls) -> dict[str, tuple[range, ir.Type]]:
        t = cls._ir_type_
        assert isinstance(t, ir.Transform)
        return t.parts

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Composite):
            return super().__mul__(other)
        return self._from_ndarray(_quiet(compose, self, other)) if self._same(other) else NotImplemented

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented

    def __mod__(self, other: Any) -> Any:
        return NotImplemented


def compose(a: Any, b: Any) -> Any:
    """Return the transform that applies ``b``, then ``a``, of two arrays of seven."""
    v, s = a[3:6], a[6]
    moved = b[:3] * (2 * s * s - 1) + np.cross(v, b[:3]) * (2 * s) + v * (2 * np.dot(v, b[:3]))
    return np.append(moved + a[:3], multiply(a[3:], b[3:])).astype(a.dtype)
