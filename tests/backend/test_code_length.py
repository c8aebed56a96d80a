"""Kernels for CUDA are about as long as what nvcc makes of the same program, and take as many registers.

``code_length.cu`` has the programs in CUDA C++. What nvcc makes of them stands in ``NVCC``, since it is not everywhere
where the assembler and a disassembler are; ``python -m tests.backend.test_code_length`` prints it again, beside ours.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

import warp_like as wp
from tests.cuda_compiling import needs_disassembler
from warp_like.backend import libdevice

ARCH = "sm_90"
MOST = 1.15
"""How much longer than nvcc's our code may be."""

NVCC = {
    "fill": (31, 10),
    "saxpy": (49, 18),
    "saxpy64": (47, 16),
    "copy4": (16, 14),
    "scale4": (21, 14),
    "limit": (54, 12),
    "divide": (136, 16),
    "inverse_root": (117, 14),
    "bell": (27, 12),
    "cells": (52, 12),
    "xorshift": (60, 14),
    "gather": (23, 12),
    "scatter": (23, 12),
    "histogram": (21, 12),
    "integrate": (161, 22),
    "unit": (212, 20),
    "rotate": (41, 20),
    "jacobi": (52, 17),
    "diffuse": (71, 22),
    "product": (210, 32),
    "sparse_product": (120, 32),
    "gravity": (338, 32),
    "mandelbrot": (49, 14),
    "least": (27, 12),
    "jacobi_adjoint": (53, 17),
    "product_adjoint": (186, 32),
}
"""Instructions and registers of each kernel by nvcc 13.0.88 with -O3 for ``ARCH``, assembled by its ptxas."""

LONGER = {
    "product": (1.25, "its loop goes on from one of four rounds that the assembler makes of it"),
    "sparse_product": (3.3, "the assembler makes 16 rounds of its loop, and 4 of nvcc's, which it knows less about"),
    "least": (1.2, "one looks before it writes, and NaN in memory is replaced"),
}
"""Kernels that may be longer: by how much, and why."""

Vec3s, Vec4s, Quats = (wp.array(dtype=t) for t in (wp.vec3, wp.vec4, wp.quat))
Floats, Doubles, Ints, Words = (wp.array(dtype=t) for t in (float, wp.float64, int, wp.uint32))
Table, IntTable, Field = wp.array2d(dtype=float), wp.array2d(dtype=int), wp.array3d(dtype=float)


@wp.kernel
def fill(y: Floats, v: float):
    y[wp.tid()] = v


@wp.kernel
def saxpy(a: float, x: Floats, y: Floats):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def saxpy64(a: wp.float64, x: Doubles, y: Doubles):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def copy4(x: Vec4s, y: Vec4s):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def scale4(x: Vec4s, y: Vec4s, s: float):
    i = wp.tid()
    y[i] = x[i] * s


@wp.kernel
def limit(x: Floats, y: Floats, lo: float, hi: float):
    i = wp.tid()
    y[i] = wp.clamp(x[i], lo, hi)


