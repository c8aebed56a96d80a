"""``for`` over ``range`` and ``while``.

A loop carries the names that its body assigns and that were bound before; names first bound in the body end
with each iteration. A ``for`` that ``break`` or ``return`` may leave becomes a ``while`` that carries its
index and a bool.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from warp_like.base.errors import WarpCodegenError, WarpCodegenTypeError, WarpCodegenValueError
from warp_like.builtins.patterns import Literal
from warp_like.frontend.context import Context, statement
from warp_like.frontend.control_flow import any_of, common_type, run
from warp_like.frontend.flow import Flow, Tail, assigned_names, leaves_loop
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.operands import flatten, rebuild
from warp_like.frontend.scope import Scope, Unbound, Variable
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Array, Scalar, Type, bool_, int32, int64


@statement(ast.For)
def build_for(ctx: Context, node: ast.For) -> Flow:
    """``for name in range(...)``."""
    _require_no_else(ctx, node)
    if not isinstance(node.target, ast.Name):
        with ctx.at(node.target):
            raise WarpCodegenError("a for loop over range(...) assigns one name", help="for i in range(n)")
    lo, hi, step = _range(ctx, node.iter)
    if leaves_loop(node.body):
        return _for_with_exit(ctx, node, lo, hi, step)
    carried = _Carried(ctx, [node], [node.target.id])
    index = Value(_type(lo), node.target.id)
    params, scope = carried.parameters()
    with carried.block(Block([index, *params]), scope) as body:
        with ctx.at(node.target):
            ctx.bind(node.target.id, index, node.target)
        run(ctx, node.body, Tail.LOOP)
        ctx.b.yield_(*carried.values(ctx.scope))
    carried.finish(ctx.b.for_(lo, hi, step, carried.initial, body))
    return Flow()


@statement(ast.While)
def build_while(ctx: Context, node: ast.While) -> Flow:
    """``while condition``."""
    _require_no_else(ctx, node)
    carried = _Carried(ctx, [node])
    return _exiting_loop(ctx, carried, node.body, [], lambda _: _while_test(ctx, node))


def _while_test(ctx: Context, node: ast.While) -> Value | bool:
    with ctx.without_assignment("in the condition of `while`"):
        operand = ctx.expr(node.test)
    with ctx.at(node.test):
        return ctx.condition(operand)


def _for_with_exit(ctx: Context, node: ast.For, lo: Value, hi: Value, step: Value) -> Flow:
    """A ``for`` that may end early, as a ``while`` over its index."""
    assert isinstance(node.target, ast.Name)
    name, t = node.target.id, _type(lo)
    stride = ops.constant_value(step)
    if stride not in (1, -1) and t.bits < 64:  # counting in 64 bits, the index can't wrap around past `hi`
        lo, hi, step = (ctx.b.cast(v, int64) for v in (lo, hi, step))
    carried = _Carried(ctx, [node], [name])
    forward = None if stride is None else stride > 0

    def test(counter: Sequence[Value]) -> Value:
        up: Value | None = ctx.b.apply("lt", counter[0], hi) if forward is not False else None
        down: Value | None = ctx.b.apply("gt", counter[0], hi) if forward is not True else None
        if up is None or down is None:
            return up or down  # type: ignore[return-value]
        return ctx.b.select(ctx.b.apply("gt", step, 0), up, down)

    def begin(counter: Sequence[Value]) -> None:
        index = counter[0] if counter[0].type == t else ctx.b.cast(counter[0], t)
        with ctx.at(node.target):
            ctx.bind(name, index, node.target)

    def advance(counter: Sequence[Value]) -> list[Value]:
        return [ctx.b.apply("add", counter[0], step)]

    return _exiting_loop(ctx, carried, node.body, [lo], test, begin, advance, name)


def _exiting_loop(
    ctx: Context,
    carried: _Carried,
    stmts: Sequence[ast.stmt],
    counter: list[Value],
    test: Callable[[Sequence[Value]], Value | bool],
    begin: Callable[[Sequence[Value]], None] = lambda _: None,
    advance: Callable[[Sequence[Value]], list[Value]] = lambda _: [],
    hint: str = "",
) -> Flow:
    """Build a ``While`` that carries the counter, the names, a bool for each exit, and the results."""
    counters = [Value(v.type, hint) for v in counter]
    params, scope = carried.parameters()
    with carried.block(Block([*counters, *params]), scope) as body:
        begin(counters)
        flow = run(ctx, stmts, Tail.LOOP)
        exits = [flow.breaks, flow.returns]
        results = _results(ctx, flow)
        flags = [f if isinstance(f, Value) else ctx.b.constant(f, bool_) for f in exits if f is not False]
        ctx.b.yield_(*advance(counters), *carried.values(ctx.scope), *flags, *results)
    words = [w for w, f in zip(("breaks", "returns"), exits, strict=True) if f is not False]
    body.params += [Value(bool_, w) for w in words] + [Value(r.type, "result") for r in results]

    cond_counters = [Value(v.type, hint) for v in counter]
    cond_params, cond_scope = carried.parameters()
    cond_flags = [Value(bool_, w) for w in words]
    rest = [Value(r.type, "result") for r in results]
    with carried.block(Block([*cond_counters, *cond_params, *cond_flags, *rest]), cond_scope) as cond:
        goes_on, endless = _goes_on(ctx, cond_flags, lambda: test(cond_counters))
        ctx.b.yield_(goes_on)

    initial = [
        *counter,
        *carried.initial,
        *(ctx.b.constant(False, bool_) for _ in words),
        *(ctx.zero(r.type) for r in results),
    ]
    got = list(ctx.b.while_(initial, cond, body))
    names_end = len(counter) + len(carried.initial)
    carried.finish(got[len(counter) : names_end])
    return _after(flow, words, got[names_end:], endless)


def _goes_on(ctx: Context, flags: Sequence[Value], test: Callable[[], Value | bool]) -> tuple[Value, bool]:
    """Whether another iteration is due, and whether the exits alone end the loop.

    It is due when no exit was taken and ``test`` holds, which is not evaluated after an exit.
    """
    if not flags:
        held = test()
        return _bool(ctx, held), held is True
    untouched: Value = ctx.b.apply("unot", any_of(ctx, flags))
    with ctx.b.into(Block()) as block:
        held = test()
    if held is True:
        return untouched, True
    if all(o.PURE for o in block.ops) and isinstance(held, Value):
        ctx.b.block.ops.extend(block.ops)
        return ctx.b.apply("bit_and", untouched, held), False
    with ctx.b.into(block):
        ctx.b.yield_(_bool(ctx, held))
    with ctx.b.into(Block()) as otherwise:
        ctx.b.yield_(ctx.b.constant(False, bool_))
    return ctx.b.if_(untouched, block, otherwise)[0], False


def _bool(ctx: Context, held: Value | bool) -> Value:
    return ctx.b.constant(held, bool_) if isinstance(held, bool) else held


def _results(ctx: Context, flow: Flow) -> list[Value]:
    """What the loop's ``return`` gives, as values."""
    if flow.returns is False:
        return []
    results = []
    for operand in flow.results:
        t = common_type([operand])
        if isinstance(t, Array):
            raise WarpCodegenTypeError(
                "a function can't return an array out of a loop",
                help="choose the array's elements, not the array",
            )
        results.append(ctx.convert(operand, t, "the value returned"))
    return results


def _after(flow: Flow, words: list[str], got: list[Value], endless: bool) -> Flow:
    """The flow of a loop: only a return leaves what holds the loop."""
    if "returns" not in words:
        return Flow(returns=endless and "breaks" not in words)
    always = endless and "breaks" not in words
    return Flow(returns=True if always else got[words.index("returns")], results=tuple(got[len(words) :]))


@dataclass
class _Entry:
    name: str
    variable: Variable


class _Carried:
    """The names that a loop carries, with the scopes inside of it and after it.

    Args:
        ctx: The function.
        nodes: The loop.
        also: Names that the loop assigns by itself.
    """

    def __init__(self, ctx: Context, nodes: Sequence[ast.stmt], also: Sequence[str] = ()) -> None:
        self.ctx = ctx
        self.outer = ctx.scope
        self.assigned = assigned_names(nodes)
        self.entries: list[_Entry] = []
        self.excluded: dict[str, Unbound] = {}
        for name, components in self.assigned.items():
            variable = self.outer.variable(name)
            if variable is None:
                continue
            held = flatten(variable.value)
            if any(isinstance(v.type, Array) for v in held) or isinstance(variable.value, Host):
                if not components:
                    self.excluded[name] = Unbound(
                        f"`{name}` is another {'array' if held else 'function or type'} in each iteration",
                        "kernel code can't choose arrays at run time; use a name that is new inside the loop",
                    )
            else:
                self.entries.append(_Entry(name, variable))

    @property
    def initial(self) -> list[Value]:
        """The values before the first iteration."""
        return [v for e in self.entries for v in flatten(e.variable.value)]

    def parameters(self) -> tuple[list[Value], Scope]:
        """Return block parameters for the carried values, and a scope in which the names stand for them."""
        scope = self.outer.copy()
        scope.names.update(self.excluded)
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
        try:
            with self.ctx.b.into(block):
                yield block
        finally:
            self.ctx.scope = saved

    def values(self, scope: Scope) -> list[Value]:
        """Return the values that the names have at the end of an iteration.

        Raises:
            WarpCodegenKeyError: One is not readable there.
        """
        found: list[Value] = []
        for e in self.entries:
            operand = scope.read(e.name)
            assert operand is not None
            found += flatten(operand)
        return found

    def finish(self, results: Sequence[Value]) -> None:
        """Give the names their values after the loop; names of its body can't be read there."""
        left = list(results)
        for e in self.entries:
            count = len(flatten(e.variable.value))
            mine, left = left[:count], left[count:]
            for v in mine:
                v.hint = e.name
            self.outer.names[e.name] = Variable(rebuild(e.variable.value, list(mine)), e.variable.loc)
        for name in self.assigned:
            if self.outer.variable(name) is None:
                self.outer.names[name] = Unbound(
                    f"`{name}` is first assigned inside a loop, which may run zero times",
                    f"assign `{name}` before the loop",
                )
        self.outer.names.update(self.excluded)


