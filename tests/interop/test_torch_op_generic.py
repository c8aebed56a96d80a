"""``wp.torch_op`` of generic kernels: one operator for all dtypes."""

from typing import Any

import pytest

import warp_like as wp

torch = pytest.importorskip("torch")


@wp.kernel
def weigh(x: wp.array(dtype=wp.Float), scale: wp.Float, y: wp.array(dtype=wp.Float)):
    i = wp.tid()
    y[i] = scale * x[i] * x[i]


@wp.kernel
def turn(
    v: wp.array(dtype=wp.types.vector(length=3, dtype=Any)),
    m: wp.types.matrix(shape=(3, 3), dtype=Any),
    at: wp.array(dtype=int),
    out: wp.array(dtype=wp.types.vector(length=3, dtype=Any)),
):
    i = wp.tid()
    out[i] = m * v[at[i]]


@wp.kernel
def doubled(x: wp.array(dtype=wp.Int), y: wp.array(dtype=wp.Int)):
    i = wp.tid()
    y[i] = x[i] + x[i]


weigh_op = wp.torch_op(weigh)
DTYPES = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-6, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients(dtype):
    x = torch.tensor([0.5, -1.25, 2.0], dtype=dtype, requires_grad=True)
    y = weigh_op(x, 0.5)
    assert y.dtype == dtype
    y.sum().backward()
    torch.testing.assert_close(y.double(), 0.5 * x.double() ** 2, rtol=DTYPES[dtype], atol=0)
    torch.testing.assert_close(x.grad, x.detach())
    hessian = torch.func.hessian(lambda x: weigh_op(x, 0.5))(x.detach())
    torch.testing.assert_close(hessian.sum(dim=(0, 1)), torch.ones(3, dtype=dtype))
    each = torch.vmap(torch.func.grad(lambda x: weigh_op(x, scale=2.0).sum()))(x.detach()[None])
    torch.testing.assert_close(each[0], 4 * x.detach())


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_functions(dtype):
    op = wp.torch_op(weigh)  # whose instances are not made yet
    compiled = torch.compile(lambda x: op(x, 0.5).sin().sum(), fullgraph=True, backend="aot_eager")
    x = torch.tensor([0.5, -1.25], dtype=dtype, requires_grad=True)
    compiled(x).backward()
    wanted = torch.cos(0.5 * x.detach() ** 2) * x.detach()
    torch.testing.assert_close(x.grad, wanted, rtol=DTYPES[dtype] * 4, atol=DTYPES[dtype])


def test_gradcheck():
    x = torch.tensor([0.5, -1.25, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: weigh_op(x, 0.5), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: weigh_op(x, 0.5), (x,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_and_values_given_as_tensors(dtype):
    op = wp.torch_op(
        turn, as_tensors=["m"], shapes={"out": lambda v, m, at: at.shape[0]}, dim=lambda v, m, at: at.shape[0]
    )
    v = torch.arange(6, dtype=dtype).reshape(2, 3).requires_grad_()
    m = torch.arange(9, dtype=dtype).reshape(3, 3).requires_grad_()
    at = torch.tensor([1, 0, 1], dtype=torch.int32)
    out = op(v, m, at)
    torch.testing.assert_close(out, v[at.long()] @ m.T)
    out.sum().backward()
    got = v.grad.clone(), m.grad.clone()
    wanted = torch.autograd.grad((v[at.long()].double() @ m.double().T).sum(), (v, m))
    torch.testing.assert_close(got, tuple(wanted))


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"argument `x`: expected a tensor for array1d\[float32\], got list"):
        weigh_op([1.0], 2.0)
    with pytest.raises(TypeError, match=r"parameter `x`: expected array\(ndim=1, dtype=Float\), got array1d\[int32\]"):
        weigh_op(torch.ones(3, dtype=torch.int32), 2.0)
    with pytest.raises(TypeError, match="takes .x, scale."):
        weigh_op(torch.ones(3))
    assert wp.torch_op(doubled)(torch.ones(2, dtype=torch.int64)).tolist() == [2, 2]

    @wp.kernel
    def any_dimensions(x: wp.array(dtype=Any, ndim=Any), y: wp.array(dtype=Any)):
        y[0] = x[0]

    with pytest.raises(
        TypeError, match="argument `x` of kernel `any_dimensions` is generic in more than its scalar type"
    ):
        wp.torch_op(any_dimensions)

    @wp.kernel
    def number_alone(x: wp.array(dtype=float), s: Any, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * float(s)

    with pytest.raises(TypeError, match="no array argument of kernel `number_alone` is generic"):
        wp.torch_op(number_alone)


def test_two_operators_of_one_kernel_leave_each_other_alone():
    """The second one of a name would take the first one's place in PyTorch's registry."""
    first, second = wp.torch_op(weigh), wp.torch_op(weigh)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    for op in (first, second, first):
        assert torch.autograd.gradgradcheck(lambda x, op=op: op(x, 0.5), (x,))
