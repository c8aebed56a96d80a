"""``config.dump``: which stages and passes are written to standard error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import warp_like as wp
from warp_like.base.passes import PASSES


@wp.kernel
def powers(x: wp.array[float], n: int, a: float, y: wp.array[float]):
    i = wp.tid()
    total = x[i]
    for _ in range(n):
        total += a * a
    y[i] = total


@pytest.fixture
def dumped(capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Show what a setting writes, as pairs of the moment and the text, when a stage of the kernel is made."""

    def show(words: str, stage: str = "optimised") -> list[tuple[str, str]]:
        wp.config.dump = words
        powers.inspect(stage)
        parts = re.split(r"^--- ([\w:]+): powers$", capfd.readouterr().err, flags=re.MULTILINE)
        assert parts[0] == ""
        return list(zip(parts[1::2], parts[2::2], strict=True))

    yield show
    wp.config.dump = ""


def test_one_pass_is_shown_wherever_it_runs(dumped: Any) -> None:
    shown = dumped("after:licm")
    assert [moment for moment, _ in shown] == ["after:licm"]
    assert shown[0][1].startswith("\nkernel powers(")


def test_before_and_after_show_what_a_pass_does(dumped: Any) -> None:
    (first, before), (second, after) = dumped("before:licm, after:licm")
    assert (first, second) == ("before:licm", "after:licm")
    assert before.index(" = for ") < before.index(" = mul ")
    assert after.index(" = for ") > after.index(" = mul ")


def test_passes_are_shown_after_each(dumped: Any) -> None:
    moments = [moment for moment, _ in dumped("passes")]
    assert moments[:3] == ["after:inline", "after:flatten_structs", "after:lower_array_selects"]
    assert moments[-1] == "after:dce"
    assert not [m for m in moments if m.startswith("before:")]


def test_lanes_are_passes_too(dumped: Any) -> None:
    shown = dict(dumped("after:widen", "lanes"))
    assert " = active_mask : bool x " in shown["after:widen"]


def test_stages_and_passes_together(dumped: Any) -> None:
    assert [moment for moment, _ in dumped("optimised,before:expand")] == ["before:expand", "optimised"]
    assert dumped("") == []


def test_an_unknown_pass_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match="there is no pass 'licmm'; passes are " + ", ".join(PASSES)):
        wp.config.dump = "ir,after:licmm"
    with pytest.raises(ValueError, match="there is no stage 'pass'; stages are ir, passes, "):
        wp.config.dump = "pass"
    assert wp.config.dump == ""
