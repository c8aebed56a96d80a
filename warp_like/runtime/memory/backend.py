"""What the runtime asks of a kind of device. For type checkers alone: a program that runs never loads this.

A target of launches is a folder: ``runtime/cpu`` is one, ``runtime/cuda`` another. The rest of the runtime imports
neither. It asks ``device.backend``, an object that implements ``Backend`` and is made when it is first asked for, as
``runtime/memory/registry.py`` knows. To add a target:

1. Derive from ``Device``, with a ``kind`` of your own (``runtime/memory/device.py``), or from ``StreamDevice`` where
   work goes to streams (``runtime/memory/stream.py``).
2. Implement ``Backend`` and the groups of questions that it leads to. A group may be a module with these functions.
3. Call ``register`` in ``runtime/__init__.py``. Nothing of the target is loaded until a program asks for such a device.

``tests/runtime/memory/test_backend.py`` has a small target that is complete. How code for the target is made is another
question, which ``warp_like/backend`` answers. A ``_native.Dispatcher`` calls code in this process, or has the CUDA
driver launch it; a target that does neither needs a launch of its own in native code, such as
``native/cuda_launch.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from warp_like import _native
    from warp_like.backend.target import Target
    from warp_like.compiler.artifact import Artifact
    from warp_like.compiler.signature import Signature
    from warp_like.runtime.memory.allocation import MemoryKind
    from warp_like.runtime.memory.allocators import BuiltinAllocator
    from warp_like.runtime.memory.device import Device

OwnDevice: TypeAlias = Any
"""A device of the backend's own kind."""
OwnStream: TypeAlias = Any
"""A stream of such a device."""

# Types of higher folders, which this one does not import.
Array: TypeAlias = Any
Program: TypeAlias = Any


class Streams(Protocol):
    """The order of work, for kinds of devices whose launches go to streams instead of having finished."""

    def stream_for(self, device: OwnDevice, stream: OwnStream | None, *owners: Any) -> OwnStream:
        """Return where work on memory of ``owners`` goes: ``stream`` if given, else by the rules for streams."""

    def note_use(self, device: OwnDevice, stream: OwnStream, owners: list[Any]) -> None:
        """Let ``stream`` wait for the work before on memory of ``owners``, and later work on it for ``stream``."""

    def work_stream(self, a: Array) -> OwnStream:
        """Return the stream on which the memory of ``a`` was used last, as far as that is known."""

    def hand_over(self, a: Array, stream: int | None) -> None:
        """Let a consumer's stream, as DLPack names it, wait for what was done to the memory of ``a``.

        Raises:
            BufferError: ``stream`` names none.
        """


