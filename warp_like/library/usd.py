"""Scenes as USD files: shapes, meshes, points and lines, frame by frame.

Everything stands below ``/root``. A shape keeps its path, its name, for all frames; each call writes what the shape is
like at the time of the frame, and between two such times readers interpolate. Templates are abstract prims below
``/root/_template_shapes``; each has its geometry in a child, so that copies may be placed and scaled.

The package usd-core (``pxr``) is imported inside functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from warp_like.runtime.arrays.array import array

TEMPLATES = "_template_shapes"
AXES = "XYZ"
IDENTITY = (0.0, 0.0, 0.0, 1.0)
ENDLESS = 100.0
"""Half the side of a plane whose width or length is 0."""

Color = tuple[float, float, float]


def _pxr(module: str) -> Any:
    """A module of usd-core.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        return importlib.import_module(f"pxr.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "wp.render.UsdRenderer needs the package usd-core: `pip install usd-core`", name=error.name
        ) from error


def _rows(data: Any, width: int, name: str) -> np.ndarray[Any, Any]:
    """Numbers as float32 of shape (n, width).

    Raises:
        ValueError: They have another shape.
    """
    found = np.asarray(data.numpy() if isinstance(data, array) else data, np.float32)
    if found.size == 0:
        return np.zeros((0, width), np.float32)
    if found.ndim == 1 and found.size % width == 0:
        found = found.reshape(-1, width)
    if found.ndim != 2 or found.shape[1] != width:
        raise ValueError(f"{name!r}: expected rows of {width} numbers, got the shape {found.shape}")
    return np.ascontiguousarray(found)


class UsdRenderer:
    """Writes a scene to a USD file, frame by frame.

    Positions are three numbers and rotations quaternions (x, y, z, w). Points may be an array of ``wp.vec3``, or rows
    of three numbers. Each ``render_`` method returns the path of what it wrote, and takes the same name again in each
    frame.

    Args:
        stage: The path of the file (``.usd``, ``.usda``, ``.usdc``), or a ``Usd.Stage`` of your own.
        up_axis: The axis that points up: ``"X"``, ``"Y"`` or ``"Z"``.
        fps: Frames in a second.
        scaling: A factor for the size of the whole scene.

    Raises:
        ModuleNotFoundError: The package usd-core is not installed.
        ValueError: There is no such axis.

    Example::

        import warp_like.render

        renderer = wp.render.UsdRenderer("out.usda")
        for frame in range(60):
            renderer.begin_frame(frame / 60)
            renderer.render_sphere("ball", pos=(0.0, frame / 60, 0.0), rot=(0.0, 0.0, 0.0, 1.0), radius=0.5)
            renderer.end_frame()
        renderer.save()
    """

    def __init__(self, stage: Any, up_axis: str = "Y", fps: int = 60, scaling: float = 1.0) -> None:
        self._gf, self._sdf, self._vt = _pxr("Gf"), _pxr("Sdf"), _pxr("Vt")
        self._geom, usd = _pxr("UsdGeom"), _pxr("Usd")
        if up_axis.upper() not in AXES or len(up_axis) != 1:
            raise ValueError(f"expected the axis 'X', 'Y' or 'Z', got {up_axis!r}")
        self.stage = stage if isinstance(stage, usd.Stage) else self._new(str(stage))
        self.up_axis = up_axis.upper()
        self.fps = float(fps)
        self.scaling = scaling
        self.time = 0
        self.root = self._geom.Xform.Define(self.stage, "/root")
        self.root.AddScaleOp().Set(self._gf.Vec3f(scaling))
        self.stage.SetDefaultPrim(self.root.GetPrim())
        self.stage.SetStartTimeCode(0.0)
        self.stage.SetEndTimeCode(0.0)
        self.stage.SetTimeCodesPerSecond(self.fps)
        self.stage.SetFramesPerSecond(self.fps)
        self._geom.SetStageUpAxis(self.stage, self.up_axis)
        self._light()

    def _new(self, path: str) -> Any:
        """An empty stage at a path, also where this process has one there already, as a cell that runs again."""
        layer = self._sdf.Layer.Find(path)
        if layer is None:
            return _pxr("Usd").Stage.CreateNew(path)
        layer.Clear()
        return _pxr("Usd").Stage.Open(layer)

    def _light(self) -> None:
        """Put up a sky and a sun."""
        lights = _pxr("UsdLux")
        lights.DomeLight.Define(self.stage, "/dome_light").CreateIntensityAttr(300.0)
        sun = lights.DistantLight.Define(self.stage, "/distant_light")
        sun.CreateIntensityAttr(1500.0)
        sun.AddRotateXYZOp().Set(self._gf.Vec3f(-35.0, 45.0, 0.0))

    # --- frames ---------------------------------------------------------------------------------------------

    def begin_frame(self, time: float) -> None:
        """Begin a frame, at a time in seconds."""
        self.time = round(time * self.fps)
        self.stage.SetEndTimeCode(max(self.time, self.stage.GetEndTimeCode()))

    def end_frame(self) -> None:
        """End a frame."""

    def save(self) -> None:
        """Write the file."""
        self.stage.GetRootLayer().Save()

    # --- bodies, templates and instances --------------------------------------------------------------------

    def register_body(self, body_name: str) -> Any:
        """Make a body, a group that shapes with this ``parent_body`` belong to."""
        return self._define("Xform", self._path(body_name)).GetPath()

    def add_shape_instance(
        self,
        name: str,
        shape: Any,
        body: str | None,
        pos: Sequence[float],
        rot: Sequence[float],
        scale: Sequence[float] = (1.0, 1.0, 1.0),
        color1: Color | None = None,
        color2: Color | None = None,
        custom_index: int = -1,
        visible: bool = True,
    ) -> Any:
        """Place a copy of a template.

        Args:
            name: What the copy is called.
            shape: The template, which a ``render_`` method with ``is_template=True`` returned.
            body: The body that it belongs to, or None.
            pos: Its position.
            rot: Its rotation.
            scale: Factors along the three axes.
            color1: Its colour in place of the template's.
            color2: Not used: USD shapes have one colour.
            custom_index: Not used.
            visible: Whether it is seen.

        Raises:
            ValueError: There is no such template.
        """
        template = self.stage.GetPrimAtPath(str(shape)) if str(shape).startswith("/") else None
        if not template or not template.IsAbstract():
            raise ValueError(f"{name!r}: expected what a method with is_template=True returned, got {shape!r}")
        prim = self._define("Xform", self._path(name, body))
        if not prim.HasAuthoredReferences():
            prim.GetReferences().AddInternalReference(template.GetPath())
        self._place(prim, pos, rot, scale)
        self._show(prim, visible)
        if color1 is not None:
            self._color(self.stage.OverridePrim(prim.GetPath().AppendChild("shape")), color1)
        return prim.GetPath()

    def render_ref(
        self,
        name: str,
        path: str,
        pos: Sequence[float],
        rot: Sequence[float],
        scale: Sequence[float],
        color: Color | None = None,
    ) -> Any:
        """Place the scene of another USD file."""
        prim = self._define("Xform", self._path(name))
        scene = self._define("Xform", prim.GetPath().AppendChild("scene"))  # which may have a place of its own
        if not scene.HasAuthoredReferences():
            scene.GetReferences().AddReference(str(path))
        self._place(prim, pos, rot, scale)
        self._color(prim, color)
        return prim.GetPath()

    # --- shapes ---------------------------------------------------------------------------------------------

    def render_plane(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        width: float,
        length: float,
        color: Color = (1.0, 1.0, 1.0),
        color2: Color | None = None,
        parent_body: str | None = None,
        is_template: bool = False,
        u_scaling: float = 1.0,
        v_scaling: float = 1.0,
        visible: bool = True,
    ) -> Any:
        """Write a rectangle across the y axis: ``width`` and ``length`` are half its sides, 0 means without an end.

        ``color2``, ``u_scaling`` and ``v_scaling`` are not used: USD shapes have one colour.
        """
        path, prim = self._shape("Mesh", name, parent_body, is_template)
        w, d = width or ENDLESS, length or ENDLESS
        corners = np.array([[-w, 0, -d], [-w, 0, d], [w, 0, d], [w, 0, -d]], np.float32)
        self._rectangle(prim, corners)
        self._finish(prim, pos, rot, color, visible)
        return path

    def render_ground(self, size: float = 100.0, plane: Sequence[float] | None = None) -> Any:
        """Write a square that does not move, ``size`` from its middle to its sides.

        ``plane`` has the direction of the normal and the distance from the origin along it; without it, the square lies
        at the origin, across the axis that points up.
        """
        normal = np.eye(3)[AXES.index(self.up_axis)] if plane is None else np.asarray(plane[:3], float)
        length = float(np.linalg.norm(normal))
        if length == 0.0:
            raise ValueError(f"the ground's plane has no direction: {plane}")
        normal = normal / length
        middle = np.zeros(3) if plane is None else normal * float(plane[3])
        first = np.cross(np.eye(3)[int(np.abs(normal).argmin())], normal)
        first *= size / np.linalg.norm(first)
        second = np.cross(normal, first)
        prim = self._define("Mesh", self._path("ground"))
        self._rectangle(prim, middle + np.array([-first - second, first - second, first + second, second - first]))
        return prim.GetPath()

    def render_sphere(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        radius: float,
        parent_body: str | None = None,
        is_template: bool = False,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write a sphere."""
        path, prim = self._shape("Sphere", name, parent_body, is_template)
        self._geom.Sphere(prim).GetRadiusAttr().Set(float(radius), self.time)
        self._finish(prim, pos, rot, color, visible)
        return path

    def render_capsule(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        radius: float,
        half_height: float,
        parent_body: str | None = None,
        is_template: bool = False,
        up_axis: int = 1,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write a capsule along the axis 0, 1 or 2; ``half_height`` is half its length without the caps."""
        return self._round(
            "Capsule", name, (pos, rot), (radius, half_height, up_axis), parent_body, is_template, color, visible
        )

    def render_cylinder(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        radius: float,
        half_height: float,
        parent_body: str | None = None,
        is_template: bool = False,
        up_axis: int = 1,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write a cylinder along the axis 0, 1 or 2."""
        return self._round(
            "Cylinder", name, (pos, rot), (radius, half_height, up_axis), parent_body, is_template, color, visible
        )

    def render_cone(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        radius: float,
        half_height: float,
        parent_body: str | None = None,
        is_template: bool = False,
        up_axis: int = 1,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write a cone along the axis 0, 1 or 2, its middle at ``pos``."""
        return self._round(
            "Cone", name, (pos, rot), (radius, half_height, up_axis), parent_body, is_template, color, visible
        )

    def render_box(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        extents: Sequence[float],
        parent_body: str | None = None,
        is_template: bool = False,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write a box; ``extents`` are half its sides."""
        path, prim = self._shape("Cube", name, parent_body, is_template)
        self._finish(prim, pos, rot, color, visible, extents)
        return path

    def render_arrow(
        self,
        name: str,
        pos: Sequence[float],
        rot: Sequence[float],
        base_radius: float,
        base_height: float,
        cap_radius: float | None = None,
        cap_height: float | None = None,
        parent_body: str | None = None,
        is_template: bool = False,
        up_axis: int = 1,
        color: Color | None = None,
        visible: bool = True,
    ) -> Any:
        """Write an arrow from ``pos`` along the axis 0, 1 or 2; without sizes, the cap is twice as wide as the base."""
        path, prim = self._shape("Xform", name, parent_body, is_template)
        radius = 2.0 * base_radius if cap_radius is None else cap_radius
        height = 2.0 * radius if cap_height is None else cap_height
        for kind, part, middle, sizes in (
            ("Cylinder", "base", base_height / 2, (base_radius, base_height)),
            ("Cone", "cap", base_height + height / 2, (radius, height)),
        ):
            child = self._define(kind, prim.GetPath().AppendChild(part))
            self._sizes(kind, child, *sizes, up_axis)
            place = np.zeros(3)
            place[up_axis] = middle
            self._place(child, place, IDENTITY, (1.0, 1.0, 1.0))
            self._color(child, color)
        self._finish(prim, pos, rot, None, visible)
        return path

    # --- meshes, points and lines ---------------------------------------------------------------------------

    def render_mesh(
        self,
        name: str,
        points: Any,
        indices: Any,
        colors: Any = None,
        pos: Sequence[float] = (0.0, 0.0, 0.0),
        rot: Sequence[float] = IDENTITY,
        scale: Sequence[float] = (1.0, 1.0, 1.0),
        update_topology: bool = False,
        parent_body: str | None = None,
        is_template: bool = False,
        smooth_shading: bool = True,
        visible: bool = True,
    ) -> Any:
        """Write a mesh of triangles.

        Args:
            name: What the mesh is called.
            points: The vertices.
            indices: Three corners for each triangle, flat or in rows.
            colors: One colour, or one for each vertex.
            pos: Its position.
            rot: Its rotation.
            scale: Factors along the three axes.
            update_topology: Whether the triangles are written again, at the time of the frame; else those of the first
                call stay.
            parent_body: The body that it belongs to.
            is_template: Whether it is a template, which is seen only by its instances.
            smooth_shading: Whether readers may smooth the surface.
            visible: Whether it is seen.
        """
        path, prim = self._shape("Mesh", name, parent_body, is_template)
        mesh = self._geom.Mesh(prim)
        vertices = _rows(points, 3, name)
        mesh.GetPointsAttr().Set(self._vectors(vertices), self.time)
        if update_topology or not mesh.GetFaceVertexIndicesAttr().HasAuthoredValue():
            corners = np.asarray(indices.numpy() if isinstance(indices, array) else indices, np.int32).reshape(-1)
            if corners.size % 3 or (corners.size and not 0 <= corners.min() <= corners.max() < len(vertices)):
                raise ValueError(f"{name!r}: expected three indices from 0 to {len(vertices) - 1} for each triangle")
            counts = np.full(corners.size // 3, 3, np.int32)
            mesh.GetFaceVertexIndicesAttr().Set(self._vt.IntArray.FromNumpy(corners), self.time)
            mesh.GetFaceVertexCountsAttr().Set(self._vt.IntArray.FromNumpy(counts), self.time)
        if not smooth_shading:
            mesh.GetSubdivisionSchemeAttr().Set("none")
        self._colors(prim, colors, len(vertices))
        self._finish(prim, pos, rot, None, visible, scale)
        return path

    def render_points(
        self, name: str, points: Any, radius: Any, colors: Any = None, as_spheres: bool = True, visible: bool = True
    ) -> Any:
        """Write points, as spheres or as USD's points: one radius, or one for each; one colour, or one for each."""
        centres = _rows(points, 3, name)
        given = np.asarray(radius.numpy() if isinstance(radius, array) else radius, np.float32).reshape(-1)
        if given.size not in (1, len(centres)):
            raise ValueError(f"{name!r}: expected one radius or {len(centres)}, got {given.size}")
        radii = np.broadcast_to(given, (len(centres),))
        if as_spheres:
            prim = self._define("PointInstancer", self._path(name))
            instancer = self._geom.PointInstancer(prim)
            sphere = self._define("Sphere", prim.GetPath().AppendChild("sphere"))
            self._geom.Sphere(sphere).GetRadiusAttr().Set(1.0)
            instancer.GetPrototypesRel().SetTargets([sphere.GetPath()])
            instancer.GetProtoIndicesAttr().Set(self._vt.IntArray(len(centres), 0), self.time)
            instancer.GetPositionsAttr().Set(self._vectors(centres), self.time)
            instancer.GetScalesAttr().Set(self._vectors(np.repeat(radii[:, None], 3, axis=1)), self.time)
        else:
            prim = self._define("Points", self._path(name))
            cloud = self._geom.Points(prim)
            cloud.GetPointsAttr().Set(self._vectors(centres), self.time)
            cloud.GetWidthsAttr().Set(self._vt.FloatArray.FromNumpy(np.ascontiguousarray(2.0 * radii)), self.time)
        self._colors(prim, colors, len(centres))
        self._show(prim, visible)
        return prim.GetPath()

    def render_line_list(
        self,
        name: str,
        vertices: Any,
        indices: Any,
        color: Color | None = None,
        radius: float = 0.01,
        visible: bool = True,
    ) -> Any:
        """Write segments: two indices of vertices for each."""
        ends = np.asarray(indices.numpy() if isinstance(indices, array) else indices, np.int64).reshape(-1)
        points = _rows(vertices, 3, name)
        if ends.size % 2 or (ends.size and not 0 <= ends.min() <= ends.max() < len(points)):
            raise ValueError(f"{name!r}: expected two indices from 0 to {len(points) - 1} for each segment")
        return self._curves(name, points[ends], [2] * (ends.size // 2), color, radius, visible)

    def render_line_strip(
        self, name: str, vertices: Any, color: Color | None = None, radius: float = 0.01, visible: bool = True
    ) -> Any:
        """Write a line through all vertices."""
        points = _rows(vertices, 3, name)
        return self._curves(name, points, [len(points)] if len(points) else [], color, radius, visible)

    # --- what the methods share -----------------------------------------------------------------------------

    def _path(self, name: str, parent: str | None = None) -> Any:
        path = f"/root/{parent}/{name}" if parent else f"/root/{name}"
        if not self._sdf.Path.IsValidPathString(path):
            raise ValueError(f"USD has no such name: {name!r}; use letters, digits and underscores")
        return self._sdf.Path(path)

    def _define(self, kind: str, path: Any) -> Any:
        """The prim at a path, which is made the first time."""
        prim = self.stage.GetPrimAtPath(path)
        if prim and prim.GetTypeName() not in ("", kind):
            raise ValueError(f"{path.name!r} is a {prim.GetTypeName()} already: give the {kind} another name")
        return prim if prim and prim.GetTypeName() else self.stage.DefinePrim(path, kind)

    def _shape(self, kind: str, name: str, parent: str | None, is_template: bool) -> tuple[Any, Any]:
        """The path that the user is given, and the prim of the geometry."""
        if not is_template:
            prim = self._define(kind, self._path(name, parent))
            return prim.GetPath(), prim
        path = self._path(name, TEMPLATES)
        if not self.stage.GetPrimAtPath(path):
            self.stage.CreateClassPrim(path).SetTypeName("Xform")
        return path, self._define(kind, path.AppendChild("shape"))

    def _round(
        self,
        kind: str,
        name: str,
        place: tuple[Sequence[float], Sequence[float]],
        sizes: tuple[float, float, int],
        parent: str | None,
        is_template: bool,
        color: Color | None,
        visible: bool,
    ) -> Any:
        """Write a shape with a radius, a height and an axis."""
        path, prim = self._shape(kind, name, parent, is_template)
        radius, half_height, axis = sizes
        self._sizes(kind, prim, radius, 2.0 * half_height, axis)
        self._finish(prim, *place, color, visible)
        return path

    def _sizes(self, kind: str, prim: Any, radius: float, height: float, axis: int) -> None:
        shape = getattr(self._geom, kind)(prim)
        shape.GetRadiusAttr().Set(float(radius), self.time)
        shape.GetHeightAttr().Set(float(height), self.time)
        shape.GetAxisAttr().Set(AXES[axis])

    def _rectangle(self, prim: Any, corners: np.ndarray[Any, Any]) -> None:
        mesh = self._geom.Mesh(prim)
        mesh.GetPointsAttr().Set(self._vectors(corners))
        mesh.GetFaceVertexCountsAttr().Set([4])
        mesh.GetFaceVertexIndicesAttr().Set([0, 1, 2, 3])
        mesh.GetSubdivisionSchemeAttr().Set("none")
        mesh.GetDoubleSidedAttr().Set(True)

    def _curves(
        self,
        name: str,
        points: np.ndarray[Any, Any],
        counts: list[int],
        color: Color | None,
        radius: float,
        visible: bool,
    ) -> Any:
        prim = self._define("BasisCurves", self._path(name))
        curves = self._geom.BasisCurves(prim)
        curves.GetTypeAttr().Set("linear")
        curves.GetPointsAttr().Set(self._vectors(points), self.time)
        curves.GetCurveVertexCountsAttr().Set(counts, self.time)
        curves.GetWidthsAttr().Set([2.0 * radius], self.time)
        curves.SetWidthsInterpolation("constant")
        self._color(prim, color)
        self._show(prim, visible)
        return prim.GetPath()

    def _finish(
        self,
        prim: Any,
        pos: Sequence[float],
        rot: Sequence[float],
        color: Color | None,
        visible: bool,
        scale: Sequence[float] = (1.0, 1.0, 1.0),
    ) -> None:
        self._place(prim, pos, rot, scale)
        self._color(prim, color)
        self._show(prim, visible)

    def _place(self, prim: Any, pos: Any, rot: Any, scale: Any) -> None:
        """Write where a prim is at the time of the frame."""
        form = self._geom.Xformable(prim)
        ops = form.GetOrderedXformOps() or [form.AddTranslateOp(), form.AddOrientOp(), form.AddScaleOp()]
        x, y, z, w = (float(v) for v in rot)
        ops[0].Set(self._gf.Vec3d(*(float(v) for v in pos)), self.time)
        ops[1].Set(self._gf.Quatf(w, x, y, z), self.time)
        ops[2].Set(self._gf.Vec3f(*(float(v) for v in scale)), self.time)

    def _show(self, prim: Any, visible: bool) -> None:
        self._geom.Imageable(prim).GetVisibilityAttr().Set("inherited" if visible else "invisible", self.time)

    def _color(self, prim: Any, color: Any) -> None:
        if color is not None:
            self._colors(prim, color, 1)

    def _colors(self, prim: Any, colors: Any, count: int) -> None:
        """Write one colour for all, or one for each of ``count`` vertices."""
        if colors is None:
            return
        found = _rows(colors, 3, prim.GetName())
        if len(found) not in (1, count):
            raise ValueError(f"{prim.GetName()!r}: expected one colour or {count}, got {len(found)}")
        how = "vertex" if len(found) == count > 1 else "constant"
        primvar = self._geom.PrimvarsAPI(prim).CreatePrimvar("displayColor", self._sdf.ValueTypeNames.Color3fArray, how)
        primvar.Set(self._vectors(found), self.time)

    def _vectors(self, rows: np.ndarray[Any, Any]) -> Any:
        return self._vt.Vec3fArray.FromNumpy(np.ascontiguousarray(rows, np.float32))