@wp.kernel
def divide(x: Floats, z: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[i] / z[i]


@wp.kernel
def inverse_root(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = 1.0 / wp.sqrt(x[i])


@wp.kernel
def bell(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = wp.exp(-x[i] * x[i]) * 0.5


@wp.kernel
def cells(x: Floats, y: Ints):
    i = wp.tid()
    y[i] = int(wp.floor(x[i] * 10.0))


@wp.kernel
def xorshift(s: Words):
    i = wp.tid()
    x = s[i]
    x ^= x << wp.uint32(13)
    x ^= x >> wp.uint32(17)
    x ^= x << wp.uint32(5)
    s[i] = x


@wp.kernel
def gather(index: Ints, x: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[index[i]]


@wp.kernel
def scatter(index: Ints, x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_add(y, index[i], x[i])


@wp.kernel
def histogram(x: Ints, h: Ints):
    wp.atomic_add(h, x[wp.tid()], 1)


@wp.kernel
def integrate(x: Vec3s, v: Vec3s, f: Vec3s, m: Floats, dt: float):
    i = wp.tid()
    w = v[i] + f[i] * (dt / m[i])
    v[i] = w
    x[i] = x[i] + w * dt


@wp.kernel
def unit(x: Vec3s, y: Vec3s):
    i = wp.tid()
    y[i] = wp.normalize(x[i])


@wp.kernel
def rotate(q: Quats, v: Vec3s, out: Vec3s):
    i = wp.tid()
    out[i] = wp.quat_rotate(q[i], v[i])


@wp.kernel
def jacobi(a: Table, b: Table):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < a.shape[0] - 1 and j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@wp.kernel
def diffuse(a: Field, b: Field, c: float):
    i, j, k = wp.tid()
    if i > 0 and j > 0 and k > 0 and i < a.shape[0] - 1 and j < a.shape[1] - 1 and k < a.shape[2] - 1:
        s = a[i, j, k - 1] + a[i, j, k + 1] + a[i, j - 1, k] + a[i, j + 1, k] + a[i - 1, j, k] + a[i + 1, j, k]
        b[i, j, k] = a[i, j, k] + c * (s - 6.0 * a[i, j, k])


@wp.kernel
def product(a: Table, b: Table, c: Table):
    i, j = wp.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def sparse_product(offsets: Ints, columns: Ints, values: Floats, x: Floats, y: Floats):
    i = wp.tid()
    s = 0.0
    for k in range(offsets[i], offsets[i + 1]):
        s += values[k] * x[columns[k]]
    y[i] = s


@wp.kernel
def gravity(p: Vec4s, out: Vec3s, eps: float):
    i = wp.tid()
    q = p[i]
    s = wp.vec3()
    for j in range(p.shape[0]):
        r = p[j]
        d = wp.vec3(r[0] - q[0], r[1] - q[1], r[2] - q[2])
        inverse = 1.0 / wp.sqrt(wp.dot(d, d) + eps)
        s += d * (r[3] * inverse * inverse * inverse)
    out[i] = s


@wp.kernel
def mandelbrot(out: IntTable, iterations: int):
    i, j = wp.tid()
    cx = float(j) * 0.001 - 2.0
    cy = float(i) * 0.001 - 1.0
    x = 0.0
    y = 0.0
    count = 0
    for _k in range(iterations):
        if x * x + y * y > 4.0:
            break
        t = x * x - y * y + cx
        y = 2.0 * x * y + cy
        x = t
        count += 1
    out[i, j] = count


@wp.kernel
def least(cell: Ints, x: Floats, m: Floats):
    i = wp.tid()
    wp.atomic_min(m, cell[i], x[i])


KERNELS: dict[str, tuple[wp.Kernel, list[str] | None]] = {
    **{k.key: (k, None) for k in list(globals().values()) if isinstance(k, wp.Kernel)},
    "jacobi_adjoint": (jacobi, ["a", "b"]),
    "product_adjoint": (product, ["a", "b", "c"]),
}
"""The kernels, and adjoints of them with the arrays that have gradients, by the names of nvcc's."""


def instructions(sass: str) -> dict[str, int]:
    """The instructions of each function: without what fills its last line up, and the jump to itself before that."""
    found: dict[str, int] = {}
    name = ""
    for line in sass.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(?:wl_)?(\w+)", line):
            name = section[1]
            found[name] = -1
        elif (code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line)) and not code[1].strip().startswith("NOP"):
            found[name] += 1
    return found


def registers(said: str) -> dict[str, int]:
    """The registers of each function, by what the assembler says about them."""
    pattern = r"Compiling entry function '(?:wl_)?(\w+)'.*?Used (\d+) registers"
    return {name: int(count) for name, count in re.findall(pattern, said, re.DOTALL)}


def ours(name: str) -> tuple[int, int]:
    """Instructions and registers of one of the kernels."""
    kernel, wrt = KERNELS[name]
    ptxas = libdevice.require_ptxas()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(kernel.inspect("ptx", target=ARCH, wrt=wrt))
        command = [str(ptxas), "--verbose", f"--gpu-name={ARCH}", f"--output-file={folder}/kernel.cubin", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    (length,) = instructions(kernel.inspect("sass", target=ARCH, wrt=wrt)).values()
    (used,) = registers(done.stdout + done.stderr).values()
    return length, used


def nvccs() -> dict[str, tuple[int, int]]:
    """Instructions and registers of all kernels by the nvcc that is on ``PATH``."""
    source = Path(__file__).with_name("code_length.cu")
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernels.cubin")
        command = ["nvcc", "-O3", f"-arch={ARCH}", "-cubin", "-Xptxas", "-v", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        tool = [str(libdevice.require_disassembler()), "--print-code", str(cubin)]
        sass = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    counts, used = instructions(sass), registers(done.stdout + done.stderr)
    return {name: (counts[name], used[name]) for name in KERNELS}


@needs_disassembler
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_is_much_longer_than_nvccs(name: str) -> None:
    length, used = ours(name)
    theirs, registers_there = NVCC[name]
    most, _ = LONGER.get(name, (MOST, ""))
    assert length <= most * theirs, f"{length} instructions, nvcc {theirs}"
    assert used <= max(most * registers_there, registers_there + 4), f"{used} registers, nvcc {registers_there}"


def test_every_kernel_has_its_numbers() -> None:
    assert set(NVCC) == set(KERNELS)
    assert set(LONGER) <= set(KERNELS)
    assert len(KERNELS) == 26


if __name__ == "__main__":
    for kernel_name, theirs in nvccs().items():
        length, used = ours(kernel_name)
        ratio = length / theirs[0]
        print(f'    "{kernel_name}": {theirs},  # ours ({length}, {used}), {ratio:.2f} times the instructions')
