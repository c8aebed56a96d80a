"""A frame's picture: its items gathered into a few arrays, drawn and shaded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import warp_like as wp
from warp_like_viewer import raster, shading
from warp_like_viewer.arrays import Array
from warp_like_viewer.frame import Camera, Frame, Instances, Lines, Mesh, Points


@dataclass(frozen=True, eq=False)
class Scene:
    """All items of a frame, by kind; what is not finite is left out."""

    points: Array
    colors: Array
    triangles: Array
    smooth: Array
    centres: Array
    radii: Array
    sphere_colors: Array
    starts: Array
    ends: Array
    widths: Array
    line_colors: Array


def gathered(frame: Frame) -> Scene:
    """Return the items of a frame as one array for each quantity."""
    items = [item.merged() if isinstance(item, Instances) else item for item in frame.items.values()]
    meshes = [item for item in items if isinstance(item, Mesh)]
    spheres = [item for item in items if isinstance(item, Points)]
    lines = [item for item in items if isinstance(item, Lines)]
    firsts = np.cumsum([0, *(len(m.points) for m in meshes)])
    points = _joined([m.points for m in meshes], 3)
    triangles = _joined([m.triangles + first for m, first in zip(meshes, firsts, strict=False)], 3, np.int32)
    smooth = _joined([np.full(len(m.triangles), m.smooth, np.uint8) for m in meshes], None, np.uint8)
    whole = np.isfinite(points).all(axis=1)[triangles].all(axis=1)
    centres, radii = _joined([s.points for s in spheres], 3), _joined([s.radii for s in spheres], None)
    seen = np.isfinite(centres).all(axis=1) & (radii > 0) & np.isfinite(radii)
    starts, ends = _joined([s.starts for s in lines], 3), _joined([s.ends for s in lines], 3)
    there = np.isfinite(starts).all(axis=1) & np.isfinite(ends).all(axis=1)
    widths = _joined([np.full(len(s.starts), s.width, np.float32) for s in lines], None)
    return Scene(
        points=points,
        colors=_joined([m.colors for m in meshes], 3),
        triangles=triangles[whole],
        smooth=smooth[whole],
        centres=centres[seen],
        radii=radii[seen],
        sphere_colors=_joined([s.colors for s in spheres], 3)[seen],
        starts=starts[there],
        ends=ends[there],
        widths=widths[there],
        line_colors=_joined([s.colors for s in lines], 3)[there],
    )


def _joined(parts: list[Array], width: int | None, dtype: type = np.float32) -> Array:
    """The parts one after the other; an empty array where there are none."""
    empty = np.empty((0,) if width is None else (0, width), dtype)
    return np.ascontiguousarray(np.concatenate([empty, *parts]), dtype)


def _view(camera: Camera, width: int, height: int) -> raster.View:
    """A camera for kernels.

    Raises:
        ValueError: The camera looks nowhere, or along its own `up`.
    """
    position, target, up = (np.array(v, float) for v in (camera.position, camera.target, camera.up))
    back = position - target
    distance = float(np.linalg.norm(back))
    right = np.cross(up, back)
    if not distance > 0 or not np.linalg.norm(right) > 1e-9 * distance * np.linalg.norm(up):
        raise ValueError(
            f"{camera}: `position` and `target` must differ, and `up` must not be the direction between them"
        )
    back, right = back / distance, right / np.linalg.norm(right)
    view = raster.View()
    view.right, view.up, view.back = wp.vec3(*right), wp.vec3(*np.cross(back, right)), wp.vec3(*back)
    view.position = wp.vec3(*position)
    view.focal = 0.5 * height / math.tan(0.5 * math.radians(camera.fov))
    view.width, view.height = width, height
    view.near = raster.NEAR * distance
    return view


def render(frame: Frame, camera: Camera, size: tuple[int, int], samples: int = 2) -> Array:
    """Return the picture of a frame's items: (height, width, 3) bytes.

    Args:
        frame: What is drawn.
        camera: Where the picture is taken from.
        size: Width and height in pixels.
        samples: Rows and columns of samples in each pixel, whose mean is the pixel's colour.
    """
    with wp.ScopedDevice("cpu"):
        scene = gathered(frame)
        width, height = size[0] * samples, size[1] * samples
        view = _view(camera, width, height)
        result = np.empty((size[1], size[0], 3), np.uint8)
        _shade(scene, view, samples, _drawn(scene, view, samples), result)
        return result


def _drawn(scene: Scene, view: raster.View, samples: int) -> Array:
    """The depth buffer."""
    depth = np.zeros((view.height, view.width), np.uint64)
    triangles = len(scene.triangles)
    if triangles:
        projected = np.empty_like(scene.points)
        wp.launch(raster.project_points, dim=len(projected), inputs=[view, _vectors(scene.points), _vectors(projected)])
        projected, corners = _vectors(projected), _vectors(scene.triangles, wp.vec3i)
        large = np.empty(triangles, np.uint8)
        wp.launch(raster.find_large, dim=triangles, inputs=[view, projected, corners, large])
        for kind, bands in ((0, 1), (1, 64)):
            chosen = np.flatnonzero(large == kind).astype(np.int32)
            inputs = [view, projected, corners, chosen, bands, depth]
            wp.launch(raster.draw_triangles, dim=(len(chosen), bands), inputs=inputs)
    spheres = [view, _vectors(scene.centres), scene.radii, triangles, depth]
    wp.launch(raster.draw_spheres, dim=len(scene.centres), inputs=spheres)
    first = triangles + len(scene.centres)
    lines = [view, _vectors(scene.starts), _vectors(scene.ends), scene.widths * samples, first, depth]
    wp.launch(raster.draw_lines, dim=len(scene.starts), inputs=lines)
    return depth


def _shade(scene: Scene, view: raster.View, samples: int, depth: Array, result: Array) -> None:
    """Write the picture."""
    points, corners = _vectors(scene.points), _vectors(scene.triangles, wp.vec3i)
    sums = np.zeros(scene.points.shape, np.int32)
    wp.launch(shading.sum_normals, dim=len(corners), inputs=[points, corners, scene.smooth, sums])
    normals = wp.empty(len(points), dtype=wp.vec3)
    wp.launch(shading.mean_normals, dim=len(points), inputs=[sums, normals])
    surface = [points, _vectors(scene.colors), corners, scene.smooth, normals]
    spheres = [_vectors(scene.centres), scene.radii, _vectors(scene.sphere_colors)]
    inputs = [view, samples, depth, *surface, *spheres, _vectors(scene.line_colors), result]
    wp.launch(shading.shade, dim=result.shape[:2], inputs=inputs)


def _vectors(rows: Array, dtype: type = wp.vec3) -> wp.array:
    """An array of vectors over the memory of rows."""
    return wp.array(rows, dtype=dtype, copy=False)
