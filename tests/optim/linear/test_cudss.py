"""Direct solutions on CUDA devices: which calls nvmath-python gets, by a stand-in that solves with SciPy."""

import gc
import sys
import types

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch

import warp_like as wp
from tests.long_tail import sampled
from tests.optim.linear.systems import convection, poisson, sparse, springs
from tests.runtime.cuda.conftest import device as device  # a fixture
from warp_like.optim.linear import Direct, cudss, direct
from warp_like.sparse import bsr_copy, bsr_zeros


class DirectSolver:
    """What the documentation of nvmath-python says of its solver: steps in their order, operands that it takes."""

    calls: list

    def __init__(self, a, b, *, options=None, execution=None, stream=None):
        assert a.layout is torch.sparse_csr
        assert a.crow_indices().dtype is torch.int32
        assert a.col_indices().dtype is torch.int32
        assert a.values().dtype is b.dtype
        assert b.shape == a.shape[:1]
        self.a, self.b, self.done = a, b, set()
        self.note("made", stream)

    def note(self, step, stream):
        self.calls.append((step, stream))
        self.done.add(step)

    def plan(self, *, stream=None):
        self.note("planned", stream)

    def factorize(self, *, stream=None):
        assert "planned" in self.done
        parts = (self.a.values().numpy(), self.a.col_indices().numpy(), self.a.crow_indices().numpy())
        self.inverse = scipy.sparse.linalg.splu(scipy.sparse.csr_array(parts, shape=self.a.shape).tocsc()).solve
        self.note("factorised", stream)

    def reset_operands(self, a=None, b=None, *, stream=None):
        assert a is None
        self.b = b

    def solve(self, *, stream=None):
        assert "factorised" in self.done
        self.note("solved", stream)
        return torch.from_numpy(self.inverse(self.b.numpy()))

    def free(self):
        self.calls.append(("freed", None))


@pytest.fixture
def nvmath(monkeypatch):
    """The stand-in, in the place of the package; it takes views of the emulated device's memory."""
    stand_in = type("Recording", (DirectSolver,), {"calls": []})
    module = types.ModuleType("nvmath.sparse.advanced")
    module.DirectSolver = stand_in
    monkeypatch.setitem(sys.modules, "nvmath.sparse.advanced", module)

    def on_host(a, n):
        return wp.to_torch(wp.array(ptr=a.ptr, dtype=a.dtype, shape=n, device="cpu"))

    def operands(A, r):
        parts = on_host(A.offsets, A.nrow + 1), on_host(A.columns, A.nnz), on_host(A.values, A.nnz)
        return torch.sparse_csr_tensor(*parts, size=A.shape, check_invariants=True), on_host(r, r.size)

    monkeypatch.setattr(cudss, "_operands", operands)
    from_torch = wp.from_torch
    monkeypatch.setattr(wp, "from_torch", lambda t, **options: from_torch(t, **options).to("cuda:0"))
    return stand_in


@pytest.mark.parametrize("device", ["emulated"], indirect=True)
@pytest.mark.parametrize("name, block", sampled([("poisson", 1), ("springs", 3), ("convection", 1)], every=2))
def test_calls_and_solutions(name, block, device, nvmath):
    A = {"poisson": poisson(6), "springs": springs(8), "convection": convection(6)}[name]
    b = np.random.default_rng(0).standard_normal(A.shape[0])
    dtype = wp.float64 if block == 1 else wp.vec3d
    with wp.ScopedDevice(device):
        matrix = sparse(A, block)
        given = wp.array(b.reshape(-1, block) if block > 1 else b, dtype=dtype)
        x = wp.zeros_like(given)
        state = Direct(matrix, given, x, tol=1e-10, atol=0.0)
        for scale in (1.0, -3.0):
            given.assign(scale * b.reshape(given.numpy().shape))
            solves, residual, tolerance = state()
            assert solves == 1
            assert residual <= tolerance
            np.testing.assert_allclose(x.numpy().ravel(), scale * np.linalg.solve(A.toarray(), b), rtol=1e-8)
        stream = wp.get_stream(device).cuda_stream
        steps = ["made", "planned", "factorised", "solved"]
        assert nvmath.calls == [(step, stream) for step in [*steps, "solved"]]
        state.update()
        gc.collect()
        assert nvmath.calls[-1] == ("freed", None)
        state()
        assert nvmath.calls[6:] == [(step, stream) for step in steps[:3]]  # the solution is there already
        del state


@pytest.mark.parametrize("device", ["emulated"], indirect=True)
def test_gradients(device, nvmath):
    """The backward pass factorises the transposed matrix."""
    A, weights = convection(4), np.arange(16.0)
    b = np.random.default_rng(1).standard_normal(16)
    with wp.ScopedDevice(device):
        matrix, given = sparse(A), wp.array(b, requires_grad=True)
        matrix.values.requires_grad = True
        x = wp.zeros_like(given)
        with wp.Tape() as tape:
            direct(matrix, given, x, tol=1e-12, atol=0.0)
        tape.backward(grads={x: wp.array(weights)})
        adjoint = np.linalg.solve(A.toarray().T, weights)
        np.testing.assert_allclose(given.grad.numpy(), adjoint, rtol=1e-9)
        rows = np.repeat(np.arange(16), np.diff(matrix.offsets.numpy()[:17]))
        n = matrix.nnz_sync()
        expected = -adjoint[rows] * x.numpy()[matrix.columns.numpy()[:n]]
        np.testing.assert_allclose(matrix.values.grad.numpy()[:n], expected, rtol=1e-9)


@pytest.mark.parametrize("device", ["emulated"], indirect=True)
def test_what_is_refused(device, monkeypatch):
    with wp.ScopedDevice(device):
        matrix, b = sparse(poisson(3)), wp.ones(9, dtype=wp.float64)
        for missing in ("nvmath.sparse.advanced", "torch"):
            with monkeypatch.context() as m:
                m.setitem(sys.modules, missing, None)
                with pytest.raises(ModuleNotFoundError, match=r"needs nvmath-python with cuDSS"):
                    direct(matrix, b, wp.zeros_like(b))
        with pytest.raises(ValueError, match="takes a BsrMatrix on CUDA devices"):
            direct(wp.ones(9, dtype=wp.float64), b, wp.zeros_like(b))
        half, of_half = wp.ones(9, dtype=wp.float16), bsr_copy(matrix, scalar_type=wp.float16)
        with pytest.raises(ValueError, match="takes float32 and float64, got float16"):
            direct(of_half, half, wp.zeros_like(half))
        matrix.values.fill_(np.nan)
        with pytest.raises(ValueError, match="elements that are not finite"):
            direct(matrix, b, wp.zeros_like(b))
        empty = wp.zeros(0, dtype=wp.float64)
        assert direct(bsr_zeros(0, 0, wp.float64), empty, empty)[0] == 0
