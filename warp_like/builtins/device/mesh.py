"""Queries of triangle meshes, in the kernel language.

Searches for a face are ordered: the nearer child of a node comes first, the other one waits on a stack, which the depth
of trees bounds. They give a face alone. What is said of the face is computed again from it by plain formulas, which are
what is differentiated: the face is held.
"""
# mypy: ignore-errors
# ruff: noqa


def vertex(id, i):
    return _graded_at(_mesh(id, "points"), _mesh(id, "points_gradient"), i, vec3f)


def corners(id, face):
    # With gradients; searches take `_face_corners`.
    indices = _mesh(id, "indices")
    return (
        _mesh_vertex(id, _constant_at(indices, 3 * face, int32)),
        _mesh_vertex(id, _constant_at(indices, 3 * face + 1, int32)),
        _mesh_vertex(id, _constant_at(indices, 3 * face + 2, int32)),
    )


def memory(id):
    points, points_gradient, velocities, velocities_gradient = uint64(0), uint64(0), uint64(0), uint64(0)
    indices, point_count, index_count = uint64(0), int32(0), int32(0)
    if id != uint64(0):
        points, points_gradient = _mesh(id, "points"), _mesh(id, "points_gradient")
        velocities, velocities_gradient = _mesh(id, "velocities"), _mesh(id, "velocities_gradient")
        indices = _mesh(id, "indices")
        point_count, index_count = int32(_mesh(id, "point_count")), 3 * int32(_mesh(id, "face_count"))
    return points, points_gradient, velocities, velocities_gradient, indices, point_count, index_count


def face_corners(points, indices, face):
    return (
        _memory_at(points, _constant_at(indices, 3 * face, int32), vec3f),
        _memory_at(points, _constant_at(indices, 3 * face + 1, int32), vec3f),
        _memory_at(points, _constant_at(indices, 3 * face + 2, int32), vec3f),
    )


def low_of(nodes, node):
    at = 8 * node
    return vec3f(
        _constant_at(nodes, at, float32), _constant_at(nodes, at + 1, float32), _constant_at(nodes, at + 2, float32)
    )


def high_of(nodes, node):
    at = 8 * node + 3
    return vec3f(
        _constant_at(nodes, at, float32), _constant_at(nodes, at + 1, float32), _constant_at(nodes, at + 2, float32)
    )


def has_face(id, face):
    has = False
    if id != uint64(0):
        has = face >= 0 and face < int32(_mesh(id, "face_count"))
    return has


# --- rays ---


def turned(v, axis):
    # The components with `axis` last, in the same sense of rotation.
    x, y, z = v[0], v[1], v[2]
    if axis == 0:
        x, y, z = v[1], v[2], v[0]
    elif axis == 1:
        x, y, z = v[2], v[0], v[1]
    return vec3f(x, y, z)


def ray_hits(start, dir, p, q, r):
    # Woop, Benthin and Wald (2013), Watertight Ray/Triangle Intersection: rays do not pass between faces of one edge.
    # Returns how far, and whether.
    axis = int(0)
    if abs(dir[1]) > abs(dir[0]):
        axis = 1
    if abs(dir[2]) > abs(dir[axis]):
        axis = 2
    d = _turned(dir, axis)
    sx, sy, sz = d[0] / d[2], d[1] / d[2], 1.0 / d[2]
    a, b, c = _turned(p - start, axis), _turned(q - start, axis), _turned(r - start, axis)
    ax, ay = a[0] - sx * a[2], a[1] - sy * a[2]
    bx, by = b[0] - sx * b[2], b[1] - sy * b[2]
    cx, cy = c[0] - sx * c[2], c[1] - sy * c[2]
    u, v, w = cx * by - cy * bx, ax * cy - ay * cx, bx * ay - by * ax
    if u == 0.0 or v == 0.0 or w == 0.0:
        u = float32(float64(cx) * float64(by) - float64(cy) * float64(bx))
        v = float32(float64(ax) * float64(cy) - float64(ay) * float64(cx))
        w = float32(float64(bx) * float64(ay) - float64(by) * float64(ax))
    det = u + v + w
    inside = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
    hit = inside and det != 0.0
    t = float32(0.0)
    if hit:
        t = (u * (sz * a[2]) + v * (sz * b[2]) + w * (sz * c[2])) / det
    return t, hit and t >= 0.0


