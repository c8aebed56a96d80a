"""The table of Warp's names that are missing here, and what users are told of them."""

import importlib.util

import pytest

import warp_like as wp
from warp_like.base.missing_names import MISSING, OTHER_NAMES, PAGE

NO_FABRIC = (
    f"`wp.fabricarray` exists in Warp and not here: arrays of Omniverse's Fabric are not in this release; {PAGE}"
)


def test_the_table_holds_only_what_is_missing():
    assert [name for name in MISSING if hasattr(wp, name)] == []
    assert [name for name, known in OTHER_NAMES.items() if hasattr(wp, name) or not hasattr(wp, known)] == []


def test_an_attribute():
    with pytest.raises(AttributeError) as caught:
        _ = wp.fabricarray
    assert str(caught.value) == f"module 'warp_like' has no attribute 'fabricarray': {NO_FABRIC}"
    assert not hasattr(wp, "fabricarrayarray")
    with pytest.raises(AttributeError, match=r"no attribute 'no_such_name'$"):
        _ = wp.no_such_name


def test_an_import():
    with pytest.raises(ImportError) as caught:
        from warp_like import fabricarray  # noqa: F401
    assert str(caught.value) == NO_FABRIC


@pytest.mark.parametrize(
    "statement", ["import warp_like.fem", "from warp_like import fem", "import warp_like.fem.cache"]
)
def test_a_module(statement):
    with pytest.raises(ModuleNotFoundError, match="`wp.fem` exists in Warp and not here: the module is not in this"):
        exec(statement)


def test_a_module_under_the_name_of_warp(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "warp", wp)
    with pytest.raises(ModuleNotFoundError, match="`wp.fem` exists in Warp"):
        importlib.import_module("warp.fem")


def test_other_names_are_as_python_has_them():
    assert importlib.util.find_spec("warp_like.no_such_module") is None
    assert importlib.util.find_spec("fem") is None
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        from warp_like import no_such_name  # noqa: F401
