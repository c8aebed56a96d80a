"""Pages generated from the project's own tables: settings, builtins, IR ops.

A page holds a line ``<!-- generated: NAME -->``; when Sphinx reads the page, the line becomes the Markdown of
table ``NAME``. So the page says what the code says, and there is no second copy to keep in step.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

_MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def settings() -> str:
    """Return a table of every setting."""
    from warp_like.base.settings import SETTINGS

    rows = []
    for s in SETTINGS:
        env = f"`{s.env}`" if s.env else ""
        meaning = s.doc
        if s.choices:
            meaning += f" One of {', '.join(f'`{c}`' for c in s.choices)}."
        if s.compiles:
            meaning += " A kernel compiled under another value is another variant."
        rows.append((f"`config.{s.name}`", env, s.type.__name__, f"`{s.default!r}`", meaning))
    return _table(("setting", "environment variable", "type", "default", "meaning"), rows)


def builtins() -> str:
    """Return a section for each group of builtins, with signature, text and gradient of each."""
    import warp_like  # noqa: F401  (fills the registry)
    from warp_like.builtins.spec import REGISTRY

    groups: dict[str, dict[str, list[Any]]] = {}
    for name, rows in REGISTRY.items():
        for row in rows if not name.startswith("_") else ():
            groups.setdefault(row.group, {}).setdefault(name, []).append(row)
    parts = []
    for group, names in groups.items():
        parts.append(f"## {group}\n")
        for _, rows in sorted(names.items()):
            parts.extend(_builtin(row) for row in rows)
    return "\n".join(parts)


def letters() -> str:
    """Return what the letters in the signatures of builtins stand for."""
    from warp_like.builtins import patterns

    found = [p for p in vars(patterns).values() if isinstance(p, (patterns.Var, patterns.AnyValue))]
    return _table(("letter", "stands for"), [(f"`{p.name}`", str(p)) for p in found])


def _builtin(row: Any) -> str:
    text = " ".join(row.doc.split()).replace("``", "`")
    paragraphs = [f"- `{_signature(row)}`", f"  {text}", f"  {_gradient(row)}"]
    return "\n\n".join(p for p in paragraphs if p.strip()) + "\n"


def _signature(row: Any) -> str:
    first_default = len(row.params) - len(row.defaults)
    params = []
    for i, name in enumerate(row.params):
        text = f"{name}: {_pattern(row.patterns[i])}" if i < len(row.patterns) else name
        if i >= first_default:
            text += f" = {row.defaults[i - first_default]!r}"
        params.append(text)
    results = row.result if isinstance(row.result, tuple) else (row.result,)
    arrow = "" if row.result is None else f" -> {', '.join(_pattern(r) for r in results)}"
    return f"{row.name}({', '.join(params)}){arrow}"


def _pattern(pattern: Any) -> str:
    """Return a pattern as a signature shows it: ``F`` and its like by name, vectors and matrices by size."""
    dtype = getattr(pattern, "dtype", None)
    match type(pattern).__name__:
        case "Var" | "AnyValue":
            return str(pattern.name)
        case "VecOf":
            return f"vec[{pattern.length}, {_pattern(dtype)}]"
        case "MatOf":
            return f"mat[{pattern.rows}, {pattern.cols}, {_pattern(dtype)}]"
        case "QuatOf":
            return f"quat[{_pattern(dtype)}]"
        case "TransformOf":
            return f"transform[{_pattern(dtype)}]"
        case "ArrayOf":
            element = "Any" if dtype is None else _pattern(dtype)
            return f"array[{element}]"
    return str(pattern)


def _gradient(row: Any) -> str:
    reason = getattr(row.adjoint, "reason", None)
    if reason is None:
        return ""
    return f"Gradient: {'zero' if row.adjoint.zero else 'refused'}; {reason}"


def ops() -> str:
    """Return a table of the IR's op classes."""
    from warp_like.ir import ops as module
    from warp_like.ir.core import Op

    classes = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Op) and c.NAME]
    rows = []
    for c in classes:
        fields = [f"`{n}`" for n in c._OPERANDS]
        fields += [f"`{n}` (attribute)" for n in c._ATTRS]
        fields += [f"`{n}` (block)" for n in c._REGIONS]
        doc = " ".join(inspect.cleandoc(c.__doc__ or "").split()).replace("``", "`")
        rows.append((f"`{c.__name__}`", ", ".join(fields), doc))
    return _table(("op", "fields", "meaning"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "builtins": builtins,
    "letters": letters,
    "ops": ops,
}


def expand(text: str) -> str:
    """Return a page's text with its marks replaced by their tables."""
    return _MARK.sub(lambda m: TABLES[m[1]](), text)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""

    def on_read(app: Any, name: str, source: list[str]) -> None:
        source[0] = expand(source[0])

    app.connect("source-read", on_read)
    return {"parallel_read_safe": True}
