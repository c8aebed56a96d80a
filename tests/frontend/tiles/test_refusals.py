"""What kernels with tiles may not say: the first words of each error, and that it points at the line."""

import linecache
from typing import Any

import pytest

import warp_like as wp
from warp_like.base.errors import WarpCodegenError

ABOVE = """\
@wp.func
def pair(x: float):
    return x, x


@wp.func
def nothing(x: float):
    pass


@wp.func
def takes(t: wp.tile[float, 5]):
    t[0] = 1.0


@wp.kernel
def k(a: wp.array(dtype=float), n: int, x: float):
"""
SHORT = {
    "FOUR": "wp.tile_zeros(4, float)",
    "WIDE": "wp.tile_zeros((2, 3), float)",
    "SQUARE": "wp.tile_zeros((3, 3), float)",
}
ERRORS = {
    "t = wp.tile_zeros(1, float)\n    takes(wp.tile_broadcast(t, shape=5))": (
        "takes() changes its argument `t`, and several elements of `wp.tile_broadcast(t, shape=5)` are one element "
    ),
    "t = wp.tile_zeros(shape=4, dtype=float, memory=1)": "tile_zeros() has no argument `memory`",
    "t = wp.tile_zeros()": "tile_zeros() is missing argument `shape`",
    "t = wp.tile_zeros(shape=0, dtype=float)": (
        "the shape of tile_zeros() is made of positive constants, got literal 0"
    ),
    "t = wp.tile_zeros(shape=(-1, 3), dtype=float)": (
        "the shape of tile_zeros() is made of positive constants, got literal -1"
    ),
    "t = wp.tile_zeros(shape=2.5, dtype=float)": (
        "the shape of tile_zeros() is made of positive constants, got literal 2.5"
    ),
    "t = wp.tile_zeros(shape=(100000, 100000), dtype=float)": (
        "a tile has at most 2147483647 elements, got 10000000000"
    ),
    "t = wp.tile_zeros(shape='4', dtype=float)": ("the shape of tile_zeros() is made of positive constants, got `'4'`"),
    "t = wp.tile_load(x, shape=4)": "`a` of tile_load() is an array, got float32",
    "t = wp.tile_load(a, shape=4, offset=1.5)": "the offset of tile_load() is made of integers, got a float32",
    "t = wp.tile_load(a, shape=4, bounds_check=n)": "`bounds_check` of tile_load() is a constant, got int32",
    "t = wp.tile_load(a)": "tile_load() is missing argument `shape`",
    "t = wp.tile_load(a, 4, stride=2)": "tile_load() has no argument `stride`",
    "wp.tile_store(FOUR, a)": "`a` of tile_store() is an array, got tile[4] of float32",
    "wp.tile_store(a, FOUR, offset=(1, 2))": (
        "the offset of tile_store() has 1 numbers, one for each dimension, got 2"
    ),
    "wp.tile_store(a, WIDE)": "tile_store() takes an array of as many dimensions as the tile, got 1 and 2",
    "wp.tile_atomic_add(a, wp.tile_zeros(4, wp.uint8))": (
        "tile_atomic_add() takes a tile of the array's elements: the array has float32, the tile uint8"
    ),
    "t = wp.tile_load_indexed(a, FOUR, shape=4)": (
        "the indices of tile_load_indexed() are a tile of 4 int32, one for each element along axis 0, got"
    ),
    "t = wp.tile_load_indexed(a, wp.tile_arange(3, dtype=int), shape=4)": (
        "the indices of tile_load_indexed() are a tile of 4 int32, one for each element along axis 0, got"
    ),
    "t = wp.tile_load_indexed(a, wp.tile_arange(4, dtype=int), shape=4, axis=1)": (
        "the axis of tile_load_indexed() is a constant from -1 to 0, got literal 1"
    ),
    "t = FOUR\n    v = wp.tile_view(t, offset=(0, 0))": "a tile[4] of float32 takes 1 index, got 2",
    "t = FOUR\n    v = wp.tile_view(t, offset=2, shape=3)": (
        "a view of shape (3,) does not fit into a tile[4] of float32 there"
    ),
    "t = FOUR\n    v = wp.tile_view(t, offset=0, shape=n)": (
        "the shape of tile_view() is made of positive constants, got int32"
    ),
    "t = FOUR\n    v = t[2:2]": "`2:2` selects nothing of 4 elements",
    "t = FOUR\n    v = t[0:n]": "a slice of a vector, matrix, tile or tuple has constant bounds, got int32 in `0:n`",
    "t = FOUR\n    v = t[x]": "an index is an integer, a slice or a tile of int32, got float32",
    "t = FOUR\n    v = t[wp.tile_arange(2, dtype=float)]": (
        "the indices are a tile of integers of one dimension, got tile[2] of float32"
    ),
    "t = WIDE\n    t[wp.tile_arange(2, dtype=int), :] = WIDE": (
        "what a tile of indices gathers is a copy, which can't be assigned"
    ),
    "t = WIDE\n    t[0] = FOUR": "`t[0]` is a tile[3] of float32, got tile[4] of float32",
    "t = WIDE\n    t[0, 0] = FOUR": "`t[0, 0]` is a float32, got tile[4] of float32",
    "t = WIDE\n    t[0, 0] = wp.vec3(1.0)": "`t[0, 0]` is a float32, got vec3[float32]",
    "t = WIDE\n    t.x = 1.0": "a tile[2, 3] of float32 has no attribute `x` that can be assigned",
    "t = WIDE\n    t = wp.tile_transpose(FOUR)": "tile_transpose() takes a tile of 2 dimensions, got 1",
    "t = wp.tile_squeeze(WIDE, axis=0)": (
        "tile_squeeze() drops axes of extent 1, known when the kernel is compiled; the tile is (2, 3)"
    ),
    "t = wp.tile_squeeze(WIDE, axis=-3)": "an axis of tile_squeeze() is from -2 to 1 here, got -3",
    "t = wp.tile_squeeze(WIDE, axis=(0, 2))": "an axis of tile_squeeze() is from -2 to 1 here, got 2",
    "t = wp.tile_squeeze(WIDE, axis=n)": (
        "tile_squeeze() drops axes of extent 1, known when the kernel is compiled; the tile is (2, 3)"
    ),
    "t = wp.tile_reshape(FOUR, shape=(3, -1))": (
        "the shape of tile_reshape() is made of positive constants, got literal -1"
    ),
    "t = wp.tile_broadcast(FOUR, shape=4.0)": (
        "the shape of tile_broadcast() is made of positive constants, got literal 4.0"
    ),
    "t = FOUR\n    wp.tile_assign(t, WIDE)": (
        "a tile[2, 3] of float32 can't be assigned to a part of a tile[4] of float32"
    ),
    "t = FOUR\n    wp.tile_assign(t, wp.tile_zeros(5, float))": (
        "a tile[5] of float32 does not fit into a tile[4] of float32"
    ),
    "t = FOUR\n    wp.tile_assign(t, wp.tile_zeros(4, int))": (
        "a tile[4] of int32 can't be assigned to a part of a tile[4] of float32"
    ),
    "t = FOUR\n    y = wp.tile_extract(t, 0, 1)": (
        "tile_extract() of a tile[4] of float32 takes 1 indices, more for a part of the element, got 2"
    ),
    "t = FOUR\n    t += 1.0": "`+` does not take tile[4] of float32 and literal 1.0",
    "t = FOUR\n    t += wp.tile_zeros(4, int)": "`+` does not mix types: tile[4] of float32 and tile[4] of int32",
    "t = FOUR + 1.0": "`+` does not take tile[4] of float32 and literal 1.0",
    "t = FOUR @ FOUR": "`@` does not take tiles",
    "t = FOUR > FOUR": "`>` does not take tile[4] of float32 and tile[4] of float32",
    "t = FOUR // FOUR": "`//` does not take tile[4] of float32 and tile[4] of float32",
    "t = FOUR & FOUR": "`&` does not take tile[4] of float32 and tile[4] of float32",
    "if FOUR:\n        a[0] = 1.0": "a condition is a bool or a number, got a tile[4] of float32",
    "t = wp.tile_map(wp.sin, FOUR, WIDE)": "tile_map() takes tiles of one shape, got (4,) and (2, 3)",
    "t = wp.tile_map(wp.add, FOUR, WIDE)": "tile_map() takes tiles of one shape, got (4,) and (2, 3)",
    "t = wp.tile_map(wp.sin)": "tile_map() takes a function and at least one tile",
    "t = wp.tile_map(wp.sin, x)": "tile_map() takes at least one tile",
    "t = wp.tile_map(wp.sin, wp.tile_zeros(4, int))": "sin() needs a float for argument 1 `x`, got int32",
    "t = wp.tile_map(pair, FOUR)": "the function of tile_map() returns one value, got a tuple of 2",
    "t = wp.tile_map(nothing, FOUR)": "the function of tile_map() returns one value, got a call without a result",
    "t = wp.tile_reduce(wp.sin, FOUR)": "sin() takes 1 argument, got 2",
    "t = wp.tile_reduce(wp.gt, FOUR)": "the function of tile_reduce() gives float32, as it takes, got bool",
    "t = wp.tile_reduce(wp.add, FOUR, axis=n)": "the axis of tile_reduce() is a constant from -1 to 0, got int32",
    "t = wp.tile_astype(FOUR, dtype=wp.vec2)": (
        "tile_astype() converts tiles of numbers, got float32 to vec2[float32]"
    ),
    "t = wp.tile_where(FOUR, WIDE, WIDE)": "tile_where() takes tiles of one shape, got (4,) and (2, 3)",
    "t = wp.tile_scan_inclusive(wp.tile_zeros(4, wp.vec2))": (
        "tile_scan_inclusive() takes a tile of numbers, got tile[4] of vec2[float32]"
    ),
    "k = FOUR\n    v = wp.tile_zeros(5, float)\n    wp.tile_sort(k, v)": (
        "tile_sort() takes tiles of one shape, got (4,) and (5,)"
    ),
    "wp.tile_sort(FOUR, FOUR)": (
        "tile_sort() changes `keys`, so it takes a variable that holds a tile or a part of it, got tile[4] of"
    ),
    "k = wp.tile_zeros(4, wp.vec2)\n    v = FOUR\n    wp.tile_sort(k, v)": (
        "the keys of tile_sort() are numbers, got vec2[float32]"
    ),
    "t = wp.tile_matmul(FOUR, FOUR)": "`a` of tile_matmul() is a tile of 2 dimensions, got tile[4] of float32",
    "t = wp.tile_matmul(wp.tile_zeros((2, 2), int), wp.tile_zeros((2, 2), int))": (
        "`a` of tile_matmul() has float elements, got int32"
    ),
    "t = WIDE\n    wp.tile_matmul(WIDE, SQUARE, t, precision='half')": (
        '`precision` of tile_matmul() is "default", "tf32" or "tensor_cores", got `\'half\'`'
    ),
    "t = FOUR\n    wp.tile_matmul(WIDE, SQUARE, t)": (
        "tile_matmul() adds a product of shape (2, 3) to `out`, which is (4,)"
    ),
    "wp.tile_matmul(WIDE, SQUARE, out=WIDE)": (
        "tile_matmul() changes `out`, so it takes a variable that holds a tile or a part of it, got tile[2, 3]"
    ),
    "t = wp.tile_cholesky(SQUARE, fill_mode='both')": (
        '`fill_mode` of tile_cholesky() is "lower" or "upper", got `\'both\'`'
    ),
    "t = wp.tile_cholesky(wp.tile_zeros((3, 3), wp.float16))": (
        "`A` of tile_cholesky() is a square tile of float32 or float64, got tile[3, 3] of float16"
    ),
    "t = wp.tile_lower_solve(SQUARE, FOUR)": (
        "`y` of tile_lower_solve() is a tile of 3 rows of float32, got a tile[4] of float32"
    ),
    "t = wp.tile_lower_solve(SQUARE, wp.tile_zeros(3, wp.float64))": (
        "`y` of tile_lower_solve() is a tile of 3 rows of float32, got a tile[3] of float64"
    ),
    "t = wp.tile_diag_add(SQUARE, FOUR)": (
        "tile_diag_add() takes a square tile and its diagonal, got tile[3, 3] of float32 and tile[4] of float32"
    ),
    "t = FOUR\n    wp.tile_fft(t)": "tile_fft() takes a tile of vectors of 2 floats, got tile[4] of float32",
    "wp.tile_fft(wp.tile_zeros((2, 2), wp.vec2))": (
        "tile_fft() changes `inout`, so it takes a variable that holds a tile or a part of it, got tile[2, 2] of"
    ),
    "s = wp.tile_stack(capacity=n, dtype=float)": (
        "the capacity of tile_stack() is made of positive constants, got int32"
    ),
    "s = wp.tile_stack(capacity=4, dtype=float)\n    wp.tile_stack_push(s, wp.vec2(1.0), True)": (
        "the value of tile_stack_push() is a float32, got vec2[float32]"
    ),
    "s = wp.tile_stack(capacity=4, dtype=float)\n    out[0] = float(s.count)": (
        "a tile_stack[4] of float32 has no field `count`"
    ),
    "t = FOUR\n    wp.tile_stack_push(t, 1.0, True)": (
        "tile_stack_push() takes a variable that holds a tile_stack(), got tile[4] of float32"
    ),
    "t = FOUR\n    wp.tile_scatter_add(t, 0, 1.0)": "tile_scatter_add() is missing argument `has_value`",
    "t = FOUR\n    wp.tile_scatter_add(t, 0.5, 1.0, True)": "an index is an integer, got literal 0.5",
    "t = FOUR\n    wp.tile_scatter_add(t, 0, wp.vec2(), True)": (
        "the value of tile_scatter_add() is a float32, got vec2[float32]"
    ),
    "y = wp.untile(FOUR)": (
        "untile() takes a tile with an element for each thread of the block, which is 1, got tile[4] of float32"
    ),
    "t = wp.tile(a)": (
        "a tile has numbers, vectors, matrices or structs of these as elements, got an array1d[float32]"
    ),
    "t = wp.tile_arange(0, 4, 1, 5)": "tile_arange() takes up to 3 arguments by position, got 4",
    "t = WIDE\n    v = wp.tile_view(t, offset=(slice(0, 2), slice(0, 3)), shape=(2, 3))": (
        "tile_view() takes slices as offsets, or a `shape`, not both"
    ),
    "t = wp.tile_arange(0, 4, 0)": "tile_arange(): the step cannot be zero",
    "t = wp.tile_arange(0.0, 1.0, 5.0e-324, dtype=wp.float64)": "tile_arange() has at most 2147483647 elements",
    "t = WIDE\n    v = wp.tile_view(t, offset=(-1,))": "an offset of tile_view() is from 0 to 1 here, got -1",
    "t = WIDE\n    v = wp.tile_view(t, offset=(4, 0), shape=(2,))": "a view of shape (2,) does not fit into a tile",
    'h = wp.tile_zeros((2, 2), wp.float16)\n    p = wp.tile_matmul(h, h, precision="tf32")': (
        'precision="tf32" is for tiles of float32, got float16'
    ),
    "t = wp.tile_arange(0, 4, 0.5, dtype=int)": "`step` of tile_arange() is an int32, got 0.5",
    "t = wp.tile_arange()": "tile_arange() is missing argument `start`",
    "t = wp.tile_full(4, a)": (
        "a tile has numbers, vectors, matrices or structs of these as elements, got an array1d[float32]"
    ),
    "t = wp.tile_full(4, 2.5, dtype=wp.vec2i)": "the value of tile_full() is a vec2[int32], got literal 2.5",
    "t = FOUR\n    n = t": "`n` is an int32 as a parameter and can't become a tile[4] of float32",
    "t = FOUR\n    takes(t)": "takes() needs a tile[5] of float32 for argument 1 `t`, got tile[4] of float32",
    "t = FOUR\n    return t": "a kernel returns nothing",
    "a[0] = FOUR": "`a[0]` is a float32, got tile[4] of float32",
    "t = FOUR\n    y = float(t)": "float() takes a number, got a tile[4] of float32",
    "t = wp.zeros(shape=4, dtype=wp.tile)": (
        "<builtin wp.tile> is not a type of the kernel language; those are int, float, bool, wp.float64,"
    ),
    "t = FOUR if n > 1 else wp.tile_zeros(5, float)": (
        "the other side of this `if` is a tile[4] of float32, got tile[5] of float32"
    ),
    "t = wp.where(n > 1, FOUR, wp.tile_zeros(5, float))": (
        "where() needs tile[4] of float32 for argument 3 `value_if_false`, got tile[5] of float32"
    ),
    "t = wp.tile_dot(FOUR, WIDE)": (
        "tile_dot() needs tile[4] of float32 for argument 2 `b`, got tile[2, 3] of float32"
    ),
    "t = wp.tile_dot(FOUR, wp.tile_zeros(4, int))": (
        "tile_dot() does not mix types: tile[4] of float32 and tile[4] of int32"
    ),
    "t = wp.tile_argmin(wp.tile_zeros(4, wp.vec2))": (
        "tile_argmin() needs a tile whose elements are each a number for argument 1 `a`, got tile[4] of"
    ),
    "t = wp.tile_sum(a)": "`a` of tile_sum() is a tile, got an array1d[float32]",
    "t = wp.tile_sum(WIDE, axis=0, keepdims=True)": "tile_sum() has no argument `keepdims`",
    "t = FOUR\n    wp.tile_axpy(wp.vec2(), t, t)": "`alpha` of tile_axpy() is a float32, got vec2[float32]",
    "t = FOUR\n    wp.tile_add_inplace(t, WIDE)": "tile_add_inplace() takes tiles of one shape, got (4,) and (2, 3)",
    "t = FOUR\n    wp.tile_bit_and_inplace(t, t)": (
        "bit_and() needs an integer or a bool, a vector, a matrix, a tile whose elements are each an integer, a"
    ),
    "y = wp.tile_add_inplace(FOUR, FOUR)": (
        "tile_add_inplace() changes `a`, so it takes a variable that holds a tile or a part of it, got tile[4]"
    ),
    "t = wp.tile_randf(4, 2.5)": "randf() needs uint32 for argument 1 `state`, got float32",
    "wp.tile_store(a, wp.tile_atomic_add(a, wp.tile_zeros((1, 2), float)))": (
        "tile_atomic_add() takes an array of as many dimensions as the tile, got 1 and 2"
    ),
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors(statement: str):
    text = statement
    for short, meant in SHORT.items():
        text = text.replace(short, meant)
    code = f"{ABOVE}    {text}\n"
    file = f"<{statement}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    names: dict[str, Any] = {"wp": wp}
    exec(compile(code, file, "exec"), names)
    with pytest.raises(WarpCodegenError) as caught:
        wp.launch_tiled(names["k"], dim=1, inputs=[wp.zeros(4, dtype=float), 1, 1.0], block_dim=1)
    assert str(caught.value).startswith(ERRORS[statement])
    first = ABOVE.count("\n") + 1
    assert first <= caught.value.loc.line < first + len(statement.splitlines())
    assert "^" in str(caught.value)
