"""Gradient noise, its periodic form and its curl; float32, smooth, and differentiable with respect to the position.

A jet is the vector of a value and its partial derivatives. The derivative of a noise is read off its jet; that of a
curl, which is made of jets, is found by differentiating them.
"""
# mypy: disable-error-code="valid-type, empty-body, no-redef"

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from warp_like.builtins.device import noise as device
from warp_like.builtins.emit import Emitter
from warp_like.builtins.patterns import VecOf
from warp_like.builtins.random import GROUP, _after, _pcg, _unit
from warp_like.builtins.spec import Adjoints, Elementwise, Expand, Inline, NoGradient, builtin, declare_row
from warp_like.ir.core import Value
from warp_like.ir.types import Type, Vec, float32, int32, uint32, with_scalar

LATTICE = NoGradient("the lattice is constant")
_PRIMES = (73856093, 19349663, 53471161, 10000019)

# --- references -----------------------------------------------------------------------------------------------


def _gradient(state: int, corner: tuple[int, ...]) -> Any:
    seed = (corner[-1] * _PRIMES[len(corner) - 1] + state) % 2**32
    for x, prime in zip(corner[:-1], _PRIMES, strict=False):
        seed ^= x * prime % 2**32
    if len(corner) == 1:
        return np.array([2 * _unit(_pcg(seed)) - 1])
    g = np.array([_unit(s) - 0.5 for s in _after(seed, len(corner))])
    return g / np.linalg.norm(g)


def _jet(state: Any, x: Any, period: tuple[Any, ...] = ()) -> Any:
    """The value and its derivatives, as the sum over the corners of weight times linear function."""
    x = np.atleast_1d(np.asarray(x))
    if not np.isfinite(x).all():
        return np.full(1 + len(x), math.nan)
    base = np.floor(x)
    d = (x - base).astype(np.float64)
    fade, slope = d**3 * (d * (d * 6 - 15) + 10), 30 * d**2 * (d - 1) ** 2
    low = [_wrapped(int(n), period, axis) for axis, n in enumerate(base)]
    high = [_wrapped(n + 1, period, axis) for axis, n in enumerate(low)]
    jet = np.zeros(1 + len(x))
    for side in itertools.product((0, 1), repeat=len(x)):
        at = np.array(side)
        g = _gradient(int(state), tuple(high[k] if s else low[k] for k, s in enumerate(side)))
        weights, slopes = np.where(at, fade, 1 - fade), np.where(at, slope, -slope)
        value, weight = float(np.dot(d - at, g)), float(np.prod(weights))
        jet[0] += weight * value
        for k in range(len(x)):
            jet[1 + k] += weight * g[k] + slopes[k] * np.prod(np.delete(weights, k)) * value
    return jet


def _wrapped(n: int, period: tuple[Any, ...], axis: int) -> int:
    if not period:
        return n
    return n % int(period[axis]) if period[axis] else 0


def _noise(state: Any, x: Any) -> Any:
    return _jet(state, x)[0]


def _pnoise(state: Any, x: Any, *period: Any) -> Any:
    return _jet(state, x, period)[0]


def _curl(state: Any, x: Any, octaves: Any, lacunarity: Any, gain: Any) -> Any:
    state, total = int(state), np.zeros(2 if len(x) == 2 else 3)
    for i in range(int(octaves)):
        p = x * lacunarity**i
        a = _jet(state, p)
        if len(x) == 2:
            total += gain**i * np.array([-a[2], a[1]])
            continue
        state = _pcg((state + _pcg(10019689)) % 2**32)
        b = _jet(state, p)
        state = _pcg((state + _pcg(13112221)) % 2**32)
        c = _jet(state, p)
        total += gain**i * np.array([c[2] - b[3], a[3] - c[1], b[1] - a[2]])
    return total


# --- steps ----------------------------------------------------------------------------------------------------


def _step(name: str, lower: Any, result: Any, adjoint: Any = None, **params: Any) -> None:
    """Declare a row that only the bodies of others use."""
    declare_row(name, lower, params, result, group=GROUP, doc="Return a step of noise.", adjoint=adjoint)


def _blend(axis: int) -> Callable[..., Value]:
    """Blend two jets along an axis; ``t`` is how far the position is from the first one."""

    def body(b: Emitter, low: Value, high: Value, t: Value) -> Value:
        difference = b.sub(high, low)
        out = b.add(low, b.mul(difference, b.apply("_fade", t)))
        across = b.mul(b.extract(difference, 0), b.apply("_fade_slope", t))
        return b.insert_component(out, b.add(b.extract(out, 1 + axis), across), 1 + axis)

    return body


