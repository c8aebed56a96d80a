"""How many bytes of stack a thread of an adjoint needs at most, as a program that the host runs before a launch.

Most loops run as often as an argument, an array's extent or the grid says. Then the host can tell how much their states
take, allocate that much, and need not look whether it was enough. Where it depends on data (elements of arrays, values
that a loop carries) there is no bound.

The program is a list of instructions, one register each, over intervals of numbers: the values that an expression of
the kernel may have in any thread and iteration. The last register's upper end is the bound. ``native/stack_bound.cpp``
runs it on a launch's argument block; ``base.contract.StackOp`` lists the instructions.

Pushes and pops pair off inside of a block: what the forward sweep of a loop saves, its reverse in the same block takes
back. So the depth at a place is the sum of what the blocks around it have saved and not yet taken back.

Example::

    kernel k(%x: array1d[float32], %n: int32) {
      # %n: the bound is constant, constant, argument, subtract, constant, trips, multiply, add
      %0 = tid 0 of 1 : int32
      %1 = constant 0 : int32
      %2 = constant 1 : int32
      for %i in %1, %n, %2 {
        %3 = load %x[%0] : float32
        push 0 %3
        yield
      }
      %4 = constant 0 : int32
      %5 = constant 1 : int32
      for %i.1 in %4, %n, %5 {
        %6 = pop 0 : float32
        store %x[%0], %6
        yield
      }
      yield
    }
"""

from __future__ import annotations

import math
from collections.abc import Callable

from warp_like.analysis.intervals import type_range
from warp_like.base.contract import StackOp
from warp_like.builtins.emit import scalar_type
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.layout import param_offsets, type_code
from warp_like.ir.types import Array, Scalar, Type

Instruction = tuple[int, int, int, float]
"""A ``StackOp``, a, b, c."""


class _Unknown(Exception):
    """A number depends on data."""


def stack_bound(f: Function, size: Callable[[Type], int]) -> tuple[Instruction, ...]:
    """Return the program, which is empty where there is no bound.

    Args:
        f: An adjoint as the backend gets it.
        size: The bytes that a value takes on the stack.
    """
    bounds = _Bounds(f, size)
    try:
        peak, _ = bounds.block(f.body)
    except _Unknown:
        return ()
    bounds.last(peak)
    return tuple(bounds.program)


Open = dict[int, int]
"""By slot, the register of the bytes that a block has saved and not taken back."""


