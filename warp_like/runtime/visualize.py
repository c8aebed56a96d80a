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

from warp_like.runtime.array import array
from warp_like.runtime.recording import Record, UserFunction, Write

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
            forward = o.kernel.program(o.types).any_artifact
            names = o.kernel.parameter_names
            arrays = [(i, a) for i, a in enumerate(o.args) if isinstance(a, array)]
            return [(a, names[i], i in forward.reads, i in forward.writes) for i, a in arrays]
        case Write():
            source = [] if o.source is None else [(o.source, "src", True, False)]
            return [*source, (o.dest, "dest", False, True)]
    return [(a, "array", True, True) for a in o.arrays]


class _Drawing:
    def __init__(self, root: Group, longest: bool) -> None:
        self.picture = Picture(root)
        self.longest = longest

    def operation(self, o: Operation) -> None:
        p = self.picture
        name = p.operations[id(o)] = f"op{len(p.operations)}"
        for a, called, read, written in _uses(o):
            node = self.array(a, called)
            node.written |= written
            if read or not written:
                p.edges[node.name, name] = None
            if written:
                p.edges[name, node.name] = None

    def array(self, a: array, called: str) -> ArrayNode:
        arrays = self.picture.arrays
        node = arrays.get(_key(a))
        if node is None:
            names = {id(n) for n in arrays.values()}
            node = arrays[_key(a)] = ArrayNode(f"arr{len(names)}", [], a)
        if called:
            node.names.append(called)
            if self.longest:
                node.names.sort(key=len, reverse=True)
        return node

    def replaced(self, later: Operation, first: Operation) -> None:
        """Let the arrays of a folded operation be those of the one that stands for it, if they have no place yet."""
        arrays = self.picture.arrays
        for (a, *_), (b, *_) in zip(_uses(later), _uses(first), strict=False):
            if _key(b) in arrays:
                arrays.setdefault(_key(a), arrays[_key(b)])


def draw(
    root: Group,
    *,
    simplify: bool,
    longest_names: bool,
    labels: Mapping[array, str],
    inputs: Sequence[tuple[array, str | None]],
    outputs: Sequence[tuple[array, str | None]],
) -> Picture:
    """Return the picture of a tree of operations."""
    folded = fold_repetitions(root) if simplify else []
    drawing = _Drawing(root, longest_names)
    shown = set(map(id, _operations(root.children)))
    order = {id(first): [] for _, first in folded}  # type: dict[int, list[Operation]]
    for later, first in folded:
        order[id(first)].append(later)
    for a, _ in [*inputs, *outputs]:  # nodes of their own, whatever is folded
        drawing.array(a, "")
    for o in _operations(root.children):
        drawing.operation(o)
    for later, first in folded:
        stands = first
        while id(stands) not in shown:  # folded itself, in a repetition around it
            stands = next(f for l, f in folded if l is stands)
        drawing.replaced(later, stands)
    for o, first in folded:
        _redirect(drawing, o, first)
    for a, label in labels.items():
        if _key(a) in drawing.picture.arrays:
            drawing.picture.arrays[_key(a)].names.insert(0, label)
    for role, tracked in (("input", inputs), ("output", outputs)):
        for a, name in tracked:
            node = drawing.picture.arrays[_key(a)]
            node.role = role
            if name is not None:
                node.names.insert(0, name)
    return drawing.picture
