"""The notebook extension: pictures, and a notebook that is executed, kernels redefined in it."""

import ast
import io
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp

SOURCE = Path(__file__).resolve().parents[2] / "exts" / "jupyter" / "src"
IPython = pytest.importorskip("IPython")
PERMISSIVE = re.compile(r"\b(0?BSD|MIT|Apache|ISC|PSF|Python Software Foundation|Zlib|CC0|Unlicense)\b", re.IGNORECASE)
COPYLEFT = re.compile(r"\b[AL]?GPL|GNU\b", re.IGNORECASE)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SOURCE))


def decoded(image: Any) -> np.ndarray[Any, Any]:
    pillow = pytest.importorskip("PIL.Image")
    from warp_like_jupyter.picture import png

    return np.asarray(pillow.open(io.BytesIO(png(image))))


def picture_of(data: Any, dtype: Any) -> Any:
    from warp_like_jupyter.picture import pixels

    return pixels(wp.array(data, dtype=dtype))


def test_grey_goes_from_the_lowest_to_the_highest_number() -> None:
    data = np.linspace(-3, 5, 8 * 11).reshape(8, 11)
    image = picture_of(data, float)
    wanted = np.round(255 * (data + 3) / 8)
    assert image.shape == (8, 11, 3)
    assert np.abs(image - wanted[:, :, None]).max() <= 1
    assert np.array_equal(decoded(image), image)
    assert set(picture_of(np.full((8, 8), 7.0), float).ravel()) == {128}
    assert set(picture_of(np.eye(8, dtype=bool), bool).ravel()) == {0, 255}
    assert picture_of(np.arange(64).reshape(8, 8), wp.bfloat16).max() == 255


def test_numbers_that_are_not_finite_stand_out() -> None:
    data = np.zeros((8, 8))
    data[0, 0], data[1, 1], data[2, 2] = np.nan, np.inf, 1.0
    image = picture_of(data, float)
    assert image[0, 0].tolist() == image[1, 1].tolist() == [255, 0, 255]
    assert image[2, 2].tolist() == [255, 255, 255]
    assert picture_of(np.full((8, 8), np.nan), float)[3, 3].tolist() == [255, 0, 255]


@pytest.mark.parametrize("channels", [3, 4])
def test_colours(channels: int) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (9, 8, channels), dtype=np.uint8)
    assert np.array_equal(decoded(picture_of(data, wp.uint8)), data)
    vectors = rng.uniform(-0.5, 1.5, (9, 8, channels)).astype(np.float32)
    image = picture_of(vectors, wp.vec3 if channels == 3 else wp.vec4)
    assert np.array_equal(image, np.round(255 * np.clip(vectors.astype(float), 0, 1)))


def test_what_is_no_picture_and_what_is_too_large() -> None:
    for shape, dtype in (((100,), float), ((7, 100), float), ((8, 8, 5), float), ((8, 8, 8), float)):
        assert picture_of(np.zeros(shape), dtype) is None
    assert picture_of(np.zeros((8, 8, 2)), wp.vec2) is None
    assert picture_of(np.zeros((5, 3)), wp.vec3) is None
    assert picture_of(np.zeros((1500, 600)), float).shape == (500, 300, 3)


def test_arrays_show_a_table_and_a_picture() -> None:
    from warp_like_jupyter import show_array

    text = show_array(wp.zeros((16, 8)))
    assert text.startswith("<div><code>array &nbsp; shape (16, 8)")
    assert 'src="data:image/png;base64,' in text
    assert "width: 128px; height: 256px" in text
    assert "<img" not in show_array(wp.zeros(100))


def test_graphs_are_drawn_where_graphviz_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from warp_like_jupyter import graph, show_drawing
    from warp_like_jupyter.graph import bundle

    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert bundle("digraph {}", "flowchart LR") == {"text/plain": "digraph {}", "text/vnd.mermaid": "flowchart LR"}
    program = tmp_path / "dot"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint('<?xml?><svg>' + sys.stdin.read() + '</svg>')\n")
    program.chmod(0o755)
    monkeypatch.setattr(graph.shutil, "which", lambda name: str(program))
    assert bundle("digraph {}", None)["image/svg+xml"] == "<svg>digraph {}</svg>\n"
    tape = wp.Tape()
    assert show_drawing(tape.visualize(format="mermaid")).keys() == {"text/plain", "text/vnd.mermaid"}
    assert "image/svg+xml" in show_drawing(tape.visualize())


