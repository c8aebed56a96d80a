"""Why a call of a builtin has no overload: one sentence, and what to write instead where that is known.

A suggestion is only made after checking that it resolves.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from warp_like.base.frozen import Frozen
from warp_like.builtins.overload import NoMatch, Overload, Resolved
from warp_like.builtins.patterns import Argument, Env, Literal, Pattern, int_range, substitute, unify
from warp_like.ir import types as ir

_SUFFIX = {
    "int8": "b", "uint8": "ub", "int16": "s", "uint16": "us", "int32": "i", "uint32": "ui", "int64": "l",
    "uint64": "ul", "float16": "h", "float32": "", "float64": "d",
}  # fmt: skip

_INSTEAD = {
    ("mul", ir.Vec, ir.Vec): "wp.cw_mul({0}, {1}) multiplies by component, wp.dot({0}, {1}) is the dot product",
    ("div", ir.Vec, ir.Vec): "wp.cw_div({0}, {1}) divides by component",
    ("div", ir.Mat, ir.Mat): "wp.cw_div({0}, {1}) divides by component, {0} @ wp.inverse({1}) by the matrix",
}  # fmt: skip
"""Replacements for operators that do not exist, by builtin and kinds of operands."""


class Call(Frozen):
    """A call that failed: ``symbol`` is the operator it was written as, ``texts`` the source of its arguments."""

    name: str
    args: tuple[Argument, ...]
    rows: tuple[Overload, ...]
    symbol: str | None = None
    texts: tuple[str, ...] | None = None

    @property
    def shown(self) -> str:
        """The operator or function that the user called."""
        return f"`{self.symbol}`" if self.symbol else f"{self.name}()"

    def text(self, i: int) -> str:
        """The source of argument ``i``, or the parameter's name."""
        if self.texts is not None:
            return self.texts[i]
        arg = self.args[i]
        if isinstance(arg, Literal):
            return repr(arg.value)
        fitting = [r for r in self.rows if len(r.params) == len(self.args)]
        return fitting[0].params[i]

    def written(self, texts: Sequence[str]) -> str:
        """The call with other arguments, as source text."""
        if self.symbol is None:
            return f"wp.{self.name}({', '.join(texts)})"
        return f" {self.symbol} ".join(map(_operand, texts)) if len(texts) > 1 else f"{self.symbol}{_operand(texts[0])}"

    def resolves(self, args: Sequence[Argument]) -> bool:
        """Whether the call is fine with ``args``."""
        return any(len(r.params) == len(args) and isinstance(r.match(args), Resolved) for r in self.rows)


