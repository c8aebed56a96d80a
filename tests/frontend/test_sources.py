"""Where sources come from: files that change, reloaded modules, exec, prompts, notebook cells, lambdas."""

import importlib
import linecache
import os
import py_compile
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define

KERNEL = """
import warp_like as wp

@wp.func
def f(x: float):
    return {body}

@wp.kernel
def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = f(x[i])
"""


def ran(kernel: wp.Kernel, start: float = 3.0) -> float:
    x = np.array([start], np.float32)
    wp.launch(kernel, 1, inputs=[x])
    return float(x[0])


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write the module ``edited``; returns its file and the module."""
    file = tmp_path / "edited.py"
    file.write_text(KERNEL.format(body="x + 1.0"))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("edited", None)
    importlib.invalidate_caches()
    yield file, importlib.import_module("edited")
    sys.modules.pop("edited", None)


def test_an_edit_before_the_first_launch_changes_nothing_that_was_imported(module):
    file, imported = module
    file.write_text("# a line more\n" + KERNEL.format(body="x * 1000.0"))
    assert ran(imported.k) == 4.0


def test_a_reloaded_module_has_its_new_code(module):
    file, imported = module
    old = imported.k
    assert ran(old) == 4.0
    file.write_text("# a line more\n" + KERNEL.format(body="x * 1000.0"))
    importlib.invalidate_caches()
    linecache.getlines(str(file))  # as a traceback would
    importlib.reload(imported)
    assert ran(imported.k) == 3000.0
    assert ran(old) == 3000.0  # as in Python, it finds the function that its module has now
    assert wp.get_module("edited").kernels["k"] is imported.k


def test_exec_with_lines_in_linecache():
    k = define(KERNEL.format(body="x - 1.0"))["k"]
    assert ran(k) == 2.0


def test_exec_without_lines_says_what_to_do():
    names: dict[str, Any] = {}
    exec(compile(KERNEL.format(body="x"), "<made up>", "exec"), names)
    with pytest.raises(wp.WarpCodegenError) as caught:
        ran(names["k"])
    assert str(caught.value) == (
        "the source of kernel `k` can't be found: its file is given as '<made up>'\n"
        "  help: define it in a file or a notebook cell; code that runs through exec() or at a prompt leaves its "
        "source behind only if its text is put into linecache.cache under the file name it was compiled with"
    )


def test_a_prompt_or_standard_input():
    """Python keeps the lines from 3.13 on; before, the error names what to do."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=KERNEL.format(body="x").strip().replace("\n\n", "\n\n") + "\n\nimport numpy as np\n"
        "wp.launch(k, 1, inputs=[np.zeros(1, np.float32)])\nprint('alive')\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "alive" in done.stdout
    if sys.version_info < (3, 13):
        assert "the source of kernel `k` can't be found" in done.stderr


