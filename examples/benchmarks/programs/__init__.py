"""The programs of the throughput table, one file a kind; the table's order is that of these imports."""

from . import streaming, maps, reductions, stencils, dense, particles, gathers, divergent, integrators, rotations  # noqa: F401, I001
from .case import ENTRIES, Case, Entry

__all__ = ["ENTRIES", "Case", "Entry"]
