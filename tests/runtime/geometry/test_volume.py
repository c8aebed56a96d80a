"""Volumes beside NumPy, their files, and damaged files."""

import io

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run as interpret
from tests.long_tail import tail
from warp_like.runtime.geometry import nanovdb

rng = np.random.default_rng(11)
V3 = wp.array(dtype=wp.vec3)
I3 = wp.array2d(dtype=int)


@wp.kernel
def look_f(v: wp.uint64, ijk: I3, uvw: V3, f: wp.array2d(dtype=float), grad: V3):
    n = wp.tid()
    f[n, 0] = wp.volume_lookup_f(v, ijk[n, 0], ijk[n, 1], ijk[n, 2])
    f[n, 1] = wp.volume_sample_f(v, uvw[n], wp.Volume.LINEAR)
    f[n, 2] = wp.volume_sample(v, uvw[n], wp.Volume.CLOSEST, dtype=float)
    slope = wp.vec3()
    f[n, 3] = wp.volume_sample_grad_f(v, uvw[n], wp.Volume.LINEAR, slope)
    grad[n] = slope


@wp.kernel
def look_v(v: wp.uint64, ijk: I3, uvw: V3, f: wp.array2d(dtype=wp.vec3)):
    n = wp.tid()
    f[n, 0] = wp.volume_lookup_v(v, ijk[n, 0], ijk[n, 1], ijk[n, 2])
    f[n, 1] = wp.volume_sample_v(v, uvw[n], wp.Volume.LINEAR)
    f[n, 2] = wp.volume_sample(v, uvw[n], wp.Volume.CLOSEST, dtype=wp.vec3)


@wp.kernel
def look_i(v: wp.uint64, ijk: I3, uvw: V3, f: I3):
    n = wp.tid()
    f[n, 0] = wp.volume_lookup_i(v, ijk[n, 0], ijk[n, 1], ijk[n, 2])
    f[n, 1] = wp.volume_sample(v, uvw[n], wp.Volume.LINEAR, dtype=int)
    f[n, 2] = wp.volume_sample_i(v, uvw[n])


def spread(shape, n=300):
    """Voxels and places in and around an array."""
    ijk = rng.integers(-10, np.array(shape) + 10, (n, 3)).astype(np.int32)
    return ijk, (ijk + rng.uniform(-0.49, 0.49, (n, 3))).astype(np.float32)


def at(a, ijk, background):
    inside = ((ijk >= 0) & (ijk < a.shape[:3])).all(1)
    found = np.empty((len(ijk), *a.shape[3:]))
    found[...] = background
    found[inside] = a[tuple(ijk[inside].T)]
    return found


