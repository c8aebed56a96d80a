"""Statement lists and ``if``: early exits become branches where they can, carried bools where they must.

Statements after an ``if`` of which one branch always exits are moved into the other branch. Otherwise the ``if``
yields a bool for the exit, and the rest is built under it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from warp_like.base.errors import WarpCodegenKeyError, WarpCodegenTypeError
from warp_like.frontend.context import Context, statement
from warp_like.frontend.flow import KINDS, ON, Flag, Flow, Tail, assigned_names, may_exit, never_falls
from warp_like.frontend.host import Host
from warp_like.frontend.liveness import Names
from warp_like.frontend.operands import Operand, describe, flatten, rebuild, same_shape
from warp_like.frontend.scope import Entry, Scope, Unassigned, Unbound, Variable, held_elsewhere
from warp_like.ir.core import Block, Value
from warp_like.ir.types import Type, bool_


def run(ctx: Context, stmts: Sequence[ast.stmt], tail: Tail = Tail.NONE) -> Flow:
    """Build ``stmts`` into the current block and scope; ``tail`` says what follows them."""
    for after, s in enumerate(stmts, 1):
        if isinstance(s, ast.If) and (after == len(stmts) or may_exit(s)):
            with ctx.at(s):
                return _if(ctx, s, stmts[after:], tail)
        if _is_end(s, tail):
            return ON
        flow = ctx.statement(s) or ON
        if flow.always_falls:
            continue
        if not flow.may_fall or after == len(stmts):
            return flow
        return _guarded(ctx, flow, stmts[after:], tail)
    return ON


def _is_end(s: ast.stmt, tail: Tail) -> bool:
    """Whether ``s`` exits to where its list ends anyway."""
    if isinstance(s, ast.Continue):
        return tail is Tail.LOOP
    return isinstance(s, ast.Return) and s.value is None and tail is Tail.KERNEL


@statement(ast.If)
def build_if(ctx: Context, node: ast.If) -> Flow:
    """``if``, ``elif`` and ``else`` that exit nothing, with statements after them."""
    return _if(ctx, node, [], Tail.NONE)


def _if(ctx: Context, node: ast.If, rest: Sequence[ast.stmt], tail: Tail) -> Flow:
    """An ``if`` followed by ``rest``."""
    operand = ctx.expr(node.test)
    with ctx.at(node.test):
        cond = ctx.condition(operand)
    if isinstance(cond, bool):
        return run(ctx, [*(node.body if cond else node.orelse), *rest], tail)
    live = ctx.live.after(rest[-1] if rest else node)
    if never_falls(node.body):
        return _branch(ctx, node, cond, node.body, [*node.orelse, *rest], live, tail)
    if never_falls(node.orelse):
        return _branch(ctx, node, cond, [*node.body, *rest], node.orelse, live, tail, orelse_first=True)
    flow = _branch(ctx, node, cond, node.body, node.orelse, ctx.live.after(node), Tail.NONE if rest else tail)
    if not rest or not flow.may_fall:
        return flow
    return run(ctx, rest, tail) if flow.always_falls else _guarded(ctx, flow, rest, tail)


def _guarded(ctx: Context, flow: Flow, rest: Sequence[ast.stmt], tail: Tail) -> Flow:
    return guarded(ctx, flow, lambda: run(ctx, rest, tail), ctx.live.after(rest[-1]), tail)


def guarded(ctx: Context, flow: Flow, build: Callable[[], Flow], live: Names, tail: Tail) -> Flow:
    """Build the rest, after which ``live`` are read, for the threads that have not taken an exit of ``flow``."""
    goes_on = ctx.b.apply("unot", any_of(ctx, [f for f in flow.flags if isinstance(f, Value)]))
    with ctx.branch() as then:
        after = build()
        arms = [_Arm(then, ctx.scope, after)]
    with ctx.branch() as orelse:
        taken = Flow.of([f is not False for f in flow.flags], flow.results)
        exits = [f for f in flow.flags if f is not False]
        # One exit: it is taken on this path. Several: their bools say which one.
        arms.append(_Arm(orelse, ctx.scope, taken if len(exits) == 1 else flow, falls=False))
    return _merge(ctx, goes_on, arms, live, tail)


def any_of(ctx: Context, flags: Sequence[Value]) -> Value:
    """Return whether one of several bools is true."""
    total = flags[0]
    for flag in flags[1:]:
        total = ctx.b.apply("bit_or", total, flag)
    return total


class _Arm:
    """A branch that has been built up to its ``Yield``."""

    def __init__(self, block: Block, scope: Scope, flow: Flow, falls: bool | None = None) -> None:
        self.block = block
        self.scope = scope
        self.flow = flow
        self.falls = falls

    @property
    def may_fall(self) -> bool:
        return self.flow.may_fall if self.falls is None else self.falls


def _branch(
    ctx: Context,
    node: ast.If,
    cond: Value,
    then: Sequence[ast.stmt],
    orelse: Sequence[ast.stmt],
    live: Names,
    tail: Tail,
    orelse_first: bool = False,
) -> Flow:
    """Build both sides; ``orelse_first`` where ``then`` holds what follows the ``if``, which reads names of both.

    Where the side that is built first reads a name that the other alone assigns, its type is learnt from there before.
    """
    sides = [orelse, then] if orelse_first else [then, orelse]
    try:
        arms = _built(ctx, sides, tail)
    except WarpCodegenKeyError as error:
        own = node.body if orelse_first else node.orelse  # without what follows the `if`
        if not any(error.reason.startswith(f"`{name}` ") for name in assigned_names(own)):
            raise
        _learn_types(ctx, _built(ctx, [own], tail)[0].scope)
        arms = _built(ctx, sides, tail)
    return _merge(ctx, cond, arms[::-1] if orelse_first else arms, live, tail)


def _built(ctx: Context, sides: Sequence[Sequence[ast.stmt]], tail: Tail) -> list[_Arm]:
    """Build sides of an ``if`` in this order; the second knows the types of the first one's names."""
    arms: list[_Arm] = []
    for stmts in sides:
        with ctx.branch() as block:
            if arms:
                _learn_types(ctx, arms[0].scope)
            flow = run(ctx, stmts, tail)
            arms.append(_Arm(block, ctx.scope, flow))
    return arms


