"""The target that is this machine, known without loading LLVM.

LLVM names the processor and its features. What it said is kept in the cache under the processor's own identification,
so that a process that finds all its kernels in the cache never loads LLVM.
"""

from __future__ import annotations

import dataclasses
import functools
import json

from warp_like import _native
from warp_like.backend import target
from warp_like.base.hashing import digest
from warp_like.compiler import cache


@functools.lru_cache(maxsize=1)
def host_target() -> target.Target:
    """Return the target of the processor that runs this process."""
    processor = _native.cpu_id()
    if not processor:
        return target.host_target()
    name = f"host-{digest(processor, cache.compiler_fingerprint())}"
    known = _read(name)
    if known is None:
        known = target.host_target()
        cache.write_note(name, json.dumps(dataclasses.asdict(known)))
    return known


def _read(name: str) -> target.Target | None:
    text = cache.read_note(name)
    if text is None:
        return None
    try:
        facts = json.loads(text)
        return target.Target(**facts) if all(isinstance(v, str) for v in facts.values()) else None
    except (ValueError, TypeError, AttributeError):
        return None  # damaged: asked anew, and written anew
