"""Running compiled kernels on NumPy memory through ctypes, with a context made in Python."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import long_tail
from tests.interpreter import run
from warp_like.backend.compile import entry_name, to_object
from warp_like.backend.cpu import Loaded, compile_object, load
from warp_like.backend.llvm.entry import Lowered, lower_entry
from warp_like.backend.llvm.native_calls import snippets
from warp_like.backend.target import Options, host_target
from warp_like.base.contract import MAX_DIMS
from warp_like.base.faults import explain
from warp_like.ir.core import Function
from warp_like.ir.layout import param_offsets, size_of
from warp_like.ir.printer import print_function
from warp_like.ir.types import Array, Struct, Type, bfloat16, element_shape, float16, scalar_of
from warp_like.ir.verify import verify
from warp_like.passes.pipeline import alone

P, I64, I32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
ENTRY = ctypes.CFUNCTYPE(None, P, P, I64, I64, P)


DEFAULT = Options()


class _Context(ctypes.Structure):
    _fields_ = [("stack", P), ("top", I64), ("capacity", I64)]


class Runtime:
    """A context whose functions record what kernels ask for."""

    def __init__(self, capacity: int = 32, partials: bool = False) -> None:
        self.printed: list[str] = []
        self.errors: list[Exception] = []
        self.grown = 0
        self.polls = 0
        self.partials: dict[int, np.ndarray] | None = {} if partials else None
        self._memory = ctypes.create_string_buffer(max(capacity, 1))
        self.context = _Context(ctypes.addressof(self._memory), 0, capacity)
        self._line = ""
        form = ctypes.CFUNCTYPE
        self._callbacks = {
            "wl_stack_grow": form(None, P, I64)(self._grow),
            "wl_poll": form(None, P)(self._poll),
            "wl_local_memory": form(P, P, I64)(self._local_memory),
            "wl_lane_partials": form(P, P, P, I64, I32, I32)(self._lane_partials),
            "wl_fail": form(None, P, I32, ctypes.c_char_p, I64, I32, ctypes.POINTER(I64))(self._fail),
            "wl_breakpoint": form(None, P)(lambda _: None),
            "wl_print_begin": form(None, P)(lambda _: None),
            "wl_print_bool": form(None, P, I32)(lambda _, x: self._add(str(bool(x)))),
            "wl_print_i64": form(None, P, I64)(lambda _, x: self._add(str(x))),
            "wl_print_u64": form(None, P, ctypes.c_uint64)(lambda _, x: self._add(str(x))),
            "wl_print_f64": form(None, P, ctypes.c_double, I32)(lambda _, x, bits: self._add(f"{x:g}")),
            "wl_print_format_i64": form(None, P, ctypes.c_char_p, I64)(self._format),
            "wl_print_format_f64": form(None, P, ctypes.c_char_p, ctypes.c_double)(self._format),
            "wl_print_str": form(None, P, ctypes.c_char_p)(lambda _, s: self._add(s.decode())),
            "wl_print_end": form(None, P)(self._end),
        }
        self.symbols = {name: ctypes.cast(fn, P).value or 0 for name, fn in self._callbacks.items()}

    def _fail(self, _: int, code: int, text: bytes, thread: int, count: int, values: Any) -> None:
        self.errors.append(explain("kernel", code, text.decode(), values[:count], thread))

    def _local_memory(self, _: int, nbytes: int) -> int:
        self._locals = ctypes.create_string_buffer(nbytes + 64)
        address = ctypes.addressof(self._locals)
        return address + -address % 64

    def _lane_partials(self, _: int, target: int, count: int, bits: int, lanes: int) -> int:
        if self.partials is None:
            return 0
        if target not in self.partials:
            dtype = np.dtype(f"float{bits}")
            memory = np.zeros(count * lanes * dtype.itemsize + 64, np.uint8)
            start = -memory.ctypes.data % 64
            self.partials[target] = (
                memory[start : start + count * lanes * dtype.itemsize].view(dtype).reshape(-1, lanes)
            )
        return self.partials[target].ctypes.data

    def add_partials(self) -> None:
        """Add what came together for each element, as the end of a launch does."""
        for target, vectors in (self.partials or {}).items():
            number = ctypes.c_float if vectors.dtype == np.float32 else ctypes.c_double
            np.ctypeslib.as_array((number * len(vectors)).from_address(target))[:] += vectors.sum(axis=1)
        self.partials = {}

    def _poll(self, _: int) -> None:
        self.polls += 1

    def _format(self, _: int, form: bytes, x: float) -> None:
        self._add(form.decode().replace("ll", "") % x)

    def _add(self, text: str) -> None:
        self._line += text

    def _end(self, _: int) -> None:
        self.printed.append(self._line)
        self._line = ""

    def _grow(self, _: int, nbytes: int) -> None:
        self.grown += 1
        room = 2 * (self.context.top + nbytes)
        bigger = ctypes.create_string_buffer(room)
        ctypes.memmove(bigger, self._memory, self.context.top)
        self._memory = bigger
        self.context.stack, self.context.capacity = ctypes.addressof(bigger), room


def pack(f: Function, args: Sequence[Any]) -> bytes:
    """The argument block of a launch; ``args`` are NumPy arrays and numbers."""
    offsets, size = param_offsets([p.type for p in f.params])
    block = bytearray(size)
    for p, at, a in zip(f.params, offsets, args, strict=True):
        data = _array(p.type, a) if isinstance(p.type, Array) else _value(p.type, a)
        block[at : at + len(data)] = data
    return bytes(block)


def _array(t: Array, a: np.ndarray) -> bytes:
    if isinstance(t.dtype, Struct):
        assert a.itemsize == size_of(t.dtype)
    else:
        assert a.dtype == dtype_of(t.dtype)
        assert a.shape[t.ndim :] == element_shape(t.dtype)
    return struct.pack(f"={1 + 2 * t.ndim}q", a.ctypes.data, *a.shape[: t.ndim], *a.strides[: t.ndim])


def _value(t: Type, value: Any) -> bytes:
    data = np.asarray(value, np.float32).astype(dtype_of(t)) if scalar_of(t) == float16 else np.asarray(value)
    assert scalar_of(t) != bfloat16
    return data.astype(dtype_of(t)).tobytes()


def dtype_of(t: Type) -> np.dtype[Any]:
    """The NumPy dtype of the memory of ``t``."""
    scalar = scalar_of(t)
    assert scalar is not None
    return np.dtype("uint16" if scalar == bfloat16 else "bool" if scalar.is_bool else str(scalar))


@functools.lru_cache(maxsize=1024)
def _compiled(lowered: Lowered) -> bytes:
    """The object of a module: LLVM takes most of the tests' time, and several grids or options often lead to one."""
    return compile_object(lowered, host_target())


