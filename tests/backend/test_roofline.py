"""Estimates of what bounds a kernel on a GPU."""

from __future__ import annotations

import pytest

from tests.backend.test_sass import TEXT
from warp_like.backend.roofline import LATENCY, MACHINES, cycles, machine_of
from warp_like.backend.sass import parse
from warp_like.backend.target import CUDA_ARCHITECTURES, cuda_target


def test_each_architecture_has_a_machine() -> None:
    names = {arch: machine_of(cuda_target(f"sm_{arch}")).name for arch in CUDA_ARCHITECTURES}
    assert (names[90], names[121]) == (MACHINES[90].name, MACHINES[120].name)


@pytest.mark.parametrize(
    ("registers", "shared", "block", "warps"),
    [(10, 0, 256, 64), (33, 0, 256, 48), (128, 0, 256, 16), (255, 0, 1024, 0), (32, 114 * 1024, 256, 16)],
)  # fmt: skip
def test_warps_of_a_multiprocessor(registers: int, shared: int, block: int, warps: int) -> None:
    assert MACHINES[90].resident_warps(registers, shared, block) == warps


def test_cycles_of_each_part() -> None:
    code, machine = parse(TEXT), MACHINES[90]
    found = cycles(code.code, machine, 64, code.uniform_accesses())
    assert (found["issue"], found["float32"], found["special"], found["multiplication"]) == (10, 1, 8, 2)
    assert found["memory"] == pytest.approx((16 * 32 + 4 + 32) / machine.bytes_a_cycle)
    assert found["latency"] == (LATENCY + 10) / 16
    assert next(iter(found)) == "memory"
    chained = parse(TEXT.replace("LDG.E R6, desc[UR4][R12.64]", "LDG.E R6, desc[UR4][R8.64]"))
    assert cycles(chained.code, machine, 64)["latency"] == (2 * LATENCY + 10) / 16
