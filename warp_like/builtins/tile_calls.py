"""Builtins of tiles that the frontend builds: their signatures and documentation.

Their derivatives are those of what they are built of: loads and stores, the operators, and the rows of ``tiles`` and
``tile_algebra``.
"""
# mypy: disable-error-code="empty-body, no-redef"

from __future__ import annotations

from typing import Any

from warp_like.builtins.spec import Special, builtin
from warp_like.builtins.tiles import GROUP

LOAD = "t = wp.tile_load(a, shape=4)"


def _declare(
    name: str, params: str, doc: str, example: str = "", result: Any = Any, assigns: tuple[str, ...] = ()
) -> None:
    """Declare the call ``wp.name(params)``; ``example`` follows a line that loads ``t`` from ``a``."""
    space: dict[str, Any] = {}
    exec(f"def signature({params}): pass", space)  # its text is what the reference shows
    signature = space["signature"]
    signature.__doc__ = doc
    signature.__annotations__ = {p.split("=")[0].strip(" *"): Any for p in params.split(",")} | {"return": result}
    lines = "\n".join([LOAD, *example.splitlines()]) if example else ""
    builtin(group=GROUP, name=name, lower=Special(gradient="differentiated"), assigns=assigns, example=lines)(signature)


SHAPE = "``shape`` is a number or a tuple of 1 to 4 of them, known when the kernel is compiled."
STORAGE = '``storage`` ("register" or "shared") is a hint that the CPU has no use for.'
OUTSIDE = "Elements outside of the array {} ``bounds_check=False`` promises that there are none."

# --- making ---

_declare(
    "tile_zeros",
    'shape, dtype=float, storage="register"',
    f"Return a tile of zeros.\n\n{SHAPE} {STORAGE}",
    "wp.tile_store(a, t + wp.tile_zeros(shape=4, dtype=float))",
)
_declare(
    "tile_ones",
    'shape, dtype=float, storage="register"',
    f"Return a tile of ones; in vectors and matrices, each component is one.\n\n{SHAPE} {STORAGE}",
    "wp.tile_store(a, t + wp.tile_ones(shape=4, dtype=float))",
)
_declare(
    "tile_empty",
    'shape, dtype=float, storage="register"',
    f"Return a tile whose elements are to be assigned. They are zero until then.\n\n{SHAPE} {STORAGE}",
    "e = wp.tile_empty(shape=4, dtype=float)\nwp.tile_assign(e, t)\nwp.tile_store(a, e)",
)
_declare(
    "tile_full",
    'shape, value, dtype=None, storage="register"',
    f"Return a tile whose elements are all ``value``, converted to ``dtype`` where that is given.\n\n{SHAPE} {STORAGE}",
    "wp.tile_store(a, t + wp.tile_full(shape=4, value=2.0, dtype=float))",
)
_declare(
    "tile_arange",
    'start, stop=None, step=1, dtype=None, storage="register"',
    "Return a tile of the numbers from ``start`` to before ``stop``, by ``step``; one number alone is ``stop``.\n\n"
    "All are known when the kernel is compiled. The ``dtype`` is float32 unless it is given.",
    "wp.tile_store(a, t + wp.tile_arange(4, dtype=float))",
)
_declare(
    "tile_randi",
    'shape, rng, min=None, max=None, storage="register"',
    "Return a tile of random integers, from ``min`` to before ``max`` where these are given.\n\n``rng`` is a state as "
    "``wp.rand_init`` makes it. It does not change, so a second call gives the same numbers. " + SHAPE,
    "wp.tile_store(a, t + wp.tile_astype(wp.tile_randi(4, wp.rand_init(n[0]), 0, 10), dtype=float))",
)
_declare(
    "tile_randf",
    'shape, rng, min=None, max=None, storage="register"',
    "Return a tile of random floats from 0 to before 1, or from ``min`` to before ``max``.\n\n``rng`` is a state as "
    "``wp.rand_init`` makes it. It does not change, so a second call gives the same numbers. " + SHAPE,
    "wp.tile_store(a, t + wp.tile_randf(4, wp.rand_init(n[0])))",
)

