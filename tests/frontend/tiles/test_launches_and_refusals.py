"""Tiles between threads, of structs, of all types of elements; how they are launched; what is refused, and where."""

import linecache
import shutil
from typing import Any

import numpy as np
import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenError


@wp.struct
class Particle:
    place: wp.vec3
    mass: float
    kind: int


@wp.func
def heavier(p: Particle, by: float):
    p.mass *= by
    p.kind += 1
    return p


@wp.kernel
def with_structs(a: wp.array(dtype=Particle), out: wp.array(dtype=Particle), total: wp.array(dtype=Particle)):
    t = wp.tile_load(a, shape=4)
    t[1].mass = 10.0
    t[2].place[0] += 0.5
    t[3] = a[0]
    s = wp.tile_map(heavier, t, 2.0)
    s[0] += t[0]
    wp.tile_store(out, s)
    wp.tile_store(total, wp.tile_sum(t + t))
    wp.tile_atomic_add(total, t, offset=1)


def test_structs():
    values = [Particle(place=wp.vec3(i, 1.0, 2.0), mass=i + 1.0, kind=i) for i in range(4)]
    a = wp.array(values, dtype=Particle)
    out, total = wp.zeros(4, dtype=Particle), wp.zeros(5, dtype=Particle)
    wp.launch_tiled(with_structs, dim=1, inputs=[a, out, total], block_dim=32)
    assert [p.mass for p in out.list()] == [3.0, 20.0, 6.0, 2.0]
    assert [p.kind for p in out.list()] == [1, 2, 3, 1]
    assert [p.place[0] for p in out.list()] == [0.0, 1.0, 2.5, 0.0]
    assert (total.list()[0].mass, total.list()[0].kind) == (2.0 * (1.0 + 10.0 + 3.0 + 1.0), 2 * (0 + 1 + 2 + 0))
    assert [p.mass for p in total.list()[1:]] == [1.0, 10.0, 3.0, 1.0]


@wp.func
def mass_of(p: Particle):
    return p.mass * p.place[1]


@wp.kernel
def masses(a: wp.array(dtype=Particle), out: wp.array(dtype=float)):
    t = wp.tile_load(a, shape=3)
    wp.tile_store(out, wp.tile_map(mass_of, t + t))


def test_gradients_of_fields():
    a = wp.array(
        [Particle(place=wp.vec3(0.0, 2.0, 0.0), mass=3.0) for _ in range(3)], dtype=Particle, requires_grad=True
    )
    out = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(masses, dim=1, inputs=[a, out], block_dim=32)
    tape.backward(grads={out: wp.ones(3, dtype=float)})
    assert [(p.mass, tuple(p.place)) for p in a.grad.list()] == [(8.0, (0.0, 12.0, 0.0))] * 3


@wp.kernel
def between_threads(a: wp.array(dtype=float), m: wp.array(dtype=wp.mat22), out: wp.array(dtype=float)):
    i, lane = wp.tid()
    sums = wp.tile_sum(wp.tile(a[i])) + wp.tile_sum(wp.tile(wp.vec2(a[i], 1.0)))
    back = wp.untile(wp.tile(m[0]))
    counts = wp.tile_zeros(shape=(2, 2), dtype=float)
    wp.tile_scatter_add(counts, 1, 0, 2.0, a[i] > 0.5)
    wp.tile_scatter_add(counts, 1, 0, 3.0, True)
    wp.tile_scatter_masked(counts, 0, 1, 7.0, True)
    stack = wp.tile_stack(capacity=2, dtype=float)
    for k in range(3):
        wp.tile_stack_push(stack, float(k), k != 0)
    last, place = wp.tile_stack_pop(stack)
    first, _ = wp.tile_stack_pop(stack)
    _, empty = wp.tile_stack_pop(stack)
    out[i] = sums[0] + back[1, 0] + counts[1, 0] + counts[0, 1] + 10.0 * last + first + float(place + empty + lane)


def test_blocks_of_one_thread():
    a = np.array([0.25, 0.75], np.float32)
    out = np.zeros(2, np.float32)
    m = wp.array([[[1.0, 2.0], [3.0, 4.0]]], dtype=wp.mat22)
    wp.launch_tiled(between_threads, dim=2, inputs=[a, m, out], block_dim=64)
    wanted = [2.0 * x + 1.0 + 3.0 + (5.0 if x > 0.5 else 3.0) + 7.0 + 20.0 + 1.0 for x in a]
    np.testing.assert_allclose(out, wanted)


