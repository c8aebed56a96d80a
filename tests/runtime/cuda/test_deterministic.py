"""Deterministic mode on CUDA: what depends on the order of threads is refused, all else is launched as always."""

import pytest

import warp_like as wp

REASON = (
    "deterministic mode is on, and what it computes on cuda:0 depends on the order of its threads: it adds floats to "
    "elements that threads share, uses what an atomic operation has found in one, or prints. Launch it on the CPU; or "
    "let each thread write an element of its own, which wp.utils.array_sum() and the like add up in a fixed order; or "
    "declare it with @wp.kernel(deterministic=False)"
)


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


@wp.kernel(deterministic=False)
def total_in_any_order(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


@wp.kernel
def places(x: wp.array(dtype=float), count: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    if x[i] > 0.0:
        out[wp.atomic_add(count, 0, 1)] = i


@wp.kernel
def count(x: wp.array(dtype=float), out: wp.array(dtype=int)):
    wp.atomic_add(out, int(x[wp.tid()]), 1)


@wp.kernel
def scaled(x: wp.array(dtype=float), by: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = by[0] * x[i]


@pytest.fixture
def deterministic():
    wp.config.deterministic = True
    yield
    del wp.config.deterministic


@pytest.fixture
def forgotten(fake):
    """Kernels whose code goes with the fake driver."""
    yield
    for kernel in wp.get_module(__name__).kernels.values():
        kernel.forget_programs()


def arrays(*dtypes):
    return [wp.zeros(8, dtype=dtype, device="cuda:0", requires_grad=dtype is float) for dtype in dtypes]


@pytest.mark.parametrize(("kernel", "dtypes"), [(total, (float, float)), (places, (float, int, int))])
def test_what_depends_on_order_is_refused(fake, forgotten, deterministic, kernel, dtypes):
    for _ in range(2):  # when it is compiled, and by the fast path
        with pytest.raises(wp.WarpDeterminismError) as e:
            wp.launch(kernel, dim=8, inputs=arrays(*dtypes), device="cuda:0")
        assert str(e.value) == f"kernel `{kernel.key}`: {REASON}"
    assert not fake.launches


@pytest.mark.parametrize(("kernel", "dtypes"), [(total_in_any_order, (float, float)), (count, (float, int))])
def test_what_does_not_is_launched(fake, forgotten, deterministic, kernel, dtypes):
    wp.launch(kernel, dim=8, inputs=arrays(*dtypes), device="cuda:0")
    assert [launch.function for launch in fake.launches] == [f"wl_{kernel.key}"]


def test_the_mode_is_followed_as_it_changes(fake, forgotten):
    given = arrays(float, float)
    wp.launch(total, dim=8, inputs=given, device="cuda:0")
    command = wp.launch(total, dim=8, inputs=given, device="cuda:0", record_cmd=True)
    wp.config.deterministic = True
    try:
        for run in (command.launch, lambda: wp.launch(total, dim=8, inputs=given, device="cuda:0")):
            with pytest.raises(wp.WarpDeterminismError):
                run()
    finally:
        del wp.config.deterministic
    command.launch()
    assert len(fake.launches) == 2


def test_a_reverse_sweep_that_adds_is_refused(fake, forgotten, deterministic):
    x, by, y = arrays(float, float, float)
    with wp.Tape() as tape:
        wp.launch(scaled, dim=8, inputs=[x, by], outputs=[y], device="cuda:0")
    with pytest.raises(wp.WarpDeterminismError, match="the adjoint of kernel `scaled`: deterministic mode is on"):
        tape.backward(grads={y: wp.ones(8, device="cuda:0")})
    assert len(fake.launches) == 1


def test_whole_arrays_are_summed(device, deterministic):
    x = wp.array([0.5, 1.5, 2.0], dtype=float, device=device)
    assert wp.utils.array_sum(x) == 4.0
