"""What a kernel captured: which changes are noticed, and what code that is made later is made of."""

from __future__ import annotations

import enum
import types

import numpy as np
import pytest

import warp_like as wp
from tests.frontend.support import define
from warp_like import _native
from warp_like.frontend.build import build_kernel
from warp_like.frontend.closure import capture
from warp_like.frontend.names import Captured
from warp_like.frontend.parameters import parameters
from warp_like.frontend.source import Source, parse
from warp_like.ir.printer import print_function


class Level(enum.IntEnum):
    LOW = 1


class Limits:
    TOP = 3.0
    vector = wp.vec2(1.0, 2.0)


@wp.struct
class Gas:
    constant: float
    axis: wp.vec2


def module() -> types.ModuleType:
    """A module with a number in it."""
    made = types.ModuleType("numbers_of_test")
    made.G = 9.81  # type: ignore[attr-defined]
    return made


SOURCE = """
    @wp.func
    def helper(x: float):
        return x * FACTOR

    @wp.func
    def doubled(x: float):
        return 2.0 * x

    helper.limit = 8.0
    helper.twice = doubled

    def k(out: wp.array(dtype=float)):
        out[0] = helper(A) + V[1] + GAS.axis[0] + Limits.TOP + consts.G + TABLE[1] + ROWS["b"] + float(Level.LOW)
        out[1] = wp.static(S)
        out[2] = helper.limit + helper.twice(A)
"""


def kernel_with(**names: object) -> tuple[Source, dict[str, object]]:
    """A kernel that captures values of every kind, and the names around it."""
    usual = {"A": 1.0, "FACTOR": 2.0, "V": wp.vec2(1.0, 2.0), "GAS": Gas(4.0, wp.vec2(5.0, 6.0)), "Limits": Limits}
    usual |= {"consts": module(), "TABLE": [1.0, 2.0], "ROWS": {"b": 3.0}, "Level": Level, "S": 7.0}
    found = define(SOURCE, **(usual | names))
    return parse(found["k"], "kernel"), found


def watched(names: Captured) -> _native.Watch:
    """What tells of changes; it holds now."""
    watch = _native.Watch(names.checks())
    assert watch.is_current()
    return watch


def ir_text(source: Source) -> str:
    """The IR of the kernel and, by inlining its text, of the functions that it calls."""
    f = build_kernel(source, [t for _, t in parameters(source)])
    callees = dict.fromkeys(o.callee for o in f.body.walk() if hasattr(o, "callee"))
    return "\n".join(print_function(g) for g in (f, *callees))


