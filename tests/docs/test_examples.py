"""The examples do what they are there to show, on problems small enough for a test."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.cuda_compiling import interpreter
from tests.docs.benchmarks import serve
from tests.long_tail import is_running, more, tail
from tests.processes import Answering
from warp_like.builtins.spec import Cooperative
from warp_like.ir.types import SCALARS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    """Import an example without running its command line."""
    pytest.importorskip("torch")
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def importable() -> dict[str, str]:
    """An environment in which a program finds the package."""
    return {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}


def picture(size: int) -> np.ndarray:
    """A smooth image with an edge in it, shape (size, size, 3), 0 to 1."""
    y, x = np.mgrid[0:size, 0:size] / size
    disc = (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1
    return np.stack([x, y, np.where(disc, 0.9, 0.2)], axis=2)


def test_gaussian_splatting_fits_a_picture() -> None:
    example = load("gaussian_splatting_2d")
    target = picture(40)  # three tiles wide, the last one cut
    seen: list[tuple[int, float]] = []
    result = example.fit(target, gaussians=150, iterations=60, report=lambda step, loss: seen.append((step, loss)))

    assert [step for step, _ in seen] == list(range(1, 61))
    assert result.losses == [loss for _, loss in seen]
    assert result.losses[-1] < 0.1 * result.losses[0]
    assert result.image.shape == target.shape
    assert result.image.min() >= 0.0
    assert result.image.max() <= 1.0
    mse = float(np.mean((result.image - target) ** 2))
    assert result.psnr == pytest.approx(-10.0 * np.log10(mse), abs=1e-3)
    assert result.psnr > 30.0
    assert result.dropped == 0


def test_gaussian_splatting_gradient() -> None:
    """The gradient that the tape leaves in the tensors is that of the loss, by central differences."""
    torch = pytest.importorskip("torch")
    wp = pytest.importorskip("warp_like")
    example = load("gaussian_splatting_2d")
    scene = example.Scene(picture(24), 40, seed=1)
    tape = wp.Tape()
    with tape:
        scene.forward()
    tape.backward(loss=scene.loss)

    def loss_at(tensor: torch.Tensor, direction: torch.Tensor, step: float) -> float:
        with torch.no_grad():
            tensor += step * direction
            scene.forward()
            value = float(scene.loss.numpy()[0])
            tensor -= step * direction
        return value

    generator = torch.Generator().manual_seed(0)
    for name in ("centres", "log_scales", "colours", "opacities"):
        tensor = scene.parameters[name]
        gradient = tensor.grad.clone()
        direction = torch.randn(tensor.shape, generator=generator)
        h = 1e-2
        difference = (loss_at(tensor, direction, h) - loss_at(tensor, direction, -h)) / (2.0 * h)
        assert float((gradient * direction).sum()) == pytest.approx(difference, rel=0.05), name


@pytest.mark.parametrize("name", ["direct_launch", "optimise_torch", "optimise_mirror"])
def test_small_example(name: str) -> None:
    """These check what they compute by themselves."""
    load(name).main()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("torch_autograd_function", {}),
        ("torch_custom_op", {"backend": "aot_eager"}),  # the C++ compiler takes longer than all else
        ("torch_one_line", {"backend": "aot_eager"}),
    ],
)
def test_torch_example(name: str, options: dict[str, str]) -> None:
    load(f"interop/{name}").main(**options)


@pytest.mark.long
def test_torch_distributed_example() -> None:
    """Two processes, and the same result as one."""
    pytest.importorskip("torch")
    program = EXAMPLES / "interop" / "torch_distributed.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=importable())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on 2 processes, as on one" in done.stdout


def test_the_model_of_several_processes_learns_in_one() -> None:
    example = load("interop/torch_distributed")
    first, last = example.train(example.Model(), 0, 1, 20)
    assert last < 0.5 * first


def test_paddle_example() -> None:
    pytest.importorskip("paddle")
    load("interop/paddle_optimise").main(steps=400)


@pytest.fixture(scope="module")
def process() -> Iterator[Answering]:
    """The process that benchmarks run in."""
    made = Answering(serve, limit=300.0, args=(str(EXAMPLES / "benchmarks"),))
    yield made
    made.close()


def benchmark(process: Answering, name: str, folder: Path, *options: str) -> tuple[dict, str]:
    """Run a benchmark on small sizes, where all libraries that are there must compute the same; return its rows."""
    record = folder / "record.json"
    printed, error = process((name, ["--quick", "--json", str(record), *options]))
    assert not error, printed + error
    return json.loads(record.read_text(encoding="utf-8"))["rows"], printed


@pytest.mark.parametrize(
    "name",
    [
        tail("launch"),
        tail("backward"),
        "interop_torch",
        "interop_paddle",
        "interop_jax",
        "utils",
        "optim",
        tail("tiles"),
        tail("geometry"),
        tail("sparse"),
    ],
)
def test_benchmark_runs(name: str, process: Answering, tmp_path: Path) -> None:
    """No time is looked at."""
    pytest.importorskip({"interop_paddle": "paddle", "interop_jax": "jax"}.get(name, "torch"))
    rows, _ = benchmark(process, name, tmp_path)
    assert rows
    assert all(times.get("both", times)["warp_like"] > 0.0 for times in rows.values())


@pytest.fixture(scope="module")
def throughput(process: Answering, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str, Path]:
    """The rows of the throughput benchmark, what it printed, and the file that holds the rows."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("throughput")
    peers = ["JAX", "C++ fast", "C++ lanes"] if is_running() else ["C++ fast"]
    return *benchmark(process, "throughput", folder, "--markdown", "--peers", *peers), folder / "record.json"


