"""Trees on CUDA devices: built and refitted by kernels, in the order of the stream, and in captured graphs.

Items are sorted by group, then by the Morton code of their center. Neighbours in this order agree in some leading bits
of group, code and place, and the gap between them is an inner node: it covers all items around it that agree in as many
(Karras, 2012, "Maximizing Parallelism in the Construction of BVHs, Octrees, and k-d Trees"). From the range of items of
a node and the number of ancestors whose first child it is below follows its place in preorder: twice the first item,
which counts the leaves and gaps before it, plus that number. Boxes are found from the deepest nodes up. Leaves hold one
item.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.creation import copy
from warp_like.runtime.arrays.objects import Id
from warp_like.runtime.kernels.decorators import func, kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device
from warp_like.runtime.memory.recorder import recorder
from warp_like.runtime.operations.algorithms import radix_sort_pairs
from warp_like.values import from_ir
from warp_like.values.dtypes import float32, int32, uint64

tid, cast, min_, max_, clamp = (Builtin(name) for name in ("tid", "cast", "min", "max", "clamp"))
isnan, atomic_min, atomic_max = (Builtin(name) for name in ("isnan", "atomic_min", "atomic_max"))
mesh_get_point, has_area = Builtin("mesh_get_point"), Builtin("_has_area")
vec3: Any = from_ir(ir.Vec(3, ir.float32))
CODE_BITS = 30


@func
def _center(low: vec3, high: vec3) -> vec3:
    c = 0.5 * low + 0.5 * high
    for k in range(3):
        if isnan(c[k]):
            c[k] = 0.0
        c[k] = clamp(c[k], -1.0e30, 1.0e30)
    return c


@kernel
def _start(bounds: array[float], order: array[int]) -> None:
    i = tid()
    order[i] = i
    if i == 0:
        for k in range(3):
            bounds[k] = 1.0e30
            bounds[3 + k] = -1.0e30


@kernel
def _find_bounds(lowers: array[vec3], uppers: array[vec3], bounds: array[float]) -> None:
    i = tid()
    c = _center(lowers[i], uppers[i])
    for k in range(3):
        atomic_min(bounds, k, c[k])
        atomic_max(bounds, 3 + k, c[k])


@func
def _spread(x: int) -> int:
    """10 bits, two zeros between each."""
    x = (x | (x << 16)) & 0x030000FF
    x = (x | (x << 8)) & 0x0300F00F
    x = (x | (x << 4)) & 0x030C30C3
    return (x | (x << 2)) & 0x09249249


@kernel
def _find_codes(lowers: array[vec3], uppers: array[vec3], bounds: array[float], codes: array[int]) -> None:
    i = tid()
    c = _center(lowers[i], uppers[i])
    code = 0
    for k in range(3):
        size = bounds[3 + k] - bounds[k]
        x = 0.0
        if size > 0.0:
            x = (c[k] - bounds[k]) / size * 1024.0
        code = code | (_spread(int(clamp(x, 0.0, 1023.0))) << k)
    codes[i] = code


@kernel
def _take(values: array[int], order: array[int], taken: array[int]) -> None:
    i = tid()
    taken[i] = values[order[i]]


@func
def _length(x: int) -> int:
    """How many bits a number from 0 on has."""
    n = 0
    for k in range(5):
        half = 16 >> k
        if x >= (1 << half):
            n += half
            x = x >> half
    if x > 0:
        n += 1
    return n


@func
def _agreement(codes: array[int], groups: array[int], grouped: int, i: int, j: int) -> int:
    """In how many leading bits two items agree; -1 where one is not there."""
    agreed = -1
    if i >= 0 and j >= 0 and i < codes.shape[0] and j < codes.shape[0]:
        differ = 0
        if grouped != 0:
            differ = groups[i] ^ groups[j]
        if differ < 0:
            agreed = 0
        elif differ > 0:
            agreed = 32 - _length(differ)
        elif codes[i] != codes[j]:
            agreed = 64 - _length(codes[i] ^ codes[j])
        else:
            agreed = 96 - _length(i ^ j)
    return agreed


@func
def _end(codes: array[int], groups: array[int], grouped: int, i: int, step: int, least: int) -> int:
    """The last item from ``i`` on in a direction that agrees with ``i`` in ``least`` bits."""
    reach = 1
    while _agreement(codes, groups, grouped, i, i + step * reach) >= least:
        reach = reach * 2
    found = 0
    while reach > 0:
        if _agreement(codes, groups, grouped, i, i + step * (found + reach)) >= least:
            found += reach
        reach = reach // 2
    return i + step * found


@kernel
def _find_ranges(codes: array[int], groups: array[int], grouped: int, first: array[int], last: array[int]) -> None:
    """Thread ``i`` finds the items of the node that splits between ``i`` and ``i + 1``."""
    i = tid()
    agreed = _agreement(codes, groups, grouped, i, i + 1)
    first[i] = _end(codes, groups, grouped, i, -1, agreed)
    last[i] = _end(codes, groups, grouped, i + 1, 1, agreed)


@kernel
def _place(
    codes: array[int],
    groups: array[int],
    grouped: int,
    first: array[int],
    last: array[int],
    count: int,
    nodes: array[int],
    depths: array[int],
) -> None:
    """Put a node in its place: threads up to ``count`` have leaves, the others inner nodes."""
    i = tid()
    low, high = i, i
    if i >= count:
        low, high = first[i - count], last[i - count]
    items = high - low + 1
    at, depth = 2 * low, 0
    a, b = low, high
    while a > 0 or b < count - 1:  # up to the root
        parent = a - 1
        before = _agreement(codes, groups, grouped, a - 1, a)
        if _agreement(codes, groups, grouped, b, b + 1) > before:
            parent = b
            at += 1
        a, b = first[parent], last[parent]
        depth += 1
    depths[at] = depth
    if i < count:
        depths[at] = -1
        nodes[8 * at + 6] = 1
        nodes[8 * at + 7] = i
    else:
        nodes[8 * at + 6] = at + 2 * items - 1
        nodes[8 * at + 7] = -1


@kernel
def _box_items(lowers: array[vec3], uppers: array[vec3], order: array[int], boxes: array[float]) -> None:
    i = tid()
    low, high = lowers[order[i]], uppers[order[i]]
    for k in range(3):
        boxes[6 * i + k] = low[k]
        boxes[6 * i + 3 + k] = high[k]


@kernel
def _box_leaves(boxes: array[float], nodes: array[int]) -> None:
    """As on the CPU, a coordinate that is NaN makes the box empty along this axis."""
    i = tid()
    if nodes[8 * i + 7] >= 0:
        for k in range(6):
            x = boxes[6 * nodes[8 * i + 7] + k]
            if isnan(x):
                x = float32(np.inf) if k < 3 else float32(-np.inf)
            nodes[8 * i + k] = cast(x, int32)


@kernel
def _box_inner(depths: array[int], depth: int, nodes: array[int]) -> None:
    i = tid()
    if depths[i] == depth:
        left = i + 1
        right = left + 1
        if nodes[8 * left + 7] < 0:
            right = nodes[8 * left + 6]
        for k in range(3):
            low = min_(cast(nodes[8 * left + k], float32), cast(nodes[8 * right + k], float32))
            high = max_(cast(nodes[8 * left + 3 + k], float32), cast(nodes[8 * right + 3 + k], float32))
            nodes[8 * i + k] = cast(low, int32)
            nodes[8 * i + 3 + k] = cast(high, int32)


@kernel
def _fill_blocks(mesh: uint64, order: array[int], places: array[int], blocks: array[int]) -> None:
    i = tid()
    at, face = 80 * (i // 8) + i % 8, order[i]
    places[i] = at
    p, q, r = mesh_get_point(mesh, 3 * face), mesh_get_point(mesh, 3 * face + 1), mesh_get_point(mesh, 3 * face + 2)
    for k in range(3):
        blocks[at + 8 * k] = cast(p[k], int32)
        blocks[at + 8 * (3 + k)] = cast(q[k], int32)
        blocks[at + 8 * (6 + k)] = cast(r[k], int32)
    if not has_area(p, q, r):
        face = -1 - face
    blocks[at + 72] = face


class DeviceTree:
    """The arrays of a tree over boxes on a CUDA device, as ``Tree`` on the CPU; leaves hold one box.

    Args:
        count: The number of boxes.
        device: Where it lies.
    """

    def __init__(self, count: int, device: Device) -> None:
        self.count, self.device = count, device
        self.node_count = max(2 * count - 1, 0)
        self.nodes = self._ints(8 * max(self.node_count, 1))
        self.order = self._ints(2 * count)  # twice: the sort's scratch memory
        self.boxes = new_array(element_type(float32), (6 * count,), device, zero=False)
        self.groups: array | None = None
        self._bounds = new_array(element_type(float32), (6,), device, zero=False)
        self._codes, self._sorted_codes, self._sorted_groups = (self._ints(2 * count) for _ in range(3))
        self._first, self._last = self._ints(count), self._ints(count)
        self._depths = self._ints(self.node_count)
        self._most_deep = 0

    def _ints(self, size: int) -> array:
        return new_array(element_type(int32), (size,), self.device, zero=True)

    def _run(self, work: Any, dim: int, *args: Any) -> None:
        launch(work, dim, list(args), device=self.device, record_tape=False)

    def build(self, lowers: array, uppers: array, groups: array | None, method: Any) -> None:
        """Build the tree anew, by Morton codes whatever ``method`` is.

        Raises:
            RuntimeError: The build is captured, and there are groups.
        """
        n = self.count
        if groups is not None and recorder.graph is not None:
            raise RuntimeError("a hierarchy with groups on a CUDA device can't be rebuilt in a captured graph")
        if not n:
            return
        self._run(_start, n, self._bounds, self.order)
        self._run(_find_bounds, n, lowers, uppers, self._bounds)
        self._run(_find_codes, n, lowers, uppers, self._bounds, self._codes)
        codes, wanted = self._sorted_codes[:n], self._sorted_groups[:n]
        copy(self._sorted_codes, self._codes, count=n)
        radix_sort_pairs(self._sorted_codes, self.order, n, 0, CODE_BITS)
        grouped = int(groups is not None)
        if groups is not None:
            self._run(_take, n, groups, self.order, wanted)
            radix_sort_pairs(self._sorted_groups, self.order, n)
            self._run(_take, n, self._codes, self.order, codes)
        self._run(_find_ranges, n - 1, codes, wanted, grouped, self._first, self._last)
        places = self.nodes, self._depths
        self._run(_place, self.node_count, codes, wanted, grouped, self._first, self._last, n, *places)
        self._most_deep = CODE_BITS + n.bit_length() + 32 * grouped
        self.refit(lowers, uppers)
        self.groups = None if groups is None else self._group_roots(wanted.numpy())

    def _group_roots(self, groups: np.ndarray) -> array:
        """The groups, then the root of each: the node that begins with its first item and has as many."""
        names, starts, counts = np.unique(groups, return_index=True, return_counts=True)
        words = self.nodes.numpy()[: 8 * self.node_count].reshape(-1, 8)
        leaf = words[:, 7] >= 0
        before: np.ndarray = np.cumsum(leaf) - leaf  # the first item of each node
        items = np.where(leaf, 1, (words[:, 6] - np.arange(len(words)) + 1) // 2)
        of = {pair: i for i, pair in enumerate(zip(before.tolist(), items.tolist(), strict=True))}
        roots = [of[int(s), int(c)] for s, c in zip(starts, counts, strict=True)]
        made = self._ints(2 * len(names))
        made.assign(np.concatenate([names, roots]).astype(np.int32))
        return made

    def refit(self, lowers: array, uppers: array) -> None:
        """Fit it to boxes that have moved."""
        if self.count:
            self._run(_box_items, self.count, lowers, uppers, self.order, self.boxes)
            self._run(_box_leaves, self.node_count, self.boxes, self.nodes)
            for depth in range(self._most_deep, -1, -1):
                self._run(_box_inner, self.node_count, self._depths, depth, self.nodes)

    @property
    def words(self) -> dict[str, Any]:
        """What a descriptor says of it."""
        return {
            "nodes": self.nodes,
            "order": self.order,
            "boxes": self.boxes,
            "groups": self.groups,
            "node_count": self.node_count,
            "group_count": 0 if self.groups is None else self.groups.size // 2,
            "count": self.count,
        }


class DeviceFaces:
    """The faces of a mesh in the order of its tree, on a CUDA device, as ``FaceTree`` on the CPU."""

    wide = None

    def __init__(self, tree: DeviceTree) -> None:
        self.tree = tree
        self.places = new_array(element_type(int32), (tree.count,), tree.device, zero=False)
        self.blocks = new_array(element_type(int32), (80 * -(-tree.count // 8),), tree.device, zero=True)

    def fit(self, mesh: Id) -> None:
        """Fit it to points of the mesh that have moved. The tree is fitted by itself."""
        args = [mesh, self.tree.order, self.places, self.blocks]
        launch(_fill_blocks, self.tree.count, args, device=self.tree.device, record_tape=False)
