"""The kinds of programs, by name. A new one is one line here.

``GENERATORS`` make a ``Program`` of a seed, which the driver checks and shrinks. ``CHECKS`` are functions of a seed,
named by module, that check all by themselves and raise.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

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
from tests.fuzz.rows import rows
from tests.fuzz.sums import sums
from tests.fuzz.threads import threads
from tests.fuzz.tile_blocks import tile_blocks
from tests.fuzz.tiles import tile_gradients, tiles
from tests.fuzz.vectors import vectors
from tests.fuzz.views import views
from tests.guarded import IS_SUPPORTED

GENERATORS: dict[str, Callable[[int, frozenset[str]], Program]] = {
    "control": control,
    "numbers": numbers,
    "edges": edges,
    "sums": sums,
    "threads": threads,
    "rows": rows,
    "parts": parts,
    "gradients": gradients,
    "vectors": vectors,
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
    "captured": "tests.runtime.autodiff.random_tapes:check_captured",
    "typed": "tests.runtime.autodiff.random_views:check",
    "zeroing": "tests.runtime.autodiff.random_zeroing:check",
    "graphs": "tests.runtime.launching.random_graphs:check",
    "textures": "tests.runtime.geometry.random_texture_tapes:check",
    "halos": "tests.passes.random_halos:check",
    "loops": "tests.passes.spmd.random_loops:check",
    "filters": "tests.passes.spmd.random_filters:check",
    "pieces": "tests.backend.llvm.random_pieces:check",
    "neighbours": "tests.passes.spmd.random_neighbours:check",
    "nested_gradients": "tests.passes.spmd.random_nested:check",
    "joined": "tests.passes.spmd.random_rows:check",
    "blocks": "tests.passes.random_blocks:check",
    "tile_loops": "tests.runtime.cuda.random_tile_loops:check",
    "matrices": "tests.sparse.random_matrices:check",
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


def generated(kind: str, seed: int, known: frozenset[str] = ALLOWED) -> Program:
    """A program of a kind; mostly its arrays lie at protected pages, under some settings thresholds are ``forced``."""
    program = GENERATORS[kind](seed, known)
    edges = [None, "end", "begin"]

    def guarded(number: int, setting: dict[str, Any]) -> dict[str, Any]:
        edge = edges[(seed + number) % 3]
        if "device" in setting:
            return setting
        low = {"forced": True} if (seed // 3 + number) % 4 == 3 else {}
        return {**setting, **low, **({"guarded": edge} if edge is not None and IS_SUPPORTED else {})}

    return dataclasses.replace(program, settings=tuple(guarded(k, s) for k, s in enumerate(program.settings)))


def check_named(kind: str) -> Callable[[int], object]:
    """The function of ``CHECKS``."""
    module, name = CHECKS[kind].split(":")
    found: Callable[[int], object] = getattr(importlib.import_module(module), name)
    return found
