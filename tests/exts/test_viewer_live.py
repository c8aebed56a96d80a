"""The viewer's backends for other programs: a web page in a real browser, and a file of Rerun that is read back."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "exts" / "viewer" / "src"
PIL = pytest.importorskip("PIL.Image")
QUAD = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
TWO = [[0, 1, 2], [0, 2, 3]]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SOURCE))


@pytest.fixture
def page() -> Iterator[Any]:
    """A backend whose page nobody looks at."""
    pytest.importorskip("viser")
    from warp_like_viewer import Viser

    backend = Viser(port=18080)
    yield backend
    backend.close()


def log_scene(viewer: Any, ball: Any = (0, 1, 0), lines: bool = True) -> None:
    """Log a red square on the left, a ball, a blue line, and two small squares on the right."""
    viewer.begin_frame()
    viewer.log_mesh("square", 0.6 * QUAD + [-2, 0, 0], TWO, colors=(1, 0, 0))
    viewer.log_points("ball", [ball], 0.5, (0, 0.8, 0))
    if lines:
        viewer.log_lines("line", [[1, -1, 0]], [[1, 1, 0]], (0, 0, 1), width=6)
    viewer.add_mesh("small", 0.3 * QUAD, TWO, colors=(1, 0, 1))
    viewer.log_instances("squares", "small", [[2, 0.5, 0], [2, -0.5, 0]])
    viewer.log_scalar("energy", 1.25)
    viewer.log_image("field", np.tile(np.float32([1, 1, 0]), (20, 40, 1)))
    viewer.end_frame()


def screenshot(url: str, path: Path) -> np.ndarray[Any, Any]:
    """What a browser without a window shows at an address: (600, 800, 3)."""
    drawing = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium does not start for root with one
    sizes = ["--window-size=800,600", "--hide-scrollbars", "--force-device-scale-factor=1"]
    run = [CHROMIUM, "--headless=new", *sandbox, *drawing, *sizes, f"--user-data-dir={path.parent / 'profile'}"]
    command = [*run, "--virtual-time-budget=6000", f"--screenshot={path}", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert path.exists(), done.stderr
    return np.asarray(PIL.open(path).convert("RGB"))


def share(image: np.ndarray[Any, Any], box: Any, wanted: Any) -> float:
    """Which part of a box (left, top, right, bottom) has a colour: channels above 150 where wanted, else below 110."""
    left, top, right, bottom = box
    pixels = image[top:bottom, left:right].reshape(-1, 3).astype(int)
    right_ones = np.where(np.array(wanted, bool), pixels > 150, pixels < 110).all(axis=1)
    return float(right_ones.mean())


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_web_page_shows_what_was_logged(page: Any, tmp_path: Path) -> None:
    from warp_like_viewer import Camera, Viewer

    viewer = Viewer(page, Camera((0, 0, 6)))
    log_scene(viewer, (0, 1, 0))
    log_scene(viewer, (0, -1, 0))
    image = screenshot(page.url, tmp_path / "page.png")
    assert share(image, (60, 240, 190, 360), (1, 0, 0)) > 0.95
    assert share(image, (640, 200, 710, 265), (1, 0, 1)) > 0.95
    assert share(image, (640, 335, 710, 400), (1, 0, 1)) > 0.95
    assert share(image, (640, 285, 710, 315), (1, 1, 1)) > 0.95
    assert share(image, (535, 200, 540, 400), (0, 0, 1)) > 0.5
    low, high = image[390:490, 350:450].astype(int), image[110:210, 350:450].astype(int)
    assert ((low[..., 1] > low[..., 0] + 30) & (low[..., 1] > low[..., 2] + 30)).mean() > 0.6  # the ball has moved
    assert share(high, (0, 0, 100, 100), (1, 1, 1)) > 0.95
    panel = image[:160, 460:]
    assert share(panel, (0, 0, panel.shape[1], 160), (1, 1, 0)) > 0.01


def test_the_page_sends_only_what_changes(page: Any) -> None:
    from warp_like_viewer import Viewer

    viewer = Viewer(page)
    log_scene(viewer)
    before = {name: handle for name, (_, handle) in page._shown.items()}
    assert before.keys() == {"square", "ball", "line", "squares"}
    log_scene(viewer, (0, -1, 0), lines=False)
    after = {name: handle for name, (_, handle) in page._shown.items()}
    assert after.keys() == {"square", "ball", "squares"}
    assert after["square"] is before["square"]
    assert after["squares"] is before["squares"]
    assert after["ball"] is not before["ball"]
    assert page._panel["energy"].value == "1.25"
    viewer.begin_frame()
    viewer.log_image("energy", np.zeros((2, 2)))
    viewer.end_frame()
    assert page._shown == {}
    assert page._panel.keys() == {"energy"}
    assert not hasattr(page._panel["energy"], "value")


def test_each_item_is_sent_in_the_form_that_keeps_its_colours() -> None:
    pytest.importorskip("trimesh")
    from warp_like_viewer import Instances, Mesh, Points
    from warp_like_viewer.web import MANY, ball, described

    two = np.float32([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    mesh = Mesh(QUAD.astype(np.float32), np.int32(TWO), two, smooth=True)
    place = np.float32([[1, 2, 3, 0, 0, 0.6, 0.8]])
    size = np.ones((1, 3), np.float32)
    method, given = described(mesh)
    assert (method, given["mesh"].visual.vertex_colors[0].tolist()) == ("add_mesh_trimesh", [255, 0, 0, 255])
    assert described(Instances(mesh, place, size, None))[0] == "add_batched_meshes_trimesh"
    method, given = described(Instances(mesh, place, size, two[1:2]))
    assert (method, given["batched_colors"].tolist()) == ("add_batched_meshes_simple", [[0, 255, 0]])
    assert np.allclose(given["batched_wxyzs"], [[0.8, 0, 0, 0.6]])
    for count, wanted in ((3, "add_batched_meshes_simple"), (MANY + 1, "add_point_cloud")):
        many = np.zeros((count, 3), np.float32)
        assert described(Points(many, many[:, 0] + 0.5, many))[0] == wanted
    points, faces = ball()
    assert (points.shape, faces.shape) == ((66, 3), (128, 3))
    assert np.allclose(np.linalg.norm(points, axis=1), 1.0)
    a, b, c = (points[faces[:, k]] for k in range(3))
    assert ((np.cross(b - a, c - a) * (a + b + c)).sum(axis=1) > 0).all()  # all face outwards


def rows_of(path: Path) -> dict[str, list[tuple[int, list[str]]]]:
    """What a file of Rerun holds: for each entity, frames and the names of the columns."""
    chunk = pytest.importorskip("rerun.chunk")
    found: dict[str, list[tuple[int, list[str]]]] = {}
    for piece in chunk.RrdReader(path).stream().to_chunks():
        batch = piece.to_record_batch()
        if "frame" in batch.schema.names:
            columns = [name for name in batch.schema.names if ":" in name]
            found.setdefault(piece.entity_path, []).extend((int(k), columns) for k in batch.column("frame").to_pylist())
    return {name: sorted(rows) for name, rows in found.items()}


def test_a_file_of_rerun_is_read_back(tmp_path: Path) -> None:
    pytest.importorskip("rerun")
    from warp_like_viewer import Camera, Rerun, Viewer

    path = tmp_path / "runs" / "scene.rrd"
    with Viewer(Rerun(path), Camera((0, 0, 6))) as viewer:
        log_scene(viewer)
        log_scene(viewer, (0, -1, 0), lines=False)
    rows = rows_of(path)
    assert rows.keys() == {"/square", "/ball", "/line", "/squares", "/energy", "/field"}
    assert [frame for frame, _ in rows["/ball"]] == [0, 1]
    assert "Points3D:positions" in rows["/ball"][0][1]
    assert "LineStrips3D:strips" in rows["/line"][0][1]
    assert rows["/line"][1] == (1, ["Clear:is_recursive"])
    assert "InstancePoses3D:translations" in rows["/squares"][0][1]
    assert rows["/energy"][1] == (1, ["Scalars:scalars"])


@pytest.mark.parametrize("package, make", [("viser", "Viser"), ("rerun", "Rerun")])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str, make: str) -> None:
    import warp_like_viewer

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match="`pip install .*Files"):
        getattr(warp_like_viewer, make)()
    with pytest.raises(ModuleNotFoundError, match="`pip install .*Files"):
        warp_like_viewer.Viewer(package)


def test_a_backend_by_a_name_that_there_is_not() -> None:
    from warp_like_viewer import Viewer

    message = "no backend 'out.gif': expected 'viser', 'rerun' or an object such as Files('out.gif')"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Viewer("out.gif")
