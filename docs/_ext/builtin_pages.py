"""The reference of the builtins, generated from their rows: signature, text, an example with its result, derivative.

Examples are calls on the host, made when the page is built, so that what stands there is what the library gives; a
builtin that only kernels can call has the example of its row. A derivative is the row's rule, run with symbols.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

COLUMNS = 84
"""The width of code in an entry: without a scrollbar beside the table of contents."""

WORDS = 96
"""How long a formula may get before the page says in words where the derivative comes from."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_NUMBERS = {"F": (0.5, 0.25, 0.75), "S": (3.0, 2.0, 4.0), "W": (0.5, 0.25, 0.75), "I": (6, 3, 1), "X": (2, 3, 3)}
_BY_NAME = {
    "i": 0,
    "j": 1,
    "k": 2,
    "low": 1,
    "high": 9,
    "octaves": 1,
    "px": 4,
    "py": 4,
    "pz": 4,
    "pt": 4,
    "seed": 7,
    "offset": 3,
    "state": 7,
    "lam": 2.0,
    "delta": 1.0,
    "tolerance": 0.5,
}


def group(name: str) -> str:
    """Return the entries of a group's page: an object of Sphinx for each overload of each builtin."""
    rows = _rows(name)
    parts = []
    for builtin in sorted(rows):
        is_home = home(builtin) == name
        parts += [_overload(row, is_indexed=is_home and k == 0) for k, row in enumerate(rows[builtin])]
    return "\n".join(parts)


def home(builtin: str) -> str:
    """Return the group whose page the index and cross-references name: that of the first overload."""
    from warp_like.builtins.spec import REGISTRY

    return str(REGISTRY[builtin][0].group)


def overview() -> list[tuple[str, str, str]]:
    """Return of each builtin: a link, links to its groups, and the first sentence of its text."""
    import warp_like  # noqa: F401  (fills the registry)
    from warp_like.builtins.spec import REGISTRY

    lines = []
    for name in sorted(name for name in REGISTRY if name[0] != "_"):
        rows = REGISTRY[name]
        groups = ", ".join(f"[{g}]({page(g)})" for g in dict.fromkeys(row.group for row in rows))
        lines.append((f"{{py:func}}`{name} <wp.{name}>`", groups, first_sentence(rows[0].doc)))
    return lines


def page(group_name: str) -> str:
    """Return the page of a group, seen from the page ``reference/builtins``."""
    return f"builtins/{group_name.lower().replace(' ', '_')}.md"


def first_sentence(doc: str) -> str:
    """Return the first sentence of a text, on one line."""
    text = _plain(doc.split("\n\n")[0])
    return re.split(r"(?<=[^.]\.)\s", text, maxsplit=1)[0]


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _rows(group_name: str) -> dict[str, list[Any]]:
    import warp_like  # noqa: F401  (fills the registry)
    from warp_like.builtins.spec import REGISTRY

    public = {name: [r for r in rows if r.group == group_name] for name, rows in REGISTRY.items() if name[0] != "_"}
    return {name: rows for name, rows in public.items() if rows}


def _overload(row: Any, is_indexed: bool) -> str:
    text = "\n\n".join(map(_plain, row.doc.split("\n\n")))
    language, example = example_of(row)
    options = ":module: warp_like" if is_indexed else ":module: warp_like\n:no-index:"
    parts = [text, f"```{language}\n{example}\n```", gradient(row)]
    inside = "\n\n".join(p for p in parts if p.strip())
    return f"````{{py:function}} {signature(row)}\n{options}\n\n{inside}\n````\n"


def signature(row: Any) -> str:
    """Return a row as ``name(argument: pattern, ...) -> result``."""
    first_default = len(row.params) - len(row.defaults)
    params = []
    for i, name in enumerate(row.params):
        text = f"{name}: {pattern(row.patterns[i])}" if i < len(row.patterns) else name
        if i >= first_default:
            default = row.defaults[i - first_default]
            text += f" = {getattr(default, '__name__', repr(default))}"
        params.append(text)
    results = row.result if isinstance(row.result, tuple) else (row.result,)
    results = results[: len(results) - len(row.assigns)]
    arrow = "" if row.result is None or not results else f" -> {', '.join(pattern(r) for r in results)}"
    return f"{row.name}({', '.join(params)}){arrow}"