# --- memory ---

_declare(
    "tile_load",
    'a, shape, offset=None, storage="register", bounds_check=True, aligned=False',
    "Return the tile of the elements of array ``a`` from ``offset`` on; from its start where that is left out.\n\n"
    f"``a`` has as many dimensions as the tile. {OUTSIDE.format('are zero.')} ``aligned`` is a hint. {SHAPE} {STORAGE}",
    "wp.tile_store(a, 2.0 * t)",
)
_declare(
    "tile_store",
    "a, t, offset=None, bounds_check=True, aligned=False",
    f"Write tile ``t`` to array ``a`` from ``offset`` on.\n\n{OUTSIDE.format('are not written.')}",
    "wp.tile_store(a, 2.0 * t)",
    result=None,
)
_declare(
    "tile_load_indexed",
    'a, indices, shape, offset=None, axis=0, storage="register"',
    "Return a tile of elements of array ``a`` that the int32 tile ``indices`` chooses along ``axis``.\n\n"
    "Elements outside of the array are zero.",
    "i = wp.tile_arange(3, -1, -1, dtype=int)\nwp.tile_store(a, wp.tile_load_indexed(a, i, shape=4))",
)
_declare(
    "tile_store_indexed",
    "a, indices, t, offset=None, axis=0",
    "Write tile ``t`` to the places of array ``a`` that the int32 tile ``indices`` chooses along ``axis``.\n\n"
    "What is outside of the array is not written.",
    "i = wp.tile_arange(3, -1, -1, dtype=int)\nwp.tile_store_indexed(a, i, t)",
    result=None,
)
for _kind, _word in (("add", "sum"), ("min", "minimum"), ("max", "maximum")):
    _declare(
        f"tile_atomic_{_kind}",
        "a, t, offset=None, bounds_check=True",
        f"Let each element of array ``a`` from ``offset`` on be its {_word} with that of tile ``t``, atomically.\n\n"
        f"Returns the tile of old values. {OUTSIDE.format('are left out, their old values are 0.')}",
        f"wp.tile_atomic_{_kind}(a, t)",
    )
_declare(
    "tile_atomic_add_indexed",
    "a, indices, t, offset=None, axis=0",
    "Add tile ``t`` atomically to the places of array ``a`` that the int32 tile ``indices`` chooses along ``axis``.\n\n"
    "Returns the tile of old values; where there is no such place, it has 0.",
    "i = wp.tile_arange(3, -1, -1, dtype=int)\nwp.tile_atomic_add_indexed(a, i, t)",
)

# --- parts ---

_declare(
    "tile_view",
    "t, offset, shape=None",
    "Return a part of tile ``t``, through which it can be changed.\n\nWith a ``shape``, the part begins at ``offset``. "
    "Without one, the entries of ``offset`` are indices or slices, as in ``t[i, 2:4]``.",
    "v = wp.tile_view(t, offset=(1,), shape=(2,))\nv += wp.tile_ones(shape=2, dtype=float)\nwp.tile_store(a, t)",
)
_declare(
    "tile_slice_indexed",
    "t, indices",
    "Return the elements of tile ``t`` that a tile of integers chooses along one axis: ``t[i, :]``.\n\n"
    "Negative integers count from the end.",
    "i = wp.tile_arange(3, -1, -1, dtype=int)\nwp.tile_store(a, wp.tile_slice_indexed(t, i))",
)
_declare(
    "tile_squeeze",
    "t, axis=None",
    "Return tile ``t`` without its axes of extent 1, or without those that are given; a view.",
    "wp.tile_store(a, wp.tile_squeeze(wp.tile_reshape(t, shape=(1, 4))))",
)
_declare(
    "tile_reshape",
    "t, shape",
    "Return tile ``t`` with another shape, its elements in the same order; a view. One extent may be -1.",
    "wp.tile_store(a, wp.tile_reshape(wp.tile_reshape(t, shape=(2, -1)), shape=(4,)))",
)
_declare(
    "tile_transpose",
    "a",
    "Return a tile of two dimensions with rows and columns exchanged; a view.",
    "m = wp.tile_reshape(t, shape=(2, 2))\nwp.tile_store(a, wp.tile_reshape(wp.tile_transpose(m), shape=(4,)))",
)
_declare(
    "tile_broadcast",
    "a, shape",
    "Return tile ``a`` repeated to a larger shape, by the rules of ``numpy.broadcast_to``; a view.",
    "wp.tile_store(a, t + wp.tile_broadcast(wp.tile_sum(t), shape=(4,)))",
)
_declare(
    "tile_extract",
    "a, i, j=None, k=None, l=None, m=None, n=None",
    "Return the element of tile ``a`` at an index, or with more indices a part of the element.",
    "a[0] = wp.tile_extract(t, 1)",
)
_declare(
    "tile_assign",
    "dst, src, offset=None",
    "Let the elements of tile ``dst`` from ``offset`` on be those of tile ``src``.",
    "wp.tile_assign(t, wp.tile_ones(shape=2, dtype=float), offset=1)\nwp.tile_store(a, t)",
    result=None,
    assigns=("dst",),
)

