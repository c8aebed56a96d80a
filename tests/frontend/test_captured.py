"""What kernels take from around them: enums, typed constants of every kind, attributes of classes and objects."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import everywhere


class Color(enum.IntEnum):
    RED = 1
    BLUE = 4


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Kind(enum.Enum):
    SOLID = 7


@wp.struct
class Gas:
    constant: float
    axis: wp.vec2


class Config:
    steps = 3
    size = 0.5


class Outer:
    SCALE = wp.constant(3.0)

    class Inner:
        AXIS = wp.constant(wp.vec2(5.0, 6.0))

    @wp.func
    def scaled(x: float):
        return x * Outer.SCALE


V = wp.constant(wp.vec3(1.0, 2.0, 3.0))
M = wp.constant(wp.mat22(1.0, 2.0, 3.0, 4.0))
Q = wp.constant(wp.quat(0.0, 0.0, 0.6, 0.8))
T = wp.constant(wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat_identity()))
GAS = Gas(constant=8.25, axis=wp.vec2(0.0, 2.0))
HALF = np.float32(0.5)
COUNT = np.int32(2)


@wp.kernel
def enums(mode: int, out: wp.array(dtype=int)):
    out[0] = Color.RED + Color.BLUE
    if mode == Color.BLUE:
        out[1] = 5
    out[2] = mode & Access.READ
    out[3] = Access.READ | Access.WRITE
    out[4] = int(Access.BOTH) - Kind.SOLID.value
    chosen = Color.RED
    if mode > 1:
        chosen = Color.BLUE
    out[5] = chosen
    for i in range(Access.BOTH):
        out[6] += i


def test_members_of_enums():
    (out,) = everywhere(enums, 1, Color.BLUE, np.zeros(7, np.int32))[1:]
    assert out.tolist() == [5, 5, 0, 3, -4, 4, 3]
    (out,) = everywhere(enums, 1, Access.READ, np.zeros(7, np.int32))[1:]
    assert out.tolist() == [5, 0, 1, 3, -4, 1, 3]


@wp.kernel
def constants(out: wp.array(dtype=float)):
    out[0] = wp.dot(V, V) + M[1, 0] + Q[3]
    out[1] = wp.transform_get_translation(T)[2]
    out[2] = GAS.constant * GAS.axis.y
    gas = GAS
    gas.axis[0] = 1.0
    out[3] = gas.axis[0] + GAS.axis[0]
    out[4] = Outer.scaled(Outer.Inner.AXIS[1])
    for i in range(Config.steps):
        out[5] += Config.size * float(i + COUNT) * HALF


def test_constants_of_every_kind():
    (out,) = everywhere(constants, 1, np.zeros(6, np.float32))
    np.testing.assert_allclose(out, [17.8, 3, 16.5, 1, 18, 2.25], rtol=1e-6)


@wp.func
def clipped(x: float):
    return wp.min(x, clipped.limit)


clipped.limit = 2.5
clipped.axes = (wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))


@wp.func
def before_clipping(x: float):
    return x + clipped.limit


clipped.before = before_clipping


@wp.kernel
def attributes_of_functions(out: wp.array(dtype=float)):
    out[0] = clipped(4.0) + clipped.before(1.0)
    out[1] = clipped.axes[1][0]


def test_attributes_of_functions(monkeypatch):
    (out,) = everywhere(attributes_of_functions, 1, np.zeros(2, np.float32))
    assert out.tolist() == [6.0, 3.0]
    x = wp.zeros(2)
    wp.launch(attributes_of_functions, 1, [x])
    assert x.list() == [6.0, 3.0]
    monkeypatch.setattr(clipped, "limit", 1.0)
    wp.launch(attributes_of_functions, 1, [x])
    assert x.list() == [3.0, 3.0]


def test_an_enum_whose_members_are_no_integers():
    class Word(enum.Enum):
        HELLO = "hello"

    @wp.kernel
    def k(out: wp.array(dtype=int)):
        out[0] = Word.HELLO

    with pytest.raises(wp.WarpCodegenTypeError, match="`Word.HELLO` is a Word, which has no meaning in kernel code"):
        wp.launch(k, 1, inputs=[np.zeros(1, np.int32)])
