"""Walks that the threads of a block make together, in the kernel language: a walk, and whether it goes on."""
# mypy: ignore-errors
# ruff: noqa


def aabb(id, low, high, root):
    q = BvhQueryTiled()
    q.walk = bvh_query_aabb(id, low, high, root)
    q.valid = True
    return q


def ray(id, start, dir, root):
    q = BvhQueryTiled()
    q.walk = bvh_query_ray(id, start, dir, root)
    q.valid = True
    return q


def aabb_alone(id, low, high):
    return tile_bvh_query_aabb(id, low, high, -1)


def ray_alone(id, start, dir):
    return tile_bvh_query_ray(id, start, dir, -1)


def faces(id, low, high):
    return tile_bvh_query_aabb(mesh_get_bvh(id), low, high, -1)


def valid(query):
    return query.valid
