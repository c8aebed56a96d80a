"""The rules that every function obeys between passes. A violation is a bug in the compiler, never a user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from warp_like.ir import ops
from warp_like.ir.atomics import KINDS
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.objects import DESCRIPTORS
from warp_like.ir.rules import Rule
from warp_like.ir.types import (
    Array,
    Lanes,
    Mat,
    Scalar,
    Struct,
    Tile,
    Type,
    Vec,
    bool_,
    component_type,
    element_count,
    int32,
    int64,
    is_scattered,
    lane_type,
    scalar_of,
    uint64,
)


class InvalidIR(AssertionError):
    """IR that breaks a rule; the message names the op and the rule."""


def verify(f: Function, rules: Sequence[Rule] = ()) -> None:
    """Check ``f``, and that it obeys ``rules``.

    Raises:
        InvalidIR: A value used before it is defined or outside its block, a block without its ``Yield``, operand types
            that an op does not take, or an op that breaks a rule.
    """
    yielded = _Verifier(rules).block(f.body)
    if yielded != f.results:
        _fail(f.body.ops[-1], f"yields {_list(yielded)}, the function returns {_list(f.results)}")


class _Verifier:
    """One walk through a function. What it keeps is small, so that tests can afford to verify after each pass."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.known: set[Value] = set()  # what may be used at this place
        self.lanes: set[Value] = set()  # the values seen so far that are ``Lanes``
        self.slots: dict[int, Type] = {}  # what the stack's slots hold
        self.rules: dict[type[Op], list[Rule]] = {}
        for rule in rules:
            for cls in rule.among:
                self.rules.setdefault(cls, []).append(rule)
        self.type_rules = [rule for rule in rules if rule.broken_by is not None]
        self.checked: set[int] = set()  # the ids of types that have been checked

    def block(self, b: Block) -> tuple[Type, ...]:
        """Check a block; return the types that it yields."""
        known = self.known
        if not known.isdisjoint(b.params):
            raise InvalidIR("a block parameter is defined outside the block")
        if not b.ops or not isinstance(b.ops[-1], ops.Yield):
            raise InvalidIR("a block does not end in a yield")
        defined = list(b.params)
        known.update(defined)
        for v in b.params:
            if id(v.type) not in self.checked or type(v.type) is Lanes:
                self.type(v, b.ops[-1])
        last = b.ops[-1]
        for o in b.ops:
            if o is not last and type(o) is ops.Yield:
                _fail(o, "in the middle of a block")
            self.op(o)
            defined += o.results
            known.update(o.results)
        known.difference_update(defined)
        return tuple(v.type for v in b.yielded)

    def op(self, o: Op) -> None:
        """Check an op and the blocks in it."""
        operands, known = o.operands(), self.known
        if not known.issuperset(operands):
            missing = next(v for v in operands if v not in known)
            _fail(o, f"operand {missing!r} is not defined here")
        cls = type(o)
        has_lanes = cls in _MADE_FOR_LANES or bool(self.lanes and not self.lanes.isdisjoint(operands))
        for r in o.results:
            if r.op is not o:
                _fail(o, "a result that does not point back to its op")
            if r in known:
                _fail(o, "a value defined twice")
            has_lanes = has_lanes or type(r.type) is Lanes
        if has_lanes:
            _check_lanes(o, operands)
        elif "mask" in cls._OPERANDS:
            _require(not o.__dict__["mask"], o, "lanes have masks, single values none")
        check = _PLAIN.get(cls)
        if check is not None:
            check(o)
        elif cls in _IN_CONTEXT:
            _IN_CONTEXT[cls](self, o)
        for rule in self.rules.get(cls, ()):
            assert rule.broken is not None
            _require(not rule.broken(o), o, rule.text)
        for r in o.results:
            if id(r.type) not in self.checked or type(r.type) is Lanes:
                self.type(r, o)

    def type(self, v: Value, o: Op) -> None:
        """Check the type of ``v``, a value of the op ``o`` or a parameter of the block that it ends."""
        if type(v.type) is Lanes:
            self.lanes.add(v)
        for rule in self.type_rules:
            assert rule.broken_by is not None
            _require(not rule.broken_by(v.type), o, rule.text)
        self.checked.add(id(v.type))

    def if_(self, o: ops.If) -> None:
        """Check a branch."""
        _require(o.cond.type == bool_, o, "condition is not a bool")
        for r in o.regions():
            _require(not r.params, o, "a branch with parameters")
            _require(self.block(r) == _types(o.results), o, "a branch yields other types than the results")

    def for_(self, o: ops.For) -> None:
        """Check a counted loop."""
        i = o.lo.type
        _require(isinstance(i, Scalar) and i.is_int, o, "bounds are not integers")
        _require(o.hi.type == i and o.step.type == i, o, "bounds differ in type")
        _require(_types(o.body.params) == (i, *_types(o.init)), o, "body parameters do not match")
        _require(self.block(o.body) == _types(o.init) == _types(o.results), o, "carried types differ")

    def while_(self, o: ops.While) -> None:
        """Check a loop with a condition."""
        for r in o.regions():
            _require(_types(r.params) == _types(o.init), o, "block parameters do not match")
        _require(self.block(o.cond) == (bool_,), o, "condition does not yield one bool")
        _require(self.block(o.body) == _types(o.init) == _types(o.results), o, "carried types differ")

    def stack(self, o: ops.Push | ops.Pop) -> None:
        """Check that a slot of the stack holds values of one type."""
        t = o.value.type if isinstance(o, ops.Push) else o.result.type
        if self.slots.setdefault(o.slot, t) != t:
            _fail(o, f"slot {o.slot} holds {self.slots[o.slot]} elsewhere")

    def call(self, o: ops.Call) -> None:
        """Check a call."""
        _require(_types(o.args) == _types(o.callee.params), o, "arguments do not match the callee")
        _require(_types(o.results) == o.callee.results, o, "results do not match the callee")


