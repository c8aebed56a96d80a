"""The recipe "add a target", followed step by step in a copy of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.following import ROOT, Recipe, count_passed, require_success

NAME = "add_a_target.md"
RECIPE = Recipe(NAME)
PAGE = (ROOT / "docs" / "recipes" / NAME).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's processor."""
    folder = tmp_path_factory.mktemp("recipe")
    RECIPE.follow(folder)
    return folder


def test_what_the_recipe_shows_runs(copy: Path) -> None:
    require_success(copy, "program.py")


def test_arithmetic_is_packed_for_it(copy: Path) -> None:
    assert count_passed(copy, "tests/backend/llvm/test_lane_targets.py", "-k", "neoverse") == 4


def test_the_places_are_those_that_ask_for_the_kind() -> None:
    table, _, _ = PAGE.partition("## 6.")
    places = re.findall(r"^\| `(warp_like/[\w/.]+)`", table, re.MULTILINE)
    sources = [p for floor in ("backend", "compiler", "passes") for p in (ROOT / "warp_like" / floor).rglob("*.py")]
    kinds = re.compile(r"\bis_(cuda|amd|gpu|opencl|device)\b")
    asking = {p.relative_to(ROOT).as_posix() for p in sources if kinds.search(p.read_text(encoding="utf-8"))}
    assert len(asking) > 5
    assert {*places} == asking


def test_the_table_of_fields_is_that_of_the_class() -> None:
    from warp_like.backend.target import Target

    table, _, _ = PAGE.partition("## 2.")
    named = re.findall(r"^\| `(\w+)` ", table, re.MULTILINE)
    assert [*named, "assembled", "toolkit"] == list(Target._fields_)  # CUDA alone asks for these two


def test_the_table_of_members_is_that_of_the_protocol() -> None:
    from warp_like.runtime.memory.backend import Backend

    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## 6.")[2], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    members = {name for name in {**vars(Backend), **Backend.__annotations__} if not name.startswith("_")}
    assert len(members) > 10
    assert sorted(named) == sorted(members)


def test_it_names_files_that_there_are() -> None:
    named = set(re.findall(r"`((?:warp_like|native|tests)/[\w/.]+\.\w+)`", PAGE))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []
