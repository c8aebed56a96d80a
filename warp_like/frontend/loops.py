"""``for`` and ``while``.

A loop carries the names that its body assigns and that were bound before, and of those that its body is the first to
assign the ones that a later iteration or the code after the loop may read: their first value is zero. A ``for`` that
``break`` or ``return`` may leave becomes a ``while`` that carries its index and a bool. A loop over items that are
known when the kernel is built is unrolled here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from warp_like.base.errors import WarpCodegenError
from warp_like.builtins.patterns import Literal
from warp_like.builtins.trips import constant_trips, trip_count
from warp_like.frontend import constants, walks
from warp_like.frontend.assignment import assign
from warp_like.frontend.carried import Carried, only_inside
from warp_like.frontend.context import Context, statement
from warp_like.frontend.control_flow import any_of, common_type, guarded, run
from warp_like.frontend.flow import Flow, Tail, assigned_names, leaves_loop
from warp_like.frontend.host import Host, builtin_name
from warp_like.frontend.iteration import iterated, static_values
from warp_like.frontend.operands import Operand
from warp_like.frontend.ranges import Counted, Items, Walk
from warp_like.frontend.scope import Variable
from warp_like.frontend.statics import MAX_ITEMS
from warp_like.frontend.syntax import all_nodes
from warp_like.ir import ops
from warp_like.ir.core import Block, Value
from warp_like.ir.objects import HASH_GRID_QUERY
from warp_like.ir.rewrite import is_always_defined
from warp_like.ir.types import Scalar, bool_, int64


@statement(ast.For)
def build_for(ctx: Context, node: ast.For) -> Flow:
    """``for target in ...``."""
    _require_no_else(ctx, node)
    values = static_values(ctx, node)
    if values is not None:
        items = [constants.from_host(ctx, v, repr(v)) for v in values]
        return _unrolled(ctx, node, items, values)
    over = iterated(ctx, node.iter)
    if isinstance(over, Items):
        return _unrolled(ctx, node, over.items)
    if isinstance(node.target, (ast.Tuple, ast.List)):
        with ctx.at(node.target):
            raise WarpCodegenError("this for loop assigns one name", help="for i in range(n)")
    if isinstance(over, Walk):
        return _walk(ctx, node, over)
    return _for_with_exit(ctx, node, over) if leaves_loop(node.body) else _counted(ctx, node, over)


def _counted(ctx: Context, node: ast.For, over: Counted, *, inside: bool = False) -> Flow:
    """A ``for`` that nothing leaves early; ``inside`` where the loop ``node`` runs it several times."""
    carried = Carried(ctx, node, inside=inside)
    index = Value(_type(over.lo), _hint(node))
    params, scope = carried.parameters()
    with carried.block(Block([index, *params]), scope) as body:
        assign(ctx, node.target, over.item(index), node.iter)
        run(ctx, node.body, Tail.LOOP)
        ctx.b.yield_(*carried.values(), *carried.left(ctx.scope))
        body.params += carried.first_params()
    results = ctx.b.for_(over.lo, over.hi, over.step, [*carried.initial, *carried.first_initial], body)
    carried.finish(results, runs=_runs(over))
    return Flow()


def _runs(over: Counted) -> bool:
    """Whether the loop is known to run at least once."""
    lo, hi, step = (ops.constant_value(v) for v in (over.lo, over.hi, over.step))
    return lo is not None and hi is not None and step is not None and constant_trips(lo, hi, step) > 0


def _hint(node: ast.For) -> str:
    return node.target.id if isinstance(node.target, ast.Name) else ""


def _unrolled(ctx: Context, node: ast.For, items: Sequence[Operand], values: Sequence[Any] | None = None) -> Flow:
    """Build the body once for each item; ``values`` are the items as ``wp.static`` sees them."""
    if len(items) > MAX_ITEMS:
        raise WarpCodegenError(
            f"this loop is unrolled when the kernel is built: {len(items)} iterations are too many for that",
            help=f"at most {MAX_ITEMS}; run over range(n), and take longer tables as an array argument",
        )
    before = set(ctx.scope.names)
    saved = dict(ctx.statics)

    def iterate(k: int) -> Flow:
        while k < len(items):
            for name, held in ctx.scope.names.items():
                if name not in before and isinstance(held, Variable):
                    ctx.scope.names[name] = Variable(
                        held.value, held.loc, held.assigned, is_loose=True
                    )  # of another type in each iteration
            if values is not None:
                ctx.statics[_hint(node)] = values[k]
            _bind_item(ctx, node, node.target, items[k])
            flow = run(ctx, node.body).replace(continues=False)
            k += 1
            if not flow.may_fall:
                return flow
            if not flow.always_falls:
                live = ctx.live.after(node) | ctx.live.into(node)
                return guarded(ctx, flow, lambda k=k: iterate(k), live, Tail.NONE)  # type: ignore[misc]
        return Flow()

    try:
        flow = iterate(0)
    finally:
        ctx.statics = saved
    for name in assigned_names([node]):
        if name not in ctx.scope.names:
            ctx.scope.names[name] = only_inside(name)
    return Flow(returns=flow.returns, results=flow.results)


def _bind_item(ctx: Context, node: ast.For, target: ast.expr, item: Operand) -> None:
    """Let ``target`` stand for an item; unless the body changes the name, a number keeps adapting its type."""
    known = isinstance(item, (Literal, Host))
    if isinstance(target, ast.Name) and known and target.id not in assigned_names(node.body):
        old = ctx.scope.variable(target.id)
        if old is None or isinstance(old.value, (Literal, Host)):
            ctx.scope.names[target.id] = Variable(item, ctx.source.loc(target))
            return
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(item, Host) and isinstance(item.obj, (tuple, list)):
        item = tuple(constants.from_host(ctx, part, f"{item.text}[{k}]") for k, part in enumerate(item.obj))
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(item, tuple) and len(item) == len(target.elts):
        for part, one in zip(target.elts, item, strict=True):
            _bind_item(ctx, node, part, one)
        return
    assign(ctx, target, item, node.iter)


@statement(ast.While)
def build_while(ctx: Context, node: ast.While) -> Flow:
    """``while condition``."""
    _require_no_else(ctx, node)
    if (walked := _as_walk(ctx, node)) is not None:
        return _walk(ctx, *walked)
    carried = Carried(ctx, node)
    return _exiting_loop(ctx, carried, _body(ctx, node), [], lambda _: _while_test(ctx, node))


def _as_walk(ctx: Context, node: ast.While) -> tuple[ast.For, Walk] | None:
    """``while wp.hash_grid_query_next(query, index)`` as ``for index in query``, which goes through ranges.

    The frontend has moved the test to the start of the body (``with_tests_inside``). Nobody else may look at the query.
    """
    first, *body = node.body
    if not isinstance(node.test, ast.Constant) or node.test.value is not True:
        return None
    match first:
        case ast.If(
            test=ast.UnaryOp(ast.Not(), ast.Call(args=[ast.Name(id=query) as name, ast.Name() as index], keywords=[])),
            body=[ast.Break()],
            orelse=[],
        ):
            called = ctx.expr(first.test.operand.func)  # type: ignore[attr-defined]
        case _:
            return None
    if not isinstance(called, Host) or builtin_name(called.obj) != "hash_grid_query_next" or leaves_loop(body):
        return None
    mentions = (n for s in body for n in all_nodes(s) if isinstance(n, ast.Name) and n.id == query)
    held, counter = ctx.scope.variable(query), ctx.scope.variable(index.id)
    if held is None or held.assigned is not True or counter is None or any(mentions) or query in ctx.live.after(node):
        return None
    if not isinstance(held.value, Value) or held.value.type != HASH_GRID_QUERY:
        return None
    target = ast.copy_location(ast.Name(index.id, ast.Store()), index)
    loop = ast.copy_location(ast.For(target, name, body, []), node)
    ctx.live.stands_for(loop, node)
    found = walks.walk(ctx, held.value)
    return None if found is None else (loop, found)


def _while_test(ctx: Context, node: ast.While) -> Value | bool:
    with ctx.without_assignment("in the condition of `while`"):
        operand = ctx.expr(node.test)
    with ctx.at(node.test):
        return ctx.condition(operand)


def _for_with_exit(ctx: Context, node: ast.For, over: Counted) -> Flow:
    """A ``for`` that may end early, as a ``while`` over its index, which never passes the end of its type."""
    lo, hi, step = over.lo, over.hi, over.step
    t = _type(lo)
    stride = ops.constant_value(step)
    if stride not in (1, -1) and (t.bits == 64 or not stride):
        return _counted_with_exit(ctx, node, over)
    if stride not in (1, -1):  # counting in 64 bits, the index can't wrap around past `hi`
        lo, hi, step = (ctx.b.cast(v, int64) for v in (lo, hi, step))
    carried = Carried(ctx, node)

    def test(counter: Sequence[Value]) -> Value:
        held: Value = ctx.b.apply("lt" if stride > 0 else "gt", counter[0], hi)
        return held

    def begin(counter: Sequence[Value]) -> None:
        index = counter[0] if counter[0].type == t else ctx.b.cast(counter[0], t)
        assign(ctx, node.target, over.item(index), node.iter)

    def advance(counter: Sequence[Value]) -> list[Value]:
        return [ctx.b.apply("add", counter[0], step)]

    return _exiting_loop(ctx, carried, _body(ctx, node), [lo], test, begin, advance, _hint(node), _runs(over))


def _counted_with_exit(ctx: Context, node: ast.For, over: Counted) -> Flow:
    """A ``for`` that may end early, as a ``while`` over its index and the number of iterations that are left."""
    trips = trip_count(ctx.b, over.lo, over.hi, over.step)

    def test(counter: Sequence[Value]) -> Value:
        held: Value = ctx.b.apply("gt", counter[1], 0)
        return held

    def begin(counter: Sequence[Value]) -> None:
        assign(ctx, node.target, over.item(counter[0]), node.iter)

    def advance(counter: Sequence[Value]) -> list[Value]:
        return [ctx.b.apply("add", counter[0], over.step), ctx.b.apply("sub", counter[1], 1)]

    carried, counter = Carried(ctx, node), [over.lo, trips]
    return _exiting_loop(ctx, carried, _body(ctx, node), counter, test, begin, advance, _hint(node), _runs(over))


def _body(ctx: Context, node: ast.For | ast.While) -> Callable[[], Flow]:
    return lambda: run(ctx, node.body, Tail.LOOP)


def _walk(ctx: Context, node: ast.For, over: Walk) -> Flow:
    """A ``for`` over what a query finds, one thing after the other, or by ranges of them where nothing leaves it."""
    if over.ranges is None or leaves_loop(node.body):
        return _exiting_loop(
            ctx,
            Carried(ctx, node),
            _body(ctx, node),
            over.next(over.query),
            lambda now: now[0],
            lambda now: assign(ctx, node.target, now[2], node.iter),
            lambda now: over.next(now[1]),
        )
    first_range, next_range, counted = over.ranges
    held: list[Value] = []  # the counter, which the body is built with

    def body() -> Flow:
        return _counted(ctx, node, counted(held[1]), inside=True)

    carried, counter = Carried(ctx, node), first_range(over.query)
    return _exiting_loop(ctx, carried, body, counter, lambda now: now[0], held.extend, lambda now: next_range(now[1]))


def _exiting_loop(
    ctx: Context,
    carried: Carried,
    build: Callable[[], Flow],
    counter: list[Value],
    test: Callable[[Sequence[Value]], Value | bool],
    begin: Callable[[Sequence[Value]], None] = lambda _: None,
    advance: Callable[[Sequence[Value]], list[Value]] = lambda _: [],
    hint: str = "",
    runs: bool = False,
) -> Flow:
    """Build a ``While`` that carries the counter, the names, a bool for each exit, and the results.

    ``build`` builds the body.
    """
    counters = [Value(v.type, hint) for v in counter]
    params, scope = carried.parameters()
    with carried.block(Block([*counters, *params]), scope) as body:
        begin(counters)
        flow = build()
        exits = [flow.breaks, flow.returns]
        results = _results(ctx, flow)
        flags = [f if isinstance(f, Value) else ctx.b.constant(f, bool_) for f in exits if f is not False]
        ctx.b.yield_(*advance(counters), *carried.values(), *flags, *results, *carried.left(ctx.scope))
    words = [w for w, f in zip(("breaks", "returns"), exits, strict=True) if f is not False]
    body.params += [Value(bool_, w) for w in words] + [Value(r.type, "result") for r in results]
    body.params += carried.first_params()

    cond_counters = [Value(v.type, hint) for v in counter]
    cond_params, cond_scope = carried.parameters()
    cond_flags = [Value(bool_, w) for w in words]
    rest = [Value(r.type, "result") for r in results]
    first = carried.first_params(cond_scope)
    with carried.block(Block([*cond_counters, *cond_params, *cond_flags, *rest, *first]), cond_scope) as cond:
        goes_on, endless = _goes_on(ctx, cond_flags, lambda: test(cond_counters))
        ctx.b.yield_(goes_on)

    initial = [
        *counter,
        *carried.initial,
        *(ctx.b.constant(False, bool_) for _ in words),
        *(ctx.zero(r.type) for r in results),
    ]
    got = list(ctx.b.while_([*initial, *carried.first_initial], cond, body))
    names_end = len(counter) + len(carried.initial)
    carried.finish([*got[len(counter) : names_end], *got[len(initial) :]], runs=runs or endless)
    return _after(flow, words, got[names_end : len(initial)], endless)


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
    if all(map(is_always_defined, block.ops)) and isinstance(held, Value):
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
    """The values that the loop's ``return`` gives."""
    if flow.returns is False:
        return []
    results = []
    for operand in flow.results:
        t = common_type([operand])
        results.append(ctx.convert(operand, t, "the value returned"))
    return results


def _after(flow: Flow, words: list[str], got: list[Value], endless: bool) -> Flow:
    """The flow of a loop: only a return leaves what holds the loop."""
    if "returns" not in words:
        return Flow(returns=endless and "breaks" not in words)
    always = endless and "breaks" not in words
    return Flow(returns=True if always else got[words.index("returns")], results=tuple(got[len(words) :]))


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
