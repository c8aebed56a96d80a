"""Swept volumes: the space that moving meshes pass through, as a field of distances on a grid and as triangles.

At a point the field is the least of the signed distances from all meshes in all of their poses. The motion is rigid, so
the point is moved into the mesh's own frame, and the mesh's tree is asked there.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

import warp_like as wp
from warp_like.geometry.iso_surface import Bound, require_corner, require_threshold
from warp_like.geometry.marching_cubes import IsoSurfaceMarchingCubes
from warp_like.geometry.sparse_cubes import require_count, require_positive
from warp_like.runtime.memory.recorder import paused, refuse_capture


class SweptVolumeSignMode(enum.IntEnum):
    """How to tell the inside of a mesh from its outside; see the functions ``wp.mesh_query_point_sign_*``."""

    NORMAL = 0
    """By the normals next to the nearest point: fast; the mesh is closed."""
    WINDING_NUMBER = 1
    """By the winding number: also for meshes with holes, made with ``support_winding_number=True``."""
    PARITY = 2
    """By counting faces along rays: the mesh is closed."""
    NO_SIGN = 3
    """Not at all: distances are positive on both sides."""


_NORMAL = int(SweptVolumeSignMode.NORMAL)
_WINDING_NUMBER = int(SweptVolumeSignMode.WINDING_NUMBER)
_PARITY = int(SweptVolumeSignMode.PARITY)


@wp.func
def _mesh_distance(mesh: wp.uint64, x: wp.vec3, max_dist: float, sign_mode: int) -> float:
    """Return the signed distance from a mesh, ``max_dist`` where it is farther."""
    sign = 1.0
    if sign_mode == _NORMAL:
        query = wp.mesh_query_point_sign_normal(mesh, x, max_dist)
        sign = query.sign
    elif sign_mode == _WINDING_NUMBER:
        query = wp.mesh_query_point_sign_winding_number(mesh, x, max_dist)
        sign = query.sign
    elif sign_mode == _PARITY:
        query = wp.mesh_query_point_sign_parity(mesh, x, max_dist)
        sign = query.sign
    else:
        query = wp.mesh_query_point_no_sign(mesh, x, max_dist)
    if not query.result:
        return max_dist
    return sign * wp.length(wp.mesh_eval_position(mesh, query.face, query.u, query.v) - x)


@wp.func
def swept_volume_sdf(
    point: wp.vec3,
    mesh_ids: wp.array[wp.uint64],
    transforms: wp.array2d[wp.transform],
    max_dist: float,
    sign_mode: int,
) -> float:
    """Return the least signed distance of a point from meshes in their poses, a function for kernels.

    Args:
        point: A point in the world.
        mesh_ids: The ``id`` of each mesh.
        transforms: The poses of each mesh, from its own frame to the world, of shape ``(meshes, poses)``.
        max_dist: How far to search. Where no mesh is nearer, also deep inside of one, the result is ``max_dist``.
        sign_mode: A ``SweptVolumeSignMode`` as an integer.

    Example:
        >>> import warp_like.geometry
        >>> corners = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3)
        >>> faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int)
        >>> mesh = wp.Mesh(corners, faces, support_winding_number=True)
        >>> poses = np.array([[[0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 1]]], np.float32)  # here, then at x + 2
        >>> mode = wp.constant(int(wp.geometry.SweptVolumeSignMode.WINDING_NUMBER))
        >>> @wp.kernel
        ... def look(ids: wp.array(dtype=wp.uint64), poses: wp.array2d(dtype=wp.transform), out: wp.array(dtype=float)):
        ...     out[0] = wp.geometry.swept_volume_sdf(wp.vec3(2.1, 0.1, 0.1), ids, poses, 10.0, mode)
        >>> ids, out = wp.array([int(mesh.id)], dtype=wp.uint64), wp.zeros(1, dtype=float)
        >>> wp.launch(look, dim=1, inputs=[ids, wp.array(poses, dtype=wp.transform)], outputs=[out])
        >>> round(out.list()[0], 3)
        -0.1
    """
    least = max_dist
    for m in range(transforms.shape[0]):
        for s in range(transforms.shape[1]):
            x = wp.transform_point(wp.transform_inverse(transforms[m, s]), point)
            least = wp.min(least, _mesh_distance(mesh_ids[m], x, max_dist, sign_mode))
    return least


@wp.kernel(enable_backward=False)
def _fill(
    mesh_ids: wp.array[wp.uint64],
    transforms: wp.array2d[wp.transform],
    max_dist: float,
    sign_mode: int,
    lower: wp.vec3,
    spacing: wp.vec3,
    field: wp.array3d[float],
) -> None:
    i, j, k = wp.tid()
    point = lower + wp.cw_mul(wp.vec3(float(i), float(j), float(k)), spacing)
    field[i, j, k] = swept_volume_sdf(point, mesh_ids, transforms, max_dist, sign_mode)


def _require_poses(function: str, meshes: Sequence[Any], transforms: Any, device: Any) -> tuple[Any, Any]:
    """Return the device and the poses on it, once they fit the meshes."""
    if isinstance(meshes, wp.Mesh) or not isinstance(meshes, Sequence):
        raise TypeError(f"{function}: `meshes` is a list of wp.Mesh, got {meshes!r}")
    if not meshes:
        raise ValueError(f"{function}: `meshes` has at least one mesh")
    for mesh in meshes:
        if not isinstance(mesh, wp.Mesh):
            raise TypeError(f"{function}: `meshes` are wp.Mesh, got {mesh!r}")
    where = wp.get_device(meshes[0].device if device is None else device)
    if any(mesh.device != where for mesh in meshes):
        raise ValueError(f"{function}: `meshes` are on {where}, got one on another device")
    if not isinstance(transforms, wp.array):
        host = np.asarray(transforms, np.float32)
        if host.ndim != 3 or host.shape[2] != 7:
            raise ValueError(f"{function}: `transforms` has the shape (meshes, poses, 7), got {host.shape}")
        transforms = wp.array(host, dtype=wp.transform, device=where)
    if transforms.dtype != wp.transform:
        raise TypeError(f"{function}: `transforms` is an array of wp.transform, got {transforms.dtype.__name__}")
    if transforms.ndim != 2 or transforms.shape[0] != len(meshes) or not transforms.shape[1]:
        raise ValueError(
            f"{function}: `transforms` has a row for each of {len(meshes)} meshes and at least one pose, "
            f"got {transforms.shape}"
        )
    return where, transforms


def _bounds(function: str, meshes: Sequence[Any], transforms: Any) -> tuple[Any, Any]:
    """Return the corners of a box around all poses of the meshes' boxes, in float64."""
    poses = transforms.numpy().astype(np.float64)
    corners = []
    for mesh, rows in zip(meshes, poses, strict=True):
        points = mesh.points.numpy().astype(np.float64)
        if not len(points):
            continue
        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        box = np.stack(np.meshgrid(*ends.T, indexing="ij"), axis=-1).reshape(1, 8, 3)
        place, axis, w = rows[:, None, :3], rows[:, None, 3:6], rows[:, None, 6:]
        turned = box + 2 * np.cross(axis, np.cross(axis, box) + w * box)
        corners.append((turned + place).reshape(-1, 3))
    if not corners:
        raise ValueError(f"{function}: `meshes` have no vertices")
    every = np.concatenate(corners)
    if not np.isfinite(every).all():
        raise ValueError(f"{function}: `meshes` and `transforms` have finite numbers, got others")
    return every.min(axis=0), every.max(axis=0)


