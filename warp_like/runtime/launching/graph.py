"""Graphs: launches and the host's writes, recorded once and replayed natively, as often as wanted.

Captures on CUDA devices are the driver's; ``cuda/graph.py`` has them. On the CPU, while a capture runs in a Python
thread, nothing that it launches or writes to arrays happens: it is added to the graph instead, with its arguments
checked and packed and its code compiled. Tapes work inside of a capture, their backward pass included. What Python
reads meanwhile (``numpy()``) are the arrays as they were before.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warp_like import _native
from warp_like.base.settings import settings
from warp_like.ir import types as ir
from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Capture
from warp_like.runtime.kernels.kernel import hold_fast_launches
from warp_like.runtime.memory.device import Device, DeviceLike, get_device, get_preferred_device
from warp_like.runtime.memory.recorder import recorder, stream_capture

if TYPE_CHECKING:
    from warp_like.runtime.kernels.program import Program


class CaptureMode(enum.IntEnum):
    """Which calls of the CUDA driver that are unsafe during a capture are refused while one runs.

    An allocation of another library may be one. Ours are none: they never become a part of a graph.
    """

    GLOBAL = 0
    """Those of all threads."""
    THREAD_LOCAL = 1
    """Those of the thread that began the capture."""
    RELAXED = 2
    """None."""


class Graph:
    """What a capture recorded: made by ``capture_end``, run by ``capture_launch``.

    A graph keeps the arrays that it uses alive and always runs on the memory that they have now.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.nodes: list[str] = []  # what they do, for pictures
        self.writes: dict[int, array] = {}  # by identity, the arrays that they overwrite
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
        bound = _native.bind_launch(dispatcher, dims, args)
        if bound is None:
            raise RuntimeError(f"kernel `{key}`: the native launch path refused checked arguments; this is a bug")
        self._replay.add(bound)
        self._note_writes(args[i] for i in program.effects.writes)
        self.nodes.append(f"{key}{' (adjoint)' if program.wrt is not None else ''} {dims}")

    def add_call(self, label: str, call: Callable[[], object], writes: Iterable[array] = ()) -> None:
        """Add a call of a Python function, which writes to the arrays ``writes``."""
        self._add(label, call, writes)

    def add_write(
        self, label: str, dest: array, values: array | bytes, python: Callable[[], object], *, adds: bool = False
    ) -> None:
        """Add a write to a whole array, which native code does where it can, else the function ``python``.

        Args:
            label: What it does.
            dest: The array.
            values: An array like it; or the bytes of an element, or of all.
            python: Does the same.
            adds: The values are added to those of ``dest``.
        """
        self._add(label, _native.bind_write(dest, values, adds, python) or python, [dest])

    def add_graph(self, label: str, graph: Graph) -> None:
        """Let another graph of the CPU be a part of this one."""
        self._add(label, graph._replay, graph.writes.values())

    def add_condition(self, label: str, flag: array, then: Graph, orelse: Graph | None) -> None:
        """Add a choice between two graphs, as the first element of ``flag`` says; without ``orelse``, a loop."""
        chosen = None if orelse is None else orelse._replay
        writes = (*then.writes.values(), *(() if orelse is None else orelse.writes.values()))
        self._add(label, _native.Condition(flag, then._replay, chosen), writes)

    def _add(self, label: str, node: Any, writes: Iterable[array]) -> None:
        self._replay.add(node)
        self._note_writes(writes)
        self.nodes.append(label)

    def _note_writes(self, arrays: Iterable[array]) -> None:
        self.writes.update((id(a), a) for a in arrays)

    def run(self, stream: Any = None) -> None:
        """Run everything, in order; a stream has no meaning on the CPU."""
        self._replay.run(settings.fuse_launches)

    def update(self, other: Graph) -> None:
        """Do what ``other``, a later capture on the same device, does from now on.

        So a graph gets other arguments: capture the same launches with them again. On CUDA, the driver changes the
        arguments in place where the two are built alike, which is cheaper than a new graph, and makes it anew where
        they are not. Graphs on the CPU that this one is a part of run what is new; those on CUDA what it was.

        Raises:
            TypeError: ``other`` is no graph of the same device.
        """
        if not isinstance(other, Graph) or other.device is not self.device:
            raise TypeError(f"a graph of {self.device} takes over another one of {self.device}, got {other!r}")
        self._replay.take_over(other._replay)
        self.nodes, self.writes = list(other.nodes), dict(other.writes)

    def draw(self, path: str | os.PathLike[str], verbose: bool) -> None:
        """Write a picture of the operations, which run one after the other."""
        lines = ["digraph {", "  node [shape=box];"]
        for i, label in enumerate(self.nodes):
            text = label.replace("\\", "\\\\").replace('"', '\\"') if verbose else str(i)
            lines.append(f'  n{i} [label="{text}"];')
            if i:
                lines.append(f"  n{i - 1} -> n{i};")
        Path(path).write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")


