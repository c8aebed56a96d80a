"""mujoco_warp's humanoid, stage by stage, from MuJoCo's state; MuJoCo itself says what each stage should give."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.public.program import Stage

PACKAGE = "mujoco_warp"

STAGES = {
    "kinematics": ("smooth", "xpos xquat xmat xipos ximat geom_xpos geom_xmat"),
    "com_pos": ("smooth", "subtree_com cinert cdof"),
    "camlight": ("smooth", "cam_xpos light_xpos"),
    "tendon": ("smooth", "ten_length"),
    "crb": ("smooth", "crb"),
    "factor_m": ("smooth", "qLD"),
    "collision": ("collision_driver", ""),
    "make_constraint": ("constraint", ""),
    "transmission": ("smooth", "actuator_length"),
    "com_vel": ("smooth", "cvel cdof_dot"),
    "passive": ("passive", "qfrc_passive"),
    "rne": ("smooth", "qfrc_bias"),
    "fwd_velocity": ("forward", "actuator_velocity"),
    "fwd_actuation": ("forward", "qfrc_actuator"),
    "fwd_acceleration": ("forward", "qacc_smooth"),
    "solve": ("solver", "qacc"),
}
"""Module and results of each function, in their order."""

STATE = ("qpos", "qvel", "ctrl", "qacc_warmstart")
"""What a whole step begins with."""

WORLDS = 2


def stages() -> Iterator[Stage]:
    """The stages of one step, all worlds in the same state."""
    import mujoco
    import mujoco_warp

    path = Path(mujoco_warp.__file__).parent / "test_data" / "humanoid" / "humanoid.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    m = mujoco_warp.put_model(model)
    mujoco.mj_forward(model, data)
    d = mujoco_warp.put_data(model, data, nworld=WORLDS)  # of another state than the one that is computed
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:] = np.linspace(-0.3, 0.3, model.nv)
    data.ctrl[:] = np.linspace(-0.5, 0.5, model.nu)
    mujoco.mj_forward(model, data)
    for name in ("qpos", "qvel", "ctrl"):
        getattr(d, name).assign(np.tile(getattr(data, name).astype(np.float32), (WORLDS, 1)))
    for name, (module, results) in STAGES.items():
        function = getattr(getattr(mujoco_warp._src, module), name)
        yield Stage(
            name,
            functools.partial(function, m, d),
            functools.partial(_results, d, results.split()),
            functools.partial(_expected, d, data, results.split()),
        )
    start = {name: np.tile(getattr(data, name).astype(np.float32), (WORLDS, 1)) for name in STATE}

    def step() -> None:
        for name, value in start.items():
            getattr(d, name).assign(value)
        mujoco_warp.step(m, d)

    mujoco.mj_step(model, data)
    results = ["qpos", "qvel"]
    yield Stage("step", step, functools.partial(_results, d, results), functools.partial(_expected, d, data, results))


def _results(d: Any, names: list[str]) -> dict[str, Any]:
    return {n: getattr(d, n).numpy() for n in names}


def _expected(d: Any, data: Any, names: list[str]) -> dict[str, Any]:
    """MuJoCo's values in the shapes of mujoco_warp, which has room for more in some."""
    found = {}
    for n in names:
        shape = getattr(d, n).numpy().shape
        value = np.asarray(getattr(data, n), dtype=np.float32)
        if value.size * WORLDS == np.prod(shape):
            found[n] = np.broadcast_to(value.reshape(shape[1:]), shape)
    return found
