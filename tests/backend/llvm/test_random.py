"""Random functions run compiled as they do interpreted."""

from __future__ import annotations

from hypothesis import given, settings

from tests.backend.running import check
from tests.long_tail import examples
from tests.random_ir import DIMS, arguments, functions
from warp_like.backend.target import Options
from warp_like.ir.core import Function
from warp_like.passes.pipeline import Options as PassOptions
from warp_like.passes.pipeline import finish, optimise, prepare


@settings(max_examples=examples(40, few=15), deadline=None)
@given(f=functions())
def test_compiled_is_interpreted(f: Function) -> None:
    for step in (prepare, optimise, finish):
        f = step(f, PassOptions(verify=True))
    check(f, arguments(), DIMS, rtol=1e-5, base=Options(fuse_fp=False, vector_math=False))
