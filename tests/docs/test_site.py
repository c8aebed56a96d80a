"""The documentation site builds without a warning, and its generated tables hold every row."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from warp_like.base.settings import ACCEPTED, SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages. All are read, and their links resolved; few are written, which takes as long again."""
    for needed in ("sphinx", "myst_nb", "furo", "sphinx_copybutton"):
        pytest.importorskip(needed)
    out = tmp_path_factory.mktemp("site") / "html"
    build("dummy", out)
    build("html", out, *WRITTEN)
    return out


WRITTEN = (
    "ARCHITECTURE.md",
    "gallery/boids.md",
    "guide/launching.md",
    "guide/settings.md",
    "index.md",
    "reference/builtins.md",
)


def build(builder: str, out: Path, *files: str) -> None:
    program = str(Path(__file__).with_name("building.py"))
    done = subprocess.run(
        [sys.executable, program, builder, str(out), *files], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_pages_are_read(site: Path) -> None:
    doctrees = site.parent / "doctrees"
    read = {str(path.relative_to(doctrees).with_suffix("")) for path in doctrees.rglob("*.doctree")}
    docs = ROOT / "docs"
    assert read == {
        str(path.relative_to(docs).with_suffix("")) for kind in ("*.md", "*.ipynb") for path in docs.rglob(kind)
    }


def test_pages_have_the_theme_and_a_list_of_the_others(site: Path) -> None:
    for file in WRITTEN:
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
