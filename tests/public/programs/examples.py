"""The examples that come with Warp: each makes its scene and takes a step, and every array that it holds is compared.

They are files of the installed package, and run as they are. Examples that need a CUDA device, a window, or Warp's own
tests are left out, and so are those without a step that can be taken from outside.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.public.packages import WARP_FOLDER
from tests.public.program import Stage

PACKAGE = None
FOLDER = WARP_FOLDER / "warp" / "examples"

EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "core/example_dem": ({"stage_path": None}, "step"),
    "core/example_fdtd_3d": ({}, "step"),
    "core/example_fft_poisson_navier_stokes_2d": ({}, "step"),
    "core/example_fluid": ({}, "step"),
    "core/example_graph_capture": ({}, "step"),
    "core/example_mesh": ({"stage_path": None}, "step"),
    "core/example_mesh_intersect": ({"stage_path": None}, "step"),
    "core/example_nvdb": ({"stage_path": None}, "step"),
    "core/example_raycast": ({}, "render"),
    "core/example_raymarch": ({"height": 256, "width": 512}, "render"),
    "core/example_sample_mesh": ({"stage_path": None}, "step"),
    "core/example_sph": ({"stage_path": None}, "step"),
    "core/example_torch": ({"headless": True}, "step"),
    "core/example_wave": ({"stage_path": None}, "step"),
    "geometry/example_isosurface": ({"stage_path": None}, "step"),
    "geometry/example_sparse_marching_cubes": ({"stage_path": None}, "step"),
    "optim/example_diffray": ({"height": 256}, "step"),
    "optim/example_fluid_checkpoint": ({"sim_steps": 4}, "forward"),
    "optim/example_fluid_checkpoint_custom_backward": ({"sim_steps": 4}, "forward"),
    "optim/example_navier_stokes_perturbation": ({"spin_up_steps": 5, "lead_steps": 5}, "step"),
    "optim/example_particle_repulsion": ({}, "step"),
    "tile/example_tile_nbody": ({"headless": True, "num_bodies": 2048}, "step"),
}
"""What each is made with, and the method that takes a step."""

UNINITIALISED = ("e_x_center_plane_buffer",)
"""Made by ``wp.empty``, and not written by a step."""


def stages() -> Iterator[Stage]:
    """A stage for each example."""
    import warp

    if warp.__name__ != "warp":
        add_assets(warp)
    warp.config.quiet = True
    for name, (arguments, step) in EXAMPLES.items():
        example = Example(name, arguments, step)
        yield Stage(name, example.run, example.results, repeats=2)


def add_assets(warp: Any) -> None:
    """Let programs ask ``warp.examples`` where their scenes are."""
    module = types.ModuleType("warp.examples")
    vars(module).update(get_source_directory=lambda: str(FOLDER), get_asset_directory=lambda: str(FOLDER / "assets"))
    sys.modules["warp.examples"] = warp.examples = module


class Example:
    """An example, made when it first takes a step."""

    def __init__(self, name: str, arguments: dict[str, Any], step: str) -> None:
        self.path, self.arguments, self.step = FOLDER / f"{name}.py", arguments, step
        self.made: Any = None

    def run(self) -> None:
        """Take a step."""
        if self.made is None:
            import warp

            warp.config.enable_backward = True  # some examples switch it off for all
            np.random.seed(1)
            self.made = load(self.path).Example(**self.arguments)
        getattr(self.made, self.step)()

    def results(self) -> dict[str, Any]:
        """Every array of numbers that the example holds, also in lists and in objects of its own."""
        found: dict[str, Any] = {}
        collect(vars(self.made), "", found, depth=3)
        return found


def load(path: Path) -> types.ModuleType:
    """Import a file as a module, which finds what stands beside it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collect(value: Any, name: str, found: dict[str, Any], depth: int) -> None:
    """Add the arrays in ``value`` to ``found``, under names that say where they were."""
    import warp

    inside: Callable[[], Any] | None = None
    if isinstance(value, warp.array):
        numbers = value.numpy()
        if (
            numbers.dtype.kind == "f" and name not in UNINITIALISED
        ):  # integers are often ids, counters or the order of parallel insertions
            found[name] = numbers
    elif isinstance(value, dict):
        inside = value.items
    elif isinstance(value, (list, tuple)):
        inside = lambda: enumerate(value)  # noqa: E731
    elif type(value).__module__.startswith("example_") and hasattr(value, "__dict__"):
        inside = vars(value).items
    if inside is not None and depth:
        for key, item in inside():
            collect(item, f"{name}.{key}" if name else str(key), found, depth - 1)
