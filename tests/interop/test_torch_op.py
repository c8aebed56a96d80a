"""``wp.torch_op``: shapes, gradients, PyTorch's transformations, and what it refuses."""

import copy
import json
import subprocess
import sys
import warnings

import pytest

import warp_like as wp
from tests.interop.operator_kernels import MATRIX, both, square, square_here, two_steps, wave, weighted
from tests.interop.torch_operators import (
    both_op,
    constant_tail,
    half_op,
    oscillate_op,
    ramp,
    rand,
    relax,
    replace_tail,
    square_op,
    square_twice,
    stencil_op,
    steps_op,
    turn_op,
    wave_op,
    weighted_op,
)
from tests.long_tail import tail

torch = pytest.importorskip("torch")
gradcheck = torch.autograd.gradcheck
f64 = wp.float64


# ---- values and gradients


def test_values_and_gradient_of_one_line():
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = square_op(x)
    assert y.tolist() == [1, 4, 9]
    y.sum().backward()
    assert x.grad.tolist() == [2, 4, 6]
    square_op(x).sum().backward()
    assert x.grad.tolist() == [4, 8, 12]


@wp.kernel
def add_row(x: wp.array2d(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] += x[i, 0] * x[i, 1]


@pytest.mark.parametrize("dim, each", [(None, 1), ((3, 2), 2), (lambda x: x.shape, 2), (lambda x: len(x), 1)])
def test_threads_that_share_their_index(dim, each):
    op = wp.torch_op(add_row, shapes={"y": lambda x: len(x)}, dim=dim, name=f"shared::rows{each}_{callable(dim)}")
    x = torch.arange(6, dtype=torch.float64).reshape(3, 2).requires_grad_()
    y = op(x)
    assert y.tolist() == [0, each * 6, each * 20]
    y.sum().backward()
    assert x.grad.tolist() == [[each * b, each * a] for a, b in x.tolist()]
    many = torch.stack([x.detach(), x.detach() + 1])
    assert torch.vmap(op)(many).tolist() == [op(v).tolist() for v in many]
    assert gradcheck(op, x)


def test_decorator():
    @wp.torch_op
    @wp.kernel
    def triple(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 3.0 * x[i]

    assert triple(torch.ones(2)).tolist() == [3, 3]
    assert triple.__name__ == "triple"
    assert "triple" in repr(triple)


@pytest.mark.parametrize(
    ("op", "make"),
    [
        (square_op, lambda: (rand(4),)),
        (wave_op, lambda: (rand(4), 0.5)),
        (both_op, lambda: (rand(4), 2.0)),
        (weighted_op, lambda: (rand(4, 3), rand(3))),
        (weighted_op, lambda: (rand(4, 3, grad=False), rand(3))),
        (lambda x, w: weighted_op(x.T, w), lambda: (rand(3, 4), rand(3))),
        (stencil_op, lambda: (rand(5),)),
        (wp.torch_op(square_here, in_out="x"), lambda: (rand(4),)),
        (wp.torch_op(replace_tail, in_out=["x"]), lambda: (rand(4), rand(4))),
        (wp.torch_op(replace_tail, in_out=["x"]), lambda: (rand(4), rand(4, grad=False))),
        (wp.torch_op(constant_tail, in_out="x"), lambda: (rand(4),)),
        (
            lambda v: turn_op(v, MATRIX, [1.0, 2.0, 3.0], torch.tensor([0, 2, 2, 1], dtype=torch.int32)),
            lambda: (rand(3, 3),),
        ),
        (steps_op, lambda: (rand(4), 3.0)),
        (wp.torch_op(square_twice, outputs="y", in_out="x"), lambda: (rand(4),)),
        (lambda x: square_op(square_op(x)), lambda: (rand(3),)),
        (lambda x: square_op(x.expand(3)), lambda: (rand(1),)),
    ],
)
def test_gradcheck(op, make):
    assert gradcheck(op, make())


def test_components_and_integers():
    v, index = rand(3, 3), torch.tensor([0, 2, 2, 1, 0], dtype=torch.int32)
    lists = turn_op(v, MATRIX, [1.0, 2.0, 3.0], index)
    values = turn_op(v=v, m=wp.mat33d(*MATRIX), axis=wp.vec3d(1.0, 2.0, 3.0), index=index)
    expected = v[index.long()] @ torch.tensor(MATRIX).double().reshape(3, 3).T
    expected = expected + torch.linalg.cross(torch.tensor([[1.0, 2.0, 3.0]]).double(), v[index.long()])
    for out, following in (lists, values):
        assert torch.allclose(out, expected)
        assert following.tolist() == [1, 3, 3, 2, 1]
        assert not following.requires_grad
        assert out.requires_grad


def test_arguments_by_name():
    assert half_op(n=3, x=torch.ones(2)).tolist() == [3.5, 3.5]
    assert half_op(torch.ones(2), n=3).tolist() == [3.5, 3.5]
    for args, kwargs in [((), {}), ((torch.ones(2),), {}), ((torch.ones(2), 1, 2), {}), ((torch.ones(2),), {"m": 1})]:
        with pytest.raises(TypeError, match=r"takes \(x, n\)"):
            half_op(*args, **kwargs)


def test_no_tensor_argument():
    op = wp.torch_op(ramp, shapes={"y": lambda n: n})
    assert op(4).tolist() == [0, 1, 2, 3]


def test_empty():
    x = rand(0)
    square_op(x).sum().backward()
    assert x.grad.shape == (0,)


def test_arguments_stay_as_they_are():
    x = rand(4)
    before = x.detach().clone()
    version = x._version
    op = wp.torch_op(square_here, in_out="x")
    y = op(x)
    grad = torch.ones(4, dtype=torch.float64)
    y.backward(grad)
    assert torch.equal(x.detach(), before)
    assert x._version == version
    assert grad.tolist() == [1, 1, 1, 1]
    assert y.data_ptr() != x.data_ptr()


def test_a_gradient_is_not_computed_where_none_is_wanted():
    x = rand(4)
    with torch.no_grad():
        y = square_op(x)
    assert y.grad_fn is None
    assert not y.requires_grad
    w = rand(3, grad=False)
    total = weighted_op(rand(4, 3), w)
    total.backward()
    assert w.grad is None
    with torch.inference_mode():
        assert square_op(torch.ones(2).double()).tolist() == [1, 1]


def test_saved_arguments_are_watched():
    x = rand(3)
    leaf = x * 1.0
    y = square_op(leaf)
    leaf.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = square_op(x)
    y.mul_(2.0)  # its own result was not saved
    y.sum().backward()
    assert torch.allclose(x.grad, 4 * x.detach())


def test_a_tape_of_the_caller_records_nothing():
    with wp.Tape() as tape:
        steps_op(rand(3), 1.0).sum().backward()
    assert tape.launches == []


def test_views_that_are_lazily_negated():
    assert square_op(torch._neg_view(torch.full((2,), 3.0).double())).tolist() == [9, 9]


# ---- PyTorch's machinery


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (square_op, (rand(4),)),
        (both_op, (rand(4), 2.0)),
        (weighted_op, (rand(4, 3), rand(3))),
        (turn_op, (rand(3, 3), MATRIX, [1.0, 2.0, 3.0], torch.tensor([0, 2], dtype=torch.int32))),
        (steps_op, (rand(4), 3.0)),
        (wp.torch_op(square_here, in_out="x"), (rand(4),)),
    ],
)
def test_opcheck(op, args):
    results = torch.library.opcheck(op.overload, args)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("op", [wave_op, steps_op])
