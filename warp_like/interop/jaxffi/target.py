"""The XLA custom call and what it can run: compiled entry points, known to the native side by a hash."""

from __future__ import annotations

import functools
import importlib.util
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warp_like import _native
from warp_like.backend import cpu
from warp_like.backend.target import host_target
from warp_like.base.contract import STACK_STEP, StackOp
from warp_like.base.hashing import digest
from warp_like.compiler.artifact import Artifact, Effects
from warp_like.compiler.lookup import cache_key
from warp_like.compiler.signals import deferred_signals
from warp_like.compiler.signature import Role, Signature, entry_roles
from warp_like.interop.versions import require_version
from warp_like.ir.core import Function
from warp_like.ir.types import Type, adjoint_type
from warp_like.runtime.kernels.kernel import Kernel
from warp_like.runtime.kernels.program import COMPILING, launch_error
from warp_like.runtime.memory.device import is_cuda_available

TARGET = "warp_like_kernel"


@functools.cache
def jax_module() -> Any:
    """Return the ``jax`` module, with the custom call registered.

    Raises:
        ImportError: JAX is not installed, or has no typed foreign function interface.
    """
    try:
        import jax
    except ImportError as e:
        raise ImportError("this needs JAX: pip install jax") from e
    require_version(jax)
    version = _api_version(jax)
    jax.ffi.register_ffi_target(TARGET, _native.xla_handler(*version), platform="cpu")
    if _has_cuda() and is_cuda_available():
        from warp_like.runtime.cuda.driver import connect

        connect()
        jax.ffi.register_ffi_target(TARGET, _native.xla_handler(*version, True), platform="CUDA")
    return jax


def _has_cuda() -> bool:
    """Whether JAX is installed with its plugin for CUDA."""
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") is not None for version in (12, 13))


def _api_version(jax: Any) -> tuple[int, int]:
    """Return the version of XLA's C API, which only the header says."""
    text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    version = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    return int(version["MAJOR"]), int(version["MINOR"])


@dataclass(frozen=True, eq=False)
class Code:
    """A compiled kernel, or an adjoint of one, that XLA calls can refer to.

    Attributes:
        kernel: The kernel.
        signature: What it is compiled for.
        artifact: Its code, and what that does.
        key: What a call says to have it run.
    """

    kernel: Kernel
    signature: Signature
    artifact: Artifact
    key: int

    @property
    def effects(self) -> Effects:
        """What it reads and writes."""
        return self.artifact.effects

    @functools.cached_property
    def roles(self) -> tuple[Role, ...]:
        """For each parameter of the entry point what it is to which of the kernel's parameters."""
        return entry_roles(self.signature, self.effects.prelaunch_copies)

    @property
    def params(self) -> tuple[Type, ...]:
        """The types of the entry point's parameters."""
        args = self.signature.args
        return tuple(adjoint_type(args[i]) if "adjoint" in role else args[i] for role, i in self.roles)

    @functools.cached_property
    def covers(self) -> frozenset[int]:
        """Positions of arrays that the code overwrites as a whole when the grid has their shape."""
        from warp_like.interop.jaxffi.covering import elementwise_stores

        return elementwise_stores(self._function)

    @functools.cached_property
    def separable(self) -> tuple[int, dict[int, dict[int, int | None]]]:
        """How many dimensions the code sees in its grid, and along which it falls apart; see ``separable_axes``."""
        from warp_like.interop.jaxffi.splitting import separable_axes

        return separable_axes(self._function)

    @functools.cached_property
    def _function(self) -> Function:
        # A warm start loads no compiler, and this needs one.
        from warp_like.compiler.pipeline import optimised

        return optimised(self.kernel.captured_source, self.signature)


_CODES = "_codes_for_jax"
"""Where a kernel keeps what was compiled of it, which refers to the kernel: nothing else may hold it by kernel."""


