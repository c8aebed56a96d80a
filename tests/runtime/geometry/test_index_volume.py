"""Index grids, data beside them, rebuilds, feature arrays, and samples with slopes, beside NumPy."""

import struct

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import sampled
from tests.runtime.geometry.test_volume import linear
from warp_like.runtime.geometry import nanovdb

rng = np.random.default_rng(5)
V3 = wp.array(dtype=wp.vec3)
I3 = wp.array2d(dtype=int)
VOXELS = np.int32([[0, 0, 0], [1, 0, 0], [-1, 5, 5], [1, 2, 200], [7, 7, 7], [8, 8, 8], [1, 0, 0], [5000, -9000, 1]])


@wp.kernel
def number(v: wp.Volume, ijk: I3, out: wp.array(dtype=int), count: wp.array(dtype=int)):
    n = wp.tid()
    out[n] = wp.volume_lookup_index(v, ijk[n, 0], ijk[n, 1], ijk[n, 2])
    count[0] = wp.volume_voxel_count(v)


def numbers(volume, ijk):
    out, count = wp.zeros(len(ijk), dtype=int), wp.zeros(1, dtype=int)
    wp.launch(number, dim=len(ijk), inputs=[volume, np.ascontiguousarray(ijk, np.int32), out, count])
    return out.numpy(), count.list()[0]


def around(points):
    return np.concatenate([points, points + 1, points - 1, rng.integers(-20, 20, (50, 3))]).astype(np.int32)


def test_numbers_of_voxels(tmp_path):
    """Each voxel has a number, which is its place in `get_voxels`, also after files of all codecs."""
    made = wp.Volume.allocate_by_voxels(wp.array(VOXELS, dtype=wp.vec3i), (0.5, 1.0, 2.0), (1.0, 2.0, 3.0))
    wanted = {tuple(v) for v in VOXELS.tolist()}
    dense = rng.integers(-40, 40, (3000, 3)).astype(np.int32)
    for volume, voxels in (
        (made, wanted),
        (wp.Volume.load_from_nvdb(made.save_to_nvdb(tmp_path / "a.nvdb", "zip").read_bytes()), wanted),
        (wp.Volume.allocate_by_voxels(dense, 1.0), {tuple(v) for v in dense.tolist()}),
        (wp.Volume.allocate_by_voxels(np.zeros((0, 3), np.int32), 1.0), set()),
    ):
        assert volume.is_index
        assert volume.dtype is None
        found = volume.get_voxels().numpy()
        assert {tuple(v) for v in found.tolist()} == voxels
        assert len(found) == volume.get_voxel_count() == volume.get_active_stats().voxel_count == len(voxels)
        ijk = around(found)
        got, count = numbers(volume, ijk)
        places = {tuple(v): n for n, v in enumerate(found.tolist())}
        assert got.tolist() == [places.get(tuple(v), -1) for v in ijk.tolist()]
        assert count == len(voxels)
    points = VOXELS * [0.5, 1.0, 2.0] + [1.0, 2.0, 3.0] + rng.uniform(-0.24, 0.24, VOXELS.shape)
    placed = wp.Volume.allocate_by_voxels(points.astype(np.float32), (0.5, 1.0, 2.0), (1.0, 2.0, 3.0))
    np.testing.assert_array_equal(placed.get_voxels().numpy(), made.get_voxels().numpy())
    masked = wp.Volume.allocate_by_voxels(VOXELS, 1.0, point_mask=wp.array([0, 1, 0, 0, 1, 0, 0, 0], dtype=int))
    assert masked.get_voxels().numpy().tolist() == [[1, 0, 0], [7, 7, 7]]
    half = wp.Volume.allocate_by_voxels(np.float32([[0.5, -2.5, 1.49]]), 1.0)
    assert half.get_voxels().numpy().tolist() == [[1, -2, 1]]
    for tiled in (wp.Volume.allocate_by_tiles(VOXELS, 1.0, None), wp.Volume.allocate_by_tiles(VOXELS, 1.0, 3)):
        found = tiled.get_voxels().numpy()
        got, count = numbers(tiled, found)
        assert got.tolist() == list(range(512 * tiled.get_tile_count()))
        assert count == len(found)
        assert set(numbers(tiled, [[100, 0, 0], [2**31 - 1, 0, -(2**31)]])[0]) == {-1}
    turned = np.array([[0.0, -2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 3.0]])
    mapped = wp.Volume.allocate_by_voxels(VOXELS @ turned.T + 0.25, transform=turned, translation=[0.25] * 3)
    np.testing.assert_array_equal(mapped.get_voxels().numpy(), made.get_voxels().numpy())
    np.testing.assert_allclose(np.array(mapped.get_grid_info().transform_matrix), turned)


