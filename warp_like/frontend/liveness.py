"""Which names may be read after a statement before they are assigned again.

The frontend asks this where paths meet: a name that nobody reads there needs no value. The analysis is of the syntax
alone, backwards, and errs on the side of reading: every path through the code counts, whatever its conditions say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from warp_like.frontend.flow import unpacked
from warp_like.frontend.syntax import all_nodes

Names = frozenset[str]
_NOTHING: Names = frozenset()


class Liveness:
    """The live names of a function.

    Args:
        body: Its statements.
        returned: The names that are read where it returns.
    """

    def __init__(self, body: Sequence[ast.stmt], returned: Iterable[str] = ()) -> None:
        self._body: Sequence[ast.stmt] | None = body  # until the first question: code without branches asks none
        self._after: dict[ast.stmt, Names] = {}
        self._into: dict[ast.stmt, Names] = {}
        self._exposed: dict[ast.stmt, Names] = {}
        self._returned = frozenset(returned)

    def _find(self) -> None:
        if self._body is not None:
            body, self._body = self._body, None
            self._before_list(body, self._returned, _NOTHING, record=True)

    def after(self, node: ast.stmt) -> Names:
        """Return the names that may be read after ``node``, or where an exit of the loop around it leads."""
        self._find()
        return self._after[node]

    def into(self, node: ast.stmt) -> Names:
        """Return the names whose values before ``node`` may be read in it or after it."""
        self._find()
        return self._into[node]

    def stands_for(self, new: ast.stmt, old: ast.stmt) -> None:
        """Let ``new``, which is built in the place of ``old``, have the same live names."""
        self._after[new], self._into[new] = self._after[old], self._into[old]

    def _before_list(self, stmts: Sequence[ast.stmt], out: Names, exits: Names, *, record: bool) -> Names:
        """The names live before ``stmts``, with ``out`` after them and ``exits`` where break and continue lead."""
        for s in reversed(stmts):
            into = self._before(s, out, exits, record)
            if record:
                self._after[s], self._into[s] = out | exits, into
            out = into
        return out

    def _before(self, s: ast.stmt, out: Names, exits: Names, record: bool) -> Names:
        match s:
            case ast.If():
                arms = (self._before_list(arm, out, exits, record=record) for arm in (s.body, s.orelse))
                return frozenset.union(*arms, loaded(s.test))
            case ast.For() | ast.While():
                head = out | self._exposed_by(s)
                if record:
                    self._before_list(s.body, head, head, record=True)
                return head | loaded(s.iter) if isinstance(s, ast.For) else head
            case ast.Break() | ast.Continue():
                return exits
            case ast.Return():
                return self._returned | loaded(s)
        return (out - _assigned(s)) | loaded(s)

    def _exposed_by(self, loop: ast.For | ast.While) -> Names:
        """The names that an iteration may read before it assigns them."""
        found = self._exposed.get(loop)
        if found is None:
            found = self._before_list(loop.body, _NOTHING, _NOTHING, record=False)
            found = found - _assigned(loop) if isinstance(loop, ast.For) else found | loaded(loop.test)
            self._exposed[loop] = found
        return found


def loaded(root: ast.AST) -> Names:
    """Return the names that are read in ``root``; ``x += 1`` and ``x[0] = 1`` read ``x``."""
    found = {n.id for n in all_nodes(root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if isinstance(root, ast.AugAssign) and isinstance(root.target, ast.Name):
        found.add(root.target.id)
    return frozenset(found)


def _assigned(s: ast.stmt) -> Names:
    """The names that ``s`` itself assigns as a whole."""
    match s:
        case ast.Assign():
            targets = [t for target in s.targets for t in unpacked(target)]
        case ast.For():
            targets = unpacked(s.target)
        case ast.AnnAssign() if s.value is not None:
            targets = [s.target]
        case _:
            return _NOTHING
    return frozenset(t.id for t in targets if isinstance(t, ast.Name))
