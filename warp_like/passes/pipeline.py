"""The passes in the order in which they run: the route of a function from the frontend to the backend.

``prepare`` gives what differentiation starts from, ``optimise`` follows for the primal and for the adjoint,
and ``finish`` leaves only what backends lower. Each works on a copy, so that the input stays as it was, unless the
caller is done with the input and says ``owned``. The other stages are ``ad.adjoint``, ``ad.forward.forward_mode`` and
``spmd.choice``; ``base.passes.ROUTE`` lists the passes of all.
"""

from __future__ import annotations

from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.passes import stages
from warp_like.passes.blocks import (
    has_large_values,
    in_single_threads,
    require_together,
    works_on_tiles,
    works_together,
)
from warp_like.passes.checks import debug_checks, finite_checks
from warp_like.passes.count_from_end import count_from_end
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.expand import expand
from warp_like.passes.flatten_structs import flatten_structs
from warp_like.passes.fold import fold
from warp_like.passes.inline import inline, is_custom
from warp_like.passes.licm import licm
from warp_like.passes.local_arrays import lower_local_atomics
from warp_like.passes.lower_array_selects import lower_array_selects
from warp_like.passes.lower_slices import lower_slices
from warp_like.passes.nested_arrays import keep_nested_arrays
from warp_like.passes.runner import DEFAULT, Options, Runner
from warp_like.passes.split_vectors import carries_places, split_vectors
from warp_like.passes.unroll import unroll

MAX_UNROLL_ROUNDS = 4
"""How deep loops may nest whose bounds become constant only when the loop around them is unrolled."""


def prepare(f: Function, options: Options = DEFAULT, *, keep_customs: bool = False, owned: bool = False) -> Function:
    """Return ``f`` without calls, with constant loops unrolled and dead code gone.

    ``keep_customs`` leaves the calls of functions that have a gradient or a replay function of their own.
    """
    run = Runner("prepare", f if owned else clone_function(f), options, (stages.NO_LANES, stages.NO_MARKERS))
    run("inline", lambda g: inline(g, is_custom if keep_customs else None))
    run.function.had_tiles = run.function.had_tiles or works_on_tiles(run.function)
    run("flatten_structs", flatten_structs)
    run("lower_array_selects", lower_array_selects)
    if f.role == "kernel" and not f.is_joined and options.block_dim > 1 and options.block_axis >= 0:
        from warp_like.passes.join_threads import join_threads  # the passes that few kernels need are imported there

        run("join_threads", lambda g: join_threads(g, options.block_dim, options.block_axis, options.block_rest))
    run("count_from_end", count_from_end)
    if not options.debug:
        run("lower_slices", lower_slices)
    run("lower_local_atomics", lower_local_atomics)
    run("debug_checks", lambda g: debug_checks(g, options.debug))
    run("fold", fold)
    for _ in range(MAX_UNROLL_ROUNDS):
        if not run("unroll", lambda g: unroll(g, options.max_unroll, options.max_unrolled_ops, team=options.team > 1)):
            break
        run("fold", fold)
    run("cse", cse)
    run("keep_nested_arrays", keep_nested_arrays)
    run("dce", dce)
    require_together(run.function)
    return run.end()


def optimise(f: Function, options: Options = DEFAULT, *, owned: bool = False) -> Function:
    """Return ``f`` simplified; the result can still be differentiated."""
    run = Runner("optimise", f if owned else clone_function(f), options, stages.prepared(options.debug))
    run("fold", fold)
    run("cse", cse)
    run("licm", licm)
    run("dce", dce)
    return run.end()


def finish(f: Function, options: Options = DEFAULT, *, owned: bool = False) -> Function:
    """Return ``f`` with the bodies of builtins in place of their calls, ready for a backend."""
    if options.team > 1 and (made := _in_team(f, options)) is not None:
        return made
    run = Runner("finish", f if owned else clone_function(f), options, stages.differentiated(options.debug))
    if options.verify_fp:
        run("finite_checks", finite_checks)
    run("lower_local_atomics", lower_local_atomics)
    if options.sums_pairs and works_on_tiles(run.function):
        from warp_like.passes.pair_products import pair_products

        run("pair_products", pair_products)
    run("expand", lambda f: expand(f, native=options.native_searches))
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    if carries_places(run.function):
        run("split_vectors", split_vectors)
        run("fold", fold)
        run("cse", cse)
        run("dce", dce)
    run.function.is_tiled = run.function.is_tiled or works_on_tiles(run.function)
    if has_large_values(run.function):
        from warp_like.passes.decouple_iterations import decouple_iterations
        from warp_like.passes.fold_comparisons import fold_comparisons
        from warp_like.passes.fuse import fuse
        from warp_like.passes.lower_large_values import lower_large_values
        from warp_like.passes.read_in_place import read_in_place

        run("fold_comparisons", fold_comparisons)
        run("fold", fold)
        run("decouple_iterations", decouple_iterations)
        run("fold", fold)
        run("cse", cse)
        run("dce", dce)
        run("fuse", fuse)
        run("dce", dce)
        run("read_in_place", read_in_place)
        run("dce", dce)
        run("lower_large_values", lower_large_values)
        run("fold", fold)
        run("cse", cse)
        run("dce", dce)
    return run.end()


def _in_team(f: Function, options: Options) -> Function | None:
    """Return ``f`` as a team of threads runs it; None where they would share more memory than every device has."""
    from warp_like.passes.lower_large_values import lower_large_values
    from warp_like.passes.team.bodies import expand_together
    from warp_like.passes.team.distribute import distribute, fits

    run = Runner("team", clone_function(f), options, stages.differentiated(options.debug))
    if options.verify_fp:
        run("finite_checks", finite_checks)
    run("lower_local_atomics", lower_local_atomics)
    run("expand_together", lambda f: expand_together(f, options.team, options.units))
    run("expand", expand)
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    run.function.is_tiled = True
    run("lower_large_values", lambda f: lower_large_values(f, tight=True))
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    copies = options.async_copies and not options.debug  # which need indices that are in range
    run("distribute", lambda f: distribute(f, options.team, options.apart, options.contiguous, async_copies=copies))
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    return run.end() if fits(run.function) else None


def alone(f: Function, options: Options = DEFAULT) -> Function:
    """Return the finished ``f`` for a target where threads of a block ask nothing of each other."""
    if not works_together(f):
        return f
    run = Runner("alone", clone_function(f), options, (*stages.differentiated(options.debug), stages.LOWERED))
    run("in_single_threads", lambda f: in_single_threads(f, options.block_dim))
    run("lower_local_atomics", lower_local_atomics)
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    return run.end()


__all__ = ["DEFAULT", "Options", "alone", "finish", "optimise", "prepare"]
