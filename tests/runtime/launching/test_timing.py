"""Timers, timing of launches, memory reports and diagnostics."""

import io
import re
import sys
import time
from typing import Any

import numpy as np
import pytest

import warp_like as wp


@wp.kernel
def busy(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    s = x[i]
    for _k in range(n):
        s = wp.sin(s) + 1.0
    x[i] = s


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_a_timer_prints_keeps_and_nests(capsys: pytest.CaptureFixture[str]) -> None:
    times: dict[str, list[float]] = {}
    with wp.ScopedTimer("outer", dict=times) as outer:
        for _ in range(2):
            with wp.ScopedTimer("inner", dict=times) as inner:
                time.sleep(0.002)
                inner.extra_msg = "(again)"
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"[\d.]+", "N", line) for line in lines] == [
        "    inner took N ms (again)",
        "    inner took N ms (again)",
        "outer took N ms",
    ]
    assert times["outer"] == [outer.elapsed]
    assert len(times["inner"]) == 2
    assert times["inner"][1] == inner.elapsed
    assert outer.elapsed > sum(times["inner"]) >= 4.0


def test_timers_that_are_silent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with wp.ScopedTimer("a", print=False) as quiet, wp.ScopedTimer("b", active=False) as off:
        pass
    monkeypatch.setattr(wp.ScopedTimer, "enabled", False)
    with wp.ScopedTimer("c") as disabled:
        pass
    assert quiet.elapsed > 0.0
    assert off.elapsed == disabled.elapsed == 0.0
    assert capsys.readouterr().out == ""


def test_detailed_profiles_functions(capsys: pytest.CaptureFixture[str]) -> None:
    def slow() -> float:
        return sum(float(i) for i in range(1000))

    with wp.ScopedTimer("block", detailed=True, synchronize=True):
        slow()
    out = capsys.readouterr().out
    assert "slow" in out
    assert out.endswith(" ms\n")


def test_nvtx_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    message = r"^ScopedTimer\(use_nvtx=True\) needs the package nvtx: pip install nvtx$"
    with pytest.raises(ImportError, match=message), wp.ScopedTimer("a", use_nvtx=True):
        pass


