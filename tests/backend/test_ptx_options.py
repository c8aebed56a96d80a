"""What settings make of the code for CUDA: line information, approximations, registers; and the disassembly."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import warp_like as wp
from tests.backend.kernels import atomic_kernel, saxpy, unary
from tests.backend.llvm.test_block import finished
from tests.backend.test_ptx import CONTIGUOUS, SM_80, accept, needs_libdevice, needs_ptxas
from tests.ir_builder import start, tid
from warp_like.backend import libdevice
from warp_like.backend.compile import lower_to_llvm
from warp_like.backend.nvptx import assemble, disassemble
from warp_like.backend.target import Options
from warp_like.ir.types import Array, bfloat16, float16, float32, float64


@wp.func
def halved(x: float):
    y = x * x  # the first line of halved
    return y / 3.0


@wp.kernel
def walk(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    v = halved(x[i])
    if v > 1.0:
        out[i] = wp.sqrt(v)


def line_of(text: str) -> int:
    """The number of the line of this file that begins with ``text``."""
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


@pytest.fixture
def lineinfo():
    wp.config.lineinfo = True
    yield
    del wp.config.lineinfo


LINES = ["y = x * x", "return y / 3.0", "out[i] = wp.sqrt(v)"]


def test_instructions_know_their_lines(lineinfo):
    ptx = walk.inspect_ptx(target="sm_90")
    (number,) = re.findall(rf'\.file\t(\d+) "{re.escape(__file__)}"', ptx)
    found = {int(n) for n in re.findall(rf"\.loc\t{number} (\d+) ", ptx)}
    assert {line_of(text) for text in LINES} <= found
    for instruction, text in {"div.rn.f32": LINES[1], "st.global.b32": LINES[2]}.items():
        before = ptx[: ptx.index(instruction)]
        assert re.findall(r"\.loc\t\d+ (\d+)", before)[-1] == str(line_of(text))


@wp.func
def squared(x: float):
    return x * x


@wp.func
def quartered(x: float):
    return squared(x) / 4.0


@wp.kernel
def nested(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = quartered(x[i]) + 1.0


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_lines_of_functions_say_where_they_were_called(lineinfo, arch):
    ptx = nested.inspect_ptx(target=arch)
    encoded = {name: f".b8 {','.join(map(str, [*name.encode(), 0]))}" for name in ("squared", "quartered")}
    label = {
        name: re.findall(rf"^(\$\S+):\n{re.escape(text)}$", ptx, re.MULTILINE)[0] for name, text in encoded.items()
    }
    form = r"\.loc\t1 (\d+) (\d+), function_name (\S+), inlined_at 1 (\d+) (\d+)$"
    found = {tuple(m) for m in re.findall(form, ptx, re.MULTILINE)}
    inner, middle, outer = (line_of(t) for t in ("return x * x", "return squared(x)", "x[i] = quartered"))
    assert (str(inner), "12", label["squared"], str(middle), "12") in found
    assert (str(middle), "12", label["quartered"], str(outer), "12") in found
    kernel = [line for line in ptx.splitlines() if f".loc\t1 {outer} " in line]
    assert kernel
    assert not any("inlined_at" in line for line in kernel)
    assert ptx.index(f".loc\t1 {outer} 12\n") < ptx.index("inlined_at")  # the call before what is inlined there
    if libdevice.find_ptxas() is not None:
        assert assemble(ptx, arch)[:4] == b"\x7fELF"


def test_without_the_setting_there_are_none():
    assert ".loc" not in walk.inspect_ptx()
    assert ".file" not in walk.inspect_ptx()


@needs_ptxas
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_cubins_have_a_line_table(lineinfo, tmp_path):
    file = tmp_path / "k.cubin"
    file.write_bytes(assemble(walk.inspect_ptx(target="sm_90"), "sm_90"))
    shown = subprocess.run(["readelf", "--debug-dump=decodedline", str(file)], capture_output=True, text=True)
    found = {int(n) for n in re.findall(rf"^{Path(__file__).name}\s+(\d+)\s+0x", shown.stdout, re.MULTILINE)}
    assert {line_of(text) for text in LINES} <= found
    wp.config.lineinfo = False
    file.write_bytes(assemble(walk.inspect_ptx(target="sm_90"), "sm_90"))
    shown = subprocess.run(["readelf", "-SW", str(file)], capture_output=True, text=True)
    assert ".debug_line" not in shown.stdout


def test_one_kernel_alone_has_lines():
    @wp.kernel(lineinfo=True, max_registers=32)
    def alone(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    ptx = alone.inspect_ptx()
    assert f".loc\t1 {line_of('x[wp.tid()] = 1.0')}" in ptx
    assert ".maxnreg 32" in ptx


@needs_libdevice
def test_fast_math_takes_what_the_hardware_approximates():
    for name, instruction in {"sin": "sin.approx", "exp": "ex2.approx", "sqrt": "sqrt.approx", "log": "lg2"}.items():
        assert instruction in accept(unary(name), options=Options(contiguous=True, fast_math=True))
        exact = accept(unary(name))
        assert "sin.approx" not in exact
        assert "sqrt.approx" not in exact
    assert ".ftz" in accept(saxpy(), options=Options(contiguous=True, fast_math=True))
    assert ".ftz" not in accept(saxpy())
    assert "__nv_sin(" in lower_to_llvm(unary("sin", float64), SM_80, Options(fast_math=True))


def test_bounds_and_registers():
    ptx = accept(saxpy(), options=Options(contiguous=True, launch_bounds=(128, 4)))
    assert ".maxntid 128" in ptx
    assert ".minnctapersm 4" in ptx
    assert ".maxnreg 24" in accept(saxpy(), options=Options(contiguous=True, max_registers=24))


def test_short_floats_use_what_the_architecture_has():
    f, b = start("short", x=Array(bfloat16, 1), h=Array(float16, 1))
    x, h = f.params
    i = tid(b)
    b.store(x, [i], b.mul(b.load(x, [i]), b.load(x, [i])))
    b.store(h, [i], b.mul(b.load(h, [i]), b.load(h, [i])))
    b.yield_()
    ptx = accept(f)
    assert "cvt.rn.bf16.f32" in ptx
    assert "mul.rn.f16" in ptx or "mul.f16" in ptx
    assert "bf16" not in accept(f, "sm_75")
    assert "atom.global.add.noftz.f16" in accept(atomic_kernel("add", float16))
    assert ".cas.b" in accept(atomic_kernel("max", float16))
    assert ".cas.b" in accept(atomic_kernel("add", bfloat16))


def test_a_product_and_a_sum_are_one_operation_unless_it_is_switched_off():
    assert "fma.rn.f32" in accept(saxpy())
    assert "fma" not in accept(saxpy(), options=Options(contiguous=True, fuse_fp=False))


# --- SASS ---


def test_a_missing_disassembler_is_explained(monkeypatch):
    monkeypatch.setattr(libdevice, "find_disassembler", lambda: None)
    with pytest.raises(RuntimeError) as e:
        disassemble(b"")
    assert str(e.value) == (
        "showing SASS needs nvdisasm or cuobjdump, and neither was found; they are part of the CUDA Toolkit (conda: "
        "conda install cuda-nvdisasm): put its folder bin on PATH, or set CUDA_HOME to the toolkit"
    )


@needs_ptxas
def test_the_disassembler_is_given_the_cubin(monkeypatch, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\nfor last in "$@"; do :; done\necho "$1 $2"; head -c 4 "$last" | tail -c 3\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(libdevice, "find_disassembler", lambda: tool)
    assert walk.inspect_sass(target="sm_90") == "--print-line-info --print-code\nELF"
    tool.write_text("#!/bin/sh\necho no such thing >&2; exit 1\n")
    with pytest.raises(RuntimeError, match=r"^nvdisasm failed: no such thing$"):
        walk.inspect_sass()


@pytest.mark.skipif(libdevice.find_disassembler() is None, reason="needs nvdisasm or cuobjdump")
@needs_ptxas
def test_sass():
    assert "EXIT" in walk.inspect_sass(target="sm_90")


def test_sass_is_for_cuda():
    with pytest.raises(ValueError, match=r'^SASS needs a CUDA target, e.g. target="sm_80"$'):
        walk.inspect("sass")


# --- texts that are read when they change ---


@wp.kernel
def total(x: wp.array(dtype=float), sums: wp.array(dtype=float)):
    i = wp.tid()
    s = wp.block_sum(x[i])
    if wp.block_thread() == 0:
        sums[i // wp.block_dim()] = s


@wp.kernel
def stencil(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and j > 0:
        b[i, j] = a[i, j] + a[i - 1, j] + a[i, j - 1]


@pytest.mark.parametrize("name", ["saxpy", "reversing", "total", "stencil"])
def test_golden_ptx(name, golden):
    import llvmlite.binding as llvm

    from tests.backend.kernels import reversing

    if llvm.llvm_version_info[0] != 22:
        pytest.skip("another version of LLVM chooses other instructions")
    narrow = CONTIGUOUS.replace(narrow=True)
    made = {
        "saxpy": lambda: (saxpy(), CONTIGUOUS),
        "reversing": lambda: (reversing(float32), CONTIGUOUS),
        "total": lambda: (finished(total), narrow),
        "stencil": lambda: (finished(stencil), narrow),
    }
    function, options = made[name]()
    golden(f"{name}.ptx", accept(function, options=options))