# --- threads ---

_declare(
    "tile",
    "x, preserve_type=False",
    "Return the values that the threads of a block have for ``x``, as a tile; a block may have one thread.\n\n"
    "The components of vectors and matrices are dimensions in front, unless ``preserve_type`` is set.",
    "a[0] = wp.tile_sum(wp.tile(t[1]))[0]",
)
_declare(
    "untile",
    "a",
    "Return the thread's own value out of a tile that has one for each thread of the block, as ``wp.tile`` makes it.",
    "a[0] = wp.untile(wp.tile(t[1]))",
)
_declare(
    "tile_from_thread",
    'shape, value, thread_idx, storage="register"',
    "Return a tile whose elements are all the ``value`` of one thread of the block.",
    "wp.tile_store(a, wp.tile_from_thread(4, t[1], 0))",
)
for _name, _word, _more in (("add", "Add ``value`` to", ", atomic=True"), ("masked", "Write ``value`` to", "")):
    _declare(
        f"tile_scatter_{_name}",
        f"a, i, value, has_value{_more}",
        f"{_word} the element of tile ``a`` at index ``i`` (and ``j``, ``k``, ``l``), if ``has_value`` holds.",
        f"wp.tile_scatter_{_name}(t, 1, 2.0, True)\nwp.tile_store(a, t)",
        result=None,
        assigns=("a",),
    )
_declare(
    "tile_stack",
    "capacity, dtype",
    "Return an empty stack of at most ``capacity`` values, which the threads of a block have together.",
    "s = wp.tile_stack(capacity=8, dtype=float)\nwp.tile_stack_push(s, t[0], True)\n"
    "a[0] = float(wp.tile_stack_count(s))",
)
_declare(
    "tile_stack_push",
    "s, value, has_value",
    "Put ``value`` on a stack if ``has_value`` holds, and return its place; -1 where it was not put there.",
    "s = wp.tile_stack(capacity=8, dtype=float)\nwp.tile_stack_push(s, t[0], True)",
    assigns=("s",),
)
_declare(
    "tile_stack_pop",
    "s",
    "Take the last value from a stack: returns it, and its place, which is -1 where the stack is empty.",
    "s = wp.tile_stack(capacity=8, dtype=float)\nwp.tile_stack_push(s, t[0], True)\n"
    "x, place = wp.tile_stack_pop(s)\na[0] = x",
    assigns=("s",),
)
_declare(
    "tile_stack_clear",
    "s",
    "Take all values from a stack.",
    "s = wp.tile_stack(capacity=8, dtype=float)\nwp.tile_stack_clear(s)",
    result=None,
    assigns=("s",),
)
_declare(
    "tile_stack_count",
    "s",
    "Return the number of values on a stack.",
    "s = wp.tile_stack(capacity=8, dtype=float)\na[0] = float(wp.tile_stack_count(s))",
)

# --- functions over elements ---

