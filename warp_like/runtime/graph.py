"""Graphs: launches and the host's writes, recorded once and replayed natively, as often as wanted.

While a capture runs in a Python thread, nothing that it launches or writes to arrays happens: it is added to the graph
instead, with its arguments checked and packed and its code compiled. Tapes work inside of a capture, their backward
pass included. What Python reads meanwhile (``numpy()``) are the arrays as they were before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.ir import types as ir
from warp_like.runtime.array import array
from warp_like.runtime.device import Device, DeviceLike, get_device
from warp_like.runtime.kernel import hold_fast_launches
from warp_like.runtime.recording import recorder

if TYPE_CHECKING:
    from warp_like.runtime.program import Program


class Graph:
    """What a capture recorded: made by ``capture_end``, run by ``capture_launch``.

    A graph keeps the arrays that it uses alive and always runs on the memory that they have now.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes: list[str] = []  # what they do, for pictures
        self._replay = _native.Replay()

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<warp_like graph of {len(self)} operations on {self.device}>"

    def add_launch(self, program: Program, dims: tuple[int, ...], args: list[Any]) -> None:
        """Add a launch with checked arguments, whose variant is compiled."""
        dispatcher = program.dispatcher
        assert dispatcher is not None
        key = program.kernel.key
        prepared = _native.prepare(dispatcher, dims, args)
        if prepared is None:
            raise RuntimeError(f"kernel `{key}`: the native launch path refused checked arguments; this is a bug")
        self._replay.add(prepared)
        self.nodes.append(f"{key}{' (adjoint)' if program.wrt is not None else ''} {dims}")

    def add_call(self, label: str, call: Callable[[], object]) -> None:
        """Add a call of a Python function."""
        self._replay.add(call)
        self.nodes.append(label)

    def run(self) -> None:
        """Run everything, in order."""
        self._replay.run()


def capture_begin(
    device: DeviceLike = None, stream: Any = None, force_module_load: bool | None = None, external: bool = False
) -> None:
    """Begin to record launches and writes to arrays into a graph, instead of running them.

    Args:
        device: The device whose operations are captured.
        stream: For CUDA devices.
        force_module_load: Has no effect: kernels are compiled when they are captured.
        external: For CUDA devices.

    Raises:
        RuntimeError: A capture is running in this thread, or a tape is recording: begin the capture outside of it.
    """
    place = get_device(device)
    if stream is not None or external:
        raise RuntimeError(f"{place} has no streams; captures on it take neither `stream` nor `external`")
    if recorder.graph is not None:
        raise RuntimeError("a capture is running in this thread already; end it with wp.capture_end()")
    if recorder.active is not None:
        raise RuntimeError("a tape is recording; begin the capture outside of its `with` block")
    _set_capture(Graph(place))


def capture_end(device: DeviceLike = None, stream: Any = None) -> Graph:
    """End the capture, and return what it recorded.

    Raises:
        RuntimeError: No capture is running in this thread.
    """
    get_device(device)
    graph: Graph | None = recorder.graph
    if graph is None:
        raise RuntimeError("no capture is running in this thread; begin one with wp.capture_begin()")
    _set_capture(None)
    return graph


def _set_capture(graph: Graph | None) -> None:
    recorder.graph = graph
    hold_fast_launches(-1 if graph is None else 1)


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Run a graph. On the CPU it has finished when this returns.

    Inside of another capture, the graph becomes a part of that one.

    Raises:
        TypeError: ``graph`` is no graph.
        Exception: What a kernel raises; the operations after it are not run.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch() takes a graph made by wp.capture_end(), got {type(graph).__name__}")
    outer: Graph | None = recorder.graph
    if outer is not None:
        outer.add_call(f"graph of {len(graph)} operations", graph.run)
    else:
        graph.run()


class ScopedCapture:
    """Captures what is done in a ``with`` block; ``graph`` is the result.

    If the block raises, nothing is kept.

    Example:
        >>> with wp.ScopedCapture() as capture:
        ...     wp.launch(step, dim=n, inputs=[x])
        >>> wp.capture_launch(capture.graph)
    """

    def __init__(
        self,
        device: DeviceLike = None,
        stream: Any = None,
        force_module_load: bool | None = None,
        external: bool = False,
    ) -> None:
        self.device = get_device(device)
        self.graph: Graph | None = None
        self.active = False
        self._arguments = (stream, force_module_load, external)

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device, *self._arguments)
        self.active = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.active = False
        graph = capture_end(self.device)
        self.graph = graph if kind is None else None


