"""A backend that logs frames for the viewer of Rerun, through the package rerun-sdk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warp_like_viewer.arrays import Array
from warp_like_viewer.frame import Camera, Frame, Instances, Item, Lines, Mesh, Points

UP = ("RIGHT_HAND_X_UP", "RIGHT_HAND_Y_UP", "RIGHT_HAND_Z_UP")
"""Rerun's names of scenes whose first, second or third axis is up."""


class Rerun:
    """Logs frames for Rerun, which shows them with a time line: to a file, or to its window.

    Each frame has its number on the time line `frame` and its seconds on `time`.

    Args:
        path: The file, such as `out.rrd`; `rerun out.rrd` shows it. Without one, Rerun's window opens.
        name: The name of the recording in the window.

    Raises:
        ModuleNotFoundError: The package rerun-sdk is not installed.
    """

    def __init__(self, path: str | Path | None = None, name: str = "warp_like") -> None:
        try:
            import rerun
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Rerun needs its package: `pip install rerun-sdk`, or write files: `Files('out.gif')`", name=error.name
            ) from error
        self._rerun = rerun
        self.stream = rerun.RecordingStream(name)
        self._logged: dict[str, Item | None] = {}
        self._camera: Camera | None = None
        if path is None:
            self.stream.spawn()
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self.stream.save(path)

    def show(self, frame: Frame) -> None:
        """Log a frame."""
        self.stream.set_time("frame", sequence=frame.number)
        self.stream.set_time("time", duration=frame.time)
        if frame.camera is not None and frame.camera != self._camera:
            self._camera = frame.camera
            up = UP[int(np.abs(frame.camera.up).argmax())]
            self.stream.log("/", getattr(self._rerun.ViewCoordinates, up), static=True)
        present = {*frame.items, *frame.scalars, *frame.images}
        for name in [name for name in self._logged if name not in present]:
            del self._logged[name]
            self.stream.log(name.split("/"), self._rerun.Clear(recursive=False))
        for name, item in frame.items.items():
            self._log(name, item)
        for name, value in frame.scalars.items():
            self._mark(name, None, self._rerun.Scalars([value]))
        for name, image in frame.images.items():
            self._mark(name, None, self._rerun.Image(image))

    def close(self) -> None:
        """Finish the file, or leave the window."""
        self.stream.flush()
        self.stream.disconnect()

    def _mark(self, name: str, item: Item | None, *values: Any) -> None:
        """Log values under a name; what another kind of item left there is cleared."""
        if name in self._logged and type(self._logged[name]) is not type(item):
            self.stream.log(name.split("/"), self._rerun.Clear(recursive=False))
        self._logged[name] = item
        self.stream.log(name.split("/"), *values)

    def _log(self, name: str, item: Item) -> None:
        rr = self._rerun
        if isinstance(item, Mesh):
            self._mark(name, item, self._mesh(item))
        elif isinstance(item, Points):
            self._mark(name, item, rr.Points3D(item.points, radii=item.radii, colors=item.colors))
        elif isinstance(item, Lines):
            width = rr.components.Radius.ui_points(item.width / 2)
            strips = np.stack([item.starts, item.ends], axis=1)
            self._mark(name, item, rr.LineStrips3D(strips, radii=width, colors=item.colors))
        elif item.colors is not None:  # Rerun's copies share the colours of their mesh
            self._log(name, item.merged())
        else:
            self._instances(name, item)

    def _instances(self, name: str, item: Instances) -> None:
        """Log copies; their mesh alone where it is another than in the frame before."""
        old = self._logged.get(name)
        same = isinstance(old, Instances) and old.mesh is item.mesh
        moved = item.transforms
        poses = self._rerun.InstancePoses3D(translations=moved[:, :3], quaternions=moved[:, 3:], scales=item.scales)
        self._mark(name, item, poses, *([] if same else [self._mesh(item.mesh)]))

    def _mesh(self, mesh: Mesh) -> Any:
        """A mesh as Rerun takes it: with corners of their own where each triangle has its own normal."""
        points, faces, colors = mesh.points, mesh.triangles, mesh.colors
        if not mesh.smooth:
            points, colors = points[faces].reshape(-1, 3), colors[faces].reshape(-1, 3)
            faces = np.arange(len(points), dtype=np.uint32).reshape(-1, 3)
        return self._rerun.Mesh3D(
            vertex_positions=points,
            triangle_indices=faces,
            vertex_normals=_normals(points, faces),
            vertex_colors=colors,
        )


def _normals(points: Array, faces: Array) -> Array:
    """The mean normal of the triangles at each vertex."""
    a, b, c = (points[faces[:, k]] for k in range(3))
    normals = np.zeros_like(points)
    for corner in range(3):
        np.add.at(normals, faces[:, corner], np.cross(b - a, c - a))
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-20)
