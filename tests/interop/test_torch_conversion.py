"""``from_torch`` without Python: what it takes, what it keeps alive, and that it says and warns of the same things."""

import copy
import gc
import inspect
import pickle
import warnings
import weakref

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")


def leaf(*shape):
    t = torch.zeros(*shape or (4,), requires_grad=True)
    wp.from_torch(t)  # the first conversion of a leaf makes its gradient, and tells how the next ones go
    return t


def test_it_looks_like_the_function_that_it_stands_for():
    assert list(inspect.signature(wp.from_torch).parameters) == [
        "t",
        "dtype",
        "requires_grad",
        "grad",
        "return_ctype",
        "retain_grad",
    ]
    assert "Return an array over the memory of tensor ``t``." in inspect.getdoc(wp.from_torch)
    assert pickle.loads(pickle.dumps(wp.from_torch)) is wp.from_torch
    assert copy.deepcopy(wp.from_torch) is wp.from_torch


@pytest.mark.parametrize("make", [lambda: torch.zeros(4, 3), lambda: leaf(4, 3)], ids=["plain", "leaf"])
@pytest.mark.parametrize(
    ("args", "kwargs", "shape", "dtype"),
    [
        ((), {}, (4, 3), wp.float32),
        ((None,), {}, (4, 3), wp.float32),
        ((wp.vec3,), {}, (4,), wp.vec3),
        ((), {"dtype": wp.vec3}, (4,), wp.vec3),
        ((), {"dtype": float, "retain_grad": True}, (4, 3), wp.float32),
    ],
)
def test_element_types(make, args, kwargs, shape, dtype):
    t = make()
    a = wp.from_torch(t, *args, **kwargs)
    assert (a.ptr, a.shape, a.dtype) == (t.data_ptr(), shape, dtype)
    assert a.requires_grad == t.requires_grad
    if a.requires_grad:
        assert (a.grad.ptr, a.grad.shape, a.grad.dtype) == (t.grad.data_ptr(), shape, dtype)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wp.from_torch(), TypeError, "missing 1 required positional argument: 't'"),
        (lambda: wp.from_torch(torch.zeros(3), float, dtype=float), TypeError, "multiple values for argument 'dtype'"),
        (lambda: wp.from_torch([1.0]), TypeError, "from_torch() needs a PyTorch tensor, got list"),
        (lambda: wp.from_torch(wp.zeros(3)), TypeError, "from_torch() needs a PyTorch tensor, got array"),
        (
            lambda: wp.from_torch(torch.zeros(3), dtype=int),
            TypeError,
            "expected elements of int32, got a PyTorch tensor of float32",
        ),
        (
            lambda: wp.from_torch(torch._neg_view(torch.zeros(3))),
            ValueError,
            "the PyTorch tensor is a lazily conjugated or negated view; resolve it first (resolve_conj, resolve_neg)",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error) as info:
        call()
    assert message in str(info.value)


def test_a_gradient_is_shared_as_the_first_time():
    t = leaf()
    a, b = wp.from_torch(t), wp.from_torch(t)
    assert a.grad.ptr == b.grad.ptr == t.grad.data_ptr()
    t.grad = None
    a._attach_grad()
    assert t.grad.data_ptr() == a.grad.ptr
    t.grad = torch.ones(4)
    fresh = wp.from_torch(t)
    assert fresh.grad.list() == [1, 1, 1, 1]
    assert fresh.grad.ptr == t.grad.data_ptr()
    fresh.grad = wp.full(4, 2.0)
    assert t.grad.tolist() == [2, 2, 2, 2]


def test_without_grad_mode_the_gradient_is_the_arrays_own():
    t = leaf()
    with torch.no_grad():
        a = wp.from_torch(t)
    assert a.requires_grad
    assert a.grad.ptr != t.grad.data_ptr()


