"""``wp.torch_op``: numbers that are tensors, and what an operator saves for its gradient."""

import weakref

import pytest

import warp_like as wp
from tests.interop.operator_kernels import two_steps, wave
from tests.interop.torch_operators import oscillate_op, rand, square_op, triple, wave_op, weighted_op

torch = pytest.importorskip("torch")
gradcheck = torch.autograd.gradcheck
f64 = wp.float64


def test_numbers_as_tensors_have_gradients():
    x, k, axis, n = rand(4), rand(()), rand(3), torch.tensor(2, dtype=torch.int32)
    y = oscillate_op(x, k, axis, n)
    assert torch.allclose(y, k * torch.sin(x) + (axis @ axis) * x + 2)
    assert gradcheck(oscillate_op, (x, k, axis, n))
    assert gradcheck(lambda k: oscillate_op(x.detach(), k, axis.detach(), n), (k,))
    y.sum().backward()
    assert k.grad.shape == ()
    assert torch.allclose(k.grad, torch.sin(x).sum().detach())
    parameter = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    oscillate_op(x, parameter, axis, n).sum().backward()
    assert torch.allclose(parameter.grad, k.grad)


def test_numbers_as_tensors_under_transformations():
    x, k, axis, n = rand(4, grad=False), rand((), grad=False), rand(3, grad=False), torch.tensor(2, dtype=torch.int32)
    assert set(torch.library.opcheck(oscillate_op.overload, (x, k.clone().requires_grad_(), axis, n)).values()) == {
        "SUCCESS"
    }
    ks = rand(3, grad=False)
    per_k = torch.vmap(torch.func.grad(lambda k: oscillate_op(x, k, axis, n).sum()))(ks)
    assert torch.allclose(per_k, torch.sin(x).sum().expand(3))
    compiled = torch.compile(lambda k: oscillate_op(x, k, axis, n).sum(), fullgraph=True, backend="aot_eager")
    leaf = k.clone().requires_grad_()
    compiled(leaf).backward()
    assert torch.allclose(leaf.grad, torch.sin(x).sum())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: wave_op(rand(2), rand(())),
            TypeError,
            r'argument `s`: expected float64, got a tensor; give numbers, or .* as_tensors=\["s"\], which',
        ),
        (
            lambda: oscillate_op(rand(2), 1.0, rand(3), 2),
            TypeError,
            "argument `stiffness`: expected a tensor for float64",
        ),
        (lambda: oscillate_op(rand(2), rand(1), rand(3), 2), TypeError, "with 0 dimensions for float64"),
        (lambda: wp.torch_op(wave, as_tensors="x"), ValueError, "as_tensors names `x`; what is no array is: s"),
        (lambda: wp.torch_op(wave, as_tensors=["q"]), ValueError, "as_tensors names `q`"),
        (lambda: wp.torch_op(two_steps, outputs="y", as_tensors="s"), ValueError, "an array of one element"),
    ],
)
def test_what_is_refused_about_numbers(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_structs_are_refused():
    @wp.struct
    class Body:
        mass: float

    @wp.kernel
    def weigh(b: Body, y: wp.array(dtype=float)):
        y[wp.tid()] = b.mass

    with pytest.raises(
        TypeError, match="`b` of kernel `weigh` is a struct Body, .*give a struct's fields as arguments of their own"
    ):
        wp.torch_op(weigh, shapes={"y": 1})


def test_only_what_the_gradient_reads_is_saved():
    def saved_by(op, *args):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
            result = op(*args)
        return result, saved

    x = rand(5)
    y, saved = saved_by(wp.torch_op(triple), x)
    assert saved == []
    y.sum().backward()
    assert x.grad.tolist() == [3] * 5
    assert saved_by(square_op, x)[1] == [(5,)]

    leaf = x * 1.0
    y = wp.torch_op(triple)(leaf)
    leaf.add_(1.0)  # nobody minds
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3] * 5

    w = rand(3)
    _, saved = saved_by(lambda w: weighted_op(rand(4, 3, grad=False), w), w)
    assert saved == [(4, 3), (3,)]
    (g,) = torch.autograd.grad((wp.torch_op(triple)(x) ** 2).sum(), x, create_graph=True)
    assert torch.allclose(g, 18 * x)
    x.grad = None
    g.sum().backward()
    assert x.grad.tolist() == [18] * 5


def test_transformations_and_compiled_code_save_no_more():
    """What ``torch.func`` and ``torch.compile`` keep for the backward pass, by weak references to it."""
    triple_op = wp.torch_op(triple)

    def kept(run):
        x = rand(6)
        middle = x * 1.0
        gone = weakref.ref(middle)
        y = run(middle)
        del middle
        return x, y, gone

    x, y, gone = kept(triple_op.overload)
    assert gone() is None
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 6
    _, y, gone = kept(square_op.overload)
    assert gone() is not None  # which the gradient of a square reads
    del y

    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(tuple(t.shape)) or t, lambda t: t):
        compiled = torch.compile(lambda x: triple_op(x).sin(), fullgraph=True, backend="aot_eager")
        x = rand(7)
        compiled(x).sum().backward()
    assert saved.count((7,)) == 1  # the argument of the sine
    assert torch.allclose(x.grad, 3.0 * torch.cos(3.0 * x))

    x = rand(4, 5, grad=False)
    gradients = torch.func.vmap(torch.func.grad(lambda row: (triple_op(row) ** 2).sum()))(x)
    assert torch.allclose(gradients, 18.0 * x)
