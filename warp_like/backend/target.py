"""Targets and options of a compilation, as plain data: nothing here needs the hardware it names."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Iterable

from warp_like import _native
from warp_like.base.frozen import Frozen


class Target(Frozen):
    """The machine that code is made for.

    Args:
        kind: ``cpu``, ``cuda``, ``amd`` or ``opencl``.
        name: The processor (``znver4``), the architecture of CUDA (``sm_80``) or AMD (``gfx942``), or ``spirv64`` for
            OpenCL.
        features: LLVM's feature string; empty for CUDA. For OpenCL, those of ``OPENCL_FEATURES`` that devices have.
        triple: LLVM's target triple.
        fuse_fp: A multiplication and an addition may become one fused operation, which rounds once.
        vector_math: The vector math library that may be called: ``libmvec`` (glibc 2.35 and later),
            ``libmvec-2.22`` (older glibc, a handful of functions) or empty.
        assembled: For CUDA, machine code (a cubin) is made instead of PTX, for which ``ptxas`` is needed.
        toolkit: The newest major version of CUDA whose ``ptxas`` may make the machine code; 0 for any.
    """

    kind: str
    name: str
    features: str = ""
    triple: str = ""
    vector_math: str = ""
    assembled: bool = False
    toolkit: int = 0

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA architecture."""
        return self.kind == "cuda"

    @property
    def is_amd(self) -> bool:
        """Whether this is an architecture of AMD's GPUs."""
        return self.kind == "amd"

    @property
    def is_gpu(self) -> bool:
        """Whether threads run in warps and blocks that the code knows of: on CUDA and AMD, not on OpenCL."""
        return self.kind in ("cuda", "amd")

    @property
    def is_opencl(self) -> bool:
        """Whether code is made as SPIR-V for OpenCL devices."""
        return self.kind == "opencl"

    @property
    def is_device(self) -> bool:
        """Whether each thread of a grid is a thread of a device, whose memory has address spaces."""
        return self.kind != "cpu"

    @functools.cached_property
    def arch(self) -> int:
        """The number of the CUDA architecture: 80 for ``sm_80`` and 90 for ``sm_90a``; 0 for all others."""
        return int(self.name[3:].rstrip("af")) if self.is_cuda else 0

    def runs_on(self, arch: int) -> bool:
        """Return whether a device of architecture ``arch`` (90 for compute capability 9.0) runs this target's code.

        PTX is compiled for the device when it is loaded; machine code runs on its own major version from its own minor
        version on. Code for ``sm_90a`` runs on that architecture alone, code for ``sm_100f`` on the family as well.
        """
        if self.name.endswith("a"):
            return arch == self.arch
        same_major = arch // 10 == self.arch // 10
        return arch >= self.arch and (same_major or not (self.assembled or self.name.endswith("f")))

    @property
    def matrix_units(self) -> tuple[str, ...]:
        """The types of the factors for which warps have matrix units that code is made for."""
        return ("float64", "float16", "bfloat16") if self.arch >= 80 else ()

    @property
    def sums_pairs(self) -> bool:
        """Whether an instruction adds products of pairs of bfloat16 faster than fused operations on float32 do.

        That is ``vdpbf16ps``. AMD's processors from Zen 4 on are assumed to be as fast at it as at a fused operation,
        which adds half the products; we have not measured them. On Intel's that have it, it takes four times as long
        (Emerald Rapids: 0.73 ns for 32 products, beside 0.18 ns for 16).
        """
        return self.name.startswith("znver") and {"avx512bf16", "avx512vl"} <= self.feature_set

    @property
    def has_async_copies(self) -> bool:
        """Whether threads can let memory be copied to shared memory while they do other work."""
        return self.arch >= 80

    @functools.cached_property
    def feature_set(self) -> frozenset[str]:
        """The names of the features that are switched on."""
        return frozenset(f[1:] for f in self.features.split(",") if f.startswith("+"))

    @property
    def has_native_searches(self) -> bool:
        """Whether functions of the extension may search trees in place of the kernel's own code."""
        suits = self.triple.startswith("x86_64") and "windows" not in self.triple  # as in native/CMakeLists.txt
        return suits and {"avx2", "fma"} <= self.feature_set

    @property
    def vector_bits(self) -> int:
        """The width of vectors that code is made for."""
        if "avx512f" in self.feature_set:
            return 512
        return 256 if "avx" in self.feature_set else 128

    @property
    def has_masked_gathers(self) -> bool:
        """Whether an instruction reads elements at several addresses for some lanes, as fast as loads would."""
        return "avx512f" in self.feature_set

    @property
    def has_fast_gathers(self) -> bool:
        """Whether that takes less time than a load for each lane does where the elements are in the first cache.

        On Intel's processors it takes two thirds; elements in the second cache take 1.5 times as long, though. AMD's
        split a gather into more steps than loads take.
        """
        return self.has_masked_gathers and not self.name.startswith("znver")

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if "avx512f" in self.feature_set or self.triple.startswith("aarch64") else 16

    @property
    def key(self) -> str:
        """A string that is equal for equal targets and for no others."""
        facts = (self.kind, self.name, self.features, self.triple, self.vector_math)
        return "|".join(facts) + ("|cubin" if self.assembled else "") + (f"|{self.toolkit}" if self.toolkit else "")

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