def licence(package: str) -> str:
    about = metadata.metadata(package)
    named = [c for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    return " ".join([about.get("License-Expression") or "", *named]).strip() or about.get("License") or ""


def needed(package: str, found: set[str]) -> set[str]:
    """A package that is installed, and all that it needs."""
    name = re.match(r"[\w.-]+", package)[0].lower().replace("_", "-")
    if name not in found and "extra ==" not in package:
        try:
            wants = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            return found  # of another platform
        found.add(name)
        for other in wants:
            needed(other, found)
    return found


def test_the_licences_of_what_it_needs_are_permissive() -> None:
    project = (SOURCE.parent / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = (\[.*\])$", project, re.MULTILINE)
    packages: set[str] = set()
    for package in [*ast.literal_eval(listed), "nbclient", "nbformat"]:
        if package != "warp_like":
            needed(package, packages)
    assert {"ipython", "numpy", "traitlets"} <= packages
    for package in sorted(packages):
        found = licence(package)
        assert PERMISSIVE.search(found), (package, found)
        assert not COPYLEFT.search(found), (package, found)


def test_its_wheel_would_hold_the_licence() -> None:
    extension = SOURCE.parent
    assert 'license-files = ["LICENSE"]' in (extension / "pyproject.toml").read_text()
    assert (extension / "LICENSE").read_text() == (extension.parents[1] / "LICENSE").read_text()


CELLS = (
    "%load_ext warp_like_jupyter\nimport numpy as np\nimport warp_like as wp",
    "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    i = wp.tid()\n    x[i] = x[i] + 1.0",
    "x = wp.zeros(4, requires_grad=True)\nwp.launch(k, dim=4, inputs=[x])\nprint(x.list())",
    "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    i = wp.tid()\n    x[i] = x[i] + 10.0",
    "wp.launch(k, dim=4, inputs=[x])\nprint(x.list())",
    "@wp.func\ndef f(v: float):\n    return v * 2.0",
    "@wp.kernel\ndef uses(x: wp.array(dtype=float)):\n    x[wp.tid()] = f(x[wp.tid()])",
    "wp.launch(uses, dim=4, inputs=[x])\nprint(x.list())",
    "@wp.func\ndef f(v: float):\n    return v * 0.0",
    "wp.launch(uses, dim=4, inputs=[x])\nprint(x.list())",
    "wp.zeros((16, 16))",
    "with wp.Tape() as tape:\n    wp.launch(k, dim=4, inputs=[x])\ntape",
    "tape.visualize(format='mermaid')",
    "k.explain()",
    "%unload_ext warp_like_jupyter\nwp.zeros((16, 16))",
)


def test_a_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    root = str(SOURCE.parents[2])
    monkeypatch.setenv("PYTHONPATH", f"{SOURCE}:{root}")
    monkeypatch.setenv("WARP_LIKE_CACHE_DIR", str(tmp_path / "cache"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    texts = ("".join(o["text"] for o in c.outputs if o.output_type == "stream") for c in book.cells)
    assert [text.strip() for text in texts if text] == [
        "[1.0, 1.0, 1.0, 1.0]",
        "[11.0, 11.0, 11.0, 11.0]",
        "[22.0, 22.0, 22.0, 22.0]",
        "[0.0, 0.0, 0.0, 0.0]",
    ]
    array, tape, drawing, explanation, plain = (c.outputs[-1]["data"] for c in book.cells[10:])
    assert 'src="data:image/png;base64,' in array["text/html"]
    assert "text/vnd.mermaid" in tape
    assert tape["text/plain"].startswith("digraph")
    assert drawing["text/vnd.mermaid"].startswith("flowchart")
    assert "k" in explanation["text/html"]
    assert "<table>" in plain["text/html"]
    assert "<img" not in plain["text/html"]


LONG = """import numpy as np
import warp_like as wp

@wp.kernel
def spin(x: wp.array(dtype=float), rounds: wp.int64):
    i = wp.tid()
    k = wp.int64(0)
    while k < rounds:
        x[i] = wp.sin(x[i]) + 1.0
        k += wp.int64(1)

x = wp.zeros(4)
wp.launch(spin, dim=4, inputs=[x, 1])
"""


def test_a_long_launch_is_interrupted_and_the_next_cell_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE.parents[2]))
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        assert client.execute_interactive(LONG, timeout=120)["content"]["status"] == "ok"
        # After an error a kernel aborts what came meanwhile, unless it is told not to: the next cell may be early.
        spinning = "print('begins', flush=True)\nwp.launch(spin, dim=4, inputs=[x, 10**13])"
        asked = client.execute(spinning, stop_on_error=False)
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        kernel.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != asked:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert (
            client.execute_interactive("wp.launch(spin, dim=4, inputs=[x, 1])", timeout=60)["content"]["status"] == "ok"
        )
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
