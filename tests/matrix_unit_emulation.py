"""What the matrix units of a warp compute, lane by lane, and which banks of shared memory their loads touch.

Written from the PTX ISA: "Matrix Fragments for mma.m8n8k4 with .f64 floating point type", "Matrix Fragments for
mma.m16n8k16 with floating point type", "Warp-level matrix load instruction: ldmatrix". Lanes exchange what they have
as words; a step is computed once for the warp.

How sums of 16-bit floats round is not specified. Measured (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of
NVIDIA tensor cores", 2021), the terms of a step are cut off at a common last digit that the largest one sets, and so is
their sum. Here no term has more digits than float32 has below the largest one: coarser than any of the processors.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LANES, BANKS, BANK_BYTES = 32, 32, 4
ROW_BYTES = 16
"""The bytes of a row of a matrix that ``ldmatrix`` reads; a phase of it has eight."""

KINDS = ("float64", "float16", "bfloat16")
_FMA = ctypes.CDLL("libm.so.6").fma
_FMA.restype, _FMA.argtypes = ctypes.c_double, [ctypes.c_double] * 3

HELPERS = """
declare void @wl_mma(i32, ptr)
declare void @wl_ldmatrix(i32, i32, ptr, ptr)
"""


def _helper(name: str, kind: int, factor: str, factors: int, total: str, sums: int) -> str:
    """A function in LLVM IR that calls ``wl_mma`` with the lane's parts in memory."""
    size = 8 if factor == "double" else 4
    params = [f"{factor} %f{k}" for k in range(factors)] + [f"{total} %c{k}" for k in range(sums)]
    struct = f"{{ {', '.join([total] * sums)} }}"
    lines = [f"define internal {struct} @{name}({', '.join(params)}) {{", f"  %m = alloca [{factors + sums} x i64]"]
    for k, (p, t) in enumerate([(f"%f{k}", factor) for k in range(factors)] + [(f"%c{k}", total) for k in range(sums)]):
        lines += [f"  %p{k} = getelementptr i8, ptr %m, i64 {size * k}", f"  store {t} {p}, ptr %p{k}"]
    lines.append(f"  call void @wl_mma(i32 {kind}, ptr %m)")
    return "\n".join([*lines, *_results(struct, total, [f"%p{factors + k}" for k in range(sums)])])


def _results(struct: str, t: str, places: Sequence[str]) -> list[str]:
    lines, made = [], "poison"
    for k, p in enumerate(places):
        lines += [f"  %r{k} = load {t}, ptr {p}", f"  %s{k} = insertvalue {struct} {made}, {t} %r{k}, {k}"]
        made = f"%s{k}"
    return [*lines, f"  ret {struct} {made}", "}", ""]


def _load(count: int, turned: bool) -> str:
    struct = f"{{ {', '.join(['i32'] * count)} }}"
    name = f"helper.ldmatrix.x{count}{'.trans' if turned else ''}"
    lines = [f"define internal {struct} @{name}(ptr %row) {{", f"  %m = alloca [{count} x i32]"]
    lines.append(f"  call void @wl_ldmatrix(i32 {count}, i32 {int(turned)}, ptr %row, ptr %m)")
    lines += [f"  %p{k} = getelementptr i32, ptr %m, i64 {k}" for k in range(count)]
    return "\n".join([*lines, *_results(struct, "i32", [f"%p{k}" for k in range(count)])])


FUNCTIONS = (
    _helper("helper.mma_f64", 0, "double", 2, "double", 2)
    + _helper("helper.mma_f16", 1, "<2 x half>", 6, "float", 4)
    + _helper("helper.mma_bf16", 2, "i32", 6, "float", 4)
    + "".join(_load(count, turned) for count in (2, 4) for turned in (False, True))
    + HELPERS
)
"""What takes the place of the intrinsics; ``CALLS`` says of which."""

CALLS = {
    "mma.m8n8k4.row.col.f64": "helper.mma_f64",
    "mma.m16n8k16.row.col.f32.f32": "helper.mma_f16",
    "mma.m16n8k16.row.col.bf16": "helper.mma_bf16",
    **{
        f"ldmatrix.sync.aligned.m8n8.x{count}{end}.b16.p3": f"helper.ldmatrix.x{count}{end}"
        for count in (2, 4)
        for end in ("", ".trans")
    },
}


# --- steps ----------------------------------------------------------------------------------------------------


def part_bytes(kind: int) -> int:
    """The bytes of a lane's parts of all three matrices."""
    return 32 if KINDS[kind] == "float64" else 40


