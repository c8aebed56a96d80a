"""XLB: 20 steps of the lattice Boltzmann method in a box with a moving lid, on several lattices.

Its kernels are declared in methods and read attributes of objects: ``range(self.velocity_set.q)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.public.program import Stage

PACKAGE = "xlb"

STEPS = 20

CASES = (
    ("D2Q9", "BGK", "FP32FP32"),
    ("D3Q19", "BGK", "FP32FP32"),
    ("D3Q27", "KBC", "FP32FP32"),
    ("D3Q19", "BGK", "FP64FP64"),
    ("D3Q27", "SmagorinskyLESBGK", "FP32FP32"),
    ("D3Q19", "BGK", "FP32FP16"),
)
"""The lattice, the model of collisions, and the precision that is computed in and stored."""


def stages() -> Iterator[Stage]:
    """A stage for each case."""
    for lattice, collision, precision in CASES:
        cavity = Cavity(lattice, collision, precision)
        yield Stage(f"{lattice} {collision} {precision}", cavity.run, cavity.results)


class Cavity:
    """A box of which the lid moves."""

    def __init__(self, lattice: str, collision: str, precision: str) -> None:
        self.lattice, self.collision, self.precision = lattice, collision, precision
        self.stepper: Any = None
        self.at_rest: tuple[Any, ...] = ()
        self.f: Any = None

    def run(self) -> None:
        """Take the steps from rest."""
        import warp as wp

        if self.stepper is None:
            self.stepper = self.made()
            self.at_rest = self.stepper.prepare_fields()
        f0, f1, boundary, missing = map(wp.clone, self.at_rest)
        for step in range(STEPS):
            f0, f1 = self.stepper(f0, f1, boundary, missing, 1.0, step)
            f0, f1 = f1, f0
        self.f = f0

    def results(self) -> dict[str, Any]:
        """The populations."""
        return {"f": self.f.numpy()}

    def made(self) -> Any:
        """Return the stepper with its boundaries."""
        import xlb
        from xlb.grid import grid_factory
        from xlb.operator.boundary_condition import EquilibriumBC, HalfwayBounceBackBC
        from xlb.operator.stepper import IncompressibleNavierStokesStepper

        backend, policy = xlb.ComputeBackend.WARP, xlb.PrecisionPolicy[self.precision]
        velocities = getattr(xlb.velocity_set, self.lattice)(precision_policy=policy, compute_backend=backend)
        xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=policy)
        ndim = velocities.d
        grid = grid_factory((16, 12) if ndim == 2 else (10, 9, 8), compute_backend=backend)
        box = grid.bounding_box_indices()
        lid = grid.bounding_box_indices(remove_edges=True)["top"]
        sides = ("bottom", "left", "right", "front", "back")[: 3 if ndim == 2 else 5]
        walls = np.unique(np.concatenate([np.array(box[side]) for side in sides], axis=1), axis=1)
        conditions = [
            EquilibriumBC(rho=1.0, u=(0.05, *[0.0] * (ndim - 1)), indices=lid),
            HalfwayBounceBackBC(indices=walls.tolist()),
        ]
        return IncompressibleNavierStokesStepper(
            grid=grid, boundary_conditions=conditions, collision_type=self.collision
        )
