"""The advice of messages about launch arguments, followed: each mistake, what the help says, and the launch with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like.ir import types as ir
from warp_like.runtime.kernels.argument_advice import advice

F32, F64 = np.float32, np.float64


class Mistake(NamedTuple):
    """An argument ``x`` for a parameter with an ``annotation``, and the two ways that the help names.

    ``instead`` is an expression that is passed in place of ``x``, ``declared`` another annotation.
    """

    name: str
    annotation: str
    x: Any
    instead: str | None = None
    declared: str | None = None


MISTAKES = [
    Mistake(
        "numpy's doubles", "wp.array(dtype=float)", np.ones(3), "x.astype(np.float32)", "wp.array(dtype=wp.float64)"
    ),
    Mistake("integers", "wp.array(dtype=float)", np.ones(3, np.int32), "x.astype(np.float32)", "wp.array(dtype=int)"),
    Mistake("floats for bools", "wp.array(dtype=bool)", np.ones(3, F32), "x.astype(np.bool_)", "wp.array(dtype=float)"),
    Mistake(
        "doubles in rows",
        "wp.array2d(dtype=float)",
        np.ones((3, 2)),
        "x.astype(np.float32)",
        "wp.array2d(dtype=wp.float64)",
    ),
    Mistake(
        "vectors of doubles",
        "wp.array(dtype=wp.vec3)",
        np.ones((2, 3)),
        "x.astype(np.float32)",
        "wp.array(dtype=wp.vec3d)",
    ),
    Mistake(
        "our doubles",
        "wp.array(dtype=float)",
        wp.ones(3, dtype=wp.float64),
        "wp.array(x.numpy(), dtype=float)",
        "wp.array(dtype=wp.float64)",
    ),
    Mistake("a list", "wp.array(dtype=float)", [1.0, 2.0], "np.array(x, dtype=np.float32)"),
    Mistake("a tuple", "wp.array(dtype=wp.int64)", (1, 2), "np.array(x, dtype=np.int64)"),
    Mistake("a list of rows", "wp.array(dtype=wp.vec2)", [(1.0, 2.0)], "np.array(x, dtype=np.float32)"),
    Mistake("a number", "wp.array(dtype=float)", 2.0, "np.array([x], dtype=np.float32)"),
    Mistake("two dimensions", "wp.array(dtype=float)", np.ones((2, 2), F32), "x.ravel()", "wp.array2d(dtype=float)"),
    Mistake("two of ours", "wp.array(dtype=float)", wp.ones((2, 2)), "x.flatten()", "wp.array2d(dtype=float)"),
    Mistake(
        "rows of vectors",
        "wp.array(dtype=wp.vec3)",
        np.ones((2, 2, 3), F32),
        "x.reshape(-1, 3)",
        "wp.array2d(dtype=wp.vec3)",
    ),
    Mistake("packed vectors", "wp.array(dtype=wp.vec3)", np.ones(6, F32), "x.reshape(-1, 3)"),
    Mistake("one dimension", "wp.array2d(dtype=float)", np.ones(3, F32), "x.reshape((1, 3))", "wp.array(dtype=float)"),
    Mistake("three dimensions", "wp.array2d(dtype=float)", np.ones((1, 2, 3), F32), "x[0]", "wp.array3d(dtype=float)"),
    Mistake(
        "an indexed array",
        "wp.array(dtype=float)",
        wp.ones(3)[wp.array([0, 2], dtype=int)],
        "x.contiguous()",
        "wp.indexedarray(dtype=float)",
    ),
    Mistake("a float", "int", 2.0, "int(x)", "float"),
    Mistake("a large number", "int", 3000000000, None, "wp.int64"),
    Mistake("an array for a number", "float", np.ones((1, 2), F32), "x[0, 0]", "wp.array2d(dtype=float)"),
]


def launch(annotation: str, x: Any) -> None:
    k = wp.kernel(define(f"def k(x: {annotation}):\n    pass\n", eager=True)["k"])
    wp.launch(k, dim=1, inputs=[x])


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_advice_works_when_it_is_followed(mistake):
    with pytest.raises((TypeError, ValueError)) as caught:
        launch(mistake.annotation, mistake.x)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("kernel `k`, argument 1 `x`: expected ")
    assert lines[2:4] == [
        f"   |     def k(x: {mistake.annotation}):",
        f"   |           {'^' * len(f'x: {mistake.annotation}')}",
    ]
    help = lines[4]
    assert (mistake.instead or "") in help
    assert (f"`x: {mistake.declared}`" if mistake.declared else "") in help
    if mistake.instead is not None:
        launch(mistake.annotation, eval(mistake.instead, {"np": np, "wp": wp, "x": mistake.x}))
    if mistake.declared is not None:
        launch(mistake.declared, mistake.x)


def test_a_shape_is_named_where_the_number_of_dimensions_is_wrong():
    with pytest.raises(TypeError, match=r"got array2d\[float32\] of shape \(2, 5\)\n"):
        launch("wp.array(dtype=float)", np.ones((2, 5), F32))


@pytest.mark.parametrize("library", ["torch", "jax", "paddle"])
def test_tensors(library):
    module = pytest.importorskip(library)
    x = module.numpy.ones(3, dtype="int32") if library == "jax" else module.ones([3], dtype=module.int32)
    instead = {"torch": "x.to(torch.float32)", "jax": "x.astype(jnp.float32)", "paddle": 'x.astype("float32")'}[library]
    with pytest.raises(TypeError) as caught:
        launch("wp.array(dtype=float)", x)
    assert f"  help: x = {instead} before the launch, or annotate `x: wp.array(dtype=int)`" in str(caught.value)
    names = {library: module, "x": x, "jnp": getattr(module, "numpy", None)}
    launch("wp.array(dtype=float)", eval(instead, names))
    launch("wp.array(dtype=int)", x)


def test_nothing_is_said_of_what_is_not_known():
    array = ir.Array(ir.float32, 1)
    assert advice("x", array, None) is None
    assert advice("x", array, object()) is None
    assert advice("x", array, np.ones(3, np.complex64)) is None
    assert advice("x", array, np.ones((1,) * 5, F32)) is None
    assert advice("x", ir.Vec(3, ir.float32), 1.0) is None
    assert advice("x", ir.float32, "1") is None
    assert advice("x", ir.int32, 1 << 70) is None
