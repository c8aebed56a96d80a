"""Spatial vectors, of six numbers: the first three are angular, the last three linear.

The formulas are those of Featherstone (2008), Rigid Body Dynamics Algorithms, chapter 2. ``wp.spatial_vector`` is the
type, a vector of 6, made of six numbers or of two vectors of 3.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import numpy as np

from warp_like.builtins import rigid
from warp_like.builtins.device import spatial as device
from warp_like.builtins.patterns import TF, V3, V6, F, MatOf
from warp_like.builtins.spec import Expand, Inline, builtin

GROUP = "Spatial Math"
M33, M66 = MatOf(3, 3, F), MatOf(6, 6, F)


@builtin(group=GROUP, lower=Inline(device.top), ref=lambda svec: svec[:3])
def spatial_top(svec: V6) -> V3:
    """Return the angular part, the first three numbers."""


@builtin(group=GROUP, lower=Inline(device.bottom), ref=lambda svec: svec[3:])
def spatial_bottom(svec: V6) -> V3:
    """Return the linear part, the last three numbers."""


@builtin(name="_stacked", group=GROUP, lower=Inline(device.stacked), ref=np.append)
def stacked(top: V3, bottom: V3) -> V6:
    """Return the spatial vector of two parts."""


@builtin(group=GROUP, lower=Expand(lambda b, x, y: b.dot(x, y)), ref=np.dot)
def spatial_dot(a: V6, b: V6) -> F:
    """Return the dot product of two spatial vectors: of a twist and a wrench, the power."""


@builtin(group=GROUP, lower=Inline(device.motion_cross), ref=rigid.motion_cross)
def spatial_cross(a: V6, b: V6) -> V6:
    """Return the cross product of two twists: the change of ``b`` when it moves with ``a``."""


@builtin(group=GROUP, lower=Inline(device.force_cross), ref=rigid.force_cross)
def spatial_cross_dual(a: V6, b: V6) -> V6:
    """Return the cross product of a twist and a wrench: the change of ``b`` when it moves with ``a``."""


@builtin(group=GROUP, lower=Inline(device.adjoint), ref=rigid.adjoint)
def spatial_adjoint(r: M33, s: M33) -> M66:
    """Return the 6x6 matrix of blocks ``r, 0`` above ``s, r``."""


@builtin(group=GROUP, lower=Inline(device.velocity), ref=lambda qd, r: np.cross(qd[:3], r) + qd[3:])
def velocity_at_point(qd: V6, r: V3) -> V3:
    """Return the velocity of the point ``r`` of a body with twist ``qd``: ``cross(w, r) + v``."""


@builtin(group=GROUP, lower=Inline(device.twist), ref=rigid.twist)
def transform_twist(t: TF, x: V6) -> V6:
    """Return twist ``x`` of a frame in the frame that ``t`` leads to: ``R w`` and ``R v + cross(p, R w)``."""


@builtin(group=GROUP, lower=Inline(device.wrench), ref=rigid.wrench)
def transform_wrench(t: TF, x: V6) -> V6:
    """Return wrench ``x`` of a frame in the frame that ``t`` leads to: ``R m + cross(p, R f)`` and ``R f``."""
