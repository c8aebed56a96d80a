"""Builtins that stay functions: once in a module, reached by exactly the threads that call them."""

from __future__ import annotations

import numpy as np
import pytest

import warp_like as wp

F = wp.array(dtype=float)


@wp.kernel
def often(tex: wp.Texture2D, other: wp.Texture1D, x: wp.array(dtype=wp.vec2), out: F):
    i = wp.tid()
    s = wp.texture_sample(tex, x[i], dtype=float)
    s += wp.texture_sample(tex, 2.0 * x[i], dtype=float) + wp.texture_sample(tex, 3.0 * x[i], dtype=float)
    out[i] = s + wp.texture_sample(other, x[i][0], dtype=float) + wp.texture_sample(other, s, dtype=float)


@pytest.mark.parametrize("width", [1, 16])
def test_a_module_has_a_function_once(width):
    kernel = often.with_options({"vector_width": width})
    text = kernel.inspect("llvm")
    defined = [line for line in text.splitlines() if line.startswith("define internal fastcc")]
    assert len(defined) == 2
    assert text.count(" call fastcc ") == 5 * (1 if width == 1 else 2)  # whole vectors, and the last one under a mask
    for line in defined:
        assert ("<16 x float>" in line) == (width == 16)
    ptx = kernel.inspect("ptx", target="sm_80")
    assert ptx.count(".func") >= 2


@wp.kernel
def guarded(textures: wp.array(dtype=wp.Texture2D), use: wp.array(dtype=int), n: wp.array(dtype=int), out: F):
    i = wp.tid()
    tex = textures[i]
    at = wp.vec2(0.5, 0.5)
    out[i] = wp.texture_sample(tex, at, dtype=float) if use[i] == 1 else -1.0
    if use[i] == 1 and n[i] > 0:
        out[i] += wp.texture_sample(tex, at, dtype=float)
    for _k in range(n[i]):
        out[i] += wp.texture_sample(tex, at, dtype=float)


@wp.kernel
def guarded_uniformly(tex: wp.array(dtype=wp.Texture2D), use: wp.array(dtype=int), n: wp.array(dtype=int), out: F):
    i = wp.tid()
    at = wp.vec2(float(i), 0.5)
    first = tex[0]
    out[i] = wp.texture_sample(first, at, dtype=float) if use[i] == 1 else -1.0
    for _k in range(n[i]):
        out[i] += wp.texture_sample(first, wp.vec2(0.5, 0.5), dtype=float)


@pytest.mark.parametrize("width", [0, 1, 8])
def test_ids_that_no_thread_uses_may_be_anything(width):
    """Nothing moves a call to where the program does not make it: not a branch, an expression, nor a loop."""
    real = [wp.Texture2D(np.full((2, 2), k + 1, np.float32)) for k in range(20)]
    record = np.zeros(20, wp.Texture2D.numpy_dtype())
    use, n = np.arange(20, dtype=np.int32) % 3, np.arange(20, dtype=np.int32) % 4
    n[use != 1] = 0
    record["id"] = [int(t.id) if u == 1 else 12345 for t, u in zip(real, use, strict=True)]
    out, held = wp.zeros(20, dtype=float), wp.array(record, dtype=wp.Texture2D)
    wp.launch(guarded, dim=20, inputs=[held, use, n], outputs=[out], options={"vector_width": width})
    value = np.arange(20) + 1
    np.testing.assert_array_equal(out.numpy(), np.where(use == 1, value * (1 + (n > 0) + n), -1))
    none = np.zeros(20, np.int32)
    garbage = wp.array(record[:1], dtype=wp.Texture2D)
    wp.launch(guarded_uniformly, dim=20, inputs=[garbage, none, none], outputs=[out], options={"vector_width": width})
    np.testing.assert_array_equal(out.numpy(), -1)


@wp.kernel
def of_held(textures: wp.array(dtype=wp.Texture2D), out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(textures[i], wp.vec2(0.5, 0.5), dtype=float)


def test_debug_mode_checks_the_ids():
    tex = wp.Texture2D(np.ones((2, 2), np.float32))
    record = np.zeros(2, wp.Texture2D.numpy_dtype())
    record["id"] = [0, int(tex.id)]
    out = wp.zeros(2, dtype=float)
    wp.launch(of_held, dim=2, inputs=[wp.array(record, dtype=wp.Texture2D)], outputs=[out], options={"mode": "debug"})
    assert out.list() == [0.0, 1.0]
    record["id"][0] = 12345
    with pytest.raises(ValueError, match="12345 is not the id of a texture"):
        wp.launch(
            of_held, dim=2, inputs=[wp.array(record, dtype=wp.Texture2D)], outputs=[out], options={"mode": "debug"}
        )
