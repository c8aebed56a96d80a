"""Operators are pickled by their names: other processes and files get the whole operator, with its options."""

import copy
import io
import pickle

import pytest

import warp_like as wp
from tests.interop.operator_kernels import square

torch = pytest.importorskip("torch")


@wp.kernel
def scale(x: wp.array(dtype=wp.Any), y: wp.array(dtype=wp.Any)):
    i = wp.tid()
    y[i] = x.dtype(2.0) * x[i]


@wp.kernel
def first_of_kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = x[0]


@wp.torch_op(shapes={"y": lambda x: 1}, dim=lambda x: 1)
@wp.kernel
def first_of(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = x[0]


def squares(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    wp.launch(square, len(x), [x], [y])


square_op = wp.torch_op(square)
scale_op = wp.torch_op(scale)
squares_op = wp.torch_op(squares, outputs="y")
operators = {
    "another module's kernel": square_op,
    "decorated, with options": first_of,
    "a function's": squares_op,
    "generic": scale_op,
    "instance": scale_op.instance(torch.float64),
}


class Layer(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return self.op(x * self.weight)


class Items(torch.utils.data.Dataset):
    """Items that operators compute in a worker, which is sent the operators."""

    def __init__(self):
        self.square, self.scale, self.first, self.layer = (
            square_op,
            scale_op.instance(torch.float32),
            first_of,
            Layer(squares_op),
        )

    def __len__(self):
        return 2

    def __getitem__(self, i):
        x = torch.full((3,), i + 2.0)
        assert self.square is square_op
        return self.square(x.double()), self.scale(x), self.first(x), self.layer(x.double()).detach()


@pytest.mark.parametrize("name", operators)
def test_the_same_operator_is_found(name):
    assert pickle.loads(pickle.dumps(operators[name])) is operators[name]


def test_operators_are_found_where_they_were_made():
    assert square_op.__module__ == __name__ != square.__module__
    assert b"test_pickled_operators" in pickle.dumps(square_op)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_spawned_worker_computes_with_them():
    loader = torch.utils.data.DataLoader(Items(), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert [[t.tolist() for t in item] for item in loader] == [
        [[4.0] * 3, [4.0] * 3, [2.0], [4.0] * 3],
        [[9.0] * 3, [6.0] * 3, [3.0], [9.0] * 3],
    ]


def test_modules_that_hold_one_are_saved():
    layer = Layer(square_op)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.op is square_op
    loaded(torch.ones(3, dtype=torch.float64)).sum().backward()
    assert loaded.weight.grad.tolist() == [2.0] * 3


def test_an_operator_without_a_name_is_refused():
    file = io.BytesIO()
    with pytest.raises(
        pickle.PicklingError,
        match=r"<warp_like torch_op warp_like::\w+> can't be pickled: .* `.*test_pickled_operators.square` is another "
        r"object, <warp_like kernel square>; define it at the top level of a module, and keep it there under a name "
        "of its own",
    ):
        torch.save(Layer(wp.torch_op(wp.kernel(square.func))), file)


def test_operators_of_paddle():
    pytest.importorskip("paddle")
    from tests.interop.test_paddle_op import square_op, steps_op

    assert pickle.loads(pickle.dumps([square_op, steps_op])) == [square_op, steps_op]
    assert square_op.__module__ == "tests.interop.test_paddle_op"
    with pytest.raises(pickle.PicklingError, match="<warp_like paddle_op square> can't be pickled"):
        pickle.dumps(wp.paddle_op(square))


def test_functions_for_jax(monkeypatch):
    pytest.importorskip("jax")
    for made in (wp.jax_kernel(first_of_kernel, launch_dims=1), wp.jax_callable(squares)):
        monkeypatch.setitem(globals(), "made_for_jax", made)
        assert pickle.loads(pickle.dumps(made)) is made
        assert copy.deepcopy(made) is made
        monkeypatch.delitem(globals(), "made_for_jax")
        with pytest.raises(pickle.PicklingError, match="for JAX> can't be pickled"):
            pickle.dumps(made)
