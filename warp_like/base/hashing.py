"""Content hashing for cache keys and checksums."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # CPython's own; hashlib would load OpenSSL first, which nothing here needs
except ImportError:
    from hashlib import blake2b


def digest(*parts: str | bytes) -> str:
    """Return a hex digest of ``parts``; where one part ends and the next begins is part of the content."""
    h = blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def checksum(data: bytes) -> bytes:
    """Return 16 bytes that tell whether ``data`` is what it was."""
    return blake2b(data, digest_size=16).digest()