def test_results_of_operations_warn_and_do_not_keep_the_graph():
    t = leaf()
    kept = torch.ones(4)
    gone = weakref.ref(kept)
    result = t * kept
    with pytest.warns(UserWarning, match="the result of an operation"):
        a = wp.from_torch(result)
    assert a.requires_grad
    del result, kept
    gc.collect()
    assert gone() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not wp.from_torch((t * 2).detach()).requires_grad


@pytest.mark.parametrize("make", [lambda: torch.full((8,), 3.0), lambda: torch.nn.Parameter(torch.full((8,), 3.0))])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:4], lambda a: a.reshape(2, 4), lambda a: a.view(wp.int32)])
def test_memory_stays_when_the_tensor_gets_another(make, view):
    t = make()
    wp.from_torch(t)
    a = view(wp.from_torch(t))
    before, ndarray = a.numpy().copy(), a.numpy()
    t.data = torch.zeros(1)
    if t.grad is not None:
        t.grad.data = torch.zeros(1)
    del t
    gc.collect()
    torch.full((8,), 7.0)
    np.testing.assert_array_equal(a.numpy(), before)
    tensor = wp.to_torch(a, requires_grad=False)
    grad = a.grad
    del a
    gc.collect()
    torch.full((8,), 7.0)
    np.testing.assert_array_equal(ndarray, before)
    assert tensor.numpy().tolist() == before.tolist()
    assert grad is None or not grad.numpy().any()


def test_a_tensor_that_keeps_its_array_is_collected():
    t = leaf()
    t.array = wp.from_torch(t)
    gone = weakref.ref(t.array)
    del t
    gc.collect()
    assert gone() is None


def test_conversions_leak_nothing():
    plain, t = torch.zeros(4), leaf()
    before = [weakref.getweakrefcount(x) + len(gc.get_referrers(x)) for x in (plain, t, t.grad)]
    for _ in range(100):
        a, b = wp.from_torch(plain), wp.from_torch(t)
        del a, b
    gc.collect()
    assert [weakref.getweakrefcount(x) + len(gc.get_referrers(x)) for x in (plain, t, t.grad)] == before


def test_under_transformations_a_tensor_is_refused_or_real():
    seen = []

    def f(x):
        try:
            seen.append(wp.from_torch(x.detach()).shape)
        except (ValueError, RuntimeError, TypeError) as e:
            seen.append(type(e))
        return x.sum()

    torch.func.vmap(f)(torch.zeros(2, 3))
    assert seen in ([ValueError], [RuntimeError], [TypeError])


@pytest.mark.parametrize("given, wanted", [(torch.int64, wp.uint64), (torch.int16, wp.uint16), (torch.bool, wp.int8)])
def test_integers_of_the_same_size(given, wanted):
    t = torch.tensor([[1, 0]], dtype=given)
    a = wp.from_torch(t, dtype=wanted)
    assert (a.dtype, a.ptr, a.list()) == (wanted, t.data_ptr(), [1, 0])
    assert wp.from_torch(t, wp.types.vector(2, wanted)).list() == [wp.types.vector(2, wanted)(1, 0)]
    with pytest.raises(TypeError, match="expected elements of bool"):
        wp.from_torch(torch.zeros(2, dtype=torch.uint8), wp.bool)  # not every byte is a bool


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bfloat16])
def test_vectors_and_matrices_of_tensors(dtype):
    t = torch.arange(1, 8).to(dtype)
    assert wp.vec3(t[:3]) == wp.vec3(1, 2, 3)
    v = wp.vec4()
    v[1:] = t[:3]
    assert v == wp.vec4(0, 1, 2, 3)
    v[0] = t[6]
    assert v[0] == 7
    assert wp.quat(t[:4]) == wp.quat(1, 2, 3, 4)
    assert wp.mat22(t[:4].reshape(2, 2)) == wp.mat22(1, 2, 3, 4)
    m = wp.mat22()
    m[1, 0:2] = t[4:6]
    assert m == wp.mat22(0, 0, 5, 6)
    assert wp.transform(t[:3], t[3:]) == wp.transform(*range(1, 8))
