"""What winding numbers need of each node of a mesh's tree: its faces seen from far away, as if they were in one place.

Barill, Dickson, Schmidt, Levin and Jacobson (2018), Fast Winding Numbers for Soups and Clouds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like.runtime.geometry.bvh import Tree

if TYPE_CHECKING:
    from warp_like.runtime.geometry.device_tree import DeviceTree

Array = np.ndarray[Any, Any]


def moments(tree: Tree | DeviceTree, corners: Array) -> Array:
    """Return 16 float32 for each node: see ``ir/objects.py``. ``corners`` are those of each face, ``(faces, 3, 3)``.

    The faces of a subtree stand in a row in the order of the leaves, so each sum is a difference of two sums from the
    beginning.
    """
    nodes = tree.nodes.numpy()[: 8 * tree.node_count].reshape(-1, 8)
    first, end = _faces_below(nodes[:, 6:].view(np.int32))
    p, q, r = corners[tree.order.numpy()[: tree.count]].astype(np.float64).transpose(1, 0, 2)
    normals = 0.5 * np.cross(q - p, r - p)
    middles = (p + q + r) / 3
    finite = np.isfinite(normals).all(1, keepdims=True)
    normals, middles = np.where(finite, normals, 0), np.where(finite, middles, 0)

    def below(x: Array) -> Array:
        sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, 0)])
        found: Array = sums[end] - sums[first]
        return found

    areas = np.linalg.norm(normals, axis=1, keepdims=True)
    size = below(areas)
    low, high = nodes[:, :3].astype(np.float64), nodes[:, 3:6].astype(np.float64)
    with np.errstate(invalid="ignore"):
        middle = np.where(size > 0, below(areas * middles) / np.maximum(size, 1e-300), (low + high) / 2)
        radius = np.linalg.norm(np.maximum(np.abs(low - middle), np.abs(high - middle)), axis=1)
    normal = below(normals)
    products = below((normals[:, :, None] * middles[:, None]).reshape(-1, 9)).reshape(-1, 3, 3)
    products -= normal[:, :, None] * middle[:, None]
    found: Array = np.concatenate([middle, radius[:, None], normal, products.reshape(-1, 9)], 1).astype(np.float32)
    return found


def _faces_below(links: Array) -> tuple[Array, Array]:
    """Return where the faces below each node begin and end, in the order of the leaves, by the last words of nodes."""
    skip_or_count, start = links.T
    leaf = start >= 0
    number = np.arange(len(links))
    after = np.where(leaf, number + 1, skip_or_count)
    count = np.concatenate([[0], np.cumsum(np.where(leaf, skip_or_count, 0))])
    return count[number], count[after]
