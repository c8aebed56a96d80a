"""A scalar interpreter of the IR: the oracle that passes and backends are compared with.

It is written for plainness, and shares no code with passes or backends. Every scalar is computed in its own
dtype (NumPy scalars, so float32 rounds after each operation and integers wrap). It is stricter than compiled
code: an array index out of range, a pop that does not match its push, and a loop that does not end are
errors.

How values are held is in ``interpreter_values.py``.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import warp_like.builtins  # noqa: F401  (fills the registry)
from tests.interpreter_values import (
    anything,
    argument,
    bits_to_bfloat16,
    cast_scalar,
    coerce,
    form_of,
    formed,
    has_fields,
    numpy_dtype,
    uniform,
)
from warp_like.base.faults import FAULTS
from warp_like.builtins.emit import Emitter
from warp_like.builtins.spec import Elementwise, Expand, Overload, resolve
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, Scalar, Struct, Type, bfloat16, element_count, element_shape, scalar_of
from warp_like.passes.bodies import body_of
from warp_like.values.struct import structured_dtype

MAX_STEPS = 20_000_000


class InterpreterError(Exception):
    """IR that no correct program contains: unbalanced pushes, endless loops, a zero step."""


def run(
    function: Function,
    args: Sequence[Any],
    dims: tuple[int, ...],
    printed: list[str] | None = None,
    max_steps: int = MAX_STEPS,
) -> None:
    """Execute every thread of the grid in order; arrays in ``args`` are read and written in place.

    Args:
        function: A kernel or an adjoint.
        args: NumPy arrays of any strides (vec and mat elements as trailing dimensions), numbers, or nested
        sequences
            for vec and mat.
        dims: Extents of the grid.
        printed: Receives the text of each ``print``.
        max_steps: Ops that the whole launch may execute.
    """
    values = [argument(a, p.type) for a, p in zip(args, function.params, strict=True)]
    budget = [max_steps]
    known: dict[Op, Any] = {}
    with np.errstate(all="ignore"):
        steps = [function.schedule.rows if k == len(dims) - 2 else 1 for k in range(len(dims))]
        for thread in itertools.product(*(range(0, n, step) for n, step in zip(dims, steps, strict=True))):
            machine = _Thread(thread, dims, printed if printed is not None else [], budget, known)
            machine.call(function, values)
            if machine.stack:
                slots = [slot for slot, _ in machine.stack]
                raise InterpreterError(f"pushes of slots {slots} were not popped")


def evaluate(function: Function, args: Sequence[Any], max_steps: int = MAX_STEPS) -> Any:
    """Return the results of a function (role ``func``): one value, a tuple of several, or None."""
    values = [argument(a, p.type) for a, p in zip(args, function.params, strict=True)]
    with np.errstate(all="ignore"):
        results = _Thread((0,), (1,), [], [max_steps]).call(function, values)
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


# --- execution ----------------------------------------------------------------------------------------------

Env = dict[Value, Any]


class _Thread:
    def __init__(
        self,
        thread: tuple[int, ...],
        dims: tuple[int, ...],
        printed: list[str],
        budget: list[int],
        known: dict[Op, Any] | None = None,
    ) -> None:
        self.thread = thread
        self.dims = self.grid = dims  # vectors fold the last extents of the grid
        self.printed = printed
        self.budget = budget
        self.known = {} if known is None else known  # of ops that are the same for all threads: constants, meanings
        self.stack: list[tuple[int, Any]] = []

    def call(self, f: Function, args: Iterable[Any]) -> list[Any]:
        return self.block(f.body, dict(zip(f.params, args, strict=True)))

    def block(self, b: Block, env: Env) -> list[Any]:
        budget = self.budget
        for o in b.ops:
            if type(o) is ops.Yield:
                return [env[v] for v in o.values]
            budget[0] -= 1
            if budget[0] < 0:
                raise InterpreterError("the program does not end")
            results = self.execute(o, env)
            env.update(zip(o.results, results, strict=True))
        raise InterpreterError("a block without a yield")

    def execute(self, o: Op, env: Env) -> list[Any]:
        return _EXECUTE[type(o)](self, o, env)

    def enter(self, b: Block, env: Env, values: Sequence[Any]) -> list[Any]:
        for p, value in zip(b.params, values, strict=True):
            env[p] = value
        return self.block(b, env)


def _constant(m: _Thread, o: ops.Constant, env: Env) -> list[Any]:
    found = m.known.get(o)
    if found is None:
        found = m.known[o] = [coerce(o.value, o.result.type)]
    return found  # type: ignore[no-any-return]


def _apply(m: _Thread, o: ops.Apply, env: Env) -> list[Any]:
    meaning = m.known.get(o)
    if meaning is None:
        meaning = m.known[o] = _Meaning(o.fn, tuple([v.type for v in o.args]), tuple([r.type for r in o.results]))
    return meaning([env[v] for v in o.args])  # type: ignore[no-any-return]


def _cast(m: _Thread, o: ops.Cast, env: Env) -> list[Any]:
    source, to = scalar_of(o.x.type), scalar_of(o.result.type)
    assert source is not None
    assert to is not None
    x = env[o.x]
    if isinstance(o.result.type, Scalar):
        return [cast_scalar(x, source, to)]
    return [coerce([cast_scalar(c, source, to) for c in np.ravel(x)], o.result.type)]


def _bitcast(m: _Thread, o: ops.Bitcast, env: Env) -> list[Any]:
    source, to = o.x.type, o.result.type
    assert isinstance(source, Scalar)
    assert isinstance(to, Scalar)
    x = np.asarray(env[o.x])
    if source == bfloat16:
        x = (x.view(np.uint32) >> 16).astype(np.uint16)
    if to == bfloat16:
        return [bits_to_bfloat16(x.view(np.uint16))[()]]
    return [x.view(numpy_dtype(to))[()]]


def _make(m: _Thread, o: ops.Make, env: Env) -> list[Any]:
    if isinstance(o.result.type, (Array, Struct)):
        return [tuple(env[v] for v in o.elements)]
    return [coerce([env[v] for v in o.elements], o.result.type)]


def _extract(m: _Thread, o: ops.Extract, env: Env) -> list[Any]:
    x = env[o.x]
    at = tuple(int(env[i]) for i in o.indices)
    at = tuple(i if 0 <= i < n else 0 for i, n in zip(at, x.shape, strict=False))
    return [x[at] if len(at) == x.ndim else x[at].copy()]


def _insert(m: _Thread, o: ops.Insert, env: Env) -> list[Any]:
    x = env[o.x].copy()
    at = tuple(int(env[i]) for i in o.indices)
    if all(0 <= i < n for i, n in zip(at, x.shape, strict=False)):
        x[at] = env[o.value]
    return [x]


def _tid(m: _Thread, o: ops.Tid, env: Env) -> list[Any]:
    return [coerce(_folded(m, o.axis, o.ndim), o.result.type)]


def _folded(m: _Thread, axis: int, ndim: int) -> int:
    if axis >= len(m.dims):
        return 0
    if axis < ndim - 1:
        return m.thread[axis]
    index = 0
    for n, i in zip(m.dims[axis:], m.thread[axis:], strict=True):
        index = index * n + i
    return index


def _grid_dim(m: _Thread, o: ops.GridDim, env: Env) -> list[Any]:
    extents = m.grid[o.axis :] if o.axis == o.ndim - 1 else m.grid[o.axis : o.axis + 1]
    return [coerce(math.prod(extents), o.result.type)]


def _dim(m: _Thread, o: ops.Dim, env: Env) -> list[Any]:
    return [coerce(env[o.array].shape[o.axis], o.result.type)]


def _view(m: _Thread, o: ops.View, env: Env) -> list[Any]:
    if o.field is not None:
        t = o.array.type
        assert isinstance(t, Array)
        assert isinstance(t.dtype, Struct)
        return [env[o.array][t.dtype.fields[o.field][0]]]
    return [env[o.array][_index(o, o.array, o.indices, env)]]


def _components(m: _Thread, o: ops.Components, env: Env) -> list[Any]:
    array, t = env[o.array], o.array.type
    ndim, element = (t.ndim, t.dtype) if isinstance(t, Array) else (0, t)
    shape = (*array.shape[:ndim], element_count(element))
    return [np.lib.stride_tricks.as_strided(array, shape, (*array.strides[:ndim], array.itemsize))]


def _empty(m: _Thread, o: ops.Empty, env: Env) -> list[Any]:
    return [anything(o.result.type)]


def _fill(m: _Thread, o: ops.Fill, env: Env) -> list[Any]:
    return [uniform(env[o.x], o.result.type)]


def _local_array(m: _Thread, o: ops.LocalArray, env: Env) -> list[Any]:
    t = o.result.type
    assert isinstance(t, Array)
    if not o.zeroed:
        return [np.full(o.shape, 77, numpy_dtype(scalar_of(t.dtype)))]
    if isinstance(t.dtype, Struct):
        return [np.zeros(o.shape, structured_dtype(t.dtype))]
    scalar = scalar_of(t.dtype)
    assert scalar is not None
    return [np.zeros((*o.shape, *element_shape(t.dtype)), numpy_dtype(scalar))]


class _Memory:
    """The array of an object at an address, whose extent only the code that reads it knows."""

    EXTENT = 1 << 40  # as in frontend/objects.py

    def __init__(self, address: int, t: Array) -> None:
        scalar = scalar_of(t.dtype)
        assert scalar is not None
        self.address, self.dtype, self.element = address, np.dtype(numpy_dtype(scalar)), element_shape(t.dtype)
        self.shape = (self.EXTENT,)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        size = self.dtype.itemsize * math.prod(self.element)
        raw = ctypes.string_at(self.address + size * int(index[0]), size)
        found = np.frombuffer(raw, self.dtype).reshape(self.element)
        return found if self.element else found[()]


def _at_address(m: _Thread, o: ops.AtAddress, env: Env) -> list[Any]:
    if o.constant or int(env[o.shape[0]]) == _Memory.EXTENT:
        assert isinstance(o.result.type, Array)
        return [_Memory(int(env[o.address]), o.result.type)]
    if env[o.address] != 0:
        raise InterpreterError("memory at an address")
    t = o.result.type
    assert isinstance(t, Array)
    scalar = scalar_of(t.dtype)
    assert scalar is not None
    return [np.zeros([*(int(env[n]) for n in o.shape), *element_shape(t.dtype)], numpy_dtype(scalar))]


def empty_array(t: Array) -> Any:
    """A ``t`` of no elements."""
    scalar = scalar_of(t.dtype)
    inside = () if scalar is None else element_shape(t.dtype)
    dtype = structured_dtype(t.dtype) if isinstance(t.dtype, Struct) else numpy_dtype(scalar)
    return np.empty((*[0] * t.ndim, *inside), dtype)


def _nested(m: _Thread, o: ops.NestedArray, env: Env) -> list[Any]:
    t = o.result.type
    assert isinstance(t, Array)
    record = env[o.array][_index(o, o.array, o.indices, env)]
    scalar = scalar_of(t.dtype)
    inside = () if scalar is None else element_shape(t.dtype)
    dtype = structured_dtype(t.dtype) if isinstance(t.dtype, Struct) else numpy_dtype(scalar)
    strides = [dtype.itemsize * int(np.prod(inside[k + 1 :])) for k in range(len(inside))]
    shape = [*record["shape"].tolist(), *inside]
    reach = sum((n - 1) * s for n, s in zip(shape, [*record["strides"].tolist(), *strides], strict=True))
    if 0 in shape:
        return [np.empty(shape, dtype)]
    memory = (ctypes.c_char * (reach + dtype.itemsize)).from_address(int(record["data"]))
    return [np.ndarray(shape, dtype, memory, 0, [*record["strides"].tolist(), *strides])]


def _slice(m: _Thread, o: ops.Slice, env: Env) -> list[Any]:
    array = env[o.array]
    start, count, step = ([int(env[i]) for i in part] for part in (o.start, o.count, o.step))
    spans = {axis: (n, by) for axis, n, by in zip(o.kept, count, step, strict=True)}
    if 0 in count:
        return [np.empty([*count, *array.shape[len(start) :]], array.dtype)]
    at: list[Any] = []
    for axis, first in enumerate(start):
        n, by = spans.get(axis, (1, 1))
        last = first + (n - 1) * by
        if not (0 <= first < array.shape[axis] and 0 <= last < array.shape[axis]):
            raise IndexError(f"slice at {o.loc}: {first} to {last} is outside shape {array.shape}")
        at.append(range(first, last + (1 if by > 0 else -1), by) if axis in spans else first)
    for axis in reversed(range(len(at))):
        index = at[axis] if isinstance(at[axis], int) else slice(at[axis].start, _stop(at[axis]), at[axis].step)
        array = array[(slice(None),) * axis + (index,)]
    return [array]


def _stop(r: range) -> int | None:
    return r.stop if r.stop >= 0 else None


def _get_field(m: _Thread, o: ops.GetField, env: Env) -> list[Any]:
    return [env[o.x][o.field]]


def _load(m: _Thread, o: ops.Load, env: Env) -> list[Any]:
    return [_read(env[o.array][_index(o, o.array, o.indices, env)], o.result.type)]


def _store(m: _Thread, o: ops.Store, env: Env) -> list[Any]:
    _write(env[o.array], _index(o, o.array, o.indices, env), env[o.value], o.value.type)
    return []


def _load_consecutive(m: _Thread, o: ops.LoadConsecutive, env: Env) -> list[Any]:
    *outer, last = _index(o, o.array, o.indices, env)
    return [_read(env[o.array][(*outer, last + k)], r.type) for k, r in enumerate(o.results)]


def _store_consecutive(m: _Thread, o: ops.StoreConsecutive, env: Env) -> list[Any]:
    *outer, last = _index(o, o.array, o.indices, env)
    for k, v in enumerate(o.values):
        _write(env[o.array], (*outer, last + k), env[v], v.type)
    return []


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "min": np.fmin,
    "max": np.fmax,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "take": lambda old, x: x,
}
"""What each kind of atomic update leaves, by NumPy: tests of the table of atomics compare with it."""


def _atomic(m: _Thread, o: ops.Atomic, env: Env) -> list[Any]:
    at = _index(o, o.array, o.indices, env)
    old = _read(env[o.array][at], o.result.type)
    _write(env[o.array], at, coerce(COMBINE[o.kind](old, env[o.value]), o.value.type), o.value.type)
    return [old]


def _bits(x: Any) -> Any:
    """The bits of numbers, as integers."""
    numbers = np.asarray(x)
    return numbers.view(f"u{numbers.dtype.itemsize}")


def _atomic_cas(m: _Thread, o: ops.AtomicCas, env: Env) -> list[Any]:
    at = _index(o, o.array, o.indices, env)
    old = _read(env[o.array][at], o.result.type)
    found, compare = (coerce(x, o.value.type) for x in (old, env[o.compare]))
    new = np.where(_bits(found) == _bits(compare), env[o.value], old)
    _write(env[o.array], at, coerce(new, o.value.type), o.value.type)
    return [old]


def _index(o: Op, array: Value, indices: tuple[Value, ...], env: Env) -> tuple[int, ...]:
    at = tuple(int(env[i]) for i in indices)
    shape = env[array].shape
    if any(not 0 <= i < n for i, n in zip(at, shape, strict=False)):
        raise IndexError(f"{o.NAME} at {o.loc}: index {at} is outside shape {shape} of {array!r}")
    return at


def _read(raw: Any, t: Type) -> Any:
    if isinstance(t, Struct):
        return tuple(_read(raw[name], field) for name, field in t.fields)
    if scalar_of(t) == bfloat16 and raw.dtype == np.uint16:
        raw = bits_to_bfloat16(raw)
    return coerce(np.array(raw), t)


def _write(array: np.ndarray, at: tuple[int, ...], value: Any, t: Type) -> None:
    if scalar_of(t) == bfloat16 and array.dtype == np.uint16:
        value = (np.asarray(value).view(np.uint32) >> 16).astype(np.uint16)
    array[at] = _record(value, t) if isinstance(t, Struct) else value


def _record(value: Any, t: Struct) -> tuple[Any, ...]:
    return tuple(_record(x, f) if isinstance(f, Struct) else x for x, (_, f) in zip(value, t.fields, strict=True))


def _print(m: _Thread, o: ops.Print, env: Env) -> list[Any]:
    text = o.parts[0]
    for v, form, after in zip(o.args, o.formats or ("",) * len(o.args), o.parts[1:], strict=True):
        text += (_c_format(form, v.type, env[v]) if form else _show(env[v])) + after
    m.printed.append(text)
    return []


def _c_format(form: str, t: Type, x: Any) -> str:
    assert isinstance(t, Scalar)
    x = float(x) if form[-1] in "eEfFgG" else int(x)
    if form[-1] in "uoxX" and x < 0:
        x += 1 << t.bits
    return form.replace("ll", "").replace("u", "d") % x


def _check(m: _Thread, o: ops.Check, env: Env) -> list[Any]:
    if not env[o.ok]:
        raise FAULTS[o.kind].exception(f"{o.text.format(*(env[v] for v in o.values))} at {o.loc}")
    return []


def _show(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"[{', '.join(_show(c) for c in x)}]"
    return f"{float(x):g}" if isinstance(x, np.floating) else str(x)


def _push(m: _Thread, o: ops.Push, env: Env) -> list[Any]:
    m.stack.append((o.slot, env[o.value]))
    return []


def _pop(m: _Thread, o: ops.Pop, env: Env) -> list[Any]:
    if not m.stack or m.stack[-1][0] != o.slot:
        top = f"the top is slot {m.stack[-1][0]}" if m.stack else "the stack is empty"
        raise InterpreterError(f"pop of slot {o.slot}, but {top}")
    return [coerce(m.stack.pop()[1], o.result.type)]


def _if(m: _Thread, o: ops.If, env: Env) -> list[Any]:
    return m.block(o.then if env[o.cond] else o.orelse, env)


def _for(m: _Thread, o: ops.For, env: Env) -> list[Any]:
    lo, hi, step = int(env[o.lo]), int(env[o.hi]), int(env[o.step])
    carried = [env[v] for v in o.init]
    for i in range(lo, hi, step) if step else ():
        carried = m.enter(o.body, env, [coerce(i, o.lo.type), *carried])
    return carried


def _while(m: _Thread, o: ops.While, env: Env) -> list[Any]:
    carried = [env[v] for v in o.init]
    while m.enter(o.cond, env, carried)[0]:
        carried = m.enter(o.body, env, carried)
    return carried


def _call(m: _Thread, o: ops.Call | ops.Outlined, env: Env) -> list[Any]:
    return m.call(o.callee, [env[v] for v in o.args])


_EXECUTE: dict[type[Op], Callable[[_Thread, Any, Env], list[Any]]] = {
    ops.Constant: _constant,
    ops.Apply: _apply,
    ops.Cast: _cast,
    ops.Bitcast: _bitcast,
    ops.Make: _make,
    ops.Extract: _extract,
    ops.Insert: _insert,
    ops.Tid: _tid,
    ops.GridDim: _grid_dim,
    ops.Dim: _dim,
    ops.View: _view,
    ops.Slice: _slice,
    ops.NestedArray: _nested,
    ops.Components: _components,
    ops.Empty: _empty,
    ops.Fill: _fill,
    ops.LocalArray: _local_array,
    ops.Table: lambda m, o, env: [np.array(o.values, numpy_dtype(o.result.type.dtype))],
    ops.AtAddress: _at_address,
    ops.IsLive: lambda m, o, env: [True],
    ops.GetField: _get_field,
    ops.Load: _load,
    ops.Store: _store,
    ops.LoadConsecutive: _load_consecutive,
    ops.StoreConsecutive: _store_consecutive,
    ops.Atomic: _atomic,
    ops.AtomicCas: _atomic_cas,
    ops.Print: _print,
    ops.Check: _check,
    ops.Breakpoint: lambda m, o, env: [],
    ops.Barrier: lambda m, o, env: [],  # a block is one thread
    ops.Push: _push,
    ops.Pop: _pop,
    ops.If: _if,
    ops.For: _for,
    ops.While: _while,
    ops.Call: _call,
    ops.Outlined: _call,
}


# --- builtins -----------------------------------------------------------------------------------------------


def apply(name: str, types: tuple[Type, ...], args: Sequence[Any], results: tuple[Type, ...]) -> list[Any]:
    """Return the results of builtin ``name``: by body, by components, by the table here, or by reference."""
    return _Meaning(name, types, results)(args)


_of_bodies: dict[Op, Any] = {}
"""What is known of the ops of builtins' bodies, which stay (``_lookup``)."""


