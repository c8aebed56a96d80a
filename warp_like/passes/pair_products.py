"""Products of tiles of bfloat16, which the user lets be summed in another way, as sums of pairs.

That is for targets that are fast at it (``Target.sums_pairs``). Differentiation has been: the adjoints of such products
are such products. Only products are changed whose factors are bfloat16, perhaps converted to float32, and that read
their factors often enough to pay for copies of them in pairs (``builtins/tiles.py``). Products by
``precision="default"`` stay as they are.

Before::

    kernel k(%x: array1d[bfloat16]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : bfloat16
      %2 = fill %1 : tile[4, 2] of bfloat16
      %3 = load %x[%0] : bfloat16
      %4 = fill %3 : tile[2, 16] of bfloat16
      %5 = _tile_product_by_tensor_cores %2, %4 : tile[4, 16] of bfloat16
      %6 = constant 0 : int32
      %7 = constant 0 : int32
      %8 = extract %5[%6, %7] : bfloat16
      store %x[%0], %8
      yield
    }

After::

    kernel k(%x: array1d[bfloat16]) {
      %0 = tid 0 of 1 : int32
      %1 = load %x[%0] : bfloat16
      %2 = fill %1 : tile[4, 2] of bfloat16
      %3 = load %x[%0] : bfloat16
      %4 = fill %3 : tile[2, 16] of bfloat16
      %5 = empty : tile[4, 1] of uint32
      %6 = constant 0 : int32
      %7 = constant 4 : int32
      %8 = constant 1 : int32
      %9 = for %11 in %6, %7, %8 (%10 = %5) : tile[4, 1] of uint32 {
        %12 = constant 0 : int32
        %13 = constant 1 : int32
        %14 = constant 1 : int32
        %15 = for %17 in %12, %13, %14 (%16 = %10) : tile[4, 1] of uint32 {
          %18 = constant 2 : int32
          %19 = mul %17, %18 : int32
          %20 = extract %2[%11, %19] : bfloat16
          %21 = constant 1 : int32
          %22 = add %19, %21 : int32
          %23 = extract %2[%11, %22] : bfloat16
          %24 = bitcast %20 : uint16
          %25 = cast %24 : uint32
          %26 = bitcast %23 : uint16
          %27 = cast %26 : uint32
          %28 = constant 16 : uint32
          %29 = lshift %27, %28 : uint32
          %30 = bit_or %25, %29 : uint32
          %31 = insert %16[%11, %17], %30 : tile[4, 1] of uint32
          yield %31
        }
        yield %15
      }
      %32 = empty : tile[1, 16] of uint32
      %33 = constant 0 : int32
      %34 = constant 1 : int32
      %35 = constant 1 : int32
      %36 = for %38 in %33, %34, %35 (%37 = %32) : tile[1, 16] of uint32 {
        %39 = constant 0 : int32
        %40 = constant 16 : int32
        %41 = constant 1 : int32
        %42 = for %44 in %39, %40, %41 (%43 = %37) : tile[1, 16] of uint32 {
          %45 = constant 2 : int32
          %46 = mul %38, %45 : int32
          %47 = extract %4[%46, %44] : bfloat16
          %48 = constant 1 : int32
          %49 = add %46, %48 : int32
          %50 = extract %4[%49, %44] : bfloat16
          %51 = bitcast %47 : uint16
          %52 = cast %51 : uint32
          %53 = bitcast %50 : uint16
          %54 = cast %53 : uint32
          %55 = constant 16 : uint32
          %56 = lshift %54, %55 : uint32
          %57 = bit_or %52, %56 : uint32
          %58 = insert %43[%38, %44], %57 : tile[1, 16] of uint32
          yield %58
        }
        yield %42
      }
      %59 = empty : tile[4, 16] of float32
      %60 = constant 0 : int32
      %61 = constant 4 : int32
      %62 = constant 4 : int32
      %63 = for %65 in %60, %61, %62 (%64 = %59) : tile[4, 16] of float32 {
        %66 = constant 0 : int32
        %67 = constant 16 : int32
        %68 = constant 1 : int32
        %69 = for simd %71 in %66, %67, %68 (%70 = %64) : tile[4, 16] of float32 {
          %72 = constant 1 : int32
          %73 = add %65, %72 : int32
          %74 = constant 2 : int32
          %75 = add %65, %74 : int32
          %76 = constant 3 : int32
          %77 = add %65, %76 : int32
          %78 = constant 0.0 : float32
          %79 = constant 0 : int32
          %80 = constant 1 : int32
          %81 = constant 1 : int32
          %82, %83, %84, %85 = for %90 in %79, %80, %81 (%86 = %78, %87 = %78, %88 = %78, %89 = %78) : float32, float32, float32, float32 {
            %91 = extract %9[%65, %90] : uint32
            %92 = extract %9[%73, %90] : uint32
            %93 = extract %9[%75, %90] : uint32
            %94 = extract %9[%77, %90] : uint32
            %95 = extract %36[%90, %71] : uint32
            %96 = _dot_of_pairs %86, %91, %95 : float32
            %97 = _dot_of_pairs %87, %92, %95 : float32
            %98 = _dot_of_pairs %88, %93, %95 : float32
            %99 = _dot_of_pairs %89, %94, %95 : float32
            yield %96, %97, %98, %99
          }
          %100 = insert %70[%65, %71], %82 : tile[4, 16] of float32
          %101 = insert %100[%73, %71], %83 : tile[4, 16] of float32
          %102 = insert %101[%75, %71], %84 : tile[4, 16] of float32
          %103 = insert %102[%77, %71], %85 : tile[4, 16] of float32
          yield %103
        }
        yield %69
      }
      %104 = cast %63 : tile[4, 16] of bfloat16
      %105 = constant 0 : int32
      %106 = constant 0 : int32
      %107 = extract %104[%105, %106] : bfloat16
      store %x[%0], %107
      yield
    }
"""  # noqa: E501

