"""Arrays in elements of arrays, in lanes: kernels against NumPy, at sizes that leave lanes without a thread."""

import numpy as np
import pytest

import warp_like as wp
from tests.guarded import IS_SUPPORTED, guarded
from tests.interpreter import run
from tests.lane_interpreter import run_lanes
from tests.long_tail import seeds, tail
from tests.passes.spmd import random_nested
from warp_like.compiler.pipeline import optimised
from warp_like.compiler.signature import Signature
from warp_like.ir import ops
from warp_like.ir.verify import verify
from warp_like.passes.spmd.choice import choose
from warp_like.passes.spmd.widen import widen
from warp_like.runtime.arrays import nested

SIZES = [0, 1, 7, 16, 37]


@pytest.fixture(params=[0, 4, 16])
def width(request):
    wp.config.vector_width = request.param
    yield request.param
    del wp.config.vector_width


def holders(struct, **fields):
    """An array of structs that hold these arrays, lists with one for each element."""
    made = []
    for values in zip(*fields.values(), strict=True):
        one = struct()
        for name, x in zip(fields, values, strict=True):
            setattr(one, name, x)
        made.append(one)
    return wp.array(made, dtype=struct) if made else wp.zeros(0, dtype=struct)


@wp.struct
class Row:
    v: wp.array(dtype=float)


def rows_of(parts, **options):
    return holders(Row, v=[wp.array(x, dtype=float, **options) for x in parts])


def ragged(n, seed=0, dtype="float32"):
    """``n`` arrays of 0 to 6 whole numbers."""
    r = np.random.default_rng(seed)
    return [r.integers(-9, 9, r.integers(0, 7)).astype(dtype) for _ in range(n)]


# --- reading -----------------------------------------------------------------------------------------------


@wp.kernel
def lengths_at(rows: wp.array(dtype=Row), wanted: wp.array(dtype=int), at: int, out: wp.array(dtype=float)):
    i = wp.tid()
    n = float(0)
    if wanted[i] > 0:
        n = float(rows[at].v.shape[0]) * 2.0
    out[i] = n


@pytest.mark.skipif(not IS_SUPPORTED, reason="needs protected pages")
def test_no_element_is_read_for_lanes_that_are_off(width):
    """One element for all lanes, which none of them reads: reading it anyway would end the process."""
    with guarded("end"):
        rows, out = rows_of([np.zeros(3, np.float32)]), wp.zeros(21, dtype=float)
        for wanted, at in ((1, 0), (0, 1), (0, 1 << 28)):
            wp.launch(lengths_at, 21, [rows, np.full(21, wanted, np.int32), at, out])
            np.testing.assert_array_equal(out.numpy(), np.full(21, 6.0 * wanted))


@wp.func
def leading(r: wp.array(dtype=float)):
    """How many numbers stand before the first negative one."""
    for k in range(r.shape[0]):
        if r[k] < 0.0:
            return k
    return r.shape[0]


@wp.kernel
def sums(rows: wp.array(dtype=Row), order: wp.array(dtype=int), out: wp.array2d(dtype=float)):
    i = wp.tid()
    s = float(0)
    for x in rows[i].v:
        s += x
    out[0, i] = s
    if order[i] >= 0:  # else it is no row
        r = rows[order[i]].v
        if r.shape[0] > 2:
            out[1, i] = r[2] + r[-1]
        out[2, i] = float(leading(r))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("edge", ["begin", "end"])