@wp.kernel
def sums_of_any(a: wp.array2d(dtype=Any), out: wp.array(dtype=Any)):
    i = wp.tid()
    t = wp.tile_load(a[i], shape=7)
    wp.tile_store(out, wp.tile_sum(t + t), offset=i)


@wp.func
def shifted(t: Any):
    t += wp.tile_ones(shape=2, dtype=float)


@wp.func
def applied(f: wp.Function, t: Any):
    f(t)


@wp.kernel
def through_functions(out: wp.array(dtype=float)):
    t = wp.tile_zeros(shape=4, dtype=float)
    for _ in range(3):
        part = t[1:3]
        applied(shifted, part)
    applied(shifted, t[0:2])
    wp.tile_store(out, t)


def test_functions_change_what_they_are_given_through_others():
    out = wp.zeros(4, dtype=float)
    wp.launch_tiled(through_functions, dim=1, inputs=[out], block_dim=8)
    assert out.list() == [1.0, 4.0, 3.0, 0.0]


@wp.func
def itself(x: float):
    return x


@wp.kernel
def with_effects(a: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    one = wp.tile_ones(shape=4, dtype=float)
    square = wp.tile_transpose(wp.tile_reshape(wp.tile_atomic_add(a, one), shape=(2, 2)))
    square += wp.tile_broadcast(
        wp.tile_squeeze(wp.tile_atomic_add(a, wp.tile_ones(shape=1, dtype=float))), shape=(2, 2)
    )
    row = wp.tile_atomic_add(a, one)[0:2]
    square[0, 0] = itself(wp.tile_atomic_add(a, one)[1])
    wp.tile_matmul(square, square, square, wp.atomic_add(a, 3, 1.0))
    wp.tile_store(out, square + wp.tile_broadcast(row, shape=(2, 2)))


def test_arguments_are_computed_once():
    a, out = wp.zeros(4, dtype=float), wp.zeros((2, 2), dtype=float)
    wp.launch_tiled(with_effects, dim=1, inputs=[a, out], block_dim=8)
    assert a.list() == [4.0, 3.0, 3.0, 4.0]


@wp.struct
class Small:
    count: wp.uint8
    place: wp.vec2s
    is_set: bool
    weight: wp.float16


@wp.kernel
def sums_of_small_numbers(a: wp.array(dtype=Small), out: wp.array(dtype=Small), counts: wp.array(dtype=wp.int16)):
    t = wp.tile_load(a, shape=3)
    t[1] += t[0]
    wp.tile_store(out, wp.tile_sum(t + t))
    c = wp.tile_zeros(shape=2, dtype=wp.int16)
    wp.tile_scatter_add(c, 1, wp.int16(7), True)
    wp.tile_scatter_add(c, 1, wp.int16(7), a[0].is_set)
    wp.tile_store(counts, c)


def test_sums_of_structs_add_the_fields_that_have_atomic_sums():
    """As in Warp, the others stay as they were, also where nothing is atomic. Tiles of small integers are added."""
    small = [Small(count=k + 1, place=wp.vec2s(k, -k), is_set=k > 0, weight=0.5) for k in range(3)]
    a, out = wp.array(small, dtype=Small), wp.zeros(1, dtype=Small)
    counts = wp.zeros(2, dtype=wp.int16)
    wp.launch_tiled(sums_of_small_numbers, dim=1, inputs=[a, out, counts], block_dim=8)
    total = out.list()[0]
    assert (total.count, tuple(total.place), total.is_set, total.weight) == (1, (0, 0), False, 4.0)
    assert counts.list() == [0, 7]


@wp.kernel
def adds_small_atomically(a: wp.array(dtype=Small), t: wp.array(dtype=Small), old: wp.array(dtype=Small)):
    wp.tile_store(old, wp.tile_atomic_add(a, wp.tile_load(t, shape=2)))


def test_atomic_sums_of_structs_leave_other_fields():
    a = wp.array([Small(count=9, place=wp.vec2s(k, 8), is_set=k > 0, weight=k) for k in range(2)], dtype=Small)
    more = wp.array([Small(count=1, place=wp.vec2s(3, 3), is_set=True, weight=0.5)] * 2, dtype=Small)
    old = wp.zeros(2, dtype=Small)
    wp.launch_tiled(adds_small_atomically, dim=1, inputs=[a, more, old], block_dim=8)
    fields = [[(s.count, tuple(s.place), s.is_set, s.weight) for s in array.list()] for array in (a, old)]
    assert fields == [[(9, (k, 8), k > 0, k + more) for k in range(2)] for more in (0.5, 0.0)]


@wp.kernel
def pushes(out: wp.array(dtype=float), n: int):
    s = wp.tile_stack(capacity=2, dtype=float)
    for k in range(n):
        wp.tile_stack_push(s, float(k), k != 1)
    out[0] = float(wp.tile_stack_count(s))


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_what_does_not_fit_on_a_stack_is_not_put_there(mode):
    out = wp.zeros(1, dtype=float)
    wp.launch_tiled(pushes, dim=1, inputs=[out, 5], block_dim=8, options={"mode": mode})
    assert out.list() == [2.0]


DTYPES = (wp.float16, wp.bfloat16, wp.float32, wp.float64, wp.int8, wp.uint16, wp.int32, wp.uint64, wp.vec3, wp.mat22d)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_elements_of_all_types(dtype):
    inner = getattr(dtype, "_shape_", ())
    values = (np.arange(2 * 7 * int(np.prod(inner, dtype=int))) % 9).reshape(2, 7, *inner)
    a, out = wp.array(values, dtype=dtype), wp.zeros(2, dtype=dtype)
    wp.launch_tiled(sums_of_any, dim=2, inputs=[a, out], block_dim=8)
    got = np.array([np.array(x, np.float64) if inner else float(x) for x in out.list()])
    np.testing.assert_array_equal(got.reshape(2, *inner), 2.0 * values.sum(axis=1))


@wp.kernel
def doubled(a: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.tile_store(out, 2.0 * wp.tile_load(a, shape=4, offset=i * 4), offset=i * 4)


@wp.kernel
def cubed(a: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(a, shape=4, offset=i * 4)
    wp.tile_store(out, t * t * t, offset=i * 4)


def test_other_ways_to_launch():
    a = wp.array(np.arange(10.0), dtype=float, requires_grad=True)
    wanted = 2.0 * np.arange(10.0)
    out = wp.zeros(10, dtype=float)
    command = wp.launch_tiled(doubled, dim=3, inputs=[a, out], block_dim=64, record_cmd=True)
    command.launch()
    np.testing.assert_array_equal(out.numpy(), wanted)
    out.zero_()
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch_tiled(doubled, dim=[3], inputs=[a], outputs=[out], block_dim=None)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(out.numpy(), wanted)
    with pytest.raises(ValueError, match="block_dim"):
        wp.launch_tiled(doubled, dim=3, inputs=[a, out], block_dim=2000)


def test_blocks_of_several_threads():
    a, out = wp.ones(8, dtype=float), wp.zeros(8, dtype=float)
    wp.config.enable_cpu_blocks = True
    try:
        for threads in (32, 1):
            out.zero_()
            wp.launch_tiled(doubled, dim=2, inputs=[a, out], block_dim=threads)
            assert out.list() == [2.0] * 8
    finally:
        wp.config.enable_cpu_blocks = False


@wp.func_native("WP_TILE_SYNC();")
def wait_for_the_block(): ...


@wp.kernel
def waits(a: wp.array(dtype=float)):
    t = wp.tile_load(a, shape=4)
    wait_for_the_block()
    wp.tile_store(a, t + t)


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_native_code_waits_for_the_block():
    a = wp.ones(4, dtype=float)
    wp.launch_tiled(waits, dim=1, inputs=[a], block_dim=64)
    assert a.list() == [2.0] * 4


def test_in_pytorch():
    torch = pytest.importorskip("torch")
    a = torch.arange(8.0, requires_grad=True)
    op = wp.torch_op(cubed, dim=2)
    op(a).sum().backward()
    torch.testing.assert_close(op(a).detach(), a.detach() ** 3)
    torch.testing.assert_close(a.grad, 3.0 * a.detach() ** 2)


def test_in_jax():
    jax = pytest.importorskip("jax")
    a = jax.numpy.arange(8.0, dtype=jax.numpy.float32)
    f = wp.jax_kernel(cubed, launch_dims=2, output_dims=8, enable_backward=True)
    value, gradient = jax.jit(jax.value_and_grad(lambda x: f(x)[0].sum()))(a)
    np.testing.assert_allclose(value, np.sum(np.arange(8.0) ** 3))
    np.testing.assert_allclose(gradient, 3.0 * np.arange(8.0) ** 2)


MISTAKES = {
    "t = wp.tile_zeros(shape=n, dtype=float)": "the shape of tile_zeros() is made of positive constants, got int32",
    "t = wp.tile_zeros(shape=(1, 1, 1, 1, 1), dtype=float)": "a tile has 1 to 4 dimensions, got 5",
    "t = wp.tile_zeros(shape=4, dtype=wp.array)": "the dtype of tile_zeros() is a type",
    "t = wp.tile_load(a, shape=(2, 2))": "takes an array of as many dimensions as the tile, got 1 and 2",
    "t = wp.tile_load(a, shape=4, offset=(0, 1))": "the offset of tile_load() has 1 numbers",
    "t = wp.tile_load(a, shape=4, storage='disk')": '`storage` of tile_load() is "register" or "shared"',
    "wp.tile_store(a, wp.tile_zeros(4, int))": "the array has float32, the tile int32",
    "wp.tile_store(a, x)": "`t` of tile_store() is a tile, got a float32",
    "t = wp.tile_zeros(4, float) + wp.tile_zeros(5, float)": "`+` does not take tile[4] of float32 and tile[5]",
    "t = wp.sin(wp.tile_zeros(4, float))": "sin() needs",
    "t = wp.tile_zeros(4, float)\n    y = t[4]": "index 4 is out of range: a tile[4] of float32 has 4 elements",
    "t = wp.tile_zeros(4, float)\n    y = t[0, 0]": "takes 1 index, got 2",
    "t = wp.tile_zeros(4, float)\n    t[1:3] = wp.tile_zeros(3, float)": "`t[1:3]` is a tile[2] of float32, got",
    "t = wp.tile_sum(wp.tile_zeros((2, 3), float), axis=2)": "the axis of tile_sum() is a constant from -2 to 1",
    "t = wp.tile_reshape(wp.tile_zeros(4, float), (3,))": "a tile of 4 elements can't have the shape (3,)",
    "t = wp.tile_broadcast(wp.tile_zeros(4, float), (4, 3))": "a tile of shape (4,) can't be broadcast to (4, 3)",
    "t = wp.tile_matmul(wp.tile_zeros((2, 3), float), wp.tile_zeros((2, 3), float))": "multiplies (M, K) by (K, N)",
    "t = wp.tile_cholesky(wp.tile_zeros((2, 3), float))": "is a square tile of float32 or float64",
    "t = wp.tile_map(x, wp.tile_zeros(4, float))": "tile_map() takes a function",
    "wp.tile_assign(2.0 * wp.tile_zeros(4, float), wp.tile_zeros(4, float))": "takes a variable that holds a tile",
    "t = wp.tile_zeros(4, float)\n    v = t[1:]\n    t = t + t\n    y = v[0]": "was assigned another one",
    "t = wp.tile_zeros(4, float)\n    t = wp.tile_zeros(5, float)": "a variable keeps its type",
    "t = wp.tile_zeros(4, float)\n    m = wp.tile_zeros((2, 4), float)\n    if n > 1:\n        t = m[n]": (
        "can't become a part of the tile in `m` in line 6, in a loop or branch"
    ),
    "t = wp.tile_arange(0, n)": "the arguments of tile_arange() are constants",
    "t = wp.tile_ones(4, Particle)": "tile_ones() makes numbers, vectors and matrices, got a struct Particle",
    "t = wp.tile_zeros(4, bool)\n    wp.tile_scatter_add(t, 1, True, True)": "tile_scatter_add() adds no truth values",
    "t = wp.tile_zeros(4, wp.int8)\n    wp.tile_atomic_add(a, t)": "tile_atomic_add() takes",
    "t = wp.tile_arange(4, 4)": "tile_arange() has no elements",
    "t = wp.tile_arange(0.0, 1.0e300, dtype=float)": "`stop` of tile_arange() is a float32, got 1e+300",
    "t = wp.tile_arange(0.0, 7.0e4, dtype=wp.float16)": "`stop` of tile_arange() is a float16, got 70000.0",
    "t = wp.tile_arange(0.0, 1.0e39, dtype=wp.bfloat16)": "`stop` of tile_arange() is a bfloat16, got 1e+39",
    f"t = wp.tile_arange(0, {10**400}, dtype=wp.float64)": "`stop` of tile_arange() is a float64, got 1000",
    f"t = wp.tile_arange(0, 4, -{10**400})": "`step` of tile_arange() is a float32, got -1000",
    f"t = wp.tile_arange(0, {10**400}, dtype=int)": "`stop` of tile_arange() is an int32, got 1000",
}


UNKNOWN_WORDS = {
    "t = wp.tile_zeros(4, float, storage='disk')": '`storage` of tile_zeros() is "register" or "shared", got',
    "t = wp.tile_matmul(wp.tile_zeros((2, 2), float), wp.tile_zeros((2, 2), float), precision='fp8')": (
        '`precision` of tile_matmul() is "default", "tf32" or "tensor_cores", got'
    ),
}
MISTAKES |= UNKNOWN_WORDS


@pytest.mark.parametrize("statement", MISTAKES)
def test_what_is_refused(statement):
    code = f"@wp.kernel\ndef k(a: wp.array(dtype=float), n: int, x: float):\n    {statement}\n"
    file = f"<{statement}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    namespace: dict[str, Any] = {}
    exec(compile(code, file, "exec"), {"wp": wp, "Particle": Particle}, namespace)
    with pytest.raises(WarpCodegenError) as caught:
        wp.launch_tiled(namespace["k"], dim=1, inputs=[wp.zeros(4, dtype=float), 1, 1.0], block_dim=1)
    assert MISTAKES[statement] in str(caught.value)
    assert caught.value.loc.line == 2 + len(statement.splitlines())
    assert "^" in str(caught.value)
    assert isinstance(caught.value, ValueError) or statement not in UNKNOWN_WORDS


@wp.kernel
def out_of_range(a: wp.array(dtype=float), i: int):
    t = wp.tile_load(a, shape=4)
    a[0] = t[i]


def test_debug_mode_finds_an_index_out_of_range():
    a = wp.zeros(4, dtype=float)
    with pytest.raises(IndexError, match="7"):
        wp.launch(out_of_range, 1, [a, 7], options={"mode": "debug"})


BIG = wp.constant(wp.int64(2**54))
BIG_END = wp.constant(wp.int64(2**54 + 3 * 2**30 - 1))  # nearest float32: 2**54 + 2**31, of its double: 2**54 + 2**32
BIG_STEP = wp.constant(wp.int64(2**31))


@wp.kernel
def ranges_of_floats(out: wp.array2d(dtype=float), doubles: wp.array2d(dtype=wp.float64)):
    wp.tile_store(out[0], wp.tile_arange(0.0, 0.3, 0.1, dtype=float))
    wp.tile_store(out[1], wp.tile_arange(1.0, 1.3, 0.1, dtype=float))
    wp.tile_store(out[2], wp.tile_arange(BIG, BIG_END, BIG_STEP, dtype=float))
    wp.tile_store(out[3], wp.tile_arange(-3.0e38, 3.0e38, 3.0e38, dtype=float))
    wp.tile_store(out[4], wp.tile_arange(0.0, 1.0e-45, 2.0, dtype=float))
    wp.tile_store(doubles[0], wp.tile_arange(0.0, 0.3, 0.1, dtype=wp.float64))
    wp.tile_store(doubles[1], wp.tile_arange(1.0, 1.3, 0.1, dtype=wp.float64))


def test_ranges_have_as_many_floats_as_their_type_counts():
    out, doubles = wp.full((5, 5), -1.0, dtype=float), wp.full((2, 5), -1.0, dtype=wp.float64)
    wp.launch_tiled(ranges_of_floats, dim=1, inputs=[out, doubles], block_dim=8)
    assert (out.numpy() != -1.0).sum(axis=1).tolist() == [3, 3, 1, 2, 1]
    assert (doubles.numpy() != -1.0).sum(axis=1).tolist() == [3, 4]  # as NumPy's
    np.testing.assert_allclose(doubles.numpy()[1, :4], np.arange(1.0, 1.3, 0.1))


@wp.kernel
def assigned_to_doubles(a: wp.array(dtype=float), out: wp.array2d(dtype=wp.float64)):
    t = wp.tile_zeros(shape=(2, 3), dtype=wp.float64)
    wp.tile_assign(t, wp.tile_broadcast(wp.tile_load(a, shape=3), shape=(2, 3)))
    wp.tile_store(out, t)


def test_assigned_floats_get_the_type_of_the_tile():
    a = wp.array([1.1, 2.2, 3.3], dtype=float, requires_grad=True)
    out = wp.zeros((2, 3), dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(assigned_to_doubles, dim=1, inputs=[a, out], block_dim=8)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to(np.float32([1.1, 2.2, 3.3]), (2, 3)))
    tape.backward(grads={out: wp.ones_like(out)})
    assert a.grad.list() == [2.0] * 3
