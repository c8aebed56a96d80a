"""Hash grids: what their queries find, beside brute force."""

import gc

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret
from tests.long_tail import crossed
from warp_like.runtime.geometry import hash_grid

DTYPES = {wp.float16: wp.vec3h, wp.float32: wp.vec3, wp.float64: wp.vec3d}


@wp.kernel
def visit(
    grid: wp.uint64, x: wp.array(dtype=wp.Any), r: wp.Any, seen: wp.array2d(dtype=int), near: wp.array2d(dtype=int)
):
    i = wp.tid()
    query = wp.hash_grid_query(grid, x[i], r)
    j = 0
    while wp.hash_grid_query_next(query, j):
        wp.atomic_add(seen, i, j, 1)
        if wp.length(x[i] - x[j]) <= r:
            near[i, j] = 1


@wp.kernel
def visit_with_for(
    grid: wp.HashGrid, x: wp.array(dtype=wp.Any), r: wp.Any, seen: wp.array2d(dtype=int), near: wp.array2d(dtype=int)
):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        wp.atomic_add(seen, i, j, 1)
        if wp.length(x[i] - x[j]) <= r:
            near[i, j] = 1


@wp.kernel
def visit_group(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, group: int, seen: wp.array2d(dtype=int)):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r, group):
        wp.atomic_add(seen, i, j, 1)


@wp.func
def sum_over(grid: wp.uint64, p: wp.vec3, x: wp.array(dtype=wp.vec3), r: float):
    total = 0.0
    for k in wp.hash_grid_query(grid, p, r):
        total += wp.max(r - wp.length(p - x[k]), 0.0)
    return total


@wp.kernel
def nested(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, pairs: wp.array(dtype=float)):
    i = wp.tid()
    if i % 3 != 2:
        total, last = 0.0, (-1)
        for j in wp.hash_grid_query(grid, x[i], r):
            total += sum_over(grid, x[j], x, r)
            last = j
        pairs[i] = total + float(last) * 0.0


@wp.kernel
def first_near(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, found: wp.array(dtype=int)):
    i = wp.tid()
    found[i] = -1
    for j in wp.hash_grid_query(grid, x[i], r):
        if j == i:
            continue
        if wp.length(x[i] - x[j]) <= r:
            found[i] = j
            break


@wp.kernel
def energy(grid: wp.uint64, x: wp.array(dtype=wp.vec3d), r: wp.float64, e: wp.array(dtype=wp.float64)):
    i = wp.tid()
    p = x[i]
    for j in wp.hash_grid_query(grid, p, r):
        d = wp.length_sq(p - x[j])
        if d < r * r:
            q = r * r - d
            e[i] += q * q