def test_cells_of_a_notebook_redefine_kernels():
    """Each cell is a file of its own name, and all share one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for n, body in enumerate(("x + 1.0", "x + 2.0")):
        text = textwrap.dedent(KERNEL.format(body=body))
        file = f"<cell {n}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        assert ran(names["k"]) == 4.0 + n


def test_names_in_annotations_that_are_text():
    made = define(
        """
        from __future__ import annotations
        def make(dtype):
            Element = dtype
            @wp.func
            def one(x: Element) -> Element:
                return x + dtype(1)
            @wp.kernel
            def k(x: wp.array(dtype=Element)):
                x[0] = one(x[0])
            return k
        """
    )
    for dtype in (wp.float64, wp.int32):
        x = wp.zeros(1, dtype=dtype)
        wp.launch(made["make"](dtype), 1, inputs=[x])
        assert x.numpy()[0] == 1


# --- other ways to run a program ---

LAUNCHED = """
import numpy as np
x = np.full(2, 3.0, np.float32)
wp.launch(k, 2, inputs=[x])
print(x)
"""


def program(tmp_path, *arguments: str, text: str = "", path: str = "") -> "subprocess.CompletedProcess[str]":
    """Run Python in ``tmp_path`` with the package and ``path`` importable, and ``text`` on standard input."""
    places = [path, str(Path(wp.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in places if p)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)


def test_a_script_and_a_module_run_as_main(tmp_path):
    (tmp_path / "script.py").write_text(KERNEL.format(body="x + 1.0") + LAUNCHED)
    assert program(tmp_path, "script.py").stdout == "[4. 4.]\n"
    assert program(tmp_path, "-m", "script").stdout == "[4. 4.]\n"
    assert program(tmp_path, "-c", "import runpy; runpy.run_path('script.py')").stdout == "[4. 4.]\n"
    (tmp_path / "script.py").write_text(KERNEL.format(body="x * 7.0") + LAUNCHED)
    assert program(tmp_path, "script.py").stdout == "[21. 21.]\n"  # not what the cache has


def test_a_module_in_a_zip_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("zipped.py", KERNEL.format(body="x * 5.0"))
    ran = program(tmp_path, "-c", "import warp_like as wp; from zipped import k" + LAUNCHED, path="archive.zip")
    assert ran.stdout == "[15. 15.]\n", ran.stderr


@pytest.mark.parametrize(("arguments", "file"), [(["-c", "PROGRAM"], "<string>"), (["-"], "<stdin>")])
def test_a_program_that_is_no_file(tmp_path, arguments, file):
    source = KERNEL.format(body="x") + LAUNCHED
    done = program(tmp_path, *(source if a == "PROGRAM" else a for a in arguments), text=source)
    if done.returncode == 0:  # later versions of Python keep its lines
        assert done.stdout == "[3. 3.]\n"
    else:
        assert f"the source of kernel `k` can't be found: its file is given as '{file}'" in done.stderr


def test_a_module_of_which_only_the_bytecode_is_left(tmp_path):
    file = tmp_path / "compiled.py"
    file.write_text(KERNEL.format(body="x"))
    py_compile.compile(str(file), cfile=str(tmp_path / "compiled.pyc"))
    file.unlink()
    done = program(tmp_path, "-c", "import warp_like as wp; from compiled import k" + LAUNCHED)
    assert "the source of kernel `k` can't be found" in done.stderr


# --- lambdas ---

OFFSET = 10.0
plus = wp.func(lambda x, y: x + y)
nested = wp.func(
    lambda x: plus(
        x,
        OFFSET,
    )
)


def test_lambdas_are_functions():
    factor = 4.0
    scaled = wp.func(lambda x: factor * x)

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        x[0] = plus(x[0], 1.0)
        x[1] = nested(x[1])
        x[2] = scaled(x[2])

    x = np.ones(3, np.float32)
    wp.launch(k, 1, inputs=[x])
    assert x.tolist() == [2.0, 11.0, 4.0]


def test_lambdas_of_one_line_are_told_apart_where_python_keeps_positions():
    add, subtract = wp.func(lambda x, y: x + y), wp.func(lambda x, y: x - y)

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        x[0] = add(x[0], 1.0)
        x[1] = subtract(x[1], 1.0)

    x = np.ones(2, np.float32)
    if sys.version_info >= (3, 11):
        wp.launch(k, 1, inputs=[x])
        assert x.tolist() == [2.0, 0.0]
    else:
        with pytest.raises(wp.WarpCodegenError, match="several lambdas that can't be told apart"):
            wp.launch(k, 1, inputs=[x])


def test_a_mistake_in_a_lambda_has_its_place():
    bad = wp.func(lambda x: x + wp.vec2(1.0, 2.0))

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        x[0] = bad(x[0])

    with pytest.raises(wp.WarpCodegenTypeError) as caught:
        wp.launch(k, 1, inputs=[np.ones(1, np.float32)])
    assert "bad = wp.func(lambda x: x + wp.vec2(1.0, 2.0))" in str(caught.value)
    assert "in func `<lambda>`" in str(caught.value)


def test_a_kernel_is_no_lambda():
    with pytest.raises(wp.WarpCodegenError, match="a kernel can't be a lambda"):
        wp.launch(wp.kernel(lambda x: None), 1, inputs=[1.0])