@more
def test_throughput_programs_agree(throughput: tuple[dict, str, Path]) -> None:
    """Each program says the same as a kernel, in C++ and on whole arrays of NumPy; those of JAX take a while."""
    rows, printed, _ = throughput
    assert len(rows) >= 30
    columns = ("warp_like", "JAX") if is_running() else ("warp_like",)
    assert all(isinstance(times[column], float) for times in rows.values() for column in columns)
    if shutil.which("g++"):
        assert all(times["C++ fast"] > 0.0 for times in rows.values())
    assert len([line for line in printed.splitlines() if line.startswith("| copy 4096 |")]) == 1


@pytest.mark.long
def test_roofline_is_drawn(process: Answering, throughput: tuple[dict, str, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    if shutil.which("g++") is None:
        pytest.skip("C++ measures the machine, and there is no g++")
    options = "--picture", str(tmp_path / "roofline.png"), "--throughput", str(throughput[2])
    rows, _ = benchmark(process, "roofline", tmp_path, *options)
    assert set(rows["machine"]) == {"float32", "float64", "memory", "cache"}
    assert all(at["share"] > 0.0 and np.isfinite(at["intensity"]) for at in rows["programs"].values())
    assert (tmp_path / "roofline.png").read_bytes().startswith(b"\x89PNG")


def test_chart_is_drawn(throughput: tuple[dict, str, Path], tmp_path: Path) -> None:
    """From the JSON file of a run, and from the page, whose own means it computes again."""
    pytest.importorskip("matplotlib")
    program = str(EXAMPLES / "benchmarks" / "draw_chart.py")
    printed = []
    for name, options in (("run", ["--throughput", str(throughput[2])]), ("page", [])):
        command = [*interpreter(), program, "--picture", str(tmp_path / f"{name}.png"), *options]
        done = subprocess.run(command, capture_output=True, text=True, env=importable())
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        printed.append(dict(part.rsplit(" ", 1) for part in done.stdout.strip().split(", ")))
    run, page = printed
    assert {"warp_like", "C++"} <= set(run)
    assert page["warp_like"] == "1"
    text = (EXAMPLES.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    means = next(line for line in text.splitlines() if line.startswith("| time / warp_like |")).split("|")
    assert [float(cell) for cell in means[3:7]] == pytest.approx(
        [float(page[name]) for name in ("warp-lang", "numba", "JAX", "PyTorch")], rel=0.01
    )


def test_sizes_are_short() -> None:
    """``131 k`` for 131072 in the tables."""
    sys.path.insert(0, str(EXAMPLES / "benchmarks"))
    try:
        from reporting import short_sizes
    finally:
        sys.path.remove(str(EXAMPLES / "benchmarks"))
    assert short_sizes("saxpy 16777216, float64") == "saxpy 16.8 M, float64"
    assert short_sizes("MLP 3-64-1, 131072 points") == "MLP 3-64-1, 131 k points"
    assert short_sizes("loop of 1000 steps, 4096 threads") == "loop of 1000 steps, 4096 threads"


@pytest.mark.long
def test_throughput_of_a_compiled_function(process: Answering, tmp_path: Path) -> None:
    """PyTorch's column, of a program that it compiles as a whole and of one with a loop."""
    pytest.importorskip("torch")
    rows, _ = benchmark(process, "throughput", tmp_path, "--programs", "springs", "newton", "--peers", "PyTorch")
    assert len(rows) == 2
    assert all(times["warp_like"] > 0.0 for times in rows.values())


def test_cupy_says_what_is_missing_or_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    load("interop/cupy_arrays").main(64)
    assert any(words in capsys.readouterr().out for words in ("there is no CUDA device", "not installed", "difference"))


def test_benchmark_of_cuda_runs_on_the_processor(process: Answering, tmp_path: Path) -> None:
    rows, printed = benchmark(process, "cuda", tmp_path, "--device", "cpu", "--columns", "warp_like")
    assert rows.pop("device") == {"name": "CPU"}
    assert len(rows) == 11
    assert all(set(times) == {"warp_like"} for times in rows.values()), printed  # each agreed with what was expected
    page = (EXAMPLES.parent / "docs" / "benchmarks" / "cuda.md").read_text(encoding="utf-8")
    goals = re.findall(r"^(.+): \S+(?: us)? \(goal: (.+), (?:not )?met\)$", printed, re.MULTILINE)
    assert len(goals) == 6  # those without CUDA C++
    missing = [
        goal for goal in goals if not re.search(rf"^\| {re.escape(goal[0])} +\| {goal[1]} +\|$", page, re.MULTILINE)
    ]
    assert not missing


def test_benchmark_of_builtins_runs(process: Answering, tmp_path: Path) -> None:
    """A function of floats, one of several results, one with an integer state and one of constants."""
    options = ["--only", "atan2(float", "qr3(mat33f)", "randf(uint32)", "x ** 3.0", "--dtypes", "float32", "uint32"]
    found, printed = benchmark(process, "builtins", tmp_path, "--no-warp", "--all", *options)
    rows, ranges = found["rows"], found["ranges"]
    assert set(rows) == {"atan2(float32, float32)", "qr3(mat33f)", "randf(uint32)", "x ** 3.0, float32"}, printed
    assert all(times["forward"] > 0.0 and times["fwd model"] > 0.0 for times in rows.values())
    assert [row for row, times in rows.items() if "backward" not in times] == ["randf(uint32)"]
    assert len(ranges) == 4
    assert all(times["spread"] >= 1.0 for times in ranges.values())


def test_benchmark_of_builtins_has_every_row_of_values() -> None:
    """Each builtin that a thread calls on its own values, and with each type that its table knows."""
    from tests.builtins.calls import rows as declared

    sys.path.insert(0, str(EXAMPLES / "benchmarks"))
    try:
        from builtin_rows import all_rows
    finally:
        sys.path.remove(str(EXAMPLES / "benchmarks"))
    titles = {row.title for row in all_rows([str(t) for t in SCALARS])}
    names = {row.name for row in declared() if not row.name.startswith("_") and not isinstance(row.lower, Cooperative)}
    assert names <= {title.partition("(")[0] for title in titles}
    assert {"inverse(mat44d)", "quat_slerp(quath, quath, float16)", "x ** 2.0, bfloat16", "int32(float64)"} <= titles


@pytest.mark.long
def test_benchmark_of_scale_runs(process: Answering, tmp_path: Path) -> None:
    rows, _ = benchmark(process, "scale", tmp_path)
    assert all(seconds > 0.0 for table in rows.values() for row in table.values() for seconds in row.values())
    if memory := rows["memory"]:  # where the system tells it; of three arrays, and of their gradients and a seed
        assert memory["saxpy, forward"]["4 MiB"] == pytest.approx(3.0, abs=0.5)
        assert memory["saxpy, backward"]["4 MiB"] == pytest.approx(7.0, abs=0.5)


@pytest.mark.long
def test_benchmark_of_compiling_runs(process: Answering, tmp_path: Path) -> None:
    """The kernels that it generates compute what NumPy does."""
    rows, _ = benchmark(process, "compile", tmp_path)
    assert len(rows) == 12
    assert all(times["forward"] > 0.0 and times["adjoint"] > 0.0 for times in rows.values())