def test_rows_of_any_lengths(width, n, edge):
    parts = ragged(n)
    order = np.random.default_rng(1).permutation(n).astype(np.int32)
    order[n // 2 :: 3] = -(1 << 24)
    wanted = np.zeros((3, n), np.float32)
    for i in range(n):
        wanted[0, i] = parts[i].sum()
        if order[i] >= 0:
            r = parts[order[i]]
            wanted[1, i] = r[2] + r[-1] if len(r) > 2 else 0
            wanted[2, i] = next((k for k, x in enumerate(r) if x < 0), len(r))
    with guarded(edge):
        out = wp.zeros((3, n), dtype=float)
        wp.launch(sums, n, [rows_of(parts), wp.array(order), out])
        np.testing.assert_array_equal(out.numpy(), wanted)


@pytest.mark.parametrize("n", [7, 37])
def test_rows_that_are_parts_of_others(width, n):
    """Strides, also negative ones, one row several times, and rows that overlap."""
    whole = wp.array(np.arange(4 * n + 8), dtype=float)
    views = [whole[i : 4 * i + 8 : 1 + i % 3] for i in range(n)]
    views[1::3] = [whole[4 * i : i : -1] if i else whole[0:1] for i in range(n)][1::3]
    views[2::3] = [views[2]] * len(views[2::3])
    rows = holders(Row, v=views)
    order, out = np.arange(n, dtype=np.int32)[::-1].copy(), wp.zeros((3, n), dtype=float)
    wp.launch(sums, n, [rows, order, out])
    parts = [v.numpy() for v in views]
    np.testing.assert_array_equal(out.numpy()[0], [x.sum() for x in parts])
    np.testing.assert_array_equal(out.numpy()[1], [x[2] + x[-1] if len(x) > 2 else 0 for x in parts[::-1]])


# --- types, dimensions, nesting ----------------------------------------------------------------------------


def make_grids(dtype):
    @wp.struct
    class Grid:
        weight: wp.float32
        m: wp.array2d(dtype=dtype)
        n: int

    @wp.kernel
    def moved(grids: wp.array(dtype=Grid), out: wp.array(dtype=dtype)):
        i = wp.tid()
        m = grids[i].m
        for a in range(m.shape[0]):
            for b in range(m.shape[1]):
                m[a, b] = m[a, b] + m[a, b]
        row = m[m.shape[0] - 1]
        out[i] = row[i % m.shape[1]] + m[0, 0]
        if grids[i].n == 1:
            m[0, 0] = row[0]
        grids[i].n += 1

    return Grid, moved


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *[("float32", ()), ("float64", ()), ("int8", ()), ("float16", ()), ("float32", (3,)), ("float32", (2, 2))],
        *[tail(t, ()) for t in ("int64", "uint16", "uint32")],
        *[tail("float64", (3,)), tail("float32", (5,)), tail("int32", (2,)), tail("float16", (3,))],
    ],
)
def test_elements_of_any_type_in_two_dimensions(width, dtype, shape):
    scalar, n = getattr(wp, dtype), 21
    element = {
        0: lambda: scalar,
        1: lambda: wp.types.vector(shape[0], scalar),
        2: lambda: wp.types.matrix(shape, scalar),
    }
    element = element[len(shape)]()
    grid, kernel = make_grids(element)
    with guarded("end" if width else "begin"):
        _moves(grid, kernel, element, dtype, shape, n)


def _moves(grid, kernel, element, dtype, shape, n):
    r = np.random.default_rng(3)
    parts = [r.integers(0, 9, (1 + i % 3, 1 + i % 4, *shape)).astype(dtype) for i in range(n)]
    arrays = [wp.array(x, dtype=element) for x in parts]
    arrays[::2] = [x.transpose() for x in arrays[::2]]
    parts[::2] = [x.swapaxes(0, 1) for x in parts[::2]]
    parts = [x.copy() for x in parts]
    kinds = np.arange(n) % 3
    grids = holders(grid, weight=[0.5] * n, m=arrays, n=kinds.tolist())
    out = wp.zeros(n, dtype=element)
    wp.launch(kernel, n, [grids, out])
    for i, x in enumerate(parts):
        x += x
        np.testing.assert_array_equal(out.numpy()[i], x[-1, i % x.shape[1]] + x[0, 0])
        if kinds[i] == 1:
            x[0, 0] = x[-1, 0]
        np.testing.assert_array_equal(arrays[i].numpy(), x)
    np.testing.assert_array_equal(grids.numpy()["n"], kinds + 1)


@wp.struct
class Part:
    rows: wp.array(dtype=Row)
    centre: wp.array(dtype=wp.vec3)


@wp.struct
class Body:
    k: int
    part: Part