def pattern(of: Any) -> str:
    """Return a pattern as a signature shows it: ``F`` and its like by name, vectors and matrices by size."""
    dtype = getattr(of, "dtype", None)
    match type(of).__name__:
        case "Var" | "AnyValue":
            return str(of.name)
        case "VecOf":
            return f"vec[{of.length}, {pattern(dtype)}]"
        case "MatOf":
            return f"mat[{of.rows}, {of.cols}, {pattern(dtype)}]"
        case "QuatOf":
            return f"quat[{pattern(dtype)}]"
        case "TransformOf":
            return f"transform[{pattern(dtype)}]"
        case "TileOf":
            return f"tile[{pattern(dtype)}]"
        case "ArrayOf":
            return f"array[{'Any' if dtype is None else pattern(dtype)}]"
    return str(of)


# --- examples ---


def example_of(row: Any) -> tuple[str, str]:
    """Return the language of a row's example, and the example."""
    if row.example:
        lines = textwrap.dedent(row.example).strip().splitlines()
        return "python", "\n".join(folded(line, "", "    ") for line in lines)
    call = f"wp.{row.name}({', '.join(arguments(row))})"
    return "pycon", folded(call, ">>> ", "...     ") + "\n" + folded(repr(evaluate(call)), "", "  ")


def folded(code: str, first: str, others: str) -> str:
    """Return a line of code as lines that fit the page, broken at blanks inside of brackets."""
    indent = code[: len(code) - len(code.lstrip())]
    width = {"width": COLUMNS, "break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(code, initial_indent=first, subsequent_indent=others + indent, **width)
    return "\n".join(lines)


def arguments(row: Any) -> list[str]:
    """Return the source of sample arguments."""
    from warp_like.builtins.patterns import ArrayOf

    if any(isinstance(p, ArrayOf) for p in row.patterns):
        raise TypeError(f"{signature(row)} takes an array: give its row an example")
    return [_argument(p, name, k) for k, (p, name) in enumerate(zip(row.patterns, row.params, strict=True))]


def _argument(of: Any, name: str, k: int) -> str:
    dims = {"N": 3, "R": 2, "C": 3, "K": 3}
    kind = type(of).__name__
    scalar = getattr(of, "dtype", of)
    whole = str(getattr(scalar, "name", scalar)) in ("I", "int32")
    suffix, numbers = ("i", [6, 3, 1, 2]) if whole else ("", [1.0, 2.0, 4.0, 0.5])
    numbers = numbers[k % 2 :] + numbers[: k % 2]
    match kind:
        case "VecOf" | "Vec":
            n = dims.get(of.length, of.length)
            made = ", ".join(map(str, (numbers * 2)[:n]))
            return f"wp.spatial_vector({made})" if n == 6 else f"wp.vec{n}{suffix}({made})"
        case "MatOf":
            rows, cols = dims.get(of.rows, of.rows), dims.get(of.cols, of.cols)
            return _matrix(rows, cols, suffix, whole, k)
        case "QuatOf":
            return ("wp.quat(0.5, 0.5, 0.5, 0.5)", "wp.quat(1.0, 0.0, 0.0, 0.0)")[k % 2]
        case "TransformOf":
            return f"wp.transform(wp.vec3(1.0, 2.0, 3.0), {_argument(_Quat(), name, k)})"
    if name in _BY_NAME:
        return repr(_BY_NAME[name])
    if str(scalar) == "bool":
        return "True"
    return repr(_NUMBERS.get(getattr(of, "name", ""), (2, 3, 4) if "int" in str(of) else (0.5, 0.25, 0.75))[k % 3])


class _Quat:
    """Stands for the quaternion in a sample transform."""


_Quat.__name__ = "QuatOf"


def _matrix(rows: int, cols: int, suffix: str, whole: bool, k: int) -> str:
    numbers = [4 if r == c else 1 + k for r in range(rows) for c in range(cols)]
    shown = ", ".join(str(n if whole else float(n)) for n in numbers)
    if rows == cols and rows in (2, 3, 4) and not whole:
        return f"wp.mat{rows}{cols}({shown})"
    return f"wp.types.matrix(({rows}, {cols}), {'int' if whole else 'float'})({shown})"


def evaluate(call: str) -> Any:
    """Return what a call on the host gives."""
    import warp_like as wp

    return eval(call, {"wp": wp})


# --- derivatives ---


def gradient(row: Any) -> str:
    """Return what the page says of a row's derivative."""
    reason = getattr(row.adjoint, "reason", None)
    if reason is not None:
        return f"Gradient: {'zero' if row.adjoint.zero else 'refused'}; {reason}."
    if row.adjoint is None:
        if type(row.lower).__name__ == "Special":
            return f"Gradient: {row.lower.gradient}."
        where = "that of each component" if type(row.lower).__name__ == "Elementwise" else "that of the formula"
        return f"Gradient: {where}."
    formulas = derivative(row)
    if formulas is None or sum(map(len, formulas.values())) > WORDS:
        return "Gradient: by a rule of its own."
    return "Gradient, where `g` is the adjoint of the result: " + ", ".join(
        f"`adj_{name} += {formula}`" for name, formula in formulas.items()
    )


def derivative(row: Any) -> dict[str, str] | None:
    """Return the adjoint of each argument as a formula; None where there is no short one."""
    from warp_like.builtins.emit import Emitter
    from warp_like.ir.core import Block, Value

    types = [_concrete(p) for p in row.patterns]
    got = row.match(types)
    if isinstance(got, int) or len(got.results) != 1:
        return None
    args = [Value(t, name) for t, name in zip(types, row.params, strict=True)]
    b = Emitter(Block())
    found = row.adjoint(b, Value(got.results[0], "g"), Value(got.results[0], "result"), *args)
    found = found if isinstance(found, tuple) else (found,)
    texts = {name: _formula(v) for name, v in zip(row.params, found, strict=True) if v is not None}
    return None if None in texts.values() else {name: str(text) for name, text in texts.items()}


def _concrete(of: Any) -> Any:
    from warp_like.builtins import patterns
    from warp_like.ir import types as ir

    dims = {"N": 3, "R": 3, "C": 3, "K": 3}
    match of:
        case patterns.Var():
            return ir.float32 if ir.float32 in of.allowed else of.allowed[0]
        case patterns.AnyValue():
            return ir.float32
        case patterns.VecOf(n, d):
            return ir.Vec(dims.get(n, n), _concrete(d))
        case patterns.MatOf(r, c, d):
            return ir.Mat(dims.get(r, r), dims.get(c, c), _concrete(d))
        case patterns.QuatOf(d):
            return ir.Quat(_concrete(d))
        case patterns.TransformOf(d):
            return ir.Transform(_concrete(d))
        case patterns.TileOf(shape, d):
            extents = (4,) if isinstance(shape, str) else tuple(n if isinstance(n, int) else 4 for n in shape)
            return ir.Tile(extents, _concrete(d))
    return of


def _formula(v: Any) -> str | None:
    """The expression that computes ``v``, None where it takes more than calls."""
    from warp_like.ir import ops

    if v.op is None:
        return str(v.hint)
    if isinstance(v.op, ops.Constant):
        value = v.op.value
        return f"{value[0] if isinstance(value, tuple) else value:g}"
    if not isinstance(v.op, ops.Apply):
        return None
    parts = [_formula(a) for a in v.op.args]
    if None in parts:
        return None
    texts = [str(p) for p in parts]
    if v.op.fn in _INFIX:
        return f" {_INFIX[v.op.fn]} ".join(map(_operand, texts))
    if v.op.fn == "neg":
        return f"-{_operand(texts[0])}"
    return f"{v.op.fn}({', '.join(texts)})"


def _operand(text: str) -> str:
    import ast

    return text if isinstance(ast.parse(text, mode="eval").body, (ast.Name, ast.Call, ast.Constant)) else f"({text})"