_declare(
    "tile_map",
    "op, a, *args",
    "Return the tile of ``op(x, ...)`` for the elements ``x`` of tile ``a`` and of other tiles of its shape.\n\n"
    "``op`` is a builtin or a function. An argument that is no tile is the same for all elements.",
    "wp.tile_store(a, wp.tile_map(wp.sin, t))",
)
_declare(
    "tile_astype",
    "t, dtype",
    "Return tile ``t`` with its elements converted to another scalar type.",
    "wp.tile_store(a, wp.tile_astype(wp.tile_astype(t, dtype=int), dtype=float))",
)
_declare(
    "tile_where",
    "cond, a, b",
    "Return the tile of the elements of ``a`` where those of ``cond`` hold, and of those of ``b`` elsewhere.\n\n"
    "``a`` and ``b`` are tiles or single values.",
    "wp.tile_store(a, wp.tile_where(wp.tile_map(wp.gt, t, 0.0), t, 0.0))",
)
_declare(
    "tile_reduce",
    "op, a, axis=None",
    "Return the elements of tile ``a`` combined by ``op``, as a tile of one element; or those along ``axis``.\n\n"
    "``op`` takes two elements and gives one; it is associative and commutative, since the order is not defined.",
    "wp.tile_store(a, wp.tile_reduce(wp.max, t))",
)
for _name, _word in (
    ("inclusive", "sum of each element and those before it"),
    ("exclusive", "sum of the elements before each one"),
    ("max_inclusive", "maximum of each element and those before it"),
    ("min_inclusive", "minimum of each element and those before it"),
):
    _declare(
        f"tile_scan_{_name}",
        "a",
        f"Return a tile with the {_word}, row by row.",
        f"wp.tile_store(a, wp.tile_scan_{_name}(t))",
    )
_declare(
    "tile_sort",
    "keys, values",
    "Sort tile ``keys`` in ascending order, and move the elements of ``values`` along; equal keys stay in order.\n\n"
    "NaN comes last.",
    "v = wp.tile_arange(4, dtype=int)\nwp.tile_sort(t, v)\nwp.tile_store(a, t)",
    result=None,
    assigns=("keys", "values"),
)

# --- linear algebra ---

_TWO = "m = wp.tile_reshape(t, shape=(2, 2)) + wp.tile_diag_add(wp.tile_zeros((2, 2), float), wp.tile_full(2, 9.0))\n"
_STORE = "wp.tile_store(a, wp.tile_reshape(x, shape=(4,)))"