class StreamGraph(Graph):
    """A graph that the work of a stream is captured into, while it is in ``stream_captures``.

    Attributes:
        thread: The thread that began the capture.
    """

    thread: int

    def add_choice(self, name: str, flag: array, branches: tuple[Work, Work], stream: Any) -> None:
        """Capture two branches, of which the first runs if the first element of ``flag`` is not zero, else the second.

        Args:
            name: What the user called.
            flag: An array of 4-byte integers or bools.
            branches: What make the work that is captured.
            stream: The captured stream in whose order it happens; the current one of the flag's device when None.
        """
        raise NotImplementedError

    def add_loop(self, name: str, flag: array, body: Work, stream: Any) -> None:
        """Capture ``body``, to be run while the first element of ``flag`` is not zero; see ``add_choice``."""
        raise NotImplementedError


Work = Callable[[], None] | None
"""What a branch of a condition does."""


def capture_begin(
    device: DeviceLike = None,
    stream: Any = None,
    force_module_load: bool | None = None,
    external: bool = False,
    *,
    capture_mode: CaptureMode = CaptureMode.RELAXED,
) -> None:
    """Begin to record launches and writes to arrays into a graph, instead of running them.

    Args:
        device: The device whose operations are captured.
        stream: On CUDA, the stream whose work is captured, and so the device; the current one when left out.
        force_module_load: Has no effect: kernels are compiled and loaded when they are captured.
        external: On CUDA, another library (PyTorch, for example) has begun to capture the stream and will end it. The
            graph that ``capture_end`` then returns can't be launched; it keeps the arrays that are used, so keep it as
            long as the other library's graph.
        capture_mode: On CUDA, which unsafe calls the driver refuses while the capture runs.

    Raises:
        RuntimeError: A capture is running in this thread or on the CUDA device, the stream can't be captured, or a tape
            is recording: begin the capture outside of it.

    Example:
        >>> wp.capture_begin()
        >>> wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> graph = wp.capture_end()
        >>> wp.capture_launch(graph)
        >>> y.list()
        [0.0, 1.0, 4.0, 9.0]
    """
    place = _place(device, stream, external)
    if recorder.graph is not None or stream_capture() is not None:
        raise RuntimeError("a capture is running in this thread already; end it with wp.capture_end()")
    if isinstance(recorder.active, Capture):
        recorder.active.refuse("nothing is captured")
    if recorder.active is not None:
        raise RuntimeError("a tape is recording; begin the capture outside of its `with` block")
    place.backend.begin_capture(place, stream, external, CaptureMode(capture_mode).name)


def _place(device: DeviceLike, stream: Any, external: bool = False) -> Device:
    """The device of a capture: that of its stream, or the one that is named."""
    place = get_device(device)
    has_streams = place.backend.streams is not None
    if stream is None and (has_streams or not external):
        return place
    from warp_like.runtime.memory.stream import Stream

    if not has_streams and not (device is None and isinstance(stream, Stream)):
        raise RuntimeError(f"{place} has no streams; captures on it take neither `stream` nor `external`")
    if not isinstance(stream, Stream):
        raise TypeError(f"a capture takes a wp.Stream, got {type(stream).__name__}")
    if device is not None and place is not stream.device:
        raise ValueError(f"the capture is on {place}, and {stream!r} is a stream of {stream.device}")
    return stream.device


def capture_end(device: DeviceLike = None, stream: Any = None) -> Graph:
    """End the capture, and return what it recorded.

    Raises:
        RuntimeError: No capture is running in this thread, or on the CUDA device.
        CudaError: Something that can't be captured was done meanwhile.
    """
    place = _place(device, stream)
    if place.capture is not None:
        captured: Graph = place.capture
        place.capture.end()
        return captured
    graph: Graph | None = recorder.graph
    if graph is None:
        raise RuntimeError("no capture is running in this thread; begin one with wp.capture_begin()")
    set_capture(None)
    return graph


