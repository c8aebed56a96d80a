"""``wp.texture_sample``: its forms, and the channels that it gives."""

from __future__ import annotations

import ast

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.frontend.arguments import arguments, type_argument
from warp_like.frontend.context import Context
from warp_like.frontend.operands import Operand
from warp_like.ir.core import Value
from warp_like.ir.objects import TEXTURES
from warp_like.ir.types import Vec, float32

_CHANNELS = {float32: 1, Vec(2, float32): 2, Vec(4, float32): 4}


def texture_sample(ctx: Context, node: ast.Call) -> Operand:
    """``wp.texture_sample(tex, u, v, dtype=float)``, or with a vector of the coordinates."""
    texture, ndim = _texture(ctx, node)
    names = tuple("uvw"[:ndim])
    operands = [ctx.expr(given) for given in node.args[1:2]]
    by_vector = any(k.arg == "uvw"[:ndim] for k in node.keywords) or any(_is_vector(x) for x in operands)
    place = ("uvw"[:ndim],) if by_vector and ndim > 1 else names
    params = ("tex", *place, "dtype", "lod")
    given = arguments(node, "texture_sample", params, len(params) - 1)
    wanted = Vec(ndim, float32) if len(place) < ndim else float32
    operands += [ctx.expr(given[p]) for p in place[len(operands) :]]
    values = [ctx.convert(x, wanted, f"`{p}`", given[p]) for p, x in zip(place, operands, strict=True)]
    at = values[0] if len(place) < ndim else ctx.b.make(Vec(ndim, float32), values)
    channels = type_argument(ctx, given["dtype"], "dtype")
    count = _CHANNELS.get(channels)
    if count is None:
        with ctx.at(given["dtype"]):
            raise WarpCodegenTypeError(f"a sample of a texture is float, wp.vec2 or wp.vec4, got {channels}")
    lod = ctx.b.constant(-1.0, float32)
    if "lod" in given:
        lod = ctx.convert(ctx.expr(given["lod"]), float32, "`lod`", given["lod"])
    found = ctx.apply("_texture_sample", ctx.b.get_field(texture, 0), at, lod, ctx.b.zero(Vec(count, float32)))
    assert isinstance(found, Value)
    return ctx.b.components(found)[0] if count == 1 else found


def _texture(ctx: Context, node: ast.Call) -> tuple[Value, int]:
    if not node.args:
        raise WarpCodegenTypeError("texture_sample() is missing argument `tex`")
    texture = ctx.value(node.args[0])
    for ndim, t in TEXTURES.items():
        if texture.type == t:
            return texture, ndim
    with ctx.at(node.args[0]):
        raise WarpCodegenTypeError(
            f"texture_sample() takes a wp.Texture1D, wp.Texture2D or wp.Texture3D, got {texture.type}"
        )


def _is_vector(x: Operand) -> bool:
    return isinstance(x, Value) and isinstance(x.type, Vec)
