"""Queries of hash grids, in the kernel language.

A query walks through rows of cells along x, whose points lie in one range of ``ids``; a row that wraps around makes two,
and where points are filtered by group, each cell is one.
"""
# mypy: ignore-errors
# ruff: noqa


def cell_coordinate(v):
    # Casts saturate and make 0 of NaN. The largest number stays free, as in Warp: the last two cells are one.
    return min(int32(floor(v)), 2147483646)


def wrapped(x, n):
    r = x % n
    if r < 0:
        r += n
    return r


def cell_of(point, scale, nx, ny, nz):
    p = point * scale
    x = _wrapped(_cell_coordinate(p[0]), nx)
    y = _wrapped(_cell_coordinate(p[1]), ny)
    z = _wrapped(_cell_coordinate(p[2]), nz)
    return (z * ny + y) * nx + x


def cells_between(first, last, n):
    # No cell is visited twice. The cell of the lower corner always is, also where the radius is negative.
    return int32(clamp(int64(last) - int64(first) + int64(1), int64(1), int64(n)))


def query_all(id, point, max_dist):
    return _hash_grid_query(id, point, max_dist, 0, 0)


def query_group(id, point, max_dist, group):
    return _hash_grid_query(id, point, max_dist, group, 1)


def query(id, point, max_dist, group, filters):
    q = HashGridQuery()
    if id != uint64(0):
        q.starts = _hash_grid(id, "starts")
    if q.starts != uint64(0):
        q.ids = _hash_grid(id, "ids")
        if filters != 0:
            q.groups = _hash_grid(id, "groups")
        q.group = group
        q.nx = int32(_hash_grid(id, "nx"))
        q.ny = int32(_hash_grid(id, "ny"))
        q.nz = int32(_hash_grid(id, "nz"))
        scale = point.dtype(cast(_hash_grid(id, "scale"), float64))
        x = _cell_coordinate((point[0] - max_dist) * scale)
        y = _cell_coordinate((point[1] - max_dist) * scale)
        z = _cell_coordinate((point[2] - max_dist) * scale)
        q.cx = _cells_between(x, _cell_coordinate((point[0] + max_dist) * scale), q.nx)
        q.cy = _cells_between(y, _cell_coordinate((point[1] + max_dist) * scale), q.ny)
        q.cz = _cells_between(z, _cell_coordinate((point[2] + max_dist) * scale), q.nz)
        q.px = _wrapped(x, q.nx)
        q.py = _wrapped(y, q.ny)
        q.pz = _wrapped(z, q.nz)
    return q


def moved(first, k, n):
    # The cell `k` further, around the end of `n` cells; no sum exceeds `n`.
    r = first + k
    if k >= n - first:
        r = k - (n - first)
    return r


def next_row(q):
    more = q.z < q.cz
    if more:
        x = _moved(q.px, q.x, q.nx)
        y = _moved(q.py, q.y, q.ny)
        z = _moved(q.pz, q.z, q.nz)
        count = min(q.cx - q.x, q.nx - x)
        if q.groups != uint64(0):
            count = 1
        cell = (z * q.ny + y) * q.nx + x
        q.current = _constant_at(q.starts, cell, int32)
        q.end = _constant_at(q.starts, cell + count, int32)
        if q.groups != uint64(0):
            q.current = _first_of_group(q.groups, q.current, q.end, int64(q.group))
            q.end = _first_of_group(q.groups, q.current, q.end, int64(q.group) + int64(1))
        q.x += count
        if q.x >= q.cx:
            q.x = 0
            q.y += 1
        if q.y >= q.cy:
            q.y = 0
            q.z += 1
    return more, q


def first_row(q):
    # The rest of the row that is under way, if something is left of it.
    more = q.current < q.end
    if not more:
        more, q = _hash_grid_next_row(q)
    return more, q


def first_of_group(groups, lo, hi, group):
    while lo < hi:
        middle = lo + (hi - lo) // 2
        if int64(_constant_at(groups, middle, int32)) < group:
            lo = middle + 1
        else:
            hi = middle
    return lo


def next_point(query, index):
    more = True
    while query.current >= query.end and more:
        more, query = _hash_grid_next_row(query)
    found = query.current < query.end
    if found:
        index = _constant_at(query.ids, query.current, int32)
        query.current += 1
    return found, query, index


def point_id(id, index):
    found = int32(-1)
    if id != uint64(0):
        if index >= 0 and index < int32(_hash_grid(id, "count")):
            found = _constant_at(_hash_grid(id, "ids"), index, int32)
    return found