def far_side(reciprocal):
    # Where in a node the plane stands through which a ray leaves the box, along one axis.
    return where(reciprocal < 0.0, 0, 3)


def safe_reciprocal(x):
    # Finite, so that no product of it is NaN.
    r = 1.0 / x
    if not abs(r) < 1.0e30:
        r = where(r < 0.0, -1.0e30, 1.0e30)
    return r


def leaving(plane, start, reciprocal):
    # A ray that starts on the plane may run along it, in the box.
    d = plane - start
    return where(d == 0.0, INFINITY, d * reciprocal)


def entry(nodes, node, start, reciprocal, nearest):
    # Where a ray comes into a box; infinity where it does not, or beyond `nearest`. Rounding must not lose a box.
    at = 8 * node
    x, y, z = _far_side(reciprocal[0]), _far_side(reciprocal[1]), _far_side(reciprocal[2])
    x0 = (_constant_at(nodes, at + 3 - x, float32) - start[0]) * reciprocal[0]
    y0 = (_constant_at(nodes, at + 4 - y, float32) - start[1]) * reciprocal[1]
    z0 = (_constant_at(nodes, at + 5 - z, float32) - start[2]) * reciprocal[2]
    x1 = _leaving(_constant_at(nodes, at + x, float32), start[0], reciprocal[0])
    y1 = _leaving(_constant_at(nodes, at + 1 + y, float32), start[1], reciprocal[1])
    z1 = _leaving(_constant_at(nodes, at + 2 + z, float32), start[2], reciprocal[2])
    near = where(x0 > y0, x0, y0)
    near = where(near > z0, near, z0)
    near = where(near > 0.0, near, float32(0.0))
    far = where(x1 < y1, x1, y1)
    far = where(far < z1, far, z1)
    return where(far * 1.0000005 >= near and near * 0.9999995 <= nearest, near, INFINITY)


def tree_corners(corners, at):
    # The corners of a face by its place in the blocks, as they were at the last build or refit.
    return (
        vec3f(
            _constant_at(corners, at, float32),
            _constant_at(corners, at + 8, float32),
            _constant_at(corners, at + 16, float32),
        ),
        vec3f(
            _constant_at(corners, at + 24, float32),
            _constant_at(corners, at + 32, float32),
            _constant_at(corners, at + 40, float32),
        ),
        vec3f(
            _constant_at(corners, at + 48, float32),
            _constant_at(corners, at + 56, float32),
            _constant_at(corners, at + 64, float32),
        ),
    )


def all_finite(v):
    return isfinite(v[0]) and isfinite(v[1]) and isfinite(v[2])


def ray_search(id, start, dir, max_t, root, any):
    nodes, places, corners = _mesh(id, "nodes"), _mesh(id, "places"), _mesh(id, "corners")
    count = int32(_mesh(id, "node_count"))
    return _tree_ray(nodes, places, corners, _mesh(id, "wide"), count, start, dir, max_t, root, any)


def tree_ray(nodes, places, corners, wide, count, start, dir, max_t, root, any):
    # The face that a ray meets first before `max_t`, or with `any` != 0 some face that it meets; -1 for none.
    reciprocal = vec3f(_safe_reciprocal(dir[0]), _safe_reciprocal(dir[1]), _safe_reciprocal(dir[2]))
    stack = zeros(shape=(128,), dtype=int32)
    waiting, face, nearest = int(0), int(-1), max_t
    node = where(root > 0 and root < count, root, 0)
    if count <= 0 or not _all_finite(start) or not _all_finite(dir):
        node = -1
    elif _entry(nodes, node, start, reciprocal, nearest) == INFINITY:
        node = -1
    while node >= 0:
        first = _constant_at(nodes, 8 * node + 7, int32)
        if first >= 0:
            for k in range(first, first + _constant_at(nodes, 8 * node + 6, int32)):
                at = _constant_at(places, k, int32)
                p, q, r = _tree_corners(corners, at)
                t, hit = _ray_hits(start, dir, p, q, r)
                if hit and t < nearest:
                    nearest = t
                    face = _face_at(corners, at)
            node = -1
        else:
            left = node + 1
            right = where(
                _constant_at(nodes, 8 * left + 7, int32) >= 0, left + 1, _constant_at(nodes, 8 * left + 6, int32)
            )
            s = _entry(nodes, left, start, reciprocal, nearest)
            t = _entry(nodes, right, start, reciprocal, nearest)
            node, other = left, right
            if t < s:
                node, other = right, left
            if max(s, t) < INFINITY:
                stack[waiting] = other
                waiting += 1
            if min(s, t) == INFINITY:
                node = -1
        if any != 0 and face >= 0:
            node = -1
            waiting = 0
        while node < 0 and waiting > 0:
            waiting -= 1
            node = stack[waiting]
            if _entry(nodes, node, start, reciprocal, nearest) == INFINITY:
                node = -1
    return face


