"""Functions in lanes do what they did thread by thread."""

import numpy as np
import pytest

import warp_like as wp
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import seeds
from tests.random_ir import OWN_DIMS, own_arguments, own_function
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir.printer import print_function
from warp_like.ir.verify import verify
from warp_like.passes.cse import cse
from warp_like.passes.dce import dce
from warp_like.passes.pipeline import finish, optimise, prepare
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.values import NotWidenable
from warp_like.passes.spmd.widen import widen


@pytest.mark.parametrize("part", seeds(4, few=1))
def test_lanes_do_what_threads_do(part: int) -> None:
    widened, refused = 0, set()
    for seed in range(part * 60, part * 60 + 60):
        f = finish(optimise(prepare(own_function(seed))))
        width = (2, 4, 8, 16)[seed % 4]
        try:
            wide = widen(f, width)
        except NotWidenable as e:
            refused.add(str(e))
            continue
        widened += 1
        wanted, wanted_lines = own_arguments(seed), []
        run(f, wanted, OWN_DIMS, wanted_lines)
        for g in (wide, dce(cse(widen(f, width)))):
            verify(g)
            got, lines = own_arguments(seed), []
            run_lanes(g, got, OWN_DIMS, lines)
            assert sorted(lines) == sorted(wanted_lines)
            for a, b in zip(wanted, got, strict=True):
                np.testing.assert_array_equal(b, a, err_msg=f"{seed}\n{print_function(f)}\n{print_function(g)}")
    assert widened > 50
    assert refused <= {"threads may wait for each other in a loop around an atomic"}


# --- the lane IR of typical kernels -------------------------------------------------------------------------


def optimised_form(kernel):
    return optimised(kernel.source, Signature(kernel.types))


@wp.kernel
def neighbours(
    x: wp.array(dtype=float), first: wp.array(dtype=int), table: wp.array(dtype=int), out: wp.array(dtype=float)
):
    i = wp.tid()
    total = 0.0
    for k in range(first[i], first[i + 1]):
        total += x[table[k]]
    out[i] = total


