"""Starting up: what a process loads, and when."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import warp_like as wp

@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = wp.sin(x[i]) * 2.0

assert "llvmlite" not in sys.modules
assert "warp_like.compiler.pipeline" not in sys.modules
x = np.ones(10, np.float32)
wp.launch(double, dim=10, inputs=[x])
assert abs(x[0] - 1.6829420) < 1e-6
print("llvmlite" in sys.modules, "warp_like.compiler.pipeline" in sys.modules)
"""


def run(tmp_path, folder):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere LLVM's linker loads code"
)
def test_a_warm_start_loads_no_compiler(tmp_path):
    folder = tmp_path / "cache"
    assert run(tmp_path, folder) == ["True", "True"]
    assert run(tmp_path, folder) == ["False", "False"]


@pytest.mark.parametrize("damage", ["", "{}", '{"kind": 3}', "[1, 2]", "\x00\xff"])
def test_a_damaged_note_about_the_processor_is_replaced(tmp_path, damage):
    folder = tmp_path / "cache"
    run(tmp_path, folder)
    for note in (folder / "notes").iterdir():
        note.write_text(damage)
    run(tmp_path, folder)
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert run(tmp_path, folder)[0] == "False"
