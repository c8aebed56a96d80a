"""Walks over syntax trees."""

import ast
from pathlib import Path

import pytest

import warp_like.frontend
from warp_like.frontend.syntax import all_nodes, statements

MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
FILES = [file.read_text(encoding="utf-8") for file in sorted(Path(warp_like.frontend.__file__).parent.glob("*.py"))]
WITHOUT_CONTENT = (
    "for i in x:\n    if 0 < i != 2:\n        continue\n    elif not i:\n        break\n    else:\n        pass\n"
)


@pytest.mark.parametrize("text", ["\n".join(FILES).replace("from __future__ import annotations", ""), WITHOUT_CONTENT])
def test_all_nodes_are_those_of_python_in_its_order(text):
    tree = ast.parse(text)
    assert all_nodes(tree) == [n for n in ast.walk(tree) if not isinstance(n, MARKS)]


def test_statements_are_those_of_python():
    text = "def f(x):\n    while x:\n        y = [k if k else 2 for k in x]\n    else:\n        g(lambda: 1)\n"
    for tree in (ast.parse(text), ast.parse(WITHOUT_CONTENT)):
        found = list(statements(tree.body))
        assert set(found) == {n for n in ast.walk(tree) if isinstance(n, ast.stmt)}
        assert [s.lineno for s in found] == sorted(s.lineno for s in found)


def test_a_node_without_content_is_its_only_one():
    node = ast.Pass()
    assert all_nodes(node) == [node]
