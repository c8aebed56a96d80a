"""On which side of a mesh a point lies, the furthest point, and the faces within a sphere, in the kernel language."""
# mypy: ignore-errors
# ruff: noqa


def node_after(nodes, node):
    # The node after a subtree, or of a leaf the next one.
    skip = node + 1
    if _constant_at(nodes, 8 * node + 7, int32) < 0:
        skip = _constant_at(nodes, 8 * node + 6, int32)
    return skip


def held_corners(id, face):
    # Without gradients.
    return _face_corners(_mesh(id, "points"), _mesh(id, "indices"), face)


# --- angle-weighted normals ---


def corner_angle(at, a, b):
    return acos(clamp(dot(normalize(a - at), normalize(b - at)), -1.0, 1.0))


def edge_distance_sq(y, a, b):
    e = b - a
    s = clamp(dot(y - a, e) / dot(e, e), 0.0, 1.0)
    return length_sq(a + e * s - y)


def angle_at(y, p, q, r, eps_sq):
    # The angle that a face has around its point y: at a corner, on an edge, or inside.
    angle = 2.0 * PI
    if length_sq(y - p) <= eps_sq:
        angle = _corner_angle(p, q, r)
    elif length_sq(y - q) <= eps_sq:
        angle = _corner_angle(q, r, p)
    elif length_sq(y - r) <= eps_sq:
        angle = _corner_angle(r, p, q)
    elif min(_edge_distance_sq(y, p, q), min(_edge_distance_sq(y, q, r), _edge_distance_sq(y, r, p))) <= eps_sq:
        angle = PI
    return angle


def pseudo_normal(id, y, eps):
    # Baerentzen and Aanaes (2005), Signed Distance Computation Using the Angle Weighted Pseudonormal: of all faces at y.
    n = vec3f(0.0, 0.0, 0.0)
    d = vec3f(eps, eps, eps)
    for face in bvh_query_aabb(mesh_get_bvh(id), y - d, y + d):
        p, q, r = _held_corners(id, face)
        away = _face_distance_sq(y, p, q, r)
        if away >= 0.0 and away <= eps * eps:
            n += normalize(_face_normal(p, q, r)) * _angle_at(y, p, q, r, eps * eps)
    return n


def query_point_sign_normal(id, point, max_dist, epsilon):
    found = mesh_query_point_no_sign(id, point, max_dist)
    if found.result:
        x = _detached(point)
        p, q, r = _held_corners(id, found.face)
        u, v = _closest_on_face(x, p, q, r)
        y = p * u + q * v + r * (1.0 - u - v)
        eps = max(epsilon, 1.0e-5) * (length(q - p) + length(r - q) + length(p - r)) / 3.0
        found.sign = where(dot(_pseudo_normal(id, y, eps), x - y) > 0.0, float32(1.0), float32(-1.0))
    return found


# --- parity ---


def is_inside_by_parity(id, x, n_sample, scale):
    state = rand_init(20230)
    odd = int(0)
    for i in range(n_sample):
        dir = vec3f(1.0, 1.0, 1.0)
        for k in range(3):
            dir[k] = 1.0 + randf(state, -scale, scale)
        odd += mesh_query_ray_count_intersections(id, x, dir) % 2
    return 2 * odd >= n_sample


def query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale):
    found = mesh_query_point_no_sign(id, point, max_dist)
    if found.result:
        inside = _mesh_is_inside_by_parity(id, _detached(point), n_sample, perturbation_scale)
        found.sign = where(inside, float32(-1.0), float32(1.0))
    return found


# --- winding numbers ---


def solid_angle(x, p, q, r):
    # Van Oosterom and Strackee (1983), The Solid Angle of a Plane Triangle.
    a, b, c = p - x, q - x, r - x
    la, lb, lc = length(a), length(b), length(c)
    return 2.0 * atan2(dot(a, cross(b, c)), la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb)


def moment(moments, node, k):
    at = 16 * node + k
    return vec3f(
        _constant_at(moments, at, float32),
        _constant_at(moments, at + 1, float32),
        _constant_at(moments, at + 2, float32),
    )


def far_solid_angle(moments, node, d, size):
    # The first two terms of Barill et al. (2018), Fast Winding Numbers for Soups and Clouds; d leads to the centre.
    i = 1.0 / size
    i3 = i * i * i
    m0, m1, m2 = _moment(moments, node, 7), _moment(moments, node, 10), _moment(moments, node, 13)
    first = dot(_moment(moments, node, 4), d) * i3
    along = dot(vec3f(dot(m0, d), dot(m1, d), dot(m2, d)), d)
    return first + (m0[0] + m1[1] + m2[2]) * i3 - 3.0 * along * i3 * i * i


def winding_number(id, x, accuracy):
    nodes, order, moments = _mesh(id, "nodes"), _mesh(id, "order"), _mesh(id, "moments")
    count = int32(_mesh(id, "node_count"))
    total, node = float(0.0), int(0)
    while node < count:
        d = _moment(moments, node, 0) - x
        size = length(d)
        first = _constant_at(nodes, 8 * node + 7, int32)
        if size > accuracy * _constant_at(moments, 16 * node + 3, float32) and first < 0:
            total += _far_solid_angle(moments, node, d, size)
            node = _constant_at(nodes, 8 * node + 6, int32)
        else:
            if first >= 0:
                for k in range(first, first + _constant_at(nodes, 8 * node + 6, int32)):
                    p, q, r = _held_corners(id, _constant_at(order, k, int32))
                    angle = _solid_angle(x, p, q, r)
                    if isfinite(angle):
                        total += angle
            node += 1
    return total / (4.0 * PI)