def set_capture(graph: Graph | None) -> None:
    """Let launches and writes of this thread be added to ``graph``; None ends that."""
    recorder.graph = graph
    hold_fast_launches(-1 if graph is None else 1)


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Run a graph. On the CPU it has finished when this returns; on CUDA it has only been handed to a stream.

    Args:
        graph: The graph.
        stream: On CUDA, the stream; the current one of the graph's device when left out.

    Inside of another capture, the graph becomes a part of that one.

    Raises:
        TypeError: ``graph`` is no graph.
        Exception: What a kernel raises; the operations after it are not run.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"capture_launch() takes a graph made by wp.capture_end(), got {type(graph).__name__}")
    outer: Graph | None = recorder.graph
    if outer is not None:
        label = f"graph of {len(graph)} operations"
        if graph.device.is_cpu:
            outer.add_graph(label, graph)
        else:
            outer.add_call(label, functools.partial(graph.run, stream), graph.writes.values())
        return
    _run_intercepted(graph, stream)


def _run_intercepted(graph: Graph, stream: Any = None) -> None:
    """Run a graph, of which a tape that is recording keeps what it overwrites; it does not record what graphs do."""
    if recorder.active is not None and recorder.active.history is not None:
        recorder.active.history.before_writes(graph.writes.values())
    graph.run(stream)


class ScopedCapture:
    """Captures what is done in a ``with`` block; ``graph`` is the result.

    If the block raises, nothing is kept.

    Example:
        >>> with wp.ScopedCapture() as capture:
        ...     wp.launch(square, dim=n, inputs=[x], outputs=[y])
        >>> wp.capture_launch(capture.graph)
    """

    def __init__(
        self,
        device: DeviceLike = None,
        stream: Any = None,
        force_module_load: bool | None = None,
        external: bool = False,
        *,
        capture_mode: CaptureMode = CaptureMode.RELAXED,
    ) -> None:
        self.device = _place(device, stream)
        self.graph: Graph | None = None
        self.active = False
        self._arguments = (stream, force_module_load, external)
        self._mode = capture_mode

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device, *self._arguments, capture_mode=self._mode)
        self.active = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.active = False
        if kind is None:
            self.graph = capture_end(self.device)
        elif self.device.capture is not None:
            self.device.capture.abandon()
        else:
            capture_end(self.device)


Branch = Callable[..., object] | Graph | None


def capture_if(
    condition: array, on_true: Branch = None, on_false: Branch = None, stream: Any = None, **kwargs: Any
) -> None:
    """Do one of two things, as the first element of ``condition`` says when the graph runs.

    Without a capture it is decided and done at once. In a capture on CUDA the device decides, by a conditional node,
    for which the driver has to support CUDA 12.4; while a branch is captured, the current stream is one of its own.

    Args:
        condition: An array of int32 (or bool).
        on_true: A function that launches kernels, or a graph, for a number other than 0.
        on_false: The same for 0.
        stream: On CUDA, the captured stream on which it happens; the current one when left out.
        kwargs: Given to the function.

    Raises:
        TypeError: ``condition`` is no such array, or a branch neither a function nor a graph.
        ValueError: ``condition`` has no elements, or a CUDA capture runs elsewhere than it lies.
        RuntimeError: The driver has no conditional nodes, or a branch used the captured stream in place of the current
            one.

    Example:
        >>> flag = wp.array([1], dtype=int)
        >>> with wp.ScopedCapture() as capture:
        ...     wp.capture_if(flag, on_true=lambda: wp.launch(square, dim=n, inputs=[x], outputs=[y]))
        >>> flag.zero_()
        >>> wp.capture_launch(capture.graph)  # does nothing now
    """
    test = _condition("capture_if", condition)
    captured: StreamGraph | None = stream_capture()
    if captured is not None:
        branches = _work("capture_if", on_true, kwargs), _work("capture_if", on_false, kwargs)
        captured.add_choice("capture_if", condition, branches, stream)
        return
    outer: Graph | None = recorder.graph
    if outer is None:
        _run_branch(on_true if test() else on_false, kwargs)
        return
    then, orelse = (_captured("capture_if", branch, kwargs) for branch in (on_true, on_false))
    label = f"if {condition!r}: {len(then)} operations, else {len(orelse)}"
    if condition.device.is_cpu and then.device.is_cpu and orelse.device.is_cpu:
        outer.add_condition(label, condition, then, orelse)
    else:
        writes = (*then.writes.values(), *orelse.writes.values())
        outer.add_call(label, lambda: (then if test() else orelse).run(), writes)


