"""Swept volumes, against distances from boxes in float64 and volumes of prisms."""

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import warp_like as wp
import warp_like.geometry
from tests.geometry.surfaces import open_edges, volume

Mode = wp.geometry.SweptVolumeSignMode
HALF = np.array([0.5, 0.3, 0.2])
RNG = np.random.default_rng(23)


def box_mesh(winding=True):
    corners = np.array(list(itertools.product((-1, 1), repeat=3))) * HALF
    faces = [0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 5, 7, 1, 7, 3]
    points = wp.array(corners, dtype=wp.vec3)
    return wp.Mesh(points, wp.array(faces, dtype=int), support_winding_number=winding)


def poses_of(meshes, count):
    places = RNG.uniform(-1, 1, (meshes, count, 3))
    turns = Rotation.random(meshes * count, random_state=5).as_quat().reshape(meshes, count, 4)
    return np.concatenate([places, turns], axis=-1).astype(np.float32)


def box_distance(x):
    outside = np.abs(x) - HALF
    return np.linalg.norm(np.maximum(outside, 0), axis=-1) + np.minimum(outside.max(axis=-1), 0)


def swept_distance(x, poses):
    rows = poses.reshape(-1, 7).astype(np.float64)
    return np.min([box_distance(Rotation.from_quat(r[3:]).inv().apply(x - r[:3])) for r in rows], axis=0)


def nodes(field, lower, upper):
    axes = [np.linspace(a, b, n) for a, b, n in zip(lower, upper, field.shape, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("meshes", "count"), [(1, 1), (2, 3)])
def test_the_field(mode, meshes, count):
    poses = poses_of(meshes, count)
    given = wp.array(poses, dtype=wp.transform) if count == 3 else poses
    made = [box_mesh(mode == Mode.WINDING_NUMBER) for _ in range(meshes)]
    field, lower, upper = wp.geometry.swept_volume_field(made, given, resolution=(13, 9, 11), sign_mode=mode)
    assert (field.dtype, field.shape) == (wp.float32, (13, 9, 11))
    points = nodes(field, lower, upper).reshape(-1, 3)
    expected = swept_distance(points, poses)
    found = field.numpy().ravel()
    if mode == Mode.NO_SIGN:
        assert (found >= 0).all()
        outside = expected > 0
        found, expected = found[outside], expected[outside]
    assert np.allclose(found, expected, atol=1e-4)


def test_a_prism():
    """A box that moves along x in small steps passes through a longer box."""
    poses = np.zeros((1, 41, 7))
    poses[..., 6], poses[0, :, 0] = 1, np.linspace(0, 1, 41)
    low, high = wp.geometry.swept_volume_bounds([box_mesh()], poses, padding=0.25)
    assert np.allclose(low, -HALF - 0.25)
    assert np.allclose(high, np.add(HALF, [1.25, 0.25, 0.25]))
    for threshold in (0.0, 0.1):
        verts, indices = wp.geometry.swept_volume_mesh([box_mesh()], poses, voxel_size=0.04, threshold=threshold)
        points, triangles = verts.numpy().astype(np.float64), indices.numpy().reshape(-1, 3)
        assert not len(open_edges(points, triangles))
        size = 2 * HALF + [1, 0, 0]
        a, b, c = size
        faces, edges = 2 * (a * b + b * c + c * a), a + b + c  # Steiner's formula
        r = threshold
        expected = a * b * c + faces * r + np.pi * edges * r**2 + 4 / 3 * np.pi * r**3
        assert volume(points, triangles) == pytest.approx(expected, rel=0.03)
        assert np.allclose(points.min(axis=0), -HALF - r, atol=0.03)
        assert np.allclose(points.max(axis=0), np.add(HALF, [1 + r, r, r]), atol=0.03)


def test_grids():
    mesh, poses = box_mesh(), poses_of(1, 2)
    field, lower, upper = wp.geometry.swept_volume_field([mesh], poses, voxel_size=0.2)
    assert np.allclose((np.array(upper) - np.array(lower)) / (np.array(field.shape) - 1), 0.2)
    corners = {"lower": (-1, -2, -3), "upper": (1, 2, 3)}
    field, lower, upper = wp.geometry.swept_volume_field([mesh], poses, resolution=(2, 3, 4), **corners)
    assert (tuple(lower), tuple(upper)) == (corners["lower"], corners["upper"])
    assert np.allclose(field.numpy(), swept_distance(nodes(field, lower, upper).reshape(-1, 3), poses).reshape(2, 3, 4))


def test_bad_input():
    mesh, poses = box_mesh(), poses_of(1, 2)
    field = wp.geometry.swept_volume_field
    for call, error, message in (
        (lambda: field([], poses, 0.1), ValueError, "`meshes` has at least one mesh"),
        (lambda: field(mesh, poses, 0.1), TypeError, "`meshes` is a list of wp.Mesh, got"),
        (lambda: field([mesh], poses * np.nan, 0.1), ValueError, "`meshes` and `transforms` have finite numbers"),
        (lambda: field([mesh], poses, 1e-12), ValueError, "`voxel_size` 1e-12 is too small for a box from"),
        (lambda: field([mesh], poses, resolution=4), ValueError, "`resolution` is three numbers of nodes, got 4"),
        (lambda: field([3], poses, 0.1), TypeError, "`meshes` are wp.Mesh, got 3"),
        (lambda: field([mesh], poses), ValueError, "give either `voxel_size` or `resolution`"),
        (lambda: field([mesh], poses, 0.1, resolution=(4, 4, 4)), ValueError, "give either `voxel_size`"),
        (lambda: field([mesh], poses, -0.1), ValueError, "`voxel_size` is positive, got -0.1"),
        (lambda: field([mesh], poses[:, :0], 0.1), ValueError, "`transforms` has a row for each of 1 meshes"),
        (lambda: field([mesh, mesh], poses, 0.1), ValueError, "`transforms` has a row for each of 2 meshes"),
        (lambda: field([mesh], poses[..., :6], 0.1), ValueError, r"`transforms` has the shape \(meshes, poses, 7\)"),
        (lambda: field([mesh], poses, resolution=(4, 4)), ValueError, "`resolution` is three numbers of nodes"),
        (lambda: field([mesh], poses, resolution=(4, 4, 1)), ValueError, "`resolution` is from 2 to"),
        (lambda: field([mesh], poses, resolution=(4, 4, 4), lower=(0, 0, 0)), ValueError, "both `lower` and `upper`"),
        (lambda: field([box_mesh(False)], poses, 0.1), ValueError, "support_winding_number=True"),
        (lambda: wp.geometry.swept_volume_mesh([mesh], poses, 0.1, sign_mode=Mode.NO_SIGN), ValueError, "is positive"),
    ):
        with pytest.raises(error, match=message):
            call()
