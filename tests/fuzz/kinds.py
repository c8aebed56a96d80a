"""The kinds of programs, by name. A new one is one line here.

``GENERATORS`` make a ``Program`` of a seed, which the driver checks and shrinks. ``CHECKS`` are functions of a seed,
named by module, that check all by themselves and raise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tests.fuzz.crowds import crowds
from tests.fuzz.edges import edges
from tests.fuzz.generics import generics
from tests.fuzz.gradients import gradients
from tests.fuzz.hessians import hessians
from tests.fuzz.indexed import indexed
from tests.fuzz.maps import maps
from tests.fuzz.natives import natives
from tests.fuzz.nested import nested
from tests.fuzz.numbers import numbers
from tests.fuzz.parts import parts
from tests.fuzz.program import Program
from tests.fuzz.reused import control
from tests.fuzz.sums import sums
from tests.fuzz.threads import threads
from tests.fuzz.tile_blocks import tile_blocks
from tests.fuzz.tiles import tile_gradients, tiles
from tests.fuzz.views import views

GENERATORS: dict[str, Callable[[int, frozenset[str]], Program]] = {
    "control": control,
    "numbers": numbers,
    "edges": edges,
    "sums": sums,
    "threads": threads,
    "parts": parts,
    "gradients": gradients,
    "views": views,
    "crowds": crowds,
    "maps": maps,
    "indexed": indexed,
    "nested": nested,
    "generics": generics,
    "natives": natives,
    "hessians": hessians,
    "tiles": tiles,
    "tile_gradients": tile_gradients,
    "tile_blocks": tile_blocks,
}
CHECKS = {
    "ir": "tests.fuzz.reused:compiled_ir",
    "dual": "tests.fuzz.reused:dual_numbers",
    "tapes": "tests.runtime.autodiff.random_tapes:check",
    "graphs": "tests.runtime.launching.random_graphs:check",
}
KNOWN: dict[str, str] = {
    "sums": "one array is updated, or read and differentiated, at several kinds of index in one kernel",
    "indices": "an index is made of integers that wrap around",
    "branches": "a condition is made of the thread's index and wraps around",
    "trips": "the bounds of a range wrap around, or lie at an end of their type",
    "stores": "the gradient of stores of several threads to one element",
    "old": "the gradient of what an atomic addition of floats returns",
}
"""What programs may have; a name in ``WRONG`` is known to go wrong, and left out unless it is asked for."""
WRONG: frozenset[str] = frozenset()
ALLOWED = frozenset(KNOWN) - WRONG


def check_named(kind: str) -> Callable[[int], None]:
    """The function of ``CHECKS``."""
    module, name = CHECKS[kind].split(":")
    found: Callable[[int], None] = getattr(importlib.import_module(module), name)
    return found