def _operand(text: str) -> str:
    """``text`` in parentheses where an operator beside it would tear it apart."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    loose = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp))
    return f"({text})" if loose else text


def explain(call: Call) -> NoMatch:
    """Return the error that says what is wrong with ``call``."""
    fitting = [r for r in call.rows if len(r.params) == len(call.args)]
    if not fitting:
        return _wrong_count(call)
    return _too_large(call) or _mixed(call) or _wrong_operands(call) or _wrong_argument(call, fitting)


def _wrong_count(call: Call) -> NoMatch:
    counts = sorted({len(r.params) for r in call.rows})
    takes = " or ".join(map(str, counts))
    signatures = " or ".join(dict.fromkeys(r.signature() for r in call.rows))
    plural = "" if counts == [1] else "s"
    return NoMatch(f"{call.shown} takes {takes} argument{plural}, got {len(call.args)}", signatures)


def _too_large(call: Call) -> NoMatch | None:
    """A literal that its neighbour's integer type can't hold."""
    scalars = _scalars(call.args)
    if len(scalars) != 1 or not scalars[0].is_int:
        return None
    for arg in call.args:
        if isinstance(arg, Literal) and type(arg.value) is int and not arg.fits(scalars[0]):
            lo, hi = int_range(scalars[0])
            message = f"{arg.value} does not fit {scalars[0]}, whose range is {lo} to {hi}"
            return NoMatch(message, _in_64_bits(call))
    return None


def _in_64_bits(call: Call) -> str | None:
    """The call with its integers as int64, where that holds the literals."""
    wide = [a if isinstance(a, Literal) else _converted(a, ir.int64, lambda s: s.is_int) for a in call.args]
    return _rewritten(call, wide) if call.resolves(wide) else None


def _mixed(call: Call) -> NoMatch | None:
    """Arguments that would go together if their scalar types were the same."""
    unified = _unified(call)
    if unified is None or not call.resolves(unified):
        return None
    whole = all(s.is_int for s in _scalars(call.args))
    culprits = [
        a for a in call.args if (isinstance(a.value, float) and whole if isinstance(a, Literal) else _is_number(a))
    ]
    given = list(dict.fromkeys(map(str, culprits)))
    return NoMatch(f"{call.shown} does not mix types: {_listed(given, 'and')}", _rewritten(call, unified))


def _wrong_operands(call: Call) -> NoMatch | None:
    if call.symbol is None:
        return None
    kinds = tuple(ir.Scalar if isinstance(a, Literal) else type(a) for a in call.args)
    help = _INSTEAD.get((call.name, *kinds)) if len(kinds) == 2 else None
    if help is not None:
        help = help.format(*(call.text(i) for i in range(2)))
    given = _listed([str(a) for a in call.args], "and")
    return NoMatch(f"{call.shown} does not take {given}", help or _product(call) or _suggestion(call))


def _product(call: Call) -> str | None:
    """``i * i`` for ``i ** 2`` of integers, which have no power."""
    if call.name != "pow" or call.symbol is None or call.texts is None:
        return None
    base, exponent = call.args
    if not isinstance(exponent, Literal) or exponent.value not in (2, 3):
        return None
    if not isinstance(base, ir.Scalar) or not base.is_int or "(" in call.texts[0].strip("("):
        return None
    return " * ".join([_operand(call.texts[0])] * int(exponent.value))


def _wrong_argument(call: Call, fitting: list[Overload]) -> NoMatch:
    failed = [(r.match(call.args), r) for r in fitting]
    position = max(at for at, _ in failed if isinstance(at, int))
    needs = dict.fromkeys(_needed(r, call.args, position) for at, r in failed if at == position)
    param = next(r.params[position] for at, r in failed if at == position)
    got = call.args[position]
    message = f"{call.shown} needs {_listed(list(needs), 'or')} for argument {position + 1} `{param}`, got {got}"
    return NoMatch(message, _suggestion(call), position)


def _needed(row: Overload, args: Sequence[Argument], position: int) -> str:
    """The types that ``row`` needs at ``position``, given the other arguments."""
    env: Env = {}
    for i, a in enumerate(args):
        if i != position and not isinstance(a, Literal):
            unify(row.patterns[i], a, env)
    pattern: Pattern = row.patterns[position]
    if pattern == ir.bool_:
        return "a bool"
    try:
        return str(substitute(pattern, env)) if env else str(pattern)
    except KeyError:
        return str(pattern)


# --- suggestions ----------------------------------------------------------------------------------------------


def _suggestion(call: Call) -> str | None:
    """The call with arguments converted such that it resolves, as source text."""
    to_int = [_converted(a, ir.int32, lambda s: s.is_bool) for a in call.args]
    to_float = [_converted(a, ir.float32, lambda s: not s.is_float) for a in call.args]
    candidates = [[_element(a) for a in call.args], to_int, to_float, _filled(call)]
    for i, a in enumerate(call.args):
        if isinstance(a, ir.Scalar) and not a.is_bool:
            candidates.append([*call.args[:i], ir.bool_, *call.args[i + 1 :]])
    for args in candidates:
        if args is not None and call.resolves(args):
            return _rewritten(call, args)
    return None


def _unified(call: Call) -> list[Argument] | None:
    """The arguments with one scalar type, the one that holds most; bools stay."""
    found = [s for s in _scalars(call.args) if not s.is_bool]
    found += [a.default for a in call.args if isinstance(a, Literal) and isinstance(a.value, float)]
    if len(set(found)) < 2:
        return None
    common = max(found, key=lambda t: (t.is_float, t.bits, t.is_signed))
    return [_converted(a, common, lambda s: not s.is_bool) for a in call.args]


def _filled(call: Call) -> list[Argument] | None:
    """The operands with a number repeated to the vector or matrix that the other one is."""
    shaped = [a for a in call.args if isinstance(a, (ir.Vec, ir.Mat))]
    return (
        [a if isinstance(a, ir.Type) and not isinstance(a, ir.Scalar) else shaped[0] for a in call.args]
        if shaped
        else None
    )


def _rewritten(call: Call, args: Sequence[Argument]) -> str:
    texts = []
    for i, (old, new) in enumerate(zip(call.args, args, strict=True)):
        text = call.text(i)
        if isinstance(old, ir.Array) and new != old:
            text = f"{text}[{', '.join('ijkl'[: old.ndim])}]"
        elif new == ir.bool_ and new != old:
            if call.symbol == "not":
                return f"{text} == 0"
            text = f"{text} != 0"
        elif new != old:
            text = _convert(text, new)
        texts.append(text)
    return call.written(texts)


def _scalars(args: Sequence[Argument]) -> list[ir.Scalar]:
    """The scalar types behind the typed arguments, each once."""
    found = (ir.scalar_of(a) for a in args if not isinstance(a, Literal))
    return list(dict.fromkeys(s for s in found if s is not None))


def _is_number(arg: ir.Type) -> bool:
    scalar = ir.scalar_of(arg)
    return scalar is not None and not scalar.is_bool


def _converted(arg: Argument, to: ir.Scalar, which: Callable[[ir.Scalar], bool]) -> Argument:
    scalar = None if isinstance(arg, Literal) else ir.scalar_of(arg)
    return arg if scalar is None or isinstance(arg, Literal) or not which(scalar) else ir.with_scalar(arg, to)


def _element(arg: Argument) -> Argument:
    return arg.dtype if isinstance(arg, ir.Array) else arg


def _convert(text: str, to: Argument) -> str:
    """Source text that converts ``text`` to ``to``."""
    match to:
        case ir.Scalar():
            plain = {"float32": "float", "int32": "int"}.get(str(to))
            return f"{plain or f'wp.{to}'}({text})"
        case ir.Type():
            return f"{constructor(to) or to}({text})"
    return f"{to}({text})"


def constructor(t: ir.Type) -> str | None:
    """Return how user code calls a vector or matrix type, such as ``wp.vec3``; None where it has no such name."""
    match t:
        case ir.Vec(n, dtype) if 2 <= n <= 4 and str(dtype) in _SUFFIX:
            return f"wp.vec{n}{_SUFFIX[str(dtype)]}"
        case ir.Mat(rows, cols, dtype) if rows == cols and 2 <= rows <= 4 and dtype.is_float and str(dtype) in _SUFFIX:
            return f"wp.mat{rows}{cols}{_SUFFIX[str(dtype)]}"
        case ir.Quat(dtype) if str(dtype) in _SUFFIX:
            return f"wp.quat{_SUFFIX[str(dtype)]}"
    return None


def _listed(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
