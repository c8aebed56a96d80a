"""The route as a whole: copies, verification, dumps, and what is left at the end."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ir_builder import assert_same, count, loop, start, tid
from warp_like.builtins.spec import Elementwise, Expand, resolve
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.printer import print_function
from warp_like.ir.types import Array, Vec, float32, int32
from warp_like.ir.verify import InvalidIR
from warp_like.passes.pipeline import Options, finish, optimise, prepare

X = Array(float32, 1)


def _kernel() -> Function:
    f, b = start(x=X, v=Array(Vec(3, float32), 1), n=int32)
    x, v, n = f.params
    i = tid(b)
    with loop(b, 0, n, init=[b.load(x, [i])]) as body:
        body.next = (b.lerp(body.carried[0], b.load(x, [body.i]), 0.5),)
    b.store(x, [i], b.add(body.results[0], b.dot(b.load(v, [i]), b.load(v, [i]))))
    b.yield_()
    return f


def test_input_stays_and_meaning_too() -> None:
    f = _kernel()
    before = print_function(f)
    got = finish(optimise(prepare(f)))
    assert print_function(f) == before
    rng = np.random.default_rng(1)
    args = [rng.normal(size=4).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32), 3]
    assert_same(f, got, args, (4,))


def test_an_owned_function_is_changed_in_place_to_the_same() -> None:
    f, wanted = _kernel(), finish(optimise(prepare(_kernel())))
    for stage in (prepare, optimise, finish):
        assert stage(f, owned=True) is f
    assert print_function(f) == print_function(wanted)


def test_nothing_is_left_to_expand() -> None:
    got = finish(_kernel())
    for o in got.body.walk():
        if isinstance(o, ops.Apply):
            row = resolve(o.fn, [v.type for v in o.args]).overload
            assert not isinstance(row.lower, Expand)
            if isinstance(row.lower, Elementwise):
                assert row.lower.scalar == row.name
    assert count(got, ops.Call) == 0


def test_dump_is_called_after_each_pass() -> None:
    stages: list[str] = []
    options = Options(dump=lambda moment, f: stages.append(moment.removeprefix("after:")))
    finish(optimise(prepare(_kernel(), options), options), options)
    assert [s for s in stages if not s.startswith("before:")] == [
        *(
            "inline",
            "flatten_structs",
            "lower_array_selects",
            "count_from_end",
            "lower_slices",
            "lower_local_atomics",
            "debug_checks",
            "fold",
            "unroll",
            "cse",
            "keep_nested_arrays",
            "dce",
        ),
        *("fold", "cse", "licm", "dce"),
        *("lower_local_atomics", "expand", "fold", "cse", "dce"),
    ]


def test_verify_finds_what_is_broken() -> None:
    f, b = start(x=X)
    b.store(f.params[0], [tid(b)], b.constant(1, int32))
    b.yield_()
    prepare(f)
    with pytest.raises(InvalidIR, match="value is not of the element type"):
        prepare(f, Options(verify=True))


def _long(n: int) -> Function:
    f, b = start(x=X)
    (x,) = f.params
    i = tid(b)
    total = b.load(x, [i])
    for k in range(n):
        total = b.add(b.mul(total, float(k % 7)), b.load(x, [b.bit_and(i, k % 5)]))
    b.store(x, [i], total)
    b.yield_()
    return f


def test_long_kernels_do_not_recurse() -> None:
    f = _long(4000)
    got = finish(optimise(prepare(f)))
    assert count(got, ops.Load) == 6  # of element i, and of i & 0 to i & 4
    x = np.linspace(0, 1, 4, dtype=np.float32)
    assert_same(f, got, [x], (4,))
