"""The recipe for a type names the places where the transform is, and there are no others in the compiler."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "docs" / "recipes" / "add_a_type.md").read_text(encoding="utf-8")
PLACES = re.findall(r"^\| `([\w/.]+)`", RECIPE, re.MULTILINE)


def test_the_places_hold_the_type() -> None:
    assert len(PLACES) > 10
    for place in PLACES:
        assert "ransform" in (ROOT / place).read_text(encoding="utf-8"), place


def test_passes_and_backend_know_nothing_of_it() -> None:
    """A value is the tuple of its scalars to them; this is what makes the list short."""
    for floor in ("passes", "backend/llvm"):
        for path in (ROOT / "warp_like" / floor).rglob("*.py"):
            assert not re.search(r"\bTransform\b", path.read_text(encoding="utf-8")), path
