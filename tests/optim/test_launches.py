"""Arrays of any strides and of structs: each float gets the step that it gets alone."""

import itertools

import numpy as np
import pytest

import warp_like as wp
from tests.optim.beside import numbers
from warp_like.optim.launches import _joined


@wp.struct
class Spring:
    stiffness: float
    rest: wp.float64


@wp.struct
class Body:
    kind: int
    place: wp.vec3
    turn: wp.quath
    spring: Spring


def views(dtype):
    """Pairs of arrays of one shape that lie in memory in other ways, and a name for each."""
    inner = np.shape(dtype()) if wp.types.type_is_composite(dtype) else ()

    def made(*shape):
        values = np.random.default_rng(len(shape)).standard_normal((*shape, *inner))
        return wp.array(values, dtype=dtype)

    yield "every second", made(9)[::2], made(5)
    yield "backwards", made(6)[::-1], made(12)[1::2]
    yield "transposed", made(4, 3).transpose(), made(3, 4)
    yield "both transposed", made(4, 3).transpose(), made(4, 3).transpose()
    yield "columns", made(5, 6)[:, 1:4], made(5, 3)
    yield "three dimensions", made(3, 4, 5)[:, ::2, :3], made(3, 2, 3)
    yield "four dimensions", made(3, 4, 4, 5)[::2, ::3, 1:3, ::2], made(2, 2, 2, 3)
    yield "one row", made(4, 5)[2:3, ::2], made(1, 3)


@pytest.mark.parametrize("dtype", [wp.float32, wp.vec3d, wp.mat22], ids=lambda t: t.__name__)
def test_strides(dtype):
    """Matrices in a view of four dimensions have six; kernels take four of them at a time."""
    for name, p, g in views(dtype):
        for make in (
            lambda x: wp.optim.Adam(x, lr=0.1, weight_decay=0.1),
            lambda x: wp.optim.SGD(x, lr=0.1, momentum=0.9),
        ):
            packed_p, packed_g = wp.array(p.numpy(), dtype=dtype), wp.array(g.numpy(), dtype=dtype)
            strided, packed = make([p]), make([packed_p])
            for _ in range(3):
                strided.step([g])
                packed.step([packed_g])
            np.testing.assert_array_equal(p.numpy(), packed_p.numpy(), err_msg=name)


def test_what_lies_between_the_elements_stays():
    whole = wp.ones((4, 5))
    wp.optim.SGD([whole[1:3, ::2]], lr=1.0).step([wp.ones((2, 3))])
    expected = np.ones((4, 5), np.float32)
    expected[1:3, ::2] = 0.0
    np.testing.assert_array_equal(whole.numpy(), expected)


@pytest.mark.parametrize("make", [lambda p: wp.optim.AdamW(p, lr=0.1), lambda p: wp.optim.SGD(p, 0.1, momentum=0.9)])
def test_structs(make):
    """Fields of floats get the steps that arrays of them get; integers stay."""
    rng = np.random.default_rng(3)

    def made(n):
        records = np.zeros(n, dtype=Body.numpy_dtype())
        for part, name in (
            (records, "place"),
            (records, "turn"),
            (records["spring"], "stiffness"),
            (records["spring"], "rest"),
        ):
            part[name] = rng.standard_normal(part[name].shape)
        records["kind"] = 7
        return wp.array(records, dtype=Body)

    for n in (0, 1, 5):
        p, gradients = made(n), [made(n) for _ in range(3)]

        def parts(a):
            r = a.numpy()
            fields = (r["place"], wp.vec3), (r["turn"], wp.quath), (r["spring"]["stiffness"], float)
            return [wp.array(v.copy(), dtype=t) for v, t in (*fields, (r["spring"]["rest"], wp.float64))]

        alone = parts(p)
        whole, single = make([p]), make(alone)
        for g in gradients:
            whole.step([g])
            single.step(parts(g))
        for got, expected in zip(parts(p), alone, strict=True):
            np.testing.assert_array_equal(got.numpy(), expected.numpy())
        assert set(p.numpy()["kind"].tolist()) <= {7}
        buffer = (whole.m if isinstance(whole, wp.optim.Adam) else whole.b)[0]
        assert {name: a.dtype for name, a in buffer.items()} == {
            "place": wp.vec3,
            "turn": wp.quat,
            "spring.stiffness": wp.float32,
            "spring.rest": wp.float64,
        }


def test_joined_dimensions_visit_the_same_elements():
    """Beside a walk through all indices, for random shapes, extents of 1, orders and gaps."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        ndim = int(rng.integers(1, 5))
        shape = tuple(int(n) for n in rng.integers(1, 4, ndim))
        strides = []
        for _ in range(2):
            order, step, found = rng.permutation(ndim) if rng.random() < 0.4 else np.arange(ndim)[::-1], 4, [0] * ndim
            for axis in order:
                found[axis] = step
                step *= shape[axis] + (int(rng.integers(0, 2)) if rng.random() < 0.3 else 0)
            strides.append(tuple(found))
        joined, steps = _joined(shape, tuple(strides))

        def places(extents, of):
            walk = itertools.product(*map(range, extents))
            return [tuple(sum(k * s for k, s in zip(index, a, strict=True)) for a in of) for index in walk]

        assert places(shape, strides) == places(joined, steps)
        assert len(joined) <= len(shape)


def test_parameters_that_are_refused():
    @wp.struct
    class Holder:
        values: wp.array(dtype=float)

    x = wp.zeros(4)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    cases = [
        (x, TypeError, r"Adam takes a list of arrays, got array; write \[x\] for one array x"),
        ([wp.zeros(4, dtype=int)], TypeError, "Adam parameter 0 has dtype int32; it takes floats"),
        (
            [x, wp.array([Holder(values=x)])],
            TypeError,
            "Adam parameter 1: the field `values` of its structs is an array",
        ),
        ([wp.indexedarray(x, [wp.array([1], dtype=int)])], TypeError, "Adam parameter 0 is an indexed array"),
        ([frozen], ValueError, "Adam parameter 0 is read-only"),
        ([x, wp.zeros(4), x], ValueError, "Adam parameter 2 is parameter 0 once more"),
        ([np.broadcast_to(np.zeros(1, np.float32), (4,))], ValueError, "Adam parameter 0 is read-only"),
    ]
    for params, error, message in cases:
        with pytest.raises(error, match=message):
            wp.optim.Adam(params)
    assert numbers(x).tolist() == [0.0] * 4
