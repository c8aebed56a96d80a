"""Textures: grids of texels that kernels sample between."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.device import textures as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.patterns import VecOf
from warp_like.builtins.spec import Inline, NoGradient, Special, builtin, declare_row
from warp_like.ir.types import Vec, float32, int32, int64, uint64

_AT, _CHANNELS = VecOf("D", float32), VecOf("N", float32)
_OFFSETS, _WEIGHTS = Vec(3, int64), Vec(3, float32)
_SAMPLE = {"id": uint64, "at": _AT, "lod": float32}

for _name, _params in {"_texture": ("id", "word"), "_add_at": ("address", "i", "x")}.items():
    declare_row(_name, Special(), dict.fromkeys(_params, Any), None, group=PRIVATE, doc="Reach memory of a texture.")
_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_texel_index", device.texel_index, dict.fromkeys(("i", "size", "mode"), int32), int32),
    (
        "_texel_axis",
        device.texel_axis,
        {"about": uint64, "axis": int32, "x": float32, "base": int32, "size": int32},
        (int32, int32, *[float32] * 4),
    ),
    ("_texture_lod", device.texture_lod, {"about": uint64, "lod": float32}, (int32, float32)),
    (
        "_texture_corners",
        device.texture_corners,
        {"id": uint64, "about": uint64, "level": int32, "at": _AT},
        (int64, *[_OFFSETS] * 2, *[_WEIGHTS] * 4),
    ),
    ("_texture_to_texels", device.to_texels, {**_SAMPLE, "g": _CHANNELS}, None),
    ("_texel", device.texel, {"data": uint64, "at": int64, "weight": float32, "zero": _CHANNELS}, _CHANNELS),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, doc="Sample a texture.")

declare_row(
    "_texture_sample",
    Inline(device.sample, outlined=True),
    {**_SAMPLE, "zero": _CHANNELS},
    _CHANNELS,
    group=PRIVATE,
    doc="Sample a texture.",
    to_memory="_texture_to_texels",
    adjoint=lambda b, g, out, id, at, lod, zero: (None, *b.apply("_texture_sample_adjoint", id, at, lod, g), None),
)
declare_row(
    "_texture_sample_adjoint",
    Inline(device.sample_adjoint, outlined=True),
    {**_SAMPLE, "g": _CHANNELS},
    (_AT, float32),
    group=PRIVATE,
    doc="Return the adjoints of the coordinates and of the level of a sample.",
)
declare_row(
    "_texture_places",
    Inline(device.places, outlined=True),
    {"id": uint64, "level": int32, "at": _AT},
    (int64, *[_OFFSETS] * 2, *[_WEIGHTS] * 2),
    group=PRIVATE,
    doc="Return the texels of a sample of one level and their weights.",
    adjoint=NoGradient("only the adjoint of a sample asks for these"),
)


@builtin(
    group="Geometry",
    lower=Special(
        gradient="Samples with linear filters have gradients to the coordinates and to ``lod``, all of them to the "
        "texels of a texture whose data require one."
    ),
    example="tex = wp.Texture2D()  # none, which is 0 everywhere\n"
    "a[0] = wp.texture_sample(tex, wp.vec2(a[0], 0.5), dtype=float)",
)
def texture_sample(tex: Any, *args: Any) -> Any:
    """Return the value of a texture at a place.

    After the texture come its coordinates, one number for each dimension (``u``, ``v``, ``w``) or a vector of them
    (``uv``, ``uvw``), then ``dtype``, which is ``float``, ``wp.vec2`` or ``wp.vec4`` for so many channels, and ``lod``,
    the level of detail: 0 is the finest, and a level is half as large as the one before. Channels that the texture does
    not have are 0. How coordinates count, what is beyond the edges, and how texels are filtered, is the texture's: see
    ``wp.Texture2D``.
    """
