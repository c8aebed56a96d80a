"""Arrays of structs that hold arrays: in kernels, on the host, on tapes, and who keeps the memory alive."""

import copy
import gc
import pickle

import numpy as np
import pytest

import warp_like as wp
from tests import interpreter
from tests.passes.ad.test_struct_gradients import differences
from warp_like.frontend.build import build_kernel
from warp_like.passes.pipeline import finish, prepare

f64 = wp.float64


@wp.struct
class Chain:
    weight: f64
    points: wp.array(dtype=wp.vec3d)


@wp.struct
class Body:
    mass: f64
    count: int
    chain: Chain
    grid: wp.array2d(dtype=f64)
    tags: wp.array(dtype=int)


@wp.struct
class Group:
    bodies: wp.array(dtype=Body)
    factor: f64


def body(seed, n=4):
    rng = np.random.default_rng(seed)
    points = wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3d)
    grid = wp.array(rng.normal(size=(n, 2)), dtype=f64)
    tags = wp.array(np.arange(n) + 10 * seed, dtype=int)
    return Body(mass=1.0 + seed, count=n, chain=Chain(weight=0.5 * seed + 1.0, points=points), grid=grid, tags=tags)


def bodies(n=3, **kwargs):
    return wp.array([body(i, 4 + i) for i in range(n)], dtype=Body, **kwargs)


@wp.func
def span(c: Chain, i: int):
    return wp.length(c.points[i] - c.points[0]) * c.weight


@wp.kernel
def survey(items: wp.array(dtype=Body), out: wp.array2d(dtype=f64)):
    i = wp.tid()
    b = items[i]
    total = f64(0.0)
    for j in range(b.chain.points.shape[0]):
        total += span(b.chain, j) + b.grid[j, 1]
    out[i, 0] = total
    out[i, 1] = items[i].chain.points[1].y
    row = items[i].grid[2]
    out[i, 2] = row[0] + f64(items[i].tags[-1]) + f64(len(b.tags))
    out[i, 3] = b.mass


def surveyed(items):
    rows = []
    for b in items:
        p, g = b.chain.points.numpy(), b.grid.numpy()
        total = (np.linalg.norm(p - p[0], axis=1) * b.chain.weight).sum() + g[:, 1].sum()
        rows.append([total, p[1, 1], g[2, 0] + b.tags.numpy()[-1] + len(b.tags), b.mass])
    return np.array(rows)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_kernels_read_the_arrays_of_elements(n):
    items = bodies(n) if n else wp.zeros(0, dtype=Body)
    out = wp.zeros((n, 4), dtype=f64)
    wp.launch(survey, dim=n, inputs=[items, out])
    np.testing.assert_allclose(out.numpy(), surveyed(items.list()).reshape(n, 4), rtol=1e-14)


def test_the_interpreter_agrees():
    items = bodies()
    types = tuple(t for _, t in survey.parameters)
    f = build_kernel(survey.source, types)
    for g in (prepare(f), finish(prepare(f))):
        out = np.zeros((3, 4))
        interpreter.run(g, [items.numpy(), out], (3,))
        np.testing.assert_allclose(out, surveyed(items.list()), rtol=1e-14)


def test_strided_and_transposed_arrays_in_elements():
    whole = wp.array(np.arange(48.0).reshape(6, 8), dtype=f64)
    points = wp.array(np.arange(30.0).reshape(10, 3), dtype=wp.vec3d)
    tags = wp.zeros(5, dtype=int)
    even, late = (Chain(weight=1.0, points=p) for p in (points[::2], points[5:]))
    columns, part = whole[:, :5].transpose(), whole[1:, 2:4]
    items = wp.array([Body(chain=even, grid=columns, tags=tags), Body(chain=late, grid=part, tags=tags)])
    out = wp.zeros((2, 4), dtype=f64)
    wp.launch(survey, dim=2, inputs=[items, out])
    np.testing.assert_allclose(out.numpy(), surveyed(items.list()))


