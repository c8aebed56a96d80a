"""Pages generated from the project's own tables: settings, builtins, IR ops.

A page holds a line ``<!-- generated: NAME -->``; when Sphinx reads the page, the line becomes the Markdown of
table ``NAME``. ``builtins GROUP`` in its place gives a group of builtins, and ``example NAME`` the page of
an example of the gallery. So the page says what the code says, and there is no second copy to keep in step.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import builtin_pages
import gallery_pages

_MARK = re.compile(r"^<!-- generated: (\w+)(?: ([\w ]+))? -->$", re.MULTILINE)


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
        name = f"`config.{s.name}`" if s.is_for("process") else f"module option `{s.name}`"
        rows.append((name, env, s.type.__name__, f"`{s.default!r}`", meaning))
    return _cards(("setting", "environment variable", "type", "default", "meaning"), rows)


def accepted() -> str:
    """Return a table of the names that are taken for Warp's programs and change nothing."""
    from warp_like.base.settings import ACCEPTED

    rows = []
    for s in ACCEPTED:
        where = [f"`config.{s.name}`"] if s.is_for("process") else []
        where += [f"{level} option `{s.name}`" for level in ("module", "kernel") if s.is_for(level)]
        rows.append((", ".join(where), f"`{s.default}`", s.doc))
    return _cards(("name", "default", "why it changes nothing"), rows)


def passes() -> str:
    """Return a table of the compiler's passes."""
    from warp_like.base.passes import ROUTE

    rows = [(f"`{stage}`", ", ".join(f"`{name}`" for name in names)) for stage, names in ROUTE.items()]
    return _table(("stage", "passes, in their order"), rows)


def letters() -> str:
    """Return what the letters in the signatures of builtins stand for."""
    from warp_like.builtins import patterns

    found = [p for p in vars(patterns).values() if isinstance(p, (patterns.Var, patterns.AnyValue))]
    return _table(("letter", "stands for"), [(f"`{p.name}`", str(p)) for p in found])


def overview() -> str:
    """Return a table of all builtins."""
    return _cards(("builtin", "groups", "in one line"), builtin_pages.overview())


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


def _cards(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table whose rows are cards on a telephone, where its columns have no room."""
    return f":::{{rst-class}} cards\n:::\n\n{_table(head, rows)}"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "accepted": accepted,
    "letters": letters,
    "overview": overview,
    "passes": passes,
    "ops": ops,
    "gallery": gallery_pages.cards,
}

# Those that make one of several pages or tables, by the words after the name.
PARTS: dict[str, Callable[[str], str]] = {
    "builtins": builtin_pages.group,
    "example": gallery_pages.page,
}


def expand(text: str) -> str:
    """Return a page's text with its marks replaced by their tables."""
    return _MARK.sub(lambda m: PARTS[m[1]](m[2]) if m[2] else TABLES[m[1]](), text)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""

    def on_read(app: Any, name: str, source: list[str]) -> None:
        source[0] = expand(source[0])

    app.connect("source-read", on_read)
    return {"parallel_read_safe": True}
