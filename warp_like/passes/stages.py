"""What holds of a function from which pass on: the rules that the verifier checks beside those of the IR itself.

A later stage relies on them without a look: the backend has no code for a ``Call`` or a struct. ``config.verify``
checks them after each pass, so that the pass which breaks one is the pass that is named.
"""

from __future__ import annotations

from warp_like.ir import ops
from warp_like.ir.core import Op
from warp_like.ir.rules import Rule
from warp_like.ir.types import Array, Lanes, is_large
from warp_like.passes.ad.markers import NotRecomputable, Replayed
from warp_like.passes.expand import is_lowered
from warp_like.passes.flatten_structs import has_fields
from warp_like.passes.inline import is_custom

_CONTROL = (ops.If, ops.For, ops.While)
_ACCESSES = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas, ops.NestedArray)


def _is_chosen_array(o: Op) -> bool:
    values = (*o.results, *(v for r in o.regions() for v in r.params))
    return any(isinstance(v.type, Array) for v in values)


NO_LANES = Rule("there are lanes before the function is widened", broken_by=lambda t: isinstance(t, Lanes))
NO_CALLS = Rule("a call is left", lambda o: True, (ops.Call,))
NO_PLAIN_CALLS = Rule(
    "a call is left of a function without gradient of its own", lambda o: not is_custom(o.callee), (ops.Call,)
)
NO_STRUCTS = Rule("a value is a struct", broken_by=has_fields)
NO_CHOSEN_ARRAYS = Rule("a branch or loop gives an array", _is_chosen_array, _CONTROL)
NO_SLICES = Rule("an access goes through a slice", lambda o: isinstance(o.array.op, ops.Slice), _ACCESSES)
NO_MARKERS = Rule("a mark of differentiation is left", lambda o: True, (NotRecomputable, Replayed))
LOWERED = Rule("no backend lowers this builtin, which has a body", lambda o: not is_lowered(o), (ops.Apply,))

_OF_VALUES = (ops.Apply, ops.Cast, ops.Constant, ops.Empty, ops.Fill, ops.Insert, ops.Push, ops.Pop)


def _has_large_value(o: Op) -> bool:
    return any(is_large(v.type) for v in (*o.operands(), *o.results))


NO_LARGE_VALUES = Rule("a large value is left", _has_large_value, (*_OF_VALUES, *_ACCESSES, *_CONTROL))

ESTABLISHED: dict[str, tuple[Rule, ...]] = {
    "inline": (NO_PLAIN_CALLS,),
    "flatten_structs": (NO_STRUCTS,),
    "lower_array_selects": (NO_CHOSEN_ARRAYS,),
    "lower_slices": (NO_SLICES,),
    "expand": (LOWERED,),
    "lower_large_values": (NO_LARGE_VALUES,),
}
"""The rules that hold after a pass, by its name, until the function is handed on."""


def prepared(debug: bool) -> tuple[Rule, ...]:
    """Return what holds of a function that is prepared: in debug mode, slices stay what the user wrote."""
    slices = () if debug else (NO_SLICES,)
    return (NO_LANES, NO_PLAIN_CALLS, NO_STRUCTS, NO_CHOSEN_ARRAYS, *slices)


def differentiated(debug: bool) -> tuple[Rule, ...]:
    """Return what holds of a function that is ready to be finished."""
    return (*prepared(debug), NO_CALLS, NO_MARKERS)


def widened() -> tuple[Rule, ...]:
    """Return what holds of a function in lanes, which is never made in debug mode."""
    return (*(rule for rule in differentiated(debug=False) if rule is not NO_LANES), LOWERED)
