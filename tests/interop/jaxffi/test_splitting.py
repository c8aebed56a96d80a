"""Along which axes of the grid kernels fall apart; what devices then do with it is in ``four_devices.py``."""

import warp_like as wp
from tests.interop.jaxffi.kernels import advance, lookup, matmul, scale, stencil, total
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.interop.jaxffi.splitting import separable_axes


def axes(kernel, wrt=None, tangent=None):
    types = tuple(t for _, t in kernel.parameters)
    return separable_axes(optimised(kernel.source, Signature(types, wrt=wrt, tangent=tangent)))


def test_kernels_that_fall_apart():
    assert axes(scale) == (1, {0: {0: 0, 2: 0}})
    assert axes(scale, wrt=(0, 2)) == (1, {0: {3: 0, 4: 0}})  # the gradient is `a` times that of the result
    assert axes(scale, tangent=(0, 2)) == (1, {0: {0: 0, 2: 0, 3: 0, 4: 0}})
    assert axes(lookup) == (1, {0: {1: 0, 2: 0}})  # all threads see the whole table
    assert axes(matmul) == (2, {0: {0: 0, 2: 0}, 1: {1: 1, 2: 1}})
    assert axes(advance) == (1, {0: {0: 0, 1: 0, 3: 0}})


@wp.kernel
def index_as_number(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * float(i)


@wp.kernel
def stores_its_index(y: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = i


@wp.kernel
def asks_for_the_extent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] / float(y.shape[0])


@wp.kernel
def extent_of_another(x: wp.array(dtype=float), t: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] / float(t.shape[0])


@wp.kernel
def diagonal(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i, i]


@wp.kernel
def transposed(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[j, i] = x[i, j]


@wp.kernel
def both_ways(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j] + x[j, i]


@wp.kernel
def own_and_first(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] - x[0]


@wp.kernel
def rows(x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(y, i, x[i, j])


@wp.kernel
def some_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i = wp.tid()
    row = x[i]
    y[i, 0] = row[0]


@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        for _ in range(3):
            y[i] = y[i] + x[i]


def test_what_depends_on_more_than_its_part():
    for kernel in (stencil, index_as_number, stores_its_index, asks_for_the_extent, diagonal, own_and_first):
        assert axes(kernel)[1] == {}, kernel
    assert axes(extent_of_another) == (1, {0: {0: 0, 2: 0}})
    assert axes(branches) == (1, {0: {0: 0, 1: 0}})
    assert axes(both_ways)[1] == {}


def test_axes_that_name_other_dimensions():
    assert axes(transposed) == (2, {0: {0: 0, 1: 1}, 1: {0: 1, 1: 0}})
    assert axes(rows) == (2, {0: {0: 0, 1: 0}, 1: {0: 1, 1: None}})


def test_rows_that_are_taken_first():
    assert axes(some_rows) == (1, {0: {0: 0, 1: 0}})


@wp.kernel
def old_values(x: wp.array(dtype=int), slots: wp.array(dtype=int), n: wp.array(dtype=int)):
    i = wp.tid()
    slots[i] = wp.atomic_add(n, 0, x[i])


@wp.kernel
def adds_and_reads(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] + y[1])


@wp.kernel
def largest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


def test_sums():
    assert axes(total) == (1, {0: {0: 0, 1: None}})
    for kernel in (old_values, adds_and_reads, largest):
        assert axes(kernel)[1] == {}, kernel


def test_the_adjoint_of_a_product_sums_over_the_axis_of_the_other_factor():
    assert axes(matmul, wrt=(0, 1, 2)) == (2, {0: {0: 0, 3: 0, 5: 0, 4: None}, 1: {1: 1, 4: 1, 5: 1, 3: None}})
    assert axes(matmul, wrt=(0, 2)) == (2, {0: {3: 0, 4: 0}, 1: {1: 1, 4: 1, 3: None}})
