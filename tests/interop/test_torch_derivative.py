"""Second derivatives and forward mode of ``wp.torch_op``, against PyTorch's own of the same formula."""

import itertools

import pytest

import warp_like as wp
from tests.long_tail import crossed

torch = pytest.importorskip("torch")
f64 = wp.float64


@wp.kernel
def stencil(x: wp.array(dtype=f64), z: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    n = x.shape[0]
    y[i] = wp.sin(x[i] * z[(i + 1) % n]) * x[(i + 2) % n]


@wp.kernel
def several(
    x: wp.array(dtype=f64),
    k: f64,
    axis: wp.vec3d,
    at: wp.array(dtype=int),
    power: int,
    y: wp.array(dtype=f64),
    w: wp.array(dtype=wp.vec3d),
    found: wp.array(dtype=int),
):
    i = wp.tid()
    y[i] = k * wp.sin(x[at[i]]) * wp.dot(axis, axis)
    s = f64(1.0)
    for _ in range(power):
        s = s * x[i]
    w[i] = axis * (s * k * k)
    found[i] = at[i] + 1


@wp.kernel
def damp(v: wp.array(dtype=f64), r: wp.array(dtype=f64)):
    i = wp.tid()
    v[i] = v[i] * v[i] * r[i] + wp.sin(v[i])


@wp.kernel
def highest(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i] * x[i] * x[i])