class _Meaning:
    """What a builtin does with arguments of some types."""

    def __init__(self, name: str, types: tuple[Type, ...], results: tuple[Type, ...]) -> None:
        self.types, self.results = types, results
        self.body, self.scalar, self.fn = _lookup(name, types)
        if self.body is None and self.scalar is None and self.fn is None:
            raise NotImplementedError(f"the interpreter does not know {name}({', '.join(map(str, types))})")
        self.forms = [None if has_fields(t) else form_of(t) for t in results] if self.fn is not None else []

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.fn is not None:
            got = self.fn(*args)
            several = got if isinstance(got, tuple) else (got,)
            pairs = zip(several, self.forms, strict=True)
            return [x if form is None else formed(x, form) for x, form in pairs]
        if self.body is not None:
            return _Thread((0,), (1,), [], [MAX_STEPS], _of_bodies).call(self.body, args)
        assert self.scalar is not None
        return [_elementwise(self.scalar, self.types, args, self.results[0])]


@functools.lru_cache(maxsize=4096)
def _lookup(name: str, types: tuple[Type, ...]) -> tuple[Function | None, str | None, Callable[..., Any] | None]:
    """The body of a builtin, the scalar builtin that it is by components, or its function on values."""
    row = resolve(name, types).overload
    body = body_of(row.lower)
    if body is not None:
        return _expanded(row, body, types), None, None
    if isinstance(row.lower, Elementwise):
        return None, row.lower.scalar, None
    return None, None, INSTRUCTIONS.get(name, row.ref)


