"""Gradients through user functions: nested, of several results, passed as arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

import warp_like as wp
from tests.gradients import check

f64 = wp.float64
RNG = np.random.default_rng(11)


@wp.func
def square(x: f64):
    return x * x


@wp.func
def cube(x: f64):
    return square(x) * x


@wp.func
def polar(x: f64, y: f64):
    r = wp.sqrt(square(x) + square(y) + f64(0.5))
    return r, wp.atan2(y, x + f64(3.0)), r * x


@wp.func
def twice(f: Callable, x: f64):
    return f(f(x))


@wp.func
def newton(f: Callable, df: Callable, x: f64, n: int):
    for _ in range(n):
        x = x - f(x) / (df(x) + f64(2.0))
    return x


@wp.func
def generic(x: Any, y: Any):
    return wp.dot(x, y) * x, wp.length(y)


@wp.func
def divmods(x: f64, n: int):
    whole = int(x)
    return whole + n, x - f64(whole)


@wp.func
def row_norm(row: wp.array(dtype=f64)):
    s = f64(0.0)
    for j in range(row.shape[0]):
        s += square(row[j])
    return wp.sqrt(s)


@wp.func
def scatter(x: f64, at: int, target: wp.array(dtype=f64)):
    wp.atomic_add(target, at, wp.sin(x))
    wp.atomic_add(target, 0, cube(x))


@wp.kernel
def several_results(x: wp.array(dtype=f64), y: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    r, a, b = polar(x[i], y[i])
    r2, _, b2 = polar(r, a)
    out[i] = r2 * b + b2 * cube(a)


@wp.kernel
def passed(x: wp.array(dtype=f64), n: int, out: wp.array(dtype=f64)):
    i = wp.tid()
    f = cube
    out[i] = twice(f, x[i]) + twice(square, x[0]) + newton(cube, square, x[i], n) + twice(wp.sin, x[i])


@wp.kernel
def of_vectors(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=wp.vec3d), out: wp.array(dtype=f64)):
    i = wp.tid()
    v, length = generic(x[i], y[i])
    w, _ = generic(v, x[i])
    out[i] = wp.dot(w, y[i]) * length


@wp.kernel
def mixed_results(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    n, rest = divmods(x[i] * f64(3.0), i)
    out[i] = square(rest) * f64(n) + rest


@wp.kernel
def of_views(x: wp.array2d(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    out[i] = row_norm(x[i]) * row_norm(x[0])


@wp.kernel
def with_effects(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    if x[i] > 0.0:
        scatter(x[i], i % 3, out)
    else:
        scatter(square(x[i]), 1, out)


def test_several_results():
    check(several_results, 5, [RNG.normal(size=5), RNG.normal(size=5)], 5)


def test_functions_as_arguments():
    check(passed, 4, [RNG.uniform(0.2, 0.9, size=4), 4], 4)


def test_generic_functions():
    check(of_vectors, 3, [RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))], 3)


def test_results_with_and_without_gradient():
    check(mixed_results, 4, [np.array([0.4, 1.15, -0.9, 2.2])], 4)


def test_views_as_arguments():
    check(of_views, 3, [RNG.normal(size=(3, 4))], 3)


def test_functions_that_write():
    check(with_effects, 6, [RNG.normal(size=6)], 3)