@wp.kernel
def look(
    v: wp.Volume,
    x: V3,
    f: wp.array(dtype=float),
    g: wp.array(dtype=wp.vec4d),
    n: wp.array(dtype=wp.int64),
    background: wp.array(dtype=float),
    out: wp.array2d(dtype=float),
    slope: wp.array(dtype=wp.vec3),
    wide: wp.array2d(dtype=wp.vec4d),
    jacobian: wp.array(dtype=wp.types.matrix(shape=(4, 3), dtype=wp.float64)),
    whole: wp.array(dtype=wp.int64),
):
    i = wp.tid()
    out[i, 0] = wp.volume_sample_index(v, x[i], wp.Volume.LINEAR, f, background[0])
    out[i, 1] = wp.volume_sample_index(v, x[i], wp.Volume.CLOSEST, f, background[0])
    d = wp.vec3(0.0)
    out[i, 2] = wp.volume_sample_grad_index(v, x[i], wp.Volume.LINEAR, f, background[0], d)
    slope[i] = d
    zero = wp.vec4d()
    wide[i, 0] = wp.volume_sample_index(v, x[i], wp.Volume.LINEAR, g, zero)
    m = wp.types.matrix(shape=(4, 3), dtype=wp.float64)()
    wide[i, 1] = wp.volume_sample_grad_index(v, x[i], wp.Volume.LINEAR, g, zero, m)
    jacobian[i] = m
    whole[i] = wp.volume_sample_index(v, x[i], wp.Volume.LINEAR, n, wp.int64(-1))


