"""``wp.Bvh``: boxes in a tree, to find those that meet a box, a ray, a capsule or a sphere.

On the CPU, trees are built by ``native/bvh.cpp`` and refitted by ``native/refit.cpp``; on CUDA devices, kernels do both
(``device_tree.py``).
"""

from __future__ import annotations

import enum
import functools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like import _native
from warp_like.base.contract import ObjectKind
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.objects import Descriptor, Queried
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.device import Device
from warp_like.runtime.memory.recorder import recorder
from warp_like.values import from_ir, to_ir
from warp_like.values.dtypes import float32, int32

if TYPE_CHECKING:
    from warp_like.runtime.geometry.device_tree import DeviceFaces, DeviceTree

VEC3 = ir.Vec(3, ir.float32)
LARGEST_LEAF = 8
"""The most faces of a mesh's leaf: those that a block holds."""
USUAL_LEAF = 8
"""The most boxes of a leaf. To test them one after the other takes less time than the nodes above leaves of one box:
queries for boxes and spheres take about 0.75 times as long."""
MOST_ITEMS = 2**27
"""So many that the words of their nodes can be counted in an int32."""


class BvhConstructor(enum.IntEnum):
    """How a tree is built."""

    SAH = 0
    MEDIAN = 1
    LBVH = 2
    CUBQL = -1
    """Another name of ``SAH`` here: Warp builds such trees with the library cuBQL, which finds the same."""

    @classmethod
    def of(cls, given: BvhConstructor | str | None) -> BvhConstructor:
        """Return the one that ``given`` names; the surface area heuristic for None.

        Raises:
            ValueError: There is none of this name.
        """
        if isinstance(given, cls):
            return given
        if given is None:
            return cls.SAH
        if not isinstance(given, str) or given.upper() not in cls.__members__:
            raise ValueError(f'a tree is built by "sah", "median", "lbvh" or "cubql", got {given!r}')
        return cls[given.upper()]

    @property
    def number(self) -> int:
        """The number that native code has for it."""
        return int(BvhConstructor.SAH if self is BvhConstructor.CUBQL else self)


class Tree:
    """The arrays of a tree over boxes.

    Args:
        count: The number of boxes.
        leaf_size: The most boxes of a leaf.
        device: Where it lies.

    Attributes:
        nodes: The nodes, 8 words each.
        order: The boxes in the order of the leaves.
        boxes: Their corners in this order.
        node_count: How many nodes there are.
        groups: The groups, then the root of each; None without groups.
    """

    def __init__(self, count: int, leaf_size: int, device: Device) -> None:
        self.count, self.leaf_size, self.device = count, leaf_size, device
        self.nodes = new_array(element_type(float32), (8 * max(2 * count - 1, 1),), device, zero=True)
        self.order = new_array(element_type(int32), (count,), device, zero=False)
        self.boxes = new_array(element_type(float32), (6 * count,), device, zero=False)
        self.node_count = 0
        self.groups: array | None = None

    def build(self, lowers: array, uppers: array, groups: array | None, method: BvhConstructor) -> None:
        """Build the tree anew."""
        places = self.order, self.boxes, self.nodes
        self.node_count, names, roots = _native.build_bvh(
            lowers, uppers, groups, self.count, method.number, self.leaf_size, *places
        )
        self.groups = None
        if names:
            self.groups = new_array(element_type(int32), (2 * len(names),), self.device, zero=False)
            self.groups.assign(np.array(names + roots, np.int32))

    def refit(self, lowers: array, uppers: array) -> None:
        """Fit it to boxes that have moved."""
        _native.refit_bvh(lowers, uppers, self.count, self.order, self.boxes, self.nodes, self.node_count)

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


