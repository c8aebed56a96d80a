"""The matrix units that warps have: which part of a matrix each lane holds, and how warps share a product.

A unit multiplies a matrix of ``rows`` times ``depth`` numbers by one of ``depth`` times ``columns``, and adds the
product to a third. The parts of the lanes, their *fragments*, are as the PTX ISA has them ("Matrix Fragments for
mma.m8n8k4", "... mma.m16n8k16"): with ``group = lane // 4`` and ``member = lane % 4``, a lane holds of the sums those
in row ``group`` (and ``group + 8``, where there are 16) and in columns ``2 * member`` and ``2 * member + 1``.

The unit of float64 rounds each product with its sum once, to the nearest ("mma" in the PTX ISA), as a fused operation
does. Of those for floats of 16 bits the products are exact, and the PTX ISA leaves open how sums in float32 round:
processors cut digits off. They are for code that has asked for them.
"""

from __future__ import annotations

from typing import NamedTuple

WARP = 32
MOST_WORDS = 128
"""The most registers of 32 bits in which a thread holds sums: half of those that there are."""


class Unit(NamedTuple):
    """A unit: its extents, how many registers of 32 bits a lane's sums take, and whether others may use it unasked."""

    rows: int
    columns: int
    depth: int
    words: int
    rounds_to_nearest: bool


UNITS = {
    "float64": Unit(8, 8, 4, 4, rounds_to_nearest=True),
    "float16": Unit(16, 8, 16, 4, rounds_to_nearest=False),
    "bfloat16": Unit(16, 8, 16, 4, rounds_to_nearest=False),
}
"""The units by the type of the factors."""


class Share(NamedTuple):
    """How warps share a product: ``across`` warps side by side, each with ``high`` times ``wide`` steps of a unit."""

    across: int
    high: int
    wide: int


def share_of(unit: str, extents: tuple[int, int, int], team: int) -> Share | None:
    """Return how ``team`` threads share a product, None where its extents are not those of whole steps for all warps.

    Of several ways it is the one where a warp reads the least of the factors.
    """
    u = UNITS[unit]
    (m, k, n), warps = extents, team // WARP
    if team % WARP or m % u.rows or n % u.columns or k % u.depth:
        return None
    down, right = m // u.rows, n // u.columns
    ways = [
        Share(across, down * across // warps, right // across)
        for across in range(1, warps + 1)
        if warps % across == 0 and right % across == 0 and down % (warps // across) == 0
    ]
    fitting = [s for s in ways if s.high * s.wide * u.words <= MOST_WORDS]
    return min(fitting, key=lambda s: s.high * u.rows + s.wide * u.columns, default=None)


def words_of(unit: str, extents: tuple[int, int, int], team: int) -> int:
    """Return how many registers of 32 bits a thread's sums of a product take."""
    share = share_of(unit, extents, team)
    assert share is not None
    return share.high * share.wide * UNITS[unit].words


__all__ = ["MOST_WORDS", "UNITS", "WARP", "Share", "Unit", "share_of", "words_of"]