def _cell(b: Emitter, x: Value) -> Value:
    return b.cast(x, with_scalar(x.type, int32))


def _wrap(b: Emitter, x: Value, period: Value) -> Value:
    rest = b.mod(x, period)
    other_side = b.bit_and(b.ne(rest, 0), b.ne(b.lt(rest, 0), b.lt(period, 0)))
    return b.select(other_side, b.add(rest, period), rest)


N_FLOATS, N_INTS = VecOf("N", float32), VecOf("N", int32)
JETS = {n: Vec(n + 1, float32) for n in (1, 2, 3, 4)}
POINTS: dict[int, Type] = {1: float32, **{n: Vec(n, float32) for n in (2, 3, 4)}}
CELLS = {n: with_scalar(t, int32) for n, t in POINTS.items()}

_step("_fade", Inline(device.fade), float32, t=float32)
_step("_fade_slope", Inline(device.fade_slope), float32, t=float32)
_step("_floor", Expand(lambda b, x: b.floor(x)), float32, adjoint=LATTICE, x=float32)
_step("_floor", Elementwise("floor"), N_FLOATS, adjoint=LATTICE, x=N_FLOATS)
_step("_wrap", Expand(_wrap), int32, adjoint=LATTICE, x=int32, period=int32)
_step("_wrap", Elementwise("_wrap"), N_INTS, adjoint=LATTICE, x=N_INTS, period=N_INTS)
for _axis, _letter in enumerate("xyzw"):
    _step(f"_blend_{_letter}", Expand(_blend(_axis)), N_FLOATS, low=N_FLOATS, high=N_FLOATS, t=float32)

_bodies: dict[int, tuple[Any, Any]] = {
    1: (device.corner_1, device.line),
    2: (device.corner_2, device.square),
    3: (device.corner_3, device.cube),
    4: (device.corner_4, device.hypercube),
}
for _n, (_corner, _whole) in _bodies.items():
    _step("_cell", Expand(_cell), CELLS[_n], adjoint=LATTICE, x=POINTS[_n])
    _lattice = dict.fromkeys("xyzt"[:_n], int32)
    _step("_corner", Inline(_corner), JETS[_n], state=uint32, **_lattice, d=POINTS[_n])
    _step("_jet_in_cell", Inline(_whole), JETS[_n], state=uint32, low=CELLS[_n], high=CELLS[_n], d=POINTS[_n])
    _step("_noise_jet", Inline(device.jet), JETS[_n], state=uint32, x=POINTS[_n])
    _step("_pnoise_jet", Inline(device.periodic_jet), JETS[_n], state=uint32, x=POINTS[_n], period=CELLS[_n])
_in_cell = {"state": uint32, "low": CELLS[3], "high": CELLS[3]}
_step("_face", Inline(device.face_of_cube), JETS[3], **_in_cell, z=int32, d=POINTS[3])
_in_cell = {"state": uint32, "low": CELLS[4], "high": CELLS[4]}
_step("_face", Inline(device.face_of_hypercube), JETS[4], **_in_cell, z=int32, t=int32, d=POINTS[4])
_step("_cube", Inline(device.cube_of_hypercube), JETS[4], **_in_cell, t=int32, d=POINTS[4])

# --- noise ----------------------------------------------------------------------------------------------------


def _jet_of(b: Emitter, state: Value, x: Value, *period: Value) -> Value:
    if not period:
        return b.apply("_noise_jet", state, x)  # type: ignore[no-any-return]
    cell = with_scalar(x.type, int32)
    whole = b.make(cell, list(period)) if isinstance(cell, Vec) else period[0]
    return b.apply("_pnoise_jet", state, x, whole)  # type: ignore[no-any-return]


def _value(b: Emitter, state: Value, x: Value, *period: Value) -> Value:
    return b.extract(_jet_of(b, state, x, *period), 0)


def _slope(b: Emitter, g: Value, state: Value, x: Value, *period: Value) -> Adjoints:
    slopes = b.components(_jet_of(b, state, x, *period))[1:]
    slope = b.make(x.type, slopes) if isinstance(x.type, Vec) else slopes[0]
    return (None, b.mul(slope, g), *(None for _ in period))


