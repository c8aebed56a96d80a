"""Linear algebra on tiles: products, factorisations, solves, Fourier transforms, and their forms in place."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warp_like.base.errors import WarpCodegenTypeError
from warp_like.builtins.loops import counted
from warp_like.builtins.patterns import Literal
from warp_like.builtins.tiles import BY_TENSOR_CORES, tabulated, tile_type
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.frontend.references import holds_tile
from warp_like.frontend.tile_roots import last_name, root_of
from warp_like.frontend.tile_views import TileView
from warp_like.frontend.tiles import parts
from warp_like.frontend.tiles.arguments import Arguments, require_same_shape
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Scalar, Tile, Type, Vec, float32, float64, scalar_of

Handler = Callable[[Context, ast.Call], Operand]
FILLS = ("lower", "upper")
PRECISIONS = ("default", "tf32", "tensor_cores")


# --- products -------------------------------------------------------------------------------------------------


def _matmul(ctx: Context, node: ast.Call) -> Operand:
    """``tile_matmul(a, b, alpha)`` returns a product, ``tile_matmul(a, b, out, alpha, beta)`` changes ``out``."""
    named = {k.arg for k in node.keywords}
    third = root_of(node.args[2]) if len(node.args) > 2 else None
    accumulates = "out" in named or (third is not None and holds_tile(ctx, third))
    params = "a b out alpha beta precision" if accumulates else "a b alpha precision"
    a = Arguments(ctx, node, "tile_matmul", params, 3 if accumulates else 2)
    if accumulates:
        return _accumulate(ctx, a, *_factors(ctx, a), "out", _scale(ctx, a, "alpha"), _scale(ctx, a, "beta"))
    x, y = _factors(ctx, a)
    return _scaled(ctx, _product(ctx, a, x, y, tile_type(x.value).dtype), _scale(ctx, a, "alpha"))


class _Factor:
    """A matrix, which is ``value`` or that transposed.

    ``name`` is the variable, if it is one, and ``turned`` says that ``value`` is what it holds transposed.
    """

    def __init__(self, value: Value, is_transposed: bool, name: str | None = None, *, turned: bool = False) -> None:
        self.value, self.name, self.turned = value, name, turned
        self.is_transposed = is_transposed != turned
        rows, columns = tile_type(value).shape
        self.shape = (columns, rows) if self.is_transposed else (rows, columns)


def _require_precision(a: Arguments, x: _Factor) -> None:
    """Require a precision that factors such as ``x`` have; "tf32" changes nothing, as no product rounds its factors."""
    if a.word("precision", PRECISIONS) == "tf32" and tile_type(x.value).dtype != float32:
        with a.ctx.at(a["precision"]):
            raise WarpCodegenTypeError(f'precision="tf32" is for tiles of float32, got {tile_type(x.value).dtype}')


def _factors(ctx: Context, a: Arguments) -> tuple[_Factor, _Factor]:
    x = _factor(ctx, a, "a")
    y = _factor(ctx, a, "b", x)
    _require_precision(a, x)
    if x.shape[1] != y.shape[0]:
        with ctx.at(a.node):
            raise WarpCodegenTypeError(f"{a.name}() multiplies (M, K) by (K, N), got {x.shape} and {y.shape}")
    return x, y


def _factor(ctx: Context, a: Arguments, param: str, other: _Factor | None = None) -> _Factor:
    """The matrix in ``param``; that of ``other`` where it is the same variable, of which a part is read once then."""
    node, is_transposed = a[param], False
    if isinstance(node, ast.Call) and last_name(node.func) == "tile_transpose" and node.args:
        node, is_transposed = node.args[0], True
    name = node.id if isinstance(node, ast.Name) else None
    if other is not None and name is not None and name == other.name:
        return _Factor(other.value, is_transposed, name, turned=other.turned)
    value, turned = ctx.reference(node), False
    if isinstance(value, TileView):
        turned = value.transposed is not None
        with ctx.at(node):
            value = (value.transposed or value).read(ctx.b, ctx.viewed(value))
    if not isinstance(value, Value) or not isinstance(value.type, Tile) or len(value.type.shape) != 2:
        with ctx.at(node):
            raise WarpCodegenTypeError(f"`{param}` of {a.name}() is a tile of 2 dimensions, got {describe(value)}")
    t = value.type.dtype
    if not isinstance(t, Scalar) or not t.is_float:
        with ctx.at(node):
            raise WarpCodegenTypeError(f"`{param}` of {a.name}() has float elements, got {t}")
    return _Factor(value, is_transposed, name, turned=turned)


def _product(ctx: Context, a: Arguments, x: _Factor, y: _Factor, t: Type) -> Value:
    """``x @ y``, added up in ``t``."""
    if x.is_transposed and y.is_transposed:
        x = _Factor(_transposed(ctx, x.value), False)
    values = [ctx.b.cast(f.value, Tile(tile_type(f.value).shape, t)) for f in (x, y)]
    name = "_tile_product_tn" if x.is_transposed else "_tile_product_nt" if y.is_transposed else "_tile_product"
    end = BY_TENSOR_CORES if a.word("precision", PRECISIONS) == "tensor_cores" else ""
    got = ctx.apply(f"{name}{end}", *values)
    assert isinstance(got, Value)
    return got


def _transposed(ctx: Context, x: Value) -> Value:
    got = ctx.apply("_tile_transposed", x)
    assert isinstance(got, Value)
    return got


def _scale(ctx: Context, a: Arguments, param: str) -> Operand | None:
    """A factor of the product; None for one."""
    if not a.has(param):
        return None
    operand = ctx.expr(a[param])
    return None if isinstance(operand, Literal) and operand.value == 1 else operand


def _scaled(ctx: Context, x: Value, by: Operand | None) -> Value:
    if by is None:
        return x
    t = tile_type(x).dtype
    factor = ctx.b.constant(by.value, t) if isinstance(by, Literal) else ctx.b.cast(ctx.settle(by), t)
    got = ctx.apply("mul", x, factor)
    assert isinstance(got, Value)
    return got


def _accumulate(
    ctx: Context, a: Arguments, x: _Factor, y: _Factor, param: str, alpha: Operand | None, beta: Operand | None
) -> Operand:
    out = parts.changing(ctx, a, param)
    shape = (x.shape[0], y.shape[1])
    if out.shape != shape:
        with ctx.at(a[param]):
            raise WarpCodegenTypeError(f"{a.name}() adds a product of shape {shape} to `{param}`, which is {out.shape}")
    made = _scaled(ctx, _product(ctx, a, x, y, out.dtype), alpha)
    known = ops.constant_value(beta) if isinstance(beta, Value) else getattr(beta, "value", 1)
    if known == 1:
        parts.combine(ctx, out, "add", made)  # in place, without a copy of a part
        return NOTHING
    old = a.tile(param)
    if known is None:
        assert isinstance(beta, Value)
        made = _sum(ctx, _scaled_or_zero(ctx, old, beta), made)
    elif known != 0:
        made = _sum(ctx, _scaled(ctx, old, beta), made)
    parts.replace(ctx, out, made)
    return NOTHING


def _scaled_or_zero(ctx: Context, x: Value, by: Value) -> Value:
    """``by * x``, and zero where ``by`` is 0, whatever ``x`` holds."""
    b, t = ctx.b, tile_type(x)
    factor = b.cast(by, t.dtype)
    none, zero = b.eq(factor, 0.0), b.zero(t.dtype)
    return tabulated(b, t, lambda at: b.select(none, zero, b.mul(factor, b.extract(x, *at))))


def _sum(ctx: Context, x: Value, y: Value) -> Value:
    got = ctx.apply("add", x, y)
    assert isinstance(got, Value)
    return got


def _transpose_update(ctx: Context, node: ast.Call) -> Operand:
    """``tile_matmul_transpose_update(a, b, out, alpha, beta)``: ``out = alpha * a @ b^T + beta * out``."""
    a = Arguments(ctx, node, "tile_matmul_transpose_update", "a b out alpha beta precision", 3)
    x = _factor(ctx, a, "a")
    y = _factor(ctx, a, "b", x)
    _require_precision(a, x)
    y = _Factor(y.value, not y.is_transposed)
    if x.shape[1] != y.shape[0]:
        raise WarpCodegenTypeError(
            f"{a.name}() multiplies (M, K) by (N, K) transposed, got {x.shape} and {y.shape[::-1]}"
        )
    return _accumulate(ctx, a, x, y, "out", _scale(ctx, a, "alpha"), _scale(ctx, a, "beta"))


def _diag_add(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_diag_add", "a d", 2)
    x, d = a.tile("a"), a.tile("d")
    t = tile_type(x)
    if len(t.shape) != 2 or t.shape[0] != t.shape[1] or tile_type(d) != Tile(t.shape[:1], t.dtype):
        raise WarpCodegenTypeError(f"tile_diag_add() takes a square tile and its diagonal, got {t} and {d.type}")
    b = ctx.b

    def element(at: tuple[Value, ...]) -> Value:
        y = b.extract(x, *at)
        return b.select(b.eq(*at), b.add(y, b.extract(d, at[0])), y)

    return tabulated(b, t, element)


# --- factorisations and solves --------------------------------------------------------------------------------


def _square(ctx: Context, a: Arguments, param: str) -> Value:
    x = a.tile(param)
    t = tile_type(x)
    if len(t.shape) != 2 or t.shape[0] != t.shape[1] or t.dtype not in (float32, float64):
        with ctx.at(a[param]):
            raise WarpCodegenTypeError(f"`{param}` of {a.name}() is a square tile of float32 or float64, got {t}")
    return x


def _cholesky_of(ctx: Context, a: Arguments, x: Value) -> Value:
    """The Cholesky factor of ``x``, as ``fill_mode`` says."""
    is_lower = a.word("fill_mode", FILLS) == "lower"
    got = ctx.apply("_tile_cholesky", x if is_lower else _transposed(ctx, x))
    assert isinstance(got, Value)
    text = f"{a.name}(): the matrix is not positive definite, pivot {{0}} is not positive"
    _require_diagonal(ctx, a.node, got, text, "gt")
    return got if is_lower else _transposed(ctx, got)


def _require_diagonal(ctx: Context, node: ast.AST, m: Value, text: str, relation: str) -> None:
    """Let debug mode check how the elements on a diagonal compare with 0; ``text`` gets the number of the first."""
    b, n = ctx.b, tile_type(m).shape[0]

    def row(i: Value, found: Value) -> list[Value]:
        ok = b.apply(relation, b.extract(m, i, i), b.zero(tile_type(m).dtype))
        return [b.select(b.bit_or(ok, b.lt(found, n)), found, i)]

    with ctx.at(node):
        (found,) = counted(b, 0, n, [b.index(n)], row)
        b.insert(ops.Check("pivot", text, b.eq(found, n), (found,)))


def _cholesky(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_cholesky", "A fill_mode", 1)
    return _cholesky_of(ctx, a, _square(ctx, a, "A"))


def _cholesky_inplace(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_cholesky_inplace", "A fill_mode", 1)
    view = parts.changing(ctx, a, "A")
    parts.replace(ctx, view, _cholesky_of(ctx, a, _square(ctx, a, "A")))
    return NOTHING


def _solve(name: str, params: str, solve: Callable[[Context, Arguments, Value, Value], Value]) -> dict[str, Handler]:
    """The handlers of a solve and of its form in place; ``params`` names the matrix, the right side and options."""
    matrix, right = params.split()[:2]

    def solved(ctx: Context, a: Arguments) -> Value:
        m, y = _square(ctx, a, matrix), a.tile(right)
        t, n = tile_type(y), tile_type(m).shape[0]
        if len(t.shape) > 2 or t.shape[0] != n or t.dtype != tile_type(m).dtype:
            with ctx.at(a[right]):
                raise WarpCodegenTypeError(
                    f"`{right}` of {a.name}() is a tile of {n} rows of {tile_type(m).dtype}, got {with_article(str(t))}"
                )
        text = f"{a.name}(): the matrix is singular, element {{0}} of the diagonal of `{matrix}` is 0"
        _require_diagonal(ctx, a.node, m, text, "ne")
        if len(t.shape) == 2:
            return solve(ctx, a, m, y)
        b = ctx.b
        column = tabulated(b, Tile((n, 1), t.dtype), lambda at: b.extract(y, at[0]))
        x = solve(ctx, a, m, column)
        return tabulated(b, t, lambda at: b.extract(x, at[0], b.index(0)))

    def build(ctx: Context, node: ast.Call) -> Operand:
        return solved(ctx, Arguments(ctx, node, name, params, 2))

    def build_inplace(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, f"{name}_inplace", params, 2)
        view = parts.changing(ctx, a, right)
        parts.replace(ctx, view, solved(ctx, a))
        return NOTHING

    return {name: build, f"{name}_inplace": build_inplace}


def _apply(ctx: Context, row: str, m: Value, y: Value) -> Value:
    got = ctx.apply(row, m, y)
    assert isinstance(got, Value)
    return got


def _cholesky_solve(ctx: Context, a: Arguments, m: Value, y: Value) -> Value:
    if a.word("fill_mode", FILLS) == "lower":
        return _apply(ctx, "_tile_lower_solve_t", m, _apply(ctx, "_tile_lower_solve", m, y))
    return _apply(ctx, "_tile_upper_solve", m, _apply(ctx, "_tile_upper_solve_t", m, y))


# --- in place -------------------------------------------------------------------------------------------------


def _changed_by(name: str, params: str, operator: str) -> Handler:
    """``tile_add_inplace(a, b)``."""

    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, name, params, 2)
        view = parts.changing(ctx, a, "a")
        old, by = a.tile("a"), a.tile("b")
        require_same_shape(ctx, node, name, old, by)
        parts.combine(ctx, view, operator, by)
        return NOTHING

    return build


def _axpy(ctx: Context, node: ast.Call) -> Operand:
    a = Arguments(ctx, node, "tile_axpy", "alpha src dest", 3)
    view = parts.changing(ctx, a, "dest")
    source, old = a.tile("src"), a.tile("dest")
    require_same_shape(ctx, node, "tile_axpy", source, old)
    scalar = scalar_of(old.type)
    assert scalar is not None
    alpha = ctx.convert(ctx.expr(a["alpha"]), scalar, "`alpha` of tile_axpy()", a["alpha"])
    scaled = ctx.apply("mul", source, alpha)
    assert isinstance(scaled, Value)
    parts.combine(ctx, view, "add", scaled)
    return NOTHING


def _transform(name: str) -> Handler:
    def build(ctx: Context, node: ast.Call) -> Operand:
        a = Arguments(ctx, node, name, "inout", 1)
        view: TileView = parts.changing(ctx, a, "inout")
        if not isinstance(view.dtype, Vec) or view.dtype.length != 2 or not view.dtype.dtype.is_float:
            with ctx.at(a["inout"]):
                raise WarpCodegenTypeError(f"{name}() takes a tile of vectors of 2 floats, got {view.type}")
        got = ctx.apply(f"_{name}", a.tile("inout"))
        assert isinstance(got, Value)
        parts.replace(ctx, view, got)
        return NOTHING

    return build


HANDLERS: dict[str, Handler] = {
    "tile_matmul": _matmul,
    "tile_matmul_transpose_update": _transpose_update,
    "tile_diag_add": _diag_add,
    "tile_cholesky": _cholesky,
    "tile_cholesky_inplace": _cholesky_inplace,
    **_solve("tile_lower_solve", "L y", lambda ctx, a, m, y: _apply(ctx, "_tile_lower_solve", m, y)),
    **_solve("tile_upper_solve", "U z", lambda ctx, a, m, y: _apply(ctx, "_tile_upper_solve", m, y)),
    **_solve("tile_cholesky_solve", "L y fill_mode", _cholesky_solve),
    "tile_add_inplace": _changed_by("tile_add_inplace", "a b", "add"),
    "tile_sub_inplace": _changed_by("tile_sub_inplace", "a b", "sub"),
    **{f"tile_{o}_inplace": _changed_by(f"tile_{o}_inplace", "a b", o) for o in ("bit_and", "bit_or", "bit_xor")},
    "tile_axpy": _axpy,
    "tile_fft": _transform("tile_fft"),
    "tile_ifft": _transform("tile_ifft"),
}
