"""What ``make test-cuda`` does, as far as that needs no GPU: stages, the time limit, the benchmark in emulation."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warp_like as wp

ROOT = Path(__file__).resolve().parents[3]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


on_gpu = load(ROOT / ".ci" / "on_gpu.py")


def python(code):
    return [sys.executable, "-c", code]


def test_the_stages(capsys):
    assert on_gpu.main(["--list", "-x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["programs", "benchmark", "suite"]
    assert lines[0].endswith("-m pytest -rs --seconds={seconds} -m cuda tests/runtime/cuda -x")
    assert lines[1].endswith("--seconds={seconds}")
    assert lines[2].endswith(" ".join([*on_gpu.ON_DEVICE, "-x"]))


def test_what_runs_on_a_device_exists():
    assert [path for path in on_gpu.ON_DEVICE if not (ROOT / path).exists()] == []


def test_what_needs_a_device_is_in_one_folder():
    """To collect all others would take a good part of the time."""
    marked = [path for path in (ROOT / "tests").rglob("*.py") if "mark.cuda" in path.read_text(encoding="utf-8")]
    assert {path.parent for path in marked if path != Path(__file__)} == {ROOT / "tests" / "runtime" / "cuda"}


def test_each_stage_is_on_record(tmp_path, capfd):
    record = tmp_path / "there" / "record.json"
    show = f"import pathlib; print(pathlib.Path({str(record)!r}).exists()); print('=== {{seconds}} left ===')"
    commands = {"good": python(show), "bad": python(show + "; exit(3)"), "later": python("exit(4)")}
    assert on_gpu.run(commands, 100.0, record) == 3
    said = json.loads(record.read_text())
    assert said["limit"] == 100.0
    stages = said["stages"]
    assert [s["stage"] for s in stages] == ["good", "bad", "later"]
    assert [s["status"] for s in stages] == [0, 3, 4]
    assert stages[0]["said"] == "100 left"
    shown = capfd.readouterr().out.splitlines()
    assert [line for line in shown if line in ("True", "False")] == ["False", "True"]  # written after each stage


def test_no_stage_takes_longer_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(on_gpu, "GRACE", 0.0)
    commands = {"endless": python("import time; print('begun', flush=True); time.sleep(600)"), "next": python("1/0")}
    start = time.monotonic()
    assert on_gpu.run(commands, 3.0, tmp_path / "record.json") != 0
    assert time.monotonic() - start < 300.0
    endless, after = json.loads((tmp_path / "record.json").read_text())["stages"]
    assert (endless["said"], after["said"], after["status"]) == ("begun", "no time left", None)


def test_the_sanitizer(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    if not Path("/usr/local/cuda/bin/compute-sanitizer").exists():
        with pytest.raises(SystemExit, match="compute-sanitizer was not found; it is part of the CUDA Toolkit"):
            on_gpu.sanitizer("memcheck")
    tool = tmp_path / "toolkit" / "bin" / "compute-sanitizer"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    command = on_gpu.sanitizer("racecheck")
    assert command[1:] == ["--tool", "racecheck", "--error-exitcode", "1"]
    commands = on_gpu.stages(command, [])
    assert list(commands) == ["programs"]
    assert commands["programs"][: len(command)] == command


def test_tests_end_with_their_time():
    command = [sys.executable, "-m", "pytest", "-rs", "--seconds=0", "-p", "no:cacheprovider", "tests/base/test_log.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the 0 seconds are used up" in done.stdout
    assert " passed" not in done.stdout


@pytest.fixture
def benchmark(monkeypatch):
    """The benchmark's module, whose kernels go with the test's device."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "benchmarks"))
    module = load(ROOT / "examples" / "benchmarks" / "benchmark_cuda.py")
    monkeypatch.setattr(module.frameworks, "prepare_warp", lambda wp: None)  # whose settings would outlast the test
    yield module
    for kernel in wp.get_module("cuda_kernels").kernels.values():
        kernel.forget_programs()


def test_the_benchmark_runs_and_agrees(benchmark, device, tmp_path, monkeypatch, capsys):
    written = []
    save = benchmark.reporting.Report.save
    monkeypatch.setattr(
        benchmark.reporting.Report,
        "save",
        lambda report, rows: (save(report, rows), written.append(json.loads(report.path.read_text())["rows"])),
    )
    record = tmp_path / "cuda.json"
    rows = benchmark.main(["--device", device, "--quick", "--columns", "warp_like", "--json", str(record)])
    said = capsys.readouterr()
    assert "failed" not in said.err, said.err
    assert all(rows[row]["warp_like"] > 0.0 for row in benchmark.ROWS)
    assert "bandwidth of saxpy, of a copy on the device: " in said.out
    done = [sum("warp_like" in at[row] for row in benchmark.ROWS) for at in written]
    assert done == [*range(1, len(rows) + 1), len(rows)]  # after each row, and at the end
    assert written[-1].pop("device") == {"name": wp.get_device(device).name}
    assert written[-1] == rows


def test_the_benchmark_ends_with_its_time(benchmark, device, tmp_path, capsys):
    rows = benchmark.main(["--device", device, "--quick", "--columns", "warp_like", "--seconds", "-1"])
    assert not any(rows.values())
    assert capsys.readouterr().err.count("left out: the time is used up") == len(benchmark.ROWS)