FIRST_TOOLKIT = {
    75: (10, 0), 80: (11, 0), 86: (11, 1), 87: (11, 4), 88: (13, 0), 89: (11, 8), 90: (11, 8),
    100: (12, 8), 103: (12, 9), 110: (13, 0), 120: (12, 8), 121: (12, 9),
}  # fmt: skip
"""The version of CUDA whose assembler first knew an architecture, as in the release notes of PTX."""

CUDA_ARCHITECTURES = tuple(FIRST_TOOLKIT)
"""The compute capabilities, times ten, that code is made for."""


def nearest_architecture(arch: int) -> int:
    """Return the newest architecture that code is made for and whose PTX a device of architecture ``arch`` runs.

    Raises:
        RuntimeError: The device is older than all of them.
    """
    older = [a for a in CUDA_ARCHITECTURES if a <= arch]
    if not older:
        oldest = CUDA_ARCHITECTURES[0]
        raise RuntimeError(
            f"a device of compute capability {arch // 10}.{arch % 10} is too old: code is made for "
            f"{oldest // 10}.{oldest % 10} and later"
        )
    return older[-1]


def cuda_target(arch: str, *, assembled: bool = False, toolkit: int = 0) -> Target:
    """Return the target of a CUDA architecture such as ``sm_80`` (or ``80``)."""
    name = arch if arch.startswith("sm_") else f"sm_{arch}"
    found = re.fullmatch(r"sm_(\d+)[af]?", name)
    if found is None:
        raise ValueError(f"a CUDA architecture is written like sm_80, got {arch!r}")
    if int(found[1]) not in CUDA_ARCHITECTURES:
        known = ", ".join(f"sm_{a}" for a in CUDA_ARCHITECTURES)
        raise ValueError(f"there is no CUDA architecture {name} to compile for; there are {known}")
    return Target("cuda", name, triple="nvptx64-nvidia-cuda", assembled=assembled, toolkit=toolkit)


AMD_ARCHITECTURES = {
    "gfx90a": "", "gfx942": "", "gfx950": "",
    "gfx1030": "+wavefrontsize64", "gfx1100": "+wavefrontsize64", "gfx1201": "+wavefrontsize64",
}  # fmt: skip
"""AMD's architectures that code is made for, with the features that make their wavefronts 64 lanes wide."""


def amd_target(arch: str) -> Target:
    """Return the target of an architecture of AMD's GPUs such as ``gfx942``."""
    if arch not in AMD_ARCHITECTURES:
        raise ValueError(
            f"there is no AMD architecture {arch!r} to compile for; there are {', '.join(AMD_ARCHITECTURES)}"
        )
    return Target("amd", arch, AMD_ARCHITECTURES[arch], "amdgcn-amd-amdhsa")


OPENCL_FEATURES = ("fp64", "fp16", "int64_atomics")
"""What OpenCL devices may have or lack: types, and atomic updates of 64 bits."""


def opencl_target(features: Iterable[str] = OPENCL_FEATURES) -> Target:
    """Return the target of OpenCL devices that have these features."""
    names = ",".join(f"+{name}" for name in OPENCL_FEATURES if name in features)
    return Target("opencl", "spirv64", names, "spirv64-unknown-unknown")


