"""The environment that `make ... EXISTING=1` makes: the packages of a Python that is there already."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("environment", ROOT / ".ci" / "environment.py")
environment = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(environment)


def test_it_sees_what_is_there(tmp_path):
    made = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "environment.py"), str(tmp_path / "venv"), "test", "cuda"],
        env={**os.environ, "EXISTING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    python = environment.interpreter_of(tmp_path / "venv")
    outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    said = subprocess.run(
        [str(python), "-c", "import numpy, warp_like; print(numpy.__file__, warp_like.__file__)"],
        env=outside,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.split() == [np.__file__, str(ROOT / "warp_like" / "__init__.py")]


def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    there = environment.version_of
    monkeypatch.setattr(environment, "version_of", lambda name: None if name in ("pytest", "torch") else there(name))
    assert environment.borrow(tmp_path / "venv", ["test"]) == 1
    out, err = capsys.readouterr()
    assert "torch" in out.partition("Not there:")[2]
    assert "lacks pytest, without which nothing can be built or tested" in err
    assert not (tmp_path / "venv").exists()


def test_a_compiler_and_headers_are_looked_for_before_the_build(tmp_path, monkeypatch, capsys):
    assert environment.missing_for_the_build() == []  # the tests have been built
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    paths = {**environment.sysconfig.get_paths(), "include": str(tmp_path)}
    monkeypatch.setattr(environment.sysconfig, "get_paths", lambda: paths)
    assert environment.borrow(tmp_path / "venv", ["test"]) == 1
    err = capsys.readouterr().err
    assert "lacks a C++ compiler (g++ or clang++ on PATH, or named by CXX), " in err
    assert f"Python's headers ({tmp_path / 'Python.h'}; " in err
    compiler = tmp_path / "g++-99"
    compiler.touch(0o755)
    monkeypatch.setenv("CXX", f"{compiler} -m64")
    assert len(environment.missing_for_the_build()) == 1
    assert not (tmp_path / "venv").exists()


def test_driver_and_libdevice_are_looked_for_where_they_are_needed(tmp_path, monkeypatch, capsys):
    found = {"has_gpu": "no CUDA driver", "libdevice": None}
    files = {
        "has_gpu": SimpleNamespace(missing=lambda: found["has_gpu"]),
        "libdevice": SimpleNamespace(find_libdevice=lambda: found["libdevice"]),
    }
    before = environment.load_file
    monkeypatch.setattr(environment, "load_file", lambda path: before(path) and files[path.stem])
    said = environment.missing_for_cuda()
    assert said[0] == "a GPU that can be used (no CUDA driver), so the tests that need one are skipped"
    assert said[1].startswith("libdevice.10.bc, so kernels that call wp.sin")
    monkeypatch.setattr(environment, "version_of", lambda name: None)
    assert environment.borrow(tmp_path, ["test", "cuda"]) == 1
    assert "Not there: a GPU that can be used" in capsys.readouterr().out
    environment.borrow(tmp_path, ["test"])
    assert "a GPU" not in capsys.readouterr().out
    found.update(has_gpu="", libdevice=tmp_path)
    assert environment.missing_for_cuda() == []


def test_requirements():
    assert environment.name_of("cuda-bindings==13.4.4; sys_platform == 'linux'") == "cuda-bindings"
    assert environment.name_of("jax>=0.5") == "jax"
    new, old = "x==1; python_version >= '3.11'", "x==1; python_version < '3.11'"
    assert environment.applies(new) != environment.applies(old)
    assert environment.applies(new) == (sys.version_info >= (3, 11))
    assert environment.applies("x==1")
