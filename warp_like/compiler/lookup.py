"""From a kernel's source to its artifact, by way of the cache.

A process that finds its kernels in the cache stops here: the compiler itself (``pipeline``, the passes, LLVM) is
imported when something must be compiled.
"""

from __future__ import annotations

from warp_like.backend.target import Target
from warp_like.base.hashing import digest
from warp_like.compiler import cache
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.signature import Signature
from warp_like.frontend.closure import reachable
from warp_like.frontend.source import Source


def compile_kernel(source: Source, signature: Signature, target: Target) -> Artifact:
    """Return the artifact of one variant of a kernel, from the cache where it is there.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    key = cache_key(source, signature, target)
    artifact = cache.read(key)
    if artifact is None:
        from warp_like.compiler import pipeline

        artifact = pipeline.build(source, signature, target)
        cache.write(key, artifact)
    return artifact


def cache_key(source: Source, signature: Signature, target: Target) -> str:
    """Return the hash of all that decides what is compiled."""
    outside = [f"{name}={text}" for name, text in reachable(source)]
    return digest(cache.compiler_fingerprint(), source.text, *outside, str(signature), target.key)
