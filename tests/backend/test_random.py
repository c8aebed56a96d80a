"""Random functions run compiled as they do interpreted."""

from __future__ import annotations

from hypothesis import given, settings

from tests.backend.running import check
from tests.random_ir import DIMS, arguments, functions
from warp_like.ir.core import Function
from warp_like.passes.pipeline import Options, optimise, prepare


@settings(max_examples=40, deadline=None)
@given(f=functions())
def test_compiled_is_interpreted(f: Function) -> None:
    options = Options(verify=True)
    check(optimise(prepare(f, options), options), arguments(), DIMS, rtol=1e-3)