from __future__ import annotations

from warp_like.base.loc import at
from warp_like.builtins.tiles import BY_TENSOR_CORES, is_wide_in_float32, product_of_pairs, tile_type
from warp_like.ir import ops
from warp_like.ir.core import Function, Op, Value
from warp_like.ir.types import bfloat16, float16, float32
from warp_like.passes.rewriter import Rewriter, rewrite

PRODUCTS = {
    "_tile_product": (False, False),
    "_tile_product_nt": (False, True),
    "_tile_product_tn": (True, False),
}
"""The products of tiles, and whether each of their factors stands for its transpose."""


def pair_products(f: Function) -> Function:
    """Put the sums of pairs in the place of such products of ``f``, in place."""
    return rewrite(f, _Pairs())


class _Pairs(Rewriter):
    def visit(self, o: Op) -> None:
        if not isinstance(o, ops.Apply) or not o.fn.endswith(BY_TENSOR_CORES):
            super().visit(o)
            return
        turned = PRODUCTS[o.fn.removesuffix(BY_TENSOR_CORES)]
        x, y = map(before_widening, o.args)
        m, n = tile_type(o.result).shape
        if not tile_type(x).dtype == tile_type(y).dtype == bfloat16 or not is_wide_in_float32(m, n):
            self.keep(o)
            return
        with at(o.loc):
            made = product_of_pairs(self.b, x, y, turned_x=turned[0], turned_y=turned[1])
            self.replace(o, [self.b.cast(made, o.result.type)])


def before_widening(v: Value) -> Value:
    """The tile of floats of 16 bits that ``v`` is in float32; ``v`` if it is none."""
    o = v.op
    is_wide = isinstance(o, ops.Cast) and tile_type(v).dtype == float32
    return o.x if is_wide and isinstance(o, ops.Cast) and tile_type(o.x).dtype in (float16, bfloat16) else v


__all__ = ["PRODUCTS", "before_widening", "pair_products"]
