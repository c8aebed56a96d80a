"""Numbers with a name: on the host, and as literals in kernels."""

import math

import numpy as np
import pytest

import warp_like as wp
from warp_like import constants

VALUES = {
    "pi": math.pi,
    "tau": 2.0 * math.pi,
    "e": math.exp(1.0),
    "phi": 1.618033988749895,
    "ln2": math.log(2.0),
    "ln10": math.log(10.0),
    "log2e": math.log2(math.e),
    "log10e": math.log10(math.e),
    "half_pi": math.acos(0.0),
    "inf": math.inf,
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    value = getattr(wp, name)
    assert type(value) is float
    assert value == pytest.approx(VALUES[name], rel=1e-15)
    assert getattr(wp, name.upper()) == value


def test_nan_and_the_list_of_names():
    assert math.isnan(wp.nan)
    assert math.isnan(wp.NAN)
    assert sorted(constants.__all__) == sorted([*VALUES, "nan", *map(str.upper, VALUES), "NAN"])


@wp.kernel
def named(single: wp.array(dtype=float), double: wp.array(dtype=wp.float64)):
    single[0] = wp.pi
    single[1] = -wp.inf
    single[2] = wp.NAN
    double[0] = wp.tau
    double[1] = wp.cos(wp.float64(wp.PI))
    double[2] = wp.HALF_PI * double[1]


def test_in_kernels_they_take_the_type_of_what_they_meet():
    single, double = wp.zeros(3), wp.zeros(3, dtype=wp.float64)
    wp.launch(named, 1, [single, double])
    assert single.numpy()[0] == np.float32(math.pi)
    assert single.numpy()[1] == -math.inf
    assert math.isnan(single.numpy()[2])
    assert double.numpy().tolist() == [math.tau, -1.0, -math.pi / 2.0]


def test_a_handle_is_a_uint64():
    assert wp.handle is wp.uint64
    assert wp.types.handle is wp.uint64


HUGE = wp.constant(10**400)
"""No double holds it: Python refuses to convert it."""


@wp.kernel
def beyond_doubles(single: wp.array(dtype=float), double: wp.array(dtype=wp.float64), half: wp.array(dtype=wp.float16)):
    single[0] = HUGE
    single[1] = single[1] * -HUGE
    single[2] = wp.float32(-HUGE)
    single[3] = wp.where(single[3] < HUGE, 1.0, 2.0)
    single[4] = wp.vec3(HUGE)[1]
    double[0] = HUGE
    double[1] = wp.min(double[1], HUGE)
    half[0] = -HUGE


def test_integers_that_no_float_holds_are_infinite_as_too_large_floats_are():
    single, double, half = wp.ones(5), wp.ones(2, dtype=wp.float64), wp.ones(1, dtype=wp.float16)
    wp.launch(beyond_doubles, 1, [single, double, half])
    assert single.list() == [math.inf, -math.inf, -math.inf, 1.0, math.inf]
    assert double.list() == [math.inf, 1.0]
    assert half.list() == [-math.inf]
