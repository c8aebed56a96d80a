"""Starting up: what a process loads, and when."""

import os
import subprocess
import sys

import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.frontend.builtin import public_builtins

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


UNUSED = (
    "llvmlite",
    "dataclasses",
    "difflib",
    "logging",
    "subprocess",
    "hashlib",
    "json",
    "pathlib",
    "tempfile",
    "shutil",
    "warp_like.builtins",
    "warp_like.frontend.context",
    "warp_like.frontend.build",
    "warp_like.ir.core",
    "warp_like.ir.ops",
    "warp_like.passes",
    "warp_like.backend.target",
    "warp_like.backend.llvm",
    "warp_like.compiler.pipeline",
    "warp_like.runtime.memory.backend",
    "warp_like.runtime.arrays.access",
    "warp_like.runtime.cuda",
    "warp_like.runtime.autodiff.tape",
    "warp_like.runtime.autodiff.differentiation",
    "warp_like.interop.torch",
    "warp_like.interop.paddle",
    "warp_like.interop.jax",
)
"""What neither importing nor a launch from the cache needs, beyond what NumPy brings."""

LEAN = """
import sys
import numpy as np
before = set(sys.modules)
import warp_like as wp
imported = set(sys.modules) - before

@wp.func
def twice(v: float):
    return wp.sin(v) + v

@wp.kernel
def k(x: wp.array(dtype=float), v: wp.vec3):
    i = wp.tid()
    x[i] = twice(x[i]) + v[0]

x = np.ones(10, np.float32)
wp.launch(k, dim=10, inputs=[x, wp.vec3(1.0, 2.0, 3.0)])
assert abs(x[0] - 2.841471) < 1e-6
unused = {unused}
print([name for name in unused if name in imported])
print([name for name in unused if name in set(sys.modules) - before])
y = wp.zeros(10, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(k, dim=10, inputs=[y, wp.vec3(1.0, 2.0, 3.0)])
tape.backward(grads={y: wp.ones(10)})
assert y.grad.list() == [2.0] * 10
lean = [name for name in unused if ".autodiff." not in name] + ["warp_like.runtime.autodiff.visualize"]
print([name for name in lean if name in set(sys.modules) - before])
"""


def test_modules_that_importing_and_a_warm_start_do_without(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(LEAN.replace("{unused}", repr(UNUSED)))
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(tmp_path / "cache")}
    done = [subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True) for _ in range(2)]
    assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
    assert done[0].stdout.splitlines()[0] == "[]"
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert done[1].stdout.splitlines() == ["[]", "[]", "[]"]


BROKEN = """
import gc
import sys

gc.set_threshold(500, 11, 12)
sys.modules["warp_like.constants"] = None
try:
    import warp_like
except ImportError:
    print(gc.get_threshold())
"""


def test_an_import_that_fails_leaves_the_collector_as_it_was():
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, check=True)
    assert done.stdout == "(500, 11, 12)\n"


def test_classes_of_vectors_are_made_when_they_are_asked_for():
    code = "import warp_like as wp; from warp_like.values.mat import Mat; print(Mat.__subclasses__())\n"
    code += "m = wp.mat33; print(Mat.__subclasses__() == [m] == [wp.types.mat33])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]


def test_every_public_name_is_there():
    names = dir(wp)
    assert {"sin", "vec3", "launch", "Tape", "from_torch", "autograd", "torch_op"} <= set(names)
    for name in names:
        getattr(wp, name)
    with pytest.raises(AttributeError, match="module 'warp_like' has no attribute 'sine'"):
        wp.sine
    assert wp.sin is wp.sin
    assert not set(public_builtins()) & {*wp.types.NAMES, *wp._LOADED_WHEN_USED}
    assert all(vars(wp)[name] == builtin for name, builtin in public_builtins().items())
    assert "sin" in wp.sin.__doc__


@pytest.mark.parametrize("damage", crossed(["", "{}", '{"kind": 3}', "[1, 2]", "\x00\xff"], every=3))
def test_damaged_facts_are_found_out_again(tmp_path, damage):
    folder = tmp_path / "cache"
    run(tmp_path, folder)
    facts = sorted(folder.rglob("*.facts"))
    assert len(facts) == 2  # about the processor, and what the kernel mentions
    for path in facts:
        path.write_text(damage)
    run(tmp_path, folder)
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert run(tmp_path, folder) == ["False", "False"]
