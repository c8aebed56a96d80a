"""nvalchemi-toolkit-ops: neighbour lists of 4,000 atoms in a periodic box, by lists of cells.

Each atom has 52 neighbours within the radius, among 500 atoms in its cell and those around it. Without half lists and
vectors, the default is a kernel that writes each pair for both of its atoms, in places that atomics hand out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.public.program import Stage

PACKAGE = "nvalchemiops"

ATOMS, DENSITY, RADIUS, MOST = 4000, 0.1, 5.0, 128

CASES = {
    "direct": ("direct", False, False, 32),
    "direct half": ("direct", True, False, 32),
    "direct vectors": ("direct", False, True, 32),
    "sorted": ("sorted", False, False, 32),
    "sorted half": ("sorted", True, False, 32),
    "direct float64": ("direct", False, False, 64),
    "direct vectors float64": ("direct", False, True, 64),
    "sorted float64": ("sorted", False, False, 64),
}
"""Whether kernels read atoms sorted by cells, whether each pair is listed once, whether vectors are, and the bits."""


def stages() -> Iterator[Stage]:
    """The building of the cells, then a stage for each case."""
    yield Stage("cells", (cells := Cells(32)).run, cells.results)
    for name, (path, half, vectors, bits) in CASES.items():
        query = Query(path, half, vectors, Cells(bits))
        yield Stage(name, query.run, query.results)


class Cells:
    """Which atoms are in which cell."""

    def __init__(self, bits: int) -> None:
        import warp as wp
        from nvalchemiops.neighbors.cell_list.launchers import get_build_cell_list_kernel

        self.dtype, self.vector, matrix = {
            32: (wp.float32, wp.vec3f, wp.mat33f),
            64: (wp.float64, wp.vec3d, wp.mat33d),
        }[bits]
        side = (ATOMS / DENSITY) ** (1 / 3)
        numbers = f"float{bits}"
        atoms = np.random.default_rng(1).random((ATOMS, 3)).astype(np.float32) * np.float32(side)
        self.atoms = wp.array(atoms.astype(numbers), dtype=self.vector)
        self.box = wp.array((np.eye(3) * side)[None].astype(numbers), dtype=matrix)
        self.periodic = wp.array(np.ones(3, bool), dtype=wp.bool)
        self.radius, count = wp.zeros(3, dtype=wp.int32), wp.zeros(1, dtype=wp.int32)
        none = wp.zeros((0, 0), dtype=wp.bool), wp.zeros(0, dtype=wp.vec3i)
        given = [self.box, self.periodic, none[0], self.dtype(RADIUS), ATOMS, count, self.radius, none[1]]
        wp.launch(get_build_cell_list_kernel("estimate_sizes", self.dtype), dim=1, inputs=given)
        cells = int(count.numpy()[0])
        self.extents = wp.zeros(3, dtype=wp.int32)
        self.shifts, self.places = (wp.zeros(ATOMS, dtype=wp.vec3i) for _ in range(2))
        self.counts, self.starts = (wp.zeros(cells, dtype=wp.int32) for _ in range(2))
        self.order = wp.zeros(ATOMS, dtype=wp.int32)

    def run(self) -> None:
        """Build the lists."""
        from nvalchemiops.neighbors.cell_list import launchers

        self.counts.zero_()
        launchers.build_cell_list(
            *(self.atoms, self.box, self.periodic, RADIUS, self.extents, self.shifts, self.places),
            *(self.counts, self.starts, self.order, self.dtype, "cpu"),
        )

    def results(self) -> dict[str, Any]:
        """The atoms of each cell, in their own order: atomics give places in any."""
        starts, counts, order = self.starts.numpy(), self.counts.numpy(), self.order.numpy()
        inside = [np.sort(order[s : s + n]) for s, n in zip(starts, counts, strict=True)]
        return {"counts": counts, "order": np.concatenate(inside), "shifts": self.shifts.numpy()}


class Query:
    """The neighbours of each atom."""

    def __init__(self, path: str, half: bool, vectors: bool, cells: Cells) -> None:
        import warp as wp

        self.cells, self.half = cells, half
        cells.run()
        self.found, self.counts = wp.zeros((ATOMS, MOST), dtype=wp.int32), wp.zeros(ATOMS, dtype=wp.int32)
        self.shifts = wp.zeros((ATOMS, MOST), dtype=wp.vec3i)
        self.options: dict[str, Any] = {"atom_centric_path": path}
        if path == "sorted":
            self.options["sorted_positions"] = wp.zeros(ATOMS, dtype=cells.vector)
            self.options["sorted_atom_periodic_shifts"] = wp.zeros(ATOMS, dtype=wp.vec3i)
        if vectors:
            self.options["neighbor_vectors"] = wp.zeros((ATOMS, MOST), dtype=cells.vector)
            self.options["neighbor_distances"] = wp.zeros((ATOMS, MOST), dtype=cells.dtype)
            self.options |= {"return_vectors": True, "return_distances": True}

    def run(self) -> None:
        """Look for them."""
        from nvalchemiops.neighbors.cell_list import launchers

        self.counts.zero_()
        c = self.cells
        launchers.query_cell_list(
            *(c.atoms, c.box, c.periodic, RADIUS, c.extents, c.radius, c.shifts, c.places),
            *(c.counts, c.starts, c.order, self.found, self.shifts, self.counts, c.dtype, "cpu"),
            half_fill=self.half,
            **self.options,
        )

    def results(self) -> dict[str, Any]:
        """The neighbours of each atom, sorted by their numbers and shifts."""
        counts, found, shifts = self.counts.numpy(), self.found.numpy(), self.shifts.numpy()
        listed = np.arange(MOST) < counts[:, None]
        keys = np.where(listed, found * 1000 + shifts @ [100, 10, 1], np.iinfo(np.int32).max)
        order = np.argsort(keys, axis=1)
        made = {"counts": counts, "keys": np.where(listed, np.sort(keys, axis=1), 0)}
        for name in ("neighbor_vectors", "neighbor_distances"):
            if name in self.options:
                values = self.options[name].numpy()
                at = order.reshape(order.shape + (1,) * (values.ndim - 2))
                kept = listed.reshape(at.shape)
                made[name] = np.where(kept, np.take_along_axis(values, at, axis=1), 0)
        return made
