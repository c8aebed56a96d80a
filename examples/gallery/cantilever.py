"""The stiffest cantilever

A beam is held on the left and pulled down on the right. Half of its material is taken
away, where it helps least: a truss remains.

Group: Solids
You learn: finite elements in a few dozen lines: a kernel writes blocks of 2 x 2 for
    ``wp.sparse.bsr_set_from_triplets``, and ``wp.optim.linear.cg`` solves.
Check: the solid beam bends as the theory of S. Timoshenko says, within 2 %; the truss
    is at least 1.1 times as stiff as a plain beam of the same weight.
Method: bilinear elements in plane stress; M. P. Bendsoe, O. Sigmund, "Topology
    optimization", 2003.
"""

from pathlib import Path

import numpy as np
import pictures

import warp_like as wp
from warp_like.optim.linear import cg, preconditioner
from warp_like.sparse import bsr_set_from_triplets, bsr_zeros

POISSON = 0.3  # Young's modulus, the force and the beam's height are 1
SHEAR = 0.5 / (1.0 + POISSON)
LAMBDA = POISSON / (1.0 - POISSON**2)  # of plane stress
ASPECT, SHARE, POWER, WEAKEST = 3, 0.5, 3.0, 1.0e-3
mat22d, vec2d = wp.types.matrix((2, 2), wp.float64), wp.types.vector(2, wp.float64)


