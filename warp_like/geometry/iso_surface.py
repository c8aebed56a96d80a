"""The interface of classes that extract surfaces from grids of values, and checks of their arguments."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from typing import Any

import warp_like as wp

Bound = Any
"""A corner of the domain: three numbers, or None."""


def require_field(function: str, field: Any) -> None:
    """Raise unless ``field`` is an array of float32 with three dimensions and at least two nodes along each."""
    if not isinstance(field, wp.array):
        raise TypeError(f"{function}: `field` is an array of float32 with three dimensions, got {field!r}")
    if field.ndim != 3:
        raise ValueError(f"{function}: `field` is a 3D array, got shape {field.shape}")
    if field.dtype != wp.float32:
        raise TypeError(f"{function}: `field` is an array of float32, got {field.dtype.__name__}")
    if min(field.shape) < 2:
        raise ValueError(f"{function}: `field` has at least 2 nodes on each axis, got shape {field.shape}")


def require_threshold(function: str, threshold: Any) -> float:
    """Return a threshold as a number."""
    try:
        value = float(threshold)
    except (TypeError, ValueError):
        raise TypeError(f"{function}: `threshold` is a number, got {threshold!r}") from None
    if math.isnan(value):
        raise ValueError(f"{function}: `threshold` is a number, got NaN")
    return value


def require_corner(function: str, name: str, corner: Bound) -> Any:
    """Return a corner of a domain as a ``wp.vec3``."""
    try:
        values = [float(c) for c in corner]
    except (TypeError, ValueError):
        values = []
    if len(values) != 3:
        raise TypeError(f"{function}: `{name}` is three numbers or None, got {corner!r}")
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{function}: `{name}` is finite, got {corner!r}")
    return wp.vec3(*values)


def place_domain(function: str, shape: tuple[int, ...], lower: Bound, upper: Bound) -> tuple[Any, Any]:
    """Return where the first node of the grid is, and the distances between neighbouring nodes, both ``wp.vec3``."""
    begin = require_corner(function, "lower", (0.0, 0.0, 0.0) if lower is None else lower)
    end = require_corner(function, "upper", [n - 1.0 for n in shape] if upper is None else upper)
    return begin, wp.vec3(*((end[i] - begin[i]) / (shape[i] - 1) for i in range(3)))


def _require_size(name: str, n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"`{name}` is a number of nodes, got {n!r}") from None


class IsoSurfaceBase(ABC):
    """What all classes have that extract the surface where a field on a grid takes a given value.

    Make an object for a size of grids, and call ``surface`` with fields of this size; or call the class method
    ``extract``. Faces are counter-clockwise as seen from the side of the larger values, which is the outside of a
    signed distance field. Vertices have gradients to the field; indices have none.

    Args:
        nx: Number of nodes of the grid along x, the first dimension of fields.
        ny: Number of nodes along y.
        nz: Number of nodes along z.
        lower: Where node ``(0, 0, 0)`` lies; None for the origin.
        upper: Where node ``(nx - 1, ny - 1, nz - 1)`` lies; None for these numbers, so that nodes are one apart.

    Attributes:
        nx (int): Number of nodes along x.
        ny (int): Number of nodes along y.
        nz (int): Number of nodes along z.
        lower (vec3, three numbers or None): As given.
        upper (vec3, three numbers or None): As given.
        verts (array of vec3, or None): The vertices, once ``surface`` has been called.
        indices (array of int32, or None): The vertices of the faces, one face after the other.
    """

    def __init__(self, nx: int, ny: int, nz: int, *, lower: Bound = None, upper: Bound = None) -> None:
        self.lower = lower
        self.upper = upper
        self.verts: Any = None
        self.indices: Any = None
        self.resize(nx, ny, nz)

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """Take fields of another size from now on.

        Args:
            nx: Number of nodes along x.
            ny: Number of nodes along y.
            nz: Number of nodes along z.

        Raises:
            TypeError: A number of nodes is not an integer.
        """
        self.nx, self.ny, self.nz = (_require_size(*item) for item in (("nx", nx), ("ny", ny), ("nz", nz)))

    def _require_shape(self, function: str, field: Any) -> None:
        """Raise unless a field has the size of this object's grids."""
        shape = (self.nx, self.ny, self.nz)
        if field.shape != shape:
            raise ValueError(f"{function}: `field` has the shape of the grid, {shape}, got {field.shape}")

    @abstractmethod
    def surface(self, field: Any, threshold: float) -> None:
        """Extract the surface of a field to ``verts`` and ``indices``.

        Args:
            field: An array of float32 of shape ``(nx, ny, nz)``.
            threshold: The value on the surface.
        """

    @classmethod
    @abstractmethod
    def extract(
        cls, field: Any, threshold: float = 0.0, *, lower: Bound = None, upper: Bound = None
    ) -> tuple[Any, Any]:
        """Return the vertices and the indices of the surface of a field.

        Args:
            field: An array of float32 with three dimensions and at least two nodes along each.
            threshold: The value on the surface.
            lower: Where the first node lies; None for the origin.
            upper: Where the last node lies; None for nodes that are one apart.
        """