_VALUE = Expand(lambda b, state, x: _value(b, state, x))


def _adjoint(b: Emitter, g: Value, out: Value, state: Value, x: Value) -> Adjoints:
    return _slope(b, g, state, x)


@builtin(group=GROUP, lower=_VALUE, ref=_noise, adjoint=_adjoint)
def noise(state: uint32, x: float32) -> float32:
    """Return smooth noise along a line: 0 at integers, between -1 and 1, and differentiable.

    ``state`` chooses the noise and stays as it is: make it with ``wp.rand_init(seed)``.
    """


@builtin(name="noise", group=GROUP, lower=_VALUE, ref=_noise, adjoint=_adjoint)
def noise_2(state: uint32, xy: POINTS[2]) -> float32:
    """Return smooth noise in the plane."""


@builtin(name="noise", group=GROUP, lower=_VALUE, ref=_noise, adjoint=_adjoint)
def noise_3(state: uint32, xyz: POINTS[3]) -> float32:
    """Return smooth noise in space."""


@builtin(name="noise", group=GROUP, lower=_VALUE, ref=_noise, adjoint=_adjoint)
def noise_4(state: uint32, xyzt: POINTS[4]) -> float32:
    """Return smooth noise in space that changes with time."""


@builtin(
    group=GROUP,
    lower=Expand(lambda b, state, x, px: _value(b, state, x, px)),
    ref=_pnoise,
    adjoint=lambda b, g, out, state, x, px: _slope(b, g, state, x, px),
)
def pnoise(state: uint32, x: float32, px: int32) -> float32:
    """Return noise that repeats after the period ``px``, to both sides of zero."""


@builtin(
    name="pnoise",
    group=GROUP,
    lower=Expand(lambda b, state, xy, px, py: _value(b, state, xy, px, py)),
    ref=_pnoise,
    adjoint=lambda b, g, out, state, xy, px, py: _slope(b, g, state, xy, px, py),
)
def pnoise_2(state: uint32, xy: POINTS[2], px: int32, py: int32) -> float32:
    """Return noise in the plane that repeats after the periods ``px`` and ``py``."""


@builtin(
    name="pnoise",
    group=GROUP,
    lower=Expand(lambda b, state, xyz, px, py, pz: _value(b, state, xyz, px, py, pz)),
    ref=_pnoise,
    adjoint=lambda b, g, out, state, xyz, px, py, pz: _slope(b, g, state, xyz, px, py, pz),
)
def pnoise_3(state: uint32, xyz: POINTS[3], px: int32, py: int32, pz: int32) -> float32:
    """Return noise in space that repeats after the periods ``px``, ``py`` and ``pz``."""


@builtin(
    name="pnoise",
    group=GROUP,
    lower=Expand(lambda b, state, xyzt, px, py, pz, pt: _value(b, state, xyzt, px, py, pz, pt)),
    ref=_pnoise,
    adjoint=lambda b, g, out, state, xyzt, px, py, pz, pt: _slope(b, g, state, xyzt, px, py, pz, pt),
)
def pnoise_4(state: uint32, xyzt: POINTS[4], px: int32, py: int32, pz: int32, pt: int32) -> float32:
    """Return noise in space and time that repeats after a period along each axis."""


# --- curls ----------------------------------------------------------------------------------------------------


@builtin(group=GROUP, lower=Inline(device.curl_2), ref=_curl)
def curlnoise(
    state: uint32, xy: POINTS[2], octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5
) -> POINTS[2]:
    """Return a smooth velocity field without divergence: the curl of a noise.

    It is the sum of ``octaves`` fields, each ``lacunarity`` times finer and ``gain`` times weaker than the one before.
    """


@builtin(name="curlnoise", group=GROUP, lower=Inline(device.curl), ref=_curl)
def curlnoise_3(
    state: uint32, xyz: POINTS[3], octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5
) -> POINTS[3]:
    """Return a smooth velocity field in space without divergence: the curl of three noises."""


@builtin(name="curlnoise", group=GROUP, lower=Inline(device.curl), ref=_curl)
def curlnoise_4(
    state: uint32, xyzt: POINTS[4], octaves: uint32 = 1, lacunarity: float32 = 2.0, gain: float32 = 0.5
) -> POINTS[3]:
    """Return a smooth velocity field without divergence in space, which changes with time."""