def _check_outlined(o: ops.Outlined) -> None:
    _require(_types(o.args) == _types(o.callee.params) or bool(o.mask), o, "arguments do not match the callee")
    _require(tuple(map(_lane, o.results)) == o.callee.results, o, "results do not match the callee")


_IN_CONTEXT: dict[type[Op], Callable[[_Verifier, Any], None]] = {
    ops.If: _Verifier.if_,
    ops.For: _Verifier.for_,
    ops.While: _Verifier.while_,
    ops.Call: _Verifier.call,
    ops.Push: _Verifier.stack,
    ops.Pop: _Verifier.stack,
}


def _check_native(o: ops.Native) -> None:
    wanted = tuple(t for _, t in o.code.params)
    _require(tuple(map(_lane, o.args)) == wanted, o, "arguments do not match the parameters")
    _require(tuple(map(_lane, o.results)) == o.code.results, o, "results do not match the code")


def _check_load(o: ops.Load) -> None:
    _require(_lane(o.result) == _element(o, o.array, o.indices), o, "result is not the element type")


def _check_store(o: ops.Store) -> None:
    _require(_lane(o.value) == _element(o, o.array, o.indices), o, "value is not of the element type")


def _check_consecutive(o: ops.LoadConsecutive | ops.StoreConsecutive) -> None:
    t = _element(o, o.array, o.indices)
    values = o.results if isinstance(o, ops.LoadConsecutive) else o.values
    _require(bool(values) and all(_lane(v) == t for v in values), o, "a value is not of the element type")


def _check_atomic(o: ops.Atomic) -> None:
    _require(o.kind in KINDS, o, "no such kind of update")
    t = _element(o, o.array, o.indices)
    _require(_lane(o.value) == t == _lane(o.result), o, "value is not of the element type")


def _check_cas(o: ops.AtomicCas) -> None:
    t = _element(o, o.array, o.indices)
    _require(_lane(o.value) == t == _lane(o.compare) == _lane(o.result), o, "value is not of the element type")


def _check_field(o: ops.GetField) -> None:
    s = _lane(o.x)
    _require(isinstance(s, Struct) and 0 <= o.field < len(s.fields), o, "no such field")
    assert isinstance(s, Struct)
    _require(_lane(o.result) == s.fields[o.field][1], o, "result is not the type of the field")


def _check_check(o: ops.Check) -> None:
    _require(_lane(o.ok) == bool_, o, "condition is not a bool")
    _require(all(isinstance(_lane(v), Scalar) for v in o.values), o, "a value is no scalar")


