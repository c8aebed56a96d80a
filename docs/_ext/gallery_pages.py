"""The gallery's pages, made from the docstrings of its examples.

A docstring begins with a title and a paragraph. ``Group``, ``You learn``, ``Check`` and ``Method`` follow, each
at the beginning of a line. ``examples/gallery/speed.json``, written by ``compare.py`` there, holds the times. An
example that it can't run with NVIDIA Warp says why in a last field, ``Not timed``.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "gallery"
PICTURES = ROOT / "docs" / "images" / "gallery"
SPEED = EXAMPLES / "speed.json"
GROUPS = ("First steps", "Fluids", "Solids", "Particles", "Rendering", "Optimisation and learning")
FIELDS = ("Group", "You learn", "Check", "Method")
NOT_TIMED = "Not timed"
BUSY = 5.0
"""The load from which on a page says that other programs ran; a comparison has one of about 2."""
_HELPERS = {"compare", "pictures"}  # files that are no examples
_ANY = "|".join((*FIELDS, NOT_TIMED))
_FIELD = re.compile(rf"^({_ANY}): (.*?)(?=^(?:{_ANY}): |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """An example: its file's name, the beginning of its docstring, and the fields after that."""

    name: str
    title: str
    summary: str
    fields: dict[str, str]

    @property
    def picture(self) -> Path:
        """The picture that it made."""
        found = [PICTURES / f"{self.name}.{kind}" for kind in ("gif", "png")]
        return next((path for path in found if path.exists()), found[1])


def names() -> list[str]:
    """Return the names of all examples."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in _HELPERS)


def read(name: str) -> Example:
    """Read the docstring of an example."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))) or ""
    title, _, rest = text.partition("\n\n")
    summary, _, rest = rest.partition("\n\n")
    fields = {m[1]: _one_line(m[2]) for m in _FIELD.finditer(rest)}
    return Example(name, title, _one_line(summary), fields)


def cards() -> str:
    """Return the cards of all examples as Markdown, with a heading for each group."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for example in map(read, names()):
        groups[example.fields["Group"]].append(_card(example))
    parts = [_section(group, found) for group, found in groups.items() if found]
    return "\n".join(parts)


def page(name: str) -> str:
    """Return the page of one example as Markdown: its picture, its docstring, its source."""
    example = read(name)
    picture = f"![{example.title}](../images/gallery/{example.picture.name})"
    facts = [f"**{field}:** {example.fields[field]}" for field in FIELDS[1:]]
    facts.append(f"**Run it:** `python examples/gallery/{name}.py`")
    facts.append(f"**Speed:** {speed(example)}")
    source = f"```{{literalinclude}} ../../examples/gallery/{name}.py\n:language: python\n```"
    return "\n\n".join([f"# {example.title}", example.summary, picture, *facts, source]) + "\n"


def speed(example: Example) -> str:
    """Return how fast an example runs beside NVIDIA Warp, or why that is unknown.

    Raises:
        KeyError: Neither is known.
    """
    if NOT_TIMED in example.fields:
        return f"not measured beside NVIDIA Warp: {example.fields[NOT_TIMED]}"
    measured = json.loads(SPEED.read_text(encoding="utf-8"))
    times = measured["examples"][example.name]
    ratio = times["warp"] / times["warp_like"]
    where = f"{measured['machine']}, {measured['date']}"
    if times.get("load", 0.0) > BUSY:
        where += ", while other programs ran"
    took = f"{times['warp_like']:.3g}" if times["warp_like"] < 1000 else f"{times['warp_like']:.0f}"
    longer = f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    return f"{took} ms a step; NVIDIA Warp {measured['warp']} takes {longer} times as long ({where})."


def _section(group: str, found: list[str]) -> str:
    return "\n".join([f"## {group}\n", "::::{container} gallery-cards", *found, "::::\n"])


def _card(example: Example) -> str:
    link = f"gallery/{example.name}"
    return f""":::{{container}} gallery-card
```{{image}} images/gallery/{example.picture.name}
:alt: {example.title}
:target: {link}.html
```
**[{example.title}]({link}.md)**

{example.fields["You learn"][0].upper()}{example.fields["You learn"][1:]}
:::"""


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