def linear(a, uvw, background):
    low = np.floor(uvw).astype(int)
    f, total = uvw.astype(np.float64) - low, 0
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(corner, f, 1 - f), axis=1)
        total += at(a, low + corner, background) * weight.reshape(-1, *[1] * (a.ndim - 3))
    return total


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 8), (11, 5, 140)])
def test_values_of_arrays(shape):
    a = rng.normal(size=shape).astype(np.float32)
    volume = wp.Volume.load_from_numpy(a, bg_value=2.5)
    ijk, uvw = spread(shape)
    f, grad = wp.zeros((300, 4), dtype=float), wp.zeros(300, dtype=wp.vec3)
    wp.launch(look_f, dim=300, inputs=[volume.id, ijk, uvw], outputs=[f, grad])
    got = f.numpy()
    np.testing.assert_array_equal(got[:, 0], at(a, ijk, 2.5))
    np.testing.assert_allclose(got[:, 1], linear(a, uvw, 2.5), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[:, 2], at(a, ijk, 2.5))
    np.testing.assert_allclose(got[:, 3], got[:, 1], rtol=1e-5, atol=1e-5)
    low = np.floor(uvw)
    for axis in range(3):
        sides = [np.where(np.arange(3) == axis, low + k, uvw) for k in (0, 1)]
        slope = linear(a, sides[1], 2.5) - linear(a, np.nextafter(sides[0], 1e9), 2.5)
        np.testing.assert_allclose(grad.numpy()[:, axis], slope, rtol=1e-3, atol=1e-4)

    vectors = rng.normal(size=(*shape, 3)).astype(np.float32)
    g = wp.zeros((300, 3), dtype=wp.vec3)
    volume = wp.Volume.load_from_numpy(vectors, bg_value=[1.0, 2.0, 3.0])
    wp.launch(look_v, dim=300, inputs=[volume.id, ijk, uvw], outputs=[g])
    np.testing.assert_array_equal(g.numpy()[:, 0], at(vectors, ijk, [1, 2, 3]))
    np.testing.assert_allclose(g.numpy()[:, 1], linear(vectors, uvw, [1, 2, 3]), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(g.numpy()[:, 2], at(vectors, ijk, [1, 2, 3]))

    numbers = rng.integers(-(2**30), 2**30, shape).astype(np.int32)
    h = wp.zeros((300, 3), dtype=int)
    wp.launch(look_i, dim=300, inputs=[wp.Volume.load_from_numpy(numbers, bg_value=-7).id, ijk, uvw], outputs=[h])
    for k in range(3):
        np.testing.assert_array_equal(h.numpy()[:, k], at(numbers, ijk, -7))
    wp.launch(look_i, dim=300, inputs=[volume.id, ijk, uvw], outputs=[h])  # of another type
    assert not h.numpy().any()
    wp.launch(look_i, dim=300, inputs=[0, ijk, uvw], outputs=[h])
    assert not h.numpy().any()


@wp.kernel
def fill(v: wp.Volume, ijk: I3):
    n = wp.tid()
    i, j, k = ijk[n, 0], ijk[n, 1], ijk[n, 2]
    wp.volume_store_f(v, i, j, k, float(i) + 0.5 * float(j) - 0.25 * float(k))


@wp.kernel
def read(v: wp.Volume, ijk: I3, out: wp.array(dtype=float), count: wp.array(dtype=int)):
    n = wp.tid()
    out[n] = wp.volume_lookup(v, ijk[n, 0], ijk[n, 1], ijk[n, 2], dtype=float)
    count[0] = wp.volume_voxel_count(v)


def test_sparse_tiles_far_apart():
    points = np.int32(
        [[0, 0, 0], [3, 4, 7], [-1, -1, -1], [5000, -9000, 123], [2**30, 2**30, -(2**30)], [4095, 0, 128]]
    )
    volume = wp.Volume.allocate_by_tiles(wp.array(points, dtype=wp.vec3i), 0.25, -1.0, (1.0, 2.0, 3.0))
    tiles = {tuple(p) for p in points >> 3 << 3}
    assert {tuple(t) for t in volume.get_tiles().numpy()} == tiles
    assert volume.get_tile_count() == len(tiles) == 5
    voxels = volume.get_voxels().numpy()
    assert len(voxels) == volume.get_voxel_count() == 5 * 512 == len(np.unique(voxels, axis=0))
    assert {tuple(v) for v in voxels >> 3 << 3} == tiles
    outside = points + np.int32([0, 8, 0])
    ijk = np.concatenate([voxels, outside]).astype(np.int32)
    out, count = wp.zeros(len(ijk), dtype=float), wp.zeros(1, dtype=int)
    wp.launch(fill, dim=len(ijk), inputs=[volume, ijk])
    wp.launch(read, dim=len(ijk), inputs=[volume, ijk], outputs=[out, count])
    x = ijk.astype(np.float32)
    np.testing.assert_array_equal(out.numpy()[: len(voxels)], (x @ np.float32([1, 0.5, -0.25]))[: len(voxels)])
    np.testing.assert_array_equal(out.numpy()[len(voxels) :], -1)
    assert count.list() == [2560]
    given = wp.zeros(9, dtype=wp.vec3i)
    assert volume.get_tiles(given) is given
    np.testing.assert_array_equal(given.numpy()[:5], volume.get_tiles().numpy())
    places = np.float32([[0.1, 0.2, 0.3], [-5.0, 7.0, 9.0]])
    by_place = wp.Volume.allocate_by_tiles(wp.array(places, dtype=wp.vec3), 0.5)
    assert {tuple(t) for t in by_place.get_tiles().numpy()} == {(0, 0, 0), (-16, 8, 16)}
    boxed = wp.Volume.allocate([-1, 0, 8], [8, 0, 8], 1.0)
    assert {tuple(t) for t in boxed.get_tiles().numpy()} == {(-8, 0, 8), (0, 0, 8), (8, 0, 8)}
    world = wp.Volume.allocate([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 0.125, points_in_world_space=True)
    assert world.get_tile_count() == 8


@pytest.mark.parametrize(
    "background",
    [
        *(wp.float32(1.5), wp.float64(0.1), wp.int32(-3), tail(wp.int64(2**40)), tail(wp.uint32(2**30))),
        *(wp.vec3(1.0, 2.0, 3.0), tail(wp.vec3d(0.1, 0.2, 0.3))),
        *(tail(wp.vec4(1.0, 2.0, 3.0, 4.0)), wp.vec4d(0.1, 0.2, 0.3, 0.4)),
    ],
)
def test_every_type_of_value(background):
    t = type(background)
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, background)
    assert volume.dtype is t

    @wp.kernel(module="unique")
    def copy(v: wp.uint64, out: wp.array(dtype=t)):
        one = wp.volume_lookup(v, 1, 2, 3, dtype=t)
        out[0] = one
        out[1] = wp.volume_lookup(v, 100, 2, 3, dtype=t)
        wp.volume_store(v, 4, 4, 4, one + one)
        out[2] = wp.volume_lookup(v, 4, 4, 4, dtype=t)
        out[3] = wp.volume_sample(v, wp.vec3(3.5, 4.0, 4.0), wp.Volume.CLOSEST, dtype=t)

    out = wp.zeros(4, dtype=t)
    wp.launch(copy, dim=1, inputs=[volume.id, out])
    np.testing.assert_array_equal(out.numpy()[0], np.asarray(background))
    np.testing.assert_array_equal(out.numpy()[1], out.numpy()[0])
    np.testing.assert_array_equal(out.numpy()[2], 2 * out.numpy()[0])
    np.testing.assert_array_equal(out.numpy()[3], out.numpy()[2])


@wp.kernel
def to_world(v: wp.uint64, x: V3, out: wp.array2d(dtype=wp.vec3), precise: wp.array2d(dtype=wp.vec3d)):
    i = wp.tid()
    out[i, 0] = wp.volume_index_to_world(v, x[i])
    out[i, 1] = wp.volume_world_to_index(v, x[i])
    out[i, 2] = wp.volume_index_to_world_dir(v, x[i])
    out[i, 3] = wp.volume_world_to_index_dir(v, x[i])
    y = wp.vec3d(wp.float64(x[i][0]), wp.float64(x[i][1]), wp.float64(x[i][2]))
    precise[i, 0] = wp.volume_index_to_world(v, y)
    precise[i, 1] = wp.volume_world_to_index(v, y)
    precise[i, 2] = wp.volume_index_to_world_dir(v, y)
    precise[i, 3] = wp.volume_world_to_index_dir(v, y)


def test_the_map_to_the_world():
    size, shift = np.array([0.1, 0.2, 0.7]), np.array([1.0, -2.0, 3.0])
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], size.tolist(), translation=shift.tolist())
    np.testing.assert_allclose(volume.get_voxel_size(), size)
    x = rng.normal(size=(20, 3)).astype(np.float32)
    out, precise = wp.zeros((20, 4), dtype=wp.vec3), wp.zeros((20, 4), dtype=wp.vec3d)
    wp.launch(to_world, dim=20, inputs=[volume.id, x], outputs=[out, precise])
    wide = x.astype(np.float64)
    wanted = np.stack([wide * size + shift, (wide - shift) / size, wide * size, wide / size], 1)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(precise.numpy(), wanted, rtol=1e-12)


