"""What Python, compiled code and the native extension agree on: numbers, limits, and the layout of what they share.

Each number stands here once. ``build_contract.py`` writes ``contract.h`` from these tables when the extension is built:

* a capitalised integer becomes a constant, ``MAX_DIMS`` as ``kMaxDims``;
* a class of ``Cases`` becomes an ``enum class`` of the same name, ``ParamKind.ARRAY`` as ``ParamKind::Array``;
* a class of ``Numbers`` one of integers, ``RunError.TIMEOUT`` as ``RunError::Timeout``;
* a ``Layout`` becomes a struct whose offsets the C++ compiler checks.

The build reads this file before there is an extension, so it imports nothing that needs one.
"""

from __future__ import annotations

import struct
from typing import ClassVar

from warp_like.base.frozen import Frozen

MAX_DIMS = 8
"""The most dimensions of an array and of a grid."""

MAX_NARROW = 2**31 - 2**16
"""The largest extent of a grid, of those that the kernel asks indices for, with which ``tid()`` is an int32; also the
most threads of a grid, and the most elements of an array, that CUDA's code counts in 32 bits. So far below the largest
int32 that the index of a neighbour, ``tid() + 2``, provably fits; on CUDA that of the next thread, a stride further,
fits a uint32."""

SHORT_GRID_ROW = 8
"""The longest row of a grid that counts as short: it fills half of a vector of 16 threads at most."""

FEWEST_IN_SHORT_ROWS = 1024
"""The fewest threads of a grid of short rows for which a kernel with loops is compiled anew, with lanes that go on in
the next row."""

SLOT = 8
"""The alignment of an argument in the argument block."""

ARRAY_SHAPE = 8
"""Where in the slot of an array its extents begin, 8 bytes each; the strides, in bytes, follow."""

ERROR_VALUES = 16
"""How many numbers an error that compiled code reports carries at most."""

FIRST_FAULT = 16
"""The first number of an error that the compiler gives out (``base/faults.py``); below are ``RunError``'s."""

STRUCT_CODE = 0xFF
"""The lowest byte of the type code of a struct, in place of a ``Scalar``; above are its alignment and its number."""

ROWS_BIT, COLUMNS_BIT, KIND_BIT = 8, 16, 24
"""Where a type code (``ir.layout.type_code``) has the rows, the columns and the ``ElementKind``."""

ALIGN_BIT, NUMBER_BIT = 8, 10
"""Where the type code of a struct has the logarithm of its alignment, at most 8 bytes, and its number."""


class Cases:
    """The cases of one type in C++, numbered."""

    _type_: ClassVar[str] = "int32_t"


class Numbers:
    """A group of plain integers."""


class Scalar(Cases):
    """The codes of scalar types, in the order of ``ir.types.SCALARS``."""

    _type_ = "uint8_t"
    BOOL = 0
    INT8 = 1
    UINT8 = 2
    INT16 = 3
    UINT16 = 4
    INT32 = 5
    UINT32 = 6
    INT64 = 7
    UINT64 = 8
    FLOAT16 = 9
    BFLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12


SCALAR_COUNT = 13
"""How many ``Scalar`` codes there are."""


class ElementKind(Cases):
    """What an element with rows and columns is, in a type code."""

    PLAIN = 0  # a scalar, vector or matrix
    QUATERNION = 1
    TRANSFORM = 2


class RunError(Numbers):
    """The errors of the runtime itself."""

    STACK_LIMIT = 1  # a thread needs more stack than ``adjoint_stack_limit``
    UNORDERED = 2  # order shows in a kernel, deterministic mode is on, and CUDA has no order
    TIMEOUT = 3  # the launch took longer than launches may
    OVERLAP = 4  # an array that is written overlaps another, and threads of a block may then not stay together
    LOCAL_MEMORY = 5  # there is no memory for the local arrays of the threads


class ParamKind(Cases):
    """What a parameter of an entry point is."""

    _type_ = "uint8_t"
    ARRAY = 0
    SCALAR = 1
    VALUE = 2  # a vector, matrix, quaternion, transform or struct


