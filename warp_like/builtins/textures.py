"""Textures: grids of texels that kernels sample between."""
# mypy: disable-error-code="valid-type, empty-body, no-redef, syntax"

from typing import Any

from warp_like.builtins.device import textures as device
from warp_like.builtins.hash_grid import PRIVATE
from warp_like.builtins.spec import Inline, Special, builtin, declare_row
from warp_like.ir.types import Vec, float32, int32, int64, uint64

_VEC4 = Vec(4, float32)
_POINT = {"u": float32, "v": float32, "w": float32}
_SHOWN = {"ndim": int32, "n": int32}

declare_row("_texture", Special(), {"id": Any, "word": Any}, None, group=PRIVATE, doc="Read memory of an object.")
_BODIES: tuple[tuple[str, Any, dict[str, Any], Any], ...] = (
    ("_texel_index", device.texel_index, {"i": int64, "size": int64, "mode": int32}, int64),
    (
        "_texel_axis",
        device.texel_axis,
        {"id": uint64, "x": float32, "axis": int32, "base": int64, "size": int64},
        (int64, int64, float32),
    ),
    ("_texel", device.texel, {"data": uint64, "at": int64, "stride": int64, "n": int32}, _VEC4),
    ("_texture_level", device.level_sample, {"id": uint64, "level": int32, **_POINT, **_SHOWN}, _VEC4),
    ("_texture_sample", device.sample, {"id": uint64, **_POINT, "lod": float32, **_SHOWN}, _VEC4),
)
for _name, _body, _taken, _given in _BODIES:
    declare_row(_name, Inline(_body, called=True), _taken, _given, group=PRIVATE, doc="Sample a texture.")


@builtin(
    group="Geometry",
    lower=Special(gradient="Samples with linear filters have gradients to the coordinates and to ``lod``."),
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
