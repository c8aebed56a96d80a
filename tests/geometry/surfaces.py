"""What the tests of surfaces share: fields, measures of triangles, and a loss."""

import numpy as np

import warp_like as wp


def surrounded(field, value=1.0):
    """Put a layer of nodes around a field, so that its surface is closed."""
    return np.pad(np.asarray(field, np.float32), 1, constant_values=value)


def open_edges(verts, triangles):
    """Return the edges with one triangle; all others have two, which run along them in opposite directions."""
    ends = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).astype(np.int64)
    assert (ends[:, 0] != ends[:, 1]).all()
    there, back = ends @ [len(verts), 1], ends @ [1, len(verts)]
    assert len(np.unique(there)) == len(there)  # no edge is taken twice in one direction
    assert np.array_equal(np.unique(triangles), np.arange(len(verts)))
    return ends[~np.isin(there, back)]


def volume(verts, triangles):
    a, b, c = verts[triangles].transpose(1, 0, 2)
    return np.einsum("ij,ij->", a, np.cross(b, c)) / 6


def area(verts, triangles):
    a, b, c = verts[triangles].transpose(1, 0, 2)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


def euler_characteristic(verts, triangles):
    return len(verts) - len(triangles) // 2  # a closed surface has three edges for two triangles


def grid(*counts):
    return np.meshgrid(*(np.linspace(-1, 1, n) for n in counts), indexing="ij")


@wp.kernel
def add_squares(verts: wp.array[wp.vec3], loss: wp.array[float]):
    wp.atomic_add(loss, 0, wp.length_sq(verts[wp.tid()]))
