"""Sums, prefix sums, casts, sorts and runs over whole arrays: what ``warp_like.utils`` offers.

On the CPU the work is done natively on all threads (``cpu/algorithms.py``). On CUDA it is done by kernels
(``cuda/algorithms.py``), in the order of the stream; only functions that return a number wait. Casts are kernels
everywhere.
A tape differentiates casts, sums and scans; to it, what the others write are plain numbers, and sorting values with a
gradient is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from warp_like.base.contract import MAX_DIMS
from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays import interop_hooks
from warp_like.runtime.arrays.array import array, new_array
from warp_like.runtime.arrays.indexing import with_all_axes
from warp_like.runtime.arrays.recording import host_writes
from warp_like.runtime.autodiff.history import share_memory
from warp_like.runtime.autodiff.recorded_sums import record_reduction, record_scan
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import ElementType, element_type
from warp_like.runtime.memory.recorder import recorder, refuse_capture

SCANNED = (*ir.INTS, *ir.FLOATS)
SORTED = (ir.int32, ir.uint32, ir.int64, ir.uint64, ir.float32, ir.float64)
COUNTED = ("array_sum", "array_inner")
"""The operations that take bools, and count them."""

tid = Builtin("tid")

# --- sums ---


def array_sum(values: Any, out: Any = None, value_count: int | None = None, axis: int | None = None) -> Any:
    """Return the sum of the elements of an array, component by component.

    Floats are added up in float64 whatever the dtype, integers in 64 bits; bools are counted.

    Args:
        values: An array of any shape and strides, of scalars, vectors or matrices of any dtype.
        out: The array for the result: of one element, or of the shape of ``values`` with 1 in place of ``axis``; of
            the dtype of ``values``, but of integers for bools.
        value_count: How many elements count, in C order; with ``axis``, how many along it. All of them when left out.
        axis: The dimension to sum along; negative ones count from the last. All of them when left out.

    Returns:
        ``out`` where it is given, a new array where ``axis`` is (of int64 for bools), else a number, for vectors and
        matrices a NumPy array. The sum of integers is a Python int that holds all of it.

    Raises:
        TypeError: The elements are structs.
        RuntimeError: ``out`` has another dtype or shape, or ``value_count`` is too large.
        IndexError: There is no such axis.
        OverflowError: The sum of integers does not fit the dtype of the result. On CUDA it wraps.

    Example:
        >>> float(wp.utils.array_sum(wp.array([1.0, 2.0, 4.0])))
        7.0
    """
    a = _numbers("array_sum", "values", values)
    part, k = _summed("array_sum", a, value_count, axis)
    return _reduce("array_sum", part, None, out, k, a.dtype)


def array_inner(a: Any, b: Any, out: Any = None, count: int | None = None, axis: int | None = None) -> Any:
    """Return the inner product of two arrays: the sum of the products of their components.

    Products and sums are made in float64 for floats, in 64 bits for integers; of bools, those places are counted where
    both are true.

    Args:
        a: An array of any shape and strides, of scalars, vectors or matrices of any dtype.
        b: An array of the same shape and dtype.
        out: The array for the result, of scalars: of one element, or of the shape of ``a`` with 1 in place of ``axis``;
            of integers for bools.
        count: How many elements count, as ``value_count`` of ``array_sum``.
        axis: The dimension to sum along.

    Returns:
        ``out`` where it is given, a new array where ``axis`` is, else a number.

    Raises:
        TypeError: The elements are structs.
        ValueError: The shapes differ.
        RuntimeError: The dtypes differ, ``out`` has another dtype or shape, or ``count`` is too large.
        IndexError: There is no such axis.
        OverflowError: The sum of integers does not fit the dtype of the result. On CUDA it wraps.
    """
    x, y = _numbers("array_inner", "a", a), _numbers("array_inner", "b", b)
    _require_one_place("array_inner", x, y)
    if x.type_code != y.type_code:
        raise RuntimeError(f"array_inner() takes arrays of one dtype, got {x!r} and {y!r}")
    if x.shape != y.shape:
        raise ValueError(f"array_inner() takes arrays of one shape, got {x!r} and {y!r}")
    left, k = _summed("array_inner", x, count, axis)
    right, _ = _summed("array_inner", y, count, axis)
    return _reduce("array_inner", left, right, out, k, element_type(x.element.scalar).host)


def _summed(name: str, a: array, count: int | None, axis: int | None) -> tuple[array, int]:
    """The part of ``a`` that counts, and the axis; -1 for all."""
    if axis is None:
        if count is None:
            return a, -1
        n = _count(name, "values", count, a.size)
        if a.ndim > 1 and not a.is_contiguous:
            raise RuntimeError(f"{name}() takes the first {n} elements of a contiguous array, got strides {a.strides}")
        return (a if a.ndim == 1 else a.flatten())[:n], -1
    k = operator.index(axis)
    if not -a.ndim <= k < a.ndim:
        raise IndexError(f"{name}(): axis {k} of {a!r}, which has {a.ndim} dimensions")
    k %= a.ndim
    if count is not None:
        n = _count(name, f"elements along axis {k}", count, a.shape[k])
        a = a[(slice(None),) * k + (slice(n),)]
    return a, k


def _reduce(name: str, a: array, b: array | None, out: Any, axis: int, dtype: Any) -> Any:
    shape = (1,) if axis < 0 else tuple(1 if k == axis else n for k, n in enumerate(a.shape))
    element = element_type(dtype)
    if element.scalar == ir.bool_:
        element = _counts(element, out)
    if out is not None:
        target = out if isinstance(out, array) else interop_hooks.as_array(out, element.host)
        if target.type_code != element.code:
            raise RuntimeError(f"{name}() writes {element.host.__name__} to `out`, got {target!r}")
        if target.shape != shape:
            raise RuntimeError(f"{name}() writes an array of shape {shape} to `out`, got {target!r}")
        _require_one_place(name, a, target)
        target._require_writable()
        record_reduction(a, b, target)
    else:
        scalar = a.element.scalar
        assert scalar is not None
        if axis < 0 and scalar.is_int:  # a number that holds all of the sum
            wide = ir.int64 if scalar.is_signed else ir.uint64
            element = element_type(ir.with_scalar(element.type, wide))
        target = new_array(element, shape, a.device, zero=True)
        if axis >= 0 and recorder.active is not None and (a.requires_grad or (b is not None and b.requires_grad)):
            target.requires_grad = True
            record_reduction(a, b, target)

    def reduce() -> None:
        if not target.device.backend.algorithms.reduce(a, b, target, axis):
            raise OverflowError(f"{name}(): the sum of integers does not fit {element.host.__name__}")

    if out is None and axis < 0:
        refuse_capture(f"{name}() without `out`")
    _do(name, reduce)
    if out is not None or axis >= 0:
        return target if out is None else out
    total = target._values()[0]
    return total.item() if np.ndim(total) == 0 and total.dtype.kind in "iu" else total


def _counts(element: ElementType, out: Any) -> ElementType:
    """The type of the number of bools: that of ``out`` if these are integers, else int64."""
    given = out.element.scalar if isinstance(out, array) else None
    wide = given if given is not None and given.is_int else ir.int64
    return element_type(ir.with_scalar(element.type, wide))


# --- prefix sums ---


def array_scan(in_array: Any, out_array: Any, inclusive: bool = True) -> None:
    """Write the prefix sums of an array, component by component, to another one.

    Floats are added up in float64; integers wrap. The two may be one array.

    Args:
        in_array: An array of numbers of any width, or of vectors or matrices of these; contiguous, or of one dimension
            with any stride.
        out_array: An array of the same dtype and size, with one dimension or contiguous.
        inclusive: Whether a prefix sum has the element itself in it; otherwise the first one is zero.

    Raises:
        RuntimeError: The dtypes or sizes differ, the dtypes are others, or the memory is laid out otherwise.

    Example:
        >>> counts, offsets = wp.array([3, 1, 2], dtype=int), wp.zeros(3, dtype=int)
        >>> wp.utils.array_scan(counts, offsets, inclusive=False)
        >>> offsets.list()
        [0, 3, 4]
    """
    source, target = _numbers("array_scan", "in_array", in_array), _numbers("array_scan", "out_array", out_array)
    _require_one_place("array_scan", source, target)
    if source.type_code != target.type_code:
        raise RuntimeError(f"array_scan() takes two arrays of one dtype, got {source!r} and {target!r}")
    _require_scalar("array_scan", "in_array", source, SCANNED)
    if source.size != target.size:
        raise RuntimeError(f"array_scan() takes two arrays of one size, got {source!r} and {target!r}")
    for key, a in (("in_array", source), ("out_array", target)):
        if a.ndim > 1 and not a.is_contiguous:
            raise RuntimeError(f"array_scan(): `{key}` has several dimensions and is not contiguous: {a!r}")
    same = source.ptr == target.ptr and source.strides[-1] == target.strides[-1]
    if not same and share_memory(source, target):
        raise RuntimeError("array_scan(): the two arrays overlap without being one")
    target._require_writable()
    record_scan(source, target, inclusive)
    _do("array_scan", partial(target.device.backend.algorithms.scan, source, target, bool(inclusive)))


# --- casts ---


@kernel
def _cast1(source: Any, target: Any) -> None:
    i = tid()
    target[i] = target.dtype(source[i])


@kernel
def _cast2(source: Any, target: Any) -> None:
    i, j = tid()
    target[i, j] = target.dtype(source[i, j])


@kernel
def _cast3(source: Any, target: Any) -> None:
    i, j, k = tid()
    target[i, j, k] = target.dtype(source[i, j, k])


@kernel
def _cast4(source: Any, target: Any) -> None:
    i, j, k, m = tid()
    target[i, j, k, m] = target.dtype(source[i, j, k, m])


@kernel
def _cast8(source: Any, target: Any) -> None:
    i, j, k, m, n, o, p, q = tid()
    target[i, j, k, m, n, o, p, q] = target.dtype(source[i, j, k, m, n, o, p, q])


_CASTS = (_cast1, _cast2, _cast3, _cast4, _cast8)


def array_cast(in_array: Any, out_array: Any, count: int | None = None) -> None:
    """Write the elements of an array to another one of another dtype, with the conversions of kernels.

    Floats become integers by truncation, those out of range the nearest integer, NaN zero. The cast is a kernel: a
    tape differentiates it.

    Args:
        in_array: An array of scalars, vectors or matrices.
        out_array: An array of the same shape; or one whose components, in C order, are as many, both contiguous.
        count: How many elements of ``in_array`` to convert, for arrays of one dimension. All of them when left out.

    Raises:
        TypeError: The elements are structs.
        RuntimeError: The shapes differ, or ``count`` is too large or given for several dimensions.
    """
    source, target = _numbers("array_cast", "in_array", in_array), _numbers("array_cast", "out_array", out_array)
    if count is not None:
        if source.ndim > 1 or target.ndim > 1:
            raise RuntimeError("array_cast() takes a count for arrays of one dimension alone")
        source = source[: _count("array_cast", "elements", count, source.size)]
        components, each = _components(source), math.prod(target.element.shape)
        if not components % each:
            target = target[: _count("array_cast", "elements", components // each, target.size)]
    if source.element.shape == target.element.shape and source.shape != target.shape and source.ndim == target.ndim:
        raise RuntimeError(f"array_cast() takes two arrays of one shape, got {source!r} and {target!r}")
    flat = source.is_contiguous and target.is_contiguous
    given, wanted = _scalars(source, flat), _scalars(target, flat)
    if given.size != wanted.size:
        raise RuntimeError(f"array_cast() takes arrays of one number of components, got {source!r} and {target!r}")
    if given.shape != wanted.shape:
        raise RuntimeError(f"array_cast(): {source!r} and {target!r} differ in shape and are not both contiguous")
    if given.ndim >= len(_CASTS):
        given, wanted = with_all_axes(given, given.shape), with_all_axes(wanted, wanted.shape)
    cast = _CASTS[min(given.ndim, len(_CASTS)) - 1]
    launch(cast, given.shape, [given], [wanted], device=wanted.device)


def _components(a: array) -> int:
    return a.size * math.prod(a.element.shape)


def _scalars(a: array, flat: bool) -> array:
    """The components of ``a`` in C order, as a view; of one dimension where it shall be ``flat``."""
    a = a.flatten() if flat else a
    if a.element.shape:
        if a.ndim + len(a.element.shape) > MAX_DIMS:
            raise RuntimeError(f"array_cast(): {a!r} is not contiguous and has too many dimensions; copy it first")
        a = a.view(a.element.scalar)
    return a.flatten() if flat else a


# --- sorts ---


def radix_sort_pairs(
    keys: Any, values: Any, count: int | None = None, begin_bit: int = 0, end_bit: int | None = None
) -> None:
    """Sort the first ``count`` pairs of a key and a value by the keys, ascending and stable, in place.

    Floats are in NumPy's order: -0.0 equals 0.0, and every NaN comes last. Where the arrays have room for twice as many
    pairs, as Warp asks for, what lies behind the pairs is used as scratch memory and overwritten.

    Args:
        keys: A contiguous array of int32, uint32, int64, uint64, float32 or float64.
        values: A contiguous array of scalars or vectors with 4 or 8 bytes an element.
        count: How many pairs; all of them when left out.
        begin_bit: The lowest bit of the keys that counts. Bits are those of an unsigned number in the keys' order:
            of signed integers the highest one is inverted; negative floats are inverted, others get the highest bit.
        end_bit: The bit after the highest one that counts; that of the key's width when left out.

    Raises:
        RuntimeError: The dtypes are others, the arrays are too small, overlap or are not contiguous, or the bits are
            out of range.

    Example:
        >>> keys, values = wp.array([3, 1, 2], dtype=int), wp.array([0, 1, 2], dtype=int)
        >>> wp.utils.radix_sort_pairs(keys, values, 3)
        >>> values.list()
        [1, 2, 0]
    """
    n = _require_pairs("radix_sort_pairs", keys, values, count)
    bits = 8 * keys.itemsize
    last = bits if end_bit is None else operator.index(end_bit)
    first = operator.index(begin_bit)
    if not 0 <= first <= last <= bits:
        raise RuntimeError(f"radix_sort_pairs(): bits {first} to {last} of keys that have {bits}")
    if n > 1:
        _do("radix_sort_pairs", partial(keys.device.backend.algorithms.sort_pairs, keys, values, n, first, last))


def segmented_sort_pairs(
    keys: Any, values: Any, count: int, segment_start_indices: Any, segment_end_indices: Any = None
) -> None:
    """Sort the pairs within each segment by the keys, ascending and stable, in place.

    What lies outside of the segments stays as it is, but for scratch memory as with ``radix_sort_pairs``.

    Args:
        keys: A contiguous array of int32, uint32, int64, uint64, float32 or float64; floats in NumPy's order.
        values: A contiguous array with 4 or 8 bytes an element.
        count: How many pairs there are.
        segment_start_indices: An int32 array of where segments start.
        segment_end_indices: An int32 array of where they end, as many. When left out, a segment ends where the next one
            starts, and the last start is the end of the last segment.

    Raises:
        RuntimeError: The dtypes are others, or the arrays are too small, overlap or are not contiguous.
        ValueError: A segment lies outside of the pairs or overlaps another one; nothing is sorted then. On CUDA, where
            nothing waits for the segments, what lies outside of the pairs is left out, and where segments overlap the
            pairs come in some order.
    """
    name = "segmented_sort_pairs"
    n = _require_pairs(name, keys, values, count)
    starts = _indices(name, "segment_start_indices", segment_start_indices)
    if segment_end_indices is None:
        starts, ends = (starts[:-1], starts[1:]) if starts.size else (starts, starts)
    else:
        ends = _indices(name, "segment_end_indices", segment_end_indices)
    if starts.size != ends.size:
        raise RuntimeError(f"{name}(): {starts.size} segments start and {ends.size} end")
    _require_one_place(name, keys, starts, ends)
    for which, index in (("segment_start_indices", starts), ("segment_end_indices", ends)):
        if share_memory(index, keys) or share_memory(index, values):
            raise RuntimeError(f"{name}(): `{which}` overlaps what is sorted")

    def sort() -> None:
        wrong = keys.device.backend.algorithms.sort_segments(keys, values, n, starts, ends)
        if wrong is not None:
            segment = f"[{starts[wrong]}, {ends[wrong]})"
            raise ValueError(f"{name}(): segment {wrong}, {segment}, is not in [0, {n}) or overlaps another one")

    _do(name, sort)


def _require_pairs(name: str, keys: Any, values: Any, count: int | None) -> int:
    """Check what is sorted, and return how many pairs are."""
    for which, a in (("keys", keys), ("values", values)):
        if not isinstance(a, array):
            raise TypeError(f"{name}() sorts `{which}` in place and takes a wp.array, got {type(a).__name__}")
        if not a.is_contiguous:
            raise RuntimeError(f"{name}(): `{which}` is not contiguous: {a!r} with strides {a.strides}")
    _require_scalar(name, "keys", keys, SORTED, composites=False)
    if values.itemsize not in (4, 8):
        raise RuntimeError(f"{name}() takes values of 4 or 8 bytes, got {values!r}")
    if values.ptr % values.itemsize:
        raise RuntimeError(f"{name}(): `values` does not start at a multiple of {values.itemsize} bytes")
    _require_one_place(name, keys, values)
    if share_memory(keys, values):
        raise RuntimeError(f"{name}(): `keys` and `values` overlap")
    if count is not None and operator.index(count) < 0:
        raise ValueError(f"{name}(): `count` is not negative, got {count}")
    n = keys.size if count is None else _count(name, "pairs", count, min(keys.size, values.size))
    _refuse_tape(name, keys, values)
    for a in (keys, values):
        a._require_writable()
        host_writes(a)
    return int(n)


# --- runs ---


def runlength_encode(
    values: Any, run_values: Any, run_lengths: Any, run_count: Any = None, value_count: int | None = None
) -> Any:
    """Write the value and the length of each run of equal elements.

    Args:
        values: An array of integers of any width, of one dimension or contiguous.
        run_values: An array of the same dtype, with as many elements as there are values.
        run_lengths: An array of int32 with as many elements; of int64 where there are more than ``2**31 - 1``.
        run_count: An array of one int32 for the number of runs.
        value_count: How many elements count; all of them when left out.

    Returns:
        The number of runs, or ``run_count`` where that is given. Elements behind the runs stay as they are.

    Raises:
        RuntimeError: A dtype is another, an array is too small, or its memory is laid out otherwise; or the outputs
            overlap others.

    Example:
        >>> values, lengths = wp.zeros(5, dtype=int), wp.zeros(5, dtype=int)
        >>> wp.utils.runlength_encode(wp.array([7, 7, 7, 2, 2], dtype=int), values, lengths)
        2
        >>> values.list()[:2], lengths.list()[:2]
        ([7, 2], [3, 2])
    """
    name = "runlength_encode"
    source, found = _numbers(name, "values", values), _numbers(name, "run_values", run_values)
    _require_scalar(name, "values", source, ir.INTS, composites=False)
    lengths = _lengths(name, run_lengths)
    if found.type_code != source.type_code:
        raise RuntimeError(f"{name}(): `run_values` has the dtype of `values`, got {found!r} and {source!r}")
    n = source.size if value_count is None else _count(name, "values", value_count, source.size)
    if n > 2**31 - 1 and lengths.itemsize == 4:
        raise RuntimeError(f"{name}(): there are {n} values, more than int32 counts; make `run_lengths` of int64")
    for which, a in (("values", source), ("run_values", found), ("run_lengths", lengths)):
        if a.ndim > 1 and not a.is_contiguous:
            raise RuntimeError(f"{name}(): `{which}` has several dimensions and is not contiguous: {a!r}")
        if a.size < n:
            raise RuntimeError(f"{name}(): `{which}` needs room for {n} elements, got {a!r}")
    if share_memory(source, found) or share_memory(source, lengths) or share_memory(found, lengths):
        raise RuntimeError(f"{name}(): the arrays overlap")
    counter = None if run_count is None else _indices(name, "run_count", run_count)
    _require_one_place(name, source, found, lengths, *(() if counter is None else (counter,)))
    if counter is not None and counter.size != 1:
        raise RuntimeError(f"{name}() writes one number to `run_count`, got {counter!r}")
    for a in (found, lengths):
        a._require_writable()
        host_writes(a)
    if counter is None:
        refuse_capture(f"{name}() without `run_count`")
        return source.device.backend.algorithms.encode_runs(source, found, lengths, n, None)
    counter._require_writable()
    host_writes(counter)
    _do(name, partial(source.device.backend.algorithms.encode_runs, source, found, lengths, n, counter))
    return run_count


def _require_one_place(name: str, *arrays: array) -> None:
    """Refuse arrays of several devices, and those that are too large for a device's algorithms.

    Raises:
        RuntimeError: They lie on different devices, or an array of a CUDA device has 2^31 elements or more.
    """
    first = arrays[0].device
    most = first.backend.algorithms.MOST_NUMBERS
    for a in arrays:
        if a.device is not first:
            raise RuntimeError(f"{name}() takes arrays of one device, got some on {first} and some on {a.device}")
        if most is not None and _components(a) > most:
            raise RuntimeError(f"{name}() on {first} takes arrays of at most {most} numbers, got {a!r}")


def _do(name: str, call: Callable[[], object]) -> None:
    """Do it; or, under a capture, make it an operation of the graph."""
    if recorder.graph is None:
        call()
    else:
        recorder.graph.add_call(name, call)


# --- arguments ---


def _refuse_tape(name: str, *arrays: array) -> None:
    """Refuse to move elements with gradients where a tape would not know where they went.

    Raises:
        RuntimeError: A tape is recording, and one of ``arrays`` has a gradient.
    """
    for a in arrays:
        if recorder.active is not None and a.requires_grad:
            raise RuntimeError(
                f"a tape does not differentiate {name}(), and {a!r} has a gradient; sort indices, and gather the "
                "elements in a kernel"
            )


def _numbers(name: str, key: str, given: Any) -> array:
    """An argument as an array of numbers."""
    try:
        a = given if isinstance(given, array) else interop_hooks.as_array(given, None, recorder.active is not None)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{name}(): `{key}` is an array, got {type(given).__name__}: {e}") from e
    if a.element.is_struct or (a.element.scalar == ir.bool_ and name not in (*COUNTED, "array_cast")):
        raise TypeError(f"{name}(): `{key}` is an array of numbers, got {a!r}")
    return a


def _require_scalar(name: str, key: str, a: array, known: tuple[ir.Scalar, ...], composites: bool = True) -> None:
    if a.element.scalar not in known or (a.element.shape and not composites):
        raise RuntimeError(f"{name}(): `{key}` has one of the dtypes {', '.join(map(str, known))}, got {a!r}")


def _indices(name: str, key: str, given: Any) -> array:
    a = _numbers(name, key, given)
    if a.element.type != ir.int32 or a.ndim != 1 or not a.is_contiguous:
        raise RuntimeError(f"{name}(): `{key}` is a contiguous array of int32 with one dimension, got {a!r}")
    return a


def _lengths(name: str, given: Any) -> array:
    a = _numbers(name, "run_lengths", given)
    if a.element.type not in (ir.int32, ir.int64) or a.ndim != 1:
        raise RuntimeError(f"{name}(): `run_lengths` is an array of int32 or int64 with one dimension, got {a!r}")
    return a


def _count(name: str, what: str, given: Any, most: int) -> int:
    n = operator.index(given)
    if not 0 <= n <= most:
        raise RuntimeError(f"{name}(): {n} {what} of arrays that hold {most}")
    return n
