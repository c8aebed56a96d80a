"""The calls of the driver interface, by way of cuda-python, into a driver that succeeds and does nothing.

No GPU and no driver are needed. What this shows is that cuda-python takes the arguments of each call and that its
results are read as they come; what a call does is for tests on a device.
"""

import ctypes
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.fake_driver import FakeDriver
from warp_like.runtime.cuda.driver import Block, Driver

ROOT = Path(__file__).resolve().parents[2]
HANDLE = bytes(range(64))
ARGUMENTS = {  # those that are no plain numbers
    "device_attribute": (0, "MULTIPROCESSOR_COUNT"),
    "release": ("stream_destroy", 1, 2),
    "copy_blocks": (Block(64, True, 8, 2), Block(128, False, 16, 3), 8, 2, 1, 0),
    "fill": (64, 1, 4, 10, 0),
    "pool_attribute": (1, "USED_MEM_CURRENT"),
    "set_pool_attribute": (1, "RELEASE_THRESHOLD", 2**40),
    "open_memory": (HANDLE,),
    "open_event": (HANDLE,),
    "module_load": (b"// PTX\0",),
    "module_function": (1, "kernel"),
    "module_global": (1, "variable"),
    "function_attribute": (1, "NUM_REGS"),
}


def methods():
    return [name for name, _ in inspect.getmembers(Driver, inspect.isfunction) if not name.startswith("_")]


def call_all():
    """Call each method of the interface once."""
    driver = Driver()
    for name in methods():
        method = getattr(driver, name)
        count = len(inspect.signature(method).parameters)
        print(name, method(*ARGUMENTS.get(name, (1,) * count)))


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, Path(__file__).with_name("stub_driver.c")], check=True)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="the driver's library has another name there")
@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="cuda-python is not installed")
def test_cuda_python_takes_every_call(stub):
    paths = [str(stub), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, paths)), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from tests.cuda.test_driver import call_all; call_all()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == methods()


def test_the_fake_has_the_methods_of_the_driver():
    for name in methods():
        wanted = inspect.signature(getattr(Driver, name))
        assert list(inspect.signature(getattr(FakeDriver, name)).parameters) == list(wanted.parameters), name


def test_a_handle_of_another_size_is_refused():
    from warp_like.runtime.cuda.driver import _filled

    with pytest.raises(ValueError, match="64 bytes, got 3"):
        _filled(ctypes.c_char(), b"abc")