def _expanded(row: Overload, body: Expand, types: tuple[Type, ...]) -> Function:
    f = Function(row.name, [Value(t) for t in types], role="func")
    b = Emitter(f.body)
    got = body.body(b, *f.params)
    values = () if got is None else (got,) if isinstance(got, Value) else tuple(got)
    b.yield_(*values)
    f.results = tuple(v.type for v in values)
    return f


def _elementwise(scalar: str, types: tuple[Type, ...], args: Sequence[Any], result: Type) -> Any:
    out = scalar_of(result)
    inner = tuple(scalar_of(t) for t in types)
    assert out is not None
    assert None not in inner
    count = max(np.size(a) for a in args)
    columns = [np.ravel(a) if np.size(a) == count else [a] * count for a in args]
    of_one = _Meaning(scalar, inner, (out,))  # type: ignore[arg-type]
    made = [of_one(row)[0] for row in zip(*columns, strict=True)]
    return coerce(made, result)


def _divide(a: Any, b: Any) -> Any:
    if not isinstance(a, np.integer):
        return a / b
    return _truncated(a, b)


def _truncated(a: Any, b: Any) -> Any:
    if b == 0:
        return a.dtype.type(0)
    quotient = abs(int(a)) // abs(int(b))
    return _wrap(-quotient if (a < 0) != (b < 0) else quotient, a.dtype)


def _remainder(a: Any, b: Any) -> Any:
    if not isinstance(a, np.integer):
        return np.fmod(a, b)
    if b == 0:
        return a.dtype.type(0)
    return _wrap(int(a) - int(b) * (abs(int(a)) // abs(int(b))) * (-1 if (a < 0) != (b < 0) else 1), a.dtype)


def _wrap(x: int, dtype: np.dtype[Any]) -> Any:
    info = np.iinfo(dtype)
    return dtype.type((x - int(info.min)) % (1 << info.bits) + int(info.min))


def _shift(left: bool) -> Callable[[Any, Any], Any]:
    def fn(a: Any, b: Any) -> Any:
        amount = int(b) & (a.dtype.itemsize * 8 - 1)
        return _wrap(int(a) << amount if left else int(a) >> amount, a.dtype)

    return fn


INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "mod": _remainder,
    "neg": lambda a: -a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: np.all(a == b),
    "ne": lambda a, b: np.any(a != b),
    "unot": lambda a: a == 0,
    "where": lambda c, a, b: a if c else b,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "invert": lambda a: ~a,
    "lshift": _shift(True),
    "rshift": _shift(False),
}
"""The builtins that backends lower by hand, whose meaning is settled by the language and not by NumPy."""