@wp.kernel
def pairs(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    total = wp.vec3()
    for j in range(x.shape[0]):
        total += x[j] - x[i]
    out[i] = total


@wp.kernel
def newton(x: wp.array(dtype=float), out: wp.array(dtype=float), steps: wp.array(dtype=int)):
    i = wp.tid()
    r = x[i]
    n = 0
    while wp.abs(r * r - x[i]) > 1.0e-6 and n < 30:
        r = 0.5 * (r + x[i] / r)
        n += 1
    out[i] = r
    wp.atomic_add(steps, 0, n)


@wp.kernel
def rows(table: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    row = table[i]
    total = 0.0
    for k in range(row.shape[0]):
        if row[k] > 0.0:
            total += wp.sin(row[k])
    out[i] = total


@wp.kernel
def periodic(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    left = wp.where(j > 0, j - 1, x.shape[1] - 1)
    out[i, j] = x[i, left] + x[i, (j + 1) % x.shape[1]]


@wp.kernel
def ranks(x: wp.array2d(dtype=float), out: wp.array(dtype=int)):
    i = wp.tid()
    bins = wp.zeros(shape=8, dtype=int)
    for k in range(x.shape[1]):
        bins[int(x[i, k])] += 1
    wp.expect_eq(bins[0] >= 0, True)
    out[i] = wp.atomic_cas(out, i, bins[0], bins[7])


@wp.kernel
def seek(x: wp.array(dtype=float), limit: wp.array(dtype=float), out: wp.array(dtype=int)):
    i = wp.tid()
    total = 0.0
    at = -1
    for j in range(x.shape[0]):
        total += x[j]
        if total > limit[i]:
            at = j
            break
    out[i] = at


@wp.kernel
def border(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0 and i < x.shape[0] - 1:
        out[i] = x[i + 1] - x[i - 1]
    else:
        out[i] = x[i]


@pytest.mark.parametrize(
    "kernel", [border, neighbours, pairs, newton, rows, periodic, ranks, seek], ids=lambda k: k.key
)
def test_golden(kernel, golden):
    golden(f"lanes_{kernel.key}", print_function(dce(cse(widen(optimised_form(kernel), 8)))))


# --- which kernels are widened, and how far ------------------------------------------------------------------


def choice(kernel, wanted: int = 0, bits: int = 512, registers: int = 32):
    return choose(optimised_form(kernel), bits, registers, wanted)


@wp.kernel
def smooth(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    own = wp.zeros(shape=85, dtype=float)
    for _n in range(20):
        for k in range(1, 84):
            own[k] = 0.25 * (own[k - 1] + own[k] * own[k + 1]) + 1.0
    out[i] = own[40] + x[0, i]


def test_as_many_registers_as_the_values_of_a_loop_leave_room_for():
    assert choice(pairs).width == 64  # 3 sums
    assert choice(pairs).reason == "4 x 512-bit vectors of 32-bit numbers"
    assert choice(pairs, bits=256, registers=16).width == 16
    assert choice(newton).width == 32  # at most two where lanes leave a loop at different times
    assert choice(rows).width == 16  # a call clobbers the registers
    assert choice(pairs, wanted=4).width == 4
    assert choice(ranks, bits=128).width == 1
    assert choice(streaming).width == 16
    assert choice(smooth).width == 32  # three vectors would fit the first cache, but it has to be a power of 2
    assert choice(periodic).width == 16
    assert choice(largest).width == 16
    assert choose(optimised_form(largest), 512, 32, 0, reduced=(1,)).width == 64  # vectors would wait for each other
    assert choice(orbit).width == 32  # nothing but its state lives from step to step; within a step more does
    assert choice(orbit, bits=256, registers=16).width == 8


@wp.kernel
def largest(x: wp.array(dtype=float), found: wp.array(dtype=float)):
    wp.atomic_max(found, 0, x[wp.tid()])


@wp.func
def pull(s: wp.vec3):
    return s * (s[1] - s[0] * s[2])


@wp.kernel
def orbit(start: wp.array(dtype=wp.vec3), steps: int, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    s = start[i]
    for _step in range(steps):
        a = pull(s)
        b = pull(s + 0.5 * a)
        c = pull(s + 0.5 * b)
        d = pull(s + c)
        s += a + 2.0 * b + 2.0 * c + d
    out[i] = s


@wp.kernel
def streaming(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 2.0 * x[i]


@wp.kernel
def summing(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        wp.atomic_add(total, 0, x[i])


@wp.kernel
def talking(x: wp.array(dtype=float)):
    for k in range(x.shape[0]):
        print(x[k])


@wp.kernel
def waiting(lock: wp.array(dtype=int)):
    while wp.atomic_cas(lock, 0, 0, 1) == 1:
        pass


@wp.kernel
def spinning(lock: wp.array(dtype=int)):
    while wp.atomic_exch(lock, 0, 1) == 1:
        pass


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (summing, "a sum over the threads: left to LLVM's vectoriser"),
        (talking, "it prints, and the lines of a thread stay together"),
        (waiting, "threads may wait for each other in a loop around an atomic"),
        (spinning, "threads may wait for each other in a loop around an atomic"),
    ],
    ids=lambda x: getattr(x, "key", ""),
)
def test_kernels_that_run_one_thread_at_a_time(kernel, reason):
    found = choice(kernel)
    assert (found.width, found.reason) == (1, reason)
    assert choice(kernel, wanted=1).reason == "vector_width is 1"


def test_a_pass_that_changes_nothing_when_run_again():
    for kernel in (neighbours, pairs, newton, rows):
        wide = dce(cse(widen(optimised_form(kernel), 8)))
        text = print_function(wide)
        assert print_function(dce(cse(wide))) == text


@wp.kernel
def sparse_product(
    values: wp.array(dtype=float),
    columns: wp.array(dtype=int),
    first: wp.array(dtype=int),
    x: wp.array(dtype=float),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    total = 0.0
    for k in range(first[i], first[i + 1]):
        total += values[k] * x[columns[k]]
    out[i] = total


@wp.kernel
def row_sums(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    out[i] = total


def test_gathers_count():
    assert choice(sparse_product).reason == "it gathers more than it computes"
    assert choice(row_sums).width == 16  # one gather, and nobody waits for the addition before
    assert choice(pairs).function.schedule.remainder.schedule.lanes == 16