@wp.kernel
def write(items: wp.array(dtype=Body)):
    i, j = wp.tid()
    items[i].grid[j, 0] = f64(10 * i + j)
    b = items[i]
    b.chain.points[j].z = f64(-1.0)
    b.tags[0] += 1
    wp.atomic_max(items[i].tags, 1, 100 + j)


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_kernels_write_to_the_arrays_of_elements(mode):
    items = bodies(2)
    before = [b.tags.numpy()[0] for b in items.list()]
    wp.set_module_options({"mode": mode})
    try:
        wp.launch(write, dim=(2, 4), inputs=[items])
    finally:
        wp.set_module_options({"mode": "release"})
    for i, b in enumerate(items.list()):
        np.testing.assert_array_equal(b.grid.numpy()[:4, 0], 10 * i + np.arange(4))
        np.testing.assert_array_equal(b.chain.points.numpy()[:4, 2], -1.0)
        assert b.tags.numpy()[0] == before[i] + 4
        assert b.tags.numpy()[1] == 103


@wp.kernel
def scale_groups(groups: wp.array(dtype=Group)):
    i = wp.tid()
    g = groups[i]
    for j in range(g.bodies.shape[0]):
        for k in range(g.bodies[j].chain.points.shape[0]):
            g.bodies[j].chain.points[k] = g.bodies[j].chain.points[k] * g.factor
        g.bodies[j].mass *= g.factor


def test_arrays_of_structs_in_elements():
    groups = wp.array([Group(bodies=bodies(2), factor=2.0), Group(bodies=bodies(3), factor=3.0)], dtype=Group)
    gc.collect()
    before = [[(b.mass, b.chain.points.numpy().copy()) for b in g.bodies.list()] for g in groups.list()]
    wp.launch(scale_groups, dim=2, inputs=[groups])
    for g, old in zip(groups.list(), before, strict=True):
        for b, (mass, points) in zip(g.bodies.list(), old, strict=True):
            assert b.mass == mass * g.factor
            np.testing.assert_allclose(b.chain.points.numpy(), points * g.factor)


