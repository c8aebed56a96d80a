"""PyTorch's check of saved tensors sees what kernels and arrays write."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warp_like as wp

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


@wp.kernel
def fill(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 3.0


@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@pytest.mark.parametrize(
    "write",
    [
        lambda t: wp.launch(fill, 4, [t]),
        lambda t: wp.launch(fill, 3, [t[1:]]),
        lambda t: wp.launch(fill, 4, [wp.from_torch(t)]),
        lambda t: wp.launch(fill, 3, [wp.from_torch(t)[1:]]),
        lambda t: wp.launch(fill, 4, [torch.nn.Parameter(t)]),
        lambda t: wp.launch(fill, 4, [t], record_cmd=True).launch(),
        lambda t: wp.from_torch(t).fill_(1.0),
        lambda t: wp.from_torch(t).zero_(),
        lambda t: wp.from_torch(t).assign([1.0, 2.0, 3.0, 4.0]),
        lambda t: wp.from_torch(t)[1:].assign([1.0, 2.0, 3.0]),
        lambda t: wp.copy(wp.from_torch(t), wp.ones(4)),
    ],
)
def test_a_write_bumps_the_version(write):
    t = torch.zeros(4)
    version = t._version
    write(t)
    assert t._version > version
    assert t[1:].all() or not t.any()


def test_reading_does_not():
    t = torch.ones(4)
    version = t._version
    wp.launch(copy, 4, [t, np.zeros(4, np.float32)])
    wp.launch(copy, 4, [wp.from_torch(t), wp.zeros(4)])
    assert t._version == version


@pytest.mark.parametrize("through", [lambda t: t, wp.from_torch])
def test_a_saved_tensor_that_a_kernel_wrote_is_refused_in_backward(through):
    x = torch.zeros(4, requires_grad=True)
    y = x.exp()  # saves its result
    wp.launch(fill, 4, [through(y.detach())])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_written_by_an_adjoint_are_counted():
    x, y, gx, gy = torch.zeros(4), torch.zeros(4), torch.zeros(4), torch.ones(4)
    versions = gx._version, gy._version
    wp.launch(copy, 4, [x], [y], adj_inputs=[gx], adj_outputs=[gy], adjoint=True)
    assert gx.tolist() == [1, 1, 1, 1]
    assert gx._version > versions[0]
    assert gy._version == versions[1]


def test_inference_tensors_have_no_version():
    with torch.inference_mode():
        t = torch.zeros(4)
        wp.launch(fill, 4, [t])
    assert t.tolist() == [3, 3, 3, 3]
    wp.launch(copy, 4, [torch.arange(4.0), t])
    assert t.tolist() == [0, 1, 2, 3]


PROGRAM = """
import sys
import numpy as np
import warp_like as wp

@wp.kernel
def fill(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 3.0

for _ in range(3):
    wp.launch(fill, 4, [np.zeros(4, np.float32)])
assert "torch" not in sys.modules
import torch
t = torch.zeros(4)
wp.launch(fill, 4, [t])
print(t._version, t.tolist())
"""


def test_torch_imported_after_launches_on_other_arrays(tmp_path):
    """The first tensor may come when the native path is in use already."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    out = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=ENV)
    assert (out.stdout.split(maxsplit=1)[0], out.returncode) == ("1", 0), out.stderr


@wp.kernel
def copy_twice(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]
    z[i] = x[i]


def test_tensors_over_arrays_are_told_as_well():
    ours, theirs = wp.zeros(4), torch.zeros(4)
    over, part = ours.to_torch(), ours[1:].to_torch()
    versions = over._version, part._version, theirs._version
    wp.launch(copy_twice, 4, [torch.ones(4), ours, theirs])
    assert (over._version, part._version, theirs._version) == tuple(v + 1 for v in versions)


UNKNOWN_LAYOUT = """
import torch
import warp_like as wp

class Odd(torch.Tensor):
    _cdata = 1  # says that its state lies elsewhere

@wp.kernel
def copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]

x, y = torch.ones(4).as_subclass(Odd), torch.zeros(4)
for round in range(3):
    wp.launch(copy, 4, [x, y])
assert y._version == 3 and y.tolist() == [1.0] * 4, (y, y._version)
negated = torch._neg_view(torch.ones(4))
try:
    wp.launch(copy, 4, [negated, y])
except Exception as e:
    print(e)
"""


def test_a_pytorch_laid_out_otherwise_is_asked_through_python(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(UNKNOWN_LAYOUT, encoding="utf-8")
    out = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=ENV)
    assert (out.returncode, "resolve_neg" in out.stdout) == (0, True), (out.stdout, out.stderr)
