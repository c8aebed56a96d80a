"""Launches of graphs that run together, piece by piece: which do, and that all bits are as if they had not."""

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import tail
from tests.runtime.launching import random_graphs

N = 20_011  # several pieces, and a rest
vec3 = wp.vec3


@wp.struct
class Body:
    mass: float
    speed: vec3


@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.001 * x[i] + 0.5


@wp.kernel
def swing(x: wp.array(dtype=float), a: float):
    i = wp.tid()
    x[i] = wp.sin(a * x[i]) + wp.exp(-x[i] * x[i])


@wp.kernel
def right(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i + 1 < x.shape[0]:
        y[i] = x[i + 1]


@wp.kernel
def mirrored(x: wp.array(dtype=float)):
    i = wp.tid()
    x[x.shape[0] - 1 - i] = x[x.shape[0] - 1 - i] + float(i)


@wp.kernel
def pick(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] + x[at[i]]


@wp.kernel
def put(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[at[i]] = x[i]


@wp.kernel
def bump(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, i, 0.25 * x[i])


@wp.kernel
def total(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i])


@wp.kernel
def noise(x: wp.array(dtype=float), seed: int):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    buffer = wp.zeros(4, dtype=float)
    for k in range(4):
        buffer[k] = wp.randf(state)
    x[i] = x[i] + buffer[i % 4]


@wp.kernel
def shout(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0
    if i < 0:
        print(i)


@wp.kernel
def insist(x: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] < 1.0e9
    x[i] = x[i] + 1.0


@wp.kernel
def plane(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = y[i, j] + 2.0 * x[i, j]


@wp.kernel
def turned(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[j, i]


@wp.kernel(vector_width=8)
def rows(x: wp.array2d(dtype=float)):
    i = wp.tid()
    for k in range(1, 3):
        x[i, k] = x[i, k] + x[i, k - 1]


@wp.kernel
def first(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0


@wp.kernel
def accelerate(b: wp.array(dtype=Body), v: wp.array(dtype=vec3)):
    i = wp.tid()
    b[i].speed = b[i].speed + b[i].mass * v[i]
    v[i] = 0.5 * b[i].speed


@wp.kernel
def look(mesh: wp.uint64, x: wp.array(dtype=float)):
    i = wp.tid()
    m = wp.mesh_get(mesh)
    x[i] = x[i] + m.points[0][0]


@wp.kernel
def shift(points: wp.array(dtype=vec3)):
    i = wp.tid()
    points[i] = points[i] + vec3(1.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def _fusing() -> Iterator[None]:
    yield
    wp.config.fuse_launches = True
    wp.config.mode = "release"


def numbers(n: int = N, seed: int = 0) -> wp.array:
    return wp.array(np.random.default_rng(seed).random(n), dtype=float)


def runs(work: Callable[..., None], make: Callable[[], tuple[Any, ...]]) -> list[tuple[int, int]]:
    """Replay ``work`` both ways on arrays that ``make`` makes anew; compare all bits; return what ran together."""
    found = []
    for fuses in (False, True):
        wp.config.fuse_launches = fuses
        arrays = make()
        with wp.ScopedCapture() as capture:
            work(*arrays)
        for _ in range(2):
            wp.capture_launch(capture.graph)
        found.append([a.numpy().tobytes() for a in arrays if isinstance(a, wp.array)])
    assert found[0] == found[1]
    return capture.graph._replay.fused()


def launch(kernel: Any, *args: Any, dim: Any = N) -> None:
    wp.launch(kernel, dim=dim, inputs=list(args))


def indices() -> wp.array:
    return wp.array(np.random.default_rng(1).permutation(N), dtype=int)


def three() -> tuple[wp.array, ...]:
    return numbers(seed=1), numbers(seed=2), numbers(seed=3)


def test_chains() -> None:
    def work(x: wp.array, y: wp.array, z: wp.array) -> None:
        launch(scale, x, y)
        launch(swing, y, 0.7)
        z.fill_(2.0)
        launch(scale, y, z)
        launch(bump, z, x)
        launch(noise, x, 5)
        wp.copy(y, z)
        launch(swing, x, 1.5)
        z.zero_()

    assert runs(work, three) == [(0, 9)]


def test_what_others_touch() -> None:
    def neighbours(x: wp.array, y: wp.array, z: wp.array) -> None:
        launch(swing, x, 2.0)
        launch(right, x, y)  # reads what another thread wrote
        launch(swing, x, 2.0)  # and writes what another thread reads
        launch(right, y, z)
        launch(swing, z, 0.5)
        launch(mirrored, z)

    assert runs(neighbours, three) == [(2, 5)]

    def elsewhere(x: wp.array, at: wp.array, y: wp.array, z: wp.array) -> None:
        launch(swing, y, 2.0)
        launch(pick, x, at, y)  # nobody writes `x`
        launch(put, y, at, z)  # nobody else touches `z`
        launch(swing, y, 0.5)
        launch(swing, z, 0.5)

    assert runs(elsewhere, lambda: (numbers(), indices(), numbers(seed=2), numbers(seed=3))) == [(0, 4)]

    def scattered(at: wp.array, x: wp.array, y: wp.array) -> None:
        launch(put, x, at, y)
        launch(pick, y, at, x)
        launch(put, x, at, at)

    with pytest.raises(TypeError):
        runs(scattered, lambda: (indices(), numbers(), numbers(seed=2)))
    assert (
        runs(lambda at, x, y: (launch(put, x, at, y), launch(pick, y, at, x)), lambda: (indices(), *three()[:2])) == []
    )


def test_views() -> None:
    def ahead(x: wp.array) -> None:
        launch(swing, x[:-1], 2.0, dim=N - 1)
        launch(swing, x[1:], 2.0, dim=N - 1)

    def alike(x: wp.array) -> None:
        launch(swing, x[::2], 2.0, dim=N // 2)
        launch(swing, x[::2], 0.5, dim=N // 2)
        launch(swing, x[1::2], 0.5, dim=N // 2)  # the extents overlap

    assert runs(ahead, lambda: (numbers(),)) == []
    assert runs(alike, lambda: (numbers(),)) == [(0, 2)]

    def back_and_forth(x: wp.array, y: wp.array) -> None:
        launch(scale, y, x)
        launch(right, x, y)

    one = np.ones(2, np.float32)
    repeated = wp.array(ptr=one.ctypes.data, shape=(N,), strides=(0,), dtype=float)  # all threads have its element
    inputs = numbers(), numbers()
    with wp.ScopedCapture() as capture, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in inputs:
            launch(bump, x, repeated)
    assert capture.graph._replay.fused() == []
    assert runs(back_and_forth, lambda: three()[:2]) == []


def test_grids() -> None:
    def different(x: wp.array) -> None:
        launch(swing, x, 2.0)
        launch(swing, x, 2.0, dim=N - 1)
        launch(swing, x, 2.0, dim=(N - 1, 1))

    assert runs(different, lambda: (numbers(),)) == [(1, 3)]

    def shared(x: wp.array) -> None:  # two threads for each element
        launch(first, x, dim=(N, 2))
        launch(first, x, dim=(N, 2))

    with wp.ScopedCapture() as capture:
        shared(numbers())
    assert capture.graph._replay.fused() == []

    def planes(x: wp.array, y: wp.array) -> None:
        launch(plane, x, y, dim=(150, 150))
        y.fill_(0.5)
        launch(plane, y, x, dim=(150, 150))
        launch(turned, x, y, dim=(150, 150))
        launch(rows, y, dim=150)

    def squares() -> tuple[wp.array, ...]:
        return numbers(22_500).reshape((150, 150)), numbers(22_500, 1).reshape((150, 150))

    assert runs(planes, squares) == [(0, 3)]
    table = lambda: (numbers(3 * N).reshape((N, 3)),)  # noqa: E731
    assert runs(lambda x: (launch(rows, x), launch(rows, x)), table) == [(0, 2)]


def test_what_can_be_seen_from_outside() -> None:
    def sums(x: wp.array, out: wp.array) -> None:
        launch(swing, x, 2.0)
        launch(total, x, out)
        launch(swing, x, 2.0)

    with wp.ScopedCapture() as capture:
        sums(numbers(), wp.zeros(1))
    assert capture.graph._replay.fused() == []
    for kernel, together in ((first, [(0, 2)]), (shout, []), (insist, [(0, 2)])):
        assert runs(lambda x, k=kernel: (launch(k, x), launch(k, x)), lambda: (numbers(),)) == together
    wp.config.mode = "debug"
    for kernel in (first, insist):
        assert runs(lambda x, k=kernel: (launch(k, x), launch(k, x)), lambda: (numbers(),)) == []


def test_objects() -> None:
    """A query reads what no argument names."""
    points = wp.array(np.eye(3, dtype=np.float32), dtype=vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    with wp.ScopedCapture() as capture:
        launch(look, mesh.id, numbers())
        launch(look, mesh.id, numbers())
        launch(shift, points, dim=3)
    assert capture.graph._replay.fused() == []


def test_structs_and_their_order() -> None:
    def make() -> tuple[wp.array, ...]:
        given = np.zeros(N, Body.numpy_dtype())
        given["mass"] = np.random.default_rng(0).random(N)
        return wp.array(given, dtype=Body), wp.array(np.random.default_rng(1).random((N, 3)), dtype=vec3)

    def work(b: wp.array, v: wp.array) -> None:
        for _ in range(3):
            launch(accelerate, b, v)
        v.fill_(vec3(1.0, 2.0, 3.0))
        launch(accelerate, b, v)

    assert runs(work, make) == [(0, 5)]


def test_a_tape() -> None:
    def eager(fuses: bool | None) -> list[bytes]:
        xs = [numbers(seed=k) for k in range(4)]
        for x in xs:
            x.requires_grad = True
        seed = numbers(seed=9)

        def step() -> None:
            with wp.Tape() as tape:
                for x, y in itertools.pairwise(xs):
                    launch(scale, x, y)
            tape.zero()
            tape.backward(grads={xs[-1]: seed})

        if fuses is None:
            step()
        else:
            wp.config.fuse_launches = fuses
            with wp.ScopedCapture() as capture:
                step()
            groups = capture.graph._replay.fused()
            assert groups == [(0, len(capture.graph))]
            wp.capture_launch(capture.graph)
            wp.capture_launch(capture.graph)
        return [a.numpy().tobytes() for x in xs for a in (x, x.grad)]

    assert eager(None) == eager(False) == eager(True)


def test_tensors_are_told_of_writes() -> None:
    torch = pytest.importorskip("torch")
    t, u = torch.ones(N), torch.zeros(N)
    with wp.ScopedCapture() as capture:
        launch(scale, t, u)
        launch(scale, u, t)
    assert capture.graph._replay.fused() == [(0, 2)]
    version = t._version
    wp.capture_launch(capture.graph)
    assert t._version == version + 1
    wanted = np.float32(1.001) * 1.0 + np.float32(0.5)
    np.testing.assert_allclose(u.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(t.numpy(), 1.001 * wanted + 0.5, rtol=1e-6)


@pytest.mark.parametrize("first", [0, *map(tail, range(20, 200, 20))])
def test_random_graphs(first: int) -> None:
    together = [random_graphs.check(seed) for seed in range(first, first + 20)]
    assert sum(map(bool, together)) > 3
