"""``print`` and ``printf``: text is cut into constant parts around scalar values."""

from __future__ import annotations

import ast
import math
import re

from warp_like.base.errors import WarpCodegenTypeError, WarpCodegenValueError
from warp_like.frontend.context import Context, with_article
from warp_like.frontend.host import Host, not_a_value, type_named
from warp_like.frontend.operands import NOTHING, Operand, describe
from warp_like.ir import ops
from warp_like.ir.core import Value
from warp_like.ir.types import Array, IndexedArray, Mat, Scalar, Struct, Tile, Type, element_shape


class _Text:
    """Text with values in it, as ``ops.Print`` takes it."""

    def __init__(self) -> None:
        self.parts = [""]
        self.args: list[Value] = []
        self.formats: list[str] = []
        self.of_tiles = False

    def say(self, text: str) -> None:
        """Append text."""
        self.parts[-1] += text

    def show(self, value: Value, form: str = "") -> None:
        """Append a scalar, in a C format or its shortest form."""
        self.args.append(value)
        self.formats.append(form)
        self.parts.append("")

    def insert(self, ctx: Context) -> None:
        """Build the op."""
        formats = tuple(self.formats) if any(self.formats) else ()
        ctx.b.insert(ops.Print(tuple(self.parts), tuple(self.args), formats, self.of_tiles))


def build_print(ctx: Context, node: ast.Call) -> Operand:
    """``print(a, b)``, with ``sep`` and ``end`` as in Python: the values of this thread."""
    options = {"sep": " ", "end": "\n"}
    for k in node.keywords:
        if k.arg not in options:
            raise WarpCodegenTypeError(f"print() has no argument `{k.arg}` in kernel code", help="it has sep and end")
        said = ctx.expr(k.value)
        if not isinstance(said, Host) or not isinstance(said.obj, str):
            raise WarpCodegenTypeError(f"`{k.arg}` of print() is text, got {describe(said)}")
        options[k.arg] = said.obj
    text = _Text()
    for i, a in enumerate(node.args):
        text.say(options["sep"] if i else "")
        operand = ctx.expr(a)
        with ctx.at(a):
            _add(ctx, operand, text)
    text.say(options["end"])
    text.insert(ctx)
    return NOTHING


def _add(ctx: Context, operand: Operand, text: _Text) -> None:
    """Print an operand: components separated by blanks, rows of a matrix by line ends, fields by name."""
    if isinstance(operand, Host):
        text.say(_constant_text(operand))
    elif isinstance(operand, tuple):
        for i, part in enumerate(operand):
            text.say(" " if i else "")
            _add(ctx, part, text)
    else:
        value = ctx.settle(operand)
        match value.type:
            case IndexedArray() | Array():
                _add_array(ctx, value, text)
            case Struct():
                _add_struct(ctx, value, text)
            case _:
                text.of_tiles |= isinstance(value.type, Tile)
                cols = _in_a_row(value.type)
                for i, c in enumerate(ctx.b.components(value)):
                    text.say(("\n" if cols and i % cols == 0 else " ") if i else "")
                    if isinstance(c.type, Struct):
                        _add_struct(ctx, c, text)
                    else:
                        text.show(c)


def _in_a_row(t: Type) -> int:
    """How many components of a ``t`` are printed in a line, 0 for all."""
    if isinstance(t, Tile):
        return math.prod((*t.shape[-1:], *element_shape(t.dtype))) if len(t.shape) > 1 else 0
    return t.cols if isinstance(t, Mat) else 0


def _constant_text(host: Host) -> str:
    if isinstance(host.obj, str):
        return host.obj
    try:
        named = type_named(host)
    except WarpCodegenTypeError:
        raise not_a_value(host) from None
    return str(named)