def face_at(corners, at):
    # The number of the face, also of one without area.
    face = _face_word(corners, at)
    return where(face < 0, -1 - face, face)


def face_word(corners, at):
    return _constant_at(corners, at + 72, int32)


def edge_scale(e, f):
    # A power of 2 by which two edges of a face are about 1 long: products of four lengths leave the range of float32 from
    # edges of 1e9 on, and below 1e-10. It rounds nothing, and weights and directions do not depend on it.
    x = max(abs(e[0]), max(abs(e[1]), abs(e[2])))
    y = max(abs(f[0]), max(abs(f[1]), abs(f[2])))
    return _detached(cast(2130706432 - (cast(max(x, y), int32) & 2139095040), float32))


def face_normal(p, q, r):
    # Of some length.
    s = _edge_scale(q - p, r - p)
    return cross((q - p) * s, (r - p) * s)


def in_doubles(v):
    return vec3d(float64(v[0]), float64(v[1]), float64(v[2]))


def ray_on_plane(start, dir, p, q, r):
    # Where a ray meets the plane of a triangle: how far, and the weights of two corners there, at the ray's start, and how
    # much they change along it. Float64 has the range for products of six lengths, and the digits for rays that run nearly
    # along the plane.
    o, d = _in_doubles(start), _in_doubles(dir)
    a, b, c = _in_doubles(p), _in_doubles(q), _in_doubles(r)
    n = cross(b - a, c - a)
    t = dot(a - o, n) / dot(d, n)
    n *= float64(1.0) / dot(n, n)
    u, du = dot(cross(c - b, o - b), n), dot(cross(c - b, d), n)
    v, dv = dot(cross(a - c, o - c), n), dot(cross(a - c, d), n)
    return t, u, v, du, dv


def ray_within(weight, change, low, high):
    # The part of a ray between `low` and `high` where a weight is not negative.
    if change > float64(0.0):
        low = max(low, -weight / change)
    if change < float64(0.0):
        high = min(high, -weight / change)
    return low, high


def ray_on_face(start, dir, p, q, r):
    # As `ray_on_plane` for a ray that the search has found to meet the triangle: so it does not begin behind that, nor
    # pass by, whatever rounding says. Of one that runs along the plane, it is the place in the triangle that is nearest.
    t, u0, v0, du, dv = _ray_on_plane(start, dir, p, q, r)
    u, v = u0 + t * du, v0 + t * dv
    far, first, second = _detached(t), _detached(u), _detached(v)
    if not (
        far >= float64(0.0) and first >= float64(0.0) and second >= float64(0.0) and first + second <= float64(1.0)
    ):
        low, high = float64(0.0), float64(INFINITY)
        low, high = _ray_within(_detached(u0), _detached(du), low, high)
        low, high = _ray_within(_detached(v0), _detached(dv), low, high)
        low, high = _ray_within(float64(1.0) - _detached(u0 + v0), -_detached(du + dv), low, high)
        if not (far >= low and far <= high):
            far = where(far > high, high, max(low, float64(0.0)))
        first = clamp(_detached(u0) + far * _detached(du), float64(0.0), float64(1.0))
        second = clamp(_detached(v0) + far * _detached(dv), float64(0.0), float64(1.0) - first)
    return (
        _with_slope(float32(far), float32(t)),
        _with_slope(float32(first), float32(u)),
        _with_slope(float32(second), float32(v)),
    )


def query_ray(id, start, dir, max_t, root):
    found = MeshQueryRay()
    face = int(-1)
    if id != uint64(0):
        face = _mesh_ray_search(id, _detached(start), _detached(dir), _detached(max_t), root, 0)
    if face >= 0:
        p, q, r = _mesh_corners(id, face)
        n = _face_normal(p, q, r)
        t, u, v = _ray_on_face(start, dir, p, q, r)
        found.result = True
        found.face = face
        found.t = t
        found.u = u
        found.v = v
        found.normal = normalize(n)
        found.sign = where(dot(dir, n) < 0.0, float32(1.0), float32(-1.0))
    return found