class ParamFlag(Numbers):
    """What an entry point does with a parameter; the flags add up."""

    WRITES = 1  # an array that it stores to or updates
    SUMS = 2  # only adds to; it writes then
    THREAD_PRIVATE = 4  # each kernel thread updates its own element alone; it writes then
    STORES = 8  # overwrites, not only updates
    READS = 16  # loads from
    GRADIENT = 32  # its elements have gradients
    OPTIONAL = 64  # may be None
    TAKES = 128  # takes elements of, plainly where the launch is alone
    OWN = 256  # each kernel thread touches the elements at its own index alone
    APART = 512  # writes to while it has read other arrays ahead; plain code needs it to overlap none


class ObjectKind(Numbers):
    """What an id refers to: the kinds of objects that kernels query (``ir/objects.py`` has their descriptors)."""

    HASH_GRID = 1
    BVH = 2
    MESH = 3
    TEXTURE = 4
    VOLUME = 5
    ANY = 255  # of a parameter that stands for several kinds


OBJECT_KIND_BIT = 16
"""Where the flags of a parameter that is an id have the ``ObjectKind``."""


class StackOp(Numbers):
    """The instructions of a stack bound; ``a`` and ``b`` are registers unless it says otherwise."""

    CONSTANT = 0  # the number c
    ARGUMENT = 1  # the scalar of type number b at byte a of the argument block
    EXTENT = 2  # the int64 at byte a of the argument block
    THREAD = 3  # the thread's index along axis a of the grid seen as b dimensional
    ADD = 4
    SUBTRACT = 5
    MULTIPLY = 6
    MINIMUM = 7
    MAXIMUM = 8
    QUOTIENT = 9  # of integers, truncated
    RATIO = 10  # of floats
    REMAINDER = 11  # of integers, with the sign of a
    ROOT = 12  # the square root of a
    CHOICE = 13  # a where the register c is not 0, else b
    WHOLE = 14  # a, rounded in any way to a whole number
    LIMITED = 15  # a as an integer of b bits, signed if c is not 0: any of these where it does not fit
    ROUNDED = 16  # a as a float that rounding errors have changed
    INDEX = 17  # the index of a loop from a to before b; c is the sign of its step, 0 if that is not known
    TRIPS = 18  # how often a loop runs whose bounds are a apart, by steps of b
    LESS = 19  # 1 if a < b, else 0
    EQUAL = 20  # 1 if a = b, else 0


class MemoryOwner(Cases):
    """Who gets memory of CUDA back."""

    POOL = 0
    PLAIN = 1  # the driver
    PINNED = 2  # the driver, as page-locked memory
    OTHER = 3  # somebody else


class HoleKind(Cases):
    """What fills a hole in the argument block of an XLA call."""

    _type_ = "int64_t"
    POINTER = 0
    VALUE = 1


class HoleSource(Cases):
    """Of which buffers it comes."""

    _type_ = "int64_t"
    OPERAND = 0
    RESULT = 1


class HoleStart(Numbers):
    """What a result holds before the kernel runs, where that is not the operand with this number."""

    UNINITIALISED = -1
    ZEROED = -2


class Member(Frozen):
    """A member of a struct.

    Attributes:
        type: Its type in C++.
        name: Its name there.
        note: What it holds.
        count: How many there are of it, side by side; 0 for one alone.
    """

    type: str
    name: str
    note: str = ""
    count: int = 0


_LETTERS = {"int32_t": "i", "uint32_t": "I", "int64_t": "q", "double": "d", "HoleKind": "q", "HoleSource": "q"}
"""The letters of ``struct`` for types; all others are pointers."""


