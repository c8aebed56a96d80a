"""Every pass keeps the meaning of random functions, and running it twice changes nothing more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.ir_builder import assert_same, count
from tests.long_tail import examples
from tests.random_ir import DIMS, arguments, functions
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.expand import expand
from warp_like.passes.fold import fold
from warp_like.passes.inline import inline
from warp_like.passes.licm import licm
from warp_like.passes.pipeline import Options, finish, optimise, prepare
from warp_like.passes.unroll import unroll

PASSES: dict[str, Callable[[Function], object]] = {
    "inline": inline,
    "fold": fold,
    "dce": dce,
    "cse": cse,
    "licm": licm,
    "expand": expand,
    "unroll": unroll,
}


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=examples(60, few=25), deadline=None)
@given(f=functions())
def test_pass_keeps_meaning(name: str, f: Function) -> None:
    verify(f)
    before = print_function(f)
    g = clone_function(f)
    PASSES[name](g)
    assert_same(f, g, arguments(), DIMS)
    once = print_function(g)
    PASSES[name](g)
    if name != "unroll":  # bounds that an outer loop makes constant are found by its next run
        assert print_function(g) == once
    assert print_function(f) == before


@settings(max_examples=examples(60, few=15), deadline=None)
@given(f=functions())
def test_passes_that_are_left_out_would_change_nothing(f: Function) -> None:
    f = prepare(f)
    for stage in (optimise, finish):
        f = stage(f, owned=True)
        assert f.settled
        for name in f.settled:
            g = clone_function(f)
            PASSES[name](g)
            assert print_function(g) == print_function(f), name


@settings(max_examples=examples(80, few=35), deadline=None)
@given(f=functions())
def test_pipeline_keeps_meaning(f: Function) -> None:
    before = print_function(f)
    options = Options(verify=True)
    prepared = prepare(f, options)
    assert count(prepared, ops.Call) == 0
    optimised = optimise(prepared, options)
    assert_same(f, finish(optimised, options), arguments(), DIMS)
    assert print_function(f) == before