@wp.kernel
def deep(bodies: wp.array(dtype=Body), which: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    b = which[i]
    s = float(0)
    for j in range(bodies[b].part.rows.shape[0]):
        for e in bodies[b].part.rows[j].v:
            s += e * float(bodies[b].k)
    c = bodies[b].part.centre
    if len(c) > 0:
        s += c[i % len(c)][1] + c[0].z
    out[i] = s


def test_arrays_in_arrays_in_arrays(width):
    n, count = 37, 5
    inner = [ragged(k, seed=k) for k in range(count)]
    centres = [np.arange(3 * k, dtype=np.float32).reshape(k, 3) for k in (0, 1, 2, 3, 1)]
    parts = []
    for rows, centre in zip(inner, centres, strict=True):
        part = Part()
        part.rows, part.centre = rows_of(rows), wp.array(centre, dtype=wp.vec3)
        parts.append(part)
    bodies = holders(Body, k=list(range(count)), part=parts)
    which, out = np.random.default_rng(0).integers(0, count, n).astype(np.int32), wp.zeros(n, dtype=float)
    wp.launch(deep, n, [bodies, which, out])
    for i, b in enumerate(which):
        s = b * sum(float(x.sum()) for x in inner[b])
        c = centres[b]
        s += c[i % len(c)][1] + c[0, 2] if len(c) else 0
        assert out.numpy()[i] == s


# --- writing -----------------------------------------------------------------------------------------------


@wp.kernel
def through_both(rows: wp.array(dtype=Row), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    r = rows[i].v
    y[i] = 1.0 + float(i)
    r[0] = r[0] * 3.0
    a = y[i]
    y[i] = a + r[0]
    if i % 3 == 0:
        rows[i].v[0] += 1.0
    out[i] = y[i] + r[0]


def test_rows_that_are_parts_of_another_argument(width):
    """The order of a thread's own accesses holds, whichever name it uses for the element."""
    n = 37
    y = wp.zeros(n, dtype=float)
    rows, out = holders(Row, v=[y[i : i + 1] for i in range(n)]), wp.zeros(n, dtype=float)
    wp.launch(through_both, n, [rows, y, out])
    i = np.arange(n)
    wanted = 6.0 * (1.0 + i) + (i % 3 == 0)
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(out.numpy(), 2 * wanted)


@wp.struct
class Sums:
    total: wp.array(dtype=float)
    most: wp.array(dtype=int)
    vectors: wp.array(dtype=wp.vec3)


@wp.kernel
def collected(held: wp.array(dtype=Sums), g: wp.array(dtype=int), old: wp.array(dtype=int)):
    i = wp.tid()
    h = held[g[i]]
    h.total[i % 2] += 1.0
    wp.atomic_max(h.most, 0, i)
    if i % 3 == 1:
        wp.atomic_add(h.vectors, 0, wp.vec3(1.0, float(i), 0.0))
    old[i] = wp.atomic_add(h.most, 1, 1)


@pytest.mark.parametrize("n", [1, 16, 37])
def test_updates_of_rows_that_threads_share(width, n):
    groups, g = 5, np.random.default_rng(n).integers(0, 5, n).astype(np.int32)
    total = [wp.zeros(2, dtype=float) for _ in range(groups)]
    most = [wp.zeros(2, dtype=int) for _ in range(groups)]
    vectors = [wp.zeros(1, dtype=wp.vec3) for _ in range(groups)]
    old = wp.zeros(n, dtype=int)
    wp.launch(collected, n, [holders(Sums, total=total, most=most, vectors=vectors), g, old])
    i = np.arange(n)
    for k in range(groups):
        mine = i[g == k]
        np.testing.assert_array_equal(total[k].numpy(), [np.sum(mine % 2 == 0), np.sum(mine % 2 == 1)])
        np.testing.assert_array_equal(most[k].numpy(), [mine.max(initial=0), len(mine)])
        some = mine[mine % 3 == 1]
        np.testing.assert_array_equal(vectors[k].numpy()[0], [len(some), some.sum(), 0])
        np.testing.assert_array_equal(np.sort(old.numpy()[mine]), np.arange(len(mine)))


# --- gradients ---------------------------------------------------------------------------------------------


@wp.kernel
def weighted(
    rows: wp.array(dtype=Row), order: wp.array(dtype=int), w: wp.array(dtype=float), out: wp.array(dtype=float)
):
    i = wp.tid()
    r = rows[order[i]].v
    s = float(0)
    for j in range(r.shape[0]):
        s = s * 0.5 + r[j] * r[j] * w[i]
    if r.shape[0] > 1:
        s += wp.sin(r[1])
    out[i] = s


def _weighted(parts, order, w):
    out = np.zeros(len(w))
    for i, k in enumerate(order):
        for x in parts[k]:
            out[i] = out[i] * 0.5 + x * x * w[i]
        out[i] += np.sin(parts[k][1]) if len(parts[k]) > 1 else 0
    return out


@pytest.mark.parametrize("n", [1, 21])
def test_gradients(width, n):
    parts, order = ragged(n, 2), np.random.default_rng(n).integers(0, n, n).astype(np.int32)
    w = np.random.default_rng(4).normal(size=n).astype(np.float32)
    given, held = wp.array(w), [wp.array(x, requires_grad=True) for x in parts]
    rows, out = holders(Row, v=held), wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weighted, n, [rows, order, given, out])
    np.testing.assert_allclose(out.numpy(), _weighted(parts, order, w), rtol=1e-5, atol=1e-4)
    given_back = np.random.default_rng(5).normal(size=n)
    tape.backward(grads={out: wp.array(given_back, dtype=float)})
    doubles, w = [x.astype(float) for x in parts], w.astype(float)
    for x, array in zip(doubles, held, strict=True):
        for j, got in enumerate(array.grad.numpy()):
            x[j] += 1e-5
            above = given_back @ _weighted(doubles, order, w)
            x[j] -= 2e-5
            below = given_back @ _weighted(doubles, order, w)
            x[j] += 1e-5
            np.testing.assert_allclose(got, (above - below) / 2e-5, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("seed", seeds(60, few=0))
def test_gradients_of_random_kernels(seed):
    random_nested.check(seed)


# --- the code for lanes ------------------------------------------------------------------------------------


def _arguments(kernel, n):
    parts, order = ragged(n, 6), np.random.default_rng(n).permutation(n).astype(np.int32)
    if kernel is sums:
        return [rows_of(parts), order, np.zeros((3, n), np.float32)]
    if kernel is through_both:
        y = wp.zeros(n, dtype=float)
        return [holders(Row, v=[y[i : i + 1] for i in range(n)]), y, np.zeros(n, np.float32)]
    held = [wp.array(x, dtype=float) for x in ([0.0, 0.0], [0.0, 0.0])]
    most, vectors = wp.zeros((2, 2), dtype=int), wp.zeros((2, 1), dtype=wp.vec3)
    groups = holders(Sums, total=held, most=[most[0], most[1]], vectors=[vectors[0], vectors[1]])
    return [groups, order % 2, np.zeros(n, np.int32)]


@pytest.mark.parametrize("kernel", [sums, through_both, collected], ids=lambda k: k.key)
def test_the_code_for_lanes_means_what_that_of_a_thread_does(kernel):
    """Interpreted, so that the pass is tested without a backend."""
    f = optimised(kernel.source, Signature(kernel.types))
    wide = widen(f, 4, scattered=True)
    verify(wide)
    assert any(isinstance(o, ops.NestedArray) and o.mask for o in wide.body.walk())
    seen = []
    for execute, code in ((run, f), (run_lanes, wide)):
        args = _arguments(kernel, 11)
        given = [a.numpy() if isinstance(a, wp.array) else a for a in args]
        execute(code, given, (11,))
        held = [x.numpy() for x in nested.arrays_in(args[0])]
        seen.append([*given[1:], *held])
    for a, b in zip(*seen, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kernel", [sums, through_both, collected, weighted, deep], ids=lambda k: k.key)
def test_lanes_are_used_where_asked_for(kernel):
    f = optimised(kernel.source, Signature(kernel.types))
    assert choose(f, 512, 32, 16).width == 16
