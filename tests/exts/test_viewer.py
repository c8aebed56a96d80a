"""The viewer extension: what is logged, the software rasteriser, files, recordings and the picture in a notebook."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp

SOURCE = Path(__file__).resolve().parents[2] / "exts" / "viewer" / "src"
PIL = pytest.importorskip("PIL.Image")
SIZE = (64, 48)
QUAD = [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]
TWO = [[0, 1, 2], [0, 2, 3]]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SOURCE))


def recorded(log: Any, **arguments: Any) -> Any:
    """The frame that a function logs."""
    from warp_like_viewer import Recording, Viewer

    backend = Recording()
    with Viewer(backend, **arguments) as viewer:
        viewer.begin_frame()
        log(viewer)
        viewer.end_frame()
    return backend.frames[0]


def drawn(log: Any, position: Any = (0, 0, 5), size: Any = SIZE, samples: int = 1) -> np.ndarray[Any, Any]:
    from warp_like_viewer import Camera, render

    return render(recorded(log), Camera(position), size, samples)


def covered(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where a picture differs from that of an empty frame."""
    return (image != drawn(lambda viewer: None, size=image.shape[1::-1])).any(axis=2)


def test_arrays_of_any_framework_are_copied() -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    own = wp.array(data, dtype=wp.vec3)
    for given in (data, data.tolist(), own, torch.tensor(data, requires_grad=True), jax.numpy.asarray(data)):
        item = recorded(lambda viewer, given=given: viewer.log_points("p", given)).items["p"]
        assert item.points.dtype == np.float32
        assert np.array_equal(item.points, data)
    item = recorded(lambda viewer: (viewer.log_points("p", own), own.fill_(0.0))).items["p"]
    assert np.array_equal(item.points, data)
    small = wp.array([1.0, 0.5], dtype=wp.bfloat16)
    assert recorded(lambda viewer: viewer.log_points("p", data[:2], small)).items["p"].radii.tolist() == [1.0, 0.5]
    empty = recorded(lambda viewer: (viewer.log_points("p", []), viewer.log_mesh("m", np.zeros((0, 3)), [])))
    assert (empty.items["p"].points.shape, empty.items["m"].triangles.shape) == ((0, 3), (0, 3))


@pytest.mark.parametrize(
    "log, message",
    [
        (lambda v: v.log_points("sand", np.zeros((4, 2))), "points of 'sand': expected the shape (n, 3), got (4, 2)"),
        (
            lambda v: v.log_points("sand", np.zeros((4, 3)), np.zeros(3)),
            "radii of 'sand': expected one number or the shape (4,), got (3,)",
        ),
        (
            lambda v: v.log_points("sand", np.zeros((4, 3)), colors=np.zeros((3, 3))),
            "colors of 'sand': expected the shape (3,) or (4, 3), got (3, 3)",
        ),
        (
            lambda v: v.log_mesh("cloth", QUAD, [[0, 1, 4]]),
            "triangles of 'cloth': expected indices from 0 to 3, got 4",
        ),
        (
            lambda v: v.log_mesh("cloth", QUAD, [[0.0, 1.0, 2.0]]),
            "triangles of 'cloth': expected integers or unsigned integers, got the dtype float64",
        ),
        (
            lambda v: v.log_mesh("cloth", QUAD, [0, 1, 2, 3]),
            "triangles of 'cloth': expected the shape (n, 3) or (n * 3,), got (4,)",
        ),
        (
            lambda v: v.log_lines("edges", np.zeros((2, 3)), np.zeros((1, 3))),
            "ends of 'edges': expected the shape (2, 3), as `starts`, got (1, 3)",
        ),
        (
            lambda v: v.log_instances("trees", "tree", np.zeros((1, 3))),
            "mesh of 'trees': expected the name of a mesh that was logged (none), got 'tree'",
        ),
        (
            lambda v: (v.add_mesh("tree", QUAD, TWO), v.log_instances("trees", "tree", np.zeros((1, 7)))),
            "transforms of 'trees': expected quaternions, got one of length 0",
        ),
        (
            lambda v: v.log_scalar("energy", [1.0, 2.0]),
            "value of 'energy': expected one number or the shape (1,), got (2,)",
        ),
        (
            lambda v: v.log_image("field", np.zeros((4, 4), np.int32)),
            "image of 'field': expected bytes (uint8) or floats from 0 to 1, got the dtype int32",
        ),
        (
            lambda v: v.log_image("field", np.zeros(4)),
            "image of 'field': expected the shape (height, width) or (height, width, 3 or 4), got (4,)",
        ),
    ],
)
def test_errors_name_what_was_logged(log: Any, message: str) -> None:
    from warp_like_viewer import LogError

    with pytest.raises(LogError, match=f"^{re.escape(message)}$"):
        recorded(log)


