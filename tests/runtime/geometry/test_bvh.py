"""Bounding volume hierarchies: what their queries find, beside brute force in float64."""

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret

METHODS = ["sah", "median", "lbvh", "cubql"]


@wp.kernel
def visit(
    bvh: wp.uint64,
    kind: int,
    a: wp.array(dtype=wp.vec3),
    b: wp.array(dtype=wp.vec3),
    r: float,
    group: int,
    most: float,
    seen: wp.array2d(dtype=int),
):
    i = wp.tid()
    root = -1
    if group >= 0:
        root = wp.bvh_get_group_root(bvh, group)
    query = wp.bvh_query_aabb(bvh, a[i], b[i], root)
    if kind == 1:
        query = wp.bvh_query_ray(bvh, a[i], b[i], root)
    if kind == 2:
        query = wp.bvh_query_capsule(bvh, a[i], b[i], r, root)
    if kind == 3:
        query = wp.bvh_query_sphere(bvh, a[i], r, root)
    j = 0
    while wp.bvh_query_next(query, j, most):
        seen[i, j] += 1


@wp.kernel
def pairs(bvh: wp.Bvh, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), found: wp.array(dtype=int)):
    i = wp.tid()
    n = 0
    for j in wp.bvh_query_aabb(bvh, low[i], high[i]):
        if j == i:
            continue
        for k in wp.bvh_query_sphere(bvh, low[j], 0.1):
            if k != i:
                n += 1
    found[i] = n


@wp.kernel
def first(bvh: wp.Bvh, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), found: wp.array(dtype=int)):
    i = wp.tid()
    found[i] = -1
    for j in wp.bvh_query_aabb(bvh, low[i], high[i]):
        if j != i:
            found[i] = j
            break


@wp.kernel
def count(bvh: wp.uint64, low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3), found: wp.array(dtype=int)):
    i = wp.tid()
    for _j in wp.bvh_query_aabb(bvh, low[i], high[i]):
        found[i] += 1


def boxes(n, seed=0, size=0.3):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    return low, low + rng.uniform(0, size, (n, 3)).astype(np.float32)


def met_by_ray(low, high, start, dir, r, most):
    """Whether rays meet boxes, and how clear that is."""
    low, high, start, dir = (x.astype(np.float64) for x in (low - r, high + r, start, dir))
    with np.errstate(all="ignore"):
        s, t = (low - start[:, None]) / dir[:, None], (high - start[:, None]) / dir[:, None]
    near, far = np.minimum(s, t), np.maximum(s, t)
    along = np.broadcast_to(dir[:, None] == 0, near.shape)
    inside = (start[:, None] >= low) & (start[:, None] <= high)
    near = np.where(along, np.where(inside, -np.inf, np.inf), near).max(-1)
    far = np.where(along, np.where(inside, np.inf, -np.inf), far).min(-1)
    margin = np.min([np.abs(far), np.abs(far - near), np.abs(most - near)], axis=0)
    return (far >= 0) & (far >= near) & (near < most), margin > 1e-4


def distance(low, high, p):
    low, high, p = (x.astype(np.float64) for x in (low, high, p))
    return np.linalg.norm(np.maximum(0, np.maximum(low - p[:, None], p[:, None] - high)), axis=-1)


def found_by(bvh, kind, a, b, r=0.2, group=-1, most=np.inf):
    n, m = len(a), bvh.lowers.size
    seen = wp.zeros((n, max(m, 1)), dtype=int)
    wp.launch(visit, dim=n, inputs=[bvh.id, kind, a, b, r, group, most], outputs=[seen])
    return seen.numpy()[:, :m]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "leaf_size"), [(400, 1), (300, 4), (2, 1), (1, 3), (0, 1), (2500, None)])
def test_queries_find_what_brute_force_finds(method, n, leaf_size):
    low, high = boxes(n, seed=n)
    low[: n // 20] = high[: n // 20] = low[:1]  # points, all in one place
    if n > 100:
        low[-1], high[-2], high[-3] = np.nan, np.nan, low[-3] - 1
        low[-4, 1], high[-5, 0], low[-6, 2] = np.nan, np.nan, high[-6, 2] + 1
    bvh = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3), method, leaf_size=leaf_size)
    a, b = boxes(60, seed=9)
    dir = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    dir[:10, 0] = dir[5:15, 1] = 0
    with np.errstate(invalid="ignore"):
        there = np.all(low <= high, axis=-1)
        meets = np.all((a[:, None] <= high) & (b[:, None] >= low), axis=-1) & there
        np.testing.assert_array_equal(found_by(bvh, 0, a, b)[:, there], meets[:, there])
        assert not found_by(bvh, 0, a - 2, b + 2)[:, ~there].any()
        without_end = np.full((2, 3), np.float32(np.inf))
        without_end[1, 1] = 3.0
        np.testing.assert_array_equal(found_by(bvh, 0, -without_end, without_end), np.tile(there, (2, 1)))
        assert not found_by(bvh, 3, a, b, r=3.0)[:, ~there].any()
        for kind, most in [(1, np.inf), (1, 0.7), (2, 1.0)]:
            met, clear = met_by_ray(low, high, a, dir, 0.2 * (kind == 2), most)
            found = found_by(bvh, kind, a, dir, most=most)
            assert not found[:, ~there].any()
            np.testing.assert_array_equal(found[clear & there], met[clear & there])
        d = distance(low, high, a)
        clear = there & (np.abs(d - 0.2) > 1e-5)
        np.testing.assert_array_equal(found_by(bvh, 3, a, b)[clear], (d <= 0.2)[clear])


