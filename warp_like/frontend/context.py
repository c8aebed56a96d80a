"""The state of one function being built, and the operations that all handlers of syntax share.

Handlers register themselves for a node class and reach each other through ``Context.expr`` and
``Context.statement``, so their files don't import one another.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from warp_like import values
from warp_like.base.errors import WarpCodegenError, WarpCodegenKeyError, WarpCodegenTypeError
from warp_like.base.loc import At, Loc, Pending, at, current_loc, enter, leave
from warp_like.builtins.emit import Emitter
from warp_like.builtins.overload import Inline, NoMatch
from warp_like.builtins.patterns import Literal, int_range
from warp_like.builtins.spec import Resolved, resolve
from warp_like.frontend.host import Host, is_callable, not_a_value
from warp_like.frontend.liveness import Liveness
from warp_like.frontend.names import NOW, Names
from warp_like.frontend.operands import (
    NOTHING,
    ArgumentType,
    Nesting,
    Operand,
    describe,
    nested,
    require_value_kind,
    type_of,
)
from warp_like.frontend.scope import Scope, Unassigned, Unbound, Variable, as_bool
from warp_like.frontend.source import Source
from warp_like.frontend.tile_views import Aliases, TileView
from warp_like.ir import ops
from warp_like.ir.core import Block, Function, Op, Value
from warp_like.ir.types import Array, IndexedArray, Scalar, Type, bool_, int32, int64, is_empty

if TYPE_CHECKING:
    from warp_like.frontend.first_assigned import FromLastIteration
    from warp_like.frontend.flow import Flow
    from warp_like.frontend.function import Overload

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

_OF_NOTHING = {
    *("add", "sub", "mul", "div", "neg", "pos", "cw_mul", "cw_div", "eq", "ne", "abs", "transpose"),
    *("dot", "ddot", "length", "length_sq", "norm_l1", "norm_l2"),
}
"""The builtins that take vectors and matrices without components."""

EXPRESSIONS: dict[type[ast.expr], Callable[[Context, Any], Operand]] = {}
STATEMENTS: dict[type[ast.stmt], Callable[[Context, Any], Flow | None]] = {}
_LATER = {ast.For: "loops", ast.While: "loops", ast.Assert: "checking"}
"""The modules that handle further statements, which not all kernels have."""


def expression(*kinds: type[ast.expr]) -> Callable[[_Handler], _Handler]:
    """Register the handler of an expression's node classes: ``handler(ctx, node) -> Operand``."""

    def register(handler: _Handler) -> _Handler:
        EXPRESSIONS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def statement(*kinds: type[ast.stmt]) -> Callable[[_Handler], _Handler]:
    """Register the handler of a statement's node classes: ``handler(ctx, node) -> Flow | None`` ."""

    def register(handler: _Handler) -> _Handler:
        STATEMENTS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


class Session:
    """State that the functions of one kernel share.

    Attributes:
        wide: ``tid()`` is int64, since a dimension of the grid is beyond ``MAX_NARROW``. The kernel was written for
            int32, so the two convert into each other without a cast.
        shares_indices: The grid has more dimensions than the kernel asks for indices, so several threads have the same.
        block_dim: How many threads of a block work on tiles together.
        call: Builds (once) a user function for given arguments; set by ``build``.
        around: How names around the functions are looked up.
    """

    def __init__(
        self,
        wide: bool,
        call: Callable[[Session, Overload, tuple[ArgumentType, ...]], Function],
        around: Names = NOW,
        shares_indices: bool = False,
        block_dim: int = 1,
    ) -> None:
        self.wide = wide
        self.call = call
        self.around = around
        self.shares_indices = shares_indices
        self.block_dim = block_dim
        self.functions: dict[Any, Function] = {}
        self.building: list[tuple[tuple[Overload, Any], str]] = []
        self.names: Counter[str] = Counter()
        self.nestings: dict[Function, tuple[Nesting, ...]] = {}  # of results with tuples inside of them


