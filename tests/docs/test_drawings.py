"""The drawn pictures of the guide are those that their scripts draw."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_drawings_are_what_their_scripts_draw() -> None:
    scripts = sorted((DOCS / "drawings").glob("*.py"))
    assert scripts
    for script in scripts:
        spec = importlib.util.spec_from_file_location(f"drawings_{script.stem}", script)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, make in module.DRAWINGS.items():
            assert (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8") == make().svg()
