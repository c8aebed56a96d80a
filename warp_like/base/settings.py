"""Every setting, once: its name, environment variable, type, default and meaning.

``settings`` holds the values. ``warp_like.config`` is its public face; the documentation's page is generated from
``SETTINGS`` and ``ACCEPTED``. Code that keeps something derived from a setting asks to be told of changes with
``on_change``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.base.passes import require_dump_words
from warp_like.base.version import VERSION


class DeterministicMode(IntEnum):
    """What ``wp.config.deterministic`` promises; both promises are kept alike, by the same bits for any threads."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


class LaunchArrayAccessMode(IntEnum):
    """Warp's ways to check at a launch that the device can reach an array; here launches always check."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class Setting(Frozen):
    """One row of a table.

    Attributes:
        name: The name in ``wp.config``.
        env: The environment variable that gives the first value.
        type: What a value is: ``object`` for anything.
        default: The value where nothing gives another.
        doc: What it means.
        compiles: The value is part of what a kernel is compiled to, so that modules and kernels may have their own.
        choices: The values that there are, where they can be listed.
        most: The largest value.
        also: Another type that is taken as it is.
        levels: Who may have a value: `process` (``wp.config``), `module`, `kernel`.
        require: Raises ValueError for a value that is refused.
    """

    name: str
    env: str | None
    type: type
    default: Any
    doc: str
    compiles: bool = False
    choices: tuple[Any, ...] = ()
    most: int | None = None
    also: Any = None
    levels: tuple[str, ...] = ("process",)
    require: Callable[[Any], None] | None = None

    def is_for(self, level: str) -> bool:
        """Whether a ``level`` may have a value of its own."""
        return self.compiles or level in self.levels


_ALL = ("process", "module", "kernel")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "mode",
        "WARP_LIKE_MODE",
        str,
        "release",
        "`release`, or `debug`: kernels check indices (IndexError), integer division (ZeroDivisionError) and `assert` "
        "(AssertionError).",
        compiles=True,
        choices=("release", "debug"),
    ),
    Setting(
        "fast_math",
        "WARP_LIKE_FAST_MATH",
        bool,
        False,
        "Let the compiler reorder and approximate floating-point arithmetic.",
        compiles=True,
    ),
    Setting(
        "fuse_fp",
        "WARP_LIKE_FUSE_FP",
        bool,
        True,
        "Let a multiplication and an addition become one operation that rounds once.",
        compiles=True,
    ),
    Setting(
        "max_unroll",
        "WARP_LIKE_MAX_UNROLL",
        int,
        16,
        "Loops over constant ranges with at most this many iterations are unrolled; with four times as many, where "
        "their index is that of a component.",
        compiles=True,
    ),
    Setting(
        "vector_width",
        "WARP_LIKE_VECTOR_WIDTH",
        int,
        0,
        "Threads that the CPU runs side by side in vector registers, a power of 2 up to 64. 0 chooses for each kernel, "
        "1 runs one thread at a time; `kernel.explain()` says what was chosen and why.",
        compiles=True,
        choices=(0, 1, 2, 4, 8, 16, 32, 64),
    ),
    Setting(
        "checkpoint_loops",
        "WARP_LIKE_CHECKPOINT_LOOPS",
        bool,
        False,
        "Reverse sweeps save the state of a loop once in about the square root of its iterations and run it a second "
        "time, instead of saving each iteration. `@wp.kernel(checkpoint_loops=...)` decides for one kernel.",
        compiles=True,
    ),
    Setting(
        "verify_fp",
        "WARP_LIKE_VERIFY_FP",
        bool,
        False,
        "Kernels check that floats which they write to arrays are finite; NaN or infinity raises FloatingPointError.",
        compiles=True,
    ),
    Setting(
        "lineinfo",
        "WARP_LIKE_LINEINFO",
        bool,
        False,
        "Code says which line of the Python source each instruction comes from, for gdb, cuda-gdb, Nsight and "
        "compute-sanitizer; perf is told the names of kernels.",
        compiles=True,
    ),
    Setting(
        "max_registers",
        "WARP_LIKE_MAX_REGISTERS",
        int,
        0,
        "Registers that a thread on CUDA may use; what needs more is kept in memory. 0 leaves it to the assembler.",
        compiles=True,
    ),
    Setting(
        "block_dim",
        "WARP_LIKE_BLOCK_DIM",
        int,
        256,
        "Threads of a block on CUDA, up to 1024, where `wp.launch(block_dim=...)` does not say; fewer where the kernel "
        "allows fewer.",
        most=1024,
        levels=_ALL,
    ),
    Setting(
        "enable_cpu_blocks",
        "WARP_LIKE_ENABLE_CPU_BLOCKS",
        bool,
        False,
        "Blocks on the CPU have as many threads as `wp.launch(block_dim=...)` says, and `wp.block_dim()` gives this "
        "number; a launch that does not say has blocks of one thread. Otherwise all blocks there have one thread.",
    ),
    Setting(
        "verify_cuda",
        "WARP_LIKE_VERIFY_CUDA",
        bool,
        False,
        "Launches on CUDA wait for the kernel, so that an error of the device is raised where it happened.",
    ),
    Setting(
        "enable_backward",
        None,
        bool,
        True,
        "Whether tapes and adjoint launches may compile adjoints.",
        levels=_ALL,
    ),
    Setting(
        "kernel_cache_dir",
        "WARP_LIKE_CACHE_DIR",
        str,
        "",
        "Where compiled kernels are kept. Empty: a folder under XDG_CACHE_HOME or the platform's equivalent.",
    ),
    Setting(
        "kernel_cache_path",
        "WARP_LIKE_CACHE_PATH",
        str,
        "",
        "Further folders with compiled kernels, which are only read; separated like those of PATH. Their owners are "
        "trusted.",
    ),
    Setting(
        "kernel_cache_limit",
        "WARP_LIKE_CACHE_LIMIT",
        int,
        1024,
        "How many MiB of compiled kernels are kept, about; the ones not used for longest go first. 0 keeps all.",
    ),
    Setting("cache_kernels", "WARP_LIKE_CACHE", bool, True, "Keep compiled kernels on disk and use those found there."),
    Setting(
        "num_threads",
        "WARP_LIKE_NUM_THREADS",
        int,
        0,
        "Threads that a CPU launch may use; 0 means one for each core that the process may run on.",
    ),
    Setting(
        "deterministic",
        "WARP_LIKE_DETERMINISTIC",
        bool,
        False,
        "Launches give the same bits whatever the number of threads. Floats that threads add to common elements are "
        "then added up in order; kernels whose threads see each other's order otherwise run on one. On other devices, "
        "kernels of both kinds raise `wp.WarpDeterminismError`. A `wp.DeterministicMode` says the same.",
        also=DeterministicMode,
        levels=_ALL,
    ),
    Setting(
        "fuse_launches",
        "WARP_LIKE_FUSE_LAUNCHES",
        bool,
        True,
        "Graphs on the CPU run neighbouring launches over one grid together, piece by piece, where that gives the same "
        "bits: each thread alone has the elements that pass between them.",
    ),
    Setting(
        "launch_timeout",
        "WARP_LIKE_LAUNCH_TIMEOUT",
        float,
        0.0,
        "Seconds after which a launch on the CPU ends with TimeoutError; 0 or None lets it take any time. What its "
        "threads have written by then stays.",
        also=int,
    ),
    Setting(
        "adjoint_stack_limit",
        "WARP_LIKE_ADJOINT_STACK_LIMIT",
        int,
        256 << 20,
        "Bytes that one thread's reverse sweep may save for its loops before the launch fails.",
    ),
    Setting(
        "adjoint_stack_size",
        "WARP_LIKE_ADJOINT_STACK_SIZE",
        int,
        0,
        "On CUDA, the bytes that each thread of a reverse sweep may save where data alone tells how much it needs and "
        "the sweep can't be repeated: in captures and inside of `jax.jit`. A thread that needs more raises MemoryError "
        "when it is next waited for; 0 refuses such sweeps there.",
        levels=_ALL,
    ),
    Setting(
        "print_launches",
        "WARP_LIKE_PRINT_LAUNCHES",
        bool,
        False,
        "Print a line for each launch, or give it to the logger of `wp.set_logger`.",
    ),
    Setting(
        "log_level",
        "WARP_LIKE_LOG_LEVEL",
        int,
        30,
        "The lowest level of messages that are shown: `wp.LOG_DEBUG` (10), `wp.LOG_INFO` (20), `wp.LOG_WARNING` (30), "
        "`wp.LOG_ERROR` (40), or a number between. Errors are always shown.",
    ),
    Setting(
        "verbose",
        "WARP_LIKE_VERBOSE",
        bool,
        False,
        "Tell what is compiled and loaded, as `log_level = wp.LOG_INFO` does.",
    ),
    Setting("quiet", "WARP_LIKE_QUIET", bool, False, "Tell errors alone, whatever `log_level` and `verbose` say."),
    Setting(
        "track_memory",
        "WARP_LIKE_TRACK_MEMORY",
        bool,
        False,
        "Note each allocation of an array, for `wp.print_memory_report()`.",
    ),
    Setting(
        "dump",
        "WARP_LIKE_DUMP",
        str,
        "",
        "Stages of compiled kernels to write to standard error, separated by commas: "
        "`ir`, `passes` (after each pass), `before:PASS` and `after:PASS` (around one pass, for example `after:licm`), "
        "`optimised`, `llvm`, `asm`, or `all`. Kernels that come from the cache are not compiled.",
        require=require_dump_words,
    ),
    Setting(
        "strip_hash",
        None,
        bool,
        False,
        "`wp.load_aot_module` takes compiled kernels whatever the source of those that are declared.",
        levels=("module",),
    ),
    Setting(
        "verify",
        "WARP_LIKE_VERIFY",
        bool,
        False,
        "Verify the IR after each pass; or, with `stages`, after each stage, and after each pass where that finds "
        "something. A violation is a defect of the compiler: the error names the pass.",
        also=str,
        choices=(False, True, "stages"),
    ),
)

_BUILD = ("process", "module")

ACCEPTED: tuple[Setting, ...] = tuple(
    Setting(name, None, kind, default, doc, levels=levels)
    for name, kind, default, levels, doc in (
        ("optimization_level", object, None, _BUILD, "Code is always compiled with LLVM's level 3."),
        (
            "cpu_compiler_flags",
            object,
            None,
            _BUILD,
            "Code is for the processor that compiles it; there is no C++ compiler.",
        ),
        ("cuda_output", object, None, _BUILD, "PTX, assembled where an assembler is there."),
        (
            "ptx_target_arch",
            object,
            None,
            ("process",),
            "The device's architecture, or `arch=` of ahead-of-time modules.",
        ),
        ("cuda_arch_suffix", object, None, ("process",), "No instructions of one architecture alone are used."),
        ("llvm_cuda", bool, False, ("process",), "LLVM compiles for CUDA, always."),
        ("line_directives", bool, True, ("process",), "`lineinfo` names lines of the Python source."),
        ("compile_time_trace", bool, False, _BUILD, "`kernel.explain()` gives the time of each stage."),
        ("use_precompiled_headers", bool, True, ("process",), "There are no headers."),
        ("legacy_cpu_linker", bool, False, ("process",), "There is one loader, and debuggers find its kernels."),
        ("load_module_max_workers", object, 0, ("process",), "Modules are loaded one after the other."),
        ("default_grid_stride", bool, True, _BUILD, "Any grid may be launched on any number of blocks."),
        ("grid_stride", bool, True, ("kernel",), "Any grid may be launched on any number of blocks."),
        ("enable_vector_component_overwrites", bool, False, ("process",), "Components are overwritten freely."),
        (
            "verify_autograd_array_access",
            bool,
            False,
            ("process",),
            "A tape always knows what later launches overwrite.",
        ),
        (
            "launch_array_access_mode",
            LaunchArrayAccessMode,
            LaunchArrayAccessMode.RELAXED,
            ("process",),
            "A launch always checks that its device can reach the arrays.",
        ),
        (
            "legacy_scalar_return_types",
            bool,
            False,
            ("process",),
            "`wp.float64`, `wp.int16` and so on are Python's `float` and `int` as well.",
        ),
        ("verbose_warnings", bool, False, ("process",), "Warnings say where they come from."),
        ("deterministic_max_records", int, 0, _BUILD, "Deterministic launches keep no records."),
        ("deterministic_debug", bool, False, ("process",), "Deterministic launches keep no records."),
        (
            "enable_graph_capture_module_load_by_default",
            bool,
            True,
            ("process",),
            "A capture compiles and loads what its launches need.",
        ),
        ("enable_mempools_at_init", bool, True, ("process",), "`wp.set_mempool_enabled` decides for each device."),
        ("enable_tiles_in_stack_memory", object, True, ("process",), "There are no tiles."),
        ("enable_mathdx_gemm", object, True, _BUILD, "There are no tiles."),
        ("enable_mathdx_solver", object, True, _BUILD, "There are no tiles."),
        ("enable_mathdx_fft", object, True, _BUILD, "There are no tiles."),
        ("enable_cuda_smem_spilling", bool, False, ("kernel",), "The assembler spills to local memory."),
    )
)
"""Names of Warp's that programs may set and read, and that change nothing here: the doc says why."""

