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


def seal(body: bytes, name: str) -> bytes:
    """Return ``body`` with 16 bytes in front that tell whether it is what it was, and whether it is called ``name``."""
    return _checksum(body, name) + body


def unseal(data: bytes, name: str) -> bytes | None:
    """Return the body of what ``seal`` returned; None if it was changed, cut off, or has another name."""
    body = data[16:]
    return body if _checksum(body, name) == data[:16] else None


def _checksum(body: bytes, name: str) -> bytes:
    found = blake2b(name.encode() + b"\0", digest_size=16)
    found.update(body)
    return bytes(found.digest())
