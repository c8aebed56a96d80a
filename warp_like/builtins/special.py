"""Builtins whose calls the frontend builds itself: they take arrays, types or text, or any number of arguments.

The rows give name, parameters and documentation; the frontend holds what they mean.
"""
# mypy: disable-error-code="empty-body"

from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins.spec import NoGradient, Special, builtin
from warp_like.ir.atomics import KINDS, AtomicKind
from warp_like.ir.types import Scalar, bfloat16, float32, int32

UTILITY = "Utility"
VECTOR = "Vector Math"
NO_VALUE = NoGradient("it has no value that depends on a float")
MADE = Special("that of each component")

# --- on the host ----------------------------------------------------------------------------------------------
# The classes of values need the native extension, so they are imported when one of these is called.


def _dtype(args: tuple[Any, ...], dtype: Any) -> Any:
    """The scalar type asked for, or that of the arguments, as in a kernel."""
    if dtype is not None:
        return dtype
    known = (getattr(type(a), "_scalar_", None) or getattr(type(a), "_ir_type_", None) for a in args)
    return next((t for t in known if t is not None), float if any(isinstance(a, float) for a in args) else int)


def _vector(*args: Any, length: Any = None, dtype: Any = None) -> Any:
    from warp_like.values import vector

    if not args and length is None:
        raise TypeError("wp.vector() needs its components or a length")
    count = sum(len(a) if hasattr(a, "__len__") else 1 for a in args)
    return vector(length or count, _dtype(args or (0.0,), dtype))(*args)


def _matrix(*args: Any, shape: Any = None, dtype: Any = None, **parts: Any) -> Any:
    from warp_like.values import matrix

    given = (*args, *(parts[p] for p in ("pos", "rot", "scale")[len(args) :] if p in parts))
    if shape is None and len(given) == 3:
        pos, rot, scale = (np.array(v, np.float64) for v in given)
        from warp_like.builtins import rigid

        return matrix((4, 4), _dtype(given, dtype))._from_ndarray(rigid.compose(pos, rot, scale))
    if shape is None or parts:
        raise TypeError("wp.matrix() needs a shape, or a position, a rotation and a scale")
    return matrix(shape, _dtype(args or (0.0,), dtype))(*args)


def _from_vectors(args: tuple[Any, ...], by_rows: bool) -> Any:
    from warp_like.values import Vec, matrix

    if not args or not all(isinstance(a, Vec) and type(a) is type(args[0]) for a in args):
        raise TypeError("a matrix is made of vectors of one type")
    shape = (len(args), len(args[0]))
    numbers = np.array([list(a) for a in args], dtype=object)
    return matrix(shape if by_rows else shape[::-1], args[0]._scalar_)(*(numbers if by_rows else numbers.T).ravel())


def _identity(n: Any, dtype: Any) -> Any:
    from warp_like.values import matrix

    return matrix((n, n), dtype)(*(int(r == c) for r in range(n) for c in range(n)))


def _cast(a: Any, dtype: Any) -> Any:
    from warp_like.values import constant_of, numpy_dtype, to_ir
    from warp_like.values.dtypes import host_number

    typed = constant_of(a)
    given = typed[0] if typed else float32 if isinstance(a, float) else int32
    wanted = to_ir(dtype)
    if not (isinstance(given, Scalar) and isinstance(wanted, Scalar) and given.bits == wanted.bits):
        raise TypeError(f"wp.cast() keeps the bits: {given} can't be {wanted}")
    if bfloat16 in (given, wanted):
        raise TypeError("wp.cast() of bfloat16 is for kernels")
    number = np.array(typed[1] if typed else a, numpy_dtype(given)).view(numpy_dtype(wanted)).item()
    return host_number(number, wanted)


# --- rows -----------------------------------------------------------------------------------------------------


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE, example="i = wp.tid()\na[i] = float(i)")
def tid() -> Any:
    """Return the index of the current thread: ``i = wp.tid()``, or ``i, j = wp.tid()`` for up to eight dimensions.

    In a launch of more dimensions these are the first indices, so several threads have the same; in a launch of fewer
    dimensions the last indices are 0.
    """


def _without_gradient(kind: AtomicKind) -> NoGradient | None:
    return NoGradient(kind.no_gradient, zero=not kind.has_floats) if kind.derivative is None else None


def _declare_atomic(kind: AtomicKind) -> None:
    name, note = f"atomic_{kind.name}", "" if kind.has_floats else " Integers only."

    def signature(arr: Any, *indices: Any, value: Any) -> Any:
        pass

    signature.__doc__ = f"""{kind.does} atomically and return the element's old value.

    The call is ``wp.{name}(arr, i, value)``, with one index for each dimension of ``arr``. The components of a vector
    or matrix are updated each on its own.{note}
    """
    lower, adjoint, example = Special(kind.gradient), _without_gradient(kind), f"old = wp.{name}(n, 0, wp.tid())"
    builtin(name=name, group=UTILITY, lower=lower, adjoint=adjoint, example=example)(signature)


for _kind in KINDS.values():
    if _kind.does:
        _declare_atomic(_kind)


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=_without_gradient(KINDS["cas"]),
    example="old = wp.atomic_cas(n, 0, 0, wp.tid())",
)
def atomic_cas(arr: Any, *indices: Any, compare: Any, value: Any) -> Any:
    """Store ``value`` in an element of ``arr`` if it equals ``compare``, atomically, and return its old value.

    The call is ``wp.atomic_cas(arr, i, compare, value)``, with one index for each dimension of ``arr``. Numbers of 32
    and 64 bits only, compared by their bits; the components of a vector or matrix are compared each on its own.
    """


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=NoGradient("it does not pass through a reinterpretation of bits", zero=False),
    ref=_cast,
    example="n[0] = wp.cast(a[0], int)",
)
def cast(a: Any, dtype: Any) -> Any:
    """Return the bits of ``a`` as a ``dtype`` of the same size: numbers, vectors, matrices and structs without arrays.

    A struct has the layout of C, and zeros between its fields. On the host numbers alone.
    """


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE, example="p = wp.address_of(a[0])")
def address_of(value: Any) -> Any:
    """Return the memory address of an element of an array, or of a field of it, as a ``uint64``.

    The call is ``wp.address_of(arr[i])`` or ``wp.address_of(arr[i].field)``. Variables lie in registers and have no
    address; an array of the thread, ``wp.zeros(shape=(1,), dtype=float)``, has.
    """


