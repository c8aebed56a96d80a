"""Sums, prefix sums, sorts and runs over arrays of CUDA devices, as kernels in the kernel language.

Each is a few launches, in the order of the stream, so nothing waits and captures take them. They add in an order that
depends on nothing but the sizes, so a result always has the same bits. Their arguments have been checked by
``runtime/operations/algorithms.py``, which has the functions that users call; arrays have fewer than 2^31 elements, as
the kernels count in int32.
"""

from __future__ import annotations

import math
from typing import Any

from warp_like.frontend.builtin import Builtin
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array, bind_foreign, new_array
from warp_like.runtime.arrays.creation import zeros
from warp_like.runtime.arrays.recording import put
from warp_like.runtime.kernels.decorators import kernel
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.launching.launch import launch
from warp_like.runtime.memory.allocation import contiguous_strides, element_type
from warp_like.values.dtypes import int64, uint32, uint64

tid, cast = Builtin("tid"), Builtin("cast")
block_dim, block_sum, block_thread = Builtin("block_dim"), Builtin("block_sum"), Builtin("block_thread")

MOST_NUMBERS = 2**31 - 1
"""How many numbers the kernels here can count."""

BLOCK = 256
"""How many threads of a block add up what they have, whatever the options say: results do not depend on these."""

SUMMED = 32
"""How many numbers a thread adds up at least, where there are enough."""

MOST_SUMS = 1 << 16
"""How many threads add up side by side at most."""

SCANNED = 16
"""How many numbers a thread of a prefix sum has."""

SORTED = 64
"""How many keys a thread of a sort has."""

DIGITS = 16


def _run(op: Kernel, dim: Any, *args: Any, block: int | None = None) -> None:
    device = next(a.device for a in args if isinstance(a, array))
    launch(op, dim, inputs=args, device=device, record_tape=False, block_dim=block)


def _scratch(like: array, scalar: ir.Scalar, *shape: int) -> array:
    return new_array(element_type(scalar), shape, like.device, zero=False)


def _in_one_piece(a: array) -> array:
    if a.is_contiguous:
        return a
    made = new_array(a.element, a.shape, a.device, zero=False)
    put(made, a)
    return made


def _as(a: array, *shape: int) -> array:
    """The scalars of a contiguous array in another shape."""
    element = element_type(a.element.scalar)
    strides = contiguous_strides(shape, element.itemsize)
    return bind_foreign(element, a.ptr, shape, strides, a.readonly, a.device, a)


def _wide(a: array) -> ir.Scalar:
    """What its scalars are added up in."""
    scalar = a.element.scalar
    assert scalar is not None
    return ir.float64 if scalar.is_float else ir.uint64 if scalar.is_int and not scalar.is_signed else ir.int64


# ---- sums


@kernel(enable_backward=False)
def _sums(source: Any, sums: Any) -> None:
    i, k, m = tid()
    total = sums.dtype()
    for j in range(k, source.shape[1], sums.shape[1]):
        total += sums.dtype(source[i, j, m])
    sums[i, k, m] = total


@kernel(enable_backward=False)
def _sums_of_products(a: Any, b: Any, sums: Any) -> None:
    i, k, m = tid()
    total = sums.dtype()
    for j in range(k, a.shape[1], sums.shape[1]):
        total += sums.dtype(a[i, j, m]) * sums.dtype(b[i, j, m])
    sums[i, k, m] = total