Branch = Callable[..., object] | Graph | None


def capture_if(
    condition: array, on_true: Branch = None, on_false: Branch = None, stream: Any = None, **kwargs: Any
) -> None:
    """Do one of two things, as the first element of ``condition`` says when the graph runs.

    Without a capture it is decided and done at once.

    Args:
        condition: An array of int32 (or bool) on the CPU.
        on_true: A function that launches kernels, or a graph, for a number other than 0.
        on_false: The same for 0.
        stream: For CUDA devices.
        kwargs: Given to the function.

    Raises:
        TypeError: ``condition`` is no such array, or a branch neither a function nor a graph.
        ValueError: ``condition`` has no elements.
    """
    test = _condition("capture_if", condition)
    outer: Graph | None = recorder.graph
    if outer is None:
        _run_branch(on_true if test() else on_false, kwargs)
        return
    then, orelse = (_captured("capture_if", branch, kwargs) for branch in (on_true, on_false))
    label = f"if {condition!r}: {len(then)} operations, else {len(orelse)}"
    outer.add_call(label, lambda: (then if test() else orelse).run())


def capture_while(condition: array, while_body: Branch, stream: Any = None, **kwargs: Any) -> None:
    """Repeat something while the first element of ``condition`` is not 0, when the graph runs.

    Without a capture it is done at once.

    Args:
        condition: An array of int32 (or bool) on the CPU, which the body changes.
        while_body: A function that launches kernels, or a graph.
        stream: For CUDA devices.
        kwargs: Given to the function.

    Raises:
        TypeError: ``condition`` is no such array, or the body neither a function nor a graph.
        ValueError: ``condition`` has no elements.
    """
    test = _condition("capture_while", condition)
    outer: Graph | None = recorder.graph
    if outer is None:
        while test():
            _run_branch(while_body, kwargs)
        return
    body = _captured("capture_while", while_body, kwargs)

    def repeat() -> None:
        while test():
            body.run()

    outer.add_call(f"while {condition!r}: {len(body)} operations", repeat)


def _condition(name: str, condition: Any) -> Callable[[], bool]:
    """A function that looks at the condition."""
    if not isinstance(condition, array) or condition.element.type not in (ir.int32, ir.bool_):
        given = repr(condition) if isinstance(condition, array) else type(condition).__name__
        raise TypeError(f"{name}() takes an array of int32 as condition, got {given}")
    if not condition.size:
        raise ValueError(f"{name}() looks at the first element of its condition, got {condition!r}")
    first = condition.numpy()[(slice(0, 1),) * condition.ndim]
    return lambda: bool(first.any())


def _run_branch(branch: Branch, kwargs: dict[str, Any]) -> None:
    if isinstance(branch, Graph):
        branch.run()
    elif branch is not None:
        branch(**kwargs)


def _captured(name: str, branch: Branch, kwargs: dict[str, Any]) -> Graph:
    """What a branch does, as a graph of its own."""
    if isinstance(branch, Graph):
        return branch
    outer = recorder.graph
    assert outer is not None
    inner = Graph(outer.device)
    if branch is None:
        return inner
    if not callable(branch):
        raise TypeError(f"{name}() takes functions and graphs, got {type(branch).__name__}")
    recorder.graph = inner
    try:
        branch(**kwargs)
    finally:
        recorder.graph = outer
    return inner


def capture_debug_dot_print(graph: Graph, path: str | os.PathLike[str], verbose: bool = True) -> None:
    """Write a picture of a graph's operations, which run one after the other, in Graphviz's language.

    Args:
        graph: The graph.
        path: The file to write.
        verbose: Whether operations are labelled with what they do, not only numbered.
    """
    lines = ["digraph {", "  node [shape=box];"]
    for i, label in enumerate(graph.nodes):
        text = label.replace("\\", "\\\\").replace('"', '\\"') if verbose else str(i)
        lines.append(f'  n{i} [label="{text}"];')
        if i:
            lines.append(f"  n{i - 1} -> n{i};")
    Path(path).write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")
