"""Short ways to build and compare IR in tests."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import warp_like.builtins  # noqa: F401  (fills the registry)
from tests.interpreter import run
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.printer import print_function
from warp_like.ir.types import Type, bool_, int32
from warp_like.ir.verify import verify


def start(
    name: str = "k", role: str = "kernel", results: tuple[Type, ...] = (), **params: Type
) -> tuple[Function, Emitter]:
    """An empty function with named parameters, and an emitter at its end."""
    f = Function(name, [Value(t, n) for n, t in params.items()], results, role)
    return f, Emitter(f.body)


def tid(b: Emitter, axis: int = 0, ndim: int = 1) -> Value:
    return b.insert(ops.Tid(axis, ndim), int32).result


class Loop:
    """A ``For`` being built: ``i``, the ``carried`` parameters, and the ``results`` once it is closed."""

    def __init__(self, i: Value, carried: list[Value]) -> None:
        self.i = i
        self.carried = carried
        self.next: tuple[Value, ...] = ()
        self.results: tuple[Value, ...] = ()


@contextlib.contextmanager
def loop(
    b: Emitter, lo: Value | int, hi: Value | int, step: Value | int = 1, init: Sequence[Value] = ()
) -> Iterator[Loop]:
    """``with loop(b, 0, n, init=[x]) as body: body.next = (...,)`` builds a ``For``."""
    bounds = [v if isinstance(v, Value) else b.index(v) for v in (lo, hi, step)]
    got = Loop(Value(bounds[0].type, "i"), [Value(v.type) for v in init])
    with b.into(Block([got.i, *got.carried])) as body:
        yield got
        b.yield_(*got.next)
    got.results = b.for_(*bounds, init, body)


def branch(b: Emitter, cond: Value, then: Any = lambda: (), orelse: Any = lambda: ()) -> tuple[Value, ...]:
    """An ``If`` whose branches are functions that return tuples."""
    made = []
    for fn in (then, orelse):
        with b.into(Block()) as block:
            b.yield_(*fn())
        made.append(block)
    return b.if_(cond, *made)


def while_(b: Emitter, init: Sequence[Value], cond: Any, body: Any) -> tuple[Value, ...]:
    """A ``While`` whose blocks are functions of the carried values; ``body`` returns a tuple."""
    made = []
    for fn in (lambda *v: (cond(*v),), body):
        block = Block([Value(v.type) for v in init])
        with b.into(block):
            b.yield_(*fn(*block.params))
        made.append(block)
    return b.while_(init, *made)


def false(b: Emitter) -> Value:
    return b.constant(False, bool_)


def expect(f: Function, text: str) -> None:
    """Check that ``f`` is valid and prints as ``text``."""
    verify(f)
    assert print_function(f) == textwrap.dedent(text).lstrip("\n")


def count(f: Function, *kinds: type[Op]) -> int:
    """The number of ops of ``kinds`` in ``f``."""
    return sum(isinstance(o, kinds) for o in f.body.walk())


def outcome(f: Function, args: Sequence[Any], dims: tuple[int, ...]) -> tuple[list[np.ndarray], list[str]]:
    """Run ``f`` on copies of ``args``; the arrays afterwards, and what was printed."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    printed: list[str] = []
    run(f, copies, dims, printed)
    return [a for a in copies if isinstance(a, np.ndarray)], printed


def assert_same(f: Function, g: Function, args: Sequence[Any], dims: tuple[int, ...]) -> None:
    """Check that ``f`` and ``g`` do the same to ``args``, to the last bit but for the sign of zeros."""
    verify(g)
    (wanted, told), (got, said) = outcome(f, args, dims), outcome(g, args, dims)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(b, a, err_msg=print_function(g))
    assert said == told
