"""Tensors of a PyTorch without DLPack's exchange API, which PyTorch has since 2.10, do what all others do.

Each program takes the API away from the installed PyTorch if it is there. With ``make test-versions``, all other tests
of PyTorch run with such a version, too.
"""

import json
import textwrap

import pytest

from tests.interop.test_versions import OLD, run

torch = pytest.importorskip("torch")

ONE_BY_ONE = """
import contextlib, io, json, traceback

said = {}
for program in (negated, writes, parameters, others):
    out, error = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            program()
        except Exception:
            error = traceback.format_exc()
    said[program.__name__] = out.getvalue(), error
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each program prints, and its error; all run in one process, as importing PyTorch takes most of its time."""
    programs = {"negated": NEGATED, "writes": WRITES, "parameters": PARAMETERS, "others": OTHERS}
    functions = (f"def {name}():{textwrap.indent(text, '    ')}" for name, text in programs.items())
    out = run(tmp_path_factory.mktemp("reader"), "\n".join([OLD, *functions, ONE_BY_ONE]))
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def printed(said, name):
    out, error = said[name]
    assert not error, error
    return out


NEGATED = """
y = torch.zeros(2)
print(refusal(torch._neg_view(torch.ones(2)), y))
print(refusal(torch.complex(torch.ones(2), torch.ones(2)).conj().imag, y))
assert y.tolist() == [0, 0], y
"""


def test_negated_views_are_refused(said):
    refused = [line for line in printed(said, "negated").splitlines() if "argument 1 `x`" in line]
    assert len(refused) == 2
    assert all("is a lazily conjugated or negated view; resolve it first" in line for line in refused)


WRITES = """
y, x = torch.zeros(2), torch.ones(2)
for n in (1, 2, 3):
    wp.launch(double, 2, [x, y])
    assert (x._version, y._version) == (0, n), (x._version, y._version)
wp.launch(double, 2, [x, wp.from_torch(y)])
assert y._version == 4 and y.tolist() == [2, 2]
wp.launch(double, 1, [x[1:], y[:1]])
assert y._version == 5

ours = wp.zeros(2)
over = ours.to_torch()
assert ours.to_torch() is over
wp.launch(double, 2, [x, ours])
assert over._version == 1 and over.tolist() == [2, 2]

e = torch.zeros(2, requires_grad=True).exp()
wp.launch(double, 2, [x, e.detach()])
try:
    e.sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
else:
    raise AssertionError("a write to a saved tensor was not noticed")
"""


def test_writes_are_counted(said):
    printed(said, "writes")


PARAMETERS = """
p = torch.nn.Parameter(torch.ones(2))
y = torch.zeros(2)
wp.launch(double, 2, [p, y])
assert y.tolist() == [2, 2]

a, b = wp.from_torch(p), wp.zeros(2, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(double, 2, [a, b])
tape.backward(grads={b: wp.ones(2)})
assert p.grad.tolist() == [2, 2], p.grad

q = torch.ones(2, requires_grad=True)
twice = wp.torch_op(double)
twice(q * 1.0).sum().backward()
assert q.grad.tolist() == [2, 2], q.grad
"""


def test_parameters_and_gradients(said):
    printed(said, "parameters")


OTHERS = """
from torch._subclasses.fake_tensor import FakeTensorMode

class Named(torch.Tensor):
    pass

y = torch.zeros(2)
wp.launch(double, 2, [torch.ones(2).as_subclass(Named), y])
wp.launch(double, 2, [torch.ones(4)[::2], y.bfloat16().float()])
assert y.tolist() == [2, 2]
with FakeTensorMode():
    fake = torch.ones(2)
print(refusal(fake, y))
print(refusal(torch.ones(2).to_sparse(), y))
print(refusal(torch.ones(2, device="meta"), y))
print(refusal(torch.ones(2, dtype=torch.complex64), y))
print(refusal(torch.ones(2, dtype=torch.float64), y))
empty = torch.ones(2)
empty.untyped_storage().resize_(0)
print(refusal(empty, y))
for dtype in ("float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"):
    t = torch.ones(3, dtype=getattr(torch, dtype))
    assert wp.from_torch(t).numpy().tolist() == t.tolist() or dtype == "bfloat16", dtype
freed = torch.ones(2)
kept = wp.from_torch(freed)
freed.untyped_storage().resize_(0)
try:
    wp.launch(double, 2, [kept, y])
except RuntimeError as e:
    print(str(e).splitlines()[0])
"""


def test_other_tensors(said):
    out = printed(said, "others")
    lines = [line for line in out.splitlines() if not line.startswith((" ", "help"))]
    expected = [
        "can't be shared: it is a fake tensor, which has no memory; to trace a launch",
        "its layout is torch.sparse_coo, and only tensors with strides can be shared",
        "it lies on meta",
        "of dtype torch.complex64",
        "of dtype torch.float64",
        "no memory",
        "is gone: the tensor that it was made from has been freed or resized since",
    ]
    assert len(lines) == len(expected), out
    for line, part in zip(lines, expected, strict=True):
        assert part in line
