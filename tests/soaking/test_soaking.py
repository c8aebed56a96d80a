"""The soak's decision on made-up series, each kind of work a few times, and a run of some seconds."""

import gc
import json
import random
import subprocess
import sys

import pytest

import tests.soaking.frameworks  # noqa: F401 (adds its kinds)
import warp_like as wp
from tests.long_tail import is_running, more
from tests.soaking import run
from tests.soaking.kinds import KINDS, Rng
from tests.soaking.plateau import LEAST_OPERATIONS, judge
from tests.soaking.run import Soak

OPERATIONS = [1000 * i for i in range(1, 101)]
BOUND = run.BOUNDS["resident_kib"]


def series(growth, noise=200.0, warm_up=0.0, seed=3):
    """KiB at each sample: a line, a warm-up that has an end, and noise."""
    rng = random.Random(seed)
    return [
        700_000 + growth * n + min(n, 30_000) * warm_up + rng.uniform(-noise, noise) for n in OPERATIONS
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("warm_up", [0.0, 1.0, -2.0])
@pytest.mark.parametrize(
    ("growth", "words"), [(0.0, "plateau"), (0.01, "plateau"), (-1.0, "plateau"), (0.125, "grows"), (1.0, "grows")]
)
def test_a_leak_is_told_from_a_plateau(growth, words, warm_up, seed):
    found = judge(OPERATIONS, series(growth, warm_up=warm_up, seed=seed), BOUND)
    assert found.words == words
    assert found.growth == pytest.approx(growth, abs=0.02)


def test_peaks_are_no_leak_and_hide_none():
    for growth, words in ((0.0, "plateau"), (1.0, "grows")):
        values = series(growth)
        for i in range(0, len(values), 7):
            values[i] += 50_000
        assert judge(OPERATIONS, values, BOUND).words == words


def test_a_short_or_noisy_run_decides_nothing():
    assert judge([], [], BOUND).words == "too short to tell"
    assert judge(OPERATIONS[:1], series(1.0)[:1], BOUND).words == "too short to tell"
    assert judge(OPERATIONS[::20], series(1.0)[::20], BOUND).words == "too short to tell"
    assert judge([n // 100 for n in OPERATIONS], series(1.0), BOUND).words == "too short to tell"
    noisy = judge(OPERATIONS, series(1.0, noise=20_000.0), BOUND)
    assert noisy.words == "too short to tell"
    assert noisy.operations >= LEAST_OPERATIONS
    assert not noisy.grows


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_work(name):
    rng = Rng("test", 1)
    for _ in range(2):
        KINDS[name](rng)


@pytest.fixture
def _own_cache(tmp_path, monkeypatch):
    """As the command has: a sample counts the files of the cache, and a user's has many."""
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))


def soak(tmp_path, work, seconds):
    options = run.options(["--seconds", str(seconds), "--threads", "2", "--samples", "40", "--out", str(tmp_path)])
    found = Soak(options, {work.__name__: work})
    gc.freeze()  # as the command does: a sample need not look at what the other tests left
    try:
        found.run()
    finally:
        gc.unfreeze()
    return found


@pytest.mark.usefixtures("_own_cache")
def test_a_run_that_leaks_fails(tmp_path, capsys, monkeypatch):
    held = []
    monkeypatch.setattr(run, "_resident", lambda: len(held))  # the leak alone, however busy the machine is

    def leaks(rng):
        held.append(rng)

    found = soak(tmp_path, leaks, 1)
    verdict = found.verdicts()["resident_kib"]
    assert verdict.growth == pytest.approx(1.0)
    assert verdict.words in ("grows", "too short to tell")
    assert run.finish(found) == int(verdict.grows)
    assert "| resident |" in capsys.readouterr().out


def test_resident_memory_is_seen():
    before = run._resident()
    held = b"\x01" * (256 << 20)
    assert run._resident() - before > len(held) // 1024 // 2  # the rest of the process may give memory back


@pytest.mark.usefixtures("_own_cache")
def test_a_wrong_result_ends_the_run(tmp_path, capsys):
    def wrong(rng):
        raise AssertionError("2 is not 3")

    assert run.finish(soak(tmp_path, wrong, 60)) == 1
    assert "2 is not 3" in capsys.readouterr().err


@more
def test_a_short_run(tmp_path):
    """Of all kinds in the long tail; PyTorch and JAX take most of the time to import."""
    options = ["--seconds", "2"] if is_running() else ["--seconds", "1", "--kinds", "tapes,graphs"]
    command = [sys.executable, "-m", "tests.soaking.run", *options, "--threads", "3", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "soak.json").read_text())
    assert not report["failures"]
    assert report["samples"][-1]["operations"] == pytest.approx(sum(report["counts"].values()), abs=20)
    assert report["verdicts"].keys() == run.BOUNDS.keys()
    assert (tmp_path / "soak.md").read_text() in done.stdout + "\n"