def _check_print(o: ops.Print) -> None:
    _require(len(o.parts) == len(o.args) + 1, o, "needs one part more than arguments")
    _require(len(o.formats) in (0, len(o.args)), o, "needs a format for each argument, or none")


def _check_dim(o: ops.Dim) -> None:
    a = _lane(o.array)
    _require(isinstance(a, Array) and 0 <= o.axis < a.ndim, o, "no such axis")
    _require(_lane(o.result) in (int32, int64), o, "an extent is int32 or int64")


def _check_tid(o: ops.Tid | ops.GridDim) -> None:
    _require(0 <= o.axis < o.ndim, o, "no such axis")
    _require(o.result.type in (int32, int64), o, "a thread's index is int32 or int64")


def _check_constant(o: ops.Constant) -> None:
    if not _is_constant_of(o.value, _lane(o.result)):
        _fail(o, f"{o.value!r} is not a {_lane(o.result)}")


def _check_empty(o: ops.Empty) -> None:
    _require(isinstance(_lane(o.result), (Vec, Mat, Tile)), o, "has no components")


def _check_fill(o: ops.Fill) -> None:
    t = o.result.type
    _require(isinstance(t, Tile) and o.x.type == t.dtype, o, "it is no tile of such elements")


def _check_contract(o: ops.Contract) -> None:
    x, y, t = o.x.type, o.y.type, o.result.type
    _require(all(isinstance(a, Tile) and len(a.shape) == 2 for a in (x, y, t)), o, "it is not of matrices")
    assert isinstance(x, Tile)
    assert isinstance(y, Tile)
    assert isinstance(t, Tile)
    (m, k), (j, n) = x.shape[:: -1 if o.turned_x else 1], y.shape[:: -1 if o.turned_y else 1]
    _require(k == j and t.shape == (m, n), o, "extents do not fit")
    _require(x.dtype == y.dtype, o, "the factors' types differ")
    _require(len(o.plus) <= 1 and all(v.type == t for v in o.plus), o, "adds to another type")


def _check_contract_in_memory(o: ops.ContractInMemory) -> None:
    arrays = [o.out.type, o.x.type, o.y.type]
    _require(all(isinstance(a, Array) and a.ndim == 1 for a in arrays), o, "an array has not one dimension")
    _require(o.out not in (o.x, o.y), o, "writes into a factor")


def _check_tile_of_threads(o: ops.TileOfThreads) -> None:
    t = o.result.type
    _require(isinstance(t, Tile) and len(t.shape) == 1 and o.x.type == t.dtype, o, "it is no row of such elements")


def _check_make(o: ops.Make) -> None:
    t = _lane(o.result)
    given = tuple(map(_lane, o.elements))
    if isinstance(t, (Struct, Array)):
        fields = tuple(f for _, f in t.fields) if isinstance(t, Struct) else ()
        _require(given == fields, o, "elements are not the fields")
        return
    _require(given == (scalar_of(t),) * element_count(t), o, "elements do not fit the type")


def _check_extract(o: ops.Extract) -> None:
    _require(_lane(o.result) == _component(o, _lane(o.x), o.indices), o, "result is not the component type")


def _check_insert(o: ops.Insert) -> None:
    _require(_lane(o.value) == _component(o, _lane(o.x), o.indices), o, "value is not the component type")
    _require(_lane(o.result) == _lane(o.x), o, "result type differs")


def _check_cast(o: ops.Cast) -> None:
    a, t = _lane(o.x), _lane(o.result)
    _require(type(a) is type(t) and element_count(a) == element_count(t), o, "shapes differ")


def _check_bitcast(o: ops.Bitcast) -> None:
    a, t = _lane(o.x), _lane(o.result)
    _require(isinstance(a, Scalar) and isinstance(t, Scalar) and a.bits == t.bits, o, "widths differ")


def _check_view(o: ops.View) -> None:
    a = _lane(o.array)
    if o.field is None:
        _require(isinstance(a, Array) and 0 < len(o.indices) < a.ndim, o, "view with a wrong number of indices")
        return
    _require(isinstance(a, Array) and isinstance(a.dtype, Struct) and not o.indices, o, "no array of structs")
    assert isinstance(a, Array)
    assert isinstance(a.dtype, Struct)
    wanted = Array(a.dtype.fields[o.field][1], a.ndim)
    _require(_lane(o.result) == wanted, o, "result is not the array of the field")


