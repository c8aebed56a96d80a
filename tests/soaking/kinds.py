"""The kinds of work of a soak: each call is an operation of its own, and raises where a result is wrong.

What an operation makes is dropped when it returns. Operations of one kind run in several threads at a time.
"""

from __future__ import annotations

import gc
import itertools
import linecache
import random
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp

N = 257  # elements: more than a vector of lanes, and no multiple of one
FEW = 20  # values that closures capture: after these, code comes from the cache


class Rng(random.Random):
    """The random numbers of one thread, with the thread's name."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(f"{seed} {name}")
        self.name = name


Kind = Callable[[Rng], None]
KINDS: dict[str, Kind] = {}
_numbers = itertools.count()


def kind(work: Kind) -> Kind:
    """Let a soak do this."""
    KINDS[work.__name__] = work
    return work


def require(found: Any, expected: Any, rtol: float = 1e-5) -> None:
    """Compare with NumPy."""
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6)


def numbers(rng: Rng) -> np.ndarray[Any, Any]:
    """Some float32, not all alike."""
    return np.linspace(rng.uniform(-1.0, 0.0), rng.uniform(0.5, 1.5), N, dtype=np.float32)


@wp.kernel
def affine(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + 1.0


@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()])


@wp.struct
class Line:
    slope: float
    offset: float
    points: wp.array(dtype=float)


@wp.kernel
def along(line: Line, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = line.slope * line.points[i] + line.offset


# ---- launches


@kind
def launches(rng: Rng) -> None:
    """Launch on NumPy's arrays and on ours."""
    x, a = numbers(rng), rng.uniform(-2.0, 2.0)
    y, mine = np.zeros_like(x), wp.zeros(N, dtype=float)
    wp.launch(affine, dim=N, inputs=[x, a], outputs=[y])
    require(y, np.float32(a) * x + 1.0)
    wp.launch(affine, dim=N, inputs=[wp.array(x), a], outputs=[mine])
    require(mine.numpy(), y)
    out = wp.zeros(1, dtype=float)
    wp.launch(total, dim=N, inputs=[mine], outputs=[out])
    require(out.numpy()[0], y.astype(np.float64).sum(), rtol=1e-3)


@kind
def large_launches(rng: Rng) -> None:
    """Launch a grid that the pool's threads share."""
    n = rng.choice([30_000, 100_000])
    x, y = np.full(n, 0.5, np.float32), np.zeros(n, np.float32)
    wp.launch(cube, dim=n, inputs=[x], outputs=[y])
    require(y, 0.125)


@kind
def recorded_launches(rng: Rng) -> None:
    """Record a launch, run it again with other arguments, and drop it."""
    x, y = wp.array(numbers(rng)), wp.zeros(N, dtype=float)
    command = wp.launch(affine, dim=N, inputs=[x, 2.0], outputs=[y], record_cmd=True)
    command.launch()
    require(y.numpy(), 2.0 * x.numpy() + 1.0)
    command.set_param_by_name("a", 3.0)
    command.launch()
    require(y.numpy(), 3.0 * x.numpy() + 1.0)


@kind
def structs(rng: Rng) -> None:
    """Give kernels a struct that holds an array."""
    line, y = Line(), wp.zeros(N, dtype=float)
    line.slope, line.offset, line.points = 2.0, rng.uniform(0.0, 1.0), wp.array(numbers(rng))
    wp.launch(along, dim=N, inputs=[line], outputs=[y])
    require(y.numpy(), 2.0 * line.points.numpy() + np.float32(line.offset))


@kind
def refusals(rng: Rng) -> None:
    """Launch with wrong arguments, and out of an array's bounds in debug mode."""
    for wrong, error in (([wp.zeros(N, dtype=int), 1.0], TypeError), ([None, "a"], TypeError)):
        try:
            wp.launch(affine, dim=N, inputs=wrong, outputs=[wp.zeros(N, dtype=float)])
        except error:
            continue
        raise AssertionError(f"{error.__name__} is not raised")
    try:
        checked = {"mode": "debug"}
        wp.launch(cube, dim=N + 1, inputs=[wp.ones(N, dtype=float)], outputs=[np.zeros(N, np.float32)], options=checked)
    except (IndexError, ValueError):
        return
    raise AssertionError("an index out of bounds is not found")


