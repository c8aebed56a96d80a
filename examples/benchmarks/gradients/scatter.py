"""Gather and scatter: two launches, the first of which adds to elements that others add to."""

import numpy as np
from programs import particles
from programs.particles import REST, STIFFNESS

from .problem import Problem, joined, normal, reversed_normal

TIME_STEP = 1.0e-2


def make_move(wp):
    """Return the kernel that moves the points by the forces on them."""

    @wp.kernel
    def move(
        x: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.vec3),
        force: wp.array(dtype=wp.vec3),
        out: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        out[i] = x[i] + TIME_STEP * (v[i] + TIME_STEP * force[i])

    return move


class Springs(Problem):
    """One step of a square cloth: a launch over the springs scatters forces, one over the points moves them."""

    cpp = "springs_gradient"

    def __init__(self, side: int) -> None:
        positions, self.ends = particles.square_cloth(side, np.float32)
        self.name, self.dtypes = f"mass-spring step, {len(self.ends)} springs", ["vec3"] * 2
        self.inputs, self.seed = [positions, reversed_normal(*positions.shape)], normal(*positions.shape)
        self.numbers = (len(self.ends), self.ends)

    def launches(self, wp, inputs, out):
        pull, move = particles.Springs.kernel(wp, wp.float32), make_move(wp)
        ends = wp.array(self.ends, dtype=int)
        force = wp.zeros(len(self.seed), dtype=wp.vec3, requires_grad=True)

        def run():
            wp.launch(pull, dim=len(self.ends), inputs=[inputs[0], ends], outputs=[force])
            wp.launch(move, dim=len(self.seed), inputs=[*inputs, force], outputs=[out])

        return run, [force]

    def function(self, xp, x, v):
        a, b = xp.indices(self.ends[:, 0]), xp.indices(self.ends[:, 1])
        return x + TIME_STEP * (v + TIME_STEP * particles.spring_forces(xp, x, a, b))

    def gradient(self) -> np.ndarray:
        p, w, g = (a.astype(float) for a in (*self.inputs, self.seed))
        a, b = self.ends.T
        d = p[b] - p[a]
        r = np.linalg.norm(d, axis=1)[:, None]
        force = np.zeros_like(p)
        np.add.at(force, a, STIFFNESS * (1.0 - REST / r) * d)
        np.add.at(force, b, -STIFFNESS * (1.0 - REST / r) * d)
        adj_f = TIME_STEP**2 * (g[a] - g[b])
        along = np.sum(adj_f * d, axis=1)[:, None]
        adj_d = STIFFNESS * ((1.0 - REST / r) * adj_f + REST / r**3 * along * d)
        adj_x = g.copy()
        np.add.at(adj_x, b, adj_d)
        np.add.at(adj_x, a, -adj_d)
        return joined(p + TIME_STEP * (w + TIME_STEP * force), adj_x, TIME_STEP * g)