def query_ray_anyhit(id, start, dir, max_t, root):
    face = int(-1)
    if id != uint64(0):
        face = _mesh_ray_search(id, _detached(start), _detached(dir), _detached(max_t), root, 1)
    return face >= 0


def count_intersections(id, start, dir, root):
    hits, node, stop = int(0), int(0), int(0)
    nodes = uint64(0)
    if id != uint64(0):
        nodes = _mesh(id, "nodes")
        walk = _bvh_walk(_mesh(id, "bvh"), root)
        node, stop = walk.node, walk.stop
    start, dir = _detached(start), _detached(dir)
    reciprocal = vec3f(_safe_reciprocal(dir[0]), _safe_reciprocal(dir[1]), _safe_reciprocal(dir[2]))
    while node < stop:
        first = _constant_at(nodes, 8 * node + 7, int32)
        count = _constant_at(nodes, 8 * node + 6, int32)
        met = _entry(nodes, node, start, reciprocal, INFINITY) < INFINITY
        node += 1
        if not met and first < 0:
            node = count
        if met and first >= 0:
            for k in range(first, first + count):
                f = _constant_at(_mesh(id, "order"), k, int32)
                p, q, r = _face_corners(_mesh(id, "points"), _mesh(id, "indices"), f)
                t, hit = _ray_hits(start, dir, p, q, r)
                if hit:
                    hits += 1
    return hits


# --- points ---


def closest_on_face(x, p, q, r):
    # Ericson (2005), Real-Time Collision Detection, section 5.1.5: the weights of the first two corners.
    s = _edge_scale(q - p, r - p)
    e, f, g = (q - p) * s, (r - p) * s, (x - p) * s
    d1, d2 = dot(e, g), dot(f, g)
    u, v = float32(1.0), float32(0.0)
    if d1 > 0.0 or d2 > 0.0:
        h = (x - q) * s
        d3, d4 = dot(e, h), dot(f, h)
        k = (x - r) * s
        d5, d6 = dot(e, k), dot(f, k)
        va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
        if d3 >= 0.0 and d4 <= d3:
            u, v = 0.0, 1.0
        elif d6 >= 0.0 and d5 <= d6:
            u, v = 0.0, 0.0
        elif vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
            v = d1 / (d1 - d3)
            u = 1.0 - v
        elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
            u = 1.0 - d2 / (d2 - d6)
        elif va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
            u = 0.0
            v = 1.0 - (d4 - d3) / ((d4 - d3) + (d5 - d6))
        else:
            inverse = 1.0 / (va + vb + vc)
            v = vb * inverse
            u = 1.0 - v - vc * inverse
    return u, v


def has_area(p, q, r):
    # Beside the longest edge; false also where a corner is NaN, or edges are no numbers.
    s = _edge_scale(q - p, r - p)
    e, f, g = (q - p) * s, (r - p) * s, (r - q) * s
    n = cross(e, f)
    longest = max(dot(e, e), max(dot(f, f), dot(g, g)))
    return dot(n, n) > 1.0e-12 * longest * longest


def face_distance_sq(x, p, q, r):
    # -1 for a degenerate face.
    d = float32(-1.0)
    if _has_area(p, q, r):
        u, v = _closest_on_face(x, p, q, r)
        y = p * u + q * v + r * (1.0 - u - v) - x
        d = dot(y, y)
    return d


def point_search(id, x, max_dist):
    nodes, places, corners = _mesh(id, "nodes"), _mesh(id, "places"), _mesh(id, "corners")
    return _tree_point(nodes, places, corners, _mesh(id, "wide"), int32(_mesh(id, "node_count")), x, max_dist)