def test_compile_without_graph_breaks(op):
    compiled = torch.compile(lambda x: (op(x * 2, 0.5) + 1).sum(), fullgraph=True, backend="aot_eager")
    x = rand(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x).backward()
    got, x.grad = x.grad, None
    (op(x * 2, 0.5) + 1).sum().backward()
    assert torch.allclose(got, x.grad)
    assert compiled(rand(6, grad=False)).shape == ()


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return half_op(x, 2) + 1

    n = torch.export.Dim("n", min=2)
    program = torch.export.export(Model(), (torch.ones(3),), dynamic_shapes=({0: n},))
    assert any("half" in str(node.target) for node in program.graph.nodes)
    assert program.module()(torch.ones(5)).tolist() == [3.5] * 5


@pytest.mark.long
def test_an_exported_program_runs_in_another_process(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return half_op(self.linear(x), 2) + 1

    model, x = Model(), torch.arange(3.0)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    code = (
        "import sys, torch\n"
        "import tests.interop.torch_operators  # the operator has to be there\n"
        "program = torch.export.load(sys.argv[1])\n"
        "print(program.module()(torch.arange(3.0)).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pt2")], capture_output=True, text=True, check=True
    )
    assert torch.allclose(torch.tensor(json.loads(done.stdout)), model(x))