@kernel(enable_backward=False)
def _block_sums(source: Any, threads: int, sums: Any) -> None:
    i = tid()
    total = sums.dtype()
    for j in range(i, source.shape[0], threads):
        total += sums.dtype(source[j])
    total = block_sum(total)
    if block_thread() == 0:
        sums[i // block_dim()] = total


@kernel(enable_backward=False)
def _block_sums_of_products(a: Any, b: Any, threads: int, sums: Any) -> None:
    i = tid()
    total = sums.dtype()
    for j in range(i, a.shape[0], threads):
        total += sums.dtype(a[j]) * sums.dtype(b[j])
    total = block_sum(total)
    if block_thread() == 0:
        sums[i // block_dim()] = total


@kernel(enable_backward=False)
def _convert(source: Any, target: Any) -> None:
    i = tid()
    target[i] = target.dtype(source[i])


def reduce(a: array, b: array | None, target: array, axis: int) -> bool:
    """Write the sum of ``a``, or of its products with ``b``, along ``axis``, or of all for -1; integers wrap."""
    components = math.prod(a.element.shape)
    outer, length, inner = 1, a.size, components
    if axis >= 0:
        outer, length = math.prod(a.shape[:axis]), a.shape[axis]
        inner = math.prod(a.shape[axis + 1 :]) * components
    if b is not None and axis < 0:
        length, inner = length * components, 1
    given = [_as(_in_one_piece(x), outer, length, inner) for x in (a, b) if x is not None]
    sums = _summed(given, outer, length, inner)
    if b is not None and axis >= 0 and components > 1:
        rows = outer * inner // components
        sums = _summed([_as(sums, rows, components, 1)], rows, components, 1)
    whole = target if target.is_contiguous else new_array(target.element, target.shape, target.device, zero=False)
    _run(_convert, sums.size, _as(sums, sums.size), _as(whole, sums.size))
    if whole is not target:
        put(target, whole)
    return True


def _summed(given: list[array], outer: int, length: int, inner: int) -> array:
    """The sums, or sums of products, along the middle dimension."""
    if outer * inner == 1 and length > 1:
        return _summed_by_blocks([_as(x, length) for x in given], length)
    op, scalar = (_sums if len(given) == 1 else _sums_of_products), _wide(given[0])
    while True:
        most = max(1, MOST_SUMS // max(outer * inner, 1))
        parts = max(1, min(-(-length // SUMMED), most))
        sums = _scratch(given[0], scalar, outer, parts, inner)
        _run(op, (outer, parts, inner), *given, sums)
        if parts == 1:
            return sums
        given, op, length = [sums], _sums, parts


def _summed_by_blocks(given: list[array], length: int) -> array:
    """The sum, or sum of products, of all numbers: two launches, or one where a block is enough."""
    op, scalar = (_block_sums if len(given) == 1 else _block_sums_of_products), _wide(given[0])
    while True:
        threads = max(1, min(-(-length // SUMMED), MOST_SUMS))
        threads = min(-(-threads // BLOCK) * BLOCK, length)
        blocks = -(-threads // BLOCK)
        sums = _scratch(given[0], scalar, blocks)
        _run(op, threads, *given, threads, sums, block=BLOCK)
        if blocks == 1:
            return sums
        given, op, length = [sums], _block_sums, blocks


@kernel(enable_backward=False)
def _mixed(words: Any, sums: Any) -> None:
    k = tid()
    total = uint64(0)
    for j in range(k, words.shape[0], sums.shape[0]):
        x = (uint64(words[j]) + uint64(1)) * uint64(0x9E3779B97F4A7C15) + uint64(j) * uint64(0xD1B54A32D192ED03)
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        total += x ^ (x >> uint64(31))
    sums[k] = total


def fingerprint(a: array) -> int:
    """Return a number that is another one where the bytes of ``a`` are others, but for chance; waits.

    Captured writes have not run yet, so there is nothing to hash; no one else writes these arrays during a capture. The
    words are mixed as Steele, Lea and Flood's SplitMix64 mixes its states (OOPSLA 2014), and added up.
    """
    if a.device.is_capturing:
        return 0
    whole = _in_one_piece(a)
    nbytes = whole.size * whole.itemsize
    if not nbytes:
        return 0
    element = element_type(ir.uint32 if nbytes % 4 == 0 and whole.ptr % 4 == 0 else ir.uint8)
    count = nbytes // element.itemsize
    words = bind_foreign(element, whole.ptr, (count,), (element.itemsize,), True, a.device, whole)
    parts = max(1, min(-(-count // SUMMED), MOST_SUMS))
    sums = _scratch(a, ir.uint64, parts)
    _run(_mixed, parts, words, sums)
    found: int = _summed([_as(sums, 1, parts, 1)], 1, parts, 1).numpy().item()
    return found


# ---- prefix sums


@kernel(enable_backward=False)
def _chunk_sums(source: Any, per: int, sums: Any) -> None:
    k, c = tid()
    total = sums.dtype()
    for j in range(k * per, min((k + 1) * per, source.shape[0])):
        total += sums.dtype(source[j, c])
    sums[k, c] = total


@kernel(enable_backward=False)
def _chunk_scan(source: Any, per: int, before: Any, inclusive: int, target: Any) -> None:
    k, c = tid()
    total = before[k, c]
    for j in range(k * per, min((k + 1) * per, source.shape[0])):
        x = before.dtype(source[j, c])
        if inclusive != 0:
            target[j, c] = target.dtype(total + x)
        else:
            target[j, c] = target.dtype(total)
        total += x


def scan(source: array, target: array, inclusive: bool) -> None:
    """Write the prefix sums; the two may be one array."""
    n, components = source.size, math.prod(source.element.shape)
    given = _as(_in_one_piece(source), n, components)
    whole = target if target.is_contiguous else new_array(target.element, target.shape, target.device, zero=False)
    _scan(given, _as(whole, n, components), inclusive)
    if whole is not target:
        put(target, whole)


def _scan(source: array, target: array, inclusive: bool) -> None:
    n, components = source.shape
    chunks = -(-n // SCANNED)
    before = new_array(element_type(_wide(source)), (max(chunks, 1), components), source.device, zero=chunks <= 1)
    if chunks > 1:
        _run(_chunk_sums, (chunks, components), source, SCANNED, before)
        _scan(before, before, False)
    _run(_chunk_scan, (chunks, components), source, SCANNED, before, int(inclusive), target)


# ---- sorts: by digits of what stands for the keys, the lowest first


@kernel(enable_backward=False)
def _integer_codes(keys: Any, sign: uint64, whole: uint64, codes: Any, order: Any) -> None:
    i = tid()
    codes[i] = (uint64(int64(keys[i])) ^ sign) & whole
    order[i] = i


@kernel(enable_backward=False)
def _float_codes(bits: Any, sign: uint64, whole: uint64, infinity: uint64, codes: Any, order: Any) -> None:
    i = tid()
    x = uint64(bits[i])
    magnitude = x & (whole ^ sign)
    code = x | sign
    if magnitude == uint64(0):
        code = sign
    elif magnitude > infinity:
        code = whole
    elif x & sign != uint64(0):
        code = x ^ whole
    codes[i] = code
    order[i] = i


@kernel(enable_backward=False)
def _part(codes: Any, first: uint64, mask: uint64) -> None:
    i = tid()
    codes[i] = (codes[i] >> first) & mask


@kernel(enable_backward=False)
def _count_digits(codes: Any, shift: uint64, per: int, counts: Any) -> None:
    k = tid()
    own = zeros(shape=16, dtype=int)
    for i in range(k * per, min((k + 1) * per, codes.shape[0])):
        own[int((codes[i] >> shift) & uint64(15))] += 1
    for d in range(16):
        counts[d, k] = own[d]


@kernel(enable_backward=False)
def _place_digits(codes: Any, order: Any, shift: uint64, per: int, places: Any, to_codes: Any, to_order: Any) -> None:
    k = tid()
    own = zeros(shape=16, dtype=int)
    for d in range(16):
        own[d] = places[d, k]
    for i in range(k * per, min((k + 1) * per, codes.shape[0])):
        code = codes[i]
        d = int((code >> shift) & uint64(15))
        at = own[d]
        own[d] = at + 1
        to_codes[at] = code
        to_order[at] = order[i]


@kernel(enable_backward=False)
def _gather(source: Any, order: Any, target: Any) -> None:
    i = tid()
    target[i] = source[order[i]]


def _coded(keys: array) -> tuple[array, array]:
    """Unsigned numbers in the order of the keys, and the numbers of their places."""
    n, scalar = keys.size, keys.element.scalar
    assert scalar is not None
    codes, order = _scratch(keys, ir.uint64, n), _scratch(keys, ir.int32, n)
    whole, sign = (1 << scalar.bits) - 1, 1 << (scalar.bits - 1)
    if scalar.is_float:
        infinity = 0x7F800000 if scalar.bits == 32 else 0x7FF0000000000000
        bits = keys.view(uint32 if scalar.bits == 32 else uint64)
        _run(_float_codes, n, bits, sign, whole, infinity, codes, order)
    else:
        _run(_integer_codes, n, keys, sign if scalar.is_signed else 0, whole, codes, order)
    return codes, order


def _sorted(codes: array, order: array, bits: int) -> array:
    """``order`` sorted by the lowest ``bits`` of ``codes``, stably; ``codes`` becomes scratch memory."""
    n = order.size
    other_codes, other = _scratch(codes, ir.uint64, n), _scratch(codes, ir.int32, n)
    chunks = -(-n // SORTED)
    counts = _scratch(codes, ir.int32, DIGITS, chunks)
    for shift in range(0, bits, 4):
        _run(_count_digits, chunks, codes, shift, SORTED, counts)
        scan(counts, counts, False)
        _run(_place_digits, chunks, codes, order, shift, SORTED, counts, other_codes, other)
        codes, order, other_codes, other = other_codes, other, codes, order
    return order


def _rearranged(a: array, order: array) -> None:
    n = order.size
    moved = new_array(a.element, (n,), a.device, zero=False)
    _run(_gather, n, a, order, moved)
    put(a[:n], moved)


def sort_pairs(keys: array, values: array, n: int, first: int, last: int) -> None:
    """Sort the first ``n`` pairs by the bits ``first`` to before ``last`` of the keys."""
    keys, values = keys.flatten(), values.flatten()
    codes, order = _coded(keys[:n])
    if first or last < 8 * keys.itemsize:
        _run(_part, n, codes, first if first < 64 else 0, (1 << (last - first)) - 1)
    order = _sorted(codes, order, last - first)
    for a in (keys, values):
        _rearranged(a, order)


@kernel(enable_backward=False)
def _mark_segments(starts: Any, ends: Any, n: int, borders: Any, inside: Any) -> None:
    k = tid()
    begin, end = max(starts[k], 0), min(ends[k], n)
    if begin < end:
        borders[begin] += 1
        borders[end] += 1
        inside[begin] += 1
        inside[end] -= 1


@kernel(enable_backward=False)
def _segment_codes(codes: Any, inside: Any) -> None:
    i = tid()
    if inside[i] <= 0:
        codes[i] = uint64(0)


@kernel(enable_backward=False)
def _regions(borders: Any, order: Any, codes: Any) -> None:
    i = tid()
    codes[i] = uint64(borders[order[i]])


def sort_segments(keys: array, values: array, n: int, starts: array, ends: array) -> None:
    """Sort the pairs within each segment; of segments, what lies outside of the pairs does not count.

    Borders of segments cut the pairs into regions, which keep their order.
    """
    if n <= 1 or not starts.size:
        return
    keys, values = keys.flatten(), values.flatten()
    borders, inside = (new_array(element_type(ir.int32), (n + 1,), keys.device, zero=True) for _ in range(2))
    _run(_mark_segments, starts.size, starts, ends, n, borders, inside)
    for a in (borders, inside):
        scan(a, a, True)
    codes, order = _coded(keys[:n])
    _run(_segment_codes, n, codes, inside)
    order = _sorted(codes, order, 8 * keys.itemsize)
    codes = _scratch(keys, ir.uint64, n)
    _run(_regions, n, borders, order, codes)
    order = _sorted(codes, order, (2 * starts.size).bit_length())
    for a in (keys, values):
        _rearranged(a, order)


# ---- runs


@kernel(enable_backward=False)
def _run_starts(values: Any, numbers: Any) -> None:
    i = tid()
    numbers[i] = 1
    if i > 0 and values[i] == values[i - 1]:
        numbers[i] = 0


@kernel(enable_backward=False)
def _write_runs(values: Any, numbers: Any, starts: Any, run_values: Any, count: Any) -> None:
    i = tid()
    run = numbers[i] - 1
    if i == 0 or numbers[i - 1] == run:
        run_values[run] = values[i]
        starts[run] = i
    if i == numbers.shape[0] - 1:
        count[0] = run + 1


@kernel(enable_backward=False)
def _write_lengths(starts: Any, count: Any, lengths: Any) -> None:
    k = tid()
    if k < count[0]:
        end = starts.shape[0]
        if k + 1 < count[0]:
            end = starts[k + 1]
        lengths[k] = lengths.dtype(end - starts[k])


def encode_runs(source: array, values: array, lengths: array, n: int, count: array | None) -> int | None:
    """Write the value and the length of each run of the first ``n`` elements; write or return how many there are."""
    if count is not None:
        _encode_runs(source, values, lengths, n, count)
        return None
    counted = _scratch(source, ir.int32, 1)
    _encode_runs(source, values, lengths, n, counted)
    found: int = counted.list()[0]
    return found


def _encode_runs(source: array, values: array, lengths: array, n: int, count: array) -> None:
    if n == 0:
        count.zero_()
        return
    source, values = (a if a.ndim == 1 else a.flatten() for a in (source, values))
    numbers, starts = (_scratch(source, ir.int32, n) for _ in range(2))
    _run(_run_starts, n, source, numbers)
    scan(numbers, numbers, True)
    _run(_write_runs, n, source, numbers, starts, values, count)
    _run(_write_lengths, n, starts, count, lengths)
