"""Every setting, once: its name, environment variable, type, default and meaning.

``settings`` holds the values. ``warp_like.config`` is its public face; the documentation's page is generated from
``SETTINGS``. Code that keeps something derived from a setting asks to be told of changes with ``on_change``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from warp_like.base.frozen import Frozen


class Setting(Frozen):
    """One row of the table. ``compiles`` says that the value is part of what a kernel is compiled to."""

    name: str
    env: str | None
    type: type
    default: Any
    doc: str
    compiles: bool = False
    choices: tuple[Any, ...] = ()
    most: int | None = None


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
        "Loops over constant ranges with at most this many iterations are unrolled.",
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
    ),
    Setting(
        "verify_cuda",
        "WARP_LIKE_VERIFY_CUDA",
        bool,
        False,
        "Launches on CUDA wait for the kernel, so that an error of the device is raised where it happened.",
    ),
    Setting(
        "enable_backward", None, bool, True, "Whether tapes and adjoint launches may compile adjoints.", compiles=False
    ),
    Setting(
        "kernel_cache_dir",
        "WARP_LIKE_CACHE_DIR",
        str,
        "",
        "Where compiled kernels are kept. Empty: a folder under XDG_CACHE_HOME or the platform's equivalent.",
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
        "Launches give the same bits whatever the number of threads. Kernels whose threads add floats to common "
        "elements, or otherwise see each other's order, then run on one.",
    ),
    Setting(
        "adjoint_stack_limit",
        "WARP_LIKE_ADJOINT_STACK_LIMIT",
        int,
        256 << 20,
        "Bytes that one thread's reverse sweep may save for its loops before the launch fails.",
    ),
    Setting("print_launches", "WARP_LIKE_PRINT_LAUNCHES", bool, False, "Print a line for each launch."),
    Setting(
        "log_level",
        "WARP_LIKE_LOG_LEVEL",
        int,
        30,
        "The lowest level of messages that are shown: `wp.LOG_DEBUG` (10), `wp.LOG_INFO` (20), `wp.LOG_WARNING` (30), "
        "`wp.LOG_ERROR` (40).",
        choices=(10, 20, 30, 40),
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
        "`ir`, `passes` (after each pass), `optimised`, `llvm`, `asm`, or `all`.",
    ),
    Setting("verify", "WARP_LIKE_VERIFY", bool, False, "Verify the IR after each pass."),
)

_BY_NAME = {s.name: s for s in SETTINGS}


class Settings:
    """The values, as attributes. Assigning checks name, type and choices."""

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {s.name: _initial(s) for s in SETTINGS})
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
        return list(_BY_NAME)

    def on_change(self, listener: Callable[[Setting], None]) -> None:
        """Call ``listener(setting)`` after each change of a value."""
        self._listeners.append(listener)


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
        if text.lower() not in words:
            raise ValueError(f"expected 0 or 1, got {text!r}")
        return words[text.lower()]
    return setting.type(text)


def checked(setting: Setting, value: Any) -> Any:
    """Return ``value`` as ``setting`` takes it.

    Raises:
        TypeError: It has another type.
        ValueError: It is none of the setting's choices, negative, or more than the setting's most.
    """
    if value is None and setting.type is str:
        value = setting.default
    if type(value) is not setting.type:
        raise TypeError(f"setting `{setting.name}` takes {setting.type.__name__}, got {type(value).__name__} {value!r}")
    if setting.choices and value not in setting.choices:
        raise ValueError(f"setting `{setting.name}` is one of {', '.join(map(repr, setting.choices))}, got {value!r}")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"setting `{setting.name}` can't be negative, got {value}")
    if isinstance(value, int) and setting.most is not None and value > setting.most:
        raise ValueError(f"setting `{setting.name}` is at most {setting.most}, got {value}")
    return value


def _unknown(name: str) -> str:
    import difflib  # for messages alone

    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"there is no setting `{name}`{hint}"


settings = Settings()
"""The process's settings."""
