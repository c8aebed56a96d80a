"""Names of this package without their module, as in ``expect_eq(x, 1)`` or ``vec3(1.0, 2.0, 3.0)``.

The user's own names come first. A name that means nothing else is that of a type, or of a builtin where it is called.
A variable that holds a number does not hide what can be called: ``length = length(v)``.
"""

from __future__ import annotations

import ast

from warp_like import values
from warp_like.builtins.spec import REGISTRY
from warp_like.frontend.builtin import Builtin
from warp_like.frontend.constants import from_host
from warp_like.frontend.context import Context
from warp_like.frontend.host import Host, is_callable
from warp_like.frontend.operands import Operand
from warp_like.frontend.scope import Unassigned
from warp_like.values.dtypes import SCALAR_CLASSES

MADE = (
    *("vector", "matrix", "matrix_from_rows", "matrix_from_cols", "identity", "quaternion", "quat_identity"),
    *("transformation", "transform_identity"),
    *("types.vector", "types.matrix", "types.quaternion", "types.transformation"),
)
"""The builtins that ``making`` builds."""

LOCAL_ARRAYS = ("array", "zeros", "address_of", "shared_array", "block_sync")
"""Those that ``local_arrays`` builds."""

_TYPES = {str(t): t for t in SCALAR_CLASSES} | values.NAMED


def _is_builtin(name: str) -> bool:
    return name in MADE or name in LOCAL_ARRAYS or name in REGISTRY


def type_called(name: str) -> Host | None:
    """Return the type of this package that has a name, or None."""
    found = _TYPES.get(name)
    return Host(values.class_of(found), name) if found is not None else None


def callee(ctx: Context, func: ast.expr) -> Operand:
    """Build what a call names."""
    if not isinstance(func, ast.Name):
        return ctx.expr(func)
    name = func.id
    local = ctx.scope.names.get(name)
    held = ctx.scope.variable(name)
    outer = ctx.source.resolve(name)
    if local is None or isinstance(local, Unassigned) or (held is not None and not isinstance(held.value, Host)):
        if local is not None and is_callable(outer):
            return from_host(ctx, outer, name)
        if not callable(outer) and _is_builtin(name):
            return Host(Builtin(name), name)
    return ctx.expr(func)
