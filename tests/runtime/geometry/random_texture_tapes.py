"""Random tapes over arrays and textures that are made and copied in between, beside their Jacobians in float64.

Every step is linear, so the oracle keeps for each array and texture the numbers and how they depend on the first ones.
``check(seed)`` raises where numbers or gradients differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import warp_like as wp

N, ARRAYS, TEXTURES = 4, 3, 4
F = wp.array(dtype=float)


@wp.kernel
def scale(a: F, by: float, out: F):
    i = wp.tid()
    out[i] = by * a[i]


@wp.kernel
def add(a: F, by: float, out: F):
    i = wp.tid()
    out[i] += by * a[i]


@wp.kernel
def sample(tex: wp.Texture1D, out: F):
    i = wp.tid()
    out[i] = wp.texture_sample(tex, (float(i) + 0.5) / 4.0, dtype=float)


@wp.kernel
def add_samples(tex: wp.Texture1D, out: F):
    i = wp.tid()
    wp.atomic_add(out, 3 - i, wp.texture_sample(tex, (float(i) + 0.5) / 4.0, dtype=float))


class Known(NamedTuple):
    """Numbers, and their derivatives by all first numbers."""

    values: Any
    slopes: Any

    def __add__(self, other: Known) -> Known:  # type: ignore[override]
        return Known(self.values + other.values, self.slopes + other.slopes)

    def times(self, by: float) -> Known:
        return Known(by * self.values, by * self.slopes)


class State:
    """The arrays and textures of a program, and what is known of each."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        first = rng.normal(size=(ARRAYS, N)).astype(np.float32)
        rows = np.eye(ARRAYS * N).reshape(ARRAYS, N, -1)
        self.arrays = [wp.array(x, dtype=float, requires_grad=True) for x in first]
        self.of_arrays = [Known(x.astype(np.float64), row) for x, row in zip(first, rows, strict=True)]
        self.textures: list[Any] = []
        self.of_textures: list[Known] = []
        self.sampled: set[int] = set()  # which the tape needs as they were then

    def make(self, k: int) -> None:
        """Make a texture of array ``k``, or of its numbers alone."""
        known, follows = self.of_arrays[k], self.rng.random() < 0.8
        self.textures.append(wp.Texture1D(self.arrays[k] if follows else self.arrays[k].numpy()))
        self.of_textures.append(known if follows else Known(known.values, known.slopes * 0))

    def step(self) -> None:
        """Take one step, or none where what was drawn can't be done."""
        rng, count = self.rng, len(self.textures)
        kind, a, b = int(rng.integers(7)), int(rng.integers(ARRAYS)), int(rng.integers(ARRAYS))
        t, s = (int(rng.integers(max(count, 1))) for _ in range(2))
        by = float(np.round(rng.normal(), 2))
        if kind < 2 and a != b:
            wp.launch((scale, add)[kind], N, inputs=[self.arrays[a], by], outputs=[self.arrays[b]])
            new = self.of_arrays[a].times(by)
            self.of_arrays[b] = new + self.of_arrays[b] if kind else new
        elif kind == 2 and count < TEXTURES:
            self.make(a)
        elif kind in (3, 4) and count:
            wp.launch((sample, add_samples)[kind - 3], N, inputs=[self.textures[t]], outputs=[self.arrays[b]])
            known = self.of_textures[t]
            turned = Known(known.values[::-1], known.slopes[::-1])
            self.of_arrays[b] = known if kind == 3 else turned + self.of_arrays[b]
            self.sampled.add(t)
        elif kind == 5 and count and t not in self.sampled:
            if rng.random() < 0.5:
                self.textures[t].copy_from(self.arrays[a])
                self.of_textures[t] = self.of_arrays[a]
            elif s != t:
                self.textures[t].copy_from(self.textures[s])
                self.of_textures[t] = self.of_textures[s]
        elif kind == 6 and count:
            self.textures[t].copy_to(self.arrays[b])
            self.of_arrays[b] = self.of_textures[t]


def check(seed: int) -> None:
    """Run a program and its backward pass, twice, and compare."""
    rng = np.random.default_rng(seed)
    state = State(rng)
    for _ in range(int(rng.integers(3))):
        state.make(int(rng.integers(ARRAYS)))
    with wp.Tape() as tape:
        for _ in range(int(rng.integers(2, 9))):
            state.step()
    for a, known in zip(state.arrays, state.of_arrays, strict=True):
        np.testing.assert_allclose(a.numpy(), known.values, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")
    weights = rng.normal(size=(ARRAYS, N)).astype(np.float32)
    wanted = sum(known.slopes.T @ w for known, w in zip(state.of_arrays, weights, strict=True)).reshape(ARRAYS, N)
    for _ in range(2 if tape.launches else 0):
        for a, w in zip(state.arrays, weights, strict=True):
            a.grad.assign(w)
        tape.backward()
        found = np.stack([a.grad.numpy() for a in state.arrays])
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3, err_msg=f"seed {seed}")
