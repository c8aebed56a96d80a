"""Random DLPack capsules of both kinds, and tensors behind the C exchange API: what they describe, or a refusal.

What is expected is computed with Python's integers, which do not overflow.
"""

import random
from collections import Counter

import numpy as np
import pytest

import warp_like as wp
from tests.interop.capsules import Capsule, Exchanged

MEMORY = np.arange(4096, dtype=np.uint8)
ADDRESS = MEMORY.ctypes.data
COUNT = 2000
"""Capsules for each seed."""

ROOM = 16
"""Extents that are there whatever a capsule says of its dimensions; who reads more reads memory of others."""

HUGE = (2**31, 2**40, 2**61, 2**62, 2**63 - 1, -1, -(2**62), -(2**63))
SHAPES = ((), (0,), (1,), (4,), (2, 3), (3, 0, 2), (2, 2, 2, 2), (1,) * 8, (1,) * 9, (1,) * ROOM, (2**40, 2**40, 0))
STRIDES = (None, None, (), (1,), (2,), (0,), (-1,), (3, 1), (1, 3), (2**62, 1), (-(2**63), 1), (-(2**60), 1))
NDIMS = (-1, -(2**31), 0, 1, 3, 8, 9, 10, ROOM, 64, 65, 2**20, 2**31 - 1)
DATA = (ADDRESS, ADDRESS + 1, ADDRESS + 64, 0, 8, 2**63, 2**64 - 8, 2**64 - 64)
OFFSETS = (1, 4, 8, 64, 2**32, 2**63, 2**64 - ADDRESS, 2**64 - 64, 2**64 - 8, 2**64 - 1)
VERSIONS = (None, (1, 0), (1, 1), (1, 3), (1, 2**32 - 1), (0, 8), (2, 0), (2**32 - 1, 0))
FLAGS = (0, 1, 2, 3, 4, 7, 2**63, 2**64 - 1, 2**64 - 2)
DEVICES = ((1, 0), (1, 5), (3, 0), (2, 0), (13, 0), (0, 0), (-1, 0), (10, 0), (2**31 - 1, -1))
SCALARS = {
    (2, 16, 1): np.float16, (2, 32, 1): np.float32, (2, 64, 1): np.float64, (0, 8, 1): np.int8, (0, 16, 1): np.int16,
    (0, 32, 1): np.int32, (0, 64, 1): np.int64, (1, 8, 1): np.uint8, (1, 16, 1): np.uint16, (1, 32, 1): np.uint32,
    (1, 64, 1): np.uint64, (6, 8, 1): np.bool_, (4, 16, 1): np.uint16,
}  # fmt: skip
OTHERS = (
    (2, 32, 0), (2, 32, 2), (2, 0, 1), (2, 8, 1), (2, 128, 1), (3, 64, 1), (5, 64, 1), (0, 4, 1), (0, 4, 2), (0, 1, 8),
    (6, 1, 1), (6, 8, 65535), (255, 255, 65535), (0, 255, 1), (10, 8, 1), (2, 16, 2), (4, 32, 1),
)  # fmt: skip


def description(rng):
    """A description that is right, but for one to three entries."""
    made = {"data": ADDRESS, "shape": (2, 3), "strides": None, "dtype": (2, 32, 1), "version": None, "flags": 0}
    made |= {"ndim": None, "device": (1, 0), "byte_offset": 0}
    numbers = (0, 1, 2, 3, 4, *HUGE)
    for name in rng.choices(list(made), k=rng.choice((0, 1, 1, 2, 3))):
        made[name] = {
            "data": lambda: rng.choice(DATA),
            "shape": lambda: rng.choice((None, *SHAPES, *(tuple(rng.choices(numbers, k=2)) for _ in SHAPES))),
            "strides": lambda: rng.choice((*STRIDES, *(tuple(rng.choices(numbers, k=2)) for _ in STRIDES))),
            "dtype": lambda: rng.choice((*SCALARS, *OTHERS)),
            "version": lambda: rng.choice(VERSIONS),
            "flags": lambda: rng.choice(FLAGS),
            "ndim": lambda: rng.choice(NDIMS),
            "device": lambda: rng.choice(DEVICES),
            "byte_offset": lambda: rng.choice(OFFSETS),
        }[name]()
    if made["flags"]:
        made["version"] = made["version"] or (1, 0)
    return made


def with_room(made):
    """The description as it is given: more extents and strides lie behind those that count."""
    padded = {name: made[name] if made[name] is None else (*made[name], *(1,) * ROOM) for name in ("shape", "strides")}
    return {**made, **padded, "ndim": dimensions(made)}


def dimensions(made):
    return len(made["shape"] or ()) if made["ndim"] is None else made["ndim"]


