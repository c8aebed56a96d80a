"""The documentation site builds without a warning, and its generated tables hold every row."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from warp_like.base.settings import ACCEPTED, SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages; few have the theme of ``make docs``, whose bar of all pages takes half of the time."""
    for needed in ("sphinx", "myst_nb", "furo", "sphinx_copybutton"):
        pytest.importorskip(needed)
    out = tmp_path_factory.mktemp("site") / "html"
    build(out, "-D", "html_theme=basic")
    build(out, files=THEMED)
    return out


THEMED = ("index.md", "guide/launching.md", "gallery/boids.md", "reference/builtins.md")


def build(out: Path, *options: str, files: Sequence[str] = ()) -> None:
    """Write the pages of some files, or of all; what was read is kept beside them."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *options]
    folders = ["-d", str(out.parent / "doctrees"), str(ROOT / "docs"), str(out)]
    paths = [str(ROOT / "docs" / file) for file in files]
    done = subprocess.run([*command, *folders, *paths], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pages_exist(site: Path) -> None:
    for page in (
        "index",
        "getting_started",
        "guide/kernels",
        "reference/api",
        "ARCHITECTURE",
        "recipes/add_a_builtin",
    ):
        assert (site / f"{page}.html").exists(), page


def test_some_pages_have_the_theme(site: Path) -> None:
    for file in THEMED:
        page = (site / file).with_suffix(".html").read_text(encoding="utf-8")
        assert 'class="sidebar-drawer"' in page, file
        assert page.count("toctree-l1") > 5, file


def test_settings_page_lists_every_setting(site: Path) -> None:
    text = (site / "guide" / "settings.html").read_text(encoding="utf-8")
    for setting in SETTINGS:
        assert (f"config.{setting.name}" if setting.is_for("process") else setting.name) in text
        assert setting.env is None or setting.env in text
    for setting in ACCEPTED:
        assert setting.name in text


def test_every_builtin_is_in_the_index_and_the_overview(site: Path) -> None:
    import warp_like  # noqa: F401  (fills the registry)
    from warp_like.builtins.spec import REGISTRY

    public = {f"warp_like.{name}" for name in REGISTRY if not name.startswith("_")}
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of text, then a zlib stream
    entries = [line.split() for line in zlib.decompress(packed).decode().splitlines()]
    functions = {entry[0] for entry in entries if entry[1] == "py:function"}
    assert public <= functions
    assert {"warp_like.launch", "warp_like.zeros"} <= functions
    overview = (site / "reference" / "builtins.html").read_text(encoding="utf-8")
    missing = [name for name in public if f'#{name}"' not in overview]
    assert not missing


def test_names_in_the_text_are_links(site: Path) -> None:
    text = (site / "guide" / "launching.html").read_text(encoding="utf-8")
    assert '<a class="reference internal" href="../reference/api.html#warp_like.launch"' in text
    assert 'href="../reference/builtins/utility.html#warp_like.tid"' in text


def test_architecture_lists_every_op(site: Path) -> None:
    from warp_like.ir import ops
    from warp_like.ir.core import Op

    text = (site / "ARCHITECTURE.html").read_text(encoding="utf-8")
    classes = [c for c in vars(ops).values() if isinstance(c, type) and issubclass(c, Op) and c.NAME]
    assert len(classes) > 20
    missing = [c.__name__ for c in classes if f">{c.__name__}<" not in text]
    assert not missing
