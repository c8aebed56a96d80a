"""Arrays as HTML, for notebooks: what they are, and a table of their first and last elements."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warp_like.values.struct import StructInstance

if TYPE_CHECKING:
    from warp_like.runtime.arrays.array import array
    from warp_like.runtime.arrays.indexed import indexedarray

ROWS, COLUMNS = 10, 8
"""How many of each are shown at most; those in the middle are left out."""


def html(a: array | indexedarray) -> str:
    """Return a table of an array of one or two dimensions; of more, its first two-dimensional part.

    Structs in one dimension have a column for each field.
    """
    if a.dtype is None:
        return f"<code>{a!r}</code>"
    facts = f"{type(a).__name__} &nbsp; shape {a.shape} &nbsp; dtype {a.dtype.__name__} &nbsp; device {a.device}"
    facts += " &nbsp; with gradient" if a.requires_grad else ""
    lead = max(a.ndim - 2, 0)
    if lead:
        facts += f" &nbsp; showing [{', '.join('0' * lead)}, :, :]"
    if not a.size:
        return f"<div><code>{facts}</code><br>no elements</div>"
    part = a[(0,) * lead] if lead else a
    rows = _picked(part.shape[0], ROWS)
    if part.ndim == 1:
        columns, cells = _lines([None if r is None else part[r] for r in rows])
    else:
        picked = _picked(part.shape[1], COLUMNS)
        columns = [_label(c) for c in picked]
        cells = [[_cell(part, r, c) for c in picked] for r in rows]
    body = "".join(_row(_label(r), line) for r, line in zip(rows, cells, strict=True))
    head = "".join(f"<th>{c}</th>" for c in ["", *columns])
    return f"<div><code>{facts}</code><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _lines(elements: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
    """The columns and the cells of elements one below the other; None is left out."""
    first = elements[0]
    if not isinstance(first, StructInstance):
        return ["value"], [["&hellip;" if x is None else _text(x)] for x in elements]
    names = [name for name, _ in first._ir_type_.fields]
    lines = [["&hellip;" if x is None else _text(getattr(x, name)) for name in names] for x in elements]
    return [markup.escape(name) for name in names], lines


def _picked(n: int, most: int) -> list[int | None]:
    """The first and the last indices below ``n``, with None for those that are left out."""
    if n <= most:
        return list(range(n))
    return [*range(most // 2), None, *range(n - most // 2, n)]


def _label(index: int | None) -> str:
    return "&hellip;" if index is None else str(index)


def _cell(a: Any, row: int | None, column: int | None) -> str:
    return "&hellip;" if row is None or column is None else _text(a[row, column])


def _row(label: str, cells: Sequence[str]) -> str:
    return f"<tr><th>{label}</th>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"


def _text(element: Any) -> str:
    if isinstance(element, float):
        return f"{element:.6g}"
    if hasattr(element, "numpy") and callable(element.numpy):
        return markup.escape(np.array2string(element.numpy(), precision=6, separator=", ").replace("\n", ""))
    return markup.escape(str(element))
