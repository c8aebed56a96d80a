"""Walks through bounding volume hierarchies, in the kernel language.

Nodes lie in preorder and take 8 words: a box, then the node after the subtree and -1, or of a leaf the number of its items
and the first of them. So a walk keeps two numbers and no stack.
"""
# mypy: ignore-errors
# ruff: noqa


def walk(id, root):
    q = BvhQuery()
    if id != uint64(0):
        q.nodes = _bvh(id, "nodes")
        q.order = _bvh(id, "order")
        q.boxes = _bvh(id, "boxes")
        count = int32(_bvh(id, "node_count"))
        q.stop = count
        if root > 0 and root < count:
            q.node = root
            first = _constant_at(q.nodes, 8 * root + 7, int32)
            q.stop = where(first >= 0, root + 1, _constant_at(q.nodes, 8 * root + 6, int32))
    return q


def walk_of_numbers(id, root, a, b):
    # As `walk` for numbers that are finite; others meet nothing: comparisons with NaN leave an axis out.
    q = _bvh_walk(id, root)
    for axis in range(3):
        if not (isfinite(a[axis]) and isfinite(b[axis])):
            q.node = q.stop
    return q


def aabb(id, low, high, root):
    q = _bvh_walk(id, root)
    q.a = low
    q.b = high
    return q


def ray(id, start, dir, root):
    q = _bvh_walk_of_numbers(id, root, start, dir)
    q.kind = 1
    q.a = start
    q.b = vec3f(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    return q


def capsule(id, start, dir, radius, root):
    q = _bvh_walk_of_numbers(id, root, start, dir)
    q.kind = 2
    q.a = start
    q.b = vec3f(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    q.radius = max(radius, 0.0)
    return q


def sphere(id, center, radius, root):
    q = _bvh_walk_of_numbers(id, root, center, center)
    q.kind = 3
    q.a = center
    q.radius = max(radius, 0.0)
    return q


def slab(low, high, start, reciprocal):
    # Where a ray is between two planes. A ray along them is everywhere there or nowhere.
    s = (low - start) * reciprocal
    t = (high - start) * reciprocal
    near, far = min(s, t), max(s, t)
    if isinf(reciprocal):
        inside = start >= low and start <= high
        near = where(inside, -abs(reciprocal), abs(reciprocal))
        far = -near
    return near, far


def ray_meets(low, high, start, reciprocal):
    # The distance at which a ray comes into a box, in lengths of its direction, and whether it does; it may begin inside.
    x0, x1 = _slab(low[0], high[0], start[0], reciprocal[0])
    y0, y1 = _slab(low[1], high[1], start[1], reciprocal[1])
    z0, z1 = _slab(low[2], high[2], start[2], reciprocal[2])
    near = max(x0, max(y0, z0))
    far = min(x1, min(y1, z1))
    return near, far >= 0.0 and far >= near


def outside(low, high, x):
    # How far along an axis x is out of [low, high].
    below, above = low - x, x - high
    d = where(below > above, below, above)
    return where(d > 0.0, d, float32(0.0))


def box_distance_sq(low, high, p):
    dx = _outside(low[0], high[0], p[0])
    dy = _outside(low[1], high[1], p[1])
    dz = _outside(low[2], high[2], p[2])
    return dx * dx + dy * dy + dz * dz


def meets(q, boxes, at, max_dist):
    low, high = _bvh_box_at(boxes, at)
    found = False
    if not (low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]):
        found = False  # a box of nothing, which a leaf may hold beside others
    elif q.kind == 1:
        near, hit = _ray_meets(low, high, q.a, q.b)
        found = hit and not near >= max_dist
    elif q.kind == 2:
        r = vec3f(q.radius, q.radius, q.radius)
        near, hit = _ray_meets(low - r, high + r, q.a, q.b)
        found = hit and near <= max_dist
    else:
        found = _box_distance_sq(low, high, q.a) <= q.radius * q.radius
    return found


def box_at(boxes, at):
    low = vec3f(
        _constant_at(boxes, at, float32), _constant_at(boxes, at + 1, float32), _constant_at(boxes, at + 2, float32)
    )
    high = vec3f(
        _constant_at(boxes, at + 3, float32), _constant_at(boxes, at + 4, float32), _constant_at(boxes, at + 5, float32)
    )
    return low, high


def boxes_meet(boxes, at, low, high):
    # Whether the box at a place, which may be one of nothing, meets another one.
    l, h = _bvh_box_at(boxes, at)
    some = l[0] <= h[0] and l[1] <= h[1] and l[2] <= h[2]
    x = low[0] <= h[0] and l[0] <= high[0]
    y = low[1] <= h[1] and l[1] <= high[1]
    z = low[2] <= h[2] and l[2] <= high[2]
    return some and x and y and z


def next_in_box(nodes, boxes, node, stop, current, end, low, high):
    # The next item that a box meets: one of those that are left of a leaf, or of leaves from `node` on. In the high half
    # of the result is the node to go on with, the one behind the item's leaf; below the item, -1 for none.
    i, k, last, item = node, current, end, int32(-1)
    while item < 0 and (k < last or i < stop):
        if k < last:
            if _boxes_meet(boxes, 6 * k, low, high):
                item = k
            k += 1
        else:
            first = _constant_at(nodes, 8 * i + 7, int32)
            count = _constant_at(nodes, 8 * i + 6, int32)
            met = _boxes_meet(nodes, 8 * i, low, high)
            if met and first >= 0:
                k = first
                last = first + count
            i = where(met or first >= 0, i + 1, count)
    return (int64(i) << int64(32)) | (int64(item) & int64(4294967295))


def next_item(query, index, max_dist):
    found = False
    if query.kind == 0:
        next = _bvh_next_in_box(
            query.nodes, query.boxes, query.node, query.stop, query.current, query.end, query.a, query.b
        )
        node, item = int32(next >> int64(32)), int32(next)
        query.current = query.end
        if item >= 0:
            index = _constant_at(query.order, item, int32)
            query.current = item + 1
            if node != query.node:
                at = 8 * (node - 1)
                query.end = _constant_at(query.nodes, at + 7, int32) + _constant_at(query.nodes, at + 6, int32)
            found = True
        query.node = node
    while query.kind != 0 and not found and (query.current < query.end or query.node < query.stop):
        if query.current < query.end:
            if _bvh_meets(query, query.boxes, 6 * query.current, max_dist):
                index = _constant_at(query.order, query.current, int32)
                found = True
            query.current += 1
        else:
            at = 8 * query.node
            count = _constant_at(query.nodes, at + 6, int32)
            first = _constant_at(query.nodes, at + 7, int32)
            met = _bvh_meets(query, query.nodes, at, max_dist)
            query.node += 1
            if met and first >= 0:
                query.current = first
                query.end = first + count
                if count == 1:  # its box is the leaf's
                    index = _constant_at(query.order, first, int32)
                    query.current += 1
                    found = True
            if not met and first < 0:
                query.node = count
    return found, query, index


def group_root(id, group):
    root = int32(-1)
    if id != uint64(0):
        groups = _bvh(id, "groups")
        count = int32(_bvh(id, "group_count"))
        at = _first_of_group(groups, 0, count, int64(group))
        if at < count:
            if _constant_at(groups, at, int32) == group:
                root = _constant_at(groups, count + at, int32)
    return root
