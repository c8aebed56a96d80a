"""What type checkers know of the package: stubs that are current, complete, and that find mistakes."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warp_like as wp

ROOT = Path(__file__).resolve().parent.parent
STRICT = ("--strict", "--disable-error-code=no-untyped-def", "--disable-error-code=untyped-decorator")
"""Kernels return nothing and have decorators without a type."""

MISTAKES = {
    "wp.sin(v)": 'Argument 1 to "sin" has incompatible type',
    "wp.sin(1.0, 2.0)": 'Too many arguments for "sin"',
    "wp.sine(1.0)": 'Module has no attribute "sine"; maybe "sin"?',
    "wp.dot(v, w)": 'Cannot infer value of type parameter "_N" of "dot"',
    "wp.cross(w, w)": 'Argument 1 to "cross" has incompatible type',
    "wp.normalize(k)": 'Argument 1 to "normalize" has incompatible type "Vec[Literal[3], int]"',
    "wp.clamp(1.0, lo=0.0, high=1.0)": 'Unexpected keyword argument "lo" for "clamp"; did you mean "low"?',
    "m * w": "Unsupported operand types for *",
    "m @ m @ w": "Unsupported operand types for @",
    "wp.quat_rotate(v, q)": 'Argument 1 to "quat_rotate" has incompatible type',
    "wp.determinant(v)": 'No overload variant of "determinant"',
    "wp.dot(wp.vec3(1.0, 2.0), v)": "Cannot infer value of type parameter",
    "v + 1.0": "Unsupported operand types for +",
    "wp.empty_like()": 'Missing positional argument "src"',
    "wp.atomic_add()": 'Missing positional argument "arr"',
    "wp.launch(m)": 'Missing positional argument "dim"',
}


def _mypy(*files):
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--no-error-summary", *STRICT]
    cache = ROOT / "build" / "mypy-of-tests"  # what it found out about NumPy and the package takes it ten seconds
    run = subprocess.run([*command, f"--cache-dir={cache}", *map(str, files)], cwd=ROOT, capture_output=True, text=True)
    return run.stdout + run.stderr


def test_the_stubs_are_current(tmp_path):
    extension = wp._native.__file__
    subprocess.run([sys.executable, str(ROOT / "build_stubs.py"), extension, str(tmp_path)], check=True)
    for made in tmp_path.iterdir():
        assert (ROOT / "warp_like" / made.name).read_text() == made.read_text(), f"{made.name} is old: run build_lib.py"


def test_the_stub_of_the_native_extension_says_what_is_there(tmp_path):
    buffers = tmp_path / "allowed"  # Python 3.12 shows the buffer protocol as a method, older ones don't
    buffers.write_text(r"warp_like\._native\.\w+\.__buffer__" + "\n")
    package = tmp_path / "warp_like"  # with this stub alone: stubtest would read all modules, and keeps no cache
    package.mkdir()
    (package / "__init__.pyi").touch()
    shutil.copy(ROOT / "warp_like" / "_native.pyi", package)
    command = [sys.executable, "-m", "mypy.stubtest", "warp_like._native", "--ignore-unused-allowlist"]
    paths = {"MYPYPATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*command, "--allowlist", str(buffers)],
        cwd=tmp_path,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_public_name_is_in_the_stub():
    tree = ast.parse((ROOT / "warp_like" / "__init__.pyi").read_text())
    listed = next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign))
    bound = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    bound |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)}
    assert set(listed) <= bound
    public = {name for name in dir(wp) if not name.startswith("_")}
    python = {"annotations", "importlib", "init"}
    floors = {
        "base",
        "ir",
        "values",
        "builtins",
        "frontend",
        "analysis",
        "backend",
        "compiler",
        "runtime",
        "interop",
        "library",
        "passes",
    }
    assert public - python - floors - {"constants"} == set(listed) - {"constants"}


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "warp_like" / "py.typed").exists()


def test_a_type_checker_accepts_a_program_and_finds_mistakes(tmp_path):
    lines = [f"    {line}" for line in MISTAKES]
    bad = tmp_path / "bad.py"
    head = "import warp_like as wp\n\ndef f(v: wp.vec3, w: wp.vec2, m: wp.mat33, k: wp.vec3i, q: wp.quat) -> None:\n"
    bad.write_text(head + "\n".join(lines) + "\n")
    said = _mypy(ROOT / "tests" / "typed_program.py", bad)
    assert "typed_program.py" not in said, said
    errors = [line for line in said.splitlines() if "error:" in line]
    for number, (line, words) in enumerate(MISTAKES.items(), 4):
        assert any(f"bad.py:{number}:" in e and words in e for e in errors), f"{line}\n{said}"


def test_the_program_runs():
    from tests.typed_program import main

    values = main()
    assert values[:2] == pytest.approx([3.1415927] * 2)
