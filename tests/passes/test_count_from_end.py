"""Negative indices that depend on memory count from the end; others stay as they are."""

import numpy as np
import pytest

import warp_like as wp
from tests.ir_builder import loop, start, tid
from warp_like.ir import ops
from warp_like.ir.types import Array, float32, int32, uint32
from warp_like.passes.count_from_end import count_from_end

X = Array(float32, 1)
SETTINGS = [{}, {"vector_width": 1}, {"vector_width": 8}, {"mode": "debug"}]


@wp.struct
class Cell:
    mass: float
    items: wp.array(dtype=float)


@wp.kernel
def everywhere(
    at: wp.array(dtype=int),
    wide: wp.array(dtype=wp.int64),
    short: wp.array(dtype=wp.int8),
    x: wp.array(dtype=float),
    m: wp.array2d(dtype=float),
    cells: wp.array(dtype=Cell),
    out: wp.array2d(dtype=float),
):
    i = wp.tid()
    j = at[i]
    out[i, 0] = x[j] + x[wide[i]] + x[short[i]]
    out[i, 1] = m[j, j]
    row = m[j]
    out[i, 2] = row[j]
    out[i, 3] = m[j, :][j]
    out[i, 4] = x[1:][j]
    out[i, 5] = cells[j].mass + cells[j].items[j]
    own = wp.zeros(shape=(4,), dtype=float)
    own[j] = 3.0
    out[i, 6] = own[1] + 2.0 * own[3]
    if i % 2 == 0:
        j -= 1
    out[i, 7] = x[j]


@pytest.mark.parametrize("options", SETTINGS)
def test_reads(options):
    at = np.array([-1, 1, -3, 3, -2, 2], np.int32)
    x = np.array([1.0, 2.0, 4.0, 8.0], np.float32)
    m = np.arange(16, dtype=np.float32).reshape(4, 4)
    cells = [Cell() for _ in range(4)]
    for k, c in enumerate(cells):
        c.mass, c.items = 100.0 * k, wp.array(x * k)
    out = np.zeros((6, 8), np.float32)
    args = [at, at.astype(np.int64), at.astype(np.int8), x, m, wp.array(cells, dtype=Cell), out]
    at[0], at[3] = -2, 1  # in range of the slice of three elements, too
    args[1], args[2] = at.astype(np.int64), at.astype(np.int8)
    at[2] = args[1][2] = args[2][2] = -3
    wp.launch(everywhere, 6, args, options=options)
    own = np.zeros((6, 4))
    own[np.arange(6), at] = 3.0
    moved = at - (np.arange(6) % 2 == 0)
    expected = [3 * x[at], m[at, at], m[at, at], m[at, at], x[1:][at], 100.0 * (at % 4) + x[at] * (at % 4)]
    expected += [own[:, 1] + 2.0 * own[:, 3], x[moved]]
    np.testing.assert_array_equal(out, np.array(expected, np.float32).T)


@wp.kernel
def written(at: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array2d(dtype=float)):
    i = wp.tid()
    y[at[i]] = 2.0 * x[at[i]]
    wp.atomic_add(z, at[i], at[i], x[i])


@pytest.mark.parametrize("options", SETTINGS)
def test_writes_and_their_gradients(options):
    at = wp.array([-1, 1, -4, 2], dtype=int)
    x, y = (wp.array(v, dtype=float, requires_grad=True) for v in ([1.0, 2.0, 4.0, 8.0], [0.0] * 4))
    z = wp.zeros((4, 4), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(written, 4, [at, x, y, z], options=options)
    assert y.list() == [2.0, 4.0, 8.0, 16.0]
    assert z.numpy().diagonal().tolist() == [4.0, 2.0, 8.0, 1.0]
    tape.backward(
        grads={
            y: wp.array([1.0, 10.0, 100.0, 1000.0], dtype=float),
            z: wp.array(np.diag(np.float32([5.0, 6.0, 7.0, 8.0]))),
        }
    )
    assert x.grad.list() == [2.0 + 8.0, 20.0 + 6.0, 200.0 + 5.0, 2000.0 + 7.0]


def test_a_search_that_finds_nothing():
    @wp.kernel
    def last(links: wp.array(dtype=int), x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        j = i
        while links[j] >= 0:
            j = links[j]
        j = links[j]  # -1
        out[i] = x[j]

    out = np.zeros(3, np.float32)
    wp.launch(last, 3, [np.array([1, 2, -1], np.int32), np.array([1.0, 2.0, 3.0], np.float32), out])
    assert out.tolist() == [3.0, 3.0, 3.0]


def test_debug_mode_still_refuses_what_is_out_of_range():
    at, x = np.array([-5], np.int32), np.zeros(4, np.float32)
    args = [at, x, np.zeros(4, np.float32), np.zeros((4, 4), np.float32)]
    with pytest.raises(IndexError, match="out of range for array `x` of shape"):
        wp.launch(written, 1, args, options={"mode": "debug"})


def test_what_stays_as_it_is():
    f, b = start(x=X, at=Array(int32, 1), unsigned=Array(uint32, 1), n=int32)
    (x, at, unsigned, n), i = f.params, tid(b)
    read = b.load(at, [i])
    for index in (i, b.sub(i, 1), n, b.mul(i, n), b.bit_and(read, 7), b.max(read, 0), b.load(unsigned, [i])):
        b.store(x, [index], b.load(x, [index]))
    with loop(b, read, n) as body:
        b.store(x, [body.i], b.load(x, [body.i]))
    b.yield_()
    before = [(o, o.indices) for o in f.body.walk() if isinstance(o, (ops.Load, ops.Store))]
    count_from_end(f)
    assert all(o.indices == indices for o, indices in before)


@wp.func
def root(x: wp.array(dtype=float), at: wp.array(dtype=int), i: int):
    return wp.sqrt(x[at[i]])


@wp.func_grad(root)
def adj_root(x: wp.array(dtype=float), at: wp.array(dtype=int), i: int, adj_ret: float):
    wp.adjoint[x][at[i]] += 10.0 * adj_ret


@wp.func
def double(x: wp.array(dtype=float), j: int):
    return 2.0 * x[j]


@wp.func_replay(double)
def replay_double(x: wp.array(dtype=float), j: int):
    return 2.0 * x[j]


@wp.kernel
def custom(x: wp.array(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    v = double(x, at[i])
    out[i] = root(x, at, i) + v * v


@pytest.mark.parametrize("options", SETTINGS)
def test_functions_with_gradients_of_their_own(options):
    x = wp.array([1.0, 4.0, 9.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(custom, 2, [x, wp.array([-1, 0], dtype=int), out], options=options)
    assert out.list() == [3.0 + 18.0**2, 1.0 + 2.0**2]
    tape.backward(grads={out: wp.array([1.0, 1.0], dtype=float)})
    assert x.grad.list() == [10.0 + 8.0, 0.0, 10.0 + 72.0]
