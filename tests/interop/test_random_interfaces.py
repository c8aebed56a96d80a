"""Random ``__array_interface__`` and ``__cuda_array_interface__`` dictionaries: NumPy's array, or a refusal."""

import random

import numpy as np
import pytest

import warp_like as wp

MEMORY = np.arange(4096, dtype=np.uint8)
ADDRESS = MEMORY.ctypes.data
COUNT = 1500
"""Dictionaries for each seed."""

HUGE = (2**31, 2**62, 2**63 - 1, 2**63, 2**64, 2**80)
NUMBERS = (0, 1, 2, 3, 4, 8, 16, -1, -4, -(2**62), *HUGE, True, None, 1.5, "4", (2,))
TYPES = (
    "<f4", "<f8", "<f2", "|u1", "<i4", "<i8", "|b1", "=i4", ">f4", "<c8", "|S3", "<U2", "|V8", "|O", "<M8[ns]", "|V0",
    "f4", "", "<f", "<f999", "<i3", "\0", "<f4,<f4", b"<f4", 4, None, ("<f4",), np.float32,
)  # fmt: skip
SHAPES = ((), (0,), (1,), (4,), (2, 3), (3, 0, 2), (1,) * 8, (1,) * 9, (1,) * 40, (2, 2, 2, 2))
STRIDES = (None, (), (4,), (8,), (-4,), (0,), (12, 4), (4, 12), (3,), (2**62, 4), (-(2**63), 4), (4, 4, 4), "no", 4)
DATA = ((ADDRESS, False), (ADDRESS, True), (ADDRESS + 1, False), (0, False), (-8, False), (2**64 - 8, False))
STRANGE = (
    (ADDRESS,),
    (),
    None,
    ADDRESS,
    "here",
    (str(ADDRESS), False),
    (None, False),
    (1.5, 0),
    (2**70, False),
    b"1234",
)


class Described:
    """An object with an interface, which keeps nothing."""

    def __init__(self, name, interface):
        setattr(self, name, interface)


def shape(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return tuple(rng.choice(NUMBERS) for _ in range(rng.randrange(4)))
    return rng.choice(SHAPES) if kind < 3 else rng.choice((None, 4, "34", [2, 3], (4, "x"), {2: 3}))


def interface(rng):
    """A dictionary that is right, but for one to three entries."""
    made = {"shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False), "version": 3, "strides": None}
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        name = rng.choice(
            ("shape", "typestr", "data", "strides", "version", "mask", "offset", "descr", "stream", "lost")
        )
        if name == "lost":
            made.pop(rng.choice(list(made)), None)
            continue
        made[name] = {
            "shape": shape,
            "typestr": lambda r: r.choice(TYPES),
            "data": lambda r: r.choice((*DATA, *STRANGE, MEMORY, memoryview(MEMORY), bytearray(64), bytes(64))),
            "strides": lambda r: r.choice(STRIDES),
            "version": lambda r: r.choice(NUMBERS),
            "mask": lambda r: r.choice((None, MEMORY, False)),
            "offset": lambda r: r.choice(NUMBERS),
            "descr": lambda r: r.choice(([("", "<f4")], [("a", "<f4"), ("b", "<i4")], None, 4, [()])),
            "stream": lambda r: r.choice(NUMBERS),
        }[name](rng)
    return made if rng.random() < 0.98 else rng.choice((None, 4, [], tuple(made), "text"))


def lies_within(a):
    """Whether all of an array is memory that the test may read."""
    low, high = np.lib.array_utils.byte_bounds(a) if hasattr(np.lib, "array_utils") else np.byte_bounds(a)
    return ADDRESS <= low <= high <= ADDRESS + MEMORY.nbytes


def as_numpy(described):
    """NumPy's view of the object; None where NumPy refuses it or makes something else of it."""
    try:
        a = np.asarray(described)
    except Exception:  # NumPy raises whatever it meets
        return None
    return None if a.dtype == object else a


@pytest.mark.parametrize("seed", range(2))
def test_array_interfaces(seed):
    rng = random.Random(seed)
    taken = refused = 0
    for _ in range(COUNT):
        given = interface(rng)
        described = Described("__array_interface__", given)
        try:
            a = wp.array(described, copy=False)
        except (TypeError, ValueError):
            refused += 1
            continue
        expected = as_numpy(described)
        assert expected is not None, given
        assert a.shape == (expected.shape or (1,)), given
        assert a.readonly == (not expected.flags.writeable), given
        if a.size:
            assert a.ptr == expected.ctypes.data, given
            assert a.ndim == 1 or a.strides == expected.strides or 1 in a.shape, given
        if expected.size < MEMORY.size and lies_within(expected):
            np.testing.assert_array_equal(a.numpy(), expected.reshape(a.shape), err_msg=str(given))
        taken += 1
    assert min(taken, refused) > COUNT // 10


@pytest.mark.parametrize("seed", range(2))
def test_cuda_array_interfaces(seed):
    """Where there is no device, none can be used: each is refused by a message of ours."""
    rng = random.Random(seed)
    messages = set()
    for _ in range(COUNT):
        given = interface(rng)
        with pytest.raises((TypeError, ValueError)) as caught:
            wp.array(Described("__cuda_array_interface__", given), copy=False)
        messages.add(str(caught.value)[:60])
    assert len(messages) > 10
