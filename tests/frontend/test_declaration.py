"""What programs ask of kernels, functions and structs: names and types of parameters, module, place."""

import inspect
from typing import Any

import warp_like as wp


@wp.struct
class Body:
    mass: float
    at: wp.vec3
    forces: wp.array(dtype=wp.vec3)


@wp.kernel
def many(
    a: wp.array(dtype=float),
    b: wp.array2d[int],
    x: float,
    n: wp.int64,
    on: bool,
    v: wp.vec3,
    body: Body,
    selected: wp.indexedarray(dtype=float),
):
    wp.tid()


@wp.kernel
def generic(a: wp.array(dtype=Any, ndim=2), x: Any):
    wp.tid()


@wp.func
def scaled(x: float, v: wp.vec3, times: int = 2) -> wp.vec3:
    return v * x * float(times)


def test_the_arguments_of_a_kernel():
    found = {arg.label: arg.type for arg in many.adj.args}
    assert list(found) == ["a", "b", "x", "n", "on", "v", "body", "selected"]
    assert isinstance(found["a"], wp.array)
    assert (found["a"].dtype, found["a"].ndim) == (wp.float32, 1)
    assert (found["b"].dtype, found["b"].ndim) == (wp.int32, 2)
    assert [found[n] for n in ("x", "n", "on", "v", "body")] == [wp.float32, wp.int64, wp.bool, wp.vec3, Body]
    assert isinstance(found["selected"], wp.indexedarray)
    assert many.adj.arg_types["x"] is float
    assert [arg.label for arg in many.adj.args].index("n") == 3


def test_the_place_and_module_of_a_kernel():
    declared = many.adj
    assert (declared.fun_name, declared.filename, declared.func) == ("many", __file__, many.func)
    assert declared.fun_lineno == inspect.getsourcelines(many.func)[1]
    assert declared.source == inspect.getsource(many.func)
    assert (many.key, many.module.name) == ("many", __name__)


def test_the_arguments_of_a_generic_kernel_and_of_its_instances():
    assert [arg.type for arg in generic.adj.args] == [wp.array(dtype=Any, ndim=2), Any]
    instance = wp.overload(generic, [wp.array2d(dtype=wp.vec3), wp.float64])
    array, number = (arg.type for arg in instance.adj.args)
    assert isinstance(array, wp.array)
    assert (array.dtype, array.ndim, number) == (wp.vec3, 2, wp.float64)
    assert [arg.type for arg in generic.adj.args] == [wp.array(dtype=Any, ndim=2), Any]


def test_functions():
    assert scaled.input_types == {"x": float, "v": wp.vec3, "times": int}
    assert [(arg.label, arg.type) for arg in scaled.adj.args] == [
        ("x", wp.float32),
        ("v", wp.vec3),
        ("times", wp.int32),
    ]
    assert scaled.adj.arg_types["return"] is wp.vec3
    assert scaled.defaults == {"times": 2}
    assert (scaled.key, scaled.module, scaled.module.name) == ("scaled", wp.get_module(__name__), __name__)
    assert not scaled.is_builtin()
    assert wp.func(lambda x: x).input_types == {"x": Any}
    named = wp.func(lambda x: x, name="same", module="a_module_of_functions")
    assert (named.key, named.module.name) == ("same", "a_module_of_functions")


def test_builtins():
    assert (wp.sin.key, wp.sin.group, wp.sin.is_builtin()) == ("sin", "Scalar Math", True)
    assert "sine" in wp.sin.doc


def test_the_fields_of_a_struct():
    assert list(Body.vars) == ["mass", "at", "forces"]
    assert (Body.vars["mass"].type, Body.vars["at"].type) == (wp.float32, wp.vec3)
    assert isinstance(Body.vars["forces"].type, wp.array)

    @wp.struct
    class Named:
        vars: float

    assert Named(vars=2.0).vars == 2.0
