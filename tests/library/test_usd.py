"""`wp.render.UsdRenderer`: the files that it writes are read back with usd-core."""

import importlib.util
import sys

import numpy as np
import pytest

import warp_like as wp

needs_usd = pytest.mark.skipif(importlib.util.find_spec("pxr") is None, reason="usd-core is not installed")
TURN = (0.0, 0.0, 0.0, 1.0)


def written(tmp_path, draw, frames=2, **arguments):
    """The stage of a file in which ``draw(renderer, frame)`` wrote each frame."""
    from pxr import Usd

    path = tmp_path / "scene.usda"
    renderer = wp.render.UsdRenderer(str(path), **arguments)
    for frame in range(frames):
        renderer.begin_frame(frame / 60)
        draw(renderer, frame)
        renderer.end_frame()
    renderer.save()
    return Usd.Stage.Open(str(path))


def corner(stage, path, time, point=(0.0, 0.0, 0.0)):
    """Where a point of a prim is in the world."""
    from pxr import Gf, UsdGeom

    return list(
        UsdGeom.Xformable(stage.GetPrimAtPath(path)).ComputeLocalToWorldTransform(time).Transform(Gf.Vec3d(point))
    )


def value(stage, path, attribute, time=0):
    return stage.GetPrimAtPath(path).GetAttribute(attribute).Get(time)


@needs_usd
def test_the_stage(tmp_path):
    from pxr import UsdGeom

    stage = written(tmp_path, lambda r, k: r.render_sphere("s", (1, k, 0), TURN, 0.5), 3, up_axis="Z", scaling=2.0)
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode(), stage.GetTimeCodesPerSecond()) == (0, 2, 60)
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    assert stage.GetDefaultPrim().GetPath() == "/root"
    assert corner(stage, "/root/s", 2) == [2, 4, 0]
    assert stage.GetPrimAtPath("/dome_light")


@needs_usd
def test_a_file_is_written_again(tmp_path):
    path = str(tmp_path / "scene.usda")
    first = wp.render.UsdRenderer(path)
    first.render_sphere("old", (0, 0, 0), TURN, 0.5)
    first.save()
    second = wp.render.UsdRenderer(path)
    second.render_sphere("new", (0, 0, 0), TURN, 0.5)
    second.save()
    text = (tmp_path / "scene.usda").read_text()
    assert '"new"' in text
    assert '"old"' not in text


@needs_usd
def test_shapes(tmp_path):
    half = float(np.sqrt(0.5))

    def draw(r, k):
        r.render_sphere("ball", wp.vec3(1.0, k, 0.0), wp.quat_identity(), 0.5 + k, color=(1, 0, 0), visible=k == 0)
        r.render_box("box", (0, 0, 0), (0, 0, half, half), (1, 2, 3))
        r.render_capsule("capsule", (0, 0, 0), TURN, 0.1, 0.4)
        r.render_cylinder("cylinder", (0, 0, 0), TURN, 0.1, 0.4, up_axis=0)
        r.render_cone("cone", (0, 0, 0), TURN, 0.1, 0.4, up_axis=2)
        r.render_plane("plane", (0, 1, 0), TURN, 1.0, 0.0)
        r.render_arrow("arrow", (0, 0, 0), TURN, 0.1, 1.0)

    stage = written(tmp_path, draw)
    assert corner(stage, "/root/ball", 1) == [1, 1, 0]
    assert [value(stage, "/root/ball", "radius", k) for k in (0, 1)] == [0.5, 1.5]
    assert [value(stage, "/root/ball", "visibility", k) for k in (0, 1)] == ["inherited", "invisible"]
    assert list(value(stage, "/root/ball", "primvars:displayColor")[0]) == [1, 0, 0]
    assert np.allclose(corner(stage, "/root/box", 0, (1, 1, 1)), [-2, 1, 3], atol=1e-6)  # turned about z
    for name, axis in (("capsule", "Y"), ("cylinder", "X"), ("cone", "Z")):
        assert value(stage, f"/root/{name}", "axis") == axis
        assert value(stage, f"/root/{name}", "height") == 0.8
    plane = np.array(value(stage, "/root/plane", "points"))
    assert np.abs(plane).max(axis=0).tolist() == [1, 0, 100]
    assert corner(stage, "/root/arrow/cap", 0) == pytest.approx([0, 1.2, 0])


@needs_usd
@pytest.mark.parametrize("plane, fixed", [(None, (2, 0.0)), ((0, 2, 0, 4), (1, 4.0))])
def test_the_ground(tmp_path, plane, fixed):
    stage = written(tmp_path, lambda r, k: r.render_ground(10.0, plane), up_axis="Z")
    points = np.array(value(stage, "/root/ground", "points"))
    axis, height = fixed
    assert np.allclose(points[:, axis], height)
    assert np.allclose(np.abs(np.delete(points, axis, axis=1)), 10.0)
    a, b, c = points[:3]
    assert np.cross(b - a, c - b)[axis] > 0  # its front is above


