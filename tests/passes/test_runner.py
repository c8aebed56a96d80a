"""One list of passes: the code runs those of ``ROUTE`` in their order, and shows and verifies each by its name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import warp_like
import warp_like as wp
from tests.ir_builder import start, tid
from warp_like.base.passes import PASSES, ROUTE
from warp_like.base.settings import settings
from warp_like.ir import ops
from warp_like.ir import verify as verifier
from warp_like.ir.core import Block, Function, Value
from warp_like.ir.types import Array, float32
from warp_like.ir.verify import InvalidIR
from warp_like.passes import pipeline, stages
from warp_like.passes.dce import dce
from warp_like.passes.fold import fold
from warp_like.passes.runner import Options, Runner

PACKAGE = Path(warp_like.__file__).parent


def _runs(tree: ast.FunctionDef) -> tuple[str, list[str]] | None:
    """The stage of the runner that a function makes, and the passes that it runs, in the order of the text."""
    calls = sorted((n for n in ast.walk(tree) if isinstance(n, ast.Call)), key=lambda n: n.lineno)
    named = [(n.func.id, n.args[0].value) for n in calls if _is_named(n)]
    stages = [stage for name, stage in named if name == "Runner"]
    return (stages[0], [name for run, name in named if run == "run"]) if stages else None


def _is_named(n: ast.Call) -> bool:
    return isinstance(n.func, ast.Name) and bool(n.args) and isinstance(n.args[0], ast.Constant)


def _in_code() -> dict[str, tuple[str, ...]]:
    """The passes of each stage as the code runs them."""
    found: dict[str, list[str]] = {}
    for file in [*sorted((PACKAGE / "passes").rglob("*.py")), PACKAGE / "compiler" / "pipeline.py"]:
        for tree in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            made = _runs(tree) if isinstance(tree, ast.FunctionDef) else None
            if made is not None:
                found.setdefault(made[0], []).extend(made[1])
    return {stage: tuple(names) for stage, names in found.items()}


def test_the_list_is_what_the_code_runs() -> None:
    assert {stage: tuple(dict.fromkeys(names)) for stage, names in _in_code().items()} == ROUTE


def _unused_negation() -> Function:
    f, b = start(x=Array(float32, 1))
    b.neg(b.load(f.params[0], [tid(b)]))
    b.yield_()
    return f


def test_each_pass_is_shown_before_and_after() -> None:
    seen: list[tuple[str, int]] = []
    run = Runner("optimise", _unused_negation(), Options(dump=lambda moment, f: seen.append((moment, len(f.body.ops)))))
    run("fold", fold)
    run("dce", dce)
    assert seen == [("before:fold", 4), ("after:fold", 4), ("before:dce", 4), ("after:dce", 1)]


def test_a_pass_may_give_another_function_or_say_that_nothing_changed() -> None:
    first, second = _unused_negation(), _unused_negation()
    run = Runner("optimise", first, Options())
    assert run("fold", lambda f: second) is True
    assert run.function is second
    assert run("dce", lambda f: False) is False
    assert run.function is second


def test_a_pass_runs_again_when_another_one_has_changed_something() -> None:
    f, ran = _unused_negation(), list[str]()

    def noted(name: str, result: bool, change: bool = False) -> Callable[[Function], bool]:
        def apply(g: Function) -> bool:
            ran.append(name)
            if change:
                g.body.ops = [*g.body.ops[:1], *g.body.ops[1:]][:-2] + g.body.ops[-1:]
            return result

        return apply

    run = Runner("optimise", f, Options())
    assert run("fold", noted("fold", True)) is True
    assert run("fold", noted("again", True)) is False
    assert run("licm", noted("licm", True)) is True  # which says so, and changes nothing
    assert run("fold", noted("again", True)) is False
    assert run("dce", noted("dce", True, change=True)) is True
    assert run("licm", noted("again", True)) is False
    assert run("cse", noted("cse", True, change=True)) is True
    for name in ("dce", "fold", "licm"):
        assert run(name, noted(name, True)) is True
    assert ran == ["fold", "licm", "dce", "cse", "dce", "fold", "licm"]


def test_a_pass_that_is_not_listed_is_not_run() -> None:
    with pytest.raises(AssertionError, match="ROUTE does not list widen"):
        Runner("optimise", _unused_negation(), Options())("widen", fold)


def test_a_pass_that_leaves_invalid_ir_is_named() -> None:
    def break_it(f: Function) -> Function:
        f.body.ops.reverse()
        return f

    for verified in (False, True):
        run = Runner("optimise", _unused_negation(), Options(verify=verified))
        if verified:
            with pytest.raises(InvalidIR, match="^after licm: "):
                run("licm", break_it)
        else:
            run("licm", break_it)
            assert isinstance(run.function.body.ops[0], ops.Yield)


def _without_the_stored_value(f: Function) -> None:
    """Drop the op that ``dce`` keeps, since the store needs its result."""
    store = next(o for o in f.body.ops if isinstance(o, ops.Store))
    f.body.ops.remove(store.value.op)


def test_a_stage_is_verified_at_its_end() -> None:
    run = Runner("optimise", _unused_negation(), Options(verify="stages"))
    run("licm", lambda f: f.body.ops.reverse())
    with pytest.raises(InvalidIR, match="^after stage optimise: "):
        run.end()


def test_each_stage_ends() -> None:
    """Else nothing of it is verified by stages."""
    for file in [*sorted((PACKAGE / "passes").rglob("*.py")), PACKAGE / "compiler" / "pipeline.py"]:
        for tree in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(tree, ast.FunctionDef) and _runs(tree) is not None:
                calls = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Call)}
                assert "run.end()" in calls, f"{file.name}: {tree.name}"


@pytest.mark.parametrize("crashes", [False, True])
def test_a_stage_of_a_kernel_runs_again_to_name_the_pass(crashes: bool, monkeypatch) -> None:
    """Even if the next pass stumbles, before the end of the stage is there to be verified."""

    def stumble(f: Function) -> bool:
        raise KeyError("something is missing")

    @wp.kernel
    def double(x: wp.array(dtype=float)):
        x[wp.tid()] = 2.0 * x[wp.tid()]

    monkeypatch.setattr(pipeline, "licm", _without_the_stored_value)
    if crashes:
        monkeypatch.setattr(pipeline, "prepare", lambda f, options, **_: f)
        monkeypatch.setattr(pipeline, "dce", stumble)
    monkeypatch.setattr(settings, "verify", "stages")
    with pytest.raises(InvalidIR, match="^after licm: store at .*is not defined here"):
        double.inspect("optimised")
    assert settings.verify == "stages"
    with pytest.raises(InvalidIR, match="^after licm: "):
        wp.launch(double, 1, inputs=[np.ones(1, np.float32)])


def test_a_function_is_verified_where_a_pass_or_a_rule_may_have_changed_what_holds(monkeypatch) -> None:
    checked: list[int] = []
    monkeypatch.setattr(verifier, "verify", lambda f, rules: checked.append(len(rules)))
    run = Runner("prepare", _unused_negation(), Options(verify=True))

    def is_verified_after(change: Callable[[Block], object]) -> bool:
        def apply(f: Function) -> Function:
            change(f.body)
            return f

        before = len(checked)
        run("unroll", apply)
        return len(checked) > before

    assert is_verified_after(lambda b: None)  # nothing is known of the function yet
    assert not is_verified_after(lambda b: None)
    assert is_verified_after(lambda b: b.ops.insert(0, b.ops.pop(1)))
    assert is_verified_after(lambda b: b.params.append(Value(float32)))
    assert is_verified_after(lambda b: setattr(b.ops[-1], "values", (b.params[0],)))
    assert not is_verified_after(lambda b: None)
    monkeypatch.setitem(stages.ESTABLISHED, "unroll", (stages.NO_CALLS,))
    assert is_verified_after(lambda b: None)
    assert checked == [0, 0, 0, 0, 1]


def test_names_are_listed_once() -> None:
    assert len(set(PASSES)) == len(PASSES)
    assert set(PASSES) == {name for names in ROUTE.values() for name in names}