class Layout(Frozen):
    """A struct that C++ and Python, or compiled code, access both.

    Attributes:
        name: Its name in C++.
        note: What it is.
        members: What it holds, in order.
    """

    name: str
    note: str
    members: tuple[Member, ...]

    @property
    def format(self) -> str:
        """Its format for ``struct``, which leaves the gaps that C++ leaves."""
        letters = [_letter(m) for m in self.members]
        return f"@{self._upto(len(letters))}0{max(letters, key=struct.calcsize)}"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return struct.calcsize(self.format)

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of each member in bytes, by its name."""
        starts = (f"@{self._upto(i)}0{_letter(m)}" for i, m in enumerate(self.members))
        return {m.name: struct.calcsize(start) for m, start in zip(self.members, starts, strict=True)}

    def pack(self, *values: float) -> bytes:
        """Return the bytes of one."""
        return struct.pack(self.format, *values)

    def _upto(self, count: int) -> str:
        return "".join([f"{m.count or 1}{_letter(m)}" for m in self.members[:count]])


def _letter(m: Member) -> str:
    return _LETTERS.get(m.type, "P")


CONTEXT = Layout(
    "Context",
    "One worker's view of a launch, which compiled code gets. A push needs `capacity - top >= n` (else it calls "
    "wl_stack_grow, and loads `stack` again), writes at `stack + top` and adds n to `top`; a pop is the reverse. The "
    "runtime empties the stack after each call of an entry point.",
    (
        Member("char*", "stack", "the adjoint's, aligned to 64"),
        Member("int64_t", "top"),
        Member("int64_t", "capacity"),
        Member("RunRecord*", "record", "its first int32 is the error code"),
        Member("const std::atomic<int32_t>*", "cancel", "nonzero when the launch's results are not wanted any more"),
        Member("int64_t", "alone", "nonzero while no other OS thread touches the arrays that it takes elements of"),
    ),
)

CUDA_CONTEXT = Layout(
    "CudaContext",
    "What the compiled code of one launch on CUDA shares with the host, in memory that the device can write. The host "
    "zeroes it before the launch. `backend/llvm/cuda.py` says how it is used.",
    (
        Member("int32_t", "code", "of the first fault: its kind, set last"),
        Member("int32_t", "site", "which of the artifact's faults"),
        Member("int64_t", "thread", "the thread that it happened in"),
        Member("int32_t", "claimed", "nonzero once a thread reports a fault"),
        Member("int32_t", "reserved"),
        Member("int64_t", "values", "the numbers that go into the fault's text", ERROR_VALUES),
        Member("int64_t", "stack_needed", "after a launch that ran out: the most bytes that a thread asked for"),
    ),
)

CUDA_GRID = Layout(
    "CudaGrid",
    "The grid of a launch on CUDA, which compiled code gets by value. A thread's number n below 2^31, divided by "
    "extent k, is the upper half of 2 n * multipliers[k] in 64 bits, shifted to the right by shifts[k].",
    (
        Member("int64_t", "dims", "the extents, unused ones 1", MAX_DIMS),
        Member("uint32_t", "multipliers", "0 for extents that narrow code does not meet", MAX_DIMS),
        Member("uint32_t", "shifts", "", MAX_DIMS),
    ),
)

REACH = Layout(
    "PackedReach",
    "How far a launch reaches along one axis of an array (`base/reach.py`).",
    (
        Member("int32_t", "param"),
        Member("int32_t", "axis"),
        Member("int32_t", "dim"),
        Member("int64_t", "offset"),
    ),
)

STACK_STEP = Layout(
    "BoundStep",
    "One instruction of a stack bound: a `StackOp` and its operands.",
    (Member("int32_t", "code"), Member("int32_t", "a"), Member("int32_t", "b"), Member("double", "c")),
)

BINDING = Layout(
    "Binding",
    "One hole of the argument block of an XLA call (`interop/jaxffi/call.py`).",
    (
        Member("int64_t", "offset", "in the block"),
        Member("HoleKind", "kind"),
        Member("HoleSource", "source"),
        Member("int64_t", "index", "of the operand or result"),
        Member("int64_t", "rank", "the buffer's dimensions without those of a batch"),
        Member("int64_t", "bytes", "of one element of the batch"),
        Member("int64_t", "init", "of a result: a HoleStart, or the number of an operand"),
        Member("int64_t", "shift", "bytes from the buffer's start to what a pointer points to"),
        Member("int64_t", "sum", "of an array that the code only adds to, and not atomically: 1 + its Scalar; else 0"),
    ),
)

LAYOUTS = (CONTEXT, CUDA_CONTEXT, CUDA_GRID, REACH, STACK_STEP, BINDING)
