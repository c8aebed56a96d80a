"""Ahead-of-time modules: what is in the files, launching without source and without a compiler, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.backend import nvptx
from warp_like.backend.libdevice import find_libdevice, find_ptxas
from warp_like.compiler import cache_folders
from warp_like.compiler.artifact import Artifact
from warp_like.ir import types as ir
from warp_like.runtime.kernels.aot import sealed_name
from warp_like.runtime.kernels.typetext import type_from_json, type_to_json

SOURCE = """
from typing import Any

@wp.func
def wave(x: float):
    return wp.sin(x) * {factor}

@wp.kernel
def step(x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), scale: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wave(x[i]) * scale + v[i].x

@wp.kernel(enable_backward=False)
def count(hits: wp.array2d(dtype=int), total: wp.array(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(total, 0, hits[i, j])

@wp.kernel
def shift(x: wp.array(dtype=Any), by: Any):
    i = wp.tid()
    x[i] = x[i] + by

wp.overload(shift, [wp.array(dtype=wp.float64), wp.float64])
"""


def made(name: str, factor: float = 2.0) -> wp.Module:
    return wp.get_module(define(SOURCE.format(factor=factor), __name__=name)["__name__"])


def arguments(strided: bool = False) -> list[Any]:
    x = np.linspace(0.0, 1.0, 10, dtype=np.float32)
    v = wp.array(np.arange(30).reshape(10, 3), dtype=wp.vec3)
    return [x[::-1] if strided else x, v, 3.0, np.zeros(10, np.float32)]


def expected(args: list[Any]) -> np.ndarray:
    return np.sin(args[0]) * 2.0 * args[2] + args[1].numpy()[:, 0]


def test_files_of_the_cpu_and_of_cuda(tmp_path):
    module = made("aot.files")
    if find_libdevice() is None:
        pytest.skip("there is no libdevice")
    paths = wp.compile_aot_module(module, device="cpu", arch=[80, "sm_90"], module_dir=tmp_path / "made")
    names = ["wp_aot.files.cpu.aot", "wp_aot.files.sm_80.ptx.aot", "wp_aot.files.sm_90.ptx.aot"]
    assert [p.name for p in paths] == names
    for path, target in zip(paths, ["cpu", "sm_80", "sm_90"], strict=True):
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("module.json"))
            assert (manifest["module"], manifest["target"]) == ("aot.files", target)
            assert [k["key"] for k in manifest["kernels"]] == ["step", "count", "shift"]
            for kernel in manifest["kernels"]:
                for variant in kernel["variants"]:
                    artifact = Artifact.from_bytes(
                        archive.read(variant["file"]), sealed_name(manifest, variant["file"])
                    )
                    if target != "cpu":
                        assert f".target {target}".encode() in artifact.code.binary
    assert wp.compile_aot_module("aot.files", arch=80, module_dir=tmp_path)[0].name == names[1]


@pytest.mark.skipif(find_ptxas() is None or find_libdevice() is None, reason="there is no ptxas")
def test_machine_code_for_cuda(tmp_path):
    (path,) = wp.compile_aot_module(made("aot.cubin"), arch=80, module_dir=tmp_path, use_ptx=False)
    assert path.name == "wp_aot.cubin.sm_80.cubin.aot"
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("module.json"))
        variant = manifest["kernels"][0]["variants"][0]
        assert Artifact.from_bytes(
            archive.read(variant["file"]), sealed_name(manifest, variant["file"])
        ).code.binary.startswith(b"\x7fELF")
    assert nvptx.assemble


def test_declared_kernels_use_the_compiled_code(tmp_path, monkeypatch):
    wp.compile_aot_module(made("aot.declared"), module_dir=tmp_path)
    module = made("aot.declared")  # declared anew, as in another process
    assert wp.load_aot_module("aot.declared", module_dir=tmp_path) is module
    monkeypatch.setattr("warp_like.runtime.kernels.kernel.compile_kernel", None)
    for strided in (False, True):
        args = arguments(strided)
        wp.launch(module.kernels["step"], 10, inputs=args)
        np.testing.assert_allclose(args[3], expected(args), rtol=1e-6)
    hits, total = np.ones((30, 40), np.int32), np.zeros(1, np.int32)
    wp.launch(module.kernels["count"], hits.shape, inputs=[hits, total])
    assert total[0] == 1200
    wp.launch(module.kernels["count"], (30, 20), inputs=[hits[:, ::2], total])
    assert total[0] == 1800
    x = np.zeros(3)
    wp.launch(module.kernels["shift"], 3, inputs=[x, wp.float64(2.0)])
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_adjoints_for_every_choice_of_arrays(tmp_path, monkeypatch):
    wp.compile_aot_module(made("aot.adjoints"), module_dir=tmp_path)
    module = made("aot.adjoints")
    wp.load_aot_module("aot.adjoints", module_dir=tmp_path)
    monkeypatch.setattr("warp_like.runtime.kernels.kernel.compile_kernel", None)
    for needs_v in (False, True):
        x = wp.array(np.linspace(0.0, 1.0, 10), dtype=float, requires_grad=True)
        v = wp.zeros(10, dtype=wp.vec3, requires_grad=needs_v)
        out = wp.zeros(10, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(module.kernels["step"], 10, inputs=[x, v, 3.0, out])
        tape.backward(grads={out: wp.ones(10, dtype=float)})
        np.testing.assert_allclose(x.grad.numpy(), 6.0 * np.cos(x.numpy()), rtol=1e-5)
        if needs_v:
            assert v.grad.numpy().tolist() == [[1.0, 0.0, 0.0]] * 10


def test_arrays_that_are_too_small_for_the_grid(tmp_path):
    """The file holds how far each kernel reaches, and the text of the line; where that stands, it may not say."""
    wp.compile_aot_module(made("aot.extents"), module_dir=tmp_path)
    module = made("aot.extents")
    wp.load_aot_module("aot.extents", module_dir=tmp_path)
    kernel, args = module.kernels["step"], arguments()
    module.kernels.clear()
    loaded = wp.load_aot_module("aot.extents", module_dir=tmp_path).kernels["step"]
    for k, place in ((kernel, f"{kernel.source.file}:11:19 in "), (loaded, "")):
        for _ in range(2):
            with pytest.raises(IndexError) as raised:
                wp.launch(k, 11, inputs=args)
            assert str(raised.value).splitlines()[:4] == [
                "kernel `step`, argument 1 `x`: index 10 is out of range for an array of shape (10,): every thread of "
                "the grid (11,) accesses the element at its own index",
                f"  --> {place}kernel `step`",
                "   |     out[i] = wave(x[i]) * scale + v[i].x",
                "   |                   ^^^^",
            ]
            wp.launch(k, 10, inputs=args)


def test_other_options_compile_anew(tmp_path):
    wp.compile_aot_module(made("aot.options"), module_dir=tmp_path)
    module = made("aot.options")
    wp.load_aot_module("aot.options", module_dir=tmp_path)
    kernel = module.kernels["step"]
    assert list(kernel.precompiled) == ["cpu"]
    module.options["mode"] = "debug"
    args = arguments()
    with pytest.raises(IndexError):
        wp.launch(kernel, 11, inputs=args)


PROGRAM = """
import sys
import numpy as np
import warp_like as wp

module = wp.load_aot_module("aot.alone", module_dir=sys.argv[1])
step = module.kernels["step"]
x = np.linspace(0.0, 1.0, 10, dtype=np.float32)
v = wp.zeros(10, dtype=wp.vec3)
out = np.zeros(10, np.float32)
wp.launch(step, 10, inputs=[x[::-1], v, 3.0, out])
assert np.allclose(out, np.sin(x[::-1]) * 6.0, rtol=1e-6)
y = np.zeros(2)
wp.launch(module.kernels["shift[array1d[float64], float64]"], 2, inputs=[y, 1.5])
assert y.tolist() == [1.5, 1.5]
g = wp.array(x, dtype=float, requires_grad=True)
r = wp.zeros(10, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(step, 10, inputs=[g, v, 3.0, r])
tape.backward(grads={r: wp.ones(10, dtype=float)})
assert np.allclose(g.grad.numpy(), 6.0 * np.cos(x), rtol=1e-5)
try:
    wp.launch(module.kernels["count"], (1, 1), inputs=[wp.zeros((1, 1), dtype=int), wp.zeros(2, dtype=float)])
except TypeError as e:
    print(e)
print("llvmlite" in sys.modules, "warp_like.frontend.build" in sys.modules)
try:
    step.inspect("ir")
except wp.WarpCodegenError as e:
    print(e.reason)
wp.launch(step, 10, inputs=[x, v, 3.0, out], options={"deterministic": True})
try:
    wp.launch(step, 10, inputs=[x, v, 3.0, out], options={"mode": "debug"})
except ValueError as e:
    print(e)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere LLVM's linker loads code"
)
def test_another_process_launches_without_source_and_without_llvm(tmp_path):
    (path,) = wp.compile_aot_module(made("aot.alone"), module_dir=tmp_path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "WARP_LIKE_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):  # the first process asks LLVM once what this processor is
        command = [sys.executable, str(program), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "kernel `count`, argument 2 `total`: expected array1d[int32], got array1d[float32]",
        "  help: total = wp.array(total.numpy(), dtype=int) before the launch, or annotate "
        "`total: wp.array(dtype=float)`",
        "False False",
        f"kernel `step` was loaded from {path} without its source, and what is asked for is not in there",
        "kernel `step` was loaded with its code, and option `mode` means other code; set it where the module is "
        "compiled",
    ]


def test_a_kernel_that_has_changed_is_refused(tmp_path):
    wp.compile_aot_module(made("aot.changed", factor=2.0), module_dir=tmp_path)
    made("aot.changed", factor=3.0)
    with pytest.raises(RuntimeError, match=r"kernel `step` has changed since .*wp_aot.changed.cpu.aot was compiled"):
        wp.load_aot_module("aot.changed", module_dir=tmp_path)


STUBS = """
from typing import Any

@wp.kernel
def step(x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), scale: float, out: wp.array(dtype=float)):
    pass

@wp.kernel(enable_backward=False)
def count({params}):
    pass

@wp.kernel
def shift(x: wp.array(dtype=Any), by: Any):
    pass
"""
COUNT = "hits: wp.array2d(dtype=int), total: wp.array(dtype=int)"


@pytest.mark.parametrize("by_option", [False, True])
def test_kernels_shipped_without_their_bodies(tmp_path, by_option):
    (path,) = wp.compile_aot_module(made("aot.stubs"), module_dir=tmp_path, strip_hash=True)
    define(STUBS.format(params=COUNT), __name__="aot.stubs")
    module = wp.get_module("aot.stubs")
    with pytest.raises(RuntimeError, match="kernel `step` has changed since"):
        wp.load_aot_module(module, module_dir=tmp_path, strip_hash=False)
    module.options["strip_hash"] = by_option
    wp.load_aot_module(module, module_dir=tmp_path, strip_hash=None if by_option else True)
    step, args = module.kernels["step"], arguments()
    wp.launch(step, 10, inputs=args)
    np.testing.assert_allclose(args[-1], expected(args), rtol=1e-6)
    y = np.zeros(2)
    wp.launch(module.kernels["shift"], 2, inputs=[y, wp.float64(1.5)])
    assert y.tolist() == [1.5, 1.5]
    with pytest.raises(
        wp.WarpCodegenError, match="kernel `shift` was loaded from .* without regard to its source here"
    ):
        wp.launch(module.kernels["shift"], 2, inputs=[y, wp.float32(1.5)])
    x = wp.array(args[0], dtype=float, requires_grad=True)
    out = wp.zeros(10, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(step, 10, inputs=[x, args[1], 3.0, out])
    tape.backward(grads={out: wp.ones(10, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 6.0 * np.cos(args[0]), rtol=1e-5)
    message = (
        f"kernel `step` was loaded from {path} without regard to its source here, and what is asked for is not in there"
    )
    with pytest.raises(wp.WarpCodegenError) as error:
        wp.launch(step, 10, inputs=args, options={"mode": "debug"})
    assert error.value.reason == message
    module.options.clear()


def test_parameters_of_kernels_shipped_without_their_bodies_must_fit(tmp_path):
    wp.compile_aot_module(made("aot.others"), module_dir=tmp_path)
    define(STUBS.format(params="hits: wp.array2d(dtype=int), total: wp.array(dtype=float)"), __name__="aot.others")
    with pytest.raises(RuntimeError, match="kernel `count` has changed since"):
        wp.load_aot_module("aot.others", module_dir=tmp_path, strip_hash=True)


def test_generic_kernels_without_overloads_are_named(tmp_path):
    name = define(STUBS.format(params=COUNT), __name__="aot.no_overload")["__name__"]
    heard: list[str] = []
    with wp.ScopedLogger(_Heard(heard)):
        wp.compile_aot_module(name, module_dir=tmp_path)
    assert heard == ["the ahead-of-time module leaves out generic kernel `shift`: it has no wp.overload"]


class _Heard:
    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    def debug(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        self.heard.append(message)

    def error(self, message: str) -> None: ...


def test_damaged_and_foreign_files_are_refused(tmp_path):
    (path,) = wp.compile_aot_module(made("aot.damaged"), module_dir=tmp_path)
    whole = path.read_bytes()

    def refused(match: str) -> None:
        with pytest.raises(RuntimeError, match=match):
            wp.load_aot_module("aot.damaged", module_dir=tmp_path)

    for data in (b"", whole[: len(whole) // 2], b"text"):
        path.write_bytes(data)
        refused("is no ahead-of-time module, or damaged")
    for name, value, match in (
        ("version", "0.0.0", "was made by warp_like 0.0.0"),
        ("host", "cpu|other|+nonsense|" + "x|", "and this processor, .*, lacks nonsense"),
    ):
        path.write_bytes(whole)
        _rewrite(path, {name: value})
        refused(match)


def test_exchanged_files_are_refused(tmp_path):
    """Between modules, and between the variants in one file."""
    (path,) = wp.compile_aot_module(made("aot.one"), module_dir=tmp_path)
    (other,) = wp.compile_aot_module(made("aot.two"), module_dir=tmp_path)
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())
    with pytest.raises(RuntimeError, match=r"aot.one.cpu.aot holds module `aot.two` for cpu, as its name does not say"):
        wp.load_aot_module("aot.one", module_dir=tmp_path)
    _rewrite(path, {"module": "aot.one"})
    with pytest.raises(RuntimeError, match="or damaged: checksum, name or format differs"):
        wp.load_aot_module("aot.one", module_dir=tmp_path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    first, second = [name for name in files if name.endswith(".kernel")][:2]
    files[first], files[second] = files[second], files[first]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    with pytest.raises(RuntimeError, match="or damaged: checksum, name or format differs"):
        wp.load_aot_module("aot.one", module_dir=tmp_path)


def test_no_home_folder_and_no_folder_named(monkeypatch):
    module = made("aot.homeless")
    monkeypatch.setattr(cache_folders, "own_folder", lambda: None)
    with pytest.raises(RuntimeError, match="you have no home folder; give `module_dir`"):
        wp.compile_aot_module(module)


def _rewrite(path: Any, changes: dict[str, Any]) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["module.json"] = json.dumps({**json.loads(files["module.json"]), **changes}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def test_mistakes(tmp_path):
    with pytest.raises(RuntimeError, match="module `aot.empty` has no kernels to compile"):
        wp.compile_aot_module("aot.empty", module_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no .*wp_aot.empty.cpu.aot; make it with wp.compile_aot_mod"):
        wp.load_aot_module("aot.empty", module_dir=tmp_path)
    module = made("aot.mistakes")
    with pytest.raises(ValueError, match="a CUDA architecture is written like sm_80, got 'volta'"):
        wp.compile_aot_module(module, arch="volta", module_dir=tmp_path)
    with pytest.raises(ValueError, match=r"load_aot_module\(\): `arch` and `use_ptx` choose among files for CUDA"):
        wp.load_aot_module(module, device="cpu", module_dir=tmp_path, arch=80)
    with pytest.raises(RuntimeError, match="device 'cuda' is not available here"):
        wp.compile_aot_module(module, device="cuda", module_dir=tmp_path)


TYPES = [
    ir.float16,
    ir.bool_,
    ir.Vec(3, ir.float64),
    ir.Mat(2, 5, ir.int8),
    ir.Quat(ir.float32),
    ir.Transform(ir.float64),
    ir.Array(ir.Vec(2, ir.float32), 4),
    ir.indexed_array(ir.int32, 2),
    ir.Struct("S", (("a", ir.float32), ("b", ir.Struct("T", (("c", ir.Array(ir.int64, 1)),))))),
    ir.Array(ir.Struct("S", (("a", ir.float32),)), 2),
]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_types_go_through_json(t):
    back = type_from_json(json.loads(json.dumps(type_to_json(t))))
    assert back == t
    assert type(back) is type(t)


@pytest.mark.parametrize("data", ["float31", ["vec", 3], ["vec", 2, ["quat", "float32"]], 3, None, ["array", "x", 1]])
def test_what_is_no_type_is_refused(data):
    with pytest.raises(ValueError, match="names no"):
        type_from_json(data)
