"""Which files the cache reads: those that nobody else could have written."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.compiler import cache, cache_folders

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on Windows")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_folders, "_warned", set())
    return tmp_path / "cache"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def place(folder: Path, key: str) -> Path:
    return folder / "kernels" / key[:2] / f"{key}.facts"


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_folders_are_for_their_user_alone(folder, umask):
    before = os.umask(umask)
    try:
        cache.write_facts("abcd", (1,))
    finally:
        os.umask(before)
    file = place(folder, "abcd")
    assert [mode(p) for p in (folder, folder / "kernels", file.parent)] == [0o700] * 3
    assert mode(file) == 0o600
    assert cache.read_facts("abcd") == (1,)


def test_below_a_folder_that_others_may_read_they_may_read_all(folder):
    folder.mkdir(mode=0o755)
    cache.write_facts("abcd", (1,))
    file = place(folder, "abcd")
    assert [mode(p) for p in (folder / "kernels", file.parent, file)] == [0o755, 0o755, 0o644]


@pytest.mark.parametrize("which", ["folder", "kernels", "beginning", "file"])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_what_others_can_write_is_not_read(folder, which, bits):
    cache.write_facts("abcd", (1,))
    file = place(folder, "abcd")
    path = {"folder": folder, "kernels": folder / "kernels", "beginning": file.parent, "file": file}[which]
    path.chmod(mode(path) | bits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [cache.read_facts("abcd") for _ in range(2)] == [None, None]
    assert [str(w.message) for w in caught] == [
        f"the kernel cache {folder} is not used: {path} can be written by its group or by others, who could make this "
        f"process run their code; run `chmod -R go-w {folder}`"
    ]
    subprocess.run(["chmod", "-R", "go-w", str(folder)], check=True)
    assert cache.read_facts("abcd") == (1,)


def test_nothing_is_written_where_others_can_write(folder):
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="can be written by its group"):
        cache.write_facts("abcd", (1,))
    assert not list(folder.rglob("*.facts"))


def test_what_belongs_to_another_user_is_not_read(folder, monkeypatch):
    cache.write_facts("abcd", (1,))
    owner = os.geteuid()
    monkeypatch.setattr(cache_folders.os, "geteuid", lambda: owner + 1)
    if owner == 0:  # whom everybody trusts
        for path in (folder, folder / "kernels", place(folder, "abcd").parent, place(folder, "abcd")):
            os.chown(path, 1234, -1)
        owner = 1234
    with pytest.warns(UserWarning, match=f"{folder} belongs to user {owner}, who could .*; name a folder of your own"):
        assert cache.read_facts("abcd") is None
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(folder.parent / "own"))
    monkeypatch.setattr(wp.config, "kernel_cache_path", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.read_facts("abcd") == (1,)


def test_shared_folders_come_after_the_own_one_and_are_only_read(folder, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for number, where in enumerate((first, second)):
        monkeypatch.setattr(wp.config, "kernel_cache_dir", str(where))
        cache.write_facts(f"ab{number}", (number,))
        cache.write_facts("both", (number,))
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(folder))
    monkeypatch.setattr(wp.config, "kernel_cache_path", os.pathsep.join(["", str(first), str(second)]))
    before = sorted(first.rglob("*")) + sorted(second.rglob("*"))
    assert [cache.read_facts(key) for key in ("ab0", "ab1", "both")] == [(0,), (1,), (0,)]
    cache.write_facts("both", (2,))
    assert cache.read_facts("both") == (2,)
    assert sorted(first.rglob("*")) + sorted(second.rglob("*")) == before


def test_a_file_of_another_owner_in_a_shared_folder(folder, tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    shared = tmp_path / "shared"
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(shared))
    cache.write_facts("abcd", (1,))
    os.chown(place(shared, "abcd"), 1234, -1)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(folder))
    monkeypatch.setattr(wp.config, "kernel_cache_path", str(shared))
    with pytest.warns(UserWarning, match="belongs to user 1234, .*; let all in it belong to the owner of"):
        assert cache.read_facts("abcd") is None


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_regular_files_are_read(folder, tmp_path, kind):
    cache.write_facts("abcd", (1,))
    file = place(folder, "abcd")
    data = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.mkdir()
    assert cache.read_facts("abcd") is None


HOMELESS = """
import os
import pwd

def nobody(uid):
    raise KeyError(uid)

pwd.getpwuid = nobody
import numpy as np
import warp_like as wp
from warp_like.compiler import cache

@wp.kernel
def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0

x = np.zeros(3, np.float32)
wp.launch(k, dim=3, inputs=[x])
assert x.tolist() == [1.0] * 3
wp.clear_kernel_cache()
print(os.listdir("."), cache.directory())
"""


@pytest.mark.parametrize("base", crossed([None, "", "relative"], every=3))
def test_without_a_home_folder_there_is_no_cache_on_disk(tmp_path, base):
    program = tmp_path / "program.py"
    program.write_text(HOMELESS)
    env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "WARP_LIKE_CACHE_DIR")}
    env |= {} if base is None else {"XDG_CACHE_HOME": base}
    env["PYTHONPATH"] = str(Path(wp.__file__).parent.parent)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run([sys.executable, str(program)], cwd=work, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] None"


def test_exchanged_files_are_found_out(folder):
    for key, number in (("abcd", 1), ("abef", 2)):
        cache.write_facts(key, (number,))
    one, two = place(folder, "abcd"), place(folder, "abef")
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    assert cache.read_facts("abcd") is None
    assert cache.read_facts("abef") is None


def test_exchanged_kernels_are_compiled_again(folder):
    def made(factor):
        @wp.kernel
        def k(y: wp.array(dtype=int)):
            i = wp.tid()
            y[i] = i * factor

        return k

    def launch(factor):
        y = np.zeros(5, np.int32)
        wp.launch(made(factor), dim=5, inputs=[y])
        np.testing.assert_array_equal(y, np.arange(5) * factor)

    for factor in (2, 3):
        launch(factor)
    first, second = sorted(folder.rglob("*.kernel"))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    for factor in (2, 3):
        launch(factor)