def compiled(
    kernel: Kernel,
    types: tuple[Type, ...],
    *,
    wrt: tuple[int, ...] | None = None,
    same: tuple[tuple[int, int], ...] = (),
    tangent: tuple[int, ...] | None = None,
    again: tuple[int, ...] | None = None,
    wide: bool = False,
    contiguous: bool = True,
    sums: bool = False,
    alone: bool = False,
    shares_indices: bool = False,
    shares_elements: bool = False,
    spares_objects: bool = False,
) -> Code:
    """Return the code of ``kernel``, or of a derivative, ready to be called by XLA; see ``Signature`` for which.

    With ``shares_elements``, its result depends on the order of threads: arguments share elements of a thread's own.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    signature = Signature(
        types, contiguous, wide, wrt, same, kernel.compile_options(), tangent, sums, again, alone,
        shares_indices=shares_indices, spares_objects=spares_objects,
    )  # fmt: skip
    with COMPILING:
        known: dict[Any, Code] = vars(kernel).setdefault(_CODES, {})
        deterministic = bool(kernel.option("deterministic"))
        key = (id(kernel), signature, deterministic, shares_elements)  # a copy of a kernel shares what it keeps
        if key not in known:
            with deferred_signals():
                known[key] = _compile(kernel, signature, deterministic, shares_elements)
        return known[key]


def _compile(kernel: Kernel, signature: Signature, deterministic: bool, shares_elements: bool) -> Code:
    artifact = kernel.artifact(signature)
    # A hash of the contents, not a number of this process: XLA may keep its programs on disk.
    words = digest(
        cache_key(kernel.captured_source, signature, host_target()),
        artifact.code.binary,
        f"{deterministic} {shares_elements}",
    )
    key = int(words[:16], 16) - (1 << 63)
    if not _native.xla_has_plan(key):
        loaded = cpu.load(artifact.code.binary, (artifact.code.entry,), _native.symbols())
        # Plans stay for good, so they must not hold the kernel; only what may still be compiled for a device does.
        explain = functools.partial(launch_error, kernel.key, signature.wrt is not None)
        held = functools.partial(_itself, kernel) if is_cuda_available() else weakref.ref(kernel)
        load = functools.partial(_load_on_cuda, held, signature, artifact.effects.prelaunch_copies)
        address = loaded.address(artifact.code.entry)
        ordered = artifact.effects.order_dependent or shares_elements
        order = ordered, artifact.effects.non_associative, deterministic
        schedule = artifact.schedule
        _native.xla_add_plan(key, address, loaded, explain, load, schedule.lanes, *order, schedule.rows, signature.sums)
    return Code(kernel, signature, artifact, key)


CudaCode = tuple[int, int, int, int, Any, Callable[[], None] | None, bytes, int, int, int]
"""Function, the usual and the most threads of a block, the address of the record of faults, what keeps them, what looks
at it, the program that bounds a thread's stack, the most threads that are launched (0 for as many as the grid has), how
many run a place of the grid together, and how many places a thread takes."""


def _itself(kernel: Kernel) -> Kernel:
    return kernel


def _load_on_cuda(
    held: Callable[[], Kernel | None],
    signature: Signature,
    prelaunch_copies: tuple[int, ...],
    context: int,
    apart: bool,
) -> CudaCode:
    """Compile and load code for the device of a context; XLA's first call there asks for it.

    With ``apart``, it is for calls whose arrays are as ``Signature.sums`` says. Other calls have buffers that overlap,
    as where one array is given twice, or that are not aligned.

    Raises:
        RuntimeError: The code saves values on a stack of which nobody knows beforehand how large it gets, so that a
            launch would have to wait. Or the kernel is gone.
    """
    from warp_like.runtime.cuda.device import device_of_context
    from warp_like.runtime.cuda.load import Loaded, resident_threads, usual_block

    kernel = held()
    if kernel is None:
        raise RuntimeError("a kernel was dropped before there was a CUDA device, so it can't be compiled for one")
    device = device_of_context(context)
    s = signature.replace(sums=apart)
    program = kernel.program(
        s.args, s.wrt, s.same, s.tangent, device, s.alone, s.shares_indices, spares_objects=s.spares_objects
    )
    loaded = Loaded(program, lambda target: kernel.artifact(s, target))
    artifact = loaded.artifact
    if artifact.effects.prelaunch_copies != prelaunch_copies:
        raise RuntimeError(f"kernel `{kernel.key}`: its gradient reads other copies on CUDA; this is a bug")
    threads = (usual_block(kernel), loaded.max_threads)
    resident = resident_threads(loaded, kernel) if artifact.schedule.combines else 0
    bound = artifact.stack.bound
    checks = signature.options.debug or signature.options.verify_fp
    if artifact.stack.used and not bound:
        bound, checks = _fixed_bound(kernel, loaded), True
    if bound:
        resident = device.sm_count * device.max_threads_per_multiprocessor
    rest = (bound, resident, artifact.schedule.team, artifact.schedule.places)
    if loaded.report is None:
        return loaded.function, *threads, 0, loaded, None, *rest
    check = loaded.report.check if checks else None
    return loaded.function, *threads, loaded.report.address, loaded, check, *rest


def _fixed_bound(kernel: Kernel, loaded: Any) -> bytes:
    """The program that gives each thread as much stack as the user says; whether that was enough, each call sees."""
    from warp_like.runtime.cuda.stack import fixed_size

    size = fixed_size(kernel, loaded)
    if size < 0:
        raise RuntimeError(
            f"kernel `{kernel.key}`: its gradient saves the state of loops whose length depends on data, for which "
            "JAX's calls on CUDA can't make room; give the loops lengths that arguments, shapes or the grid tell, or "
            "say how much stack a thread gets (wp.config.adjoint_stack_size, or @wp.kernel(adjoint_stack_size=...))"
        )
    return STACK_STEP.pack(StackOp.CONSTANT, 0, 0, size)