class _Bounds:
    def __init__(self, f: Function, size: Callable[[Type], int]) -> None:
        self.program: list[Instruction] = []
        self._known: dict[Instruction, int] = {}
        self._values: dict[Value, int | None] = {}
        self._loops: dict[Value, ops.For] = {}
        self._size = size
        offsets, _ = param_offsets([p.type for p in f.params])
        self._offsets = dict(zip(f.params, offsets, strict=True))

    # ---- instructions

    def emit(self, code: int, a: int = 0, b: int = 0, c: float = 0.0) -> int:
        """The register of an instruction."""
        made = (code, a, b, float(c))
        if made not in self._known:
            self._known[made] = len(self.program)
            self.program.append(made)
        return self._known[made]

    def constant(self, number: float) -> int:
        """The register of a number."""
        return self.emit(StackOp.CONSTANT, c=number)

    def add(self, a: int, b: int) -> int:
        """The register of a sum; those of constants are constants."""
        (code, *_, x), (other, *_, y) = self.program[a], self.program[b]
        if code == other == StackOp.CONSTANT:
            return self.constant(x + y)
        if code == StackOp.CONSTANT and x == 0:
            return b
        return a if other == StackOp.CONSTANT and y == 0 else self.emit(StackOp.ADD, a, b)

    def total(self, registers: Open) -> int:
        """The register of the sum of all."""
        result = self.constant(0)
        for r in registers.values():
            result = self.add(result, r)
        return result

    def largest(self, a: int, b: int) -> int:
        """The register of the larger one."""
        zero = self.constant(0)
        if a == b or b == zero:
            return a
        return b if a == zero else self.emit(StackOp.MAXIMUM, a, b)

    def last(self, register: int) -> None:
        """End the program with a register."""
        self.program.append((int(StackOp.ADD), register, self.constant(0), 0.0))

    # ---- depths

    def block(self, b: Block) -> tuple[int, Open]:
        """What a block needs at most, and what it leaves."""
        popped: dict[int, Op] = {}  # by slot, the last op that takes values back
        for o in b.ops:
            popped.update((inner.slot, o) for inner in _within(o) if isinstance(inner, ops.Pop))
        peak, left = self.constant(0), Open()
        for o in b.ops:
            needs, leaves = self._op(o)
            peak = self.largest(peak, self.add(self.total(left), needs))
            for slot, r in leaves.items():
                left[slot] = self.add(left[slot], r) if slot in left else r
            left = {slot: r for slot, r in left.items() if popped.get(slot) is not o}
        return peak, left

    def _op(self, o: Op) -> tuple[int, Open]:
        match o:
            case ops.Push():
                bytes_ = self.constant(self._size(o.value.type))
                return bytes_, {o.slot: bytes_}
            case ops.If():
                (one, left), (other, right) = self.block(o.then), self.block(o.orelse)
                return self.largest(one, other), left | {s: self.largest(r, left.get(s, r)) for s, r in right.items()}
            case ops.For():
                self._loops[o.body.params[0]] = o
                needs, leaves = self.block(o.body)
                return self._repeated(needs, leaves, lambda: self._trips(o))
            case ops.While():
                condition, kept = self.block(o.cond)
                needs, leaves = self.block(o.body)
                if kept:
                    raise _Unknown
                return self._repeated(self.largest(condition, needs), leaves, lambda: self._counted(o))
        return self.constant(0), {}

    def _repeated(self, needs: int, leaves: Open, trips: Callable[[], int]) -> tuple[int, Open]:
        if not leaves:
            return needs, {}
        n, once = trips(), self.total(leaves)
        everything = self.emit(StackOp.MULTIPLY, n, once)
        peak = everything if needs == once else self.add(everything, needs)
        return peak, {slot: self.emit(StackOp.MULTIPLY, n, r) for slot, r in leaves.items()}

    # ---- loops

    def _trips(self, loop: ops.For) -> int:
        return self.emit(StackOp.TRIPS, self._apart(loop.hi, loop.lo), self.value(loop.step))

    def _counted(self, loop: ops.While) -> int:
        """The most that a while loop runs that counts towards a limit, as a for loop with a ``break`` in it does."""
        for k, p in enumerate(loop.cond.params):
            stepped = loop.body.yielded[k].op
            counter = loop.body.params[k]
            if not (isinstance(stepped, ops.Apply) and stepped.fn == "add" and counter in stepped.args):
                continue
            step = next((ops.constant_value(v) for v in stepped.args if v is not counter), None)
            limits = [c for c in _conjuncts(loop.cond.yielded[0]) if isinstance(c, ops.Apply) and c.args[0] is p]
            for limit in limits:
                if (limit.fn == "lt" and step is not None and step > 0) or (
                    limit.fn == "gt" and step is not None and step < 0
                ):
                    trips = self.emit(StackOp.TRIPS, self._apart(limit.args[1], loop.init[k]), self.constant(step))
                    return trips if abs(step) == 1 else self._unless_passed(trips, limit.args[1], step)
        raise _Unknown

    def _unless_passed(self, trips: int, limit: Value, step: int) -> int:
        """The register of ``trips``, or no bound where a counter might pass ``limit`` and the end of its type."""
        last = self.emit(StackOp.ADD, self.value(limit), self.constant(step - (1 if step > 0 else -1)))
        return self.emit(StackOp.CHOICE, trips, self.constant(math.inf), self._fits(last, scalar_type(limit)))

    def _apart(self, a: Value, b: Value) -> int:
        """The register of ``a - b``, where what both have in common cancels."""
        if a is b:
            return self.constant(0)
        ends = _minimum(a)
        if ends is not None:
            return self.emit(StackOp.MINIMUM, self._apart(ends[0], b), self._apart(ends[1], b))
        if isinstance(a.op, ops.Apply) and a.op.fn == "add" and b in a.op.args:
            return self._sum_apart(self.value(a.op.args[1 if a.op.args[0] is b else 0]), b)
        return self.emit(StackOp.SUBTRACT, self.value(a), self.value(b))

    def _sum_apart(self, by: int, b: Value) -> int:
        """The register of ``b + by - b``: ``by``, unless the sum wraps, which brings it to the other side of ``b``."""
        t, zero = scalar_type(b), self.constant(0)
        either = self.emit(StackOp.INDEX, zero, self.constant(2), 1)  # 0 or 1
        circle = self.constant(2.0**t.bits)
        above = self.emit(StackOp.CHOICE, by, self.emit(StackOp.ADD, by, circle), either)
        below = self.emit(StackOp.CHOICE, by, self.emit(StackOp.SUBTRACT, by, circle), either)
        wrapped = self.emit(StackOp.CHOICE, above, below, self.emit(StackOp.LESS, by, zero))
        try:
            total = self.emit(StackOp.ADD, self.value(b), by)
        except _Unknown:
            return wrapped
        return self.emit(StackOp.CHOICE, by, wrapped, self._fits(total, t))

    def _fits(self, register: int, t: Scalar) -> int:
        """The register of 1 where a number is one of type ``t``, and else 0."""
        least, greatest = (self.constant(x) for x in type_range(t))
        one = self.constant(1)
        outside = (self.emit(StackOp.LESS, register, least), self.emit(StackOp.LESS, greatest, register))
        return self.emit(StackOp.MULTIPLY, *(self.emit(StackOp.SUBTRACT, one, x) for x in outside))

    # ---- values

    def value(self, v: Value) -> int:
        """The register of a scalar.

        Raises:
            _Unknown: It depends on data.
        """
        if v not in self._values:
            self._values[v] = None
            self._values[v] = self._made(v)
        register = self._values[v]
        if register is None:
            raise _Unknown
        return register

    def _made(self, v: Value) -> int:
        t = v.type
        if not isinstance(t, Scalar):
            raise _Unknown
        match v.op:
            case None:
                return self._parameter(v, t)
            case ops.Constant(value=x):
                return self.constant(float(x))
            case ops.Tid(axis=axis, ndim=ndim):
                return self.emit(StackOp.THREAD, axis, ndim)
            case ops.Dim():
                return self._extent(v.op)
            case ops.Cast(x=x):
                return self._cast(x, t)
            case ops.Apply():
                return self._applied(v.op, t)
        raise _Unknown

    def _parameter(self, v: Value, t: Scalar) -> int:
        loop = self._loops.get(v)
        if loop is not None:
            step = ops.constant_value(loop.step)
            sign = 0 if step is None else (step > 0) - (step < 0)
            return self.emit(StackOp.INDEX, self.value(loop.lo), self.value(loop.hi), sign)
        if v not in self._offsets or (t.is_float and t.bits < 32):
            raise _Unknown
        return self.emit(StackOp.ARGUMENT, self._offsets[v], type_code(t))

    def _extent(self, o: ops.Dim) -> int:
        array, axis = o.array, o.axis
        while isinstance(array.op, ops.View) and array.op.field is None:
            axis += len(array.op.indices)
            array = array.op.array
        if isinstance(array.op, ops.Slice):
            raise _Unknown
        if array not in self._offsets or not isinstance(array.type, Array):
            raise _Unknown
        return self.emit(StackOp.EXTENT, self._offsets[array] + 8 * (1 + axis))

    def _cast(self, x: Value, t: Scalar) -> int:
        found = self.value(x)
        assert isinstance(x.type, Scalar)
        if t.is_float:
            return self._inexact(found, t)
        return self._limited(self.emit(StackOp.WHOLE, found) if x.type.is_float else found, t)

    def _inexact(self, register: int, t: Scalar) -> int:
        if t.bits < 32:
            raise _Unknown
        return self.emit(StackOp.ROUNDED, register)

    def _limited(self, register: int, t: Scalar) -> int:
        return self.emit(StackOp.LIMITED, register, 8 if t.is_bool else t.bits, t.is_signed)

    def _applied(self, o: ops.Apply, t: Scalar) -> int:
        if o.fn == "where":
            return self._where(o)
        if o.fn in _COMPARISONS:
            return self._compared(o)
        code = _BINARY.get(o.fn)
        if o.fn == "div":
            code = StackOp.RATIO if t.is_float else StackOp.QUOTIENT
        if code is not None and len(o.args) == 2 and not (t.is_float and code == StackOp.REMAINDER):
            made = self.emit(code, *(self.value(v) for v in o.args))
        elif o.fn == "neg":
            made = self.emit(StackOp.SUBTRACT, self.constant(0), self.value(o.args[0]))
        elif o.fn == "sqrt":
            made = self.emit(StackOp.ROOT, self.value(o.args[0]))
        elif o.fn in ("floor", "ceil", "trunc", "round", "rint"):
            made = self.emit(StackOp.WHOLE, self.value(o.args[0]))
        else:
            raise _Unknown
        return self._inexact(made, t) if t.is_float else self._limited(made, t)

    def _where(self, o: ops.Apply) -> int:
        a, b = (self.value(v) for v in o.args[1:])
        extreme = _extreme(o)
        if extreme is not None:
            return self.emit(extreme, a, b)
        try:
            condition = self.value(o.args[0])
        except _Unknown:
            condition = self.emit(StackOp.INDEX, self.constant(0), self.constant(2), 1)  # 0 or 1
        return self.emit(StackOp.CHOICE, a, b, condition)

    def _compared(self, o: ops.Apply) -> int:
        a, b = (self.value(v) for v in o.args)
        code, inverted = _COMPARISONS[o.fn]
        if o.fn in ("gt", "le"):
            a, b = b, a
        made = self.emit(code, a, b)
        return self.emit(StackOp.SUBTRACT, self.constant(1), made) if inverted else made