def test_frames_begin_and_end() -> None:
    from warp_like_viewer import Recording, Viewer

    viewer = Viewer(Recording())
    with pytest.raises(RuntimeError, match=r"call `begin_frame\(\)` before `log_points\(\)`"):
        viewer.log_points("p", [[0, 0, 0]])
    viewer.begin_frame(0.5)
    with pytest.raises(RuntimeError, match="frame 0 has not ended"):
        viewer.begin_frame()
    viewer.log_scalar("energy", wp.full(1, 2.5))
    viewer.end_frame()
    viewer.begin_frame()
    viewer.end_frame()
    first, second = viewer.backend.frames
    assert (first.number, first.time, first.scalars) == (0, 0.5, {"energy": 2.5})
    assert (second.number, second.time, second.scalars) == (1, 1 / 60, {})


def test_a_square_covers_the_pixels_that_it_should() -> None:
    """A square of side 2, 5 away, under 40 degrees: 48 / 2 / tan(20 degrees) / 5 pixels from its middle."""
    half = 24 / np.tan(np.radians(20)) / 5
    x, y = np.meshgrid(np.arange(64) + 0.5 - 32, np.arange(48) + 0.5 - 24)
    wanted = (np.abs(x) <= half) & (np.abs(y) <= half)
    for smooth in (True, False):
        found = covered(drawn(lambda v, smooth=smooth: v.log_mesh("square", QUAD, TWO, smooth=smooth)))
        assert np.array_equal(found, wanted)
    turned = covered(drawn(lambda v: v.log_mesh("square", QUAD, [[2, 1, 0], [3, 2, 0]])))
    assert np.array_equal(turned, wanted)


def test_the_nearest_is_seen() -> None:
    near = np.array(QUAD) * 0.5 + [0, 0, 1]

    def log(viewer: Any) -> None:
        viewer.log_mesh("near", near, TWO, colors=(1.0, 0.0, 0.0))
        viewer.log_mesh("far", QUAD, TWO, colors=(0.0, 1.0, 0.0))
        viewer.log_points("ball", [[0, 0, 1.5]], 0.1, colors=(0.0, 0.0, 1.0))
        viewer.log_lines("behind", [[-1, -0.8, -1]], [[1, -0.8, -1]], colors=(0, 0, 0))

    image = drawn(log).astype(int)
    strongest = image.argmax(axis=2)
    assert strongest[24, 32] == 2  # the ball before both
    assert strongest[24, 26] == 0
    assert strongest[24, 21] == 1
    assert not ((image < 5).all(axis=2)).any()  # the line lies behind


def test_spheres_and_lines_have_their_sizes() -> None:
    scale = 24 / np.tan(np.radians(20)) / 5
    ball = covered(drawn(lambda v: v.log_points("ball", [[0, 0, 0]], 1.0)))
    assert ball.sum() == pytest.approx(np.pi * scale**2, rel=0.03)
    line = covered(drawn(lambda v: v.log_lines("line", [[-1, 0, 0]], [[1, 0, 0]], width=4)))
    assert line.sum() == pytest.approx(4 * 2 * scale, abs=8)
    steep = covered(drawn(lambda v: v.log_lines("line", [[-1, -0.6, 0]], [[1, 0.7, 0]], width=3)))
    assert steep.sum() == pytest.approx(3 * np.hypot(2, 1.3) * scale, rel=0.15)


def test_what_crosses_the_camera_and_what_is_not_finite() -> None:
    ground = [[-50, -1, -50], [50, -1, -50], [50, -1, 50], [-50, -1, 50]]
    image = covered(drawn(lambda v: v.log_mesh("ground", ground, TWO)))
    assert image[26:].all()
    assert not image[:24].any()
    assert not covered(drawn(lambda v: v.log_points("p", [[0, 0, 9], [np.nan, 0, 0], [0, 0, np.inf]], 0.5))).any()
    broken = np.array(QUAD, float)
    broken[0] = np.nan
    assert not covered(drawn(lambda v: v.log_mesh("square", broken, TWO))).any()
    beside = covered(drawn(lambda v: v.log_lines("line", [[0, -0.1, 9]], [[0, -0.1, 0]])))
    assert beside.any()
    assert not beside[:20].any()


def test_instances_are_moved_turned_and_scaled() -> None:
    quarter = np.sqrt(0.5)
    transforms = wp.array([[1, 0, 0, 0, 0, 0, 1], [-1, 0, 0, 0, 0, quarter, quarter]], dtype=wp.transform)

    def log(viewer: Any) -> None:
        viewer.add_mesh("bar", [[0, 0, 0], [1, 0, 0], [0, 0.5, 0]], [[0, 1, 2]])
        viewer.log_instances("bars", "bar", transforms, scales=[1.0, 2.0], colors=[[1, 0, 0], [0, 255, 0]])

    mesh = recorded(log).items["bars"].merged()
    wanted = [[1, 0, 0], [2, 0, 0], [1, 0.5, 0], [-1, 0, 0], [-1, 2, 0], [-2, 0, 0]]
    assert np.allclose(mesh.points, wanted, atol=1e-6)
    assert mesh.triangles.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert mesh.colors[0].tolist() == [1, 0, 0]


