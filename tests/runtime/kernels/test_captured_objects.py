"""Attributes of Python objects that kernels name, ``self.lattice.q``: constants, of which launches see each change."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import everywhere


class Lattice:
    def __init__(self, q: int) -> None:
        self.q = q
        self.weights = wp.vec3(0.5, 0.25, 0.125)
        self.numbers = [3.0, 4.0]
        self.half = np.float32(0.5)
        self.on = True
        self.name = "D2Q9"


class Size(NamedTuple):
    width: int
    scale: float


class Precision(enum.Enum):
    HALF = 2
    SINGLE = 4

    @property
    def dtype(self) -> Any:
        return wp.float16 if self is Precision.HALF else wp.float32


@wp.struct
class Gas:
    constant: float


@wp.func
def squared(x: float):
    return x * x


class Method:
    """Declares its kernels in a method, as solvers do."""

    def __init__(self, q: int) -> None:
        self.lattice = Lattice(q)
        self.precision = Precision.SINGLE
        self.size = Size(3, 0.75)
        self.operation = squared
        self.gas_type = Gas
        self.gas = Gas(constant=8.25)

    @property
    def compute_dtype(self) -> Any:
        return self.precision.dtype

    def count(self) -> wp.Kernel:
        @wp.func
        def ones(x: Any):
            total = type(x)(0.0)
            for _ in range(self.lattice.q):
                total += self.compute_dtype(1.0)
            return total

        @wp.kernel(module="unique")
        def k(out: wp.array(dtype=float)):
            out[0] = ones(self.compute_dtype(2.0))

        return k


def test_whatever_an_object_holds():
    self = Method(2)

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = float(self.lattice.q)
        out[1] = self.lattice.weights.y + self.lattice.weights[2]
        out[2] = self.lattice.numbers[1] * self.lattice.half
        if self.lattice.on:
            out[3] = self.operation(3.0)
        out[4] = self.gas.constant + self.gas_type(0.5).constant
        out[5] = self.size.scale * float(self.size[0])
        for i in range(self.lattice.q + 1, self.size.width + 2):
            out[6] += float(i)
        out[7] = wp.vector(1.5, length=self.lattice.q, dtype=self.compute_dtype)[1]
        for x in self.lattice.numbers:
            out[8] += x

    (out,) = everywhere(k, 1, np.zeros(9, np.float32))
    assert out.tolist() == [2.0, 0.375, 2.0, 9.0, 8.75, 2.25, 7.0, 1.5, 7.0]


def test_gradients_have_them():
    self = Method(3)

    @wp.kernel
    def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = self.lattice.weights.x * x[i] * x[i] * self.size.scale

    x, y = (wp.array([2.0, 3.0], dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(k, dim=2, inputs=[x], outputs=[y])
    self.size = Size(3, 100.0)  # the gradient is that of the launch
    y.grad.fill_(1.0)
    tape.backward()
    assert x.grad.numpy().tolist() == [1.5, 2.25]


def launched(kernel: wp.Kernel) -> float:
    out = np.zeros(1, np.float32)
    wp.launch(kernel, dim=1, inputs=[out])
    return float(out[0])


def test_kernels_of_one_text_differ_by_their_objects():
    kernels = [Method(q).count() for q in (2, 5, 2)]
    assert [launched(k) for k in kernels] == [2.0, 5.0, 2.0]
    assert [launched(k) for k in kernels[::-1]] == [2.0, 5.0, 2.0]


def test_a_launch_sees_each_change():
    self = Method(2)
    kernel = self.count()
    command = wp.launch(kernel, dim=1, inputs=[np.zeros(1, np.float32)], record_cmd=True)
    out = np.zeros(1, np.float32)
    command.set_param_at_index(0, out)
    assert launched(kernel) == 2.0
    self.lattice.q = 4
    assert launched(kernel) == 4.0
    self.lattice = Lattice(7)  # the object on the way
    assert launched(kernel) == 7.0
    command.launch()
    assert out[0] == 7.0


def test_changes_in_place_and_of_properties():
    holder = SimpleNamespace(v=wp.vec2(1.0, 2.0), numbers=[1.0], scale=2.0, size=Size(1, 1.0))

    class Twice:
        @property
        def scale(self) -> float:
            return 2.0 * holder.scale

    twice = Twice()

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = holder.v.y * holder.numbers[0] * twice.scale + holder.size.scale

    assert launched(k) == 9.0
    holder.v[1] = 3.0
    assert launched(k) == 13.0
    holder.numbers[0] = 2.0
    assert launched(k) == 25.0
    holder.scale = 0.5
    assert launched(k) == 7.0
    holder.size = holder.size._replace(scale=0.0)
    assert launched(k) == 6.0


def test_static_keeps_the_value_of_the_first_launch():
    self = Method(2)

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = wp.static(float(self.lattice.q)) + float(self.size.width)

    assert launched(k) == 5.0
    self.lattice.q, self.size = 9, Size(4, 0.0)
    assert launched(k) == 6.0


def test_arguments_come_before_objects_of_their_name():
    self, gas = Method(2), Gas(constant=3.0)

    @wp.kernel
    def k(out: wp.array(dtype=float), self: Gas, other: Gas):
        gas = other
        gas.constant = 5.0
        out[0] = self.constant + 10.0 * gas.constant

    assert self.lattice.q == 2
    out = np.zeros(1, np.float32)
    wp.launch(k, dim=1, inputs=[out, gas, Gas(constant=1.0)])
    assert out[0] == 53.0


class A:
    weight = 1.0


KINDS = (Precision.HALF, Precision.SINGLE)


def test_what_a_loop_holds_is_not_read_or_seen_to_change(monkeypatch):
    @wp.kernel
    def members(out: wp.array(dtype=float)):
        for kind in KINDS:
            out[0] += float(kind.value)

    @wp.kernel
    def classes(out: wp.array(dtype=float)):
        for c in (A, A):
            out[0] += c.weight

    assert launched(members) == 6.0
    monkeypatch.setitem(globals(), "KINDS", (Precision.SINGLE, Precision.SINGLE))
    assert launched(members) == 8.0
    with pytest.raises(wp.WarpCodegenError, match=r"`c.weight` is an attribute of a class that a variable holds"):
        launched(classes)


@pytest.mark.parametrize("held", [np.zeros(3), wp.zeros(3), {"size": 1}, None, 3])
def test_objects_without_attributes(held):
    holder = SimpleNamespace(held=held)

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = float(holder.held.size)

    with pytest.raises(wp.WarpCodegenError, match=r"held(\.size)?`? (is|has)|no attribute"):
        launched(k)


def kinds() -> Any:
    """A new enum whose members have attributes beside their values."""

    class Kind(enum.Enum):
        SMALL = 1
        LARGE = 2

        def __init__(self, weight: int) -> None:
            self.weight = weight  # the very object that is the value

    return Kind


class Numbers(enum.Enum):
    LIST = [1.0, 2.0]  # noqa: RUF012
    VECTOR = wp.vec2(1.0, 2.0)


def test_enums_of_which_something_changes():
    kind, state = kinds(), SimpleNamespace(value=1)
    kind.now = kind.SMALL

    class Followed(enum.Enum):
        STATE = 1

        @property
        def value(self) -> int:
            return state.value

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = float(kind.SMALL.weight) + 10.0 * float(kind.now.value) + 100.0 * float(Followed.STATE.value)
        out[0] += 1000.0 * Numbers.LIST.value[0] + 10000.0 * Numbers.VECTOR.value[0]

    assert launched(k) == 11111.0
    kind.SMALL.weight = 3
    assert launched(k) == 11113.0
    kind.now = kind.LARGE
    assert launched(k) == 11123.0
    state.value = 4
    assert launched(k) == 11423.0
    for member, step in ((Numbers.LIST, 1000.0), (Numbers.VECTOR, 10000.0)):
        member.value[0] = 3.0
        assert launched(k) == 11423.0 + 2.0 * step
        member.value[0] = 1.0


library = wp


def test_a_library_that_is_exchanged(monkeypatch):
    """The package by another name than ``wp`` may become something else."""
    own, here = SimpleNamespace(sqrt=squared), SimpleNamespace(library=wp)

    @wp.kernel
    def k(out: wp.array(dtype=float)):
        out[0] = here.library.sqrt(16.0) + 1000.0 * library.sqrt(16.0)

    assert launched(k) == 4004.0
    here.library = own
    assert launched(k) == 4256.0
    monkeypatch.setitem(globals(), "library", own)
    assert launched(k) == 256256.0