@wp.kernel
def from_array(grids: wp.array(dtype=wp.uint64), x: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
    i = wp.tid()
    for _j in wp.hash_grid_query(grids[0], x[i], 0.5):
        n[i] += 1


@wp.kernel
def in_order(grid: wp.uint64, ids: wp.array(dtype=int)):
    i = wp.tid()
    ids[i] = wp.hash_grid_point_id(grid, i)


def cells(x, scale, dims):
    """The cell of each point, in the arithmetic of its dtype."""
    scaled = np.floor((x * scale).astype(np.float64))
    return np.clip(np.nan_to_num(scaled), -(2**31), 2**31 - 2).astype(np.int64) % dims


def candidates(x, r, width, dims):
    """Whether the box around point ``i`` meets the cell of point ``j``."""
    t = x.dtype.type
    scale, dims = t(1) / t(width), np.array(dims)
    with np.errstate(all="ignore"):
        mine = cells(x, scale, dims)
        lo, hi = (
            np.clip(np.nan_to_num(np.floor((p * scale).astype(np.float64))), -(2**31), 2**31 - 2)
            for p in (x - t(r), x + t(r))
        )
    count = np.clip(hi - lo + 1, 1, dims)
    return np.all((mine[None] - lo[:, None]) % dims < count[:, None], axis=-1)


def run(kernel, grid, x, r, n, device="cpu"):
    seen, near = (wp.zeros((n, n), dtype=int, device=device) for _ in range(2))
    wp.launch(kernel, dim=n, inputs=[grid, x, r], outputs=[seen, near], device=device)
    return seen.numpy(), near.numpy()


@pytest.mark.parametrize(("kernel", "dtype"), crossed([visit, visit_with_for], DTYPES, every=2))
def test_queries_find_what_brute_force_finds(kernel, dtype):
    rng = np.random.default_rng(3)
    scalar = np.dtype(str(dtype.__name__))
    for n, dims, spread, r in [(90, (8, 5, 3), 3.0, 0.7), (60, (2, 2, 64), 9.0, 1.5), (1, (1, 1, 1), 1.0, 0.3)]:
        p = rng.uniform(-spread, spread, (n, 3)).astype(scalar)
        p[: n // 10] = p[0]  # the same point several times
        if n > 50:
            p[-1], p[-2], p[-3] = np.nan, np.inf, -np.inf
        x = wp.array(p, dtype=DTYPES[dtype])
        grid = wp.HashGrid(*dims, dtype=dtype)
        grid.build(x, r)
        seen, near = run(kernel, grid.id if kernel is visit else grid, x, dtype(r), n)
        np.testing.assert_array_equal(seen, candidates(p, r, r, dims))
        with np.errstate(invalid="ignore"):
            distance = np.linalg.norm(p[:, None].astype(np.float64) - p[None], axis=-1)
        sure = np.abs(distance - r) > 0.01
        np.testing.assert_array_equal(near[sure], (distance <= r)[sure])


def test_groups():
    rng = np.random.default_rng(5)
    n, wanted = 80, [7, -3, 2**31 - 1, -(2**31), 5]
    p, g = rng.uniform(-1, 1, (n, 3)).astype(np.float32), rng.choice(wanted[:4], n).astype(np.int32)
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(4, 4, 4)
    grid.build(x, 0.5, groups=g)
    everything = candidates(p, 0.9, 0.5, (4, 4, 4))
    for group in wanted:
        seen = wp.zeros((n, n), dtype=int)
        wp.launch(visit_group, dim=n, inputs=[grid.id, x, 0.9, group], outputs=[seen])
        np.testing.assert_array_equal(seen.numpy(), everything & (g == group))
    np.testing.assert_array_equal(run(visit, grid.id, x, 0.9, n)[0], everything)
    grid.build(x, 0.5)  # without groups, all points count
    seen.zero_()
    wp.launch(visit_group, dim=n, inputs=[grid.id, x, 0.9, 5], outputs=[seen])
    np.testing.assert_array_equal(seen.numpy(), everything)


def test_a_grid_is_built_again_with_more_points_and_fewer():
    rng = np.random.default_rng(6)
    grid = wp.HashGrid(8, 8, 8)
    number = grid.id
    ids = wp.zeros(1, dtype=int)
    wp.launch(in_order, dim=1, inputs=[number], outputs=[ids])
    assert ids.list() == [-1]
    for n in (5, 60, 0, 20):
        p = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
        x = wp.array(p, dtype=wp.vec3)
        grid.build(x, 0.3)
        np.testing.assert_array_equal(run(visit, number, x, 0.3, n)[0], candidates(p, 0.3, 0.3, (8, 8, 8)))
        ids = wp.zeros(n + 1, dtype=int)
        wp.launch(in_order, dim=n + 1, inputs=[grid.id], outputs=[ids])
        assert sorted(ids.list()) == [-1, *range(n)]


@pytest.mark.parametrize("width", crossed([1, 4, 16], every=3))
def test_loops_in_loops_and_exits(width):
    rng = np.random.default_rng(7)
    n, r = 50, 0.4
    p = rng.uniform(0, 1, (n, 3)).astype(np.float32)
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(8, 8, 8)
    grid.build(x, r)
    d = np.linalg.norm(p[:, None].astype(np.float64) - p[None], axis=-1)
    sums, near = np.maximum(r - d, 0).sum(1), candidates(p, r, r, (8, 8, 8))
    pairs, found = wp.zeros(n, dtype=float), wp.zeros(n, dtype=int)
    options = {"vector_width": width}
    wp.launch(nested, dim=n, inputs=[grid.id, x, r], outputs=[pairs], options=options)
    np.testing.assert_allclose(pairs.numpy(), np.where(np.arange(n) % 3 != 2, near @ sums, 0), rtol=1e-5)
    wp.launch(first_near, dim=n, inputs=[grid.id, x, r], outputs=[found], options=options)
    others = (d <= r) & ~np.eye(n, dtype=bool)
    for i, j in enumerate(found.list()):
        assert others[i, j] if j >= 0 else not others[i].any()


def test_the_interpreter_agrees():
    rng = np.random.default_rng(8)
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    p = rng.uniform(0, 1, (12, 3)).astype(np.float32)
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(3, 3, 3)
    grid.build(x, 0.4)
    instance = wp.overload(visit_with_for, {"x": wp.array(dtype=wp.vec3), "r": float})
    f = prepare(build_kernel(instance.source, instance.types))
    seen, near = np.zeros((12, 12), np.int32), np.zeros((12, 12), np.int32)
    interpret(f, [int(grid.id), p, 0.4, seen, near], (12,))
    np.testing.assert_array_equal(seen, candidates(p, 0.4, 0.4, (3, 3, 3)))
    np.testing.assert_array_equal(near, run(visit, grid.id, x, 0.4, 12)[1])


# --- gradients ---


def energies(p, grid, r):
    x = wp.array(p, dtype=wp.vec3d, requires_grad=True)
    e = wp.zeros(len(p), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(energy, dim=len(p), inputs=[grid.id, x, r], outputs=[e])
    return x, e, tape


def test_gradients_pass_through_the_loop():
    rng = np.random.default_rng(9)
    p, r, h = rng.uniform(0, 1, (30, 3)), 0.4, 1e-6
    grid = wp.HashGrid(4, 4, 4, dtype=wp.float64)
    grid.build(wp.array(p, dtype=wp.vec3d), r)
    x, e, tape = energies(p, grid, r)
    tape.backward(grads={e: wp.ones(30, dtype=wp.float64)})
    for i, c in [(0, 0), (7, 1), (29, 2)]:
        moved = [p.copy(), p.copy()]
        moved[0][i, c] -= h
        moved[1][i, c] += h
        low, high = (energies(q, grid, r)[1].numpy().sum() for q in moved)
        np.testing.assert_allclose(x.grad.numpy()[i, c], (high - low) / (2 * h), rtol=1e-5)


def test_a_tape_refuses_a_grid_that_was_built_again():
    p = np.random.default_rng(10).uniform(0, 1, (10, 3))
    grid = wp.HashGrid(4, 4, 4, dtype=wp.float64)
    grid.build(p, 0.4)
    _, e, tape = energies(p, grid, 0.4)
    grid.build(p, 0.4)
    with pytest.raises(RuntimeError, match="needs the hash grid that it queried as it was then"):
        tape.backward(grads={e: wp.ones(10, dtype=wp.float64)})


# --- ids ---


def test_ids_that_refer_to_nothing():
    x, n = wp.zeros(1, dtype=wp.vec3), wp.zeros(1, dtype=int)
    grid = wp.HashGrid(2, 2, 2)
    number = int(grid.id)
    wp.launch(in_order, dim=1, inputs=[number], outputs=[n])
    del grid
    gc.collect()
    text = r"kernel `in_order`, argument 1 `grid`: expected the id of a hash grid that is alive on cpu, or 0 for none"
    for wrong in (number, 12345):
        with pytest.raises(ValueError, match=text):
            wp.launch(in_order, dim=1, inputs=[wrong], outputs=[n])
    wp.launch(in_order, dim=1, inputs=[0], outputs=[n])
    assert n.list() == [-1]
    ids = wp.array([12345], dtype=wp.uint64)
    with pytest.raises(ValueError, match=r"12345 is not the id of a hash grid that is alive"):
        wp.launch(from_array, dim=1, inputs=[ids, x], outputs=[n], options={"mode": "debug"})
    grid = wp.HashGrid(2, 2, 2)
    grid.build(x, 1.0)
    ids, n = wp.array([grid.id], dtype=wp.uint64), wp.zeros(1, dtype=int)
    for mode in ("release", "debug"):
        wp.launch(from_array, dim=1, inputs=[ids, x], outputs=[n], options={"mode": mode})
    assert n.list() == [2]


def test_an_id_keeps_the_memory():
    x, n = wp.zeros(1, dtype=wp.vec3), wp.zeros(1, dtype=int)
    grid = wp.HashGrid(2, 2, 2)
    grid.build(x, 1.0)
    command = wp.launch(in_order, dim=1, inputs=[grid], outputs=[n], record_cmd=True)
    del grid
    gc.collect()
    for _ in range(3):
        n.fill_(7)
        command.launch()
        assert n.list() == [0]


def test_a_captured_graph_builds_the_grid():
    p = np.random.default_rng(11).uniform(0, 1, (20, 3)).astype(np.float32)
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(4, 4, 4)
    grid.reserve(20)
    seen, near = (wp.zeros((20, 20), dtype=int) for _ in range(2))
    with wp.ScopedCapture() as capture:
        grid.build(x, 0.3)
        wp.launch(visit, dim=20, inputs=[grid.id, x, 0.3], outputs=[seen, near])
    for scale in (1.0, 0.4):
        x.assign(p * np.float32(scale))
        seen.zero_()
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(seen.numpy(), candidates(p * np.float32(scale), 0.3, 0.3, (4, 4, 4)))


def test_graphs_that_build_keep_what_kernels_find():
    """Before a graph has run kernels find the points of before; and what it has shown when it is gone."""

    def count(points):
        out = wp.zeros(len(points), dtype=float)
        x = wp.array(points, dtype=wp.vec3)
        wp.launch(pressure, dim=len(points), inputs=[grid.id, x, 0.4], outputs=[out])
        d = np.linalg.norm(points[:, None].astype(np.float64) - points, axis=-1)
        np.fill_diagonal(d, 9)
        np.testing.assert_allclose(out.numpy(), np.maximum(0.4 - d, 0).sum(1), rtol=1e-4, atol=1e-5)

    rng = np.random.default_rng(8)
    few, more, most = (rng.uniform(-1, 1, (n, 3)).astype(np.float32) for n in (50, 500, 600))
    arrays = [wp.array(p, dtype=wp.vec3) for p in (few, more, most)]
    grid = wp.HashGrid(5, 5, 5)
    grid.build(arrays[0], 0.4)
    with wp.ScopedCapture() as capture:
        grid.build(arrays[1], 0.4)
    kept = [wp.full(100, 7, dtype=int) for _ in range(40)]  # in memory of that size which is free
    count(few)
    grid.build(arrays[2], 0.4)
    count(most)
    wp.capture_launch(capture.graph)
    del capture
    kept += [wp.full(1000, 7, dtype=int) for _ in range(40)]
    count(more)
    grid.build(arrays[0], 0.4)
    count(few)


def test_grids_leave_nothing_behind():
    from warp_like.runtime.arrays import objects

    x = wp.zeros(10, dtype=wp.vec3)
    gc.collect()
    before = len(objects._descriptors)
    for _ in range(5):
        grid = wp.HashGrid(2, 2, 2)
        grid.build(x, 1.0)
        del grid
    gc.collect()
    assert len(objects._descriptors) == before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.HashGrid(0, 1, 1), RuntimeError, "takes 1 to 2147483647 cells, got 0 x 1 x 1"),
        (lambda: wp.HashGrid(2048, 2048, 2048), RuntimeError, "takes 1 to 2147483647 cells"),
        (lambda: wp.HashGrid(1.5, 1, 1), TypeError, "whole numbers of cells"),
        (lambda: wp.HashGrid(1, 1, 1, dtype=int), TypeError, "takes dtype=wp.float16, wp.float32 or wp.float64"),
        (lambda: wp.HashGrid(1, 1, 1).build(wp.zeros(3, dtype=wp.vec3d), 1.0), TypeError, "`points` is an array"),
        (lambda: wp.HashGrid(1, 1, 1).build(wp.zeros((3, 2), dtype=wp.vec3), 1.0), TypeError, "`points` is an array"),
        (lambda: wp.HashGrid(1, 1, 1).build(None, 1.0), TypeError, "`points` is an array"),
        (lambda: wp.HashGrid(1, 1, 1).build(wp.zeros(3, dtype=wp.vec3), 0.0), ValueError, "radius is positive"),
        (
            lambda: wp.HashGrid(1, 1, 1).build(wp.zeros(3, dtype=wp.vec3), 1.0, wp.zeros(2, dtype=int)),
            ValueError,
            "3 points and 2 groups",
        ),
        (lambda: wp.HashGrid(1, 1, 1).reserve(-1), ValueError, "from 0 on"),
        (lambda: __import__("pickle").dumps(wp.HashGrid(1, 1, 1)), TypeError, "can't be pickled"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


@wp.kernel
def pressure(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
    i = wp.tid()
    p = x[i]
    total = 0.0
    query = wp.hash_grid_query(grid, p, r)
    j = -1
    while wp.hash_grid_query_next(query, j):
        d = wp.length(p - x[j])
        if d < r and j != i:
            total += r - d
    out[i] = total + 100.0 * float(j < 0)


@wp.kernel
def pressure_in_order(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
    i = wp.hash_grid_point_id(grid, wp.tid())
    for j in wp.hash_grid_query(grid, x[i], r):
        out[i] += float(j != i) * wp.max(r - wp.length(x[i] - x[j]), 0.0)


@wp.kernel
def scattered(grid: wp.uint64, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], r):
        if j != i:
            wp.atomic_add(out, j, wp.max(r - wp.length(x[i] - x[j]), 0.0))


ALONG_CELLS = "threads go in the order of an object's items"


@pytest.mark.parametrize("n", [1, 17, 900])
def test_threads_along_the_cells(n):
    """They are run in the order of the cells where a grid has as many points, and find what they find in any order."""
    rng = np.random.default_rng(n)
    p, r = rng.uniform(-1, 1, (n, 3)).astype(np.float32), 0.35
    if n > 1:
        p[0], p[1] = p[2], np.nan
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(5, 6, 7)
    grid.build(x, r)
    d = np.linalg.norm(p[:, None].astype(np.float64) - p, axis=-1)
    np.fill_diagonal(d, 9)
    sums = np.nansum(np.maximum(r - d, 0), axis=1)
    for kernel in (pressure, pressure_in_order, scattered):
        out = wp.zeros(n, dtype=float)
        wp.launch(kernel, dim=n, inputs=[grid.id, x, r], outputs=[out], options={"vector_width": 1})
        np.testing.assert_allclose(out.numpy(), sums, rtol=1e-4, atol=1e-5, err_msg=kernel.key)
    fewer = n // 2
    out = wp.zeros(n, dtype=float)
    wp.launch(pressure, dim=fewer, inputs=[grid.id, x, r], outputs=[out])
    np.testing.assert_allclose(out.numpy(), np.where(np.arange(n) < fewer, sums, 0), rtol=1e-4, atol=1e-5)
    wp.launch(pressure, dim=n, inputs=[wp.uint64(0), x, r], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), 100.0)


def test_which_threads_go_along_the_cells():
    for kernel, expected in [(pressure, True), (pressure_in_order, False), (scattered, False)]:
        assert (ALONG_CELLS in str(kernel.explain())) == expected, kernel.key


@wp.kernel
def of_a_grid_or_a_volume(
    id: wp.uint64, is_grid: bool, x: wp.array(dtype=wp.vec3), r: float, out: wp.array(dtype=float)
):
    i = wp.tid()
    if is_grid:
        for j in wp.hash_grid_query(id, x[i], r):
            if j != i:
                out[i] += wp.max(r - wp.length(x[i] - x[j]), 0.0)
    else:
        out[i] = float(wp.volume_lookup_index(id, 0, 0, 0))


def test_an_id_of_several_kinds_has_no_order():
    """Launches take objects of any of the kinds, whose words say other things."""
    n = 32  # where a volume's descriptor has the size of a tile, that of a grid has the number of points
    p, r = np.random.default_rng(3).uniform(-1, 1, (n, 3)).astype(np.float32), 0.5
    x, grid = wp.array(p, dtype=wp.vec3), wp.HashGrid(5, 6, 7)
    grid.build(x, r)
    volume = wp.Volume.load_from_numpy(np.ones((8, 8, 8), np.float32))
    d = np.linalg.norm(p[:, None].astype(np.float64) - p, axis=-1)
    np.fill_diagonal(d, 9)
    out = wp.zeros(n, dtype=float)
    wp.launch(of_a_grid_or_a_volume, dim=n, inputs=[volume.id, False, x, r], outputs=[out])
    assert len(set(out.list())) == 1
    out.zero_()
    wp.launch(of_a_grid_or_a_volume, dim=n, inputs=[grid.id, True, x, r], outputs=[out])
    np.testing.assert_allclose(out.numpy(), np.maximum(r - d, 0).sum(1), rtol=1e-4, atol=1e-5)
    assert ALONG_CELLS not in str(of_a_grid_or_a_volume.explain())


def test_a_build_that_fails_leaves_no_points(monkeypatch):
    """Else threads would go in the order of numbers that were half sorted, some of which are too large."""
    few, more = (wp.array(np.random.default_rng(n).uniform(-1, 1, (n, 3)), dtype=wp.vec3) for n in (60, 200))
    grid = wp.HashGrid(4, 4, 4)
    grid.reserve(200)
    grid.build(few, 0.5)

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hash_grid, "radix_sort_pairs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            grid.build(more, 0.5)
    out = wp.zeros(60, dtype=float)
    wp.launch(pressure, dim=60, inputs=[grid.id, few, 0.5], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), 100.0)
    grid.build(few, 0.5)
    wp.launch(pressure, dim=60, inputs=[grid.id, few, 0.5], outputs=[out])
    assert out.numpy().max() < 100.0


def test_both_forms_of_a_loop_go_through_ranges():
    """``while hash_grid_query_next(...)`` is as ``for`` where nobody else looks at the query."""
    whiles = [
        sum(line.strip().startswith("%") and " = while" in line for line in k.inspect("ir").splitlines())
        for k in (pressure, pressure_in_order)
    ]
    assert whiles == [1, 1]
    assert " = for %j" in pressure.inspect("ir")


@wp.kernel
def parts_of_walks(grid: wp.uint64, out: wp.array(dtype=int, ndim=2)):
    i = wp.tid()
    p, j = wp.vec3(0.5, 0.5, 0.5), -1

    counted = wp.hash_grid_query(grid, p, 2.0)
    while out[i, 0] < i:
        if not wp.hash_grid_query_next(counted, j):
            break
        out[i, 0] += 1

    otherwise = wp.hash_grid_query(grid, p, 2.0)
    while True:
        if not wp.hash_grid_query_next(otherwise, j):
            break
        else:
            out[i, 1] += 1

    begun = wp.hash_grid_query(grid, p, 2.0)
    for _ in range(i):
        if wp.hash_grid_query_next(begun, j):
            out[i, 2] += 1
    while wp.hash_grid_query_next(begun, j):
        out[i, 2] += 1

    left = wp.hash_grid_query(grid, p, 2.0)
    while wp.hash_grid_query_next(left, j):
        out[i, 3] += 1
        if out[i, 3] == i:
            break
    for _ in left:
        out[i, 3] += 1


def test_parts_of_walks():
    """A walk that something else may end, that has begun before the loop, or whose test has another side."""
    n = 23
    grid = wp.HashGrid(2, 3, 2)
    grid.build(wp.array(np.random.default_rng(0).uniform(0, 1, (n, 3)).astype(np.float32), dtype=wp.vec3), 0.5)
    out = wp.zeros((n + 2, 4), dtype=int)
    wp.launch(parts_of_walks, dim=n + 2, inputs=[grid.id], outputs=[out])
    expected = np.full((n + 2, 4), n)
    expected[:, 0] = np.minimum(np.arange(n + 2), n)
    np.testing.assert_array_equal(out.numpy(), expected)
