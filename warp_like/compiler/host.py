"""The target that is this machine, as cache keys name it, known without loading LLVM.

LLVM names the processor and its features. What it said is kept in the cache under the processor's own identification,
so that a process that finds all its kernels in the cache never loads LLVM.
"""

from __future__ import annotations

import functools

from warp_like import _native
from warp_like.base.hashing import digest
from warp_like.compiler import cache


@functools.lru_cache(maxsize=1)
def host_key() -> str:
    """Return the ``key`` of the target that is the processor of this process."""
    processor = _native.cpu_id()
    key = digest("host", processor, cache.compiler_fingerprint())
    known = cache.read_facts(key) if processor else None
    if known is None:
        from warp_like.backend.target import host_target

        known = (host_target().key,)
        if processor:
            cache.write_facts(key, known)
    return str(known[0])


def get_cpu_kernel_cache_key(*, cpu_compiler_flags: str | None = None) -> str:
    """Return a key for names of caches outside: equal where kernels of this processor's cache can be used again.

    It stands for the compiler's own files and the processor; the entries of the cache have hashes of their kernels.

    Args:
        cpu_compiler_flags: Taken for Warp's programs: no compiler with flags is involved.

    Example:
        >>> len(wp.get_cpu_kernel_cache_key()) > 8
        True
    """
    return digest("external cache", cache.compiler_fingerprint(), host_key())
