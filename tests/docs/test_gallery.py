"""The gallery: each example computes what it should, has a picture and a page, and is short."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.long_tail import tail

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs" / "_ext"))

import gallery_pages  # noqa: E402
import tables  # noqa: E402

PICTURE_LIMIT = 1 << 20  # bytes
EXAMPLES = gallery_pages.names()
SLOW = {"contour_lines", "dam_break", "halo_exchange", "hourglass", "material_points", "sand", "tailor", "ultrasound"}
"""Examples that take seconds: the long tail runs them."""


def lines_of_code(path: Path) -> int:
    """Return how many lines have code: neither blank, nor a comment, nor of a docstring."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    prose = {
        line
        for node in documented
        if ast.get_docstring(node)
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in prose for number, line in lines)


def load(name: str) -> ModuleType:
    """Import a file of the gallery, whose folder has to be in ``sys.path``."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", gallery_pages.EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples find ``pictures``, as they do when they are run as programs."""
    pytest.importorskip("PIL")
    monkeypatch.syspath_prepend(str(gallery_pages.EXAMPLES))


@pytest.mark.parametrize("name", [tail(name) if name in SLOW else name for name in EXAMPLES])
def test_example_runs_and_checks_itself(name: str, gallery: None, tmp_path: Path) -> None:
    load(name).main(quick=True, out=tmp_path)
    (made,) = tmp_path.iterdir()
    assert made.name == gallery_pages.read(name).picture.name
    assert made.stat().st_size > 200


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_short_and_documented(name: str) -> None:
    assert 60 <= lines_of_code(gallery_pages.EXAMPLES / f"{name}.py") <= 150
    example = gallery_pages.read(name)
    assert tuple(field for field in example.fields if field != gallery_pages.NOT_TIMED) == gallery_pages.FIELDS
    assert all(example.fields.values())
    assert example.title
    assert example.summary.endswith(".")
    assert example.fields["Group"] in gallery_pages.GROUPS


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_says_how_fast_it_is_beside_warp(name: str) -> None:
    example = gallery_pages.read(name)
    times = json.loads(gallery_pages.SPEED.read_text(encoding="utf-8"))["examples"]
    assert (name in times) != (gallery_pages.NOT_TIMED in example.fields)
    assert "NVIDIA Warp" in gallery_pages.speed(example)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_a_picture_and_a_page(name: str) -> None:
    picture = gallery_pages.read(name).picture
    assert picture.exists()
    assert picture.stat().st_size < PICTURE_LIMIT
    page = (ROOT / "docs" / "gallery" / f"{name}.md").read_text(encoding="utf-8")
    assert page == f"<!-- generated: example {name} -->\n"


def test_the_page_has_a_card_for_each_example() -> None:
    text = tables.expand((ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"))
    assert sorted(re.findall(r"\]\(gallery/(\w+)\.md\)", text)) == EXAMPLES


def test_there_is_no_page_or_picture_without_an_example() -> None:
    assert sorted(path.stem for path in (ROOT / "docs" / "gallery").glob("*.md")) == EXAMPLES
    assert sorted(path.stem for path in gallery_pages.PICTURES.iterdir()) == EXAMPLES


def test_a_wrong_result_ends_the_program(gallery: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example = load("mandelbrot")
    monkeypatch.setattr(example, "AREA", 1.7)
    with pytest.raises(SystemExit, match="Wrong result: the set has an area of 1"):
        example.main(quick=True, out=tmp_path)
    assert not list(tmp_path.iterdir())