def test_func_grad_and_jacobian():
    x = rand(4, grad=False)
    assert torch.allclose(torch.func.grad(lambda v: square_op(v).sum())(x), 2 * x)
    assert torch.allclose(torch.func.jacrev(square_op)(x), torch.diag(2 * x))
    value, pull = torch.func.vjp(lambda v: both_op(v, 1.0), x)
    assert torch.allclose(pull((torch.ones_like(x), torch.zeros_like(x)))[0], 2 * x)
    assert torch.allclose(value[1], x**4)


@pytest.mark.parametrize("in_dim", [0, 1])
def test_vmap_keeps_the_elements_of_the_batch_apart(in_dim):
    batch = rand(3, 5, grad=False)
    expected = torch.stack([row * row.roll(-1) for row in batch])  # one launch over all would mix the rows
    given = batch if in_dim == 0 else batch.T
    assert torch.allclose(torch.vmap(stencil_op, in_dims=in_dim)(given), expected)
    total = torch.vmap(weighted_op, in_dims=(0, None))(rand(3, 4, 2, grad=False), torch.ones(2).double())
    assert total.shape == (3, 1)
    y, z = torch.vmap(both_op, in_dims=(in_dim, None), out_dims=1)(given, 2.0)
    assert torch.allclose(y, 2 * (batch**2).T)
    assert torch.allclose(z, y * y)
    assert torch.vmap(wave_op, in_dims=(0, None))(rand(0, 5), 1.0).shape == (0, 5)


def test_vmap_and_gradient_compose():
    batch = rand(3, 5, grad=False)
    per_row = torch.func.grad(lambda v: stencil_op(v).sum())
    expected = batch.roll(-1, 1) + batch.roll(1, 1)
    assert torch.allclose(torch.vmap(per_row)(batch), expected)
    assert torch.allclose(torch.func.grad(lambda v: torch.vmap(stencil_op)(v).sum())(batch), expected)
    x = batch.clone().requires_grad_()
    torch.vmap(torch.vmap(stencil_op))(x[None]).sum().backward()
    assert torch.allclose(x.grad, expected)


def test_a_batch_goes_past_the_dispatcher_where_nobody_watches():
    """As many launches as elements, results that are one tensor, and the same numbers on either way."""
    relax_op, calls = wp.torch_op(relax, in_out=["x"]), []
    batch = rand(4, 3, grad=False)
    before, expected = batch.clone(), batch.clone()
    expected[:, 0] += batch.sum(1)
    fast = torch.vmap(relax_op)(batch)
    assert fast.is_contiguous()
    assert torch.allclose(fast, expected)
    assert torch.allclose(torch.vmap(relax_op, in_dims=1)(batch.T), expected)
    assert torch.equal(batch, before)
    one = rand(3, grad=False)
    pairs = torch.vmap(lambda row: (relax_op(one), relax_op(row)))(batch)  # one argument has no batch
    assert torch.allclose(pairs[0], relax_op(one).expand(4, 3))

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls.append(str(function))
            return function(*args, **(kwargs or {}))

    with Watch():
        assert torch.allclose(torch.vmap(relax_op)(batch), expected)
    assert sum("relax" in name for name in calls) == 4

    assert torch.allclose(
        torch.vmap(steps_op, in_dims=(0, None))(batch, 2.0), torch.stack([steps_op(r, 2.0) for r in batch])
    )
    k, axis, n = rand(5, grad=False), torch.tensor(MATRIX[:3]).double(), torch.tensor(2, dtype=torch.int32)
    wanted = torch.stack([oscillate_op(one, stiffness, axis, n) for stiffness in k])
    assert torch.allclose(torch.vmap(lambda s: oscillate_op(one, s, axis, n))(k), wanted)


