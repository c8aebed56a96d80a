"""The cache on disk: what it keys on, and that nothing that happens to it makes a launch fail or go wrong."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from warp_like.compiler import cache
from warp_like.compiler.artifact import Artifact, Damaged, Effects, GridSchedule, KernelCode, StackUse

PROGRAM = """
import numpy as np
import warp_like as wp

OFFSET = {offset}

@wp.func
def shift(v: float):
    return v + {shift}

@wp.kernel
def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = shift(x[i]) * 2.0 + float(OFFSET)

x = np.ones(3, dtype=np.float32)
wp.launch(k, dim=3, inputs=[x])
print(x[0])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def make_kernel():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] + 1.0

    return k


def launch_fresh():
    x = np.zeros(3, dtype=np.float32)
    wp.launch(make_kernel(), dim=3, inputs=[x])
    np.testing.assert_array_equal(x, 1)


def run_program(tmp_path, folder, *, offset=1, shift="1.0", env=None, **kwargs):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(offset=offset, shift=shift))
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder), **(env or {})}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_one_entry_serves_equal_kernels(folder):
    launch_fresh()
    (entry,) = entries(folder)
    written = entry.stat().st_mtime_ns
    launch_fresh()
    assert entries(folder) == [entry]
    assert entry.stat().st_mtime_ns == written
    assert not list(folder.rglob("*.part"))


def test_a_warm_start_compiles_nothing(tmp_path, folder):
    assert run_program(tmp_path, folder) == 5.0
    path = tmp_path / "warm.py"
    blocked = (
        "import warp_like.compiler.pipeline as p\ndef build(*a): raise AssertionError('compiled')\np.build = build\n"
    )
    path.write_text(blocked + PROGRAM.format(offset=1, shift="1.0"))
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 5.0


def test_a_changed_constant_or_function_is_seen(tmp_path, folder):
    assert run_program(tmp_path, folder) == 5.0
    assert run_program(tmp_path, folder, offset=2) == 6.0
    assert run_program(tmp_path, folder, shift="2.0") == 7.0
    assert run_program(tmp_path, folder) == 5.0
    assert len(entries(folder)) == 3


@pytest.mark.parametrize("damage", [b"", b"rubbish", None, "truncate", "flip"])
def test_a_damaged_entry_is_compiled_again(folder, damage):
    launch_fresh()
    (entry,) = entries(folder)
    good = entry.read_bytes()
    if damage == "truncate":
        entry.write_bytes(good[: len(good) // 2])
    elif damage == "flip":
        entry.write_bytes(good[:-10] + bytes([good[-10] ^ 255]) + good[-9:])
    elif damage is None:
        entry.unlink()
        entry.mkdir()
    else:
        entry.write_bytes(damage)
    launch_fresh()
    if damage is not None:
        key = entry.stem
        assert Artifact.from_bytes(entry.read_bytes(), key).code.entry == Artifact.from_bytes(good, key).code.entry


def test_a_folder_that_is_a_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("")
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(path))
    launch_fresh()
    assert path.read_text() == ""


@pytest.fixture
def package(tmp_path):
    """A folder with a file for each floor of the compiler, and what stands for the extension; all have one time."""
    for floor in cache._COMPILER_FLOORS:
        (tmp_path / floor).mkdir()
        (tmp_path / floor / "a.py").write_text(f"MOST = 16  # {floor}")
    (tmp_path / "extension").write_text("one")
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(10**18, 10**18))
    return tmp_path


def facts_about(package):
    return sorted(cache._facts_about(str(package), str(package / "extension")))


@pytest.mark.parametrize("changed", ["passes/a.py", "base/a.py", "extension"])
def test_files_of_one_time_count_by_their_contents(package, changed):
    """As in packages that are built reproducibly: neither size nor time tells one version from the next."""
    before = facts_about(package)
    assert facts_about(package) == before
    text = (package / changed).read_text()
    (package / changed).write_text(text.replace("16", "32").replace("one", "two"))
    os.utime(package / changed, ns=(10**18, 10**18))
    assert facts_about(package) != before


@pytest.mark.parametrize("changed", ["passes/a.py", "extension"])
def test_times_and_sizes_count_elsewhere(package, changed):
    os.utime(package / "ir" / "a.py", ns=(10**18, 2 * 10**18))
    before = facts_about(package)
    os.utime(package / changed, ns=(10**18, 3 * 10**18))
    assert facts_about(package) != before
    assert len(before) == len(cache._COMPILER_FLOORS) + 1  # nothing was read


