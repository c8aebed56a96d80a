"""Arrays without dimensions and tensors of one element, given where a number is expected."""

import importlib

import numpy as np
import pytest

import warp_like as wp

MAKERS = {
    "numpy": lambda np_, x: np_.array(x),
    "torch": lambda torch, x: torch.tensor(x),
    "jax.numpy": lambda jnp, x: jnp.array(x),
    "paddle": lambda paddle, x: paddle.to_tensor(x).reshape([]),
}


@wp.struct
class Settings:
    scale: float
    count: int
    axis: wp.vec3
    on: bool


@wp.kernel
def weigh(n: int, s: float, axis: wp.vec3, on: bool, d: wp.float64, y: wp.array(dtype=float)):
    if on:
        y[wp.tid()] = s * float(n) + axis[0] + float(d)


@wp.kernel
def read(s: Settings, y: wp.array(dtype=float)):
    if s.on:
        y[wp.tid()] = s.scale * float(s.count) + s.axis[2]


@pytest.fixture(params=MAKERS)
def number(request):
    library = pytest.importorskip(request.param)
    return lambda x: MAKERS[request.param](library, x)


def test_launches(number):
    y = wp.zeros(2, dtype=float)
    axis = [number(1.0), number(2.0), number(3.0)]
    wp.launch(weigh, dim=number(2), inputs=[number(3), number(2.0), axis, number(True), number(0.5)], outputs=[y])
    assert y.numpy().tolist() == [7.5, 7.5]
    command = wp.launch(weigh, dim=2, inputs=[3, 2.0, wp.vec3(), True, 0.5], outputs=[y], record_cmd=True)
    command.set_param_by_name("s", number(9.0))
    command.set_dim((number(1), number(1)))
    command.launch()
    assert y.numpy().tolist() == [27.5, 7.5]


def test_values(number):
    s = Settings()
    s.scale, s.count, s.on = number(2.0), number(3), number(True)
    s.axis = wp.vec3(number(1.0), number(2.0), number(3.0))
    y = wp.zeros((number(2),), dtype=float)
    wp.launch(read, dim=2, inputs=[s], outputs=[y])
    assert y.numpy().tolist() == [9.0, 9.0]
    assert wp.vec3(number(1.0)) == wp.vec3(1.0, 1.0, 1.0)
    assert wp.vec3(1.0, 2.0, 3.0) * number(2.0) == wp.vec3(2.0, 4.0, 6.0)
    assert (wp.float32(number(1.5)), wp.int32(number(2.75)), wp.zeros(number(3)).shape) == (1.5, 2, (3,))
    assert wp.sqrt(wp.float64(number(4.0))) == 2.0
    y.fill_(number(4.0))
    y[0] = number(5.0)
    assert y.numpy().tolist() == [5.0, 4.0]


@pytest.mark.parametrize("given", ["torch", "paddle", "numpy"])
def test_what_is_no_such_number_is_refused(given):
    library = importlib.import_module(given) if given == "numpy" else pytest.importorskip(given)
    make = {"numpy": np.array, "torch": getattr(library, "tensor", None), "paddle": getattr(library, "to_tensor", None)}
    y = wp.zeros(2, dtype=float)

    def launch(n, s=2.0, dim=2):
        wp.launch(weigh, dim=dim, inputs=[n, s, wp.vec3(), True, 0.5], outputs=[y])

    for arguments in ((make[given](2.5),), (make[given]([2.5]),), (3, make[given]([1.0, 2.0]))):
        with pytest.raises(TypeError, match=r"argument [12] `[ns]`: expected (int32|float32), got"):
            launch(*arguments)
    with pytest.raises(TypeError, match="dim takes an int"):
        launch(3, dim=make[given](2.5))
    if given != "numpy":
        launch(3, make[given]([1.0]))
        assert y.numpy().tolist() == [3.5, 3.5]


def test_a_lost_gradient_is_warned_of():
    torch = pytest.importorskip("torch")
    s = torch.tensor(2.0, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape(), pytest.warns(UserWarning, match="its gradient stops there"):
        wp.launch(weigh, dim=2, inputs=[3, s, wp.vec3(), True, 0.5], outputs=[y])
