"""Random numbers: a state of 32 bits, made from a seed and advanced by every call that is given the variable.

On the host, functions return a number and leave the state as it was.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins.device import random as device
from warp_like.builtins.patterns import Pattern
from warp_like.builtins.spec import Inline, NoGradient, builtin, declare_row
from warp_like.ir.types import Array, Vec, float32, int32, int64, uint32

GROUP = "Random"
DRAWN = NoGradient("what is drawn does not depend on a float")
VEC2, VEC3 = Vec(2, float32), Vec(3, float32)

# --- references -----------------------------------------------------------------------------------------------


def _pcg(x: Any) -> int:
    state = (int(x) * 747796405 + 2891336453) % 2**32
    word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737 % 2**32
    return (word >> 22) ^ word


def _unit(state: int) -> float:
    return (state >> 8) / 2**24


def _after(state: Any, count: int) -> list[int]:
    """The next ``count`` states."""
    found = []
    for _ in range(count):
        state = _pcg(state)
        found.append(state)
    return found


def _signed(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def _randi(state: Any, low: Any = 0, high: Any = None) -> tuple[Any, ...]:
    s = _pcg(state)
    if high is None:
        return _signed(s), s
    span = (int(high) - int(low)) % 2**32
    return _signed((s % span if span else 0) + int(low)), s


def _randu(state: Any, low: Any = 0, high: Any = None) -> tuple[Any, ...]:
    value, s = _randi(state, low, high)
    return value % 2**32, s


def _randf(state: Any, low: Any = 0.0, high: Any = 1.0) -> tuple[Any, ...]:
    s = _pcg(state)
    return low + (high - low) * _unit(s), s


def _randn(state: Any) -> tuple[Any, ...]:
    first, second = _after(state, 2)
    return np.sqrt(-2 * np.log(max(_unit(first), 2.0**-25))) * np.cos(2 * np.pi * _unit(second)), second


def _surface(height: float) -> Callable[..., Any]:
    """The points of the unit sphere down to ``1 - height``."""

    def ref(state: Any) -> tuple[Any, ...]:
        first, second = _after(state, 2)
        z, angle = 1 - height * _unit(first), 2 * np.pi * _unit(second)
        r = np.sqrt(1 - z * z)
        return np.array([r * np.cos(angle), r * np.sin(angle), z]), second

    return ref


def _inside(surface: Callable[..., Any]) -> Callable[..., Any]:
    def ref(state: Any) -> tuple[Any, ...]:
        point, s = surface(state)
        last = _pcg(s)
        return point * np.cbrt(_unit(last)), last

    return ref


def _triangle(state: Any) -> tuple[Any, ...]:
    first, second = _after(state, 2)
    r = np.sqrt(_unit(first))
    return np.array([1 - r, _unit(second) * r]), second


def _ring(state: Any) -> tuple[Any, ...]:
    s = _pcg(state)
    return np.array([np.cos(2 * np.pi * _unit(s)), np.sin(2 * np.pi * _unit(s))]), s


def _disk(state: Any) -> tuple[Any, ...]:
    first, second = _after(state, 2)
    return np.sqrt(_unit(first)) * _ring(first)[0], second


def _box(n: int) -> Callable[..., Any]:
    def ref(state: Any) -> tuple[Any, ...]:
        states = _after(state, n)
        return np.array([_unit(s) - 0.5 for s in states]), states[-1]

    return ref


# --- state ----------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.init), ref=lambda seed: _pcg(int(seed) % 2**32), adjoint=DRAWN)
def rand_init(seed: int32) -> uint32:
    """Return the state of a random number generator: ``state = wp.rand_init(seed)``."""


def _init(seed: Any, offset: Any) -> int:
    return _pcg((int(seed) + _pcg(int(offset) % 2**32)) % 2**32)


@builtin(name="rand_init", group=GROUP, lower=Inline(device.init_offset), ref=_init, adjoint=DRAWN)
def rand_init_offset(seed: int32, offset: int32) -> uint32:
    """Return a state for each ``offset``, such as the index of the thread: ``state = wp.rand_init(seed, i)``."""


@builtin(name="rand_init", group=GROUP, lower=Inline(device.init_offset), ref=_init, adjoint=DRAWN)
def rand_init_wide(seed: int32, offset: int64) -> uint32:
    """Return a state for each ``offset``, of which the low 32 bits count."""


# --- numbers --------------------------------------------------------------------------------------------------


def _declare(
    name: str,
    body: Callable[..., Any],
    ref: Callable[..., Any] | None,
    result: Pattern,
    doc: str,
    *,
    adjoint: NoGradient | None = DRAWN,
    assigns: tuple[str, ...] = ("state",),
    example: str = "",
    **params: Pattern,
) -> None:
    """Declare a row that takes ``state`` and ``params`` and returns a number and the next state."""
    given, made = {"state": uint32, **params}, (result, uint32)
    more = {"ref": ref, "adjoint": adjoint, "assigns": assigns, "example": example}
    declare_row(name, Inline(body), given, made, group=GROUP, doc=doc, **more)


def _step(name: str, body: Callable[..., Any], result: Any, doc: str, **params: Pattern) -> None:
    """Declare a row that only the bodies of others use."""
    declare_row(name, Inline(body), params, result, group=GROUP, doc=doc, adjoint=DRAWN)


_step("_pcg", device.pcg, uint32, "Return the hash of 32 bits.", x=uint32)
_step("_unit", device.unit, float32, "Return the number in [0, 1) that a state stands for.", state=uint32)
_step("_log_factorial", device.log_factorial, float32, "Return the logarithm of ``k!``.", k=float32)
PAIR = (uint32, uint32)
_step("_poisson_small", device.poisson_small, PAIR, "Draw for a small mean.", state=uint32, lam=float32)
_step("_poisson_large", device.poisson_large, PAIR, "Draw for a large mean.", state=uint32, lam=float32)
_step("_sphere_surface", device.sphere_surface, (VEC3, uint32), "Draw a point of the unit sphere.", state=uint32)
_step("_hemisphere_surface", device.hemisphere_surface, (VEC3, uint32), "Draw a point above the plane.", state=uint32)

_declare("randi", device.randi, _randi, int32, "Return a random 32-bit integer.")
_declare(
    "randi",
    device.randi_range,
    _randi,
    int32,
    "Return a random integer of ``low <= n < high``.",
    low=int32,
    high=int32,
)
_declare("randu", device.randu, _randu, uint32, "Return a random unsigned 32-bit integer.")
_declare(
    "randu",
    device.randu_range,
    _randu,
    uint32,
    "Return a random unsigned integer of ``low <= n < high``.",
    low=uint32,
    high=uint32,
)
_declare("randf", device.randf, _randf, float32, "Return a random number in [0, 1), a multiple of 2**-24.")
_declare(
    "randf",
    device.randf_range,
    _randf,
    float32,
    "Return a random number between ``low`` and ``high``, with gradients for both.",
    adjoint=None,
    low=float32,
    high=float32,
)
_declare("randn", device.randn, _randn, float32, "Return a normally distributed number, of mean 0 and variance 1.")
_declare(
    "sample_cdf",
    device.cdf,
    None,
    int32,
    "Return the first index ``i`` with ``cdf[i] >= u`` for a random ``u`` in [0, 1): a draw from the distribution\n"
    "whose cumulative sums ``cdf`` holds; the last index if there is none.",
    example="state = wp.rand_init(7, wp.tid())\nn[wp.tid()] = wp.sample_cdf(state, a)",
    cdf=Array(float32, 1),
)
_declare(
    "sample_triangle",
    device.triangle,
    _triangle,
    VEC2,
    "Return two barycentric coordinates of a uniformly random point in a triangle.",
)
_declare("sample_unit_ring", device.ring, _ring, VEC2, "Return a random point of the unit circle.")
_declare("sample_unit_disk", device.disk, _disk, VEC2, "Return a uniformly random point in the unit circle.")
_declare(
    "sample_unit_sphere_surface",
    device.sphere_surface,
    _surface(2.0),
    VEC3,
    "Return a uniformly random point of the unit sphere.",
)
_declare(
    "sample_unit_sphere",
    device.sphere,
    _inside(_surface(2.0)),
    VEC3,
    "Return a uniformly random point in the unit sphere.",
)
_declare(
    "sample_unit_hemisphere_surface",
    device.hemisphere_surface,
    _surface(1.0),
    VEC3,
    "Return a uniformly random point of the unit sphere with ``z >= 0``.",
)
_declare(
    "sample_unit_hemisphere",
    device.hemisphere,
    _inside(_surface(1.0)),
    VEC3,
    "Return a uniformly random point in the unit sphere with ``z >= 0``.",
)
_declare("sample_unit_square", device.square, _box(2), VEC2, "Return a random point in the square from -0.5 to 0.5.")
_declare("sample_unit_cube", device.cube, _box(3), VEC3, "Return a random point in the cube from -0.5 to 0.5.")
_declare(
    "poisson",
    device.poisson,
    None,
    uint32,
    "Return a random count of the Poisson distribution of mean ``lam``; 0 for a mean that is not positive, for which\n"
    "the state stays as it was.",
    example="state = wp.rand_init(7, wp.tid())\nn[wp.tid()] = int(wp.poisson(state, 2.5))",
    lam=float32,
)