@functools.lru_cache(maxsize=1)
def host_target() -> Target:
    """Return the target of the processor that runs this process."""
    name, features, process = _host()
    triple = object_triple(process)
    return Target("cpu", name, features, triple, _vector_math(triple))


def _host() -> tuple[str, str, str]:
    """Return LLVM's names of the processor, of its features in their order, and of the triple of this process."""
    from warp_like.backend.llvm_tools import preload

    if preload():
        return _native.llvm_host()
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_process_triple()


def object_triple(triple: str) -> str:
    """Return the triple that kernels of a process of this triple are compiled for.

    Windows gets its calling convention in ELF objects, so that the native extension loads the same format everywhere.
    """
    return f"{triple}-elf" if "-windows-" in triple and not triple.endswith("-elf") else triple


def _vector_math(triple: str) -> str:
    if sys.platform != "linux" or not triple.startswith("x86_64"):
        return ""
    library = load_libmvec()
    if library is None:
        return ""
    return "libmvec" if hasattr(library, "_ZGVbN2v_tan") else "libmvec-2.22"


@functools.lru_cache(maxsize=1)
def load_libmvec() -> ctypes.CDLL | None:
    """Load glibc's vector math library so that compiled code finds it; None where there is none."""
    try:
        return ctypes.CDLL("libmvec.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None


class Options(Frozen):
    """How one function is lowered.

    Args:
        contiguous: Every array parameter is C-contiguous, so strides follow from the shape.
        fast_math: Floating-point arithmetic may be reordered and approximated; NaN and infinity keep their
            meaning.
        fuse_fp: A multiplication and an addition may become one fused operation.
        vector_math: The vector math library may stand in for scalar libm (at most 4 ulp).
        debug: Array indices are checked (CPU).
        sums: The array parameters, by position, that are only added to and belong to one OS thread: nothing else
            accesses their memory meanwhile, so that additions need not be atomic.
        thread_private: The array parameters of which each thread of the grid touches its own element alone, so that
            additions need not be atomic.
        reduced: The array parameters, by position, into which all threads reduce at indices that are the same for all,
            and whose memory nothing else accesses meanwhile: registers hold what has come together.
        counters: The array parameters, by position, whose additions are plain where no other OS thread is at work.
        apart: More array parameters, by position, that overlap no other argument.
        constant: The array parameters, by position, whose memory nothing writes to during the launch.
        aligned: The data of contiguous arrays is aligned to ``layout.vector_align`` of their elements.
        places: For GPUs, how many neighbouring places of the grid a thread takes at once (``analysis/streams.py``).
        narrow: For CUDA, the grid and each array parameter have at most ``contract.MAX_NARROW`` threads and elements.
        launch_bounds: For CUDA, the most threads of a block and the fewest blocks of a multiprocessor (0: any).
        max_registers: For CUDA, the most registers of a thread; 0 leaves it to the assembler.
        lineinfo: The code says which line of the source it comes from.
    """

    contiguous: bool = False
    fast_math: bool = False
    fuse_fp: bool = True
    vector_math: bool = True
    debug: bool = False
    sums: tuple[int, ...] = ()
    thread_private: tuple[int, ...] = ()
    reduced: tuple[int, ...] = ()
    counters: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    aligned: bool = False
    places: int = 1
    narrow: bool = False
    launch_bounds: tuple[int, int] | None = None
    max_registers: int = 0
    lineinfo: bool = False

    @property
    def key(self) -> str:
        """A string that is equal for equal options and for no others."""
        flags = (
            self.contiguous, self.fast_math, self.fuse_fp, self.vector_math, self.debug, self.aligned,
            self.lineinfo, self.narrow,
        )  # fmt: skip
        return (
            f"{self.launch_bounds or ''}|{self.max_registers or ''}|{self.places}|"
            + "".join("01"[f] for f in flags)
            + "".join(f"+{i}" for i in self.sums)
            + "".join(f"={i}" for i in self.thread_private)
            + "".join(f"^{i}" for i in self.reduced)
            + "".join(f"#{i}" for i in self.counters)
            + "".join(f"|{i}" for i in self.apart)
            + "".join(f".{i}" for i in self.constant)
        )