def expected(made):
    """The address, shape, strides in bytes, dtype and whether it is read-only; None for a refusal."""
    given, ndim = with_room(made), dimensions(made)
    fine = 0 <= ndim <= 8 and (given["shape"] is not None or ndim == 0)
    fine = fine and made["dtype"] in SCALARS and made["device"][0] in (1, 3)
    if not fine or (made["version"] is not None and made["version"][0] != 1):
        return None
    size = made["dtype"][1] // 8
    shape = (given["shape"] or ())[:ndim]
    strides = tuple(int(np.prod(shape[i + 1 :], dtype=object)) for i in range(ndim))
    if given["strides"] is not None:
        strides = given["strides"][:ndim]
    address = made["data"] + made["byte_offset"]
    strides = tuple(s * size for s in strides)
    # No product may overflow, also where another extent is 0.
    elements = int(np.prod([n for n in shape if n], dtype=object)) if shape else 1
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if n]
    sound = min(shape, default=0) >= 0 and max(elements * size, sum(map(abs, reach))) < 2**63
    sound = sound and all(-(2**63) <= s < 2**63 for s in strides)
    sound = sound and all(s != -(2**63) for s, n in zip(strides, shape, strict=True) if n)
    if not sound:
        return None
    if 0 not in shape:
        last = address + sum(r for r in reach if r > 0) + size
        if not made["data"] or last >= 2**63 or address + sum(r for r in reach if r < 0) < 0:
            return None  # addresses end there
    readonly = made["version"] is not None and bool(made["flags"] & 1)
    return address, shape, strides, SCALARS[made["dtype"]], readonly


def lies_within(memory, address, shape, strides, size):
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + size
    return memory.ctypes.data <= low and high <= memory.ctypes.data + memory.nbytes


def check(a, wanted, made):
    """Whether an array is what is wanted; reads it where it lies in memory of the test's."""
    address, shape, strides, dtype, readonly = wanted
    assert a.shape == (shape or (1,)), made
    assert a.readonly == readonly, made
    if 0 in shape:
        return
    assert a.ptr == address, made
    if shape:
        assert a.strides == strides, made
    size = np.dtype(dtype).itemsize
    if made["dtype"][0] != 4 and lies_within(MEMORY, address, shape, strides, size):  # NumPy has no bfloat16
        seen = np.ndarray(shape, dtype, MEMORY, address - ADDRESS, strides)
        np.testing.assert_array_equal(a.numpy(), seen.reshape(a.shape), err_msg=str(made))


@pytest.mark.parametrize("seed", range(2))
def test_capsules(seed):
    rng = random.Random(seed)
    counts = Counter()
    for _ in range(COUNT):
        made = description(rng)
        capsule, wanted = Capsule(**with_room(made)), expected(made)
        a, why = None, None
        try:
            a = wp.from_dlpack(capsule)
        except (BufferError, TypeError, ValueError) as e:
            why = str(e)
        counts["refused" if a is None else "taken"] += 1
        if a is not None:
            assert wanted is not None, made
            check(a, wanted, made)
            assert capsule.deleted == 0
        elif wanted is not None:
            assert "not aligned" in why, (made, why)
            assert any(n % (made["dtype"][1] // 8) for n in (wanted[0], *wanted[2])), made
        del a
        assert capsule.deleted == capsule.is_used, made  # who took it gives it back, once
    assert min(counts["taken"], counts["refused"]) > COUNT // 10


@wp.kernel
def copy_rows(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = x[i, j]


def tells_of_other_memory(made, wanted, floats):
    """Whether a launch can't tell that the memory is not there: it looks at the address and at each stride alone."""
    if wanted is not None:
        return 0 not in wanted[1] and not lies_within(floats, *wanted[:3], 4)
    shape = (with_room(made)["shape"] or ())[:2]
    possible = 0 < made["data"] < 2**63 and made["data"] + made["byte_offset"] < 2**63
    return dimensions(made) == len(shape) == 2 and min(shape) >= 0 and possible


@pytest.mark.parametrize(("seed", "kind"), [(0, Exchanged), (1, Exchanged), (0, Capsule)])
def test_launches_read_tensors(seed, kind):
    """They do so without Python: each takes what lies in the test's memory, and refuses what can't be."""
    rng = random.Random(100 + seed)
    floats = (MEMORY[:64] % 8).astype(np.float32)
    counts = Counter()
    for _ in range(COUNT // 4):
        made = description(rng) | {"version": None, "flags": 0}
        if made["data"] in (ADDRESS, ADDRESS + 64):
            made["data"] = floats.ctypes.data
        wanted = expected(made)
        if tells_of_other_memory(made, wanted, floats):
            continue
        fits = wanted is not None and len(wanted[1]) == 2 and min(wanted[1][0] - 2, wanted[1][1] - 3) >= 0
        fits = fits and made["dtype"] == (2, 32, 1)
        y = np.full((2, 3), -1, np.float32)
        why = None
        try:
            wp.launch(copy_rows, dim=(2, 3), inputs=[kind(**with_room(made)), y])
        except (BufferError, TypeError, ValueError, IndexError) as e:
            why = str(e)
        counts["taken" if why is None else "refused"] += 1
        if why is not None:
            assert not fits or "not aligned" in why, (made, why)
            np.testing.assert_array_equal(y, -1)
            continue
        assert fits, made
        seen = np.ndarray((2, 3), np.float32, floats, wanted[0] - floats.ctypes.data, wanted[2])
        np.testing.assert_array_equal(y, seen)
    assert min(counts["taken"], counts["refused"]) > COUNT // 40


def test_a_refused_tensor_is_named():
    x = Exchanged(64, None, ndim=2)
    message = r"kernel `copy_rows`, argument 1 `x`: expected array2d\[float32\].*dimensions and does not say how large"
    with pytest.raises((TypeError, ValueError), match=message):
        wp.launch(copy_rows, dim=(2, 3), inputs=[x, np.zeros((2, 3), np.float32)])
