"""How much the cache holds, and what goes first."""

import os
import time

import pytest

import warp_like as wp
from warp_like.compiler import cache, cache_limit

MIB = 1 << 20


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(cache_limit, "_written", 0)
    cache.write_facts("aa00", (0,))
    return tmp_path / "kernels"


def put(kernels, name, size, age):
    path = kernels / name[:2] / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age,) * 2)
    return path


def make_old(kernels):
    os.utime(kernels / ".trimmed", (time.time() - 2 * cache_limit.HOUR,) * 2)


def names(kernels):
    return sorted(path.name for path in kernels.glob("??/*"))


def test_the_files_not_used_for_longest_go_first(kernels):
    ages = [50, 10, 40, 20, 30]
    for number, age in enumerate(ages):
        put(kernels, f"b{number}.kernel", MIB, age * cache_limit.HOUR)
    cache_limit.trim(str(kernels), int(4.5 * MIB))  # and three quarters of that are 3.4
    assert names(kernels) == ["aa00.facts", "b1.kernel", "b3.kernel", "b4.kernel"]
    cache_limit.trim(str(kernels), int(4.5 * MIB))
    assert len(names(kernels)) == 4


@pytest.mark.parametrize("limit", [0, MIB])
def test_nothing_goes_within_the_limit(kernels, limit):
    put(kernels, "bb.kernel", 5000, 1e8)
    cache_limit.trim(str(kernels), limit)
    assert names(kernels) == ["aa00.facts", "bb.kernel"]


def test_what_killed_processes_left_is_removed(kernels):
    put(kernels, ".x.part", 10, 2 * cache_limit.HOUR)
    put(kernels, ".y.part", 10, 60)
    cache_limit.trim(str(kernels), 0)
    assert [path.name for path in kernels.glob(".*/.*")] == [".y.part"]


def test_a_read_makes_a_file_count_as_used(kernels):
    path = kernels / "aa" / "aa00.facts"
    for age, kept in ((2 * cache_limit.DAY, False), (cache_limit.HOUR, True)):
        before = time.time() - age
        os.utime(path, (before,) * 2)
        assert cache.read_facts("aa00") == (0,)
        assert (abs(path.stat().st_mtime - before) < 1) == kept


def test_writing_looks_once_an_hour_and_after_much(kernels, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_limit", 1)
    put(kernels, "bb.kernel", 2 * MIB, 1000)
    cache.write_facts("cc00", (0,))
    assert "bb.kernel" in names(kernels)  # somebody looked less than an hour ago
    make_old(kernels)
    cache.write_facts("cc01", (0,))
    assert "bb.kernel" not in names(kernels)
    put(kernels, "bb.kernel", 2 * MIB, 1000)
    cache.write_facts("cc02", (bytes(MIB // 8),))
    assert "bb.kernel" not in names(kernels)
    assert "cc02.facts" in names(kernels)


def test_a_folder_that_goes_away_meanwhile(kernels):
    make_old(kernels)
    wp.clear_kernel_cache()
    cache_limit.note_write(str(kernels), 10, MIB)
    cache.write_facts("dd00", (0,))
    assert names(kernels) == ["dd00.facts"]
