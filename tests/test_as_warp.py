"""Programs that import ``warp``, run as they are."""

import subprocess
import sys

import pytest

from warp_like.base.missing_names import PAGE

PROGRAM = """
import sys

import numpy as np
import warp as wp
import warp.config
import warp.types
from warp.utils import array_scan


@wp.kernel
def double(x: wp.array(dtype=wp.types.float32)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


x = np.arange(3, dtype=np.float32)
wp.launch(double, dim=3, inputs=[x])
print(x.tolist(), sys.argv[1:], __name__, wp.__name__, warp.config is wp.config, array_scan.__module__)
"""
PRINTED = "[0.0, 2.0, 4.0] ['a', '-b'] __main__ warp_like True warp_like.runtime.operations.algorithms"


def run(*arguments, folder=None):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=folder)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_a_file(tmp_path):
    (tmp_path / "program.py").write_text("import beside\n" + PROGRAM)
    (tmp_path / "beside.py").touch()
    assert run("-m", "warp_like.as_warp", tmp_path / "program.py", "a", "-b") == PRINTED


def test_a_module(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "program.py").write_text(PROGRAM)
    assert run("-m", "warp_like.as_warp", "-m", "package.program", "a", "-b", folder=tmp_path) == PRINTED


def test_an_import(tmp_path):
    (tmp_path / "program.py").write_text("import warp_like.as_warp\n" + PROGRAM)
    assert run(tmp_path / "program.py", "a", "-b") == PRINTED


@pytest.mark.parametrize(
    "statement, message",
    [
        ("import warp.no_such_module", "No module named 'warp.no_such_module'"),
        ("import warp._src.types", "No module named 'warp._src'"),
        ("import warp.fem", f"`wp.fem` exists in Warp and not here: the module is not in this release; {PAGE}"),
        (
            "from warp import fabricarray",
            "`wp.fabricarray` exists in Warp and not here: arrays of Omniverse's Fabric are",
        ),
    ],
)
def test_what_is_not_here(statement, message):
    assert message in run("-c", f"import warp_like.as_warp\n{statement}")


def test_another_warp_that_is_imported_already(tmp_path):
    (tmp_path / "warp.py").touch()
    assert run("-c", "import warp, warp_like.as_warp", folder=tmp_path) == (
        f"ImportError: another `warp` is imported already, from {tmp_path / 'warp.py'}; "
        "import warp_like.as_warp before it"
    )


def test_no_program():
    assert run("-m", "warp_like.as_warp") == (
        "usage: python -m warp_like.as_warp (PROGRAM.py | -m MODULE) [ARGUMENT ...]"
    )
