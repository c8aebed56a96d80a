"""Tapes, tangents and jacobians: derivatives of launches."""

from __future__ import annotations

from warp_like.runtime.launching.derivative_hooks import AdjointLaunches, adjoint_launches


def _load() -> AdjointLaunches:
    from warp_like.runtime.autodiff import adjoint_launch  # not loaded unless a program differentiates

    return adjoint_launch


adjoint_launches.register(_load)