# ---- tapes and graphs


@kind
def tapes(rng: Rng) -> None:
    """Differentiate two launches and a sum on a tape."""
    x = wp.array(numbers(rng), requires_grad=True)
    y, z = (wp.zeros(N, dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(cube, dim=N, inputs=[x], outputs=[y])
        wp.launch(affine, dim=N, inputs=[y, 2.0], outputs=[z])
    tape.backward(grads={z: wp.ones(N, dtype=float)})
    require(x.grad.numpy(), 6.0 * x.numpy() ** 2, rtol=1e-4)


@kind
def dropped_tapes(rng: Rng) -> None:
    """Record, and never go backward."""
    x, y = wp.array(numbers(rng), requires_grad=True), wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape():
        wp.launch(cube, dim=N, inputs=[x], outputs=[y])
        y.fill_(1.0)
    require(y.numpy(), 1.0)


@kind
def graphs(rng: Rng) -> None:
    """Capture launches and writes of the host, and run them several times."""
    x, y = wp.array(numbers(rng)), wp.zeros(N, dtype=float)
    with wp.ScopedCapture() as capture:
        wp.launch(cube, dim=N, inputs=[x], outputs=[y])
        x.zero_()
        wp.copy(x, y)
    expected = x.numpy().copy()
    for _ in range(2):
        wp.capture_launch(capture.graph)
        expected = expected**3
    require(x.numpy(), expected)


# ---- arrays


@kind
def arrays(rng: Rng) -> None:
    """Make arrays, views and copies, and drop them."""
    values = numbers(rng)
    a = wp.array(values)
    b = wp.clone(a)
    b.fill_(2.0)
    require((a + b)[3:7].numpy(), values[3:7] + 2.0)
    require(wp.utils.array_sum(a), values.astype(np.float64).sum(), rtol=1e-3)
    wp.copy(b, a)
    assert b.list() == a.list()
    pinned = wp.array(values.reshape(1, N), copy=False)
    require(pinned.reshape(N)[::2].numpy(), values[::2])


@kind
def whole_arrays(rng: Rng) -> None:
    """Sort, scan and map whole arrays."""
    values = numbers(rng)
    a, scanned = wp.array(values), wp.zeros(N, dtype=float)
    wp.utils.array_scan(a, scanned, inclusive=True)
    require(scanned.numpy(), np.cumsum(values.astype(np.float64)), rtol=1e-2)
    require(wp.map(lambda v: v * 2.0 + 1.0, a).numpy(), values * 2.0 + 1.0)
    keys, places = (wp.zeros(2 * N, dtype=int) for _ in range(2))
    wp.copy(keys, wp.array(np.arange(N, 0, -1, dtype=np.int32)), count=N)
    wp.utils.radix_sort_pairs(keys, places, N)
    assert keys.numpy()[:N].tolist() == list(range(1, N + 1))


@kind
def mapped_functions(rng: Rng) -> None:
    """Map a function that captures a number."""
    factor = float(rng.randrange(FEW))

    @wp.func
    def scaled(v: float):
        return v * factor

    values = numbers(rng)
    require(wp.map(scaled, wp.array(values)).numpy(), values * np.float32(factor))


# ---- compilations


_CELL = """
import warp_like as wp


@wp.func
def changed(v: float):
    return v * {factor} + 1.0


@wp.kernel
def cell(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = changed(x[i])
"""


def _launch_cell(factor: float) -> None:
    """Define a function and a kernel, as a notebook's cell does, and launch the kernel."""
    text, file = _CELL.format(factor=factor), f"<soak {next(_numbers)}>"
    names: dict[str, Any] = {"__name__": "tests.soaking.cells"}
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec"), names)
        x = wp.ones(N, dtype=float)
        wp.launch(names["cell"], dim=N, inputs=[x])
        require(x.numpy(), np.float32(factor) + 1.0)
    finally:
        del linecache.cache[file]


@kind
def new_cells(rng: Rng) -> None:
    """Compile a text that nobody has compiled before."""
    _launch_cell(next(_numbers) / 64.0)


@kind
def same_cells(rng: Rng) -> None:
    """Define a text again, whose code the cache has."""
    _launch_cell(float(rng.randrange(FEW)))


@kind
def closures(rng: Rng) -> None:
    """Make a kernel that captures a number and an object, and see that both go."""
    factor, captured = float(rng.randrange(FEW)), np.zeros(3000)

    def make() -> Any:
        @wp.kernel
        def closure(x: wp.array(dtype=float)):
            i = wp.tid()
            x[i] = x[i] * factor + wp.static(float(len(captured)))

        return closure

    x = wp.ones(N, dtype=float)
    wp.launch(make(), dim=N, inputs=[x])
    require(x.numpy(), factor + 3000.0)


@kind
def captured_objects(rng: Rng) -> None:
    """A kernel of a module of its own dies with its last reference, and what it captured with it."""
    held = np.zeros(3000)

    @wp.kernel(module="unique")
    def lonely(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] + wp.static(float(len(held)))

    x = wp.zeros(N, dtype=float)
    wp.launch(lonely, dim=N, inputs=[x])
    require(x.numpy(), 3000.0)
    gone = weakref.ref(lonely)
    del lonely
    ends = time.monotonic() + 20.0
    while gone() is not None:  # a collection that another thread is at makes ours return at once
        assert time.monotonic() < ends, "a dropped kernel is alive"
        gc.collect()


@kind
def differentiated_closures(rng: Rng) -> None:
    """Go backward through a kernel that was made just now."""
    factor = float(1 + rng.randrange(FEW))

    @wp.kernel
    def scaled_square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = factor * x[i] * x[i]

    x, y = wp.array(numbers(rng), requires_grad=True), wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scaled_square, dim=N, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(N, dtype=float)})
    require(x.grad.numpy(), 2.0 * factor * x.numpy(), rtol=1e-4)