def _range(ctx: Context, node: ast.expr) -> tuple[Value, Value, Value]:
    """The bounds and the step of ``range(...)``, of one integer type."""
    callee = ctx.expr(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(callee, Host) or builtin_name(callee.obj) != "range":
        with ctx.at(node):
            raise WarpCodegenError(
                f"a for loop runs over range(...), got {ast.unparse(node)}",
                help="for i in range(n): ... a[i] ...",
            )
    with ctx.at(node):
        if node.keywords or not 1 <= len(node.args) <= 3:
            count = len(node.args) + len(node.keywords)
            raise WarpCodegenError(
                f"range() takes 1 to 3 arguments by position, got {count}",
                help="range(stop) or range(start, stop, step)",
            )
        given = [ctx.index(a, "an argument of range()") for a in node.args]
        lo, hi, step = [Literal(0), given[0], Literal(1)] if len(given) == 1 else [*given, Literal(1)][:3]
        bounds = _one_type(ctx, [lo, hi, step])
    return _safe_step(ctx, *bounds)


def _one_type(ctx: Context, bounds: list[Value | Literal]) -> list[Value]:
    types = list(dict.fromkeys(v.type for v in bounds if isinstance(v, Value)))
    if ctx.session.wide and set(types) == {int32, int64}:
        types = [int64]
    if len(types) > 1:
        shown = " and ".join(map(str, types))
        raise WarpCodegenTypeError(
            f"range() does not mix types: {shown}", help=f"convert one of them, e.g. wp.{types[-1]}(...)"
        )
    t: Type = types[0] if types else _widest([v.default for v in bounds if isinstance(v, Literal)])
    return [ctx.convert(v, t, "an argument of range()") for v in bounds]


def _widest(types: Sequence[Scalar]) -> Scalar:
    return max(types, key=lambda t: (t.bits, not t.is_signed)) if types else int32


def _safe_step(ctx: Context, lo: Value, hi: Value, step: Value) -> tuple[Value, Value, Value]:
    """Refuse a constant step of 0; with one that turns out to be 0 at run time, the loop runs zero times."""
    known = ops.constant_value(step)
    if known == 0:
        raise WarpCodegenValueError("the step of range() is 0, which never ends", help="use 1 or -1")
    if known is None:
        stuck = ctx.b.apply("eq", step, 0)
        hi = ctx.b.select(stuck, lo, hi)
        step = ctx.b.select(stuck, ctx.b.constant(1, step.type), step)
    return lo, hi, step


def _type(v: Value) -> Scalar:
    assert isinstance(v.type, Scalar)
    return v.type


def _require_no_else(ctx: Context, node: ast.For | ast.While) -> None:
    if node.orelse:
        word = "for" if isinstance(node, ast.For) else "while"
        with ctx.at(node.orelse[0]):
            raise WarpCodegenError(
                f"`else` of a `{word}` loop can't be used in kernel code",
                help="set a bool before `break` and test it after the loop",
            )
