"""A picture of a tape: launches and the arrays between them, as Graphviz or Mermaid text.

The recorded operations form a tree, with scopes as inner nodes. Repetitions among the children of one node are folded
into one round of them, whose arrays then stand for those of the later rounds. Both text forms are written from the same
``Picture``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warp_like.runtime.arrays.array import array
from warp_like.runtime.arrays.recording import Record, UserFunction, Write, program_of

Operation = Record | Write | UserFunction
ArrayKey = tuple[Any, ...]


@dataclass
class Group:
    """A scope, or a repetition."""

    name: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    children: list[Group | Operation] = field(default_factory=list)


@dataclass
class ArrayNode:
    """An array: ``role`` is ``input`` or ``output`` where the user asked for it to be shown as one."""

    name: str
    names: list[str]
    array: array
    role: str = ""
    written: bool = False

    @property
    def text(self) -> str:
        """Its dtype and shape."""
        return f"{self.array.dtype.__name__} {list(self.array.shape)}"


@dataclass
class Picture:
    """What is drawn: edges go from array to operation and from operation to array, by the names of the nodes."""

    root: Group
    operations: dict[int, str] = field(default_factory=dict)
    arrays: dict[ArrayKey, ArrayNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], None] = field(default_factory=dict)

    def shown_arrays(self, hide_readonly: bool) -> list[ArrayNode]:
        """Return the arrays to draw."""
        nodes = {id(n): n for n in self.arrays.values()}.values()
        return [n for n in nodes if n.written or n.role or not hide_readonly]


# --- the tree of scopes ---


def scope_tree(operations: Sequence[Operation], scopes: Sequence[tuple[int, str | None, Any]]) -> Group:
    """Return the operations in the groups that ``scopes`` marks: (position, name, metadata), with no name at an end."""
    root = Group("")
    open_groups = [root]
    marks = list(scopes)
    for i in range(len(operations) + 1):
        while marks and marks[0][0] == i:
            _, name, metadata = marks.pop(0)
            if name is None:
                open_groups.pop()
            else:
                group = Group(name, metadata or {})
                open_groups[-1].children.append(group)
                open_groups.append(group)
        if i < len(operations):
            open_groups[-1].children.append(operations[i])
    return root


def _shape(node: Group | Operation) -> Any:
    """What two nodes have in common that may be folded into one."""
    match node:
        case Group():
            return tuple(_shape(c) for c in node.children)
        case Record():
            return node.kernel
        case Write():
            return "fill" if node.source is None else "copy"
    return node.backward


MAX_PERIOD = 64
"""The most siblings that one round of a repetition may have."""


def fold_repetitions(group: Group) -> list[tuple[Operation, Operation]]:
    """Fold repetitions in ``group`` in place; return pairs of a dropped operation and the one that stands for it."""
    replaced: list[tuple[Operation, Operation]] = []
    shapes = [_shape(c) for c in group.children]
    kept: list[Group | Operation] = []
    i = 0
    while i < len(shapes):
        period, rounds = _repetition(shapes, i)
        first = group.children[i : i + period]
        for r in range(1, rounds):
            later = group.children[i + r * period : i + (r + 1) * period]
            pairs = zip(_operations(later), _operations(first), strict=True)
            replaced.extend(pairs)
        kept += first if rounds == 1 else [Group(f"repeated {rounds} times", {}, first)]
        i += period * rounds
    group.children = kept
    for child in kept:
        for inner in [child] if isinstance(child, Group) else []:
            replaced.extend(fold_repetitions(inner))
    return replaced


def _repetition(shapes: Sequence[Any], start: int) -> tuple[int, int]:
    """Return the period and the number of rounds that cover most of ``shapes`` from ``start``; (1, 1) for none."""
    best = (1, 1)
    for period in range(1, min(MAX_PERIOD, (len(shapes) - start) // 2) + 1):
        rounds = 1
        unit = shapes[start : start + period]
        while shapes[start + rounds * period : start + (rounds + 1) * period] == unit:
            rounds += 1
        if rounds > 1 and period * rounds > best[0] * best[1]:
            best = period, rounds
    return best


def _operations(nodes: Sequence[Group | Operation]) -> Iterator[Operation]:
    for n in nodes:
        if isinstance(n, Group):
            yield from _operations(n.children)
        else:
            yield n


# --- arrays and edges ---


def _key(a: array) -> ArrayKey:
    return a.ptr, a.shape, a.strides, a.type_code


def _uses(o: Operation) -> list[tuple[array, str, bool, bool]]:
    """The arrays of an operation: each with the name that it has there, and whether it is read and written."""
    match o:
        case Record():
            forward = program_of(o).effects
            names = o.kernel.parameter_names
            arrays = [(i, a) for i, a in enumerate(o.args[: len(names)]) if isinstance(a, array)]
            return [(a, names[i], i in forward.reads, i in forward.writes) for i, a in arrays]
        case Write():
            source = [] if o.source is None else [(o.source, "src", True, False)]
            return [*source, (o.dest, "dest", False, True)]
    return [(a, "array", True, True) for a in o.arrays]


def draw(
    root: Group,
    *,
    simplify: bool,
    longest_names: bool,
    labels: Mapping[array, str],
    tracked: Mapping[str, Sequence[tuple[array, str | None]]],
) -> Picture:
    """Return the picture of a tree of operations.

    Args:
        root: The tree; folded in place.
        simplify: Fold repetitions.
        longest_names: Call an array by the longest of the parameter names that it has, else by the first.
        labels: Names for arrays.
        tracked: Arrays to show as ``input`` or ``output``, with names for them.
    """
    operations = list(_operations(root.children))
    folded = {id(later): first for later, first in fold_repetitions(root)} if simplify else {}
    picture = Picture(root)
    for role, arrays in tracked.items():
        for a, _ in arrays:
            _node(picture, a).role = role
    for o in operations:
        _add(picture, o, _standing_for(o, folded))
    for node in picture.shown_arrays(hide_readonly=False):
        node.names.sort(key=lambda name: -len(name) if longest_names else 0)
    for a, name in [*labels.items(), *(pair for arrays in tracked.values() for pair in arrays)]:
        if name is not None and _key(a) in picture.arrays:
            picture.arrays[_key(a)].names.insert(0, name)
    return picture


def _standing_for(o: Operation, folded: Mapping[int, Operation]) -> Operation:
    while id(o) in folded:
        o = folded[id(o)]
    return o


def _add(picture: Picture, o: Operation, stands: Operation) -> None:
    """Draw an operation; ``stands`` is the one whose place it has."""
    name = picture.operations.setdefault(id(stands), f"op{len(picture.operations)}")
    for (a, called, read, written), (same, *_) in zip(_uses(o), _uses(stands), strict=False):
        if o is not stands and _key(a) not in picture.arrays:
            picture.arrays[_key(a)] = picture.arrays[_key(same)]
        node = _node(picture, a)
        if called not in node.names:
            node.names.append(called)
        node.written |= written
        if read or not written:
            picture.edges[node.name, name] = None
        if written:
            picture.edges[name, node.name] = None


def _node(picture: Picture, a: array) -> ArrayNode:
    key = _key(a)
    if key not in picture.arrays:
        picture.arrays[key] = ArrayNode(f"arr{len(picture.arrays)}", [], a)
    return picture.arrays[key]


# --- text ---


def _title(o: Operation) -> tuple[str, str]:
    """The name of an operation, and what else is known of it."""
    match o:
        case Record():
            return o.kernel.key, f"dim {o.dims[0] if len(o.dims) == 1 else o.dims}"
        case Write():
            return ("fill" if o.source is None else "copy"), ""
    return getattr(o.backward, "__name__", "function"), "recorded function"


def to_dot(picture: Picture, *, direction: str, hide_readonly: bool, scopes: bool) -> str:
    """Return the picture in Graphviz's language."""
    lines = [
        "digraph tape {",
        f"  rankdir={direction};",
        '  node [fontname="Helvetica,Arial,sans-serif"];',
    ]
    arrays = picture.shown_arrays(hide_readonly)
    for n in arrays:
        label = f"{_quoted(n.names[0] if n.names else n.name)}\\n{_quoted(n.text)}"
        color = "#76B900" if n.role else "#BBD9F5" if n.array.requires_grad else "#EEEEEE"
        bold = ", penwidth=2" if n.role else ""
        lines.append(f'  {n.name} [shape=ellipse, style=filled, fillcolor="{color}", label="{label}"{bold}];')
    lines += _dot_group(picture, picture.root, "  ", scopes, iter(range(10**9)))
    lines += [f"  {a} -> {b};" for a, b in _shown_edges(picture, arrays)]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_group(picture: Picture, group: Group, pad: str, scopes: bool, numbers: Iterator[int]) -> Iterator[str]:
    for child in group.children:
        if not isinstance(child, Group):
            label = "\\n".join(_quoted(part) for part in _title(child) if part)
            style = 'shape=box, style="rounded,filled", fillcolor=white'
            yield f'{pad}{picture.operations[id(child)]} [{style}, label="{label}"];'
        elif not scopes:
            yield from _dot_group(picture, child, pad, scopes, numbers)
        else:
            yield f"{pad}subgraph cluster{next(numbers)} {{"
            yield f'{pad}  label="{_quoted(child.name)}";'
            if child.metadata:
                shown = ", ".join(f"{k}: {v}" for k, v in child.metadata.items())
                yield f'{pad}  tooltip="{_quoted(shown)}";'
            yield from _dot_group(picture, child, pad + "  ", scopes, numbers)
            yield f"{pad}}}"


