"""How long arrays in elements of arrays of structs live: ``runtime/arrays/nested.py`` has the rule."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import warp_like as wp
from tests.long_tail import crossed
from warp_like.runtime.arrays import nested


@wp.struct
class Body:
    mass: float
    tags: wp.array(dtype=int)


@wp.struct
class Group:
    bodies: wp.array(dtype=Body)


def counted(gone, n=2):
    """An array of ints whose memory tells ``gone`` when it is released."""
    raw = np.zeros(n, np.int32)
    return wp.array(
        ptr=raw.ctypes.data, shape=n, dtype=int, deleter=lambda *_, raw=raw: gone.append(raw.size), device="cpu"
    )


def replace_by_setting(items, new):
    items[0] = new


def replace_by_slice(items, new):
    items[:] = [new]


def replace_by_filling(items, new):
    items.fill_(new)


def replace_by_assigning(items, new):
    items.assign([new])


def replace_by_copying(items, new):
    wp.copy(items, wp.array([new], dtype=Body))


def replace_through_a_view(items, new):
    items.reshape((1, 1))[0].assign([new])


def replace_through_indices(items, new):
    items[wp.array([0], dtype=int)] = wp.array([new], dtype=Body)


def replace_in_a_graph(items, new):
    with wp.ScopedCapture(device="cpu") as capture:
        items.assign([new])
    wp.capture_launch(capture.graph)


def replace_by_zeros(items, new):
    items.zero_()


REPLACING = [f for name, f in globals().copy().items() if name.startswith("replace_")]


@pytest.mark.parametrize("replace", REPLACING, ids=lambda f: f.__name__)
def test_a_replaced_array_is_released_at_once(replace):
    old, new = [], []
    items = wp.array([Body(tags=counted(old))], dtype=Body)
    gc.collect()
    assert not old
    replace(items, Body(tags=counted(new)))
    gc.collect()
    assert old
    assert bool(new) == (replace is replace_by_zeros)
    if not new:
        assert items[0].tags.list() == [0, 0]
    del items
    gc.collect()
    assert new


def test_an_array_lives_while_one_of_several_elements_holds_it():
    gone = []
    tags = counted(gone)
    items = wp.array([Body(tags=tags), Body(tags=tags)], dtype=Body)
    del tags
    items[0] = Body()
    gc.collect()
    assert not gone
    items[1] = Body()
    gc.collect()
    assert gone


def test_two_owners_of_one_place_are_both_kept():
    gone = []
    tags = counted(gone)
    alias = wp.array(ptr=tags.ptr, shape=2, dtype=int, device="cpu")
    items = wp.array([Body(tags=tags), Body(tags=alias)], dtype=Body)
    del tags
    gc.collect()
    assert not gone
    items.zero_()
    gc.collect()
    assert gone


def test_elements_below_an_address_keep_their_arrays():
    gone = []
    size = wp.zeros(1, dtype=Body).itemsize
    memory = wp.zeros(3 * size, dtype=wp.uint8)
    items = wp.array(ptr=memory.ptr + 2 * size, shape=3, strides=(-size,), dtype=Body, device="cpu")
    items[2] = Body(tags=counted(gone))
    items[0] = Body(tags=wp.zeros(1, dtype=int))
    items[1] = Body()
    gc.collect()
    assert not gone
    assert items[2].tags.list() == [0, 0]


def test_a_captured_write_keeps_what_it_writes():
    gone = []
    items = wp.array([Body()], dtype=Body)
    with wp.ScopedCapture(device="cpu") as capture:
        items[0] = Body(tags=counted(gone))
    for _ in range(200):
        items[0] = Body(tags=wp.zeros(1, dtype=int))
    gc.collect()
    assert not gone
    wp.capture_launch(capture.graph)
    assert items[0].tags.list() == [0, 0]
    items.zero_()
    gc.collect()
    assert not gone
    del capture
    gc.collect()
    assert gone


def test_a_captured_copy_takes_what_the_source_then_holds():
    gone = []
    items, source = wp.array([Body()], dtype=Body), wp.array([Body()], dtype=Body)
    with wp.ScopedCapture(device="cpu") as capture:
        wp.copy(items, source)
    source[0] = Body(tags=counted(gone))
    wp.capture_launch(capture.graph)
    del source
    del capture
    gc.collect()
    assert not gone
    assert items[0].tags.list() == [0, 0]


def test_many_elements_give_up_no_more_than_they_weigh():
    gone = []
    items = wp.zeros(1000, dtype=Body)
    for i in range(3000):
        items[i % 1000] = Body(tags=counted(gone))
    gc.collect()
    assert len(gone) > 1000
    for i in range(1000):
        assert items[i].tags.list() == [0, 0]
    large = []
    for _ in range(3):  # each of which weighs more than all elements
        items[0] = Body(tags=counted(large, 10**6))
    gc.collect()
    assert len(large) == 2


def test_another_thread_gives_up_the_same_arrays_meanwhile(monkeypatch):
    gone = []
    items = wp.array([Body(tags=counted(gone))], dtype=Body)
    look = nested._words

    def look_twice(*args):
        monkeypatch.setattr(nested, "_words", look)
        nested._give_up(items, nested._of(items))
        return look(*args)

    monkeypatch.setattr(nested, "_words", look_twice)
    items[0] = Body()
    gc.collect()
    assert gone
    assert items[0].tags is None


@wp.kernel
def spin(items: wp.array(dtype=Body), n: int, begun: wp.array(dtype=int)):
    i = wp.tid()
    begun[0] = n
    tags = items[i].tags
    t = float(i)
    for _ in range(n):
        t = wp.sin(t) + 1.0
    tags[0] += int(t) + 1


@wp.kernel
def spin_in_groups(groups: wp.array(dtype=Group), n: int, begun: wp.array(dtype=int)):
    i = wp.tid()
    begun[0] = n
    tags = groups[0].bodies[i].tags
    t = float(i)
    for _ in range(n):
        t = wp.sin(t) + 1.0
    tags[0] += int(t) + 1


@pytest.mark.parametrize(("recorded", "nested_twice"), crossed([False, True], [False, True], every=2))
def test_a_launch_keeps_what_another_thread_replaces(nested_twice, recorded):
    gone = []
    items = wp.array([Body(tags=counted(gone)) for _ in range(8)], dtype=Body)
    groups = wp.array([Group(bodies=items)], dtype=Group)
    kernel, argument = (spin_in_groups, groups) if nested_twice else (spin, items)
    n, begun = 4_000_000, np.zeros(1, np.int32)
    command = wp.launch(kernel, 8, [argument, 1, begun], record_cmd=True)
    command.launch()
    command.set_param_by_name("n", n)
    ended = threading.Event()

    def run():
        command.launch() if recorded else wp.launch(kernel, 8, [argument, n, begun])
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    while begun[0] != n and not ended.is_set():
        time.sleep(0.001)
    fresh = [Body(tags=wp.zeros(2, dtype=int)) for _ in range(8)]
    if nested_twice:
        groups[0] = Group(bodies=wp.array(fresh, dtype=Body))
        del items, argument
    else:
        items.assign(fresh)
    gc.collect()
    # If the launch has already ended on a quick machine, nothing has to be kept.
    assert not gone or ended.is_set()
    thread.join()
    gc.collect()
    assert len(gone) == 8


PROGRAM = """
import threading
import numpy as np
import warp_like as wp

@wp.struct
class S:
    a: wp.array(dtype=float)

@wp.kernel
def write(items: wp.array(dtype=S), n: int):
    a = items[wp.tid()].a
    for j in range(n):
        a[j % 50000] = float(j)

def made():
    return S(a=wp.zeros(50000, dtype=float))

items = wp.array([made() for _ in range(8)], dtype=S)
wp.launch(write, 8, [items, 1])
done = threading.Event()

def replace(k):
    while not done.wait(0.0003):  # without a pause, Python hardly ever gives the lock to the thread that launches
        if k == 0: items.assign([made() for _ in range(8)])
        elif k == 1: items[3] = made()
        else: wp.copy(items, wp.array([made() for _ in range(8)], dtype=S))

threads = [threading.Thread(target=replace, args=(k,)) for k in range(3)]
for t in threads: t.start()
for _ in range(60):
    wp.launch(write, 8, [items, 300000])
done.set()
for t in threads: t.join()
assert all(x.a.numpy().shape == (50000,) for x in items.list())
"""


def test_threads_replace_arrays_while_others_launch(tmp_path):
    """The memory of arrays that are released too early goes back to the system at once, so a launch would crash."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
