"""The oracle's tiles: lists of elements, and which of them stand where.

A part of a tile has the same list, so what is written through one is seen through the other. A tile that no variable
holds is a value: its parts are copies. Linear algebra is NumPy's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.fuzz import aggregates, scalars
from tests.fuzz.aggregates import Aggregate, AggregateType, Held, Struct, component, converted, in_range
from tests.fuzz.memory import Arr
from tests.fuzz.scalars import FLOAT32, INT32, InvalidProgram, ScalarType, alike, default, rounded

At = tuple[int, ...]


class Tile(Held):
    """A tile, or a part of one.

    Attributes:
        cells: The elements of the whole tile.
        where: Which of them stands at each index.
        type: The type of the elements.
        is_held: Whether a variable holds it, or what it is a part of.
        is_part: Whether it is a part of a tile that a variable holds.
    """

    def __init__(self, cells: list[Any], where: np.ndarray, t: Any) -> None:
        self.cells, self.where, self.type = cells, where, t
        self.is_held = self.is_part = False

    @property
    def shape(self) -> At:
        return self.where.shape

    @property
    def dtype(self) -> Any:
        return self.type

    def __len__(self) -> int:
        return len(self.where)

    def places(self) -> Iterator[At]:
        return itertools.product(*map(range, self.shape))

    def load(self, at: At) -> Any:
        return aggregates.copied(self.cells[self.where[at]])

    def save(self, at: At, x: Any) -> None:
        x = converted(x, self.type)
        if isinstance(self.type, type) and not isinstance(x, self.type):
            raise InvalidProgram("another struct is stored")
        self.cells[self.where[at]] = aggregates.copied(x)

    def elements(self) -> list[Any]:
        return [self.load(at) for at in self.places()]

    def copy(self) -> Tile:
        """What a variable holds that is assigned this."""
        if self.is_part:
            return self
        made = self.value()
        made.is_held = True
        return made

    def value(self) -> Tile:
        """A tile of its own with the same elements, as a function returns it."""
        return of(self.elements(), self.shape, self.type)

    def given(self) -> Tile:
        """What a function is given: this tile, by reference."""
        return self if self.is_held else self.copy()

    def part(self, where: np.ndarray) -> Tile:
        made = Tile(self.cells, where, self.type)
        made.is_held = made.is_part = self.is_held
        return made if self.is_held else made.value()

    # --- indices --------------------------------------------------------------------------------------------

    def __getitem__(self, at: Any) -> Any:
        found = self.selected(at)
        return self.load(found) if isinstance(found, tuple) else found

    def selected(self, at: Any) -> Any:
        """The index of one element, or a part, or a copy of what a tile of indices chooses."""
        at = at if isinstance(at, tuple) else (at,)
        if any(isinstance(i, Tile) for i in at):
            return self.gathered(at)
        if len(at) > self.where.ndim:
            raise InvalidProgram("too many indices")
        found = tuple(
            _span(i) if isinstance(i, slice) else in_range(i, n) for i, n in zip(at, self.shape, strict=False)
        )
        if len(at) == self.where.ndim and not any(isinstance(i, slice) for i in found):
            return found
        where = self.where[found]
        if not where.size:
            raise InvalidProgram("an empty part")
        return self.part(where)

    def gathered(self, at: tuple[Any, ...]) -> Tile:
        (axis,) = (k for k, i in enumerate(at) if isinstance(i, Tile))
        chosen = [in_range(i, self.shape[axis]) for i in at[axis].elements()]
        where = np.take(self.where, chosen, axis)
        return Tile(self.cells, where, self.type).value()

    def __setitem__(self, at: Any, x: Any) -> None:
        found = self if isinstance(at, tuple) and not at else self.selected(at)
        if isinstance(found, tuple):
            self.save(found, x)
        else:
            found.assign(x)

    def store(self, steps: Sequence[tuple[str, Any]], x: Any, assign: Callable[..., None]) -> None:
        """``t[i][j].field = x``; ``assign`` is the same for values of other kinds."""
        (_, at), rest = steps[0], list(steps[1:])
        found = self.selected(at)
        if isinstance(found, Tile) and rest and rest[0][0] == "[":
            found.store(rest, x, assign)
        elif isinstance(found, tuple) and rest:
            element = self.load(found)
            assign(element, rest, x)
            self.save(found, element)
        else:
            self[at] = x

    def assign(self, x: Any) -> None:
        """Take over all elements of ``x``, which may be a part of the same tile."""
        if not isinstance(x, Tile) or x.shape != self.shape or x.type != self.type:
            raise InvalidProgram("another tile is assigned")
        for at, y in zip(self.places(), x.elements(), strict=True):
            self.save(at, y)

    def change(self, fn: Callable[..., Any], x: Any) -> None:
        """Let each element be ``fn`` of it and that of ``x``, one after the other."""
        others = x.elements() if isinstance(x, Tile) else [x] * self.where.size
        if isinstance(x, Tile) and x.shape != self.shape:
            raise InvalidProgram("tiles of two shapes")
        for at, y in zip(self.places(), others, strict=True):
            self.save(at, fn(self.load(at), y))


def _span(i: slice) -> slice:
    return slice(*(None if k is None else int(k) for k in (i.start, i.stop, i.step)))


def of(elements: Sequence[Any], shape: Sequence[int], t: Any) -> Tile:
    """A tile that no variable holds."""
    shape = tuple(shape)
    if not 1 <= len(shape) <= 4 or min(shape) < 1:
        raise InvalidProgram(f"no shape: {shape}")
    return Tile(list(elements), np.arange(math.prod(shape)).reshape(shape), t)


def type_of(x: Any) -> Any:
    """The type of an element."""
    return x.type if isinstance(x, Aggregate) else type(x) if isinstance(x, Struct) else scalars.type_of(x)


def made_of(elements: Sequence[Any], shape: Sequence[int]) -> Tile:
    return of(elements, shape, type_of(elements[0]))


def elementwise(fn: Callable[..., Any], *args: Any) -> Tile:
    """``fn`` of the elements; what is no tile is the same for all."""
    tiles = [a for a in args if isinstance(a, Tile)]
    if any(t.shape != tiles[0].shape for t in tiles):
        raise InvalidProgram("tiles of two shapes")
    count = tiles[0].where.size
    columns = [a.elements() if isinstance(a, Tile) else [a] * count for a in args]
    return made_of([fn(*xs) for xs in zip(*columns, strict=True)], tiles[0].shape)


def stays(t: Any) -> bool:
    """Whether sums of structs leave a field of type ``t``, a number or a vector, as it is."""
    scalar = getattr(t, "dtype", t)
    return bool(scalar.is_int and scalar.bits < 32)


def added(a: Any, b: Any, op: str = "Add") -> Any:
    """``a + b`` of two elements; of structs field by field, where integers of 8 or 16 bits stay."""
    if isinstance(a, Struct):
        pairs = [(t, getattr(a, n), getattr(b, n)) for n, t in a.fields.items()]
        return type(a)(*(x if stays(t) else added(x, y, op) for t, x, y in pairs))
    return aggregates.arithmetic(op, a, b) if isinstance(a, Aggregate) else scalars.binary(op, a, b)


def binary(op: str, a: Any, b: Any, of_elements: Callable[[str, Any, Any], Any]) -> Tile:
    """``a op b``, where one is a tile."""
    return elementwise(lambda x, y: added(x, y, op) if isinstance(x, Struct) else of_elements(op, x, y), a, b)


def total(elements: Sequence[Any]) -> Any:
    found = elements[0]
    for x in elements[1:]:
        found = added(found, x)
    return found


NEAR = 1e-9
"""How far apart, for their size, numbers are at most that another way of rounding could put in another order."""


def told_apart(t: Tile) -> list[Any]:
    """Return the elements of ``t``, which decide an order.

    Raises:
        InvalidProgram: Two are so near that rounding decides. One argument's sines are equal in Python, but not in
            vectors and behind them. Numbers of few bits are exact, so they may be equal.
    """
    found = t.elements()
    rounded = sorted(x for x in found if isinstance(x, np.float64) and np.isfinite(x) and (x * 1024) % 1)
    if any(b - a <= NEAR * abs(b) for a, b in itertools.pairwise(rounded)):
        raise InvalidProgram("rounding decides an order")
    return found


def whole(shape: Any) -> At:
    return tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)


def floats(t: Tile) -> np.ndarray:
    """The elements as float64."""
    return np.array([float(x) for x in t.elements()]).reshape(t.shape)


def tile_of(a: np.ndarray, t: ScalarType) -> Tile:
    return of([rounded(np.float64(x), t) for x in a.ravel()], a.shape, t)


class Stack:
    """A stack of at most ``capacity`` values."""

    def __init__(self, capacity: int, t: Any) -> None:
        self.capacity, self.type = capacity, t
        self.values: list[Any] = []


class TileName:
    """``wp.tile``: a function, and the annotation ``wp.tile[float, 4]``."""

    def __call__(self, x: Any, preserve_type: bool = False) -> Tile:
        if isinstance(x, Aggregate) and not preserve_type:
            return of(list(x.parts), (*x.type.shape, 1), x.dtype)
        return made_of([default(x)], (1,))

    def __getitem__(self, _: Any) -> None:
        return None


class TileNames:
    """The builtins of tiles."""

    tile = TileName()

    # --- making ---------------------------------------------------------------------------------------------

    def tile_zeros(self, shape: Any, dtype: Any = FLOAT32, storage: str = "") -> Tile:
        shape = whole(shape)
        return of([dtype() for _ in range(math.prod(shape))], shape, dtype)

    tile_empty = tile_zeros

    def tile_ones(self, shape: Any, dtype: Any = FLOAT32, storage: str = "") -> Tile:
        return self.tile_full(shape, dtype(1))

    def tile_full(self, shape: Any, value: Any, dtype: Any = None, storage: str = "") -> Tile:
        value = default(value) if dtype is None else scalars.cast(value, dtype)
        return made_of([aggregates.copied(value) for _ in range(math.prod(whole(shape)))], whole(shape))

    def tile_arange(self, *bounds: Any, dtype: Any = FLOAT32, storage: str = "") -> Tile:
        found = [scalars.cast(x, dtype) for x in np.arange(*(x for x in bounds)).tolist()]
        return of(found, (len(found),), dtype)

    def tile_randi(self, shape: Any, rng: Any) -> Tile:
        """Of a block of one thread, which leaves the first number out."""
        state, found = _pcg(int(rng)), []
        for _ in range(math.prod(whole(shape))):
            state = _pcg(state)
            found.append(scalars.cast(state, INT32))
        return of(found, whole(shape), INT32)

    def tile_from_thread(self, shape: Any, value: Any, thread_idx: Any, storage: str = "") -> Tile:
        return self.tile_full(shape, value)

    def untile(self, t: Tile) -> Any:
        parts = t.elements()
        return parts[0] if t.where.ndim == 1 else AggregateType(
            "vec" if t.where.ndim == 2 else "mat", t.shape[:-1], t.type
        )(*parts)  # fmt: skip

    # --- memory ---------------------------------------------------------------------------------------------

    def tile_load(self, a: Arr, shape: Any, offset: Any = None, bounds_check: bool = True, **_: Any) -> Tile:
        shape = whole(shape)
        places = [_moved(at, offset) for at in np.ndindex(shape)]
        return of([_loaded(a, at, bounds_check) for at in places], shape, a.type)

    def tile_store(self, a: Arr, t: Tile, offset: Any = None, bounds_check: bool = True, **_: Any) -> None:
        for at, x in zip(t.places(), t.elements(), strict=True):
            where = _moved(at, offset)
            if _inside(a, where, bounds_check):
                a.save(where, converted(x, a.type))

    def tile_load_indexed(self, a: Arr, indices: Tile, shape: Any, offset: Any = None, axis: int = 0, **_: Any) -> Tile:
        shape = whole(shape)
        return of([_loaded(a, _chosen(at, indices, offset, axis)) for at in np.ndindex(shape)], shape, a.type)

    def tile_store_indexed(self, a: Arr, indices: Tile, t: Tile, offset: Any = None, axis: int = 0) -> None:
        for at, x in zip(t.places(), t.elements(), strict=True):
            where = _chosen(at, indices, offset, axis)
            if _inside(a, where):
                a.save(where, converted(x, a.type))

    def tile_atomic_add(
        self, a: Arr, t: Tile, offset: Any = None, bounds_check: bool = True, used: bool = True
    ) -> Tile:
        return _updated(a, "add", t, [_moved(at, offset) for at in t.places()], used)

    def tile_atomic_min(
        self, a: Arr, t: Tile, offset: Any = None, bounds_check: bool = True, used: bool = True
    ) -> Tile:
        return _updated(a, "min", t, [_moved(at, offset) for at in t.places()], used)

    def tile_atomic_max(
        self, a: Arr, t: Tile, offset: Any = None, bounds_check: bool = True, used: bool = True
    ) -> Tile:
        return _updated(a, "max", t, [_moved(at, offset) for at in t.places()], used)

    def tile_atomic_add_indexed(
        self, a: Arr, indices: Tile, t: Tile, offset: Any = None, axis: int = 0, used: bool = True
    ) -> Tile:
        return _updated(a, "add", t, [_chosen(at, indices, offset, axis) for at in t.places()], used)

    # --- parts ----------------------------------------------------------------------------------------------

    def tile_view(self, t: Tile, offset: Any, shape: Any = None) -> Tile:
        if shape is None:
            return t[offset]
        shape, start = whole(shape), whole(offset)
        start += (0,) * (t.where.ndim - len(start))
        kept = t.where.ndim - len(shape)
        if any(not 0 <= i < n for i, n in zip(start, t.shape, strict=True)):
            raise InvalidProgram("a view outside of the tile")
        spans = tuple(slice(i, i + n) for i, n in zip(start[kept:], shape, strict=True))
        where = t.where[(*start[:kept], *spans)]
        if where.shape != shape:
            raise InvalidProgram("a view outside of the tile")
        return t.part(where)

    def tile_slice_indexed(self, t: Tile, indices: Any) -> Tile:
        return t[indices].value()

    def tile_transpose(self, t: Tile) -> Tile:
        return t.part(t.where.T)

    def tile_reshape(self, t: Tile, shape: Any) -> Tile:
        return t.part(t.where.reshape(whole(shape)))

    def tile_broadcast(self, t: Tile, shape: Any) -> Tile:
        return t.part(np.broadcast_to(t.where, whole(shape)))

    def tile_squeeze(self, t: Tile, axis: Any = None) -> Tile:
        where = t.where.squeeze(None if axis is None else whole(axis))
        return t.part(where.reshape(where.shape or (1,)))

    def tile_extract(self, t: Tile, *at: Any) -> Any:
        n = t.where.ndim
        x = t[at[:n]]
        return x if len(at) == n else x[at[n:] if len(at) > n + 1 else at[n]]

    def tile_assign(self, dst: Tile, src: Tile, offset: Any = None) -> None:
        start = whole(offset) if offset is not None else (0,) * dst.where.ndim
        if any(not 0 <= i < n for i, n in zip(start, dst.shape, strict=True)):
            raise InvalidProgram("an assignment outside of the tile")
        self.tile_view(dst, start, src.shape).assign(src)

    # --- threads and stacks ---------------------------------------------------------------------------------

    def tile_scatter_add(self, t: Tile, *rest: Any, atomic: bool = True) -> None:
        *at, value, has_value = rest
        if has_value:
            where = t.selected(tuple(at))
            t.save(where, added(t.load(where), converted(value, t.type)))

    def tile_scatter_masked(self, t: Tile, *rest: Any) -> None:
        *at, value, has_value = rest
        if has_value:
            t[tuple(at)] = value

    def tile_stack(self, capacity: int, dtype: Any) -> Stack:
        return Stack(capacity, dtype)

    def tile_stack_push(self, s: Stack, value: Any, has_value: Any) -> Any:
        if not has_value or len(s.values) == s.capacity:
            return INT32(-1)
        s.values.append(converted(value, s.type))
        return INT32(len(s.values) - 1)

    def tile_stack_pop(self, s: Stack) -> tuple[Any, Any]:
        if not s.values:
            return s.type(), INT32(-1)
        return s.values.pop(), INT32(len(s.values))

    def tile_stack_clear(self, s: Stack) -> None:
        s.values.clear()

    def tile_stack_count(self, s: Stack) -> Any:
        return INT32(len(s.values))

    # --- functions over elements ----------------------------------------------------------------------------

    def gt(self, a: Any, b: Any) -> Any:
        return scalars.compare("Gt", a, b)

    def add(self, a: Any, b: Any) -> Any:
        return added(a, b)

    def tile_map(self, op: Callable[..., Any], *args: Any) -> Tile:
        return elementwise(op, *args)

    def tile_astype(self, t: Tile, dtype: ScalarType) -> Tile:
        return elementwise(lambda x: scalars.cast(x, dtype), t)

    def tile_where(self, cond: Tile, a: Any, b: Any) -> Tile:
        return elementwise(lambda c, x, y: x if c else y, cond, a, b)

    def tile_sum(self, t: Tile, axis: Any = None) -> Tile:
        return self.tile_reduce(added, t, axis)

    def tile_reduce(self, op: Callable[..., Any], t: Tile, axis: Any = None) -> Tile:
        lines = [t.where.ravel()] if axis is None else np.moveaxis(t.where, int(axis), -1).reshape(-1, t.shape[axis])
        found = []
        for line in lines:
            first, *rest = (aggregates.copied(t.cells[k]) for k in line)
            for x in rest:
                first = op(first, x)
            found.append(first)
        rest = tuple(np.delete(t.shape, int(axis))) if axis is not None else ()
        return made_of(found, rest or (1,))

    def tile_dot(self, a: Tile, b: Tile) -> Tile:
        pairs = zip(a.elements(), b.elements(), strict=True)
        products = [
            aggregates.dot(x.parts, y.parts) if isinstance(x, Aggregate) else scalars.binary("Mult", x, y)
            for x, y in pairs
        ]
        return made_of([total(products)], (1,))

    def tile_min(self, t: Tile) -> Tile:
        return made_of([min(t.elements())], (1,))

    def tile_max(self, t: Tile) -> Tile:
        return made_of([max(t.elements())], (1,))

    def tile_argmin(self, t: Tile) -> Tile:
        return made_of([INT32(int(np.argmin(told_apart(t))))], (1,))

    def tile_argmax(self, t: Tile) -> Tile:
        return made_of([INT32(int(np.argmax(told_apart(t))))], (1,))

    def tile_scan_inclusive(self, t: Tile) -> Tile:
        return made_of(list(itertools.accumulate(t.elements(), added)), t.shape)

    def tile_scan_exclusive(self, t: Tile) -> Tile:
        found = list(itertools.accumulate(t.elements(), added, initial=t.type()))
        return made_of(found[:-1], t.shape)

    def tile_scan_max_inclusive(self, t: Tile) -> Tile:
        return made_of(list(itertools.accumulate(t.elements(), max)), t.shape)

    def tile_scan_min_inclusive(self, t: Tile) -> Tile:
        return made_of(list(itertools.accumulate(t.elements(), min)), t.shape)

    def tile_sort(self, keys: Tile, values: Tile) -> None:
        pairs = sorted(zip(told_apart(keys), values.elements(), strict=True), key=lambda pair: pair[0])
        for view, k in ((keys, 0), (values, 1)):
            view.assign(made_of([p[k] for p in pairs], view.shape))

    # --- linear algebra -------------------------------------------------------------------------------------

    def tile_matmul(self, a: Tile, b: Tile, *rest: Any, out: Any = None, alpha: Any = 1, beta: Any = 1) -> Any:
        if rest and isinstance(rest[0], Tile):
            out, rest = rest[0], rest[1:]
        given = [*rest, *(alpha, beta)[len(rest) :]]
        t = a.type if out is None else out.type
        scale, keep = (scalars.cast(x, t) for x in given[:2])
        rows, columns = ([[t.cells[k] for k in line] for line in w] for t, w in ((a, a.where), (b, b.where.T)))
        if len(rows[0]) != len(columns[0]):
            raise InvalidProgram("a product of shapes that do not fit")
        product = [scalars.binary("Mult", aggregates.dot(r, c), scale) for r in rows for c in columns]
        made = made_of(product, (len(rows), len(columns)))
        if out is None:
            return made
        out.change(lambda old, x: scalars.binary("Add", scalars.binary("Mult", old, keep), x), made)
        return None

    def tile_matmul_transpose_update(self, a: Tile, b: Tile, out: Tile, alpha: Any = 1, beta: Any = 1) -> None:
        self.tile_matmul(a, self.tile_transpose(b), out, alpha, beta)

    def tile_diag_add(self, a: Tile, d: Tile) -> Tile:
        made = a.value()
        for k, x in enumerate(d.elements()):
            made.save((k, k), added(made.load((k, k)), x))
        return made

    def tile_cholesky(self, a: Tile, fill_mode: str = "lower") -> Tile:
        m = floats(a)
        m = np.tril(m) if fill_mode == "lower" else np.triu(m).T
        m = m + np.tril(m, -1).T
        if not np.all(np.isfinite(m)) or np.min(np.linalg.eigvalsh(m)) < 0.1:
            raise InvalidProgram("not positive definite")
        found = np.linalg.cholesky(m)
        return tile_of(found if fill_mode == "lower" else found.T, a.type)

    def tile_cholesky_inplace(self, a: Tile, fill_mode: str = "lower") -> None:
        a.assign(self.tile_cholesky(a, fill_mode))

    def tile_lower_solve(self, m: Tile, y: Tile) -> Tile:
        return _solved(np.tril(floats(m)), y)

    def tile_upper_solve(self, m: Tile, y: Tile) -> Tile:
        return _solved(np.triu(floats(m)), y)

    def tile_cholesky_solve(self, m: Tile, y: Tile, fill_mode: str = "lower") -> Tile:
        factor = np.tril(floats(m)) if fill_mode == "lower" else np.triu(floats(m)).T
        return _solved(factor @ factor.T, y)

    def tile_lower_solve_inplace(self, m: Tile, y: Tile) -> None:
        y.assign(self.tile_lower_solve(m, y))

    def tile_upper_solve_inplace(self, m: Tile, y: Tile) -> None:
        y.assign(self.tile_upper_solve(m, y))

    def tile_cholesky_solve_inplace(self, m: Tile, y: Tile, fill_mode: str = "lower") -> None:
        y.assign(self.tile_cholesky_solve(m, y, fill_mode))

    def tile_add_inplace(self, a: Tile, b: Tile) -> None:
        a.change(added, b)

    def tile_sub_inplace(self, a: Tile, b: Tile) -> None:
        a.change(lambda x, y: added(x, y, "Sub"), b)

    def tile_bit_and_inplace(self, a: Tile, b: Tile) -> None:
        a.change(lambda x, y: scalars.binary("BitAnd", x, y), b)

    def tile_bit_or_inplace(self, a: Tile, b: Tile) -> None:
        a.change(lambda x, y: scalars.binary("BitOr", x, y), b)

    def tile_bit_xor_inplace(self, a: Tile, b: Tile) -> None:
        a.change(lambda x, y: scalars.binary("BitXor", x, y), b)

    def tile_axpy(self, alpha: Any, src: Tile, dest: Tile) -> None:
        dest.change(lambda old, x: scalars.binary("Add", old, scalars.binary("Mult", alpha, x)), src)

    def tile_fft(self, t: Tile) -> None:
        _transform(t, np.fft.fft)

    def tile_ifft(self, t: Tile) -> None:
        _transform(t, lambda z: np.fft.ifft(z) * t.shape[-1])


def _pcg(state: int) -> int:
    b = (state * 747796405 + 2891336453) % 2**32
    c = ((b >> ((b >> 28) + 4)) ^ b) * 277803737 % 2**32
    return (c >> 22) ^ c


def _transform(t: Tile, fn: Callable[[np.ndarray], np.ndarray]) -> None:
    z = fn(np.array([complex(*map(float, x.parts)) for x in t.elements()]).reshape(t.shape))
    t.assign(
        of([t.type(*(component(float(p), t.type.dtype) for p in (x.real, x.imag))) for x in z.ravel()], t.shape, t.type)
    )


def _solved(m: np.ndarray, y: Tile) -> Tile:
    if np.min(np.abs(np.diag(m))) < 0.2:
        raise InvalidProgram("nearly singular")
    return tile_of(np.linalg.solve(m, floats(y)), y.type)


def _moved(at: Sequence[int], offset: Any) -> At:
    start = whole(offset) if offset is not None else (0,) * len(at)
    return tuple(int(i) + o for i, o in zip(at, start, strict=True))


def _chosen(at: Sequence[int], indices: Tile, offset: Any, axis: Any) -> At:
    axis = int(axis) % len(at)
    number = int(indices.load((at[axis],)))
    return _moved((*at[:axis], number, *at[axis + 1 :]), offset)


def _inside(a: Arr, at: At, check: bool = True) -> bool:
    found = all(0 <= i < n for i, n in zip(at, a.a.shape[: a.ndim], strict=True))
    if not found and not check:
        raise InvalidProgram("outside of the array, without a check")
    return found


def _loaded(a: Arr, at: At, check: bool = True) -> Any:
    return a.load(at) if _inside(a, at, check) else a.type()


def _updated(a: Arr, kind: str, t: Tile, places: list[At], used: bool) -> Tile:
    old = []
    for at, x in zip(places, t.elements(), strict=True):
        old.append(a.update([("[", at)], kind, x, used) if _inside(a, at) else a.type())
    return of(old, t.shape, t.type)


__all__ = ["Stack", "Tile", "TileNames", "alike", "binary", "elementwise"]
