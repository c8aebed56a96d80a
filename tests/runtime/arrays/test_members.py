"""Reading, writing and viewing arrays from the host."""

import numpy as np
import pytest

import warp_like as wp


@pytest.fixture
def a():
    return wp.array(np.arange(24).reshape(2, 3, 4), dtype=float)


KEYS = [
    0,
    -1,
    (1, 2),
    slice(None),
    slice(None, None, -1),
    (slice(None), slice(0, 3, 2)),
    (0, slice(None, None, -2), slice(1, 3)),
    (Ellipsis, 1),
    (1, Ellipsis, slice(3, 0, -2)),
    Ellipsis,
    (slice(5, 9),),
    (np.int64(1), slice(2, 1)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_gives_a_view(a, key):
    got, expected = a[key], a.numpy()[key]
    assert isinstance(got, wp.array)
    assert got.shape == expected.shape
    assert np.array_equal(got.numpy(), expected)
    if expected.size:
        assert got.ptr == expected.ctypes.data
        assert got.numpy().strides == expected.strides == got.strides
        assert got.is_contiguous == expected.flags.c_contiguous
    got.fill_(-7)
    assert (expected == -7).all()
    assert (a.numpy() == -7).sum() == expected.size


def test_index_of_one_element(a):
    assert a[1, 2, 3] == 23.0
    assert type(a[1, 2, 3]) is float
    assert a[-1, -1, -1] == 23.0
    assert wp.array([(1, 2)], dtype=wp.vec2)[0] == wp.vec2(1, 2)
    assert type(wp.zeros(1, dtype=wp.float64)[0]) is wp.float64
    assert wp.ones(1, dtype=wp.bfloat16)[0] == 1.0
    assert [int(x) for x in wp.array([1, 2], dtype=int)] == [1, 2]
    assert [row.shape for row in a] == [(3, 4)] * 2


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (2, IndexError),
        ((0, 3), IndexError),
        ((0, 0, 0, 0), IndexError),
        (1.0, TypeError),
        (None, TypeError),
        ([0], TypeError),
        (True, TypeError),
        ((Ellipsis, Ellipsis), TypeError),
    ],
)
def test_wrong_index(a, key, error):
    with pytest.raises(error):
        a[key]


def test_setting_elements(a):
    a[0, 0, 0] = 5
    a[0, 1] = [1, 2, 3, 4]
    a[1] = a[0]
    a[:, 2] = 9
    expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected[0, 0, 0], expected[0, 1] = 5, [1, 2, 3, 4]
    expected[1], expected[:, 2] = expected[0].copy(), 9
    assert np.array_equal(a.numpy(), expected)
    v = wp.zeros(3, dtype=wp.vec2)
    v[1], v[2] = wp.vec2(1, 2), (3, 4)
    assert v.list() == [(0, 0), (1, 2), (3, 4)]
    with pytest.raises(ValueError):
        a[0] = np.zeros((5, 5))
    with pytest.raises(TypeError, match="can't take elements of int32"):
        a[0, 0] = wp.zeros(4, dtype=int)


def test_fill():
    v = wp.zeros((2, 2), dtype=wp.vec3)
    for value in (wp.vec3(1, 2, 3), (1, 2, 3), [1, 2, 3], np.array([1, 2, 3])):
        v.zero_()
        v.fill_(value)
        assert v.list() == [wp.vec3(1, 2, 3)] * 4
    v.transpose().fill_(5)
    assert (v.numpy() == 5).all()
    n = wp.zeros(2, dtype=wp.uint8)
    with pytest.warns(UserWarning, match="257 does not fit uint8"):
        n.fill_(257)
    assert n.list() == [1, 1]
    with pytest.raises(TypeError):
        n.fill_(2.5)
    h = wp.zeros(2, dtype=wp.bfloat16)
    h.fill_(1.5)
    assert h.list() == [1.5, 1.5]
    assert h.numpy().dtype == np.uint16


def test_assign(a):
    a.assign(np.ones((2, 3, 4)))
    assert (a.numpy() == 1).all()
    a.transpose().assign(wp.full((4, 3, 2), 2.0))
    assert (a.numpy() == 2).all()
    v = wp.zeros(2, dtype=wp.vec2)
    v.assign([1, 2, 3, 4])
    assert v.list() == [(1, 2), (3, 4)]
    v.assign([wp.vec2(5, 6), wp.vec2(7, 8)])
    assert v.list() == [(5, 6), (7, 8)]
    with pytest.raises(ValueError, match="can't assign"):
        a.assign([1, 2, 3])
    n = wp.zeros(1, dtype=int)
    with pytest.warns(UserWarning, match="an array of int32 is made of 1.5: fractions are cut off"):
        n.assign([1.5])
    assert n.list() == [1]


def test_list(a):
    assert a[0, 0].list() == [0, 1, 2, 3]
    assert a.transpose().list() == a.numpy().T.ravel().tolist()
    m = wp.array(np.arange(8).reshape(2, 2, 2), dtype=wp.mat22)
    assert m.list() == [wp.mat22(0, 1, 2, 3), wp.mat22(4, 5, 6, 7)]
    assert m[::-1].list() == m.list()[::-1]


def test_reshape_and_flatten(a):
    for got in (a.reshape((4, 6)), a.reshape(4, -1), a.reshape([4, 6])):
        assert got.shape == (4, 6)
        assert got.ptr == a.ptr
    assert a.flatten().shape == (24,) == a.reshape(-1).shape
    for wrong in ((5, 5), (-1, -1), (-1, 7)):
        with pytest.raises(RuntimeError):
            a.reshape(wrong)
    for wrong in (lambda: a.transpose().flatten(), lambda: a[:, ::2].reshape(16)):
        with pytest.raises(RuntimeError, match="call contiguous"):
            wrong()


