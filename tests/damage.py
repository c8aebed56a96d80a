"""Random damage to the content of a file, for the tests of what is read from disk."""

from __future__ import annotations

import random
from collections.abc import Sequence


def damaged(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return ``data`` with bits flipped, a part lost, moved or zeroed, or replaced by a part of another file."""
    kind = rng.choice(["flip", "flip", "truncate", "lose", "move", "zero", "append", "splice"])
    changed = bytearray(data)
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 2, 16])):
            changed[_place(data, rng)] ^= 1 << rng.randrange(8)
        return bytes(changed)
    begin, end = sorted((_place(data, rng), _place(data, rng)))
    if kind == "truncate":
        return data[:begin]
    if kind == "append":
        return data + data[begin:end]
    if kind == "lose":
        return data[:begin] + data[end:]
    if kind == "move":
        return data[end:] + data[begin:end] + data[:begin]
    if kind == "zero":
        return data[:begin] + bytes(end - begin) + data[end:]
    return data[:begin] + rng.choice(others)[begin:end] + data[end:]


def _place(data: bytes, rng: random.Random) -> int:
    """A position; more often one near the ends, where files say what they hold."""
    near = rng.randrange(min(len(data), 400))
    return rng.choice([rng.randrange(len(data)), near, len(data) - 1 - near])