@builtin(
    name="print", group=UTILITY, lower=Special(), adjoint=NO_VALUE, ref=print, example="print(a[0], wp.vec2(1.0, 2.0))"
)
def print_(*values: Any) -> None:
    """Print the values of this thread on one line; ``sep`` and ``end`` may be given as literals, as in Python.

    Vectors print their components, matrices their rows one below the other, structs their fields by name, and arrays
    their type and shape.
    """


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=lambda fmt, *args: print(fmt % args, end=""),
    example='wp.printf("%d: %f\\n", wp.tid(), a[0])',
)
def printf(fmt: Any, *args: Any) -> None:
    r"""Print as C does, with a literal as format: ``wp.printf("%5d: %.3f\n", i, x)``.

    ``%d %u %x %o %c`` take integers, ``%f %e %g %a`` floats and ``%s`` a literal, all with flags, width and precision.
    Unlike ``print``, no line end is added.
    """


def _expect(name: str, held: Callable[..., Any]) -> Callable[..., None]:
    """Run an ``expect`` function on the host."""

    def check(*args: Any) -> None:
        if not np.all(held(*args)):
            raise AssertionError(f"{name}({', '.join(map(str, args))}) does not hold")

    return check


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=_expect("expect_eq", lambda a, b: np.equal(a, b)),
    example="wp.expect_eq(n[0], 0)",
)
def expect_eq(a: Any, b: Any) -> None:
    """Raise AssertionError, in any mode, unless two numbers, vectors, matrices or quaternions are equal."""


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=_expect("expect_neq", lambda a, b: not np.array_equal(a, b)),
    example="wp.expect_neq(n[0], 7)",
)
def expect_neq(a: Any, b: Any) -> None:
    """Raise AssertionError, in any mode, unless two numbers, vectors, matrices or quaternions differ."""


@builtin(
    group=UTILITY,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=_expect("expect_near", lambda a, b, tolerance=1e-6: np.abs(np.subtract(a, b)) <= tolerance),
    example="wp.expect_near(a[0], a[0] + 0.125, 0.25)",
)
def expect_near(a: Any, b: Any, tolerance: Any = 1e-6) -> None:
    """Raise AssertionError, in any mode, unless floats or all their components are within ``tolerance``."""


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE, ref=breakpoint, example="wp.breakpoint()", name="breakpoint")
def breakpoint_() -> None:
    """Stop in the debugger that the program runs under; without a debugger, do nothing."""


@builtin(
    name="len",
    group=UTILITY,
    lower=Special(),
    adjoint=NO_VALUE,
    ref=len,
    example="for i in range(len(a)):\n    a[i] = 1.0",
)
def len_(a: Any) -> Any:
    """Return the extent of the first dimension of an array, the length of a vector, or the rows of a matrix."""


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE, ref=lambda expr: expr, example="a[0] = wp.static(2.0**10)")
def static(expr: Any) -> Any:
    """Evaluate a Python expression when the kernel is compiled, and put its value in place of the call."""


@builtin(
    group=VECTOR,
    lower=MADE,
    ref=_vector,
    example="v = wp.vector(1.0, 2.0, 3.0)\nzeros = wp.vector(length=5, dtype=float)",
)
def vector(*args: Any, length: Any = None, dtype: Any = None) -> Any:
    """Return a vector of the scalars ``args``, of one scalar repeated ``length`` times, or of another vector."""


@builtin(group=VECTOR, lower=MADE, ref=_matrix, example="m = wp.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))")
def matrix(*args: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return a matrix of ``shape`` (a tuple of two literals) from scalars row by row, or from one scalar repeated."""


@builtin(
    name="matrix",
    group=VECTOR,
    lower=Special("that of `transform_compose`"),
    ref=_matrix,
    example="m = wp.matrix(wp.vec3(1.0, 2.0, 3.0), wp.quat_identity(), wp.vec3(2.0, 2.0, 2.0))",
)
def matrix_of_transform(pos: Any, rot: Any, scale: Any, dtype: Any = None) -> Any:
    """Return the 4x4 matrix that scales, rotates and moves: ``transform_compose(pos, rot, scale)``."""


@builtin(
    group=VECTOR,
    lower=MADE,
    ref=lambda *args: _from_vectors(args, by_rows=True),
    example="m = wp.matrix_from_rows(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))",
)
def matrix_from_rows(*args: Any) -> Any:
    """Return the matrix whose rows are the vectors ``args``."""


@builtin(
    group=VECTOR,
    lower=MADE,
    ref=lambda *args: _from_vectors(args, by_rows=False),
    example="m = wp.matrix_from_cols(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))",
)
def matrix_from_cols(*args: Any) -> Any:
    """Return the matrix whose columns are the vectors ``args``."""


@builtin(group=VECTOR, lower=Special(), adjoint=NO_VALUE, ref=_identity, example="m = wp.identity(n=3, dtype=float)")
def identity(n: Any, dtype: Any) -> Any:
    """Return the identity matrix of ``n`` rows (a literal) of ``dtype``."""
