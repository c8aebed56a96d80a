"""PTX: what is made for CUDA architectures on a machine without a GPU, and that the assembler takes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.backend.kernels import atomic_kernel, blur, copy_kernel, reversing, saxpy, unary
from tests.ir_builder import start, tid, while_
from tests.long_tail import crossed, name
from warp_like.backend import libdevice, nvptx
from warp_like.backend.compile import lower_to_llvm, to_cuda, to_ptx
from warp_like.backend.nvptx import assemble
from warp_like.backend.target import Options, cuda_target
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import FLOATS, INTS, SCALARS, Array, Mat, Type, Vec, float32, float64, int32, int64

SM_80 = cuda_target("sm_80")
CONTIGUOUS = Options(contiguous=True)

needs_ptxas = pytest.mark.skipif(libdevice.find_ptxas() is None, reason="needs ptxas")
needs_libdevice = pytest.mark.skipif(libdevice.find_libdevice() is None, reason="needs libdevice")


def accept(f: Function, arch: str = "sm_80", options: Options = CONTIGUOUS) -> str:
    """The PTX of ``f``, which the assembler takes where there is one."""
    ptx = to_ptx(f, cuda_target(arch), options)
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, arch)[:4] == b"\x7fELF"
    return ptx


def test_entry_takes_the_argument_block_by_value() -> None:
    ptx = accept(saxpy())
    params = re.findall(r"\.param \.?(.*?) wl_saxpy_param_(\d)(\[\d+\])?", ptx)
    assert [(size, n) for _, n, size in params[:4]] == [("[56]", "0"), ("[128]", "1"), ("", "2"), ("", "3")]
    assert "ld.global" in ptx
    assert "st.global" in ptx
    assert not re.search(r"\b(ld|st)\.(local|b32|f32)\b", ptx)
    assert "fma.rn.f32" in ptx


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100", "sm_120"])
def test_architectures(arch: str) -> None:
    assert f".target {arch}" in accept(blur(), arch)


@pytest.mark.parametrize("options", [Options(), CONTIGUOUS, Options(fast_math=True)], ids=lambda o: o.key)
def test_options(options: Options) -> None:
    accept(blur(), options=options)


@pytest.mark.parametrize("t", [*SCALARS, Vec(3, float32), Mat(4, 4, float64)], ids=str)
def test_memory(t: Type) -> None:
    accept(copy_kernel(t, 3))


@pytest.mark.parametrize(("kind", "t"), crossed(["add", "sub", "min", "max", "exch"], INTS + FLOATS, every=2), ids=name)
def test_atomics(kind: str, t: Type) -> None:
    ptx = accept(atomic_kernel(kind, t))
    assert "atom." in ptx or "red." in ptx
    if kind in ("add", "sub") and t in (float32, float64):
        assert f"add.{'f32' if t == float32 else 'f64'}" in ptx.replace("global.", "").replace("relaxed.sys.", "")
        assert "cas" not in ptx


@pytest.mark.parametrize("t", INTS + FLOATS, ids=str)
def test_compare_and_swap(t: Type) -> None:
    f, b = start("swapping", x=Array(t, 1), y=Array(t, 1))
    i = tid(b)
    value = b.load(f.params[0], [i])
    b.store(f.params[0], [i], b.insert(ops.AtomicCas(f.params[1], (b.mod(i, 3),), value, value), t).result)
    b.yield_()
    for arch in ("sm_75", "sm_90"):
        assert ".cas.b" in accept(f, arch)


def test_loop_and_print() -> None:
    f, b = start("collatz", n=Array(int32, 1), x=float64)
    i = tid(b)
    n0 = b.load(f.params[0], [i])
    _, steps = while_(
        b,
        [n0, b.index(0)],
        lambda n, s: b.gt(n, 1),
        lambda n, s: (b.select(b.eq(b.mod(n, 2), 0), b.div(n, 2), b.add(b.mul(n, 3), 1)), b.add(s, 1)),
    )
    b.insert(ops.Print(("thread ", ": ", " 100% ", " ", "\n"), (i, steps, f.params[1], b.gt(steps, 3))))
    b.yield_()
    ptx = accept(f)
    assert "vprintf" in ptx
    text = lower_to_llvm(f, SM_80, CONTIGUOUS)
    assert "thread %lld: %lld 100%% %.17g %s\\0A\\00" in text


def test_wide_thread_index() -> None:
    f, b = start("wide", out=Array(int64, 1))
    i = b.insert(ops.Tid(0, 1), int64).result
    b.store(f.params[0], [i], i)
    b.yield_()
    accept(f, options=CONTIGUOUS)


@needs_libdevice
@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_libdevice_is_linked_and_stripped(t: Type) -> None:
    ptx = accept(unary("exp", t))
    assert "__nv_" not in ptx
    assert len(ptx) < 20000


@needs_libdevice
def test_float_remainder_is_exact() -> None:
    f, b = start("remainder", x=Array(float32, 1), y=Array(float32, 1))
    i = tid(b)
    b.store(f.params[1], [i], b.mod(b.load(f.params[0], [i]), b.load(f.params[1], [i])))
    b.yield_()
    assert "__nv_fmodf" in lower_to_llvm(f, SM_80, CONTIGUOUS)
    accept(f)


def test_square_root_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libdevice, "find_libdevice", lambda: None)
    assert "sqrt.rn.f32" in accept(unary("sqrt"))


def sine_of_exponential() -> Function:
    f, b = start("waves", x=Array(float32, 1))
    i = tid(b)
    b.store(f.params[0], [i], b.sin(b.exp(b.load(f.params[0], [i]))))
    b.yield_()
    return f


def test_missing_libdevice_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    nvptx._bitcode_of.cache_clear()  # of the tests before
    monkeypatch.setattr(libdevice, "find_libdevice", lambda: None)
    with pytest.raises(RuntimeError) as e:
        to_ptx(sine_of_exponential(), SM_80, CONTIGUOUS)
    assert str(e.value) == (
        "compiling for CUDA needs libdevice.10.bc for __nv_expf, __nv_sinf, and it was not found; install the "
        "nvidia-cuda-nvcc package or Triton, or set CUDA_HOME to a CUDA toolkit"
    )


def test_missing_assembler_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libdevice, "find_ptxas", lambda *_: None)
    with pytest.raises(RuntimeError, match="assembling PTX needs ptxas, and it was not found"):
        assemble("", "sm_80")


@needs_ptxas
def test_rejected_text_is_explained() -> None:
    with pytest.raises(RuntimeError, match=r"ptxas of CUDA \d+\.\d+ failed for sm_80: "):
        assemble("nonsense", "sm_80")


def test_toolkit_is_found_by_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for part in ("bin/ptxas", "nvvm/libdevice/libdevice.10.bc"):
        (tmp_path / part).parent.mkdir(parents=True)
        (tmp_path / part).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert libdevice.find_ptxas.__wrapped__() == tmp_path / "bin" / "ptxas"
    assert libdevice.find_libdevice.__wrapped__() == tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc"


def test_tools_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Triton and PyTorch bring some, and are not imported for them."""
    files = ("triton/backends/nvidia/lib/libdevice.10.bc", "triton/backends/nvidia/bin/ptxas", "torch/bin/ptxas")
    for file in (*files, "triton/__init__.py", "torch/__init__.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    for package in ("triton", "torch"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = list(libdevice._find_tools("ptxas"))
    assert [path for path in found if tmp_path in path.parents] == [tmp_path / file for file in files[1:]]
    roots = [path.parent.parent for path in found if tmp_path in path.parents]
    monkeypatch.setattr(libdevice, "_roots", lambda: iter(roots))
    assert libdevice.find_libdevice.__wrapped__() == tmp_path / files[0]
    assert not {"triton", "torch"} & set(sys.modules)


@pytest.mark.parametrize("t", [*SCALARS, Vec(3, float32), Mat(2, 2, float64)], ids=str)
def test_stack_lies_in_the_arena(t: Type) -> None:
    ptx = accept(reversing(t))
    assert "st.local" not in ptx  # the depth is in a register
    assert re.search(r"(atom|red)[\w.]*\.max\.s64", ptx)


def test_faults_are_numbered() -> None:
    code = to_cuda(blur(), SM_80, Options(debug=True))
    assert len(code.faults) == 2  # x and y, wherever they are indexed
    assert code.faults[0].endswith("index ({0}, {1}) is out of range for array `x` of shape ({2}, {3})")
    assert to_cuda(blur(), SM_80, CONTIGUOUS).faults == ()
    ptx = accept(blur(), options=Options(debug=True))
    assert "assertfail" not in ptx
    assert ".const" not in ptx  # the texts stay on the host
    assert ".b8" not in ptx.split(")", 1)[1]


@pytest.mark.parametrize(("given", "name"), [("sm_80", "sm_80"), ("90a", "sm_90a")])
def test_target(given: str, name: str) -> None:
    assert cuda_target(given).name == name
    assert str(cuda_target(given)) == f"cuda {name}"


@pytest.mark.parametrize("given", ["ampere", "sm_", "sm_8x0"])
def test_bad_architecture(given: str) -> None:
    with pytest.raises(ValueError, match="is written like sm_80"):
        cuda_target(given)
