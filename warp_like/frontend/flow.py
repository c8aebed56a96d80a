"""How a list of statements may end, and what the syntax says about it beforehand.

Break, continue and return have no ops. Statements that end early tell so in a ``Flow``: for each kind of exit
whether it is taken never, always, or when a bool of the kernel is true. The code after them is built under
that condition.
"""

from __future__ import annotations

import ast
import copy
import enum
from collections.abc import Sequence

from warp_like.base.frozen import Frozen
from warp_like.builtins.spec import ASSIGNING, REGISTRY
from warp_like.frontend.operands import Operand
from warp_like.frontend.syntax import all_nodes, statements
from warp_like.frontend.tile_roots import root_of
from warp_like.ir.core import Value

Flag = bool | Value
"""Never (``False``), always (``True``), or as a bool of the kernel says."""

KINDS = ("breaks", "continues", "returns")


class Flow(Frozen):
    """The exits of a list of statements; ``results`` is what a return gives."""

    breaks: Flag = False
    continues: Flag = False
    returns: Flag = False
    results: tuple[Operand, ...] = ()

    @staticmethod
    def of(flags: Sequence[Flag], results: tuple[Operand, ...] = ()) -> Flow:
        """Make a flow from its exits in the order of ``KINDS``."""
        breaks, continues, returns = flags
        return Flow(breaks, continues, returns, results)

    @property
    def flags(self) -> list[Flag]:
        """The exits in the order of ``KINDS``."""
        return [self.breaks, self.continues, self.returns]

    @property
    def may_fall(self) -> bool:
        """Whether the end of the list can be reached."""
        return True not in self.flags

    @property
    def always_falls(self) -> bool:
        """Whether the list simply goes on to what follows."""
        return self.flags == [False, False, False]

    @property
    def always_returns(self) -> bool:
        """Whether the function always ends here."""
        return self.returns is True


ON = Flow()


class Tail(enum.Enum):
    """The code that follows a list of statements."""

    NONE = enum.auto()
    LOOP = enum.auto()  # the end of the loop's body: `continue` is nothing
    KERNEL = enum.auto()  # the end of the kernel: `return` is nothing


def may_exit(node: ast.stmt | Sequence[ast.stmt]) -> bool:
    """Return whether one of several statements may return, or break or continue a loop outside of it."""
    if not isinstance(node, ast.stmt):
        return any(may_exit(s) for s in node)
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(node, ast.If):
        return may_exit(node.body) or may_exit(node.orelse)
    return isinstance(node, (ast.For, ast.While)) and leaves_loop(node.body, (ast.Return,))


def never_falls(stmts: Sequence[ast.stmt]) -> bool:
    """Return whether the syntax alone says that the end of ``stmts`` is not reached."""
    return any(
        isinstance(s, (ast.Return, ast.Break, ast.Continue))
        or (isinstance(s, ast.If) and never_falls(s.body) and never_falls(s.orelse))
        for s in stmts
    )


def leaves_loop(body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...] = (ast.Break, ast.Return)) -> bool:
    """Return whether a loop body has a ``break`` of its own or a ``return``."""
    for s in body:
        if isinstance(s, kinds):
            return True
        if isinstance(s, ast.If) and (leaves_loop(s.body, kinds) or leaves_loop(s.orelse, kinds)):
            return True
        if isinstance(s, (ast.For, ast.While)) and ast.Return in kinds and leaves_loop(s.body, (ast.Return,)):
            return True
    return False


def assigned_names(stmts: Sequence[ast.stmt]) -> dict[str, bool]:
    """Return the names that ``stmts`` may rebind; True for those whose components alone are assigned.

    Assigning ``x[i]`` rebinds a vector ``x``, not an array ``x``: only the type tells, so the caller decides.
    """
    found: dict[str, bool] = {}
    for root in stmts:
        for node in all_nodes(root):
            if isinstance(node, ast.Call):
                for name in _changed_arguments(node):
                    found.setdefault(name, True)
            for target in _targets(node):
                if isinstance(target, ast.Name):
                    found[target.id] = False
                else:
                    base: ast.expr = target
                    while isinstance(base, (ast.Subscript, ast.Attribute)):
                        base = base.value
                    if isinstance(base, ast.Name):
                        found.setdefault(base.id, True)
    return found


def names_assigned_anew(root: ast.stmt) -> frozenset[str]:
    """Return the names that ``root`` may give another value, not one made of the one before as ``x += 1`` does."""
    targets = (t for n in all_nodes(root) if not isinstance(n, ast.AugAssign) for t in _targets(n))
    return frozenset(t.id for t in targets if isinstance(t, ast.Name))


def _changed_arguments(node: ast.Call) -> list[str]:
    """The names that a builtin changes: ``state`` in ``wp.randi(state, 0, SIDES)``; for a part of a tile, the tile."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in REGISTRY or name not in ASSIGNING:
        return []
    changing = [(row.params.index(p), p) for row in REGISTRY[name] for p in row.assigns]
    places, names = {place for place, _ in changing}, {p for _, p in changing}
    is_unpacked = any(isinstance(a, ast.Starred) for a in node.args)  # then places do not tell
    given = [a for k, a in enumerate(node.args) if is_unpacked or k in places]
    given += [k.value for k in node.keywords if k.arg in names]
    return [root for a in given if (root := root_of(a)) is not None]


def with_tests_inside(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return ``body`` with ``while`` loops whose test changes a variable as endless ones that leave where it fails.

    That is ``while wp.hash_grid_query_next(query, index)``: what the test assigns, the body sees.
    """
    changing = any(isinstance(s, ast.While) and _changes(s.test) for s in statements(body))
    return [_TestsInside().visit(copy.deepcopy(s)) for s in body] if changing else list(body)


def _changes(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and _changed_arguments(n) for n in all_nodes(test))


class _TestsInside(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        if _changes(node.test):
            test, leave = node.test, ast.copy_location(ast.Break(), node.test)
            negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
            node.body.insert(0, ast.copy_location(ast.If(negated, [leave], []), test))
            node.test = ast.copy_location(ast.Constant(True), test)
        return node


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign():
            return [t for target in node.targets for t in unpacked(target)]
        case ast.AugAssign() | ast.AnnAssign() | ast.For():
            return unpacked(node.target)
    return []


def assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of ``=`` and the syntax of what each gets; of a tuple that is unpacked, all get the whole."""
    match node:
        case ast.Assign(targets=wholes, value=value):
            return [pair for whole in wholes for pair in _pairs(whole, value)]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(target, value)]
    return []


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if matches(target, value):
        assert isinstance(target, (ast.Tuple, ast.List))
        assert isinstance(value, ast.Tuple)
        return [pair for t, v in zip(target.elts, value.elts, strict=True) for pair in _pairs(t, v)]
    return [(t, value) for t in unpacked(target)]


def matches(target: ast.expr, value: ast.expr) -> bool:
    """Return whether ``value`` is a tuple with an item for each item of ``target``."""
    return (
        isinstance(value, ast.Tuple)
        and isinstance(target, (ast.Tuple, ast.List))
        and len(target.elts) == len(value.elts)
    )


def unpacked(target: ast.expr) -> list[ast.expr]:
    """Return the targets that an assignment to ``target`` fills, those in tuples one by one."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [t for e in target.elts for t in unpacked(e)]
    return [target]
