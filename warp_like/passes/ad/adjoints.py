"""The adjoints known at one point of the reverse sweep.

An aggregate's adjoint is collected by component, so that reading one component of a vector costs no arithmetic on the
others; it is made whole when somebody asks for it. Large ones stay whole; additions to a component happen in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Type, bfloat16, element_count, float16, float32, scalar_of, with_scalar


@dataclass
class _Sum:
    whole: Value | None = None
    parts: dict[int, Value] = field(default_factory=dict)


class Adjoints:
    """Maps primal values to sums of contributions, as values of the adjoint function."""

    def __init__(self, b: Emitter) -> None:
        self.b = b
        self.sums: dict[Value, _Sum] = {}

    def add(self, primal: Value, g: Value | None) -> None:
        """Add ``g`` to the adjoint of ``primal``."""
        if g is None:
            return
        entry = self.sums.setdefault(primal, _Sum())
        entry.whole = g if entry.whole is None else sum_of(self.b, entry.whole, g)

    def add_component(self, primal: Value, at: int, g: Value) -> None:
        """Add the scalar ``g`` to component ``at`` (flat) of the adjoint of the aggregate ``primal``."""
        parts = self.sums.setdefault(primal, _Sum()).parts
        parts[at] = g if at not in parts else sum_of(self.b, parts[at], g)

    def add_at(self, primal: Value, indices: Sequence[Value], g: Value) -> None:
        """Add ``g`` to the component, or the row, at ``indices`` of the adjoint of a large ``primal``."""
        wide = wide_type(primal.type)
        whole = self.take_sum(primal)
        whole = self.b.zero(wide) if whole is None else self.b.cast(whole, wide)
        total = sum_of(self.b, self.b.extract(whole, *indices), g)
        self.start(primal, self.b.insert_component(whole, total, *indices))

    def start(self, primal: Value, whole: Value) -> None:
        """Let the sum for ``primal`` be ``whole``, to which others are added."""
        self.sums[primal] = _Sum(whole)

    def take_sum(self, primal: Value) -> Value | None:
        """Return the sum for a large ``primal`` in the type in which it is added up, and forget it."""
        entry = self.sums.pop(primal, None)
        return None if entry is None else entry.whole

    def take(self, primal: Value) -> Value | None:
        """Return the adjoint of ``primal`` and forget it; None when it is zero."""
        entry = self.sums.pop(primal, None)
        whole = None if entry is None else self._whole(primal, entry)
        return None if whole is None else self.b.cast(whole, primal.type)

    def take_all(self, primals: Iterable[Value]) -> list[Value | None]:
        """``take`` for several values."""
        return [self.take(p) for p in primals]

    def _whole(self, primal: Value, entry: _Sum) -> Value | None:
        if not entry.parts:
            return entry.whole
        assert not isinstance(primal.type, Scalar)
        whole = components(self.b, entry.whole) if entry.whole is not None else None
        scalars = []
        for i in range(count(primal)):
            terms = [t for t in (whole[i] if whole else None, entry.parts.get(i)) if t is not None]
            if not terms:
                terms = [self.b.zero(primal.type.dtype)]  # type: ignore[attr-defined]
            total = terms[0] if len(terms) == 1 else sum_of(self.b, *terms)
            scalars.append(self.b.cast(total, primal.type.dtype))  # type: ignore[attr-defined]
        return self.b.make(primal.type, scalars)


def wide_type(t: Type) -> Type:
    """Return the type in which adjoints of ``t`` are summed: float32 for the 16-bit floats, else ``t``."""
    return with_scalar(t, float32) if scalar_of(t) in (float16, bfloat16) else t


def sum_of(b: Emitter, x: Value, y: Value) -> Value:
    """Return ``x + y``; 16-bit floats are summed, and stay, in float32."""
    wide = wide_type(x.type)
    total: Value = b.add(b.cast(x, wide), b.cast(y, wide))
    return total


def count(v: Value) -> int:
    """Return the number of scalars in ``v``."""
    return element_count(v.type)


def components(b: Emitter, v: Value) -> list[Value]:
    """Return the scalars of ``v``, taken straight from the op that made it where there is one."""
    return list(v.op.elements) if isinstance(v.op, ops.Make) else b.components(v)
