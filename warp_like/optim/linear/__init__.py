"""Iterative solvers for linear systems: ``import warp_like.optim.linear``, as ``warp.optim.linear``."""

from __future__ import annotations

from warp_like.optim.linear.bicgstab import BiCGSTAB, bicgstab
from warp_like.optim.linear.conjugate import CG, CR, cg, cr
from warp_like.optim.linear.direct import Direct, direct
from warp_like.optim.linear.fsai import FSAI
from warp_like.optim.linear.gmres import GMRES, gmres
from warp_like.optim.linear.operators import LinearOperator, aslinearoperator
from warp_like.optim.linear.preconditioners import preconditioner
from warp_like.optim.linear.state import LinearSolverState

__all__ = [
    "CG",
    "CR",
    "FSAI",
    "GMRES",
    "BiCGSTAB",
    "Direct",
    "LinearOperator",
    "LinearSolverState",
    "aslinearoperator",
    "bicgstab",
    "cg",
    "cr",
    "direct",
    "gmres",
    "preconditioner",
]
