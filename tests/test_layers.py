"""The floors of the architecture, held by walking every import of the package, those inside functions
included; and that no files import each other in a circle.

``docs/ARCHITECTURE.md`` says what each floor is for.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

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
    "library",
)
"""Bottom first; a module imports from its own floor and from those below."""

ABOVE = ("geometry", "jax_experimental", "optim", "sparse")
"""Folders above all floors, which nothing below imports, as the modules beside them."""

ON_THE_PUBLIC_API = ("geometry", "optim", "sparse")
"""Those of them that are written in kernels and whole-array operations, as a user's package would be."""

NOT_PUBLIC = {
    "warp_like.base.missing_names",
    "warp_like.base.provider",
    "warp_like.base.warn",
    "warp_like.runtime.arrays.float_fields",  # optimizers take the floats in structs
    "warp_like.runtime.memory.recorder",  # solvers and surfaces choose what a tape records of them
}
"""What these use beside the public API, which has nothing like it."""

APART = {("backend", "passes")}
"""Floors that do not know each other although one lies above the other."""

SUBFLOORS = ("memory", "arrays", "kernels", "launching", "autodiff", "operations", "geometry", "cpu", "cuda", "opencl")
"""The folders of ``runtime``, bottom first; imports for type checkers go down between them, too."""

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


AT_ONCE, DEFERRED, TYPING = "at once", "deferred", "typing"


Import = tuple[str, int, str]
"""What a file imports: the full name, the line, and when: with the file, in a function, or never."""


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield every statement of a file, and when it runs; most nodes belong to expressions, which hold none."""
    waiting: list[tuple[ast.AST, str]] = [(tree, AT_ONCE)]
    while waiting:
        node, when = waiting.pop()
        yield node, when
        never: list[ast.stmt] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            when = TYPING if when == TYPING else DEFERRED
        elif isinstance(node, ast.If) and _names_type_checking(node.test):
            never = node.body
        parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr)]
        waiting += [(part, TYPING if part in never else when) for part in parts]


def _names_type_checking(test: ast.expr) -> bool:
    return any("TYPE_CHECKING" in (getattr(n, "id", ""), getattr(n, "attr", "")) for n in ast.walk(test))


def _imports(tree: ast.Module, module: list[str]) -> Iterator[Import]:
    """Yield what a file imports."""
    for node, when in _statements(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{start}.{alias.name}", node.lineno, when) for alias in node.names)


class Facts(NamedTuple):
    """What the tests ask of a file, which is parsed once for all of them."""

    lines: int
    docstring: str | None
    functions: list[tuple[str, int]]
    imports: list[Import]


@functools.cache
def facts(file: Path) -> Facts:
    """The facts of a file of the package; ``functions`` are their names and lengths."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [n for n, _ in _statements(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return Facts(
        len(source.splitlines()),
        ast.get_docstring(tree),
        [(f.name, (f.end_lineno or 0) - f.lineno + 1) for f in functions],
        list(_imports(tree, _parts(_relative(file)))),
    )


def _floor(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "warp_like" and len(parts) > 1 else None


def _relative(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def _parts(path: str) -> list[str]:
    return ["warp_like", *path.removesuffix(".py").split("/")]


def _climbs(path: str, name: str) -> bool:
    """Whether a file in a folder of ``runtime`` imports from one above it."""
    here, there = _parts(path)[1:3], name.split(".")[1:3]
    if here[0] != "runtime" or here[1] == "__init__" or there[:1] != ["runtime"] or len(there) < 2:
        return False
    return SUBFLOORS.index(there[1]) > SUBFLOORS.index(here[1])


def _is_public(path: str, name: str) -> bool:
    """Whether a package on the public API may import something: what users import, its like, and the exceptions."""
    module = name.rpartition(".")[0]
    return bool(name == "warp_like" or _floor(name) in ON_THE_PUBLIC_API or {name, module} & NOT_PUBLIC)


def broken_imports(imports: Iterable[Import], path: str) -> list[str]:
    """Return what is wrong with the ``imports`` of a file at ``path`` inside the package."""
    here = path.split("/")[0].removesuffix(".py")
    inside = here in FLOORS
    problems = []
    for name, line, when in imports:
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
        if _climbs(path, name):
            problems.append(f"{where}, which lies above {path.split('/')[1]} in runtime")
        if here in ON_THE_PUBLIC_API and top == "warp_like" and not _is_public(path, name):
            problems.append(f"{where}, which is not public")
        if top in OPTIONAL and when == AT_ONCE:
            problems.append(f"{where} when it is imported itself")
        if top in ("tests", "exts", "examples"):
            problems.append(f"{where} from outside the package")
    return problems


# One test for all files, as pytest spends seconds on 1,600 tests. The assertions name each file that breaks a rule.
def test_imports_only_go_down() -> None:
    assert not [problem for f in FILES for problem in broken_imports(facts(f).imports, _relative(f))]


def test_every_folder_is_a_floor() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    assert folders <= {*FLOORS, *ABOVE}
    assert {p.name for p in (PACKAGE / "runtime").iterdir() if any(p.rglob("*.py"))} == {*SUBFLOORS}


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
        ("sparse/sums.py", "from warp_like.runtime.arrays.array import array", "which is not public"),
        ("optim/adam.py", "from warp_like.ir import types", "which is not public"),
        ("passes/fold.py", "from llvmlite import ir", "which only backend/ may"),
        ("passes/fold.py", "from warp_like import _native", "passes does not use the native extension"),
        ("interop/torch.py", "import torch", "when it is imported itself"),
        ("interop/torch.py", "if True:\n    import torch", "when it is imported itself"),
        ("runtime/arrays/array.py", "from tests.interpreter import run", "from outside the package"),
        ("runtime/memory/device.py", "from warp_like.runtime.arrays.array import array", "which lies above memory"),
        ("runtime/memory/device.py", "from warp_like.runtime import arrays", "which lies above memory"),
        ("runtime/memory/device.py", "from ..arrays import array", "which lies above memory"),
        ("runtime/arrays/array.py", "def f():\n    import warp_like.runtime.kernels.kernel", "which lies above arrays"),
        ("runtime/kernels/kernel.py", "from warp_like.runtime.launching import launch", "which lies above kernels"),
        ("runtime/autodiff/tape.py", "from warp_like.runtime.operations import mapping", "which lies above autodiff"),
        ("runtime/operations/mapping.py", "from warp_like.runtime.cuda import driver", "which lies above operations"),
        (
            "runtime/launching/launch.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from warp_like.runtime.autodiff.tape import Tape",
            "which lies above launching",
        ),
    ],
)
def test_the_check_itself_finds(path: str, source: str, problem: str) -> None:
    (found,) = broken_imports(_imports(ast.parse(source), _parts(path)), path)
    assert problem in found