_BY_NAME = {s.name: s for s in (*SETTINGS, *ACCEPTED) if s.is_for("process")}


class Settings:
    """The values, as attributes. Assigning checks name, type and choices."""

    DeterministicMode = DeterministicMode
    LaunchArrayAccessMode = LaunchArrayAccessMode
    version = VERSION

    def __init__(self) -> None:
        _require_spelling()
        object.__setattr__(self, "_values", {name: _initial(s) for name, s in _BY_NAME.items()})
        object.__setattr__(self, "_listeners", [])

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(_unknown(name)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        setting = _BY_NAME.get(name)
        if setting is None:
            raise AttributeError(_unknown(name))
        value = checked(setting, value)
        if self._values[name] != value:
            self._values[name] = value
            for listener in self._listeners:
                listener(setting)

    def __delattr__(self, name: str) -> None:
        """Set the value back to what it was at the start of the process: the environment's, else the default."""
        setting = _BY_NAME.get(name)
        if setting is None:
            raise AttributeError(_unknown(name))
        setattr(self, name, _initial(setting))

    def __dir__(self) -> list[str]:
        return [*_BY_NAME, "version"]

    def on_change(self, listener: Callable[[Setting], None]) -> None:
        """Call ``listener(setting)`` after each change of a value."""
        self._listeners.append(listener)


def _require_spelling() -> None:
    """Refuse an environment variable whose name is almost that of a setting: it would have no effect."""
    prefix = "WARP_LIKE_"
    known = [s.env.removeprefix(prefix) for s in SETTINGS if s.env]
    for name in (n.removeprefix(prefix) for n in os.environ if n.startswith(prefix)):
        if name not in known:
            import difflib  # for messages alone

            near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            if near:
                raise ValueError(f"there is no environment variable {prefix}{name}; did you mean {prefix}{near[0]}?")


def _initial(setting: Setting) -> Any:
    text = os.environ.get(setting.env) if setting.env else None
    if text is None:
        return setting.default
    try:
        return checked(setting, _parse(setting, text))
    except (TypeError, ValueError) as e:
        raise ValueError(f"environment variable {setting.env}: {e}") from None


def _parse(setting: Setting, text: str) -> Any:
    if setting.type is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if setting.also is str and text in setting.choices:
            return text
        if text.lower() not in words:
            raise ValueError(f"expected 0 or 1, got {text!r}")
        return words[text.lower()]
    return setting.type(text)


def checked(setting: Setting, value: Any) -> Any:
    """Return ``value`` as ``setting`` takes it.

    Raises:
        TypeError: It has another type.
        ValueError: It is none of the setting's choices, negative, more than the setting's most, or one that
            ``require`` refuses.
    """
    if value is None and setting.type in (str, float):
        value = setting.default
    if setting.type is not object and type(value) not in (setting.type, setting.also):
        raise TypeError(f"setting `{setting.name}` takes {setting.type.__name__}, got {type(value).__name__} {value!r}")
    if setting.choices and value not in setting.choices:
        raise ValueError(f"setting `{setting.name}` is one of {', '.join(map(repr, setting.choices))}, got {value!r}")
    if isinstance(value, (int, float)) and not value >= 0:
        raise ValueError(f"setting `{setting.name}` can't be negative, got {value}")
    if isinstance(value, int) and setting.most is not None and value > setting.most:
        raise ValueError(f"setting `{setting.name}` is at most {setting.most}, got {value}")
    if setting.require is not None:
        setting.require(value)
    return value


def _unknown(name: str) -> str:
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"there is no setting `{name}`{hint}"


settings = Settings()
"""The process's settings."""
