"""Derivatives of a call, as multilinear forms of which one slot is left open.

Of the call's results y(x) and a weight w for each of them, take the derivative of ``sum(w * y)`` in one, two or three
directions u, v, t: the number ``w . y'(x) u``, ``w . y''(x) u v`` and so on. It is linear in w and in each direction.
What a form gives back is its gradient with respect to the slot that is open:

====  =======================  =======================================  ================================
open  slots (w, u)             slots (w, u, v)                          slots (w, u, v, t)
====  =======================  =======================================  ================================
w     the tangent ``y' u``     the tangent's tangent ``y'' u v``        refused
else  the adjoint ``y'^T w``   the tangent of the adjoint, the Hessian  the second tangent of the adjoint
                               times a direction
====  =======================  =======================================  ================================

So all that JAX or PyTorch asks for stays in the family: transposing opens another slot, and a derivative adds a slot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warp_like.compiler.signature import with_prelaunch_copies
from warp_like.interop.operation import Code, Held, Operation
from warp_like.ir import atomics
from warp_like.ir.types import Array, element_shape, is_differentiable


def differentiable_results(op: Operation) -> tuple[int, ...]:
    """Return the results that are made of floats."""
    return tuple(k for k in op.results if is_differentiable(op.storages[k].element))


def needed_results(op: Operation) -> tuple[int, ...]:
    """Return the results whose values derivatives may need: those that the kernel reads."""
    reads = op.code().effects.reads
    return tuple(k for k in op.results if any(i in reads for i in op.parameters_in((k,))))


@dataclass(frozen=True)
class Form:
    """One derivative of one call.

    Attributes:
        op: The call.
        slots: What the slots w, u, v, t are made of: storages and scalars of the call. w: all differentiable results.
        open: The slot that is open.
    """

    op: Operation
    slots: tuple[tuple[int, ...], ...]
    open: int

    @property
    def fixed(self) -> int:
        """How many of the operands are no slots: the call's arguments, and the results that derivatives need."""
        return len(self.op.dynamic) + len(needed_results(self.op))

    @property
    def filled(self) -> tuple[int, ...]:
        """The slots whose parts are operands, in order."""
        return tuple(k for k in range(len(self.slots)) if k != self.open)

    def opened(self, slot: int) -> Form:
        """Return the form with another slot open."""
        return dataclasses.replace(self, open=slot)

    def with_parts(self, slot: int, parts: tuple[int, ...]) -> Form:
        """Return the form with another slot made of other parts."""
        return dataclasses.replace(self, slots=(*self.slots[:slot], parts, *self.slots[slot + 1 :]))

    def derivative(self, parts: tuple[int, ...]) -> Form:
        """Return the form of the derivative with respect to ``parts`` of the call's arguments.

        Raises:
            NotImplementedError: It would be the fourth one.
        """
        if len(self.slots) == 4:
            raise NotImplementedError(
                f"kernel `{self.op.kernel.key}`: a fourth derivative is asked of it, and there are three; "
                f"{self.op.to_stop}"
            )
        return dataclasses.replace(self, slots=(*self.slots, parts))

    def __call__(self, *operands: Any) -> list[Any]:
        """Run the launches, or put them into the program that JAX traces.

        Args:
            operands: The call's arguments, the results that derivatives need, and the parts of the filled slots.

        Raises:
            WarpCodegenError: The kernel has no such derivative.
            NotImplementedError: It is a tangent in three directions.
        """
        op = self.op
        if self.open == 0 and len(self.slots) == 4:
            raise NotImplementedError(
                f"kernel `{op.kernel.key}`: a third derivative is asked of it in forward mode alone; take one of the "
                f"three in reverse mode ({op.to_reverse})"
            )
        given = op.given(operands[: len(op.dynamic)])
        results = dict(zip(needed_results(op), operands[len(op.dynamic) : self.fixed], strict=True))
        rest = list(operands[self.fixed :])
        parts: dict[int, dict[int, Any]] = {}
        for k in self.filled:
            n = len(self.slots[k])
            parts[k], rest = dict(zip(self.slots[k], rest[:n], strict=True)), rest[n:]
        if self.open == 0:
            return _tangent(op, given, results, [parts[k] for k in self.filled])
        directions = [parts[k] for k in self.filled if k]
        return _gradient(op, given, results, parts[0], directions, self.slots[self.open])

    def zeros(self) -> list[Any]:
        """Return zeros of the types that the form gives back."""
        return [self.op.storage(k).zeros().reshape(_full_shape(self.op, k)) for k in self.slots[self.open]]

    def __repr__(self) -> str:
        return f"{self.op.kernel.key} d{len(self.slots) - 1}/{'wuvt'[self.open]}"