@wp.kernel
def sampled(v: wp.uint64, x: V3, out: wp.array(dtype=float)):
    i = wp.tid()
    p = wp.volume_world_to_index(v, x[i])
    out[i] = wp.volume_sample_f(v, p, wp.Volume.LINEAR) + wp.volume_sample_v(v, p, wp.Volume.LINEAR)[0]


def test_gradients_to_places():
    volume = wp.Volume.load_from_numpy(rng.normal(size=(9, 9, 9)).astype(np.float32), voxel_size=0.5)
    x = (rng.integers(0, 8, (50, 3)) / 2 + rng.uniform(0.05, 0.45, (50, 3))).astype(np.float32)
    given, out = wp.array(x, dtype=wp.vec3, requires_grad=True), wp.zeros(50, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(sampled, dim=50, inputs=[volume.id, given], outputs=[out])
    tape.backward(grads={out: wp.ones(50, dtype=float)})
    f, slope = wp.zeros((50, 4), dtype=float), wp.zeros(50, dtype=wp.vec3)
    wp.launch(look_f, dim=50, inputs=[volume.id, np.zeros((50, 3), np.int32), 2 * x], outputs=[f, slope])
    np.testing.assert_allclose(given.grad.numpy(), 2 * slope.numpy(), rtol=1e-4, atol=1e-4)
    with wp.Tape() as tape:
        wp.launch(sampled, dim=50, inputs=[volume.id, given], outputs=[out])
    wp.launch(fill, dim=1, inputs=[volume, np.int32([[1, 1, 1]])])
    with pytest.raises(RuntimeError, match="needs the volume that it queried as it was then"):
        tape.backward(grads={out: wp.ones(50, dtype=float)})


@pytest.mark.parametrize("width", [1, 8])
def test_lanes_and_the_interpreter_agree(width):
    from warp_like.frontend.build import build_kernel
    from warp_like.passes.pipeline import prepare

    volume = wp.Volume.load_from_numpy(rng.normal(size=(9, 3, 12)).astype(np.float32))
    ijk, uvw = spread((9, 3, 12), 16)
    f, grad = wp.zeros((16, 4), dtype=float), wp.zeros(16, dtype=wp.vec3)
    wp.launch(look_f, dim=16, inputs=[volume.id, ijk, uvw], outputs=[f, grad], options={"vector_width": width})
    again, slope = np.zeros((3, 4), np.float32), np.zeros((3, 3), np.float32)
    args = [int(volume.id), ijk[:3], uvw[:3], again, slope]
    interpret(prepare(build_kernel(look_f.source, look_f.types)), args, (3,))
    np.testing.assert_allclose(again, f.numpy()[:3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("codec", ["none", "zip"])
def test_files(tmp_path, codec):
    a = rng.normal(size=(9, 20, 5)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(a, (1.0, 2.0, 3.0), 0.5, bg_value=4.0)
    path = volume.save_to_nvdb(tmp_path / "a.nvdb", codec)
    with open(path, "rb") as file:
        again = wp.Volume.load_from_nvdb(file)
    np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())
    assert again.get_grid_info() == volume.get_grid_info()
    assert again.get_voxel_size() == (0.5, 0.5, 0.5)
    assert wp.Volume.load_from_nvdb(path.read_bytes()).get_tile_count() == volume.get_tile_count()
    copied = wp.Volume(volume.array())
    np.testing.assert_array_equal(copied.get_tiles().numpy(), volume.get_tiles().numpy())


def test_several_grids_of_a_file(tmp_path):
    arrays = [rng.normal(size=(9, 3, 4)).astype(np.float32), rng.integers(0, 9, (2, 2, 20)).astype(np.int32)]
    first, second = (wp.Volume.load_from_numpy(a, bg_value=bg) for a, bg in zip(arrays, (0.0, 0), strict=True))
    files = [v.save_to_nvdb(tmp_path / "a.nvdb").read_bytes() for v in (first, second)]
    head, start = 16, 193  # of the file, and of its grid
    both = b"".join([files[0][:12], b"\2\0", files[0][14:head], *(f[head:start] for f in files)])
    both += b"".join(f[start:] for f in files)
    loaded = wp.Volume.load_from_nvdb(both)
    following = loaded.load_next_grid()
    assert (loaded.dtype, following.dtype) == (wp.float32, wp.int32)
    for n, (made, wanted) in enumerate(((loaded, first), (following, second))):
        assert made.get_grid_info()[2:4] == (n, 2)
        np.testing.assert_array_equal(made.array().numpy()[32:], wanted.array().numpy()[32:])
    assert following.load_next_grid() is None
    assert first.load_next_grid() is None
    damaged = bytearray(both)
    damaged[head + 2 * (start - head) + len(files[0]) - start] ^= 255  # the mark of the second grid
    loaded = wp.Volume.load_from_nvdb(bytes(damaged))
    with pytest.raises(nanovdb.Damaged, match="signature is missing"):
        loaded.load_next_grid()
    with pytest.raises(nanovdb.Damaged):
        wp.Volume.load_from_nvdb(both[:-1])


@pytest.mark.parametrize("codec", ["none", "zip"])
def test_damaged_files_raise(tmp_path, codec):
    """Each byte of headers and links that is changed gives an exception, or a volume that can be read."""
    volume = wp.Volume.allocate_by_tiles(np.int32([[0, 0, 0], [5000, 1, -1]]), 1.0)
    good = volume.save_to_nvdb(tmp_path / "a.nvdb", codec).read_bytes()
    for end in (0, 5, 16, 100, 300, len(good) - 1):
        with pytest.raises(RuntimeError, match="NanoVDB"):
            wp.Volume.load_from_nvdb(good[:end])
    raised = 0
    grid = volume._grid
    root = 193 + grid.root  # in the file, after its header, the metadata and the name
    near = [*range(200), *range(193 + 16, 193 + 40), *range(193 + 632, 193 + 700), *range(root, root + 160)]
    links = [193 + int(x) for x in np.flatnonzero(grid.data)][::97]
    ijk, uvw = spread((8, 8, 8), 20)
    out = wp.zeros((20, 4), dtype=float)
    for place in [*near, *links] if codec == "none" else range(0, len(good), 37):
        damaged = bytearray(good)
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            made = wp.Volume.load_from_nvdb(io.BytesIO(bytes(damaged)))
        except nanovdb.Damaged:
            raised += 1
        else:
            wp.launch(look_f, dim=20, inputs=[made.id, ijk, uvw], outputs=[out, wp.zeros(20, dtype=wp.vec3)])
    assert raised > 20


def test_links_and_sizes_that_can_not_be(tmp_path):
    """A link whose end is beyond 64 bits, for each level of the tree; a node in another; a size beyond memory."""
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0)
    grid, it = volume._grid, volume._grid.layout
    upper = grid.root + it.root_size + it.tile_size
    lower = upper + it.upper_size
    links = (
        (grid.root, grid.root + it.root_size + 8),
        (upper, upper + it.upper_table),
        (lower, lower + it.lower_table),
    )
    for node, link in links:
        data = grid.data.copy()
        data[link : link + 8].view(np.int64)[0] = 2**63 - 8 - node
        with pytest.raises(nanovdb.Damaged, match="lies out of it"):
            nanovdb.Grid(data)
    data = grid.data.copy()
    link = lower + it.lower_table  # to a tile in the lower node itself, whose links writes would change
    data[link : link + 8].view(np.int64)[0] = 1088
    with pytest.raises(nanovdb.Damaged, match="nodes lie in each other"):
        nanovdb.Grid(data)
    packed = bytearray(volume.save_to_nvdb(tmp_path / "a.nvdb", "zip").read_bytes())
    packed[16:24] = b"\xff" * 8
    with pytest.raises(nanovdb.Damaged, match="file is damaged"):
        wp.Volume.load_from_nvdb(bytes(packed))


def test_layouts_are_those_of_nanovdb():
    """Sizes of the root, its rows, upper and lower nodes and tiles, as in the format's own table."""
    known = {
        1: (64, 32, 270400, 33856, 2144),
        2: (96, 32, 270400, 33856, 4224),
        4: (64, 32, 270400, 33856, 2144),
        5: (96, 32, 270400, 33856, 4224),
        6: (96, 32, 532544, 66624, 6272),
        7: (128, 64, 794720, 99424, 12448),
        10: (64, 32, 270400, 33856, 2144),
        17: (96, 64, 532576, 66656, 8320),
        18: (160, 64, 1056896, 132224, 16544),
        **dict.fromkeys((3, 9), (64, 32, 270400, 33856, 1120)),
        8: (64, 32, 270400, 33856, 96),
        11: (64, 32, 270400, 33856, 160),
        12: (64, 32, 270400, 33856, 2144),
        13: (64, 32, 270400, 33856, 352),
        14: (64, 32, 270400, 33856, 608),
        15: (64, 32, 270400, 33856, 1120),
        **dict.fromkeys((19, 20), (96, 32, 270400, 33856, 96)),
        **dict.fromkeys((21, 22), (96, 32, 270400, 33856, 160)),
        23: (96, 32, 270400, 33856, 1120),
        24: (64, 32, 270400, 33856, 1632),
        25: (64, 32, 270400, 33856, 3200),
        26: (64, 32, 270400, 33856, 608),
    }
    for number, it in nanovdb.LAYOUTS.items():
        assert (it.root_size, it.tile_size, it.upper_size, it.lower_size, it.leaf_size) == known[number]


A = np.zeros((2, 2, 2), np.float32)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.Volume([1]), TypeError, "`data` is a wp.array"),
        (lambda: wp.Volume(wp.zeros(3, dtype=float)), RuntimeError, "array of bytes"),
        (lambda: wp.Volume(wp.zeros(9000, dtype=wp.uint8)), RuntimeError, "signature is missing"),
        (lambda: wp.Volume.load_from_nvdb(b"x" * 99), RuntimeError, "signature is missing"),
        (lambda: wp.Volume.load_from_numpy(A[0]), ValueError, "`ndarray` has 3 axes"),
        (lambda: wp.Volume.load_from_numpy(A, voxel_size=0.0), ValueError, "`voxel_size` is positive"),
        (lambda: wp.Volume.load_from_numpy(A, voxel_size=[1, 2]), ValueError, "`voxel_size` is three finite numbers"),
        (lambda: wp.Volume.allocate([0, 0], [1, 1, 1], 1.0), ValueError, "`min` is three finite numbers"),
        (lambda: wp.Volume.allocate([0, 0, 9], [1, 1, 1], 1.0), ValueError, "`max` is below `min`"),
        (lambda: wp.Volume.load_from_numpy(A, bg_value=None), ValueError, "an index grid has no values"),
        (lambda: wp.Volume.allocate([0] * 3, [1] * 3, 1.0, "x"), ValueError, "`bg_value` is a number, a vector"),
        (lambda: wp.Volume.allocate_by_tiles(np.zeros(3), 1.0), ValueError, "`tile_points` are vectors of 3"),
        (
            lambda: wp.Volume.load_from_numpy(A).get_tiles(wp.zeros(0, dtype=wp.vec3i)),
            RuntimeError,
            "at least 1 wp.vec3i",
        ),
        (lambda: wp.Volume.load_from_numpy(A).save_to_nvdb("/dev/null", "lzma"), ValueError, "`codec` is"),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()


@wp.kernel
def wrong_type(v: wp.uint64, out: wp.array(dtype=wp.vec2)):
    out[0] = wp.volume_lookup(v, 0, 0, 0, dtype=wp.vec2)


def test_mistakes_in_kernels():
    with pytest.raises(wp.WarpCodegenError, match="a volume has no values of type vec2"):
        wp.launch(wrong_type, dim=1, inputs=[0, wp.zeros(1, dtype=wp.vec2)])
