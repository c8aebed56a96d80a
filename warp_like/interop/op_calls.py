"""An operator's usual calls in one native function (``native/op_call.cpp``): what is made, and what goes where.

Where arguments are plainly right, nothing has to be looked at in Python again once the kernel is compiled: the results
are made, the launch is the kernel's or its adjoint's, and checks are those of the launch. ``None`` in place of a call
says that there is none for such an operator; a call that declines has done nothing, and the general way says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from warp_like import _native
from warp_like.interop.op_signature import OpSignature
from warp_like.ir import types as ir
from warp_like.runtime.kernels.program import Program

Grid = tuple[int, ...] | None
"""That of all launches; None if it is the shape of the first array argument."""


class Start(NamedTuple):
    """How the adjoints of a backward pass begin, by which gradients are wanted.

    Attributes:
        order: The positions of all adjoints.
        zeros: Position, place among the arguments and whether it is an array, of those that begin as zeros.
        wanted: For each gradient that is wanted: which of ``order`` it is, place, and whether it is of an array.
    """

    order: tuple[int, ...]
    zeros: list[tuple[int, int, bool]]
    wanted: list[tuple[int, int, bool]]

    @classmethod
    def of(cls, sig: OpSignature, needs: Sequence[bool]) -> Start:
        """Return how they begin where ``needs`` marks those of ``sig.wrt`` that want a gradient."""
        rows = [(i, sig.inputs.index(i), i in sig.arrays) for i, n in zip(sig.wrt, needs, strict=True) if n]
        zeros = [row for row in rows if row[0] not in sig.in_out]
        order = tuple(sorted({*(i for i, _, _ in zeros), *sig.from_outputs}))
        return cls(order, zeros, [(order.index(i), place, is_array) for i, place, is_array in rows])

    def adjoints(self, sig: OpSignature, grads: Sequence[Any], args: Sequence[Any]) -> dict[int, Any]:
        """Return the adjoint of each parameter that has one."""
        tensors = sig.tensors
        found: dict[int, Any] = {}
        for i, place, is_array in self.zeros:
            shape = args[place].shape
            found[i] = tensors.zeros(shape if is_array else (1, *shape), sig.dtypes[i])
        for i, grad in zip(sig.from_outputs, grads, strict=True):
            found[i] = tensors.copy(grad)  # the reverse sweep consumes the adjoint of what the kernel overwrites
        return found

    def gradients(self, adjoints: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Return what is wanted of the adjoints, which are in the order of ``order``."""
        return [
            adjoints[k] if is_array else adjoints[k].reshape(args[place].shape) for k, place, is_array in self.wanted
        ]


class _Call:
    """A call that is put together: what it makes, in order, and the place of each parameter's argument."""

    def __init__(self, sig: OpSignature, before: int, after: int) -> None:
        """``before`` and ``after`` are how many tensors are given before and after the operator's arguments."""
        self._sig = sig
        self._first = before
        self._given = before + len(sig.inputs) + after
        self._tensors = [*range(before), *range(before + len(sig.inputs), self._given)]
        self._numbers: list[int] = []
        self._makes: list[tuple[Callable[[Any], Any], int]] = []
        self.places: dict[int, int] = {}

    def make(self, callable_: Callable[[Any], Any], place: int) -> int:
        """Make something of the argument at ``place``, and return the place of it."""
        self._makes.append((callable_, place))
        return self._given + len(self._makes) - 1

    def take(self, absent: frozenset[int]) -> None:
        """Take the operator's arguments; something of the same shape for those that are ``absent``."""
        sig = self._sig
        for argument, i, load in sig.loads:
            place = self._first + argument
            if i in absent:
                place = self.make(lambda t: sig.tensors.empty(t.shape, t.dtype), place)
            elif isinstance(sig.types[i], ir.Array):
                self._tensors.append(place)
            elif load is not None:
                place = self.make(load, place)
            else:
                self._numbers.append(place)
            self.places[i] = place

    def bound(self, program: Program, grid: Grid, more: Sequence[int]) -> _native.OpCall:
        """Return the call; ``more`` are the places of what the launch takes behind the kernel's parameters."""
        sig = self._sig
        rule: Any = None if grid is None else list(grid)
        if rule is None:
            rule = self.places[sig.arrays[0] if sig.arrays else sig.outputs[0]], program.tid_ndim
        params = (*(self.places[i] for i in range(len(sig.types))), *more)
        dispatcher = program.dispatcher
        assert dispatcher is not None  # it has been launched
        return _native.OpCall(
            dispatcher, sig.tensors.classes, self._given, tuple(self._makes), tuple(self._tensors),
            tuple(self._numbers), params, rule,
        )  # fmt: skip


def forward_call(sig: OpSignature, program: Program, grid: Grid) -> _native.OpCall | None:
    """Return a call of the kernel: given the operator's arguments, it makes the results first."""
    call = _Call(sig, 0, 0)
    for i, rule in sig.fresh.items():
        if rule is None:
            return None
        call.places[i] = call.make(*rule)
    results = dict(call.places)
    call.take(frozenset())
    call.places |= results
    return call.bound(program, grid, ())


def adjoint_call(
    sig: OpSignature, start: Start, program: Program, grid: Grid, has_results: bool, unread: frozenset[int]
) -> _native.OpCall | None:
    """Return a call of the adjoint: given gradients, arguments and, with ``has_results``, results.

    It makes the adjoints first, in the order of ``start.order``.
    """
    floats = len(sig.from_outputs)
    call, tensors = _Call(sig, floats, len(sig.outputs) if has_results else 0), sig.tensors
    zeros = {i: (floats + place, is_array) for i, place, is_array in start.zeros}
    adjoints: dict[int, int] = {}
    for i in start.order:
        if i in zeros:
            place, is_array = zeros[i]
            adjoints[i] = call.make(_zeros(sig, i, is_array, i in unread), place)
        else:
            adjoints[i] = call.make(tensors.seed, sig.from_outputs.index(i))
    call.take(unread)
    for k, i in enumerate(sig.outputs):
        if has_results:
            call.places[i] = floats + len(sig.inputs) + k
        elif i not in call.places:  # the adjoint does not read it
            if i not in adjoints:
                return None
            call.places[i] = adjoints[i]
    return call.bound(program, grid, [adjoints[i] for i in start.order])


def _zeros(sig: OpSignature, i: int, is_array: bool, absent: bool) -> Callable[[Any], Any]:
    """What makes the zeros that a gradient begins as, of an argument."""
    tensors, dtype = sig.tensors, sig.dtypes[i]
    if is_array and not absent:
        return tensors.zeros_like
    return lambda t: tensors.zeros(t.shape if is_array else (1, *t.shape), dtype)