def capture_while(condition: array, while_body: Branch, stream: Any = None, **kwargs: Any) -> None:
    """Repeat something while the first element of ``condition`` is not 0, when the graph runs.

    Without a capture it is done at once. In a capture on CUDA the device decides, as with ``capture_if``.

    Args:
        condition: An array of int32 (or bool), which the body changes.
        while_body: A function that launches kernels, or a graph.
        stream: On CUDA, the captured stream on which it happens; the current one when left out.
        kwargs: Given to the function.

    Raises:
        TypeError: ``condition`` is no such array, or the body neither a function nor a graph.
        ValueError: ``condition`` has no elements, or a CUDA capture runs elsewhere than it lies.
        RuntimeError: The driver has no conditional nodes, or the body used the captured stream in place of the current
            one.

    Example:
        >>> @wp.kernel
        ... def count_down(left: wp.array(dtype=int)):
        ...     left[0] = left[0] - 1
        >>> left = wp.array([5], dtype=int)
        >>> with wp.ScopedCapture() as capture:
        ...     wp.capture_while(left, lambda: wp.launch(count_down, dim=1, inputs=[left]))
        >>> wp.capture_launch(capture.graph)
        >>> left.list()
        [0]
    """
    test = _condition("capture_while", condition)
    captured: StreamGraph | None = stream_capture()
    if captured is not None:
        captured.add_loop("capture_while", condition, _work("capture_while", while_body, kwargs), stream)
        return
    outer: Graph | None = recorder.graph
    if outer is None:
        while test():
            _run_branch(while_body, kwargs)
        return
    body = _captured("capture_while", while_body, kwargs)
    label = f"while {condition!r}: {len(body)} operations"
    if condition.device.is_cpu and body.device.is_cpu:
        outer.add_condition(label, condition, body, None)
        return

    def repeat() -> None:
        while test():
            body.run()

    outer.add_call(label, repeat, body.writes.values())


def _condition(name: str, condition: Any) -> Callable[[], bool]:
    """A function that looks at the condition."""
    if not isinstance(condition, array) or condition.element.type not in (ir.int32, ir.bool_):
        given = repr(condition) if isinstance(condition, array) else type(condition).__name__
        raise TypeError(f"{name}() takes an array of int32 as condition, got {given}")
    if not condition.size:
        raise ValueError(f"{name}() looks at the first element of its condition, got {condition!r}")
    first = condition[(slice(0, 1),) * condition.ndim]
    if condition.device.backend.shares_host_memory:
        view = first.numpy()
        return lambda: bool(view.any())
    return lambda: bool(first.numpy().any())


def is_conditional_graph_supported() -> bool:
    """Return whether captures take ``capture_if`` and ``capture_while``.

    On the CPU they do. On CUDA the driver has to support CUDA 12.4.
    """
    return get_preferred_device().backend.takes_conditions()


def _require_branch(name: str, branch: Branch) -> None:
    if branch is not None and not isinstance(branch, Graph) and not callable(branch):
        raise TypeError(f"{name}() takes functions and graphs, got {type(branch).__name__}")


def _work(name: str, branch: Branch, kwargs: dict[str, Any]) -> Work:
    """A function that does what a branch does, None where there is nothing to do."""
    _require_branch(name, branch)
    return None if branch is None else functools.partial(_run_branch, branch, kwargs)


def _run_branch(branch: Branch, kwargs: dict[str, Any]) -> None:
    if isinstance(branch, Graph):
        _run_intercepted(branch)
    elif branch is not None:
        branch(**kwargs)


def _captured(name: str, branch: Branch, kwargs: dict[str, Any]) -> Graph:
    """What a branch does, as a graph of its own."""
    _require_branch(name, branch)
    if isinstance(branch, Graph):
        return branch
    outer = recorder.graph
    assert outer is not None
    inner = Graph(outer.device)
    if branch is None:
        return inner
    recorder.graph = inner
    try:
        branch(**kwargs)
    finally:
        recorder.graph = outer
    return inner


def capture_debug_dot_print(graph: Graph, path: str | os.PathLike[str], verbose: bool = True) -> None:
    """Write a picture of a graph's operations in Graphviz's language; on CUDA, the driver draws it.

    Args:
        graph: The graph.
        path: The file to write.
        verbose: Whether operations are labelled with what they do, not only numbered.
    """
    graph.draw(path, verbose)
