"""The second half of the rasteriser: the colour of each pixel, from the item that is nearest there."""

from __future__ import annotations

import warp_like as wp
from warp_like_viewer.raster import LAST, View, project

UNIT = wp.constant(1048576.0)
"""Normals are summed as integers, which gives one sum in every order: so many units are the length 1."""


@wp.func
def face_normal(points: wp.array(dtype=wp.vec3), t: wp.vec3i) -> wp.vec3:
    """Return the normal of a triangle, of length 1."""
    a = points[t[0]]
    return wp.normalize(wp.cross(points[t[1]] - a, points[t[2]] - a))


@wp.kernel
def sum_normals(
    points: wp.array(dtype=wp.vec3),
    triangles: wp.array(dtype=wp.vec3i),
    smooth: wp.array(dtype=wp.uint8),
    sums: wp.array2d(dtype=int),
) -> None:
    """Add the normals of smooth triangles to those of their corners."""
    i = wp.tid()
    if smooth[i] == wp.uint8(0):
        return
    t = triangles[i]
    n = face_normal(points, t) * UNIT
    for corner in range(3):
        for axis in range(3):
            wp.atomic_add(sums, t[corner], axis, int(n[axis]))


@wp.kernel
def mean_normals(sums: wp.array2d(dtype=int), normals: wp.array(dtype=wp.vec3)) -> None:
    """Write the mean normal of each vertex; 0 where it has no smooth triangle."""
    i = wp.tid()
    normals[i] = wp.normalize(wp.vec3(float(sums[i, 0]), float(sums[i, 1]), float(sums[i, 2])))


@wp.func
def lit(colour: wp.vec3, normal: wp.vec3, towards: wp.vec3, view: View) -> wp.vec3:
    """Return a surface's colour under a light beside the camera and a sky; both sides are lit."""
    n = wp.where(wp.dot(normal, towards) < 0.0, -normal, normal)
    light = wp.normalize(view.back + 0.5 * view.up + 0.35 * view.right)
    diffuse = wp.max(wp.dot(n, light), 0.0)
    sky = 0.5 + 0.5 * wp.dot(n, view.up)
    half = wp.normalize(light + towards)
    near = wp.max(wp.dot(n, half), 0.0)
    power = near * near * near * near
    power = power * power * power  # 12
    shine = power * power * power * 0.12  # the highlight falls as the 36th power
    strength = 0.28 + 0.14 * sky + 0.62 * diffuse
    return colour * strength + wp.vec3(shine, shine, shine)


@wp.func
def triangle_colour(
    view: View,
    points: wp.array(dtype=wp.vec3),
    colors: wp.array(dtype=wp.vec3),
    t: wp.vec3i,
    smooth: wp.uint8,
    normals: wp.array(dtype=wp.vec3),
    ray: wp.vec3,
) -> wp.vec3:
    """Return the colour where a ray from the camera meets the plane of a triangle."""
    a = points[t[0]] - view.position
    b = points[t[1]] - view.position
    c = points[t[2]] - view.position
    side = wp.sign(wp.dot(a, wp.cross(b, c)))
    s = wp.max(wp.dot(ray, wp.cross(b, c)) * side, 0.0)
    p = wp.max(wp.dot(ray, wp.cross(c, a)) * side, 0.0)
    q = wp.max(wp.dot(ray, wp.cross(a, b)) * side, 0.0)
    total = wp.max(s + p + q, 1.0e-30)
    colour = (colors[t[0]] * s + colors[t[1]] * p + colors[t[2]] * q) / total
    normal = face_normal(points, t)
    if smooth != wp.uint8(0):
        mean = normals[t[0]] * s + normals[t[1]] * p + normals[t[2]] * q
        if wp.length_sq(mean) > 0.0:
            normal = wp.normalize(mean)
    return lit(colour, normal, -ray, view)


@wp.func
def sphere_normal(view: View, centre: wp.vec3, radius: float, x: float, y: float) -> wp.vec3:
    """Return the normal of a sphere that is drawn as a disc, at a pixel."""
    p = project(view, centre)
    size = wp.max(radius * view.focal / p[2], 0.6)
    dx = (x - p[0] / p[2]) / size
    dy = (p[1] / p[2] - y) / size
    dz = wp.sqrt(wp.max(1.0 - dx * dx - dy * dy, 0.0))
    return wp.normalize(view.right * dx + view.up * dy + view.back * dz)


@wp.func
def background(view: View, row: int) -> wp.vec3:
    """Return the colour where nothing is: lighter towards the lower edge."""
    t = (float(row) + 0.5) / float(view.height)
    return wp.lerp(wp.vec3(0.87, 0.91, 0.96), wp.vec3(0.98, 0.98, 0.97), t)


@wp.kernel(vector_width=8)  # samples beside each other are mostly of one kind: half the time of one lane
def shade(
    view: View,
    samples: int,
    depth: wp.array2d(dtype=wp.uint64),
    points: wp.array(dtype=wp.vec3),
    colors: wp.array(dtype=wp.vec3),
    triangles: wp.array(dtype=wp.vec3i),
    smooth: wp.array(dtype=wp.uint8),
    normals: wp.array(dtype=wp.vec3),
    centres: wp.array(dtype=wp.vec3),
    radii: wp.array(dtype=float),
    sphere_colors: wp.array(dtype=wp.vec3),
    line_colors: wp.array(dtype=wp.vec3),
    result: wp.array3d(dtype=wp.uint8),
) -> None:
    """Write the mean colour of each pixel's samples as bytes: a thread for each pixel, so no sample is kept."""
    pixel_row, pixel_column = wp.tid()
    total = wp.vec3()
    for k in range(samples * samples):
        row = pixel_row * samples + k // samples
        column = pixel_column * samples + k % samples
        found = depth[row, column]
        item = int(LAST - (found & LAST))
        sphere = item - triangles.shape[0]
        if found == wp.uint64(0):
            total += background(view, row)
        elif sphere < 0:
            x = (float(column) + 0.5 - 0.5 * float(view.width)) / view.focal
            y = (0.5 * float(view.height) - float(row) - 0.5) / view.focal
            ray = wp.normalize(view.right * x + view.up * y - view.back)
            total += triangle_colour(view, points, colors, triangles[item], smooth[item], normals, ray)
        elif sphere < centres.shape[0]:
            n = sphere_normal(view, centres[sphere], radii[sphere], float(column) + 0.5, float(row) + 0.5)
            total += lit(sphere_colors[sphere], n, wp.normalize(view.position - centres[sphere]), view)
        else:
            total += line_colors[sphere - centres.shape[0]]
    scale = 255.0 / float(samples * samples)
    for channel in range(3):
        byte = wp.uint8(wp.clamp(total[channel] * scale + 0.5, 0.0, 255.0))
        result[pixel_row, pixel_column, channel] = byte
