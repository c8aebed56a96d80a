"""``torch.vmap`` of operators: a batch is one native call, and every element gets what it would get alone."""

import pytest

import warp_like as wp
from tests.interop.operator_kernels import MATRIX, square_here
from tests.interop.torch_operators import (
    both_op,
    f64,
    oscillate_op,
    rand,
    relax,
    replace_tail,
    square_op,
    stencil_op,
    steps_op,
    turn_op,
    wave_op,
    weighted_op,
)

torch = pytest.importorskip("torch")

from warp_like.interop import torch_batches  # noqa: E402

relax_op = wp.torch_op(relax, in_out=["x"], name="tests::relax_batches")
square_here_op = wp.torch_op(square_here, in_out=["x"], name="tests::square_here_batches")
replace_op = wp.torch_op(replace_tail, in_out=["x"], name="tests::replace_batches")


@wp.kernel
def powers(x: wp.array(dtype=f64), w: wp.array(dtype=f64), n: wp.array(dtype=wp.int32), y: wp.array(dtype=f64)):
    """A loop of unknown length whose state the gradient saves on a stack."""
    i = wp.tid()
    v = x[i]
    for _ in range(n[0]):
        v = wp.sin(v * w[i]) * v
    y[i] = v


powers_op = wp.torch_op(powers)


@pytest.fixture
def native(monkeypatch):
    """What the native calls answered: True for a batch that was done as a whole."""
    answers = []

    def watch(name, done):
        original = getattr(torch_batches, name)

        def call(*args):
            found = original(*args)
            answers.append(done(found))
            return found

        monkeypatch.setattr(torch_batches, name, call)

    watch("launch_forward", bool)
    watch("launch_adjoint", lambda found: found is not None)
    return answers


def rows(op, dims, args):
    """What a loop over the batch gives."""
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    calls = [op(*(a if d is None else a.select(d, i) for a, d in zip(args, dims, strict=True))) for i in range(size)]
    columns = [calls] if isinstance(calls[0], torch.Tensor) else list(zip(*calls, strict=True))
    return [torch.stack(list(c)) for c in columns]


def integers(*shape):
    return torch.randint(1, 4, shape, dtype=torch.int32)


CASES = [
    (stencil_op, (0,), lambda: (rand(6, 5),)),
    (stencil_op, (1,), lambda: (rand(5, 6),)),
    (stencil_op, (0,), lambda: (rand(6, 10)[:, ::2],)),
    (stencil_op, (0,), lambda: (rand(1, 5),)),
    (stencil_op, (0,), lambda: (rand(5).expand(6, 5),)),
    (weighted_op, (0, None), lambda: (rand(6, 4, 3), rand(3))),
    (weighted_op, (None, 1), lambda: (rand(4, 3), rand(3, 6))),
    (both_op, (1, None), lambda: (rand(5, 6), 2.0)),
    (relax_op, (0,), lambda: (rand(6, 1),)),
    (square_here_op, (1,), lambda: (rand(5, 6),)),
    (replace_op, (0, 1), lambda: (rand(6, 5), rand(5, 6))),
    (replace_op, (0, None), lambda: (rand(6, 5), rand(5))),
    (replace_op, (None, 0), lambda: (rand(5), rand(6, 5))),
    (steps_op, (0, None), lambda: (rand(6, 5), 2.0)),
    (powers_op, (0, None, 0), lambda: (rand(6, 5), rand(5), integers(6, 1))),
    (powers_op, (None, 0, None), lambda: (rand(5), rand(6, 5), integers(1))),
    (
        oscillate_op,
        (0, None, None, None),
        lambda: (rand(6, 5), rand(), torch.tensor(MATRIX[:3]).double(), torch.tensor(2, dtype=torch.int32)),
    ),
    (
        oscillate_op,
        (None, 0, None, None),
        lambda: (rand(5), rand(6), torch.tensor(MATRIX[:3]).double(), torch.tensor(2, dtype=torch.int32)),
    ),
]


def is_float(a):
    return isinstance(a, torch.Tensor) and a.is_floating_point()


@pytest.mark.parametrize("op, dims, make", CASES)
def test_values_and_gradients_are_those_of_a_loop(op, dims, make):
    args = make()
    wrt = [a for a in args if is_float(a) and a.requires_grad]
    ours, theirs = torch.vmap(op, in_dims=dims)(*args), rows(op, dims, args)
    ours = [ours] if isinstance(ours, torch.Tensor) else ours
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b)
    weights = [torch.rand_like(a) for a in theirs]
    got = torch.autograd.grad([(a * w).sum() for a, w in zip(ours, weights, strict=True)], wrt)
    expected = torch.autograd.grad([(a * w).sum() for a, w in zip(theirs, weights, strict=True)], wrt)
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("op, dims, make", CASES)
def test_gradients_of_each_element(op, dims, make):
    args = [a.detach() if isinstance(a, torch.Tensor) else a for a in make()]
    places = tuple(p for p, a in enumerate(args) if is_float(a))

    def loss(*args):
        found = op(*args)
        return found.sin().sum() if isinstance(found, torch.Tensor) else sum(y.sin().sum() for y in found)

    each = torch.func.grad(loss, argnums=places)
    got = torch.vmap(each, in_dims=dims)(*args)
    for a, b in zip(got, rows(each, dims, args), strict=True):
        assert torch.allclose(a, b)