@pytest.mark.parametrize(
    "path, source",
    [
        ("ir/core.py", "from warp_like.ir.types import Type\nfrom . import ops\nimport numpy as np"),
        ("interop/torch.py", "def f():\n    import torch"),
        ("interop/torch.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("backend/cpu.py", "import llvmlite.binding\nfrom warp_like import _native"),
        ("runtime/launching/launch.py", "from warp_like.runtime.kernels import kernel\nfrom . import blocks"),
        ("__init__.py", "from warp_like.runtime.launching.launch import launch"),
        ("sparse/sums.py", "import warp_like as wp\nfrom warp_like.sparse.lookup import row_end"),
        ("optim/launches.py", "from warp_like.runtime.arrays.float_fields import part_of"),
    ],
)
def test_the_check_itself_allows(path: str, source: str) -> None:
    assert not broken_imports(_imports(ast.parse(source), _parts(path)), path)


# --- circles ---


def import_graph(files: Mapping[str, Iterable[Import]]) -> dict[str, list[str]]:
    """Return for each path inside the package those that it imports, at once or inside functions."""
    paths = {".".join(_parts(path)).removesuffix(".__init__"): path for path in files}
    graph = {}
    for path, imports in files.items():
        names = [name for name, _, when in imports if when != TYPING]
        modules = [_module(name, paths) for name in names if _floor(name) != NATIVE]
        graph[path] = sorted({paths[module] for module in modules if module is not None})
    return graph


def _module(name: str, modules: Iterable[str]) -> str | None:
    """The module that an imported name is, or stands in."""
    return next((found for found in (name, name.rpartition(".")[0]) if found in modules), None)


def find_circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return files of which each imports the next, the first one again at the end; empty where there are none."""
    finished: set[str] = set()

    def search(path: list[str]) -> list[str]:
        for found in graph.get(path[-1], ()):
            if found in path:
                return [*path[path.index(found) :], found]
            circle = [] if found in finished else search([*path, found])
            if circle:
                return circle
        finished.add(path[-1])
        return []

    return next((circle for start in graph if (circle := search([start]))), [])


def package_graph() -> dict[str, list[str]]:
    return import_graph({_relative(f): facts(f).imports for f in FILES})


def test_no_files_import_each_other_in_a_circle() -> None:
    circle = find_circle(package_graph())
    assert not circle, "these files import each other: " + " -> ".join(circle)


@pytest.mark.parametrize(
    "sources, circle",
    [
        (("import warp_like.b", "import warp_like.c", "import warp_like.a"), "a.py -> b.py -> c.py -> a.py"),
        (("from warp_like import b", "def f():\n    from warp_like.a import x", ""), "a.py -> b.py -> a.py"),
        (("from warp_like.c import d", "", "def f():\n    from . import b, a"), "a.py -> c.py -> a.py"),
        (("from warp_like import b", "if TYPE_CHECKING:\n    from warp_like import a", ""), ""),
        (("from warp_like import b, c", "from warp_like import c", "import numpy"), ""),
    ],
)
def test_the_search_for_circles_finds(sources: tuple[str, ...], circle: str) -> None:
    paths = ("a.py", "b.py", "c.py")
    graph = import_graph({p: list(_imports(ast.parse(s), _parts(p))) for p, s in zip(paths, sources, strict=True)})
    assert " -> ".join(find_circle(graph)) == circle


def test_sizes() -> None:
    assert not [f"{_relative(f)} has {facts(f).lines} lines" for f in FILES if facts(f).lines > MAX_FILE]
    functions = [(f, name, length) for f in FILES for name, length in facts(f).functions]
    assert not [f"{_relative(f)}: {name} has {n} lines" for f, name, n in functions if n > MAX_FUNCTION]


def test_every_file_says_what_it_is_for() -> None:
    assert not [_relative(f) for f in FILES if not facts(f).docstring]


def test_the_files_are_found() -> None:
    """Rules that hold for all files would hold for none."""
    assert {"__init__.py", "ir/core.py", "runtime/cuda/driver.py", "sparse/matrix.py"} <= {*map(_relative, FILES)}


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
