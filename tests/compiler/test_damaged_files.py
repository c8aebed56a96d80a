"""Random damage to the files of the cache: what is read is what was written, or nothing, and launches stay right."""

import random

import numpy as np
import pytest

import warp_like as wp
from tests.damage import damaged
from warp_like.compiler import cache

READ = 400
"""Damaged files of each kind that are read."""

LAUNCHED = 6
"""Damaged caches that kernels are launched with, for each seed; each launch may compile."""


@wp.kernel
def add(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0


@wp.kernel
def subtract(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 1.0


RESULTS = {add: 1.0, subtract: -1.0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    launch_all()
    return tmp_path / "cache"


def launch_all():
    """Launch each kernel as a new process does, without what this one has compiled."""
    for kernel, result in RESULTS.items():
        x = np.zeros(3, np.float32)
        wp.launch(wp.kernel(kernel.func), 3, [x])
        assert x.tolist() == [result] * 3


def files(folder, kind):
    found = sorted(folder.rglob(f"*.{kind}"))
    assert len(found) >= len(RESULTS)
    return found


@pytest.mark.parametrize(("kind", "read"), [("kernel", cache.read), ("facts", cache.read_facts)])
def test_what_is_read_is_what_was_written(folder, kind, read):
    first, second = files(folder, kind)[:2]
    whole, other = first.read_bytes(), second.read_bytes()
    written = read(first.stem)
    assert written is not None
    rng = random.Random(1)
    lost = 0
    for _ in range(READ):
        data = damaged(whole, [other], rng)
        first.write_bytes(data)
        found = read(first.stem)
        lost += found is None
        assert found is None if data != whole else found == written
    assert lost > READ // 2


@pytest.mark.parametrize("seed", range(3))
def test_launches_stay_right(folder, seed):
    rng = random.Random(seed)
    for _ in range(LAUNCHED):
        contents = {p: p.read_bytes() for kind in ("kernel", "facts") for p in files(folder, kind)}
        for path in contents:
            same_kind = [data for p, data in contents.items() if p.suffix == path.suffix]
            choice = rng.randrange(3)
            if choice:
                path.write_bytes(damaged(contents[path], same_kind, rng) if choice == 1 else rng.choice(same_kind))
        launch_all()
        launch_all()  # with what the first one has written