def to_mermaid(picture: Picture, *, direction: str, hide_readonly: bool, scopes: bool) -> str:
    """Return the picture in Mermaid's language."""
    lines = [f"flowchart {direction}"]
    arrays = picture.shown_arrays(hide_readonly)
    for n in arrays:
        lines.append(f'  {n.name}(["{_entities(n.names[0] if n.names else n.name)}<br/>{_entities(n.text)}"])')
    lines += _mermaid_group(picture, picture.root, "  ", scopes, iter(range(10**9)))
    lines += [f"  {a} --> {b}" for a, b in _shown_edges(picture, arrays)]
    marked = [n.name for n in arrays if n.role]
    if marked:
        lines.append(f"  style {','.join(marked)} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _mermaid_group(picture: Picture, group: Group, pad: str, scopes: bool, numbers: Iterator[int]) -> Iterator[str]:
    for child in group.children:
        if not isinstance(child, Group):
            label = "<br/>".join(_entities(part) for part in _title(child) if part)
            yield f'{pad}{picture.operations[id(child)]}["{label}"]'
        elif not scopes:
            yield from _mermaid_group(picture, child, pad, scopes, numbers)
        else:
            yield f'{pad}subgraph scope{next(numbers)} ["{_entities(child.name)}"]'
            yield from _mermaid_group(picture, child, pad + "  ", scopes, numbers)
            yield f"{pad}end"


def _shown_edges(picture: Picture, arrays: Sequence[ArrayNode]) -> list[tuple[str, str]]:
    shown = {n.name for n in arrays}.union(picture.operations.values())
    return [(a, b) for a, b in picture.edges if a in shown and b in shown]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _entities(text: str) -> str:
    return re.sub(r'[#"<>&\[\]]', lambda m: f"#{ord(m[0])};", text).replace("\n", " ")


class Drawing(str):
    """The text of a picture, and the language that it is written in: ``dot`` or ``mermaid``."""

    language: str

    def __new__(cls, text: str, language: str) -> Drawing:
        """Make one."""
        made = super().__new__(cls, text)
        made.language = language
        return made


FORMATS = {"dot": to_dot, "mermaid": to_mermaid}
"""How to write a picture, by format."""


def named(what: str, arrays: Sequence[array] | None, names: Sequence[str] | None) -> list[tuple[array, str | None]]:
    """Return arrays with the names given for them.

    Raises:
        ValueError: The numbers of both differ.
    """
    found = list(arrays or ())
    if names is not None and len(names) != len(found):
        raise ValueError(f"{what} has {len(found)} arrays, and there are {len(names)} names for them")
    shown: list[str | None] = [None] * len(found) if names is None else list(names)
    return list(zip(found, shown, strict=True))
