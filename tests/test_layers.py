"""The floors of the architecture, held by walking every import of the package, those inside functions
included.

``docs/ARCHITECTURE.md`` says what each floor is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "warp_like"
FILES = sorted(p for p in PACKAGE.rglob("*.py"))

FLOORS = (
    "base",
    "ir",
    "values",
    "builtins",
    "frontend",
    "analysis",
    "passes",
    "backend",
    "compiler",
    "runtime",
    "interop",
)
"""Bottom first; a module imports from its own floor and from those below."""

ABOVE = ("jax_experimental",)
"""Folders above all floors, which nothing below imports, as the modules beside them."""

APART = {("backend", "passes")}
"""Floors that do not know each other although one lies above the other."""

NATIVE = "_native"
NATIVE_IN = ("values", "backend", "compiler", "runtime", "interop")
"""The native extension, which stands on no floor, and the floors that use it."""

ONLY_IN = {"llvmlite": ("backend/",), "cuda": ("runtime/cuda", "backend/nvrtc")}
"""Packages that one place alone imports."""

FRAMEWORKS = ("torch", "jax", "jaxlib", "paddle", "cupy", "tensorflow")
"""Never imported unless a user's call needs them: inside functions alone."""

OPTIONAL = (*FRAMEWORKS, "cuda")

MAX_FILE = 700
MAX_FUNCTION = 80


def _imports(tree: ast.Module, module: list[str]) -> Iterator[tuple[str, int, bool]]:
    """Yield what a file imports: the full name, the line, and whether at once, when the file is imported."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    lazy = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        at_once = id(node) not in lazy and id(node) not in typing_only
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{start}.{alias.name}", node.lineno, at_once) for alias in node.names)


def _floor(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "warp_like" and len(parts) > 1 else None


def _relative(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def broken_imports(source: str, path: str) -> list[str]:
    """Return what is wrong with the imports of ``source``, a file at ``path`` inside the package."""
    here = path.split("/")[0].removesuffix(".py")
    inside = here in FLOORS
    problems = []
    module = ["warp_like", *path.removesuffix(".py").split("/")]
    for name, line, at_once in _imports(ast.parse(source), module):
        top, floor = name.split(".")[0], _floor(name)
        where = f"{path}:{line} imports {name}"
        if floor == NATIVE:
            if inside and here not in NATIVE_IN:
                problems.append(f"{where}: {here} does not use the native extension")
        elif top == "warp_like" and inside and floor not in FLOORS:
            problems.append(f"{where}, which belongs to no floor")
        elif floor in FLOORS and inside:
            if FLOORS.index(floor) > FLOORS.index(here):
                problems.append(f"{where}, which lies above {here}")
            if (here, floor) in APART:
                problems.append(f"{where}: {here} and {floor} do not know each other")
        if top in ONLY_IN and not path.startswith(ONLY_IN[top]):
            problems.append(f"{where}, which only {' and '.join(ONLY_IN[top])} may")
        if top in OPTIONAL and at_once:
            problems.append(f"{where} when it is imported itself")
        if top in ("tests", "exts", "examples"):
            problems.append(f"{where} from outside the package")
    return problems


@pytest.mark.parametrize("file", FILES, ids=_relative)
def test_imports_only_go_down(file: Path) -> None:
    assert not broken_imports(file.read_text(encoding="utf-8"), _relative(file))


def test_every_folder_is_a_floor() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    assert folders <= {*FLOORS, *ABOVE}


@pytest.mark.parametrize(
    "path, source, problem",
    [
        ("ir/core.py", "from warp_like.builtins import spec", "which lies above ir"),
        ("ir/core.py", "def f():\n    from warp_like.builtins.spec import resolve", "which lies above ir"),
        ("ir/core.py", "from ..builtins import spec", "which lies above ir"),
        ("ir/core.py", "from .. import builtins", "which lies above ir"),
        ("ir/core.py", "import warp_like.runtime.launching.launch as launch", "which lies above ir"),
        ("compiler/cache.py", "from warp_like.runtime import device", "which lies above compiler"),
        ("backend/llvm/ops.py", "from warp_like.passes import fold", "do not know each other"),
        ("runtime/arrays/array.py", "import warp_like", "which belongs to no floor"),
        ("passes/fold.py", "from llvmlite import ir", "which only backend/ may"),
        ("passes/fold.py", "from warp_like import _native", "passes does not use the native extension"),
        ("interop/torch.py", "import torch", "when it is imported itself"),
        ("interop/torch.py", "if True:\n    import torch", "when it is imported itself"),
        ("runtime/arrays/array.py", "from tests.interpreter import run", "from outside the package"),
    ],
)
def test_the_check_itself_finds(path: str, source: str, problem: str) -> None:
    (found,) = broken_imports(source, path)
    assert problem in found


@pytest.mark.parametrize(
    "path, source",
    [
        ("ir/core.py", "from warp_like.ir.types import Type\nfrom . import ops\nimport numpy as np"),
        ("interop/torch.py", "def f():\n    import torch"),
        ("interop/torch.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("backend/cpu.py", "import llvmlite.binding\nfrom warp_like import _native"),
        ("__init__.py", "from warp_like.runtime.launching.launch import launch"),
    ],
)
def test_the_check_itself_allows(path: str, source: str) -> None:
    assert not broken_imports(source, path)


@pytest.mark.parametrize("file", FILES, ids=_relative)
def test_sizes(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_FILE
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{file.name}: {node.name} has {length} lines"


@pytest.mark.parametrize("file", FILES, ids=_relative)
def test_every_file_says_what_it_is_for(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))


def test_the_cache_key_covers_every_floor_of_the_compiler() -> None:
    below = FLOORS[: FLOORS.index("runtime")]
    assert compiler_floors() == below


def compiler_floors() -> tuple[str, ...]:
    """The floors whose files the cache hashes, read off its source."""
    tree = ast.parse((PACKAGE / "compiler" / "cache.py").read_text())
    (found,) = (
        n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_COMPILER_FLOORS"
    )
    floors: tuple[str, ...] = ast.literal_eval(found)
    return floors
