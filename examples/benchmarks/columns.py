"""The columns of the throughput table: how each framework runs a ``Case``.

A column is an object with ``program(entry, case)``, which returns a ``harness.Program``, or None where it has none.
"""

import warnings

import cpp_reference
import harness
import numpy as np
from harness import Program
from programs import Case, Entry
from programs.arrays import JaxArrays, TorchArrays

CPP = {"C++": (), "C++ fast": (cpp_reference.FAST,), "C++ lanes": (cpp_reference.FAST,)}
COLUMNS = [*harness.WARPS, "numba", "JAX", "PyTorch", *CPP]
PEERS = COLUMNS[1:5]


class Warp:
    """Launches of one kernel. All kernels are made at once, since warp-lang compiles a module as a whole."""

    def __init__(self, wp, entries: list[Entry]) -> None:
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

        def run():
            wp.launch(kernel, dim=case.dim, inputs=inputs, outputs=[out])

        def run_from_zero():
            out.zero_()
            run()

        return Program(run_from_zero if case.zeroed else run, out.numpy)


class Numba:
    """Parallel loops, with the freedom of fast-math."""

    def __init__(self, numba, entries: list[Entry]) -> None:
        warnings.simplefilter("ignore", numba.NumbaPerformanceWarning)  # of helpers, which have no loop to share
        self.prange = numba.prange
        self.jit = numba.njit(parallel=True, fastmath=True)

    def program(self, entry: Entry, case: Case) -> Program:
        function, out = entry.case.loops(self.jit, self.prange, entry.real), np.empty_like(case.out)
        return Program(lambda: function(*case.inputs, out), lambda: out)


class Jax:
    """One jitted function, which returns new arrays."""

    def __init__(self, jax, entries: list[Entry]) -> None:
        self.jax = jax
        jax.config.update("jax_enable_x64", True)

    def program(self, entry: Entry, case: Case) -> Program:
        xp, arrays, last = JaxArrays(self.jax), [self.jax.numpy.asarray(a) for a in case.input_arrays], []
        function = self.jax.jit(lambda *arrays: case.arrays(xp, *case.filled(arrays)))

        def run():
            last[:] = [self.jax.block_until_ready(function(*arrays))]

        return Program(run, lambda: np.asarray(last[0]))


class Torch:
    """A function under ``torch.compile`` that writes into a tensor; of a loop, its body is compiled."""

    def __init__(self, torch, entries: list[Entry]) -> None:
        self.torch = torch

    def program(self, entry: Entry, case: Case) -> Program:
        torch, xp, arrays = self.torch, TorchArrays(self.torch), list(map(self.torch.from_numpy, case.input_arrays))
        out = torch.from_numpy(np.empty_like(case.out))

        def function(out, *arrays):
            out.copy_(case.arrays(xp, *case.filled(arrays)))

        compiled = function if case.looped else torch.compile(function, dynamic=False)

        def run():
            with torch.no_grad():
                compiled(out, *arrays)

        return Program(run, out.numpy)


class Cpp:
    """The function of the entry's name; that of the lanes column has a suffix, and not all programs have it."""

    def __init__(self, library: cpp_reference.Library, suffix: str) -> None:
        self.library, self.suffix = library, suffix

    def program(self, entry: Entry, case: Case) -> Program | None:
        function, out = self.library.find(entry.name + self.suffix), np.zeros_like(case.out)
        if function is None:
            return None
        return Program(cpp_reference.call(function, *case.extents, *case.inputs, out), lambda: out)


def make(wanted: list[str], entries: list[Entry]) -> dict[str, object]:
    """Return the columns of these names that can be had here."""
    makers = {"warp_like": Warp, "warp-lang": Warp, "numba": Numba, "JAX": Jax, "PyTorch": Torch}
    found = harness.find_frameworks([c for c in COLUMNS if c in wanted and c in makers])
    columns: dict[str, object] = {name: makers[name](module, entries) for name, module in found.items()}
    for name, flags in CPP.items():
        if name in wanted and (library := cpp_reference.load(*flags)) is not None:
            columns[name] = Cpp(library, "_lanes" if name == "C++ lanes" else "")
    return columns