class Returns:
    """The results of a function: their types once they are known, and where they were settled."""

    def __init__(
        self,
        types: list[Type | None] | None = None,
        loc: Loc | None = None,
        annotated: bool = False,
        nesting: tuple[Nesting, ...] = (),
    ) -> None:
        self.types = types
        self.loc = loc
        self.annotated = annotated
        self.nesting = nesting  # where they stand in tuples


class Context:
    """One function being built."""

    def __init__(self, session: Session, source: Source, returns: Returns, body: Block) -> None:
        self.session = session
        self.source = source
        self.returns = returns
        self.body = body
        self.b = Emitter(body)
        self.scope = Scope()
        self.live = Liveness(())
        self.loops: list[Mapping[str, FromLastIteration]] = []  # what the loops around hold of names, outermost first
        self.statics: dict[str, Any] = {}  # the indices of the loops being unrolled, for wp.static()
        self.zeros_of_types: set[Value] = set()  # what `wp.types.vector(length=3, dtype=float)` gave
        self.references: tuple[str, ...] = ()  # the parameters whose last values the function returns, too
        self.views: list[TileView] = []
        self.held_views: list[
            Sequence[TileView]
        ] = []  # those that names hold which a loop around, or code after it, reads
        self.aliases = Aliases(())
        self.no_assignment = ""  # the place being built, where it may not be reached, for messages

    # --- dispatch ---

    def expr(self, node: ast.expr) -> Operand:
        """Build an expression; a part of a tile is the value that it has now."""
        operand = self.reference(node)
        if isinstance(operand, TileView):
            with self.at(node):
                return operand.read(self.b, self.viewed(operand))
        return operand

    def reference(self, node: ast.expr) -> Operand:
        """Build an expression; a part of a variable's tile stays that, so that it can be changed through it."""
        handler = EXPRESSIONS.get(type(node))
        before = enter(Pending(self.source.loc, node))
        try:
            if handler is None:
                from warp_like.frontend import refused

                raise refused.expression(node)
            return handler(self, node)
        finally:
            leave(before)

    def statement(self, node: ast.stmt) -> Flow | None:
        """Build a statement; None where it simply goes on to the next."""
        kind = type(node)
        if kind not in STATEMENTS and kind in _LATER:
            importlib.import_module(f"warp_like.frontend.{_LATER[kind]}")
        handler = STATEMENTS.get(kind)
        with self.at(node):
            if handler is None:
                from warp_like.frontend import refused

                raise refused.statement(node)
            return handler(self, node)

    def at(self, node: ast.AST) -> At:
        """Give ops and errors the place of ``node``."""
        return at(Pending(self.source.loc, node))

    @contextlib.contextmanager
    def branch(self) -> Iterator[Block]:
        """Build into a new block with a scope of its own; the block is not yet ended."""
        saved = self.scope
        self.scope = saved.copy()
        try:
            with self.b.into(Block()) as block:
                yield block
        finally:
            self.scope = saved

    @contextlib.contextmanager
    def without_assignment(self, place: str) -> Iterator[None]:
        """Refuse builtins that change a variable inside the ``with``: ``place`` may not be reached."""
        saved, self.no_assignment = self.no_assignment, place
        try:
            yield
        finally:
            self.no_assignment = saved

    # --- tiles ---

    def viewed(self, view: TileView) -> Value:
        """Return the tile that ``view`` is a part of, as it is now."""
        view.require_fresh()
        whole = self.read(view.root)
        assert isinstance(whole, Value)
        return whole

    def forget_views(self, name: str) -> None:
        """Let the parts of the tile in ``name`` be parts of none, since another value takes its place.

        Raises:
            WarpCodegenError: One was taken before the loop around here, which would see the other tile.
        """
        for view in self.views:
            if view.root == name and not view.is_stale:
                held = (v for views in self.held_views[view.depth :] for v in views if v.root == name)
                if (seen := next(held, None)) is not None:
                    raise WarpCodegenError(
                        f"`{seen.text}` is a part of the tile in `{name}` from before the loop, and the loop assigns "
                        f"`{name}` another tile",
                        help="give the other tile another name",
                    )
                view.is_stale = True

    # --- values ---

    def value(self, node: ast.expr) -> Value:
        """Build an expression that has to be a value; a literal gets its default type."""
        operand = self.expr(node)
        with self.at(node):
            return self.settle(operand)

    def settle(self, operand: Operand) -> Value:
        """Return ``operand`` as a value; a literal gets its default type."""
        operand = require_value_kind(operand)
        if isinstance(operand, Value):
            return operand
        if not operand.fits(operand.default):
            raise WarpCodegenTypeError(f"{operand.value} is too large for any integer type")
        return self.b.constant(operand.value, operand.default)

    def fits(self, operand: Operand, type: Type) -> bool:
        """Return whether ``convert`` would take ``operand`` as a ``type``."""
        if isinstance(operand, Literal):
            return operand.fits(type)
        return isinstance(operand, Value) and (operand.type == type or self._converts(operand.type, type))

    def convert(self, operand: Operand, type: Type, what: str, node: ast.expr | None = None) -> Value:
        """Return ``operand`` as a ``type``; only literals adapt.

        Args:
            operand: What is given.
            type: What is wanted.
            what: The place where it is wanted, for messages.
            node: The operand's syntax, for messages.
        """
        operand = require_value_kind(operand, lambda given: vector_instead(given, node, type))
        if isinstance(operand, Literal) and operand.fits(type):
            return self.b.constant(operand.value, type)
        if isinstance(operand, Value):
            if operand.type == type:
                return operand
            if self._converts(operand.type, type):
                return self.b.cast(operand, type)
        if isinstance(operand, Literal) and isinstance(operand.value, int) and isinstance(type, Scalar) and type.is_int:
            lo, hi = int_range(type)
            from warp_like.frontend import advice

            raise WarpCodegenTypeError(
                f"{what} is {with_article(str(type))}, which holds {lo} to {hi}, got {operand.value}",
                help=advice.larger_integer(operand.value, what),
            )
        scalar = isinstance(type, Scalar) and isinstance(type_of(operand), (Scalar, Literal))
        raise WarpCodegenTypeError(
            f"{what} is {with_article(str(type))}, got {describe(operand)}",
            help=f"{cast_name(type)}({ast.unparse(node) if node is not None else '...'})" if scalar else None,
        )

    def _converts(self, given: Type, wanted: Type) -> bool:
        return self.session.wide and {given, wanted} == {int32, int64}

    def condition(self, operand: Operand) -> Value | bool:
        """Return the truth of ``operand``; a Python bool where it is known now."""
        operand = require_value_kind(operand)
        if isinstance(operand, Literal):
            return bool(operand.value)
        if operand.type == bool_:
            return operand
        if isinstance(operand.type, IndexedArray):
            operand = self.b.get_field(operand, 0)
        if isinstance(operand.type, Array):
            return self.b.select(operand, self.b.constant(True, bool_), self.b.constant(False, bool_))
        if not isinstance(operand.type, Scalar):
            raise WarpCodegenTypeError(f"a condition is a bool or a number, got {with_article(str(operand.type))}")
        got: Value = self.b.apply("ne", operand, 0)
        return got

    def index(self, node: ast.expr, what: str = "an index") -> Value | Literal:
        """Build an index: an integer of any type, or an integer literal; True and False are 1 and 0, as in Python."""
        operand = self.expr(node)
        with self.at(node):
            if isinstance(operand, Literal) and isinstance(operand.value, int):
                return operand if type(operand.value) is int else Literal(int(operand.value))
            if isinstance(operand, Value) and isinstance(operand.type, Scalar) and operand.type.is_int:
                return operand
            is_float = isinstance(operand, Value) and isinstance(operand.type, Scalar) and operand.type.is_float
            raise WarpCodegenTypeError(
                f"{what} is an integer, got {describe(operand)}",
                help=f"int({ast.unparse(node)})" if is_float else None,
            )

    # --- builtins ---

    def apply(
        self, name: str, *args: Operand, symbol: str | None = None, nodes: Sequence[ast.expr] | None = None
    ) -> Operand:
        """Call builtin ``name``.

        Args:
            name: The builtin.
            args: Values and literals.
            symbol: The operator that the user wrote, for messages.
            nodes: The arguments' syntax, for messages.
        """
        given = [a if type(a) is Value else require_value_kind(a) for a in args]
        types = [a.type if isinstance(a, Value) else a for a in given]
        try:
            resolved = resolve(name, types)
        except NoMatch:
            if self.session.wide and (widened := self._widened(given)) is not None:
                return self.apply(name, *widened, symbol=symbol, nodes=nodes)
            raise self._no_match(name, types, symbol, nodes) from None
        if resolved.takes_nothing:
            return self._of_nothing(name, resolved)
        values = [
            a if isinstance(a, Value) else self.b.constant(a.value, t)
            for a, t in zip(given, resolved.args, strict=True)
        ]
        lower = resolved.overload.lower
        if isinstance(lower, Inline) and (lower.called or any(isinstance(t, Array) for t in resolved.args)):
            # An Apply is free to move, also over a store into an array that its body reads.
            from warp_like.frontend.inlining import inline_overload

            return self.call(self.session.call(self.session, inline_overload(lower), resolved.args), values)
        return results_of(self.b.insert(ops.Apply(name, tuple(values)), *resolved.results))

    def _of_nothing(self, name: str, resolved: Resolved) -> Operand:
        """Call a builtin with a vector or matrix without components: what it gives is known, 0 or another such."""
        if name not in _OF_NOTHING:
            given = next(t for t in resolved.args if is_empty(t))
            raise WarpCodegenTypeError(f"{name}() does not take a {given}, which has no components")
        (t,) = resolved.results
        return self.b.constant(name == "eq", t) if t == bool_ else self.b.zero(t)

    def _no_match(
        self, name: str, types: list[Type | Literal], symbol: str | None, nodes: Sequence[ast.expr] | None
    ) -> WarpCodegenTypeError:
        """The error for a call of a builtin that no overload takes, with the source of its arguments."""
        known = nodes if nodes is not None and len(nodes) == len(types) else None
        try:
            resolve(name, types, symbol, [ast.unparse(n) for n in known] if known is not None else None)
        except NoMatch as error:
            blamed = known[error.position] if known is not None and error.position is not None else None
            loc = self.source.loc(blamed) if blamed is not None else current_loc()
            begins = {v: found.loc for v in self.scope.names if (found := self.scope.variable(v)) and found.loc}
            from warp_like.frontend import advice

            start = advice.start_of_sum(self.source, name, types, known, begins) if known is not None else None
            return WarpCodegenTypeError(str(error), loc, start or error.help)
        raise AssertionError(f"{name} resolves the second time")

    def _widened(self, given: list[Value | Literal]) -> list[Value | Literal] | None:
        """``given`` with its int32 as int64, where it holds both."""
        if not {int32, int64} <= {a.type for a in given if isinstance(a, Value)}:
            return None
        return [self.b.cast(a, int64) if isinstance(a, Value) and a.type == int32 else a for a in given]

    def call(self, callee: Function, args: Sequence[Value]) -> Operand:
        """Call a function that has been built."""
        op = self.b.insert(ops.Call(callee, tuple(args)), *callee.results)
        if callee not in self.session.nestings:
            return results_of(op)
        values = list(op.results)
        given = [nested(part, values) for part in self.session.nestings[callee]]
        return (*given, *values) if values or len(given) > 1 else given[0]  # parameters by reference come last

    def zero(self, type: Type) -> Value:
        """A value of ``type`` that nobody looks at."""
        return self.b.zero(type)

    def type_meant(self, operand: Operand, node: ast.expr) -> Operand:
        """Return ``operand`` where a type is due: a zero that ``wp.types.vector(...)`` gave stands for its type."""
        if isinstance(operand, Value) and operand in self.zeros_of_types:
            return Host(values.from_ir(operand.type), ast.unparse(node))
        return operand

    # --- names ---

    def read(self, name: str) -> Operand | None:
        """Return the value of ``name``, None where the function does not assign it.

        Raises:
            WarpCodegenKeyError: It has no value here that one type could hold.
        """
        found = self.scope.names.get(name)
        if isinstance(found, Unassigned):
            found = self.scope.names[name] = self._unassigned(name, found)
        if isinstance(found, Unbound):
            raise WarpCodegenKeyError(found.reason, help=found.help)
        if found is None:
            return None
        if found.assigned is not True:
            self._read_of_unassigned(name, found.assigned)
        return found.value

    def _unassigned(self, name: str, found: Unassigned) -> Variable | Unbound:
        with self.b.into(Block()) as start:
            variable = found.variable(self.b, found.like) if found.like is not None else None
        self.body.ops[:0] = start.ops  # zeros, known wherever the name is read again
        if variable is None:
            return Unbound(f"`{name}` is read before it is assigned", f"assign `{name}` before this line")
        if variable.assigned is False:
            from warp_like.frontend.warn import warn

            warn(f"`{name}` is not assigned on any path that leads here: it is zero")
        return variable

    def _read_of_unassigned(self, name: str, assigned: bool | Value) -> None:
        """Note that a name is read which is not assigned on all paths; debug mode reports where it is not."""
        for held in self.loops:
            if name in held:
                held[name].is_read = True
        text = f"`{name}` is read, but not assigned on the path that leads here"
        self.b.insert(ops.Check("unassigned", text, as_bool(self.b, assigned), ()))

    def bind(self, name: str, operand: Operand, source: ast.expr) -> None:
        """Assign to a local variable; a literal takes the variable's type, at first its default type.

        ``source`` is the operand's syntax.
        """
        old = self.scope.variable(name)
        if isinstance(operand, TileView) and operand.root == name:  # of which it is a part no more
            operand = operand.read(self.b, self.viewed(operand))
        self.forget_views(name)
        with self.at(source):
            value: Operand = self._typed(operand, old.value if old is not None and old.keeps_type else None)
        if isinstance(value, Value):
            if not value.hint:
                value.hint = name
        elif value == NOTHING:
            raise WarpCodegenTypeError(f"`{name}` is assigned the result of a call that has none")
        try:
            self.scope.bind(name, value, current_loc())
        except WarpCodegenTypeError as error:
            began = old.loc if old is not None else None
            wanted = value.type if isinstance(value, Value) else None
            from warp_like.frontend import advice

            start = advice.another_start(self.source, name, began, wanted) if wanted is not None else None
            raise WarpCodegenTypeError(error.reason, error.loc, start or error.help) from None

    def _typed(self, operand: Operand, old: Operand | None) -> Operand:
        """``operand`` with its literals made values: of the types of ``old`` where they fit."""
        if isinstance(operand, tuple):
            olds = old if isinstance(old, tuple) and len(old) == len(operand) else (None,) * len(operand)
            return type(operand)(self._typed(part, o) for part, o in zip(operand, olds, strict=True))
        if isinstance(operand, TileView):
            return operand
        if isinstance(operand, Host):
            require_bindable(operand)
            return operand
        if isinstance(old, Value) and old.type != type_of(operand) and self.fits(operand, old.type):
            return self.convert(operand, old.type, "")
        return self.settle(operand)


def vector_instead(operand: tuple[Any, ...], node: ast.expr | None, wanted: Type | None = None) -> str | None:
    """Return advice on a tuple of numbers where one value is due, ``wanted`` of a type."""
    from warp_like.frontend import advice

    return advice.as_vector(operand, node, wanted)


def results_of(op: Op) -> Operand:
    """Return the results of an op as an operand."""
    return op.results[0] if len(op.results) == 1 else tuple(op.results)


def require_bindable(value: Host) -> None:
    """Raise unless a Python object may go by another name in kernel code.

    Raises:
        WarpCodegenTypeError: It is no function or type.
    """
    if not is_callable(value.obj):
        raise not_a_value(value)


def with_article(text: str) -> str:
    """Return ``text`` after ``a`` or ``an``."""
    return f"an {text}" if text.startswith(("int", "array", "indexed", "object")) else f"a {text}"


def cast_name(type: Type) -> str:
    """Return how user code calls the conversion to a scalar type."""
    return {"float32": "float", "int32": "int", "bool": "bool"}.get(str(type), f"wp.{type}")


def is_array(operand: Operand) -> bool:
    """Return whether ``operand`` is an array."""
    return isinstance(operand, Value) and isinstance(operand.type, Array)
