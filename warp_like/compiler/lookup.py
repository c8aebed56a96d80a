"""From a kernel's source to its artifact, by way of the cache.

A process that finds its kernels in the cache stops here: the compiler itself (``pipeline``, the passes, LLVM) is
imported when something must be compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warp_like.backend.llvm_tools import preload
from warp_like.base import log
from warp_like.base.collector import rare_collections
from warp_like.base.hashing import digest
from warp_like.compiler import cache
from warp_like.compiler.artifact import Artifact
from warp_like.compiler.host import host_key
from warp_like.compiler.signals import deferred_signals
from warp_like.compiler.signature import Signature
from warp_like.frontend import closure
from warp_like.frontend.names import Captured
from warp_like.frontend.source import Source

if TYPE_CHECKING:
    from warp_like.backend.target import Target
    from warp_like.compiler.pipeline import Draft


def compile_kernel(source: Source, signature: Signature, target: Target | None = None) -> Artifact:
    """Return the artifact of one variant of a kernel, from the cache where it is there.

    ``target`` None stands for this machine, which needs no LLVM unless something is compiled.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    with deferred_signals(), rare_collections():
        source = captured(source)
        key = cache_key(source, signature, target)
        artifact = cache.read(key)
        if artifact is None:
            preload()
            from warp_like.backend.target import host_target
            from warp_like.compiler import pipeline

            drafted = None if target is not None else _drafts.pop(_draft_key(source, signature), None)
            artifact = pipeline.build(source, signature, target or host_target(), drafted)
            _note_built(key)
            cache.write(key, artifact)
        else:
            log.info(f"found kernel `{source.name}` in the cache")
    return artifact


def kernel_facts(source: Source, signature: Signature) -> Artifact:
    """Return the artifact of one variant for this machine, without code where it has not been compiled yet.

    What the passes have made of it is kept for ``compile_kernel``.

    Raises:
        WarpCodegenError: The kernel can't be compiled, or not differentiated.
    """
    with deferred_signals(), rare_collections():
        source = captured(source)
        for rows in (signature.short_rows, not signature.short_rows):
            # The facts are the same, and one of both may be all that was compiled.
            artifact = cache.read(cache_key(source, signature.replace(short_rows=rows)))
            if artifact is not None:
                return artifact
        preload()
        from warp_like.backend.target import host_target
        from warp_like.compiler import pipeline

        drafted = pipeline.draft(source, signature, host_target())
        _keep(_draft_key(source, signature), drafted)
    return drafted.facts


_MAX_DRAFTS = 64
"""Drafts of kernels that are gone or never run backward would stay. One that was dropped is made again."""

_drafts: dict[str, Draft] = {}
"""Variants by ``_draft_key`` that have no code yet: those of which a tape needed the facts alone, so far."""


def _draft_key(source: Source, signature: Signature) -> str:
    """Return the key of the variants that a draft serves: for additions and rows of all kinds."""
    return cache_key(source, signature.replace(sums=True, short_rows=False))


def _keep(key: str, draft: Draft) -> None:
    for oldest in list(_drafts)[: len(_drafts) + 1 - _MAX_DRAFTS]:
        _drafts.pop(oldest, None)
    _drafts[key] = draft


_MAX_BUILT = 4096
_built: dict[str, None] = {}


def was_built(key: str) -> bool:
    """Return whether this process compiled what has this key, as one of the last; else it came from the cache."""
    return key in _built


def _note_built(key: str) -> None:
    for oldest in list(_built)[: len(_built) + 1 - _MAX_BUILT]:
        _built.pop(oldest, None)
    _built[key] = None


def cache_key(source: Source, signature: Signature, target: Target | None = None) -> str:
    """Return the hash of all that decides what is compiled."""
    o = signature.options
    names = capture(source)
    places = names.places if o.debug or o.verify_fp or o.lineinfo else ()
    outside = [f"{name}={text}" for name, text in (*names.meanings, *places)]
    where = host_key() if target is None else target.key
    return digest(cache.compiler_fingerprint(), source.text, *outside, str(signature), where)


def source_key(source: Source) -> str:
    """Return a hash of a kernel's text and of all that it reaches, whatever it is compiled for and by."""
    return digest(source.text, *(f"{name}={text}" for name, text in capture(source).meanings))


def capture(source: Source) -> Captured:
    """Return what the names that a kernel reaches meant when it was captured; where that was not done, mean now."""
    return source.around if isinstance(source.around, Captured) else capture_now(source)


def capture_now(source: Source) -> Captured:
    """Return what the names that a kernel reaches mean, looked up as ``source`` does."""
    with deferred_signals(), rare_collections():
        return closure.capture(source, _references)


def captured(source: Source) -> Source:
    """Return the source with its names as they were captured, or as they are now."""
    return source.within(capture(source))


def _references(source: Source) -> closure.References:
    """The names that a definition mentions. They follow from its text, so they are stored, and it is parsed once."""
    found: closure.References = source.mentioned or _find_references(source)
    source.mentioned = found
    return found


def _find_references(source: Source) -> closure.References:
    key = digest("references", cache.compiler_fingerprint(), source.text)
    known = cache.read_facts(key)
    if known is not None:
        found = closure.References(*known)
        if found.fit(source):
            return found
    preload()  # the text is new, so it will be compiled
    import warp_like.compiler.pipeline  # noqa: F401 (here, as the key waits for LLVM, which names the processor)

    found = closure.references(source)
    cache.write_facts(key, tuple(found))
    return found
