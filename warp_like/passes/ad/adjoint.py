"""The adjoint of a prepared kernel, by the cheapest strategy that is right.

Recomputing comes first. Where that needs a value which the kernel has overwritten, saving comes second. What neither
can do is refused with the place in the user's source.
"""

from __future__ import annotations

from collections.abc import Sequence

from warp_like.analysis.memory import analyse
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function, substitute
from warp_like.passes import pipeline
from warp_like.passes.ad.checkpoint import split_loops
from warp_like.passes.ad.functions import open_replayed
from warp_like.passes.ad.hoist import hoist_loads
from warp_like.passes.ad.order import in_order
from warp_like.passes.ad.reverse import differentiate, first_unavailable, needs_expansion, require_available
from warp_like.passes.ad.saving import differentiate_saving, drop_unread_scratch, rewritten_arrays
from warp_like.passes.expand import expand
from warp_like.passes.local_arrays import local_arrays
from warp_like.passes.runner import Runner


def adjoint(
    f: Function,
    wrt: Sequence[int],
    options: pipeline.Options,
    same: Sequence[tuple[int, int]] = (),
    alone: bool = False,
) -> Function:
    """Return the adjoint of ``f`` with respect to its parameters ``wrt``.

    The parameters are those of ``f``, an array of adjoints for each of ``wrt``, and a copy from before the launch of
    each array whose position is in the result's ``scratch``.

    ``same`` lists pairs of parameters that are one array, later one first; all accesses then go to the first. ``alone``
    asks for the adjoint of a grid of one thread, whose atomics have an order.

    Raises:
        WarpCodegenError: ``f`` can't be differentiated.
    """
    run = Runner("adjoint", clone_function(f), options)
    run("open_replayed", open_replayed)
    run("expand_for_adjoint", lambda g: expand(g, needs_expansion))
    if same:
        run("merge_parameters", lambda g: merge_parameters(g, same))
    run("in_order", lambda g: in_order(g, alone))
    run("hoist_loads", hoist_loads)
    f = run.function
    if options.checkpoint_loops:
        run.function = clone_function(f)
        run("split_loops", split_loops)
    run("differentiate", lambda g: differentiate(g, wrt))
    g = pipeline.optimise(run.function, options)
    if first_unavailable(g) is not None and (rewritten_arrays(analyse(f)) or local_arrays(f)):
        g = _saving(f, wrt, options)
    require_available(g)
    return g


def _saving(f: Function, wrt: Sequence[int], options: pipeline.Options) -> Function:
    run = Runner("adjoint", f, options)
    run("differentiate_saving", lambda g: differentiate_saving(g, wrt))
    run.function = pipeline.optimise(run.function, options)
    run("drop_unread_scratch", drop_unread_scratch)
    return pipeline.optimise(run.function, options)


def merge_parameters(f: Function, same: Sequence[tuple[int, int]]) -> Function:
    """Let all accesses to the parameters ``same``, pairs of a later and an earlier one, go to the earlier, in place."""
    substitute(f.body, {f.params[later]: f.params[first] for later, first in same})
    return f