def test_a_picture_is_the_same_each_time() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (600, 3))
    triangles = rng.integers(0, 600, (2000, 3))

    def log(viewer: Any) -> None:
        viewer.log_mesh("soup", points, triangles, colors=rng.uniform(size=3))
        viewer.log_points("p", points, 0.05)

    from warp_like_viewer import Camera, render

    frame = recorded(log)
    images = [render(frame, Camera((0, 0, 4)), (160, 120), 2) for _ in range(4)]
    assert all(np.array_equal(images[0], other) for other in images[1:])
    assert covered(images[0]).mean() > 0.3


def test_the_camera_that_is_fitted_sees_everything() -> None:
    from warp_like_viewer import fitted, render

    rng = np.random.default_rng(1)
    for scale in (1e-3, 1.0, 1e4):
        points = (rng.uniform(-1, 1, (50, 3)) + np.array([3, -7, 2])) * scale
        frame = recorded(lambda v, points=points, scale=scale: v.log_points("p", points, 0.05 * scale))
        image = covered(render(frame, fitted(frame, 4 / 3), SIZE, 1))
        assert image.sum() > 50  # of 50 balls
        assert not image[[0, -1]].any()
        assert not image[:, [0, -1]].any()


def test_a_camera_must_look_somewhere() -> None:
    from warp_like_viewer import Camera, render

    for camera in (Camera((0, 0, 0)), Camera((0, 3, 0))):
        with pytest.raises(ValueError, match="`up` must not be the direction between them"):
            render(recorded(lambda v: None), camera, SIZE)


def log_ball(viewer: Any, frames: int = 3) -> None:
    for i in range(frames):
        viewer.begin_frame()
        viewer.log_points("ball", [[0.5 * i - 0.5, 0, 0]], 0.3)
        viewer.log_scalar("step", i)
        viewer.end_frame()


def test_png_files_and_gif(tmp_path: Path) -> None:
    from warp_like_viewer import Camera, Files, Recording, Viewer

    camera = Camera((0, 0, 5))
    recording = Recording()
    log_ball(Viewer(recording, camera))
    for path, names in (("a/out.png", "out_000{}.png"), ("frames", "frame_000{}.png")):
        recording.play(Files(tmp_path / path, SIZE))
        folder = tmp_path / ("a" if path.endswith(".png") else path)
        assert sorted(p.name for p in folder.iterdir()) == [names.format(i) for i in range(3)]
        image = np.asarray(PIL.open(folder / names.format(1)))
        assert image.shape == (48, 64, 3)
        assert image[24, 32, 2] > image[24, 32, 0] + 40  # the blue ball is in the middle
    recording.play(Files(tmp_path / "out.gif", SIZE, fps=20))
    with PIL.open(tmp_path / "out.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (3, SIZE, 50)
    closed = Files(tmp_path / "x.gif", SIZE)
    closed.close()
    with pytest.raises(RuntimeError, match="is closed"):
        closed.show(recording.frames[0])
    with pytest.raises(ValueError, match=r"expected a folder or a \.png, \.gif or \.mp4 file"):
        Files(tmp_path / "out.bmp")


def test_images_fill_a_picture_or_stand_beside_it() -> None:
    from warp_like_viewer.files import Painter

    green = np.zeros((10, 10, 3), np.uint8)
    green[:, :, 1] = 255
    painter = Painter(SIZE, 1)
    alone = painter.paint(recorded(lambda v: v.log_image("g", green)))
    assert (alone == [0, 255, 0]).all(axis=2).sum() == 48 * 48
    beside = painter.paint(recorded(lambda v: (v.log_image("g", wp.array(green)), v.log_points("p", [[0, 0, 0]]))))
    assert 0 < (beside == [0, 255, 0]).all(axis=2).sum() < 300


def test_mp4_needs_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from warp_like_viewer import Files

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ModuleNotFoundError, match="`pip install imageio-ffmpeg`, or write a .gif file"):
        Files(tmp_path / "out.mp4")


@pytest.mark.skipif(importlib.util.find_spec("imageio_ffmpeg") is None, reason="imageio-ffmpeg is not installed")
def test_mp4(tmp_path: Path) -> None:
    from warp_like_viewer import Files, Viewer

    with Viewer(Files(tmp_path / "out.mp4", SIZE)) as viewer:
        log_ball(viewer, 5)
    assert b"ftyp" in (tmp_path / "out.mp4").read_bytes()[:16]
    with pytest.raises(ValueError, match="even"):
        Files(tmp_path / "odd.mp4", (63, 48))


def test_the_picture_in_a_notebook_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}:{SOURCE.parents[2]}")
    cell = (
        "from warp_like_viewer import Notebook, Viewer\nviewer = Viewer(Notebook((64, 48)))\n"
        "for i in range(3):\n    viewer.begin_frame()\n    viewer.log_points('p', [[0, 0, 0]], 1 + i)\n"
        "    viewer.end_frame()\n"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    (output,) = book.cells[0].outputs
    assert output["data"]["image/png"]


def test_it_lists_what_it_needs() -> None:
    project = (SOURCE.parent / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = (\[.*\])$", project, re.MULTILINE)
    assert json.loads(listed) == ["numpy", "pillow>=10", "warp_like"]
    assert (SOURCE.parent / "LICENSE").read_text() == (SOURCE.parents[2] / "LICENSE").read_text()