def tree_point(nodes, places, corners, wide, count, x, max_dist):
    # The face nearest to a point, nearer than `max_dist`; -1 for none.
    stack = zeros(shape=(128,), dtype=int32)
    waiting, face, nearest = int(0), int(-1), max_dist * max_dist
    node = where(count > 0 and max_dist > 0.0 and _all_finite(x), 0, -1)
    while node >= 0:
        first = _constant_at(nodes, 8 * node + 7, int32)
        if first >= 0:
            for k in range(first, first + _constant_at(nodes, 8 * node + 6, int32)):
                at = _constant_at(places, k, int32)
                found = _face_word(corners, at)
                if found >= 0:  # one with an area
                    p, q, r = _tree_corners(corners, at)
                    d = _face_distance_sq(x, p, q, r)
                    if d >= 0.0 and d < nearest:
                        nearest = d
                        face = found
            node = -1
        else:
            left = node + 1
            right = where(
                _constant_at(nodes, 8 * left + 7, int32) >= 0, left + 1, _constant_at(nodes, 8 * left + 6, int32)
            )
            s = _box_distance_sq(_node_low(nodes, left), _node_high(nodes, left), x)
            t = _box_distance_sq(_node_low(nodes, right), _node_high(nodes, right), x)
            node, other = left, right
            if t < s:
                node, other = right, left
            # A box at the same distance may hold a face that is nearer by rounding.
            if max(s, t) <= nearest:
                stack[waiting] = other
                waiting += 1
            if not min(s, t) <= nearest:
                node = -1
        while node < 0 and waiting > 0:
            waiting -= 1
            node = stack[waiting]
            if not _box_distance_sq(_node_low(nodes, node), _node_high(nodes, node), x) <= nearest:
                node = -1
    return face


def on_face(id, point, face):
    found = MeshQueryPoint()
    if face >= 0:
        p, q, r = _mesh_corners(id, face)
        u, v = _closest_on_face(point, p, q, r)
        found.result = True
        found.face = face
        found.u = u
        found.v = v
    return found


def query_point_no_sign(id, point, max_dist):
    face = int(-1)
    if id != uint64(0):
        face = _mesh_point_search(id, _detached(point), _detached(max_dist))
    return _mesh_on_face(id, point, face)


def is_inside(id, x):
    # Whether most of three rays meet a face from behind first.
    votes = int(0)
    for axis in range(3):
        dir = vec3f(0.0, 0.0, 0.0)
        dir[axis] = 1.0
        face = _mesh_ray_search(id, x, dir, INFINITY, -1, 0)
        if face >= 0:
            p, q, r = _face_corners(_mesh(id, "points"), _mesh(id, "indices"), face)
            if dot(dir, _face_normal(p, q, r)) > 0.0:
                votes += 1
    return votes > 1


def query_point(id, point, max_dist):
    found = mesh_query_point_no_sign(id, point, max_dist)
    if found.result:
        found.sign = where(_mesh_is_inside(id, _detached(point)), float32(-1.0), float32(1.0))
    return found


# --- faces and vertices ---


def eval_position(id, face, u, v):
    x = vec3f(0.0, 0.0, 0.0)
    if _mesh_has_face(id, face):
        p, q, r = _mesh_corners(id, face)
        x = p * u + q * v + r * (1.0 - u - v)
    return x


def eval_velocity(id, face, u, v):
    x = vec3f(0.0, 0.0, 0.0)
    if _mesh_has_face(id, face):
        p = mesh_get_velocity(id, 3 * face)
        q = mesh_get_velocity(id, 3 * face + 1)
        r = mesh_get_velocity(id, 3 * face + 2)
        x = p * u + q * v + r * (1.0 - u - v)
    return x


def eval_face_normal(id, face):
    n = vec3f(0.0, 0.0, 0.0)
    if _mesh_has_face(id, face):
        p, q, r = _mesh_corners(id, face)
        n = normalize(_face_normal(p, q, r))
    return n


def get_index(id, index):
    found = int(-1)
    if id != uint64(0):
        if index >= 0 and index < 3 * int32(_mesh(id, "face_count")):
            found = _constant_at(_mesh(id, "indices"), index, int32)
    return found


def get_point(id, index):
    x = vec3f(0.0, 0.0, 0.0)
    i = mesh_get_index(id, index)
    if i >= 0:
        x = _mesh_vertex(id, i)
    return x


def get_velocity(id, index):
    x = vec3f(0.0, 0.0, 0.0)
    i = mesh_get_index(id, index)
    if i >= 0:
        velocities = _mesh(id, "velocities")
        if velocities != uint64(0):
            x = _graded_at(velocities, _mesh(id, "velocities_gradient"), i, vec3f)
    return x


def get_bvh(id):
    bvh = uint64(0)
    if id != uint64(0):
        bvh = _mesh(id, "bvh")
    return bvh


def query_aabb(id, low, high):
    return bvh_query_aabb(mesh_get_bvh(id), low, high, -1)


def query_next(query, index):
    found = bvh_query_next(query, index)
    return found, query, index


def group_root(id, group):
    return bvh_get_group_root(mesh_get_bvh(id), group)
