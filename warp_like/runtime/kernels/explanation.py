"""What became of a kernel: which variants were compiled, from where, how long it took, and how they run."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from warp_like.base.frozen import Frozen
from warp_like.compiler import lookup

if TYPE_CHECKING:
    from warp_like.compiler.artifact import Artifact
    from warp_like.runtime.kernels.kernel import Kernel
    from warp_like.runtime.kernels.program import Program


class Variant(Frozen):
    """One compiled variant of a kernel.

    Attributes:
        arguments: The types of the kernel's parameters, by name.
        role: ``forward``, ``adjoint`` or ``tangent``.
        contiguous: Whether it takes all arrays to be contiguous.
        wide: Whether it computes indices of the grid in 64 bits.
        plain_sums: Whether it adds without atomics where no two threads meet, or takes arrays that it writes not to
            overlap others; on CUDA, whether it takes arrays not to overlap and to be aligned, and counts them and the
            grid in 32 bits.
        assumes: What ``plain_sums`` means for it, in words.
        key: The key in the cache.
        cached: Whether it came from the cache; else it was compiled in this process.
        seconds: How long each stage took when it was compiled.
        lanes: How many threads run side by side in vector registers.
        lanes_reason: Why so many.
        threads: How many OS threads a launch may use; on CUDA, how many threads a block may have. Says nothing on
            other devices.
        code_bytes: The size of the object code.
        device: What it was compiled for.
        shares_indices: Whether it runs grids of more dimensions than the kernel asks for indices.
        extents: How many of a grid's first extents may exceed 1; 0 where all may.
        short_rows: Whether it is for grids of short rows.
    """

    arguments: tuple[tuple[str, str], ...]
    role: str
    contiguous: bool
    wide: bool
    plain_sums: bool
    key: str
    cached: bool
    seconds: tuple[tuple[str, float], ...]
    lanes: int
    lanes_reason: str
    threads: int
    code_bytes: int
    device: str = "cpu"
    shares_indices: bool = False
    assumes: str = "plain additions"
    extents: int = 0
    short_rows: bool = False

    def lines(self) -> Iterator[str]:
        """The text of the variant."""
        kinds = ["contiguous arrays" if self.contiguous else "arrays of any strides"]
        on_cuda = self.device.startswith("cuda")
        plain = "apart from each other, counted in 32 bits" if on_cuda else self.assumes
        kinds += ["64-bit indices"] * self.wide + [plain] * self.plain_sums
        kinds += ["several threads with the same indices"] * self.shares_indices
        kinds += ["short rows of threads"] * self.short_rows
        kinds += [f"no extents above 1 but the first {self.extents}"] * bool(self.extents)
        stages = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in self.seconds)
        total = 1e3 * sum(s for _, s in self.seconds)
        origin = "from the cache; compiling it took" if self.cached else "compiled in"
        where = "" if self.device == "cpu" else f" on {self.device}"
        yield f"{self.role}{where}, {', '.join(kinds)}"
        yield f"  arguments  {', '.join(f'{name}: {t}' for name, t in self.arguments)}"
        yield f"  key        {self.key}"
        yield f"  origin     {origin} {total:.1f} ms ({stages})"
        yield f"  lanes      {self.lanes} ({self.lanes_reason})"
        if on_cuda or not where:
            yield f"  threads    up to {self.threads}{' in a block' if where else ''}"
        yield f"  code       {self.code_bytes} bytes"


class Explanation:
    """What ``Kernel.explain`` returns: prints as text, shows as such in notebooks, and holds the ``variants``."""

    def __init__(self, kernel: str, variants: list[Variant]) -> None:
        self.kernel = kernel
        self.variants = variants

    def __str__(self) -> str:
        lines = [f"kernel `{self.kernel}`"]
        for v in self.variants:
            lines += ["", *(f"  {line}" for line in v.lines())]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(kernel: Kernel, programs: Sequence[Program]) -> Explanation:
    """Return what is known of the variants of ``programs``, which are those of ``kernel``."""
    return Explanation(kernel.key, [_variant(p, *found) for p in programs for found in p.artifacts.items()])


def _variant(program: Program, which: tuple[bool, bool, bool], artifact: Artifact) -> Variant:
    contiguous, wide, sums = which
    key = lookup.cache_key(program.kernel.captured_source, program.signatures[which], program.target)
    names, effects = program.kernel.parameter_names, artifact.effects
    return Variant(
        arguments=tuple((name, str(t)) for name, t in zip(names, program.types, strict=True)),
        role="tangent" if program.tangent is not None else "forward" if program.wrt is None else "adjoint",
        contiguous=contiguous,
        wide=wide,
        plain_sums=sums,
        key=key,
        cached=not lookup.was_built(key),
        seconds=artifact.seconds,
        lanes=artifact.schedule.lanes,
        lanes_reason=artifact.schedule.reason,
        threads=program.device.backend.programs.max_threads(program, which),
        code_bytes=len(artifact.code.binary),
        device=str(program.device),
        shares_indices=program.shares_indices,
        assumes="plain additions" if effects.sums or effects.thread_private or effects.reduced else "no overlaps",
        extents=program.extents,
        short_rows=program.short_rows,
    )
