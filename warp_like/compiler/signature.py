"""The signature that a compiled kernel is specialised on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from warp_like.base.frozen import Frozen
from warp_like.base.settings import SETTINGS, settings
from warp_like.ir.types import Array, Struct, Type, adjoint_type


class Options(Frozen):
    """Settings that change the code, and what a kernel has of its own: launch bounds, and the threads of its blocks.

    ``Options.current()`` reads the configuration.
    """

    debug: bool = False
    fast_math: bool = False
    fuse_fp: bool = True
    max_unroll: int = 16
    checkpoint_loops: bool = False
    verify_fp: bool = False
    vector_width: int = 0
    launch_bounds: tuple[int, int] | None = None
    lineinfo: bool = False
    max_registers: int = 0
    cpu_block_dim: int = 1
    cpu_block_axis: int = -1
    cpu_block_rest: int = 0

    @staticmethod
    def current() -> Options:
        """The options that the settings ask for now."""
        return Options.of(lambda name: getattr(settings, name))

    @staticmethod
    def of(
        value: Callable[[str], Any],
        launch_bounds: tuple[int, int] | None = None,
        cpu_blocks: tuple[int, int, int] = (1, -1, 0),
    ) -> Options:
        """The options where setting ``name`` has the value ``value(name)``."""
        debug = value("mode") == "debug"
        named = {"debug": debug, "launch_bounds": launch_bounds}
        named |= dict(zip(("cpu_block_dim", "cpu_block_axis", "cpu_block_rest"), cpu_blocks, strict=True))
        return _options(*[named[name] if name in named else value(name) for name in Options._fields_])

    @functools.cached_property
    def text(self) -> str:
        """The values by name."""
        return repr(self)


@functools.lru_cache(maxsize=256)
def _options(*values: Any) -> Options:
    """One object for each choice: most kernels have the same, whose text and hash are then known."""
    return Options(*values)


COMPILE_SETTINGS = frozenset(s.name for s in SETTINGS if s.compiles)
"""The settings that ``Options`` is made of."""


class Signature(Frozen):
    """One variant of one kernel.

    Attributes:
        args: The types of the kernel's parameters.
        contiguous: All arrays are C-contiguous, so strides follow from shapes.
        wide: A grid dimension that the kernel asks an index for exceeds ``contract.MAX_NARROW``, so ``tid()`` is int64.
        sums: Additions need not be atomic where ``passes.sums`` says so: no array that code needs for itself overlaps
            another argument (``native/sums.cpp``), and an array that is only added to belongs to one OS thread. On
            CUDA: no argument overlaps another, the data of each array is aligned to ``layout.vector_align`` of its
            elements (16 bytes are enough for all), and neither the grid nor an array has more than
            ``contract.MAX_NARROW`` threads or elements.
        wrt: For an adjoint, the positions of the parameters that get gradients; None for the kernel itself.
        same: For an adjoint, pairs of parameters that are one array, later one first.
        tangent: For forward mode, the positions of those parameters of the kernel or adjoint that have tangents.
        options: The settings that change the code.
        again: For forward mode twice, the positions of those parameters of the kernel or adjoint, its pre-launch copies
            included, and of the tangents that follow them, that have tangents in the second.
        alone: For an adjoint, that the grid is one thread, so that its atomics have an order.
        saves_results: The last of ``args`` is no parameter of the kernel's but the array in which results of atomics
            are kept: the kernel stores them there, and its adjoint loads them.
        shares_indices: The grid has more dimensions than the kernel asks for indices, so several threads have the same.
        extents: How many of the grid's first extents may exceed 1, so that all further indices are 0; 0 where all may.
        short_rows: The grid's rows have from 2 to ``contract.SHORT_GRID_ROW`` threads, and it has no more threads than
            ``contract.MAX_NARROW``. That decides where lanes lie; the code serves all grids of so many threads.
        spares_objects: For an adjoint, that it adds to no gradients of objects that the kernel queries. Adjoints that
            tapes run in other threads may show theirs at the same time.
    """

    args: tuple[Type, ...]
    contiguous: bool = True
    wide: bool = False
    wrt: tuple[int, ...] | None = None
    same: tuple[tuple[int, int], ...] = ()
    options: Options = Options()
    tangent: tuple[int, ...] | None = None
    sums: bool = False
    again: tuple[int, ...] | None = None
    alone: bool = False
    saves_results: bool = False
    shares_indices: bool = False
    extents: int = 0
    short_rows: bool = False
    spares_objects: bool = False

    @property
    def params(self) -> tuple[Type, ...]:
        """The types of the compiled entry's parameters: the kernel's, then one adjoint array for each of ``wrt``."""
        return self.args + tuple(adjoint_type(self.args[i]) for i in self.wrt or ())

    def __str__(self) -> str:
        args = ", ".join(repr(t) if isinstance(t, Array) and isinstance(t.dtype, Struct) else str(t) for t in self.args)
        modes = f"wrt={self.wrt} same={self.same} tangent={self.tangent} again={self.again}"
        modes += f" alone={self.alone} saves_results={self.saves_results} shares_indices={self.shares_indices}"
        modes += f" extents={self.extents} short_rows={self.short_rows} spares_objects={self.spares_objects}"
        return f"({args}) contiguous={self.contiguous} wide={self.wide} sums={self.sums} {modes} {self.options.text}"


def with_prelaunch_copies(
    tangent: tuple[int, ...], args: int, adjoints: int, prelaunch_copies: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the positions ``tangent`` and those of the pre-launch copies whose originals are among them.

    An adjoint's pre-launch copies follow its ``args`` parameters of the kernel and its ``adjoints``.
    """
    return tangent + tuple(args + adjoints + k for k, i in enumerate(prelaunch_copies) if i in tangent)


Role = tuple[str, int]
"""What a parameter of a compiled entry is to which of the kernel's parameters: ``value``, its ``adjoint``, a copy from
before the launch (``old``), or the tangent of one of these (``u value``, ``u adjoint``, ``v u value``, ...)."""


def entry_roles(signature: Signature, prelaunch_copies: tuple[int, ...]) -> tuple[Role, ...]:
    """Return the roles of the parameters of the entry that is compiled for ``signature``."""
    args, wrt = len(signature.args), signature.wrt or ()
    found = [("value", i) for i in range(args)]
    found += [("adjoint", i) for i in wrt] + [("old", i) for i in prelaunch_copies]
    tangents = with_prelaunch_copies(signature.tangent or (), args, len(wrt), prelaunch_copies)
    for letter, positions in zip("uv", (tangents, signature.again or ()), strict=True):
        found += [(f"{letter} {found[n][0]}", found[n][1]) for n in positions]
    return tuple(found)


def prefixed(role: str, name: str) -> str:
    """Return the name of an entry's parameter that has this role to the kernel's parameter ``name``."""
    return "".join(_PREFIXES[part] for part in role.split()) + name


_PREFIXES = {"value": "", "adjoint": "adj_", "old": "old_", "u": "tan_", "v": "tan_"}