@pytest.mark.parametrize("width", [1, 8])
def test_queries_with_nan_or_infinity_find_nothing(width):
    """But boxes, which may reach to infinity."""
    low, high = boxes(30)
    bvh = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3))
    middle = 0.5 * (low + high)
    start, dir = (np.repeat(x, 6, axis=0) for x in (middle - [0, 0, 5], np.float32([[0, 0, 1]] * 30)))
    for k in range(6):
        (start, dir)[k // 3][k::6, k % 3] = (np.nan, np.inf, -np.inf)[k % 3]
    for kind, a in ((1, start), (2, start), (3, start[:3])):
        seen = wp.zeros((len(a), 30), dtype=int)
        inputs = [bvh.id, kind, wp.array(a, dtype=wp.vec3), wp.array(dir[: len(a)], dtype=wp.vec3), 0.5, -1, 100.0]
        wp.launch(visit, len(a), inputs=inputs, outputs=[seen], options={"vector_width": width})
        assert not seen.numpy().any()
    seen = wp.zeros((2, 30), dtype=int)
    corners = [wp.array(np.float32([x, [np.nan, x[1], x[2]]]), dtype=wp.vec3) for x in ([-np.inf] * 3, [np.inf] * 3)]
    wp.launch(visit, 2, inputs=[bvh.id, 0, *corners, 0.0, -1, 100.0], outputs=[seen])
    assert seen.numpy().tolist() == [[1] * 30, [0] * 30]


def test_boxes_move():
    low, high = boxes(500)
    x, y = wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3)
    bvh = wp.Bvh(x, y, leaf_size=3)
    for change in (bvh.refit, bvh.rebuild, lambda: bvh.rebuild("lbvh"), bvh.refit):
        low, high = boxes(500, seed=len(low))
        low, high = low[::-1] * 50, high[::-1] * 50
        x.assign(np.minimum(low, high))
        y.assign(np.maximum(low, high))
        change()
        met = np.all((low[:, None] <= high) & (high[:, None] >= low), axis=-1)
        np.testing.assert_array_equal(found_by(bvh, 0, low, high), met)


def test_groups():
    low, high = boxes(300)
    groups = np.random.default_rng(2).choice([0, 5, 6, 1000], 300).astype(np.int32)
    args = (wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3))
    met = np.all((low[:, None] <= high) & (high[:, None] >= low), axis=-1)
    for method in METHODS:
        bvh = wp.Bvh(*args, method, wp.array(groups, dtype=int), leaf_size=2)
        for group in (0, 5, 6, 1000):
            np.testing.assert_array_equal(found_by(bvh, 0, low, high, group=group), met & (groups == group))
        np.testing.assert_array_equal(found_by(bvh, 0, low, high), met)
        np.testing.assert_array_equal(found_by(bvh, 0, low, high, group=7), met)  # no such group: all


def test_many_boxes_in_one_place():
    n = 200_000
    x, y = wp.zeros(n, dtype=wp.vec3), wp.ones(n, dtype=wp.vec3)
    for method in METHODS:
        bvh = wp.Bvh(x, y, method)
        seen = wp.zeros((1, n), dtype=int)
        half = np.full((1, 3), 0.5, np.float32)
        wp.launch(visit, dim=1, inputs=[bvh.id, 3, half, half, 0.1, -1, 1.0], outputs=[seen])
        assert (seen.numpy() == 1).all()


@pytest.mark.parametrize("width", [1, 8])
def test_loops_in_loops_and_exits(width):
    low, high = boxes(120, size=0.5)
    bvh = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3))
    met = np.all((low[:, None] <= high) & (high[:, None] >= low), axis=-1)
    near = distance(low, high, low) <= np.float32(0.1)
    found, one = wp.zeros(120, dtype=int), wp.zeros(120, dtype=int)
    options = {"vector_width": width}
    wp.launch(pairs, dim=120, inputs=[bvh, low, high], outputs=[found], options=options)
    expected = [sum(near[j].sum() - near[j, i] for j in np.flatnonzero(met[i]) if j != i) for i in range(120)]
    np.testing.assert_array_equal(found.numpy(), expected)
    wp.launch(first, dim=120, inputs=[bvh, low, high], outputs=[one], options=options)
    others = met & ~np.eye(120, dtype=bool)
    assert all(others[i, j] if j >= 0 else not others[i].any() for i, j in enumerate(one.list()))


