"""The table of atomic updates: each row against NumPy, and nobody beside it lists kinds."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.interpreter import COMBINE
from warp_like.ir.atomics import KINDS, AtomicKind, extremes, has_atomic
from warp_like.ir.types import FLOATS, SCALARS, Scalar, Vec, bfloat16, float16, float32, int32

PACKAGE = Path(__file__).resolve().parents[2] / "warp_like"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "ir" / "atomics.py")

COMPUTING = [k for k in KINDS if k != "cas"]


def dtype_of(t: Scalar) -> np.dtype:
    return np.dtype(str(t))


def numbers(t: Scalar) -> np.ndarray:
    """Numbers near zero and the ends of a type."""
    if t.is_float:
        return np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf], dtype_of(t))
    info = np.iinfo(dtype_of(t))
    return np.array([0, 1, 6, info.min, info.max, info.max // 3], dtype_of(t))


def types_of(kind: AtomicKind) -> list[Scalar]:
    return [t for t in SCALARS if kind.works_on(t) and t != bfloat16]


def same(a: object, b: object) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_each_kind_has_a_reference() -> None:
    assert set(COMPUTING) == set(COMBINE)
    assert all(kind.name == name for name, kind in KINDS.items())


def test_types() -> None:
    wide = {t for t in SCALARS if t.bits >= 32}
    integers = {t for t in wide if t.is_int}
    expected = dict.fromkeys(("add", "sub", "min", "max", "exch"), wide | set(FLOATS))
    expected |= {"cas": wide} | dict.fromkeys(("and", "or", "xor"), integers)
    for kind, types in expected.items():
        assert {t for t in SCALARS if has_atomic(kind, t)} == types, kind
    assert has_atomic("add", Vec(3, float16))
    assert not has_atomic("and", Vec(3, float32))
    assert KINDS["add"].has_order(float32)
    assert not KINDS["add"].has_order(int32)
    assert KINDS["exch"].has_order(int32)


@pytest.mark.parametrize("name", [k for k in COMPUTING if KINDS[k].identity])
def test_the_identity_changes_nothing(name: str) -> None:
    kind = KINDS[name]
    assert kind.identity is not None
    for t in types_of(kind):
        nothing = dtype_of(t).type(kind.identity(t))
        for x in numbers(t):
            assert same(COMBINE[name](x, nothing), x), (t, x)


@pytest.mark.parametrize("name", [k for k in COMPUTING if KINDS[k].reduction])
def test_a_reduction_does_what_its_values_do(name: str) -> None:
    kind, reduce = KINDS[name], COMBINE[KINDS[name].reduction]
    assert KINDS[kind.reduction].reduction == kind.reduction
    assert KINDS[kind.reduction].identity is not None
    for t in types_of(kind):
        found = numbers(t)[: 4 if t.is_float else None]  # sums of infinite numbers have no order
        for old, a, b in itertools.product(found, repeat=3):
            with np.errstate(over="ignore"):
                one_by_one = COMBINE[name](COMBINE[name](old, a), b)
                assert one_by_one == COMBINE[name](old, reduce(a, b)), (t, old, a, b)


@pytest.mark.parametrize("name", COMPUTING)
def test_order(name: str) -> None:
    """Integers tell whether updates commute at all, and three floats whether they round."""
    kind, update = KINDS[name], COMBINE[name]
    found = numbers(int32)
    with np.errstate(over="ignore"):
        commutes = all(
            update(update(old, a), b) == update(update(old, b), a) for old, a, b in itertools.product(found, repeat=3)
        )
    assert kind.commutes == commutes
    if kind.has_floats and kind.commutes:
        triples = itertools.product([0.1, 0.2, 0.3, -0.7], repeat=3)
        assert kind.rounds == any(update(update(old, a), b) != update(update(old, b), a) for old, a, b in triples)
    assert kind.derivative is None or kind.commutes


@pytest.mark.parametrize("name", list(KINDS))
def test_a_row_is_whole(name: str) -> None:
    kind = KINDS[name]
    assert bool(kind.derivative) != bool(kind.no_gradient)
    assert not kind.winners or kind.derivative
    if kind.does:
        assert bool(kind.gradient) == bool(kind.derivative)
    for t in types_of(kind) if name != "cas" else ():
        assert kind.rmw.of(t) or kind.operation.of(t) or kind.new, t
        assert not kind.reduction or KINDS[kind.reduction].operation.of(t), t
    if kind.operator:
        assert kind.identity is not None, "which a component of a vector needs"
    if kind.sign:
        assert kind.reduction
        assert (kind.sign > 0) == (COMBINE[name](np.float64(1.0), np.float64(2.0)) > 0)


def test_names_in_messages() -> None:
    assert extremes("and") == "atomic_min() and atomic_max()"


# --- nobody beside the table lists kinds ------------------------------------------------------------------------

QUOTED = re.compile(rf"[\"']({'|'.join(KINDS)})[\"']")

OTHERS = {
    ("analysis/ranges.py", "ops.LaneReduce(kind='min' | 'max' | 'last', x=x)"): "reductions that give one of the lanes",
    ("backend/llvm/block.py", "add, min, max"): "how the builtins of blocks and warps combine",
    ("backend/llvm/neighbours.py", "o.kind == 'add'"): "additions alone can be shifted against each other",
    ("backend/llvm/summed_products.py", "add, sub"): "the operators that are fused with products",
    ("backend/llvm/simt.py", "sub, add, xor"): "how a lane's number changes in a shuffle",
    ("backend/llvm/instructions.py", "and, or, xor"): "the instructions of `bit_and` and its like",
    ("builtins/blocks.py", "min, max"): "the builtins of blocks and warps",
    ("builtins/blocks.py", "kind == 'min'"): "the same",
    ("builtins/tile_calls.py", "and, and"): "words about operators on tiles",
    ("builtins/tile_calls.py", "or, or"): "the same",
    ("frontend/assignment.py", "add, sub"): "operators that change a tile in place",
    ("frontend/tiles/structs.py", "add, sub"): "the operators on tiles of structs",
    ("frontend/tiles/making.py", "min, max"): "the limits of random numbers",
    ("frontend/tiles/memory.py", "add, min, max"): "the names of builtins",
    ("frontend/tiles/memory.py", "kind == 'add'"): "sums of structs, field by field",
    ("passes/ad/loops.py", "add, sub"): "the builtins that step a counter",
    ("backend/llvm/instructions.py", "add, sub, mul"): "the builtins that are one instruction",
    ("backend/llvm/lower.py", "add, sub, mul"): "those that may not wrap",
    ("backend/llvm/straight.py", "add, sub, mul"): "those that cost little",
}
"""What looks like lists of kinds and is none, by file and text."""

MENTIONS = {
    "analysis/memory.py": ["cas"],  # the kind of an op of its own
    "builtins/special.py": ["cas"],
    "frontend/specials.py": ["cas"],
    "passes/ad/forward_rules.py": ["cas"],
    "passes/ad/rules.py": ["cas", "take"],  # the reverse of a store is a ``take``
}
"""Where kinds that no builtin is called like stand, one for each mention."""


def _displays(node: ast.AST) -> Iterator[list[str]]:
    """The strings of a tuple, a list or a set; of a dict those among its keys, and those among its values."""
    parts: list[Sequence[ast.expr | None]] = []
    if isinstance(node, ast.Dict):
        parts = [node.keys, node.values]
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = [node.elts]
    for part in parts:
        yield [n.value for n in part if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _asks_for_a_kind(node: ast.AST) -> bool:
    """Whether a ``kind`` is compared with the name of one, by an operator or by ``match``."""
    if isinstance(node, ast.MatchClass):
        pairs = zip(node.kwd_attrs, node.kwd_patterns, strict=True)
        return any(name == "kind" and _names_a_kind(pattern) for name, pattern in pairs)
    if isinstance(node, ast.Match):
        return _is_kind(node.subject) and any(_names_a_kind(case.pattern) for case in node.cases)
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    return any(map(_is_kind, sides)) and any(map(_names_a_kind, sides))


def _is_kind(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "kind") or (
        isinstance(node, ast.Name) and node.id in ("kind", "kinds", "how")
    )


def _texts(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _names_a_kind(node: ast.AST) -> bool:
    return not set(KINDS).isdisjoint(_texts(node))


def facts(tree: ast.Module) -> Iterator[str]:
    """What a file says of kinds: lists of them, and comparisons with one."""
    for node in ast.walk(tree):
        yield from (", ".join(found) for found in _displays(node) if len(found) > 1 and set(found) <= set(KINDS))
        if _asks_for_a_kind(node):
            yield ast.unparse(node)


def test_the_scan_sees_facts() -> None:
    seen = [
        'X = {"add": 1, "sub": 2}',
        'f(("and", "or"))',
        'o.kind == "take"',
        'kind not in ("exch",)',
        'match o:\n    case ops.Atomic(kind="min"): pass',
        'match o.kind:\n    case "min": pass',
    ]
    unseen = ['b.atomic("add", x)', 'X = {"add": 1, "sqrt": 2}', 'o.fn == "add"', 'o.kind == "any"']
    assert all(list(facts(ast.parse(text))) for text in seen)
    assert not any(list(facts(ast.parse(text))) for text in unseen)


def test_no_other_file_lists_kinds() -> None:
    found, mentions = set(), {}
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if not QUOTED.search(text):
            continue
        name, tree = str(path.relative_to(PACKAGE)), ast.parse(text)
        found |= {(name, fact) for fact in facts(tree)}
        texts = [text for text in _texts(tree) if text in ("exch", "cas", "take")]
        mentions |= {name: texts} if texts else {}
    assert found <= set(OTHERS)
    assert mentions == MENTIONS


def test_the_exceptions_are_there() -> None:
    """Also those whose strings are not all kinds yet."""
    for name, fact in OTHERS:
        tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
        displays = (", ".join(found) for node in ast.walk(tree) for found in _displays(node))
        assert fact in {*displays, *facts(tree)}, name