def test_a_batch_whose_tensors_require_gradients():
    x = rand(4, 3)
    torch.vmap(square_op)(x).sum().backward()
    assert torch.allclose(x.grad, 2 * x.detach())
    with torch.no_grad():
        assert not torch.vmap(square_op)(x).requires_grad
    w = rand(3)
    total = torch.vmap(weighted_op, in_dims=(0, None))(x.detach()[:, None], w)
    total.sum().backward()
    assert torch.allclose(w.grad, 2 * w.detach() * x.detach().sum(0))
    nested = torch.vmap(torch.vmap(stencil_op))(rand(2, 4, 3, grad=False))
    assert nested.shape == (2, 4, 3)


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda x: torch.autograd.grad(torch.autograd.grad(wave_op(x, 2.0).sum(), x, create_graph=True)[0].sum(), x)[0],
        lambda x: torch.autograd.grad(
            torch.autograd.grad(wave_op.overload(x, 2.0).sum(), x, create_graph=True)[0].sum(), x
        )[0],
        lambda x: torch.func.grad(lambda a: torch.func.grad(lambda b: wave_op(b, 2.0).sum())(a).sum())(x),
    ],
)
def test_second_derivatives(differentiate):
    x = rand(3)
    assert torch.allclose(differentiate(x), -2.0 * torch.sin(x))


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda x: torch.autograd.grad(torch.autograd.grad(steps_op(x, 2).sum(), x, create_graph=True)[0].sum(), x),
        lambda x: torch.func.grad(lambda a: torch.func.grad(lambda b: steps_op(b, 2).sum())(a).sum())(x),
        lambda x: torch.func.jvp(lambda a: steps_op(a, 2), (x,), (x,)),
    ],
)
def test_second_derivatives_of_functions_are_refused(differentiate):
    with pytest.raises(
        RuntimeError, match="has no second derivative and no forward mode because it is made of a function"
    ):
        differentiate(rand(3))


def test_create_graph_alone_is_fine():
    x = rand(3)
    (g,) = torch.autograd.grad(square_op(x).sum(), x, create_graph=True)
    assert torch.allclose(g, 2 * x)


def test_autocast_casts_to_the_kernels_dtype():
    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu"):
        y = half_op(x, 1)
        assert wave_op(torch.ones(2), 1.0).dtype == torch.float64
        with pytest.raises(TypeError, match=r"torch\.float64"):
            half_op(torch.ones(3).double(), 1)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.5]
    assert x.grad.dtype == torch.bfloat16


def test_meta_tensors_and_default_device():
    y = square_op(torch.ones(3, dtype=torch.float64, device="meta"))
    assert (y.device.type, y.shape) == ("meta", (3,))
    x = torch.ones(3, dtype=torch.float64)
    with torch.device("meta"):
        assert square_op(x).tolist() == [1, 1, 1]


def test_modules_that_hold_an_operator_can_be_copied():
    module = torch.nn.Module()
    module.op = square_op
    assert copy.deepcopy(module).op is square_op


