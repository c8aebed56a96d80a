"""``Kernel.explain`` for a CUDA architecture."""

from __future__ import annotations

import pytest

import warp_like as wp
from tests.backend.test_sass import TEXT
from tests.cuda_compiling import needs_disassembler
from warp_like.backend.nvptx import Assembled
from warp_like.backend.target import cuda_target
from warp_like.runtime.kernels.cuda_explanation import explain


@wp.kernel(lineinfo=True)
def gravity(p: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    s = wp.vec3()
    for j in range(p.shape[0]):
        d = wp.vec3(p[j][0] - p[i][0], p[j][1] - p[i][1], p[j][2] - p[i][2])
        s += d * (p[j][3] / wp.pow(wp.dot(d, d) + 0.1, 1.5))
    out[i] = s


def test_what_it_says() -> None:
    said = explain("k", cuda_target("sm_90"), Assembled(b"", 33, 8, 0), TEXT, 256)
    assert (said.warps, said.most_warps, said.spilled) == (48, 64, 8)
    whole, loop = said.parts
    assert (whole.loads, whole.stores, whole.bound) == ({128: 1, 32: 1}, {8: 1}, "memory")
    assert (loop.name, sum(loop.instructions.values()), loop.loads) == ("loop line 9", 4, {32: 1})
    text = str(said)
    assert "kernel `k` for sm_90, estimated for H100 SXM 80 GB" in text
    assert "33 a thread, 8 bytes spilled" in text
    assert "loads     1 of 32 bits, 1 of 128 bits" in text
    assert said._repr_html_().startswith("<pre>")


@needs_disassembler
def test_a_kernel() -> None:
    said = gravity.explain(target="sm_90")
    assert (said.kernel, said.target, said.block_dim, said.spilled) == ("gravity", "sm_90", 256, 0)
    assert 8 <= said.registers <= 64
    assert {128} <= set(said.parts[0].loads)
    assert said.parts[1].bound != "memory"  # all lanes read the same body
    assert sum(gravity.explain(target="sm_80", wrt=["p", "out"]).parts[0].updates.values()) > 0


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match='explain.. tells of the machine code of CUDA architectures such as "sm_90"'):
        gravity.explain(target="cpu")
    with pytest.raises(ValueError, match="kernel `gravity` has no parameter `q`; it has p, out"):
        gravity.explain(target="sm_90", wrt=["q"])