def swept_volume_bounds(
    meshes: Sequence[Any], transforms: Any, padding: float = 0.0, device: Any = None
) -> tuple[Any, Any]:
    """Return the corners of a box that has the boxes of all meshes in all of their poses, two ``wp.vec3``.

    Args:
        meshes: Meshes, each in its own frame.
        transforms: As in ``swept_volume_field``.
        padding: How much larger the box is on each side.
        device: The meshes' device, or None.

    Raises:
        ValueError: As in ``swept_volume_field``; or no mesh has a vertex.
        TypeError: As in ``swept_volume_field``.

    Example:
        >>> import warp_like.geometry
        >>> corners = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3)
        >>> faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int)
        >>> mesh = wp.Mesh(corners, faces, support_winding_number=True)
        >>> poses = np.array([[[0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 1]]], np.float32)  # here, then at x + 2
        >>> low, high = wp.geometry.swept_volume_bounds([mesh], poses, padding=0.5)
        >>> list(low), list(high)
        ([-0.5, -0.5, -0.5], [3.5, 1.5, 1.5])
    """
    function = "swept_volume_bounds()"
    refuse_capture(function)
    with paused():
        _, transforms = _require_poses(function, meshes, transforms, device)
        low, high = _bounds(function, meshes, transforms)
    return wp.vec3(*(low - padding)), wp.vec3(*(high + padding))