def test_nvtx_gets_a_range(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[Any] = []

    class Module:
        @staticmethod
        def start_range(message: str, color: Any) -> int:
            calls.append((message, color))
            return 7

        @staticmethod
        def end_range(handle: int) -> None:
            calls.append(handle)

    monkeypatch.setitem(sys.modules, "nvtx", Module)
    with wp.ScopedTimer("a", use_nvtx=True, color="red"):
        pass
    assert calls == [("a", "red"), 7]
    assert capsys.readouterr().out == ""


def test_tapes_show_timers_as_scopes() -> None:
    x, y = wp.ones(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        with wp.ScopedTimer("shown", print=False):
            wp.launch(square, dim=2, inputs=[x], outputs=[y])
        with wp.ScopedTimer("hidden", print=False, skip_tape=True):
            wp.launch(square, dim=2, inputs=[x], outputs=[y])
    text = tape.visualize(simplify_graph=False)
    assert "shown" in text
    assert "hidden" not in text


def test_timing_notes_launches_and_adjoints() -> None:
    x, y = wp.ones(1000, requires_grad=True), wp.zeros(1000, requires_grad=True)
    wp.launch(square, dim=1000, inputs=[x], outputs=[y])
    command = wp.launch(busy, dim=1000, inputs=[y, 200], record_cmd=True)
    wp.timing_begin()
    try:
        with wp.Tape() as tape:
            wp.launch(square, dim=1000, inputs=[x], outputs=[y])
        command.launch()
        tape.backward(grads={y: wp.ones(1000)})
    finally:
        results = wp.timing_end()
    assert [r.name for r in results] == ["square", "busy", "square (adjoint)"]
    assert {r.filter for r in results} == {wp.TIMING_KERNEL}
    assert {str(r.device) for r in results} == {"cpu"}
    assert results[1].elapsed > results[0].elapsed > 0.0
    wp.launch(square, dim=1000, inputs=[x], outputs=[y])
    assert len(results) == 3


def test_timing_by_a_timer(capsys: pytest.CaptureFixture[str]) -> None:
    x = wp.ones(10)
    with wp.ScopedTimer("steps", cuda_filter=wp.TIMING_ALL) as timer:
        for n in (1, 2):
            wp.launch(busy, dim=10, inputs=[x, n])
    out = capsys.readouterr().out
    assert len(timer.timing_results) == 2
    assert re.search(r"^ +2 +[\d.]+ ms +[\d.]+ ms  busy on cpu$", out, re.MULTILINE)
    assert re.search(r"^ +2 +[\d.]+ ms +in all$", out, re.MULTILINE)
    shown: list[Any] = []
    report = lambda results, indent: shown.append((len(results), indent))  # noqa: E731
    with wp.ScopedTimer("steps", cuda_filter=wp.TIMING_KERNEL, report_func=report):
        wp.launch(busy, dim=10, inputs=[x, 1])
    assert shown == [(1, "")]
    with wp.ScopedTimer("steps", cuda_filter=wp.TIMING_MEMCPY, print=False) as other:
        wp.launch(busy, dim=10, inputs=[x, 1])
    assert other.timing_results == []


def test_timing_begins_and_ends_once() -> None:
    with pytest.raises(RuntimeError, match=r"^timing has not begun; begin it with wp.timing_begin\(\)$"):
        wp.timing_end()
    wp.timing_begin()
    try:
        with pytest.raises(RuntimeError, match="^timing has begun already"):
            wp.timing_begin()
    finally:
        wp.timing_end()


def test_memory_is_tracked_by_scope() -> None:
    reports: list[str] = []
    with wp.ScopedMemoryTracker("all", report_func=reports.append) as tracker:
        kept = wp.zeros(1000)
        with wp.ScopedMemoryTracker("part", print=False):
            gone = wp.zeros((10, 10), dtype=wp.vec3d)
        del gone
        out = io.StringIO()
        wp.print_memory_report(out, sort="chronological", max_items=1)
        tracker.report()
    now, report = reports
    assert report == now
    lines = report.splitlines()
    assert lines[:6] == [
        "memory of arrays",
        "  allocated: 6.25 KiB in 2",
        "  at most at once: 6.25 KiB",
        "  now: 3.91 KiB in 1",
        "  scope all: 3.91 KiB in 1",
        "  scope all/part: 2.34 KiB in 1",
    ]
    assert re.fullmatch(r"  3.91 KiB at .*test_timing\.py:\d+ in test_memory_is_tracked_by_scope", lines[6])
    assert out.getvalue() == report
    assert kept.size == 1000


def test_foreign_memory_is_not_counted() -> None:
    before, after = io.StringIO(), io.StringIO()
    with wp.ScopedMemoryTracker(print=False) as tracker:
        wp.from_numpy(np.zeros(10, np.float32))
        tracker.report(before)
        made = wp.zeros(3)
        tracker.clear()
        tracker.report(after)
    assert "allocated: 0 bytes in 0" in before.getvalue()
    assert "allocated: 0 bytes in 0" in after.getvalue()
    assert made.size == 3


def test_a_tracker_reports_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with wp.ScopedMemoryTracker(print=False) as tracker:
        kept = [wp.zeros(n, dtype=wp.uint8) for n in (10, 30, 20)]
        tracker.report(max_items=2)
        printed = capsys.readouterr().out.splitlines()
        tracker.report(sort="chronological")
        in_order = capsys.readouterr().out.splitlines()
        with pytest.raises(ValueError, match='^sort is "size" or "chronological", got \'name\'$'):
            tracker.report(sort="name")
    assert [line.split(" at ")[0] for line in printed[-3:]] == ["  30 bytes", "  20 bytes", "  and 1 more"]
    assert [line.split(" at ")[0] for line in in_order[-3:]] == ["  10 bytes", "  30 bytes", "  20 bytes"]
    assert capsys.readouterr().out == ""
    assert len(kept) == 3


def test_the_setting_tracks_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="^allocations are not tracked; set wp.config.track_memory = True"):
        wp.print_memory_report()
    wp.config.track_memory = True
    try:
        made = wp.zeros(3)
        wp.print_memory_report()
        with pytest.raises(ValueError, match='^sort is "size" or "chronological", got \'name\'$'):
            wp.print_memory_report(sort="name")
    finally:
        wp.config.track_memory = False
    assert "allocated: 12 bytes in 1" in capsys.readouterr().out
    assert made.size == 3


def test_diagnostics(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "max_unroll", 3)
    facts = wp.print_diagnostics()
    out = capsys.readouterr().out
    assert facts["numpy"] == np.__version__
    assert facts["settings"]["max_unroll"] == 3
    assert facts["threads"] >= 1
    for name in facts:
        assert f"  {name} " in out