_TYPES = (wp.float32, wp.float64, wp.int32, wp.int64, wp.vec3, wp.mat22, wp.quat)


@kind
def generics(rng: Rng) -> None:
    """Make a generic kernel and instances of it."""

    @wp.kernel
    def doubled(a: wp.array(dtype=wp.Any)):
        i = wp.tid()
        a[i] = a[i] + a[i]

    for dtype in rng.sample(_TYPES, 2):
        a = wp.ones(5, dtype=dtype)
        wp.launch(doubled, dim=5, inputs=[a])
        require(a.numpy(), 2.0)


@kind
def redefined_structs(rng: Rng) -> None:
    """Declare a struct again and make arrays of it."""

    @wp.struct
    class Pair:
        first: float
        second: int

    @wp.kernel
    def fill(pairs: wp.array(dtype=Pair)):
        i = wp.tid()
        pairs[i].second = i

    pairs = wp.zeros(5, dtype=Pair)
    wp.launch(fill, dim=5, inputs=[pairs])
    assert pairs.numpy()["second"].tolist() == list(range(5))


@kind
def unloaded_modules(rng: Rng) -> None:
    """Forget what was compiled for a module, and launch from it; all threads share the module."""
    factor, name = float(rng.randrange(FEW)), "tests.soaking.module"

    @wp.kernel(module=name)
    def unloaded(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] * factor

    x = wp.ones(N, dtype=float)
    for _ in range(2):
        wp.launch(unloaded, dim=N, inputs=[x])
        wp.get_module(name).unload()
    require(x.numpy(), factor * factor)


@kind
def compile_errors(rng: Rng) -> None:
    """Refuse a kernel."""

    @wp.kernel
    def wrong(x: wp.array(dtype=float)):
        x[0] = not_defined_anywhere  # noqa: F821

    try:
        wp.launch(wrong, dim=1, inputs=[wp.zeros(1, dtype=float)])
    except wp.WarpCodegenError:
        return
    raise AssertionError("a kernel with an unknown name is compiled")


@kind
def inspections(rng: Rng) -> None:
    """Ask kernels for their code."""
    assert "kernel" in cube.inspect("ir")
    assert "define" in cube.inspect("llvm")
    assert cube.inspect("asm")