def _learn_types(ctx: Context, other: Scope) -> None:
    """Let the names that the other side of an ``if`` assigns be known on this one, which may read them."""
    known = ctx.scope.names
    for name, entry in other.names.items():
        if entry is not known.get(name):  # else there is nothing to learn from it
            _learn_type(ctx, name, [entry])


def _learn_type(ctx: Context, name: str, elsewhere: Sequence[Entry | None]) -> None:
    """Note what ``name`` holds where it is assigned."""
    here, like = ctx.scope.names.get(name), _first_like(elsewhere)
    if here is None and like is not None:
        ctx.scope.names[name] = Unassigned(like)
    elif isinstance(here, Unassigned) and here.like is None:
        here.like = like


def _first_like(entries: Sequence[Entry | None]) -> Operand | None:
    return next((like for e in entries if (like := held_elsewhere(e)) is not None), None)


class _Yields:
    """The values that both arms yield, collected before their ``Yield`` ops are built."""

    def __init__(self, ctx: Context, arms: Sequence[_Arm]) -> None:
        self.ctx = ctx
        self.arms = arms
        self.values: list[list[Value]] = [[] for _ in arms]
        self.hints: list[str] = []

    def add(self, per_arm: Sequence[Operand | Flag | None], type: Type, hint: str) -> int:
        """Yield one value of ``type``, zero in an arm that has none; return its position in the results."""
        for arm, mine, v in zip(self.arms, self.values, per_arm, strict=True):
            with self.ctx.b.into(arm.block):
                if isinstance(v, Value):
                    mine.append(v)
                elif v is None:
                    mine.append(self.ctx.zero(type))
                elif isinstance(v, bool):
                    mine.append(self.ctx.b.constant(v, type))
                else:
                    mine.append(self.ctx.convert(v, type, "the value returned"))
        self.hints.append(hint)
        return len(self.hints) - 1

    def add_operand(self, per_arm: Sequence[Operand | None], hint: str) -> list[int]:
        """Yield all values of an operand that has the same structure in all arms that have it."""
        shape = next(o for o in per_arm if o is not None)
        columns = [flatten(o) if o is not None else None for o in per_arm]
        return [self.add([c[i] if c else None for c in columns], v.type, hint) for i, v in enumerate(flatten(shape))]

    def finish(self, cond: Value) -> list[Value]:
        """Build the ``If`` and return its results."""
        for arm, mine in zip(self.arms, self.values, strict=True):
            with self.ctx.b.into(arm.block):
                self.ctx.b.yield_(*mine)
        results = self.ctx.b.if_(cond, self.arms[0].block, self.arms[1].block)
        for r, hint in zip(results, self.hints, strict=True):
            r.hint = hint
        return list(results)


