"""Programs whose second derivatives are compared: products of Hessians, and tapes over kernels that use ``wp.grad``."""

from __future__ import annotations

import dataclasses

from tests.fuzz.gradients import FUNCTIONS, THREADS, GradientWriter, differentiable
from tests.fuzz.program import Program

SLOPES = """\
@wp.func
def hill(a: wp.float64, b: wp.float64):
    if a > wp.float64(0.3):
        return wp.sin(b) * a * a
    return wp.cos(a * b) + a


@wp.func
def bowl(a: wp.float64, b: wp.float64):
    return (a * b + wp.sin(a)) * b + wp.sin(a)


"""
ORACLE = """\
def slopes_hill(a, b):
    if a > wp.float64(0.3):
        return wp.float64(2.0) * wp.sin(b) * a, wp.cos(b) * a * a
    return wp.float64(1.0) - wp.sin(a * b) * b, -(wp.sin(a * b) * a)


def slopes_bowl(a, b):
    return b * b + (b + wp.float64(1.0)) * wp.cos(a), wp.float64(2.0) * a * b + wp.sin(a)
"""


class HessianWriter(GradientWriter):
    """Statements of ``GradientWriter`` and gradients of functions."""

    def __init__(self, seed: int, known: frozenset[str]) -> None:
        super().__init__(seed, known)
        self.budget = self.number(1, 4)
        self.kinds = [k for k in self.kinds if k not in (self.collide, self.returned)] + [self.slope] * 3

    def expression(self, depth: int = 0) -> str:
        return super().expression(max(depth, 1))  # which keeps the code short that is differentiated twice

    def slope(self, depth: int, loop: bool) -> None:
        e, f = self.expression(2), self.expression(2)
        pair = self.pick(["a, b", "a, b", "b, a"])
        self.line(depth, f"{pair} = wp.grad({self.pick(['hill', 'bowl'])})(wp.sin({e}), wp.tanh({f}))")


def hessians(seed: int, known: frozenset[str]) -> Program:
    """A program with second derivatives."""
    w = HessianWriter(seed, known)
    made = differentiable(
        "hessians", w, FUNCTIONS + SLOPES, [f"acc[i % {w.number(1, THREADS)}] += y[i, 1] * a + b * b"]
    )
    return dataclasses.replace(made, oracle=ORACLE, second=True)
