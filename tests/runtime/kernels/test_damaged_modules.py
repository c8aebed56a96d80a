"""Random damage to ahead-of-time modules: each is refused with one clear error, or its kernels give right results."""

import random
import zipfile

import numpy as np
import pytest

import warp_like as wp
from tests.damage import damaged
from tests.runtime.kernels.test_aot import arguments, made

COUNT = 150
"""Damaged files for each seed; three in four are refused before any code is read."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aot")
    paths = [wp.compile_aot_module(made(f"aot.random{i}", 2.0 + i), device="cpu", module_dir=folder)[0] for i in (0, 1)]
    return paths[0], [p.read_bytes() for p in paths]


def launched(module):
    args = arguments()
    wp.launch(module.kernels["step"], 10, args)
    hits, total = np.ones((3, 4), np.int32), np.zeros(1, np.int32)
    wp.launch(module.kernels["count"], (3, 4), [hits, total])
    return args[-1].tolist(), total.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_random_damage(files, seed):
    path, (whole, other) = files
    x, v = arguments()[:2]
    rng = random.Random(seed)
    messages = []
    for _ in range(COUNT):
        path.write_bytes(damaged(whole, [other], rng))
        try:
            module = wp.load_aot_module("aot.random0", device="cpu", module_dir=path.parent)
        except RuntimeError as e:
            messages.append(str(e))
        else:
            out, total = launched(module)
            np.testing.assert_allclose(out, np.sin(x) * 2.0 * 3.0 + v.numpy()[:, 0], rtol=1e-5)
            assert total == [12]
    assert COUNT // 2 < len(messages) < COUNT
    assert [m for m in messages if not m.startswith(f"{path} ")] == []


def test_entries_of_another_kind_are_refused(files):
    """As an archiver writes them that was given the files of a module."""
    path, (whole, _) = files
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(RuntimeError, match="is no ahead-of-time module, or damaged: it has compressed entries"):
        wp.load_aot_module("aot.random0", device="cpu", module_dir=path.parent)