def _add_struct(ctx: Context, value: Value, text: _Text) -> None:
    assert isinstance(value.type, Struct)
    text.say(f"{value.type.name}(")
    for k, (name, t) in enumerate(value.type.fields):
        text.say(f"{', ' if k else ''}{name}=")
        field = ctx.b.get_field(value, k)
        if isinstance(t, (Scalar, Struct, Array)):
            _add(ctx, field, text)
            continue
        text.say("[")
        for i, c in enumerate(ctx.b.components(field)):
            text.say(", " if i else "")
            text.show(c)
        text.say("]")
    text.say(")")


def _add_array(ctx: Context, value: Value, text: _Text) -> None:
    """Print what an array is: its elements may be many."""
    data = ctx.b.get_field(value, 0) if isinstance(value.type, IndexedArray) else value
    assert isinstance(data.type, Array)
    text.say(f"{value.type} of shape (")
    for axis in range(data.type.ndim):
        along = ctx.b.get_field(value, 1 + axis) if isinstance(value.type, IndexedArray) else data
        text.say(", " if axis else "")
        text.show(ctx.b.dim(along, 0 if along is not data else axis))
    text.say(",)" if data.type.ndim == 1 else ")")


# --- printf ---

_SPECIFIER = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>[0-9]*)(?P<precision>\.[0-9]*)?(?P<length>hh|h|ll|l|z|j|t|L)?(?P<kind>.))",
    re.DOTALL,
)
_INTEGERS, _FLOATS = "diuoxXc", "aAeEfFgG"
_USAGE = 'wp.printf("%d: %8.3f\\n", i, x)'


def build_printf(ctx: Context, node: ast.Call) -> Operand:
    """``wp.printf(format, a, b)``, as in C: nothing is added, no line end either."""
    if node.keywords or not node.args:
        raise WarpCodegenTypeError("printf() needs a format and its values by position", help=_USAGE)
    fmt = ctx.expr(node.args[0])
    if not isinstance(fmt, Host) or not isinstance(fmt.obj, str):
        raise WarpCodegenTypeError(f"the format of printf() is text, got {describe(fmt)}", help=_USAGE)
    specifiers = [m for m in _SPECIFIER.finditer(fmt.obj) if m.group() != "%%"]
    if len(specifiers) != len(node.args) - 1:
        raise WarpCodegenTypeError(
            f"the format of printf() asks for {len(specifiers)} values, got {len(node.args) - 1}"
        )
    text, end, values = _Text(), 0, iter(node.args[1:])
    for m in _SPECIFIER.finditer(fmt.obj):
        text.say(fmt.obj[end : m.start()])
        end = m.end()
        if m.group() == "%%":
            text.say("%")
        else:
            _add_formatted(ctx, next(values), m, text)
    text.say(fmt.obj[end:])
    text.insert(ctx)
    return NOTHING


def _add_formatted(ctx: Context, node: ast.expr, m: re.Match[str], text: _Text) -> None:
    """Print the value of ``node`` as the specifier ``m`` says."""
    kind, layout = m.group("kind"), "".join(m.group(name) or "" for name in ("flags", "width", "precision"))
    operand = ctx.expr(node)
    with ctx.at(node):
        if kind == "s":
            if not isinstance(operand, Host) or not isinstance(operand.obj, str):
                raise WarpCodegenTypeError(
                    f"%s prints text, got {describe(operand)}", help="%d, %f and %g print numbers"
                )
            text.say(f"%{layout}s" % operand.obj)
            return
        if kind not in _INTEGERS + _FLOATS:
            raise WarpCodegenValueError(
                f"printf() has no `{m.group()}`", help="%d, %u, %x, %o, %c, %f, %e, %g and %a for numbers, %s for text"
            )
        value = ctx.settle(operand)
        wants_float = kind in _FLOATS
        if not isinstance(value.type, Scalar) or value.type.is_float != wants_float:
            wanted = "a float" if wants_float else "an integer"
            raise WarpCodegenTypeError(f"%{kind} prints {wanted}, got {with_article(str(value.type))}")
        text.show(value, f"%{layout}{'' if wants_float or kind == 'c' else 'll'}{kind}")


HANDLERS = {"print": build_print, "printf": build_printf}
"""The builtins that are built here, by name."""
