"""A compiled kernel as bytes: object code and what the runtime must know about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

_MAGIC = b"warp_like artifact 1\n"


class Damaged(Exception):
    """Bytes that are not a whole artifact."""


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel.

    Attributes:
        entry: The name of the entry point.
        code: Object code (CPU) or PTX text (CUDA).
        reads: Positions of the array parameters that the entry reads.
        writes: Positions of the array parameters that the entry stores to or updates.
        stores: Positions of those that it overwrites (not only updates).
        sums: Positions of those that it only adds to.
        own: Positions of those that it adds to, of which each thread of the grid touches its own element alone.
        extremes: Positions of those that it updates by ``atomic_min`` or ``atomic_max``.
        rewrites: Positions of those that it loads from as well as overwrites.
        scratch: For an adjoint, positions of the arrays of which it takes copies from before the launch, as its last
            parameters.
        tid_ndim: The fewest dimensions that the entry folds the grid into.
        prints: Whether it prints.
        lanes: How many threads it runs side by side in vector registers.
        lanes_reason: Why so many.
        seconds: How long each stage took when it was compiled.
    """

    entry: str
    code: bytes
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    stores: tuple[int, ...]
    sums: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    extremes: tuple[int, ...] = ()
    rewrites: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()
    tid_ndim: int = 4
    prints: bool = False
    lanes: int = 1
    lanes_reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the artifact with a checksum in front."""
        facts = asdict(self)
        del facts["code"]
        head = json.dumps(facts).encode()
        body = len(head).to_bytes(8, "little") + head + self.code
        return _MAGIC + hashlib.blake2b(body, digest_size=16).digest() + body

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """Return the artifact that ``to_bytes`` wrote.

        Raises:
            Damaged: The bytes are truncated, changed or of another format.
        """
        start = len(_MAGIC) + 16
        body = data[start:]
        if data[: len(_MAGIC)] != _MAGIC or hashlib.blake2b(body, digest_size=16).digest() != data[len(_MAGIC) : start]:
            raise Damaged("checksum or format differs")
        size = int.from_bytes(body[:8], "little")
        facts = json.loads(body[8 : 8 + size])
        for name in ("reads", "writes", "stores", "sums", "own", "extremes", "rewrites", "scratch"):
            facts[name] = tuple(facts[name])
        return Artifact(code=body[8 + size :], **facts)