CHANGES = {
    "a global": lambda m: m.update(A=10.0),
    "a global of a function": lambda m: m.update(FACTOR=10.0),
    "a function": lambda m: m.update(helper=define("@wp.func\ndef helper(x: float):\n    return x\n")["helper"]),
    "a vector": lambda m: m.update(V=wp.vec2(1.0, 10.0)),
    "a component": lambda m: m["V"].__setitem__(1, 10.0),
    "a field": lambda m: setattr(m["GAS"], "constant", 10.0),
    "a component of a field": lambda m: m["GAS"].axis.__setitem__(0, 10.0),
    "a module's attribute": lambda m: setattr(m["consts"], "G", 10.0),
    "an item of a list": lambda m: m["TABLE"].__setitem__(1, 10.0),
    "the length of a list": lambda m: m["TABLE"].append(10.0),
    "an item of a dict": lambda m: m["ROWS"].update(b=10.0),
    "an attribute of a function": lambda m: setattr(m["helper"], "limit", 10.0),
    "a function of a function": lambda m: setattr(m["helper"], "twice", m["helper"]),
    "an attribute that is gone": lambda m: delattr(m["helper"], "limit"),
    "a name of Python's": lambda m: m.update(float=int),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_noticed_and_code_that_is_made_later_has_the_values_of_before(change):
    source, names = kernel_with()
    before = capture(source)
    text = ir_text(source)
    watch = watched(before)
    change(names)
    assert not watch.is_current()
    assert capture(source).meanings != before.meanings
    assert ir_text(source.within(before)) == text


def test_an_attribute_of_a_class_is_noticed(monkeypatch):
    source, _ = kernel_with()
    before, text = capture(source), ir_text(source)
    watch = watched(before)
    monkeypatch.setattr(Limits, "TOP", 10.0)
    assert not watch.is_current()
    assert capture(source).meanings != before.meanings
    assert ir_text(source.within(before)) == text


def test_a_variable_of_a_closure_is_noticed():
    n = 3.0

    def k(out: wp.array(dtype=float)):
        out[0] = n

    source = parse(k, "kernel")
    before, text = capture(source), ir_text(source)
    watch = watched(before)
    n = 4.0
    assert not watch.is_current()
    assert ir_text(source) != text
    assert ir_text(source.within(before)) == text


def test_what_is_missing_is_noticed_when_it_comes():
    names = define("def k(out: wp.array(dtype=float)):\n    out[0] = NEW\n")
    before = capture(parse(names["k"], "kernel"))
    watch = watched(before)
    names["NEW"] = 1.0
    assert not watch.is_current()


def test_equal_values_mean_the_same_though_they_are_other_objects():
    source, names = kernel_with()
    before = capture(source)
    watch = watched(before)
    names.update(A=float("1.0"), V=wp.vec2(1.0, 2.0), TABLE=[1.0, 2.0])
    assert not watch.is_current()
    assert capture(source).meanings == before.meanings


def test_names_of_the_package_of_enums_and_of_static_expressions_are_not_watched():
    names = define("def k(out: wp.array(dtype=float)):\n    out[0] = wp.static(S + 1.0)\n", S=1.0)
    source = parse(names["k"], "kernel")
    found = capture(source)
    assert found.checks() == []
    names["S"] = 5.0
    assert capture(source).meanings == found.meanings


def test_names_in_a_function_of_the_name_static_are_watched():
    text = "@wp.func\ndef static(x: float):\n    return x\ndef k(out: wp.array(dtype=float)):\n    out[0] = static(S)\n"
    names = define(text, S=1.0)
    watch = watched(capture(parse(names["k"], "kernel")))
    names["S"] = 5.0
    assert not watch.is_current()


def test_a_static_value_that_is_changed_in_place_stays_what_it_was():
    names = define("def k(out: wp.array(dtype=float)):\n    out[0] = wp.static(V)[0]\n", V=wp.vec2(1.0, 2.0))
    source = parse(names["k"], "kernel")
    text = ir_text(source)
    names["V"][0] = 10.0
    assert ir_text(source) == text


LOOPS = """
    def k(out: wp.array(dtype=float)):
        for i in range(consts.N):
            out[i] = wp.static(float(i))
        for j in range(wp.static(S)):
            out[j] = wp.static(2.0 * j)
"""


def test_loops_that_static_expressions_unroll_have_the_length_of_before():
    consts = module()
    consts.N = 2
    names = define(LOOPS, consts=consts, S=2)
    source = parse(names["k"], "kernel")
    before, text = capture(source), ir_text(source)
    watch = watched(before)
    consts.N, names["S"] = 3, 3
    assert not watch.is_current()
    assert ir_text(source.within(before)) == text
    assert ir_text(source).count("store") == 5  # the length that wp.static gave stays


def test_meanings_may_be_renewed_with_the_values_of_before():
    source, names = kernel_with()
    before = capture(source)
    names["A"] = 10.0
    renewed = capture(source.within(before))
    assert renewed.meanings == before.meanings != capture(source).meanings


# --- the native part ---


def test_a_watch_tells_each_kind_of_change():
    class Names:
        a = 1

    cell = types.CellType(1)
    d, items, v = {"x": cell}, [1, 2], wp.vec2(1.0, 2.0)
    checks = [("cell", cell, 1), ("item", d, "x", cell), ("item", d, "y"), ("attribute", Names, "a", 1)]
    checks += [("attribute", Names, "b"), ("list", items, (1, 2)), ("dict", d, (("x", cell),))]
    checks.append(("bytes", v, bytes(np.array([1.0, 2.0], np.float32))))
    watch = _native.Watch(checks)
    assert watch.is_current()

    def changed(change, back):
        change()
        noticed = not watch.is_current()
        back()
        return noticed and watch.is_current()

    assert changed(lambda: setattr(cell, "cell_contents", 2), lambda: setattr(cell, "cell_contents", 1))
    assert changed(lambda: d.update(x=0), lambda: d.update(x=cell))
    assert changed(lambda: d.update(y=0), lambda: d.pop("y"))
    assert changed(lambda: d.update(z=0), lambda: d.pop("z"))
    assert changed(lambda: setattr(Names, "a", 2), lambda: setattr(Names, "a", 1))
    assert changed(lambda: setattr(Names, "b", 2), lambda: delattr(Names, "b"))
    assert changed(lambda: items.append(3), items.pop)
    assert changed(lambda: items.__setitem__(0, 5), lambda: items.__setitem__(0, 1))
    assert changed(lambda: v.__setitem__(1, 3.0), lambda: v.__setitem__(1, 2.0))


def test_a_watch_takes_an_attribute_that_raises_as_missing():
    class Meta(type):
        @property
        def a(cls):
            raise ValueError("not now")

    class Odd(metaclass=Meta):
        pass

    assert _native.Watch([("attribute", Odd, "a")]).is_current()
    assert not _native.Watch([("attribute", Odd, "a", 1)]).is_current()


@pytest.mark.parametrize(
    ("found", "other"),
    [(0.1, 0.2), (0.0, -0.0), (-0.0, 0.0), (float("nan"), 1.0), (10**30, 10**30 + 1), (1, 1.0), (1.0, 1), (1, True)],
)
def test_a_watch_compares_numbers_of_a_property_by_value(found, other):
    class Computed:
        given = found

        @property
        def a(self):
            return type(self.given)(repr(self.given)) if not isinstance(self.given, bool) else self.given

    watch = _native.Watch([("attribute", Computed(), "a", found)])
    assert watch.is_current()
    Computed.given = other
    assert not watch.is_current()


@pytest.mark.parametrize(
    "check",
    [
        1,
        ("cell",),
        ("cell", 1, 1),
        ("item", [], "x", 1),
        ("item", {}, 1, 1),
        ("attribute", int),
        ("list", [1], [1]),
        ("dict", {}, ((1,),)),
        ("bytes", wp.vec2(), b"x" * 9),
        ("other", {}, "x"),
    ],
)
def test_a_watch_refuses_what_it_can_not_look_at(check):
    with pytest.raises(TypeError, match="Watch\\(\\) can't look at"):
        _native.Watch([check])


def test_captured_names_are_found_for_messages():
    source, names = kernel_with()
    before = capture(source)
    names["FACTOR"] = 10.0
    names["consts"].G = 1.0  # type: ignore[attr-defined]
    now = capture(source)
    assert isinstance(now, Captured)
    assert before.changed(now) == "`consts.G` and `FACTOR`"
