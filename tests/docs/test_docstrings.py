"""The examples in docstrings run, and every public name of the host has documentation and a place in the reference."""

from __future__ import annotations

import builtins
import contextlib
import doctest
import enum
import importlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.docs.conftest import read_blocks
from warp_like.frontend.builtin import public_builtins

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api.md"
LIBRARIES = ("torch", "jax", "paddle", "matplotlib")
IN_PART = ("Any", "Int", "Float", "Scalar", "array1d", "array2d", "array3d", "array4d", "init")
IN_PART += tuple(f"indexedarray{n}d" for n in (1, 2, 3, 4))
"""Names that the reference need not list: of ``typing``, generic types, annotations, what does nothing."""


def public() -> Iterator[tuple[str, Any]]:
    """Public functions and classes of the host: builtins and types have pages of their own."""
    in_kernels, types = public_builtins(), wp.types.NAMES
    modules = {"": wp, "utils.": wp.utils, "autograd.": wp.autograd, "optim.": wp.optim}
    modules |= {"geometry.": wp.geometry, "sparse.": wp.sparse, "optim.linear.": wp.optim.linear}
    for prefix, module in modules.items():
        for name in getattr(module, "__all__", dir(module)):
            found = getattr(module, name)
            own = not name.startswith("_") and name not in in_kernels and name not in types
            if own and callable(found) and not inspect.ismodule(found):
                yield prefix + name, found


def documented() -> Iterator[tuple[str, str]]:
    """The names of what has a docstring with an example, members of classes too, and the docstrings."""
    for name, found in public():
        members = vars(found).items() if inspect.isclass(found) else ()
        for label, part in ((name, found), *((f"{name}.{m}", part) for m, part in members if m[0] != "_")):
            text = getattr(part, "__doc__", None)
            if isinstance(text, str) and ">>>" in text and not isinstance(part, enum.Enum):
                yield label, inspect.cleandoc(text)


EXAMPLES = dict(documented())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the reference defines for the examples."""
    block = next(b for b in read_blocks(PAGE) if b.language == "python")
    path = tmp_path_factory.mktemp("api") / "api.py"
    path.write_text(block.text, encoding="utf-8")  # kernels are compiled from their source
    spec = importlib.util.spec_from_file_location("api_page", path)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return vars(page)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, shared: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = EXAMPLES[name]
    if '"cuda' in text and "cuda:99" not in text and not wp.is_cuda_available():
        pytest.skip("there is no CUDA device")
    needed = [library for library in LIBRARIES if re.search(rf"\b{library}\.|jacobian_plot", text)]
    space = {library: pytest.importorskip(library) for library in needed}
    monkeypatch.chdir(tmp_path)
    fresh = {"x": wp.array(np.arange(4), dtype=float, requires_grad=True), "y": wp.zeros(4, requires_grad=True)}
    test = doctest.DocTestParser().get_doctest(text, {**shared, **fresh, **space}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    report = io.StringIO()
    monkeypatch.setattr(builtins, "_", None, raising=False)  # the last result, which Paddle compares functions with
    with contextlib.redirect_stdout(report):
        result = runner.run(test, clear_globs=False)
    assert result.failed == 0, report.getvalue()


@pytest.mark.parametrize("name", [name for name, _ in public()])
def test_name_is_documented(name: str) -> None:
    found = dict(public())[name]
    assert inspect.getdoc(found)
    listed = re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", PAGE.read_text(encoding="utf-8"))
    whole_module = name.startswith(("utils.", "geometry.", "sparse.", "optim.linear."))
    assert listed or whole_module or name in IN_PART, f"{name} is not in docs/reference/api.md"