class FaceTree:
    """The faces of a mesh in the order of its tree, and the tree of width 8 over them (``native/wide_bvh.h``).

    Boxes and corners are not there before the first ``fit``.

    Args:
        tree: The tree over the boxes of the faces.

    Attributes:
        places: Where in the blocks each face of the tree's order is.
        blocks: The corners of up to 8 faces each.
        starts: The first face of each block, by its place in the tree's order, then the number of faces.
        wide: The nodes of the wide tree.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.wide_count, self.block_count = _native.count_wide(tree.nodes, tree.node_count)
        self.places = new_array(element_type(int32), (tree.count,), tree.device, zero=False)
        self.blocks = new_array(element_type(float32), (80 * self.block_count,), tree.device, zero=False)
        self.wide = new_array(element_type(float32), (64 * self.wide_count,), tree.device, zero=False)
        self.starts = new_array(element_type(int32), (self.block_count + 1,), tree.device, zero=False)
        of_tree, wide = (tree.nodes, tree.node_count, tree.count), (self.wide, self.wide_count)
        _native.widen_bvh(*of_tree, *wide, self.places, self.starts, self.block_count)

    def fit(self, points: array, indices: array) -> None:
        """Fit it and the tree to points that have moved."""
        tree = self.tree
        of_tree = tree.nodes, tree.node_count, tree.order, tree.boxes, tree.count
        of_faces = self.wide, self.wide_count, self.blocks, self.starts, self.block_count
        _native.fit_faces(*of_tree, *of_faces, points, points.size, indices)


def tree_on(device: Device, count: int, leaf_size: int) -> Tree | DeviceTree:
    """Return the memory of a tree over ``count`` boxes."""
    return Tree(count, leaf_size, device) if device.is_cpu else _device_trees().DeviceTree(count, device)


def faces_of(tree: Tree | DeviceTree) -> FaceTree | DeviceFaces:
    """Return the memory of the faces of a tree that is built."""
    return FaceTree(tree) if isinstance(tree, Tree) else _device_trees().DeviceFaces(tree)


def _device_trees() -> Any:
    from warp_like.runtime.geometry import device_tree  # its kernels, of which programs on the CPU have no need

    return device_tree


def checked(of: str, name: str, given: Any, t: ir.Type, device: Device | None = None) -> array:
    """Return the argument ``given`` of ``of``, a contiguous array of one dimension of ``t``, on ``device`` if given.

    Raises:
        TypeError: It is another object.
        RuntimeError: It is another array, as in Warp.
    """
    if not isinstance(given, array):
        raise TypeError(f"{of}: `{name}` is a wp.array, got {type(given).__name__}")
    if to_ir(given.dtype) != t or given.ndim != 1 or not given.is_contiguous:
        raise RuntimeError(
            f"{of}: `{name}` is a contiguous array of one dimension of {from_ir(t).__name__}, got {given!r}"
        )
    if device is not None and given.device != device:
        raise RuntimeError(f"{of}: `{name}` is on {given.device}, and the other arrays on {device}")
    return given


def now_and_in_graphs(name: str, device: Device, work: Any) -> None:
    """Do it; or, under a capture, each time that the graph runs. On CUDA it is launches, which are captured."""
    if recorder.graph is None or not device.is_cpu:
        work()
    else:
        recorder.graph.add_call(name, work)


def is_cubql_available() -> bool:
    """Return whether the library cuBQL builds trees: it does not. The constructor ``"cubql"`` stands for ``"sah"``."""
    return False


class Bvh(Queried):
    """Boxes in a tree, for kernels that look for those that meet a box, a ray, a capsule or a sphere.

    A kernel takes the ``id``, or the object itself for a parameter annotated ``wp.Bvh``. An ``id`` as the object gives
    it keeps the memory; one in an array does not.

    Args:
        lowers: An array of ``wp.vec3``: the lower corner of each box. The tree lies on its device.
        uppers: The upper corners. A box whose lower corner is above the upper one, or NaN, is not found.
        constructor: ``"sah"`` (the surface area heuristic, whose trees are the fastest to query), ``"median"`` or
            ``"lbvh"`` (Morton codes, the fastest to build); ``"sah"`` when left out, and for ``"cubql"``. On CUDA
            devices, trees are always built by Morton codes.
        groups: An array of int32, the group of each box. Each group has a subtree of its own, whose node
            ``wp.bvh_get_group_root`` gives for queries.
        leaf_size: The most boxes of a leaf; 8 when left out. Queries test each box of a leaf that they reach. On CUDA
            devices, leaves have one box.

    Attributes:
        device: Where it lies.
        lowers: The lower corners.
        uppers: The upper corners.
        groups: The groups.

    Raises:
        TypeError: An argument is no array.
        RuntimeError: An array has another dtype, size or place, or is not contiguous.
        ValueError: There is no such constructor, or ``leaf_size`` is not positive.

    Example:
        >>> low = wp.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]], dtype=wp.vec3)
        >>> high = wp.array([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0]], dtype=wp.vec3)
        >>> bvh = wp.Bvh(low, high)
        >>> @wp.kernel
        ... def count(bvh: wp.Bvh, found: wp.array(dtype=int)):
        ...     for i in wp.bvh_query_sphere(bvh, wp.vec3(1.5, 0.5, 0.5), 0.6):
        ...         found[i] += 1
        >>> found = wp.zeros(2, dtype=int)
        >>> wp.launch(count, dim=1, inputs=[bvh], outputs=[found])
        >>> found.list()
        [1, 1]
    """

    _kind = ObjectKind.BVH

    def __init__(
        self,
        lowers: array,
        uppers: array,
        constructor: BvhConstructor | str | None = None,
        groups: array | None = None,
        leaf_size: int | None = None,
    ) -> None:
        self.lowers = checked("Bvh()", "lowers", lowers, VEC3)
        self.device = self.lowers.device
        self.uppers = checked("Bvh()", "uppers", uppers, VEC3, self.device)
        self.groups = None if groups is None else checked("Bvh()", "groups", groups, ir.int32, self.device)
        count = self.lowers.size
        for name, other in (("upper corners", self.uppers), ("groups", self.groups)):
            if other is not None and other.size != count:
                raise RuntimeError(f"Bvh(): there are {count} lower corners and {other.size} {name}")
        if count > MOST_ITEMS:
            raise RuntimeError(f"Bvh() takes up to {MOST_ITEMS} boxes, got {count}")
        most = USUAL_LEAF if leaf_size is None else operator.index(leaf_size)
        if most < 1:
            raise ValueError(f"Bvh(): a leaf has at least one box, got leaf_size={leaf_size}")
        self._constructor = BvhConstructor.of(constructor)
        self._tree = tree_on(self.device, count, most)
        self._descriptor = Descriptor(self._kind, self.device)
        self._build(self._constructor)

    def _build(self, method: BvhConstructor) -> None:
        self._tree.build(self.lowers, self.uppers, self.groups, method)
        self._descriptor.publish(**self._tree.words)

    def refit(self) -> None:
        """Fit the tree to corners that have changed; its structure stays. Launches under way must have ended."""
        now_and_in_graphs("refit", self.device, self._refit)

    def _refit(self) -> None:
        self._tree.refit(self.lowers, self.uppers)
        self._descriptor.changed()

    def rebuild(self, constructor: BvhConstructor | str | None = None) -> None:
        """Build the tree anew for corners that have changed much, in the same memory.

        Args:
            constructor: How; as it was built when left out.

        Raises:
            RuntimeError: The tree has groups and lies on a CUDA device, and a graph is captured.
            ValueError: There is no such constructor.
        """
        method = self._constructor if constructor is None else BvhConstructor.of(constructor)
        now_and_in_graphs("rebuild", self.device, functools.partial(self._build, method))
        self._constructor = method

    def __repr__(self) -> str:
        return f"Bvh({self._tree.count} boxes, device={str(self.device)!r})"