def test_a_batch_is_one_native_call(native):
    x = rand(64, 5, grad=False)
    torch.vmap(stencil_op)(x)
    torch.vmap(torch.func.grad(lambda r: stencil_op(r).sum()))(x)
    native.clear()
    torch.vmap(stencil_op)(x)
    assert native == [True]
    native.clear()
    torch.vmap(torch.func.grad(lambda r: stencil_op(r).sum()))(x)
    assert native == [True, True]
    native.clear()
    leaf = x.clone().requires_grad_()
    torch.vmap(stencil_op)(leaf).sum().backward()
    assert native == [True, True]
    native.clear()
    torch.func.jacrev(stencil_op)(x[0])
    assert native == [True]
    native.clear()
    torch.vmap(oscillate_op, in_dims=(None, 0, None, None))(
        x[0], x[:, 0], x[0, :3].clone(), torch.tensor(2, dtype=torch.int32)
    )
    assert native == [False]  # its numbers differ from element to element


def test_results_are_one_tensor_and_arguments_stay():
    x = rand(6, 3, grad=False)
    before = x.clone()
    y = torch.vmap(square_here_op)(x)
    assert y.is_contiguous()
    assert torch.equal(x, before)
    assert torch.allclose(y, before**2)
    version = y._version
    assert torch.vmap(square_op)(y).is_contiguous()
    assert y._version == version


def test_many_elements_are_shared_by_threads():
    x = rand(20_000, 7, grad=False)
    assert torch.allclose(torch.vmap(stencil_op)(x), x * x.roll(-1, 1))
    wide = rand(2, 100_000, grad=False)  # few elements with large grids, each a launch of its own
    assert torch.allclose(torch.vmap(stencil_op)(wide), wide * wide.roll(-1, 1))
    assert torch.vmap(stencil_op)(rand(3, 0, grad=False)).shape == (3, 0)


def test_rules_that_are_functions_see_each_element():
    v, index = rand(4, 6, 3, grad=False), torch.randint(0, 6, (4, 2), dtype=torch.int32)
    args = (v, MATRIX, [1.0, 2.0, 3.0], index)
    out, following = torch.vmap(turn_op, in_dims=(0, None, None, 0))(*args)
    for i in range(4):
        one = turn_op(v[i], MATRIX, [1.0, 2.0, 3.0], index[i])
        assert torch.allclose(out[i], one[0])
        assert torch.equal(following[i], one[1])


def test_nested_and_composed():
    x, s = rand(3, 4, 5, grad=False), 2.0
    nested = torch.vmap(torch.vmap(lambda r: wave_op(r, s)))(x)
    assert torch.allclose(nested, x.sin() * s)
    per_row = torch.vmap(torch.vmap(torch.func.grad(lambda r: wave_op(r, s).sum())))(x)
    assert torch.allclose(per_row, x.cos() * s)
    both_ways = torch.func.grad(lambda v: torch.vmap(torch.vmap(lambda r: wave_op(r, s)))(v).sum())(x)
    assert torch.allclose(both_ways, x.cos() * s)
    jacobian = torch.func.jacrev(lambda v: torch.vmap(stencil_op)(v))(x[0])
    expected = torch.func.jacrev(lambda v: v * v.roll(-1, 1))(x[0])
    assert torch.allclose(jacobian, expected)
    value, pull = torch.func.vjp(torch.vmap(stencil_op), x[0])
    assert torch.allclose(value, x[0] * x[0].roll(-1, 1))
    assert torch.allclose(pull(torch.ones_like(value))[0], x[0].roll(-1, 1) + x[0].roll(1, 1))
    params = torch.nn.Linear(5, 5).double()
    loss = torch.func.grad(lambda p, r: stencil_op(torch.func.functional_call(params, p, (r,))).sum())
    each = torch.vmap(loss, in_dims=(None, 0))(dict(params.named_parameters()), x[0])
    alone = [loss(dict(params.named_parameters()), r) for r in x[0]]
    for name, got in each.items():
        assert torch.allclose(got, torch.stack([a[name] for a in alone]))


def test_second_derivatives_of_a_batch():
    x = rand(3, 4)
    (g,) = torch.autograd.grad(torch.vmap(stencil_op)(x).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert torch.allclose(g, (x.roll(-1, 1) + x.roll(1, 1)))
    assert torch.allclose(x.grad, 2.0 * (g.roll(-1, 1) + g.roll(1, 1)))


def test_an_error_in_one_element_is_raised():
    @wp.kernel(mode="debug")
    def pick(x: wp.array(dtype=f64), at: wp.array(dtype=wp.int32), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[at[i]]

    op = wp.torch_op(pick, name="tests::pick_batches")
    x, at = rand(50, 4, grad=False), torch.zeros(50, 4, dtype=torch.int32)
    assert torch.allclose(torch.vmap(op)(x, at), x[:, :1].expand(50, 4))
    at[37, 2] = 9
    with pytest.raises(IndexError, match="out of range"):
        torch.vmap(op)(x, at)


def test_what_is_measured_sees_every_launch():
    x = rand(5, 4, grad=False)
    torch.vmap(stencil_op)(x)
    wp.timing_begin()
    torch.vmap(stencil_op)(x)
    assert len(wp.timing_end()) == 5
