"""Parts of tiles: views, through which kernel code reads and changes the tile that a variable holds.

A tile is a value, and changing it gives its variable a new one. A view is no value: it is the variable, and how its
indices become indices of the variable's tile. Wherever a value is wanted, it stands for the elements as they are then.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Sequence

from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.emit import Emitter
from warp_like.builtins.loops import over
from warp_like.frontend.flow import assignments
from warp_like.frontend.host import Host
from warp_like.frontend.syntax import all_nodes
from warp_like.frontend.tile_roots import VIEWS, last_name, root_of
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Tile, Type

Index = tuple[Value, ...]
IndexMap = Callable[[Emitter, Index], Index]
"""How an index into a view becomes one into what it is a view of."""


class TileView(Host):
    """A part of the tile in variable ``root``.

    Attributes:
        root: The variable.
        shape: The extents; none for a single element.
        dtype: The type of the elements.
        places: Where its elements are in the variable's tile.
        is_whole: Whether it is all of the tile.
        transposed: The part of which it is the transposed one, as `wp.tile_transpose` makes it.
        is_repeated: Whether several of its elements are one element of the tile, as in a broadcast.
        is_stale: Whether the variable has been given another tile since, so that the part is of none.
        depth: How many loops were around the place where it was made.
    """

    root: str
    shape: tuple[int, ...]
    dtype: Type
    places: IndexMap

    def __init__(self, root: str, shape: tuple[int, ...], dtype: Type, places: IndexMap, text: str, depth: int) -> None:
        super().__init__(None, text)
        self.root, self.shape, self.dtype, self.places, self.depth = root, shape, dtype, places, depth
        self.is_stale = self.is_whole = self.is_repeated = False
        self.transposed: TileView | None = None

    @property
    def type(self) -> Type:
        """The type of the value that it stands for."""
        return Tile(self.shape, self.dtype) if self.shape else self.dtype

    def within(self, shape: tuple[int, ...], places: IndexMap, text: str, repeats: bool = False) -> TileView:
        """Return a part of the part; ``repeats`` says that several of its elements are one element.

        Raises:
            WarpCodegenError: The tile is gone.
        """
        self.require_fresh()
        made = TileView(self.root, shape, self.dtype, lambda b, at: self.places(b, places(b, at)), text, self.depth)
        made.is_repeated = self.is_repeated or repeats
        return made

    def read(self, b: Emitter, whole: Value) -> Value:
        """Return the value of the part of ``whole``, the tile in the variable."""
        return whole if self.is_whole else part_of(b, whole, self.shape, self.places)

    def replaced(self, b: Emitter, whole: Value, part: Value) -> Value:
        """Return ``whole`` with this part of it replaced."""
        if not self.shape:
            return b.insert_component(whole, part, *self.places(b, ()))

        def put(at: Index, made: Value) -> Sequence[Value]:
            return [b.insert_component(made, b.extract(part, *at), *self.places(b, at))]

        return over(b, self.shape, [whole], put)[0]

    def require_fresh(self) -> None:
        """Raise where the tile is gone.

        Raises:
            WarpCodegenError: Its variable has been assigned another one.
        """
        if self.is_stale:
            raise WarpCodegenError(
                f"`{self.text}` is a part of the tile that `{self.root}` held before, and `{self.root}` was assigned "
                "another one",
                help="give the other tile another name",
            )


def part_of(b: Emitter, whole: Value, shape: tuple[int, ...], places: IndexMap) -> Value:
    """Return the part of a tile whose elements are at ``places``; a single element where ``shape`` is empty."""
    assert isinstance(whole.type, Tile)
    if not shape:
        return b.extract(whole, *places(b, ()))
    start = b.insert(ops.Empty(), Tile(shape, whole.type.dtype)).result

    def put(at: Index, made: Value) -> Sequence[Value]:
        return [b.insert_component(made, b.extract(whole, *places(b, at)), *at)]

    return over(b, shape, [start], put)[0]


class Aliases:
    """Which variables may be parts of which, by the syntax of a function.

    A variable that is assigned ``wp.tile_view(t, ...)``, ``t[...]`` or ``t`` may be a part of ``t``. Functions which
    name no builtin for tiles have none, unless ``always`` says so.
    """

    def __init__(self, body: Sequence[ast.stmt], always: bool = False) -> None:
        self._body = body
        self._always = always

    @functools.cached_property
    def _direct(self) -> dict[str, set[str]]:
        """The variables that each one may be a part of; straight code never asks."""
        found: dict[str, set[str]] = {}
        nodes = [n for s in self._body for n in all_nodes(s)]
        if self._always or any(last_name(n).startswith("tile") for n in nodes):
            for n in nodes:
                for target, value in assignments(n):
                    root = root_of(value)
                    if isinstance(target, ast.Name) and root is not None and root != target.id:
                        found.setdefault(target.id, set()).add(root)
        return found

    def roots(self, names: Iterable[str]) -> frozenset[str]:
        """Return ``names``, and all variables that they may be parts of."""
        found, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._direct.get(name, ())
        return frozenset(found)


__all__ = ["VIEWS", "Aliases", "Index", "IndexMap", "TileView", "part_of", "root_of"]