def test_transpose(a):
    assert np.array_equal(a.transpose().numpy(), a.numpy().T)
    assert a.transpose().is_transposed
    assert np.array_equal(a.transpose((1, 0, 2)).numpy(), a.numpy().transpose(1, 0, 2))
    assert not a.is_transposed
    assert a.transpose().ptr == a.ptr
    with pytest.raises(ValueError, match="permutation"):
        a.transpose((0, 0, 1))


def test_contiguous_and_to(a):
    assert a.contiguous() is a
    assert a.to("cpu") is a
    b = a.transpose().contiguous()
    assert b.is_contiguous
    assert np.array_equal(b.numpy(), a.numpy().T)
    assert b.ptr != a.ptr


def test_view_of_another_dtype():
    v = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3)
    assert v.view(float).numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert v.view(float).ptr == v.ptr
    assert v.view(float).view(wp.vec3).list() == v.list()
    assert wp.ones(2).view(wp.int32).list() == [0x3F800000] * 2
    assert wp.ones(2, dtype=wp.vec2).view(wp.vec2i).dtype is wp.vec2i
    for wrong in (wp.float64, wp.int8, wp.vec2):
        with pytest.raises(TypeError, match="sizes of the elements differ"):
            wp.ones(3).view(wrong)


def test_copy_function(a):
    b = wp.zeros((2, 3, 4))
    wp.copy(b, a)
    assert np.array_equal(b.numpy(), a.numpy())
    wp.copy(b.transpose(), wp.zeros((4, 3, 2)))
    assert not b.numpy().any()
    wp.copy(b, a, dest_offset=2, src_offset=10, count=3)
    assert b.flatten().list()[:6] == [0, 0, 10, 11, 12, 0]
    target = np.zeros(24, np.float32)
    wp.copy(target, a)
    assert target.tolist() == list(range(24))
    with pytest.raises(RuntimeError, match="out of range"):
        wp.copy(b, a, src_offset=20, count=5)
    with pytest.raises(RuntimeError, match="copy\\(\\) takes integers"):
        wp.copy(a, a, count=1.5)
    with pytest.raises(RuntimeError, match="dtypes differ"):
        wp.copy(wp.zeros((2, 3, 4), dtype=int), a)


def test_gradient_follows_the_views(a):
    a.requires_grad = True
    grad = a.grad
    assert grad.shape == a.shape
    assert grad.dtype is a.dtype
    assert not grad.numpy().any()
    assert not grad.requires_grad
    views = [
        (lambda x: x[1]),
        (lambda x: x[:, 1:, ::2]),
        (lambda x: x.transpose()),
        (lambda x: x.reshape(6, 4)),
        (lambda x: x.flatten()),
        (lambda x: x.view(wp.int32)),
    ]
    for view in views:
        got, expected = view(a), view(grad)
        assert got.requires_grad
        assert (got.grad.ptr, got.grad.strides) == (expected.ptr, expected.strides)
    a.requires_grad = False
    assert a.grad is None
    assert not a[0].requires_grad


def test_setting_a_gradient(a):
    g = wp.ones((2, 3, 4))
    a.grad = g
    assert a.grad is g
    assert a.requires_grad
    assert wp.array([1.0], dtype=float, grad=wp.ones(1)).grad.list() == [1.0]
    for wrong in (wp.ones((3, 2, 4)), wp.ones((2, 3, 4), dtype=wp.float64)):
        with pytest.raises(ValueError, match="gradient"):
            a.grad = wrong


def test_readonly_arrays_refuse_writing():
    source = np.arange(3, dtype=np.float32)
    source.flags.writeable = False
    a = wp.array(source, copy=False)
    assert a.readonly
    assert not a.numpy().flags.writeable
    assert a[1:].readonly
    for write in (
        a.zero_,
        lambda: a.fill_(1),
        lambda: a.assign([1, 2, 3]),
        lambda: a.__setitem__(0, 1),
        lambda: wp.copy(a, a),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert source.tolist() == [0, 1, 2]
    assert not wp.clone(a).readonly


def test_empty_arrays():
    e = wp.zeros((3, 0, 2), dtype=wp.vec3, requires_grad=True)
    assert e.size == 0
    assert e.numpy().shape == (3, 0, 2, 3)
    assert e.list() == []
    assert e.grad.size == 0
    e.fill_(1)
    e.zero_()
    assert e.flatten().shape == (0,)
    assert e.transpose().shape == (2, 0, 3)
    assert wp.clone(e).shape == e.shape


@pytest.mark.parametrize("dtype", [wp.float16, wp.bfloat16, wp.float32, wp.float64, wp.int8, wp.uint64])
def test_an_array_of_one_number_is_a_number(dtype):
    a = wp.full((1, 1), 3, dtype=dtype)
    assert (float(a), int(a)) == (3.0, 3)
    assert isinstance(float(a), float)
    assert float(wp.zeros(1)) == 0.0


@pytest.mark.parametrize("a", [wp.zeros(2), wp.zeros(0), wp.zeros(1, dtype=wp.vec3)])
def test_other_arrays_are_no_numbers(a):
    for number in (float, int):
        with pytest.raises(TypeError) as caught:
            number(a)
        assert str(caught.value) == (
            f"{number.__name__}() takes an array of one number, got {a!r}; use an element, such as a[0]"
        )


def test_an_array_of_one_number_is_no_argument_for_a_number():
    @wp.kernel
    def put(x: float):
        pass

    with pytest.raises(TypeError, match=r"expected float32, got array1d\[float32\] of shape \(1,\)\n"):
        wp.launch(put, 1, [wp.zeros(1)])