def query_point_sign_winding_number(id, point, max_dist, accuracy, threshold):
    found = mesh_query_point_no_sign(id, point, max_dist)
    if found.result:
        x = _detached(point)
        inside = False
        if _mesh(id, "moments") != uint64(0):
            inside = _winding_number(id, x, accuracy) > threshold
        else:
            inside = _mesh_is_inside(id, x)
        found.sign = where(inside, float32(-1.0), float32(1.0))
    return found


# --- the furthest point, and spheres ---


def furthest_corner(x, p, q, r):
    # The distance is convex, so that it is greatest at a corner.
    a, b, c = length_sq(p - x), length_sq(q - x), length_sq(r - x)
    most, u, v = a, float32(1.0), float32(0.0)
    if b > most:
        most, u, v = b, 0.0, 1.0
    if c > most:
        most, u, v = c, 0.0, 0.0
    return most, u, v


def box_furthest_sq(low, high, x):
    d = max(abs(low - x), abs(high - x))
    return dot(d, d)


def query_furthest(id, point, min_dist):
    found = MeshQueryPoint()
    x = _detached(point)
    furthest = float32(-1.0)
    if min_dist >= 0.0:
        furthest = min_dist * min_dist
    node, count, nodes = int(0), int(0), uint64(0)
    if id != uint64(0):
        nodes, count = _mesh(id, "nodes"), int32(_mesh(id, "node_count"))
    while node < count:
        first = _constant_at(nodes, 8 * node + 7, int32)
        if not _box_furthest_sq(_node_low(nodes, node), _node_high(nodes, node), x) > furthest:
            node = _node_after(nodes, node)
        else:
            if first >= 0:
                for k in range(first, first + _constant_at(nodes, 8 * node + 6, int32)):
                    face = _constant_at(_mesh(id, "order"), k, int32)
                    p, q, r = _held_corners(id, face)
                    d, u, v = _furthest_corner(x, p, q, r)
                    if d > furthest and _face_distance_sq(x, p, q, r) >= 0.0:
                        furthest = d
                        found.result = True
                        found.face = face
                        found.u = u
                        found.v = v
            node += 1
    return found


def query_sphere(id, center, radius):
    q = MeshSphereQuery()
    q.mesh = id
    q.walk = bvh_query_sphere(mesh_get_bvh(id), center, radius, -1)
    return q


def sphere_next(query, index):
    found, looking = False, True
    while looking:
        query, looking, index, found = _mesh_sphere_step(query, index)
    return found, query, index


def sphere_step(query, index):
    # One box of the walk: whether to go on, the index, and whether its face is within the sphere.
    walk, face = query.walk, int(index)
    met = bvh_query_next(walk, face)
    query.walk = walk
    found = False
    if met:
        p, q, r = _held_corners(query.mesh, face)
        d = _face_distance_sq(walk.a, p, q, r)
        if d >= 0.0 and d <= walk.radius * walk.radius:
            found = True
            index = face
    return query, met and not found, index, found


# --- forms with arguments to be assigned ---


def point_into(id, point, max_dist, inside, face, bary_u, bary_v):
    q = mesh_query_point(id, point, max_dist)
    if q.result:
        inside, face, bary_u, bary_v = q.sign, q.face, q.u, q.v
    return q.result, inside, face, bary_u, bary_v


def parity_into(id, point, max_dist, inside, face, bary_u, bary_v, n_sample, perturbation_scale):
    q = mesh_query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale)
    if q.result:
        inside, face, bary_u, bary_v = q.sign, q.face, q.u, q.v
    return q.result, inside, face, bary_u, bary_v


def normal_into(id, point, max_dist, inside, face, bary_u, bary_v, epsilon):
    q = mesh_query_point_sign_normal(id, point, max_dist, epsilon)
    if q.result:
        inside, face, bary_u, bary_v = q.sign, q.face, q.u, q.v
    return q.result, inside, face, bary_u, bary_v


def winding_into(id, point, max_dist, inside, face, bary_u, bary_v, accuracy, threshold):
    q = mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    if q.result:
        inside, face, bary_u, bary_v = q.sign, q.face, q.u, q.v
    return q.result, inside, face, bary_u, bary_v


def no_sign_into(id, point, max_dist, face, bary_u, bary_v):
    q = mesh_query_point_no_sign(id, point, max_dist)
    if q.result:
        face, bary_u, bary_v = q.face, q.u, q.v
    return q.result, face, bary_u, bary_v


def furthest_into(id, point, min_dist, face, bary_u, bary_v):
    q = mesh_query_furthest_point_no_sign(id, point, min_dist)
    if q.result:
        face, bary_u, bary_v = q.face, q.u, q.v
    return q.result, face, bary_u, bary_v


def ray_into(id, start, dir, max_t, t, bary_u, bary_v, sign, normal, face, root):
    q = mesh_query_ray(id, start, dir, max_t, root)
    if q.result:
        t, bary_u, bary_v, sign, normal, face = q.t, q.u, q.v, q.sign, q.normal, q.face
    return q.result, t, bary_u, bary_v, sign, normal, face