def _tangent(
    op: Operation, given: dict[int, Any], results: dict[int, Any], directions: Sequence[dict[int, Any]]
) -> list[Any]:
    """Return the derivative of the results in one direction, or in two."""
    smooth = differentiable_results(op)
    first = _parameters(op, {*directions[0], *smooth})
    again = None
    if len(directions) == 2:
        ends = (len(op.types) + n for n, i in enumerate(first) if i in op.parameters_in(smooth))
        again = (*_parameters(op, {*directions[1], *smooth}), *ends)
    held = {("value", k): h for k, h in op.before(given).items()}
    scalars = {("value", i): x for i, x in given.items()}
    directions = _after_the_winners(op, held, results, directions)
    role = "value"
    for letter, direction in zip("uv", directions, strict=False):
        _fill(op, held, scalars, f"{letter} value", direction)
        role = f"{letter} {role}"
    op.launch(op.code(tangent=first, again=again), scalars, held)
    return [_left(op, held, role, k) for k in smooth]


def _after_the_winners(
    op: Operation, held: dict[tuple[str, int], Held], results: dict[int, Any], directions: Sequence[dict[int, Any]]
) -> list[dict[int, Any]]:
    """Let what the kernel updates by atomic minima and maxima hold its final values, which tangents are made for.

    Returns the directions; what stood there before has none where a thread has won.
    """
    changed = [dict(d) for d in directions]
    extremes = [i for i in op.code().effects.extremes if is_differentiable(op.types[i])]
    for i in extremes:
        if any(j != i and op.overlap(i, j) for j in op.places):
            raise RuntimeError(
                f"kernel `{op.kernel.key}`: another argument shares memory with `{op.kernel.parameter_names[i]}`, "
                f"which {atomics.extremes('or')} updates; forward mode needs separate arrays"
            )
    for k in {op.places[i].storage for i in extremes}:
        before, final = held["value", k].start(), results[k]
        held["value", k] = Held(op.storages[k], final)
        for d in changed:
            if k in d:
                d[k] = op.zero_where(before == final, d[k])
    return changed


def _gradient(
    op: Operation,
    given: dict[int, Any],
    results: dict[int, Any],
    weights: dict[int, Any],
    directions: Sequence[dict[int, Any]],
    parts: tuple[int, ...],
) -> list[Any]:
    """Return the gradient of the weighted results with respect to ``parts``, or its derivative in directions."""
    same = op.same()
    later = {i for i, _ in same}
    wrt = tuple(i for i in _parameters(op, {*parts, *weights}) if i not in later)
    held = {("value", k): Held(op.storages[k], results.get(k, given.get(k))) for k in op.storages}
    held |= {("old", k): Held(s, given.get(k)) for k, s in op.storages.items()}
    held |= {("adjoint", k): Held(op.storages[k], w) for k, w in weights.items()}
    scalars = {("value", i): x for i, x in given.items()}
    role = "adjoint"
    for letter, direction in zip("uv", directions, strict=False):
        role = f"{letter} {role}"
        _fill(op, held, scalars, f"{letter} old", direction)
        _fill(op, held, scalars, f"{letter} value", {k: x for k, x in direction.items() if k not in op.results})
    code = op.code(wrt=wrt, same=same, **_modes(op, wrt, same, weights, directions))
    _require_apart(op, code)
    read = {name for name, i in (code.roles[n] for n in code.effects.reads) if _storage(op, i) in weights}
    for name, along in (("u value", directions[:1]), ("v value", directions[1:]), ("v u value", directions)):
        if name in read:
            changes = _tangent(op, given, results, along)
            held |= {(name, k): Held(op.storages[k], x) for k, x in zip(weights, changes, strict=True)}
    op.launch(code, scalars, held)
    return [_left(op, held, role, k).reshape(_full_shape(op, k)) for k in parts]


