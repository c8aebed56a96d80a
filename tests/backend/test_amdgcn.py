"""Code for AMD's GPUs: what it computes, run on the CPU with wavefronts of 64 lanes, and the objects of LLVM."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.cuda_emulation import Context, CudaKernel
from tests.long_tail import tail
from warp_like.analysis.memory import analyse
from warp_like.backend import ocml
from warp_like.backend.target import AMD_ARCHITECTURES, amd_target
from warp_like.base.errors import WarpCodegenError
from warp_like.compiler import pipeline
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature

ARCH = "gfx942"
NAMES = list(AMD_ARCHITECTURES)


def emulated(kernel: Any, **changes: Any) -> CudaKernel:
    """The code of a kernel, or of its adjoint, as launches with arrays apart from each other would run it."""
    signature = Signature(tuple(t for _, t in kernel.declared), sums=True, **changes)
    f = pipeline.optimised(kernel.source, signature)
    return CudaKernel(f, pipeline._lowering(signature, analyse(f), amd_target(ARCH)), ARCH)


@wp.kernel
def together(
    x: wp.array(dtype=float), n: wp.array(dtype=wp.uint64), found: wp.array2d(dtype=float), votes: wp.array2d(dtype=int)
):
    i = wp.tid()
    found[0, i] = wp.warp_sum(x[i])
    found[1, i] = wp.block_max(x[i])
    found[2, i] = wp.warp_shuffle_up(x[i], 3)
    found[3, i] = wp.warp_shuffle_down(x[i], 40)
    found[4, i] = wp.warp_shuffle_xor(x[i], 33)
    found[5, i] = wp.warp_shuffle(x[i], 70)
    s = wp.shared_array(shape=(256,), dtype=float)
    s[wp.block_thread()] = x[i]
    wp.block_sync()
    found[6, i] = s[wp.block_size() - 1 - wp.block_thread()]
    votes[0, i] = int(wp.warp_any(x[i] > 2.0)) + 2 * int(wp.warp_all(x[i] > -2.0))
    votes[1, i] = wp.warp_lane() + 1000 * wp.warp_size()
    n[i] = wp.block_sum(n[i])


@pytest.mark.parametrize(("n", "blocks", "threads"), [(128, 1, 128), (1, 1, 64), (200, 1, 128), (100, 2, 70)])
def test_wavefronts_have_64_lanes(n: int, blocks: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal(n).astype(np.float32), rng.integers(0, 2**64, n, dtype=np.uint64)
    found, votes, total = np.zeros((7, n), np.float32), np.zeros((2, n), np.int32), k.copy()
    kernel = emulated(together)
    kernel.in_blocks([x, total, found, votes], (n,), blocks, threads)
    for first in range(0, n, threads):
        block = np.arange(first, min(first + threads, n))
        np.testing.assert_array_equal(found[1][block], x[block].max())
        np.testing.assert_array_equal(found[6][block], x[block][::-1])
        np.testing.assert_array_equal(total[block], k[block].sum(dtype=np.uint64))
        for start in range(0, len(block), 64):
            warp = block[start : start + 64]
            lane, own = np.arange(len(warp)), x[warp]
            np.testing.assert_allclose(found[0][warp], own.astype(np.float64).sum(), rtol=1e-5, atol=1e-5)
            for row, other in ((2, lane - 3), (3, lane + 40), (5, lane + 1000)):
                there = (other >= 0) & (other < len(warp))
                np.testing.assert_array_equal(found[row][warp], np.where(there, own[other % len(warp)], own))
            if len(warp) == 64:
                np.testing.assert_array_equal(found[4][warp], own[lane ^ 33])
            want = int((own > 2.0).any()) + 2 * int((own > -2.0).all())
            np.testing.assert_array_equal(votes[0][warp], want)
            np.testing.assert_array_equal(votes[1][warp], lane + 64000)


@wp.kernel
def updates(
    x: wp.array2d(dtype=float), s: wp.array(dtype=float), m: wp.array(dtype=float), n: wp.array(dtype=wp.int64)
):
    i, j = wp.tid()
    wp.atomic_add(s, 0, x[i, j] * x[i, j])
    wp.atomic_max(m, j, x[i, j])
    wp.atomic_add(n, i, wp.int64(j))


@pytest.mark.parametrize("whole", [True, False])
def test_sums_and_updates(whole: bool) -> None:
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    s, m, n = np.zeros(1, np.float32), np.full(64, -9.0, np.float32), np.zeros(4, np.int64)
    emulated(updates).in_blocks([x, s, m, n], x.shape, 2, 128, whole=whole)
    np.testing.assert_allclose(s, [(x.astype(np.float64) ** 2).sum()], rtol=1e-5)
    np.testing.assert_array_equal(m, x.max(axis=0))
    np.testing.assert_array_equal(n, np.full(4, 64 * 63 // 2))


@wp.kernel
def kept(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    own = wp.zeros(shape=3, dtype=float)
    for k in range(n):
        own[k % 3] += s
        s = s * s * x[i]
    y[i] = s + own[i % 3]


def test_an_adjoint_with_a_stack() -> None:
    x, threads = np.linspace(0.3, 0.9, 7).astype(np.float32), 3
    adj_x, adj_y, h = np.zeros_like(x), np.ones_like(x), 1e-6
    context = Context(capacity=256, threads=2 * threads)
    adjoint = emulated(kept, wrt=(0, 1))
    adjoint([x, np.zeros_like(x), 4, adj_x, adj_y], (7,), context, 2, threads)

    def plain(a: np.ndarray) -> np.ndarray:
        s, own = a.copy(), np.zeros((3, 7))
        for k in range(4):
            own[k % 3] += s
            s = s * s * a
        return s + own[np.arange(7) % 3, np.arange(7)]

    wide = x.astype(np.float64)
    np.testing.assert_allclose(adj_x, (plain(wide + h) - plain(wide - h)) / (2 * h), rtol=1e-4)


def sections(data: bytes) -> dict[str, tuple[int, ...]]:
    """The headers of an ELF object's sections by name: type, offset, size, link and info."""
    (at,), (count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<2H", data, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i) for i in range(count)]
    start = headers[names][4]

    def name(offset: int) -> str:
        return data[start + offset : data.index(b"\0", start + offset)].decode()

    return {name(h[0]): (h[1], h[4], h[5], h[6], h[7]) for h in headers}


def symbols(data: bytes) -> Iterator[tuple[str, int, int]]:
    """The symbols of an ELF object: name, the number of the section (0 where it is elsewhere), and size."""
    found = sections(data)
    _, at, size, _, _ = found[".symtab"]
    names = found[".strtab"][1]
    for i in range(size // 24):
        name, _, _, section, _, length = struct.unpack_from("<IBBHQQ", data, at + 24 * i)
        yield data[names + name : data.index(b"\0", names + name)].decode(), section, length


def made(kernel: Any, arch: str = ARCH, **changes: Any) -> Artifact:
    signature = Signature(tuple(t for _, t in kernel.declared), sums=True, **changes)
    return pipeline.build(kernel.source, signature, amd_target(arch))


@pytest.mark.parametrize("arch", [ARCH, "gfx1100", *map(tail, (a for a in NAMES if a not in (ARCH, "gfx1100")))])
@pytest.mark.parametrize(("kernel", "wrt"), [(together, None), (updates, None), (updates, (0, 1)), (kept, (0, 1))])
def test_objects(kernel: Any, wrt: tuple[int, ...] | None, arch: str) -> None:
    artifact = made(kernel, arch, wrt=wrt)
    data, entry = artifact.code.binary, artifact.code.entry
    assert data[:5] == b"\x7fELF\x02"
    assert struct.unpack_from("<HH", data, 16) == (1, 224), "a relocatable object for AMDGPU"
    assert data[7:9] == b"\x40\x03", "for HSA, code object version 5"
    found = {name: (section, size) for name, section, size in symbols(data) if name}
    assert [name for name, (section, _) in found.items() if not section] == [], "nothing is to be found elsewhere"
    assert found[entry][1] > 100
    assert found[f"{entry}.kd"][1] == 64
    _, at, size, _, _ = sections(data)[".rodata"]
    assert size == 64
    shared, private, arguments = struct.unpack_from("<3I", data, at)
    (uses,) = struct.unpack_from("<H", data, at + 56)
    assert not uses & 1 << 10, "64 lanes"
    assert arguments >= 200 + 8 * 2 * artifact.stack.used + 256, "implicit arguments behind our own"
    if kernel is together:
        assert shared == 256 * 4 + 32 * 8, "the array, and a place for each warp"
    assert private == 0 or kernel is kept
    note = data[slice(*np.cumsum(sections(data)[".note"][1:3]))]
    assert b".wavefront_size@" in note, "MessagePack of 64"
    assert f"{entry}.kd".encode() in note


@wp.kernel
def functions(x: wp.array(dtype=float), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = wp.sin(x[i]) + wp.pow(x[i], 0.3) + wp.exp(wp.sqrt(x[i]))
    y[i] = wp.erf(y[i]) + wp.atan2(y[i], y[i])


def test_math(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(0.1, 3.0, 9)
    a, b = x.astype(np.float32), x.copy()
    emulated(functions)([a, b], (9,))
    np.testing.assert_allclose(a, np.sin(x) + x**0.3 + np.exp(np.sqrt(x)), rtol=1e-6)
    names = re.findall(r"@__ocml_(\w+)\(", functions.inspect("llvm", target=ARCH))
    assert set(names) == {"sin_f32", "pow_f32", "exp_f32", "erf_f64", "atan2_f64"}
    ocml.find_ocml.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(ocml, "_places", lambda: iter(()))
        with pytest.raises(RuntimeError, match=r"AMD's GPUs needs ocml.bc for __ocml_atan2_f64, .*; install ROCm or"):
            functions.inspect("asm", target=ARCH)
    ocml.find_ocml.cache_clear()
    assert "@__oclc_ISA_version = linkonce_odr hidden unnamed_addr addrspace(4) constant i32 9402" in ocml.controls(
        amd_target("gfx942"), flushes=False
    )
    if ocml.find_ocml() is not None:
        assert not [name for name, section, _ in symbols(made(functions).code.binary) if name and not section]


@wp.kernel
def prints(x: wp.array(dtype=float)):
    print(x[wp.tid()])


@wp.kernel
def ballot(x: wp.array(dtype=wp.uint32)):
    i = wp.tid()
    x[i] = wp.warp_ballot(i == 3)


def test_what_is_shown_and_refused() -> None:
    text = updates.inspect("asm", target=ARCH)
    assert '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"' in text
    assert "ds_bpermute_b32" in text
    assert "s_barrier" in text
    with pytest.raises(WarpCodegenError, match="kernels on AMD's GPUs can't print"):
        prints.inspect("asm", target=ARCH)
    with pytest.raises(WarpCodegenError, match="can't tell in 32 bits which of the 64 lanes"):
        ballot.inspect("llvm", target=ARCH)
    with pytest.raises(ValueError, match="no AMD architecture 'gfx7'"):
        updates.inspect("asm", target="gfx7")
    with pytest.raises(ValueError, match="PTX needs a CUDA target"):
        updates.inspect("ptx", target=ARCH)
    with pytest.raises(ValueError, match="explain.. tells of the machine code of CUDA"):
        updates.explain(target=ARCH)
