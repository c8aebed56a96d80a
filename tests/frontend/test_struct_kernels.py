"""Structs in kernels: as arguments, locals, results of functions, through control flow, and in arrays."""

import numpy as np
import pytest

import warp_like as wp
from tests import interpreter
from warp_like.frontend.build import build_kernel
from warp_like.ir.types import Struct
from warp_like.passes.pipeline import prepare

f64 = wp.float64


@wp.struct
class Spring:
    ends: wp.vec2i
    rest: float = 0.5


@wp.struct
class Ball:
    pos: wp.vec3
    vel: wp.vec3
    mass: float = 1.0
    alive: bool
    spring: Spring


@wp.struct
class World:
    gravity: wp.vec3
    dt: float
    steps: int
    heights: wp.array(dtype=float)
    table: wp.array2d(dtype=float)
    balls: wp.array(dtype=Ball)


@wp.struct
class Outer:
    world: World
    factor: float


PRESET = Spring(rest=4.0)


@wp.kernel
def read_all(w: World, first: Ball, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = w.heights[i] + w.table[i, 1] + w.gravity.y * w.dt + first.mass + first.spring.rest + float(w.steps)
    w.table[i, 0] = out[i]
    w.balls[i].spring.ends[1] = i


def test_arguments_with_arrays_and_nested_structs():
    heights, table = wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros((3, 2))
    table.numpy()[:, 1] = 10.0
    w = World(gravity=(0.0, -10.0, 0.0), dt=0.5, steps=3, heights=heights, table=table, balls=wp.zeros(3, dtype=Ball))
    out = wp.zeros(3)
    expected = np.array([1, 2, 3]) + 10 - 5 + 1 + 0.5 + 3
    for _ in range(2):
        wp.launch(read_all, dim=3, inputs=[w, Ball()], outputs=[out])
        np.testing.assert_allclose(out.numpy(), expected)
    np.testing.assert_allclose(table.numpy()[:, 0], expected)
    assert w.balls.numpy()["spring"]["ends"][:, 1].tolist() == [0, 1, 2]
    w.dt = 1.0  # a launch takes what the struct holds then
    wp.launch(read_all, dim=3, inputs=[w, Ball(mass=5.0)], outputs=[out])
    np.testing.assert_allclose(out.numpy(), expected - 5 + 4)


def test_strided_arrays_in_structs():
    heights = wp.array(np.arange(6, dtype=np.float32))[::2]
    table = wp.array(np.arange(6, dtype=np.float32).reshape(2, 3)).transpose()
    w = World(heights=heights, table=table, balls=wp.zeros(3, dtype=Ball))
    out = wp.zeros(3)
    wp.launch(read_all, dim=3, inputs=[w, Ball(mass=0.0)], outputs=[out])
    np.testing.assert_allclose(out.numpy(), [0 + 3 + 0.5, 2 + 4 + 0.5, 4 + 5 + 0.5])


@wp.func
def advanced(b: Ball, w: World):
    b.vel += w.gravity * w.dt
    b.pos = b.pos + b.vel * w.dt
    return b


@wp.func
def bounced(b: Ball, floor: float) -> Ball:
    if b.pos.y < floor:
        b.pos.y = 2.0 * floor - b.pos.y
        b.vel.y *= -0.5
        b.spring.ends[0] += 1
        return b
    return b


@wp.kernel
def simulate(o: Outer, balls: wp.array(dtype=Ball), tried: wp.array(dtype=int)):
    i = wp.tid()
    b = balls[i]
    if not b.alive:
        return
    for _k in range(o.world.steps):
        b = bounced(advanced(b, o.world), o.world.heights[i] * o.factor)
        if b.pos.x > 5.0:
            b.alive = False
            break
        tried[i] += 1
    balls[i] = b


def simulated(ball, heights, world, factor):
    pos, vel, ends, alive, tried = np.array(ball["pos"]), np.array(ball["vel"]), list(ball["ends"]), True, 0
    for _ in range(world["steps"]):
        vel = vel + world["gravity"] * world["dt"]
        pos = pos + vel * world["dt"]
        if pos[1] < heights * factor:
            pos[1] = 2 * heights * factor - pos[1]
            vel[1] *= -0.5
            ends[0] += 1
        if pos[0] > 5.0:
            alive = False
            break
        tried += 1
    return pos, vel, ends, alive, tried


def test_functions_loops_branches_and_early_exits():
    rng = np.random.default_rng(3)
    n = 6
    balls = [
        Ball(pos=rng.normal(size=3), vel=rng.normal(size=3) * 4, alive=i != 2, spring=Spring(ends=(i, 1)))
        for i in range(n)
    ]
    heights = rng.normal(size=n).astype(np.float32) - 1
    gravity = np.array([0.5, -9.0, 0.0])
    w = World(gravity=gravity, dt=0.1, steps=20, heights=wp.array(heights))
    a, tried = wp.array(balls), wp.zeros(n, dtype=int)
    before = list(balls)
    wp.launch(simulate, dim=n, inputs=[Outer(world=w, factor=1.5), a, tried])
    exits = 0
    for i, (b, got) in enumerate(zip(before, a.list(), strict=True)):
        if i == 2:
            assert got == b
            continue
        start = {"pos": b.pos.numpy(), "vel": b.vel.numpy(), "ends": (i, 1)}
        world = {"gravity": gravity, "dt": 0.1, "steps": 20}
        pos, vel, ends, alive, count = simulated(start, float(heights[i]), world, 1.5)
        np.testing.assert_allclose(got.pos.numpy(), pos, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(got.vel.numpy(), vel, rtol=1e-3, atol=1e-4)
        assert list(got.spring.ends) == ends
        assert got.alive is alive
        assert tried.numpy()[i] == count
        exits += not alive
    assert 0 < exits < n - 1


@wp.kernel
def construct(out: wp.array(dtype=Ball), springs: wp.array2d(dtype=Spring)):
    i = wp.tid()
    b = Ball()
    b.spring = Spring(wp.vec2i(i, 2), rest=float(i))
    c = b if i > 0 else Ball(mass=3.0, spring=PRESET)
    c.pos[i % 3] = 1.0
    c.alive = True
    old = c
    old.mass = 100.0
    out[i] = c
    springs[0, i] = Spring()
    springs[1][i] = c.spring
    springs[1, i].rest += 1.0
    springs[1, i].ends.y -= i


def test_construction_defaults_and_values():
    n = 3
    out, springs = wp.zeros(n, dtype=Ball), wp.zeros((2, n), dtype=Spring)
    wp.launch(construct, dim=n, inputs=[out, springs])
    got = out.list()
    assert [b.mass for b in got] == [3.0, 1.0, 1.0]
    assert [b.spring.rest for b in got] == [4.0, 1.0, 2.0]
    assert [list(b.pos) for b in got] == np.eye(3).tolist()
    assert all(b.alive for b in got)
    assert springs.numpy()["rest"].tolist() == [[0.5] * n, [5.0, 2.0, 3.0]]
    assert springs.numpy()["ends"][1].tolist() == [[0, 0], [1, 1], [2, 0]]


def test_a_changed_default_compiles_again():
    def made(default):
        @wp.struct
        class D:
            x: float = default

        @wp.kernel
        def k(out: wp.array(dtype=float)):
            out[0] = D().x

        out = wp.zeros(1)
        wp.launch(k, dim=1, inputs=[out])
        return out.numpy()[0]

    assert [made(1.0), made(2.0)] == [1.0, 2.0]


def test_equal_names_with_other_fields_compile_apart():
    def launched(dtype, value):
        @wp.struct
        class S:
            x: dtype

        @wp.kernel
        def k(a: wp.array(dtype=S)):
            a[0].x *= a[0].x

        a = wp.array([S(x=value)])
        wp.launch(k, dim=1, inputs=[a])
        return a[0].x

    assert launched(float, 1.5) == 2.25
    assert launched(int, 3) == 9
    assert launched(wp.float64, 1.5) == 2.25


@wp.kernel
def swap(a: wp.array(dtype=Spring), b: wp.array(dtype=Spring)):
    i = wp.tid()
    x, y = a[i], b[i]
    x, y = y, x
    a[i] = x
    b[i] = y


def test_structured_numpy_arrays_are_launched_on_directly():
    a = np.zeros(4, dtype=Spring.numpy_dtype())
    b = np.zeros((4, 2), dtype=Spring.numpy_dtype())[:, 1]
    a["rest"], b["rest"] = 1.0, 2.0
    wp.launch(swap, dim=4, inputs=[a, b])
    assert (a["rest"].tolist(), b["rest"].tolist()) == ([2.0] * 4, [1.0] * 4)


def test_no_struct_value_is_left_after_preparing():
    for k in (simulate, construct, read_all):
        f = prepare(build_kernel(k.source, tuple(t for _, t in k.parameters)))
        assert not any(isinstance(v.type, Struct) for o in f.body.walk() for v in o.results)


def test_the_interpreter_agrees_before_and_after_flattening():
    f = build_kernel(construct.source, tuple(t for _, t in construct.parameters))
    compiled = [wp.zeros(3, dtype=Ball), wp.zeros((2, 3), dtype=Spring)]
    wp.launch(construct, dim=3, inputs=compiled)
    for g in (f, prepare(f)):
        out, springs = np.zeros(3, Ball.numpy_dtype()), np.zeros((2, 3), Spring.numpy_dtype())
        interpreter.run(g, [out, springs], (3,))
        assert out.tobytes() == compiled[0].numpy().tobytes()
        assert springs.tobytes() == compiled[1].numpy().tobytes()


def test_recorded_launches_take_other_structs():
    out = wp.zeros(3)
    w = World(heights=wp.zeros(3), table=wp.zeros((3, 2)), balls=wp.zeros(3, dtype=Ball))
    command = wp.launch(read_all, dim=3, inputs=[w, Ball()], outputs=[out], record_cmd=True)
    command.set_param_by_name("first", Ball(mass=10.0))
    command.launch()
    np.testing.assert_allclose(out.numpy(), 10.5)
    command.set_param_at_index(1, Ball(mass=20.0))
    command.set_param_at_index(2, other := wp.zeros(3))
    command.launch()
    np.testing.assert_allclose(other.numpy(), 20.5)


def test_wrong_arguments():
    out = wp.zeros(3)
    w = World(heights=wp.zeros(3), table=wp.zeros((3, 2)), balls=wp.zeros(3, dtype=Ball))
    expected = "^kernel `read_all`, argument 2 `first`: expected struct Ball, got struct Spring$"
    with pytest.raises(TypeError, match=expected):
        wp.launch(read_all, dim=3, inputs=[w, Spring()], outputs=[out])
    with pytest.raises(TypeError, match="argument 1 `w`: expected struct World, got float"):
        wp.launch(read_all, dim=3, inputs=[1.0, Ball()], outputs=[out])
    with pytest.raises(ValueError, match=r"takes 3 arguments \(w, first, out\), got 2"):
        wp.launch(read_all, dim=3, inputs=[w, Ball()])
    with pytest.raises(TypeError, match="expected array1d.struct Spring., got array1d.struct Ball."):
        wp.launch(swap, dim=1, inputs=[wp.zeros(1, dtype=Spring), wp.zeros(1, dtype=Ball)])


@wp.kernel
def chosen(s: Spring, given: wp.array(dtype=Spring), out: wp.array(dtype=Spring)):
    i = wp.tid()
    out[i] = wp.where(i % 2 == 0, s, given[i])


def test_where():
    given = wp.array([Spring(rest=float(i)) for i in range(4)])
    out = wp.zeros(4, dtype=Spring)
    wp.launch(chosen, dim=4, inputs=[Spring(rest=9.0), given, out])
    assert out.numpy()["rest"].tolist() == [9.0, 1.0, 9.0, 3.0]


@wp.func
def found(w: World, i: int):
    for k in range(5):
        if w.heights[k] > 2.0:
            w.heights = w.heights
            w.steps = k
            return w, i + k
    return w, -1


@wp.kernel
def find(w: World, out: wp.array(dtype=int)):
    i = wp.tid()
    v, n = found(w, i)
    out[i] = n + v.steps + v.heights.shape[0] + int(v.heights[4])


def test_structs_with_arrays_leave_functions_early():
    w = World(heights=wp.array([0.0, 1.0, 2.0, 3.0, 7.0], dtype=float), steps=100)
    out = wp.zeros(2, dtype=int)
    wp.launch(find, dim=2, inputs=[w, out])
    assert out.numpy().tolist() == [3 + 3 + 5 + 7, 4 + 3 + 5 + 7]


def test_bounds_are_checked_in_debug_mode():
    wp.config.mode = "debug"
    try:
        with pytest.raises(IndexError, match="kernel `swap`"):
            wp.launch(swap, dim=5, inputs=[wp.zeros(4, dtype=Spring), wp.zeros(5, dtype=Spring)])
    finally:
        wp.config.mode = "release"


def test_other_frameworks_operators_refuse_structs():
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match="argument `w` of kernel `find` is a struct World"):
        wp.torch_op(find, outputs=["out"])


def test_ptx_of_structs():
    assert "st.global" in construct.inspect("ptx", target="sm_80")
    assert "ld.global" in simulate.inspect("ptx", target="sm_80")
