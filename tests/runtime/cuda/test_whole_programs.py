"""Whole programs on a CUDA device, beside the CPU: once in emulation, and on a GPU where there is one."""

import numpy as np
import pytest

import warp_like as wp


@wp.struct
class Body:
    position: wp.vec3
    mass: float


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def count(x: wp.array(dtype=float), bins: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(bins, int(x[i]) % bins.shape[0], 1)


@wp.kernel
def move(bodies: wp.array(dtype=Body), by: wp.vec3, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = bodies[i].position + by * bodies[i].mass


@wp.kernel
def stencil(x: wp.array2d(dtype=wp.float64), y: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    if i > 0 and i < x.shape[0] - 1 and j > 0 and j < x.shape[1] - 1:
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@wp.kernel
def power(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    r = 1.0
    for _ in range(n[i]):
        r = wp.sin(r * x[i]) + r
    y[i] = r


@wp.kernel(mode="debug")
def checked(x: wp.array(dtype=float), at: int):
    i = wp.tid()
    assert i != at, "not here"
    x[i] = 1.0


@wp.kernel(mode="debug")
def careless(x: wp.array(dtype=float), by: int):
    i = wp.tid()
    x[i + by] = 1.0


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 5000])
def test_saxpy(device, n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n)).astype(np.float32)
    on_x, on_y = wp.array(x, dtype=float, device=device), wp.array(y, dtype=float, device=device)
    for how in ({}, {"block_dim": 32}, {"max_blocks": 1}):
        on_y.assign(y)
        wp.launch(saxpy, dim=n, inputs=[on_x, on_y, 2.0], device=device, **how)
        np.testing.assert_allclose(on_y.numpy(), 2 * x + y, rtol=1e-6)


def test_atomics_and_integers(device):
    x = np.random.default_rng(0).uniform(0, 1000, 3000).astype(np.float32)
    bins = wp.zeros(7, dtype=int, device=device)
    wp.launch(count, dim=3000, inputs=[wp.array(x, device=device), bins], device=device)
    assert bins.list() == np.bincount(x.astype(int) % 7, minlength=7).tolist()


def test_structs_and_vectors(device):
    bodies = np.zeros(50, dtype=Body.numpy_dtype())
    bodies["position"] = np.random.default_rng(1).normal(size=(50, 3))
    bodies["mass"] = np.arange(50)
    out = wp.zeros(50, dtype=wp.vec3, device=device)
    wp.launch(move, 50, [wp.array(bodies, dtype=Body, device=device), wp.vec3(1.0, 2.0, 3.0)], [out], device=device)
    np.testing.assert_allclose(out.numpy(), bodies["position"] + np.outer(np.arange(50), [1, 2, 3]), rtol=1e-6)


@pytest.mark.parametrize("strided", [False, True])
def test_two_dimensions_and_strides(device, strided):
    x = np.random.default_rng(2).normal(size=(20, 30))
    on_x, on_y = wp.array(x, device=device), wp.zeros((20, 30), dtype=wp.float64, device=device)
    if strided:
        on_x, on_y, x = on_x.transpose(), on_y.transpose(), x.T
    wp.launch(stencil, dim=x.shape, inputs=[on_x, on_y], device=device)
    wanted = np.zeros_like(x)
    wanted[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    np.testing.assert_allclose(on_y.numpy(), wanted)


@wp.kernel
def add_squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += x[i] * x[i]


@pytest.mark.parametrize("dim", [(40,), (40, 1), (40, 3), (40, 1, 2, 3)])
def test_threads_that_share_their_index(device, dim):
    x = wp.array(np.arange(40), dtype=float, device=device, requires_grad=True)
    y = wp.zeros(40, dtype=float, device=device, requires_grad=True)
    each = np.prod(dim) // 40
    for n in range(1, 4):
        with wp.Tape() as tape:
            wp.launch(add_squares, dim, [x], [y], device=device)
        np.testing.assert_array_equal(y.numpy(), n * each * x.numpy() ** 2)
    tape.backward(grads={y: wp.ones(40, dtype=float, device=device)})
    np.testing.assert_array_equal(x.grad.numpy(), each * 2 * x.numpy())


def _power_gradient(where, steps):
    rng = np.random.default_rng(3)
    x = wp.array(rng.uniform(0.1, 0.5, len(steps)), dtype=float, device=where, requires_grad=True)
    n = wp.array(steps, dtype=int, device=where)
    y = wp.zeros(len(steps), dtype=float, device=where, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(power, dim=len(steps), inputs=[x, n], outputs=[y], device=where)
    tape.backward(grads={y: wp.ones(len(steps), dtype=float, device=where)})
    return y.numpy(), x.grad.numpy()


def _power_reference(steps):
    x = np.random.default_rng(3).uniform(0.1, 0.5, len(steps)).astype(np.float32).astype(np.float64)
    r, dr = np.ones(len(steps)), np.zeros(len(steps))
    for k in range(max(steps)):
        going = k < np.asarray(steps)
        dr = np.where(going, np.cos(r * x) * (dr * x + r) + dr, dr)
        r = np.where(going, np.sin(r * x) + r, r)
    return r, dr


@pytest.mark.parametrize("longest", [3, 40, 400])
def test_gradients_of_loops_whose_length_is_data(device, longest):
    steps = np.random.default_rng(4).integers(0, longest + 1, 60)
    steps[7] = longest
    y, gradient = _power_gradient(device, steps)
    expected_y, expected = _power_reference(steps)
    np.testing.assert_allclose(y, expected_y, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


def test_a_stack_beyond_its_limit_is_refused_and_leaves_gradients_alone(device):
    before = wp.config.adjoint_stack_limit
    wp.config.adjoint_stack_limit = 1024
    try:
        with pytest.raises(MemoryError, match="the adjoint of kernel `power`: a thread needs more than 1024 bytes"):
            _power_gradient(device, [2000, 3])
    finally:
        wp.config.adjoint_stack_limit = before


def test_a_tape_over_several_launches(device):
    def loss_gradient(where):
        x = wp.array(np.linspace(-1, 1, 40), dtype=float, device=where, requires_grad=True)
        y = wp.zeros(40, device=where, requires_grad=True)
        with wp.Tape() as tape:
            for a in (0.5, 2.0):
                wp.launch(saxpy, dim=40, inputs=[x, y, a], device=where)
        tape.backward(grads={y: wp.ones(40, device=where)})
        first = x.grad.numpy().copy()
        tape.zero()
        assert not x.grad.numpy().any()
        return first

    np.testing.assert_allclose(loss_gradient(device), loss_gradient("cpu"))


def test_a_failed_check_is_raised_when_something_is_waited_for(device):
    x = wp.zeros(10, device=device)
    wp.launch(checked, dim=10, inputs=[x, 50], device=device)
    checked.program(checked.types, device=x.device).dispatcher.runner = None  # as in a graph, which nobody waits for
    wp.launch(checked, dim=10, inputs=[x, 5], device=device)
    with pytest.raises(AssertionError) as on_device:
        wp.synchronize_device(device)
    with pytest.raises(AssertionError) as on_host:
        wp.launch(checked, dim=10, inputs=[wp.zeros(10), 5])
    assert str(on_device.value) == str(on_host.value)
    wp.synchronize_device(device)  # it is raised once
    assert x.list() == [1.0] * 10


def test_debug_mode_raises_at_the_launch(device):
    x = wp.zeros(10, device=device)
    with pytest.raises(IndexError) as on_device:
        wp.launch(careless, dim=10, inputs=[x, 3], device=device)
    with pytest.raises(IndexError) as on_host:
        wp.launch(careless, dim=10, inputs=[wp.zeros(10), 3])
    assert str(on_device.value).partition(" (thread")[0] == str(on_host.value).partition(" (thread")[0]
    wp.launch(careless, dim=10, inputs=[x, 0], device=device)
    assert x.list() == [1.0] * 10


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_copies_that_a_kernel_does(device, dtype):
    data = np.random.default_rng(6).integers(0, 100, (30, 40, 3)).astype(dtype)
    a = wp.array(data, device=device)
    np.testing.assert_array_equal(a.transpose((1, 0, 2)).numpy(), data.transpose(1, 0, 2))
    np.testing.assert_array_equal(a.transpose().contiguous().numpy(), data.T)
    b = wp.zeros((40, 30, 3), dtype=a.dtype, device=device)
    b.transpose((1, 0, 2)).assign(a)
    np.testing.assert_array_equal(b.numpy(), data.transpose(1, 0, 2))


def test_copies_between_kinds_of_memory(device):
    data = np.random.default_rng(5).normal(size=(7, 9)).astype(np.float32)
    a = wp.array(data, device=device)
    pinned = wp.empty((7, 9), pinned=True)
    wp.copy(pinned, a)
    wp.synchronize_device(device)
    np.testing.assert_array_equal(pinned.numpy(), data)
    np.testing.assert_array_equal(a[::2, 1:].numpy(), data[::2, 1:])
    np.testing.assert_array_equal(a.transpose().contiguous().numpy(), data.T)
    a[1:3].fill_(4.0)
    data[1:3] = 4.0
    np.testing.assert_array_equal(a.numpy(), data)
    wide = wp.full(1000, wp.vec3d(1.0, 2.0, 3.0), dtype=wp.vec3d, device=device)
    np.testing.assert_array_equal(wide.numpy(), np.tile([1.0, 2.0, 3.0], (1000, 1)))


@wp.kernel
def draw(seed: int, ints: wp.array2d(dtype=int), floats: wp.array2d(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    ints[i, 0] = wp.randi(state)
    ints[i, 1] = wp.randi(state, -7, 1000)
    ints[i, 2] = int(wp.randu(state) & wp.uint32(0x7FFFFFFF))
    ints[i, 3] = int(wp.poisson(state, 4.5))
    floats[i, 0] = wp.randf(state)
    floats[i, 1] = wp.randf(state, -2.0, 3.0)
    floats[i, 2] = wp.randn(state)
    floats[i, 3] = wp.sample_unit_sphere(state).z


@pytest.mark.parametrize("seed", [0, 42, -5])
def test_random_numbers_are_those_of_the_cpu(device, seed):
    n, found = 200, []
    for place in ("cpu", device):
        ints, floats = wp.zeros((n, 4), dtype=int, device=place), wp.zeros((n, 4), device=place)
        wp.launch(draw, dim=n, inputs=[seed, ints, floats], device=place)
        found.append((ints.numpy(), floats.numpy()))
    (ints, floats), (on_ints, on_floats) = found
    np.testing.assert_array_equal(on_ints, ints)
    np.testing.assert_array_equal(on_floats[:, :2], floats[:, :2])
    np.testing.assert_allclose(on_floats[:, 2:], floats[:, 2:], rtol=1e-5, atol=1e-6)


@wp.struct
class Table:
    values: wp.array(dtype=wp.float64)
    scale: wp.float64


@wp.kernel
def look_up(tables: wp.array(dtype=Table), out: wp.array(dtype=wp.float64)):
    i, j = wp.tid()
    t = tables[i]
    wp.atomic_add(out, i, t.values[j] * t.values[j] * t.scale)


def test_arrays_in_elements(device):
    rng = np.random.default_rng(0)
    values = [wp.array(rng.normal(size=6), dtype=wp.float64, device=device, requires_grad=True) for _ in range(3)]
    scales = [1.0, 2.0, 3.0]
    tables = wp.array([Table(values=v, scale=s) for v, s in zip(values, scales, strict=True)], device=device)
    out = wp.zeros(3, dtype=wp.float64, device=device, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(look_up, dim=(3, 6), inputs=[tables, out], device=device)
    np.testing.assert_allclose(out.numpy(), [(v.numpy() ** 2).sum() * s for v, s in zip(values, scales, strict=True)])
    tape.backward(grads={out: wp.full(3, 1.0, dtype=wp.float64, device=device)})
    for v, s in zip(values, scales, strict=True):
        np.testing.assert_allclose(v.grad.numpy(), 2 * v.numpy() * s)
    assert tables[1].values is values[1]
    with pytest.raises(ValueError, match="so they can't be copied to cpu; make copies of the arrays there"):
        wp.clone(tables, device="cpu")
    with pytest.raises(ValueError, match="can't hold"):
        wp.array([Table(values=values[0])], device="cpu")


@wp.kernel
def inverses(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i])
    out[i, 0] = 1.0 / r
    out[i, 1] = 7.0 / r


@wp.kernel(fast_math=True)
def fast_inverses(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i])
    out[i, 0] = 1.0 / r
    out[i, 1] = 7.0 / r


@pytest.mark.parametrize(
    ("kernel", "ulps"), [(inverses, 1.5), (fast_inverses, 4.0)], ids=lambda x: getattr(x, "key", x)
)
def test_inverse_roots(device, kernel, ulps):
    special = [0.0, -0.0, np.inf, np.nan, -1.0, -np.inf, 1.0, 4.0, 3.4e38, 1.2e-38]
    denormal = [] if kernel is fast_inverses else [1e-45, 3e-42, 1e-39]  # which it takes for 0
    others = np.exp(np.random.default_rng(3).uniform(-80.0, 80.0, 2000))
    x = np.array([*special, *denormal, *others], np.float32)
    out = wp.zeros((len(x), 2), dtype=float, device=device)
    wp.launch(kernel, dim=len(x), inputs=[wp.array(x, device=device), out], device=device)
    with np.errstate(all="ignore"):
        exact = np.array([1.0, 7.0]) / np.sqrt(x.astype(np.float64))[:, None]
        unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    far = np.isfinite(exact)
    np.testing.assert_array_equal(out.numpy()[~far], exact[~far])
    assert (abs(out.numpy()[far] - exact[far]) <= ulps * unit[far]).all()
    assert 1.0 / np.sqrt(np.float32(4.0)) == out.numpy()[7, 0] == 0.5 or kernel is fast_inverses


@wp.kernel
def whole_numbers(x: wp.array(dtype=float), y: wp.array(dtype=wp.float64), out: wp.array2d(dtype=wp.int64)):
    i = wp.tid()
    out[i, 0] = wp.int64(wp.int32(x[i]))
    out[i, 1] = wp.int64(wp.uint32(x[i]))
    out[i, 2] = wp.int64(x[i])
    out[i, 3] = wp.int64(wp.uint64(x[i]))
    out[i, 4] = wp.int64(wp.int32(y[i]))
    out[i, 5] = wp.int64(wp.uint32(y[i]))
    out[i, 6] = wp.int64(y[i])
    out[i, 7] = wp.int64(wp.uint64(y[i]))
    out[i, 8] = wp.int64(wp.int8(x[i]))


def test_floats_become_whole_numbers_as_on_the_cpu(device):
    special = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.9,
        2.0**31,
        -(2.0**31),
        2.0**32,
        2.0**63,
        -(2.0**63),
        2.0**64,
        1e30,
        127.9,
    ]
    x = np.array([*special, *np.random.default_rng(5).normal(size=50, scale=1e9)])
    found = []
    for where in (device, "cpu"):
        args = [wp.array(x.astype(np.float32), device=where), wp.array(x, dtype=wp.float64, device=where)]
        out = wp.zeros((len(x), 9), dtype=wp.int64, device=where)
        wp.launch(whole_numbers, dim=len(x), inputs=[*args, out], device=where)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)


@wp.kernel
def extremes(
    x: wp.array(dtype=float),
    h: wp.array(dtype=wp.float16),
    out: wp.array(dtype=float),
    halves: wp.array(dtype=wp.float16),
):
    i = wp.tid()
    if i % 3 != 1:
        wp.atomic_min(out, 0, x[i])
        wp.atomic_max(out, i % 2 + 1, x[i])
        wp.atomic_max(halves, i % 2, h[i])


def test_least_and_greatest_of_floats_beside_nan(device):
    x = np.random.default_rng(8).normal(size=500).astype(np.float32)
    x[::7] = np.nan
    used = np.arange(500) % 3 != 1
    start = np.array([np.nan, 0.5, np.nan], np.float32)  # a number replaces NaN
    out, halves = wp.array(start, device=device), wp.array(np.array([np.nan, -9.0], np.float16), device=device)
    given = [wp.array(x, device=device), wp.array(x.astype(np.float16), device=device)]
    wp.launch(extremes, dim=500, inputs=[*given, out, halves], device=device)
    even, odd = x[used & (np.arange(500) % 2 == 0)], x[used & (np.arange(500) % 2 == 1)]
    np.testing.assert_array_equal(out.numpy(), [np.nanmin(x[used]), np.nanmax(even), np.nanmax(odd)])
    np.testing.assert_array_equal(halves.numpy(), np.array([np.nanmax(even), np.nanmax(odd)]).astype(np.float16))