def test_the_interpreter_agrees():
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    low, high = boxes(15, size=0.8)
    bvh = wp.Bvh(wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3), leaf_size=2)
    f = prepare(build_kernel(visit.source, visit.types))
    for kind in range(4):
        seen = np.zeros((15, 15), np.int32)
        interpret(f, [int(bvh.id), kind, low, high, 0.3, -1, 2.0, seen], (15,))
        np.testing.assert_array_equal(seen, found_by(bvh, kind, low, high, r=0.3, most=2.0))


def test_a_captured_graph_refits():
    low, high = boxes(50)
    x, y = wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3)
    bvh = wp.Bvh(x, y)
    seen = wp.zeros((50, 50), dtype=int)
    with wp.ScopedCapture() as capture:
        bvh.refit()
        wp.launch(visit, dim=50, inputs=[bvh.id, 0, low, high, 0.0, -1, 1.0], outputs=[seen])
    for shift in (0.0, 0.3):
        x.assign(low + np.float32(shift))
        y.assign(high + np.float32(shift))
        seen.zero_()
        wp.capture_launch(capture.graph)
        moved = low + np.float32(shift), high + np.float32(shift)
        met = np.all((low[:, None] <= moved[1]) & (high[:, None] >= moved[0]), axis=-1)
        np.testing.assert_array_equal(seen.numpy(), met)


def test_an_id_of_another_kind():
    grid = wp.HashGrid(2, 2, 2)
    with pytest.raises(ValueError, match="hierarchy that is alive on cpu, or 0 for none, got that of a h"):
        wp.launch(pairs, dim=1, inputs=[grid, *boxes(1)], outputs=[wp.zeros(1, dtype=int)])


@wp.kernel
def either(id: wp.uint64, is_bvh: bool, found: wp.array(dtype=int)):
    if is_bvh:
        for _i in wp.bvh_query_sphere(id, wp.vec3(0.0), 10.0):
            found[0] += 1
    else:
        for _i in wp.hash_grid_query(id, wp.vec3(0.0), 10.0):
            found[0] += 10


def test_an_id_of_several_kinds():
    x, found = wp.zeros(2, dtype=wp.vec3), wp.zeros(1, dtype=int)
    bvh, grid = wp.Bvh(x, x), wp.HashGrid(2, 2, 2)
    grid.build(x, 1.0)
    for _ in range(2):
        wp.launch(either, dim=1, inputs=[bvh.id, True], outputs=[found])
        wp.launch(either, dim=1, inputs=[grid.id, False], outputs=[found])
    assert found.list() == [44]
    with pytest.raises(ValueError, match="refers to nothing"):
        wp.launch(either, dim=1, inputs=[77, True], outputs=[found])


V = wp.zeros(3, dtype=wp.vec3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.Bvh([1.0], V), TypeError, "`lowers` is a wp.array"),
        (lambda: wp.Bvh(V, wp.zeros(3, dtype=float)), RuntimeError, "`uppers` is a contiguous array"),
        (lambda: wp.Bvh(V, wp.zeros(6, dtype=wp.vec3)[::2]), RuntimeError, "`uppers` is a contiguous array"),
        (lambda: wp.Bvh(V, wp.zeros(4, dtype=wp.vec3)), RuntimeError, "3 lower corners and 4 upper corners"),
        (lambda: wp.Bvh(V, V, groups=wp.zeros(2, dtype=int)), RuntimeError, "3 lower corners and 2 groups"),
        (lambda: wp.Bvh(V, V, "octree"), ValueError, '"sah", "median", "lbvh" or "cubql"'),
        (lambda: wp.Bvh(V, V, leaf_size=0), ValueError, "at least one box"),
        (lambda: wp.Bvh(V, V).rebuild("x"), ValueError, "a tree is built by"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_threads_go_in_the_order_of_the_boxes():
    """Each has a box of its own, and there are as many: brute force finds the same for all."""
    n = 700
    low, high = boxes(n, seed=5, size=0.5)
    order = np.random.default_rng(6).permutation(n)
    low, high = low[order], high[order]
    x, y = wp.array(low, dtype=wp.vec3), wp.array(high, dtype=wp.vec3)
    found = wp.zeros(n, dtype=int)
    wp.launch(count, dim=n, inputs=[wp.Bvh(x, y).id, x, y], outputs=[found])
    meets = np.all((low[:, None] <= high) & (high[:, None] >= low), axis=-1)
    np.testing.assert_array_equal(found.numpy(), meets.sum(1))
    assert "in the order of an object's items" in str(count.explain())


def test_cubql_is_another_name_of_sah():
    low = np.random.default_rng(3).random((50, 3)).astype(np.float32)
    boxes = [wp.array(x, dtype=wp.vec3) for x in (low, low + np.float32(0.1))]
    sah, cubql = (wp.Bvh(*boxes, constructor=name) for name in ("sah", "cubql"))
    assert not wp.is_cubql_available()
    np.testing.assert_array_equal(cubql._tree.nodes.numpy(), sah._tree.nodes.numpy())
