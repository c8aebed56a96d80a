"""Which indices are evaluated in 64 bits, and which addresses may be poison: flags stand where a fact is proven."""

from __future__ import annotations

import re

from tests.ir_builder import branch, start, tid
from warp_like.backend.compile import lower_to_llvm
from warp_like.backend.target import Options, cuda_target, host_target
from warp_like.ir.core import Function
from warp_like.ir.types import Array, float32, int32
from warp_like.passes.spmd.widen import widen

FLOATS = Array(float32, 1)


def text(f: Function, *, cuda: bool = False) -> str:
    target = cuda_target("sm_80") if cuda else host_target()
    return lower_to_llvm(f, target, Options(contiguous=True))


def shifted(by: int | None) -> Function:
    """``x[i + by] = 1``, ``by`` being an argument for None."""
    f, b = start("shifted", x=FLOATS, by=int32)
    b.store(f.params[0], [b.add(tid(b), f.params[1] if by is None else by)], b.constant(1, float32))
    b.yield_()
    return f


def test_an_index_is_evaluated_in_64_bits_where_it_cannot_wrap() -> None:
    for cuda in (False, True):
        assert re.search(r"add nsw i64 %v\d+, 3\n", text(shifted(3), cuda=cuda))
        for by in (None, 2**30):
            unproven = text(shifted(by), cuda=cuda)
            assert re.search(r"add i32 %v\d+, (%v\d+|1073741824)\n", unproven)
            assert re.search(r"sext i32 %v\d+ to i64", unproven)


def test_addresses_of_lanes_that_may_not_be_at_work_carry_no_flags() -> None:
    f, b = start("masked", x=Array(float32, 2), y=FLOATS)
    x, y = f.params
    i = tid(b)

    def far() -> tuple[()]:
        b.store(y, [i], b.load(x, [b.sub(i, 5), b.sub(i, 6)]))
        return ()

    branch(b, b.eq(b.mod(i, 7), 6), far)
    b.yield_()
    lanes = text(widen(f, 8))
    vector = lanes[lanes.index("\nvector:") : lanes.index("\nremainder:")]
    addresses = re.findall(r"getelementptr (inbounds )?\[4 x i8\], ptr (%v\d+), i64", vector)
    assert addresses
    assert not any(flag for flag, _ in addresses)
    assert re.search(r"mul i64 %v\d+, %v\d+", vector)
    assert not re.search(r"mul nsw i64 %v\d+, %v\d+", vector)


def test_lanes_that_are_all_at_work_have_addresses_in_bounds() -> None:
    f, b = start("copy", x=FLOATS, y=FLOATS)
    x, y = f.params
    b.store(y, [tid(b)], b.load(x, [tid(b)]))
    b.yield_()
    lanes = text(widen(f, 8))
    whole, rest = lanes.split("\nmasked:")
    assert whole.count("getelementptr inbounds [4 x i8]") == 2
    assert "getelementptr inbounds [4 x i8]" not in rest


def test_a_falling_iota_starts_at_its_last_lane() -> None:
    f, b = start("back", x=FLOATS, y=FLOATS, n=int32)
    x, y, n = f.params
    b.store(y, [tid(b)], b.load(x, [b.sub(n, tid(b))]))
    b.yield_()
    lanes = text(widen(f, 8))
    assert re.search(r"add i32 %v\d+, -7\n  %v\d+ = sext i32 %v\d+ to i64\n  %v\d+ = sub i64 %v\d+, -7\n", lanes)