class Squares(torch.utils.data.Dataset):
    """Items computed by an operator, in worker processes."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return square_op(torch.full((20_000,), float(i), dtype=torch.float64))[:2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", tail("spawn")])
def test_data_loader_workers(start):
    square_op(rand(200_000, grad=False))  # the thread pool is there when the workers are forked
    loader = torch.utils.data.DataLoader(Squares(), batch_size=3, num_workers=2, multiprocessing_context=start)
    assert torch.cat(list(loader))[:, 0].tolist() == [0, 1, 4, 9, 16, 25]


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wp.torch_op(3), TypeError, "takes a kernel or a function, got int"),
        (lambda: wp.torch_op(both), ValueError, r'both reads and writes `y`; say in_out=\["y"\]'),
        (lambda: wp.torch_op(square_here), ValueError, "both reads and writes `x`"),
        (lambda: wp.torch_op(relax), ValueError, "both reads and writes `x`"),
        (lambda: wp.torch_op(both, outputs="z"), ValueError, "the kernel changes `y`"),
        (lambda: wp.torch_op(square, outputs="q"), ValueError, "no array argument `q`; it has x, y"),
        (lambda: wp.torch_op(wave, outputs="s"), ValueError, "no array argument `s`"),
        (lambda: wp.torch_op(weighted), ValueError, "the shape of `total` does not follow from `x`"),
        (lambda: wp.torch_op(ramp), ValueError, "the shape of `y` does not follow from no array argument"),
        (lambda: wp.torch_op(square, shapes={"x": 3}), ValueError, "shapes names `x`, the outputs are y"),
        (lambda: wp.torch_op(square, shapes={"y": "x"}), TypeError, "a shape is an int, a tuple or a function"),
        (lambda: wp.torch_op(square, name="plain"), ValueError, "namespace::name"),
        (lambda: wp.torch_op(square, name="tests::__square"), ValueError, "without leading __"),
        (lambda: wp.torch_op(two_steps), ValueError, "there is no output"),
        (lambda: wp.torch_op(two_steps, outputs="y", dim=3), ValueError, "gives dim to the launches"),
        (lambda: wp.torch_op(lambda x: None, outputs="x"), wp.WarpCodegenError, "lambda"),
    ],
)
def test_what_no_operator_can_be_made_of(make, error, message):
    with pytest.raises(error, match=message):
        make()


def no_annotation(x, y: wp.array(dtype=float)):
    pass


def open_type(x: wp.array(dtype=wp.Any), y: wp.array(dtype=float)):
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [(no_annotation, "`x` of function `no_annotation` has no annotation"), (open_type, "is inferred at launch")],
)
def test_parameters_need_types(function, message):
    with pytest.raises(TypeError, match=message):
        wp.torch_op(function, outputs="y")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: square_op(torch.ones(3)), TypeError, r"argument `x`: expected a tensor of torch\.float64 with 1"),
        (lambda: square_op(torch.ones(3, 3).double()), TypeError, r"of shape \(3, 3\)"),
        (
            lambda: turn_op(rand(3, 2), MATRIX, [0.0] * 3, torch.zeros(1).int()),
            ValueError,
            r"trailing dimensions \(3,\)",
        ),
        (lambda: turn_op(rand(3, 3), MATRIX[:4], [0.0] * 3, torch.zeros(1).int()), ValueError, "reshape"),
        (lambda: wp.torch_op(square, shapes={"y": (2, 2)})(rand(3)), ValueError, "`y` has to have 1 dimensions"),
    ],
)
def test_what_an_operator_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


def writes_its_input(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    wp.launch(square, x.shape[0], [y], [x])


def returns_something(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    return 3


def test_functions_write_outputs_only_and_return_nothing():
    with pytest.raises(ValueError, match="read-only"):
        wp.torch_op(writes_its_input, outputs="y")(rand(3))
    with pytest.raises(TypeError, match="returns nothing, got int"):
        wp.torch_op(returns_something, outputs="y")(rand(3))


@wp.kernel(enable_backward=False)
def no_gradient(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i]


def test_kernels_without_gradient():
    op = wp.torch_op(no_gradient)
    assert op(rand(3, grad=False)).shape == (3,)
    with pytest.raises(RuntimeError, match="gradients are switched off"):
        op(rand(3)).sum().backward()


def test_names():
    op = wp.torch_op(square, name="tests::squared")
    assert op.name == "tests::squared"
    assert torch.ops.tests.squared(torch.ones(2).double()).tolist() == [1, 1]
    again = wp.torch_op(wave, name="tests::squared")
    assert torch.ops.tests.squared.default is again.overload
    assert again(torch.zeros(2).double(), 1.0).tolist() == [0, 0]
    assert wp.torch_op(square).name != wp.torch_op(square).name


def copying(element):
    def copied(x: "wp.array(dtype=element)", out: "wp.array(dtype=element)"):
        wp.copy(out, x)

    copied.__name__ = f"copied_{element.__name__}"
    return wp.torch_op(copied, outputs=["out"])


@pytest.mark.parametrize("element", [wp.float32, wp.float64])
def test_annotations_as_text_name_variables_around_the_function(element):
    x = torch.arange(3, dtype=wp.dtype_to_torch(element))
    assert copying(element)(x).tolist() == [0.0, 1.0, 2.0]
