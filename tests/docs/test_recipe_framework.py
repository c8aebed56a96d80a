"""The recipe "add a framework", followed step by step in a copy of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.following import ROOT, Recipe, require_success

NAME = "add_a_framework.md"
RECIPE = Recipe(NAME)

WITHOUT_GRADIENT = """
import sys

import numpy as np
import warp_like as wp

assert "tensorlet" not in sys.modules and "warp_like.interop.tensorlet" not in sys.modules
import tensorlet


@wp.kernel
def double(x: wp.array(dtype=float)):
    x[wp.tid()] *= 2.0


t = tensorlet.Tensor(np.ones(3, dtype=np.float32))
wp.launch(double, dim=3, inputs=[t])
assert t.data.tolist() == [2.0, 2.0, 2.0]
a = wp.from_dlpack(t)
assert a.ptr == t.data.ctypes.data and a.grad is None
assert tensorlet.from_dlpack(a).data.ctypes.data == a.ptr
"""
"""What the first section says: DLPack alone is enough, and nothing is imported before it is used."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the recipe's framework."""
    folder = tmp_path_factory.mktemp("recipe")
    RECIPE.follow(folder)
    (folder / "without.py").write_text(WITHOUT_GRADIENT, encoding="utf-8")
    return folder


def test_the_recipe_stays_in_the_interop_floor() -> None:
    changed = [name for name in RECIPE.files if name.startswith("warp_like/")]
    assert {Path(name).parent.as_posix() for name in changed} == {"warp_like/interop"}
    assert len(changed) == 4


def test_what_the_recipe_shows_runs(copy: Path) -> None:
    require_success(copy, "program.py")
    require_success(copy, "without.py")


def test_dlpack_alone_is_enough_without_the_recipe(copy: Path) -> None:
    require_success(copy, "without.py", PYTHONPATH=f"{ROOT}:{copy}")


def test_it_names_files_and_functions_that_there_are() -> None:
    """The sections without code (writes, streams, tests) speak of what exists."""
    text = (ROOT / "docs" / "recipes" / NAME).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:warp_like|native|tests|docs)/[\w/.]+)`", text))
    made = {"tests/interop/test_tensorlet.py"}
    assert len(named) > 10
    assert [name for name in named - made if not (ROOT / name).exists()] == []
    stub = (ROOT / "warp_like" / "_native.pyi").read_text(encoding="utf-8")
    for function in ("set_write_hook", "set_stream_hook"):
        assert f"_native.{function}" in text
        assert f"def {function}(" in stub
    for module, name in (("gradients", "_WATCHING"), ("view", "_tells_stream"), ("export", "def watch(")):
        assert name in (ROOT / "warp_like" / "interop" / f"{module}.py").read_text(encoding="utf-8")