@needs_usd
def test_meshes_points_and_lines(tmp_path):
    def draw(r, k):
        points = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, k]], dtype=wp.vec3)
        corners = wp.array([0, 1, 2] if k == 0 else [2, 1, 0], dtype=int)
        r.render_mesh("fixed", points, corners, colors=np.eye(3), smooth_shading=False)
        r.render_mesh("changing", points, corners, colors=(1, 1, 0), update_topology=True)
        r.render_points("balls", points, 0.1, colors=np.eye(3))
        r.render_points("dots", points, [0.1, 0.2, 0.3], as_spheres=False)
        r.render_line_list("list", points, [0, 1, 1, 2], color=(0, 1, 1), radius=0.02)
        r.render_line_strip("strip", points)

    stage = written(tmp_path, draw)
    assert list(value(stage, "/root/fixed", "points", 1)[2]) == [0, 1, 1]
    assert list(value(stage, "/root/fixed", "faceVertexIndices", 1)) == [0, 1, 2]
    assert list(value(stage, "/root/changing", "faceVertexIndices", 1)) == [2, 1, 0]
    assert value(stage, "/root/fixed", "subdivisionScheme") == "none"
    assert np.array(value(stage, "/root/fixed", "primvars:displayColor")).tolist() == np.eye(3).tolist()
    assert list(value(stage, "/root/balls", "positions", 1)[2]) == [0, 1, 1]
    assert np.allclose(value(stage, "/root/balls", "scales"), 0.1)
    assert list(value(stage, "/root/balls", "protoIndices")) == [0, 0, 0]
    assert np.allclose(value(stage, "/root/dots", "widths"), [0.2, 0.4, 0.6])
    assert list(value(stage, "/root/list", "curveVertexCounts")) == [2, 2]
    assert [list(p) for p in value(stage, "/root/list", "points", 1)][3] == [0, 1, 1]
    assert list(value(stage, "/root/strip", "curveVertexCounts")) == [3]


@needs_usd
def test_bodies_templates_and_other_files(tmp_path):
    other = tmp_path / "other.usda"
    stored = wp.render.UsdRenderer(str(other))
    stored.render_sphere("inner", (0, 3, 0), TURN, 0.5)
    stored.save()

    def draw(r, k):
        r.register_body("body")
        r.render_sphere("child", (0, k, 0), TURN, 0.5, parent_body="body")
        template = r.render_box("brick", (0, 0, 0), TURN, (1, 2, 3), is_template=True)
        r.add_shape_instance("copy", template, "body", (5, 0, 0), TURN, (2, 2, 2), color1=(0, 0, 1))
        r.render_ref("ref", str(other), (1, 0, 0), TURN, (1, 1, 1))

    stage = written(tmp_path, draw)
    assert corner(stage, "/root/body/child", 1) == [0, 1, 0]
    assert corner(stage, "/root/body/copy/shape", 0, (1, 1, 1)) == [7, 4, 6]
    assert list(value(stage, "/root/body/copy/shape", "primvars:displayColor")[0]) == [0, 0, 1]
    assert stage.GetPrimAtPath("/root/_template_shapes/brick").IsAbstract()
    assert corner(stage, "/root/ref/scene/inner", 0) == [1, 3, 0]


@needs_usd
@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda r: r.render_sphere("my ball", (0, 0, 0), TURN, 1.0), "no such name: 'my ball'; use letters"),
        (
            lambda r: (r.render_points("a", [[0, 0, 0]], 1.0), r.render_sphere("a", (0, 0, 0), TURN, 1.0)),
            "'a' is a PointInstancer already: give the Sphere another name",
        ),
        (
            lambda r: r.render_points("a", np.zeros((3, 2)), 1.0),
            r"'a': expected rows of 3 numbers, got the shape \(3, 2\)",
        ),
        (lambda r: r.render_points("a", np.zeros((3, 3)), [1, 2]), "'a': expected one radius or 3, got 2"),
        (lambda r: r.render_mesh("a", np.zeros((3, 3)), [0, 1, 3]), "'a': expected three indices from 0 to 2"),
        (lambda r: r.render_line_list("a", np.zeros((3, 3)), [0, 3]), "'a': expected two indices from 0 to 2"),
        (
            lambda r: r.render_mesh("a", np.zeros((3, 3)), [0, 1, 2], np.eye(3)[:2]),
            "'a': expected one colour or 3, got 2",
        ),
        (lambda r: r.add_shape_instance("a", 3, None, (0, 0, 0), TURN), "expected what a method with is_template=True"),
        (lambda r: r.render_ground(plane=(0, 0, 0, 1)), "the ground's plane has no direction"),
    ],
)
def test_errors(tmp_path, draw, message):
    renderer = wp.render.UsdRenderer(str(tmp_path / "scene.usda"))
    with pytest.raises(ValueError, match=message):
        draw(renderer)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pxr", None)
    monkeypatch.setitem(sys.modules, "pxr.Gf", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package usd-core: `pip install usd-core`"):
        wp.render.UsdRenderer("scene.usda")
