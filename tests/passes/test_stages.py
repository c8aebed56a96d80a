"""Each stage's rules catch a function that breaks them, and the message names the pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ir_builder import branch, start, tid
from warp_like.builtins.emit import Emitter
from warp_like.ir import ops
from warp_like.ir.core import Function
from warp_like.ir.rules import Rule
from warp_like.ir.types import MOST_IN_REGISTERS, Array, Lanes, Struct, Vec, bool_, float32, int32
from warp_like.ir.verify import InvalidIR, verify
from warp_like.passes import lower_large_values, pipeline, stages
from warp_like.passes.ad.markers import NotRecomputable, Replayed

X = Array(float32, 1)
PAIR = Struct("Pair", (("a", float32), ("b", float32)))
Breaker = Callable[[Emitter, Function], None]


def _callee(custom: bool) -> Function:
    g, b = start("g", "func", (float32,), x=float32)
    b.yield_(g.params[0])
    g.replay = g if custom else None
    return g


def _call(custom: bool) -> Breaker:
    def build(b: Emitter, f: Function) -> None:
        b.insert(ops.Call(_callee(custom), (b.constant(1.0, float32),)), float32)

    return build


def _slice(b: Emitter, f: Function) -> None:
    one = b.constant(1, int32)
    part = b.insert(ops.Slice(f.params[0], (one,), (one,), (one,), (0,)), X).result
    b.store(part, [one], b.constant(1.0, float32))


def _chosen_array(b: Emitter, f: Function) -> None:
    branch(b, b.constant(True, bool_), lambda: (f.params[0],), lambda: (f.params[0],))


def _large(b: Emitter, f: Function) -> None:
    t = Vec(MOST_IN_REGISTERS + 1, float32)
    x = b.make(t, [b.load(f.params[0], [tid(b)])] * t.length)
    b.insert(ops.Print(("", ""), (b.cast(x, Vec(t.length, int32)),)))


BROKEN: dict[str, tuple[Rule, Breaker]] = {
    "lanes": (stages.NO_LANES, lambda b, f: b.insert(ops.Iota(tid(b), 1), Lanes(int32, 4))),
    "call": (stages.NO_CALLS, _call(custom=True)),
    "plain call": (stages.NO_PLAIN_CALLS, _call(custom=False)),
    "struct": (stages.NO_STRUCTS, lambda b, f: b.make(PAIR, [b.constant(1.0, float32)] * 2)),
    "chosen array": (stages.NO_CHOSEN_ARRAYS, _chosen_array),
    "slice": (stages.NO_SLICES, _slice),
    "not recomputable": (stages.NO_MARKERS, lambda b, f: b.insert(NotRecomputable("reason", "help"), float32)),
    "replayed": (stages.NO_MARKERS, lambda b, f: b.insert(Replayed(*[b.constant(1.0, float32)] * 2), float32)),
    "large value": (stages.NO_LARGE_VALUES, _large),
    "body": (stages.LOWERED, lambda b, f: b.apply("clamp", *[b.constant(1.0, float32)] * 3)),
}


def _function(build: Breaker) -> Function:
    f, b = start(x=X)
    build(b, f)
    b.yield_()
    return f


@pytest.mark.parametrize(("rule", "build"), BROKEN.values(), ids=BROKEN)
def test_each_rule_catches_what_breaks_it(rule, build):
    broken, right = _function(build), _function(lambda b, f: b.store(f.params[0], [tid(b)], b.constant(1.0, float32)))
    verify(broken)  # it is valid but for the rule
    with pytest.raises(InvalidIR, match=rule.text):
        verify(broken, [rule])
    verify(right, [rule])


def test_every_rule_is_tested():
    rules = {rule for rule in vars(stages).values() if isinstance(rule, Rule)}
    assert rules == {rule for rule, _ in BROKEN.values()}


@pytest.mark.parametrize("name", stages.ESTABLISHED)
def test_a_pass_that_does_not_do_its_work_is_named(name, monkeypatch):
    (rule,) = stages.ESTABLISHED[name]
    build = next(build for r, build in BROKEN.values() if r is rule)
    checked = pipeline.Options(verify=True)
    run = pipeline.finish if name in ("expand", "lower_large_values") else pipeline.prepare
    run(_function(build), checked)
    found = pipeline if hasattr(pipeline, name) else lower_large_values  # a module that is imported when needed
    monkeypatch.setattr(found, name, lambda g, *_, **__: g)
    with pytest.raises(InvalidIR, match=f"after {name}: .*{rule.text}"):
        run(_function(build), checked)


def test_passes_are_known_by_their_names():
    seen: list[str] = []
    options = pipeline.Options(dump=lambda moment, _: seen.append(moment.removeprefix("after:")))
    f = _function(_large)  # what is not there is not lowered
    pipeline.finish(pipeline.prepare(f, options), options)
    assert set(stages.ESTABLISHED) <= set(seen)


def test_slices_stay_in_debug_mode_alone():
    assert stages.NO_SLICES in stages.prepared(debug=False)
    pipeline.prepare(_function(_slice), pipeline.Options(verify=True, debug=True))


@pytest.mark.parametrize("rule", [stages.NO_CALLS, stages.NO_MARKERS, stages.NO_LANES, stages.NO_STRUCTS])
def test_what_is_finished_obeys_the_rules_of_what_went_before(rule):
    build = next(build for r, build in BROKEN.values() if r is rule)

    with pytest.raises(InvalidIR, match=f"after lower_local_atomics: .*{rule.text}"):
        pipeline.finish(_function(build), pipeline.Options(verify=True))
