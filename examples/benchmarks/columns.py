"""The columns of the throughput table, each declared once: how a framework, or C++, runs a ``Case``."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import cpp_reference
import frameworks
import numpy as np
from programs import Case, Entry
from programs.arrays import JaxArrays, TorchArrays
from timing import Program


class Column(Protocol):
    """One column of the table."""

    def program(self, entry: Entry, case: Case) -> Program | None:
        """Return the program of one row, or None where this column has none."""


class Warp:
    """Launches of one kernel. All kernels are made at once, since warp-lang compiles a module as a whole."""

    def __init__(self, wp: ModuleType, entries: Sequence[Entry]) -> None:
        self.wp = wp
        self.kernels = {entry: entry.case.kernel(wp, getattr(wp, np.dtype(entry.real).name)) for entry in entries}

    def program(self, entry: Entry, case: Case) -> Program:
        wp, kernel = self.wp, self.kernels[entry]
        *types, out_type = [getattr(wp, name) for name in case.types]
        arrays = [wp.array(a, dtype=t) for a, t in zip(case.input_arrays, types, strict=True)]
        inner = len(wp.zeros(1, dtype=out_type).numpy().shape) - 1  # dimensions of one element
        out = wp.zeros(case.out.shape[: case.out.ndim - inner], dtype=out_type)
        rest = iter(arrays)
        inputs = [next(rest) if isinstance(a, np.ndarray) else a for a in case.inputs]

        def run() -> None:
            wp.launch(kernel, dim=case.dim, inputs=inputs, outputs=[out])

        def run_from_zero() -> None:
            out.zero_()
            run()

        return Program(run_from_zero if case.zeroed else run, out.numpy)


class Numba:
    """Parallel loops, with the freedom of fast-math."""

    def __init__(self, numba: ModuleType, entries: Sequence[Entry]) -> None:
        warnings.simplefilter("ignore", numba.NumbaPerformanceWarning)  # of helpers, which have no loop to share
        self.prange = numba.prange
        self.jit = numba.njit(parallel=True, fastmath=True)

    def program(self, entry: Entry, case: Case) -> Program:
        function, out = entry.case.loops(self.jit, self.prange, entry.real), np.empty_like(case.out)
        return Program(lambda: function(*case.inputs, out), lambda: out)


class Jax:
    """One jitted function, which returns new arrays."""

    def __init__(self, jax: ModuleType, entries: Sequence[Entry]) -> None:
        self.jax = jax
        jax.config.update("jax_enable_x64", True)

    def program(self, entry: Entry, case: Case) -> Program:
        xp, arrays = JaxArrays(self.jax), [self.jax.numpy.asarray(a) for a in case.input_arrays]
        function = self.jax.jit(lambda *arrays: case.arrays(xp, *case.filled(arrays)))
        last: list[Any] = []

        def run() -> None:
            last[:] = [self.jax.block_until_ready(function(*arrays))]

        return Program(run, lambda: np.asarray(last[0]))


class Torch:
    """A function under ``torch.compile`` that writes into a tensor; of a loop, its body is compiled."""

    def __init__(self, torch: ModuleType, entries: Sequence[Entry]) -> None:
        self.torch = torch

    def program(self, entry: Entry, case: Case) -> Program:
        torch, xp = self.torch, TorchArrays(self.torch, compiled=True)
        arrays, out = list(map(torch.from_numpy, case.input_arrays)), torch.from_numpy(np.empty_like(case.out))

        def function(out: Any, *arrays: Any) -> None:
            out.copy_(case.arrays(xp, *case.filled(arrays)))

        compiled = function if case.looped else torch.compile(function, dynamic=False)

        def run() -> None:
            with torch.no_grad():
                compiled(out, *arrays)

        return Program(run, out.numpy)


@dataclass(frozen=True)
class Cpp:
    """The functions of the entries' names, with a suffix; not all programs have the one with a suffix."""

    library: cpp_reference.Library
    suffix: str

    def program(self, entry: Entry, case: Case) -> Program | None:
        function, out = self.library.find(entry.name + self.suffix), np.zeros_like(case.out)
        if function is None:
            return None
        return Program(cpp_reference.call(function, *case.extents, *case.inputs, out), lambda: out)


@dataclass(frozen=True)
class CppVariant:
    """Flags of the compiler, and the suffix of the functions' names."""

    flags: tuple[str, ...] = ()
    suffix: str = ""


MAKERS: dict[str, Callable[[ModuleType, Sequence[Entry]], Column]] = {
    "warp_like": Warp,
    "warp-lang": Warp,
    "numba": Numba,
    "JAX": Jax,
    "PyTorch": Torch,
}
"""The columns that are frameworks, in the table's order."""

CPP = {
    "C++": CppVariant(),
    "C++ fast": CppVariant((cpp_reference.FAST,)),
    "C++ lanes": CppVariant((cpp_reference.FAST,), "_lanes"),
}
"""The columns that are C++, which come after the frameworks."""

COLUMNS = [*MAKERS, *CPP]
PEERS = [name for name in MAKERS if name != "warp_like"]


def make(wanted: Sequence[str], entries: Sequence[Entry]) -> dict[str, Column]:
    """Return the columns of these names that can be had here."""
    found = frameworks.find_frameworks([name for name in MAKERS if name in wanted])
    columns: dict[str, Column] = {name: MAKERS[name](module, entries) for name, module in found.items()}
    for name, variant in CPP.items():
        if name in wanted and (library := cpp_reference.load(*variant.flags)) is not None:
            columns[name] = Cpp(library, variant.suffix)
    return columns
