"""Kernels as objects: how long they live, and several of them from one text."""

import gc
import weakref

import warp_like as wp


class Captured:
    def __init__(self, n):
        self.n = n


def made(n):
    captured = Captured(n)

    @wp.kernel
    def add(a: wp.array(dtype=int)):
        i = wp.tid()
        a[i] = a[i] + wp.static(captured.n)

    return add, weakref.ref(captured)


def test_kernels_of_one_text_differ_by_what_they_close_over():
    kernels = [made(n)[0] for n in (1, 20, 300)]
    a = wp.zeros(2, dtype=int)
    for k in (*kernels, kernels[0]):
        wp.launch(k, 2, inputs=[a])
    assert a.list() == [322, 322]


def test_dropped_kernels_leave_nothing_behind():
    a = wp.zeros(2, dtype=int)
    kernels, objects = [], []
    for n in range(10):
        k, captured = made(n)
        wp.launch(k, 2, inputs=[a])
        kernels.append(weakref.ref(k))
        objects.append(captured)
        del k
    gc.collect()
    alive = sum(k() is not None for k in kernels)
    assert alive <= 1  # the module knows the last one of that name
    assert sum(c() is not None for c in objects) == alive
