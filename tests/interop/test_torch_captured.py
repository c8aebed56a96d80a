"""Values that an operator's kernel names are those of the moment when the operator was made."""

import types

import pytest

import warp_like as wp

torch = pytest.importorskip("torch")
numbers = types.ModuleType("numbers_of_torch_test")


@pytest.fixture
def op(monkeypatch):
    monkeypatch.setattr(numbers, "power", 2.0, raising=False)

    @wp.torch_op
    @wp.kernel
    def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = numbers.power * x[i] * x[i]

    return scaled


def test_a_changed_value_is_refused_until_it_is_back(op):
    x = torch.tensor([1.0, 3.0])
    assert op(x).tolist() == [2.0, 18.0]
    numbers.power = 5.0
    batch = torch.vmap(op)
    for call in (op, torch.compile(op, backend="aot_eager"), lambda x: batch(x[None])):
        with pytest.raises(RuntimeError, match="`numbers.power` has changed since the operator was made"):
            call(x)
    numbers.power = float("2.0")
    assert op(x).tolist() == [2.0, 18.0]


def test_the_gradient_is_that_of_the_value_of_the_call(op):
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = op(x)
    numbers.power = 5.0
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 12.0]


def test_launches_on_tensors_follow_the_value(op):
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = numbers.power * x[i]

    for numbers.power in (2.0, 5.0):
        wp.launch(k, dim=2, inputs=[x], outputs=[y])
        assert y.tolist() == [numbers.power, 3.0 * numbers.power]


def test_an_operator_says_that_an_attribute_of_an_object_has_changed():
    settings = types.SimpleNamespace(power=2.0)

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = settings.power * x[i]

    op = wp.torch_op(k)
    x = torch.tensor([1.0, 3.0])
    assert op(x).tolist() == [2.0, 6.0]
    settings.power = 5.0
    with pytest.raises(RuntimeError, match="`settings.power`"):
        op(x)
