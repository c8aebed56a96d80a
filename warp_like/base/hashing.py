"""Content hashing for cache keys."""

from __future__ import annotations

import hashlib


def digest(*parts: str | bytes) -> str:
    """Return a hex digest of ``parts``; where one part ends and the next begins is part of the content."""
    h = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()