@wp.kernel
def through_control_flow(items: wp.array(dtype=Body), first: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    b = items[0]
    for j in range(items.shape[0]):
        if items[j].tags[0] >= first:
            b = items[j]
            break
    part = b.grid[1:]
    other = b.chain.points if i % 2 == 0 else items[0].chain.points
    out[i] = part[0, 0] + other[i].x + b.mass


def test_elements_chosen_by_control_flow():
    items, out = bodies(3), wp.zeros(4, dtype=f64)
    wp.launch(through_control_flow, dim=4, inputs=[items, 15, out])
    b, a = items[2], items[0]
    points = [(b if i % 2 == 0 else a).chain.points.numpy()[i, 0] for i in range(4)]
    np.testing.assert_allclose(out.numpy(), b.grid.numpy()[1, 0] + np.array(points) + b.mass)


@wp.kernel
def put_back(items: wp.array(dtype=Body), out: wp.array(dtype=f64)):
    i = wp.tid()
    b = items[i]
    b.mass = b.mass + f64(1.0)
    items[i] = b
    items[i].count += 1
    out[i] = items[i].chain.points[0].x


def test_an_element_is_written_back_with_its_arrays():
    items, out = bodies(2), wp.zeros(2, dtype=f64)
    old = items.list()
    wp.launch(put_back, dim=2, inputs=[items, out])
    for b, a, x in zip(items.list(), old, out.numpy(), strict=True):
        assert (b.mass, b.count) == (a.mass + 1.0, a.count + 1)
        assert b.chain.points is a.chain.points
        assert x == a.chain.points.numpy()[0, 0]


@wp.kernel
def put_back_after_loops(items: wp.array(dtype=Body), n: int):
    i = wp.tid()
    b = items[i]
    for j in range(n):
        b.mass += f64(1.0)
        b.tags[0] += 1
        if b.mass > f64(1.0):
            b.count += 1
            b.grid[0, j % 2] = b.mass
    while b.count > 3:
        b.count -= 1
        b.tags[1] += 1
    items[i] = b


def test_an_element_that_loops_and_branches_change_is_written_back():
    items = bodies(3)
    expected = [(b.mass, b.count, b.tags.numpy().copy(), b.grid.numpy().copy()) for b in items.list()]
    wp.launch(put_back_after_loops, dim=3, inputs=[items, 5])
    for b, (mass, count, tags, grid) in zip(items.list(), expected, strict=True):
        for j in range(5):
            mass, tags[0] = mass + 1.0, tags[0] + 1
            if mass > 1.0:
                count, grid[0, j % 2] = count + 1, mass
        while count > 3:
            count, tags[1] = count - 1, tags[1] + 1
        assert (b.mass, b.count) == (mass, count)
        assert np.array_equal(b.tags.numpy(), tags)
        assert np.array_equal(b.grid.numpy(), grid)


@wp.kernel
def read_on_both_sides(items: wp.array(dtype=Body), t: int):
    i = wp.tid()
    if t > 2:
        b = items[i]
        b.mass = f64(1.0)
    else:
        b = items[i]
        b.mass = f64(2.0)
    items[i] = b


@wp.kernel
def read_again_in_loops(items: wp.array(dtype=Body), t: int):
    i = wp.tid()
    b = items[i]
    for k in range(t):
        b = items[i]
        if k > 3:
            b = items[i]
            b.mass += f64(10.0)
        b.mass += f64(2.0)
        items[i] = b
    while b.mass < f64(4.0):
        b = items[i]
        b.mass = f64(7.0)
    items[i] = b


@wp.kernel
def choose_between_equals(items: wp.array(dtype=Body), t: int):
    i = wp.tid()
    row = items[i].grid[0, ::1]
    for k in range(t):
        if k < 3:
            row = items[i].grid[k % 4]
        else:
            row = items[i].grid[k % 4]
    row[1] = f64(-1.0)


@wp.kernel
def read_through_a_row(items: wp.array2d(dtype=Body), t: int):
    i = wp.tid()
    row = items[0]
    b = row[i]
    if t > 2:
        b = items[0, i]
        b.mass = f64(3.0)
    items[0, i] = b


@pytest.mark.parametrize("t", [0, 5])
def test_an_element_that_is_read_again_is_written_back(t):
    items = bodies()
    wp.launch(read_on_both_sides, dim=3, inputs=[items, t])
    assert [b.mass for b in items.list()] == [1.0 if t else 2.0] * 3
    items = bodies()
    wp.launch(read_again_in_loops, dim=3, inputs=[items, t])
    assert [b.mass for b in items.list()] == ([21.0, 22.0, 23.0] if t else [7.0] * 3)
    items = bodies()
    wp.launch(read_through_a_row, dim=3, inputs=[items.reshape((1, 3)), t])
    assert [b.mass for b in items.list()] == ([3.0] * 3 if t else [1.0, 2.0, 3.0])
    assert [b.grid.shape[0] for b in items.list()] == [4, 5, 6]
    wp.launch(choose_between_equals, dim=3, inputs=[items, t])
    for b in items.list():
        assert np.flatnonzero(b.grid.numpy()[:, 1] == -1.0).tolist() == [0]


@wp.kernel
def swap_arrays(items: wp.array(dtype=Body)):
    items[0].chain = items[1].chain


@wp.kernel
def set_array(items: wp.array(dtype=Body), tags: wp.array(dtype=int)):
    items[0].tags = tags


@wp.kernel
def add_structs(items: wp.array(dtype=Body)):
    wp.atomic_add(items[0].chain.points, 0, items[0].mass)


def test_which_arrays_there_are_is_for_the_host_to_say():
    with pytest.raises(wp.WarpCodegenTypeError) as caught:
        wp.launch(swap_arrays, dim=1, inputs=[bodies()])
    message = str(caught.value)
    assert message.startswith("which array `items[...].chain.points` is can't be changed by a kernel\n")
    assert "items[0].chain = items[1].chain" in message
    assert (
        "help: assign the other fields one by one; on the host, a[i] = S(...) sets the arrays of an element" in message
    )
    with pytest.raises(wp.WarpCodegenTypeError, match=r"which array `items\[...\].tags` is can't be changed"):
        wp.launch(set_array, dim=1, inputs=[bodies(), wp.zeros(3, dtype=int)])
    with pytest.raises(wp.WarpCodegenTypeError):
        wp.launch(add_structs, dim=1, inputs=[bodies()])


@wp.kernel(module="unique", module_options={"mode": "debug"})
def out_of_range(items: wp.array(dtype=Body), out: wp.array(dtype=f64)):
    out[0] = items[0].grid[1, wp.tid()]


def test_bounds_are_checked():
    with pytest.raises(
        IndexError, match=r"index \(1, 2\) is out of range for array `items\[...\].grid` of shape \(4, 2\)"
    ):
        wp.launch(out_of_range, dim=3, inputs=[bodies(1), wp.zeros(1, dtype=f64)])


@wp.kernel
def is_there(items: wp.array(dtype=Body), out: wp.array(dtype=int)):
    i = wp.tid()
    if items[i].tags:
        out[i] = items[i].tags.shape[0]
    else:
        out[i] = -1


def test_none_stands_for_an_array():
    items = wp.array([body(0), Body(mass=1.0)], dtype=Body)
    out = wp.zeros(2, dtype=int)
    wp.launch(is_there, dim=2, inputs=[items, out])
    assert out.list() == [4, -1]
    assert items[1] == Body(mass=1.0)
    assert items[1].tags is None


# --- on the host ---


def test_elements_give_the_arrays_that_were_put_in():
    given = [body(0), body(1)]
    items = wp.array(given, dtype=Body)
    assert wp.array(given).dtype is Body
    assert items[1].chain.points is given[1].chain.points
    assert items.list() == given
    items[0] = given[1]
    assert items[0].grid is given[1].grid
    items.fill_(given[0])
    assert all(b.tags is given[0].tags for b in items.list())
    items.assign(given)
    assert items.list() == given
    copied = wp.clone(items)
    other = wp.empty_like(items)
    assert other[0].tags is None
    wp.copy(other, items)
    reordered = wp.zeros(2, dtype=Body)
    reordered[0:2] = [given[1], given[0]]
    picked = items[wp.array([1, 0], dtype=int)].contiguous()
    for a, expected in ((copied, given), (other, given), (copy.deepcopy(items), given), (wp.array(items), given)):
        assert a.list() == expected
    for a in (reordered, picked):
        assert a.list() == given[::-1]
    items.zero_()
    assert items.list() == [Body(), Body()]


def test_numpy_sees_addresses_shapes_and_strides():
    items = bodies(2)
    shown = items.numpy()
    assert shown.dtype == Body.numpy_dtype()
    grid = items[1].grid
    place = shown["grid"][1]
    assert (place["data"], *place["shape"], *place["strides"]) == (grid.ptr, *grid.shape, *grid.strides)
    shown["mass"] = 7.0
    assert [b.mass for b in items.list()] == [7.0, 7.0]
    message = (
        "an array of struct Body is made of instances of it: NumPy shows the arrays in it as addresses, which keep no "
        "memory alive"
    )
    for taking in (lambda: wp.array(shown, dtype=Body), lambda: items.assign(shown)):
        with pytest.raises(TypeError) as caught:
            taking()
        assert str(caught.value) == message
    message = "the addresses in it keep no memory alive; make an array of instances of struct Body"
    with pytest.raises(ValueError, match=message):
        wp.array(shown, dtype=Body, copy=False)
    with pytest.raises(TypeError, match=f"^kernel `write`, argument 1 `items`: expected array1d.*{message}\n  -->"):
        wp.launch(write, dim=(2, 4), inputs=[shown])
    shown["tags"]["data"][0] += 4
    with pytest.raises(ValueError, match="holds an address at which no array is known that was put there"):
        items[0]


def test_memory_lives_as_long_as_the_elements():
    gone = []
    raw = np.full(1000, 3.0)
    held = wp.array(
        ptr=raw.ctypes.data, shape=(500, 2), dtype=f64, deleter=lambda ptr, size: gone.append(size), device="cpu"
    )
    items = wp.array([Body(mass=1.0, grid=held)], dtype=Body)
    view = items[0:1].reshape((1, 1))
    copied = wp.clone(items)
    del held
    gc.collect()
    assert not gone
    del items
    gc.collect()
    assert not gone
    assert copied[0].grid.numpy()[3, 1] == 3.0
    del copied
    gc.collect()
    assert not gone
    del view
    gc.collect()
    assert gone == [8000]


def test_what_was_replaced_does_not_pile_up():
    gone = []
    raw = np.zeros(2)
    items = wp.zeros(1, dtype=Body)
    for _ in range(500):
        a = wp.array(ptr=raw.ctypes.data, shape=1, dtype=int, deleter=lambda *_: gone.append(1), device="cpu")
        items[0] = Body(tags=a)
    kept = [wp.zeros(1, dtype=int) for _ in range(500)]
    for a in kept:
        items[0] = Body(tags=a)
    assert items[0].tags is kept[-1]
    del a
    gc.collect()
    assert gone


def test_refused_on_the_host():
    read_only = np.arange(3, dtype=np.int32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="which is read-only: a kernel might write it"):
        wp.array([Body(tags=read_only)], dtype=Body)
    with pytest.raises(TypeError, match=r"can't be pickled, since its elements hold arrays; pickle a.list\(\)"):
        pickle.dumps(bodies(1))
    with pytest.raises(TypeError, match="can't be viewed as Chain, whose elements hold arrays"):
        wp.zeros(4, dtype=f64).view(Chain)


@wp.struct
class Selection:
    chosen: wp.indexedarray(dtype=f64)
    factor: f64


@wp.kernel
def add_chosen(items: wp.array(dtype=Selection), out: wp.array(dtype=f64)):
    i = wp.tid()
    s = items[i]
    for j in range(s.chosen.shape[0]):
        out[i] += s.chosen[j] * s.factor
    s.chosen[0] = f64(-1.0)


def test_indexed_arrays_in_elements():
    data = [wp.array(np.arange(4.0) + 10 * k, dtype=f64, requires_grad=True) for k in range(2)]
    indices = [wp.array([3, 1], dtype=int), wp.array([0, 2, 2], dtype=int)]
    pairs = zip(data, indices, strict=True)
    items = wp.array([Selection(chosen=wp.indexedarray(d, i), factor=2.0) for d, i in pairs], dtype=Selection)
    out = wp.zeros(3, dtype=f64, requires_grad=True)
    items = wp.array([*items.list(), Selection(factor=1.0)])
    before = [d.numpy()[i.numpy()].sum() for d, i in zip(data, indices, strict=True)]
    wp.launch(add_chosen, dim=2, inputs=[items, out])
    np.testing.assert_array_equal(out.numpy(), [2 * before[0], 2 * before[1], 0.0])
    assert (data[0].list(), data[1].list()) == ([0.0, 1.0, 2.0, -1.0], [-1.0, 11.0, 12.0, 13.0])
    assert items[1].chosen.data is data[1]
    assert items[2].chosen is None


def test_tensors_in_elements_share_their_memory():
    torch = pytest.importorskip("torch")
    t = torch.zeros(4, 2, dtype=torch.float64)
    items = wp.array([Body(grid=t, tags=wp.zeros(4, dtype=int), chain=Chain(points=torch.zeros(4, 3).double()))])
    version = t._version
    wp.launch(write, dim=(1, 4), inputs=[items])
    np.testing.assert_array_equal(t[:, 0].numpy(), np.arange(4))
    assert t._version > version


# --- gradients ---


@wp.kernel
def energy(items: wp.array(dtype=Body), out: wp.array(dtype=f64)):
    i = wp.tid()
    b = items[i]
    total = f64(0.0)
    for j in range(b.count):
        p = b.chain.points[j]
        total = total * b.grid[j, 0] + wp.dot(p, p) * b.chain.weight
    wp.atomic_add(out, 0, total * b.mass)


def with_gradients(n=2):
    items = bodies(n)
    for b in items.list():
        b.grid.requires_grad = b.chain.points.requires_grad = True
    return items


def test_gradients_reach_the_arrays_of_elements():
    items, out = with_gradients(), wp.zeros(1, dtype=f64, requires_grad=True)

    def forward():
        out.zero_()
        wp.launch(energy, dim=2, inputs=[items, out])
        return out.numpy()[0]

    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=2, inputs=[items, out])
    for _ in range(2):  # zero() reaches them, too
        tape.zero()
        tape.backward(out)
        held = [a for b in items.list() for a in (b.grid, b.chain.points)]
        expected = differences(forward, [a.numpy() for a in held])
        for a, g in zip(held, expected, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), g, rtol=1e-6, atol=1e-8)
        shown = items.numpy()
        (mass, weight) = differences(forward, [shown["mass"], shown["chain"]["weight"]])
        np.testing.assert_allclose(items.grad.numpy()["mass"], mass, rtol=1e-6)
        np.testing.assert_allclose(items.grad.numpy()["chain"]["weight"], weight, rtol=1e-6)
    assert items.grad[0].grid is items[0].grid.grad
    tape.zero()
    assert not items[0].grid.grad.numpy().any()