def _merge(ctx: Context, cond: Value, arms: list[_Arm], live: Names, tail: Tail) -> Flow:
    """End both arms, build the ``If``, and make the scope and the flow after it."""
    yields = _Yields(ctx, arms)
    flow_at = _merge_flags(yields, arms)
    results_at = _merge_results(ctx, yields, arms)
    variables_at = _merge_variables(ctx, yields, arms, live, tail)
    results = yields.finish(cond)
    for name, (old, positions, assigned_at) in variables_at.items():
        new = rebuild(old.value, [results[p] for p in positions])
        assigned = results[assigned_at] if isinstance(assigned_at, _Position) else assigned_at
        ctx.scope.names[name] = Variable(new, old.loc, assigned, old.is_loose)
    flags = [results[f] if not isinstance(f, bool) else f for f in flow_at]
    returned = tuple(p if not isinstance(p, int) else results[p] for p in results_at)
    return Flow.of(flags, returned)


def _merge_flags(yields: _Yields, arms: Sequence[_Arm]) -> list[int | bool]:
    merged: list[int | bool] = []
    for kind in KINDS:
        flags: list[Flag] = [getattr(a.flow, kind) for a in arms]
        if all(f is flags[0] for f in flags) and isinstance(flags[0], bool):
            merged.append(flags[0])
        else:
            merged.append(_Position(yields.add(flags, bool_, kind)))
    return merged


class _Position(int):
    """A position among the results of an ``If``, told apart from a bool."""


def _merge_results(ctx: Context, yields: _Yields, arms: Sequence[_Arm]) -> list[_Position | Operand]:
    """The function's results, from the arms that return."""
    returning = [a for a in arms if a.flow.returns is not False]
    if not returning or not returning[0].flow.results:
        return []
    merged: list[_Position | Operand] = []
    for k in range(len(returning[0].flow.results)):
        column = [a.flow.results[k] if a.flow.returns is not False else None for a in arms]
        given = [o for o in column if o is not None]
        if all(o is given[0] for o in given) and len(given) == len(arms):
            merged.append(given[0])
            continue
        t = common_type(given)
        merged.append(_Position(yields.add(column, t, "result")))
    return merged


def common_type(given: Sequence[Operand]) -> Type:
    """Return the type of several operands that may include literals."""
    t = next((o.type for o in given if isinstance(o, Value)), None)
    if t is not None:
        return t
    literals = [o for o in given if not isinstance(o, (tuple, Host)) and not isinstance(o, Value)]
    if len(literals) != len(given):
        raise WarpCodegenTypeError(f"expected a value, got {describe(given[0])}")
    defaults = [o.default for o in literals]
    return next((d for d in defaults if d.is_float), defaults[0])


_Merged = tuple[Variable, list[int], "bool | Value | _Position"]
"""A variable of one of the arms, and where among the results its values are, and whether it is assigned."""


