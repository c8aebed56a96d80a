"""The IR of typical kernels, as text: a change of these files is a change of the code that everybody gets."""

import pytest

import warp_like as wp
from tests.frontend.support import text


@wp.func
def square(v: float):
    return v * v


@wp.func
def first_above(a: wp.array(dtype=float), limit: float):
    for i in range(a.shape[0]):
        if a[i] > limit:
            return i
    return -1


def loss(xs: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    tid = wp.tid()
    wp.atomic_add(total, 0, square(xs[tid, 0]) + square(xs[tid, 1]))


def saxpy(y: wp.array(dtype=float), x: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


def early_return(a: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i >= n:
        return
    if a[i] < 0.0:
        a[i] = 0.0
        return
    a[i] = wp.sqrt(a[i])


def branches(out: wp.array(dtype=float), x: float):
    y = x
    if x > 1.0:
        y = x * 2.0
        extra = 1.0
    elif x < 0.0:
        extra = -1.0
    else:
        extra = 0.0
    out[0] = y + extra


def sum_of_range(out: wp.array(dtype=float), a: wp.array(dtype=float)):
    total = 0.0
    for i in range(a.shape[0]):
        if a[i] < 0.0:
            continue
        total += a[i]
    out[0] = total


def leave_loop(out: wp.array(dtype=int), n: int, step: int):
    for i in range(0, n, step):
        if i * i > n:
            out[0] = i
            break


def while_condition(out: wp.array(dtype=int), a: wp.array(dtype=int)):
    i = 0
    while i < a.shape[0] and a[i] != 0:
        i += 1
    out[0] = i


def return_from_loop(out: wp.array(dtype=int), a: wp.array(dtype=float)):
    out[wp.tid()] = first_above(a, 2.0)


def parts(p: wp.array(dtype=wp.vec3), m: wp.mat22):
    i, j = wp.tid()
    v = p[i]
    v.x = m[0, 1]
    p[i] = v
    p[j].y = v[j]
    p[i].z += m[1][0]
    p[j] += v


def views(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    row = a[wp.tid()]
    out[-1] = row[0] + a[1][2]
    out[0] += row[1]


KERNELS = [
    loss,
    saxpy,
    early_return,
    branches,
    sum_of_range,
    leave_loop,
    while_condition,
    return_from_loop,
    parts,
    views,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_ir(kernel, golden):
    golden(f"ir_{kernel.__name__}", text(kernel))