def _grid(
    function: str, box: tuple[Any, Any], voxel_size: Any, resolution: Any, corners: tuple[Bound, Bound], room: float
) -> tuple[tuple[int, ...], Any, Any]:
    """Return the numbers of nodes, and where the first and the last node lie."""
    if (voxel_size is None) == (resolution is None):
        raise ValueError(f"{function}: give either `voxel_size` or `resolution`")
    if (corners[0] is None) != (corners[1] is None):
        raise ValueError(f"{function}: give both `lower` and `upper`, or neither")
    low, high = box
    if voxel_size is not None:
        if corners[0] is not None:
            raise ValueError(f"{function}: `lower` and `upper` go with `resolution`, not with `voxel_size`")
        h = require_positive(function, "voxel_size", voxel_size)
        begin = low - (room + 2 * h)
        counts = np.ceil((high + room + 2 * h - begin) / h)
        if max(counts) >= 2**31 - 1:
            raise ValueError(f"{function}: `voxel_size` {h} is too small for a box from {low} to {high}")
        cells = counts.astype(int)
        return tuple(map(int, cells + 1)), begin, begin + cells * h
    if np.shape(resolution) != (3,):
        raise ValueError(f"{function}: `resolution` is three numbers of nodes, got {resolution!r}")
    shape = tuple(require_count(function, "resolution", n, 2, 2**31 - 1) for n in resolution)
    if corners[0] is not None:
        pair = zip(("lower", "upper"), corners, strict=True)
        begin, end = (np.array(list(require_corner(function, *item)), np.float64) for item in pair)
        return shape, begin, end
    reach = room + 2 * max((high - low) / np.maximum(np.array(shape) - 5, 1))
    return shape, low - reach, high + reach


def _field(
    function: str, meshes: Sequence[Any], transforms: Any, sign_mode: Any, device: Any, room: float, **grid: Any
) -> tuple[Any, Any, Any]:
    refuse_capture(function)
    mode = SweptVolumeSignMode(sign_mode)
    with paused():
        where, transforms = _require_poses(function, meshes, transforms, device)
        if mode == SweptVolumeSignMode.WINDING_NUMBER and not all(m.support_winding_number for m in meshes):
            raise ValueError(f"{function}: `meshes` made with support_winding_number=True have winding numbers")
        box = _bounds(function, meshes, transforms)
        shape, begin, end = _grid(function, box, grid["voxel_size"], grid["resolution"], grid["corners"], room)
        far = 2.0 * float(np.linalg.norm(np.maximum(end, box[1]) - np.minimum(begin, box[0])))
        ids = wp.array([int(mesh.id) for mesh in meshes], dtype=wp.uint64, device=where)
        field = wp.empty(shape, dtype=float, device=where)
        lower, spacing = wp.vec3(*begin), wp.vec3(*((end - begin) / (np.array(shape) - 1)))
        wp.launch(_fill, dim=shape, inputs=[ids, transforms, far, int(mode), lower, spacing, field], device=where)
    return field, lower, wp.vec3(*end)