def _merge_variables(
    ctx: Context, yields: _Yields, arms: Sequence[_Arm], live: Names, tail: Tail
) -> dict[str, _Merged]:
    """Decide for every name whether it is the same after the ``If``, yielded, or not readable."""
    base = ctx.scope
    heeded = [a for a in arms if not a.flow.always_returns]
    merged: dict[str, _Merged] = {}
    if not heeded or tail is Tail.KERNEL:
        for arm in arms:
            _learn_types(ctx, arm.scope)
        return merged  # nothing is read after it
    for name in _differing(base, arms):
        before = base.names.get(name)
        is_bound = isinstance(before, Variable)
        wanted = [a for a in heeded if a.may_fall or is_bound or name in live]
        found = [a.scope.names.get(name) for a in wanted]
        if all(f is before for f in found):
            _learn_type(ctx, name, [a.scope.names.get(name) for a in arms])
            continue
        if not is_bound and name not in live:
            base.names[name] = Unbound(_one_path(name), like=_first_like(found))  # nobody reads it later
            continue
        got = _agree(name, found)
        if got is None:
            base.names[name] = next(f for f in found if f is not None)
        elif isinstance(got, Unbound) or not flatten(got.value) or _same_everywhere(wanted, arms, name):
            base.names[name] = got
        else:
            merged_here = _merge_one(yields, arms, wanted, name, got)
            if isinstance(merged_here, Unbound):
                base.names[name] = merged_here
            else:
                merged[name] = merged_here
    return merged


def _differing(base: Scope, arms: Sequence[_Arm]) -> list[str]:
    """The names of which an arm holds something else than ``base``; of the others, which are many, all hold the same.

    A long function has many names and many branches, so nothing else is done for each of both.
    """
    before = base.names.get
    return list(dict.fromkeys(n for a in arms for n, held in a.scope.names.items() if held is not before(n)))


def _merge_one(
    yields: _Yields, arms: Sequence[_Arm], wanted: Sequence[_Arm], name: str, like: Variable
) -> _Merged | Unbound:
    """Yield the variable ``like`` from all arms; zero, or what the last iteration left, from those that lack it."""
    column: list[Variable | None] = []
    for arm in arms:
        entry = arm.scope.names.get(name)
        with yields.ctx.b.into(arm.block):
            held = entry.variable(yields.ctx.b, like.value) if isinstance(entry, Unassigned) else entry
        if isinstance(held, Variable) and same_shape(held.value, like.value):
            column.append(held)
        elif arm in wanted and entry is not None:
            return Unbound(f"`{name}` has another type in the iteration before", "use another name")
        else:
            column.append(None)
    assigned = [v is not None and v.assigned if a in wanted else True for a, v in zip(arms, column, strict=True)]
    positions = yields.add_operand([v.value if v is not None else None for v in column], name)
    if all(a is assigned[0] for a in assigned):
        return like, positions, assigned[0]
    return like, positions, _Position(yields.add(assigned, bool_, f"{name}_is_assigned"))


def _same_everywhere(wanted: Sequence[_Arm], arms: Sequence[_Arm], name: str) -> bool:
    """Whether all arms hold the same values, which then were made before the ``If``."""
    held = [a.scope.variable(name) for a in arms]
    values = [(flatten(v.value), v.assigned) if v is not None else None for v in held]
    return len(wanted) == len(arms) and all(v is not None and v == values[0] for v in values)


def _agree(name: str, found: Sequence[Entry | None]) -> Variable | Unbound | None:
    """A variable that stands for what the arms hold, or why there is none; None where no arm assigns it."""
    for f in found:
        if isinstance(f, Unbound):
            return f
    variables = [f for f in found if isinstance(f, Variable)]
    if not variables:
        return None
    first = variables[0]
    if len(variables) < len(found) and not flatten(first.value):
        return Unbound(_one_path(name), f"assign `{name}` on every path, or before the `if`")
    for other in variables[1:]:
        if not same_shape(first.value, other.value):
            a, b = describe(first.value), describe(other.value)
            where = f" (line {first.loc.line}) or " if first.loc else " or "
            end = f" (line {other.loc.line})" if other.loc else ""
            return Unbound(
                f"`{name}` is {a}{where}{b}{end}, depending on the path that leads here",
                "convert one of them, or use two names",
            )
    return first


def _one_path(name: str) -> str:
    return f"`{name}` is not assigned on every path that leads here"