def multiply_add(kind: int, parts: Sequence[bytes]) -> list[bytes]:
    """What each lane gets, given the parts of all lanes."""
    assert len(parts) == LANES, "all lanes of a warp take part in mma.sync"
    if KINDS[kind] == "float64":
        return _multiply_add_f64(np.array([np.frombuffer(p, np.float64) for p in parts]))
    halves = np.array([np.frombuffer(p[:24], np.uint16) for p in parts])
    sums = np.array([np.frombuffer(p[24:40], np.float32) for p in parts])
    return _multiply_add_half(_as_float64(halves, KINDS[kind]), sums)


def _multiply_add_f64(parts: np.ndarray) -> list[bytes]:
    a, b = np.empty((8, 4)), np.empty((4, 8))
    for lane in range(LANES):
        a[lane // 4, lane % 4], b[lane % 4, lane // 4] = parts[lane, :2]
    made = []
    for lane in range(LANES):
        row, sums = lane // 4, [float(x) for x in parts[lane, 2:]]
        for i, column in enumerate((lane % 4 * 2, lane % 4 * 2 + 1)):
            for k in range(4):
                sums[i] = _FMA(a[row, k], b[k, column], sums[i])
        made.append(np.array(sums).tobytes())
    return made


def _as_float64(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "float16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _multiply_add_half(factors: np.ndarray, sums: np.ndarray) -> list[bytes]:
    a, b, c = np.empty((16, 16)), np.empty((16, 8)), np.empty((16, 8))
    places = []
    for lane in range(LANES):
        group, member = divmod(lane, 4)
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            a[row, member * 2 + (i & 1) + (8 if i >= 4 else 0)] = factors[lane, i]
        for i in range(4):
            b[member * 2 + (i & 1) + (8 if i >= 2 else 0), group] = factors[lane, 8 + i]
        places.append([(group + (8 if i >= 2 else 0), member * 2 + (i & 1)) for i in range(4)])
        for i, at in enumerate(places[-1]):
            c[at] = sums[lane, i]
    terms = np.concatenate([a[:, None, :] * b.T[None, :, :], c[:, :, None]], axis=2)  # all of them exact
    d = _cut_sum(terms)
    return [np.array([d[at] for at in of_lane], np.float32).tobytes() for of_lane in places]


def _cut_sum(terms: np.ndarray) -> np.ndarray:
    """The sums along the last axis, of terms that have no digit beyond the last one of the largest's 24."""
    if not np.isfinite(terms).all():
        with np.errstate(invalid="ignore"):
            return terms.sum(axis=-1).astype(np.float32)
    _, exponent = np.frexp(np.abs(terms).max(axis=-1))
    total = np.trunc(np.ldexp(terms, (24 - exponent)[..., None])).sum(axis=-1)
    digits, more = np.frexp(np.ldexp(total, exponent - 24))
    with np.errstate(over="ignore"):
        return np.ldexp(np.trunc(np.ldexp(digits, 24)), more - 24).astype(np.float32)


# --- loads ----------------------------------------------------------------------------------------------------


def load_matrices(count: int, turned: bool, addresses: Sequence[int]) -> list[bytes]:
    """What each lane gets of matrices whose rows begin at ``addresses``, one for each lane."""
    assert len(addresses) == LANES, "all lanes of a warp take part in ldmatrix"
    assert all(a % ROW_BYTES == 0 for a in addresses), "rows are aligned"
    rows = [np.frombuffer(ctypes.string_at(a, ROW_BYTES), np.uint16) for a in addresses[: 8 * count]]
    matrices = [np.array(rows[8 * k : 8 * k + 8]) for k in range(count)]
    if turned:
        matrices = [m.T for m in matrices]
    return [
        np.array([m[lane // 4, 2 * (lane % 4) :][:2] for m in matrices], np.uint16).tobytes() for lane in range(LANES)
    ]


def conflicts(accesses: Sequence[tuple[int, int]]) -> int:
    """How often a bank is waited for, in an access of lanes to ``(address, bytes)`` of shared memory.

    A word that several lanes ask for counts once. Accesses of 8 bytes go by half warps, those of 16 by quarters.
    """
    lanes_at_once = LANES * BANK_BYTES // max(BANK_BYTES, max((size for _, size in accesses), default=1))
    waits = 0
    for first in range(0, len(accesses), lanes_at_once):
        words = {
            (address + byte) // BANK_BYTES
            for address, size in accesses[first : first + lanes_at_once]
            for byte in range(0, size, min(size, BANK_BYTES))
        }
        per_bank = np.bincount([w % BANKS for w in words], minlength=BANKS)
        waits += int(per_bank.max()) - math.ceil(len(words) / BANKS)
    return waits


def conflicts_of_rows(count: int, addresses: Sequence[int]) -> int:
    """How often a bank is waited for in ``ldmatrix``: each matrix is a phase of its own."""
    return conflicts([(a, ROW_BYTES) for a in addresses[: 8 * count]])


def copied(address: int, data: Any) -> None:
    """Write bytes to an address."""
    ctypes.memmove(address, data, len(data))
