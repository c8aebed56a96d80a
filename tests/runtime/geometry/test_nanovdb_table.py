"""The table of a volume's tiles says what the tree says."""

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.runtime.geometry import nanovdb
from warp_like.runtime.geometry.nanovdb_table import table_of

BACKGROUND = 3.0
CUBE = [(8 * i, 8 * j, 8 * k) for i in range(-3, 4) for j in range(-3, 4) for k in range(-3, 4)]
SCENES = {
    "one tile": ([(0, 0, 0)], {}),
    "a cube, and values of both kinds of nodes": ([*CUBE, (200, 8, 16)], {(200, 8, 16): 1, (24, 24, 24): 0}),
    "tiles far apart": ([(0, 0, 0), (100_000, -70_000, 8)], {}),
    "a value of the root": ([*CUBE, (5000, 0, 0)], {(5000, 0, 0): 2}),
    "at the ends of all voxels": ([(2**31 - 8, 0, 0), (2**31 - 8, -8, 0)], {}),
    "at both ends": ([(2**31 - 8, 0, 0), (8 - 2**31, 0, 0)], {}),
}
HAVE_NONE = {"tiles far apart", "a value of the root", "at both ends"}


@wp.kernel
def look(volume: wp.Volume, ijk: wp.array2d(dtype=int), f: wp.vec3, out: wp.array2d(dtype=float)):
    n = wp.tid()
    i, j, k = ijk[n, 0], ijk[n, 1], ijk[n, 2]
    out[n, 0] = wp.volume_lookup_f(volume, i, j, k)
    out[n, 1] = float(wp.volume_lookup_index(volume, i, j, k))
    if wp.abs(i) < 100000:  # where a float holds the place
        place = wp.vec3(float(i), float(j), float(k)) + f
        out[n, 2] = wp.volume_sample_f(volume, place, wp.Volume.LINEAR)


def with_value(data, tile, level, value):
    """Let a value of a lower (0) or upper node (1), or of the root (2), stand for a tile that is the last."""
    grid = nanovdb.Grid(data)
    it, made = grid.layout, data.copy()
    if level == 2:
        at, size = grid.root + it.root_size, it.tile_size
        count = int(made[grid.root + 24 :][:4].view(np.uint32)[0])
        keys = made[at : at + count * size].reshape(count, size)[:, :8].copy().view(np.uint64)[:, 0]
        at += size * int(np.flatnonzero(keys == int(tile[0]) >> 12 << 42)[0])
        made[at + 8 : at + 16] = 0
        made[at + it.tile_value :][:4] = np.array([value], np.float32).view(np.uint8)
        return made
    bits, mask, start, step = it.tables[1 - level]
    nodes, origins = grid.levels[1 - level]
    side = 1 << bits + step
    (which,) = np.flatnonzero((origins // side == np.array(tile) // side).all(1))
    x, y, z = ((c % side) >> step for c in tile)
    n = (x << 2 * bits) | (y << bits) | z
    node = int(nodes[which])
    made[node + mask + n // 8] &= 255 ^ (1 << n % 8)
    made[node + start + n * it.stride :][:8] = 0
    made[node + start + n * it.stride :][:4] = np.array([value], np.float32).view(np.uint8)
    return made


@pytest.mark.parametrize(("width", "scene"), crossed([1, 8], SCENES, every=2))
def test_tiles_are_found(scene, width):
    rng = np.random.default_rng(5)
    tiles, turned = SCENES[scene]
    made = wp.Volume.allocate_by_tiles(np.array(tiles, np.int32), 1.0, BACKGROUND)
    data, values, sides = made.array().numpy(), {}, {}
    for number, (tile, level) in enumerate(turned.items()):
        values[tile], sides[tile] = 10.0 + number, (8, 128, 4096)[level]
        data = with_value(data, tile, level, values[tile])
    volume = wp.Volume(wp.array(data))
    assert (table_of(nanovdb.Grid(data)) is None) == (scene in HAVE_NONE)
    held = volume.get_tiles().numpy()
    voxels = rng.uniform(0, 1, (len(held), 512)).astype(np.float32)
    volume.values.assign(voxels)

    def value(ijk):
        """The value of a voxel, and its number."""
        for tile, side in sides.items():
            if (ijk // side == np.array(tile) // side).all():
                return values[tile], -1
        found = np.flatnonzero((held == ijk // 8 * 8).all(1))
        if not len(found):
            return BACKGROUND, -1
        x, y, z = ijk % 8
        n = 64 * x + 8 * y + z
        return voxels[found[0], n], 512 * found[0] + n

    near = np.array(tiles, np.int64)[rng.integers(0, len(tiles), 150)] + rng.integers(-12, 20, (150, 3))
    anywhere = rng.integers(-(2**31), 2**31, (20, 3))
    ijk = (np.concatenate([near, anywhere]) + 2**31) % 2**32 - 2**31  # places wrap around, as integers do
    f = np.array([0.25, 0.5, 0.75], np.float32)
    out = wp.zeros((len(ijk), 3), dtype=float)
    look.options["vector_width"] = width
    wp.launch(look, len(ijk), inputs=[volume, ijk.astype(np.int32), wp.vec3(*f.tolist())], outputs=[out])
    got = out.numpy()
    wanted = np.array([value(p) for p in ijk])
    np.testing.assert_array_equal(got[:, :2], wanted.astype(np.float32))
    for p, sample in zip(ijk, got[:, 2], strict=True):
        if abs(p[0]) < 100_000:
            low = np.floor(p.astype(np.float32) + f).astype(np.int64)
            t = (p.astype(np.float32) + f) - low
            expected = 0.0
            for corner in np.ndindex(2, 2, 2):
                there = (low + corner + 2**31) % 2**32 - 2**31
                expected += value(there)[0] * np.prod(np.where(corner, t, 1 - t))
            assert abs(sample - expected) < 1e-4
