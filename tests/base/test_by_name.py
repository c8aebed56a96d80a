"""Kernels and functions are pickled by their names, and refused where a name does not lead to them."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import warp_like as wp
from tests.base import test_errors


@wp.func
def twice(x: float):
    return 2.0 * x


@wp.func
def replaced(x: float):
    return x


first_replaced = replaced


@wp.func
def replaced(x: int):  # another overload, so another object
    return x


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = twice(x[i])


@wp.kernel
def scale(x: wp.array(dtype=wp.Any), by: wp.Any):
    i = wp.tid()
    x[i] = by * x[i]


@wp.kernel
def lost(x: wp.array(dtype=float)):
    x[wp.tid()] = 1.0


@wp.kernel
def block_of(x: wp.array(dtype=float)):
    x[wp.tid()] = float(wp.block_dim())


@wp.kernel
def scaled_by_constant(x: wp.array(dtype=float)):
    x[wp.tid()] = FACTOR


class Simulation:
    @wp.kernel
    def fill(x: wp.array(dtype=float)):
        x[wp.tid()] = 3.0


FACTOR = 2.0
lost_kernel = [lost]
lost = None
negate = wp.func(lambda x: -x)
other_name = wp.kernel(double.func)
instance = wp.overload(scale, [wp.array(dtype=wp.float64), wp.float64])
chosen = {
    "kernel": double,
    "generic kernel": scale,
    "instance": instance,
    "instance with options": instance.with_options(fast_math=True),
    "options": double.with_options(fast_math=True, max_unroll=2),
    "blocks": block_of.in_blocks(4),
    "function": twice,
    "all overloads": replaced,
    "earlier overloads": first_replaced,
    "a lambda with a name": negate,
    "another name": other_name,
    "in a class": Simulation.fill,
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", chosen)
def test_the_same_object_is_found(name, protocol):
    assert pickle.loads(pickle.dumps(chosen[name], protocol)) is chosen[name]


@pytest.mark.parametrize("name", chosen)
def test_copies_are_the_object_itself(name):
    assert copy.copy(chosen[name]) is chosen[name]
    assert copy.deepcopy([chosen[name]])[0] is chosen[name]


def test_a_name_in_another_module_is_found(monkeypatch):
    made = wp.func(lambda x: x)
    with pytest.raises(pickle.PicklingError, match="no module has a name for this lambda"):
        pickle.dumps(made)
    monkeypatch.setattr(test_errors, "made_elsewhere", made, raising=False)
    assert pickle.loads(pickle.dumps(made)) is made
    assert b"test_errors" in pickle.dumps(made)


def test_editions_are_those_for_what_names_mean_now(monkeypatch):
    for factor in (5.0, 6.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        wp.launch(scaled_by_constant, 1, [np.zeros(1, np.float32)])
    edition = scaled_by_constant.current()
    assert edition is not scaled_by_constant
    assert pickle.loads(pickle.dumps(edition)) is edition
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    again = pickle.loads(pickle.dumps(edition))
    assert again is scaled_by_constant.current() is not edition


def run(kernel, function):
    """What a spawned process computes."""
    x = wp.array([1.0, 2.0], dtype=float)
    wp.launch(kernel, 2, [x])
    return x.list(), function(3.0), kernel, function


def test_a_spawned_process_uses_them():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        values, called, kernel, function = pool.apply(run, (double.with_options(fast_math=True), twice))
    assert (values, called) == ([2.0, 4.0], 6.0)
    assert kernel is double.with_options(fast_math=True)
    assert function is twice


def made_here():
    @wp.kernel
    def local(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    return local


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            made_here,
            "<warp_like kernel local> can't be pickled: it is pickled by its name, and it was made inside a function "
            "(`made_here.<locals>.local`), where other processes do not find it; define it at the top level of a "
            "module, and keep it there under a name of its own",
        ),
        (
            lambda: made_here().with_options(fast_math=True),
            "it was made inside a function (`made_here.<locals>.local`)",
        ),
        (
            lambda: wp.func(lambda x: x),
            "<warp_like function <lambda>> can't be pickled: it is pickled by its name, and no",
        ),
        (lambda: lost_kernel[0], "and `tests.base.test_by_name.lost` is another object, None; define it"),
        (lambda: wp.kernel(double.func), "`tests.base.test_by_name.double` is another object, <warp_like kernel"),
    ],
)
def test_what_no_name_leads_to_is_refused(make, message):
    made = make()
    with pytest.raises(pickle.PicklingError) as e:
        pickle.dumps(made)
    assert message in str(e.value)
    assert copy.deepcopy(made) is made


def test_a_deleted_name_is_refused(monkeypatch):
    monkeypatch.delitem(globals(), "double")
    monkeypatch.setitem(chosen, "kernel", None)
    with pytest.raises(pickle.PicklingError, match="there is no `double` in module `tests.base.test_by_name`"):
        pickle.dumps(wp.kernel(other_name.func))