@wp.func
def slope(corner: int, x: float, y: float):
    """Return the gradient of a corner's shape function, in element lengths."""
    right = wp.where(corner % 2 == 1, x, 1.0 - x)
    up = wp.where(corner // 2 == 1, y, 1.0 - y)
    sign_x = 2.0 * float(corner % 2) - 1.0
    sign_y = 2.0 * float(corner // 2) - 1.0
    return wp.vec2(sign_x * up, sign_y * right)


@wp.func
def stiffness(a: int, b: int):
    """Return the force on corner ``a`` of an element by a shift of corner ``b``."""
    block = wp.mat22()
    for k in range(4):  # the points of Gauss
        x = 0.5 + wp.where(k % 2 == 0, -0.28867513, 0.28867513)
        y = 0.5 + wp.where(k < 2, -0.28867513, 0.28867513)
        g = slope(a, x, y)
        h = slope(b, x, y)
        both = LAMBDA * wp.outer(g, h) + SHEAR * wp.outer(h, g)
        block += 0.25 * (both + SHEAR * wp.dot(g, h) * wp.identity(2, float))
    return block


@wp.func
def corner_of(element: int, corner: int, wide: int):
    return (element // wide + corner // 2) * (wide + 1) + element % wide + corner % 2


@wp.kernel
def assemble(
    wide: int,
    density: wp.array(dtype=float),
    rows: wp.array(dtype=int),
    columns: wp.array(dtype=int),
    values: wp.array(dtype=mat22d),
):
    """Write the block by which one corner of an element acts on another one."""
    e, a, b = wp.tid()
    i = corner_of(e, a, wide)
    j = corner_of(e, b, wide)
    block = (WEAKEST + (1.0 - WEAKEST) * density[e] ** POWER) * stiffness(a, b)
    if i % (wide + 1) == 0 or j % (wide + 1) == 0:  # the left end does not move
        block = wp.where(a == b, 1.0, 0.0) * wp.identity(2, float)
    at = 16 * e + 4 * a + b
    rows[at] = i
    columns[at] = j
    values[at] = mat22d(block)


@wp.kernel
def measure(wide: int, moved: wp.array(dtype=vec2d), energy: wp.array(dtype=float)):
    """Write the energy in each element, if it were solid."""
    e = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable of the loop, for Warp too
    first = moved[corner_of(e, 0, wide)]
    for a in range(4):
        u = wp.vec2(moved[corner_of(e, a, wide)] - first)
        for b in range(4):
            v = wp.vec2(moved[corner_of(e, b, wide)] - first)
            total += wp.dot(u, stiffness(a, b) * v)
    energy[e] = wp.max(total, 0.0)


class Scene:
    """A beam of square elements; each step moves material to where it helps."""

    def __init__(self, quick: bool = False):
        self.high = 24 if quick else 40
        self.wide = ASPECT * self.high
        count, corners = self.high * self.wide, (self.high + 1) * (self.wide + 1)
        self.density = wp.full(count, SHARE, dtype=float)
        self.energy = wp.zeros(count, dtype=float)
        self.rows, self.columns = (wp.zeros(16 * count, dtype=int) for _ in range(2))
        self.values = wp.zeros(16 * count, dtype=mat22d)
        self.A = bsr_zeros(corners, corners, mat22d)
        self.force = np.zeros((self.high + 1, self.wide + 1, 2))
        self.pull(0.1)
        self.moved = wp.zeros(corners, dtype=vec2d)

    def pull(self, share: float) -> None:
        """Spread the force over a share of the right end, around its middle."""
        force = self.force[:, -1, 1]
        height = np.abs(np.linspace(-1.0, 1.0, self.high + 1))
        force[:] = -1.0 * (height <= share)
        force[[0, -1]] *= 0.5
        force /= -force.sum()

    def bend(self) -> float:
        """Solve for the shifts, and return how far the force moves."""
        entries = [self.rows, self.columns, self.values]
        shape = (len(self.density), 4, 4)
        inputs = [self.wide, self.density]
        wp.launch(assemble, dim=shape, inputs=inputs, outputs=entries)
        bsr_set_from_triplets(self.A, *entries)
        force = wp.array(self.force.reshape(-1, 2), dtype=vec2d)
        M = preconditioner(self.A, "diag")
        cg(self.A, force, self.moved, tol=1e-5, maxiter=8000, check_every=50, M=M)
        return float((self.moved.numpy() * force.numpy()).sum())

    def step(self) -> float:
        """Improve the beam, and return how far the force moved before."""
        compliance = self.bend()
        inputs = [self.wide, self.moved]
        wp.launch(measure, dim=len(self.energy), inputs=inputs, outputs=[self.energy])
        old = self.density.numpy().reshape(self.high, self.wide)
        use = self.energy.numpy().reshape(old.shape) * old**POWER
        use = smooth(use) / old
        low, high = 0.0, float(use.max())
        while high - low > 1e-5 * high:  # a price of material, for which the share fits
            price = 0.5 * (low + high)
            change = np.clip(old * np.sqrt(use / price), old - 0.2, old + 0.2)
            new = np.clip(change, 0.01, 1.0)
            low, high = (price, high) if new.mean() > SHARE else (low, price)
        self.density.assign(new.ravel())
        return compliance

    def image(self, scale: int) -> np.ndarray:
        share = self.density.numpy().reshape(self.high, self.wide)[::-1]
        shades = pictures.colours(share, "ice", 0.0, 1.0)
        return shades.repeat(scale, axis=0).repeat(scale, axis=1)


def smooth(use: np.ndarray, reach: int = 2) -> np.ndarray:
    """Return the mean around each element, so that no chessboards appear."""
    total, weights = np.zeros_like(use), 0.0
    padded = np.pad(use, reach, mode="edge")
    for i, j in np.ndindex(2 * reach + 1, 2 * reach + 1):
        weight = max(0.0, reach - np.hypot(i - reach, j - reach))
        total += weight * padded[i : i + use.shape[0], j : j + use.shape[1]]
        weights += weight
    return total / weights


def main(quick: bool, out: Path) -> None:
    solid = Scene(quick)
    solid.density.fill_(1.0)
    solid.pull(1.0)
    found = solid.bend()
    theory = 4.0 * ASPECT**3 + ASPECT / (5.0 / 6.0 * SHEAR)
    scene, frames, bends = Scene(quick), [], []
    for _ in pictures.progress(22 if quick else 70, "step"):
        frames.append(scene.image(4))
        bends.append(scene.step())
    stiffer = bends[0] * SHARE ** (POWER - 1.0) / bends[-1]
    print(
        f"The solid beam bends by {found:.2f}, in theory by {theory:.2f}; the truss is "
        f"{stiffer:.2f} times as stiff as a plain beam"
    )
    pictures.require(abs(found / theory - 1.0) < 0.02, f"the beam bends by {found:.2f}")
    pictures.require(stiffer > 1.1, f"the truss is only {stiffer:.2f} times as stiff")
    pictures.save_gif(out / "cantilever.gif", frames, seconds=5.0, shades=32)


if __name__ == "__main__":
    main(**pictures.options())