def test_a_full_disk(folder, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    launch_fresh()
    assert entries(folder) == []
    assert not list(folder.rglob("*.part"))


@pytest.mark.skipif(sys.platform == "win32", reason="permissions differ on Windows")
def test_a_read_only_folder(tmp_path, folder):
    folder.mkdir()
    folder.chmod(0o500)
    try:
        kwargs = {"user": 65534} if os.geteuid() == 0 else {}
        if kwargs:
            tmp_path.chmod(0o755)
            try:
                look = [sys.executable, "-c", f"import os, warp_like; os.listdir({str(tmp_path)!r})"]
                subprocess.run(look, check=True, capture_output=True, **kwargs)
            except (OSError, subprocess.CalledProcessError):
                pytest.skip("an unprivileged user can't run the installation here")
        assert run_program(tmp_path, folder, **kwargs) == 5.0
    finally:
        folder.chmod(0o700)


def test_no_home_and_no_folder(tmp_path):
    env = {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": ""}
    assert run_program(tmp_path, "", env=env) == 5.0


def test_many_processes_at_once(tmp_path, folder):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(offset=1, shift="1.0"))
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder)}
    running = [
        subprocess.Popen(
            [sys.executable, str(path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for p in running:
        out, err = p.communicate()
        assert p.returncode == 0, err
        assert float(out) == 5.0
    assert len(entries(folder)) == 1


def test_switched_off(folder, monkeypatch):
    monkeypatch.setattr(wp.config, "cache_kernels", False)
    launch_fresh()
    assert not folder.exists()


def test_clearing(folder):
    launch_fresh()
    wp.clear_kernel_cache()
    assert entries(folder) == []
    launch_fresh()


def test_an_artifact_comes_back_whole():
    a = Artifact(
        KernelCode("entry", b"\x00\x01code", ("i\nline 3\nfault",)),
        Effects(
            (0, 2),
            (1,),
            spans=((3, (1, 0)),),
            nested_reads=((0, "a.b"),),
            saved_results=2,
            order_dependent=True,
            no_overlap=True,
            own=(0,),
            fusible=True,
        ),
        GridSchedule(2, 16, "16 lanes", 4, bounded=True),
        StackUse(used=True, bound=b"\x07"),
        (("llvm", 0.5),),
    )
    data = a.to_bytes("name")
    assert Artifact.from_bytes(data, "name") == a
    for n in range(len(data)):
        with pytest.raises(Damaged):
            Artifact.from_bytes(data[:n], "name")
    with pytest.raises(Damaged):
        Artifact.from_bytes(data, "another")


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "warp_like"
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "own"))
    assert cache.directory() == tmp_path / "own"


MENTIONS = """
import sys
import numpy as np
import warp_like as wp
{before}

@wp.struct
class Pair:
    a: {field}
    b: wp.vec3

def outer(scale):
    @wp.func
    def shaped(v: float):
        return {call}(v) * scale

    @wp.kernel
    def k(x: wp.array(dtype=float), p: Pair):
        i = wp.tid()
        x[i] = shaped(x[i]) + float(p.a) + p.b[0] + wp.static(SHIFT)

    return k

SHIFT = {shift}
k = outer({scale})
p = Pair()
p.a, p.b = 1, wp.vec3(2.0, 0.0, 0.0)
x = np.zeros(3, dtype=np.float32)
wp.launch(k, dim=3, inputs=[x, p])
print(x[0])
"""


def test_every_kind_of_thing_that_a_kernel_mentions_is_seen(tmp_path, folder):
    usual = {"before": "", "field": "float", "call": "wp.cos", "shift": "4.0", "scale": "1.0"}

    def run(**changes):
        path = tmp_path / "program.py"
        path.write_text(MENTIONS.format(**(usual | changes)))
        env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder)}
        done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(done.stdout), len(entries(folder))

    assert run() == (8.0, 1)
    assert run() == (8.0, 1)
    assert run(before="# another comment\n\n") == (8.0, 1)  # lines may move
    assert run(before="assert wp.cos(0.0) == 1.0") == (8.0, 1)  # whether or not builtins were used on the host
    assert run(shift="5.0") == (9.0, 2)
    assert run(scale="2.0") == (9.0, 3)
    assert run(call="wp.sin") == (7.0, 4)
    assert run(call="own", before="own = wp.cos") == (8.0, 5)
    assert run(call="own", before="own = wp.sin") == (7.0, 6)
    assert run(field="int") == (8.0, 7)
    assert run(before="wp.config.fast_math = True") == (8.0, 8)
    assert run() == (8.0, 8)


def test_a_builtin_that_a_program_replaces_is_seen(tmp_path, folder):
    replaced = "@wp.func\ndef always(v: float):\n    return 3.0\n\nwp.cos = always\n"
    usual = {"field": "float", "call": "wp.cos", "shift": "4.0", "scale": "1.0"}
    path = tmp_path / "program.py"
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(folder)}
    for before, expected in (("", 8.0), (replaced, 10.0), ("", 8.0)):
        path.write_text(MENTIONS.format(before=before, **usual))
        done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) == expected
