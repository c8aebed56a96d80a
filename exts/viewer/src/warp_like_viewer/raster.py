"""A software rasteriser in kernels: triangles, spheres and lines, each pixel the nearest of them.

The depth buffer holds one 64-bit number for each pixel: the bits of 1/depth above, the item below.
`atomic_max` keeps the nearest item; of two at one depth, the first. So the picture does not depend on the order of
threads. Another launch shades the pixels.

Triangles need no clipping: the edge functions are those of homogeneous coordinates (Olano and Greer, "Triangle Scan
Conversion using 2D Homogeneous Coordinates", 1997).
"""

from __future__ import annotations

import warp_like as wp

NEAR = wp.constant(1.0e-4)
"""The nearest depth that is seen, in units of the scene's size."""

LAST = wp.constant(wp.uint64(0xFFFFFFFF))


@wp.struct
class View:
    """A camera for kernels: the rows of its rotation, its place, and what maps a direction to pixels."""

    right: wp.vec3
    up: wp.vec3
    back: wp.vec3
    position: wp.vec3
    focal: float
    width: int
    height: int
    near: float


@wp.func
def project(view: View, p: wp.vec3) -> wp.vec3:
    """Return (x w, y w, w) of a point: pixels times depth, and the depth."""
    d = p - view.position
    w = -wp.dot(view.back, d)
    x = wp.dot(view.right, d) * view.focal + 0.5 * float(view.width) * w
    y = 0.5 * float(view.height) * w - wp.dot(view.up, d) * view.focal
    return wp.vec3(x, y, w)


@wp.func
def key(inverse_depth: float, item: int) -> wp.uint64:
    """Return what the depth buffer keeps: the nearer item is the larger number."""
    return (wp.uint64(wp.cast(inverse_depth, wp.uint32)) << wp.uint64(32)) | (LAST - wp.uint64(item))


@wp.kernel
def project_points(view: View, points: wp.array(dtype=wp.vec3), projected: wp.array(dtype=wp.vec3)) -> None:
    """Write the places of points in the picture."""
    i = wp.tid()
    projected[i] = project(view, points[i])


@wp.func
def pixel_range(a: float, b: float, c: float, size: int) -> wp.vec2i:
    """Return the pixels whose centres lie between the least and the greatest of three numbers."""
    limit = float(size)
    low = wp.clamp(wp.min(a, wp.min(b, c)), 0.0, limit)
    high = wp.clamp(wp.max(a, wp.max(b, c)), -1.0, limit)
    return wp.vec2i(int(wp.ceil(low - 0.5)), wp.min(int(wp.floor(high - 0.5)), size - 1))


@wp.func
def triangle_box(view: View, a: wp.vec3, b: wp.vec3, c: wp.vec3) -> wp.vec4i:
    """Return the first and the last column and row of the pixels that a triangle may cover."""
    if a[2] < view.near and b[2] < view.near and c[2] < view.near:
        return wp.vec4i(0, -1, 0, -1)
    if a[2] < view.near or b[2] < view.near or c[2] < view.near:
        return wp.vec4i(0, view.width - 1, 0, view.height - 1)
    columns = pixel_range(a[0] / a[2], b[0] / b[2], c[0] / c[2], view.width)
    rows = pixel_range(a[1] / a[2], b[1] / b[2], c[1] / c[2], view.height)
    return wp.vec4i(columns[0], columns[1], rows[0], rows[1])


@wp.kernel
def find_large(
    view: View,
    projected: wp.array(dtype=wp.vec3),
    triangles: wp.array(dtype=wp.vec3i),
    large: wp.array(dtype=wp.uint8),
) -> None:
    """Say which triangles may cover many pixels: many threads share each."""
    i = wp.tid()
    t = triangles[i]
    box = triangle_box(view, projected[t[0]], projected[t[1]], projected[t[2]])
    many = (box[1] - box[0] + 1) * (box[3] - box[2] + 1) > 1024
    large[i] = wp.where(many, wp.uint8(1), wp.uint8(0))


