"""The names that a loop carries, with the scopes inside of it and after it."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from warp_like.base.errors import WarpCodegenError
from warp_like.frontend.context import Context
from warp_like.frontend.first_assigned import FromLastIteration, fresh, values_of
from warp_like.frontend.flow import assigned_names, names_assigned_anew
from warp_like.frontend.host import Host
from warp_like.frontend.liveness import loaded
from warp_like.frontend.operands import Operand, flatten, leaves, rebuild
from warp_like.frontend.references import holds_tile, variables_changed
from warp_like.frontend.scope import Scope, Unbound, Variable, held_elsewhere
from warp_like.frontend.tile_views import TileView
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Array


@dataclass
class _Entry:
    name: str
    variable: Variable


class Carried:
    """The names that a loop carries, with the scopes inside of it and after it.

    Args:
        ctx: The function.
        node: The loop.
        inside: Whether this is a loop that runs in each iteration of one that ``node`` becomes, with the same body.
    """

    def __init__(self, ctx: Context, node: ast.For | ast.While, *, inside: bool = False) -> None:
        self.ctx = ctx
        self.outer = ctx.scope
        self.before = ctx.b.block
        self.read_later = ctx.live.after(node) | (loaded(node.test) if isinstance(node, ast.While) else frozenset())
        if inside:
            self.read_later |= ctx.live.into(node)
        self.assigned = dict.fromkeys(variables_changed(ctx, [node]), True) | assigned_names([node])
        changed = ctx.aliases.roots(self.assigned) - self.assigned.keys()
        self.assigned |= dict.fromkeys(sorted(name for name in changed if holds_tile(ctx, name)), True)
        self.views = _views(ctx.scope, self.read_later | ctx.live.into(node))
        self.entries: list[_Entry] = []
        self.excluded: dict[str, Unbound] = {}
        self.first: dict[str, FromLastIteration] = {}  # by the names that the body may be the first to assign
        anew = names_assigned_anew(node)
        for name, components in self.assigned.items():
            variable = self.outer.variable(name)
            if variable is not None and isinstance(variable.value, TileView) and name not in anew:
                continue  # the tile that it is a part of changes
            if variable is not None and isinstance(variable.value, Host):
                self.excluded[name] = Unbound(
                    f"`{name}` is another function or type in each iteration", "use a name that is new inside the loop"
                )
            elif variable is None or not variable.keeps_type:
                self._add_first(name, name in ctx.live.into(node))
            elif not (components and any(isinstance(v.type, Array) for v in flatten(variable.value))):
                self.entries.append(_Entry(name, variable))

    @property
    def initial(self) -> list[Value]:
        """The values before the first iteration."""
        return [v for e in self.entries for v in flatten(e.variable.value)]

    def parameters(self) -> tuple[list[Value], Scope]:
        """Return block parameters for the carried values, and a scope in which the names stand for them."""
        scope = self.outer.copy()
        scope.names.update(self.excluded)
        scope.names.update({name: held.inside or held for name, held in self.first.items()})
        params: list[Value] = []
        for e in self.entries:
            mine = [Value(v.type, e.name) for v in flatten(e.variable.value)]
            params += mine
            scope.names[e.name] = Variable(rebuild(e.variable.value, list(mine)), e.variable.loc)
        return params, scope

    @contextlib.contextmanager
    def block(self, block: Block, scope: Scope) -> Iterator[Block]:
        """Build into ``block`` with ``scope`` inside the ``with``."""
        saved, self.ctx.scope = self.ctx.scope, scope
        self.ctx.loops.append(self.first)
        self.ctx.held_views.append(self.views)
        try:
            with self.ctx.b.into(block):
                yield block
        finally:
            self.ctx.scope = saved
            self.ctx.loops.pop()
            self.ctx.held_views.pop()

    def values(self) -> list[Value]:
        """Return the values that the names have at the end of an iteration.

        Raises:
            WarpCodegenKeyError: One is not readable there.
        """
        self._require_carried_tiles()
        found: list[Value] = []
        for e in self.entries:
            operand = self.ctx.read(e.name)
            assert operand is not None
            found += flatten(operand)
        return found

    def _require_carried_tiles(self) -> None:
        """Raise where a tile has changed through a part of it that the syntax does not show as one."""
        now = self.ctx.scope.names.get
        for name, held in self.outer.names.items():
            if now(name) is not held and name not in self.assigned and holds_tile(self.ctx, name):
                raise WarpCodegenError(
                    f"this loop changes the tile in `{name}` through another variable",
                    help=f"assign to a part of the tile itself: {name}[...] = ...",
                )

    # --- names that the body may be the first to assign ---

    def _add_first(self, name: str, is_live: bool) -> None:
        outer = self.outer.names.get(name)
        held = self.first[name] = FromLastIteration(name, outer, self.before)
        if isinstance(outer, Variable) and is_live:
            held.variable(self.ctx.b, outer.value)

    def left(self, scope: Scope) -> list[Value]:
        """Return what an iteration leaves of them to the next one, and to the code after the loop."""
        for name, held in self.first.items():
            held.like = held_elsewhere(scope.names.get(name)) or held.like
            if held.like is not None and name in self.read_later:
                held.variable(self.ctx.b, held.like)
        return [v for held in self._carried_first() for v in held.left(self.ctx.b, scope.names.get(held.name))]

    def first_params(self, scope: Scope | None = None) -> list[Value]:
        """Return the block parameters for them: those of the body, or new ones that the names in ``scope`` then are."""
        found: list[Value] = []
        for held in self._carried_first():
            assert held.inside is not None
            variable = held.inside if scope is None else fresh(held.name, held.inside)
            if scope is not None:
                scope.names[held.name] = variable
            found += values_of(variable)
        return found

    @property
    def first_initial(self) -> list[Value]:
        """Their values before the first iteration."""
        return [v for held in self._carried_first() for v in held.initial]

    def _carried_first(self) -> list[FromLastIteration]:
        return [held for held in self.first.values() if held.inside is not None]

    # --- after the loop ---

    def finish(self, results: Sequence[Value], *, runs: bool) -> None:
        """Give the names their values after the loop, which ``runs`` at least once or may not."""
        left = list(results)
        for e in self.entries:
            count = len(flatten(e.variable.value))
            mine, left = left[:count], left[count:]
            for v in mine:
                v.hint = e.name
            self.outer.names[e.name] = Variable(rebuild(e.variable.value, list(mine)), e.variable.loc)
        for name, held in self.first.items():
            if held.inside is None:
                self.outer.names[name] = only_inside(name, held.like)
                continue
            *mine, assigned = (left.pop(0) for _ in held.initial)
            for v in mine:
                v.hint = name
            always = runs and held.always_left
            self.outer.names[name] = Variable(
                rebuild(held.inside.value, mine), held.inside.loc, True if always else assigned
            )
        self.outer.names.update(self.excluded)


def only_inside(name: str, like: Operand | None = None) -> Unbound:
    """What a name of the body of a loop is after it where it holds nothing that could be carried."""
    return Unbound(
        f"`{name}` is first assigned inside a loop, which may run zero times", f"assign `{name}` before the loop", like
    )


def _views(scope: Scope, names: Iterable[str]) -> list[TileView]:
    """Return the parts of tiles that ``names`` hold."""
    variables = (scope.variable(name) for name in names)
    held = (part for v in variables if v is not None for part in leaves(v.value))
    return [part for part in held if isinstance(part, TileView)]
