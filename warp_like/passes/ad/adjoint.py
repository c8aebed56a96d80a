"""The adjoint of a prepared kernel, in three steps: a reverse sweep, a plan of how it gets its values, the code.

1. ``reverse`` writes the reverse sweep, whose ops name the values of the kernel. An op without a gradient is refused.
2. ``plan`` decides for each value that the sweep needs whether it is recomputed, saved or refused.
3. ``emission`` emits the adjoint: one kernel, with a forward sweep and then the reverse sweep.

``differentiate``, shown below, relies on a function without plain calls, structs and builtins that have neither rule
nor backend. It leaves recomputed values that nobody needs to ``dce``.

Before::

    kernel k(%x: array1d[float32], %y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      store %y[%0], %2
      yield
    }

After::

    adjoint k(%x: array1d[float32], %y: array1d[float32], %adj_x: array1d[float32], %adj_y: array1d[float32]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : float32
      %2 = mul %1, %1 : float32
      %3 = constant 0.0 : float32
      %4 = load %adj_y[%0] : float32
      store %adj_y[%0], %3
      %5 = mul %4, %1 : float32
      %6 = mul %4, %1 : float32
      %7 = add %5, %6 : float32
      %8 = atomic_add %adj_x[%0], %7 : float32
      yield
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.builtins.spec import Overload
from warp_like.ir.core import Function, Value
from warp_like.ir.rewrite import clone_function, substitute
from warp_like.ir.types import adjoint_type
from warp_like.passes import pipeline
from warp_like.passes.ad.checkpoint import split_loops
from warp_like.passes.ad.emission import emit
from warp_like.passes.ad.functions import lower_replayed
from warp_like.passes.ad.hoist import hoist_loads
from warp_like.passes.ad.markers import require_recomputable
from warp_like.passes.ad.order import in_order
from warp_like.passes.ad.plan import Plan
from warp_like.passes.ad.primal import Primal
from warp_like.passes.ad.reverse import reverse_kernel
from warp_like.passes.ad.sweep import Sweep
from warp_like.passes.bodies import body_of
from warp_like.passes.expand import expand
from warp_like.passes.runner import Runner


def adjoint(
    f: Function,
    wrt: Sequence[int],
    options: pipeline.Options,
    same: Sequence[tuple[int, int]] = (),
    alone: bool = False,
    objects: bool = True,
) -> Function:
    """Return the adjoint of ``f`` with respect to its parameters ``wrt``.

    The parameters are those of ``f``, an array of adjoints for each of ``wrt``, and a copy from before the launch of
    each array whose position is in the result's ``prelaunch_copies``.

    ``same`` lists pairs of parameters that are one array, later one first; all accesses then go to the first. ``alone``
    asks for the adjoint of a grid of one thread, whose atomics have an order. With ``objects``, gradients go to the
    memory of objects, too.

    Raises:
        WarpCodegenError: ``f`` can't be differentiated.
    """
    run = Runner("adjoint", clone_function(f), options)
    run("lower_replayed", lower_replayed)
    run("expand_for_adjoint", lambda g: expand(g, needs_expansion))
    if same:
        run("merge_parameters", lambda g: merge_parameters(g, same))
    run("in_order", lambda g: in_order(g, alone))
    run("hoist_loads", hoist_loads)
    if options.checkpoint_loops and not plan_adjoint(run.function, wrt, objects).saves:
        run("split_loops", split_loops)
    run("differentiate", lambda g: differentiate(g, wrt, objects))
    g = pipeline.optimise(run.end(), options, owned=True)
    require_recomputable(g)
    return g


def differentiate(f: Function, wrt: Sequence[int], objects: bool = True) -> Function:
    """Return the adjoint of kernel ``f`` with respect to its parameters ``wrt``.

    ``f`` holds no calls and no builtins without an adjoint rule of their own. The adjoint's parameters are those of
    ``f``; then, in the order of ``wrt``, one array of adjoints for each, of one element for a parameter that is no
    array, to which every thread adds; then the pre-launch copies. Clean it up (``fold``, ``cse``, ``dce``).

    Raises:
        WarpCodegenError: ``f`` can't be differentiated.
    """
    plan = plan_adjoint(f, wrt, objects)
    plan.require_possible()
    params = [Value(p.type, p.hint) for p in f.params]
    adjoints = [plan.sweep.adjoint_arrays[f.params[i]] for i in wrt]
    return emit(plan, Function(f.name, [*params, *adjoints], (), "adjoint", f.loc))


def plan_adjoint(f: Function, wrt: Sequence[int], objects: bool = True) -> Plan:
    """Return how the adjoint of kernel ``f`` gets the values that it needs.

    Raises:
        WarpCodegenError: ``f`` does something that has no gradient.
    """
    adjoints = {f.params[i]: Value(adjoint_type(f.params[i].type), f"adj_{f.params[i].hint}") for i in wrt}
    sweep = Sweep(Primal(f, adjoints, objects), adjoints)
    reverse_kernel(sweep)
    return Plan(sweep)


def needs_expansion(row: Overload) -> bool:
    """Return whether a builtin must be replaced by its body before it can be differentiated."""
    return body_of(row.lower) is not None and row.adjoint is None


def merge_parameters(f: Function, same: Sequence[tuple[int, int]]) -> Function:
    """Let all accesses to the parameters ``same``, pairs of a later and an earlier one, go to the earlier, in place."""
    substitute(f.body, {f.params[later]: f.params[first] for later, first in same})
    return f
