"""``wp.Mesh``: triangles in a tree, for rays and nearest points."""

from __future__ import annotations

import operator
from typing import Any

from warp_like.base.contract import ObjectKind
from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.objects import Descriptor, Queried
from warp_like.runtime.geometry.bvh import (
    LARGEST_LEAF,
    MOST_ITEMS,
    VEC3,
    BvhConstructor,
    FaceTree,
    checked,
    faces_of,
    now_and_in_graphs,
    tree_on,
)
from warp_like.runtime.geometry.moments import moments
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import element_type
from warp_like.runtime.memory.recorder import refuse_capture
from warp_like.values import from_ir
from warp_like.values.dtypes import float32, uint64

tid, min_, max_, mesh_get_point = (Builtin(name) for name in ("tid", "min", "max", "mesh_get_point"))
vec3: Any = from_ir(VEC3)


@kernel
def _face_boxes(mesh: uint64, lowers: array[vec3], uppers: array[vec3]) -> None:
    """By the mesh's id, so that a graph that was captured before other points were assigned reads those."""
    i = tid()
    p, q, r = mesh_get_point(mesh, 3 * i), mesh_get_point(mesh, 3 * i + 1), mesh_get_point(mesh, 3 * i + 2)
    lowers[i] = min_(p, min_(q, r))
    uppers[i] = max_(p, max_(q, r))


