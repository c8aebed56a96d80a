"""Builtins whose calls the frontend builds itself: they take arrays, types or text, or any number of arguments.

The rows give name, parameters and documentation; the frontend holds what they mean.
"""
# mypy: disable-error-code="empty-body"

from typing import Any

from warp_like.builtins.spec import NoGradient, Special, builtin

UTILITY = "Utility"
VECTOR = "Vector Math"
NO_VALUE = NoGradient("it has no value that depends on a float")


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE)
def tid() -> Any:
    """Return the index of the current thread: ``i = wp.tid()``, or ``i, j = wp.tid()`` for up to four dimensions.

    A launch of more dimensions than indices asked for folds the surplus ones into the last index.
    """


def _declare_atomic(name: str, what: str, note: str = "") -> None:
    def signature(arr: Any, *indices: Any, value: Any) -> Any:
        pass

    signature.__doc__ = f"""{what} atomically and return the element's old value.

    The call is ``wp.{name}(arr, i, value)``, with one index for each dimension of ``arr``. The components of a vector
    or matrix are updated each on its own.{note}
    """
    builtin(name=name, group=UTILITY, lower=Special())(signature)


_declare_atomic("atomic_add", "Add ``value`` to an element of ``arr``")
_declare_atomic("atomic_sub", "Subtract ``value`` from an element of ``arr``")
_declare_atomic("atomic_min", "Replace an element of ``arr`` by the lesser of it and ``value``")
_declare_atomic("atomic_max", "Replace an element of ``arr`` by the greater of it and ``value``")
_declare_atomic("atomic_and", "Replace an element of ``arr`` by its bit-and with ``value``", " Integers only.")
_declare_atomic("atomic_or", "Replace an element of ``arr`` by its bit-or with ``value``", " Integers only.")
_declare_atomic("atomic_xor", "Replace an element of ``arr`` by its exclusive or with ``value``", " Integers only.")
_declare_atomic("atomic_exch", "Replace an element of ``arr`` by ``value``")


@builtin(group=UTILITY, lower=Special())
def atomic_cas(arr: Any, *indices: Any, compare: Any, value: Any) -> Any:
    """Store ``value`` in an element of ``arr`` if it equals ``compare``, atomically, and return its old value.

    The call is ``wp.atomic_cas(arr, i, compare, value)``, with one index for each dimension of ``arr``.
    """


@builtin(group=UTILITY, lower=Special())
def cast(a: Any, dtype: Any) -> Any:
    """Return the bits of ``a`` as a ``dtype`` of the same width."""


@builtin(name="print", group=UTILITY, lower=Special(), adjoint=NO_VALUE)
def print_(*values: Any) -> None:
    """Print the values of this thread on one line."""


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE)
def printf(fmt: Any, *args: Any) -> None:
    r"""Print with a C format string, which must be a literal: ``wp.printf("%d %f\n", i, x)``."""


@builtin(name="len", group=UTILITY, lower=Special(), adjoint=NO_VALUE)
def len_(a: Any) -> Any:
    """Return the extent of the first dimension of an array, the length of a vector, or the rows of a matrix."""


@builtin(group=UTILITY, lower=Special(), adjoint=NO_VALUE)
def static(expr: Any) -> Any:
    """Evaluate a Python expression when the kernel is compiled, and put its value in place of the call."""


@builtin(group=VECTOR, lower=Special())
def vector(*args: Any, length: Any = None, dtype: Any = None) -> Any:
    """Return a vector of the scalars ``args``, of one scalar repeated ``length`` times, or of another vector."""


@builtin(group=VECTOR, lower=Special())
def matrix(*args: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return a matrix of ``shape`` (a tuple of two literals) from scalars row by row, or from one scalar repeated."""


@builtin(name="matrix", group=VECTOR, lower=Special())
def matrix_of_transform(pos: Any, rot: Any, scale: Any, dtype: Any = None) -> Any:
    """Return the 4x4 matrix that scales, rotates and moves: ``transform_compose(pos, rot, scale)``."""


@builtin(group=VECTOR, lower=Special())
def matrix_from_rows(*args: Any) -> Any:
    """Return the matrix whose rows are the vectors ``args``."""


@builtin(group=VECTOR, lower=Special())
def matrix_from_cols(*args: Any) -> Any:
    """Return the matrix whose columns are the vectors ``args``."""


@builtin(group=VECTOR, lower=Special(), adjoint=NO_VALUE)
def identity(n: Any, dtype: Any) -> Any:
    """Return the identity matrix of ``n`` rows (a literal) of ``dtype``."""