def test_the_gradient_of_fields_where_the_arrays_have_none():
    items, out = bodies(2, requires_grad=True), wp.zeros(1, dtype=f64, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=2, inputs=[items, out])
    tape.backward(out)
    total = out.numpy()[0]
    np.testing.assert_allclose((items.grad.numpy()["mass"] * items.numpy()["mass"]).sum(), total, rtol=1e-12)
    assert items[0].grid.grad is None


@wp.kernel
def stretch(items: wp.array(dtype=Body), s: wp.array(dtype=f64)):
    i, j = wp.tid()
    items[i].chain.points[j] = wp.vec3d(items[i].grid[j, 0], s[j], s[i] * s[j])


def test_gradients_from_the_arrays_of_elements():
    items = with_gradients()
    s = wp.array(np.arange(1.0, 5.0), dtype=f64, requires_grad=True)
    out = wp.zeros(1, dtype=f64, requires_grad=True)

    def forward():
        out.zero_()
        wp.launch(stretch, dim=(2, 4), inputs=[items, s])
        wp.launch(energy, dim=2, inputs=[items, out])
        return out.numpy()[0]

    tape = wp.Tape()
    with tape:
        wp.launch(stretch, dim=(2, 4), inputs=[items, s])
        wp.launch(energy, dim=2, inputs=[items, out])
    tape.backward(out)
    arrays = [s.numpy(), items[0].grid.numpy()]
    for got, expected in zip((s.grad, items[0].grid.grad), differences(forward, arrays), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6, atol=1e-7)