class Mesh(Queried):
    """Triangles, for kernels that look where a ray meets them, or for the nearest point.

    A kernel takes the ``id``, or the object itself for a parameter annotated ``wp.Mesh``. An ``id`` as the object gives
    it keeps the memory; one in an array does not.

    Args:
        points: An array of ``wp.vec3``: the vertices. The mesh lies on its device.
        indices: An array of int32: the vertices of each face, three in a row.
        velocities: An array of ``wp.vec3``: the velocity of each vertex, for ``wp.mesh_eval_velocity``.
        bvh_constructor: How the tree is built; see ``wp.Bvh``.
        bvh_leaf_size: The most faces of a leaf, from 1 to 8 (more count as 8); 4 when left out. With ``"cubql"``, it
            may be 0, which is 4.
        support_winding_number: Whether ``wp.mesh_query_point_sign_winding_number`` can be used.
        groups: An array of int32, the group of each face, for searches below ``wp.mesh_get_group_root``.

    Attributes:
        device: Where it lies.
        indices: The faces.
        groups: The groups.

    Raises:
        TypeError: An argument is no array.
        RuntimeError: An array has another dtype, size or place, or is not contiguous.
        ValueError: A face names a vertex that is not there, or there is no such constructor.
        NotImplementedError: ``support_winding_number`` is set for points on a CUDA device.

    Example:
        >>> points = wp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], dtype=wp.vec3)
        >>> mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
        >>> @wp.kernel
        ... def cast(mesh: wp.Mesh, x: wp.array(dtype=wp.vec3), t: wp.array(dtype=float)):
        ...     i = wp.tid()
        ...     hit = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.0, 0.0, 1.0), 10.0)
        ...     t[i] = wp.where(hit.result, hit.t, -1.0)
        >>> x, t = wp.array([[0.2, 0.2, 0.0], [0.9, 0.9, 0.0]], dtype=wp.vec3), wp.zeros(2, dtype=float)
        >>> wp.launch(cast, dim=2, inputs=[mesh, x], outputs=[t])
        >>> t.list()
        [1.0, -1.0]
    """

    _kind = ObjectKind.MESH

    def __init__(
        self,
        points: array,
        indices: array,
        velocities: array | None = None,
        support_winding_number: bool = False,
        bvh_constructor: BvhConstructor | str | None = None,
        bvh_leaf_size: int | None = None,
        groups: array | None = None,
    ) -> None:
        self._points = checked("Mesh()", "points", points, VEC3)
        self.device = self._points.device
        self.indices = checked("Mesh()", "indices", indices, ir.int32, self.device)
        self._velocities = self._of_vertices("velocities", velocities)
        self.groups = None if groups is None else checked("Mesh()", "groups", groups, ir.int32, self.device)
        count = self._require_faces()
        constructor = BvhConstructor.of(bvh_constructor)
        leaf_size = 4 if bvh_leaf_size is None else operator.index(bvh_leaf_size)
        if leaf_size == 0 and constructor is BvhConstructor.CUBQL:  # which chooses it
            leaf_size = 4
        if leaf_size < 1:
            raise ValueError(f"Mesh(): a leaf has at least one face, got bvh_leaf_size={bvh_leaf_size}")
        self._lowers, self._uppers = (
            new_array(element_type(vec3), (count,), self.device, zero=False) for _ in range(2)
        )
        self._tree = tree_on(self.device, count, min(leaf_size, LARGEST_LEAF))
        self._bvh = Descriptor(ObjectKind.BVH, self.device)
        self._descriptor = Descriptor(self._kind, self.device)
        # What the kernels read that find boxes and corners.
        self._descriptor.publish(points=self._points, indices=self.indices, face_count=count)
        self._find_boxes()
        self._tree.build(self._lowers, self._uppers, self.groups, constructor)
        self._faces = faces_of(self._tree)
        self._fit_faces()
        self._moments: array | None = None
        if support_winding_number:
            size = (16 * self._tree.node_count,)
            self._moments = new_array(element_type(float32), size, self.device, zero=False)
            self._find_moments()
        self._bvh.publish(**self._tree.words)
        self._publish()

    def _require_faces(self) -> int:
        count, rest = divmod(self.indices.size, 3)
        if rest:
            raise RuntimeError(f"Mesh(): `indices` has three vertices for each face, got {self.indices.size}")
        if count > MOST_ITEMS:
            raise RuntimeError(f"Mesh() takes up to {MOST_ITEMS} faces, got {count}")
        if self.groups is not None and self.groups.size != count:
            raise RuntimeError(f"Mesh(): there are {count} faces and {self.groups.size} groups")
        found = self.indices.numpy()
        if count and (found.min() < 0 or found.max() >= self._points.size):
            wrong = int(found.min() if found.min() < 0 else found.max())
            raise ValueError(f"Mesh(): `indices` names vertex {wrong}, and there are {self._points.size} points")
        return count

    def _of_vertices(self, name: str, given: Any) -> array | None:
        if given is None:
            return None
        found = checked("Mesh", name, given, VEC3, self.device)
        if found.size != self._points.size:
            raise RuntimeError(f"Mesh: there are {self._points.size} points, and `{name}` has {found.size}")
        return found

    def _find_boxes(self) -> None:
        args = [self._descriptor.id, self._lowers, self._uppers]
        launch(_face_boxes, self._tree.count, args, device=self.device, record_tape=False)

    def _fit_faces(self) -> None:
        if isinstance(self._faces, FaceTree):
            self._faces.fit(self._points, self.indices)
        else:
            self._faces.fit(self._descriptor.id)

    def _find_moments(self) -> None:
        if self._moments is not None:
            if not self.device.is_cpu:
                refuse_capture("fitting a mesh that supports winding numbers")  # the host sums up
            corners = self._points.numpy()[self.indices.numpy().reshape(-1, 3)]
            self._moments.assign(moments(self._tree, corners).ravel())

    def _publish(self) -> None:
        self._descriptor.graded = {"points_gradient": self._points}
        if self._velocities is not None:
            self._descriptor.graded["velocities_gradient"] = self._velocities
        self._descriptor.publish(
            points=self._points,
            indices=self.indices,
            velocities=self._velocities,
            nodes=self._tree.nodes,
            order=self._tree.order,
            moments=self._moments,
            node_count=self._tree.node_count,
            face_count=self._tree.count,
            point_count=self._points.size,
            bvh=self._bvh.number,
            places=self._faces.places,
            corners=self._faces.blocks,
            wide=self._faces.wide,
        )
        self._descriptor.keep(self._bvh)

    @property
    def support_winding_number(self) -> bool:
        """Whether ``wp.mesh_query_point_sign_winding_number`` can be used."""
        return self._moments is not None

    @property
    def points(self) -> array:
        """The vertices. Other ones, as many, may be assigned, which refits the tree; not under a capture."""
        return self._points

    @points.setter
    def points(self, given: array) -> None:
        refuse_capture("assigning the points of a mesh")
        found = self._of_vertices("points", given)
        assert found is not None
        self._points = found
        self._publish()
        self.refit()

    @property
    def velocities(self) -> array | None:
        """The velocities of the vertices, or None. Other ones may be assigned, not under a capture."""
        return self._velocities

    @velocities.setter
    def velocities(self, given: array | None) -> None:
        refuse_capture("assigning the velocities of a mesh")
        self._velocities = self._of_vertices("velocities", given)
        self._publish()

    def refit(self) -> None:
        """Fit the tree to points that have moved; its structure stays. Launches under way must have ended."""
        now_and_in_graphs("refit", self.device, self._refit)

    def _refit(self) -> None:
        if not self.device.is_cpu:
            self._find_boxes()
            self._tree.refit(self._lowers, self._uppers)
        self._fit_faces()
        self._find_moments()
        self._bvh.changed()
        self._descriptor.changed()

    def __repr__(self) -> str:
        return f"Mesh({self._points.size} points, {self._tree.count} faces, device={str(self.device)!r})"