def _check_components(o: ops.Components) -> None:
    a = _lane(o.array)
    element, ndim = (a.dtype, a.ndim) if isinstance(a, Array) else (a, 0)
    scalar = scalar_of(element)
    _require(isinstance(element, (Vec, Mat)) and scalar is not None, o, "its elements have no components")
    assert scalar is not None
    _require(_lane(o.result) == Array(scalar, ndim + 1), o, "result is not the array of the components")


def _check_nested_array(o: ops.NestedArray) -> None:
    t = _lane(o.result)
    _require(isinstance(t, Array) and t == _element(o, o.array, o.indices), o, "result is not the element type")


def _check_local_array(o: ops.LocalArray) -> None:
    t = _lane(o.result)
    _require(isinstance(t, Array) and t.ndim == len(o.shape) and all(n > 0 for n in o.shape), o, "bad shape")


def _check_table(o: ops.Table) -> None:
    t = o.result.type
    _require(isinstance(t, Array) and t.ndim == 1 and isinstance(t.dtype, Scalar) and bool(o.values), o, "bad table")


def _check_at_address(o: ops.AtAddress) -> None:
    t = o.result.type
    _require(isinstance(t, Array) and t.ndim == len(o.shape), o, "needs an extent for each dimension")
    addresses = (o.address, *o.gradient)
    _require(all(a.type == uint64 for a in addresses) and len(addresses) < 3, o, "an address is uint64")
    _require(all(map(_is_int, o.shape)), o, "extents are int")


def _check_is_live(o: ops.IsLive) -> None:
    _require(o.id.type == uint64 and o.result.type == bool_ and o.kind in DESCRIPTORS, o, "an id is a uint64")


def _check_search(o: ops.Search) -> None:
    _require(len(o.results) == 1, o, "gives one value")


def _check_address(o: ops.Address) -> None:
    _require(isinstance(o.array.type, Array) and o.result.type == uint64, o, "the address of an array is uint64")


def _check_slice(o: ops.Slice) -> None:
    a = _lane(o.array)
    _require(isinstance(a, Array) and len(o.start) == a.ndim, o, "needs a start for each dimension")
    assert isinstance(a, Array)
    kept = list(o.kept)
    _require(kept == sorted(set(kept)) and set(kept) <= set(range(a.ndim)), o, "no such dimensions")
    _require(len(o.count) == len(o.step) == len(kept), o, "needs count and step for each kept dimension")
    _require(all(map(_is_int, (*o.start, *o.count, *o.step))), o, "an index is not an integer")
    _require(_lane(o.result) == Array(a.dtype, len(kept)), o, "result is not the array of the kept dimensions")


_PLAIN: dict[type[Op], Callable[[Any], None]] = {
    ops.Native: _check_native,
    ops.Load: _check_load,
    ops.Store: _check_store,
    ops.LoadConsecutive: _check_consecutive,
    ops.StoreConsecutive: _check_consecutive,
    ops.Atomic: _check_atomic,
    ops.AtomicCas: _check_cas,
    ops.GetField: _check_field,
    ops.View: _check_view,
    ops.Slice: _check_slice,
    ops.Components: _check_components,
    ops.NestedArray: _check_nested_array,
    ops.LocalArray: _check_local_array,
    ops.Table: _check_table,
    ops.AtAddress: _check_at_address,
    ops.IsLive: _check_is_live,
    ops.Search: _check_search,
    ops.Outlined: _check_outlined,
    ops.Address: _check_address,
    ops.Check: _check_check,
    ops.Print: _check_print,
    ops.Dim: _check_dim,
    ops.Tid: _check_tid,
    ops.GridDim: _check_tid,
    ops.Constant: _check_constant,
    ops.Empty: _check_empty,
    ops.Fill: _check_fill,
    ops.TileOfThreads: _check_tile_of_threads,
    ops.Contract: _check_contract,
    ops.ContractInMemory: _check_contract_in_memory,
    ops.Make: _check_make,
    ops.Extract: _check_extract,
    ops.Insert: _check_insert,
    ops.Cast: _check_cast,
    ops.Bitcast: _check_bitcast,
}
"""The ops whose check needs no more than the op, by their class."""

