"""Accesses to neighbours that become one: what they give, and which are left as they are."""

from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.backend.running import Kernel
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import crossed, name, tail
from tests.passes.spmd import random_rows
from warp_like.backend.target import Options
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.spmd.join_accesses import join_accesses
from warp_like.passes.spmd.widen import widen

THREADS, ROOM = 21, 140
Row = wp.array(dtype=float)


@wp.kernel
def pairs(x: Row, out: Row):
    i = wp.tid()
    re = x[2 * i]
    im = x[2 * i + 1]
    out[2 * i] = re - im
    out[2 * i + 1] = re + im


@wp.kernel
def triples(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    k = wp.int64(i) * wp.int64(3)
    a, b, c = x[k], x[k + wp.int64(1)], x[k + wp.int64(2)]
    out[k], out[k + wp.int64(1)], out[k + wp.int64(2)] = b, c, a


@wp.kernel
def rows(x: Row, out: Row):
    """Rows of six, of which four numbers are joined."""
    i = wp.tid()
    k = 6 * i + 1
    a, b, c, d, e = x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4]
    out[k], out[k + 1], out[k + 2], out[k + 3], out[k + 4] = e, d, c, b, a


@wp.kernel
def columns(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    """The last index counts; the first one differs between lanes as well."""
    i = wp.tid()
    k = 4 * i
    a, b, c, d = x[i, k], x[i, k + 1], x[i, k + 2], x[i, k + 3]
    out[i, k], out[i, k + 1], out[i, k + 2], out[i, k + 3] = d, c, b, a


@wp.kernel
def diagonals(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    """Three neighbours of each lane, in rows of their own: a distance of three along the last dimension alone."""
    i = wp.tid()
    k = 3 * i
    a, b, c = x[i, k], x[i, k + 1], x[i, k + 2]
    out[i, k], out[i, k + 1], out[i, k + 2] = c, b, a


@wp.kernel
def stored_between(x: Row, out: Row):
    """Where both arrays are one, the second load is of what the first store wrote."""
    i = wp.tid()
    a = x[2 * i]
    out[2 * i + 1] = a * 2.0
    out[2 * i] = x[2 * i + 1]


@wp.kernel
def loaded_between(x: Row, out: Row):
    i = wp.tid()
    out[2 * i] = 3.0
    a = x[2 * i]
    out[2 * i + 1] = a


@wp.kernel
def overwritten(x: Row, out: Row):
    """Another store to one of the same elements stands between two neighbours."""
    i = wp.tid()
    out[2 * i] = 1.0
    out[2 * i + int(x[i]) % 2] = 2.0
    out[2 * i + 1] = x[i]


@wp.kernel
def overlapping(x: Row, out: Row):
    """Lanes store to the same elements: rows of four at a distance of three."""
    i = wp.tid()
    out[3 * i] = x[i]
    out[3 * i + 1] = x[i] + 1.0
    out[3 * i + 2] = x[i] + 2.0
    out[3 * i + 3] = x[i] + 3.0


@wp.kernel
def wraps(x: Row, out: Row):
    """Unsigned indices that begin again at 0 between the neighbours."""
    i = wp.tid()
    k = wp.uint32(2) * wp.uint32(i) - wp.uint32(1)
    a = 0.0
    if i == 0:
        a = x[k + wp.uint32(1)]
    out[2 * i] = a


JOINED: dict[Any, int] = {pairs: 2, triples: 2, rows: 2, columns: 2}
LEFT = [diagonals, stored_between, loaded_between, overwritten, wraps]


def arguments(kernel: Any) -> list[np.ndarray]:
    dtype = np.float64 if kernel is triples else np.float32
    shape = (THREADS, ROOM) if kernel in {columns, diagonals} else (ROOM,)
    return [np.arange(np.prod(shape)).reshape(shape).astype(dtype), np.zeros(shape, dtype)]


def in_lanes(kernel: Any, width: int) -> tuple[Function, Function, int]:
    """The code of a thread and of lanes, and how many accesses were joined."""
    f = optimised(kernel.source, Signature(kernel.types))
    wide = widen(f, width)
    cse(wide)
    join_accesses(wide)
    verify(wide)
    return f, wide, sum(isinstance(o, (ops.LoadConsecutive, ops.StoreConsecutive)) for o in wide.body.walk())


@pytest.mark.parametrize(("kernel", "width"), crossed([*JOINED, *LEFT], [2, 4, 8, 16], every=2), ids=name)
def test_lanes_do_what_threads_do(kernel: Any, width: int):
    """Interpreted and compiled, also where the last vector is not full, and where arrays have strides."""
    f, wide, joined = in_lanes(kernel, width)
    if width >= 4:
        assert joined == JOINED.get(kernel, joined)
    expected, got = arguments(kernel), arguments(kernel)
    run(f, expected, (THREADS,))
    run_lanes(wide, got, (THREADS,))
    np.testing.assert_array_equal(got[1], expected[1])
    for contiguous in (True, False):
        args = arguments(kernel)
        Kernel(wide, Options(contiguous=contiguous, fuse_fp=False, vector_math=False))(args, (THREADS,))
        np.testing.assert_array_equal(args[1], expected[1])


@pytest.mark.parametrize("kernel", [stored_between, loaded_between], ids=name)
def test_arrays_that_are_one(kernel: Any):
    """What stands between neighbours and may touch their memory keeps them apart."""
    f, wide, joined = in_lanes(kernel, 4)
    assert not joined
    (expected, _), (got, _) = arguments(kernel), arguments(kernel)
    run(f, [expected, expected], (THREADS,))
    run_lanes(wide, [got, got], (THREADS,))
    np.testing.assert_array_equal(got, expected)


def test_what_is_left():
    for kernel in LEFT:
        assert not in_lanes(kernel, 4)[2], kernel.key
    _, wide, _ = in_lanes(overlapping, 4)
    assert not any(isinstance(o, ops.StoreConsecutive) and len(o.values) == 4 for o in wide.body.walk())


@pytest.mark.parametrize("seed", [8, *(tail(first) for first in range(24, 240, 8))])
def test_random_rows(seed: int):
    assert sum(random_rows.check(k) for k in range(seed, seed + 8)) > 0
