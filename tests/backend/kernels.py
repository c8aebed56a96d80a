"""Kernels that several tests use."""

from __future__ import annotations

from tests.ir_builder import branch, loop, start, tid
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.types import Array, Type, Vec, float32, int32

F1, F2 = Array(float32, 1), Array(float32, 2)


def saxpy() -> Function:
    f, b = start("saxpy", a=float32, x=F1, y=F1)
    a, x, y = f.params
    i = tid(b)
    b.store(y, [i], b.add(b.mul(a, b.load(x, [i])), b.load(y, [i])))
    b.yield_()
    return f


def unary(name: str, t=float32) -> Function:
    f, b = start(name, x=Array(t, 1), y=Array(t, 1))
    i = tid(b)
    b.store(f.params[1], [i], b.apply(name, b.load(f.params[0], [i])))
    b.yield_()
    return f


def blur() -> Function:
    f, b = start("blur", x=F2, y=F2)
    x, y = f.params
    i, j = b.add(tid(b, 0, 2), 1), b.add(tid(b, 1, 2), 1)
    around = [(b.sub(i, 1), j), (b.add(i, 1), j), (i, b.sub(j, 1)), (i, b.add(j, 1))]
    total = b.load(x, [i, j])
    for at in around:
        total = b.add(total, b.load(x, at))
    b.store(y, [i, j], b.mul(total, 0.2))
    b.yield_()
    return f


def divergent() -> Function:
    f, b = start("divergent", x=F1, y=F1)
    x, y = f.params
    i = tid(b)
    v = b.load(x, [i])
    (r,) = branch(b, b.gt(v, 0.0), lambda: (b.sqrt(v),), lambda: (b.mul(v, 2.0),))
    b.store(y, [i], r)
    b.yield_()
    return f


def vectors() -> Function:
    v = Vec(3, float32)
    f, b = start("vectors", x=Array(v, 1), y=Array(v, 1))
    i = tid(b)
    b.store(f.params[1], [i], b.mul(b.load(f.params[0], [i]), 3.0))
    b.yield_()
    return f


def unrolled() -> Function:
    """A short loop inside each thread, which LLVM unrolls before it vectorises over threads."""
    f, b = start("unrolled", x=F2, y=F1)
    x, y = f.params
    i = tid(b)
    with loop(b, 0, 4, init=[b.zero(float32)]) as each:
        each.next = (b.add(each.carried[0], b.load(x, [each.i, i])),)
    b.store(y, [i], each.results[0])
    b.yield_()
    return f


def from_index() -> Function:
    f, b = start("from_index", x=F1)
    i = tid(b)
    b.store(f.params[0], [i], b.mul(b.cast(i, float32), 0.5))
    b.yield_()
    return f


def copy_kernel(t: Type, ndim: int) -> Function:
    f, b = start("copy", x=Array(t, ndim), y=Array(t, ndim))
    at_ = [tid(b, k, ndim) for k in range(ndim)]
    b.store(f.params[1], at_, b.load(f.params[0], at_))
    b.yield_()
    return f


def atomic_kernel(kind: str, t: Type) -> Function:
    f, b = start(f"atomic_{kind}", x=Array(t, 1), y=Array(t, 1), old=Array(t, 1))
    x, y, old = f.params
    i = tid(b)
    b.store(old, [i], b.atomic(kind, y, [b.mod(i, 3)], b.load(x, [i])))
    b.yield_()
    return f


def reversing(t: Type) -> Function:
    """Pushes a row and an index, then pops them, so that the row is written in reverse."""
    f, b = start("reversing", x=Array(t, 2), y=Array(t, 2))
    x, y = f.params
    i, n = tid(b), b.dim(x, 1)
    with loop(b, 0, n) as each:
        b.insert(ops.Push(0, b.load(x, [i, each.i])))
        b.insert(ops.Push(1, each.i))
    with loop(b, 0, n) as each:
        back = b.insert(ops.Pop(1), int32).result
        value = b.insert(ops.Pop(0), t).result
        b.store(y, [i, b.sub(b.sub(n, 1), back)], value)
    b.yield_()
    return f
