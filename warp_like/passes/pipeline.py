"""The passes in the order in which they run: the route of a function from the frontend to the backend.

``prepare`` gives what differentiation starts from, ``optimise`` follows for the primal and for the adjoint,
and ``finish`` leaves only what backends lower. Each works on a copy; the input stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable

from warp_like.base.frozen import Frozen
from warp_like.ir.core import Function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.verify import InvalidIR, Rule, verify
from warp_like.passes import stages
from warp_like.passes.blocks import in_single_threads, require_together, works_together
from warp_like.passes.checks import debug_checks, finite_checks
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.expand import expand
from warp_like.passes.flatten_structs import flatten_structs
from warp_like.passes.fold import fold
from warp_like.passes.inline import inline, is_custom
from warp_like.passes.inner_arrays import keep_inner_arrays
from warp_like.passes.licm import licm
from warp_like.passes.local_arrays import open_local_atomics
from warp_like.passes.open_choices import open_choices
from warp_like.passes.open_slices import open_slices
from warp_like.passes.unroll import unroll

MAX_UNROLL_ROUNDS = 4
"""How deep loops may nest whose bounds become constant only when the loop around them is unrolled."""


class Options(Frozen):
    """What the pipeline takes from the settings.

    ``dump(stage, function)`` is called after each pass.
    """

    max_unroll: int = 16
    max_unrolled_ops: int = 512
    checkpoint_loops: bool = False
    debug: bool = False
    verify_fp: bool = False
    verify: bool = False
    dump: Callable[[str, Function], None] | None = None


DEFAULT = Options()


def prepare(f: Function, options: Options = DEFAULT, *, keep_customs: bool = False) -> Function:
    """Return ``f`` without calls, with constant loops unrolled and dead code gone.

    ``keep_customs`` leaves the calls of functions that have a gradient or a replay function of their own.
    """
    run = _Runner(f, options, (stages.NO_LANES, stages.NO_MARKERS))
    run("inline", lambda g: inline(g, is_custom if keep_customs else None))
    run("flatten_structs", flatten_structs)
    run("open_choices", open_choices)
    if not options.debug:
        run("open_slices", open_slices)
    run("open_local_atomics", open_local_atomics)
    run("debug_checks", lambda g: debug_checks(g, options.debug))
    run("fold", fold)
    for _ in range(MAX_UNROLL_ROUNDS):
        if not run("unroll", lambda g: unroll(g, options.max_unroll, options.max_unrolled_ops)):
            break
        run("fold", fold)
    run("cse", cse)
    run("keep_inner_arrays", keep_inner_arrays)
    run("dce", dce)
    require_together(run.function)
    return run.function


def optimise(f: Function, options: Options = DEFAULT) -> Function:
    """Return ``f`` simplified; the result can still be differentiated."""
    run = _Runner(f, options, stages.prepared(options.debug))
    run("fold", fold)
    run("cse", cse)
    run("licm", licm)
    run("dce", dce)
    return run.function


def finish(f: Function, options: Options = DEFAULT) -> Function:
    """Return ``f`` with the bodies of builtins in place of their calls, ready for a backend."""
    run = _Runner(f, options, stages.differentiated(options.debug))
    if options.verify_fp:
        run("finite_checks", finite_checks)
    run("open_local_atomics", open_local_atomics)
    run("expand", expand)
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    return run.function


def alone(f: Function, options: Options = DEFAULT) -> Function:
    """Return the finished ``f`` for a target where a block is one thread."""
    if not works_together(f):
        return f
    run = _Runner(f, options, (*stages.differentiated(options.debug), stages.LOWERED))
    run("in_single_threads", in_single_threads)
    run("open_local_atomics", open_local_atomics)
    run("fold", fold)
    run("cse", cse)
    run("dce", dce)
    return run.function


class _Runner:
    """Applies passes to a copy of a function, verifying and dumping it after each.

    ``rules`` hold from the start, those of ``stages.ESTABLISHED`` from their pass on.
    """

    def __init__(self, f: Function, options: Options, rules: tuple[Rule, ...]) -> None:
        self.function = clone_function(f)
        self.options = options
        self.rules = rules

    def __call__(self, stage: str, apply: Callable[[Function], Function | bool]) -> bool:
        """Run one pass; returns False where the pass says that it changed nothing."""
        changed = apply(self.function)
        self.rules += stages.ESTABLISHED.get(stage, ())
        if self.options.verify:
            self.verify(stage)
        if self.options.dump is not None:
            self.options.dump(stage, self.function)
        return changed is not False

    def verify(self, stage: str) -> None:
        """Check the function as the pass ``stage`` has left it."""
        try:
            verify(self.function, self.rules)
        except InvalidIR as error:
            raise InvalidIR(f"after {stage}: {error}") from None
