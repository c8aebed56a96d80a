"""Operators on bits and truth: ``&``, ``<<``, ``==``, ``not`` and their like, as functions too."""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from typing import Any

import numpy as np

from warp_like.builtins import reference
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import fold
from warp_like.builtins.operators import COMPARISON, INTEGERS
from warp_like.builtins.patterns import MI, VI, B, I, MatOf, VecOf, X
from warp_like.builtins.spec import Elementwise, Expand, Target, builtin
from warp_like.ir.core import Value
from warp_like.ir.types import bool_, is_large

GROUP = "Operators"

# --- bits -----------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Target(), ref=np.bitwise_and, adjoint=INTEGERS)
def bit_and(a: B, b: B) -> B:
    """Return the bits set in both ``a`` and ``b``; for bools, whether both are true."""


@builtin(group=GROUP, lower=Target(), ref=np.bitwise_or, adjoint=INTEGERS)
def bit_or(a: B, b: B) -> B:
    """Return the bits set in ``a``, in ``b`` or in both; for bools, whether at least one is true."""


@builtin(group=GROUP, lower=Target(), ref=np.bitwise_xor, adjoint=INTEGERS)
def bit_xor(a: B, b: B) -> B:
    """Return the bits set in one of ``a`` and ``b`` only; for bools, whether they differ."""


@builtin(group=GROUP, lower=Target(), ref=reference.shift(left=True), adjoint=INTEGERS)
def lshift(a: I, b: I) -> I:
    """Return ``a`` shifted left by ``b`` bits, ``b`` taken modulo the width of the type."""


@builtin(group=GROUP, lower=Target(), ref=reference.shift(left=False), adjoint=INTEGERS)
def rshift(a: I, b: I) -> I:
    """Return ``a`` shifted right by ``b`` bits, ``b`` taken modulo the width; a signed ``a`` keeps its sign."""


@builtin(group=GROUP, lower=Target(), ref=np.invert, adjoint=INTEGERS)
def invert(a: I) -> I:
    """Return ``a`` with every bit flipped."""


@builtin(name="bit_and", group=GROUP, lower=Elementwise("bit_and"), ref=np.bitwise_and, adjoint=INTEGERS)
def bit_and_vec(a: VI, b: VI) -> VI:
    """Return the component-wise bit-and of two vectors."""


@builtin(name="bit_or", group=GROUP, lower=Elementwise("bit_or"), ref=np.bitwise_or, adjoint=INTEGERS)
def bit_or_vec(a: VI, b: VI) -> VI:
    """Return the component-wise bit-or of two vectors."""


@builtin(name="bit_xor", group=GROUP, lower=Elementwise("bit_xor"), ref=np.bitwise_xor, adjoint=INTEGERS)
def bit_xor_vec(a: VI, b: VI) -> VI:
    """Return the component-wise exclusive or of two vectors."""


@builtin(name="lshift", group=GROUP, lower=Elementwise("lshift"), ref=reference.shift(left=True), adjoint=INTEGERS)
def lshift_vec(a: VI, b: VI) -> VI:
    """Return each component of ``a`` shifted left by that of ``b``."""


@builtin(name="rshift", group=GROUP, lower=Elementwise("rshift"), ref=reference.shift(left=False), adjoint=INTEGERS)
def rshift_vec(a: VI, b: VI) -> VI:
    """Return each component of ``a`` shifted right by that of ``b``."""


@builtin(name="invert", group=GROUP, lower=Elementwise("invert"), ref=np.invert, adjoint=INTEGERS)
def invert_vec(a: VI) -> VI:
    """Return the vector with every bit flipped."""


@builtin(name="bit_and", group=GROUP, lower=Elementwise("bit_and"), ref=np.bitwise_and, adjoint=INTEGERS)
def bit_and_mat(a: MI, b: MI) -> MI:
    """Return the element-wise bit-and of two matrices."""


@builtin(name="bit_or", group=GROUP, lower=Elementwise("bit_or"), ref=np.bitwise_or, adjoint=INTEGERS)
def bit_or_mat(a: MI, b: MI) -> MI:
    """Return the element-wise bit-or of two matrices."""


@builtin(name="bit_xor", group=GROUP, lower=Elementwise("bit_xor"), ref=np.bitwise_xor, adjoint=INTEGERS)
def bit_xor_mat(a: MI, b: MI) -> MI:
    """Return the element-wise exclusive or of two matrices."""


