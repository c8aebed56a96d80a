"""What a frame holds, as data: backends draw it, and a recording keeps it. All arrays are copies on the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from warp_like_viewer.arrays import Array


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from.

    Args:
        position: Where the camera is.
        target: The point in the middle of the picture.
        up: The direction that is up in the picture.
        fov: The angle between the upper and the lower edge, in degrees.
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    fov: float = 40.0


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles: ``points`` (n, 3), ``triangles`` (m, 3), a colour for each point."""

    points: Array
    triangles: Array
    colors: Array
    smooth: bool


@dataclass(frozen=True, eq=False)
class Points:
    """Spheres: ``points`` (n, 3), ``radii`` (n,) in the scene's unit, ``colors`` (n, 3)."""

    points: Array
    radii: Array
    colors: Array


@dataclass(frozen=True, eq=False)
class Lines:
    """Segments: ``starts`` and ``ends`` (n, 3), ``colors`` (n, 3), the width in pixels."""

    starts: Array
    ends: Array
    colors: Array
    width: float


@dataclass(frozen=True, eq=False)
class Instances:
    """Copies of a mesh: ``transforms`` (n, 7) as position and quaternion (x, y, z, w), ``scales`` (n, 3)."""

    mesh: Mesh
    transforms: Array
    scales: Array
    colors: Array | None

    def matrices(self) -> Array:
        """Return the linear part of each copy's transform: (n, 3, 3)."""
        q = self.transforms[:, 3:7].astype(np.float64)
        x, y, z, w = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
        turned = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        return (turned.transpose(2, 0, 1) * self.scales[:, None, :]).astype(np.float32)

    def merged(self) -> Mesh:
        """Return all copies as one mesh."""
        mesh, count = self.mesh, len(self.transforms)
        moved = np.einsum("nij,vj->nvi", self.matrices(), mesh.points) + self.transforms[:, None, :3]
        first = np.arange(count, dtype=np.int32) * len(mesh.points)
        triangles = mesh.triangles[None] + first[:, None, None]
        if self.colors is None:
            colors = np.broadcast_to(mesh.colors, (count, *mesh.colors.shape))
        else:
            colors = np.repeat(self.colors, len(mesh.points), axis=0)
        return Mesh(
            moved.reshape(-1, 3).astype(np.float32), triangles.reshape(-1, 3), colors.reshape(-1, 3), mesh.smooth
        )


Item = Mesh | Points | Lines | Instances


@dataclass(eq=False)
class Frame:
    """What was logged between ``begin_frame`` and ``end_frame``, by name."""

    number: int
    time: float
    camera: Camera | None = None
    items: dict[str, Item] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    images: dict[str, Array] = field(default_factory=dict)


class Backend(Protocol):
    """What shows frames. A frame is complete in itself: what it does not hold is not shown."""

    def show(self, frame: Frame) -> None:
        """Show or keep a frame."""

    def close(self) -> None:
        """Finish files and free what was opened."""