def test_samples_of_data():
    """Values and slopes beside NumPy; gradients to the place, the data and the background beside differences."""
    shape = (6, 5, 10)
    voxels = np.argwhere(np.ones(shape)).astype(np.int32)
    n = 60
    volume = wp.Volume.allocate_by_voxels(rng.permutation(voxels), 1.0)
    x = rng.uniform(-2, 11, (n, 3)).astype(np.float32)
    order = tuple(volume.get_voxels().numpy().T)
    f, g, k = rng.normal(size=shape), rng.normal(size=(*shape, 4)), rng.integers(0, 99, shape)
    arrays = [
        wp.array(f[order], dtype=float, requires_grad=True),
        wp.array(g[order], dtype=wp.vec4d, requires_grad=True),
        wp.array(k[order], dtype=wp.int64),
        wp.array([2.5], dtype=float, requires_grad=True),
    ]
    outs = [wp.zeros((n, 3), dtype=float, requires_grad=True), wp.zeros(n, dtype=wp.vec3, requires_grad=True)]
    outs += [wp.zeros((n, 2), dtype=wp.vec4d, requires_grad=True)]
    outs += [wp.zeros(n, dtype=wp.types.matrix(shape=(4, 3), dtype=wp.float64), requires_grad=True)]
    outs += [wp.zeros(n, dtype=wp.int64)]
    given = wp.array(x, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(look, dim=n, inputs=[volume, given, *arrays], outputs=outs)
    got = [o.numpy() for o in outs]
    np.testing.assert_allclose(got[0][:, 0], linear(f, x, 2.5), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[0][:, 2], linear(f, x, 2.5), rtol=1e-5, atol=1e-5)
    near = np.floor(x + 0.5).astype(int)
    inside = ((near >= 0) & (near < shape)).all(1)
    wanted = np.where(inside, f[tuple(np.where(inside[:, None], near, 0).T)], 2.5)
    np.testing.assert_allclose(got[0][:, 1], wanted, rtol=1e-6)
    np.testing.assert_array_equal(got[4], np.where(inside, k[tuple(np.where(inside[:, None], near, 0).T)], -1))
    np.testing.assert_allclose(got[2][:, 0], linear(g, x, 0.0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got[2][:, 0], got[2][:, 1], rtol=1e-12, atol=1e-12)
    h = 2.0**-8
    low = np.floor(x)
    x0 = np.clip(x.astype(np.float64), low + 2 * h, low + 1 - 2 * h)  # away from the voxels' planes, where slopes jump
    for axis in range(3):
        step = h * np.eye(3)[axis]
        slopes = [(linear(a, x0 + step, bg) - linear(a, x0 - step, bg)) / (2 * h) for a, bg in ((f, 2.5), (g, 0.0))]
        keep = (x0 == x).all(1)
        np.testing.assert_allclose(got[1][keep, axis], slopes[0][keep], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(got[3][keep, :, axis], slopes[1][keep], rtol=1e-3, atol=1e-3)

    seeds = [rng.normal(size=o.shape + o.numpy().shape[o.ndim :]) for o in outs[:4]]
    tape.backward(grads={o: wp.array(s, dtype=o.dtype) for o, s in zip(outs, seeds, strict=False)})

    def loss(to, at):
        changed = wp.array(at, dtype=to.dtype)
        fresh = [changed if a is to else a for a in (given, *arrays)]
        made = [wp.zeros_like(o) for o in outs]
        wp.launch(look, dim=n, inputs=[volume, *fresh], outputs=made)
        return sum(float((s * m.numpy()).sum(dtype=np.float64)) for s, m in zip(seeds, made, strict=False))

    for to, step in ((arrays[0], 0.5), (arrays[1], 0.5), (arrays[3], 0.5)):  # linear in these
        base, way = to.numpy(), rng.normal(size=to.numpy().shape)
        found = (loss(to, base + step * way) - loss(to, base - step * way)) / (2 * step)
        np.testing.assert_allclose(float((to.grad.numpy() * way).sum()), found, rtol=1e-3)
    way = np.where((x0 == x).all(1)[:, None], rng.normal(size=x.shape), 0.0)
    found = (loss(given, x + h / 4 * way) - loss(given, x - h / 4 * way)) / (h / 2)
    np.testing.assert_allclose(float((given.grad.numpy() * way).sum()), found, rtol=2e-2)


def test_too_few_data():
    volume = wp.Volume.allocate_by_voxels(VOXELS, 1.0)
    assert volume.get_voxel_count() == 7

    @wp.kernel
    def few(v: wp.uint64, data: wp.array(dtype=float), out: wp.array(dtype=float)):
        out[wp.tid()] = wp.volume_sample_index(v, wp.vec3(0.0), wp.Volume.LINEAR, data, 3.0)

    out = wp.zeros(9, dtype=float)
    with pytest.raises(AssertionError, match="`voxel_data` has 6 elements, and the volume has 7 voxels"):
        wp.launch(few, dim=9, inputs=[volume.id, wp.zeros(6, dtype=float), out])
    wp.launch(few, dim=9, inputs=[0, wp.zeros(0, dtype=float), out])
    assert set(out.list()) == {3.0}


def values_of(scalar, length):
    """A type of values, and that of its slopes."""
    t = wp.types.vector(length, scalar) if length > 1 else scalar
    return t, wp.types.matrix(shape=(length, 3), dtype=scalar) if length > 1 else wp.types.vector(3, scalar)


@pytest.mark.parametrize(
    ("kind", "length"),
    sampled(
        [
            *((t, n) for t in (wp.float32, wp.float64) for n in (1, 3, 4)),
            *((t, 1) for t in (wp.int32, wp.int64, wp.uint32)),
        ],
        every=3,
    ),
)
def test_slopes_of_each_type(kind, length):
    t, grad_type = values_of(kind, length)
    zero = t() if length > 1 else kind(0)
    scalar = np.dtype(kind.__name__)
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, zero)

    @wp.kernel(module="unique")
    def slopes(v: wp.Volume, x: V3, out: wp.array(dtype=t), again: wp.array(dtype=t), grad: wp.array(dtype=grad_type)):
        i = wp.tid()
        g = grad_type()
        out[i] = wp.volume_sample_grad(v, x[i], wp.Volume.LINEAR, g, dtype=t)
        grad[i] = g
        again[i] = wp.volume_sample(v, x[i], wp.Volume.LINEAR, dtype=t)

    n = np.arange(512).reshape(1, 512, 1) * np.arange(1, length + 1)
    assert volume.values.shape == (1, 512)
    volume.values.assign(n.reshape(volume.values.numpy().shape).astype(scalar))
    x = rng.uniform(0, 6.9, (20, 3)).astype(np.float32)
    out, again, grad = (wp.zeros(20, dtype=k) for k in (t, t, grad_type))
    wp.launch(slopes, dim=20, inputs=[volume, x], outputs=[out, again, grad])
    np.testing.assert_array_equal(out.numpy(), again.numpy())
    at = x if scalar.kind == "f" else np.floor(x + 0.5)
    wanted = (at.astype(np.float64) @ [64, 8, 1])[:, None] * np.arange(1, length + 1)
    np.testing.assert_allclose(out.numpy().reshape(20, -1), wanted, rtol=1e-5, atol=1e-4)
    slope = np.arange(1, length + 1)[:, None] * ([64, 8, 1] if scalar.kind == "f" else [0, 0, 0])
    np.testing.assert_allclose(grad.numpy().reshape(20, length, 3), np.broadcast_to(slope, (20, length, 3)), rtol=1e-3)


def test_rebuilds():
    first = wp.array([[0, 0, 0]], dtype=wp.vec3i)
    tiles = np.int32([[8, 0, 0], [8, 0, 0], [0, 16, 0], [0, 0, 128], [128, 0, 0]])
    mask, status = wp.array([1, 0, 1, 0, 1], dtype=int), wp.array([99], dtype=wp.uint32)
    for background in (None, wp.float64(3.0)):
        volume = wp.Volume.allocate_by_tiles(
            *(first, 1.0, background), max_tiles=4, max_lower_nodes=4, max_upper_nodes=4, status=status
        )
        id = volume.id
        assert status.list() == [wp.Volume.REBUILD_SUCCESS]
        assert volume.is_rebuildable
        assert volume.get_rebuild_info() == wp.Volume.RebuildInfo("tiles", 2048, 4, 4, 4)
        assert (volume.get_voxel_count(), volume.get_tile_count()) == (2048, 4)
        assert volume.rebuild(wp.array(tiles, dtype=wp.vec3i), status, mask) is status
        assert volume.get_active_stats() == wp.Volume.ActiveStats(3 * 512, 3, 2, 1)
        assert volume.get_tiles().numpy()[:3].tolist() == [[0, 16, 0], [8, 0, 0], [128, 0, 0]]
        assert volume.get_tiles().numpy()[3].tolist() == [-(2**31)] * 3
        assert volume.id == id
        volume.rebuild(np.int32([[8 * k, 0, 0] for k in range(5)]), status)
        flags = wp.Volume.REBUILD_LEAF_CAPACITY_EXCEEDED + wp.Volume.REBUILD_VOXEL_CAPACITY_EXCEEDED
        assert status.list() == [flags]
        assert volume.get_active_stats().leaf_node_count == 3  # as it was
        with pytest.raises(RuntimeError, match="there is room for"):
            volume.rebuild(np.int32([[8 * k, 0, 0] for k in range(5)]))
        if background is not None:
            out = wp.zeros(2, dtype=wp.float64)
            wp.launch(read_d, dim=2, inputs=[volume, out])
            assert out.list() == [3.0, 3.0]

    volume = wp.Volume.allocate_by_voxels(VOXELS[:1], 0.5, (1.0, 2.0, 3.0), max_active_voxels=4)
    points, count = wp.array(np.float32([[1.5, 2.0, 3.0]]), dtype=wp.vec3), wp.zeros(1, dtype=int)
    out = wp.zeros(1, dtype=int)
    with wp.ScopedCapture("cpu") as capture:
        volume.rebuild(points, status)
        wp.launch(number, dim=1, inputs=[volume, np.int32([[1, 0, 0]]), out, count])
    for place, found in ((1.5, 0), (2.0, -1)):
        points.assign([[place, 2.0, 3.0]])
        wp.capture_launch(capture.graph)
        assert (status.list(), out.list(), count.list()) == ([0], [found], [1])
    small = wp.Volume.allocate_by_voxels(VOXELS, 1.0, max_active_voxels=2, max_leaf_nodes=1, status=status)
    assert status.list() == [15]
    assert small.get_active_stats() == wp.Volume.ActiveStats(0, 0, 0, 0)


@wp.kernel
def read_d(v: wp.Volume, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    out[i] = wp.volume_lookup(v, 8 * i, 0, 0, dtype=wp.float64)


def with_features(volume, *features):
    """The bytes of a grid with arrays behind its tree: a name, a type's number and the array of each."""
    data = bytearray(volume.array().numpy().tobytes())
    start = len(data)
    heads, tail = b"", b""
    for n, (name, number, a) in enumerate(features):
        begin = 288 * (len(features) - n) + len(tail)
        head = struct.pack("<qQ4I", begin, len(a), a.itemsize, 0, 0, number) + name.encode()
        heads += head + bytes(288 - len(head))
        tail += a.tobytes() + bytes(-len(a.tobytes()) % 32)
    data += heads + tail
    data[32:40] = struct.pack("<Q", len(data))
    data[640:652] = struct.pack("<qI", start, len(features))
    return np.frombuffer(data, np.uint8).copy()


def test_feature_arrays(tmp_path):
    a, b = rng.normal(size=7).astype(np.float32), rng.integers(0, 99, 5).astype(np.uint64)
    data = with_features(wp.Volume.allocate_by_voxels(VOXELS, 1.0), ("density", 1, a), ("shape", 0, b))
    volume = wp.Volume(wp.array(data, dtype=wp.uint8))
    path = volume.save_to_nvdb(tmp_path / "a.nvdb", "zip")
    volume = wp.Volume.load_from_nvdb(path.read_bytes())
    assert volume.get_feature_array_count() == 2
    info = volume.get_feature_array_info(0)
    assert (info.name, info.value_size, info.value_count, info.type_str) == ("density", 4, 7, "float")
    density = volume.feature_array(0)
    assert (density.dtype, density.ptr) == (wp.float32, info.ptr)
    np.testing.assert_array_equal(density.numpy(), a)
    density.fill_(2.0)  # is the volume's own memory, which the array keeps
    assert wp.Volume(volume.array()).feature_array(0).list() == [2.0] * 7
    shape = volume.feature_array(1, wp.uint64)
    assert volume.feature_array(1).dtype is wp.uint8
    del volume
    np.testing.assert_array_equal(shape.numpy(), b)
    volume = wp.Volume(wp.array(data, dtype=wp.uint8))
    with pytest.raises(RuntimeError, match="have 4 bytes"):
        volume.feature_array(0, wp.float64)
    with pytest.raises(IndexError, match="there is no number 2"):
        volume.feature_array(2)
    start = int(data[640:648].view(np.int64)[0])
    for at, number in ((640, len(data)), (640, 2**62), (start, -start), (start, len(data)), (start + 8, 2**40)):
        damaged = data.copy()
        damaged[at : at + 8].view(np.int64)[0] = number
        with pytest.raises(nanovdb.Damaged, match="feature array|lie in each other"):
            nanovdb.Grid(damaged)


def test_damaged_numbers():
    """Numbers of voxels that can't be are refused, and no number is beyond the count."""
    grid = wp.Volume.allocate_by_voxels(VOXELS, 1.0)._grid
    leaf = int(grid.leaves[1])
    for at, number, message in ((80, 2**63, "too large"), (80, 10**9, "has number"), (88, 7, "sums"), (16, 1, "sums")):
        data = grid.data.copy()
        data[leaf + at : leaf + at + 8].view(np.uint64)[0] ^= np.uint64(number)
        with pytest.raises(nanovdb.Damaged, match=message):
            nanovdb.Grid(data)
    data = grid.data.copy()
    data[leaf + 80 : leaf + 88].view(np.uint64)[0] = 0
    odd = wp.Volume(wp.array(data, dtype=wp.uint8))
    found = numbers(odd, VOXELS)[0]
    assert ((found >= -1) & (found < odd.get_voxel_count())).all()


def test_files_of_several_grids(tmp_path):
    a = wp.Volume.load_from_numpy(np.ones((3, 3, 3), np.float32))
    b = wp.Volume.allocate_by_voxels(VOXELS, 1.0)
    path = a.save_to_nvdb(tmp_path / "a.nvdb", "zip", more=[b])
    loaded = wp.Volume.load_from_nvdb(path.read_bytes())
    again = wp.Volume.load_from_nvdb(loaded.save_to_nvdb(path, more=[a]).read_bytes())
    kinds = []
    while again is not None:
        kinds.append(again.get_grid_info()[2:5])
        again = again.load_next_grid()
    assert kinds == [(0, 3, "float"), (1, 3, "OnIndex"), (2, 3, "float")]
    data = a.array()
    assert wp.Volume.load_from_address(data.ptr).get_tile_count() == 1
    with pytest.raises(RuntimeError, match="`grid_ptr` is 0"):
        wp.Volume.load_from_address(0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.Volume.allocate_by_voxels(VOXELS), ValueError, "takes either `voxel_size` or `transform`"),
        (lambda: wp.Volume.allocate_by_voxels(VOXELS, transform=np.zeros((3, 3))), ValueError, "that has an inverse"),
        (lambda: wp.Volume.allocate_by_voxels(np.float32([[np.nan, 0, 0]]), 1.0), ValueError, "are finite"),
        (lambda: wp.Volume.allocate_by_voxels(np.float32([[1e30, 0, 0]]), 1.0), ValueError, "numbers of 32 bits"),
        (lambda: wp.Volume.allocate_by_voxels(VOXELS, 1.0, max_leaf_nodes=0), ValueError, "`max_leaf_nodes` is a pos"),
        (lambda: wp.Volume.allocate_by_voxels(VOXELS, 1.0, point_mask=np.int32([1])), ValueError, "`point_mask` is"),
        (
            lambda: wp.Volume.allocate_by_voxels(VOXELS, 1.0, rebuildable=True, status=np.zeros(1)),
            RuntimeError,
            "`status` is an array",
        ),
        (lambda: wp.Volume.allocate_by_voxels(VOXELS, 1.0).rebuild(VOXELS), RuntimeError, "not made to be rebuilt"),
        (lambda: wp.Volume.allocate_by_voxels(VOXELS, 1.0).values, RuntimeError, "no array of values"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


@wp.kernel
def wrong_slope(v: wp.uint64, out: wp.array(dtype=float)):
    g = wp.vec4()
    out[0] = wp.volume_sample_grad(v, wp.vec3(), wp.Volume.LINEAR, g, dtype=float)


def test_mistakes_in_kernels():
    with pytest.raises(wp.WarpCodegenError, match="`grad` is a vec3.* for values of type float32, got a vec4"):
        wp.launch(wrong_slope, dim=1, inputs=[0, wp.zeros(1, dtype=float)])
