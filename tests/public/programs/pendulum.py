"""newton's double pendulum: three solvers, and the gradient of a short run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.public.program import Stage

PACKAGE = "newton"
STEPS = 20
SOLVERS = ("SolverXPBD", "SolverSemiImplicit", "SolverFeatherstone")


def _model(requires_grad: bool = False) -> Any:
    import newton
    import warp as wp

    builder = newton.ModelBuilder()
    links = [builder.add_link(), builder.add_link()]
    for link in links:
        builder.add_shape_box(link, hx=1.0, hy=0.1, hz=0.1)
    end, other = wp.transform(wp.vec3(-1.0, 0.0, 0.0)), wp.transform(wp.vec3(1.0, 0.0, 0.0))
    turned = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), -0.5 * wp.pi)
    axis = wp.vec3(0.0, 1.0, 0.0)
    above = wp.transform(wp.vec3(0.0, 0.0, 5.0), turned)
    joints = [
        builder.add_joint_revolute(parent=-1, child=links[0], axis=axis, parent_xform=above, child_xform=end),
        builder.add_joint_revolute(parent=links[0], child=links[1], axis=axis, parent_xform=other, child_xform=end),
    ]
    builder.add_articulation(joints, label="pendulum")
    return builder.finalize(requires_grad=requires_grad)


class Simulation:
    """A pendulum that starts at rest each time."""

    def __init__(self, solver: str, requires_grad: bool = False) -> None:
        import newton

        self.model = _model(requires_grad)
        self.solver = getattr(newton.solvers, solver)(self.model)
        self.control = self.model.control()
        self.states: list[Any] = []

    def run(self) -> None:
        """Simulate from the start."""
        import newton

        self.states = [self.model.state() for _ in range(STEPS + 1)]
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, self.states[0])
        for before, after in zip(self.states, self.states[1:], strict=False):
            before.clear_forces()
            self.solver.step(before, after, self.control, None, 0.001)

    def results(self) -> dict[str, Any]:
        """Where the links are."""
        return {"body_q": self.states[-1].body_q.numpy(), "body_qd": self.states[-1].body_qd.numpy()}

    def gradient(self) -> None:
        """The gradient of the sum of all positions."""
        import warp as wp

        with wp.Tape() as tape:
            self.run()
        ends = self.states[-1].body_q
        tape.backward(
            grads={ends: wp.full_like(ends, wp.transform(wp.vec3(1.0, 1.0, 1.0), wp.quat(0.0, 0.0, 0.0, 0.0)))}
        )
        self.gradients = {"joint_q": self.model.joint_q.grad.numpy(), "joint_qd": self.model.joint_qd.grad.numpy()}
        tape.zero()


def stages() -> Iterator[Stage]:
    """A stage for each solver, and one for the gradient."""
    for name in SOLVERS:
        simulation = Simulation(name)
        yield Stage(name, simulation.run, simulation.results)
    recorded = Simulation("SolverSemiImplicit", requires_grad=True)
    yield Stage("gradient", recorded.gradient, lambda: recorded.gradients)
