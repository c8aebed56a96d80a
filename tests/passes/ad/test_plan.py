"""The plan of an adjoint: what is recomputed, saved and refused, shown on a few kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import warp_like as wp
from tests.passes.facts import lines_with_notes
from warp_like.base.errors import WarpCodegenError
from warp_like.frontend.build import build_kernel
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import Array, is_differentiable
from warp_like.passes.ad.adjoint import adjoint, plan_adjoint
from warp_like.passes.ad.loops import carried_values
from warp_like.passes.ad.needs import Needs
from warp_like.passes.ad.plan import Plan, Refuse
from warp_like.passes.pipeline import Options, prepare


@wp.func
def cube(v: float):
    return v * v * v


@wp.func_grad(cube)
def adj_cube(v: float, adj_ret: float):
    wp.adjoint[v] += 3.0 * v * v * adj_ret


@wp.kernel
def sums(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    total = wp.float32(0.0)
    for k in range(n):
        total += x[i + k]
    y[i] = total


@wp.kernel
def powers(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v = v * v
    y[i] = v


@wp.kernel
def until_small(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    while v > 0.5:
        v = wp.sin(v)
    y[i] = v


@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    if v > 1.0:
        v = v * v
    else:
        v = 2.0 * v
    y[i] = v


@wp.kernel
def doubled_in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


@wp.kernel
def squared_in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]
    y[i] = x[i]


@wp.kernel
def repeated_in_place(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    for k in range(n):
        if y[k] > 0.0:
            x[i] = x[i] * y[k]


@wp.kernel
def decided(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    factor = wp.float32(2.0)
    if y[i] > 0.0:
        for _ in range(n):
            factor = wp.sin(factor)
    y[i] = 0.0
    x[i] = factor * x[i] * x[i]


@wp.kernel
def own_array(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    own = wp.zeros(shape=(2,), dtype=float)
    own[n] = x[i]
    y[i] = own[0] * own[1]


@wp.kernel
def atomics(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def appended(x: wp.array(dtype=float), y: wp.array(dtype=float), count: wp.array(dtype=int)):
    i = wp.tid()
    y[wp.atomic_add(count, 0, 1)] = x[i]


@wp.kernel
def reads_sums(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, 1.0)
    x[i] = x[i] * y[0]


@wp.kernel
def calls(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cube(x[i])


KERNELS = (
    *(sums, powers, until_small, branches, doubled_in_place, squared_in_place, repeated_in_place, decided),
    *(own_array, atomics, appended, reads_sums, calls),
)


def _plan(kernel: Any) -> Plan:
    f = prepare(build_kernel(kernel.source, tuple(t for _, t in kernel.parameters), wide=False), keep_customs=True)
    wrt = [i for i, p in enumerate(f.params) if isinstance(p.type, Array) and is_differentiable(p.type)]
    return plan_adjoint(f, wrt)


def _text(plan: Plan) -> str:
    """The primal with the decisions, and the arrays of which there are copies."""
    f = plan.primal.f
    copies = ", ".join(f.params[i].hint for i in plan.prelaunch_copies)
    return lines_with_notes(f, _notes(f, plan)) + f"copies: {copies or 'none'}\n"


def _notes(f: Function, plan: Plan) -> dict[Value, str]:
    words = {v: type(d).__name__.lower() for v, d in plan.decisions.items()}
    for o in f.body.walk():
        if isinstance(o, (ops.For, ops.While)) and o.results:
            carried = ", ".join(words.get(c, "-") for c in carried_values(o))
            words[o.results[0]] = f"{words.get(o.results[0], '-')}; carried: {carried}"
    return words


def test_plans(golden: Callable[[str, str], None]) -> None:
    golden("plans", "\n".join(_text(_plan(kernel)) for kernel in KERNELS))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_a_plan_with_a_refusal_is_refused_with_its_reason(kernel: Any) -> None:
    plan = _plan(kernel)
    refused = [d for d in plan.decisions.values() if isinstance(d, Refuse)]
    assert bool(refused) == (kernel in (appended, reads_sums))
    if not refused:
        plan.require_possible()
        return
    with pytest.raises(WarpCodegenError) as caught:
        plan.require_possible()
    assert refused[0].reason in str(caught.value)
    assert refused[0].loc is not None


def test_what_a_plan_missed_is_refused_and_not_read_after_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Needs):
        def _control(self, o: Op | None) -> None:
            """Forget what decides how the control flow goes."""

    monkeypatch.setattr("warp_like.passes.ad.plan.Needs", Forgetful)
    f = prepare(build_kernel(decided.source, tuple(t for _, t in decided.parameters), wide=False))
    with pytest.raises(WarpCodegenError, match=r"the gradient needs this element of `y`"):
        adjoint(f, [0], Options())