@wp.kernel
def double_in_place(items: wp.array(dtype=Body)):
    i, j = wp.tid()
    items[i].grid[j, 0] = items[i].grid[j, 0] * items[i].grid[j, 0]


def test_refused_where_the_gradient_needs_what_was_overwritten():
    items, out = with_gradients(), wp.zeros(1, dtype=f64, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(double_in_place, dim=(2, 4), inputs=[items])
        wp.launch(energy, dim=2, inputs=[items, out])
    message = r"the gradient needs this element of `items\[...\].grid`, which the same kernel writes to"
    with pytest.raises(wp.WarpCodegenError, match=message):
        tape.backward(out)

    items = with_gradients()
    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=2, inputs=[items, out])
        items[1].grid.zero_()
    message = (
        "kernel `energy`: the gradient needs the arrays `items[...].grid`, one of which a recorded operation has "
        "overwritten since, and of arrays in elements the tape keeps no copies; write to another array"
    )
    with pytest.raises(RuntimeError) as caught:
        tape.backward(out)
    assert str(caught.value) == message

    items = with_gradients()
    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=2, inputs=[items, out])
        items[1] = items[0]
    with pytest.raises(RuntimeError, match="elements of `items`, which hold arrays, have been assigned since"):
        tape.backward(out)


def test_refused_where_arrays_in_elements_share_memory():
    items, out = with_gradients(), wp.zeros(1, dtype=f64, requires_grad=True)
    s = wp.array(np.arange(1.0, 5.0), dtype=f64, requires_grad=True)
    b = items[0]
    b.chain.points = wp.array(ptr=s.ptr, shape=1, dtype=wp.vec3d, device="cpu")
    items[0] = b
    tape = wp.Tape()
    with tape:
        wp.launch(stretch, dim=(2, 1), inputs=[items, s])
        wp.launch(energy, dim=2, inputs=[items, out])
    with pytest.raises(RuntimeError, match="needs `s`, whose memory the kernel writes to as an array in an element"):
        tape.backward(out)