def to_plain_object(f: Function, options: Options) -> bytes:
    """The object of ``f`` by LLVM's short pipeline, which makes no vectors and takes a fifth of the time.

    For kernels that nobody runs, and where other tests see the same arithmetic optimised. The long tail has the whole
    pipeline.
    """
    if long_tail.is_running():
        return _object(f, options)
    return _compiled(lower_entry(f, host_target(), options)._replace(straight=True))


def _object(f: Function, options: Options) -> bytes:
    if snippets(f):
        return to_object(f, host_target(), options)
    return _compiled(lower_entry(f, host_target(), options))


class Kernel:
    """A compiled kernel."""

    def __init__(
        self, f: Function, options: Options = DEFAULT, runtime: Runtime | None = None, optimised: bool = True
    ) -> None:
        verify(f)
        self.function = f
        self.runtime = runtime or Runtime()
        data = (_object if optimised else to_plain_object)(alone(f) if f.schedule.lanes == 1 else f, options)
        self.loaded: Loaded = load(data, (entry_name(f),), self.runtime.symbols)
        self._entry = ENTRY(self.loaded.address(entry_name(f)))

    def __call__(self, args: Sequence[Any], dims: tuple[int, ...], splits: Sequence[int] = ()) -> None:
        """Run the grid ``dims`` over ``args``, in the pieces that end at ``splits``."""
        extents = struct.pack(f"={MAX_DIMS}q", *dims, *[1] * (MAX_DIMS - len(dims)))
        block = pack(self.function, args)
        total = int(np.prod(dims))
        begin = 0
        for end in [*splits, total]:
            self._entry(block, extents, begin, end, ctypes.addressof(self.runtime.context))
            begin = end