@builtin(name="lshift", group=GROUP, lower=Elementwise("lshift"), ref=reference.shift(left=True), adjoint=INTEGERS)
def lshift_mat(a: MI, b: MI) -> MI:
    """Return each element of ``a`` shifted left by that of ``b``."""


@builtin(name="rshift", group=GROUP, lower=Elementwise("rshift"), ref=reference.shift(left=False), adjoint=INTEGERS)
def rshift_mat(a: MI, b: MI) -> MI:
    """Return each element of ``a`` shifted right by that of ``b``."""


@builtin(name="invert", group=GROUP, lower=Elementwise("invert"), ref=np.invert, adjoint=INTEGERS)
def invert_mat(a: MI) -> MI:
    """Return the matrix with every bit flipped."""


# --- comparisons ----------------------------------------------------------------------------------------------


def _all_equal(b: Emitter, x: Value, y: Value) -> Value:
    if is_large(x.type):
        return fold(b, x.type, lambda at: b.eq(b.extract(x, *at), b.extract(y, *at)), b.bit_and)
    equal = [b.eq(p, q) for p, q in zip(b.components(x), b.components(y), strict=True)]
    for other in equal[1:]:
        equal[0] = b.bit_and(equal[0], other)
    return equal[0]


def _any_different(b: Emitter, x: Value, y: Value) -> Value:
    return b.unot(_all_equal(b, x, y))


def _equal(x: Any, y: Any) -> Any:
    return np.all(np.equal(x, y))


def _different(x: Any, y: Any) -> Any:
    return np.any(np.not_equal(x, y))


@builtin(group=GROUP, lower=Target(), ref=np.less, adjoint=COMPARISON)
def lt(a: X, b: X) -> bool_:
    """Return whether ``a < b``; false where one is NaN."""


@builtin(group=GROUP, lower=Target(), ref=np.less_equal, adjoint=COMPARISON)
def le(a: X, b: X) -> bool_:
    """Return whether ``a <= b``; false where one is NaN."""


@builtin(group=GROUP, lower=Target(), ref=np.greater, adjoint=COMPARISON)
def gt(a: X, b: X) -> bool_:
    """Return whether ``a > b``; false where one is NaN."""


@builtin(group=GROUP, lower=Target(), ref=np.greater_equal, adjoint=COMPARISON)
def ge(a: X, b: X) -> bool_:
    """Return whether ``a >= b``; false where one is NaN."""


@builtin(group=GROUP, lower=Target(), ref=np.equal, adjoint=COMPARISON)
def eq(a: X, b: X) -> bool_:
    """Return whether ``a == b``; false where one is NaN."""


@builtin(name="eq", group=GROUP, lower=Expand(_all_equal), ref=_equal, adjoint=COMPARISON)
def eq_vec(a: VecOf("N", X), b: VecOf("N", X)) -> bool_:
    """Return whether all components are equal."""


@builtin(name="eq", group=GROUP, lower=Expand(_all_equal), ref=_equal, adjoint=COMPARISON)
def eq_mat(a: MatOf("R", "C", X), b: MatOf("R", "C", X)) -> bool_:
    """Return whether all elements are equal."""


@builtin(group=GROUP, lower=Target(), ref=np.not_equal, adjoint=COMPARISON)
def ne(a: X, b: X) -> bool_:
    """Return whether ``a != b``; true where one is NaN."""


@builtin(name="ne", group=GROUP, lower=Expand(_any_different), ref=_different, adjoint=COMPARISON)
def ne_vec(a: VecOf("N", X), b: VecOf("N", X)) -> bool_:
    """Return whether some component differs."""


@builtin(name="ne", group=GROUP, lower=Expand(_any_different), ref=_different, adjoint=COMPARISON)
def ne_mat(a: MatOf("R", "C", X), b: MatOf("R", "C", X)) -> bool_:
    """Return whether some element differs."""


@builtin(group=GROUP, lower=Target(), ref=np.logical_not, adjoint=COMPARISON)
def unot(a: bool_) -> bool_:
    """Return whether ``a`` is false: the operator ``not``."""


@builtin(name="unot", group=GROUP, lower=Expand(lambda b, a: b.eq(a, 0)), ref=np.logical_not, adjoint=COMPARISON)
def unot_int(a: I) -> bool_:
    """Return whether ``a`` is zero."""