class Clock(Protocol):
    """Measures one launch, which runs inside of its ``with`` block."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def result(self) -> Any:
        """Wait for the launch, and return a ``TimingResult``."""


class Programs(Protocol):
    """From kernels to code that is ready to be launched."""

    def target_of(self, device: OwnDevice) -> Target | None:
        """Return what the compiler makes code for; None stands for the processor of this machine."""

    def install(
        self, program: Program, signature: Signature
    ) -> tuple[_native.Dispatcher, tuple[bool, bool, bool], Artifact]:
        """Compile a variant for the program's device, load it, and let the program's dispatcher run it.

        Where a block has a limit of threads, it is noted as ``max_threads`` of an object in ``program.loaded``.

        Returns:
            The dispatcher, the place of the variant in it (contiguous, wide, sums), and what was compiled.

        Raises:
            WarpCodegenError: The kernel can't be compiled, or not differentiated.
        """

    def max_threads(self, program: Program, place: tuple[bool, bool, bool]) -> int:
        """Return the most threads that run the variant together: of the processor, or of a block."""

    def clock(self, device: OwnDevice, name: str, filter: int, stream: OwnStream | None, args: list[Any]) -> Clock:
        """Return what measures a launch.

        Args:
            device: Where it runs.
            name: What it is called.
            filter: Which kind of activity it is.
            stream: The stream that the launch names, or None.
            args: Its arguments, which may decide on the stream.
        """


class Algorithms(Protocol):
    """Operations on whole arrays, whose arguments ``runtime/operations/algorithms.py`` has checked."""

    @property
    def MOST_NUMBERS(self) -> int | None:
        """How many numbers an array may have at most; None for no limit."""

    def fingerprint(self, a: Array) -> int:
        """Return a number that differs where the bytes of ``a`` differ, but for chance; waits.

        Captured writes have not run yet, so there is nothing to hash during a capture: any constant will do.
        """

    def reduce(self, a: Array, b: Array | None, target: Array, axis: int) -> bool:
        """Write the sum of ``a``, or of its products with ``b``, along ``axis``, or of all for -1.

        Returns:
            False where a sum of integers does not fit, as far as that is noticed.
        """

    def scan(self, source: Array, target: Array, inclusive: bool) -> None:
        """Write the prefix sums; the two may be one array."""

    def sort_pairs(self, keys: Array, values: Array, n: int, first: int, last: int) -> None:
        """Sort the first ``n`` pairs by the bits ``first`` to before ``last`` of the keys, stably."""

    def sort_segments(self, keys: Array, values: Array, n: int, starts: Array, ends: Array) -> int | None:
        """Sort the pairs within each segment, stably.

        Returns:
            The number of a segment that overlaps another or lies outside, as far as that is noticed; else None.
        """

    def encode_runs(self, source: Array, values: Array, lengths: Array, n: int, count: Array | None) -> int | None:
        """Write the value and the length of each run of the first ``n`` elements.

        Returns:
            How many runs there are where ``count`` is None; else that is written to ``count``, and nothing waits.
        """


class Backend(Protocol):
    """A kind of device. There is one object for each kind, in the registry.

    Attributes:
        kind: The name of the kind. Devices are called ``kind:0`` and so on; ``kind`` alone means the default one.
        shares_host_memory: Whether its memory is the host's, so that NumPy sees arrays without a copy, and what the
            host writes there is written.
    """

    kind: str
    shares_host_memory: bool

    @property
    def streams(self) -> Streams | None:
        """The order of work; None where a launch has finished when it returns."""

    # ---- devices

    def discover(self) -> dict[str, Device]:
        """Return the devices of this kind, by alias; called when a program first asks for one.

        Raises:
            Unavailable: There are none (``runtime/memory/registry.py``).
        """

    def current_device(self) -> Device | None:
        """Return the device that another library has made the thread's current one; None if there is no such."""

    # ---- memory

    def allocate(self, device: OwnDevice, nbytes: int, zero: bool) -> Any:
        """Return the owner of fresh memory at its ``ptr``, aligned to 64 bytes; ``_native.Buffer.wrap`` makes such.

        Raises:
            MemoryError: There is no room for it.
        """

    def allocate_pinned(self, device: OwnDevice, nbytes: int, zero: bool) -> Any:
        """Return the owner of fresh page-locked memory of the host, which copies to and from devices need not wait for.

        Raises:
            MemoryError: There is no room for it.
            RuntimeError: No device needs such memory.
        """

    def builtin_allocator(self, device: OwnDevice, pooled: bool) -> BuiltinAllocator | None:
        """Return what users' allocators build on: memory as it is, or of the device's pool; None if it has no pool."""

    def memory_kind(self, a: Array) -> MemoryKind:
        """Return what memory ``a`` has."""

    def memory_handle(self, a: Array) -> bytes:
        """Return a handle by which another process opens the memory of ``a``.

        Raises:
            RuntimeError: There is none.
        """

    def can_access(self, device: Device, a: Array) -> bool:
        """Return whether kernels on ``device`` can use the memory of ``a``, which is that of another device.

        Asked of the backend of ``device``, or where that shares the host's memory, of that of ``a``.
        """

    # ---- copies

    def write(self, dest: Array, values: Any, stream: OwnStream | None) -> None:
        """Copy ``values``, an array of as many components or NumPy components that broadcast, to the array ``dest``.

        One of the two is of this kind, and the other one as well, or in the host's memory.
        """

    def read(self, a: Array) -> Any:
        """Return the elements of ``a`` as a NumPy array, in a form that ``a.numpy()`` describes."""

    # ---- what has to do with launches

    @property
    def programs(self) -> Programs:
        """How kernels are compiled, loaded and timed."""

    @property
    def algorithms(self) -> Algorithms:
        """Sums, sorts and so on."""

    def begin_capture(self, device: OwnDevice, stream: OwnStream | None, external: bool, mode: str) -> None:
        """Begin a capture; see ``capture_begin``, which has checked that none runs.

        What launches and writes do from now on becomes a part of a ``Graph``: ``device.capture``, or that of the
        thread, ``recorder.graph``.
        """

    def takes_conditions(self) -> bool:
        """Return whether captures take ``capture_if`` and ``capture_while``."""