def _modes(
    op: Operation,
    wrt: tuple[int, ...],
    same: tuple[tuple[int, int], ...],
    weights: dict[int, Any],
    directions: Sequence[dict[int, Any]],
) -> dict[str, Any]:
    """Return what moves in the tangent of the adjoint, and in the tangent of that; see ``Signature``."""
    n = len(op.types)
    adjoints = range(n, n + len(wrt))
    moving = [(*_parameters(op, {*direction, *weights}), *adjoints) for direction in directions]
    if len(moving) < 2:
        return {"tangent": moving[0]} if moving else {}
    # After the adjoint's parameters come its copies from before the launch, then the tangents of all of these.
    prelaunch_copies = op.code(wrt=wrt, same=same).effects.prelaunch_copies
    base = n + len(wrt) + len(prelaunch_copies)
    results = op.parameters_in(tuple(weights))
    first = with_prelaunch_copies(moving[0], n, len(wrt), prelaunch_copies)
    # What the kernel computes curves, also in the copies; what it is given changes along straight lines.
    curved = (base + k for k, p in enumerate(first) if p >= n or p in results)
    return {"tangent": moving[0], "again": (*with_prelaunch_copies(moving[1], n, len(wrt), prelaunch_copies), *curved)}


def _storage(op: Operation, i: int) -> int | None:
    """Return the storage in which a parameter lies; None for a scalar."""
    return op.places[i].storage if i in op.places else None


def _parameters(op: Operation, names: set[int]) -> tuple[int, ...]:
    """Return the positions of the differentiable parameters that are, or lie in, what is named."""
    arrays = {i for i in op.parameters_in(tuple(names)) if is_differentiable(op.types[i])}
    return tuple(sorted(arrays | {i for i in names if not isinstance(op.types[i], Array)}))


def _fill(
    op: Operation,
    held: dict[tuple[str, int], Held],
    scalars: dict[tuple[str, int], Any],
    role: str,
    values: dict[int, Any],
) -> None:
    """Let arrays and scalars in a role have these values."""
    held |= {(role, k): Held(op.storages[k], x) for k, x in values.items() if k in op.storages}
    scalars |= {(role, i): x for i, x in values.items() if i not in op.storages}


def _left(op: Operation, held: dict[tuple[str, int], Held], role: str, k: int) -> Any:
    """Return what a storage in a role holds after the launch."""
    return held[role, k].start() if (role, k) in held else op.storage(k).zeros()


def _full_shape(op: Operation, k: int) -> tuple[int, ...]:
    return op.storages[k].full_shape if k in op.storages else element_shape(op.types[k])


def _require_apart(op: Operation, code: Code) -> None:
    """Refuse a gradient that reads memory which the kernel wrote through another argument."""
    names, one = op.kernel.parameter_names, {frozenset(pair) for pair in code.signature.same}
    reads = [i for i in code.effects.reads if i < len(op.types)]
    for i in reads:
        for j in op.code().effects.writes:
            if i != j and frozenset((i, j)) not in one and op.overlap(i, j):
                raise RuntimeError(
                    f"kernel `{op.kernel.key}`: the gradient needs `{names[i]}`, but the kernel wrote over its "
                    f"memory through `{names[j]}`; pass separate arrays"
                )
