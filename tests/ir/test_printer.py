"""The text form of every op."""

from __future__ import annotations

from tests.ir_builder import branch, expect, loop, start, tid, while_
from warp_like.ir import ops
from warp_like.ir.printer import print_function
from warp_like.ir.rewrite import clone_function
from warp_like.ir.types import Array, Mat, Vec, bool_, float32, float64, int32


def test_values_and_memory() -> None:
    f, b = start(x=Array(Vec(2, float32), 2), n=Array(int32, 1), s=float32)
    x, n, s = f.params
    i, j = tid(b, 0, 2), tid(b, 1, 2)
    v = b.load(x, [i, j])
    v = b.insert_component(v, b.add(b.extract(v, 0), s), 1)
    b.store(b.view(x, [i]), [b.dim(x, 1)], v)
    b.store(x, [i, j], b.make(Vec(2, float32), [s, b.bitcast(b.cast(s, int32), float32)]))
    b.atomic("max", n, [i], j)
    b.insert(ops.AtomicCas(n, (i,), i, j), int32)
    b.constant((1, 2, 3, 4), Mat(2, 2, float64))
    b.insert(ops.Push(3, s))
    b.insert(ops.Pop(3), float32)
    b.insert(ops.Print(("s = ", "\n"), (s,)))
    b.yield_()
    expect(
        f,
        """
        kernel k(%x: array2d[vec2[float32]], %n: array1d[int32], %s: float32) {
          %0 = tid 0 of 2 : int32
          %1 = tid 1 of 2 : int32
          %2 = load %x[%0, %1] : vec2[float32]
          %3 = constant 0 : int32
          %4 = extract %2[%3] : float32
          %5 = add %4, %s : float32
          %6 = constant 1 : int32
          %7 = insert %2[%6], %5 : vec2[float32]
          %8 = view %x[%0] : array1d[vec2[float32]]
          %9 = dim %x, 1 : int32
          store %8[%9], %7
          %10 = cast %s : int32
          %11 = bitcast %10 : float32
          %12 = make %s, %11 : vec2[float32]
          store %x[%0, %1], %12
          %13 = atomic_max %n[%0], %1 : int32
          %14 = atomic_cas %n[%0], %0, %1 : int32
          %15 = constant (1.0, 2.0, 3.0, 4.0) : mat2x2[float64]
          push 3 %s
          %16 = pop 3 : float32
          print ('s = ', '\\n') %s
          yield
        }
        """,
    )


def test_control_flow_and_calls() -> None:
    callee, inner = start("twice", "func", (int32,), v=int32)
    inner.yield_(inner.add(*callee.params * 2))
    f, b = start("f", "func", (int32, int32), c=bool_, n=int32)
    c, n = f.params
    (r,) = branch(b, c, lambda: (n,), lambda: b.insert(ops.Call(callee, (n,)), int32).results)
    with loop(b, r, n, -1, init=[r]) as body:
        branch(b, c)
        body.next = (body.i,)
    results = while_(b, [n], lambda v: b.lt(v, 3), lambda v: (b.add(v, v),))
    b.yield_(*body.results, *results)
    expect(
        f,
        """
        func f(%c: bool, %n: int32) -> (int32, int32) {
          %0 = if %c : int32 {
            yield %n
          } else {
            %1 = call twice(%n) : int32
            yield %1
          }
          %2 = constant -1 : int32
          %3 = for %i in %0, %n, %2 (%4 = %0) : int32 {
            if %c {
              yield
            } else {
              yield
            }
            yield %i
          }
          %5 = while (%6 = %n) : int32 {
            %7 = constant 3 : int32
            %8 = lt %6, %7 : bool
            yield %8
          } do (%9: int32) {
            %10 = add %9, %9 : int32
            yield %10
          }
          yield %3, %5
        }
        """,
    )


def test_hints_become_unique_names() -> None:
    f, b = start("f", "func", (int32,), i=int32)
    with loop(b, 0, f.params[0], init=[b.index(0)]) as body:
        body.next = (b.add(body.i, f.params[0]),)
    b.yield_(body.results[0])
    assert "for %i.1 in %1, %i, %2" in print_function(f)


def test_text_depends_on_the_function_alone() -> None:
    f, b = start(x=Array(float32, 1))
    b.store(f.params[0], [tid(b)], b.constant(1, float32))
    b.yield_()
    assert print_function(f) == print_function(f) == print_function(clone_function(f))
