"""Functions for several rows of threads at once do what they did thread by thread."""

import contextlib

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import seeds
from tests.random_ir import own_arguments, own_function
from warp_like.builtins.emit import Emitter
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Block
from warp_like.ir.printer import print_function
from warp_like.ir.types import int64
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.coarsening import can_coarsen, coarsen
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import widen

DIMS = 6, 5


@pytest.mark.parametrize("part", seeds(4, few=2))
def test_rows_do_what_threads_do(part: int) -> None:
    widened = 0
    for seed in range(part * 30, part * 30 + 30):
        f = finish(optimise(prepare(own_function(seed, stack=False, columns=DIMS[1]))))
        assert can_coarsen(f)
        wanted = own_arguments(seed, DIMS)
        run(f, wanted, DIMS)
        forms = [(run, coarsen(f, (2, 3)[seed % 2]))]
        with contextlib.suppress(NotWidenable):
            forms.append((run_lanes, widen(dce(cse(forms[0][1])), 4)))
        widened += len(forms) - 1
        for interpret, g in forms:
            verify(g)
            got = own_arguments(seed, DIMS)
            interpret(g, got, DIMS)
            for a, b in zip(wanted, got, strict=True):
                np.testing.assert_array_equal(b, a, err_msg=f"{seed}\n{print_function(f)}\n{print_function(g)}")
    assert widened > 25


# --- which functions are coarsened ---------------------------------------------------------------------


@wp.kernel
def product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    out[i, j] = total


@wp.kernel
def batches(a: wp.array3d(dtype=float), b: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    n, i, j = wp.tid()
    total = 0.0
    for k in range(a.shape[2]):
        if a[n, i, k] > 0.0:
            total += a[n, i, k] * b[n, k, j]
    out[n, i, j] = total


@wp.kernel
def nearest(points: wp.array2d(dtype=float), others: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    least = 1.0e30
    for k in range(points.shape[1]):
        d = points[i, k] - others[k, j]
        least = wp.min(least, d * d + wp.cos(d))
    out[i, j] = least


@wp.kernel
def convolved(x: wp.array2d(dtype=float), weights: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for m in range(weights.shape[0]):
        for n in range(weights.shape[1]):
            total += weights[m, n] * x[i + m, j + n]
    out[i, j] = total


@wp.kernel
def counted(x: wp.array2d(dtype=float), first: wp.array(dtype=int), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = 0.0
    for k in range(first[i]):
        total += x[k, j]
    out[i, j] = total


@wp.kernel
def column_sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float), counts: wp.array(dtype=int)):
    i, j = wp.tid()
    wp.atomic_add(out, j, x[i, j])
    wp.atomic_sub(counts, j, 2)


@wp.kernel
def row_sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(out, i, x[i, j])


@wp.kernel
def numbered(x: wp.array2d(dtype=int), counts: wp.array(dtype=int)):
    i, j = wp.tid()
    x[i, j] = wp.atomic_add(counts, j, 1)


def choice(kernel, wanted=0, bits=512, registers=32):
    return choose(optimised(kernel.source, Signature(kernel.types)), bits, registers, wanted)


def test_loads_that_rows_share_are_worth_coarsening():
    chosen = choice(product)
    coarsened = chosen.function.schedule.coarsened.schedule
    assert (chosen.width, coarsened.lanes, coarsened.rows) == (64, 64, 4)
    assert chosen.reason == "4 x 512-bit vectors of 32-bit numbers, 4 rows at once"
    assert choice(product, bits=256, registers=16).function.schedule.coarsened.schedule.lanes == 16
    assert choice(product, wanted=8).function.schedule.coarsened is None


def test_what_rows_add_to_the_same_vectors_is_added_up_first():
    coarsened = choice(column_sums).function.schedule.coarsened
    assert [o.kind for o in coarsened.body.walk() if isinstance(o, ops.Atomic)] == ["add", "sub"]
    assert coarsened.schedule.rows == 4


@pytest.mark.parametrize("kernel", [batches, nearest, convolved, counted, row_sums, numbered], ids=lambda k: k.key)
def test_others_have_none(kernel):
    """Rows part in the loop; a call clobbers the registers; no vector is shared; each row has a loop of its own; rows
    add to elements of their own, or see what was there before."""
    assert choice(kernel).function.schedule.coarsened is None


def test_threads_that_know_their_number_in_the_grid_have_none():
    f = optimised(product.source, Signature(product.types))
    b = Emitter(Block())
    b.insert(ops.Tid(0, 1), int64)
    f.body.ops[:0] = b.block.ops
    assert choose(f, 512, 32, 0).function.schedule.coarsened is None


def test_golden(golden):
    f = optimised(product.source, Signature(product.types))
    golden("rows_product", print_function(dce(cse(widen(coarsen(f, 2), 8)))))