_BINARY = {
    "add": StackOp.ADD,
    "sub": StackOp.SUBTRACT,
    "mul": StackOp.MULTIPLY,
    "min": StackOp.MINIMUM,
    "max": StackOp.MAXIMUM,
    "mod": StackOp.REMAINDER,
}


_COMPARISONS = {
    "lt": (StackOp.LESS, False),
    "gt": (StackOp.LESS, False),
    "ge": (StackOp.LESS, True),
    "le": (StackOp.LESS, True),
    "eq": (StackOp.EQUAL, False),
    "ne": (StackOp.EQUAL, True),
}
"""What a comparison is, of operands that ``gt`` and ``le`` exchange, and whether it is the opposite of that."""


def _within(o: Op) -> list[Op]:
    return [o, *(inner for r in o.regions() for inner in r.walk())]


def _conjuncts(v: Value) -> list[Op | None]:
    """The conditions that have to hold together for ``v``."""
    if isinstance(v.op, ops.Apply) and v.op.fn == "bit_and":
        return [c for x in v.op.args for c in _conjuncts(x)]
    return [v.op]


def _extreme(o: ops.Apply) -> int | None:
    """Whether a choice is the smaller or the larger one of the two values that it compares."""
    cond, x, y = o.args
    test = cond.op
    if not isinstance(test, ops.Apply) or test.fn not in ("lt", "le", "gt", "ge") or set(test.args) != {x, y}:
        return None
    less = test.fn in ("lt", "le")
    return StackOp.MINIMUM if less == (test.args[0] is x) else StackOp.MAXIMUM


def _minimum(v: Value) -> tuple[Value, Value] | None:
    """The values that ``v`` is the smaller one of."""
    o = v.op
    if not isinstance(o, ops.Apply):
        return None
    if o.fn == "min" and len(o.args) == 2:
        return o.args[0], o.args[1]
    return (o.args[1], o.args[2]) if o.fn == "where" and _extreme(o) == StackOp.MINIMUM else None
