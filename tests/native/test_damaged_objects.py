"""Objects with damaged headers, sizes, symbols and relocations: each is refused, or its code lies where it says.

Nothing here runs the code: damage to instructions can't be seen, and is what checksums and owners of files are for.
"""

from __future__ import annotations

import platform
import random
import struct
import sys
from collections.abc import Callable

import numpy as np
import pytest

import warp_like as wp
from tests.native.loading import load_native

native = load_native()

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM loads objects of other systems"
)

COUNT = 500
"""Damaged objects for each seed."""

HEADER, SECTION, SYMBOL, RELOCATION = 64, 64, 24, 24  # bytes of each
SYMBOLS, RELOCATIONS = 2, 4  # types of sections
VALUES = (0, 1, 2, 7, 63, 0xFF, 0xFFF1, 0xFFFF, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 8, 2**63, 2**64 - 1)


@pytest.fixture(scope="module")
def kernel_object() -> tuple[bytes, str]:
    """An object with relocations and calls, and the name of its entry."""

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = wp.sin(x[i]) + wp.erf(x[i]) * 3.0

    x = np.ones(100, np.float32)
    wp.launch(k, 100, [x])
    from warp_like.compiler.lookup import compile_kernel
    from warp_like.compiler.signature import Signature

    code = compile_kernel(k.captured_source, Signature(k.types, options=k.compile_options())).code
    return code.binary, code.entry


def load(data: bytes) -> object:
    return native.load_object(data, dict(native.symbols()))


def sections(data: bytes) -> list[tuple[int, ...]]:
    """Of each: where its header is, its type, its offset and its size."""
    (at,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    rows = [(at + i * SECTION, struct.unpack_from("<IIQQQQ", data, at + i * SECTION)) for i in range(count)]
    return [(where, row[1], row[4], row[5]) for where, row in rows]


def field_places(data: bytes, rng: random.Random) -> tuple[int, int]:
    """The place and width of a field that says where something is, how large, or of which kind."""
    kind = rng.randrange(4)
    found = sections(data)
    if kind == 0:
        return rng.choice([(4, 1), (5, 1), (16, 2), (18, 2), (40, 8), (58, 2), (60, 2), (62, 2)])
    if kind == 1:
        offset, width = rng.choice([(0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)])
        return rng.choice(found)[0] + offset, width
    table, size, fields = (
        (SYMBOLS, SYMBOL, [(0, 4), (4, 1), (6, 2), (8, 8), (16, 8)])
        if kind == 2
        else (RELOCATIONS, RELOCATION, [(0, 8), (8, 4), (12, 4), (16, 8)])
    )
    _, _, begin, length = rng.choice([s for s in found if s[1] == table])
    offset, width = rng.choice(fields)
    return begin + rng.randrange(length // size) * size + offset, width


def with_value(data: bytes, place: int, width: int, value: int) -> bytes:
    return data[:place] + (value % (1 << 8 * width)).to_bytes(width, "little") + data[place + width :]


def check(data: bytes, entry: str) -> str:
    """Load an object; return whether it was loaded, refused as damaged, or left to LLVM's linker."""
    try:
        code = load(data)
    except RuntimeError as e:
        message = str(e)
    else:
        message = ""
    if message:
        assert message.startswith("the object code is damaged: ")
        return "damaged"
    if isinstance(code, str):
        assert code.isprintable() or "undefined symbol" in code
        return "declined"
    if code.has(entry):
        assert any(begin <= code.address(entry) < end for begin, end in executable_memory())
    return "loaded"


def executable_memory() -> list[tuple[int, int]]:
    with open("/proc/self/maps") as f:
        ranges = [line.split(maxsplit=2)[:2] for line in f]
    return [(int(a, 16), int(b, 16)) for r, mode in ranges if "x" in mode for a, b in [r.split("-")]]


@pytest.mark.parametrize("seed", range(2))
def test_random_fields(kernel_object, seed):
    data, entry = kernel_object
    assert check(data, entry) == "loaded"
    rng = random.Random(seed)
    results = []
    for _ in range(COUNT):
        changed = data
        for _ in range(rng.choice((1, 1, 2, 4))):
            place, width = field_places(data, rng)
            old = int.from_bytes(data[place : place + width], "little")
            changed = with_value(changed, place, width, rng.choice((*VALUES, old + 1, old - 1, old ^ 8, len(data))))
        results.append(check(changed, entry))
    assert min(map(results.count, ("damaged", "declined", "loaded"))) > COUNT // 100


@pytest.mark.parametrize("seed", range(2))
def test_every_truncation_is_refused(kernel_object, seed):
    data, entry = kernel_object
    rng = random.Random(seed)
    last = max(where for where, *_ in sections(data)) + SECTION
    for length in (0, 1, 15, 16, 63, 64, *(rng.randrange(min(last, len(data))) for _ in range(100))):
        assert check(data[:length], entry) == "damaged"


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "text": lambda data: b"no object at all" * 100,
    "another machine": lambda data: with_value(data, 18, 2, 183),  # AArch64
    "32 bits": lambda data: with_value(data, 4, 1, 1),
    "another byte order": lambda data: with_value(data, 5, 1, 2),
    "a library": lambda data: with_value(data, 16, 2, 3),
    "no sections": lambda data: with_value(data, 60, 2, 0),
    "no symbols": lambda data: retyped(data, SYMBOLS, 1),
    "a huge alignment": lambda data: every_section(data, 48, 2**64 - 50),
    "an alignment of a page and more": lambda data: every_section(data, 48, 2**16),
    "huge sections": lambda data: every_section(data, 32, 2**29),
    "sections without content": lambda data: retyped(data, 1, 8),
}


def every_section(data: bytes, offset: int, value: int) -> bytes:
    for where, *_ in sections(data)[1:]:
        data = with_value(data, where + offset, 8, value)
    return data


def retyped(data: bytes, old: int, new: int) -> bytes:
    for where, kind, _, _ in sections(data):
        if kind == old:
            data = with_value(data, where + 4, 4, new)
    return data


@pytest.mark.parametrize("change", CHANGES)
def test_objects_that_can_not_be_loaded_here(kernel_object, change):
    data, entry = kernel_object
    assert check(CHANGES[change](data), entry) == "damaged"


def test_a_missing_entry_and_a_missing_function(kernel_object):
    from warp_like.backend import cpu

    data, entry = kernel_object
    with pytest.raises(RuntimeError, match="the object has no function nowhere"):
        cpu.load(data, ("nowhere",), native.symbols())
    renamed = data.replace(b"\0erff\0", b"\0er\xff\xfe\0") if b"\0erff\0" in data else None
    missing = data.replace(entry.encode(), b"\xff" * len(entry))
    assert not load(missing).has(entry)
    if renamed is not None:
        assert "undefined symbol" in load(renamed)


def test_an_entry_outside_of_the_code_is_no_entry(kernel_object):
    data, entry = kernel_object
    _, _, begin, length = next(s for s in sections(data) if s[1] == SYMBOLS)
    for at in range(begin, begin + length, SYMBOL):
        info, _, section = struct.unpack_from("<BBH", data, at + 4)
        if info >> 4 == 1 and section:
            data = with_value(data, at + 6, 2, 0xFFF1)  # an absolute address
    assert not load(data).has(entry)
