"""The kernels of benchmark_geometry.py, for both Warps."""

# mypy: disable-error-code="name-defined, valid-type"

from types import ModuleType
from typing import Any


def kernels(wp: ModuleType) -> dict[str, Any]:
    """Return the kernels of one of the Warps."""

    @wp.kernel
    def neighbours(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
        i = wp.tid()
        p = x[i]
        total = wp.float32(0.0)
        for j in wp.hash_grid_query(grid, p, r):
            d = wp.length(p - x[j])
            if d < r:
                total += r - d
        out[i] = total

    @wp.kernel
    def in_order(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
        i = wp.hash_grid_point_id(grid, wp.tid())
        p = x[i]
        total = wp.float32(0.0)
        for j in wp.hash_grid_query(grid, p, r):
            d = wp.length(p - x[j])
            if d < r:
                total += r - d
        out[i] = total

    @wp.kernel
    def overlaps(
        bvh: wp.uint64, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)
    ):
        i = wp.tid()
        query = wp.bvh_query_aabb(bvh, low[i], high[i])
        j = wp.int32(0)
        n = wp.int32(0)
        while wp.bvh_query_next(query, j):
            n += 1
        out[i] = float(n)

    @wp.kernel
    def rays(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), d: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        hit = wp.mesh_query_ray(mesh, x[i], d[i], 100.0)
        out[i] = wp.where(hit.result, hit.t, -1.0)

    @wp.kernel
    def nearest(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        hit = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
        if hit.result:
            out[i] = wp.length(wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v) - x[i])

    @wp.kernel
    def voxels(volume: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.volume_sample_f(volume, x[i], wp.Volume.LINEAR)

    @wp.kernel
    def texels(picture: wp.Texture2D, x: wp.array(dtype=wp.vec2), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = wp.texture_sample(picture, x[i], dtype=float)

    @wp.kernel
    def colours(picture: wp.Texture2D, x: wp.array(dtype=wp.vec2), out: wp.array(dtype=float)):
        i = wp.tid()
        c = wp.texture_sample(picture, x[i], dtype=wp.vec4)
        out[i] = 255.0 * (c[0] + c[1] + c[2] + c[3])

    return {
        "neighbours": neighbours,
        "in_order": in_order,
        "overlaps": overlaps,
        "rays": rays,
        "nearest": nearest,
        "voxels": voxels,
        "texels": texels,
        "colours": colours,
    }
