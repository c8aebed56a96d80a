"""Ahead-of-time modules for CUDA: which file serves a device, and that its code is what launches get."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import warp_like as wp
from tests.frontend.support import define
from tests.runtime.cuda.fake_driver import FakeDriver
from warp_like.backend.libdevice import find_libdevice, find_ptxas
from warp_like.backend.target import CUDA_ARCHITECTURES, cuda_target, nearest_architecture
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature
from warp_like.runtime.kernels.aot import sealed_name
from warp_like.runtime.kernels.aot_files import file_path, find_file

SOURCE = """
@wp.kernel
def step(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    y = x[i]
    for _ in range(i):
        y = wp.sin(y) * {factor}
    out[i] = y
"""

needs_tools = pytest.mark.skipif(find_ptxas() is None or find_libdevice() is None, reason="needs ptxas and libdevice")


def made(name: str, factor: float = 2.0) -> wp.Module:
    return wp.get_module(define(SOURCE.format(factor=factor), __name__=name)["__name__"])


def names(folder: Path, *targets: str) -> None:
    """Make empty files for targets such as ``sm_80.ptx``."""
    for target in targets:
        (folder / f"wp_m.{target}.aot").touch()


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (["sm_80.ptx"], "sm_80.ptx"),
        (["sm_80.ptx", "sm_90.ptx", "sm_100.ptx"], "sm_90.ptx"),
        (["sm_90.ptx", "sm_90.cubin"], "sm_90.cubin"),
        (["sm_90.ptx", "sm_90a.ptx"], "sm_90a.ptx"),
        (["sm_80.cubin", "sm_75.ptx"], "sm_75.ptx"),
        (["sm_80.cubin", "sm_100.ptx"], None),
        (["cpu", "sm_100.cubin"], None),
    ],
    ids=str,
)
def test_the_best_file_for_an_sm_90(fake: FakeDriver, tmp_path: Path, there: list[str], taken: str | None) -> None:
    names(tmp_path, *there)
    if taken is None:
        with pytest.raises(FileNotFoundError):
            find_file(tmp_path, "m", wp.get_device("cuda:0"))
    else:
        assert find_file(tmp_path, "m", wp.get_device("cuda:0")).name == f"wp_m.{taken}.aot"


def test_a_file_that_is_asked_for(fake: FakeDriver, tmp_path: Path) -> None:
    names(tmp_path, "sm_80.ptx", "sm_90.cubin", "sm_90.ptx")
    device = wp.get_device("cuda:0")
    assert find_file(tmp_path, "m", device, arch=80).name == "wp_m.sm_80.ptx.aot"
    assert find_file(tmp_path, "m", device, use_ptx=True).name == "wp_m.sm_90.ptx.aot"
    with pytest.raises(FileNotFoundError) as e:
        find_file(tmp_path, "m", device, arch="sm_80", use_ptx=False)
    assert str(e.value) == (
        f"{tmp_path} has no file of module `m` that an sm_90 runs with arch='sm_80' and use_ptx=False; there are "
        f"sm_80 (ptx), sm_90 (cubin), sm_90 (ptx); make one with wp.compile_aot_module('m', arch=90, "
        f"module_dir={str(tmp_path)!r})"
    )
    with pytest.raises(ValueError, match=r"^load_aot_module\(\): `arch` and `use_ptx` choose among files for CUDA"):
        find_file(tmp_path, "m", wp.get_device("cpu"), arch=80)


RUNS = {
    ("80", True): [80, 86, 87, 88, 89],
    ("86", True): [86, 87, 88, 89],
    ("90", True): [90],
    ("90a", True): [90],
    ("100f", True): [100, 103],
    ("75", False): list(CUDA_ARCHITECTURES),
    ("100", False): [100, 103, 110, 120, 121],
    ("100f", False): [100, 103],
    ("90a", False): [90],
}


@pytest.mark.parametrize(("given", "devices"), RUNS.items(), ids=str)
def test_what_runs_where(given: tuple[str, bool], devices: list[int]) -> None:
    target = cuda_target(given[0], assembled=given[1])
    assert [a for a in CUDA_ARCHITECTURES if target.runs_on(a)] == devices


def test_devices_that_are_newer_than_the_compiler() -> None:
    assert [nearest_architecture(a) for a in (75, 76, 89, 90, 101, 200)] == [75, 75, 89, 90, 100, 121]
    with pytest.raises(
        RuntimeError, match=r"^a device of compute capability 6.1 is too old: code is made for 7.5 and "
    ):
        nearest_architecture(61)


def test_an_architecture_that_is_not() -> None:
    with pytest.raises(ValueError, match="there is no CUDA architecture sm_77 to compile for; there are sm_75, sm_80"):
        cuda_target("77")


def test_names(tmp_path: Path) -> None:
    targets = [None, cuda_target("90"), cuda_target("90a", assembled=True)]
    found = [file_path(tmp_path, "a.b", t).name for t in targets]
    assert found == ["wp_a.b.cpu.aot", "wp_a.b.sm_90.ptx.aot", "wp_a.b.sm_90a.cubin.aot"]


@needs_tools
@pytest.mark.parametrize("use_ptx", [True, False])
def test_the_loaded_code_is_what_launches_get(
    fake: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_ptx: bool
) -> None:
    name = f"aot.cuda{use_ptx:d}"
    (path,) = wp.compile_aot_module(made(name), arch=90, module_dir=tmp_path, use_ptx=use_ptx)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("module.json"))
        (facts,) = manifest["kernels"]
        files = [v["file"] for v in facts["variants"]]
        inside = [Artifact.from_bytes(archive.read(file), sealed_name(manifest, file)) for file in files]
    assert [v["wrt"] for v in facts["variants"]] == [None] * 5 + [[0, 1]] * 2
    assert [v["shares_indices"] for v in facts["variants"]] == [False] * 4 + [True] + [False] * 2
    assert all(a.stack.used == (v["wrt"] is not None) for a, v in zip(inside, facts["variants"], strict=True))
    assert {a.code.binary[:4] == b"\x7fELF" for a in inside} == {not use_ptx}

    kernel = made(name).kernels["step"]
    assert wp.load_aot_module(name, device="cuda:0", module_dir=tmp_path).kernels["step"] is kernel
    monkeypatch.setattr("warp_like.runtime.kernels.kernel.compile_kernel", None)
    signature = Signature(kernel.types, options=kernel.compile_options(), sums=True)
    target = cuda_target("90", assembled=True)
    assert kernel.artifact(signature, target).code == inside[0].code
    assert kernel.artifact(signature.replace(contiguous=False), target).code == inside[2].code
    assert kernel.artifact(signature.replace(wrt=(0, 1)), target).code == inside[6].code


@needs_tools
def test_one_module_for_the_cpu_and_for_cuda(fake: FakeDriver, tmp_path: Path) -> None:
    wp.compile_aot_module(made("aot.both"), device="cpu", arch=[80, 90], module_dir=tmp_path)
    wp.get_module("aot.both").kernels.clear()  # as in a process that has no source
    module = wp.load_aot_module("aot.both", device=["cpu", "cuda:0"], module_dir=tmp_path)
    kernel = module.kernels["step"]
    assert list(kernel.precompiled) == ["cpu", "sm_90"]
    x = wp.array([0.5], dtype=float, device="cpu")
    out = wp.zeros(1, dtype=float, device="cpu")
    wp.launch(kernel, 1, inputs=[x, out], device="cpu")
    assert out.numpy()[0] == 0.5
    with pytest.raises(wp.WarpCodegenError, match="was loaded from .*cpu.aot and .*sm_90.ptx.aot without its source"):
        kernel.source


@needs_tools
def test_a_kernel_that_has_changed_is_refused(fake: FakeDriver, tmp_path: Path) -> None:
    wp.compile_aot_module(made("aot.changed"), arch=90, module_dir=tmp_path)
    made("aot.changed", factor=3.0)
    with pytest.raises(RuntimeError, match="kernel `step` has changed since .*sm_90.ptx.aot was compiled"):
        wp.load_aot_module("aot.changed", device="cuda:0", module_dir=tmp_path)


@needs_tools
def test_the_current_device_is_compiled_for(fake: FakeDriver, tmp_path: Path) -> None:
    (path,) = wp.compile_aot_module(made("aot.current"), device="cuda:0", module_dir=tmp_path)
    assert path.name == "wp_aot.current.sm_90.ptx.aot"