@wp.kernel
def energy(x: wp.array(dtype=f64), e: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(e, 0, x[i] * x[i] * x[i])


stencil_op = wp.torch_op(stencil)
several_op = wp.torch_op(several, as_tensors=["k", "axis"], outputs=["y", "w", "found"])
damp_op = wp.torch_op(damp, in_out=["v"])
highest_op = wp.torch_op(highest, shapes={"y": 1})
energy_op = wp.torch_op(energy, shapes={"e": 1})
AT = torch.tensor([2, 0, 1, 3], dtype=torch.int32)
generator = torch.Generator().manual_seed(1)
X, Z, K = (torch.randn(n, dtype=torch.float64, generator=generator) for n in (4, 4, ()))
AXIS, DIRECTION = (torch.randn(n, dtype=torch.float64, generator=generator) for n in (3, 4))
BASIS = torch.randn(2, 4, dtype=torch.float64, generator=generator)


def stencil_formula(x, z):
    return torch.sin(x * z.roll(-1)) * x.roll(-2)


def several_formula(x, k, axis, at, power):
    return k * torch.sin(x[at.long()]) * axis.dot(axis), (x**power * k * k)[:, None] * axis, at + 1


def damp_formula(v, r):
    return v * v * r + torch.sin(v)


# --- levels of transformations ---


def again(a):
    """A tensor that autograd watches."""
    return a if a.requires_grad else a.detach().requires_grad_()


def gradient_kept(h, a):
    a = again(a)
    return torch.autograd.grad(h(a).sin().sum(), a, create_graph=True)[0]


LEVELS = {
    "jvp": lambda h, a: torch.func.jvp(h, (a,), (DIRECTION,))[1],
    "grad": lambda h, a: torch.func.grad(lambda b: h(b).sin().sum())(a),
    "vmap": lambda h, a: torch.vmap(h)(torch.stack([a, a * a])).sum(0),
    "jacobian": lambda h, a: torch.vmap(lambda t: torch.func.jvp(h, (a,), (t,))[1])(BASIS).sum(0),
    "autograd": gradient_kept,
}


def nested(f, levels):
    """``f`` of two arguments that both depend on one, with transformations around it, the innermost first."""
    g = lambda a: f(a, Z * a)  # noqa: E731
    for level in levels:
        g = lambda a, h=g, level=level: LEVELS[level](h, a)  # noqa: E731
    return g


def orders():
    inner = [levels for n in (1, 2, 3) for levels in itertools.product(["jvp", "grad", "vmap", "jacobian"], repeat=n)]
    for levels in inner:
        for outer in ((), ("autograd",), ("autograd", "autograd")):
            if sum(level != "vmap" for level in (*levels, *outer)) <= 3:
                yield (*levels, *outer)


@pytest.mark.parametrize("first", crossed(["jvp", "grad", "vmap", "jacobian"], every=2))
def test_all_orders_of_three_transformations(first):
    for levels in orders():
        if levels[0] != first:
            continue
        if sum(level in ("jvp", "jacobian") for level in levels) == 3:
            with pytest.raises(NotImplementedError, match="a third derivative is asked of it in forward mode alone"):
                nested(stencil_op, levels)(X)
            continue
        torch.testing.assert_close(
            nested(stencil_op, levels)(X), nested(stencil_formula, levels)(X), msg=lambda m, at=levels: f"{at}: {m}"
        )


def test_hessians_and_jacobians():
    def first(f):
        return lambda *args: f(*args, AT, 3)[:2]

    given = (X, K, AXIS)
    for transform in (torch.func.jacfwd, torch.func.jacrev, torch.func.hessian):
        got, wanted = (transform(first(f), argnums=(0, 1, 2))(*given) for f in (several_op, several_formula))
        torch.testing.assert_close(got, wanted)
        got, wanted = (transform(f, argnums=(0, 1))(X, Z) for f in (damp_op, damp_formula))
        torch.testing.assert_close(got, wanted)


def test_gradcheck():
    x, k, axis = (t.clone().requires_grad_() for t in (X, K, AXIS))

    def run(x, k, axis):
        return several_op(x, k, axis, AT, 3)[:2]

    assert torch.autograd.gradcheck(run, (x, k, axis), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, (x, k, axis), check_fwd_over_rev=True, check_rev_over_rev=True)
    v, r = X.clone().requires_grad_(), Z.clone().requires_grad_()
    assert torch.autograd.gradcheck(damp_op, (v, r), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(damp_op, (v, r), check_fwd_over_rev=True)
    assert torch.autograd.gradgradcheck(energy_op, (v,), check_fwd_over_rev=True)


def test_atomic_extremes():
    x = X.clone().requires_grad_()
    (hessian,) = torch.autograd.functional.hessian(lambda x: highest_op(x).sum(), (x,))
    winner = X.argmax()
    wanted = torch.zeros(4, 4, dtype=torch.float64)
    wanted[winner, winner] = 6 * X[winner]
    torch.testing.assert_close(hessian[0], wanted)
    torch.testing.assert_close(torch.func.jvp(highest_op, (X,), (Z,))[1], (3 * X**2 * Z)[winner : winner + 1])


def test_dual_tensors():
    with torch.autograd.forward_ad.dual_level() as _, torch.no_grad():
        dual = torch.autograd.forward_ad.make_dual(X, DIRECTION)
        got = torch.autograd.forward_ad.unpack_dual(stencil_op(dual, Z)).tangent
        found = several_op(dual, K, AXIS, AT, 2)[2]
        assert torch.autograd.forward_ad.unpack_dual(found).tangent is None
    torch.testing.assert_close(got, torch.func.jvp(lambda x: stencil_formula(x, Z), (X,), (DIRECTION,))[1])


@pytest.mark.parametrize("dtype, tolerance", [(wp.float32, 1e-5), (wp.float16, 2e-2), (wp.bfloat16, 1e-1)])
def test_other_dtypes(dtype, tolerance):
    @wp.kernel
    def cubes(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = x[i] * x[i] * x[i]

    op = wp.torch_op(cubes)
    x = torch.tensor([0.5, -1.25, 2.0], dtype=wp.dtype_to_torch(dtype))
    for transform in (torch.func.hessian, torch.func.jacfwd):
        got, wanted = transform(op)(x), transform(lambda t: t**3)(x.double())
        assert got.dtype == x.dtype
        torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance)


def test_a_fourth_derivative_is_refused():
    f = lambda x: stencil_op(x, Z).sum()  # noqa: E731
    for _ in range(3):
        f = lambda x, g=f: torch.func.grad(g)(x).sum()  # noqa: E731
    assert torch.isfinite(f(X))
    with pytest.raises(NotImplementedError, match="a fourth derivative is asked of it.*detach what must not"):
        torch.func.grad(f)(X)


def test_inside_compiled_functions_forward_mode_and_second_derivatives_are_refused():
    compiled = torch.compile(lambda x: stencil_op(x, Z).sum(), fullgraph=True, backend="aot_eager")
    x = X.clone().requires_grad_()
    (g,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    torch.testing.assert_close(g, torch.func.grad(lambda x: stencil_formula(x, Z).sum())(X))
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        g.sum().backward()


def test_gradients_switched_off():
    @wp.kernel(enable_backward=False)
    def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    with pytest.raises(RuntimeError, match="gradients are switched off"):
        torch.func.jvp(wp.torch_op(square), (X,), (Z,))
