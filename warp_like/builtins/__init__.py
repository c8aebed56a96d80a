"""Builtins: each declared once, in one table file a topic; everything else about them is generated from the rows.

Importing this package fills the registry. The order of the imports is the order in which overloads are tried and shown.
"""

from warp_like.builtins import operators, logic, scalar, error_function, vector, matrix, utility, special  # noqa: F401, I001
from warp_like.builtins.host import Builtin, public_names

__all__ = ["Builtin", "public_names"]