_declare(
    "tile_matmul",
    'a, b, out=None, alpha=1.0, beta=1.0, precision="default"',
    "Return the product ``alpha * a @ b`` of two tiles; or with ``out``, let it be ``alpha * a @ b + beta * out``.\n\n"
    "Sums are made in the type of ``a``, or of ``out``. A transposed operand, ``wp.tile_transpose(a)``, is not copied."
    '\n\nWith ``precision="tensor_cores"``, CUDA devices may add up products of ``float16`` or ``bfloat16`` by matrix '
    "units, whose sums in ``float32`` are cut off, not rounded; so are those of the gradient that have such factors. "
    "On the CPU, processors that are fast at it sum up ``bfloat16`` in pairs, by rounded operations for which denormal "
    'numbers are zero. ``"tf32"`` is for ``float32`` and changes nothing here.',
    "m = wp.tile_reshape(t, shape=(2, 2))\nx = wp.tile_matmul(m, m)\n" + _STORE,
    assigns=("out",),
)
_declare(
    "tile_matmul_transpose_update",
    'a, b, out, alpha=1.0, beta=1.0, precision="default"',
    "Let tile ``out`` be ``alpha * a @ b^T + beta * out``.",
    "m = wp.tile_reshape(t, shape=(2, 2))\nx = wp.tile_zeros((2, 2), float)\n"
    "wp.tile_matmul_transpose_update(m, m, x)\n" + _STORE,
    result=None,
    assigns=("out",),
)
_declare(
    "tile_diag_add",
    "a, d",
    "Return the square tile ``a`` with tile ``d`` added to its diagonal.",
    "x = wp.tile_diag_add(wp.tile_reshape(t, shape=(2, 2)), wp.tile_ones(2, float))\n" + _STORE,
)
_declare(
    "tile_cholesky",
    'A, fill_mode="lower"',
    "Return the Cholesky factor of a symmetric positive definite tile: ``L`` with ``L @ L^T = A``.\n\n"
    'With ``fill_mode="upper"`` it is ``U`` with ``U^T @ U = A``. Only that triangle of ``A`` is read, and gets the '
    "gradient.",
    _TWO + "x = wp.tile_cholesky(m)\n" + _STORE,
)
_declare(
    "tile_cholesky_inplace",
    'A, fill_mode="lower"',
    "Let tile ``A`` be its Cholesky factor, see ``wp.tile_cholesky``.",
    _TWO + "x = m + m\nwp.tile_cholesky_inplace(x)\n" + _STORE,
    result=None,
    assigns=("A",),
)
for _name, _params, _what in (
    ("tile_lower_solve", "L, y", "``L @ x = y`` with a lower triangular tile ``L``"),
    ("tile_upper_solve", "U, z", "``U @ x = z`` with an upper triangular tile ``U``"),
    ("tile_cholesky_solve", 'L, y, fill_mode="lower"', "``A @ x = y``, given the Cholesky factor of ``A``"),
):
    _right = _params.split(",")[1].strip()
    _declare(
        _name,
        _params,
        f"Return the solution ``x`` of {_what}.\n\n``{_right}`` is a tile of one dimension, or of two: a column for "
        "each system. Only one triangle of the matrix is read.",
        _TWO + f"x = wp.{_name}(m, m)\n" + _STORE,
    )
    _declare(
        f"{_name}_inplace",
        _params,
        f"Let tile ``{_right}`` be the solution of {_what}, see ``wp.{_name}``.",
        _TWO + f"x = m + m\nwp.{_name}_inplace(m, x)\n" + _STORE,
        result=None,
        assigns=(_right,),
    )
for _name, _word in (("add", "Add tile ``b`` to"), ("sub", "Subtract tile ``b`` from")):
    _declare(
        f"tile_{_name}_inplace",
        "a, b",
        f"{_word} tile ``a``.",
        f"wp.tile_{_name}_inplace(t, wp.tile_ones(4, float))\nwp.tile_store(a, t)",
        result=None,
        assigns=("a",),
    )
for _name, _word in (("and", "and"), ("or", "or"), ("xor", "exclusive or")):
    _declare(
        f"tile_bit_{_name}_inplace",
        "a, b",
        f"Let each element of tile ``a``, an integer, be its bitwise {_word} with that of tile ``b``.",
        f"i = wp.tile_arange(4, dtype=int)\nwp.tile_bit_{_name}_inplace(i, wp.tile_ones(4, int))\n"
        "wp.tile_store(a, wp.tile_astype(i, float))",
        result=None,
        assigns=("a",),
    )
_declare(
    "tile_axpy",
    "alpha, src, dest",
    "Add ``alpha * src`` to tile ``dest``.",
    "wp.tile_axpy(2.0, wp.tile_ones(4, float), t)\nwp.tile_store(a, t)",
    result=None,
    assigns=("dest",),
)
for _name, _sign, _word in (("tile_fft", "-", ""), ("tile_ifft", "", "inverse ")):
    _declare(
        _name,
        "inout",
        f"Let each row of a tile of ``vec2`` be its {_word}Fourier transform, without scaling.\n\n"
        f"Element ``k`` of a row of ``n`` is the sum of ``x[j] * exp({_sign}2 pi i j k / n)``; components are real and "
        "imaginary part. Any ``n`` will do: the time grows with the sum of its prime factors. Algorithm: Stockham's, "
        "see Van Loan, Computational Frameworks for the Fast Fourier Transform (1992).",
        f"z = wp.tile_full(shape=(1, 4), value=wp.vec2(t[0], 0.0))\nwp.{_name}(z)\na[0] = z[0, 0][0]",
        result=None,
        assigns=("inout",),
    )