_MADE_FOR_LANES = (ops.Broadcast, ops.Iota, ops.LaneReduce, ops.Compress)


def _check_lanes(o: Op, operands: Sequence[Value]) -> None:
    """Check which operands and results of ``o`` are ``Lanes``, of which it has some or should have."""
    wide = [isinstance(v.type, Lanes) for v in operands]
    results = [isinstance(r.type, Lanes) for r in o.results]
    match o:
        case ops.Apply() | ops.Cast() | ops.Bitcast() | ops.Make():
            _require(len({*wide, *results}) <= 1, o, "mixes lanes and single values")
        case ops.Extract() | ops.Insert():
            _require(isinstance(o.x.type, Lanes) == results[0], o, "mixes lanes and single values")
        case ops.Load() | ops.Store() | ops.Atomic():
            _require(
                any(wide) == bool(o.mask) == all(results or [any(wide)]), o, "lanes have masks, single values none"
            )
        case ops.NestedArray():
            same = any(wide) == bool(o.mask) == is_scattered(o.result.type)
            _require(same, o, "lanes have masks and scattered arrays, single values none")
        case ops.Dim():
            _require(wide == results == [is_scattered(o.array.type)], o, "lanes have other extents where scattered")
        case ops.LoadConsecutive() | ops.StoreConsecutive():
            given = o.results if isinstance(o, ops.LoadConsecutive) else o.values
            is_wide = bool(o.mask) and all(isinstance(v.type, Lanes) for v in given)
            _require(is_wide and not isinstance(o.array.type, Lanes), o, "is for lanes, and no array of their own")
        case _ if isinstance(o, ops.LANE_BY_LANE):
            same = any(wide) == bool(o.mask) and all(r == bool(o.mask) for r in results)
            _require(same, o, "lanes have masks, single values none")
        case ops.Broadcast() | ops.Iota():
            _require(not wide[0] and results[0], o, "does not make lanes of a single value")
        case ops.Compress():
            same = (
                isinstance(o.x.type, Lanes)
                and o.result.type == o.x.type
                and o.kept.type == Lanes(bool_, o.x.type.width)
            )
            _require(same, o, "moves lanes by a mask of as many")
        case ops.LaneReduce():
            known = o.kind in ("any", "bits", "last") or (o.kind in KINDS and KINDS[o.kind].reduction == o.kind)
            _require(known, o, "no such reduction")
            _require(wide[0] and not results[0], o, "does not make a single value of lanes")
    for m in getattr(o, "mask", ()):
        _require(_lane(m) == bool_ and isinstance(m.type, Lanes), o, "the mask is not one bool a lane")


def _lane(v: Value) -> Type:
    return lane_type(v.type)


def _is_constant_of(value: object, t: Type) -> bool:
    scalar = scalar_of(t)
    if scalar is None or isinstance(value, tuple) == isinstance(t, Scalar):
        return False
    values = value if isinstance(value, tuple) else (value,)
    kind = bool if scalar.is_bool else float if scalar.is_float else int
    return len(values) == element_count(t) and all(type(v) is kind for v in values)


def _element(o: Op, array: Value, indices: tuple[Value, ...]) -> Type:
    t = _lane(array)
    if not isinstance(t, Array):
        raise InvalidIR(f"{o.NAME}: {t} is not an array")
    _require(len(indices) == t.ndim, o, "needs one index a dimension")
    _require(all(_is_int(i) for i in indices), o, "an index is not an integer")
    return t.dtype


def _component(o: Op, t: Type, indices: tuple[Value, ...]) -> Type:
    _require(all(_is_int(i) for i in indices), o, "an index is not an integer")
    try:
        return component_type(t, len(indices))
    except TypeError:
        raise InvalidIR(f"{o.NAME}: {len(indices)} indices into {t}") from None


def _is_int(v: Value) -> bool:
    t = lane_type(v.type)
    return isinstance(t, Scalar) and t.is_int


def _types(values: tuple[Value, ...] | list[Value]) -> tuple[Type, ...]:
    return tuple(v.type for v in values)


def _list(types: tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, types))})"


def _require(ok: bool, o: Op, rule: str) -> None:
    if not ok:
        _fail(o, rule)


def _fail(o: Op, rule: str) -> NoReturn:
    raise InvalidIR(f"{o.NAME} at {o.loc}: {rule}")
