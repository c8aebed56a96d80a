"""What deep nests cost: the work of each pass grows with the number of ops, not with that times the depth."""

import linecache

import pytest

import warp_like as wp
from warp_like.frontend.build import build_kernel
from warp_like.ir import ops
from warp_like.ir.rewrite import free_values
from warp_like.passes import pipeline
from warp_like.passes.ad.adjoint import differentiate


def chain(depth):
    """A kernel of one ``if`` and ``depth`` branches of ``elif``."""
    lines = ["def chain(x: wp.array(dtype=float), y: wp.array(dtype=float)):", "    i = wp.tid()", "    b = float(0.0)"]
    for k in range(depth):
        lines += [f"    {'elif' if k else 'if'} i == {k}:", f"        b = x[i] * x[i] * {k}.5"]
    lines.append("    y[i] = b + x[i]")
    source = "\n".join(lines) + "\n"
    name = f"chain{depth}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"wp": wp}
    exec(compile(source, name, "exec"), scope)
    return wp.kernel(scope["chain"])


def prepared(depth):
    kernel = chain(depth)
    types = tuple(t for _, t in kernel.parameters)
    return pipeline.prepare(build_kernel(kernel.source, types), pipeline.Options())


def size(f):
    return sum(1 for _ in f.body.walk())


def test_the_adjoint_of_a_chain_of_branches_grows_with_its_length():
    sizes = [size(differentiate(prepared(depth), (0, 1))) for depth in (20, 40, 80)]
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.05)


def test_the_gradient_of_a_chain_of_branches():
    kernel, n = chain(60), 64
    x, y = wp.full(n, 3.0, dtype=float, requires_grad=True), wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, n, [x, y])
    tape.backward(grads={y: wp.ones(n, dtype=float)})
    expected = [1.0 + (6.0 * (k + 0.5) if k < 60 else 0.0) for k in range(n)]
    assert x.grad.numpy().tolist() == expected


def test_walk_visits_nested_ops_after_the_op_that_holds_them():
    f = prepared(3)
    order = list(f.body.walk())
    assert len(order) == len(set(order))

    def recursive(block):
        for o in block.ops:
            yield o
            for r in o.regions():
                yield from recursive(r)

    assert order == list(recursive(f.body))


def test_free_values_are_the_same_with_a_memory():
    f = prepared(5)
    known = {}
    for o in f.body.walk():
        if isinstance(o, ops.If):
            for r in o.regions():
                assert free_values(r, known) == free_values(r)
                defined = {v for x in r.walk() for v in x.results}
                used = {v for x in r.walk() for v in x.operands()}
                assert set(free_values(r)) == used - defined