@wp.kernel(vector_width=1)  # lanes wait for the largest of their triangles: half as fast
def draw_triangles(
    view: View,
    projected: wp.array(dtype=wp.vec3),
    triangles: wp.array(dtype=wp.vec3i),
    chosen: wp.array(dtype=int),
    bands: int,
    depth: wp.array2d(dtype=wp.uint64),
) -> None:
    """Draw the chosen triangles: thread (n, k) draws rows k, k + bands, ... of triangle n."""
    n, band = wp.tid()
    item = chosen[n]
    t = triangles[item]
    a = projected[t[0]]
    b = projected[t[1]]
    c = projected[t[2]]
    box = triangle_box(view, a, b, c)
    # Seen from the box's corner, numbers are small and edge functions exact enough.
    corner = wp.vec2(float(box[0]), float(box[2]))
    a = wp.vec3(a[0] - corner[0] * a[2], a[1] - corner[1] * a[2], a[2])
    b = wp.vec3(b[0] - corner[0] * b[2], b[1] - corner[1] * b[2], b[2])
    c = wp.vec3(c[0] - corner[0] * c[2], c[1] - corner[1] * c[2], c[2])
    volume = wp.dot(a, wp.cross(b, c))
    if volume == 0.0:
        return
    u = wp.cross(b, c) / volume
    v = wp.cross(c, a) / volume
    w = wp.cross(a, b) / volume
    y = box[2] + band
    while y <= box[3]:
        py = float(y - box[2]) + 0.5
        for x in range(box[0], box[1] + 1):
            px = float(x - box[0]) + 0.5
            s = u[0] * px + u[1] * py + u[2]
            p = v[0] * px + v[1] * py + v[2]
            q = w[0] * px + w[1] * py + w[2]
            inverse = s + p + q
            if wp.min(s, wp.min(p, q)) >= -1.0e-5 * inverse and inverse > 0.0 and inverse * view.near <= 1.0:
                wp.atomic_max(depth, y, x, key(inverse, item))
        y += bands


@wp.kernel(vector_width=8)  # neighbours are about as large: two thirds of the time of one lane
def draw_spheres(
    view: View,
    centres: wp.array(dtype=wp.vec3),
    radii: wp.array(dtype=float),
    first: int,
    depth: wp.array2d(dtype=wp.uint64),
) -> None:
    """Draw spheres as discs that face the camera, with the depth of the front side; at least a pixel large."""
    i = wp.tid()
    p = project(view, centres[i])
    if p[2] < view.near:
        return
    x = p[0] / p[2]
    y = p[1] / p[2]
    size = wp.clamp(radii[i] * view.focal / p[2], 0.6, float(view.width + view.height))
    columns = pixel_range(x - size, x, x + size, view.width)
    rows = pixel_range(y - size, y, y + size, view.height)
    for row in range(rows[0], rows[1] + 1):
        dy = (float(row) + 0.5 - y) / size
        for column in range(columns[0], columns[1] + 1):
            dx = (float(column) + 0.5 - x) / size
            inside = 1.0 - dx * dx - dy * dy
            if inside >= 0.0:
                front = wp.max(p[2] - radii[i] * wp.sqrt(inside), view.near)
                wp.atomic_max(depth, row, column, key(1.0 / front, first + i))


@wp.kernel
def draw_lines(
    view: View,
    starts: wp.array(dtype=wp.vec3),
    ends: wp.array(dtype=wp.vec3),
    widths: wp.array(dtype=float),
    first: int,
    depth: wp.array2d(dtype=wp.uint64),
) -> None:
    """Draw segments of a width in pixels, step by step along the longer side of their boxes."""
    i = wp.tid()
    a = project(view, starts[i])
    b = project(view, ends[i])
    if a[2] < view.near and b[2] < view.near:
        return
    if a[2] < view.near:
        a = wp.lerp(a, b, (view.near - a[2]) / (b[2] - a[2]))
    if b[2] < view.near:
        b = wp.lerp(b, a, (view.near - b[2]) / (a[2] - b[2]))
    sx = a[0] / a[2]
    sy = a[1] / a[2]
    dx = b[0] / b[2] - sx
    dy = b[1] / b[2] - sy
    wide = wp.abs(dx) >= wp.abs(dy)
    long = wp.where(wide, dx, dy)
    slope = wp.where(wide, dy, dx) / wp.where(long == 0.0, 1.0, long)
    begin = wp.where(wide, sx, sy)
    other = wp.where(wide, sy, sx)
    along = wp.where(wide, view.width, view.height)
    across = wp.where(wide, view.height, view.width)
    half = 0.5 * widths[i] * wp.sqrt(1.0 + slope * slope)
    steps = pixel_range(begin - 0.5, begin, begin + long + wp.sign(long) * 0.5, along)
    for k in range(steps[0], steps[1] + 1):
        middle = other + slope * (float(k) + 0.5 - begin)
        t = wp.clamp((float(k) + 0.5 - begin) / wp.where(long == 0.0, 1.0, long), 0.0, 1.0)
        inverse = wp.lerp(1.0 / a[2], 1.0 / b[2], t) * 1.0005  # a little before a surface that it lies on
        sides = pixel_range(middle - half, middle, middle + half, across)
        for j in range(sides[0], sides[1] + 1):
            row = wp.where(wide, j, k)
            column = wp.where(wide, k, j)
            wp.atomic_max(depth, row, column, key(inverse, first + i))
