"""The viewer: what programs log, checked and copied to the host, frame by frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from warp_like_viewer.arrays import Array, LogError, colours, corners, host, per_item, pixels, rows
from warp_like_viewer.frame import Backend, Camera, Frame, Instances, Item, Lines, Mesh, Points

ORANGE = (0.86, 0.55, 0.24)
BLUE = (0.30, 0.52, 0.80)
GREY = (0.25, 0.25, 0.28)
"""Colours of meshes, points and lines that are logged without."""


class Viewer:
    """Shows what a program logs, through a backend.

    Arrays may be of any framework that `wp.array` takes, on any device. They are copied when they are logged, so the
    program may change them afterwards. Each frame is complete in itself: log everything that is to be seen in it.

    Args:
        backend: What shows the frames, such as `Files("out.gif")`. `"viser"` is short for `Viser()`, `"rerun"` for
            `Rerun()`.
        camera: Where the pictures are taken from. Without one, the first frame with something in it decides. You may
            assign another one to the attribute `camera` at any time.
    """

    def __init__(self, backend: Backend | str, camera: Camera | None = None) -> None:
        self.backend = _named(backend) if isinstance(backend, str) else backend
        self.camera = camera
        self._frame: Frame | None = None
        self._meshes: dict[str, Mesh] = {}
        self._count = 0

    def begin_frame(self, time: float | None = None) -> None:
        """Begin a frame, at a time in seconds; without one, frames are 1/60 s apart.

        Raises:
            RuntimeError: The frame before has not ended.
        """
        if self._frame is not None:
            raise RuntimeError(f"frame {self._frame.number} has not ended: call `end_frame()` before `begin_frame()`")
        self._frame = Frame(self._count, self._count / 60 if time is None else float(time))

    def end_frame(self) -> None:
        """Show what was logged since `begin_frame`.

        Raises:
            RuntimeError: No frame has begun.
        """
        frame = self._open("end_frame")
        frame.camera = self.camera
        self._frame = None
        self._count += 1
        self.backend.show(frame)

    def log_mesh(self, name: str, points: Any, triangles: Any, colors: Any = None, smooth: bool = True) -> None:
        """Log triangles.

        Args:
            name: What the mesh is called. `log_instances` finds it by this name, in later frames as well.
            points: The vertices, (n, 3) or n `wp.vec3`.
            triangles: Indices of the corners, (m, 3) or flat.
            colors: One colour, or one for each vertex; bytes, or floats from 0 to 1.
            smooth: Whether normals are those of vertices, not of triangles.

        Raises:
            LogError: An array has another shape or dtype.
        """
        self._log(name, self._mesh(name, points, triangles, colors, smooth), "log_mesh")

    def add_mesh(self, name: str, points: Any, triangles: Any, colors: Any = None, smooth: bool = True) -> None:
        """Keep a mesh for `log_instances` without showing it. The arguments are those of `log_mesh`."""
        self._mesh(name, points, triangles, colors, smooth)

    def log_points(self, name: str, points: Any, radii: Any = 0.01, colors: Any = None) -> None:
        """Log points, which are shown as spheres.

        Args:
            name: What the points are called.
            points: The centres, (n, 3) or n `wp.vec3`.
            radii: One radius, or one for each point, in the scene's unit.
            colors: One colour, or one for each point; bytes, or floats from 0 to 1.

        Raises:
            LogError: An array has another shape or dtype.
        """
        centres = rows(name, "points", points, 3)
        count = len(centres)
        sizes = per_item(name, "radii", radii, count)
        self._log(name, Points(centres, sizes, colours(name, colors, count, BLUE)), "log_points")

    def log_lines(self, name: str, starts: Any, ends: Any, colors: Any = None, width: float = 2.0) -> None:
        """Log segments.

        Args:
            name: What the lines are called.
            starts: Where the segments begin, (n, 3) or n `wp.vec3`.
            ends: Where they end, as many.
            colors: One colour, or one for each segment; bytes, or floats from 0 to 1.
            width: The width in pixels.

        Raises:
            LogError: An array has another shape or dtype.
        """
        first, last = rows(name, "starts", starts, 3), rows(name, "ends", ends, 3)
        if len(first) != len(last):
            raise LogError(f"ends of {name!r}: expected the shape {first.shape}, as `starts`, got {last.shape}")
        self._log(name, Lines(first, last, colours(name, colors, len(first), GREY), float(width)), "log_lines")

    def log_instances(self, name: str, mesh: str, transforms: Any, scales: Any = None, colors: Any = None) -> None:
        """Log copies of a mesh.

        Args:
            name: What the copies are called.
            mesh: The name of a mesh that was logged before, or kept with `add_mesh`.
            transforms: Positions (n, 3), or n `wp.transform`: (n, 7), positions and quaternions (x, y, z, w).
            scales: A factor for all copies, one for each (n,), or three for each (n, 3).
            colors: One colour, or one for each copy, in place of the mesh's.

        Raises:
            LogError: An array has another shape or dtype, or there is no mesh of this name.
        """
        if mesh not in self._meshes:
            known = ", ".join(map(repr, self._meshes)) or "none"
            raise LogError(f"mesh of {name!r}: expected the name of a mesh that was logged ({known}), got {mesh!r}")
        found = rows(name, "transforms", transforms, 7, 3)
        count = len(found)
        if found.shape[1] == 3:
            found = np.concatenate([found, np.tile(np.float32([0, 0, 0, 1]), (count, 1))], axis=1)
        elif (np.abs(found[:, 3:]).max(axis=1, initial=0.0) == 0.0).any():
            raise LogError(f"transforms of {name!r}: expected quaternions, got one of length 0")
        sizes = _scales(name, scales, count)
        tinted = None if colors is None else colours(name, colors, count, GREY)
        self._log(name, Instances(self._meshes[mesh], found, sizes, tinted), "log_instances")

    def log_scalar(self, name: str, value: Any) -> None:
        """Log a number.

        Raises:
            LogError: It is not one number.
        """
        frame = self._open("log_scalar")
        found = per_item(name, "value", value, 1)
        frame.scalars[name] = float(found[0]) if not isinstance(value, (int, float)) else float(value)

    def log_image(self, name: str, image: Any) -> None:
        """Log a picture: (height, width) or (height, width, 3 or 4), bytes or floats from 0 to 1.

        Raises:
            LogError: The array has another shape or dtype.
        """
        self._open("log_image").images[name] = pixels(name, image)

    def close(self) -> None:
        """Finish what the backend writes. `with Viewer(...) as viewer:` does this at its end."""
        self.backend.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self, method: str) -> Frame:
        if self._frame is None:
            raise RuntimeError(f"no frame has begun: call `begin_frame()` before `{method}()`")
        return self._frame

    def _log(self, name: str, item: Item, method: str) -> None:
        self._open(method).items[name] = item

    def _mesh(self, name: str, points: Any, triangles: Any, colors: Any, smooth: bool) -> Mesh:
        vertices = rows(name, "points", points, 3)
        indices = corners(name, "triangles", triangles, 3, len(vertices))
        self._meshes[name] = mesh = Mesh(vertices, indices, colours(name, colors, len(vertices), ORANGE), smooth)
        return mesh


def _named(name: str) -> Backend:
    """Open a backend that shows frames live.

    Raises:
        ValueError: There is none of this name.
    """
    from warp_like_viewer import Rerun, Viser

    live: dict[str, Callable[[], Backend]] = {"viser": Viser, "rerun": Rerun}
    if name not in live:
        raise ValueError(f"no backend {name!r}: expected 'viser', 'rerun' or an object such as Files({name!r})")
    return live[name]()


def _scales(name: str, scales: Any, count: int) -> Array:
    """Three factors for each of ``count`` copies."""
    if scales is None:
        return np.ones((count, 3), np.float32)
    found = host(name, "scales", scales if np.ndim(scales) or not isinstance(scales, (int, float)) else [scales])
    if found.shape not in ((1,), (count,), (count, 3)):
        raise LogError(
            f"scales of {name!r}: expected one number or the shape ({count},) or ({count}, 3), got {found.shape}"
        )
    return np.broadcast_to(found if found.ndim == 2 else found[:, None], (count, 3)).astype(np.float32)


def fitted(frame: Frame, aspect: float = 16 / 9) -> Camera:
    """Return a camera that sees all of a frame from the front, a little from the right and from above."""
    low, high = bounds(frame)
    middle = (low + high) / 2
    radius = max(float(np.linalg.norm(high - low)) / 2, 1e-6)
    fov = 40.0
    half = math.radians(fov) / 2
    distance = radius / math.sin(min(half, math.atan(math.tan(half) * aspect)))
    away = np.array([0.45, 0.4, 1.0])
    position = middle + distance * away / np.linalg.norm(away)
    return Camera(tuple(position.tolist()), tuple(middle.tolist()), fov=fov)


def bounds(frame: Frame) -> tuple[Any, Any]:
    """Return the lowest and the highest corner of all that a frame holds; not finite numbers are left out."""
    found = [np.zeros((0, 3), np.float32)]
    for item in frame.items.values():
        if isinstance(item, Points):
            found += [item.points - item.radii[:, None], item.points + item.radii[:, None]]
        elif isinstance(item, Lines):
            found += [item.starts, item.ends]
        else:
            found.append((item.merged() if isinstance(item, Instances) else item).points)
    points = np.concatenate(found)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.full(3, -1.0), np.full(3, 1.0)
    return points.min(axis=0).astype(float), points.max(axis=0).astype(float)