def swept_volume_field(
    meshes: Sequence[Any],
    transforms: Any,
    voxel_size: float | None = None,
    *,
    resolution: tuple[int, int, int] | None = None,
    lower: Bound = None,
    upper: Bound = None,
    sign_mode: SweptVolumeSignMode = SweptVolumeSignMode.WINDING_NUMBER,
    device: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the distances of a grid's nodes from the volume that moving meshes pass through.

    Values are negative inside of a mesh in any of its poses. Between the poses nothing is known: give enough of them.
    There are no gradients.

    Args:
        meshes: Meshes, each in its own frame.
        transforms: The poses, with rotations of length 1: an array of ``wp.transform`` of shape ``(meshes, poses)``, or
            what NumPy makes an array of shape ``(meshes, poses, 7)`` of.
        voxel_size: The distance between nodes. The grid then has the meshes with two cells of room around them.
        resolution: The numbers of nodes instead.
        lower: Where the first node lies, with ``resolution``; None for a grid that has the meshes.
        upper: Where the last node lies; given with ``lower``.
        sign_mode: How to tell inside from outside.
        device: The meshes' device, or None.

    Returns:
        An array of float32 with three dimensions, and where its first and its last node lie, two ``wp.vec3``.

    Raises:
        ValueError: Shapes or devices do not fit, not just one of ``voxel_size`` and ``resolution`` is given, a number
            is out of range, or the sign mode asks for winding numbers that a mesh does not have.
        TypeError: An argument has another type.
        RuntimeError: The thread captures a graph: the size of the grid has to be known.

    Example:
        >>> import warp_like.geometry
        >>> corners = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3)
        >>> faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int)
        >>> mesh = wp.Mesh(corners, faces, support_winding_number=True)
        >>> poses = np.array([[[0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 1]]], np.float32)  # here, then at x + 2
        >>> field, low, high = wp.geometry.swept_volume_field([mesh], poses, resolution=(9, 5, 5))
        >>> field.shape
        (9, 5, 5)
        >>> box = {"lower": (0.1, 0.1, 0.1), "upper": (3.0, 1.0, 1.0)}
        >>> field, low, high = wp.geometry.swept_volume_field([mesh], poses, resolution=(2, 2, 2), **box)
        >>> [round(float(field[i, 0, 0]), 3) for i in (0, 1)]  # inside, and beside the second pose
        [-0.1, 0.115]
    """
    grid = {"voxel_size": voxel_size, "resolution": resolution, "corners": (lower, upper)}
    return _field("swept_volume_field()", meshes, transforms, sign_mode, device, 0.0, **grid)


def swept_volume_mesh(
    meshes: Sequence[Any],
    transforms: Any,
    voxel_size: float | None = None,
    *,
    resolution: tuple[int, int, int] | None = None,
    lower: Bound = None,
    upper: Bound = None,
    threshold: float = 0.0,
    sign_mode: SweptVolumeSignMode = SweptVolumeSignMode.WINDING_NUMBER,
    device: Any = None,
) -> tuple[Any, Any]:
    """Return the surface of the volume that moving meshes pass through, by marching cubes.

    Args:
        meshes: As in ``swept_volume_field``.
        transforms: As in ``swept_volume_field``.
        voxel_size: As in ``swept_volume_field``.
        resolution: As in ``swept_volume_field``.
        lower: As in ``swept_volume_field``.
        upper: As in ``swept_volume_field``.
        threshold: The distance on the surface. From half of a cell's diagonal on, the surface has all poses inside.
            Without signs it has to be positive.
        sign_mode: How to tell inside from outside.
        device: The meshes' device, or None.

    Returns:
        An array of ``wp.vec3``, and one of int32 with three numbers for each triangle.

    Raises:
        ValueError: As in ``swept_volume_field``.
        TypeError: As in ``swept_volume_field``.
        RuntimeError: As in ``swept_volume_field``.

    Example:
        >>> import warp_like.geometry
        >>> corners = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3)
        >>> faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int)
        >>> mesh = wp.Mesh(corners, faces, support_winding_number=True)
        >>> poses = np.array([[[0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 1]]], np.float32)  # here, then at x + 2
        >>> verts, indices = wp.geometry.swept_volume_mesh([mesh], poses, voxel_size=0.1)
        >>> x = verts.numpy()[:, 0]  # from one end to the other, whose tip is thinner than a cell
        >>> bool(abs(x.min()) < 0.05 and 2.5 < x.max() < 3.0), indices.size % 3
        (True, 0)
    """
    function = "swept_volume_mesh()"
    threshold = require_threshold(function, threshold)
    if sign_mode == SweptVolumeSignMode.NO_SIGN and threshold <= 0:
        raise ValueError(f"{function}: `threshold` is positive for distances without signs, got {threshold}")
    grid = {"voxel_size": voxel_size, "resolution": resolution, "corners": (lower, upper)}
    field, begin, end = _field(function, meshes, transforms, sign_mode, device, max(threshold, 0.0), **grid)
    return IsoSurfaceMarchingCubes.extract(field, threshold, lower=begin, upper=end)
