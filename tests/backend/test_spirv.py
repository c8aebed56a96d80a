"""SPIR-V for OpenCL devices. ``tests/runtime/opencl`` runs such code."""

from __future__ import annotations

import re

import pytest

import warp_like as wp
from warp_like.backend.spirv import MAGIC, compile_spirv
from warp_like.backend.target import OPENCL_FEATURES, opencl_target
from warp_like.base.errors import WarpCodegenError
from warp_like.compiler.pipeline import stage_text


@wp.kernel
def everything(x: wp.array2d(dtype=wp.vec3), y: wp.array(dtype=float), n: wp.array(dtype=wp.uint64)):
    i, j = wp.tid()
    s = 0.0
    for k in range(int(n[i])):
        if k % 3 == 1:
            continue
        s += wp.dot(x[i, j], x[i, k]) * wp.exp(-float(k))
    own = wp.zeros(shape=4, dtype=float)
    own[i % 4] = s
    wp.expect_neq(s, 1.0)
    wp.atomic_add(y, i, own[j % 4])
    wp.atomic_max(y, i, wp.length(x[i, j]))
    wp.atomic_add(n, 0, wp.uint64(s))


@wp.kernel
def smooth(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i, j = wp.tid()
    y[i] = wp.sin(x[i, j]) / wp.sqrt(x[i, j])


def test_what_kernels_become() -> None:
    text = everything.inspect("asm", target="opencl")
    assert re.search(r'OpEntryPoint Kernel %\d+ "wl_everything"', text)
    assert "OpMemoryModel Physical64 OpenCL" in text
    assert set(re.findall(r"OpCapability (\w+)", text)) <= {"Kernel", "Addresses", "Linkage", "Int8", "Int16", "Int64",
                                                            "Int64Atomics", "Float64"}  # fmt: skip
    assert "OpExtension" not in text, "what any driver takes"
    assert re.search(r"OpExtInst %\d+ %\d+ exp ", text)
    assert re.search(r"OpExtInst %\d+ %\d+ fmax ", text)
    assert "OpAtomicCompareExchange" in text
    assert "SaturatedConversion" in text
    gradient = smooth.inspect("asm", target="opencl", wrt=["x", "y"])
    assert re.search(r"OpExtInst %\d+ %\d+ cos ", gradient)
    made = compile_spirv(smooth.inspect("llvm", target="opencl"))
    assert made.startswith(MAGIC)
    assert len(made) % 4 == 0


def test_a_module_that_llvm_cannot_translate_is_refused() -> None:
    """LLVM ends its process there, which is not this one."""
    text = """
define spir_kernel void @k(ptr addrspace(1) %x) {
  %old = atomicrmw fadd ptr addrspace(1) %x, float 1.0 monotonic
  ret void
}"""
    with pytest.raises(WarpCodegenError, match=r"can't translate .* to SPIR-V: .*SPV_EXT_shader_atomic_float_add"):
        compile_spirv(text)


@wp.func_native("return x + 1.0f;")
def native(x: float) -> float: ...


@wp.kernel
def calls(x: wp.array(dtype=float)):
    x[wp.tid()] = native(1.0)


@wp.kernel
def prints(x: wp.array(dtype=float)):
    print(x[wp.tid()])


@wp.kernel
def stops(x: wp.array(dtype=float)):
    wp.breakpoint()


@wp.kernel
def halves(x: wp.array(dtype=wp.float16)):
    wp.atomic_add(x, 0, wp.float16(1.0))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [(calls, "native code"), (prints, "print"), (stops, "debugger"), (halves, "32 and 64 bits .* is float16")],
)
def test_refusals_name_the_place(kernel: wp.Kernel, says: str) -> None:
    with pytest.raises(WarpCodegenError, match=says) as e:
        kernel.inspect("asm", target="opencl")
    assert f"in kernel `{kernel.key}`" in str(e.value)


@wp.kernel
def loops(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = wp.sin(s) * x[i]
    x[i] = s


@wp.kernel
def doubles(x: wp.array(dtype=wp.float64), k: wp.array(dtype=wp.int64)):
    wp.atomic_add(k, 0, wp.int64(x[wp.tid()]))


def test_what_a_device_lacks() -> None:
    with pytest.raises(WarpCodegenError, match="can't save values of loops for a gradient"):
        loops.inspect("asm", target="opencl", wrt=["x"])
    signature = doubles._inspected(None, None)
    assert "OpAtomicIAdd" in stage_text(doubles.captured_source, signature, opencl_target(), "asm")
    for feature, says in (("fp64", "does not have float64"), ("int64_atomics", "32 bits atomically .* not int64")):
        target = opencl_target(name for name in OPENCL_FEATURES if name != feature)
        assert target.key != opencl_target().key
        with pytest.raises(WarpCodegenError, match=says):
            stage_text(doubles.captured_source, signature, target, "asm")
