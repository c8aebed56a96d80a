"""Timing: blocks of a program, and each launch in it.

``timing_begin`` and ``timing_end`` note what each launch takes, adjoints included. While they do, launches take the
checked path, which costs some microseconds more each; what they measure is the kernel alone.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from warp_like.runtime.arrays.recording import TimingResult as TimingResult
from warp_like.runtime.arrays.recording import activities
from warp_like.runtime.kernels.kernel import hold_fast_launches
from warp_like.runtime.memory import device as devices
from warp_like.runtime.memory.recorder import recorder

TIMING_KERNEL = 1
TIMING_KERNEL_BUILTIN = 2
TIMING_MEMCPY = 4
TIMING_MEMSET = 8
TIMING_GRAPH = 16
TIMING_ALL = 0xFFFFFFFF


def timing_begin(cuda_filter: int = TIMING_ALL, synchronize: bool = True) -> None:
    """Begin to note what launches take, in all threads.

    Args:
        cuda_filter: What to note; of the ``TIMING_`` constants ``TIMING_KERNEL`` alone means something on the CPU.
        synchronize: Wait for CUDA devices first, so that nothing of before is in the way.

    Raises:
        RuntimeError: It has begun already.

    Example:
        >>> wp.timing_begin(wp.TIMING_KERNEL)
        >>> wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> results = wp.timing_end()
        >>> [r.name for r in results]
        ['square']
    """
    if activities.noted is not None:
        raise RuntimeError("timing has begun already; end it with wp.timing_end()")
    if synchronize:
        devices.synchronize()
    activities.noted = []
    activities.wanted = bool(cuda_filter & TIMING_KERNEL)
    hold_fast_launches(1)


def timing_end(synchronize: bool = True) -> list[TimingResult]:
    """End what ``timing_begin`` began, and return what was noted, in order.

    Args:
        synchronize: Wait for all work of CUDA devices; launches there that are noted are waited for in any case.

    Raises:
        RuntimeError: It has not begun.
    """
    if activities.noted is None:
        raise RuntimeError("timing has not begun; begin it with wp.timing_begin()")
    found, activities.noted = activities.noted, None
    hold_fast_launches(-1)
    if synchronize:
        devices.synchronize()
    return [clock.result() for clock in found]


def timing_print(results: list[TimingResult], indent: str = "") -> None:
    """Print what was noted: for each kernel how often it ran, its time in all and each, and then the sum."""
    rows: dict[tuple[str, str], list[float]] = {}
    for r in results:
        rows.setdefault((r.name, str(r.device)), []).append(r.elapsed)
    lines = [f"{indent}{'launches':>8}  {'all':>12}  {'each':>12}  activity"]
    for (name, device), times in sorted(rows.items(), key=lambda row: -sum(row[1])):
        total = sum(times)
        lines.append(f"{indent}{len(times):8}  {total:9.4f} ms  {total / len(times):9.4f} ms  {name} on {device}")
    total = sum(r.elapsed for r in results)
    lines.append(f"{indent}{len(results):8}  {total:9.4f} ms  {'':12}  in all")
    sys.stdout.write("\n".join(lines) + "\n")


class _Depth(threading.local):
    """How many timers that print are open in this thread."""

    value = 0


_depth = _Depth()


class ScopedTimer:
    """Times a ``with`` block, and prints the time.

    A tape that records meanwhile shows the block as a scope.

    Args:
        name: What to call it.
        active: If false, the timer does nothing.
        print: Whether the time is printed, indented by the timers around.
        detailed: Also profile Python's functions (cProfile), and print where the time went.
        dict: Gets the time, in ms, at the end of the list under ``name``.
        use_nvtx: Make an NVTX range instead, for NVIDIA's profilers; needs the package nvtx.
        color: Of the NVTX range: 0xRRGGBB or a name.
        synchronize: Wait for all devices before each look at the clock; the CPU has always finished.
        cuda_filter: What to note of launches, as in ``timing_begin``; 0 for nothing.
        report_func: Called with the list of ``TimingResult`` and the indentation, instead of ``timing_print``.
        skip_tape: Do not show it on tapes.

    Attributes:
        elapsed: The time, in ms.
        timing_results: What was noted of launches.
        extra_msg: Printed after the time.

    Example:
        >>> with wp.ScopedTimer("step", print=False) as timer:
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> took = timer.elapsed
    """

    enabled = True

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: dict[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[[list[TimingResult], str], None] | None = None,
        skip_tape: bool = False,
    ) -> None:
        self.name = name
        self.active = active and self.enabled
        self.print = print
        self.detailed = detailed
        self.dict = dict
        self.use_nvtx = use_nvtx
        self.color = color
        self.synchronize = synchronize
        self.cuda_filter = cuda_filter
        self.report_func = report_func or timing_print
        self.skip_tape = skip_tape
        self.elapsed = 0.0
        self.timing_results: list[TimingResult] = []
        self.extra_msg = ""
        self._tape: Any = None
        self._profile: Any = None
        self._range: Any = None

    def __enter__(self) -> ScopedTimer:
        if not self.active:
            return self
        if not self.skip_tape:
            self._tape = recorder.active if hasattr(recorder.active, "record_scope_begin") else None
            if self._tape is not None:
                self._tape.record_scope_begin(self.name)
        if self.synchronize:
            devices.synchronize()
        if self.use_nvtx:
            self._range = _nvtx().start_range(message=self.name, color=self.color)
            return self
        if self.cuda_filter:
            timing_begin(self.cuda_filter)
        if self.detailed:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()
        if self.print:
            _depth.value += 1
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.active:
            return
        if self.synchronize:
            devices.synchronize()
        self.elapsed = (time.perf_counter_ns() - self._start) / 1e6 if not self.use_nvtx else 0.0
        if self._tape is not None:
            self._tape.record_scope_end()
        if self.use_nvtx:
            _nvtx().end_range(self._range)
            return
        if self._profile is not None:
            self._profile.disable()
        if self.cuda_filter:
            self.timing_results = timing_end()
        if self.dict is not None:
            self.dict.setdefault(self.name, []).append(self.elapsed)
        if self.print:
            self._report()

    def _report(self) -> None:
        _depth.value -= 1
        indent = "    " * _depth.value
        if self._profile is not None:
            import pstats

            pstats.Stats(self._profile, stream=sys.stdout).sort_stats("cumulative").print_stats(20)
        if self.timing_results:
            self.report_func(self.timing_results, indent)
        extra = f" {self.extra_msg}" if self.extra_msg else ""
        sys.stdout.write(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}\n")


def _nvtx() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        raise ImportError("ScopedTimer(use_nvtx=True) needs the package nvtx: pip install nvtx") from None