def copies(args: Sequence[Any]) -> list[Any]:
    """Copies of ``args`` with the strides that they have."""
    return [_copy(a) if isinstance(a, np.ndarray) else a for a in args]


def _copy(a: np.ndarray) -> np.ndarray:
    base = a
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base is a:
        return a.copy()
    memory = base.copy()
    start = a.ctypes.data - base.ctypes.data
    flat = memory.reshape(-1).view(np.uint8)
    return np.ndarray(a.shape, a.dtype, flat.data, start, a.strides)


def contiguous(f: Function, args: Sequence[Any]) -> bool:
    """Whether all array arguments are C-contiguous."""
    pairs = zip(f.params, args, strict=True)
    return all(a.flags.c_contiguous for p, a in pairs if isinstance(p.type, Array))


@dataclass
class Outcome:
    """The arguments after a run of compiled code, and after one of the interpreter."""

    options: Options
    got: list[Any]
    wanted: list[Any]


OF_MEMORY: tuple[dict[str, bool], ...] = ({}, {"contiguous": True}, {"debug": True})
"""Options under which accesses to arrays are other code: any strides, none, and checked indices."""

OF_VECTORS = OF_MEMORY[: long_tail.examples(3, few=2)]
"""Those under which arithmetic is other code: LLVM makes vectors of threads whose elements are neighbours."""


def outcomes(
    f: Function,
    args: Sequence[Any],
    dims: tuple[int, ...],
    splits: Sequence[int] = (),
    capacity: int = 32,
    base: Options = DEFAULT,
    changes: Sequence[dict[str, bool]] = OF_MEMORY,
) -> list[Outcome]:
    """Run ``f`` interpreted, and compiled under several options, on copies of ``args``."""
    wanted = copies(args)
    told: list[str] = []
    run(f, wanted, dims, told)
    found = []
    for options in (base.replace(**change) for change in changes):
        if options.contiguous and not contiguous(f, args):
            continue
        found.append(Outcome(options, copies(args), wanted))
        kernel = Kernel(f, options, Runtime(capacity))
        kernel(found[-1].got, dims, splits)
        assert kernel.runtime.printed == told
        assert kernel.runtime.context.top == 0
    return found


def check(
    f: Function,
    args: Sequence[Any],
    dims: tuple[int, ...],
    rtol: float = 1e-6,
    splits: Sequence[int] = (),
    capacity: int = 32,
    base: Options = DEFAULT,
    changes: Sequence[dict[str, bool]] = OF_MEMORY,
) -> list[np.ndarray]:
    """Run ``f`` compiled and interpreted on copies of ``args``, compare, return the compiled run's arrays."""
    found = outcomes(f, args, dims, splits, capacity, base, changes)
    for outcome in found:
        for k in range(len(f.params)):
            check_param(f, outcome, k, rtol)
    return [a for a in found[-1].got if isinstance(a, np.ndarray)]


def check_param(f: Function, outcome: Outcome, k: int, rtol: float = 1e-6) -> None:
    """Compare the array parameter ``k`` after both runs."""
    if isinstance(outcome.wanted[k], np.ndarray):
        got, wanted = (_readable(args[k], f.params[k].type) for args in (outcome.got, outcome.wanted))
        compare(got, wanted, rtol, f"{outcome.options}\n{print_function(f)}")


def _readable(a: np.ndarray, t: Type) -> np.ndarray:
    """``a`` with the bits of bfloat16 elements as float32."""
    is_bits = isinstance(t, Array) and scalar_of(t.dtype) == bfloat16
    return (a.astype(np.uint32) << 16).view(np.float32) if is_bits else a


def compare(got: np.ndarray, wanted: np.ndarray, rtol: float, message: str = "") -> None:
    """Check floats to ``rtol`` and everything else exactly; NaN equals NaN."""
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=0 if rtol == 0 else 1e-30, err_msg=message)
    else:
        np.testing.assert_array_equal(got, wanted, err_msg=message)
