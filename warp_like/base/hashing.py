"""Content hashing for cache keys and checksums."""

from __future__ import annotations

import marshal

try:
    from _blake2 import blake2b  # CPython's own; hashlib would load OpenSSL first, which nothing here needs
except ImportError:
    from hashlib import blake2b


def digest(*parts: str | bytes) -> str:
    """Return a hex digest of ``parts``; where one part ends and the next begins is part of the content."""
    return blake2b(marshal.dumps(parts, 2), digest_size=20).hexdigest()


def checksum(data: bytes) -> bytes:
    """Return 16 bytes that tell whether ``data`` is what it was."""
    return blake2b(data, digest_size=16).digest()
